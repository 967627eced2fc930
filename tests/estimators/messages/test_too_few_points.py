"""Fits warn if they cannot afford enough points for a function that varies fast."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Matern

from sparsegpc import LocalCorrection, SparseGPRegressor
from sparsegpc._core.learning import default_points
from sparsegpc.kernels import MainEffects

QUICK = {"main_effects": False, "log_transform": False, "optimize_inducing": False}


@pytest.fixture
def few_points(monkeypatch):
    """Fits can afford 200 points."""
    monkeypatch.setattr(default_points, "affordable_points", lambda *numbers: 200)


def fast_and_slow(n, frequency):
    """Return inputs in the unit square, targets of a slow and a fast wave, and the waves."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n, 2))
    slow = 2.0 * np.sin(3.0 * X[:, 0])
    fast = np.sin(frequency * X[:, 0]) * np.cos(frequency * X[:, 1])
    return X, slow + fast + 0.1 * rng.standard_normal(n), slow + fast


def warnings_of(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


def test_a_fast_function_is_reported_with_a_remedy_that_helps(few_points):
    X, y, f = fast_and_slow(3500, 35.0)
    train, test = slice(0, 3000), slice(3000, None)
    model = SparseGPRegressor(**QUICK)
    (message,) = warnings_of(model, X[train], y[train])
    assert message.startswith("200 inducing points are too few: residuals of neighbouring rows")
    assert "LocalCorrection" in message
    corrected = LocalCorrection(SparseGPRegressor(**QUICK))
    assert warnings_of(corrected, X[train], y[train]) == []
    errors = [np.std(each.predict(X[test]) - f[test]) for each in (model, corrected)]
    assert errors[1] < 0.6 * errors[0]


def test_with_known_noise_the_cost_of_what_points_miss_is_reported(few_points):
    rng, t = np.random.RandomState(0), np.arange(1000.0)[:, None]
    f = np.linalg.cholesky(Matern(5.0, nu=0.5)(t)) @ rng.standard_normal(1000)
    model = SparseGPRegressor("matern12", **QUICK)
    with pytest.warns(ConvergenceWarning, match="too few: the variance of f that they leave"):
        model.fit(t, f + 0.2 * rng.standard_normal(1000), noise_variance=0.04)
    assert model.cost_per_row_ > 0.1


def test_enough_points_or_a_number_of_the_user_are_not_reported(few_points):
    X, y, _ = fast_and_slow(600, 10.0)
    assert warnings_of(SparseGPRegressor(**QUICK), X, y) == []
    X, y, _ = fast_and_slow(3000, 35.0)
    assert warnings_of(SparseGPRegressor(n_inducing=200, **QUICK), X, y) == []


def test_points_that_explain_all_are_not_too_few():
    """A kernel without interactions leaves correlated residuals, but needs no more points."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (600, 2))
    y = np.sin(X[:, 0]) + 0.15 * X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(600)
    model = SparseGPRegressor(MainEffects([1.0, 1.0], [1.0, 1.0]))
    assert not [text for text in warnings_of(model, X, y) if "too few" in text]
    assert model.cost_per_row_ < 1e-4
