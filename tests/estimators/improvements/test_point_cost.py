"""The cost of an inducing point, and the gains of points, in all estimators."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    HomoscedasticNoise,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
)
from sparsegpc.displays import SparsityDisplay
from tests.estimators import many_classes

KERNEL = ConstantKernel(1.0) * RBF(1.2)
OPTIONS = {"kernel": KERNEL, "n_inducing": 30, "selection_tol": 0.0, "optimizer": None}
REGRESSOR = SparseGPRegressor(**OPTIONS, noise=HomoscedasticNoise(0.1))
LEARNING = SparseGPRegressor("rbf", n_inducing=30, selection_tol=0.0, main_effects=False)


@pytest.fixture(scope="module")
def waves():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (120, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.randn(120)


def counts(waves):
    X, f = waves
    return X, np.random.RandomState(1).poisson(np.exp(f + 0.5)).astype(float)


def labels(waves):
    X, f = waves
    return X, (f > 0.0).astype(int)


def classes(waves):
    X, f = waves
    return X, np.digitize(f, [-0.5, 0.5])


def targets(waves):
    return waves


def two_outputs(waves):
    X, y = waves
    return X, np.c_[y, X @ [0.5, -0.5] + 0.3 * np.random.RandomState(2).randn(len(y))]


CASES = {
    "regressor": (REGRESSOR, targets),
    "grown": (clone(REGRESSOR).set_params(n_inducing="auto"), targets),
    "noise process": (SparseGPRegressor(**OPTIONS, noise="gp"), targets),
    "outputs": (REGRESSOR, two_outputs),
    "k-means": (clone(REGRESSOR).set_params(selector="kmeans"), targets),
    "labels": (SparseGPClassifier(**OPTIONS, selector="rpcholesky"), labels),
    "classes": (SparseGPClassifier(**OPTIONS), classes),
    "counts": (SparseGPGeneralizedRegressor(**OPTIONS, likelihood="poisson"), counts),
}
# The gains of these hold the sites.
APPROXIMATE = "labels", "classes", "counts"


@pytest.mark.parametrize("name", CASES)
def test_points_that_gain_less_than_the_cost_are_removed(name, waves):
    model, data = CASES[name]
    X, y = data(waves)
    whole = clone(model).fit(X, y)
    found = clone(model).set_params(point_cost=1.0).fit(X, y)
    n_points, n_before = len(found.inducing_points_), len(whole.inducing_points_)
    assert 1 < n_points < n_before
    assert whole.lower_bound_ - found.lower_bound_ < n_before - n_points
    assert_array_equal(found._theta, whole._theta)
    gains = found.point_gains(X, y)
    assert gains.shape == (n_points,)
    tolerance = 0.1 if name in APPROXIMATE else 1e-6
    assert gains.min() >= 1.0 - tolerance
    assert whole.point_gains(X, y).min() < 1.0
    assert found.lower_bounds_[-1] == pytest.approx(found.lower_bound_)
    assert found.history_["n_inducing"][-1] == n_points
    if found.inducing_indices_ is not None:
        assert_array_equal(found.inducing_points_, X[found.inducing_indices_])
    # The first points are worth more than others.
    first = found.truncate(n_points - 1, X, y).lower_bound_
    tolerance = 0.3 if name in APPROXIMATE else 1e-3
    assert found.lower_bound_ - first == pytest.approx(gains[-1], abs=tolerance)
    assert gains[-1] < gains.min() + tolerance


def test_gains_are_those_of_models_with_other_points(waves):
    """Of points, and of candidates; in the units of y, whose bound is shifted by a constant."""
    X, y = waves
    y = 100.0 * y + 40.0
    weight = np.random.RandomState(2).uniform(0.5, 1.5, len(X))
    Z, new = X[:10], np.array([[0.1, 0.2], [2.0, -1.0], [9.0, 9.0]])

    def at(points):
        return clone(REGRESSOR).set_params(selector=points, normalize_y=True).fit(X, y, weight)

    def bound(points):
        return at(points).lower_bound_

    model = at(Z)
    expected = [model.lower_bound_ - bound(np.delete(Z, i, axis=0)) for i in range(len(Z))]
    assert_allclose(model.point_gains(X, y, weight), expected, rtol=1e-7)
    expected = [bound(np.vstack([Z, z])) - model.lower_bound_ for z in new]
    found = model.point_gains(X, y, weight, candidates=new)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    assert found[:2].min() > found[2]


def test_columns_of_candidates_are_those_of_fit(waves):
    X, y = waves
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = clone(REGRESSOR).fit(frame, y)
    expected = model.point_gains(frame, y, candidates=frame[:5])
    assert_allclose(expected, clone(REGRESSOR).fit(X, y).point_gains(X, y, candidates=X[:5]))
    with pytest.raises(ValueError, match="feature names"):
        model.point_gains(frame, y, candidates=frame[["b", "a"]][:5])


def test_a_higher_cost_leaves_fewer_points(waves):
    X, y = waves
    sizes = [
        len(clone(REGRESSOR).set_params(point_cost=cost).fit(X, y).inducing_points_)
        for cost in (0.0, 3.0, 10.0, 1e6)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4
    assert (sizes[0], sizes[-1]) == (30, 1)


def test_draws_of_the_hyperparameters_are_those_of_all_points(waves):
    X, y = waves
    model = clone(LEARNING).set_params(hyperparameters="average")
    whole = clone(model).fit(X, y)
    found = model.set_params(point_cost=1.0).fit(X, y)
    assert_array_equal(found.hyperparameter_draws_, whole.hyperparameter_draws_)
    assert_array_equal(found.hyperparameter_weights_, whole.hyperparameter_weights_)
    for component in found._mixture:
        assert_array_equal(component.posteriors[0].Z, found.inducing_points_)
    assert_allclose(found.predict(X), whole.predict(X), atol=0.1)


def test_each_class_has_the_points_that_it_is_worth():
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood="polya-gamma", point_cost=0.5).fit(X, y)
    for k, part in enumerate(model.estimators_):
        assert part.point_gains(X, (y == k).astype(int)).min() >= 0.4
        assert_array_equal(model.inducing_points_[k], part.inducing_points_)
    with pytest.raises(ValueError, match="point_gains takes one model, but this classifier has 3"):
        model.point_gains(X, y)


def test_a_warm_start_chooses_points_again(waves):
    """Fewer points would lead to other hyperparameters."""
    X, y = waves
    model = clone(LEARNING).set_params(point_cost=1.0, warm_start=True).fit(X, y)
    first = model.lower_bound_
    model.fit(X, y)
    assert model.history_["n_inducing"][0] == 30
    assert model.lower_bound_ == pytest.approx(first, abs=1.0)


def test_a_callback_may_stop_the_removal(waves):
    X, y = waves
    steps = []
    whole = clone(REGRESSOR).set_params(callback=steps.append).fit(X, y)
    n_steps = len(steps)
    stopping = clone(REGRESSOR).set_params(
        point_cost=1.0, callback=lambda step: step.iteration >= n_steps
    )
    with pytest.warns(match="the callback asked to stop"):
        stopping.fit(X, y)
    assert not stopping.converged_
    assert len(stopping.inducing_points_) < len(whole.inducing_points_)
    assert np.isfinite(stopping.predict(X)).all()


def test_points_by_worth_can_be_drawn_even_if_they_are_no_rows(waves):
    X, y = waves
    model = clone(REGRESSOR).set_params(selector="kmeans")
    with pytest.raises(ValueError, match="centres of k-means"):
        SparsityDisplay.from_estimator(clone(model).fit(X, y), X, y)
    model.set_params(point_cost=0.5).fit(X, y)
    display = SparsityDisplay.from_estimator(model, X, y)
    assert (np.diff(display.lower_bound) > 0.0).all()
    assert display.n_inducing[-1] == len(model.inducing_points_)


def test_the_removal_is_reported(waves, capsys):
    X, y = waves
    model = clone(REGRESSOR).set_params(point_cost=1.0, verbose=1).fit(X, y)
    last = capsys.readouterr().out.splitlines()[-1]
    expected = f"{len(model.inducing_points_)} of 30 points gain at least 1 nats, bound "
    assert expected + f"{model.lower_bound_:.4f}" in last
