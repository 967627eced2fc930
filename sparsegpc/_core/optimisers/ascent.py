"""Ascent on a bound by a fixed-point iteration: no step that lowers the bound is kept.

An extrapolated step that would lower it is replaced by a plain one; a plain step is halved until it
does not.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError


class Ascent(NamedTuple):
    """The best point of an ascent, the bound after each accepted step, and how it ended.

    ``n_iter`` counts the evaluations, the start included.
    """

    best: object
    bounds: list
    n_iter: int
    converged: bool


def ascend(
    evaluate, start, *, tol, max_iter, shortest, rounding=0.0, growth=np.inf, accelerator=None
):
    """Maximise a bound by fixed-point steps from a point.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(x, best)`` returns the point at x, given the best point so far.
    start : point
        With its ``bound``, and ``towards_target(length)``, an x part of the way to the image of
        its own. It may have ``next_gain``, an estimate from above of what the next step gains.
    tol : float
        Stop when a step of length l gains less than l times this, or the next one would gain less
        than this.
    max_iter : int
        Most evaluations, the start included.
    shortest : float
        Give up where a shorter step would be needed.
    rounding : float
        A fall of the bound by no more than this is accepted.
    growth : float
        By how much a step may be longer than the one that was accepted before, up to length one.
    accelerator : Anderson or None
        Extrapolates after an accepted step; None takes plain steps.

    Returns
    -------
    Ascent

    Raises
    ------
    LinAlgError
        If the bound is not finite at the start. Later such points are refused like those that lower
        the bound.
    """
    refuse_infinite(start.bound)
    best, bounds, n_iter = start, [start.bound], 1
    length, is_plain, converged = 1.0, accelerator is None, _is_done(start, False, tol)
    while n_iter < max_iter and not converged:
        x = best.towards_target(length) if is_plain else accelerator.next(best)
        n_iter += 1
        trial, gain = _tried(evaluate, x, best)
        # A short step gains little because it is short.
        is_small = abs(gain) < tol * length
        if gain >= -rounding:
            best, is_plain = trial, accelerator is None
            bounds.append(best.bound)
            converged = _is_done(best, is_small, tol)
            length = min(1.0, growth * length)
            continue
        extrapolated = accelerator is not None and accelerator.extrapolated
        if accelerator is not None:
            accelerator.refuse()
        # A plain step that falls by next to nothing has nothing to gain.
        converged = is_small and not extrapolated
        length, is_plain = 1.0 if extrapolated else 0.5 * length, True
        if length < shortest:
            break
    return Ascent(best, bounds, n_iter, converged)


def refuse_infinite(bound):
    """Raise LinAlgError if the first bound that was computed is not finite."""
    if not np.isfinite(bound):
        raise LinAlgError(f"the bound is {bound} at the first sites tried")


def _tried(evaluate, x, best):
    """Return the point at x and its gain, which is -inf where it cannot be evaluated."""
    try:
        trial = evaluate(x, best)
    except LinAlgError:
        return None, -np.inf
    return trial, trial.bound - best.bound if np.isfinite(trial.bound) else -np.inf


def _is_done(point, is_small, tol):
    """Return whether no further step pays after one that was accepted."""
    next_gain = getattr(point, "next_gain", None)
    if next_gain is None:
        return is_small
    return next_gain < tol or (is_small and next_gain < np.inf)
