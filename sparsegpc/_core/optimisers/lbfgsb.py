"""Maximisation in a box by SciPy's L-BFGS-B.

Its line search tolerates points where the function cannot be computed.
"""

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize

from sparsegpc._core.optimisers.maximum import Maximum

# Length of the first step. With a gradient smaller than SMALL_GRADIENT it is shorter.
FIRST_STEP, SMALL_GRADIENT = 0.5, 30.0
# Number of steps to remember. SciPy's default, ten, is too few for many parameters.
N_PAIRS = 30


class _Stopped(Exception):
    """Raised to end the minimiser of SciPy at once."""


def maximize_lbfgsb(function, start, bounds, *, max_iter, tol, patience, is_stopped=lambda: False):
    """Maximise a function in a box and return the `Maximum`.

    The first step of L-BFGS-B is the gradient itself. The function is scaled so that the length of
    this step is `FIRST_STEP`, or less if the gradient is small, as it is near the optimum.

    ``function(x, near)`` returns the point at ``x`` (P,), with ``x``, ``value`` and ``gradient``
    (P,); `near` is the last point. It may raise LinAlgError. `bounds` has the shape (P, 2). There
    are at most `max_iter` iterations, each of one evaluation or a few; the search ends after
    `patience` of them in a row that gain less than `tol`. ``is_stopped()`` is called after each
    evaluation and returns whether to stop.
    """
    search = _Search(function, start, tol, patience, is_stopped)
    options = {"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": N_PAIRS}
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
        return Maximum(search.best, True, search.n_iter)
    # Status 1 is the limit of iterations; otherwise the line search found no better point. SciPy
    # sets no status if all parameters are fixed.
    return Maximum(search.best, result.get("status") != 1, search.n_iter)


class _Search:
    """The scaled negative function for SciPy, with the best point and the number of iterations."""

    def __init__(self, function, start, tol, patience, is_stopped):
        self._function, self._tol, self._patience = function, tol, patience
        self._is_stopped = is_stopped
        self.best = self._near = start
        self._is_first, self._worst, self._previous = True, start.value, start.value
        self.n_iter, self._n_small = 0, 0
        self._scale = -FIRST_STEP / max(float(np.linalg.norm(start.gradient)), SMALL_GRADIENT)

    def __call__(self, x):
        # SciPy evaluates the start first, but its point was passed in.
        if not self._is_first:
            try:
                self._near = self._function(x, self._near)
            except LinAlgError:
                # A value below all others makes the line search take a shorter step.
                return self._scale * (self._worst - abs(self._worst)), np.zeros_like(x)
        self._is_first = False
        point = self._near
        if point.value > self.best.value:
            self.best = point
        if self._is_stopped():
            raise _Stopped
        self._worst = min(self._worst, point.value)
        return self._scale * point.value, self._scale * point.gradient

    def count(self, x):
        """Count an iteration, and stop the minimiser after `patience` small ones in a row."""
        self.n_iter += 1
        gain, self._previous = self.best.value - self._previous, self.best.value
        self._n_small = self._n_small + 1 if gain < self._tol else 0
        if self._n_small == self._patience:
            raise StopIteration
