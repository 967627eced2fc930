"""Rows that agree with others but for rounding."""

import numpy as np

# Rows agree but for rounding if their columns, and their targets, differ by at most these fractions
# of the standard deviations.
SAME_X, SAME_Y = 1e-4, 1e-3
# A row is compared with at most so many others that may be near.
MOST_COMPARED = 100
# Rows are copies only if there are at most MOST_MORE times as many of them with a tolerance that is
# FURTHER times as large. Dense rows, some of which are near each other by chance, have far more.
FURTHER, MOST_MORE = 10.0, 1.5


def copied_rows(table, tolerance):
    """Return for each row of a table (N, D) the row that it is a copy of, (N,), or itself.

    A copy differs by at most `tolerance` (D,), which is positive, in each column. The row that it
    is a copy of is an earlier one, and itself no copy.
    """
    own = np.arange(len(table))
    # Large values would lose digits, so differences are those from the first row.
    scaled = (table - table[:1]) / tolerance
    found = _first_near_rows(scaled)
    n_copies = (found < own).sum()
    if n_copies and (_first_near_rows(scaled / FURTHER) < own).sum() <= MOST_MORE * n_copies:
        return found
    return own


def _first_near_rows(scaled):
    """Return for each row the first one that differs by at most one in each column, (N,).

    Rows for which that is another one are not compared with later rows.
    """
    pairs, first_near = _near_pairs(scaled), list(range(len(scaled)))
    for first, second in pairs[np.lexsort(pairs.T[::-1])].tolist():
        if first_near[first] == first and first_near[second] == second:
            first_near[second] = first
    return np.array(first_near, dtype=np.intp)


def _near_pairs(scaled):
    """Return pairs of indices of rows, (n, 2), that differ by at most one in each column.

    The first index of each pair is the smaller one. Rows are not compared if more than
    `MOST_COMPARED` lie between them in a random direction.
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
