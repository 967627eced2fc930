"""How far rows lie apart, against all pairs of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.kernels.spread import UNKNOWN, measure_spread
from tests.estimators.kernels.kernel_cases import brute_force_spread, read_only


@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 2**31))
def test_spread_with_weights_is_that_of_repeated_rows(n, d, seed):
    rng = np.random.RandomState(seed)
    # Exact in binary, so that columns of equal entries have no spread in the oracle either.
    X, weight = read_only(rng.randint(-9, 9, size=(n, d)) / 4.0), rng.randint(1, 5, size=n)
    columns, distance = brute_force_spread(np.repeat(X, weight, axis=0))
    spread = measure_spread(X, weight.astype(np.float64))
    varies = np.ptp(X, axis=0) > 0.0
    assert_array_equal(spread.varies, varies)
    expected = np.where(varies, columns, UNKNOWN if varies.any() else 1.0)
    assert_allclose(spread.deviations, expected, rtol=1e-12)
    assert_allclose(spread.distance, distance if varies.any() else 1.0, rtol=1e-12)
    units = [np.unique(column).std() for column in X.T]
    expected = np.where(varies, units, UNKNOWN if varies.any() else 1.0)
    expected[list(spread.unseen)] = 0.5
    assert_allclose(spread.units, expected, rtol=1e-12)


def test_rows_are_typically_a_distance_of_one_apart_in_joint_scales(rng):
    X = np.column_stack([rng.randn(50), rng.rand(50) < 0.1, np.floor(5.0 * rng.rand(50) ** 3)])
    spread = measure_spread(X, np.ones(50))
    _, distance = brute_force_spread(X / spread.units)
    assert_allclose(spread.joint_scale, distance, rtol=1e-12)


def test_binary_columns_have_one_unit_however_rare_a_value_is():
    X = np.arange(2000)[:, None] % [2, 20, 500] == 0
    weight = np.linspace(1.0, 2.0, 2000)
    assert_allclose(measure_spread(X * [1.0, 1.0, 3.0], weight).units, [0.5, 0.5, 1.5], rtol=1e-12)


@pytest.mark.parametrize("rows_of", [np.asarray, RowSource])
def test_ones_after_indicators_tell_that_a_level_is_known(rows_of, rng):
    ones, number = np.ones((50, 1)), rng.rand(50, 1)
    number[:2] = [[0.0], [1.0]]
    # A rare level, and columns that are not of zeros and ones only.
    three, two = np.eye(3)[np.minimum(np.arange(50) // 2, 2)], np.eye(2)[np.arange(50) % 2]
    X = np.hstack([two, number, ones, three, ones, two, ones, ones])
    spread = measure_spread(rows_of(X), np.ones(50))
    assert spread.unseen == {7: [4, 5, 6], 10: [8, 9]}
    assert_array_equal(spread.units[[7, 10]], 0.5)
    assert_array_equal(spread.units[[3, 11]], UNKNOWN)
    assert not spread.varies[[7, 10]].any()
    assert_array_equal(spread.of_first_rows().units[[3, 7, 10]], [1.0, 0.5, 0.5])


@pytest.mark.parametrize("rows_of", [np.asarray, RowSource])
def test_among_indicators_zeros_are_one_of_them(rows_of, rng):
    bits, numbers, zeros = 1.0 * (rng.rand(50, 3) < 0.5), rng.rand(50, 3), np.zeros((50, 2))
    spread = measure_spread(rows_of(np.hstack([bits, numbers[:, :2], zeros])), np.ones(50))
    assert spread.unseen == {5: [0, 1, 2], 6: [0, 1, 2]}
    assert_array_equal(spread.units[5:], 0.5)
    spread = measure_spread(rows_of(np.hstack([bits, numbers, zeros])), np.ones(50))
    assert spread.unseen == {}
    assert_array_equal(spread.units[6:], UNKNOWN)


def test_an_outlier_has_no_effect_on_the_unit(rng):
    column = np.floor(10.0 * rng.rand(500))
    column[0] = 1e9
    spread = measure_spread(column[:, None], np.ones(500))
    assert 2.0 < spread.units[0] < 5.0


@pytest.mark.parametrize("share", [0.002, 0.01, 0.1])
@pytest.mark.parametrize("n_values", [2, 4, 10])
@pytest.mark.parametrize("rows_of", [np.asarray, RowSource])
def test_a_code_far_from_few_values_does_not_change_the_scale_of_all(share, n_values, rows_of, rng):
    X = rng.randn(1000, 3)
    X[:, 0] = rng.randint(n_values, size=1000)
    X[: int(1000 * share), 0] = 9999.0
    spread = measure_spread(rows_of(X), np.ones(1000))
    assert_allclose(spread.joint_scale, np.sqrt(6.0), rtol=0.01)
    assert_allclose(spread.units[1:], X[:, 1:].std(axis=0), rtol=1e-9)
    if share > 0.002:
        assert spread.units[0] < n_values


@pytest.mark.parametrize("n", [3000, 25_000])
def test_units_of_rows_in_a_source(n, rng):
    X = np.column_stack([rng.randn(n), rng.rand(n) < 0.01, np.floor(7.0 * rng.rand(n) ** 4)])
    # No row among the few has this value.
    rare = np.zeros(n)
    rare[1] = 4.0
    X, weight = np.column_stack([X, rare, np.ones(n)]), rng.randint(1, 4, size=n).astype(float)
    of_rows, of_source = measure_spread(X, weight), measure_spread(RowSource(X), weight)
    assert_array_equal(of_source.varies, of_rows.varies)
    assert_allclose(of_source.deviations, of_rows.deviations, rtol=1e-9)
    assert_allclose(of_source.units, of_rows.units, rtol=1e-9 if n < 10_000 else 0.05)
    assert of_source.units[3] == 2.0


def test_spread_does_not_depend_on_the_scale_of_the_weights(rng):
    X, weight = rng.randn(20, 3), rng.uniform(size=20)
    one, other = measure_spread(X, weight), measure_spread(X, 1e6 * weight)
    assert_allclose(other.deviations, one.deviations, rtol=1e-12)
    assert_allclose(other.distance, one.distance, rtol=1e-12)


def test_a_column_whose_variance_underflows_counts_as_constant(rng):
    X, weight = rng.randn(30, 3), np.ones(30)
    X[:, 1] *= 1e-200
    spread, without = measure_spread(X, weight), measure_spread(X[:, [0, 2]], weight)
    assert_array_equal(spread.varies, [True, False, True])
    assert spread.deviations[1] == UNKNOWN
    assert spread.of_first_rows().deviations[1] == 1.0
    assert_allclose(spread.deviations[[0, 2]], without.deviations, rtol=1e-12)
    assert_allclose(spread.distance, without.distance, rtol=1e-12)


@pytest.mark.parametrize("value", [1e12, 0.1, -3e15, 1e140])
def test_a_constant_column_of_any_value_does_not_count(value, rng):
    X = rng.randn(30, 3)
    X[:, 1] = value
    weight = rng.uniform(0.1, 1.0, size=30)
    spread, without = measure_spread(X, weight), measure_spread(X[:, [0, 2]], weight)
    assert_array_equal(spread.varies, [True, False, True])
    assert spread.deviations[1] == UNKNOWN
    assert spread.of_first_rows().deviations[1] == 1.0
    assert_allclose(spread.deviations[[0, 2]], without.deviations, rtol=1e-12)
    assert_allclose(spread.distance, without.distance, rtol=1e-12)


@pytest.mark.parametrize("value", [1e200, -1e300])
def test_values_whose_squares_overflow_are_refused(value):
    with pytest.raises(ValueError, match=r"1e\+(2|3)00, whose square overflows"):
        measure_spread(np.array([[0.0, 1.0], [value, 2.0]]), np.ones(2))


@pytest.mark.parametrize("tiny", [1.0, 1e-3, 1e-5])
def test_spread_at_a_large_offset(tiny, rng):
    X = 1e9 + tiny * rng.randn(40, 2)
    # The difference of neighbouring numbers is exact.
    columns, distance = brute_force_spread(X - 1e9)
    spread = measure_spread(X, np.ones(40))
    # At the smallest spread the rows are a hundred neighbouring numbers apart.
    assert_allclose(spread.deviations, columns, rtol=1e-3)
    assert_allclose(spread.distance, distance, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_spread_scales_with_the_columns(scale, rng):
    X = rng.randn(20, 3)
    spread = measure_spread(scale * X, np.ones(20))
    assert_allclose(spread.deviations, scale * X.std(axis=0), rtol=1e-12)
    assert_allclose(spread.distance, scale * brute_force_spread(X)[1], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 7])
def test_spread_is_one_where_nothing_varies(n):
    spread = measure_spread(np.full((n, 2), 1e7 / 3.0), np.full(n, 0.1))
    assert_array_equal(spread.deviations, [1.0, 1.0])
    assert spread.distance == 1.0
    assert not spread.varies.any()
