"""A column interacts as fast as it has to, wherever a search has ended."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._core.learning.fit import solve_final
from sparsegpc._estimators import base_sparse_gp
from sparsegpc._estimators.learning import fast_interactions
from sparsegpc.kernels import MainEffects

pytestmark = pytest.mark.filterwarnings(
    "ignore:the bound still rises where:sklearn.exceptions.ConvergenceWarning"
)

DAYS = 100
# The entries of theta that are the length scales of the day, in the interaction and its effect.
KERNEL = 1.0 * RBF([10.0, 2.0], (1e-2, 1e4)) + MainEffects([1.0, 1.0], [0.5, 1.0])
DAY, EFFECT, SLOW = 1, 3, np.log(200.0)


def rows(seed, n=600):
    """Return rows of a day and a number whose slope changes within days, and f."""
    rng = np.random.RandomState(seed)
    day, x = rng.randint(DAYS, size=n), rng.uniform(-2.0, 2.0, n)
    slope = 2.0 * np.sin(np.arange(DAYS) / 3.0)
    f = rng.standard_normal(DAYS)[day] + slope[day] * x
    return np.column_stack([day.astype(float), x]), f, rng


def objective(model):
    return model.lower_bound_ + model.log_prior_


def fit_from_slow(monkeypatch, model, X, y):
    """Fit a model as if the search had ended at a slow interaction; return its objective there."""
    with_fast_interactions, reached = base_sparse_gp.with_fast_interactions, []

    def from_slow(learned):
        problem, theta = learned.problem, learned.result.best.theta.copy()
        theta[DAY] = SLOW
        best = learned.result.best
        slow = solve_final(problem.model, theta, best.points, best.states)
        reached.append(slow.objective)
        return with_fast_interactions(learned._replace(result=learned.result._replace(best=slow)))

    with monkeypatch.context() as patch:
        patch.setattr(base_sparse_gp, "with_fast_interactions", from_slow)
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
    model = SparseGPRegressor(KERNEL, **{"n_inducing": 150, **parameters})
    reached = fit_from_slow(monkeypatch, model, X, y)
    assert objective(model) > reached + 50.0
    assert model.kernel_.k1.k2.length_scale[0] < 20.0


def test_a_classification_leaves_a_slow_interaction(monkeypatch):
    X, f, rng = rows(1, 1000)
    y = rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-6.0 * f))
    model = SparseGPClassifier(KERNEL, n_inducing=150)
    reached = fit_from_slow(monkeypatch, model, X, y)
    assert objective(model) > reached + 20.0
    assert model.kernel_.k1.k2.length_scale[0] < 20.0


def test_a_slow_interaction_stays_as_it_was_learned(monkeypatch):
    X, _, rng = rows(2)
    f = rng.standard_normal(DAYS)[X[:, 0].astype(int)] + np.sin(X[:, 0] / 60.0) * X[:, 1]
    y = f + 0.3 * rng.standard_normal(len(f))
    model = SparseGPRegressor(KERNEL, n_inducing=150).fit(X, y)
    monkeypatch.setattr(base_sparse_gp, "with_fast_interactions", lambda learned: learned)
    without = SparseGPRegressor(KERNEL, n_inducing=150).fit(X, y)
    assert model.kernel_ == without.kernel_
    assert model.lower_bound_ == pytest.approx(without.lower_bound_, abs=1e-6)


def test_only_length_scales_between_that_of_the_effect_and_the_range_are_tried(monkeypatch):
    X, f, _ = rows(0)
    tried = []

    def note(problem, theta):
        for value in (2.0, 4.0, 250.0, 1000.0):
            theta = theta.copy()
            theta[DAY], theta[EFFECT] = np.log(value), np.log(0.3)
            tried.append(fast_interactions._shortest(problem, theta).get(DAY))
        return {}

    model = SparseGPRegressor(KERNEL, n_inducing=50)
    original = base_sparse_gp.with_fast_interactions
    monkeypatch.setattr(
        base_sparse_gp,
        "with_fast_interactions",
        lambda learned: note(learned.problem, learned.result.best.theta) or original(learned),
    )
    model.fit(X, f)
    assert tried[0] is None
    assert tried[1] == tried[2] == pytest.approx(np.log(3.0))
    assert tried[3] is None


@pytest.mark.parametrize("kernel", [KERNEL.k1, KERNEL.k2], ids=["interaction", "effects"])
def test_a_kernel_without_both_parts_has_nothing_to_try(kernel, monkeypatch):
    monkeypatch.setattr(fast_interactions, "_shortened", None)
    X, f, _ = rows(0)
    SparseGPRegressor(kernel, n_inducing=50).fit(X, f)
