"""Maximisation in a box by quasi-Newton steps, from a curvature that may be known already."""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import lsq_linear

from sparsegpc._core.numerics.linalg import cholesky, solve_lower

# The curvature along a step is taken to be at least this share of what was thought before.
SMALLEST_CURVATURE = 0.2
# Most that a step may change a parameter, to begin with. A gain of less than the first share of
# what was promised halves the step, one of more than the second lets it double.
LONGEST_STEP, POOR_GAIN, GOOD_GAIN = 0.5, 0.1, 0.5
# A climb ends where a step promises less than this many times the tolerance, or after this many
# steps in a row that gain less than all of it.
SMALLEST_PROMISE, SMALL_STEPS = 1.0, 2
# It is given up where it ends below the best by more than this many times what a step promises.
HOPE = 3.0


class Curvature:
    """The curvature of a function of P parameters, learned by BFGS updates on the way.

    ``matrix`` (P, P), positive definite, estimates minus the second derivatives.

    Parameters
    ----------
    n_params : int
    guess : float
        The curvature in all directions before any is known.
    """

    def __init__(self, n_params, guess):
        self.matrix = guess * np.eye(n_params)
        self._is_guess = True

    def step(self, x, slope, bounds, longest):
        """Return the best step by the quadratic model of the function, and its gain.

        Parameters
        ----------
        x, slope : ndarray of shape (P,)
        bounds : ndarray of shape (P, 2)
            Of x.
        longest : float
            Most that a parameter may change.
        """
        low = np.maximum(bounds[:, 0] - x, -longest)
        high = np.minimum(bounds[:, 1] - x, longest)
        free = low < high
        step = np.zeros(len(x))
        if free.any():
            # The highest point of slope @ step - step @ matrix @ step / 2, as least squares.
            L = cholesky(self.matrix[np.ix_(free, free)])
            target = solve_lower(L, slope[free])
            step[free] = lsq_linear(L.T, target, (low[free], high[free]), method="bvls").x
        return step, float(slope @ step - 0.5 * step @ self.matrix @ step)

    def learn(self, step, fall):
        """Learn from the `fall` of the slope along a step, shape (P,) each."""
        along = float(step @ fall)
        if self._is_guess and along > 0.0:
            self.matrix = float(fall @ fall) / along * np.eye(len(step))
            self._is_guess = False
        expected = self.matrix @ step
        thought = float(step @ expected)
        if along < SMALLEST_CURVATURE * thought:
            # Powell's damping: the matrix stays positive definite.
            share = (1.0 - SMALLEST_CURVATURE) * thought / (thought - along)
            fall = share * fall + (1.0 - share) * expected
            along = SMALLEST_CURVATURE * thought
        self.matrix = (
            self.matrix + np.outer(fall, fall) / along - np.outer(expected, expected) / thought
        )


class Climbed(NamedTuple):
    """The best point of a climb, and how it ended.

    ``ended`` says whether it ended by itself, before the limit of its steps; ``failed`` whether
    the function could not be computed somewhere on the way.
    """

    best: object
    ended: bool
    failed: bool


class BFGS:
    """Maximisation of a function in a box.

    Parameters
    ----------
    objective : callable
        ``objective(x, current)`` returns the point at ``x`` (P,), with ``x``, ``value`` and
        ``gradient`` (P,), given the best one so far. It may raise LinAlgError.
    bounds : ndarray of shape (P, 2)
    curvature : Curvature
        Of the function over its `unit`. Learns on.
    tol : float
        See `SMALLEST_PROMISE`.
    unit : float
        Of the function, for its curvature only.
    is_stopped : callable or None
        Asked after each step whether to stop.
    """

    def __init__(self, objective, bounds, curvature, *, tol, unit=1.0, is_stopped=None):
        self._objective, self._bounds, self._curvature = objective, bounds, curvature
        self._tol, self._unit, self._is_stopped = tol, unit, is_stopped

    def climb(self, start, max_iter, best=-np.inf):
        """Climb from a point.

        Parameters
        ----------
        start : point
        max_iter : int
            Most steps, each of which asks for one point.
        best : float
            What was reached elsewhere: a climb that will not come near is given up.

        Returns
        -------
        Climbed

        Raises
        ------
        LinAlgError
            If the gradient at the start is not finite.
        """
        current, longest, n_small, failed = start, LONGEST_STEP, 0, False
        slope = start.gradient / self._unit
        if not np.isfinite(slope).all():
            raise LinAlgError("the gradient of the bound is not finite")
        for n_steps in range(max_iter + 1):
            step, promised = self._curvature.step(current.x, slope, self._bounds, longest)
            promised *= self._unit
            if promised < SMALLEST_PROMISE * self._tol or current.value + HOPE * promised < best:
                return Climbed(current, True, failed)
            if n_steps == max_iter:
                break
            length = float(np.abs(step).max())
            trial = self._tried(np.clip(current.x + step, *self._bounds.T), current)
            if trial is None:
                # A step too far.
                failed, longest = True, 0.5 * length
                continue
            trial_slope, gain = trial.gradient / self._unit, trial.value - current.value
            self._curvature.learn(step, slope - trial_slope)
            if gain < POOR_GAIN * promised:
                longest = 0.5 * length
            elif gain > GOOD_GAIN * promised:
                longest = max(longest, 2.0 * length)
            if gain > 0.0:
                current, slope = trial, trial_slope
            if self._is_stopped is not None and self._is_stopped():
                break
            n_small = n_small + 1 if gain < self._tol else 0
            if n_small == SMALL_STEPS:
                return Climbed(current, True, failed)
        return Climbed(current, False, failed)

    def _tried(self, x, current):
        """Return the point at x, or None where there is none or its gradient is not finite."""
        try:
            trial = self._objective(x, current)
        except LinAlgError:
            return None
        return trial if np.isfinite(trial.gradient).all() else None
