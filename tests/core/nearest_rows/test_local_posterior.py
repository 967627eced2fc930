"""Posteriors that also condition on the nearest rows, against dense Gaussian conditioning."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.collapsed import FunctionPosterior
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.nearest_rows.posterior import LocalPosterior
from tests.core.helpers import free, with_uncertain_mean

THETA = np.log([1.3, 0.7])
N, M, K, NEAR = 30, 4, 2, 5


class Nearest:
    """The nearest rows by distance, in no particular order."""

    def __init__(self, X):
        self.X = X

    def __call__(self, X):
        distances = ((X[:, None] - self.X) ** 2).sum(axis=2)
        return np.argsort(distances, axis=1)[:, NEAR - 1 :: -1]


@pytest.fixture
def made():
    """Return a posterior of two functions, rows, sites and new rows."""
    rng = np.random.RandomState(0)
    kernel = free(Scaled(Constant(), RBF()), THETA)
    X, Z, new = rng.randn(N, 2), rng.randn(M, 2), rng.randn(7, 2)
    Luu = np.linalg.cholesky(kernel.value(THETA, Z, Z))
    functions = []
    for k in range(K):
        root = rng.randn(M, M)
        LB = np.linalg.cholesky(np.eye(M) + root @ root.T)
        functions.append(FunctionPosterior(rng.randn(M), LB, 0.5 - k))
    sites = [Sites(rng.uniform(0.1, 5.0, N), rng.randn(N), None) for _ in range(K)]
    return Posterior(kernel, THETA, Z, Luu, 0.0, tuple(functions)), X, sites, new


def conditioned(prior_mean, prior, precision, shift):
    """Return mean and variance of the first of several values, given sites of the others."""
    known = np.append(0.0, precision) + np.zeros(len(prior))
    # In the information form: the prior's precision plus that of the sites.
    information = np.linalg.inv(prior) + np.diag(known)
    covariance = np.linalg.inv(information)
    mean = covariance @ (np.linalg.solve(prior, prior_mean) + np.append(0.0, shift))
    return mean[0], covariance[0, 0]


def joint(posterior, q, X, uses_points):
    """Return mean and covariance of f at rows, in dense formulas without whitening."""
    kernel, Z = posterior.kernel, posterior.Z
    Kff = kernel.value(THETA, X, X)
    if not uses_points:
        return np.full(len(X), q.prior_mean), Kff
    Kuu, Kuf = kernel.value(THETA, Z, Z), kernel.value(THETA, Z, X)
    to_f = np.linalg.solve(Kuu, Kuf).T
    mean_u = posterior.Luu @ q.w
    cov_u = posterior.Luu @ np.linalg.inv(q.LB @ q.LB.T) @ posterior.Luu.T
    return q.prior_mean + to_f @ mean_u, Kff - to_f @ Kuf + to_f @ cov_u @ to_f.T


def expected_moments(made, uses_points, n_near=NEAR):
    """Condition q(u) p(f | u) with the residual sites of the neighbours.

    The sites tell of the residual part of f only: given u they are as in the model, and q(u) stays.
    """
    posterior, X, sites, new = made
    moments = np.empty((2, K, len(new)))
    for k, (q, site) in enumerate(zip(posterior.functions, sites, strict=True)):
        for i, x in enumerate(new):
            near = np.argsort(((X - x) ** 2).sum(axis=1))[:n_near]
            points = np.vstack([x, X[near]])
            p, b = site.precision[near], site.shift[near]
            if not uses_points:
                mean, prior = joint(posterior, q, points, False)
                moments[:, k, i] = conditioned(mean, prior, p, b)
                continue
            # By quadrature-free averaging over u: the conditional mean is linear in u.
            _, prior = joint(posterior, q._replace(w=0.0 * q.w, LB=1e12 * np.eye(M)), points, True)
            zero, left = conditioned(np.zeros(len(points)), prior, p, 0.0 * b)
            assert abs(zero) < 1e-12
            mean, whole = joint(posterior, q, points, True)
            gain = prior[0, 1:] @ np.linalg.inv(prior[1:, 1:] + np.diag(1.0 / p))
            difference = np.append(1.0, -gain)
            moments[0, k, i] = difference @ mean + gain @ (b / p)
            moments[1, k, i] = left + difference @ (whole - prior) @ difference
    return moments


@pytest.mark.parametrize("uses_points", [True, False])
def test_moments_are_those_of_dense_conditioning(made, uses_points):
    posterior, X, sites, new = made
    local = LocalPosterior(posterior, X, sites, Nearest(X), uses_points)
    for found in (local, pickle.loads(pickle.dumps(local))):
        assert_allclose(found.moments(new), expected_moments(made, uses_points), rtol=1e-8)


@pytest.mark.parametrize("uses_points", [True, False])
def test_an_uncertain_prior_mean_adds_its_variance_and_shift(made, uses_points):
    posterior, X, sites, new = made
    known = np.random.RandomState(1).randn(K, M) if uses_points else np.zeros((K, M))

    def moments(posterior):
        return LocalPosterior(posterior, X, sites, Nearest(X), uses_points).moments(new)

    uncertain, expected = with_uncertain_mean(posterior, known, moments)
    assert_allclose(moments(uncertain), expected, rtol=1e-9)


def test_blocks_and_threads_do_not_matter(made, monkeypatch):
    posterior, X, sites, new = made
    local = LocalPosterior(posterior, X, sites, Nearest(X))
    expected = local.moments(new)
    monkeypatch.setattr("sparsegpc._core.nearest_rows.posterior.BLOCK_ROWS", 2)
    for n_threads in (1, 2):
        assert_allclose(local.moments(new, n_threads=n_threads), expected, rtol=1e-12)


def test_sites_that_tell_nothing_leave_the_moments_of_the_points(made):
    posterior, X, sites, new = made
    far = 100.0 + X
    local = LocalPosterior(posterior, far, sites, Nearest(X))
    assert_allclose(local.moments(new), posterior.moments(new), rtol=1e-12)
    # A tiny precision, whose pseudo-target would overflow.
    silent = [Sites(np.where(np.arange(N) > 0, 1e-200, 1.0), site.shift, None) for site in sites]
    only_first = [Sites(np.eye(N)[0], np.eye(N)[0] * site.shift, None) for site in sites]
    found, expected = (
        LocalPosterior(posterior, X, parts, Nearest(X)).moments(new)
        for parts in (silent, only_first)
    )
    assert_allclose(found, expected, rtol=1e-12)


def test_there_is_no_joint_covariance(made):
    posterior, X, sites, new = made
    with pytest.raises(ValueError, match=r"no joint distribution.*estimator_"):
        LocalPosterior(posterior, X, sites, Nearest(X)).covariance(new)
