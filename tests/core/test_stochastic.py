"""Minibatches: running sums end at the collapsed optimum, and gradients are those of the bound."""

import numpy as np
import pytest
from helpers import central_difference, free, random_problem
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from sparsegpc._bounds import Posterior, collapse
from sparsegpc._kernel_algebra import Scaled
from sparsegpc._kernels import RBF, Constant
from sparsegpc._stochastic import (
    WINDOW,
    StochasticModel,
    annealed,
    gaussian_sites,
    halving,
    learn,
    settle,
    window,
)

SLACK = pytest.mark.parametrize("slack", ["tight", "standard"])
SEED = st.integers(0, 10_000)
LOG_NOISE = -1.3


class Data:
    """Rows, targets, weights and a model in its first state."""

    def __init__(self, seed, n=24, m=5, *, slack="tight", rows=False, **options):
        rng = np.random.RandomState(seed)
        self.problem = random_problem(seed, n=n, m=m, rows=rows)
        self.X, self.y = self.problem.X, rng.randn(n) + self.problem.X[:, 0]
        self.weight = rng.uniform(0.5, 2.0, n)
        self.model = StochasticModel(self.problem.kernel, slack=slack, **options)
        self.start = self.model.start(self.problem.theta, np.exp(LOG_NOISE), self.problem.Z)

    def visit(self, batches, **options):
        state = self.start
        for rows in batches:
            state = self.model.step(state, self.X[rows], self.y[rows], self.weight[rows], **options)
        return state

    def collapsed(self, slack, prior_mean=None):
        sites = gaussian_sites(self.y, self.weight, LOG_NOISE)
        features = self.problem.features(jitter=self.start.jitter)
        return collapse(features, sites, slack, prior_mean)


def random_posterior(seed, m=5):
    rng = np.random.RandomState(seed)
    LB = np.tril(0.3 * rng.randn(m, m)) + np.diag(rng.uniform(0.8, 2.0, m))
    return Posterior(rng.randn(m), LB, 0.4)


@SLACK
@given(seed=SEED, n_batches=st.integers(1, 24), fit_prior_mean=st.booleans())
def test_one_visit_in_any_batches_ends_at_the_collapsed_posterior(
    slack, seed, n_batches, fit_prior_mean
):
    data = Data(seed, slack=slack, fit_prior_mean=fit_prior_mean)
    order = np.random.RandomState(seed).permutation(24)
    state = data.visit(np.array_split(order, n_batches), n_total=24)
    ours = data.model.posterior(state)
    exact = data.collapsed(slack, None if fit_prior_mean else 0.0)
    assert state.n_rows == state.n_seen == 24
    assert_allclose(ours.bound, exact.bound, rtol=1e-9)
    assert_allclose(ours.prior_mean, exact.prior_mean, rtol=1e-7, atol=1e-9)
    assert_allclose(ours.w, exact.w, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.LB, exact.LB, rtol=1e-7, atol=1e-9)


@SLACK
def test_bound_at_any_posterior_is_the_dense_one(slack):
    """Expected log densities row by row, and the divergence of two Gaussians."""
    data = Data(3, slack=slack)
    q = random_posterior(0)
    features = data.problem.features(jitter=data.start.jitter)
    V, noise = features.V(0), np.exp(LOG_NOISE)
    covariance = np.linalg.inv(q.LB @ q.LB.T)
    expected = 0.0
    for v, y, weight, residual in zip(V.T, data.y, data.weight, features.residual, strict=True):
        mean, variance = v @ q.w + 0.4, v @ covariance @ v
        expected += weight * norm.logpdf(y, mean, np.sqrt(noise))
        expected -= 0.5 * weight * variance / noise
        cost = weight * residual / noise
        expected -= 0.5 * (np.log1p(cost) if slack == "tight" else cost)
    expected -= 0.5 * (np.trace(covariance) + q.w @ q.w - 5 - np.linalg.slogdet(covariance)[1])
    told = data.model.estimate_bound(data.start, q, data.X, data.y, data.weight, 24)
    assert_allclose(told, expected, rtol=1e-10)


@SLACK
@given(seed=SEED)
def test_no_posterior_is_above_the_collapsed_bound(slack, seed):
    data = Data(seed, slack=slack)
    told = data.model.estimate_bound(
        data.start, random_posterior(seed), data.X, data.y, data.weight, 24
    )
    assert told <= data.collapsed(slack).bound + 1e-9


def test_estimates_from_all_batches_average_to_the_bound():
    data, q = Data(5), random_posterior(1)
    whole = data.model.estimate_bound(data.start, q, data.X, data.y, data.weight, 24)
    parts = [
        data.model.estimate_bound(data.start, q, data.X[r], data.y[r], data.weight[r], 24)
        for r in np.split(np.arange(24), 4)
    ]
    assert_allclose(np.mean(parts), whole, rtol=1e-12)


@SLACK
@pytest.mark.parametrize("seed", range(3))
def test_gradient_at_a_posterior_that_is_not_the_optimum(slack, seed):
    """By differences of the bound at fixed q(u), in whitened coordinates."""
    from sparsegpc._bounds import row_sums
    from sparsegpc._stochastic import batch_gradient

    data, q = Data(seed, slack=slack, learn_Z=True), random_posterior(seed)
    theta = np.append(data.problem.theta, LOG_NOISE)

    def bound(theta, Z):
        state = data.model.start(theta[:-1], np.exp(theta[-1]), Z)
        return data.model.estimate_bound(state, q, data.X, data.y, data.weight, 24)

    sites = gaussian_sites(data.y, data.weight, LOG_NOISE)
    features = data.problem.features(jitter=data.start.jitter)
    by_theta, by_Z = batch_gradient(
        features, sites, row_sums(features, sites, slack), LOG_NOISE, slack, q, True
    )
    Z = data.problem.Z
    assert_allclose(
        by_theta, central_difference(lambda t: bound(t, Z), theta), rtol=1e-5, atol=1e-5
    )
    assert_allclose(by_Z, central_difference(lambda z: bound(theta, z), Z), rtol=1e-5, atol=1e-5)


def test_sums_are_carried_over_exactly_to_another_noise_and_scale():
    from sparsegpc._stochastic import carry

    kernel = free(Scaled(Constant(), RBF()), [0.0, 0.0])
    rng = np.random.RandomState(0)
    X, y, weight = rng.randn(30, 2), rng.randn(30), rng.uniform(0.5, 2.0, 30)
    model = StochasticModel(kernel, slack="standard")
    old = model.step(model.start(np.array([0.2, 0.1]), 0.3, X[:6]), X, y, weight)
    theta = np.array([0.9, 0.1, np.log(0.1)])
    moved = carry(kernel, old, theta, old.Z)
    fresh = model.step(model.start(theta[:-1], 0.1, X[:6]), X, y, weight)
    assert_allclose(moved.sums.VpV, fresh.sums.VpV, rtol=1e-7, atol=1e-9)
    ours, theirs = model.posterior(moved), model.posterior(fresh)
    assert_allclose(ours.w, theirs.w, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.prior_mean, theirs.prior_mean, rtol=1e-7)


def test_sums_of_points_that_are_all_rows_are_carried_over_exactly():
    from sparsegpc._stochastic import carry

    kernel = free(Scaled(Constant(), RBF()), [0.0, 0.0])
    rng = np.random.RandomState(1)
    X, y, weight = 2.0 * rng.randn(8, 2), rng.randn(8), np.ones(8)
    model = StochasticModel(kernel)
    old = model.step(model.start(np.array([0.0, 0.0]), 0.3, X), X, y, weight)
    theta = np.array([0.3, 0.4, np.log(0.2)])
    ours = model.posterior(carry(kernel, old, theta, old.Z))
    theirs = model.posterior(model.step(model.start(theta[:-1], 0.2, X), X, y, weight))
    assert_allclose(ours.w, theirs.w, rtol=1e-5, atol=1e-7)


def test_window_grows_by_batches_up_to_its_limits():
    assert window(0, 10, None, 0.0) == 10
    assert window(10, 10, None, 0.0) == 20
    assert window(100, 10, 60, 0.0) == 60
    assert window(1000, 10, None, 0.1) == pytest.approx(10 * WINDOW / 0.1)
    assert window(0, 10, 5, 0.0) == 10


def test_learning_rates_fall():
    assert annealed(0.2, 0.0) == 0.2
    assert annealed(0.2, 1.0) == pytest.approx(0.0)
    rates = [halving(0.2, step) for step in (0, 20, 60)]
    assert_allclose(rates, [0.2, 0.1, 0.05])


@SLACK
@pytest.mark.parametrize("learn_Z", [False, True])
def test_learning_raises_the_bound_and_settling_gives_it_exactly(slack, learn_Z):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (400, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.randn(400)
    kernel = free(Scaled(Constant(), RBF()), [0.0, 0.0])
    model = StochasticModel(kernel, slack=slack, learn_Z=learn_Z)
    start = model.start(np.zeros(2), 1.0, X[:10])
    weight = np.ones(400)
    before = model.posterior(settle(model, start, X, y, weight, 50))
    state = learn(model, start, X, y, weight, n_epochs=20, batch_size=50, rng=rng)
    state = settle(model, state, X, y, weight, 64)
    after = model.posterior(state)
    assert after.bound > before.bound + 100.0
    assert_allclose(state.noise_variance, 0.04, rtol=0.25)
    again = settle(model, state, X, y, weight, 400)
    assert_allclose(model.posterior(again).bound, after.bound, rtol=1e-9)


def test_bounds_of_theta_are_kept():
    data = Data(2, bounds=np.tile([-0.1, 0.1], (5, 1)))
    assert len(data.start.theta) == 5 or data.start.theta.shape == (len(data.start.theta),)
    rng = np.random.RandomState(0)
    bounds = np.tile([-0.1, 0.1], (len(data.start.theta), 1))
    data = Data(2, bounds=bounds)
    state = learn(
        data.model, data.start, data.X, data.y, data.weight, n_epochs=5, batch_size=8, rng=rng
    )
    assert (np.abs(state.theta) <= 0.1).all()


def test_other_slacks_are_refused():
    with pytest.raises(ValueError, match="spherical"):
        StochasticModel(free(RBF(), [0.0]), slack="spherical")
