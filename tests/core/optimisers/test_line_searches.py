"""Steps that interpolation shortens, on functions of which the best step is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsegpc._core.optimisers.line_searches import LEAST_SHARE, interpolated_rise

TOL = 1e-9


class Function:
    """A function of one number, and where it was evaluated."""

    def __init__(self, value, derivative):
        self.value, self.derivative, self.tried = value, derivative, []

    def evaluate(self, x):
        self.tried.append(float(x[0]))
        with np.errstate(all="ignore"):
            value, gradient = float(self.value(x[0])), np.array([self.derivative(x[0])])
        return SimpleNamespace(x=x, value=value, gradient=gradient)

    def searched(self, start, step, tol=TOL, **options):
        """Return the first point and the one that the search finds."""
        first = self.evaluate(np.array([start]))
        self.tried.clear()
        return first, interpolated_rise(self.evaluate, first, np.array([step]), tol, **options)


def parabola():
    """Return a function with its maximum at 1."""
    return Function(lambda x: -((x - 1.0) ** 2), lambda x: -2.0 * (x - 1.0))


def cubic(a, b, c):
    return Function(
        lambda x: a * x + b * x**2 + c * x**3, lambda x: a + 2.0 * b * x + 3.0 * c * x**2
    )


@pytest.mark.parametrize("step", [0.1, 1.0, 1.9])
def test_a_full_step_that_gains_is_taken_at_once(step):
    function = parabola()
    _, found = function.searched(0.0, step)
    assert found.x == step
    assert function.tried == [step]


@pytest.mark.parametrize("step", [2.5, 4.0, 9.0])
def test_of_a_parabola_interpolation_finds_the_top(step):
    function = parabola()
    _, found = function.searched(0.0, step)
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-12)
    assert len(function.tried) == 2


def test_of_a_cubic_function_it_finds_the_top():
    # The maximum of x - x^3 is at 1 / sqrt(3).
    _, found = cubic(1.0, 0.0, -1.0).searched(0.0, 2.0)
    np.testing.assert_allclose(found.x, 3.0**-0.5, rtol=1e-12)


def test_a_step_is_shortened_to_a_tenth_at_most():
    function = parabola()
    _, found = function.searched(0.0, 1e4)
    assert found.value > -1.0
    np.testing.assert_allclose(function.tried[:2], [1e4, 1e3])


@pytest.mark.parametrize("broken", [np.nan, -np.inf])
def test_a_value_that_cannot_be_computed_shortens_the_step(broken):
    function = Function(
        lambda x: broken if x > 0.5 else -((x - 1.0) ** 2),
        lambda x: np.nan if x > 0.5 else -2.0 * (x - 1.0),
    )
    _, found = function.searched(0.0, 3.0)
    assert 0.0 < found.x <= 0.5
    assert len(function.tried) == 2


def test_at_a_maximum_nothing_is_found():
    function = Function(lambda x: -abs(x), lambda x: 1.0)
    _, found = function.searched(0.0, 1.0, tol=1e-6)
    assert found is None
    # Each trial is a tenth to a half of the one before.
    assert 6 <= len(function.tried) <= 20


def test_a_slope_of_nan_ends_the_search():
    function = Function(lambda x: np.nan, lambda x: np.nan)
    _, found = function.searched(0.0, 1.0)
    assert found is None
    assert len(function.tried) == 1


def test_an_infinite_slope_does_not_search_for_ever():
    function = Function(lambda x: -x, lambda x: np.inf)
    _, found = function.searched(0.0, 1.0)
    assert found is None
    assert len(function.tried) < 400


def test_a_stop_ends_the_search():
    function = parabola()
    _, found = function.searched(0.0, 9.0, is_stopped=lambda: len(function.tried) == 1)
    assert found is None
    assert len(function.tried) == 1


@given(
    a=st.floats(0.01, 100.0),
    b=st.floats(-100.0, 100.0),
    c=st.floats(-100.0, 100.0),
    step=st.floats(1e-3, 1e6),
)
def test_it_finds_a_higher_value_along_any_cubic_function(a, b, c, step):
    first, found = cubic(a, b, c).searched(0.0, step)
    gain = found.value - first.value
    # Rounding of the value.
    assert gain >= LEAST_SHARE * a * found.x[0] * (1.0 - 1e-6)
    assert 0.0 < found.x[0] <= step
