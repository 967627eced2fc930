"""Typical distances between rows, which set the scale of length scales."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.sources import RowSource, column_deviations, spaced_rows
from sparsegpc._estimators.input.validation import refuse_overflow

# If the standard deviation is this many times that implied by the quartiles, outliers cause it.
# Skewed and sparse columns reach 50.
EXTREME = 100.0
# For rows that are not in memory, quartiles are those of this many evenly spaced rows.
QUARTILE_ROWS = 10_000
# The deviation of a column that does not vary. Rows say nothing about its effect, so it has none.
UNKNOWN = 1e10


class Spread(NamedTuple):
    """Standard deviation of each column, and the typical distance of two rows.

    ``deviations`` (D,) holds standard deviations. If that of a column is more than `EXTREME` times
    that of a Gaussian with the same quartiles, the latter replaces it, as it is robust to outliers.
    ``distance`` is the root mean square distance of two rows with these deviations. Both are 1 if
    no column varies. ``varies`` (D,) marks the columns that vary by so much that their variance
    does not underflow; the deviations of the others are `UNKNOWN`. ``n_rows`` is the number of
    rows, where copies of a row that were merged count once.
    """

    deviations: np.ndarray
    distance: float
    varies: np.ndarray
    n_rows: int

    @property
    def n_varying(self):
        """Number of columns that vary, but at least 1."""
        return max(1, int(self.varies.sum()))

    @property
    def joint_scale(self):
        """A length scale in standard deviations of its column, for as many columns as vary.

        If each column that varies has it, two rows are typically a distance of one apart.
        """
        return np.sqrt(2.0 * self.n_varying)

    def of_first_rows(self):
        """Return the spread for rows of which the first ones are known; all columns may vary."""
        return self._replace(deviations=np.where(self.varies, self.deviations, 1.0))


def measure_spread(X, weight):
    """Return the `Spread` of rows `X` of shape (N, D) with weights of shape (N,).

    For a `RowSource`, quartiles are those of `QUARTILE_ROWS` evenly spaced rows, which fit into
    memory; deviations and ranges are those of all rows. Raises ValueError if values are too large,
    or differences too small, to be squared.
    """
    varies = X.max(axis=0) > X.min(axis=0)
    refuse_overflow(X, "X", varies)
    if not varies.any():
        return Spread(np.ones(X.shape[1]), 1.0, varies, len(X))
    if isinstance(X, RowSource):
        few = spaced_rows(X, QUARTILE_ROWS)
        quartiles = _quartiles(X[few], weight[few])
        low, high = quartiles[0][varies], quartiles[2][varies]
        deviation = column_deviations(X, weight, quartiles[1])[varies]
    else:
        columns = np.flatnonzero(varies)
        # About a million values at a time, as each step needs several arrays of that size.
        parts = np.array_split(columns, -(-len(columns) // max(1, 2**20 // len(X))))
        low, high, deviation = np.concatenate(
            [_spread_of(X[:, part], weight) for part in parts], axis=1
        )
    if not deviation.any():
        raise ValueError(
            "the columns of X vary by so little that the square underflows: scale the columns, for "
            "example with StandardScaler"
        )
    # The quartiles of a Gaussian are 1.349 standard deviations apart.
    from_quartiles = (high - low) / 1.349
    extreme = (low < high) & (deviation > EXTREME * from_quartiles)
    deviation = np.where(extreme, from_quartiles, deviation)
    deviations = np.full(len(varies), UNKNOWN)
    deviations[varies] = np.where(deviation > 0.0, deviation, UNKNOWN)
    varies[varies] = deviation > 0.0
    return Spread(deviations, float(np.sqrt(2.0) * np.linalg.norm(deviation)), varies, len(X))


def _spread_of(X, weight):
    """Return the lower and upper quartile and the standard deviation of each column."""
    low, median, high = _quartiles(X, weight)
    # Differences from the median are accurate for most rows; those from an outlier would not be.
    moved, share = X - median, weight / weight.sum()
    return low, high, np.sqrt(share @ (moved - share @ moved) ** 2)


def _quartiles(X, weight):
    """Return the three quartiles of each column, which are values of its rows."""
    order = X.argsort(axis=0)
    reached = np.cumsum((weight / weight.sum())[order], axis=0)
    columns = np.arange(X.shape[1])
    # Rounding must not hide that a share is reached exactly.
    firsts = [(reached >= q * (1.0 - 1e-12)).argmax(axis=0) for q in (0.25, 0.5, 0.75)]
    return [X[order[first, columns], columns] for first in firsts]
