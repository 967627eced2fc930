"""``n_inducing=None``: 200 points, and more where these are too few and further ones are cheap."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import (
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
)
from tests.estimators.simple_kernel import SIMPLE

# Hyperparameters at which 200 points are too few for these rows.
SHORT = {"kernel": 2.0 * RBF(0.06), "optimizer": None}


def rough(n, seed=0):
    """A function of two columns for which 200 points are too few."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(12.0 * X[:, 0]) + np.sin(12.0 * X[:, 1]) + 0.1 * rng.randn(n)


def test_a_rough_function_gets_more_points_and_is_learned_better():
    X, y = rough(800)
    train, test = (X[:400], y[:400]), (X[400:], y[400:])
    default = SparseGPRegressor(**SIMPLE).fit(*train)
    few = SparseGPRegressor(n_inducing=200, **SIMPLE).fit(*train)
    assert len(few.inducing_points_) == 200
    assert 200 < len(default.inducing_points_) <= 400
    assert default.lower_bound_ > few.lower_bound_ + 50.0
    assert default.score(*test) > few.score(*test)
    sizes = default.history_["n_inducing"]
    assert sizes[-1] == len(default.inducing_points_)
    assert (sizes == 200).any()
    assert len(default.lower_bounds_) > len(few.lower_bounds_)


def test_a_smooth_function_keeps_its_points():
    X, y = make_friedman1(500, 5, noise=1.0, random_state=0)
    default, fixed = (SparseGPRegressor(n_inducing=n, **SIMPLE).fit(X, y) for n in (None, 200))
    assert default.cost_per_row_ < 0.005
    assert len(default.inducing_points_) <= 200
    assert default.lower_bound_ == fixed.lower_bound_


@pytest.mark.parametrize(
    ("options", "n_points"),
    [
        ({"n_inducing": 40}, 40),
        ({"selector": InducingPointSelector(n_components=30)}, 30),
        ({"selector": rough(20, 1)[0]}, 20),
        ({"optimize_inducing": True, "optimizer": "bfgs", "max_iter": 3}, 200),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_points_that_are_given_or_move_stay_as_many(options, n_points):
    X, y = rough(600)
    fitted = SparseGPRegressor(**{**SHORT, **options}).fit(X, y)
    assert fitted.cost_per_row_ > 0.005
    assert len(fitted.inducing_points_) == n_points


def test_the_budget_is_shared_by_outputs():
    X, y = rough(1800)
    Y = np.column_stack([y, y[::-1]])
    one, two = (SparseGPRegressor(**SHORT).fit(X, targets) for targets in (y, Y))
    assert len(one.inducing_points_) > len(two.inducing_points_) > 200
    assert len(two.inducing_points_) == pytest.approx(np.sqrt(20_000 * 200**2 / 3600), abs=1.0)


def test_a_warm_start_keeps_the_points():
    X, y = rough(350)
    fitted = SparseGPRegressor(warm_start=True, **SIMPLE).fit(X, y)
    n_points, bound = len(fitted.inducing_points_), fitted.lower_bound_
    n_evaluations = fitted.n_evaluations_
    fitted.fit(X, y)
    assert n_points > 200
    assert len(fitted.inducing_points_) >= n_points
    assert fitted.lower_bound_ > bound - 0.01
    assert fitted.n_evaluations_ < 0.5 * n_evaluations


def test_a_callback_stops_the_fit_with_more_points():
    X, y = rough(500)
    fitted = SparseGPRegressor(callback=lambda step: step.n_inducing > 200, **SIMPLE)
    with pytest.warns(ConvergenceWarning, match="callback"):
        fitted.fit(X, y)
    assert not fitted.converged_
    assert np.isfinite(fitted.predict(X)).all()


def test_labels_and_counts_get_more_points_too():
    X, y = rough(500)
    fitted = SparseGPClassifier(**SHORT).fit(X, y > 0.0)
    assert len(fitted.inducing_points_) > 200
    counts = np.random.RandomState(0).poisson(np.exp(2.0 + y))
    model = SparseGPGeneralizedRegressor(**SHORT).fit(X, counts)
    assert len(model.inducing_points_) > 200
