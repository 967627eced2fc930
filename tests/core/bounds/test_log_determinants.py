"""Bounds on log determinants against the sums over random spectra that they bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.log_determinants import Moments, log_det_bounds

SPECTRUM = st.lists(st.one_of(st.just(0.0), st.floats(1e-30, 1e12)), min_size=1, max_size=60)


def _bounds(eigenvalues, tight_log_det=np.inf, trace_error=0.0, squares_error=0.0):
    eigenvalues = np.array(eigenvalues, dtype=float)
    trace, squares = eigenvalues.sum(), (eigenvalues**2).sum()
    moments = Moments(trace, squares, trace_error, squares_error, len(eigenvalues))
    return log_det_bounds(moments, tight_log_det)


def _assert_between(eigenvalues):
    low, high = _bounds(eigenvalues)
    exact = np.log1p(eigenvalues).sum()
    rounding = 1e-14 * np.sum(eigenvalues)
    assert 0.0 <= low <= exact + rounding
    assert exact <= high + rounding


@given(SPECTRUM)
def test_bounds_hold_for_any_spectrum(eigenvalues):
    _assert_between(eigenvalues)


def test_bounds_hold_for_thousands_of_random_spectra():
    """Spectra of all lengths, scales and rates of decay, some with zeros."""
    rng = np.random.RandomState(0)
    for _ in range(3000):
        n = rng.randint(1, 200)
        decay = np.arange(n) ** rng.uniform(0.0, 3.0)
        eigenvalues = np.exp(rng.uniform(-12.0, 12.0) + rng.uniform(0.0, 3.0) * rng.randn(n))
        eigenvalues *= np.exp(-rng.uniform(0.0, 1.0) * decay) * (rng.rand(n) < rng.uniform(0.1, 2))
        _assert_between(eigenvalues)


@pytest.mark.parametrize("value", [1e-150, 1e-12, 1e-3, 1.0, 1e3])
def test_one_eigenvalue_is_known(value):
    """The moments of one eigenvalue determine it."""
    low, high = _bounds([value])
    assert_allclose([low, high], np.log1p(value), rtol=1e-12)
    assert_allclose(_bounds([value, 0.0, 0.0])[0], np.log1p(value), rtol=1e-12)


@pytest.mark.parametrize("value", [1e-100, 1e-3, 1.0, 1e6])
def test_equal_eigenvalues_are_known(value):
    assert_allclose(_bounds(np.full(30, value)), 30 * np.log1p(value), rtol=1e-12)


def test_small_eigenvalues_leave_their_sum():
    """The bounds differ in the second order only."""
    rng = np.random.RandomState(0)
    for scale in (1e-3, 1e-6, 1e-9):
        eigenvalues = scale * rng.uniform(0.0, 1.0, 100)
        low, high = _bounds(eigenvalues)
        assert high - low <= 0.5 * (eigenvalues**2).sum() * (1.0 + 1e-9) + 1e-15 * high
        assert_allclose([low, high], eigenvalues.sum(), rtol=scale)


def test_no_eigenvalues_but_zero():
    assert _bounds([0.0, 0.0]) == (0.0, 0.0)
    assert _bounds([0.0, 0.0], trace_error=1e-9, squares_error=1e-18) == (0.0, pytest.approx(1e-9))


def test_the_tight_slack_limits_both_bounds():
    assert _bounds([1.0, 2.0, 3.0], 2.0) == (2.0, 2.0)
    low, high = _bounds([1.0, 2.0, 3.0])
    assert low < 3.1 < high
    assert _bounds([1.0, 2.0, 3.0], 3.1) == (low, 3.1)


@given(
    SPECTRUM,
    st.floats(-1.0, 1.0),
    st.floats(-1.0, 1.0),
    st.floats(-18.0, 1.0),
    st.floats(-18.0, 1.0),
)
def test_bounds_hold_for_moments_that_are_off_by_their_errors(spectrum, a, b, c, d):
    eigenvalues = np.array(spectrum)
    trace, squares = eigenvalues.sum(), (eigenvalues**2).sum()
    trace_error, squares_error = 10.0**c * (1.0 + trace), 10.0**d * (1.0 + squares)
    moments = Moments(
        trace + a * trace_error,
        squares + b * squares_error,
        trace_error,
        squares_error,
        len(spectrum),
    )
    low, high = log_det_bounds(moments, np.inf)
    exact, rounding = np.log1p(eigenvalues).sum(), 1e-14 * trace
    assert 0.0 <= low <= exact + rounding
    assert exact <= high + rounding
