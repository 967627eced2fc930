"""Squared distances in units of the length scales, and their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.kernels.distances import FAR_SQUARED, SquaredDistances
from tests.core.helpers import central_difference

LENGTHS = np.array([0.5, 2.0, 1.0])


def all_distances(Z, X, lengths, far_squared=FAR_SQUARED):
    """Return the `SquaredDistances` and their values (M, N)."""
    distances, values = SquaredDistances(Z, X, lengths, far_squared), np.empty((len(Z), len(X)))
    for part in distances.strips:
        distances.write(part, values[part])
    return distances, values


def expected(Z, X, lengths):
    return (((Z[:, None] - X) / lengths) ** 2).sum(axis=-1)


@pytest.mark.parametrize("far_squared", [FAR_SQUARED, 0.0, None])
def test_values_are_those_of_the_differences(far_squared, rng):
    # Many rows make several strips.
    Z, X = rng.randn(40, 3), rng.randn(5000, 3)
    distances, values = all_distances(Z, X, LENGTHS, far_squared)
    assert len(distances.strips) > 1
    assert_allclose(values, expected(Z, X, LENGTHS), rtol=1e-10, atol=1e-12)


def test_rows_that_are_far_from_the_centre_keep_their_digits(rng):
    Z, X = rng.randn(6, 3), rng.randn(8, 3)
    Z[0], X[0] = 1e7, 1e7
    X[0] += [1e-3, 0.0, 2e-3]
    _, values = all_distances(Z, X, LENGTHS)
    assert values[0, 0] == pytest.approx(expected(Z, X, LENGTHS)[0, 0], rel=1e-5)


@pytest.mark.parametrize("far_squared", [FAR_SQUARED, 0.0, None])
def test_contraction_is_the_derivative_of_the_weighted_sum(far_squared, rng):
    Z, X = rng.randn(6, 3), rng.randn(9, 3)
    X[2] = Z[1] + 1e-4
    weights = rng.randn(6, 9)
    distances, _ = all_distances(Z, X, LENGTHS, far_squared)
    by_log_length, by_Z = distances.contract(weights[part].copy() for part in distances.strips)

    def of_lengths(log_lengths):
        return float((weights * expected(Z, X, np.exp(log_lengths))).sum())

    def of_points(places):
        return float((weights * expected(places.reshape(Z.shape), X, LENGTHS)).sum())

    assert_allclose(by_log_length, central_difference(of_lengths, np.log(LENGTHS)), rtol=1e-6)
    by_place = central_difference(of_points, Z.ravel()).reshape(Z.shape)
    assert_allclose(by_Z / LENGTHS, by_place, rtol=1e-6, atol=1e-6)
