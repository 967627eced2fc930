"""Groups of a few columns in which deviations are correlated at rows near each other.

A function of one, two or three of many columns may show in no other way: rows that are near in all
columns are far apart for it. Its deviations are correlated within the cells of a grid over these
columns. The edges of the cells are quantiles, so the scales of the columns do not matter.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from sparsegpc._core.diagnostics.deviations import deviating_rows, deviation_size
from sparsegpc._core.numerics.floats import TINY

# Number of rows, and how many of them a cell of a grid holds on average.
GRID_ROWS, ROWS_PER_CELL = 5000, 4
# The largest groups of columns, and the largest number of groups of one size.
LARGEST_GROUP, MOST_GROUPS = 3, 5000
# If one of two columns has as many bins as possible, the other has this many.
FEW_BINS = 3
# The cells of several groups of columns are numbered together, in arrays of at most this size,
# which stay in the cache.
MOST_ELEMENTS = 2**16
# The largest correlation of all groups is significant from this many standard errors on. With noise
# alone in 20 columns, it reaches that about once in seven data sets. A larger group needs LARGER
# times as many standard errors as a smaller one.
LEAST_ERRORS_OF_GROUPS, LARGER = 4.2, 1.2


class SimilarGroup(NamedTuple):
    """Indices of columns, and the distance in each within which deviations are correlated.

    ``correlation`` is that of the deviations of two rows in the same cell of the grid, and ``size``
    that of the deviations, see `deviation_size`.
    """

    columns: list
    distances: np.ndarray
    correlation: float
    size: float


def similar_group(model, evaluation, columns):
    """Return the `SimilarGroup` with the most significant correlation, or None if none has one.

    Groups of up to `LARGEST_GROUP` of the `columns` are tried, unless they are more than
    `MOST_GROUPS`. Cost O(n) for each group and n rows, at most `GRID_ROWS`.
    """
    X, deviations, indices = deviating_rows(model, evaluation, GRID_ROWS)
    grids = _Grids(X, deviations)
    columns = [k for k in columns if grids.varies[k]]
    most_errors, best = LEAST_ERRORS_OF_GROUPS, None
    for size in range(1, LARGEST_GROUP + 1):
        if not 0 < comb(len(columns), size) <= MOST_GROUPS:
            break
        groups = np.array(list(combinations(columns, size)))
        for n_bins in grids.shapes(size):
            _, n_errors = grids.correlations(groups, n_bins)
            first = int(np.argmax(n_errors))
            if n_errors[first] > most_errors:
                most_errors, best = n_errors[first], (groups[first].tolist(), n_bins)
        if best is not None:
            most_errors *= LARGER
    if best is None:
        return None
    group, n_bins, correlation = _without_idle_columns(grids, *best)
    distances = grids.distances(group, n_bins, correlation)
    size = deviation_size(evaluation, deviations, indices)
    return SimilarGroup(group, distances, correlation, size)


def _without_idle_columns(grids, group, n_bins):
    """Return a grid without the columns that add nothing, and the correlation within its cells.

    A column of few values makes hardly more cells, so a group may be as significant with it.
    """
    correlation, n_errors = grids.correlation(group, n_bins)
    for k in reversed(range(len(group))):
        rest = group[:k] + group[k + 1 :], n_bins[:k] + n_bins[k + 1 :]
        if rest[0]:
            other, other_errors = grids.correlation(*rest)
            if other_errors > 0.99 * n_errors:
                (group, n_bins), correlation, n_errors = rest, other, other_errors
    return group, n_bins, correlation


class _Grids:
    """Grids over some columns of X (n, D), whose bins hold about equally many rows.

    A grid is given by its columns and the number of bins of each.
    """

    def __init__(self, X, deviations):
        # The scale does not matter, and squares must not overflow.
        deviations = deviations / max(float(np.abs(deviations).max()), TINY)
        self._X, self._sorted, self._deviations = X, np.sort(X, axis=0), deviations
        self.varies = X.max(axis=0) > X.min(axis=0)
        self._bins = {}
        self._squares = (deviations**2).sum(axis=0)
        self._mean_square = max(float(self._squares.mean()), TINY)
        # Correlated functions carry less information than independent ones.
        covariance = deviations @ deviations.T
        self._error_share = float(np.linalg.norm(covariance)) / max(np.trace(covariance), TINY)

    def shapes(self, size):
        """Return the finest grids over this many columns, as lists of numbers of bins."""
        most = max(2, len(self._X) // ROWS_PER_CELL)
        shapes = [[max(2, int(most ** (1.0 / size)))] * size]
        if size == 2 and most > FEW_BINS**3:
            shapes += [[most // FEW_BINS, FEW_BINS], [FEW_BINS, most // FEW_BINS]]
        return shapes

    def correlation(self, columns, n_bins):
        """Return the same as `correlations` for a single group of columns, as two numbers."""
        correlation, n_errors = self.correlations(np.array([columns]), n_bins)
        return float(correlation[0]), float(n_errors[0])

    def correlations(self, groups, n_bins):
        """Return the correlations of deviations of two rows in the same cell of a grid, (G,).

        `groups` (G, size) are groups of columns, whose grids have the same numbers of bins. Also
        return how many standard errors each is away from zero, (G,).
        """
        at_a_time = max(1, MOST_ELEMENTS // max(len(self._X), int(np.prod(n_bins))))
        starts = range(0, len(groups), at_a_time)
        found = [self._correlations(groups[start : start + at_a_time], n_bins) for start in starts]
        return np.concatenate(found, axis=1)

    def _correlations(self, groups, n_bins):
        """Return what `correlations` does, for groups whose cells are numbered together."""
        cells = np.zeros((len(groups), len(self._X)), dtype=np.intp)
        for position, n in enumerate(n_bins):
            columns, places = np.unique(groups[:, position], return_inverse=True)
            cells = cells * n + np.array([self._bins_of(k, n) for k in columns])[places]
        # Each group has cells of its own.
        shape = (len(groups), int(np.prod(n_bins)))
        cells = (cells + shape[1] * np.arange(len(groups))[:, None]).ravel()

        def totals(values):
            """Return the sums over the rows in each cell, (G, n_cells), of values (n,)."""
            values = np.broadcast_to(values, (len(groups), len(self._X))).ravel()
            return np.bincount(cells, values, minlength=shape[0] * shape[1]).reshape(shape)

        counts = totals(1.0)
        # Each pair counts twice.
        n_pairs = (counts * (counts - 1.0)).sum(axis=1)
        products = sum((totals(each) ** 2).sum(axis=1) for each in self._deviations)
        products -= self._squares.sum()
        # The variance of this sum without any correlation, whatever the size of the deviations.
        variance = 2.0 * ((totals(self._squares) ** 2).sum(axis=1) - (self._squares**2).sum())
        known = (n_pairs > 0.0) & (variance > 0.0)
        n_pairs, variance = np.where(known, n_pairs, 1.0), np.where(known, variance, 1.0)
        correlations = products / (n_pairs * self._mean_square)
        n_errors = products / (max(self._error_share, TINY) * np.sqrt(variance))
        return np.where(known, [correlations, n_errors], 0.0)

    def distances(self, columns, n_bins, correlation):
        """Return the distances in the largest cells that keep half of a correlation.

        They are root mean square distances, in each column, of rows in a cell in the middle. The
        cells are those of the given grid or of coarser ones.
        """
        while max(n_bins) > 2:
            coarser = [max(1, n * 2 // 3) for n in n_bins]
            if self.correlation(columns, coarser)[0] < 0.5 * correlation:
                break
            n_bins = coarser
        X = self._X[:, columns]
        middle = [[0.5 - 0.5 / n, 0.5 + 0.5 / n] for n in n_bins]
        low, high = np.transpose(list(map(np.quantile, X.T, middle)))
        # The root mean square distance of two uniform values in an interval of length one is
        # 1 / sqrt(6).
        return np.where(low < high, (high - low) / np.sqrt(6.0), X.std(axis=0))

    def _bins_of(self, k, n_bins):
        """Return the bin of each row in a column, shape (n,)."""
        if (k, n_bins) not in self._bins:
            # Partitions at many quantiles would take longer than a sort.
            edges = self._sorted[np.arange(1, n_bins) * len(self._X) // n_bins, k]
            self._bins[k, n_bins] = np.searchsorted(edges, self._X[:, k], side="right")
        return self._bins[k, n_bins]
