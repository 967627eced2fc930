"""Maximisation by L-BFGS, with a given approximation of the Newton step.

It suits concave functions, and others if what an earlier search learned about them is passed on.

References
----------
Nocedal 1980, the two-loop recursion.
"""

from collections import deque

import numpy as np

from sparsegpc._core.numerics.floats import EPSILON
from sparsegpc._core.optimisers.line_searches import longest_rise
from sparsegpc._core.optimisers.maximum import Maximum


class CorrectionPairs:
    """Steps of a search and the decreases of the gradient over them, from which L-BFGS learns.

    There are at most `longest` pairs, and the oldest are dropped; None keeps all.
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
    evaluate,
    start,
    newton_step,
    tol,
    max_iter=20,
    pairs=None,
    is_stopped=lambda: False,
    search_line=longest_rise,
):
    """Maximise a function of an array of any shape, and return the `Maximum`.

    ``evaluate(x)`` returns the point at x, with ``x``, ``value``, and ``gradient`` of the shape of
    x; `start` is such a point. ``newton_step(gradient)`` returns the product of a matrix and the
    gradient. The matrix approximates the inverse of minus the Hessian, and must be symmetric and
    positive semi-definite. `pairs` are those of an earlier search, to which this one adds its own.
    ``is_stopped()`` is called before each evaluation and returns whether to stop. `search_line`
    shortens steps that are too long: `longest_rise` suits concave functions, which may be nearly
    straight, and `interpolated_rise` others.

    There are at most `max_iter` steps. A step takes one evaluation, and others if it is too long.
    The search has converged if the next step would gain less than `tol`.
    """
    best, pairs = start, CorrectionPairs() if pairs is None else pairs
    for n_iter in range(1, max_iter + 1):
        step = pairs.direction(best.gradient, newton_step)
        if not 0.5 * float((best.gradient * step).sum()) > tol:
            return Maximum(best, True, n_iter)
        trial = search_line(evaluate, best, step, tol, is_stopped)
        if trial is None:
            return Maximum(best, False, n_iter, np.inf)
        pairs.add(trial.x - best.x, best.gradient - trial.gradient)
        best = trial
    return Maximum(best, False, max_iter, np.inf)
