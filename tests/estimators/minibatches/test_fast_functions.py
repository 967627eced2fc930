"""Fast functions beside slow ones, which a search from the first rows may take for noise."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import StochasticSparseGPClassifier, StochasticSparseGPRegressor


def season(rng, n=2400):
    """Return times, and sixty periods of a season with a trend and noise."""
    X = rng.uniform(0.0, 60.0, (n, 1))
    y = 5.0 + 0.1 * X[:, 0] + 2.0 * np.sin(2.0 * np.pi * X[:, 0])
    return X, y + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("kernel", [None, 10.0 * RBF(0.1)])
def test_a_season_is_found_under_a_trend(kernel, rng):
    X, y = season(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StochasticSparseGPRegressor(kernel).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.95
    assert 0.06 < model.noise_variance_ < 0.13


def test_a_season_is_found_in_a_stream(rng):
    X, y = season(rng)
    model = StochasticSparseGPRegressor()
    for first in range(0, 2000, 500):
        model.partial_fit(X[first : first + 500], y[first : first + 500])
    assert model.score(X[2000:], y[2000:]) > 0.95


def test_a_wave_in_one_column_is_found_beside_a_slope_in_another():
    """In these rows the search from the usual starts sees the slope only."""
    rng = np.random.RandomState(2)
    X = rng.uniform(-3.0, 3.0, (4000, 3))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = rng.rand(4000) < expit(2.0 * f)
    model = StochasticSparseGPClassifier(n_inducing=100).fit(X[:3000], y[:3000])
    found, truth = model.predict_proba(X[3000:])[:, 1], expit(2.0 * f[3000:])
    assert np.abs(found - truth).mean() < 0.04


@pytest.mark.parametrize("kind", [StochasticSparseGPRegressor, StochasticSparseGPClassifier])
def test_a_function_that_the_kernel_cannot_have_is_reported(kind, rng):
    X = rng.uniform(-3.0, 3.0, (1000, 1))
    f = 3.0 * np.sin(4.0 * X[:, 0])
    y = rng.rand(1000) < expit(f)
    if kind is StochasticSparseGPRegressor:
        y = f + rng.standard_normal(1000)
    with pytest.warns(ConvergenceWarning, match="residuals of neighbouring rows are correlated"):
        kind(1.0 * RBF(100.0, "fixed"), n_inducing=30).fit(X, y)


def test_noise_is_not_taken_for_a_missing_function(rng):
    X = rng.uniform(-3.0, 3.0, (1000, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StochasticSparseGPRegressor(n_inducing=30).fit(X, X[:, 0] + rng.standard_normal(1000))
