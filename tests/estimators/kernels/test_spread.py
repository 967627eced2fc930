"""How far rows lie apart, against all pairs of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

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
    assert_allclose(spread.deviations, np.where(varies, columns, 1.0), rtol=1e-12)
    assert_allclose(spread.distance, distance if varies.any() else 1.0, rtol=1e-12)


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
