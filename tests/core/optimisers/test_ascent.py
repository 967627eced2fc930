"""The safeguarded ascent on bounds that are written out."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError

from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.optimisers.ascent import ascend, refuse_infinite


class Point(NamedTuple):
    """A number, what it asks for, and a bound."""

    x: float
    image: float
    bound: float

    next_gain = None

    def towards_target(self, length):
        return (1.0 - length) * self.x + length * self.image

    def residual(self, x, image):
        return np.array([image - x])

    def combined(self, gamma, images):
        return images[-1] - float(gamma @ np.diff(images))


class Estimated(NamedTuple):
    """An attempt that knows what the next step gains."""

    x: float
    image: float
    bound: float
    next_gain: float

    towards_target = Point.towards_target


class Hill:
    """The bound -x^2 / 2; a step of length one leads from x to ``x - reach * x``."""

    def __init__(self, reach, refused=None, bound=None):
        self.reach, self.refused, self.tried, self.bests = reach, refused, [], []
        self.bound = (lambda x: -0.5 * x**2) if bound is None else bound

    def __call__(self, x, best=None):
        self.tried.append(x)
        if best is not None and (not self.bests or best is not self.bests[-1]):
            self.bests.append(best)
        if self.refused is not None and self.refused(x):
            raise LinAlgError("a step too far")
        return Point(x, x - self.reach * x, self.bound(x))

    def ascend(self, x=1.0, **options):
        options = {"tol": 1e-8, "max_iter": 100, "shortest": 1e-3, **options}
        return ascend(self, self(x), **options)

    def bounds(self, found):
        """Return the bound at the start and after each accepted step of an ascent that ended."""
        bests = self.bests if found.best in self.bests[-1:] else [*self.bests, found.best]
        return [point.bound for point in bests]


@given(
    reach=st.floats(0.01, 200.0), x=st.floats(-5.0, 5.0), growth=st.sampled_from([1.0, 2.0, np.inf])
)
def test_the_bound_never_falls_and_ends_at_the_best(reach, x, growth):
    hill = Hill(reach)
    found = hill.ascend(x, growth=growth)
    bounds = hill.bounds(found)
    assert (np.diff(bounds) >= 0.0).all()
    assert found.best.bound == bounds[-1] == max(bounds)
    assert found.n_iter == len(hill.tried)
    assert bounds[0] == -0.5 * x**2


@pytest.mark.parametrize("reach", [0.3, 1.0, 1.9])
@pytest.mark.parametrize("accelerated", [False, True])
def test_the_top_is_reached(reach, accelerated):
    hill = Hill(reach)
    found = hill.ascend(accelerator=Anderson(5) if accelerated else None)
    assert found.converged
    assert found.best.bound > -1e-6
    if accelerated:
        # A linear iteration in one direction takes two steps; the third says that it is solved.
        assert found.n_iter <= 5


def test_a_step_that_falls_is_halved_until_it_does_not():
    """Steps 12, 6 and 3 times too long fall; the fourth, half as long again, rises."""
    hill = Hill(12.0)
    found = hill.ascend(tol=1e-12, max_iter=5)
    assert hill.tried == pytest.approx([1.0, -11.0, -5.0, -2.0, -0.5])
    assert hill.bounds(found) == pytest.approx([-0.5, -0.125])


@pytest.mark.parametrize(("growth", "expected"), [(np.inf, 1.0), (2.0, 0.5), (1.0, 0.25)])
def test_a_step_grows_after_one_that_rises(growth, expected):
    hill = Hill(6.0)
    hill.ascend(growth=growth)
    # Three trials: steps of length 1 and 1/2 fall, that of 1/4 leads to -1/2.
    assert hill.tried[:4] == pytest.approx([1.0, -5.0, -2.0, -0.5])
    assert hill.tried[4] == pytest.approx(-0.5 + expected * 6.0 * 0.5)


def test_a_step_shorter_than_the_shortest_gives_up():
    hill = Hill(1e6)
    found = hill.ascend(shortest=1.0 / 64.0)
    assert not found.converged
    assert found.best.x == 1.0
    # Lengths of 1, 1/2, ..., 1/64.
    assert found.n_iter == 1 + 7


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_no_more_attempts_are_made_than_allowed(max_iter):
    hill = Hill(0.01)
    found = hill.ascend(max_iter=max_iter)
    assert found.n_iter == len(hill.tried) == max_iter
    assert not found.converged


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_it_stops_where_a_step_gains_less_than_the_tolerance(tol):
    hill = Hill(0.5)
    found = hill.ascend(tol=tol)
    gains = np.diff(hill.bounds(found))
    assert found.converged
    assert gains[-1] < tol
    assert (gains[:-1] >= tol).all()


def test_a_short_step_must_gain_less_to_be_the_last():
    """From x = 1 the fourth trial, of length 1/8, gains 0.005: that is little, but not for it."""
    hill = Hill(1.0, bound=lambda x: -0.5 * x**2 if x > 0.8 else -10.0)
    found = ascend(hill, hill(1.0), tol=0.15, max_iter=5, shortest=1e-9)
    assert hill.tried == pytest.approx([1.0, 0.0, 0.5, 0.75, 0.875])
    assert found.best.bound + 0.5 < 0.15
    assert not found.converged


@pytest.mark.parametrize("rounding", [0.0, 1e-3])
def test_a_fall_within_the_rounding_is_none(rounding):
    bounds = iter([0.0, -1e-4, 1.0, 1.0])
    hill = Hill(1.0, bound=lambda x: next(bounds))
    found = hill.ascend(tol=1e-9, rounding=rounding, max_iter=3)
    assert hill.bounds(found) == ([0.0, -1e-4, 1.0] if rounding else [0.0, 1.0])


def test_a_plain_step_that_falls_by_next_to_nothing_has_nothing_to_gain():
    bounds = iter([0.0, -1e-10])
    hill = Hill(1.0, bound=lambda x: next(bounds))
    found = hill.ascend(tol=1e-8)
    assert found.converged
    assert found.n_iter == 2
    assert found.best.bound == 0.0


def test_failures_and_bounds_that_are_not_finite_are_steps_too_far():
    hill = Hill(4.5, refused=lambda x: x < -2.5)
    assert hill.ascend().best.bound > -1e-6
    for bad in (np.nan, np.inf, -np.inf):
        hill = Hill(4.5, bound=lambda x, bad=bad: bad if x < -2.5 else -0.5 * x**2)
        found = hill.ascend()
        assert found.best.bound > -1e-6
        assert np.isfinite(hill.bounds(found)).all()


def test_a_refused_extrapolation_is_followed_by_a_full_plain_step():
    tried = []

    def evaluate(x, best=None):
        tried.append(x)
        # An extrapolation leads below 0.4, where the bound falls.
        return Point(x, 0.5 * (x + 0.4), -x if x > 0.401 else -9.0)

    found = ascend(
        evaluate, evaluate(1.0), tol=1e-3, max_iter=4, shortest=1e-3, accelerator=Anderson(5)
    )
    assert tried == pytest.approx([1.0, 0.7, 0.4, 0.55])
    assert found.best.x == pytest.approx(0.55)
    assert found.n_iter == 4


def test_an_estimate_of_the_next_gain_spares_the_last_step():
    tried = []

    def evaluate(x, best=None):
        tried.append(x)
        return Estimated(x, 0.5 * x, -0.5 * x**2, 0.5 * x**2)

    found = ascend(evaluate, evaluate(1.0), tol=1e-3, max_iter=50, shortest=1e-3)
    assert found.converged
    # 0.5 x^2 falls below 1e-3 at the fifth halving.
    assert tried == pytest.approx([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125])
    tried.clear()
    assert ascend(evaluate, evaluate(1e-3), tol=1e-3, max_iter=50, shortest=1e-3).n_iter == 1


def test_an_infinite_estimate_keeps_it_going():
    """Of an attempt that is not solved as far as it should be nothing follows."""

    def evaluate(x, best=None):
        return Estimated(x, 0.5 * x, 0.0, np.inf)

    found = ascend(evaluate, evaluate(1.0), tol=1.0, max_iter=7, shortest=1e-3)
    assert not found.converged
    assert found.n_iter == 7


@pytest.mark.parametrize("bound", [np.nan, np.inf, -np.inf])
def test_a_start_without_a_finite_bound_is_refused(bound):
    with pytest.raises(LinAlgError, match="bound is"):
        refuse_infinite(bound)
    with pytest.raises(LinAlgError, match="bound is"):
        Hill(1.0, bound=lambda x: bound).ascend()
