"""Maximisation in a box by scipy's L-BFGS-B: over many directions, and where steps are hard.

Its line search gets by with little, and goes on after failures.
"""

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize

from sparsegpc._core.optimisers.bfgs import Maximum

# Length of the first step, from gradients at least this large.
FIRST_STEP, SMALL_GRADIENT = 0.5, 30.0


class _Stopped(Exception):
    """Leave the minimiser at once."""


def maximize_lbfgsb(
    function, start, bounds, *, max_iter, tol, patience, is_stopped=None, n_pairs=30
):
    """Maximise a function in a box.

    Within its box L-BFGS-B takes the gradient itself as its first step, so the function is scaled
    to make that step `FIRST_STEP` long, less where the gradient is small: a start near the optimum.

    Parameters
    ----------
    function : callable
        ``function(x, near)`` returns the point at ``x`` (P,), with ``x``, ``value`` and
        ``gradient`` (P,); `near` is the last point. It may raise LinAlgError.
    start : point
    bounds : ndarray of shape (P, 2)
    max_iter : int
        Most iterations, each of which takes one evaluation or a few.
    tol : float
        An iteration that gains less is a small one.
    patience : int
        Stop after so many small ones in a row.
    is_stopped : callable or None
        Asked after each evaluation whether to stop.
    n_pairs : int
        Pairs of steps and slopes that are kept; over many directions scipy's ten are too few.

    Returns
    -------
    Maximum
    """
    search = _Search(function, start, tol, patience, is_stopped)
    options = {"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": n_pairs}
    try:
        result = minimize(
            search,
            start.x,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=search.count,
            options=options,
        )
    except _Stopped:
        return Maximum(search.best, True, search.failed, search.n_iter)
    # Any end but the limit, status 1, is one where the line search finds nothing better. There is
    # no status where the bounds leave nothing free to move.
    return Maximum(search.best, result.get("status") != 1, search.failed, search.n_iter)


class _Search:
    """The negative function, scaled, as scipy calls it, and what it has seen."""

    def __init__(self, function, start, tol, patience, is_stopped):
        self._function, self._tol, self._patience = function, tol, patience
        self._is_stopped = is_stopped
        self.best = self._near = start
        self._is_first, self._worst, self._previous = True, start.value, start.value
        self.n_iter, self._n_small, self.failed = 0, 0, False
        self._scale = -FIRST_STEP / max(float(np.linalg.norm(start.gradient)), SMALL_GRADIENT)

    def __call__(self, x):
        # scipy asks for the start first, which is known.
        if not self._is_first:
            try:
                self._near = self._function(x, self._near)
            except LinAlgError:
                # A value below all before lets the line search retreat.
                self.failed = True
                return self._scale * (self._worst - abs(self._worst)), np.zeros_like(x)
        self._is_first = False
        point = self._near
        if point.value > self.best.value:
            self.best = point
        if self._is_stopped is not None and self._is_stopped():
            raise _Stopped
        self._worst = min(self._worst, point.value)
        return self._scale * point.value, self._scale * point.gradient

    def count(self, x):
        """Count an iteration; stop the minimiser after some small ones in a row."""
        self.n_iter += 1
        gain, self._previous = self.best.value - self._previous, self.best.value
        self._n_small = self._n_small + 1 if gain < self._tol else 0
        if self._n_small == self._patience:
            raise StopIteration
