"""Draws of hyperparameters, against objectives whose integrals are known."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm, truncnorm

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import hyperparameter_draws as module
from sparsegpc._core.learning.hyperparameter_draws import (
    FEWEST_EFFECTIVE,
    N_DRAWS,
    draw_hyperparameters,
    truncated_weights,
)
from sparsegpc._core.likelihoods.binary import BernoulliLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.prior import NormalPrior, ProductPrior
from sparsegpc._core.selection.selectors import InducingPoints

WIDE = np.array([-50.0, 50.0])
PRECISION = np.array([[4.0, 1.0, 0.5], [1.0, 2.0, -0.3], [0.5, -0.3, 1.0]])


def model_of(objective, gradient):
    """Return a model with this objective of theta."""

    def solve(theta, points, states, **options):
        value, slope = objective(theta), gradient(theta)
        return SimpleNamespace(
            theta=theta,
            objective=value,
            grad_theta=slope,
            points=points,
            states=states,
            converged=True,
        )

    return SimpleNamespace(solve=solve)


def quadratic(precision=PRECISION):
    return model_of(
        lambda theta: -0.5 * theta @ precision @ theta, lambda theta: -precision @ theta
    )


def draws_of(model, maximum, bounds=WIDE, seed=0, limits=None):
    """Return draws about a maximum, within limits that are by default the bounds."""
    best = model.solve(np.array(maximum, dtype=float), None, None)
    bounds = np.broadcast_to(bounds, (len(maximum), 2))
    limits = bounds if limits is None else np.broadcast_to(limits, bounds.shape)
    rng = np.random.RandomState(seed)
    return draw_hyperparameters(model, best, bounds, limits, rng, lambda e: e.theta)


def test_draws_from_a_normal_posterior_have_equal_weights_and_its_moments():
    draws = draws_of(quadratic(), np.zeros(3))
    assert draws.theta.shape == (N_DRAWS, 3)
    assert_allclose(draws.weights, 1.0 / N_DRAWS, rtol=1e-6)
    assert_allclose(draws.ess, N_DRAWS, rtol=1e-6)
    many = np.concatenate([draws_of(quadratic(), np.zeros(3), seed=k).theta for k in range(300)])
    assert_allclose(many.mean(axis=0), 0.0, atol=0.05)
    assert_allclose(np.cov(many.T), np.linalg.inv(PRECISION), atol=0.05)


def test_weights_correct_a_skewed_posterior():
    # theta is the logarithm of a gamma variable of shape a.
    a = 3.0
    model = model_of(lambda t: a * t[0] - np.exp(t[0]), lambda t: a - np.exp(t))
    draws = [draws_of(model, [np.log(a)], seed=k) for k in range(20)]
    weighted = np.mean([d.weights @ d.theta[:, 0] for d in draws])
    plain = np.mean([d.theta[:, 0].mean() for d in draws])
    total = quad(lambda t: np.exp(a * t - np.exp(t)), -20.0, 5.0)[0]
    exact = quad(lambda t: t * np.exp(a * t - np.exp(t)), -20.0, 5.0)[0] / total
    # The split normal distribution is nearer than Laplace's, and the weights correct the rest.
    assert abs(plain - exact) < 0.8 * abs(np.log(a) - exact)
    assert abs(weighted - exact) < 0.2 * abs(np.log(a) - exact)


def test_draws_have_the_moments_of_a_truncated_normal_posterior():
    bounds = np.array([[-0.1, 50.0], [-50.0, 50.0], [-50.0, 0.2]])
    draws = [draws_of(quadratic(), np.zeros(3), bounds, seed=k) for k in range(300)]
    for found in draws:
        assert ((found.theta >= bounds[:, 0]) & (found.theta <= bounds[:, 1])).all()
        assert (found.weights > 0.0).all()
        assert found.ess > 10.0
        assert_array_equal(found.kept, found.theta)
    normal = np.random.RandomState(1).multivariate_normal(
        np.zeros(3), np.linalg.inv(PRECISION), 400_000
    )
    inside = normal[((normal >= bounds[:, 0]) & (normal <= bounds[:, 1])).all(axis=1)]
    weights = np.concatenate([found.weights for found in draws])
    theta = np.concatenate([found.theta for found in draws])
    assert_allclose(np.average(theta, axis=0, weights=weights), inside.mean(axis=0), atol=0.02)
    assert_allclose(np.cov(theta.T, aweights=weights), np.cov(inside.T), atol=0.05)


def test_bounds_near_many_parameters_leave_all_draws():
    """Of independent draws one in 20000 would be within these bounds."""
    n = 27
    bounds = np.array([-50.0, 0.5])
    draws = [draws_of(quadratic(np.eye(n)), np.zeros(n), bounds, seed=k) for k in range(20)]
    for found in draws:
        assert found.theta.max() <= 0.5
        assert_allclose(found.ess, N_DRAWS, rtol=1e-6)
    theta = np.concatenate([found.theta for found in draws])
    assert_allclose(theta.mean(), truncnorm.mean(-50.0, 0.5), atol=0.01)
    assert_allclose(theta.std(), truncnorm.std(-50.0, 0.5), atol=0.02)


def test_draws_exceed_the_bounds_of_the_search_within_their_limits():
    bounds = np.array([[-50.0, 0.1], [-0.2, 50.0], [0.0, 1.0]])
    limits = np.array([[-np.inf, np.inf], [-0.2, 50.0], [-np.inf, np.inf]])
    draws = draws_of(quadratic(), np.zeros(3), bounds, limits=limits)
    assert (draws.theta[:, 0] > 0.1).sum() > 3
    assert (draws.theta[:, 1] >= -0.2).all()
    # Which parameters are at a bound is a matter of the search.
    assert_array_equal(draws.theta[:, 2], 0.0)


@given(
    st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
    st.floats(-12.0, 12.0) | st.just(-np.inf),
    st.floats(0.01, 20.0) | st.just(np.inf),
)
def test_quantiles_within_an_interval_are_those_of_scipy(level, low, width):
    high = low + width if np.isfinite(low) else width
    z, log_probability = module._truncated_normal(*np.array([[level], [low], [high]]))
    tail = (-high, -low) if low > 0.0 else (low, high)
    assert_allclose(
        log_probability, np.log(quad(norm.pdf, *tail, epsabs=0.0)[0]), rtol=1e-6, atol=1e-9
    )
    assert low <= z[0] <= high
    assert_allclose(truncnorm.cdf(z, low, high), level, rtol=1e-6, atol=1e-9)


def test_too_few_draws_that_can_be_computed_leave_the_maximum():
    model = quadratic()
    theta = draws_of(model, np.zeros(3)).theta
    third_largest = np.sort(theta[:, 0])[-3]
    solve = model.solve

    def fails(at, *args, wrt_theta=True, **options):
        is_draw = not wrt_theta and (theta == at).all(axis=1).any()
        if is_draw and at[0] < third_largest:
            raise LinAlgError("not positive definite")
        return solve(at, *args, **options)

    model.solve = fails
    draws = draws_of(model, np.zeros(3))
    assert_array_equal(draws.theta, np.zeros((1, 3)))
    assert_array_equal(draws.weights, [1.0])


def test_parameters_at_a_bound_keep_their_values():
    draws = draws_of(quadratic(), np.zeros(3), np.array([[-9.0, 9.0], [0.0, 9.0], [-9.0, 9.0]]))
    assert_array_equal(draws.theta[:, 1], 0.0)
    assert (draws.weights > 0.0).all()
    others = draws_of(quadratic(PRECISION[np.ix_([0, 2], [0, 2])]), np.zeros(2))
    assert_allclose(draws.theta[:, [0, 2]], others.theta)


def test_without_free_parameters_there_is_one_draw():
    draws = draws_of(quadratic(), np.zeros(3), np.zeros(2))
    assert_array_equal(draws.theta, np.zeros((1, 3)))
    assert_array_equal(draws.weights, [1.0])
    assert_array_equal(draws.kept, np.zeros((1, 3)))


def test_sites_that_did_not_converge_leave_one_draw():
    model = quadratic()
    best = model.solve(np.zeros(3), None, None)
    best.converged = False
    bounds, rng = np.broadcast_to(WIDE, (3, 2)), np.random.RandomState(0)
    draws = draw_hyperparameters(model, best, bounds, bounds, rng, lambda e: e.theta)
    assert_array_equal(draws.theta, np.zeros((1, 3)))
    assert_array_equal(draws.weights, [1.0])


def test_directions_without_curvature_are_wide_but_finite():
    draws = draws_of(quadratic(np.diag([1.0, 0.0])), np.zeros(2))
    assert 2.0 < draws.theta[:, 1].std() < 7.0


def test_failed_evaluations_have_no_weight():
    model = quadratic()
    solve = model.solve

    def fails_above(theta, *args, **options):
        if theta[0] > 0.2:
            raise LinAlgError("not positive definite")
        return solve(theta, *args, **options)

    model.solve = fails_above
    draws = draws_of(model, np.zeros(3))
    assert_array_equal(draws.weights > 0.0, draws.theta[:, 0] <= 0.2)


def test_a_bound_that_cannot_be_computed_near_its_maximum_leaves_one_draw():
    def failing(theta):
        if theta.any():
            raise LinAlgError
        return 0.0

    draws = draws_of(model_of(failing, lambda theta: -theta), np.zeros(2))
    assert_array_equal(draws.theta, np.zeros((1, 2)))
    assert_array_equal(draws.weights, [1.0])


def test_a_posterior_that_is_flat_at_its_maximum_gets_no_wide_draws():
    model = model_of(lambda t: -(t[0] ** 4), lambda t: -4.0 * t**3)
    draws = draws_of(model, [0.0])
    assert 0.3 < draws.theta.std() < 0.9
    assert draws.ess > 10.0


def test_weights_that_few_draws_dominate_are_not_used():
    # A narrow ridge along the diagonal of a wide box, which is round at its maximum.
    def objective(theta):
        return -0.5 * theta @ theta - 1e4 * np.prod(theta) ** 2

    def gradient(theta):
        return -theta - 2e4 * np.prod(theta) * theta[::-1]

    draws = draws_of(model_of(objective, gradient), np.zeros(2))
    assert draws.ess < FEWEST_EFFECTIVE
    assert_array_equal(draws.weights, np.full(N_DRAWS, 1.0 / N_DRAWS))


def test_the_seed_decides():
    one, same, other = (draws_of(quadratic(), np.zeros(3), seed=k) for k in (0, 0, 1))
    assert_array_equal(one.theta, same.theta)
    assert np.abs(one.theta - other.theta).min() > 0.0


@given(st.lists(st.floats(-800.0, 800.0) | st.just(-np.inf), min_size=2, max_size=40))
def test_truncated_weights_are_probabilities_in_the_order_of_the_weights(log_weights):
    log_weights = np.append(log_weights, 0.0)
    weights = truncated_weights(log_weights)
    assert_allclose(weights.sum(), 1.0)
    order = np.argsort(log_weights)
    assert (np.diff(weights[order]) >= 0.0).all()
    assert (weights[np.isneginf(log_weights)] == 0.0).all()


def test_the_hessian_is_that_of_the_objective():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (40, 1))
    y = np.where(np.sin(X[:, 0]) + 0.3 * rng.randn(40) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    prior = ProductPrior((NormalPrior.of_all(np.zeros(2), 0.7),))
    model = SparseModel(
        kernel, BernoulliLogit(), X, [y], np.ones(40), slack=TIGHT, prior=prior, tol=1e-8
    )
    points = InducingPoints(X[::4])
    theta = np.array([0.8, 0.1])

    def objective(theta):
        return model.evaluate(theta, points, model.initial_state(), max_iter=500).objective

    def second(i, j, h=0.05):
        e = h * np.eye(2)
        ends = ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0))
        return sum(a * b * objective(theta + a * e[i] + b * e[j]) for a, b in ends) / (4.0 * h**2)

    best = model.evaluate(theta, points, model.initial_state(), max_iter=500)
    expected = [[-second(i, j) for j in range(2)] for i in range(2)]
    found = module._hessian(model, best, np.ones(2, dtype=bool))
    assert_allclose(found, expected, atol=0.02)
    assert found[0, 0] == pytest.approx(module._hessian(model, best, np.array([True, False]))[0, 0])


@pytest.mark.parametrize("n_params", [1, 2, 300])
def test_no_draw_is_far_out_in_a_tail(n_params):
    """The default random state, 0, has a point at 3.9 among the first scrambles of two."""
    for seed in range(40 if n_params < 9 else 1):
        z = module._normal_scores(n_params, np.random.RandomState(seed))
        assert z.shape == (N_DRAWS, n_params)
        assert np.abs(z).max() < 3.3
