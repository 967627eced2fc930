"""The site solver against bounds over an explicit q(u), from dense matrices and quadrature."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp

from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.likelihoods.base import Sites, SiteState
from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.likelihoods.multiclass import Softmax
from sparsegpc._core.models import posterior_means as module
from sparsegpc._core.models.sites import _BoundOfSites, solve_sites
from tests.core.helpers import central_difference, slack_value
from tests.core.likelihoods.binary_cases import (
    BOUNDS,
    CASES,
    CONDITIONAL,
    LOGIT,
    POLYA_GAMMA,
    PROBIT,
    conditional_v,
    log_2_cosh_half,
    polya_gamma_mean,
)
from tests.core.models.site_problems import assemble, make_problem

PRIOR_MEAN = pytest.mark.parametrize("prior_mean", [None, -0.7])
# The solver knows neither likelihoods nor slacks: where its way is tested, each of both does once.
SOME_PAIRS = [
    (POLYA_GAMMA, "tight"),
    (CONDITIONAL, "tight"),
    (LOGIT, "standard"),
    (PROBIT, "spherical"),
]
SOME_BOUNDS = pytest.mark.parametrize(
    ("case", "slack"), SOME_PAIRS, ids=[f"{case.name}-{slack}" for case, slack in SOME_PAIRS]
)


# --------------------------------------------------------------------------------------------------
# Problems


def reweighted(problem, factor):
    return SimpleNamespace(**{**vars(problem), "weight": factor * problem.weight})


def solve(case, slack, problem, state=None, *, prior_mean=None, tol=1e-9, max_iter=1000):
    if state is None:
        (state,) = case.likelihood.initial_states(problem.y, problem.weight)
    for part in state:
        part.flags.writeable = False
    (solution,) = solve_sites(
        problem.features,
        case.likelihood,
        problem.y,
        problem.weight,
        SLACKS[slack],
        [state],
        prior_mean=prior_mean,
        tol=tol,
        max_iter=max_iter,
    )
    return solution


def bounds_by_passes(*problem, **options):
    """Return the bounds that `solve` reaches in at most 1, 2, ... passes."""
    return [solve(*problem, max_iter=n, **options).bound for n in (1, 2, 3, 4, 6, 9, 14)]


def random_state(rng, n, low=-6.0, high=4.0):
    """Sites of any kind, precisions and shifts many orders of magnitude apart."""
    precision = 10.0 ** rng.uniform(low, high, size=n)
    return SiteState(precision, rng.randn(n) * 10.0 ** rng.uniform(low, high, size=n))


# --------------------------------------------------------------------------------------------------
# The bound at any Gaussian q(u)


def explicit_bound(case, problem, mean, factor, prior_mean, v, residual=None):
    """Return the bound of q(u) = N(mean, factor factor^T), in whitened coordinates.

    Hensman et al. 2015, equation 15, with scales v of the residuals.
    """
    residual = problem.residual if residual is None else residual
    m = len(mean)
    mean_f = problem.V.T @ mean + prior_mean
    inducing_variance = ((factor.T @ problem.V) ** 2).sum(axis=0)
    v = np.broadcast_to(v, mean_f.shape)
    total = case.value(problem.y, problem.weight, mean_f, inducing_variance, residual, v).sum()
    if not case.has_own_slack:
        total -= 0.5 * (v - np.log(v) - 1.0).sum()
    log_det = 2.0 * np.log(np.abs(factor.diagonal())).sum()
    return total - 0.5 * ((factor**2).sum() + mean @ mean - m - log_det)


def explicit(case, slack, problem, solution):
    """Return mean, factor, prior mean and v at a solution, v from its site precisions."""
    posterior = solution.posterior
    cov = np.linalg.inv(posterior.LB @ posterior.LB.T)
    factor = np.linalg.cholesky(0.5 * (cov + cov.T))
    cost = solution.sites.precision * problem.residual
    if case.has_own_slack:
        inducing_variance = ((factor.T @ problem.V) ** 2).sum(axis=0)
        mean_f = problem.V.T @ posterior.w + posterior.prior_mean
        v = conditional_v(problem.weight, mean_f, inducing_variance, problem.residual)
    else:
        v = np.array(SLACKS[slack].scale(cost, cost.mean()))
    return posterior.w, factor, posterior.prior_mean, v


@BOUNDS
@PRIOR_MEAN
def test_end_is_a_stationary_point_of_the_bound_over_all_gaussians(case, slack, prior_mean):
    problem = make_problem(0, n=15, m=4)
    solution = solve(case, slack, problem, prior_mean=prior_mean, tol=1e-13)
    w, factor, mu, v = explicit(case, slack, problem, solution)
    at_end = explicit_bound(case, problem, w, factor, mu, v)
    assert solution.converged
    assert solution.bound == pytest.approx(at_end, abs=1e-8)
    assert prior_mean is None or mu == prior_mean

    slopes = {
        "mean": central_difference(lambda x: explicit_bound(case, problem, x, factor, mu, v), w),
        "factor": np.tril(
            central_difference(
                lambda x: explicit_bound(case, problem, w, np.tril(x), mu, v), factor, 1e-4
            )
        ),
    }
    if prior_mean is None:
        slopes["prior mean"] = central_difference(
            lambda x: explicit_bound(case, problem, w, factor, x[0], v), np.array([mu])
        )
    if slack != "standard":
        slopes["log v"] = central_difference(
            lambda x: explicit_bound(case, problem, w, factor, mu, np.exp(x)), np.log(v)
        )
    for name, slope in slopes.items():
        assert_allclose(slope, 0.0, atol=3e-5, err_msg=name)


@BOUNDS
def test_residual_cost_is_the_derivative_of_the_bound(case, slack):
    problem = make_problem(2, n=15, m=4)
    solution = solve(case, slack, problem, tol=1e-13)
    parts = explicit(case, slack, problem, solution)
    slope = central_difference(
        lambda k: explicit_bound(case, problem, *parts, residual=k), problem.residual, 1e-4
    )
    assert_allclose(solution.residual_cost, -2.0 * slope, rtol=1e-4, atol=1e-6)


@BOUNDS
def test_end_is_the_best_bound_that_an_optimizer_finds(case, slack):
    """Over mean and Cholesky factor of q(u), prior mean and scales."""
    problem, prior_mean = make_problem(3, n=8, m=3), -0.7 if slack == "spherical" else None
    n_v = {"tight": 8, "spherical": 1, "standard": 0}[slack]
    lower = np.tril_indices(3)

    def loss(x):
        mean, free_mean, entries, log_v = np.split(x, [3, 4, 10])
        factor = np.zeros((3, 3))
        factor[lower] = entries
        factor.flat[::4] = np.exp(factor.diagonal())
        mu = free_mean[0] if prior_mean is None else prior_mean
        v = np.exp(log_v) if n_v else 1.0
        return -explicit_bound(case, problem, mean, factor, mu, v)

    best = -minimize(loss, np.zeros(10 + n_v), method="BFGS", tol=1e-7).fun
    solution = solve(case, slack, problem, prior_mean=prior_mean, tol=1e-12)
    assert solution.bound == pytest.approx(best, abs=1e-6)


# --------------------------------------------------------------------------------------------------
# Polya-Gamma sites as those of a regression


def dense_step(problem, slack, state, prior_mean=None):
    """Return the bound at squared tilts, the next tilts of the plain ascent, and the prior mean.

    Regression on pseudo-targets with noise of unequal variance: no matrix of the code under test.
    """
    y, weight, Q, residual = problem.y, problem.weight, problem.Q, problem.residual
    c = np.sqrt(state)
    precision = weight * polya_gamma_mean(c)
    shift = 0.5 * weight * y
    target, noise = shift / precision, 1.0 / precision
    S = Q + np.diag(noise)
    S_inverse = np.linalg.inv(S)
    if prior_mean is None:
        prior_mean = (S_inverse @ target).sum() / S_inverse.sum()
    misfit = target - prior_mean
    bound = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + misfit @ S_inverse @ misfit)
    bound += 0.5 * (shift * target + np.log(2.0 * np.pi * noise)).sum()
    bound += (0.5 * precision * state - weight * log_2_cosh_half(c)).sum()
    cost = precision * residual
    v = np.broadcast_to(SLACKS[slack].scale(cost, cost.mean()), cost.shape)
    mean = prior_mean + Q @ S_inverse @ misfit
    inducing_variance = (Q - Q @ S_inverse @ Q).diagonal()
    return (
        bound + slack_value(SLACKS[slack], cost),
        mean**2 + v * residual + inducing_variance,
        prior_mean,
    )


def plain_ascent(problem, slack, prior_mean=None, n_steps=4000):
    """Return the bounds and the last squared tilts of the plain ascent, until nothing moves."""
    state = np.full(len(problem.y), 0.25)
    bounds = []
    for _ in range(n_steps):
        bound, new, _ = dense_step(problem, slack, state, prior_mean)
        bounds.append(bound)
        if np.max(np.abs(np.log(new / state))) < 1e-9:
            break
        state = new
    return np.array(bounds), state


@pytest.mark.parametrize("slack", SLACKS)
@PRIOR_MEAN
@pytest.mark.parametrize("seed", [4, 5])
def test_end_agrees_with_a_long_plain_ascent_of_polya_gamma(slack, prior_mean, seed):
    problem = make_problem(seed)
    bounds, state = plain_ascent(problem, slack, prior_mean)
    solution = solve(POLYA_GAMMA, slack, problem, prior_mean=prior_mean, tol=1e-12)
    assert solution.bound == pytest.approx(bounds[-1], abs=1e-8)
    precision = problem.weight * polya_gamma_mean(np.sqrt(state))
    assert_allclose(solution.sites.precision, precision, rtol=1e-4)
    assert_allclose(solution.sites.shift, 0.5 * problem.weight * problem.y, atol=1e-5)


@pytest.mark.parametrize("slack", SLACKS)
@PRIOR_MEAN
def test_polya_gamma_is_the_collapsed_bound_of_its_sites(slack, prior_mean):
    """With the log scales of the optimal tilts, of which the precisions are a function."""
    problem = make_problem(6)
    solution = solve(POLYA_GAMMA, slack, problem, prior_mean=prior_mean, tol=1e-13)
    _, tilts = plain_ascent(problem, slack, prior_mean)
    c, weight = np.sqrt(tilts), problem.weight
    precision = weight * polya_gamma_mean(c)
    log_scale = 0.5 * precision * tilts - weight * log_2_cosh_half(c)
    sites = Sites(precision, 0.5 * weight * problem.y, log_scale)
    collapsed = collapse(problem.features, sites, SLACKS[slack], prior_mean)
    assert solution.bound == pytest.approx(collapsed.bound, abs=1e-8)
    assert_allclose(solution.posterior.w, collapsed.w, atol=1e-4)
    assert_allclose(solution.posterior.LB, collapsed.LB, rtol=1e-4, atol=1e-4)
    assert solution.posterior.prior_mean == pytest.approx(collapsed.prior_mean, abs=1e-4)


@SOME_BOUNDS
def test_mean_ratio_is_that_of_the_sites(case, slack):
    problem = make_problem(8)
    solution = solve(case, slack, problem)
    expected = np.mean(solution.sites.precision * problem.residual)
    assert solution.posterior.mean_ratio == pytest.approx(expected, rel=1e-7)


@SOME_BOUNDS
@pytest.mark.parametrize(("n", "m"), [(30, 4), (300, 30)])
def test_estimate_of_what_a_pass_gains_is_from_above_and_not_by_far(case, slack, n, m):
    problem = make_problem(0, n, m)
    parts = problem.features, case.likelihood, problem.y, problem.weight, SLACKS[slack]
    search = _BoundOfSites(*parts, None, 1e-9)
    precision = solve(case, slack, problem, tol=1e-13).sites.precision
    for change in (np.ones(n), np.random.RandomState(0).randn(n)):
        near = search.evaluate([SiteState(precision * np.exp(0.01 * change), np.zeros(n))])
        after = search.evaluate(near.states_at(near.image), near)
        gain = after.bound - near.bound
        # It is one to second order.
        assert gain < 1.001 * near.next_gain < 12.0 * gain


@SOME_BOUNDS
def test_the_estimate_is_close_if_one_row_of_little_precision_changes(case, slack):
    problem = make_problem(0, 300, 30)
    parts = problem.features, case.likelihood, problem.y, problem.weight, SLACKS[slack]
    search = _BoundOfSites(*parts, None, 1e-9)
    precision = solve(case, slack, problem, tol=1e-13).sites.precision
    change = np.zeros(300)
    change[precision.argmin()] = 0.3
    near = search.evaluate([SiteState(precision * np.exp(change), np.zeros(300))])
    after = search.evaluate(near.states_at(near.image), near)
    gain = after.bound - near.bound
    assert 0.5 * gain < near.next_gain < 4.0 * gain


# --------------------------------------------------------------------------------------------------
# The order of the bounds, and the truth above them


def random_problem(seed, log_variance, n=16, m=4):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    y = np.where(rng.uniform(size=n) < 0.6, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = 10.0 ** rng.uniform(-1.0, 1.0, size=n)
    length_scale = np.exp(rng.uniform(-1.0, 1.0))
    return assemble(X, y, weight, rng.randn(m, 2), np.exp(log_variance), length_scale)


@settings(max_examples=6)
@given(st.integers(0, 10_000), st.floats(-3.0, 6.0), st.sampled_from([None, 0.0]))
def test_bounds_are_in_their_order(seed, log_variance, prior_mean):
    problem = random_problem(seed, log_variance)

    def bound(case, slack):
        return solve(case, slack, problem, prior_mean=prior_mean, tol=1e-9).bound

    bounds = {case.name: [bound(case, slack) for slack in case.slacks] for case in CASES}
    for ordered in bounds.values():
        assert np.all(np.diff(ordered) <= 1e-8)
    assert bounds[POLYA_GAMMA.name][0] <= bounds[CONDITIONAL.name][0] + 1e-8
    for slack in LOGIT.slacks:
        assert bound(POLYA_GAMMA, slack) <= bound(LOGIT, slack) + 1e-8


def test_slacks_differ_where_points_miss_something():
    """By more than any tolerance, so that none of the inequalities above is an equation."""
    problem = make_problem(7)
    bounds = {
        case.name: [
            solve(case, slack, problem).bound
            for slack in ("tight", "spherical", "standard")
            if slack in case.slacks
        ]
        for case in CASES
    }
    for ordered in bounds.values():
        assert np.all(np.diff(ordered) < -0.05)
    assert bounds[CONDITIONAL.name][0] > bounds[POLYA_GAMMA.name][0] + 0.05


@pytest.mark.parametrize("seed", range(2))
@PRIOR_MEAN
def test_conditional_is_logistic_if_every_row_is_a_point(seed, prior_mean):
    rng = np.random.RandomState(seed)
    X = rng.randn(12, 2)
    y = np.where(X[:, 0] + 0.5 * rng.randn(12) > 0.0, 1.0, -1.0)
    problem = assemble(X, y, rng.uniform(0.3, 3.0, 12), X.copy())
    conditional = solve(CONDITIONAL, "tight", problem, prior_mean=prior_mean)
    logistic = solve(LOGIT, "standard", problem, prior_mean=prior_mean)
    assert conditional.bound == pytest.approx(logistic.bound, abs=1e-6)
    assert_allclose(conditional.posterior.w, logistic.posterior.w, atol=1e-3)


def evidence_by_grid(case, K, y, weight, prior_mean, n_nodes=61, limit=9.0):
    """Log marginal likelihood by the trapezoidal rule in whitened coordinates, three rows."""
    nodes = np.linspace(-limit, limit, n_nodes)
    u = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    f = prior_mean + u @ np.linalg.cholesky(K).T
    log_terms = case.log_likelihood(f, y) @ weight - 0.5 * (u**2).sum(axis=1)
    return logsumexp(log_terms) + 3.0 * np.log((nodes[1] - nodes[0]) / np.sqrt(2.0 * np.pi))


def evidence_by_sampling(case, K, y, weight, prior_mean, n_samples=40_000):
    """Log marginal likelihood by samples of the prior, and its standard error."""
    u = np.random.RandomState(0).randn(n_samples, len(y))
    log_terms = case.log_likelihood(prior_mean + u @ np.linalg.cholesky(K).T, y) @ weight
    total = logsumexp(log_terms) - np.log(n_samples)
    return total, np.exp(log_terms - total).std() / np.sqrt(n_samples)


def tiny_problem(seed, n, m):
    """With merged labels, as well as labels of either sign."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    y = rng.choice([-1.0, -0.3, 0.5, 1.0], size=n)
    y[:2] = 1.0, -1.0
    return assemble(X, y, rng.uniform(0.5, 2.0, size=n), X[:m] + 0.1, 3.0, 0.9)


@BOUNDS
def test_bound_is_below_the_log_marginal_likelihood(case, slack):
    for n, m in ((3, 1), (3, 2), (6, 3)):
        problem = tiny_problem(0, n, m)
        solution = solve(case, slack, problem)
        truth = case, problem.K, problem.y, problem.weight, solution.posterior.prior_mean
        if n == 3:
            assert solution.bound < evidence_by_grid(*truth)
        else:
            evidence, error = evidence_by_sampling(*truth)
            assert error < 0.03
            assert solution.bound < evidence + 4.0 * error


@BOUNDS
def test_bound_is_close_to_the_log_marginal_likelihood(case, slack):
    """Where every row is a point: a Gaussian q(f), and for three of them nothing else, is lost."""
    problem = tiny_problem(0, 3, 3)
    solution = solve(case, slack, problem)
    evidence = evidence_by_grid(
        case, problem.K, problem.y, problem.weight, solution.posterior.prior_mean
    )
    assert evidence - (0.5 if case is POLYA_GAMMA else 0.15) < solution.bound < evidence


# --------------------------------------------------------------------------------------------------
# The ascent


@SOME_BOUNDS
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    log_variance=st.floats(-3.0, 8.0),
    noise=st.sampled_from([0.0, 0.3, 3.0]),
    prior_mean=st.sampled_from([None, 0.0]),
)
def test_bound_over_accepted_passes_never_falls(case, slack, seed, log_variance, noise, prior_mean):
    problem = make_problem(seed, 20, 5, variance=np.exp(log_variance), noise=noise)
    state = random_state(np.random.RandomState(seed), 20)
    options = {"tol": 1e-7, "prior_mean": prior_mean}
    bounds = bounds_by_passes(case, slack, problem, state, **options)
    assert np.all(np.isfinite(bounds))
    assert np.all(np.diff(bounds) >= -1e-11 * problem.weight.sum())
    solution = solve(case, slack, problem, state, **options)
    assert solution.bound == solution.posterior.bound


@SOME_BOUNDS
@settings(max_examples=6)
@given(seed=st.integers(0, 10_000), log_variance=st.floats(-3.0, 6.0))
def test_any_sites_are_a_fair_start(case, slack, seed, log_variance):
    problem = make_problem(seed, 20, 5, variance=np.exp(log_variance))
    state = random_state(np.random.RandomState(seed), 20)
    far, near = (solve(case, slack, problem, start, tol=1e-8) for start in (state, None))
    assert far.converged
    assert near.converged
    assert far.bound == pytest.approx(near.bound, abs=1e-5)


@SOME_BOUNDS
@pytest.mark.parametrize(("precision", "shift"), [(1e-12, 0.0), (1e3, 1e3), (1e6, 0.0)])
def test_start_far_away_ends_at_the_same_bound(case, slack, precision, shift):
    problem = make_problem(8)
    state = SiteState(np.full(30, precision), np.full(30, shift))
    solution = solve(case, slack, problem, state)
    assert solution.converged
    assert solution.bound == pytest.approx(solve(case, slack, problem).bound, abs=1e-6)


@SOME_BOUNDS
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("precision", "shift"), [(1e-12, 1e3), (1e6, 1e9)])
def test_an_absurd_start_is_not_mistaken_for_a_solution(case, slack, precision, shift):
    """Sites that put f where the precisions asked for vanish, as may those of the start."""
    problem = make_problem(8)
    try:
        state = SiteState(np.full(30, precision), np.full(30, shift))
        solution = solve(case, slack, problem, state, max_iter=50)
    except LinAlgError:
        return
    best = solve(case, slack, problem).bound
    assert not solution.converged or solution.bound == pytest.approx(best, abs=1e-5)


@SOME_BOUNDS
@PRIOR_MEAN
def test_separable_labels_under_a_large_variance(case, slack, prior_mean):
    problem = make_problem(9, 20, 6, variance=1e6, noise=0.0)
    solution = solve(case, slack, problem, prior_mean=prior_mean, tol=1e-5, max_iter=300)
    assert solution.converged
    longer = solve(case, slack, problem, solution.state, prior_mean=prior_mean, max_iter=20)
    assert solution.bound == pytest.approx(longer.bound, abs=0.01)
    assert solution.bound < 0.0


@SOME_BOUNDS
def test_ascent_does_not_get_stuck(case, slack):
    """From sites so far off that steps are halved many times: the bound rises along short ones."""
    problem = make_problem(9, 20, 6, variance=1e6, noise=0.0)
    state = random_state(np.random.RandomState(1), 20, -3.0, 1.0)
    solution = solve(case, slack, problem, state, tol=1e-5, max_iter=100)
    best = solve(case, slack, problem, tol=1e-5, max_iter=100).bound
    assert solution.bound == pytest.approx(best, abs=0.01)


@SOME_BOUNDS
def test_separable_labels_leave_nothing_better_nearby(case, slack):
    problem = make_problem(9, 20, 5, variance=1e4, noise=0.0)
    solution = solve(case, slack, problem, tol=1e-7)
    w, factor, mu, v = explicit(case, slack, problem, solution)
    at_end = explicit_bound(case, problem, w, factor, mu, v)
    assert solution.bound == pytest.approx(at_end, rel=1e-6)
    rng = np.random.RandomState(1)
    for _ in range(4):
        nearby = w + 0.1 * factor @ rng.randn(5), factor @ np.diag(np.exp(0.1 * rng.randn(5)))
        assert explicit_bound(case, problem, *nearby, mu, v) < at_end


@SOME_BOUNDS
@PRIOR_MEAN
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_tiny_and_huge_weights(case, slack, prior_mean, scale):
    problem = reweighted(make_problem(10, noise=3.0), scale)
    tol = 1e-8 * problem.weight.sum()
    solution = solve(case, slack, problem, prior_mean=prior_mean, tol=tol, max_iter=200)
    assert solution.converged
    bounds = bounds_by_passes(case, slack, problem, prior_mean=prior_mean, tol=tol)
    assert np.all(np.diff(bounds) >= -1e-11 * problem.weight.sum())
    w, factor, mu, v = explicit(case, slack, problem, solution)
    at_end = explicit_bound(case, problem, w, factor, mu, v)
    assert solution.bound == pytest.approx(at_end, rel=1e-7)
    if scale < 1.0:
        # Nothing is learned but the prior mean: the expectations are those under the prior.
        mean, inducing_variance = np.full(30, mu), problem.Q.diagonal()
        expected = case.value(
            problem.y, problem.weight, mean, inducing_variance, problem.residual, 1.0
        )
        assert solution.bound == pytest.approx(expected.sum(), rel=1e-4)
    rng = np.random.RandomState(1)
    for _ in range(4):
        nearby = w + 0.3 * factor @ rng.randn(6), factor @ np.diag(np.exp(0.3 * rng.randn(6)))
        assert explicit_bound(case, problem, *nearby, mu, v) < at_end


@BOUNDS
def test_passes_are_few(case, slack):
    """A regression guard, at the tolerance of a fit, with no knowledge of f to start from."""
    problem = make_problem(11, 300, 30, variance=10.0, length_scale=1.2, weighted=False)
    assert solve(case, slack, problem, tol=1e-6 * 300).n_iter <= 6


@SOME_BOUNDS
@PRIOR_MEAN
def test_start_at_the_solution_takes_hardly_a_pass(case, slack, prior_mean):
    problem = make_problem(12)
    solution = solve(case, slack, problem, prior_mean=prior_mean, tol=1e-7)
    again = solve(case, slack, problem, solution.state, prior_mean=prior_mean, tol=1e-6)
    assert again.converged
    assert again.n_iter <= 2
    assert again.bound >= solution.bound - 1e-9


@SOME_BOUNDS
@pytest.mark.parametrize("tol", [1e-1, 1e-4])
def test_stops_where_little_is_left_to_gain(case, slack, tol):
    problem = make_problem(13)
    solution = solve(case, slack, problem, tol=tol)
    assert solution.converged
    assert 0.0 <= solve(case, slack, problem, tol=1e-12).bound - solution.bound + 1e-10 < 3.0 * tol


@SOME_BOUNDS
@pytest.mark.parametrize("max_iter", [1, 3])
def test_iteration_limit_is_respected_and_reported(case, slack, max_iter):
    problem = make_problem(14, variance=300.0, noise=0.0)
    solution = solve(case, slack, problem, max_iter=max_iter, tol=1e-12)
    assert solution.n_iter == max_iter
    assert not solution.converged
    w, factor, mu, v = explicit(case, slack, problem, solution)
    at_end = explicit_bound(case, problem, w, factor, mu, v)
    assert solution.bound == pytest.approx(at_end, rel=1e-6)


@SOME_BOUNDS
def test_impossible_tolerance_ends(case, slack):
    problem = make_problem(15)
    solution = solve(case, slack, problem, tol=0.0, max_iter=2000)
    assert solution.n_iter < 200
    assert solution.bound == pytest.approx(solve(case, slack, problem).bound, abs=1e-8)


@SOME_BOUNDS
@pytest.mark.parametrize("block_rows", [7, 29])
def test_blocks_do_not_matter(case, slack, block_rows):
    whole = solve(case, slack, make_problem(16))
    parts = solve(case, slack, make_problem(16, block_rows=block_rows))
    assert parts.bound == pytest.approx(whole.bound, abs=1e-9)
    assert_allclose(parts.sites.precision, whole.sites.precision, rtol=1e-4)


@SOME_BOUNDS
def test_all_labels_alike_is_solved(case, slack):
    """The bound has no maximum in the prior mean then: it must stay finite and monotone."""
    problem = SimpleNamespace(**{**vars(make_problem(17)), "y": np.ones(30)})
    solution = solve(case, slack, problem, tol=1e-3, max_iter=100)
    assert -30.0 < solution.bound < 0.0
    assert solution.posterior.prior_mean > 0.0
    assert np.all(np.diff(bounds_by_passes(case, slack, problem, tol=1e-3)) >= -1e-10)


@SOME_BOUNDS
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "value"), [("y", np.nan), ("weight", np.inf)])
def test_start_without_a_finite_bound_is_refused(case, slack, name, value):
    problem = make_problem(18)
    state = SiteState(np.full(30, 0.25), np.zeros(30))
    broken = SimpleNamespace(**{**vars(problem), name: np.full(30, value)})
    with pytest.raises(LinAlgError):
        solve(case, slack, broken, state)


# --------------------------------------------------------------------------------------------------
# Functions that depend on each other


@pytest.mark.parametrize("prior_mean", [None, 0.0])
@pytest.mark.parametrize("n_classes", [3, 6])
@pytest.mark.parametrize("variance", [1.0, 300.0])
def test_coupled_functions_take_few_expectations_and_few_passes(prior_mean, n_classes, variance):
    """Confident rows leave directions with hardly any curvature, where plain steps are poor."""
    rng = np.random.RandomState(n_classes)
    X = rng.randn(150, 2)
    angle = np.arctan2(X[:, 1], X[:, 0]) / (2.0 * np.pi) + 0.5
    y = np.eye(n_classes)[np.minimum((n_classes * angle).astype(int), n_classes - 1)]
    problem = assemble(X, y, np.ones(150), X[:25].copy(), variance, 1.5)
    n_expectations = 0

    class Counted(Softmax):
        def expect(self, *args):
            nonlocal n_expectations
            n_expectations += 1
            return super().expect(*args)

    likelihood = Counted().for_classes(n_classes)
    solutions = solve_sites(
        problem.features,
        likelihood,
        y,
        problem.weight,
        SLACKS["tight"],
        likelihood.initial_states(y, problem.weight),
        prior_mean=prior_mean,
        tol=1e-6,
        max_iter=100,
    )
    assert all(solution.converged for solution in solutions)
    assert solutions[0].n_iter < 25
    assert n_expectations < 6 * solutions[0].n_iter
    # At the maximum over the means each w is the product of V and the slopes of its function.
    posteriors = [solution.posterior for solution in solutions]
    mean = np.stack([q.w @ problem.V + q.prior_mean for q in posteriors])
    variances = np.stack([(np.linalg.solve(q.LB, problem.V) ** 2).sum(axis=0) for q in posteriors])
    v = np.stack([1.0 / (1.0 + s.sites.precision * problem.residual) for s in solutions])
    slope = likelihood.expect(y, problem.weight, mean, variances, problem.residual, v).slope
    assert_allclose(np.stack([q.w for q in posteriors]), slope @ problem.V.T, atol=0.02)


def test_what_the_means_may_still_gain_counts_as_gain_of_the_next_pass(monkeypatch):
    rng = np.random.RandomState(3)
    X, y = rng.randn(150, 2), np.eye(3)[rng.randint(3, size=150)]
    problem = assemble(X, y, np.ones(150), X[:25].copy(), 30.0, 1.5)
    likelihood, tight = Softmax().for_classes(3), SLACKS["tight"]
    parts = problem.features, likelihood, y, problem.weight, tight
    states = likelihood.initial_states(y, problem.weight)
    solutions = solve_sites(*parts, states, tol=1e-9, max_iter=100)
    states = [SiteState(each.sites.precision, np.zeros(150)) for each in solutions]
    monkeypatch.setattr(module, "MEANS_SHARE", 0.03)
    point = _BoundOfSites(*parts, None, 1e-9).evaluate(states)
    gain = 3 * solutions[0].bound - point.bound
    assert 0.1 < gain < 1.2 * point.next_gain


def test_a_class_that_the_start_lacks_does_not_lead_astray():
    """Where a class is absent, its precisions nearly vanish, and its slopes say nothing."""
    rng = np.random.RandomState(5)
    X, y = rng.randn(150, 2), np.eye(3)[np.append([2, 2], rng.randint(2, size=148))]
    problem = assemble(X, y, np.ones(150), X[:25].copy())
    likelihood = Softmax().for_classes(3)
    parts = problem.features, likelihood, y, problem.weight, SLACKS["tight"]
    states = likelihood.initial_states(y, problem.weight)
    solutions = solve_sites(*parts, states, tol=1e-6, max_iter=100)
    others = [each.state for each in solutions[:2]]
    absent = SiteState(np.full(150, 1e-13), states[2].shift)
    again = solve_sites(*parts, [*others, absent], tol=1e-6, max_iter=100)
    assert all(each.converged for each in again)
    assert again[0].bound == pytest.approx(solutions[0].bound, abs=1e-5)
    # The search starts as if nothing were known.
    first, first_again = (
        solve_sites(*parts, start, tol=1e-6, max_iter=1)[0].bound
        for start in (states, [*others, absent])
    )
    assert first == first_again


# --------------------------------------------------------------------------------------------------
# Weights and copies


def repeated_and_merged(case, slack, seed=0, m=6):
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
    return tuple(solve(case, slack, problem, tol=1e-12) for problem in (repeated, merged))


def assert_same_model(repeated, merged):
    assert merged.bound == pytest.approx(repeated.bound, abs=1e-8)
    assert_allclose(merged.posterior.w, repeated.posterior.w, atol=1e-5)
    assert_allclose(merged.posterior.LB, repeated.posterior.LB, atol=1e-4)


@pytest.mark.parametrize("case", [POLYA_GAMMA, LOGIT, PROBIT])
def test_weight_k_equals_k_copies_under_the_standard_slack(case):
    assert_same_model(*repeated_and_merged(case, "standard"))


@BOUNDS
def test_weight_k_equals_k_copies_when_nothing_is_missed(case, slack):
    """With a point at every distinct row no slack is paid, whatever its name."""
    assert_same_model(*repeated_and_merged(case, slack, m=15))


@pytest.mark.parametrize(("case", "slack"), [(POLYA_GAMMA, "tight"), (CONDITIONAL, "tight")])
def test_merged_rows_pay_less_than_copies(case, slack):
    """Copies of a row share one f, and log(1 + k c) < k log(1 + c)."""
    repeated, merged = repeated_and_merged(case, slack)
    assert merged.bound > repeated.bound + 1e-3


# --------------------------------------------------------------------------------------------------
# Sites that do not depend on f


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
    options = {"prior_mean": None, "tol": 1e-9, "max_iter": 10, **options}
    y, states = noisy_records(problem), likelihood.initial_states(problem.y, problem.weight)
    (solution,) = solve_sites(
        problem.features, likelihood, y, problem.weight, SLACKS[slack], states, **options
    )
    return solution


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("prior_mean", [None, 0.4])
@pytest.mark.parametrize("max_iter", [1, 10])
def test_sites_that_do_not_depend_on_f_take_one_pass(slack, prior_mean, max_iter):
    problem = make_problem(14)
    solution = solve_noisy(problem, slack, prior_mean=prior_mean, max_iter=max_iter)
    assert solution.converged
    assert solution.n_iter == 1
    assert solution.residual_cost is None
    expected = collapse(problem.features, solution.sites, SLACKS[slack], prior_mean)
    assert_allclose(solution.bound, expected.bound, rtol=1e-12)
    assert_allclose(solution.posterior.w, expected.w, rtol=1e-12)
    assert_allclose(solution.sites.precision, problem.weight * np.exp(1.0))


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
    assert_allclose(solution.bound, bound + slack_value(SLACKS[slack], cost), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("log_noise", "target"), [(-800.0, 1.0), (np.nan, 1.0), (0.0, 1e200)])
def test_fixed_sites_without_a_finite_bound_are_refused(log_noise, target):
    """Be it the precisions that overflow, or the squares of the targets."""
    problem = SimpleNamespace(**{**vars(make_problem(16)), "y": np.full(30, target)})
    with pytest.raises(LinAlgError):
        solve_noisy(problem, "tight", log_noise)
