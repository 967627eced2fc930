"""Squared and absolute distances in units of the length scales, and their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.kernels.distances import FAR_SQUARED, AbsoluteDistances, SquaredDistances
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


def indicators(rng, n, n_columns):
    """Return rows of which all columns but the last two are indicators, some of other units."""
    X = rng.standard_normal((n, n_columns + 2))
    X[:, :n_columns] = X[:, :n_columns] > rng.uniform(-1.0, 1.0, n_columns)
    X[:, 1] = 7.0 * X[:, 1] - 3.0
    X[:, 0] = 1.0
    X[:, 2] *= 1e20
    return X


@pytest.mark.parametrize("place", ["at rows", "between", "outside"])
def test_absolute_distances_of_indicators_are_those_of_their_columns(place):
    rng = np.random.RandomState(0)
    X, length_scale = indicators(rng, 50, 6), np.exp(rng.standard_normal(8))
    Z = X[:9] + {"at rows": 0.0, "between": 0.0, "outside": 2.0}[place]
    if place == "between":
        Z[:, 1:6] = X[:, 1:6].mean(axis=0)
    distances = AbsoluteDistances(Z, X, length_scale)
    found = np.empty((9, 50))
    for part in distances.strips:
        distances.write(part, found[part])
    by_column = np.abs(Z[:, None] - X) / length_scale
    assert_allclose(found, by_column.sum(axis=2), rtol=1e-12, atol=1e-12)

    W = rng.standard_normal((9, 50))
    by_length, by_Z = distances.contract([W[part].copy() for part in distances.strips])
    assert_allclose(by_length, -np.einsum("mn,mnd->d", W, by_column), rtol=1e-12)
    signs = np.sign(Z[:, None] - X)
    assert_allclose(by_Z, np.einsum("mn,mnd->md", W, signs), rtol=1e-12, atol=1e-12)
    assert distances.contract([W], wrt_Z=False)[1] is None
