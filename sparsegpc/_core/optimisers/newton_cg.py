"""Maximisation of a concave function by Newton steps, computed by conjugate gradients.

It suits functions whose Hessian is too large to factor but cheap to multiply by.

References
----------
Nocedal, Wright 2006, algorithm 5.3, conjugate gradients with a preconditioner, and algorithm 7.1,
Newton steps of limited accuracy.
"""

import numpy as np

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.optimisers.line_searches import longest_rise

# Conjugate gradients end when a plain step would gain less than this fraction of what they gained,
# or this fraction of the tolerance.
STEP_SHARE, TOL_SHARE = 0.01, 0.1
# Largest number of conjugate gradients in a step.
MOST_GRADIENTS = 200


def maximize_newton(evaluate, start, product, precondition, tol, relative_tol=0.0, max_iter=20):
    """Maximise a concave function of an array of any shape, in at most `max_iter` steps.

    ``evaluate(x)`` returns the point at x, with ``x``, ``value``, and ``gradient`` of the shape of
    x; `start` is such a point. ``product(point, direction)`` returns minus the Hessian at a point
    times a direction. ``precondition(gradient)`` returns an approximation of the Newton step: the
    product of a symmetric positive definite matrix and the gradient. The search stops when a step
    would gain less than `tol`, or than `relative_tol` of what the search has gained.

    Return the best point and what the next step would gain, infinite if the search has not
    converged.
    """
    best = start
    for _ in range(max_iter):
        least = max(tol, relative_tol * (best.value - start.value))
        step = _newton_step(best, product, precondition, least)
        left = 0.5 * float((best.gradient * step).sum())
        if not left > least:
            return best, left
        trial = longest_rise(evaluate, best, step, least)
        if trial is None:
            break
        best = trial
    return best, np.inf


def _newton_step(point, product, precondition, tol):
    """Return the Newton step from a point, up to what gains less than the tolerance.

    It ends before a direction whose curvature is not positive, which may be due to rounding or
    underflow. If that is the first direction, it is the step.
    """
    step, residual = np.zeros(point.x.shape), point.gradient.copy()
    direction = plain = precondition(residual)
    square, gain = float((residual * plain).sum()), 0.0
    for _ in range(MOST_GRADIENTS):
        if not 0.5 * square > max(TOL_SHARE * tol, STEP_SHARE * gain):
            break
        fall = product(point, direction)
        curvature = float((direction * fall).sum())
        if not curvature > TINY * square:
            return step if gain > 0.0 else direction
        length = square / curvature
        step += length * direction
        gain += 0.5 * length * square
        residual -= length * fall
        plain, before = precondition(residual), square
        square = float((residual * plain).sum())
        direction = plain + square / before * direction
    return step
