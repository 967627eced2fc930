"""Maximise a bound by a fixed-point iteration, without steps that lower the bound.

An extrapolated step that would lower the bound is replaced by a plain step. A plain step is halved
until it does not lower the bound.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.optimisers.maximum import Maximum


def ascend(
    evaluate, start, *, tol, max_iter, shortest, rounding=0.0, growth=np.inf, accelerator=None
):
    """Maximise a bound by fixed-point steps, and return the `Maximum`.

    ``evaluate(x, best)`` returns the point at x, given the best point so far; `start` is such a
    point. A point has its ``bound`` and a method ``towards_target(length)``, which returns the x at
    the fraction `length` of the way from its x to the image of x. Its ``next_gain`` is an upper
    estimate of the gain of the next step, or None.

    The ascent stops when a step of length l gains less than ``l * tol``, when the next step would
    gain less than `tol`, when a step would have to be shorter than `shortest`, or after `max_iter`
    evaluations, including the start. A step is accepted if it lowers the bound by at most
    `rounding`. It is at most `growth` times as long as the last accepted one, and never longer than
    one. An `accelerator`, an `Anderson`, extrapolates after accepted steps; None takes plain steps
    only.

    Raises `LinAlgError` if the bound is not finite at the start. Later points without a finite
    bound are rejected.
    """
    refuse_infinite(start.bound)
    best, n_iter = start, 1
    length, is_plain, converged = 1.0, accelerator is None, _is_done(start, False, tol)
    while n_iter < max_iter and not converged:
        x = best.towards_target(length) if is_plain else accelerator.next(best)
        n_iter += 1
        trial, gain = _try(evaluate, x, best)
        # A short step gains little, so its gain is compared with the tolerance for its length.
        is_small = abs(gain) < tol * length
        if gain >= -rounding:
            best, is_plain = trial, accelerator is None
            converged = _is_done(best, is_small, tol)
            length = min(1.0, growth * length)
            continue
        extrapolated = accelerator is not None and accelerator.extrapolated
        if accelerator is not None:
            accelerator.refuse()
        # A plain step that lowers the bound by less than the tolerance ends at a maximum.
        converged = is_small and not extrapolated
        length, is_plain = 1.0 if extrapolated else 0.5 * length, True
        if length < shortest:
            break
    return Maximum(best, converged, n_iter)


def refuse_infinite(bound):
    """Raise LinAlgError if the bound at the start is not finite."""
    if not np.isfinite(bound):
        raise LinAlgError(f"the bound is {bound} at the first sites tried")


def _try(evaluate, x, best):
    """Return the point at x and its gain, or None and -inf if the bound cannot be computed."""
    try:
        trial = evaluate(x, best)
    except LinAlgError:
        return None, -np.inf
    return trial, trial.bound - best.bound if np.isfinite(trial.bound) else -np.inf


def _is_done(point, is_small, tol):
    """Return whether the ascent has converged after an accepted step."""
    if point.next_gain is None:
        return is_small
    return point.next_gain < tol or (is_small and point.next_gain < np.inf)
