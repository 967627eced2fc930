"""Rows that agree with others but for rounding."""

import numpy as np

# A row is compared with at most so many others that may be near.
MOST_COMPARED = 100


def near_copies(table, tolerance):
    """Return which rows of a table (N, D) nearly agree with one that is kept, a mask (N,).

    They differ from it by at most `tolerance` (D,), which is positive, in each column. The kept row
    is an earlier one, and the rows that are kept do not agree nearly with each other, unless more
    than `MOST_COMPARED` rows lie between them in a random direction.
    """
    # Large values would lose digits, so differences are those from the first row.
    scaled = (table - table[:1]) / tolerance
    pairs, is_copy = _near_pairs(scaled), [False] * len(table)
    for first, second in pairs[np.lexsort(pairs.T[::-1])].tolist():
        is_copy[second] |= not is_copy[first]
    return np.array(is_copy, dtype=bool)


def _near_pairs(scaled):
    """Return pairs of indices of rows, (n, 2), that differ by at most one in each column.

    The first index of each pair is the smaller one.
    """
    direction = np.random.RandomState(0).uniform(0.5, 1.0, scaled.shape[1])
    along = scaled @ direction
    order = np.argsort(along, kind="stable")
    # Near rows are not further apart than this, up to rounding.
    most, along, found = 1.001 * direction.sum(), along[order], []
    for lag in range(1, min(MOST_COMPARED, len(order) - 1) + 1):
        places = np.flatnonzero(along[lag:] - along[:-lag] <= most)
        if not len(places):
            break
        first, second = order[places], order[places + lag]
        for column in scaled.T:
            is_near = np.abs(column[second] - column[first]) <= 1.0
            first, second = first[is_near], second[is_near]
        found.append(np.column_stack([np.minimum(first, second), np.maximum(first, second)]))
    return np.concatenate([np.empty((0, 2), dtype=np.intp), *found])
