"""A noise process against dense Gaussian algebra, general optimisation and brute integration.

The oracles see covariance matrices of all rows, and every copy of a row on its own: they know
neither features nor sites, nor that equal rows are merged.
"""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

from sparsegpc._core.bounds.collapsed import MeanPrior, divergence
from sparsegpc._core.bounds.slacks import SLACKS, TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.noise_process import HeteroscedasticModel
from sparsegpc._core.models.noise_sites import NoiseState, expected_precision, solve_noise
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import InducingPoints, PivotedSelector
from tests.core.helpers import central_difference, read_only, slack_value

SLACK = pytest.mark.parametrize("slack", SLACKS)
FIT_PRIOR_MEAN = pytest.mark.parametrize("fit_prior_mean", [True, False])
SEED = st.integers(0, 2**31)
# Variance and length scale of f, then of g.
THETA = np.log([1.5, 0.9, 0.8, 1.4])


def make_data(seed=0, n=12, *, copies=False):
    """Rows with noise that grows from left to right; with `copies` most stand more than once."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 1))
    if copies:
        X = X[np.repeat(np.arange(n), rng.randint(1, 4, n))]
    y = np.sin(2.0 * X[:, 0]) + 1.0 + np.exp(0.5 * X[:, 0] - 1.0) * rng.randn(len(X))
    return SimpleNamespace(X=read_only(X), y=read_only(y), weight=read_only(np.ones(len(X))))


def make_model(data, slack="tight", *, ys=None, log_noise=None, **options):
    rows = merge_rows(data.X, data.weight)
    ys = [data.y] if ys is None else ys
    ones = np.ones((len(rows.X), 1))
    kernels = [
        FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool)) for _ in range(2)
    ]
    return HeteroscedasticModel(
        kernels[0],
        GaussianNoise(0),
        rows.X,
        [noisy_targets(y, data.weight, ones, rows) for y in ys],
        rows.weight,
        slack=SLACKS[slack],
        noise_kernel=kernels[1],
        log_noise=[0.0] * len(ys) if log_noise is None else log_noise,
        **{"n_noise_points": 4, "noise_tol": 0.0, **options},
    )


def chosen_of(model, m=5, m_noise=4):
    """Points that are no rows, spread over the range of the rows."""
    ends = model.X.min(), model.X.max()
    Z, Z_noise = (np.linspace(*ends, k + 2)[1:-1, None] for k in (m, m_noise))
    return InducingPoints(Z, None, Z_noise)


def noise_points(model, theta):
    """Return the points that the model's choice takes for the noise processes."""
    rows, weight = model.candidates, model.weight
    return model.noise_selector(model.noise_kernel, model.noise_theta(theta), rows, 0.5 * weight).Z


def evaluate(model, theta=THETA, points=None, states=None, **options):
    """The evaluation, solved as far as rounding lets it."""
    points = chosen_of(model) if points is None else points
    states = model.initial_state() if states is None else states
    options = {"tol": 1e-12, "max_iter": 3000, **options}
    return model.evaluate(theta, points, states, **options)


def dense_kernel(log_params, A, B):
    variance, length_scale = np.exp(log_params)
    return variance * np.exp(-0.5 * ((A - B.T) / length_scale) ** 2)


class DenseNoise:
    """The process g at the rows under any Gaussian q(u), by the textbook."""

    def __init__(self, theta, Z, X):
        self.Kuu = dense_kernel(theta, Z, Z)
        self.projection = np.linalg.solve(self.Kuu, dense_kernel(theta, Z, X))
        self.given_u = np.exp(theta[0]) - (self.projection * dense_kernel(theta, Z, X)).sum(axis=0)

    def moments(self, q_mean, q_cov, prior_mean):
        inducing_variance = ((q_cov @ self.projection) * self.projection).sum(axis=0)
        return prior_mean + self.projection.T @ q_mean, inducing_variance + self.given_u

    def divergence(self, q_mean, q_cov):
        trace = np.trace(np.linalg.solve(self.Kuu, q_cov))
        distance = q_mean @ np.linalg.solve(self.Kuu, q_mean)
        logs = np.linalg.slogdet(self.Kuu)[1] - np.linalg.slogdet(q_cov)[1]
        return 0.5 * (trace + distance - len(q_mean) + logs)

    def posterior(self, state, prior_mean):
        """Return mean and covariance of u given sites of g at the rows."""
        inner = np.linalg.inv(self.Kuu) + (self.projection * state.precision) @ self.projection.T
        cov = np.linalg.inv(inner)
        return cov @ self.projection @ (state.shift - state.precision * prior_mean), cov


def best_f_bound(data, theta, Z, slack, precision, fit_prior_mean):
    """Return the maximum over q(f) of E[log prod N(y; f, 1 / precision)] - KL, for each copy.

    Titsias' bound with the slacks: a normal density of the targets of all distinct rows.
    """
    rows, row = np.unique(data.X, axis=0, return_inverse=True)
    row = row.ravel()
    total = np.bincount(row, precision)
    mean = np.bincount(row, precision * data.y) / total
    Kuf = dense_kernel(theta, Z, rows)
    Q = Kuf.T @ np.linalg.solve(dense_kernel(theta, Z, Z), Kuf)
    S = Q + np.diag(1.0 / total)
    inverse = np.linalg.inv(S)
    centre = (inverse @ mean).sum() / inverse.sum() if fit_prior_mean else 0.0
    error = mean - centre
    bound = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + error @ inverse @ error)
    bound -= 0.5 * np.log(total / (2.0 * np.pi)).sum()
    bound -= 0.5 * precision @ (data.y - mean[row]) ** 2
    bound += 0.5 * np.log(precision / (2.0 * np.pi)).sum()
    cost = total * np.maximum(np.exp(theta[0]) - Q.diagonal(), 0.0)
    return bound + slack_value(SLACKS[slack], cost)


def dense_bound(data, theta, points, slack, q_mean, q_cov, prior_mean, fit_prior_mean=True):
    """Return the bound at any q(u) of g, with the best q(f) for it; rows may be copies."""
    noise = DenseNoise(theta[2:], points.Z_noise, data.X)
    mean, variance = noise.moments(q_mean, q_cov, prior_mean)
    precision = np.exp(-mean + 0.5 * variance)
    bound = best_f_bound(data, theta[:2], points.Z, slack, precision, fit_prior_mean)
    # E[log lambda] is the mean of g, not minus the log of E[1 / lambda].
    bound += 0.5 * (-mean - np.log(precision)).sum()
    return bound - noise.divergence(q_mean, q_cov)


def dense_bound_at(data, theta, points, slack, solution, fit_prior_mean=True):
    """Return the bound at the sites of a solution of distinct rows, sorted."""
    prior_mean = solution.noise_posterior.prior_mean
    noise = DenseNoise(theta[2:], points.Z_noise, data.X)
    q = noise.posterior(solution.state, prior_mean)
    return dense_bound(data, theta, points, slack, *q, prior_mean, fit_prior_mean)


def sorted_data(data):
    order = np.argsort(data.X[:, 0])
    return SimpleNamespace(X=data.X[order], y=data.y[order], weight=data.weight[order])


# --------------------------------------------------------------------------------------------------
# Expectations


@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0])
@pytest.mark.parametrize("mean", [-3.0, 0.2, 2.0])
def test_expected_precision(mean, variance):
    spread = np.sqrt(variance)
    centre = mean - variance
    value = quad(
        lambda g: np.exp(-g) * norm.pdf(g, mean, spread),
        centre - 12.0 * spread,
        centre + 12.0 * spread,
        epsrel=1e-11,
    )[0]
    assert_allclose(expected_precision(np.array([mean]), np.array([variance])), value, rtol=1e-9)


def test_an_expectation_too_large_to_calculate_with_is_limited():
    assert np.isfinite(expected_precision(np.array([-1e6]), np.zeros(1))).all()


@pytest.mark.parametrize("log_noise", [-40.0, -300.0, np.nan])
def test_a_start_with_hardly_any_noise_is_refused(log_noise):
    """Noise that vanishes beside the targets gives a bound without end."""
    with pytest.raises(LinAlgError, match="precision"):
        evaluate(make_model(make_data(25), log_noise=[log_noise]))


def test_a_start_without_a_finite_bound_is_refused():
    with pytest.raises(LinAlgError):
        evaluate(make_model(make_data(25), log_noise=[-300.0]))


# --------------------------------------------------------------------------------------------------
# The bound


@SLACK
@FIT_PRIOR_MEAN
@given(seed=SEED, max_iter=st.sampled_from([1, 2, 5, 200]))
@settings(max_examples=10)
def test_reported_bound_is_that_of_the_reported_sites(slack, fit_prior_mean, seed, max_iter):
    data = sorted_data(make_data(seed))
    model = make_model(data, slack, fit_prior_mean=fit_prior_mean)
    evaluation = evaluate(model, max_iter=max_iter)
    expected = dense_bound_at(
        data, THETA, evaluation.points, slack, evaluation.solutions[0], fit_prior_mean
    )
    assert_allclose(evaluation.objective, expected, rtol=1e-6, atol=1e-6)


@SLACK
@pytest.mark.parametrize("copies", [False, True])
def test_no_gaussian_q_is_better(slack, copies):
    """The end is the maximum over all means and covariances of u, and over the prior mean."""
    data = sorted_data(make_data(1, copies=copies))
    model = make_model(data, slack)
    points = chosen_of(model, 5, 2)
    solution = evaluate(model, points=points).solutions[0]
    L = np.linalg.cholesky(DenseNoise(THETA[2:], points.Z_noise, data.X).Kuu)

    def negative(x):
        factor = L @ np.array([[np.exp(x[2]), 0.0], [x[3], np.exp(x[4])]])
        arguments = L @ x[:2], factor @ factor.T, x[5]
        return -dense_bound(data, THETA, points, slack, *arguments)

    best = minimize(negative, np.array([0.0, 0.0, 0.0, 0.0, 0.0, -1.0]), method="BFGS")
    assert_allclose(solution.bound, -best.fun, atol=1e-5)
    assert_allclose(solution.noise_posterior.prior_mean, best.x[5], atol=0.02)


def log_evidence(data, theta, prior_mean, noise_prior_mean, n_nodes=41, limit=6.0):
    """Return log of the integral of the likelihood over f, exactly, and over g, on a grid."""
    rows, row = np.unique(data.X, axis=0, return_inverse=True)
    row = row.ravel()
    nodes = np.linspace(-limit, limit, n_nodes)
    u = np.stack(np.meshgrid(*[nodes] * len(rows), indexing="ij"), axis=-1).reshape(-1, len(rows))
    L = np.linalg.cholesky(dense_kernel(theta[2:], rows, rows))
    g = (noise_prior_mean + u @ L.T)[:, row]
    K = dense_kernel(theta[:2], data.X, data.X)
    S = K + np.exp(g)[:, :, None] * np.eye(len(row))
    error = data.y - prior_mean
    quadratic = np.linalg.solve(S, np.broadcast_to(error[:, None], (len(S), len(row), 1)))[..., 0]
    log_likelihood = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + quadratic @ error)
    log_prior = -0.5 * (u**2).sum(axis=1)
    step = (nodes[1] - nodes[0]) / np.sqrt(2.0 * np.pi)
    return logsumexp(log_likelihood + log_prior) + len(rows) * np.log(step)


@SLACK
@FIT_PRIOR_MEAN
@pytest.mark.parametrize("copies", [False, True])
def test_bound_is_below_the_evidence(slack, fit_prior_mean, copies):
    """Two distinct rows, all of them points or not; what is lost is the price of q(f) q(g)."""
    data = make_data(0, 2, copies=copies)
    model = make_model(data, slack, fit_prior_mean=fit_prior_mean)
    for Z in (model.X, model.X[:1] + 0.3):
        evaluation = evaluate(model, points=InducingPoints(Z, None, Z), tol=1e-8)
        solution = evaluation.solutions[0]
        means = solution.posterior.prior_mean, solution.noise_posterior.prior_mean
        exact = log_evidence(data, THETA, *means)
        assert evaluation.objective < exact - 1e-4
        if Z is model.X:
            assert evaluation.objective > exact - 1.5


def test_the_grid_is_fine_and_wide_enough():
    data = make_data(0, 2)
    coarse, fine = (log_evidence(data, THETA, 0.3, -1.0, n, w) for n, w in ((41, 6.0), (121, 9.0)))
    assert_allclose(coarse, fine, atol=1e-6)


def test_bound_is_below_the_evidence_by_sampling():
    """Six rows: importance sampling of g from a wide prior, f integrated out exactly."""
    data = sorted_data(make_data(3, 6))
    model = make_model(data)
    evaluation = evaluate(model, points=InducingPoints(model.X, None, model.X))
    solution = evaluation.solutions[0]
    rng, n = np.random.RandomState(0), 40_000
    L = np.linalg.cholesky(dense_kernel(THETA[2:], data.X, data.X))
    g = solution.noise_posterior.prior_mean + rng.randn(n, 6) @ L.T
    S = dense_kernel(THETA[:2], data.X, data.X) + np.exp(g)[:, :, None] * np.eye(6)
    error = np.broadcast_to((data.y - solution.posterior.prior_mean)[:, None], (n, 6, 1))
    quadratic = (np.linalg.solve(S, error) * error).sum(axis=(1, 2))
    log_terms = -0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + quadratic)
    exact = logsumexp(log_terms) - np.log(n)
    standard_error = np.exp(log_terms - exact).std() / np.sqrt(n)
    assert standard_error < 0.02
    assert exact - 1.5 < evaluation.objective < exact - 4.0 * standard_error


@given(seed=SEED)
@settings(max_examples=10)
def test_slacks_are_in_order(seed):
    data = make_data(seed)
    standard, spherical, tight = (
        evaluate(make_model(data, slack)).objective for slack in ("standard", "spherical", "tight")
    )
    assert standard <= spherical + 1e-6
    assert spherical <= tight + 1e-6


@SLACK
def test_noise_process_without_variance_is_constant_noise(slack):
    data = sorted_data(make_data(4))
    model = make_model(data, slack)
    theta = np.append(THETA[:2], np.log([1e-12, 1.0]))
    evaluation = evaluate(model, theta)

    def negative(log_noise):
        precision = np.full(len(data.y), np.exp(-log_noise))
        return -best_f_bound(data, theta[:2], evaluation.points.Z, slack, precision, True)

    best = minimize_scalar(negative, bounds=(-6.0, 3.0), method="bounded", options={"xatol": 1e-8})
    assert_allclose(evaluation.objective, -best.fun, atol=1e-6)
    assert_allclose(evaluation.solutions[0].noise_posterior.prior_mean, best.x, atol=1e-3)


def test_the_theta_of_a_constant_gives_constants():
    model = make_model(sorted_data(make_data(4)))
    bounds = np.tile([-30.0, 30.0], (len(THETA), 1))
    theta = model.constant_theta(THETA, bounds)
    assert_allclose(evaluate(model, theta).objective, model.constant_bound(), atol=1e-6)


# --------------------------------------------------------------------------------------------------
# The ascent


@SLACK
@given(seed=SEED, log_noise=st.floats(-8.0, 8.0), log_variance=st.floats(-3.0, 3.0))
@settings(max_examples=10)
def test_more_passes_never_lower_the_bound(slack, seed, log_noise, log_variance):
    model = make_model(make_data(seed), slack, log_noise=[log_noise])
    theta = THETA + log_variance * np.eye(4)[2]
    bounds = [evaluate(model, theta, max_iter=k).objective for k in (1, 2, 3, 4, 6, 10, 30, 300)]
    assert all(b >= a - 1e-9 for a, b in pairwise(bounds))


@SLACK
@given(seed=SEED, log_size=st.floats(-2.0, 0.5))
@settings(max_examples=10)
def test_no_other_sites_are_better(slack, seed, log_size):
    """One pass evaluates the bound at the sites it is given."""
    model, rng = make_model(make_data(seed), slack), np.random.RandomState(seed)
    best = evaluate(model)
    state = best.solutions[0].state
    size = 10.0**log_size
    precision = state.precision * np.exp(size * rng.randn(len(state.precision)))
    shift = state.shift + size * rng.randn(len(precision))
    moved = evaluate(model, states=(NoiseState(precision, shift, state.f_precision),), max_iter=1)
    assert moved.objective <= best.objective + 1e-8


@SLACK
def test_sites_at_the_end_are_the_derivatives_of_the_expected_log_likelihood(slack):
    """Twice the slope in the variance of g, and the slope in its mean, both by differences."""
    data = sorted_data(make_data(5))
    model = make_model(data, slack)
    evaluation = evaluate(model, tol=1e-14, max_iter=20_000)
    solution, points = evaluation.solutions[0], evaluation.points
    noise = DenseNoise(THETA[2:], points.Z_noise, data.X)
    prior_mean = solution.noise_posterior.prior_mean
    moments = noise.moments(*noise.posterior(solution.state, prior_mean), prior_mean)

    def f_bound(mean, variance):
        precision = np.exp(-mean + 0.5 * variance)
        bound = best_f_bound(data, THETA[:2], points.Z, slack, precision, True)
        return bound + 0.5 * (-mean - np.log(precision)).sum()

    by_mean = central_difference(lambda m: f_bound(m, moments[1]), moments[0])
    by_variance = central_difference(lambda s: f_bound(moments[0], s), moments[1])
    assert_allclose(solution.state.precision, -2.0 * by_variance, rtol=1e-4, atol=1e-6)
    expected = by_mean - 2.0 * by_variance * moments[0]
    assert_allclose(solution.state.shift, expected, rtol=1e-4, atol=1e-5)
    assert_allclose(solution.state.f_precision, np.exp(-moments[0] + 0.5 * moments[1]), rtol=1e-6)
    assert_allclose(solution.sites.precision, solution.state.f_precision)


@pytest.mark.parametrize("log_noise", [-20.0, -10.0, 4.0, 10.0, 30.0])
@pytest.mark.parametrize("variance", [0.1, 1.0, 20.0])
def test_start_does_not_matter(log_noise, variance):
    data, theta = make_data(6, 40), THETA + np.log(variance) * np.eye(4)[2]
    near = evaluate(make_model(data, log_noise=[-1.5]), theta)
    far = evaluate(make_model(data, log_noise=[log_noise]), theta)
    assert far.converged
    assert_allclose(far.objective, near.objective, atol=1e-6)


@pytest.mark.parametrize("log_noise", [0.0, 10.0, 40.0])
@pytest.mark.parametrize("variance", [1.0, 20.0, 400.0])
@pytest.mark.parametrize("outlier", [7.0, 1000.0])
def test_steps_to_where_precisions_overflow_are_taken_back(outlier, variance, log_noise):
    """All targets but one are zero: noise may vanish there, and the first steps are very long."""
    X = np.linspace(-3.0, 3.0, 200)[:, None]
    y = np.where(np.arange(200) == 77, outlier, 0.0)
    model = make_model(SimpleNamespace(X=X, y=y, weight=np.ones(200)), log_noise=[log_noise])
    theta = np.log([1.0, 0.6, variance, 1.0])
    options = {"points": chosen_of(model, 12, 10), "tol": 1e-3}
    evaluation = evaluate(model, theta, max_iter=200, **options)
    # A precision that was cut off would promise a bound without end.
    assert evaluation.solutions[0].state.f_precision.max() < 1e100
    assert evaluation.objective >= evaluate(model, theta, max_iter=1, **options).objective
    assert evaluation.objective < 1000.0


def test_steps_of_length_one_take_few_passes():
    for seed in range(3):
        solution = evaluate(make_model(make_data(seed, 60)), tol=1e-3).solutions[0]
        assert solution.converged
        assert solution.n_iter <= 12


def test_limit_of_passes_is_respected_and_reported():
    model = make_model(make_data(7))
    for max_iter in (1, 2, 3):
        solution = evaluate(model, max_iter=max_iter, tol=1e-14).solutions[0]
        assert solution.n_iter == max_iter
        assert not solution.converged
    assert evaluate(model).converged


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_tolerance_is_about_what_is_left_to_gain(tol):
    model = make_model(make_data(8, 40))
    exact, loose = evaluate(model).objective, evaluate(model, tol=tol)
    assert loose.converged
    assert 0.0 <= exact - loose.objective < 30.0 * tol


def test_a_warm_start_takes_few_passes():
    model = make_model(make_data(9, 40))
    best = evaluate(model, tol=1e-8)
    again = evaluate(model, states=best.states, tol=1e-6)
    assert again.solutions[0].n_iter == 2
    assert again.objective >= best.objective - 1e-10


# --------------------------------------------------------------------------------------------------
# Derivatives


@SLACK
def test_gradient_is_that_of_the_profile_bound(slack):
    data = make_data(10)
    ys = [data.y, np.cos(3.0 * data.y)]
    model = make_model(data, slack, ys=ys, fit_prior_mean=slack != "standard")
    points = chosen_of(model)
    start = evaluate(model, points=points, wrt_Z=True)
    options = {"states": start.states}
    by_theta = central_difference(
        lambda t: evaluate(model, t, points, **options).objective, THETA, 1e-2
    )
    assert start.grad_theta.shape == (4,)
    assert_allclose(start.grad_theta, by_theta, rtol=1e-4, atol=1e-4)
    by_Z = central_difference(
        lambda Z: evaluate(model, THETA, points._replace(Z=Z), **options).objective, points.Z, 1e-2
    )
    assert_allclose(start.grad_Z, by_Z, rtol=1e-4, atol=1e-4)


@SLACK
def test_the_prior_of_the_noise_adds_to_the_objective_alone(slack):
    priors = [MeanPrior(-3.0, 4.0), MeanPrior(2.0, 0.3)]
    data = make_data(10)
    ys = [data.y, np.cos(3.0 * data.y)]
    model = make_model(data, slack, ys=ys, noise_priors=priors)
    points = chosen_of(model)
    start = evaluate(model, points=points)
    means = [solution.noise_posterior.prior_mean for solution in start.solutions]
    log_prior = sum(map(MeanPrior.log_density, priors, means))
    assert start.log_prior == pytest.approx(log_prior)
    assert log_prior < -0.1
    without = make_model(data, slack, ys=ys)
    free = evaluate(without, points=points)
    assert start.elbo + start.log_prior < free.elbo
    assert start.elbo < free.elbo
    # The bound is the one at these sites and this prior mean, so it is a bound.
    assert start.elbo == pytest.approx(
        sum(s.posterior.bound - divergence(s.noise_posterior) for s in start.solutions)
    )
    by_theta = central_difference(
        lambda t: evaluate(model, t, points, states=start.states).objective, THETA, 1e-2
    )
    assert_allclose(start.grad_theta, by_theta, rtol=1e-4, atol=1e-4)


def test_gradients_are_given_only_if_asked_for():
    model = make_model(make_data(11))
    without = evaluate(model, wrt_theta=False)
    assert without.grad_theta is None
    assert without.grad_Z is None
    assert evaluate(model).grad_Z is None


# --------------------------------------------------------------------------------------------------
# Copies, outputs, blocks


@SLACK
def test_a_weight_of_k_is_k_copies(slack):
    data = make_data(12)
    k = np.random.RandomState(1).randint(1, 4, len(data.y))
    weighted = SimpleNamespace(X=data.X, y=data.y, weight=k.astype(np.float64))
    repeated = SimpleNamespace(
        X=np.repeat(data.X, k, axis=0), y=np.repeat(data.y, k), weight=np.ones(k.sum())
    )
    one, other = (evaluate(make_model(part, slack)) for part in (weighted, repeated))
    assert_allclose(other.objective, one.objective, atol=1e-9)
    assert_allclose(other.grad_theta, one.grad_theta, atol=1e-6)
    # The dense oracle sees each copy on its own.
    solution = one.solutions[0]
    prior_mean = solution.noise_posterior.prior_mean
    rows = merge_rows(data.X, weighted.weight)
    noise = DenseNoise(THETA[2:], one.points.Z_noise, rows.X)
    q = noise.posterior(solution.state, prior_mean)
    expected = dense_bound(repeated, THETA, one.points, slack, *q, prior_mean)
    assert_allclose(one.objective, expected, rtol=1e-6, atol=1e-6)


@SLACK
def test_copies_with_targets_of_their_own(slack):
    data = make_data(13, copies=True)
    model = make_model(data, slack)
    evaluation = evaluate(model)
    solution = evaluation.solutions[0]
    prior_mean = solution.noise_posterior.prior_mean
    noise = DenseNoise(THETA[2:], evaluation.points.Z_noise, model.X)
    q = noise.posterior(solution.state, prior_mean)
    expected = dense_bound(data, THETA, evaluation.points, slack, *q, prior_mean)
    assert len(model.X) < len(data.X)
    assert_allclose(evaluation.objective, expected, rtol=1e-6, atol=1e-6)


def test_outputs_add_up():
    data = make_data(14)
    ys = [data.y, -2.0 * data.y**2]
    both = evaluate(make_model(data, ys=ys, log_noise=[0.0, 1.0]), wrt_Z=True)
    each = [
        evaluate(make_model(data, ys=[y], log_noise=[g]), wrt_Z=True)
        for y, g in zip(ys, (0.0, 1.0), strict=True)
    ]
    assert_allclose(both.objective, sum(part.objective for part in each), rtol=1e-12)
    assert_allclose(both.grad_theta, sum(part.grad_theta for part in each), rtol=1e-8)
    assert_allclose(both.grad_Z, sum(part.grad_Z for part in each), rtol=1e-8)
    assert len(both.states) == 2


@SLACK
def test_blocks_and_threads_do_not_matter(monkeypatch, slack):
    data = make_data(15, 40)
    whole = evaluate(make_model(data, slack), wrt_Z=True)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.SMALLEST_BLOCK", 7)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.BLOCK_BYTES", 1)
    for options in ({}, {"n_threads": 3}, {"memory": 0}):
        parts = evaluate(make_model(data, slack, **options), wrt_Z=True)
        assert_allclose(parts.objective, whole.objective, rtol=1e-10)
        assert_allclose(parts.grad_theta, whole.grad_theta, atol=1e-4)
        assert_allclose(parts.grad_Z, whole.grad_Z, atol=1e-4)


# --------------------------------------------------------------------------------------------------
# The model


def test_initial_state_is_constant_noise():
    """Its sites stand at the given log variance, as heavy as at the optimum on average."""
    data = make_data(16)
    data.weight = np.linspace(0.5, 2.0, len(data.y))
    model = make_model(data, ys=[data.y, data.y], log_noise=[-1.0, 2.0])
    for state, g in zip(model.initial_state(), (-1.0, 2.0), strict=True):
        assert_allclose(state.shift / state.precision, g)
        assert_allclose(state.precision, 0.5 * model.weight)
        assert_allclose(state.f_precision, model.weight * np.exp(-g))
    total = model.precision(THETA, model.initial_state())
    assert_allclose(total, model.weight * (np.exp(1.0) + np.exp(-2.0)))


def test_precisions_of_the_noise_sites_are_a_half_on_average():
    """The slope of the bound in the prior mean of g vanishes: sum rho = sum weight / 2."""
    model = make_model(make_data(17, 40))
    state = evaluate(model).solutions[0].state
    assert_allclose(state.precision.mean(), 0.5, rtol=1e-4)


def test_parameters_are_those_of_f_then_those_of_g():
    model = make_model(make_data(18))
    assert_array_equal(model.kernel_theta(THETA), THETA[:2])
    assert [part.n_params for part in model.likelihoods(THETA)] == [0]
    assert_array_equal(model.noise_theta(THETA), THETA[2:])
    both = make_model(make_data(18), ys=[make_data(18).y] * 2, log_noise=[0.0, 0.0])
    assert [part.n_params for part in both.likelihoods(THETA)] == [0, 0]


@pytest.mark.parametrize("m", [1, 3, 7])
def test_points_of_the_noise_are_chosen_by_greedy_variance(m):
    """Against pivots of the dense covariance of g, one after the other."""
    data = make_data(19, 30)
    data.weight = np.random.RandomState(0).uniform(0.3, 3.0, 30)
    model = make_model(data, n_noise_points=m)
    Z_noise = noise_points(model, THETA)
    K, pivots = dense_kernel(THETA[2:], model.X, model.X), []
    for _ in range(m):
        pivots.append(int(np.argmax(model.weight * K.diagonal())))
        column = K[:, pivots[-1]]
        K = K - np.outer(column, column) / column[pivots[-1]]
    assert_array_equal(Z_noise, model.X[pivots])


def test_evaluation_carries_both_posteriors():
    model = make_model(make_data(20))
    evaluation = evaluate(model)
    (solution,) = evaluation.solutions
    assert evaluation.posterior.functions == (solution.posterior,)
    assert evaluation.noise.functions == (solution.noise_posterior.at_prior_mean(),)
    assert evaluation.noise.kernel is model.noise_kernel
    for posterior, theta, points in (
        (evaluation.posterior, THETA[:2], evaluation.points.Z),
        (evaluation.noise, THETA[2:], evaluation.points.Z_noise),
    ):
        L, Z = posterior.Luu, posterior.Z
        assert_array_equal(posterior.theta, theta)
        assert_array_equal(Z, points)
        assert_allclose(L @ L.T, dense_kernel(theta, Z, Z), rtol=1e-12)


def test_jitter_is_the_larger_of_the_two():
    model = make_model(make_data(21))
    points = chosen_of(model)
    same = np.zeros((3, 1))
    for replaced in ({"Z": same}, {"Z_noise": same}):
        evaluation = evaluate(model, points=points._replace(**replaced))
        assert evaluation.jitter > 0.0


def test_subset_is_the_model_of_these_rows():
    data = sorted_data(make_data(23, 20))
    rows = np.array([1, 4, 5, 9, 13, 18])
    part = SimpleNamespace(X=data.X[rows], y=data.y[rows], weight=data.weight[rows])
    model, fresh = make_model(data), make_model(part)
    points = chosen_of(model)
    assert (
        evaluate(model.subset(rows), points=points).objective
        == evaluate(fresh, points=points).objective
    )


def test_a_known_noise_function_is_recovered():
    rng = np.random.RandomState(0)
    X = np.sort(rng.uniform(-3.0, 3.0, (500, 1)), axis=0)
    log_noise = -2.0 + 1.5 * np.sin(1.5 * X[:, 0])
    y = np.sin(2.0 * X[:, 0]) + np.exp(0.5 * log_noise) * rng.randn(500)
    model = make_model(SimpleNamespace(X=X, y=y, weight=np.ones(500)), n_noise_points=12)
    theta = np.log([1.0, 0.8, 2.0, 1.2])
    precision = model.precision(theta, model.initial_state())
    points = PivotedSelector(argmax, 20)(model.kernel, theta[:2], model.candidates, precision)
    points = points._replace(Z_noise=noise_points(model, theta))
    evaluation = evaluate(model, theta, points, tol=1e-4)
    mean, variance = evaluation.noise.moments(X)
    error = mean[0] - log_noise
    assert np.sqrt(np.mean(error**2)) < 0.25
    # Calibrated: errors as large as q(g) says, give or take.
    assert 0.3 < np.mean(error**2 / variance[0]) < 3.0
    constant = evaluate(model, np.append(theta[:2], np.log([1e-10, 1.0])), points, tol=1e-4)
    assert evaluation.objective > constant.objective + 20.0


def test_solver_needs_no_model():
    """What `solve_noise` returns is what the evaluation carries."""
    model = make_model(make_data(24))
    evaluation, points = evaluate(model), chosen_of(model)
    features = model.row_features(model.kernel, THETA[:2], points.Z)
    of_noise = model.row_features(model.noise_kernel, THETA[2:], points.Z_noise)
    assert isinstance(features.blocks, RowBlocks)
    solution = solve_noise(
        features,
        of_noise,
        model.targets[0],
        model.weight,
        TIGHT,
        model.initial_state()[0],
        tol=1e-12,
        max_iter=3000,
    )
    assert solution.bound == evaluation.objective
    assert solution.n_iter == evaluation.solutions[0].n_iter


@pytest.mark.parametrize("noise_tol", [0.1, 0.01, 1e-4])
def test_points_of_the_noise_are_as_many_as_its_tolerance_asks_for(noise_tol):
    data = make_data(3, n=40)
    model = make_model(data, n_noise_points=40, noise_tol=noise_tol)
    Z_noise = noise_points(model, THETA)
    K = dense_kernel(THETA[2:], model.X, model.X)

    def cost(Z):
        across = dense_kernel(THETA[2:], Z, model.X)
        # Many points are nearly linearly dependent.
        solved = np.linalg.solve(dense_kernel(THETA[2:], Z, Z) + 1e-12 * np.eye(len(Z)), across)
        left = K.diagonal() - (across * solved).sum(axis=0)
        # Sites of g have precisions of a half.
        return 0.5 * np.mean(0.5 * left)

    assert 1 < len(Z_noise) < 40
    assert cost(Z_noise) <= noise_tol < cost(Z_noise[:-1])


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_of_the_targets_shift_the_bound(scale):
    data = make_data(2)
    theta, log_scale = THETA.copy(), np.log(scale)
    theta[0] += 2.0 * log_scale
    found = evaluate(make_model(data, log_noise=[-1.0]))
    other = evaluate(
        make_model(data, ys=[data.y * scale], log_noise=[-1.0 + 2.0 * log_scale]), theta
    )
    assert_allclose(other.objective, found.objective - len(data.y) * log_scale, rtol=1e-7)


def test_noise_is_solved_for_to_a_share_of_the_tolerance():
    model = make_model(make_data(1, n=30), tol=1e-4)
    best = evaluate(model).objective
    found = model.evaluate(THETA, chosen_of(model), model.initial_state())
    assert best - model.tol < found.objective <= best + 1e-9
