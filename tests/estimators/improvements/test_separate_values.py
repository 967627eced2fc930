"""The values of a column get separate effects where that has the higher bound."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators import whole_fit
from sparsegpc.kernels import MainEffects
from tests.estimators.messages.watched_fits import StopAt

DAYS, ROWS_PER_DAY = 25, 8
# The entry of theta that is the length scale of the effect of the day, and a value of it at which
# neighbouring days share their effects.
DAY, SHARED = 0, np.log(3.0)
KERNEL = MainEffects([1.0, 1.0], [0.3, 2.0])
ONE_STEP = {"max_iter": 1, "max_reselections": 0, "n_inducing": 40, "selection_tol": 0.0}


def rows(seed):
    """Return rows of a day and a number, and f with an independent effect of each day."""
    rng = np.random.RandomState(seed)
    day = np.repeat(np.arange(DAYS), ROWS_PER_DAY)
    X = np.column_stack([day.astype(float), rng.standard_normal(len(day))])
    return X, 1.5 * rng.standard_normal(DAYS)[day] + X[:, 1], rng


def gain_from_shared(monkeypatch, model, X, y):
    """Fit a model as if the search had ended at a shared effect; return its gain from there on."""
    with_separate_values, reached = whole_fit.with_separate_values, []

    def from_shared(fitted):
        best = fitted.result.best
        theta = best.theta.copy()
        theta[DAY] = SHARED
        shared = fitted.problem.model.solve(theta, best.points, best.states)
        reached.append(shared.objective)
        return with_separate_values(fitted._replace(result=fitted.result._replace(best=shared)))

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        patch.setattr(whole_fit, "with_separate_values", from_shared)
        model.fit(X, y)
    assert model.history_["lower_bound"][-1] == model.lower_bound_
    return model.lower_bound_ + model.log_prior_ - reached[0]


def test_labels_have_separate_effects(monkeypatch):
    X, f, rng = rows(0)
    y = rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-2.0 * f))
    model = SparseGPClassifier(KERNEL, **ONE_STEP)
    assert gain_from_shared(monkeypatch, model, X, y) > 5.0


def test_labels_with_a_smooth_effect_lose_nothing(monkeypatch):
    X, _, rng = rows(0)
    y = rng.uniform(size=len(X)) < 1.0 / (1.0 + np.exp(-5.0 * np.sin(X[:, 0] / 6.0)))
    model = SparseGPClassifier(KERNEL, **ONE_STEP)
    assert gain_from_shared(monkeypatch, model, X, y) == pytest.approx(0.0, abs=1e-6)
    assert model.kernel_.length_scale[0] == pytest.approx(np.exp(SHARED))


def noisy_numbers():
    X, f, rng = rows(0)
    return X, f + 0.3 * rng.standard_normal(len(f))


def test_a_number_of_points_that_grows_is_certified_for_what_was_learned(monkeypatch):
    X, y = noisy_numbers()
    model = SparseGPRegressor(KERNEL, **{**ONE_STEP, "n_inducing": "auto"})
    assert gain_from_shared(monkeypatch, model, X, y) > 10.0
    last = model.growth_[-1]
    assert last["gap_per_row"] <= model.certificate_tol
    assert abs(last["lower_bound"] - model.lower_bound_) <= model.certificate_tol * len(y)


def test_points_that_are_to_move_are_moved(monkeypatch):
    X, y = noisy_numbers()
    model = SparseGPRegressor(KERNEL, optimize_inducing=True, **{**ONE_STEP, "n_inducing": 20})
    assert gain_from_shared(monkeypatch, model, X, y) > 10.0
    assert model.inducing_moved_


@pytest.mark.filterwarnings(
    "ignore:the bound still rises where:sklearn.exceptions.ConvergenceWarning"
)
def test_the_limits_of_a_kernel_hold():
    X, f, _ = rows(0)
    kernel = MainEffects([1.0, 1.0], [3.0, 2.0], length_scale_bounds=(1.0, 10.0))
    model = SparseGPRegressor(kernel, n_inducing=40).fit(X, f)
    assert model.kernel_.length_scale.min() >= 1.0


def test_a_smooth_effect_stays_as_it_was_learned():
    X, _, rng = rows(0)
    y = np.sin(X[:, 0] / 8.0) + 0.1 * rng.standard_normal(len(X))
    model = SparseGPRegressor("rbf", main_effects=True, n_inducing=40).fit(X, y)
    assert model.kernel_.k2.length_scale[0] > 5.0


def test_deviations_of_single_rows_are_noise():
    y = np.random.RandomState(0).standard_normal(100)
    kernel = MainEffects(1.0, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparseGPRegressor(kernel, **ONE_STEP).fit(np.arange(100.0)[:, None], y)
    assert model.noise_variance_ > 0.3


def test_a_certificate_does_not_hide_more_values_than_few_rows_have():
    rng = np.random.RandomState(0)
    day = np.repeat(np.arange(260), 3)
    X = np.column_stack([day.astype(float), rng.standard_normal(len(day))])
    y = 1.5 * rng.standard_normal(260)[day] + X[:, 1] + 0.3 * rng.standard_normal(len(day))
    model = SparseGPRegressor("rbf", n_inducing="auto").fit(X, y)
    # Without the effects of the days the noise has a deviation of 1.4.
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.3, abs=0.06)
    assert len(model.inducing_points_) > 200
    sizes = [step["n_inducing"] for step in model.growth_]
    assert sizes[0] < sizes[1]
    assert model.growth_end_ == "certified"


def test_a_fit_that_grows_is_stopped_at_each_of_its_last_evaluations(monkeypatch):
    X, y = noisy_numbers()
    model = SparseGPRegressor(KERNEL, **{**ONE_STEP, "n_inducing": "auto"})
    gain_from_shared(monkeypatch, model, X, y)
    assert model.growth_end_ == "certified"
    n_evaluations = model.n_evaluations_
    for last in range(n_evaluations - 4, n_evaluations):
        model.set_params(callback=StopAt(last))
        gain_from_shared(monkeypatch, model, X, y)
        assert model.growth_end_ == "stopped"
