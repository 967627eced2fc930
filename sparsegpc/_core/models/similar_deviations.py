"""In which columns rows that are near each other deviate from the mean alike.

A function of one, two or three of many columns may leave no other trace: rows that are near in all
columns are far apart for it. Its deviations are correlated within the cells of a grid over its own
columns. The bounds of the cells are quantiles, so the scales of the columns do not matter.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from sparsegpc._core.models.neighbour_correlation import row_deviations
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# Number of rows, and how many of them a cell of the grid holds on average.
MOST_ROWS, ROWS_PER_CELL = 5000, 4
# The largest groups of columns, and the largest number of groups of one size.
LARGEST_GROUP, MOST_GROUPS = 3, 5000
# A correlation is significant from this many standard errors on. Of noise, the largest among all
# groups of 20 columns reaches so many about once in seven times. A larger group must have so many
# times as much as a smaller one.
LEAST_ERRORS, LARGER = 4.2, 1.2


class SimilarGroup(NamedTuple):
    """Indices of columns, and the distance in each within which rows deviate from the mean alike.

    ``correlation`` is that of the deviations of two rows in the same cell of the grid.
    """

    columns: list
    distances: np.ndarray
    correlation: float


def similar_distances(model, evaluation):
    """Return within which distance in a column, by itself, rows deviate from the mean alike, (D,).

    It is infinite where there is no such distance. Cost O(n D log n) for n rows, at most
    `MOST_ROWS`.
    """
    X, deviations = _deviations(model, evaluation)
    found = np.full(X.shape[1], np.inf)
    for k in range(X.shape[1]):
        column = X[:, [k]]
        correlation, n_errors = _Grid.finest(column, 1).correlation([0], deviations)
        if n_errors > LEAST_ERRORS:
            found[k] = _distances(column, correlation, deviations)[0]
    return found


def similar_group(model, evaluation, columns):
    """Return the `SimilarGroup` with the most significant correlation, or None if none has one.

    Parameters
    ----------
    model : SparseModel
    evaluation : Evaluation
    columns : list of int
        The columns of which groups of up to `LARGEST_GROUP` are made, unless they are more than
        `MOST_GROUPS`.

    Notes
    -----
    Cost O(n) for each group and n rows, at most `MOST_ROWS`.
    """
    X, deviations = _deviations(model, evaluation)
    most_errors, best = LEAST_ERRORS, None
    for size in range(1, LARGEST_GROUP + 1):
        if comb(len(columns), size) > MOST_GROUPS:
            break
        grid = _Grid.finest(X, size)
        for group in map(list, combinations(columns, size)):
            correlation, n_errors = grid.correlation(group, deviations)
            if n_errors > most_errors:
                most_errors, best = n_errors, (group, correlation)
        if best is not None:
            most_errors *= LARGER
    if best is None:
        return None
    group, correlation = best
    return SimilarGroup(group, _distances(X[:, group], correlation, deviations), correlation)


def _deviations(model, evaluation):
    """Return some rows (n, D), and the deviations (K, n) there."""
    chosen = spaced_rows(model.weight, MOST_ROWS)
    X = take_rows(model.X, chosen, memory=np.inf)
    return X, row_deviations(evaluation, X, chosen)


class _Grid:
    """A grid whose bins hold about equally many rows in each column of X (n, D)."""

    def __init__(self, X, n_bins):
        self._X, self.n_bins = X, n_bins
        edges = np.quantile(X, np.arange(1, n_bins) / n_bins, axis=0)
        pairs = zip(edges.T, X.T, strict=True)
        self._bins = [np.searchsorted(edge, x, side="right") for edge, x in pairs]

    @classmethod
    def finest(cls, X, n_columns):
        """Return the grid with `ROWS_PER_CELL` if it has a number of columns."""
        return cls(X, max(2, int((len(X) / ROWS_PER_CELL) ** (1.0 / n_columns))))

    def correlation(self, columns, deviations):
        """Return the correlation of deviations (K, n) of two rows in the same cell.

        Also return how many standard errors it is away from zero.
        """
        cells = np.zeros(len(self._X), dtype=np.intp)
        for k in columns:
            cells = cells * self.n_bins + self._bins[k]
        counts = np.bincount(cells)
        # Each pair counts twice. Where there is none, the numerator is zero, too.
        n_pairs = max(float((counts * (counts - 1)).sum()), 1.0)
        square = float((deviations**2).sum())
        sums = [np.bincount(cells, each) for each in deviations]
        mean_product = (float(np.square(sums).sum()) - square) / n_pairs
        correlation = mean_product * len(self._X) / max(square, TINY)
        return correlation, correlation * np.sqrt(n_pairs / 2.0)

    def distances(self):
        """Return the root mean square distance in each column, (D,), of rows in a middle cell."""
        share = 0.5 / self.n_bins
        low, high = np.quantile(self._X, [0.5 - share, 0.5 + share], axis=0)
        return np.where(low < high, (high - low) / np.sqrt(6.0), self._X.std(axis=0))


def _distances(X, correlation, deviations):
    """Return the distances in the largest cells that keep half of a correlation, shape (D,)."""
    grid, columns = _Grid.finest(X, X.shape[1]), range(X.shape[1])
    while grid.n_bins > 2:
        coarser = _Grid(X, grid.n_bins * 2 // 3)
        if coarser.correlation(columns, deviations)[0] < 0.5 * correlation:
            break
        grid = coarser
    return grid.distances()
