"""The distances in single columns within which deviations are correlated.

A fast function of a single column shows in this way, although rows that are near in all columns may
be far apart for it.
"""

import numpy as np

from sparsegpc._core.diagnostics.deviations import LEAST_ERRORS, deviating_rows
from sparsegpc._core.numerics.floats import TINY

# The number of rows that are put in the order of a column.
ORDERED_ROWS = 2000


def similar_distances(model, evaluation):
    """Return, for each column, the distance within which deviations are correlated, (D,).

    It is the distance at which the correlation of the deviations, in the order of the column, falls
    below half of that of successive rows; it is infinite if successive rows have no significant
    correlation. Rows with equal values are in random order, as otherwise they would be near in
    other columns, too. Cost O(n D log n) for at most `ORDERED_ROWS` rows.
    """
    X, deviations, _ = deviating_rows(model, evaluation, ORDERED_ROWS)
    square = max(float((deviations**2).sum()), TINY)
    shuffled = np.random.RandomState(0).permutation(len(X))
    distances = []
    for x in X.T:
        order = np.lexsort((shuffled, x))
        distances.append(_similar_distance(x[order], deviations[:, order], square))
    return np.array(distances)


def _similar_distance(x, deviations, square):
    """Return the distance within which deviations are correlated, given sorted values x (n,).

    The values are those of a column; `square` is the sum of the squared deviations (K, n).
    """

    def correlation(lag):
        return float((deviations[:, lag:] * deviations[:, :-lag]).sum()) / square

    if len(x) < 2:
        return np.inf
    first, lag = correlation(1), 2
    if first <= LEAST_ERRORS / np.sqrt(len(x)):
        return np.inf
    while lag < len(x):
        distance = float(np.median(x[lag:] - x[:-lag]))
        if correlation(lag) < 0.5 * first and distance > 0.0:
            return distance
        lag += 1 + lag // 4
    return np.inf
