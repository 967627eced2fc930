"""Rows of a table, one column of which gets other values."""

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array

from sparsegpc._estimators.input.validation import refuse_masked
from sparsegpc._estimators.predictions.effects import column_numbers
from sparsegpc._estimators.tables.columns import Numbers, kind_of_column, levels
from sparsegpc.displays._inputs import column_labels

# A column with at most this many distinct values is drawn at these values, and of a column of
# categories this many of the most frequent ones.
MOST_LEVELS = 10
# How many values a few are, and the quantiles that stand for more numbers.
FEW, FEW_DECILES = 4, (0.1, 0.5, 0.9)


class VariedTable:
    """The columns of a table X, and rows in which one of them has given values.

    Attributes
    ----------
    names : list of str
        The names of the columns.
    """

    def __init__(self, X):
        refuse_masked(X, "X")
        if not hasattr(X, "columns"):
            X = check_array(X, dtype=None, ensure_all_finite=False)
            if X.dtype.kind in "biuf":
                X = X.astype(np.float64)
        self._X, self.names = X, column_labels(X)
        self._cells = [self._cells_of(place) for place in range(len(self.names))]

    def _cells_of(self, place):
        """Return floats, nan if missing, or strings, None if missing; None for another column."""
        column = _safe_indexing(self._X, [place], axis=1)
        is_frame = hasattr(column, "columns")
        kind = kind_of_column(column[column.columns[0]] if is_frame else column[:, 0])
        if kind is None:
            return None
        convert = Numbers().fit_transform if kind == "numbers" else levels
        return convert(column)[:, 0]

    def numbers(self, column):
        """Return the values of a column of numbers as floats, nan if missing; else None."""
        cells = self._cells[column]
        return None if cells is None or cells.dtype.kind != "f" else cells

    def chosen(self, features):
        """Return the indices of columns given by number or name; None means all that vary."""
        columns = column_numbers(features, len(self.names), self.names)
        if features is None:
            return [d for d in columns if self._cells[d] is not None and len(self.values(d)) > 1]
        for d in columns:
            if self._cells[d] is None or not len(self.values(d)):
                raise ValueError(
                    f"features has the column {self.names[d]!r} of X, which holds no numbers or "
                    "categories: give other columns, or None"
                )
        return columns

    def values(self, column):
        """Return the distinct values of a column that are not missing, in their order.

        Those of a column of categories are strings, the most frequent ones first unless they have
        an order.
        """
        values = self.numbers(column)
        if values is not None:
            return np.unique(values[~np.isnan(values)])
        present = [level for level in self._cells[column] if level is not None]
        found, counts = np.unique(np.array(present, dtype=str), return_counts=True)
        dtype = self._X[self._X.columns[column]].dtype if hasattr(self._X, "columns") else None
        if getattr(dtype, "ordered", False):
            return np.array([str(level) for level in dtype.categories if str(level) in found])
        return found[np.argsort(-counts, kind="stable")]

    def grid(self, column, size):
        """Return the values if they are few, else some: evenly spaced, or the most frequent."""
        values = self.values(column)
        if len(values) <= MOST_LEVELS or self.numbers(column) is None:
            return values[:MOST_LEVELS]
        grid = np.linspace(values[0], values[-1], size)
        if (values != np.round(values)).any():
            return grid
        # Whole numbers may be codes, of which an encoder knows those of the table.
        after = np.searchsorted(values, grid).clip(1, len(values) - 1)
        is_after = values[after] - grid < grid - values[after - 1]
        return np.unique(values[np.where(is_after, after, after - 1)])

    def few_values(self, column):
        """Return at most four values: all, the most frequent categories, or deciles of numbers."""
        values, numbers = self.values(column), self.numbers(column)
        if len(values) > FEW and numbers is not None:
            present = numbers[~np.isnan(numbers)]
            values = np.unique(np.quantile(present, FEW_DECILES, method="nearest"))
        return values[:FEW]

    def spread_rows(self, column, n_rows):
        """Return at most `n_rows` rows, in which each value of a column is about as frequent."""
        keys = self.numbers(column)
        if keys is None:
            keys = np.array([str(level) for level in self._cells[column]])
        # Ties are random: rows may have periods.
        shuffled = np.random.RandomState(0).permutation(len(keys))
        order = shuffled[np.argsort(keys[shuffled], kind="stable")]
        n_rows = min(n_rows, len(order))
        places = ((np.arange(n_rows) + 0.5) * len(order) / n_rows).astype(np.intp)
        return _safe_indexing(self._X, order[places])

    def with_value(self, rows, column, value):
        """Return a copy of rows in which a column has the same value everywhere."""
        found, cells = np.flatnonzero(self._cells[column] == value), np.full(len(rows), value)
        if len(found):
            # Copies of a cell with this value, whose type an encoder of categories knows.
            examples = _safe_indexing(self._X, [column], axis=1)
            cells = _safe_indexing(examples, [int(found[0])] * len(rows))
            cells = cells[cells.columns[0]] if hasattr(cells, "columns") else cells[:, 0]
        if not hasattr(rows, "columns"):
            rows = rows.copy()
            rows[:, column] = cells
            return rows
        columns = {name: rows[name] for name in rows.columns}
        columns[list(columns)[column]] = cells
        if hasattr(rows, "index"):
            # pandas would align the columns by their indices.
            columns = {name: getattr(cells, "array", cells) for name, cells in columns.items()}
        return type(rows)(columns)
