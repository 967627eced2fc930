"""Maximisation in a box by quasi-Newton steps, from a Hessian that may be known already."""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError


class Maximum(NamedTuple):
    """The best point that a maximisation found, and how it ended.

    ``converged`` is False where the limit of iterations ended it; ``failed`` is True where the
    function could not be computed at some point on the way; ``n_iter`` counts the iterations.
    """

    best: object
    converged: bool
    failed: bool
    n_iter: int


class BFGSHessian:
    """Minus the Hessian of a function of P parameters, learned by damped BFGS updates.

    ``matrix`` (P, P) stays positive definite (Powell 1978).

    Parameters
    ----------
    n_params : int
    guess : float
        The curvature in all directions before the first update.
    """

    def __init__(self, n_params, guess):
        self.matrix = guess * np.eye(n_params)
        self._is_guess = True

    def step(self, x, slope, bounds, longest):
        """Return the step to the maximum of the quadratic model in a box, and its gain.

        Parameters
        ----------
        x, slope : ndarray of shape (P,)
        bounds : ndarray of shape (P, 2)
            Of x.
        longest : float
            Most that a parameter may change.
        """
        low = np.maximum(bounds[:, 0] - x, -longest)
        high = np.minimum(bounds[:, 1] - x, longest)
        step = maximize_quadratic(self.matrix, slope, low, high)
        return step, float(slope @ step - 0.5 * step @ self.matrix @ step)

    def update(self, step, fall, smallest=0.2):
        """Learn from the `fall` of the slope along a step, shape (P,) each.

        The curvature along the step becomes at least `smallest` times the one before.
        """
        along = float(step @ fall)
        if self._is_guess and along > 0.0:
            self.matrix = float(fall @ fall) / along * np.eye(len(step))
            self._is_guess = False
        expected = self.matrix @ step
        before = float(step @ expected)
        if along < smallest * before:
            share = (1.0 - smallest) * before / (before - along)
            fall = share * fall + (1.0 - share) * expected
            along = smallest * before
        self.matrix = (
            self.matrix + np.outer(fall, fall) / along - np.outer(expected, expected) / before
        )


def maximize_quadratic(matrix, slope, low, high):
    """Return the maximum of ``slope @ s - s @ matrix @ s / 2`` over ``low <= s <= high``.

    A primal active-set method from s = 0, which must lie in the box. Cost P^3 for each change of
    the active set.
    """
    step, held = np.zeros(len(slope)), low >= high
    # Each round fixes or frees one parameter; a round that rounding repeats does no harm.
    for _ in range(10 * len(slope)):
        free = ~held
        residual = slope - matrix @ step
        newton = np.linalg.solve(matrix[np.ix_(free, free)], residual[free])
        room = np.where(newton > 0.0, high[free] - step[free], low[free] - step[free])
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.where(newton == 0.0, np.inf, room / newton)
        length = lengths.min(initial=1.0)
        step[free] += length * newton
        if length < 1.0:
            first = int(lengths.argmin())
            k = np.flatnonzero(free)[first]
            step[k], held[k] = high[k] if newton[first] > 0.0 else low[k], True
            continue
        # How strongly the slope pulls each parameter off its bound.
        residual = slope - matrix @ step
        pull = np.where(step >= high, -residual, residual)
        pull[~held | (low >= high)] = 0.0
        released = int(pull.argmax()) if len(pull) else 0
        if not len(pull) or pull[released] <= 0.0:
            break
        held[released] = False
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
    best=-np.inf,
    is_stopped=None,
    longest=0.5,
    poor=0.1,
    good=0.5,
    small_steps=2,
    hope=3.0,
):
    """Maximise a function in a box by steps within a trust region.

    Parameters
    ----------
    function : callable
        ``function(x, near)`` returns the point at ``x`` (P,), with ``x``, ``value`` and
        ``gradient`` (P,); `near` is the best point so far. It may raise LinAlgError.
    start : point
    bounds : ndarray of shape (P, 2)
    hessian : BFGSHessian
        Of the function over its `scale`. It is updated.
    max_iter : int
        Most evaluations.
    tol : float
        Stop where a step is expected to gain less than this.
    scale : float
        Unit of the function, for its Hessian only.
    best : float
        A value reached elsewhere, see `hope`.
    is_stopped : callable or None
        Asked after each step whether to stop.
    longest : float
        Most that the first step may change a parameter.
    poor, good : float
        A gain below the share `poor` of what was expected halves the longest step, one above the
        share `good` lets it double.
    small_steps : int
        Stop after so many steps in a row that gain less than `tol`.
    hope : float
        Stop at a point that is below `best` by more than this many times what the next step is
        expected to gain.

    Returns
    -------
    Maximum

    Raises
    ------
    LinAlgError
        If the gradient at the start is not finite.
    """
    if not np.isfinite(start.gradient).all():
        raise LinAlgError("the gradient of the bound is not finite")
    current, n_small, failed = start, 0, False
    for n_iter in range(max_iter + 1):
        step, expected = hessian.step(current.x, current.gradient / scale, bounds, longest)
        expected *= scale
        if expected < tol or current.value + hope * expected < best:
            return Maximum(current, True, failed, n_iter)
        if n_iter == max_iter:
            break
        length = float(np.abs(step).max())
        trial = _evaluated(function, np.clip(current.x + step, *bounds.T), current)
        if trial is None:
            failed, longest = True, 0.5 * length
            continue
        gain = trial.value - current.value
        hessian.update(step, (current.gradient - trial.gradient) / scale)
        if gain < poor * expected:
            longest = 0.5 * length
        elif gain > good * expected:
            longest = max(longest, 2.0 * length)
        if gain > 0.0:
            current = trial
        n_small = n_small + 1 if gain < tol else 0
        if n_small == small_steps or (is_stopped is not None and is_stopped()):
            return Maximum(current, True, failed, n_iter + 1)
    return Maximum(current, False, failed, max_iter)


def _evaluated(function, x, near):
    """Return the point at x, or None where it cannot be computed or its gradient is not finite."""
    try:
        point = function(x, near)
    except LinAlgError:
        return None
    return point if np.isfinite(point.gradient).all() else None
