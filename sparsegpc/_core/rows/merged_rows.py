"""Sorting of rows, and merging of equal rows.

Equal rows have the same value of f, so they form one site: their weights are added and their
targets averaged. A weight of k is then equivalent to k copies. As the rows are sorted, a fit does
not depend on their order, and ties between equally good inducing points are always broken in the
same way. Rows of a `RowSource` are neither sorted nor merged, which would require a copy of all
rows.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.blocks import strips
from sparsegpc._core.rows.sources import RowSource


class MergedRows(NamedTuple):
    """Merged rows in lexicographic order.

    ``X`` (N', D); ``weight`` (N',), the total weight of each; ``order`` (N,), the permutation that
    sorts the original rows; ``starts`` (N',), the positions in ``order`` at which the copies of
    each merged row begin.
    """

    X: np.ndarray
    weight: np.ndarray
    order: np.ndarray
    starts: np.ndarray

    def mean(self, values, weight):
        """Return the mean of `values` (N,) over the copies of each row, with `weight` (N,)."""
        # Rounding must not move a mean out of the range: one minus a proportion must not be
        # negative.
        return np.clip(self.total(weight * values) / self.weight, values.min(), values.max())

    @property
    def first(self):
        """Index of the first copy of each merged row among the original rows, shape (N',)."""
        return first_copies(self.order, self.starts)

    def repeated(self, values):
        """Return `values` (N',) of the merged rows, repeated for their copies, shape (N,)."""
        copies = np.empty(len(self.order), dtype=np.asarray(values).dtype)
        copies[self.order] = np.repeat(values, np.diff(self.starts, append=len(self.order)))
        return copies

    def total(self, values):
        """Return the sum of `values` (N,) over the copies of each merged row, shape (N',)."""
        return _sum_copies(np.asarray(values)[self.order], self.starts)


class UnmergedRows(NamedTuple):
    """Rows of a `RowSource` with their ``weight`` (N,), with the interface of `MergedRows`.

    Each row has one copy, so all methods return their `values`.
    """

    X: RowSource
    weight: np.ndarray

    def mean(self, values, weight):
        """Return `values` (N,), as floats."""
        return np.asarray(values, dtype=np.float64)

    @property
    def first(self):
        """Index of each row, shape (N,)."""
        return np.arange(len(self.weight))

    def total(self, values):
        """Return `values` (N,)."""
        return np.asarray(values)

    repeated = total


def merge_rows(X, weight, is_sorted=False, targets=None):
    """Sort the rows of `X` (N, D) and merge equal ones, adding their `weight` (N,).

    With `targets` (N,), numbers or records of numbers, only rows with equal targets are merged.

    Returns `MergedRows`, or `UnmergedRows` for a `RowSource`. Cost N log N for continuous columns,
    up to D times as much if rows agree in many leading columns, and nothing for a source. With
    `is_sorted`, X must be the first table that `merge_tables` returned. Only neighbours are then
    compared; if all rows differ, the result refers to X, which must not change.
    """
    if isinstance(X, RowSource):
        return UnmergedRows(X, weight)
    if targets is not None:
        (rows, _), *others = merge_tables([X, _fields(targets)], weight)
        return MergedRows(rows, *others)
    if not is_sorted:
        (rows,), *others = merge_tables([X], weight)
        return MergedRows(rows, *others)
    order = np.arange(len(X))
    starts = np.flatnonzero(_differs_from_last([X], order))
    rows = X if len(starts) == len(X) else _take(X, starts)
    return MergedRows(rows, _sum_copies(weight, starts), order, starts)


def merge_with_targets(X, y, weight):
    """Merge rows that agree in X (N, D) and y (N,), numbers or records of numbers.

    Returns X, y and weight of the merged rows.
    """
    rows = merge_rows(X, weight, targets=y)
    return rows.X, y[rows.first], rows.weight


def _fields(targets):
    """Return numbers (N,) or (N, C), or records of floats (N,), as a table of floats."""
    if targets.dtype.names is None:
        return np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
    return np.ascontiguousarray(targets).view(np.float64).reshape(len(targets), -1)


def merge_tables(tables, weight):
    """Sort the rows of tables of shape (N, D_k), joined side by side, and merge equal rows.

    Returns a list of tables of shape (N', D_k), and ``weight``, ``order`` and ``starts`` as in
    `MergedRows`.
    """
    order, is_new = _lexicographic_order(tables)
    starts = np.flatnonzero(is_new)
    total = _sum_copies(weight[order], starts)
    first = order[starts]
    return [_take(table, first) for table in tables], total, order, starts


def first_copies(order, starts):
    """Return the index of the first copy of each merged row among the original rows."""
    return np.minimum.reduceat(order, starts)


def _take(table, indices):
    """Return a C-contiguous copy of the rows of a table with these indices."""
    rows = np.empty((len(indices), table.shape[1]))
    for part in strips(len(indices), table.shape[1]):
        rows[part] = table[indices[part]]
    # Adding zero turns -0.0 into 0.0: equal values then have equal bits.
    rows += 0.0
    return rows


def find_rows(points, X):
    """Return the index of the first row of `X` that equals each of `points`.

    Returns None if a point is not a row, or if `X` is a `RowSource`, which cannot be sorted.
    """
    if isinstance(X, RowSource):
        return None
    order, is_new = _lexicographic_order([np.concatenate([points, X])])
    group = np.empty(len(order), dtype=np.intp)
    group[order] = np.cumsum(is_new) - 1
    of_points, of_rows = np.split(group, [len(points)])
    first = np.full(is_new.sum(), len(X))
    np.minimum.at(first, of_rows, np.arange(len(X)))
    found = first[of_points]
    return None if (found == len(X)).any() else found


def _sum_copies(values, starts):
    """Return the sums of sorted `values` (N,) from each of `starts` (N',) to the next."""
    if len(starts) < len(values):
        # Add copies in the order of their values, so that the order of the rows does not affect
        # rounding.
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
        values = values[np.lexsort((values, group))]
    return np.add.reduceat(values, starts)


def _lexicographic_order(tables):
    """Return the sorting order, and whether each sorted row differs from the previous one.

    The rows are those of tables joined side by side.
    """
    n_columns = sum(table.shape[1] for table in tables)
    used = 1
    while True:
        parts = list(_first_columns(tables, used))
        order = np.lexsort([column for part in parts for column in part.T][::-1])
        is_new = _differs_from_last(parts, order)
        # The first columns usually distinguish continuous rows; more are used only if needed.
        if used == n_columns or is_new.all():
            return order, is_new
        used = min(2 * used, n_columns)


def _differs_from_last(tables, order):
    """Return whether each row, in this order, differs from the previous one."""
    is_new = np.ones(len(order), dtype=bool)
    for rows in strips(len(order) - 1, sum(table.shape[1] for table in tables)):
        after = is_new[1:][rows]
        after[:] = False
        for table in tables:
            after |= (table[order[1:][rows]] != table[order[:-1][rows]]).any(axis=1)
    return is_new


def _first_columns(tables, n_columns):
    """Yield the parts of the tables that make up the first `n_columns` of all their columns."""
    for table in tables:
        yield table[:, :n_columns]
        n_columns = max(n_columns - table.shape[1], 0)
