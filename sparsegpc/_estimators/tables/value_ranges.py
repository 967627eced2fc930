"""Columns of which most new values lie beyond all that `fit` saw, as row numbers do."""

import numpy as np

# With fewer different values, such as a few sites or years, new ones beyond them are common.
FEWEST_VALUES = 30
# A column is reported if more than this share of at least so many new rows lie beyond. Of rows like
# those of `fit` as many do with a probability of at most 4e-5.
MOST_BEYOND, ENOUGH_ROWS = 0.5, 20


def value_ranges(values):
    """Return the smallest and the largest number of each column of `values` (N, D), as (2, D).

    They are nan for columns with few different values. Missing values are nan.
    """
    ranges = np.full((2, values.shape[1]), np.nan)
    for k, column in enumerate(values.T):
        distinct = np.unique(column[~np.isnan(column)])
        if len(distinct) >= FEWEST_VALUES:
            ranges[:, k] = distinct[[0, -1]]
    return ranges


def columns_beyond(values, ranges):
    """Return the indices of the columns of `values` (N, D) with most rows beyond `value_ranges`."""
    if len(values) < ENOUGH_ROWS:
        return np.empty(0, dtype=int)
    smallest, largest = ranges
    # Comparisons with nan are false.
    share = np.mean((values < smallest) | (values > largest), axis=0)
    return np.flatnonzero(share > MOST_BEYOND)
