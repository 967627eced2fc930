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
from sparsegpc._core.optimisers.maximum import Maximum

# Conjugate gradients end when a plain step would gain less than this fraction of what they gained,
# or this fraction of the tolerance.
STEP_SHARE, TOL_SHARE = 0.01, 0.1
# Largest number of conjugate gradients in a step.
MOST_GRADIENTS = 200


def maximize_newton(evaluate, start, product, precondition, tol, relative_tol=0.0, max_iter=20):
    """Maximise a concave function by at most `max_iter` steps, and return the `Maximum`.

    ``evaluate(x)`` returns the point at x, an array of any shape, with ``x``, ``value``, and
    ``gradient`` of that shape; `start` is such a point. ``product(point, direction)`` returns minus
    the Hessian at a point times a direction. ``precondition(gradient)`` returns an approximation of
    the Newton step: the product of a symmetric positive definite matrix and the gradient. The
    search has converged when a step would gain less than `tol`, or than `relative_tol` of what it
    has gained.
    """
    best = start
    for n_iter in range(1, max_iter + 1):
        least = max(tol, relative_tol * (best.value - start.value))
        step = _newton_step(best, product, precondition, least)
        left = 0.5 * float((best.gradient * step).sum())
        if not left > least:
            return Maximum(best, True, n_iter, left)
        trial = longest_rise(evaluate, best, step, least)
        if trial is None:
            return Maximum(best, False, n_iter, np.inf)
        best = trial
    return Maximum(best, False, max_iter, np.inf)


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
