"""Rows of a table, one column of which gets other values."""

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array

from sparsegpc._estimators.input.validation import refuse_masked
from sparsegpc._estimators.predictions.effects import column_numbers
from sparsegpc._estimators.tables.columns import Numbers, levels, number_columns
from sparsegpc.displays._inputs import column_labels

# A column with at most this many distinct values is drawn at these values, and of a column of
# categories this many of the most frequent ones.
MOST_LEVELS = 10


class VariedTable:
    """The columns of a table X, and rows in which one of them has given values.

    Attributes
    ----------
    names : list of str
        The names of the columns.
    numbers : dict
        From the indices of the columns of numbers to their values as floats, nan if missing.
    """

    def __init__(self, X):
        refuse_masked(X, "X")
        if not hasattr(X, "columns"):
            X = check_array(X, dtype=None, ensure_all_finite=False)
            if X.dtype.kind in "biuf":
                X = X.astype(np.float64)
        self._X, self.names = X, column_labels(X)
        columns = list(getattr(X, "columns", range(X.shape[1])))
        places = [columns.index(name) for name in number_columns(X)]
        values = Numbers().fit_transform(_safe_indexing(X, places, axis=1)) if places else []
        self.numbers = dict(zip(places, np.transpose(values), strict=True))
        # Strings, with None for missing values.
        self._levels = {
            place: levels(_safe_indexing(X, [place], axis=1))[:, 0]
            for place in range(len(columns))
            if place not in self.numbers
        }

    def chosen(self, features):
        """Return the indices of columns given by number or name; None means all that vary."""
        columns = column_numbers(features, len(self.names), self.names)
        return [d for d in columns if features is not None or len(self.values(d)) > 1]

    def values(self, column):
        """Return the distinct values of a column that are not missing, in their order.

        Those of a column of categories are strings, the most frequent ones first.
        """
        if column in self.numbers:
            values = self.numbers[column]
            return np.unique(values[~np.isnan(values)])
        present = [level for level in self._levels[column] if level is not None]
        found, counts = np.unique(np.array(present, dtype=str), return_counts=True)
        return found[np.argsort(-counts, kind="stable")]

    def grid(self, column, size):
        """Return the values if they are few, else some: evenly spaced, or the most frequent."""
        values = self.values(column)
        if len(values) <= MOST_LEVELS or column not in self.numbers:
            return values[:MOST_LEVELS]
        return np.linspace(values[0], values[-1], size)

    def spread_rows(self, column, n_rows):
        """Return at most `n_rows` rows, in which each value of a column is about as frequent."""
        keys = self.numbers.get(column)
        if keys is None:
            keys = np.array([str(level) for level in self._levels[column]])
        order = np.argsort(keys, kind="stable")
        n_rows = min(n_rows, len(order))
        places = ((np.arange(n_rows) + 0.5) * len(order) / n_rows).astype(np.intp)
        return _safe_indexing(self._X, order[places])

    def with_value(self, rows, column, value):
        """Return a copy of rows in which a column has the same value everywhere."""
        found = np.flatnonzero(self.numbers.get(column, self._levels.get(column)) == value)
        # A row of the table with this value, whose type an encoder of categories knows.
        examples = _safe_indexing(self._X, [int(found[0])] * len(rows)) if len(found) else None
        if not hasattr(rows, "columns"):
            rows = rows.copy()
            rows[:, column] = value if examples is None else examples[:, column]
            return rows
        columns = {name: rows[name] for name in rows.columns}
        name = list(columns)[column]
        columns[name] = np.full(len(rows), value) if examples is None else examples[name]
        if hasattr(rows, "index"):
            # pandas would align the columns by their indices.
            columns = {name: getattr(cells, "array", cells) for name, cells in columns.items()}
        return type(rows)(columns)
