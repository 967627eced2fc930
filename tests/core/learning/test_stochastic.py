"""Minibatches: running sums end at the collapsed optimum, and gradients are those of the bound."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import inv, solve
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from sparsegpc._core.bounds.collapsed import Posterior, collapse, gradient, row_sums
from sparsegpc._core.kernels.algebra import FiniteDifferenceKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant, Matern52
from sparsegpc._core.learning.stochastic import (
    HALVING_STEPS,
    WINDOW,
    Ascent,
    annealed,
    climb,
    halving,
    learn,
    settle_best,
    window,
)
from sparsegpc._core.learning.stochastic_gaussian import (
    GaussianBatches,
    batch_gradient,
    gaussian_sites,
    with_noise,
)
from sparsegpc._core.models.model import predict_moments
from sparsegpc._core.numerics.linalg import SMALLEST_JITTER
from sparsegpc._core.rows import blocks
from tests.core.helpers import central_difference, free, random_problem, read_only

SLACK = pytest.mark.parametrize("slack", ["tight", "standard"])
SEED = st.integers(0, 2**31)
LOG_NOISE = -1.3
NOISE = np.exp(LOG_NOISE)
SCALED_RBF = free(Scaled(Constant(), RBF()), [0.0, 0.0])


def batches(kernel, slack="tight", **options):
    """Return the model of one noise variance."""
    return GaussianBatches(kernel, slack=slack, **options)


def first_state(model, kernel_theta, noise_variance, Z):
    """Return the first state of such a model."""
    return model.start(np.append(kernel_theta, np.log(noise_variance)), Z)


def posterior_of(model, state):
    (posterior,) = model.posteriors(state)
    return posterior


class Data:
    """Rows, targets, weights and a model in its first state."""

    def __init__(self, seed, n=24, m=5, *, slack="tight", rows=False, kernel=None, **options):
        rng = np.random.RandomState(seed)
        self.problem = random_problem(seed, n=n, m=m, rows=rows, kernel=kernel)
        self.X = self.problem.X
        self.y = read_only(rng.randn(n) + self.X[:, 0] + 0.7)
        self.weight = read_only(rng.uniform(0.5, 2.0, n))
        self.slack = slack
        self.model = batches(self.problem.kernel, slack, **options)
        self.start = first_state(self.model, self.problem.theta, NOISE, self.problem.Z)

    def features(self):
        return self.problem.features(jitter=self.start.jitter)

    def collapsed(self, prior_mean=None):
        sites = gaussian_sites(self.y, self.weight, LOG_NOISE)
        return collapse(self.features(), sites, self.slack, prior_mean)

    def step(self, state, rows=slice(None), **options):
        return self.model.step(state, self.X[rows], self.y[rows], self.weight[rows], **options)

    def estimate(self, state, posterior, rows=slice(None)):
        n = len(self.y)
        return self.model.estimate_bound(
            state, [posterior], self.X[rows], self.y[rows], self.weight[rows], n
        )

    def gradient(self, posterior):
        """Return the gradient of the bound of all rows at fixed q(u), w.r.t. theta and Z."""
        sites, features = gaussian_sites(self.y, self.weight, LOG_NOISE), self.features()
        sums = row_sums(features, sites, self.slack)
        return batch_gradient(features, sites, sums, LOG_NOISE, self.slack, posterior, wrt_Z=True)


def random_posterior(seed, m=5):
    rng = np.random.RandomState(seed)
    LB = np.tril(0.3 * rng.randn(m, m), -1) + np.diag(rng.uniform(0.8, 2.0, m))
    return Posterior(rng.randn(m), LB, 0.4)


def assert_same_posterior(ours, theirs, *, bound=True, rtol=1e-6, atol=1e-8):
    assert_allclose(ours.w, theirs.w, rtol=rtol, atol=atol)
    assert_allclose(ours.LB, theirs.LB, rtol=rtol, atol=atol)
    assert_allclose(ours.prior_mean, theirs.prior_mean, rtol=rtol, atol=atol)
    if bound:
        assert_allclose(ours.bound, theirs.bound, rtol=1e-9)
        assert_allclose(ours.mean_cost, theirs.mean_cost, rtol=1e-9)


def wave(n=400, seed=0):
    """Return rows on a line, a sine with noise of deviation 0.2, and unit weights."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.randn(n), np.ones(n)


# --------------------------------------------------------------------------------------------------
# q(u) at fixed hyperparameters


@SLACK
@given(seed=SEED, n_batches=st.integers(1, 24), fit_prior_mean=st.booleans())
def test_one_visit_in_any_batches_ends_at_the_collapsed_posterior(
    slack, seed, n_batches, fit_prior_mean
):
    data = Data(seed, slack=slack, fit_prior_mean=fit_prior_mean)
    state = data.start
    for rows in np.array_split(np.random.RandomState(seed).permutation(24), n_batches):
        state = data.step(state, rows, n_total=24)
    assert state.n_rows == state.n_seen == 24
    exact = data.collapsed(None if fit_prior_mean else 0.0)
    assert_same_posterior(posterior_of(data.model, state), exact)


@SLACK
def test_all_rows_as_points_give_the_exact_process(slack):
    """The log evidence and the predictions of a textbook's Gaussian process."""
    data = Data(4, n=12, slack=slack, fit_prior_mean=False)
    kernel, theta, X = data.problem.kernel, data.problem.theta, data.X
    state = data.step(first_state(data.model, theta, NOISE, X), n_total=12)
    posterior = posterior_of(data.model, state)
    K = kernel.value(theta, X, X) + np.diag(NOISE / data.weight)
    # A likelihood to the power w is a density of variance noise / w, times a constant.
    powers = -0.5 * ((data.weight - 1.0) * np.log(2.0 * np.pi * NOISE) + np.log(data.weight))
    evidence = multivariate_normal.logpdf(data.y, np.zeros(12), K) + powers.sum()
    assert_allclose(posterior.bound, evidence, rtol=1e-7)
    new = np.random.RandomState(0).randn(5, 2)
    Ks = kernel.value(theta, X, new)
    mean, variance = predict_moments(kernel, state.theta[:-1], X, state.Luu, [posterior], new)
    assert_allclose(mean[0], Ks.T @ solve(K, data.y), rtol=1e-6, atol=1e-8)
    prior = kernel.diag(theta, new)
    assert_allclose(variance[0], prior - (Ks * solve(K, Ks)).sum(axis=0), rtol=1e-5, atol=1e-7)


def test_a_step_in_a_full_window_is_a_natural_gradient_step():
    """Of length b / N, towards what the batch says of N rows: B <- (1 - rho) B + rho (...)."""
    data = Data(7, fit_prior_mean=False)
    rows, rho = slice(0, 6), 6 / 24
    old = data.step(data.start, n_total=24)
    new = data.step(old, rows, n_total=24)
    V, scale = data.features().V(0)[:, rows], 24 / 6
    p = data.weight[rows] / NOISE
    before, after = posterior_of(data.model, old), posterior_of(data.model, new)
    B = (1 - rho) * before.LB @ before.LB.T + rho * (np.eye(5) + scale * (V * p) @ V.T)
    h = (1 - rho) * before.LB @ before.LB.T @ before.w + rho * scale * V @ (p * data.y[rows])
    assert new.n_rows == 24
    assert_allclose(after.LB @ after.LB.T, B, rtol=1e-9)
    assert_allclose(B @ after.w, h, rtol=1e-8, atol=1e-9)


@given(
    sizes=st.lists(st.integers(1, 24), min_size=1, max_size=8),
    rate=st.sampled_from([0.0, 0.05, 0.5]),
    n_total=st.sampled_from([None, 5, 30]),
)
def test_no_row_counts_more_than_once_at_a_visit(sizes, rate, n_total):
    """With unit weights the total weight in the window is its number of rows."""
    data = Data(1)
    weight, state = np.ones(24), data.start
    for size in sizes:
        before = state.n_rows
        state = data.model.step(
            state,
            data.X[:size],
            data.y[:size],
            weight[:size],
            n_total=n_total,
            learning_rate=rate,
        )
        assert size <= state.n_rows <= before + size
        assert_allclose(state.sums[0].precision * np.exp(state.theta[-1]), state.n_rows, rtol=1e-9)
    assert state.n_seen == sum(sizes)


def test_window_grows_by_batches_up_to_its_limits():
    assert window(0, 10, None, 0.0) == 10
    assert window(10, 10, None, 0.0) == 20
    assert window(100, 10, 60, 0.0) == 60
    assert window(1000, 10, None, 0.1) == pytest.approx(10 * WINDOW / 0.1)
    assert window(1000, 10, 50, 0.1) == 50
    assert window(0, 10, 5, 0.0) == 10


@SLACK
def test_what_a_step_is_given_stays_as_it_was(slack):
    data = Data(2, slack=slack, learn_Z=True)
    state = data.step(data.start, learning_rate=0.1)
    parts = [part for part in (*state.sums[0], *state[:3], *state.ascent) if np.ndim(part)]
    copies = [np.array(part) for part in parts]
    # The arrays of `Data` are read-only already.
    data.step(state, learning_rate=0.1)
    for part, copy in zip(parts, copies, strict=True):
        assert_array_equal(part, copy)


def test_blocks_and_threads_change_nothing(monkeypatch):
    X, y, weight = wave()
    states = []
    for block, options in ((400, {}), (90, {}), (90, {"n_threads": 2}), (90, {"memory": 0})):
        monkeypatch.setattr(blocks, "SMALLEST_BLOCK", block)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 0)
        model = batches(SCALED_RBF, learn_Z=True, **options)
        state = first_state(model, np.zeros(2), 0.1, np.linspace(-3.0, 3.0, 8)[:, None])
        for _ in range(3):
            state = model.step(state, X, y, weight, learning_rate=0.1)
        states.append(state)
    for other in states[1:]:
        assert_allclose(other.theta, states[0].theta, rtol=1e-7)
        assert_allclose(other.Z, states[0].Z, rtol=1e-7)


def test_kernel_that_needs_jitter_is_learned_all_the_same():
    X, y, weight = wave()
    rbf = SCALED_RBF.kernel

    def spoiled(params, Z, X):
        """Two equal points have a covariance above their variance."""
        K = rbf.evaluate(params, Z, X)[0]
        return K - 1e-8 * np.eye(len(Z)) if Z is X else K

    kernel = FiniteDifferenceKernel(spoiled, rbf.diag, 2, "spoiled")
    Z = np.linspace(-3.0, 3.0, 10)[[*range(10), 0], None]
    states = []
    for node, points in ((rbf, Z[:-1]), (kernel, Z)):
        model = batches(free(node, [0.0, 0.0]))
        state = first_state(model, np.zeros(2), 0.1, points)
        for _ in range(10):
            state = model.step(state, X, y, weight, n_total=400, learning_rate=0.05)
        states.append(state)
    assert states[0].jitter == SMALLEST_JITTER
    assert states[1].jitter > 1e-9
    assert_allclose(states[1].theta, states[0].theta, rtol=1e-2, atol=1e-2)


# --------------------------------------------------------------------------------------------------
# The bound at any q(u)


@SLACK
def test_bound_at_any_posterior_is_the_dense_one(slack):
    """Expected log densities row by row, and the divergence of two Gaussians."""
    data, q = Data(3, slack=slack), random_posterior(0)
    features = data.features()
    covariance = inv(q.LB @ q.LB.T)
    expected = 0.0
    rows = zip(features.V(0).T, data.y, data.weight, features.residual, strict=True)
    for v, y, weight, residual in rows:
        mean, variance = v @ q.w + 0.4, v @ covariance @ v
        expected += weight * norm.logpdf(y, mean, np.sqrt(NOISE))
        expected -= 0.5 * weight * variance / NOISE
        cost = weight * residual / NOISE
        expected -= 0.5 * (np.log1p(cost) if slack == "tight" else cost)
    expected -= 0.5 * (np.trace(covariance) + q.w @ q.w - 5 - np.linalg.slogdet(covariance)[1])
    assert_allclose(data.estimate(data.start, q), expected, rtol=1e-10)


@SLACK
@given(seed=SEED)
def test_no_posterior_is_above_the_collapsed_bound(slack, seed):
    data, q = Data(seed, slack=slack), random_posterior(seed)
    best = data.collapsed()
    assert data.estimate(data.start, q) <= best.bound + 1e-9
    assert_allclose(data.estimate(data.start, best), best.bound, rtol=1e-9)


def test_estimates_from_all_batches_average_to_the_bound():
    data, q = Data(5), random_posterior(1)
    parts = [data.estimate(data.start, q, rows) for rows in np.split(np.arange(24), 4)]
    assert_allclose(np.mean(parts), data.estimate(data.start, q), rtol=1e-12)


# --------------------------------------------------------------------------------------------------
# Gradients


@SLACK
@pytest.mark.parametrize("seed", range(3))
def test_gradient_at_a_posterior_that_is_not_the_optimum(slack, seed):
    """By differences of the bound at fixed q(u), in whitened coordinates."""
    data, q = Data(seed, slack=slack), random_posterior(seed)
    theta, Z = data.start.theta, data.problem.Z

    def bound(theta, Z):
        state = first_state(data.model, theta[:-1], np.exp(theta[-1]), Z)
        return data.estimate(state, q)

    by_theta, by_Z = data.gradient(q)
    expected = central_difference(lambda t: bound(t, Z), theta)
    assert_allclose(by_theta, expected, rtol=1e-5, atol=1e-5)
    expected = central_difference(lambda z: bound(theta, z), Z)
    assert_allclose(by_Z, expected, rtol=1e-5, atol=1e-5)


@SLACK
def test_gradient_at_the_optimum_is_that_of_the_collapsed_bound(slack):
    data = Data(6, slack=slack)
    posterior, sites = data.collapsed(), gaussian_sites(data.y, data.weight, LOG_NOISE)
    whole = gradient(data.features(), [(sites, posterior, None)], slack, wrt_Z=True)
    by_theta, by_Z = data.gradient(posterior)
    assert_allclose(by_theta[:-1], whole.theta, rtol=1e-7, atol=1e-7)
    assert_allclose(by_Z, whole.Z, rtol=1e-6, atol=1e-7)

    def evidence(log_noise):
        sites = gaussian_sites(data.y, data.weight, log_noise[0])
        return collapse(data.features(), sites, slack).bound

    expected = central_difference(evidence, np.array([LOG_NOISE]))
    assert_allclose(by_theta[-1:], expected, rtol=1e-7, atol=1e-7)


def test_gradients_of_batches_add_up():
    data, q = Data(8), random_posterior(3)
    total_theta, total_Z = 0.0, 0.0
    for rows in np.split(np.arange(24), 3):
        part = Data(8)
        part.problem = data.problem._replace(X=data.X[rows])
        part.X, part.y, part.weight = data.X[rows], data.y[rows], data.weight[rows]
        by_theta, by_Z = part.gradient(q)
        total_theta, total_Z = total_theta + by_theta, total_Z + by_Z
    by_theta, by_Z = data.gradient(q)
    assert_allclose(total_theta, by_theta, rtol=1e-9, atol=1e-9)
    assert_allclose(total_Z, by_Z, rtol=1e-9, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# Moves of hyperparameters and points


def test_adam_is_that_of_the_paper():
    """Algorithm 1 of Kingma and Ba 2015, with beta 0.9 and 0.95, written out for one number."""
    rng = np.random.RandomState(0)
    ascent, first, second = Ascent(0, np.zeros(3), np.zeros(3)), np.zeros(3), np.zeros(3)
    for t in range(1, 40):
        slope = rng.randn(3) + np.array([0.0, 1.0, -30.0])
        ascent, direction = climb(ascent, slope)
        first, second = 0.9 * first + 0.1 * slope, 0.95 * second + 0.05 * slope**2
        expected = first / (1 - 0.9**t) / np.sqrt(second / (1 - 0.95**t))
        assert_allclose(direction, expected, rtol=1e-10)
    assert ascent.n_steps == 39


def test_adam_stays_where_there_is_no_slope():
    _, direction = climb(Ascent(0, np.zeros(2), np.zeros(2)), np.array([0.0, 1e-170]))
    assert direction[0] == 0.0
    assert abs(direction[1]) <= 1.0


@SLACK
def test_first_step_is_as_long_as_the_learning_rate_and_goes_uphill(slack):
    data = Data(9, slack=slack, learn_Z=True)
    state = data.step(data.start, n_total=24, learning_rate=1e-3)
    posterior = data.collapsed()
    by_theta, by_Z = data.gradient(posterior)
    assert_allclose(state.theta - data.start.theta, 1e-3 * np.sign(by_theta), rtol=1e-6)
    moves = (state.Z - data.start.Z) / (data.start.Z.std(axis=0) * np.sign(by_Z))
    assert_allclose(moves, moves[0, 0], rtol=1e-6)
    assert 0.0 < moves[0, 0] < 1e-3


def test_batches_count_in_the_slope_whatever_their_size():
    """The mean gradient is per row, or a large batch would hide the small ones."""
    data = Data(9)
    rows = slice(0, 6)
    once = data.step(data.start, rows, n_total=6, learning_rate=1e-3)
    alone = Data(9)
    alone.problem = data.problem._replace(X=data.X[rows])
    alone.X, alone.y, alone.weight = data.X[rows], data.y[rows], data.weight[rows]
    by_theta, _ = alone.gradient(alone.collapsed())
    assert_allclose(once.ascent.mean[: len(by_theta)], 0.1 * by_theta / 6, rtol=1e-9, atol=1e-12)


def test_points_move_only_if_asked():
    data = Data(9)
    state = data.step(data.start, learning_rate=0.1)
    assert state.Z is data.start.Z
    assert not np.array_equal(state.theta, data.start.theta)


def test_without_a_learning_rate_nothing_moves():
    data = Data(9, learn_Z=True)
    state = data.step(data.start)
    assert state.theta is data.start.theta
    assert state.Z is data.start.Z
    assert state.ascent.n_steps == 0


@SLACK
@pytest.mark.parametrize("new", [-6.0, 2.5])
def test_sums_at_another_noise_variance(slack, new):
    data = Data(10, slack=slack)

    def sums(log_noise):
        sites = gaussian_sites(data.y, data.weight, log_noise)
        return row_sums(data.features(), sites, slack)

    ours, theirs = with_noise(sums(LOG_NOISE), LOG_NOISE, new), sums(new)
    for name in ("VpV", "Vp", "Vb", "precision", "shift", "own", "cost"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-12)
    # That of the rows would be another, but it takes the rows to know.
    assert ours.log_cost == sums(LOG_NOISE).log_cost


def test_sums_are_carried_over_exactly_to_another_noise_and_scale():
    data = Data(11, kernel=Scaled(Constant(), RBF()), slack="standard")
    old = data.step(data.start)
    theta = old.theta + np.array([0.7, 0.0, -0.9])
    moved = data.model.carry(old, theta, old.Z)
    fresh = data.step(first_state(data.model, theta[:-1], np.exp(theta[-1]), old.Z))
    # The cost of a residual would need the rows.
    assert_same_posterior(
        posterior_of(data.model, moved), posterior_of(data.model, fresh), bound=False
    )


def test_sums_of_points_that_are_all_rows_are_carried_over_exactly():
    data = Data(12, n=8, kernel=Scaled(Constant(), Matern52(2)))
    old = data.step(first_state(data.model, data.problem.theta, NOISE, data.X))
    theta = old.theta + np.array([0.3, 0.4, -0.5, 0.2])
    moved = data.model.carry(old, theta, old.Z)
    fresh = data.step(first_state(data.model, theta[:-1], np.exp(theta[-1]), data.X))
    ours, theirs = posterior_of(data.model, moved), posterior_of(data.model, fresh)
    assert_same_posterior(ours, theirs, rtol=1e-5, atol=1e-7, bound=False)


@pytest.mark.parametrize("moves_Z", [False, True])
def test_carried_sums_are_sites_on_the_function_at_the_points(moves_Z):
    """The posterior of f(Z') by dense algebra, from Gaussian sites on f(Z) and no features."""
    data = Data(13, fit_prior_mean=False)
    kernel, old = data.model.kernel, data.step(data.start)
    rng = np.random.RandomState(0)
    theta = old.theta + 0.3 * rng.randn(len(old.theta))
    Z = old.Z + 0.2 * rng.randn(*old.Z.shape) if moves_Z else old.Z
    new = data.model.carry(old, theta, Z)

    to_f = inv(old.Luu)
    ratio = np.exp(old.theta[-1] - theta[-1])
    site_precision = ratio * to_f.T @ old.sums[0].VpV @ to_f
    site_shift = ratio * to_f.T @ old.sums[0].Vb
    K = kernel.value(theta[:-1], Z, Z) + new.jitter * np.mean(kernel.diag(theta[:-1], Z)) * np.eye(
        5
    )
    between = kernel.value(theta[:-1], old.Z, Z) if moves_Z else K
    interpolation = between @ inv(K)
    precision = inv(K) + interpolation.T @ site_precision @ interpolation
    mean = solve(precision, interpolation.T @ site_shift)

    posterior = posterior_of(data.model, new)
    spread = solve(posterior.LB, new.Luu.T)
    assert_allclose(new.Luu @ posterior.w, mean, rtol=1e-6, atol=1e-8)
    assert_allclose(spread.T @ spread, inv(precision), rtol=1e-6, atol=1e-8)


def test_staying_where_one_is_changes_nothing():
    data = Data(14)
    old = data.step(data.start)
    new = data.model.carry(old, old.theta, old.Z)
    assert_same_posterior(posterior_of(data.model, new), posterior_of(data.model, old), rtol=1e-9)


def test_limits_of_hyperparameters_are_kept_and_not_remembered():
    n_params = len(Data(2).start.theta)
    bounds = np.tile([-0.1, 0.1], (n_params, 1))
    data = Data(2, bounds=bounds)
    assert (np.abs(data.start.theta) <= 0.1).all()
    state = data.start
    for _ in range(30):
        state = data.step(state, n_total=24, learning_rate=0.1)
        assert (np.abs(state.theta) <= 0.1).all()
    stuck = np.abs(state.theta) == 0.1
    assert stuck.any()
    # Of the steps since the limit was met nothing is left in the mean but its decay.
    assert (np.abs(state.ascent.mean[:n_params][stuck]) < 0.1).all()
    after = data.step(state, n_total=24, learning_rate=0.1)
    old, new = (np.abs(s.ascent.mean[:n_params][stuck]) for s in (state, after))
    assert_allclose(new, 0.9 * old, rtol=1e-9)


def test_slope_out_of_the_limits_is_dropped_and_no_other():
    low, high = np.array([-1.0, -1.0, -2.0, -2.0, -3.0]), np.array([1.0, 2.0, 1.0, 0.5, 3.0])
    model = batches(random_problem(2).kernel)
    model.bounds = np.stack([low, high], axis=1)
    theta = np.array([-1.0, -1.0, 1.0, 0.5, 0.0])
    slope = np.array([-0.3, 0.4, 0.5, -0.6, -0.7])
    assert_allclose(model._projected(theta, slope), [0.0, 0.4, 0.0, -0.6, -0.7])


# --------------------------------------------------------------------------------------------------
# Learning


def test_learning_rates_fall():
    assert annealed(0.2, 0.0) == 0.2
    assert annealed(0.2, 0.5) == pytest.approx(0.1)
    assert annealed(0.2, 1.0) == pytest.approx(0.0)
    rates = [halving(0.2, step) for step in (0, HALVING_STEPS, 3 * HALVING_STEPS)]
    assert_allclose(rates, [0.2, 0.1, 0.05])


def _recorded(n, n_epochs, batch_size):
    """Return the calls that `learn` makes of a model, and the reports."""
    calls, reports = [], []

    def step(state, X, y, weight, *, n_total, learning_rate):
        assert_array_equal(y, 10 * X[:, 0])
        assert_array_equal(weight, X[:, 0] + 1)
        calls.append(SimpleNamespace(rows=X[:, 0], n_total=n_total, rate=learning_rate))
        return state + 1

    rows = np.arange(n)
    state = learn(
        SimpleNamespace(step=step),
        0,
        rows[:, None],
        10 * rows,
        rows + 1,
        n_epochs=n_epochs,
        batch_size=batch_size,
        rng=np.random.RandomState(0),
        learning_rate=0.4,
        report=lambda epoch, state: reports.append((epoch, state)),
    )
    assert state == len(calls)
    return calls, reports


@given(n=st.integers(1, 40), n_epochs=st.integers(0, 3), batch_size=st.integers(1, 50))
def test_each_epoch_visits_each_row_once(n, n_epochs, batch_size):
    calls, reports = _recorded(n, n_epochs, batch_size)
    n_batches = -(-n // batch_size)
    assert len(calls) == n_epochs * n_batches
    assert [epoch for epoch, _ in reports] == list(range(n_epochs))
    for k in range(n_epochs):
        epoch = calls[k * n_batches : (k + 1) * n_batches]
        assert_array_equal(np.sort(np.concatenate([call.rows for call in epoch])), np.arange(n))
        sizes = [len(call.rows) for call in epoch]
        assert max(sizes) - min(sizes) <= 1
        assert all((np.diff(call.rows) > 0).all() for call in epoch)
    shares = np.arange(len(calls)) / max(len(calls), 1)
    assert_allclose([call.rate for call in calls], [annealed(0.4, share) for share in shares])
    assert all(call.n_total == n for call in calls)


def test_epochs_differ_in_their_order():
    calls, _ = _recorded(20, 2, 20 // 2)
    assert not np.array_equal(calls[0].rows, calls[2].rows)


@SLACK
@pytest.mark.parametrize("learn_Z", [False, True])
def test_learning_comes_close_to_the_best_collapsed_bound(slack, learn_Z):
    X, y, weight = wave()
    model = batches(SCALED_RBF, slack=slack, learn_Z=learn_Z)
    start = first_state(model, np.zeros(2), 1.0, np.linspace(-3.0, 3.0, 10)[:, None])
    rng = np.random.RandomState(0)
    state = learn(model, start, X, y, weight, n_epochs=20, batch_size=50, rng=rng)
    learned = model.settle(state, X, y, weight, 64)
    assert_array_equal(learned.theta, state.theta)
    assert learned.n_seen == state.n_seen == 20 * 400
    assert learned.n_rows == 400

    def loss(theta):
        here = first_state(model, theta[:-1], np.exp(theta[-1]), start.Z)
        return -posterior_of(model, model.step(here, X, y, weight)).bound

    best = -minimize(loss, start.theta, method="Nelder-Mead", options={"fatol": 0.01}).fun
    bound = posterior_of(model, learned).bound
    assert bound > best - 2.0
    if not learn_Z:
        assert bound <= best + 0.02
    assert_allclose(np.exp(learned.theta[-1]), 0.04, rtol=0.25)


@SLACK
def test_a_search_that_goes_astray_ends_at_its_beginning_or_at_a_constant(slack):
    X, y, weight = wave(60)
    bounds = np.array([[-20.0, 9.0], [-9.0, 9.0], [-9.0, 9.0]])
    model = batches(SCALED_RBF, slack=slack, bounds=bounds)
    Z = np.linspace(-3.0, 3.0, 10)[:, None]
    constant = norm.logpdf(y, y.mean(), y.std()).sum()
    good, bad = (first_state(model, np.zeros(2), noise, Z) for noise in (0.04, 1e-3))
    bad = bad._replace(theta=np.array([5.0, -5.0, -8.0]))

    def end(state, start):
        settled, astray = settle_best(model, state, start, X, y, weight, 16)
        return settled, astray, posterior_of(model, settled).bound

    settled, astray, bound = end(good, bad)
    assert not astray
    assert_array_equal(settled.theta, good.theta)
    settled, astray, beginning = end(bad, good)
    assert astray
    assert_array_equal(settled.theta, good.theta)
    assert_allclose(beginning, bound, rtol=1e-12)
    settled, astray, bound = end(bad, bad)
    assert astray
    assert_allclose(bound, constant, rtol=1e-6)
    assert_allclose(settled.theta[-1], 2.0 * np.log(y.std()), rtol=1e-9)


@SLACK
def test_settling_gives_the_collapsed_posterior(slack):
    data = Data(15, slack=slack, learn_Z=True)
    rng = np.random.RandomState(0)
    state = learn(
        data.model, data.start, data.X, data.y, data.weight, n_epochs=3, batch_size=7, rng=rng
    )
    settled = data.model.settle(state, data.X, data.y, data.weight, 5)
    data.problem = data.problem._replace(theta=state.theta[:-1], Z=state.Z)
    sites = gaussian_sites(data.y, data.weight, state.theta[-1])
    exact = collapse(data.problem.features(jitter=state.jitter), sites, slack)
    assert_same_posterior(posterior_of(data.model, settled), exact)


def _predicted(model, state, X):
    posterior = posterior_of(model, state)
    return predict_moments(model.kernel, state.theta[:-1], state.Z, state.Luu, [posterior], X)[0][0]


def test_a_stream_is_learned_as_it_comes():
    model = batches(SCALED_RBF)
    X, y, weight = wave(3000)
    state = first_state(model, np.zeros(2), 0.3, np.linspace(-3.0, 3.0, 12)[:, None])
    for step, rows in enumerate(np.split(np.arange(3000), 60)):
        rate = halving(0.1, step)
        state = model.step(state, X[rows], y[rows], weight[rows], learning_rate=rate)
    assert_allclose(np.exp(state.theta[-1]), 0.04, rtol=0.15)
    new = np.linspace(-2.8, 2.8, 50)[:, None]
    assert_allclose(_predicted(model, state, new), np.sin(2.0 * new[:, 0]), atol=0.12)


def test_a_short_memory_follows_a_function_that_changes():
    X, y, weight = wave(1000)
    y = np.where(np.arange(1000) < 500, y, -y)
    new = np.linspace(-2.8, 2.8, 50)[:, None]
    errors = []
    for memory in (None, 100):
        model = batches(SCALED_RBF)
        state = first_state(model, np.array([0.0, -0.5]), 0.04, np.linspace(-3.0, 3.0, 12)[:, None])
        for rows in np.split(np.arange(1000), 40):
            state = model.step(state, X[rows], y[rows], weight[rows], n_total=memory)
        errors.append(np.abs(_predicted(model, state, new) + np.sin(2.0 * new[:, 0])).max())
    assert errors[1] < 0.2 < 0.8 < errors[0]


def test_other_slacks_are_refused():
    with pytest.raises(ValueError, match="spherical"):
        batches(free(RBF(), [0.0]), slack="spherical")
