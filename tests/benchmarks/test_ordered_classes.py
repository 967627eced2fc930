"""The benchmark of ordered classes: its linear model and its score."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from ordered_classes import ProportionalOdds
from scores import ranked_probability_score
from sklearn.linear_model import LogisticRegression


def rows(n_classes, n=400, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 3)
    f = X @ [1.5, -1.0, 0.0] + rng.logistic(size=n)
    return X, np.digitize(f, np.linspace(-2.0, 2.0, n_classes - 1))


def test_of_two_classes_it_is_logistic_regression():
    X, y = rows(2)
    ours = ProportionalOdds().fit(X, y).predict_proba(X)
    theirs = LogisticRegression(tol=1e-10).fit(X, y).predict_proba(X)
    assert_allclose(ours, theirs, atol=1e-3)


def test_the_linear_model_finds_slopes_and_cut_points():
    X, y = rows(4, n=20_000)
    model = ProportionalOdds().fit(X, y)
    assert_allclose(model._slopes, [1.5, -1.0, 0.0], atol=0.06)
    assert_allclose(model._cut_points, [-2.0, 0.0, 2.0], atol=0.06)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("right", [0, 1, 2])
def test_the_score_of_certain_predictions_is_the_distance(right):
    codes = np.array([right])
    for predicted in range(3):
        score = ranked_probability_score(codes, np.eye(3)[[predicted]])
        assert score == abs(predicted - right)


def test_the_score_of_two_classes_is_that_of_brier():
    rng = np.random.RandomState(1)
    second = rng.uniform(size=50)
    codes = (rng.uniform(size=50) < second).astype(int)
    found = ranked_probability_score(codes, np.column_stack([1.0 - second, second]))
    assert found == pytest.approx(np.mean((second - codes) ** 2))
