"""The posterior of f against an explicit q(u), and on its first points against fresh models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.collapsed import collapse, marginals
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.models.model import posterior_of
from sparsegpc._core.models.posterior import draw, whitened_features
from sparsegpc._core.numerics.linalg import SMALLEST_JITTER
from tests.core.helpers import random_problem
from tests.core.models.model_cases import dense_kernel, evaluate, make_data, outputs


def dense_predictions(evaluation, k, X_new):
    """Return mean and covariance of the k-th f at new rows: q(u) explicitly, then p(f|u)."""
    Z, posterior = evaluation.chosen.Z, evaluation.solutions[k].posterior
    parameters = np.exp(evaluation.theta[:2])
    rows = np.concatenate([Z, X_new])
    K = dense_kernel(rows, *parameters)
    Kuu, Kuf, Kff = K[:6, :6], K[:6, 6:], K[6:, 6:]
    L = evaluation.posterior.Luu
    q_mean = L @ posterior.w
    q_cov = L @ np.linalg.inv(posterior.LB @ posterior.LB.T) @ L.T
    projection = np.linalg.solve(Kuu, Kuf)
    cov = Kff + projection.T @ (q_cov - Kuu) @ projection
    return posterior.prior_mean + projection.T @ q_mean, cov


@pytest.mark.parametrize("rows", [{}, {"block_rows": 4}, {"block_rows": 3, "n_threads": 2}])
def test_predictions_of_several_outputs(rows):
    model, theta = outputs(0.5, 1.7, noisy=True)
    evaluation = evaluate(model, theta, make_data()[3])
    X_new = np.random.RandomState(1).randn(11, 2)
    posterior = evaluation.posterior
    mean, variance = posterior.moments(X_new, **rows)
    joint_mean, cov = posterior.covariance(X_new)
    assert mean.shape == variance.shape == joint_mean.shape == (2, 11)
    assert cov.shape == (2, 11, 11)
    for k in range(2):
        expected_mean, expected_cov = dense_predictions(evaluation, k, X_new)
        assert_allclose(mean[k], expected_mean, rtol=1e-7, atol=1e-8)
        assert_allclose(variance[k], expected_cov.diagonal(), rtol=1e-7, atol=1e-8)
        assert_allclose(joint_mean[k], expected_mean, rtol=1e-7, atol=1e-8)
        assert_allclose(cov[k], expected_cov, rtol=1e-7, atol=1e-8)


def test_predictions_at_the_rows_are_the_marginals():
    model, theta = outputs(0.5, 1.7)
    evaluation = evaluate(model, theta, make_data()[3])
    features = model.row_features(
        model.kernel, theta, evaluation.chosen.Z, jitter=SMALLEST_JITTER, attempts=1
    )
    posterior = evaluation.posterior
    moments = posterior.moments(model.X)
    for k, q in enumerate(posterior.functions):
        expected = marginals(features.V(0), features.residual, q)
        for ours, theirs in zip(moments, expected, strict=True):
            assert_allclose(ours[k], theirs, rtol=1e-12, atol=1e-13)
    place = posterior.kernel, posterior.theta, posterior.Z, posterior.Luu
    phi = whitened_features(*place, model.X, block_rows=7)
    assert_allclose(phi, features.V(0).T, rtol=1e-12, atol=1e-13)


def test_prior_means_are_those_of_the_functions():
    model, theta = outputs(0.5, 1.7)
    evaluation = evaluate(model, theta, make_data()[3])
    expected = [solution.posterior.prior_mean for solution in evaluation.solutions]
    assert_array_equal(evaluation.posterior.prior_means, expected)


@pytest.mark.parametrize("n_points", [1, 2, 5])
def test_the_first_points_have_the_posterior_of_a_fresh_model(n_points):
    """At the same sites, prior mean and covariance of the points: u by dense algebra, no rows."""
    problem = random_problem(3, n=20, m=5, rows=False)
    features = problem.features(jitter=SMALLEST_JITTER)
    whole = posterior_of(features, [collapse(features, problem.sites, STANDARD)])
    part = whole.truncated(n_points)
    (q,) = part.functions
    assert part.Z.shape == (n_points, 2)
    assert q.prior_mean == whole.functions[0].prior_mean
    Kuu, Kuf, _ = problem.dense(jitter=SMALLEST_JITTER)
    Kuu, Kuf = Kuu[:n_points, :n_points], Kuf[:n_points]
    A = np.linalg.solve(Kuu, Kuf)
    S = np.linalg.inv(np.linalg.inv(Kuu) + (A * problem.sites.precision) @ A.T)
    mean_u = S @ A @ (problem.sites.shift - q.prior_mean * problem.sites.precision)
    new = np.random.RandomState(0).randn(7, 2)
    kernel, theta = problem.kernel, problem.theta
    W = np.linalg.solve(Kuu, kernel.value(theta, problem.Z[:n_points], new))
    mean, variance = part.moments(new)
    assert_allclose(mean[0], q.prior_mean + W.T @ mean_u, rtol=1e-6, atol=1e-8)
    given_u = kernel.diag(theta, new) - np.einsum("mn,mn->n", W, Kuu @ W)
    expected = given_u + np.einsum("mn,mn->n", W, S @ W)
    assert_allclose(variance[0], expected, rtol=1e-6, atol=1e-8)


def test_all_points_are_the_posterior_itself():
    model, theta = outputs(0.5, 1.7)
    posterior = evaluate(model, theta, make_data()[3]).posterior
    ours, theirs = posterior.truncated(6).moments(model.X), posterior.moments(model.X)
    assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_draws_have_the_moments_of_their_gaussians(rng):
    """Covariances may be singular: of the first two, one is of rank one."""
    mean = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    a = rng.randn(3)
    B = rng.randn(3, 3)
    covariance = np.stack([np.outer(a, a), B @ B.T])
    samples = draw(mean, covariance, 40_000, rng)
    assert samples.shape == (2, 40_000, 3)
    for k in range(2):
        assert_allclose(samples[k].mean(axis=0), mean[k], atol=0.05)
        assert_allclose(np.cov(samples[k].T), covariance[k], atol=0.1)
    across = (samples[0] - mean[0]) @ np.cross(a, [1.0, 0.0, 0.0])
    assert_allclose(across, 0.0, atol=1e-6)
