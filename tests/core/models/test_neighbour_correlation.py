"""Deviations that are alike in the order of a column, against what was put in."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._core.models.neighbour_correlation import similar_distances
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import learn, make_model


def deviating(f, n=600, last_values=None):
    """Return a model of labels whose log-odds are 2 f(X), and a fit that is nearly constant."""
    rng = np.random.RandomState(0)
    X = rng.uniform(0.0, 10.0, (n, 3))
    if last_values is not None:
        X[:, 2] = rng.randint(last_values, size=n)
    labels = np.where(rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-4.0 * f(X))), 1.0, -1.0)
    model = make_model(X, labels)
    slow = np.array([[-6.0, 0.0], np.log([100.0, 1e3])])
    choose = PivotedSelector("argmax", 20)
    return model, learn(model, [slow.mean(axis=1)], bounds=slow, choose=choose)


@pytest.mark.parametrize("period", [0.5, 2.0])
def test_a_cycle_in_one_column_shows_at_a_sixth_of_its_period(period):
    model, result = deviating(lambda X: np.sin(2.0 * np.pi * X[:, 1] / period))
    distances = similar_distances(model, result.best)
    assert_array_equal(np.isfinite(distances), [False, True, False])
    assert period / 12.0 < distances[1] < period / 3.0


def test_no_distance_is_finite_where_nothing_deviates():
    model, result = deviating(lambda X: np.zeros(len(X)))
    assert not np.isfinite(similar_distances(model, result.best)).any()


def test_a_column_of_few_values_is_not_taken_for_the_column_of_the_cycle():
    model, result = deviating(lambda X: np.sin(4.0 * np.pi * X[:, 0]), last_values=10)
    assert_array_equal(np.isfinite(similar_distances(model, result.best)), [True, False, False])
