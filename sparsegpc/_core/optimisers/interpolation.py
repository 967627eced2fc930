"""A step in a given direction, shortened by interpolation until it gains enough.

References
----------
Nocedal, Wright 2006, section 3.5, cubic interpolation.
"""

import numpy as np

from sparsegpc._core.numerics.floats import TINY

# A step must gain this share of what the slope at its start promises.
LEAST_SHARE = 1e-4
# Limits of the length of a step relative to the one before, which was too long.
SHORTEST, LONGEST = 0.1, 0.5


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
    return float(np.clip(place, SHORTEST, LONGEST)) if np.isfinite(place) else SHORTEST
