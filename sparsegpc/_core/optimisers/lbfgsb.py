"""Maximisation in a box by scipy's L-BFGS-B: over many directions, and where steps are hard.

Its line search gets by with little, and goes on after failures.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize

# Pairs that are remembered; over many directions scipy's ten are too few.
MEMORY = 30
# Length of the first step, from gradients at least this large.
FIRST_STEP, SMALL_GRADIENT = 0.5, 30.0
# scipy's status for the limit of its iterations.
REACHED_MAX_ITER = 1


class Searched(NamedTuple):
    """The best point of a search, and how it ended.

    ``ended`` says whether it ended by itself or was asked to, before the limit of its iterations;
    ``failed`` whether the function could not be computed somewhere on the way.
    """

    best: object
    ended: bool
    failed: bool
    n_iter: int


class _Stopped(Exception):
    """Leave the minimiser at once."""


class LBFGSB:
    """Maximisation of a function in a box.

    Within its box L-BFGS-B takes the gradient itself as its first step, so the objective is scaled
    to make that step `FIRST_STEP` long, less where the gradient is small: a start near the optimum.

    Parameters
    ----------
    objective : callable
        ``objective(x)`` returns the point at ``x`` (P,), with ``x``, ``value`` and ``gradient``
        (P,). It may raise LinAlgError.
    start : point
    tol : float
        An iteration that gains less is a small one.
    patience : int
        Stop after so many small ones in a row.
    is_stopped : callable or None
        Asked after each evaluation whether to stop.
    """

    def __init__(self, objective, start, *, tol, patience, is_stopped=None):
        self._objective, self._tol, self._patience = objective, tol, patience
        self._is_stopped = is_stopped
        self.best, self._first = start, start
        self._worst = self._last = start.value
        self._n_iter, self._n_small, self._failed = 0, 0, False
        norm = float(np.linalg.norm(start.gradient))
        self.scale = -FIRST_STEP / max(norm, SMALL_GRADIENT)

    def search(self, bounds, max_iter):
        """Return what is `Searched` in the box of `bounds` (P, 2)."""
        try:
            result = minimize(
                self,
                self.best.x,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=self._iterated,
                options={"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": MEMORY},
            )
        except _Stopped:
            return Searched(self.best, True, self._failed, self._n_iter)
        # Any end but the limit is one where the line search finds nothing better. There is none
        # where the bounds leave nothing free to move.
        ended = result.get("status") != REACHED_MAX_ITER
        return Searched(self.best, ended, self._failed, self._n_iter)

    def __call__(self, x):
        """Return the negative function and its gradient, scaled, for a minimiser."""
        point, self._first = self._first, None
        if point is None:
            try:
                point = self._objective(x)
            except LinAlgError:
                # A step too far: look worse than anything seen, so that the line search retreats.
                self._failed = True
                return self.scale * (self._worst - abs(self._worst)), np.zeros_like(x)
        if point.value > self.best.value:
            self.best = point
        if self._is_stopped is not None and self._is_stopped():
            raise _Stopped
        self._worst = min(self._worst, point.value)
        return self.scale * point.value, self.scale * point.gradient

    def _iterated(self, x):
        """Count an iteration; stop the minimiser after some small ones in a row."""
        self._n_iter += 1
        gain, self._last = self.best.value - self._last, self.best.value
        self._n_small = self._n_small + 1 if gain < self._tol else 0
        if self._n_small == self._patience:
            raise StopIteration
