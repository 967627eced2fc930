"""Searches along a step that may be too long.

References
----------
Nocedal, Wright 2006, section 3.5, cubic interpolation.
"""

import numpy as np

from sparsegpc._core.numerics.floats import TINY

# Halving stops if a step still lowers the value at the fraction SHORTEST of its full length. If
# the slope promises more than the tolerance even then, the limit is LAST_RESORT.
SHORTEST, LAST_RESORT = 2.0**-40, 2.0**-1000
# An interpolated step must gain this share of what the slope at its start promises.
LEAST_SHARE = 1e-4
# Limits of the length of a step relative to the one before, which was too long.
LEAST_RATIO, MOST_RATIO = 0.1, 0.5


def longest_rise(evaluate, best, step, tol, is_stopped=lambda: False):
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


def interpolated_rise(evaluate, best, step, tol, is_stopped=lambda: False):
    """Return a point along a step from the `best` one with a higher value, or None.

    The full step is tried first. A step that does not gain enough is shortened to the maximum of
    the cubic function that has the values and slopes at both of its ends. The search ends without
    a point when the slope at the start promises no more than `tol`. ``is_stopped()`` is called
    before each evaluation and returns whether to stop.
    """
    slope, length = (best.gradient * step).sum(), 1.0
    while not is_stopped():
        trial = evaluate(best.x + length * step)
        gain, promised = trial.value - best.value, length * slope
        if gain >= max(LEAST_SHARE * promised, 0.0):
            return trial
        # Where this overflows or is not a number, the step becomes as short as is allowed.
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            last_slope = length * (trial.gradient * step).sum()
            length *= _shortened(gain / promised, last_slope / promised)
        if length < TINY or not length * slope > tol:
            break
    return None


def _shortened(value, slope):
    """Return where between 0 and 1 a cubic function of slope 1 at 0 is highest.

    The function is 0 at 0, and has this value and slope at 1.
    """
    # f(t) = t + b t^2 + c t^3
    b, c = 3.0 * value - slope - 2.0, 1.0 + slope - 2.0 * value
    place = 1.0 / (np.sqrt(b**2 - 3.0 * c) - b)
    return float(np.clip(place, LEAST_RATIO, MOST_RATIO)) if np.isfinite(place) else LEAST_RATIO
