"""The values of a column get separate effects where that has the higher bound."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.learning import steps
from sparsegpc.kernels import MainEffects

DAYS, ROWS_PER_DAY = 50, 12
# One step leaves the effect of the day at a length scale of about its start, three days.
ONE_STEP = {"max_iter": 1, "max_reselections": 0, "n_inducing": 80, "selection_tol": 0.0}


def rows(seed):
    """Return rows of a day and a number, and f with an independent effect of each day."""
    rng = np.random.RandomState(seed)
    day = np.repeat(np.arange(DAYS), ROWS_PER_DAY)
    X = np.column_stack([day.astype(float), rng.standard_normal(len(day))])
    return X, 1.5 * rng.standard_normal(DAYS)[day] + X[:, 1], rng


def objective(model):
    return model.lower_bound_ + model.log_prior_


def test_a_fit_is_better_for_it_and_never_worse(monkeypatch):
    gains = []
    for seed in range(3):
        X, f, rng = rows(seed)
        y = rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f))
        model = SparseGPClassifier(MainEffects([1.0, 1.0], [3.0, 2.0]), **ONE_STEP)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            reached = objective(model.fit(X, y))
            assert model.history_["lower_bound"][-1] == model.lower_bound_
            patch.setattr(steps, "with_separate_values", lambda learned: learned)
            gains.append(reached - objective(model.fit(X, y)))
    assert min(gains) > -1e-6
    assert max(gains) > 5.0


def fitted(monkeypatch, seed, **params):
    """Return a model of noisy f, and what it gains by separate values."""
    X, f, rng = rows(seed)
    y = f + 0.3 * rng.standard_normal(len(f))
    model = SparseGPRegressor(MainEffects([1.0, 1.0], [3.0, 2.0]), **{**ONE_STEP, **params})
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reached = objective(model.fit(X, y))
        patch.setattr(steps, "with_separate_values", lambda learned: learned)
        return model, reached - objective(clone(model).fit(X, y))


def test_a_number_of_points_that_grows_is_certified_for_what_was_learned(monkeypatch):
    gains = []
    for seed in range(3):
        model, gain = fitted(monkeypatch, seed, n_inducing="auto")
        gains.append(gain)
        last = model.growth_[-1]
        assert last["gap_per_row"] <= model.certificate_tol
        n_rows = DAYS * ROWS_PER_DAY
        assert abs(last["lower_bound"] - model.lower_bound_) <= model.certificate_tol * n_rows
    assert max(gains) > 10.0


def test_points_that_are_to_move_are_moved(monkeypatch):
    gains = []
    for seed in range(3):
        model, gain = fitted(monkeypatch, seed, n_inducing=60, optimize_inducing=True)
        gains.append(gain)
        assert model.inducing_moved_
    assert max(gains) > 10.0


@pytest.mark.filterwarnings(
    "ignore:the bound still rises where:sklearn.exceptions.ConvergenceWarning"
)
def test_the_limits_of_a_kernel_hold():
    X, f, _ = rows(0)
    kernel = MainEffects([1.0, 1.0], [3.0, 2.0], length_scale_bounds=(1.0, 10.0))
    model = SparseGPRegressor(kernel, n_inducing=80).fit(X, f)
    assert model.kernel_.length_scale.min() >= 1.0


def test_a_smooth_effect_stays_as_it_was_learned():
    X, _, rng = rows(0)
    y = np.sin(X[:, 0] / 8.0) + 0.1 * rng.standard_normal(len(X))
    model = SparseGPRegressor(main_effects=True, n_inducing=80).fit(X, y)
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
    day = np.repeat(np.arange(260), 8)
    X = np.column_stack([day.astype(float), rng.standard_normal((len(day), 2))])
    f = 1.5 * rng.standard_normal(260)[day] + X[:, 1]
    y = f + rng.standard_normal(len(f))
    model = SparseGPRegressor(n_inducing="auto").fit(X, y)
    # Without the effects of the days the noise has a variance of 3.3.
    assert model.noise_variance_ == pytest.approx(1.0, abs=0.15)
    assert len(model.inducing_points_) > 200
    sizes = [step["n_inducing"] for step in model.growth_]
    assert sizes[0] < sizes[1]
    assert model.growth_end_ == "certified"


def test_a_fit_that_grows_is_stopped_at_each_of_its_last_evaluations():
    X, f, rng = rows(0)
    X, y = X[::2], (f + rng.standard_normal(len(f)) > 0.0)[::2]
    model = SparseGPClassifier(n_inducing="auto", main_effects=False)
    n_evaluations = model.fit(X, y).n_evaluations_
    for last in range(n_evaluations - 8, n_evaluations):
        calls = []

        def stop(_, calls=calls, last=last):
            calls.append(None)
            return len(calls) >= last

        with pytest.warns(ConvergenceWarning, match="stopped"):
            model.set_params(callback=stop).fit(X, y)
        assert not model.converged_
        assert model.growth_end_ == "stopped"
