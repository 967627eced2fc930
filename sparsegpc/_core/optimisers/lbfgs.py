"""Maximisation of a concave function by L-BFGS, with a given approximation of the Newton step.

References
----------
Nocedal 1980, the two-loop recursion.
"""

import numpy as np

from sparsegpc._core.numerics.floats import EPSILON


def maximize_lbfgs(evaluate, start, newton_step, tol, max_iter=20, shortest=2.0**-40):
    """Maximise a concave function of an array of any shape.

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
        Maximum number of steps. A step takes one evaluation, and one more each time it is halved.
    shortest : float
        Stop if a step still lowers the value at this fraction of its full length.

    Returns
    -------
    best : point
    converged : bool
        Whether the next step would gain less than `tol`.
    """
    best, pairs = start, []
    for _ in range(max_iter):
        step = _direction(best.gradient, pairs, newton_step)
        converged = not 0.5 * float((best.gradient * step).sum()) > tol
        if converged:
            break
        length, gain = 1.0, -np.inf
        # Where the curvature is nearly zero, full steps are far too long.
        while gain < 0.0 and length >= shortest:
            trial = evaluate(best.x + length * step)
            gain = trial.value - best.value
            length *= 0.5
        if not gain >= 0.0:
            break
        _remember(pairs, trial.x - best.x, best.gradient - trial.gradient)
        best = trial
    return best, converged


def _remember(pairs, step, change):
    """Append a step, the decrease of the gradient along it and their product to the pairs.

    Do nothing if the product is not finite or no larger than rounding.
    """
    # The first steps may be so long that the products overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        curvature = float((step * change).sum())
        size = float(np.linalg.norm(step) * np.linalg.norm(change))
    if np.inf > curvature > EPSILON * size:
        pairs.append((step, change, curvature))


def _direction(gradient, pairs, newton_step):
    """Return the L-BFGS step for a gradient, of the same shape."""
    gradient, weights = gradient.copy(), []
    for step, change, curvature in reversed(pairs):
        weights.append(float((step * gradient).sum()) / curvature)
        gradient -= weights[-1] * change
    direction = newton_step(gradient)
    for (step, change, curvature), weight in zip(pairs, reversed(weights), strict=True):
        direction += (weight - float((change * direction).sum()) / curvature) * step
    return direction
