"""Weighted medians and robust deviations, against copies of the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from sparsegpc._core.numerics.medians import robust_deviation, weighted_median

NUMBERS = st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(1, 4)), min_size=1, max_size=9).map(
    np.array
)


@given(NUMBERS)
def test_a_weight_of_k_is_that_many_copies(numbers):
    values, weight = numbers.T
    copies = np.sort(np.repeat(values, weight.astype(int)))
    found = weighted_median(values, weight)
    assert found == copies[(len(copies) - 1) // 2]
    assert weighted_median(values, 0.1 * weight) == found
    assert weighted_median(values[::-1], weight[::-1]) == found
    expected = robust_deviation(copies, np.ones(len(copies)), found)
    assert_allclose(robust_deviation(values, weight, found), expected, rtol=1e-12)


@given(NUMBERS, st.floats(-3.0, 3.0), st.floats(0.1, 10.0))
def test_the_deviation_follows_scale_and_offset(numbers, offset, scale):
    values, weight = numbers.T
    values = np.round(values)
    deviation = robust_deviation(values, weight, values[0])
    moved = robust_deviation(offset + scale * values, weight, offset + scale * values[0])
    assert deviation > 0.0
    if np.ptp(values) > 0.0:
        assert_allclose(moved, scale * deviation, rtol=1e-6)


def test_outliers_do_not_move_what_gaussian_numbers_say():
    values = norm.ppf((np.arange(1001) + 0.5) / 1001, 3.0, 2.0)
    values[-100:] = 1e12
    centre = weighted_median(values, np.ones(1001))
    assert centre == pytest.approx(3.0, abs=1e-9)
    assert robust_deviation(values, np.ones(1001), centre) == pytest.approx(2.0, rel=0.2)


def test_where_most_numbers_are_equal_their_mean_square_counts():
    values = np.array([0.0] * 9 + [1e200])
    assert robust_deviation(values, np.ones(10), 0.0) == pytest.approx(1e200 / 10**0.5)
    assert robust_deviation(np.zeros(3), np.ones(3), 0.0) == 1.0
