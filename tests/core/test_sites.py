"""The site solver against a plain coordinate ascent on dense (N, N) matrices."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError

from sparsegpc._bounds import SLACKS, collapse
from sparsegpc._features import RowFeatures
from sparsegpc._gaussian import GaussianNoise
from sparsegpc._kernel_algebra import FreeKernel, Scaled
from sparsegpc._kernels import RBF, Constant
from sparsegpc._likelihoods import PolyaGammaLogit
from sparsegpc._rows import RowBlocks
from sparsegpc._sites import solve_sites

LIKELIHOOD = PolyaGammaLogit()
JITTER = 1e-9


def make_problem(
    seed, n=30, m=6, *, variance=4.0, length_scale=0.8, noise=0.3, weighted=True, block_rows=None
):
    """A small problem: what `solve_sites` needs, and its dense Q and residual of their own."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    latent = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5
    y = np.where(latent + noise * rng.randn(n) > 0.0, 1.0, -1.0)
    # Labels of one sign have no best prior mean.
    y[:2] = 1.0, -1.0
    weight = rng.uniform(0.3, 3.0, size=n) if weighted else np.ones(n)
    return assemble(X, y, weight, X[:m] + 0.01, variance, length_scale, block_rows)


def assemble(X, y, weight, Z, variance=4.0, length_scale=0.8, block_rows=None):
    for array in (X, y, weight, Z):
        array.flags.writeable = False
    theta = np.log([variance, length_scale])
    kernel = FreeKernel(Scaled(Constant(), RBF()), theta, np.ones(2, dtype=bool))
    blocks = RowBlocks(len(X), len(Z), block_rows=block_rows)
    features = RowFeatures(blocks, kernel, theta, Z, X, jitter=JITTER)

    def k(A, B):
        squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2)
        return variance * np.exp(-0.5 * squares / length_scale**2)

    Kuu = k(Z, Z) + JITTER * variance * np.eye(len(Z))
    Q = k(X, Z) @ np.linalg.solve(Kuu, k(Z, X))
    Q = 0.5 * (Q + Q.T)
    residual = np.maximum(variance - Q.diagonal(), 0.0)
    return SimpleNamespace(features=features, y=y, weight=weight, Q=Q, residual=residual)


def solve(problem, slack="tight", state=None, *, prior_mean=None, tol=1e-9, max_iter=1000):
    state = LIKELIHOOD.initial_state(problem.y, problem.weight) if state is None else state
    state = np.array(state, dtype=float)
    state.flags.writeable = False
    return solve_sites(
        problem.features,
        LIKELIHOOD,
        problem.y,
        problem.weight,
        slack,
        state,
        prior_mean=prior_mean,
        tol=tol,
        max_iter=max_iter,
    )


def dense_step(problem, slack, state, prior_mean=None):
    """Return the bound at a state, the next state of the plain ascent, and the prior mean.

    Regression on pseudo-targets with noise of unequal variance: no matrix of the code under test.
    """
    y, weight, Q, residual = problem.y, problem.weight, problem.Q, problem.residual
    n, c = len(y), np.sqrt(state)
    precision = weight * np.tanh(c / 2.0) / (2.0 * c)
    shift = 0.5 * weight * y
    target, noise = shift / precision, 1.0 / precision
    S = Q + np.diag(noise)
    S_inverse = np.linalg.inv(S)
    if prior_mean is None:
        prior_mean = (S_inverse @ target).sum() / S_inverse.sum()
    misfit = target - prior_mean
    bound = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + misfit @ S_inverse @ misfit)
    bound += 0.5 * (shift * target + np.log(2.0 * np.pi * noise)).sum()
    bound += (0.5 * precision * state - weight * np.logaddexp(c / 2.0, -c / 2.0)).sum()
    cost = precision * residual
    if slack == "standard":
        v, slack_part = np.ones(n), -0.5 * cost.sum()
    elif slack == "spherical":
        v = np.full(n, 1.0 / (1.0 + cost.mean()))
        slack_part = -0.5 * n * np.log(1.0 + cost.mean())
    else:
        v, slack_part = 1.0 / (1.0 + cost), -0.5 * np.log(1.0 + cost).sum()
    mean = prior_mean + Q @ S_inverse @ misfit
    explained = (Q - Q @ S_inverse @ Q).diagonal()
    return bound + slack_part, mean**2 + v * residual + explained, prior_mean


def plain_ascent(problem, slack, state=None, prior_mean=None, n_steps=4000):
    """Return the bounds and the last state of the plain ascent, run until nothing moves."""
    state = np.full(len(problem.y), 0.25) if state is None else np.array(state, dtype=float)
    bounds = []
    for _ in range(n_steps):
        bound, new, _ = dense_step(problem, slack, state, prior_mean)
        bounds.append(bound)
        if np.max(np.abs(np.log(new / state))) < 1e-9:
            break
        state = new
    return np.array(bounds), state


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("seed", [0, 1])
def test_end_agrees_with_a_long_plain_ascent(slack, seed):
    problem = make_problem(seed)
    bounds, state = plain_ascent(problem, slack)
    solution = solve(problem, slack, tol=1e-12)
    assert solution.converged
    np.testing.assert_allclose(solution.bound, bounds[-1], atol=1e-8)
    np.testing.assert_allclose(solution.state, state, rtol=1e-4)


@pytest.mark.parametrize("slack", SLACKS)
def test_end_agrees_with_a_long_plain_ascent_at_a_given_prior_mean(slack):
    problem = make_problem(2)
    bounds, state = plain_ascent(problem, slack, prior_mean=-0.7)
    solution = solve(problem, slack, prior_mean=-0.7, tol=1e-12)
    np.testing.assert_allclose(solution.bound, bounds[-1], atol=1e-8)
    np.testing.assert_allclose(solution.state, state, rtol=1e-4)
    assert solution.posterior.prior_mean == -0.7


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("max_iter", [1, 3, 200])
def test_reported_bound_sites_and_posterior_belong_to_the_reported_state(slack, max_iter):
    problem = make_problem(3)
    solution = solve(problem, slack, max_iter=max_iter)
    bound, _, prior_mean = dense_step(problem, slack, solution.state)
    np.testing.assert_allclose(solution.bound, bound, rtol=1e-10)
    np.testing.assert_allclose(solution.posterior.prior_mean, prior_mean, rtol=1e-7)
    assert solution.posterior.bound == solution.bound == solution.bounds[-1]
    expected = problem.weight * np.tanh(np.sqrt(solution.state) / 2) / (2 * solution.state**0.5)
    np.testing.assert_allclose(solution.sites.precision, expected, rtol=1e-12)


@given(
    st.integers(0, 10_000),
    st.sampled_from(SLACKS),
    st.floats(-12.0, 6.0),
    st.floats(-3.0, 8.0),
    st.sampled_from([0.0, 0.3, 3.0]),
)
def test_bound_over_accepted_steps_never_falls(seed, slack, log_state, log_variance, noise):
    problem = make_problem(seed, 20, 5, variance=np.exp(log_variance), noise=noise)
    solution = solve(problem, slack, np.full(20, 10.0**log_state), tol=1e-7, max_iter=200)
    assert np.all(np.isfinite(solution.bounds))
    falls = np.diff(solution.bounds)
    assert np.all(falls >= -1e-11 * problem.weight.sum())
    assert solution.n_iter >= len(solution.bounds)


@given(st.integers(0, 10_000), st.sampled_from(SLACKS))
def test_any_state_is_a_fair_start(seed, slack):
    """Starts with entries many orders of magnitude apart end at the same bound."""
    problem = make_problem(seed, 20, 5)
    state = 10.0 ** np.random.RandomState(seed).uniform(-14.0, 8.0, size=20)
    far, near = (solve(problem, slack, start, tol=1e-8) for start in (state, None))
    assert far.converged
    assert near.converged
    np.testing.assert_allclose(far.bound, near.bound, atol=1e-6)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("value", [1e-12, 1e6, 1e14])
def test_start_far_away_ends_at_the_same_bound(slack, value):
    problem = make_problem(4)
    bounds, _ = plain_ascent(problem, slack)
    solution = solve(problem, slack, np.full(30, value))
    assert solution.converged
    np.testing.assert_allclose(solution.bound, bounds[-1], atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("variance", "noise"), [(4.0, 0.3), (100.0, 0.0)])
def test_acceleration_takes_fewer_passes_than_the_plain_ascent(seed, variance, noise):
    problem = make_problem(seed, 50, 12, variance=variance, noise=noise)
    bounds, _ = plain_ascent(problem, "tight")
    solution = solve(problem, "tight", tol=1e-5)
    gap = max(bounds[-1] - solution.bound, 0.0)
    plain_passes = 1 + int(np.argmax(bounds >= bounds[-1] - gap - 1e-12))
    assert gap < 1e-3
    assert solution.n_iter < plain_passes


@pytest.mark.parametrize("seed", range(3))
def test_acceleration_solves_a_creeping_problem_in_few_passes(seed):
    """Separable labels and a large variance: the plain ascent needs more than a hundred passes."""
    problem = make_problem(seed, 50, 12, variance=300.0, noise=0.0)
    bounds, _ = plain_ascent(problem, "tight")
    solution = solve(problem, "tight", tol=1e-4)
    gap = max(bounds[-1] - solution.bound, 0.0)
    plain_passes = 1 + int(np.argmax(bounds >= bounds[-1] - gap - 1e-12))
    assert plain_passes > 100
    assert solution.n_iter < 0.25 * plain_passes


def test_states_near_zero_are_reached():
    """A process of tiny variance has tilts far below those of the usual start."""
    problem = make_problem(13, variance=1e-4)
    solution = solve(problem, prior_mean=0.0, tol=1e-12)
    _, state = plain_ascent(problem, "tight", prior_mean=0.0)
    assert state.max() < 1e-3
    np.testing.assert_allclose(solution.state, state, rtol=1e-3)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_stops_where_the_next_plain_step_gains_little(slack, tol):
    problem = make_problem(5)
    solution = solve(problem, slack, tol=tol)
    assert solution.converged
    _, next_state, _ = dense_step(problem, slack, solution.state)
    gain = dense_step(problem, slack, next_state)[0] - solution.bound
    # The solver's own measure is a lower bound of the gain, hence the margin.
    assert 0.0 <= gain < 3.0 * tol
    assert plain_ascent(problem, slack)[0][-1] - solution.bound < 30.0 * tol


def test_smaller_tolerance_takes_more_passes_and_never_ends_lower():
    problem = make_problem(6)
    solutions = [solve(problem, tol=tol) for tol in (1.0, 1e-2, 1e-4, 1e-8)]
    assert np.all(np.diff([s.bound for s in solutions]) >= 0.0)
    assert np.all(np.diff([s.n_iter for s in solutions]) >= 0)
    assert solutions[-1].n_iter > solutions[0].n_iter


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_iteration_limit_is_respected_and_reported(max_iter):
    problem = make_problem(7, variance=300.0, noise=0.0)
    solution = solve(problem, max_iter=max_iter, tol=1e-12)
    assert solution.n_iter == max_iter
    assert not solution.converged
    assert len(solution.bounds) <= max_iter
    assert np.isfinite(solution.bound)


def test_start_at_the_solution_takes_one_pass():
    problem = make_problem(8)
    state = solve(problem, tol=1e-10).state
    again = solve(problem, state=state, tol=1e-6)
    assert again.n_iter == 1
    np.testing.assert_allclose(again.state, state, rtol=1e-14)


def test_impossible_tolerance_ends_in_convergence_at_rounding():
    problem = make_problem(9)
    solution = solve(problem, tol=0.0, max_iter=2000)
    assert solution.converged
    np.testing.assert_allclose(solution.bound, plain_ascent(problem, "tight")[0][-1], atol=1e-9)


@pytest.mark.parametrize("block_rows", [1, 7, 29])
def test_blocks_do_not_matter(block_rows):
    whole = solve(make_problem(10))
    parts = solve(make_problem(10, block_rows=block_rows))
    np.testing.assert_allclose(parts.bound, whole.bound, atol=1e-9)
    np.testing.assert_allclose(parts.state, whole.state, rtol=1e-3)


def repeated_and_merged(slack, seed=0, m=6):
    """Solutions for rows given k times, labels of both signs, and for rows of weight k."""
    rng = np.random.RandomState(seed)
    X = rng.randn(15, 2)
    copies = rng.randint(1, 5, size=15)
    row = np.repeat(np.arange(15), copies)
    y = np.where(rng.uniform(size=len(row)) < 0.7, 1.0, -1.0)
    mean_y = np.bincount(row, y) / copies
    Z = X[:m].copy()
    repeated = assemble(X[row], y, np.ones(len(row)), Z)
    merged = assemble(X, mean_y, copies.astype(float), Z)
    return row, solve(repeated, slack, tol=1e-12), solve(merged, slack, tol=1e-12)


def assert_same_model(row, repeated, merged):
    np.testing.assert_allclose(merged.bound, repeated.bound, atol=1e-8)
    np.testing.assert_allclose(merged.state[row], repeated.state, rtol=1e-4)
    np.testing.assert_allclose(merged.posterior.w, repeated.posterior.w, atol=1e-5)
    np.testing.assert_allclose(merged.posterior.LB, repeated.posterior.LB, atol=1e-4)


def test_weight_k_equals_k_copies_under_the_standard_slack():
    assert_same_model(*repeated_and_merged("standard"))


@pytest.mark.parametrize("slack", SLACKS)
def test_weight_k_equals_k_copies_when_nothing_is_missed(slack):
    """With a point at every distinct row no slack is paid, whatever its name."""
    assert_same_model(*repeated_and_merged(slack, m=15))


@pytest.mark.parametrize("slack", ["tight", "spherical"])
def test_merged_rows_pay_less_than_copies(slack):
    """Copies of a row share one f, and log(1 + k c) < k log(1 + c)."""
    _, repeated, merged = repeated_and_merged(slack)
    assert merged.bound > repeated.bound + 1e-3


@pytest.mark.parametrize("slack", SLACKS)
def test_learned_prior_mean_is_a_maximum_of_the_bound(slack):
    problem = make_problem(11)
    solution = solve(problem, slack, tol=1e-13)
    best, h = solution.posterior.prior_mean, 1e-3
    below, at, above = (
        plain_ascent(problem, slack, solution.state, best + d)[0][-1] for d in (-h, 0.0, h)
    )
    np.testing.assert_allclose(solution.bound, at, atol=1e-9)
    np.testing.assert_allclose((above - below) / (2.0 * h), 0.0, atol=1e-5)
    assert (above + below - 2.0 * at) / h**2 < -1e-2


def test_all_labels_alike_is_solved():
    """The bound has no maximum in the prior mean then: it must stay finite and monotone."""
    base = make_problem(12)
    problem = SimpleNamespace(**{**vars(base), "y": np.ones(30)})
    solution = solve(problem, tol=1e-3, max_iter=100)
    assert np.isfinite(solution.bound)
    assert solution.bound < 0.0
    assert np.all(np.diff(solution.bounds) >= -1e-10)


def noisy_records(problem):
    """The targets of Gaussian noise with a constant as its only basis."""
    records = np.empty(
        len(problem.y), dtype=[("mean", "f8"), ("scatter", "f8"), ("basis", "f8", (1,))]
    )
    records["mean"], records["scatter"], records["basis"] = problem.y, 0.2, 1.0
    return records


def solve_noisy(problem, slack, log_noise=-1.0, **options):
    """Solve with a likelihood whose sites do not depend on f, and may not be asked to move."""
    likelihood = GaussianNoise(1).at(np.array([log_noise]))
    state = likelihood.initial_state(problem.y, problem.weight)
    options = {"prior_mean": None, "tol": 1e-9, "max_iter": 10, **options}
    arguments = noisy_records(problem), problem.weight, slack, state
    return solve_sites(problem.features, likelihood, *arguments, **options)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("prior_mean", [None, 0.4])
@pytest.mark.parametrize("max_iter", [1, 10])
def test_sites_that_do_not_depend_on_f_take_one_pass(slack, prior_mean, max_iter):
    problem = make_problem(14)
    solution = solve_noisy(problem, slack, prior_mean=prior_mean, max_iter=max_iter)
    assert solution.converged
    assert solution.n_iter == 1
    assert solution.bounds == [solution.bound]
    expected = collapse(problem.features, solution.sites, slack, prior_mean)
    assert solution.bound == expected.bound
    np.testing.assert_array_equal(solution.posterior.w, expected.w)
    np.testing.assert_allclose(solution.sites.precision, problem.weight * np.exp(1.0))


@pytest.mark.parametrize("slack", SLACKS)
def test_bound_of_fixed_sites_is_that_of_dense_regression(slack):
    problem = make_problem(15)
    solution = solve_noisy(problem, slack, prior_mean=0.4)
    noise = np.exp(-1.0) / problem.weight
    S = problem.Q + np.diag(noise)
    error = problem.y - 0.4
    bound = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + error @ np.linalg.solve(S, error))
    # The likelihood to the power of the weight, and the scatter of the copies.
    bound += 0.5 * np.log(2.0 * np.pi * noise).sum() - 0.5 * (0.2 / noise).sum()
    bound -= 0.5 * problem.weight.sum() * (np.log(2.0 * np.pi) - 1.0)
    cost = problem.residual / noise
    n = len(cost)
    paid = {
        "standard": cost.sum(),
        "spherical": n * np.log(1.0 + cost.mean()),
        "tight": np.log(1.0 + cost).sum(),
    }
    np.testing.assert_allclose(solution.bound, bound - 0.5 * paid[slack], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("log_noise", "target"), [(-800.0, 1.0), (np.nan, 1.0), (0.0, 1e200)])
def test_fixed_sites_without_a_finite_bound_are_refused(log_noise, target):
    """Be it the precisions that overflow, or the squares of the targets."""
    problem = SimpleNamespace(**{**vars(make_problem(16)), "y": np.full(30, target)})
    with pytest.raises(LinAlgError):
        solve_noisy(problem, "tight", log_noise)
