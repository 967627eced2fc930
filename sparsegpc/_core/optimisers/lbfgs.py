"""Maximisation of a concave function by L-BFGS, in a metric in which its first step is Newton's."""

import numpy as np

# Where the curvature vanishes steps are far too long.
MAX_STEPS, SHORTEST_STEP = 20, 2.0**-40
EPSILON = np.finfo(np.float64).eps


class LBFGS:
    """Maximisation over an array of any shape.

    Parameters
    ----------
    look : callable
        ``look(x)`` returns the point at x, with ``x``, ``value`` and ``gradient``, of the shape of
        x.
    newton_step : callable
        ``newton_step(gradient)`` returns the step that a gradient implies before anything is
        learned: a linear map, symmetric and positive semi-definite.
    tol : float
        Stop when a step would gain less than this.
    """

    def __init__(self, look, newton_step, tol):
        self._look, self._newton_step, self._tol = look, newton_step, tol
        self._pairs = []

    def climb(self, start):
        """Climb from a point.

        Returns
        -------
        best : point
        solved : bool
            Whether a further step would gain less than the tolerance.

        Notes
        -----
        One look for each step, or more where a step is too long.
        """
        best = start
        for _ in range(MAX_STEPS):
            step = self._direction(best.gradient)
            solved = not 0.5 * float((best.gradient * step).sum()) > self._tol
            if solved:
                break
            length, gain = 1.0, -np.inf
            while gain < 0.0 and length >= SHORTEST_STEP:
                trial = self._look(best.x + length * step)
                gain = trial.value - best.value
                length *= 0.5
            if not gain >= 0.0:
                break
            self._remember(trial.x - best.x, best.gradient - trial.gradient)
            best = trial
        return best, solved

    def _remember(self, step, change):
        """Note by how much the gradient fell along a step."""
        # First steps may be so long that these overflow: then there is nothing to learn from them.
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = float((step * change).sum())
            size = float(np.linalg.norm(step) * np.linalg.norm(change))
        if np.inf > curvature > EPSILON * size:
            self._pairs.append((step, change, curvature))

    def _direction(self, gradient):
        """Return the step that the gradient implies, of its shape."""
        gradient, weights = gradient.copy(), []
        for step, change, curvature in reversed(self._pairs):
            weights.append(float((step * gradient).sum()) / curvature)
            gradient -= weights[-1] * change
        direction = self._newton_step(gradient)
        for (step, change, curvature), weight in zip(self._pairs, reversed(weights), strict=True):
            direction += (weight - float((change * direction).sum()) / curvature) * step
        return direction
