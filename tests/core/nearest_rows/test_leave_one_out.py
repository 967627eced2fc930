"""Predictions of training rows without their own sites, against models without these rows.

The oracles compute q(u) by dense formulas without whitening, from the sites of the other rows.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.collapsed import FunctionPosterior
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.nearest_rows.leave_one_out import LeaveOneOutPosterior
from sparsegpc._core.nearest_rows.posterior import LocalPosterior
from tests.core.helpers import free, with_uncertain_mean

VARIANCE, LENGTH_SCALE = 1.3, 0.7
THETA = np.log([VARIANCE, LENGTH_SCALE])
KERNEL = free(Scaled(Constant(), RBF()), THETA)
N, M, NEAR = 20, 6, 5
PRIOR_MEANS = (0.5, -0.5)
ROWS = np.arange(N)


def kernel_matrix(X, Y):
    squares = ((X[:, None] - Y) ** 2).sum(axis=2)
    return VARIANCE * np.exp(-0.5 * squares / LENGTH_SCALE**2)


def problem(largest_precision=5.0):
    """Return rows, points and the sites of two functions."""
    rng = np.random.RandomState(0)
    X, Z = rng.randn(N, 2), rng.randn(M, 2)
    sites = []
    for _ in PRIOR_MEANS:
        precision = rng.uniform(0.1, largest_precision, N)
        sites.append(Sites(precision, precision * rng.randn(N), None))
    return X, Z, sites


def moments_of_u(X, Z, site, prior_mean, kept):
    """Return the mean, without the prior mean, and the covariance of u, given the kept sites."""
    p, b = site.precision[kept], site.shift[kept]
    Kuu, Kuf = kernel_matrix(Z, Z), kernel_matrix(Z, X[kept])
    middle = np.linalg.inv(Kuu + (Kuf * p) @ Kuf.T)
    return Kuu @ middle @ Kuf @ (b - p * prior_mean), Kuu @ middle @ Kuu


def posterior_of_all(X, Z, sites):
    """Return the `Posterior` that has seen all sites."""
    Luu = np.linalg.cholesky(kernel_matrix(Z, Z))
    V = np.linalg.solve(Luu, kernel_matrix(Z, X))
    functions = []
    for (p, b, _), prior_mean in zip(sites, PRIOR_MEANS, strict=True):
        B = np.eye(len(Z)) + (V * p) @ V.T
        w = np.linalg.solve(B, V @ (b - p * prior_mean))
        functions.append(FunctionPosterior(w, np.linalg.cholesky(B), prior_mean))
    return Posterior(KERNEL, THETA, Z, Luu, 0.0, tuple(functions))


def moments_without(X, Z, sites, n, near=()):
    """Return mean and variance of each f at row n, given the sites of the others, (2, K).

    `near` are rows whose sites also tell of the residual part of f.
    """
    near, others = np.array(near, dtype=int), np.delete(ROWS, n)
    Kuu = kernel_matrix(Z, Z)
    row, rows = X[[n]], X[near]
    Kun, Kus = kernel_matrix(Z, row), kernel_matrix(Z, rows)
    to_u = np.linalg.solve(Kuu, np.hstack([Kun, Kus]))
    found = []
    for site, prior_mean in zip(sites, PRIOR_MEANS, strict=True):
        mean, spread = moments_of_u(X, Z, site, prior_mean, others)
        p, y = site.precision[near], site.shift[near] / site.precision[near]
        residual = kernel_matrix(rows, rows) - Kus.T @ to_u[:, 1:]
        cross = kernel_matrix(rows, row) - Kus.T @ to_u[:, :1]
        kappa = np.linalg.solve(residual + np.diag(1.0 / p), cross)
        # The conditional mean is linear in u.
        slope = to_u[:, 0] - to_u[:, 1:] @ kappa[:, 0]
        left = VARIANCE - Kun.T @ to_u[:, :1] - kappa.T @ cross
        expected = prior_mean + slope @ mean + kappa[:, 0] @ (y - prior_mean)
        found.append((expected, left.item() + slope @ spread @ slope))
    return np.array(found).T


class NearestOthers:
    """The nearest of the training rows, without one that equals the row."""

    def __init__(self, X):
        self.X = X

    def __call__(self, X):
        distances = ((X[:, None] - self.X) ** 2).sum(axis=2)
        return np.argsort(np.where(distances > 0.0, distances, np.inf), axis=1)[:, :NEAR]


@pytest.mark.parametrize("largest_precision", [5.0, 1e6])
def test_points_predict_as_without_the_row(largest_precision):
    parts = problem(largest_precision)
    X = parts[0]
    left_out = LeaveOneOutPosterior(posterior_of_all(*parts), X, parts[2])
    expected = np.stack([moments_without(*parts, n) for n in ROWS], axis=-1)
    assert_allclose(left_out.moments(X), expected, rtol=1e-6)


def test_points_and_neighbours_predict_as_without_the_row():
    parts = problem()
    X, _, sites = parts
    posterior, nearest = posterior_of_all(*parts), NearestOthers(X)
    left_out = LeaveOneOutPosterior(posterior, X, sites)
    local = LocalPosterior(posterior, X, sites, nearest, left_out=left_out)
    expected = [moments_without(*parts, n, nearest(X[[n]])[0]) for n in ROWS]
    assert_allclose(local.moments(X), np.stack(expected, axis=-1), rtol=1e-8)
    # From the neighbours alone there is no q(u) that could have seen a row.
    seen, unseen = (
        LocalPosterior(posterior, X, sites, nearest, uses_points=False, left_out=each)
        for each in (None, left_out)
    )
    assert_allclose(unseen.moments(X), seen.moments(X), rtol=0.0)


@pytest.mark.parametrize("has_neighbours", [False, True])
def test_an_uncertain_prior_mean_counts_as_without_the_row(has_neighbours):
    """What a row without its site gains per unit of the prior mean, at the other sites."""
    X, Z, sites = problem()
    whole = posterior_of_all(X, Z, sites)
    V = np.linalg.solve(whole.Luu, kernel_matrix(Z, X))
    known = [
        np.linalg.solve(q.LB @ q.LB.T, V @ site.precision)
        for q, site in zip(whole.functions, sites, strict=True)
    ]

    def moments(posterior):
        left_out = LeaveOneOutPosterior(posterior, X, sites)
        if has_neighbours:
            left_out = LocalPosterior(posterior, X, sites, NearestOthers(X), left_out=left_out)
        return left_out.moments(X)

    uncertain, expected = with_uncertain_mean(whole, known, moments)
    assert_allclose(moments(uncertain), expected, rtol=1e-9)
    assert np.all(np.abs(expected[1] - moments(whole)[1]) > 1e-7)


def test_other_rows_are_predicted_as_before():
    parts = problem()
    X, _, sites = parts
    posterior, new = posterior_of_all(*parts), X + 0.1
    left_out = LeaveOneOutPosterior(posterior, X, sites)
    assert_allclose(left_out.moments(new), posterior.moments(new), rtol=1e-12)
    local, unseen = (
        LocalPosterior(posterior, X, sites, NearestOthers(X), left_out=each)
        for each in (None, left_out)
    )
    assert_allclose(unseen.moments(new), local.moments(new), rtol=1e-12)


def test_minus_zero_is_the_row_with_zero():
    X, Z, sites = problem()
    X[0] = 0.0
    posterior = posterior_of_all(X, Z, sites)
    left_out = LeaveOneOutPosterior(posterior, X, sites)
    assert_allclose(left_out.moments(-X[:1]), left_out.moments(X[:1]), rtol=0.0)
    assert not np.allclose(left_out.moments(X[:1]), posterior.moments(X[:1]), rtol=1e-3)


def test_a_row_that_alone_determines_f_is_predicted_by_the_prior():
    X, Z, sites = problem()
    X[0] = Z[0] = 100.0
    for largest in np.logspace(6, 18, 25):
        precision = np.where(ROWS > 0, sites[0].precision, largest)
        exact = [Sites(precision, 0.3 * precision, None)] * 2
        moments = LeaveOneOutPosterior(posterior_of_all(X, Z, exact), X, exact).moments(X[:1])
        if largest <= 1e10:
            assert_allclose(moments[0][:, 0], PRIOR_MEANS, rtol=1e-3)
            assert_allclose(moments[1], VARIANCE, rtol=1e-3)
        # Then rounding leaves no digit of the share of the variance that other rows leave.
        assert (moments[1] > 0.0).all()
        assert (moments[1] <= VARIANCE * (1.0 + 1e-6)).all()
