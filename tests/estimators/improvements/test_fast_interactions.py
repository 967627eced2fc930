"""A column interacts as fast as it has to, wherever a search has ended."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators import whole_fit
from sparsegpc._estimators.improvements import effect_trials
from sparsegpc._estimators.improvements.after_search import with_search_from
from sparsegpc.kernels import MainEffects
from tests.estimators.messages.watched_fits import StopAt

# Quick fits stop early; that is said elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

DAYS = 40
# The entries of theta that are the length scales of the day, in the interaction and its effect.
KERNEL = 1.0 * RBF([10.0, 2.0], (1e-2, 1e4)) + MainEffects([1.0, 1.0], [0.5, 1.0])
DAY, EFFECT, SLOW = 1, 3, np.log(80.0)
# Learns next to nothing, so that the trials decide.
ONE_STEP = {"n_inducing": 60, "max_iter": 1, "max_reselections": 0}


def rows(seed, n=240):
    """Return rows of a day and a number whose slope changes within days, and f."""
    rng = np.random.RandomState(seed)
    day, x = rng.randint(DAYS, size=n), rng.uniform(-2.0, 2.0, n)
    slope = 2.0 * np.sin(np.arange(DAYS) / 3.0)
    f = rng.standard_normal(DAYS)[day] + slope[day] * x
    return np.column_stack([day.astype(float), x]), f, rng


def objective(model):
    return model.lower_bound_ + model.log_prior_


def fit_from_slow(monkeypatch, model, X, y):
    """Fit a model as if the search had ended at a slow interaction; return its objective there.

    The days have independent effects.
    """
    with_fast_interactions, reached = whole_fit.with_fast_interactions, []

    def from_slow(fitted):
        problem, theta = fitted.problem, fitted.result.best.theta.copy()
        theta[DAY], theta[EFFECT] = SLOW, np.log(0.4)
        best = fitted.result.best
        slow = problem.model.solve(theta, best.points, best.states)
        reached.append(slow.objective)
        return with_fast_interactions(fitted._replace(result=fitted.result._replace(best=slow)))

    with monkeypatch.context() as patch:
        patch.setattr(whole_fit, "with_fast_interactions", from_slow)
        model.fit(X, y)
    assert model.history_["lower_bound"][-1] == model.lower_bound_
    return reached[0]


@pytest.mark.parametrize(
    "parameters",
    [{}, {"n_inducing": "auto"}, {"optimize_inducing": True}, {"selector": "uniform"}],
    ids=["number", "auto", "moved", "uniform"],
)
def test_a_regression_leaves_a_slow_interaction(parameters, monkeypatch):
    X, f, rng = rows(0)
    y = f + 0.3 * rng.standard_normal(len(f))
    model = SparseGPRegressor(KERNEL, **{**ONE_STEP, **parameters})
    reached = fit_from_slow(monkeypatch, model, X, y)
    assert objective(model) > reached + 50.0
    assert model.kernel_.k1.k2.length_scale[0] < 15.0


def test_a_trial_that_fails_leaves_the_others(monkeypatch):
    """The first is at the slow interaction itself, the second at a quarter of its length scale."""
    evaluate_problem, tried = effect_trials.evaluate_problem, []

    def failing(problem, selector, theta, states):
        tried.append(theta[DAY])
        if len(tried) == 2:
            raise np.linalg.LinAlgError("not positive definite")
        return evaluate_problem(problem, selector, theta, states)

    monkeypatch.setattr(effect_trials, "evaluate_problem", failing)
    X, f, rng = rows(0)
    y = f + 0.3 * rng.standard_normal(len(f))
    model = SparseGPRegressor(KERNEL, **ONE_STEP)
    reached = fit_from_slow(monkeypatch, model, X, y)
    np.testing.assert_allclose(tried[:3], SLOW - np.log([1.0, 4.0, 16.0]))
    assert objective(model) > reached + 50.0


def test_a_classification_leaves_a_slow_interaction(monkeypatch):
    X, f, rng = rows(1, 400)
    y = rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-6.0 * f))
    model = SparseGPClassifier(KERNEL, **ONE_STEP)
    reached = fit_from_slow(monkeypatch, model, X, y)
    assert objective(model) > reached + 20.0
    assert model.kernel_.k1.k2.length_scale[0] < 15.0


def end_of_search(monkeypatch, model, X, y):
    """Fit a model, and return its problem, theta and number of evaluations after the search."""
    original, ends = whole_fit.with_fast_interactions, []

    def note(fitted):
        n_evaluations = len(fitted.problem.progress.history()["seconds"])
        ends.append((fitted.problem, fitted.result.best.theta, n_evaluations))
        return original(fitted)

    with monkeypatch.context() as patch:
        patch.setattr(whole_fit, "with_fast_interactions", note)
        model.fit(X, y)
    return ends[0]


def test_only_length_scales_between_that_of_the_effect_and_the_range_are_tried(monkeypatch):
    X, f, _ = rows(0)
    problem, theta, _ = end_of_search(monkeypatch, SparseGPRegressor(KERNEL, **ONE_STEP), X, f)

    def limit(length_scale):
        theta[DAY], theta[EFFECT] = np.log(length_scale), np.log(0.3)
        return effect_trials._shortest_lengths(problem, theta).get(DAY)

    # A quarter of 11 is less than ten times the length scale of the effect.
    assert limit(2.0) is limit(11.0) is limit(400.0) is None
    assert limit(13.0) == limit(100.0) == pytest.approx(np.log(3.0))


def test_a_constant_column_is_not_tried(monkeypatch):
    X, f, _ = rows(0)
    kernel = 1.0 * RBF([10.0, 2.0, 100.0]) + MainEffects([1.0] * 3, [0.5, 1.0, 0.5])
    model = SparseGPRegressor(kernel, **ONE_STEP)
    X = np.column_stack([X, np.ones(len(X))])
    problem, theta, _ = end_of_search(monkeypatch, model, X, f)
    # Those of the day and the constant column.
    interactions, effects = [1, 3], [4, 6]
    theta[interactions], theta[effects] = SLOW, np.log(0.5)
    assert list(effect_trials._shortest_lengths(problem, theta)) == [DAY]


def test_a_fit_that_is_stopped_before_the_trials_is_incomplete(monkeypatch):
    X, _, rng = rows(0, 80)
    f = np.sin(X[:, 0] / 24.0) * X[:, 1] + 0.3 * rng.standard_normal(len(X))
    # Within these bounds there is something to try.
    bounds = [(5.0, 100.0), (0.5, 200.0)]
    kernel = 1.0 * RBF([30.0, 2.0], bounds) + MainEffects(0.1, [0.4, 0.4], "fixed", (0.3, 0.5))
    model = SparseGPRegressor(kernel, n_inducing=20, tol=1e-3)
    *_, n_evaluations = end_of_search(monkeypatch, model, X, f)
    assert model.n_evaluations_ > n_evaluations
    model.set_params(callback=StopAt(n_evaluations - 1))
    with pytest.warns(ConvergenceWarning, match="the callback asked to stop"):
        model.fit(X, f)
    assert model.n_evaluations_ == n_evaluations
    assert not model.converged_


def test_a_search_from_elsewhere_leaves_what_was_learned_unchanged(monkeypatch):
    X, f, _ = rows(0, 150)
    searched = []

    def search_elsewhere(fitted):
        before, theta = fitted.result.hessian.matrix.copy(), fitted.result.best.theta.copy()
        theta[DAY] -= 1.0
        with_search_from(fitted, theta)
        np.testing.assert_array_equal(fitted.result.hessian.matrix, before)
        searched.append(theta)
        return fitted.evaluated_last()

    monkeypatch.setattr(whole_fit, "with_fast_interactions", search_elsewhere)
    SparseGPRegressor(KERNEL, **ONE_STEP).fit(X, f)
    assert searched


def test_a_slow_interaction_stays_as_it_was_learned(monkeypatch):
    X, _, rng = rows(2)
    f = rng.standard_normal(DAYS)[X[:, 0].astype(int)] + np.sin(X[:, 0] / 24.0) * X[:, 1]
    y = f + 0.3 * rng.standard_normal(len(f))
    model = SparseGPRegressor(KERNEL, n_inducing=60, tol=1e-3)
    _, theta, n_evaluations = end_of_search(monkeypatch, model, X, y)
    assert model.n_evaluations_ > n_evaluations
    np.testing.assert_allclose(model.kernel_.theta, theta[: len(model.kernel_.theta)], rtol=1e-12)


@pytest.mark.parametrize("kernel", [KERNEL.k1, KERNEL.k2], ids=["interaction", "effects"])
def test_a_kernel_without_both_parts_has_nothing_to_try(kernel, monkeypatch):
    monkeypatch.setattr(effect_trials, "_better_interactions", None)
    X = rows(0)[0]
    model = SparseGPRegressor(kernel, **ONE_STEP).fit(X, X[:, 1] + np.sin(X[:, 0] / 6.0))
    # A constant function is another reason to try nothing.
    assert model.score(X, X[:, 1] + np.sin(X[:, 0] / 6.0)) > 0.3
