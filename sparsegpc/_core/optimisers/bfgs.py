"""Maximisation in a box by quasi-Newton steps, from an initial Hessian."""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.optimisers.maximum import Maximum

# A guessed Hessian counts as learned after this many updates.
FEW_UPDATES = 5
# An update takes the curvature along a step to be at least this fraction of the old one.
LEAST_CURVATURE_SHARE = 0.2
# A fall of the slope along a step counts as at most this multiple of the slope. After a step over
# an edge it is far larger, and steps by a Hessian learned from it would be too short.
MOST_FALL = 10.0
# Largest change of a parameter in the first step.
FIRST_LENGTH = 0.5
# If a step gains less than the share POOR of what was expected, the next one is at most half as
# long. If it gains more than the share GOOD, the next one may be twice as long.
POOR, GOOD = 0.1, 0.5
# A search ends after this many small steps in a row.
SMALL_STEPS = 2
# A search is hopeless if this multiple of the gain that it expects does not make it the best.
OPTIMISM = 3.0


class BFGSHessian:
    """Minus the Hessian of a function of P parameters, learned by damped BFGS updates.

    ``matrix`` (P, P) stays positive definite up to rounding (Powell 1978). It may leave out a part
    of the function with known derivatives: `step` takes the curvature of that part, and `update`
    the slope without it. `curvatures` (P,) is a guess of the curvature in each parameter.
    """

    def __init__(self, curvatures):
        self.matrix = np.diag(curvatures)
        self._updates_needed = FEW_UPDATES

    @classmethod
    def known(cls, matrix):
        """Return minus a Hessian that is known at the start, shape (P, P), positive definite."""
        hessian = cls(np.ones(len(matrix)))
        hessian.matrix, hessian._updates_needed = matrix, 0
        return hessian

    @property
    def is_learned(self):
        """Whether it was known at the start, or has had a few updates since."""
        return self._updates_needed <= 0

    def with_parameters(self, place, n_params, curvature):
        """Return the Hessian of a function that has `n_params` more parameters from index `place`.

        They have the given curvature, a guess, and no curvature together with the others.
        """
        n_before = len(self.matrix)
        others = np.delete(np.arange(n_before + n_params), slice(place, place + n_params))
        hessian = BFGSHessian(np.full(n_before + n_params, curvature))
        hessian.matrix[np.ix_(others, others)] = self.matrix
        return hessian

    def step(self, x, slope, bounds, longest, known=0.0):
        """Return the step to the maximum of the quadratic model in a box, and its expected gain.

        `x` and `slope` have the shape (P,), and `bounds` of x the shape (P, 2). Each parameter
        changes by at most `longest`. `known` (P, P) is the curvature that the matrix leaves out.
        """
        low = np.maximum(bounds[:, 0] - x, -longest)
        high = np.minimum(bounds[:, 1] - x, longest)
        matrix = self.matrix + known
        step = maximize_quadratic(matrix, slope, low, high)
        return step, float(slope @ step - 0.5 * step @ matrix @ step)

    def update(self, step, fall):
        """Update the matrix from a step and the decrease of the slope over it, shape (P,) each."""
        new = float(step @ fall)
        expected = self.matrix @ step
        old = float(step @ expected)
        if old <= 0.0:
            # Beside a huge curvature, rounding has made the matrix indefinite along this step.
            return
        self._updates_needed -= 1
        least = LEAST_CURVATURE_SHARE * old
        if new < least:
            share = (1.0 - LEAST_CURVATURE_SHARE) * old / (old - new)
            fall = share * fall + (1.0 - share) * expected
            new = least
        self.matrix = self.matrix + np.outer(fall, fall) / new - np.outer(expected, expected) / old


def projected_gradient(x, gradient, bounds):
    """Return the gradient, with zeros where x is at a bound that the gradient points beyond."""
    low, high = bounds.T
    is_held = ((x <= low) & (gradient < 0.0)) | ((x >= high) & (gradient > 0.0))
    return np.where(is_held, 0.0, gradient)


def maximize_quadratic(matrix, slope, low, high):
    """Return the maximum of ``slope @ s - s @ matrix @ s / 2`` over ``low <= s <= high``.

    It uses a primal active-set method from s = 0, which must lie in the box. Cost P^3 for each
    change of the active set.
    """
    step, active = np.zeros(len(slope)), low >= high
    # At first all parameters that would leave the box are fixed at once, as they may be many. Then
    # each round fixes or frees one of them. The limit ends cycles that rounding may cause.
    are_fixed_at_once = True
    for _ in range(10 * len(slope)):
        free = ~active
        residual = slope - matrix @ step
        newton = np.linalg.solve(matrix[np.ix_(free, free)], residual[free])
        if are_fixed_at_once:
            end = step[free] + newton
            inside = np.clip(end, low[free], high[free])
            leave = np.flatnonzero(free)[inside != end]
            step[leave], active[leave] = inside[inside != end], True
            are_fixed_at_once = len(leave) > 0
            if are_fixed_at_once:
                continue
        room = np.where(newton > 0.0, high[free] - step[free], low[free] - step[free])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lengths = np.where(newton == 0.0, np.inf, room / newton)
        length = lengths.min(initial=1.0)
        step[free] += length * newton
        if length < 1.0:
            first = int(lengths.argmin())
            k = np.flatnonzero(free)[first]
            step[k], active[k] = high[k] if newton[first] > 0.0 else low[k], True
            continue
        # The derivative of the quadratic as each parameter moves away from its bound.
        residual = slope - matrix @ step
        pull = np.where(step >= high, -residual, residual)
        pull[~active | (low >= high)] = 0.0
        released = int(pull.argmax()) if len(pull) else 0
        if not len(pull) or pull[released] <= 0.0:
            break
        active[released] = False
    return step


def maximize_bfgs(
    function,
    start,
    bounds,
    hessian,
    *,
    max_iter,
    tol,
    scale=1.0,
    known=None,
    to_beat=-np.inf,
    relative_tol=0.0,
    is_stopped=lambda: False,
):
    """Maximise a function in a box by steps within a trust region, and return the `Maximum`.

    ``function(x, near, expected)`` returns the point at x (P,), with ``x``, ``value`` and
    ``gradient`` (P,). `near` is the best point so far, and `expected` what the step from there is
    expected to gain; an error much smaller than this does no harm. It may raise LinAlgError.
    `start` is a point, and `bounds` has the shape (P, 2).

    `hessian` is the `BFGSHessian` of the function, divided by its unit `scale`, without its `known`
    part, if any; it is updated. That part has the methods ``gradient(x)`` (P,) and
    ``curvature(x)`` (P, P), which is positive semi-definite.

    The search ends after `max_iter` evaluations, or when the expected gain of the next step is less
    than `tol` or than `relative_tol` of the whole gain; once the Hessian is learned, also if it is
    not expected to come near `to_beat`, a value reached elsewhere. ``is_stopped()`` is called after
    each step and returns whether to stop. Raises LinAlgError if the gradient at the start is not
    finite.
    """
    if not np.isfinite(start.gradient).all():
        raise LinAlgError("the gradient of the bound is not finite")
    current, longest, n_small = start, FIRST_LENGTH, 0

    def is_hopeless(current, expected, curvature):
        if not hessian.is_learned or current.value + OPTIMISM * expected >= to_beat:
            return False
        # The next step may only be short because of the trust region.
        slope = current.gradient / scale
        _, expected = hessian.step(current.x, slope, bounds, np.inf, curvature)
        return current.value + OPTIMISM * scale * expected < to_beat

    for n_iter in range(max_iter + 1):
        curvature = 0.0 if known is None else known.curvature(current.x) / scale
        step, expected = hessian.step(
            current.x, current.gradient / scale, bounds, longest, curvature
        )
        expected *= scale
        least = max(tol, relative_tol * (current.value - start.value))
        if expected < least or is_hopeless(current, expected, curvature):
            return Maximum(current, True, n_iter)
        if n_iter == max_iter:
            break
        length = float(np.abs(step).max())
        trial = _evaluated(function, np.clip(current.x + step, *bounds.T), current, expected)
        if trial is None:
            longest = 0.5 * length
            continue
        gain = trial.value - current.value
        fall = current.gradient - trial.gradient
        if known is not None:
            fall = fall - (known.gradient(current.x) - known.gradient(trial.x))
        most = MOST_FALL * float(current.gradient @ step)
        if float(fall @ step) > most > 0.0:
            fall = fall * (most / float(fall @ step))
        hessian.update(step, fall / scale)
        if gain < POOR * expected:
            longest = 0.5 * length
        elif gain > GOOD * expected:
            longest = max(longest, 2.0 * length)
        if gain > 0.0:
            current = trial
        # A long fall is no sign of a maximum: the Hessian was wrong, and has learned from it.
        n_small = n_small + 1 if abs(gain) < tol else 0
        if n_small == SMALL_STEPS or is_stopped():
            return Maximum(current, True, n_iter + 1)
    return Maximum(current, False, max_iter)


def _evaluated(function, *arguments):
    """Return the point, or None if it cannot be computed or its gradient is not finite."""
    try:
        point = function(*arguments)
    except LinAlgError:
        return None
    return point if np.isfinite(point.gradient).all() else None
