"""Constant functions that maximise a likelihood.

``expect(constants)`` returns the `Expectation` of all rows if the functions equal `constants`, of
shape (K,): its values add up to the log likelihood, and its slopes to the gradient.
"""

import numpy as np
from scipy.optimize import brentq, minimize

# Largest absolute value of a constant function: exp(-30) is negligible beside one.
LARGEST_CONSTANT = 30.0
# Limits to try next if the best constants are larger, as with targets in other units.
LARGER_CONSTANTS = (3e4, 3e7, 3e10)


def best_constants(expect, n_functions):
    """Return the best constants of K functions, shape (K,).

    If there is no maximum, they are at most `LARGEST_CONSTANT`.
    """
    first = found = _best_below(expect, LARGEST_CONSTANT, np.zeros(n_functions))
    if np.abs(first).max() < LARGEST_CONSTANT:
        return first
    for largest in LARGER_CONSTANTS:
        # The likelihood may overflow on the way.
        with np.errstate(over="ignore", invalid="ignore"):
            found = _best_below(expect, largest, found)
            value = expect(found).value.sum()
        if np.abs(found).max() < largest:
            least = expect(first).value.sum()
            is_better = np.isfinite(value) and value > least + 1e-6 * abs(least)
            return found if is_better else first
    return first


def _best_below(expect, largest, start):
    """Return the best constants between -`largest` and `largest`, from a start (K,)."""

    def negative(constants):
        expected = expect(constants)
        return -float(expected.value.sum()), -expected.slope.sum(axis=1)

    limits = [(-largest, largest)] * len(start)
    options = {"maxiter": 50}
    return minimize(negative, start, jac=True, bounds=limits, options=options).x


def best_constant_between(expect, low, high):
    """Return the best constant of a single function, (1,), for a log-concave likelihood.

    Then the slope decreases. If it does not vanish between the limits, one of them is best.
    """

    def slope(constant):
        return float(expect(np.array([constant])).slope.sum())

    if slope(low) <= 0.0 or slope(high) >= 0.0:
        return np.array([low if slope(low) <= 0.0 else high])
    return np.array([brentq(slope, low, high)])
