"""Maximisation by L-BFGS, with a given approximation of the Newton step.

It suits concave functions, and others if what an earlier search learned about them is passed on.

References
----------
Nocedal 1980, the two-loop recursion.
"""

from collections import deque

import numpy as np

from sparsegpc._core.numerics.floats import EPSILON

# A search stops if a step still lowers the value at the fraction SHORTEST of its full length. If
# the slope promises more than the tolerance even then, the limit is LAST_RESORT.
SHORTEST, LAST_RESORT = 2.0**-40, 2.0**-1000


class CorrectionPairs:
    """Steps of a search and the decreases of the gradient over them, from which L-BFGS learns.

    Parameters
    ----------
    longest : int or None
        Maximum number of pairs; the oldest are dropped. None keeps all.
    """

    def __init__(self, longest=None):
        self._pairs = deque(maxlen=longest)

    def add(self, step, fall):
        """Append a step and the decrease of the gradient along it, two arrays of one shape.

        Do nothing if their product is not finite or no larger than rounding.
        """
        # The first steps may be so long that the products overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = float((step * fall).sum())
            size = float(np.linalg.norm(step) * np.linalg.norm(fall))
        if np.inf > curvature > EPSILON * size:
            self._pairs.append((step, fall, curvature))

    def direction(self, gradient, newton_step):
        """Return the L-BFGS step for a gradient, of the same shape."""
        gradient, weights = gradient.copy(), []
        for step, fall, curvature in reversed(self._pairs):
            weights.append(float((step * gradient).sum()) / curvature)
            gradient -= weights[-1] * fall
        direction = newton_step(gradient)
        for (step, fall, curvature), weight in zip(self._pairs, reversed(weights), strict=True):
            direction += (weight - float((fall * direction).sum()) / curvature) * step
        return direction

    def plain_length(self, entries=slice(None)):
        """Return the inverse of the curvature along some entries of the last step.

        Returns None if there are no pairs, or if that curvature is not positive.
        """
        if not self._pairs:
            return None
        step, fall, _ = self._pairs[-1]
        step, fall = step[entries], fall[entries]
        curvature = float((step * fall).sum())
        return curvature / float((fall * fall).sum()) if curvature > 0.0 else None

    def scaled(self, factor):
        """Return the pairs of the function multiplied by a factor."""
        other = CorrectionPairs(self._pairs.maxlen)
        other._pairs.extend((step, factor * fall, factor * c) for step, fall, c in self._pairs)
        return other


def maximize_lbfgs(
    evaluate, start, newton_step, tol, max_iter=20, pairs=None, is_stopped=lambda: False
):
    """Maximise a function of an array of any shape.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(x)`` returns the point at x, with ``x``, ``value``, and ``gradient`` of the shape
        of x.
    start : point
    newton_step : callable
        ``newton_step(gradient)`` returns the product of a matrix and the gradient. The matrix
        approximates the inverse of minus the Hessian. It must be symmetric and positive
        semi-definite.
    tol : float
        Stop when a step would gain less than this.
    max_iter : int
        Maximum number of steps. A step takes one evaluation, and about ``2 log2(k) + 2`` more if it
        must be halved k times.
    pairs : CorrectionPairs or None
        Those of an earlier search, to which this one adds its own.
    is_stopped : callable
        ``is_stopped()`` is called before each evaluation and returns whether to stop.

    Returns
    -------
    best : point
    converged : bool
        Whether the next step would gain less than `tol`.
    """
    best = start
    pairs = CorrectionPairs() if pairs is None else pairs
    for _ in range(max_iter):
        step = pairs.direction(best.gradient, newton_step)
        converged = not 0.5 * float((best.gradient * step).sum()) > tol
        if converged:
            break
        trial = _longest_rise(evaluate, best, step, tol, is_stopped)
        if trial is None:
            break
        pairs.add(trial.x - best.x, best.gradient - trial.gradient)
        best = trial
    return best, converged


def _longest_rise(evaluate, best, step, tol, is_stopped):
    """Return the point after the longest step that does not lower the value, or None.

    The step is halved a number of times. Where the curvature is nearly zero, full steps may be too
    long by many orders of magnitude. So this number doubles from trial to trial, and then bisection
    finds the smallest one that suffices.
    """
    # Of a concave function no step gains more than the slope times its length.
    slope = float((best.gradient * step).sum())
    promised = tol / slope if tol < slope < np.inf else 1.0
    most = int(-np.log2(max(min(SHORTEST, promised), LAST_RESORT)))
    found, too_few, n_halvings = None, -1, 0
    while too_few < most and not is_stopped():
        trial = evaluate(best.x + 0.5**n_halvings * step)
        if trial.value - best.value >= 0.0:
            found, enough = trial, n_halvings
        else:
            too_few = n_halvings
        if found is None:
            n_halvings = min(max(1, 2 * n_halvings), most)
        elif enough - too_few == 1:
            break
        else:
            n_halvings = (enough + too_few) // 2
    return found
