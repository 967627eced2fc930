"""A step in a given direction, halved until it does not lower the value."""

import numpy as np

# A search stops if a step still lowers the value at the fraction SHORTEST of its full length. If
# the slope promises more than the tolerance even then, the limit is LAST_RESORT.
SHORTEST, LAST_RESORT = 2.0**-40, 2.0**-1000


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
