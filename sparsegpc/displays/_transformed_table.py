"""The columns that the estimator at the end of a pipeline sees, and their sources in X."""

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array

from sparsegpc._estimators.input.validation import refuse_masked
from sparsegpc._estimators.predictions.effects import column_numbers
from sparsegpc._estimators.tables.columns import Numbers, number_columns
from sparsegpc.displays._inputs import column_labels, like_rows, numeric_rows


class TransformedTable:
    """The rows of X after the steps of a pipeline; its columns are those the estimator sees.

    The *source* of such a column is the only column of X on which it depends, if that is one of
    numbers on which no other column depends. A column that has a source is drawn against it.

    Attributes
    ----------
    reference : array or data frame of shape (n_samples, n_columns)
        The rows.
    sources : dict
        From columns to their sources.
    names : list of str
        The name of the source of each column; without a source, its own.
    """

    def __init__(self, fitted, X):
        self.fitted, self.reference = fitted, fitted.transform(X)
        self._X, self._numbers = _table_and_numbers(X) if fitted.steps else (X, numeric_rows(X))
        n_columns, self._names_of_X = np.shape(self.reference)[1], column_labels(X)
        self.sources = self._find_sources() if fitted.steps else {d: d for d in range(n_columns)}
        self.names = [""] * n_columns if len(self.sources) == n_columns else self._names_out()
        for column, source in self.sources.items():
            self.names[column] = self._names_of_X[source]

    def values(self, column):
        """Return the values of the source of a column that are not missing, else its own values."""
        if column not in self.sources:
            return np.asarray(self.reference, dtype=np.float64)[:, column]
        values = self._numbers[:, self.sources[column]]
        return values[~np.isnan(values)]

    def points(self, column, grid):
        """Return rows for the estimator with a grid of such values of a column."""
        if self.fitted.steps and column in self.sources:
            return self._varied(self.sources[column], grid)
        points = np.repeat(np.asarray(self.reference, dtype=np.float64)[:1], len(grid), axis=0)
        points[:, column] = grid
        return like_rows(self.reference, points)

    def chosen(self, features):
        """Return the columns that belong to numbers or names of columns of X, or to `names`."""
        of_source = {source: column for column, source in self.sources.items()}
        others = [d for d in range(len(self.names)) if d not in self.sources]
        n, labels = len(self._names_of_X), [*self._names_of_X, *(self.names[d] for d in others)]
        places = column_numbers(features, len(labels), labels)
        for place in places:
            if place < n and place not in of_source:
                raise ValueError(
                    f"features has the column {labels[place]!r} of X, which the steps of the "
                    "pipeline drop or do not turn into one column of numbers: give names of "
                    f"transformed columns, from {labels[n:]}, or None"
                )
        return [of_source[place] if place < n else others[place - n] for place in places]

    def _varied(self, source, values):
        """Return transformed copies of a row of X with these values in a column."""
        # The row with the fewest missing values.
        row = int(np.isnan(self._numbers).sum(axis=1).argmin())
        rows = _safe_indexing(self._X, [row] * len(values))
        if hasattr(rows, "columns"):
            columns = {name: rows[name] for name in rows.columns}
            columns[list(columns)[source]] = values
            return self.fitted.transform(type(rows)(columns))
        rows[:, source] = values
        return self.fitted.transform(rows)

    def _find_sources(self):
        """Change one column of X at a time, and see which columns change after the steps."""
        changed = np.zeros((self._numbers.shape[1], np.shape(self.reference)[1]), dtype=bool)
        for source, values in enumerate(self._numbers.T):
            values = values[~np.isnan(values)]
            if len(values) and np.ptp(values) > 0.0:
                # Observed values, as others may be unknown to an encoder of categories.
                values = np.quantile(values, [0.0, 0.5, 1.0], method="nearest")
                points = np.asarray(self._varied(source, values))
                same = np.isclose(points, points[0], rtol=1e-9, atol=0.0)
                changed[source] = ~same.all(axis=0)
        # One to one.
        changed &= (changed.sum(axis=1, keepdims=True) == 1) & (changed.sum(axis=0) == 1)
        return {column: source for source, column in np.argwhere(changed).tolist()}

    def _names_out(self):
        """Return the names that the steps give to the columns."""
        names = None
        for _, step in self.fitted.steps:
            try:
                names = step.get_feature_names_out(names)
            except AttributeError:
                # The step, or one within it, gives no names.
                return [f"transformed x{d}" for d in range(np.shape(self.reference)[1])]
        # A column with a name of X, but other units, such as a scaled one beside its square.
        return [f"{n} (transformed)" if n in self._names_of_X else str(n) for n in names]


def _table_and_numbers(X):
    """Return a table, and its numbers (N, D) as floats, nan where they are missing or others."""
    refuse_masked(X, "X")
    if not hasattr(X, "columns"):
        X = check_array(X, dtype=None, ensure_all_finite=False)
        if X.dtype.kind in "biuf":
            X = X.astype(np.float64)
    columns = list(getattr(X, "columns", range(X.shape[1])))
    places = [columns.index(name) for name in number_columns(X)]
    values = np.full(X.shape, np.nan)
    if places:
        values[:, places] = Numbers().fit_transform(_safe_indexing(X, places, axis=1))
    return X, values
