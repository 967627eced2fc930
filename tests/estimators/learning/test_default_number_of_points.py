"""``n_inducing=None``: 200 points. Where these are too few, there are more, which may move."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Matern

from sparsegpc import (
    HomoscedasticNoise,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
)
from sparsegpc._core.diagnostics import verdicts
from sparsegpc._core.learning import default_points, more_points
from sparsegpc._estimators.improvements import after_search
from sparsegpc._estimators.learning import point_selection
from sparsegpc.displays import SparsityDisplay
from tests.estimators.simple_kernel import SIMPLE

# Hyperparameters at which 200 points are too few for these rows.
SHORT = {"kernel": 2.0 * RBF(0.06), "optimizer": None}


def rough(n, seed=0):
    """A function of two columns for which 200 points are too few."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(12.0 * X[:, 0]) + np.sin(12.0 * X[:, 1]) + 0.1 * rng.randn(n)


def test_a_rough_function_gets_more_points_and_is_learned_better():
    X, y = rough(600)
    train, test = (X[:300], y[:300]), (X[300:], y[300:])
    default = SparseGPRegressor("rbf", **SIMPLE).fit(*train)
    few = SparseGPRegressor("rbf", n_inducing=200, **SIMPLE).fit(*train)
    assert len(few.inducing_points_) == 200
    assert 200 < len(default.inducing_points_) <= 300
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


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_points_that_are_nearly_enough_are_doubled(share, monkeypatch):
    X, y = make_friedman1(600, 5, noise=0.5, random_state=0)
    few = SparseGPRegressor("rbf", n_inducing=200, **SIMPLE).fit(X, y)
    assert 0.0 < few.cost_per_row_ < verdicts.HIGH_COST_PER_ROW
    monkeypatch.setattr(after_search, "SMALL_COST_PER_ROW", share * few.cost_per_row_)
    default = SparseGPRegressor("rbf", **SIMPLE).fit(X, y)
    if share > 1.0:
        assert default.lower_bound_ == few.lower_bound_
        return
    assert 200 < len(default.inducing_points_) <= 400
    assert default.lower_bound_ > few.lower_bound_
    # A warm start has them already.
    calls, fit_with_more = [], after_search.fit_with_more_points
    monkeypatch.setattr(
        after_search, "fit_with_more_points", lambda *args: calls.append(0) or fit_with_more(*args)
    )
    clone(default).fit(X, y)
    assert len(calls) == 1
    default.set_params(warm_start=True).fit(X, y)
    assert len(calls) == 1


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


def test_the_budget_is_shared_by_outputs(monkeypatch):
    affordable_points = default_points.affordable_points

    def affordable(n_rows, n_functions, cost_rows):
        """Return what a budget of 2000 rows affords, of which there are 500."""
        assert (n_rows, cost_rows) == (500, default_points.FULL_COST_ROWS)
        return affordable_points(n_rows, n_functions, 2000)

    monkeypatch.setattr(default_points, "affordable_points", affordable)
    X, y = rough(500)
    Y = np.column_stack([y, y[::-1]])
    one, two = (SparseGPRegressor(**SHORT).fit(X, targets) for targets in (y, Y))
    assert len(one.inducing_points_) > len(two.inducing_points_) > 200
    assert len(two.inducing_points_) == pytest.approx(200 * np.sqrt(2000 / 1000), abs=1.0)


@pytest.mark.parametrize(("n_affordable", "n_points"), [(170, 170), (250, 300)])
def test_all_rows_are_points_if_nearly_as_many_are_affordable(n_affordable, n_points, monkeypatch):
    for module in (point_selection, default_points):
        monkeypatch.setattr(module, "FIRST_POINTS", 100)
    monkeypatch.setattr(default_points, "affordable_points", lambda *numbers: n_affordable)
    X, y = rough(300)
    fitted = SparseGPRegressor(optimize_inducing=False, **SHORT).fit(X, y)
    assert len(fitted.inducing_points_) == n_points


def test_a_warm_start_keeps_the_points():
    X, y = rough(300)
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
    X, y = rough(350)
    fitted = SparseGPClassifier(**SHORT).fit(X, y > 0.0)
    assert len(fitted.inducing_points_) > 200
    counts = np.random.RandomState(0).poisson(np.exp(2.0 + y))
    model = SparseGPGeneralizedRegressor(**SHORT).fit(X, counts)
    assert len(model.inducing_points_) > 200


@pytest.fixture
def few_points(monkeypatch):
    """Fits begin with 20 points, and 30 are the most that they can afford."""
    for module in (point_selection, default_points):
        monkeypatch.setattr(module, "FIRST_POINTS", 20)
    monkeypatch.setattr(default_points, "affordable_points", lambda *numbers: 30)


def wavy(n, seed=0):
    """A function of two columns for which 30 points are too few."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + np.sin(3.0 * X[:, 1]) + 0.1 * rng.randn(n)


def test_points_that_are_still_too_few_move(few_points):
    X, y = wavy(300)
    train, test = (X[:200], y[:200]), (X[200:], y[200:])
    moved, still = (
        SparseGPRegressor(optimize_inducing=moves, **SIMPLE).fit(*train)
        for moves in ("auto", False)
    )
    assert len(moved.inducing_points_) == len(still.inducing_points_) == 30
    assert moved.inducing_moved_
    assert moved.inducing_indices_ is None
    assert not still.inducing_moved_
    assert moved.lower_bound_ > still.lower_bound_ + 10.0
    assert moved.score(*test) > still.score(*test)
    sizes = moved.history_["n_inducing"]
    assert sizes[-1] == 30
    assert moved.n_evaluations_ <= still.n_evaluations_ + 2 * more_points.MOST_MOVES


def test_points_that_suffice_do_not_move(few_points):
    X, y = wavy(300)
    noise = y - np.sin(3.0 * X[:, 0]) - np.sin(3.0 * X[:, 1])
    smooth = SparseGPRegressor(**SIMPLE).fit(X, X[:, 0] + noise)
    assert not smooth.inducing_moved_
    assert len(smooth.inducing_points_) <= 20


@pytest.mark.parametrize(
    "options",
    [
        {"n_inducing": 20},
        {"selector": "rpcholesky"},
        {"selector": wavy(20, 1)[0]},
        {"optimizer": None, "kernel": RBF(0.1)},
        {"kernel": Matern(0.3, nu=3.5)},
    ],
    ids=["number", "method", "points", "no learning", "no derivatives"],
)
def test_points_stay_where_the_user_has_a_say(few_points, options):
    X, y = wavy(300)
    model = SparseGPRegressor(**{**SIMPLE, "max_iter": 5, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert not model.inducing_moved_
    assert model.cost_per_row_ > 0.005


def test_points_of_labels_and_of_counts_move(few_points):
    X, y = wavy(200)
    labels = SparseGPClassifier(likelihood="bernoulli-logit", **SIMPLE).fit(X, y > 0.0)
    assert labels.inducing_moved_
    counts = np.random.RandomState(0).poisson(np.exp(2.0 + y))
    assert SparseGPGeneralizedRegressor(**SIMPLE).fit(X, counts).inducing_moved_


def test_a_warm_start_goes_on_from_moved_points(few_points):
    X, y = wavy(300)
    model = SparseGPRegressor(warm_start=True, **SIMPLE).fit(X, y)
    bound = model.lower_bound_
    model.fit(X, y)
    assert model.inducing_moved_
    assert model.lower_bound_ > bound - 0.1


def test_moved_points_are_refused_where_their_order_counts(few_points):
    X, y = wavy(300)
    model = SparseGPRegressor(**SIMPLE).fit(X, y)
    with pytest.raises(ValueError, match="were moved together"):
        SparsityDisplay.from_estimator(model, X, y)


def test_a_model_for_each_class_lists_whether_its_points_moved(few_points):
    X, y = wavy(150)
    labels = np.digitize(y, [-0.7, 0.7])
    model = SparseGPClassifier(likelihood="polya-gamma", max_iter=10, **SIMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, labels)
    assert len(model.inducing_moved_) == 3
    assert any(model.inducing_moved_)


def spiky(n_samples, seed):
    """Return rows, and exact targets that vary too fast for half as many points."""
    X = np.random.RandomState(seed).uniform(-1.0, 1.0, (n_samples, 3))
    return X, np.sin(9.0 * X[:, 0] * X[:, 1]) + np.cos(8.0 * X[:, 2] + X[:, 0])


# Noise that is known to be too large leaves correlated residuals.
@pytest.mark.filterwarnings(
    "ignore:residuals of neighbouring:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("per_row", [False, True])
def test_without_noise_learning_begins_with_a_point_at_every_row(per_row):
    X, y = spiky(300, 0)
    exact = HomoscedasticNoise(1e-9, "fixed")
    model = SparseGPRegressor(**({} if per_row else {"noise": exact}))
    rows = {"noise_variance": np.full(300, 1e-9)} if per_row else {}
    model.fit(X, y, **rows)
    assert (model.history_["n_inducing"] > 200).any()
    all_points = clone(model).set_params(n_inducing=300).fit(X, y, **rows)
    reached, best = (each.lower_bound_ + each.log_prior_ for each in (model, all_points))
    assert reached > best - 1.0
    # Known noise that is as large as the targets allows fewer points.
    noisy = SparseGPRegressor("rbf", noise=HomoscedasticNoise(y.var(), "fixed")).fit(X, y)
    assert noisy.history_["n_inducing"].max() <= 200
