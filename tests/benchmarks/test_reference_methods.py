"""Expectation propagation with the FITC prior, and the mean-field bound, of the benchmarks."""

import numpy as np
import pytest
import reference_methods as methods
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPClassifier

METHODS = [methods.expectation_propagation, methods.mean_field]


@pytest.fixture
def rows(rng):
    """Seven rows of two columns, labels -1 and 1, and three points."""
    X = rng.randn(7, 2)
    y = np.where(X[:, 0] + 0.3 * rng.randn(7) > 0.0, 1.0, -1.0)
    return X, y, rng.randn(3, 2)


THETA = np.log([3.0, 1.2])


def dense_kernel(A, B):
    squares = ((A[:, None] - B) ** 2).sum(axis=2)
    return 3.0 * np.exp(-0.5 * squares / 1.2**2)


def nystrom(X, Z):
    Kfu = dense_kernel(X, Z)
    return Kfu @ np.linalg.solve(dense_kernel(Z, Z), Kfu.T)


def log_evidence(K, y):
    """Return log P(y): that of the signs of N(0, K + I), by Genz' integration."""
    signs = np.outer(y, y)
    cov = (K + np.eye(len(y))) * signs
    zero = np.zeros(len(y))
    return float(multivariate_normal.logcdf(zero, zero, cov, maxpts=100_000, abseps=1e-8))


def dense_expectation_propagation(K, y, n_passes=60):
    """Return log Z, means and covariances of f under N(0, K), one row at a time.

    Moments are sums over a grid, which converge exponentially where the ends do not count.
    """
    n_rows = len(y)
    b, p, terms = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    grid = np.linspace(-12.0, 12.0, 2001)
    weights = norm.pdf(grid) * (grid[1] - grid[0])
    for _ in range(n_passes):
        for n in range(n_rows):
            S = np.linalg.inv(np.linalg.inv(K) + np.diag(p))
            variance = 1.0 / (1.0 / S[n, n] - p[n])
            mean = variance * ((S @ b)[n] / S[n, n] - b[n])
            f = mean + variance**0.5 * grid
            tilted = weights * norm.cdf(y[n] * f)
            tilted_mean = tilted @ f / tilted.sum()
            tilted_variance = tilted @ (f - tilted_mean) ** 2 / tilted.sum()
            p[n] = 1.0 / tilted_variance - 1.0 / variance
            b[n] = tilted_mean / tilted_variance - mean / variance
            terms[n] = np.log(tilted.sum() / (weights @ np.exp(b[n] * f - 0.5 * p[n] * f**2)))
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(p))
    log_det = np.linalg.slogdet(np.eye(n_rows) + K * p)[1]
    return -0.5 * log_det + 0.5 * b @ S @ b + terms.sum(), S @ b, S


@pytest.mark.parametrize("dense", [True, False])
def test_expectation_propagation_is_that_of_the_dense_prior(rows, dense):
    X, y, Z = rows
    X, y = X[:5], y[:5]
    Z = X if dense else Z
    K = nystrom(X, Z)
    K[np.diag_indices(5)] = 3.0
    found = methods.evaluate(methods.expectation_propagation, X, y, THETA, Z)[0]
    assert found.converged
    value, mean, cov = dense_expectation_propagation(K, y)
    assert_allclose(found.value, value, atol=1e-6)
    assert_allclose(value, log_evidence(K, y), atol=0.02)
    # New rows: the conditional of the prior, averaged over the posterior of the rows.
    new = X + 0.5
    joint = nystrom(np.vstack([new, X]), Z)
    weights = np.linalg.solve(K, joint[5:, :5])
    variance = 3.0 - ((K - cov) @ weights * weights).sum(axis=0)
    model = methods.Model(3.0, 1.2, Z, found, 1)
    assert_allclose(methods.latent_moments(model, new), [mean @ weights, variance], atol=1e-6)


def test_expectation_propagation_finds_the_fixed_point_from_other_sites(rows):
    X, y, Z = rows
    theta = np.log([300.0, 2.0])
    cold = methods.evaluate(methods.expectation_propagation, X, y, theta, Z)[0]
    start = methods.evaluate(methods.expectation_propagation, X, y, THETA, Z)[0].state
    warm = methods.evaluate(methods.expectation_propagation, X, y, theta, Z, start)[0]
    assert cold.converged
    assert warm.converged
    assert_allclose(cold.value, warm.value, rtol=1e-8)


def test_mean_field_bound_is_the_maximum_of_the_printed_one(rows):
    """Equation (12), with expectations by quadrature, and maximised without derivatives."""
    X, y, Z = rows
    X, y = X[:3], y[:3]
    Q = nystrom(X, Z)
    P = np.linalg.inv(Q + np.eye(3))
    s2 = 1.0 / np.diag(P)
    residual = 3.0 - np.diag(Q)
    nodes, weights = np.polynomial.legendre.leggauss(100)
    g = y[:, None] * 10.0 * (nodes + 1.0)  # from 0 to 20, or to -20

    def printed(a):
        density = np.exp(-0.5 * (g - a[:, None]) ** 2 / s2[:, None]) * 10.0 * weights
        mass = density.sum(axis=1) / np.sqrt(2.0 * np.pi * s2)
        density /= density.sum(axis=1)[:, None]
        mean, square = (density * g).sum(axis=1), (density * g**2).sum(axis=1)
        distance = (density * (g - a[:, None]) ** 2).sum(axis=1)
        outer = np.outer(mean, mean)
        outer[np.diag_indices(3)] = square
        return (
            np.log(mass).sum()
            - 0.5 * np.linalg.slogdet(Q + np.eye(3))[1]
            - 0.5 * np.trace(P @ outer)
            + 0.5 * (np.log(s2) + distance / s2).sum()
            - 0.5 * residual.sum()
        )

    best = minimize(lambda a: -printed(a), np.zeros(3), method="Nelder-Mead", tol=1e-9)
    found = methods.evaluate(methods.mean_field, X, y, THETA, Z)[0]
    assert found.converged
    assert_allclose(found.value, -best.fun, atol=1e-7)
    assert_allclose(found.state * s2, best.x, atol=1e-3)


def test_mean_field_is_exact_for_rows_that_are_independent():
    X = 100.0 * np.arange(4.0)[:, None]
    found = methods.evaluate(methods.mean_field, X, np.array([1.0, -1, 1, 1]), THETA, X)[0]
    assert_allclose(found.value, 4.0 * np.log(0.5), atol=1e-6)


@pytest.mark.parametrize("n_points", [3, 7])
def test_mean_field_bound_is_below_that_of_the_package_and_the_evidence(rows, n_points):
    X, y, _ = rows
    model = SparseGPClassifier(
        ConstantKernel(3.0) * RBF(1.2),
        n_inducing=n_points,
        likelihood="bernoulli-probit",
        bound="standard",
        fit_prior_mean=False,
        optimizer=None,
    ).fit(X, y)
    Z = model.inducing_points_
    assert len(Z) == n_points
    value = methods.evaluate(methods.mean_field, X, y, THETA, Z)[0].value
    assert value < model.lower_bound_ - 1e-3
    assert model.lower_bound_ < log_evidence(dense_kernel(X, X), y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("theta", [THETA, np.log([100.0, 0.7])])
def test_gradients(rows, method, theta):
    X, y, Z = rows
    _, dtheta, dZ = methods.evaluate(method, X, y, theta, Z)
    exact = np.concatenate([dtheta, dZ.ravel()])
    start, step = np.concatenate([theta, Z.ravel()]), 1e-5

    def value(x):
        return methods.evaluate(method, X, y, x[:2], x[2:].reshape(Z.shape))[0].value

    numeric = [(value(start + e) - value(start - e)) / (2 * step) for e in step * np.eye(8)]
    assert_allclose(exact, numeric, rtol=1e-5, atol=1e-6)
    assert np.abs(exact).min() > 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_fit_climbs_and_separates_the_classes(rng, method):
    X = rng.randn(80, 2)
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    bounds = [(-3.0, 6.0), (-3.0, 3.0)]
    fixed, moved = (methods.fit(method, X, y, X[:6], bounds, move) for move in (False, True))
    assert moved.inference.converged
    assert moved.inference.value > fixed.inference.value > 80 * np.log(0.5)
    logs = methods.log_probabilities(moved, X)
    assert_allclose(np.exp(logs).sum(axis=1), 1.0)
    assert (np.sign(logs[:, 1] - logs[:, 0]) == y).mean() > 0.9
