"""Two classes to be told apart, models of them, and dense ones to compare with."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPClassifier
from tests.estimators.simple_kernel import simple_kernel

# What bounds the likelihoods of two classes admit, the tightest first.
BOUNDS = {
    "bernoulli-logit": ("tight", "spherical", "standard"),
    "bernoulli-probit": ("tight", "spherical", "standard"),
    "polya-gamma": ("tight", "spherical", "standard"),
    "conditional-polya-gamma": ("tight",),
}
LIKELIHOODS = pytest.mark.parametrize("likelihood", BOUNDS)
PAIRS = pytest.mark.parametrize(
    ("likelihood", "bound"), [(name, bound) for name in BOUNDS for bound in BOUNDS[name]]
)
# Fits in milliseconds, where what is learned is not the point.
FIXED = {"kernel": ConstantKernel(5.0) * RBF(1.0), "optimizer": None}


def moons(n_samples=120, seed=0):
    """Return read-only rows and 0/1 labels of two noisy half circles."""
    X, y = make_moons(n_samples, noise=0.3, random_state=seed)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def small_model(**parameters):
    return SparseGPClassifier(**{"selector": "hgv", "n_inducing": 15, **simple_kernel(parameters)})


def fixed_model(**parameters):
    return small_model(**{**FIXED, **parameters})


def grid(n=7):
    """Return points on a grid that reaches beyond the data of `moons`."""
    side = np.linspace(-3.0, 4.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


class DensePolyaGamma:
    """All rows, dense matrices, plain coordinate ascent with its exact steps; no acceleration.

    A learned prior mean has the variance that normal sites and a prior of deviation 3 give it, and
    moves by the Newton step of the bound with this variance at the rows.
    """

    def __init__(self, kernel, X, y, weight=None, fit_prior_mean=True):
        self.kernel, self.X, N = kernel, X, len(X)
        self.learns_mean = fit_prior_mean
        weight = np.ones(N) if weight is None else weight
        K, c, old = kernel(X), np.ones(N), 0.0
        for _ in range(5000):
            omega = weight * np.tanh(c / 2) / (2 * c)
            target = weight * y / 2 / omega
            inverse = np.linalg.inv(K + np.diag(1 / omega))
            mean = inverse.sum(axis=0) @ target / inverse.sum() if fit_prior_mean else 0.0
            alpha = inverse @ (target - mean)
            bound = (
                -(target - mean) @ alpha / 2
                + np.linalg.slogdet(inverse)[1] / 2
                + (target**2 * omega - np.log(omega) + c**2 * omega) @ np.ones(N) / 2
                - weight @ np.log(2 * np.cosh(c / 2))
            )
            old, c = c, np.sqrt((mean + K @ alpha) ** 2 + (K - K @ inverse @ K).diagonal())
            if np.abs(c - old).max() < 1e-9:
                break
        self.bound, self.mean, self.alpha, self.inverse = bound, mean, alpha, inverse
        ones = inverse.sum(axis=1)
        self.mean_variance = 1.0 / (ones.sum() + 1.0 / 9.0)
        share = 1.0 - K @ ones
        c = np.sqrt(c**2 + self.mean_variance * share**2)
        slope = weight * y / 2 - weight * np.tanh(c / 2) / (2 * c) * (mean + K @ alpha)
        self.mean_shift = self.mean_variance * (slope @ share + ones @ K @ alpha)

    def moments(self, X):
        K = self.kernel(X, self.X)
        explained = np.einsum("ij,jk,ik->i", K, self.inverse, K)
        mean, variance = self.mean + K @ self.alpha, self.kernel.diag(X) - explained
        if self.learns_mean:
            share = 1.0 - K @ self.inverse.sum(axis=1)
            mean += self.mean_shift * share
            variance += self.mean_variance * share**2
        return mean, variance


def expected_sigmoid(mean, variance):
    """Return E sigmoid(f) for one normal f by adaptive quadrature."""
    deviation = np.sqrt(variance)

    def integrand(z):
        return expit(mean + deviation * z) * norm.pdf(z)

    # The sigmoid changes at f = 0, wherever that is in units of the deviation.
    step = np.clip(-mean / deviation, -9.0, 9.0)
    return sum(quad(integrand, *part, epsabs=1e-12)[0] for part in ((-10.0, step), (step, 10.0)))


def assert_same_model(one, other):
    assert_array_equal(one.inducing_points_, other.inducing_points_)
    assert_allclose(one.lower_bound_, other.lower_bound_, rtol=1e-7)
    assert_allclose(one.predict_proba(grid()), other.predict_proba(grid()), atol=1e-6)
