"""Location and scale of numbers that outliers do not move."""

import numpy as np

# Ratio of the standard deviation of a Gaussian to its median absolute deviation.
GAUSSIAN_RATIO = 1.4826022185056018


def weighted_median(values, weight):
    """Return the smallest of `values` (N,) up to which there is half of the `weight` (N,)."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    # Rounding of the sums must not decide where exactly half is reached.
    half = 0.5 * total[-1] * (1.0 - 1e-12)
    return float(values[order[np.searchsorted(total, half)]])


def robust_deviation(values, weight, centre):
    """Return the deviation of `values` (N,) from a centre, by the median of their distances.

    For Gaussian values around the centre it is their standard deviation. If more than half of them
    equal the centre it is the root mean square of the distances, and 1 if all do.
    """
    distance = np.abs(values - centre)
    deviation = GAUSSIAN_RATIO * weighted_median(distance, weight)
    if deviation == 0.0:
        largest = float(distance.max()) or 1.0
        deviation = largest * float(np.sqrt(weight @ (distance / largest) ** 2 / weight.sum()))
    return deviation or 1.0
