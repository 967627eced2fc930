"""Batches of targets: sums end at the collapsed optimum, gradients are those of the bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import inv, solve
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from sparsegpc._core.bounds.collapsed import collapse, gradient, row_sums
from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.minibatches.epochs import epochs
from sparsegpc._core.minibatches.gaussian_batches import (
    gaussian_sites,
    with_noise,
)
from tests.core.helpers import central_difference
from tests.core.minibatches.batch_cases import (
    LOG_NOISE,
    NOISE,
    SEED,
    SUM_SLACK,
    Data,
    assert_same_posterior,
    first_state,
    posterior_of,
    random_posterior,
)


@SUM_SLACK
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


@SUM_SLACK
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
    mean, variance = data.model.posterior(state).moments(new)
    assert_allclose(mean[0], Ks.T @ solve(K, data.y), rtol=1e-6, atol=1e-8)
    prior = kernel.diag(theta, new)
    assert_allclose(variance[0], prior - (Ks * solve(K, Ks)).sum(axis=0), rtol=1e-5, atol=1e-7)


@SUM_SLACK
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
        expected -= 0.5 * (np.log1p(cost) if slack is TIGHT else cost)
    expected -= 0.5 * (np.trace(covariance) + q.w @ q.w - 5 - np.linalg.slogdet(covariance)[1])
    assert_allclose(data.estimate(data.start, q), expected, rtol=1e-10)


@SUM_SLACK
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


@SUM_SLACK
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


@SUM_SLACK
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


@SUM_SLACK
@pytest.mark.parametrize("new", [-6.0, 2.5])
def test_sums_at_another_noise_variance(slack, new):
    data = Data(10, slack=slack)

    def sums(log_noise):
        sites = gaussian_sites(data.y, data.weight, log_noise)
        return row_sums(data.features(), sites, slack)

    ours, theirs = with_noise(sums(LOG_NOISE), slack, LOG_NOISE, new), sums(new)
    for name in ("VpV", "Vp", "Vb", "precision", "shift", "log_scale", "residual_ratio"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-12)
    if slack is STANDARD:
        assert_allclose(ours.slack, theirs.slack, rtol=1e-9)
    else:
        # That of the rows would be another, but it takes the rows to know.
        assert ours.slack == sums(LOG_NOISE).slack


def test_sums_are_carried_over_exactly_to_another_noise_and_scale():
    data = Data(11, kernel=Scaled(Constant(), RBF()), slack=STANDARD)
    old = data.step(data.start)
    theta = old.theta + np.array([0.7, 0.0, -0.9])
    moved = data.model.carry(old, theta, old.Z)
    fresh = data.step(first_state(data.model, theta[:-1], np.exp(theta[-1]), old.Z))
    # The cost of a residual would need the rows.
    assert_same_posterior(
        posterior_of(data.model, moved), posterior_of(data.model, fresh), bound=False
    )


@SUM_SLACK
def test_settling_gives_the_collapsed_posterior(slack):
    data = Data(15, slack=slack, learn_Z=True)
    rng = np.random.RandomState(0)
    *_, state = epochs(
        data.model, data.start, data.X, data.y, data.weight, n_epochs=3, batch_size=7, rng=rng
    )
    solved = data.model.solve(state, data.X, data.y, data.weight, 5)
    data.problem = data.problem._replace(theta=state.theta[:-1], Z=state.Z)
    sites = gaussian_sites(data.y, data.weight, state.theta[-1])
    exact = collapse(data.problem.features(jitter=state.jitter), sites, slack)
    assert_same_posterior(posterior_of(data.model, solved), exact)
