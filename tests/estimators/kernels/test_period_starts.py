"""Start values of periods, what a fit learns from them, and what it says of a wrong period."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc.kernels import Columns


def waves(t, period):
    return 2.0 * np.sin(2.0 * np.pi * t / period) + 0.5 * np.cos(4.0 * np.pi * t / period)


def periodic(period=1.0, bounds=(1e-5, 1e5)):
    return 1.0 * ExpSineSquared(1.0, period, periodicity_bounds=bounds)


def data(seed, period=3.0):
    rng = np.random.RandomState(seed)
    t = np.sort(rng.uniform(0.0, 12.0, 120))
    return t, waves(t, period) + 0.2 * t + 0.3 * rng.normal(size=120)


@pytest.mark.parametrize("period", [0.4, 3.0])
def test_a_period_beside_a_trend_is_learned(period):
    t, y = data(7, period)
    found = SparseGPRegressor(periodic() + 1.0 * DotProduct()).fit(t[:, None], y)
    told = SparseGPRegressor(periodic(period) + 1.0 * DotProduct()).fit(t[:, None], y)
    assert found.lower_bound_ > told.lower_bound_ - 0.5


@pytest.mark.parametrize("start", [6.5, 7.0])
def test_two_readings_each_day_do_not_suggest_periods_below_a_day(start):
    rng = np.random.RandomState(0)
    t = np.repeat(np.arange(100.0), 2) + np.tile([0.0, 1e-6], 100)
    y = np.sin(2.0 * np.pi * t / 7.0) + 0.3 * rng.normal(size=200)
    learned = SparseGPRegressor(periodic(start)).fit(t[:, None], y).kernel_.k2.periodicity
    assert abs(learned - 7.0) < 0.05


def test_a_period_of_labels_is_learned(rng):
    t = rng.uniform(0.0, 12.0, 200)
    y = rng.uniform(size=200) < 1.0 / (1.0 + np.exp(-1.5 * waves(t, 3.0)))
    found = SparseGPClassifier(periodic()).fit(t[:, None], y)
    told = SparseGPClassifier(periodic(3.0)).fit(t[:, None], y)
    assert found.lower_bound_ > told.lower_bound_ - 0.5


def test_a_period_of_one_of_several_columns_is_learned():
    (t, y), rng = data(0), np.random.RandomState(0)
    X = np.column_stack([rng.normal(size=120), t])
    kernel = Columns(periodic(), [1]) + 1.0 * RBF([1.0, 10.0])
    learned = SparseGPRegressor(kernel).fit(X, y).kernel_.k1.kernel.k2.periodicity
    assert abs(learned - 3.0) < 0.1


def test_more_restarts_never_lower_the_bound():
    t, y = data(5)
    kernel = periodic(bounds="fixed") + 1.0 * RBF(5.0)
    plain, more = (
        SparseGPRegressor(kernel, n_restarts_optimizer=n, random_state=0).fit(t[:, None], y)
        for n in (0, 2)
    )
    assert more.lower_bound_ >= plain.lower_bound_ - 1e-3


def test_a_wrong_period_warns_of_correlated_residuals():
    t, y = data(5)
    model = SparseGPRegressor(periodic(bounds="fixed") + DotProduct(1.0, "fixed"))
    with pytest.warns(ConvergenceWarning, match="residuals of neighbouring rows are correlated"):
        model.fit(t[:, None], y)


@pytest.mark.parametrize("seed", [12, 19])
def test_an_offset_that_the_prior_mean_takes_over_does_not_warn(seed):
    t, y = data(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseGPRegressor(periodic() + 1.0 * DotProduct(1e-5)).fit(t[:, None], y)
    assert model.kernel_.k2.k2.sigma_0 < 1e-4
