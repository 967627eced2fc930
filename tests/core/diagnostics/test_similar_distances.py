"""Distances in single columns within which deviations are alike, against what was put in."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._core.diagnostics.similar_distances import similar_distances
from tests.core.diagnostics.deviating_labels import deviating


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
