"""Start values of periods, what a fit learns from them, and what it says of a wrong period."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.kernels.period_starts import function_starts
from sparsegpc._estimators.learning import problem_fit
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


def nights(rng, n_rows=200, n_nights=100):
    """Return times within some nights, of which each lasts four tenths of a day."""
    return np.sort(np.floor(rng.uniform(0.0, n_nights, n_rows)) + rng.uniform(0.0, 0.4, n_rows))


@pytest.mark.parametrize(
    ("start", "bounds"), [(1.0, (1e-5, 1e5)), (0.3, (0.2, 0.5)), (0.3103, (0.307, 0.313))]
)
def test_a_period_far_below_the_distances_of_irregular_times_is_learned(start, bounds):
    rng = np.random.RandomState(0)
    t = nights(rng)
    y = np.sin(2.0 * np.pi * t / 0.31) + 0.3 * rng.normal(size=200)
    model = SparseGPRegressor(periodic(start, bounds)).fit(t[:, None], y)
    assert abs(model.kernel_.k2.periodicity - 0.31) < 1e-4


def test_a_weak_signal_of_many_rows_is_learned():
    """Two hundred rows do not show it, and with little noise at first the search would leave it."""
    rng = np.random.RandomState(0)
    t = nights(rng, 2000, 700)
    y = 0.4 * np.sin(2.0 * np.pi * t / 3.7) + rng.normal(size=2000)
    found = SparseGPRegressor(periodic()).fit(t[:, None], y)
    told = SparseGPRegressor(periodic(3.7, (3.68, 3.72))).fit(t[:, None], y)
    assert found.lower_bound_ > told.lower_bound_ - 1.0


def test_kernels_within_different_limits_get_the_strongest_periods_within_them(rng):
    t = rng.uniform(0.0, 60.0, 200)
    y = np.sin(2.0 * np.pi * t) + 0.5 * np.sin(2.0 * np.pi * t / 7.0) + 0.2 * rng.normal(size=200)
    kernel = periodic(0.9, (0.8, 1.2)) + periodic(6.0, (5.0, 9.0))
    model = SparseGPRegressor(kernel, hyperparameters="best").fit(t[:, None], y)
    found = [model.kernel_.k1.k2.periodicity, model.kernel_.k2.k2.periodicity]
    np.testing.assert_allclose(found, [1.0, 7.0], rtol=0.01)


def starts_of(kernel, t, y):
    """Return the hyperparameters, the start values, and those with periods."""
    seen = []

    def recorded(problem):
        found = function_starts(problem)
        seen.append((problem.hyperparameters, *found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem_fit, "function_starts", recorded)
        SparseGPRegressor(kernel, max_iter=1).fit(t[:, None], y)
    return seen[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_starts_have_the_period_of_the_signal_and_its_variances():
    rng = np.random.RandomState(0)
    t = rng.uniform(0.0, 100.0, 400)
    y = np.sqrt(0.4) * np.sin(2.0 * np.pi * t / 7.0) + np.sqrt(0.8) * rng.normal(size=400)
    for start, own in ((1.0, 7.0), (2.0, 2.0)):
        hyperparameters, values, periodic_starts = starts_of(periodic(start), t, y)
        assert hyperparameters.names[2] == "k2__periodicity"
        assert np.exp(values[0][2]) == pytest.approx(own, rel=0.01)
        assert np.exp([theta[2] for theta in values[1:]]) == pytest.approx(7.0, rel=0.01)
        variance, _, _, noise = np.exp(periodic_starts[0])
        # Of the variance of y, a fifth is that of the signal.
        assert variance / noise == pytest.approx(0.2 / 0.8, rel=0.3)
