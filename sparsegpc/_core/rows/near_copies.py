"""Rows that agree with others but for rounding."""

import numpy as np
from scipy.spatial import cKDTree

# Among more rows none are looked for, as that would take too long.
MOST_ROWS = 100_000
# If there are more pairs than this for each row, the rows are dense, and not copies of each other.
MOST_PAIRS = 10


def near_copies(table, tolerance):
    """Return which rows of a table (N, D) nearly agree with one that is kept, a mask (N,).

    They differ from it by at most `tolerance` (D,), which is positive, in each column. The kept row
    is an earlier one, and the rows that are kept do not agree nearly with each other.
    """
    is_copy = np.zeros(len(table), dtype=bool)
    if not 1 < len(table) <= MOST_ROWS:
        return is_copy
    # Large values would lose digits, so differences are those from the first row.
    tree = cKDTree((table - table[0]) / tolerance)
    n_pairs = (tree.count_neighbors(tree, 1.0, p=np.inf) - len(table)) // 2
    if not 0 < n_pairs <= MOST_PAIRS * len(table):
        return is_copy
    pairs = tree.query_pairs(1.0, p=np.inf, output_type="ndarray")
    for first, second in pairs[np.lexsort(pairs.T[::-1])]:
        is_copy[second] |= not is_copy[first]
    return is_copy
