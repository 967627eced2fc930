"""Typical distances between rows, which set the scale of length scales."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.sources import RowSource, column_deviations, spaced_rows
from sparsegpc._estimators.input.validation import refuse_overflow

# If the standard deviation is this many times that implied by the quartiles, outliers cause it.
# Skewed and sparse columns reach 50.
EXTREME = 100.0
# The standard deviation of the values 0 and 1.
INDICATOR_UNIT = 0.5
# If a larger share of the columns that vary holds zeros and ones, a column of zeros is one of them.
MOST_INDICATORS = 0.5
# Quartiles and distinct values are those of this many evenly spaced rows if the rows are not in
# memory.
QUARTILE_ROWS = 10_000
# The deviation of a column that does not vary. The rows carry no information about its effect, so
# it has none.
UNKNOWN = 1e10
# Each step needs several arrays of this many values.
VALUES_AT_A_TIME = 2**18


class Spread(NamedTuple):
    """Standard deviation and unit of each column, and the typical distance of two rows.

    ``deviations`` (D,) holds standard deviations over the rows, and ``units`` (D,) those over the
    distinct values of each column. Length scales are in units: what matters to a function is where
    the values of a column are, not how many rows share them. Where most rows have the same value,
    as in the column of a rare category, other values would be many standard deviations away.

    If a deviation is more than `EXTREME` times that of a Gaussian with the same quartiles, the
    latter replaces it, as it is robust to outliers. Then, or if the deviation of the distinct
    values is as extreme, the unit equals the deviation: a code such as 999 among few values would
    dominate it. ``distance`` is the root mean square distance of two rows with these deviations.
    All are 1 if no column varies. ``varies`` (D,) marks the columns that vary by so much that their
    variance does not underflow; the deviations and units of the others are `UNKNOWN`. ``n_rows`` is
    the number of rows, where copies of a row that were merged count once.

    ``unseen`` is a dict from columns that do not vary, but probably do in new rows, to the columns
    of zeros and ones whose effects are like theirs, and whose unit they have. Columns of ones may
    tell that all rows have a known level; the columns before them tell which level it is. Columns
    of zeros, if most other columns hold zeros and ones, may be bits that no row has.
    """

    deviations: np.ndarray
    units: np.ndarray
    distance: float
    varies: np.ndarray
    n_rows: int
    unseen: dict

    @property
    def n_varying(self):
        """Number of columns that vary, but at least 1."""
        return max(1, int(self.varies.sum()))

    @property
    def joint_scale(self):
        """A length scale in units of its column, for all columns that vary.

        If each of them has it, two rows are typically a distance of one apart.
        """
        if not self.varies.any():
            return np.sqrt(2.0)
        ratios = self.deviations[self.varies] / self.units[self.varies]
        return float(np.sqrt(2.0) * np.linalg.norm(ratios))

    def of_first_rows(self):
        """Return the spread for rows of which the first ones are known; all columns may vary."""
        deviations, units = (
            np.where(self.varies, each, 1.0) for each in (self.deviations, self.units)
        )
        units[list(self.unseen)] = INDICATOR_UNIT
        return self._replace(deviations=deviations, units=units)


def measure_spread(X, weight):
    """Return the `Spread` of rows `X` of shape (N, D) with weights of shape (N,).

    For a `RowSource`, deviations and ranges are those of all rows; quartiles, and the ratio of
    units and deviations, are those of `QUARTILE_ROWS` evenly spaced rows, which fit into memory.
    Raises ValueError if values are too large, or differences too small, to be squared.
    """
    refuse_overflow(X, "X")
    smallest, largest = X.min(axis=0), X.max(axis=0)
    varies = largest > smallest
    if not varies.any():
        ones = np.ones(X.shape[1])
        return Spread(ones, ones, 1.0, varies, len(X), {})
    measure = _source_scales if isinstance(X, RowSource) else _column_scales
    deviation, unit, *_ = measure(X, weight, np.flatnonzero(varies))
    if not deviation.any():
        raise ValueError(
            "the columns of X vary by so little that the square underflows: scale the columns, for "
            "example with StandardScaler"
        )
    distance = float(np.sqrt(2.0) * np.linalg.norm(deviation))
    varies[varies] = deviation > 0.0
    deviations, units = np.full((2, len(varies)), UNKNOWN)
    deviations[varies], units[varies] = deviation[deviation > 0.0], unit[deviation > 0.0]
    is_indicator = (smallest == 0.0) & (largest == 1.0)
    some = X[spaced_rows(X, QUARTILE_ROWS)] if isinstance(X, RowSource) else X
    is_indicator[is_indicator] = np.isin(some[:, is_indicator], (0.0, 1.0)).all(axis=0)
    unseen = _known_levels(is_indicator, (smallest == 1.0) & (largest == 1.0))
    if is_indicator.sum() > MOST_INDICATORS * varies.sum():
        zeros = np.flatnonzero((smallest == 0.0) & (largest == 0.0)).tolist()
        unseen |= dict.fromkeys(zeros, np.flatnonzero(is_indicator).tolist())
    units[list(unseen)] = INDICATOR_UNIT
    return Spread(deviations, units, distance, varies, len(X), unseen)


def _known_levels(is_indicator, are_ones):
    """Return the dict from columns of ones to the indicators just before them."""
    found, levels = {}, []
    for column in range(len(are_ones)):
        if is_indicator[column]:
            levels.append(column)
            continue
        if are_ones[column] and len(levels) > 1:
            found[column] = levels
        levels = []
    return found


def _column_scales(X, weight, columns):
    """Return the deviation, the unit and the quartiles of each of the given columns."""
    n_parts = -(-len(columns) * len(X) // VALUES_AT_A_TIME)
    parts = np.array_split(columns, min(n_parts, len(columns)))
    return np.concatenate([_scales(X[:, part], weight) for part in parts], axis=1)


def _scales(X, weight):
    """Return what `_column_scales` does, for all columns of X."""
    order = X.argsort(axis=0)
    ordered = np.take_along_axis(X, order, axis=0)
    is_first = np.ones(X.shape, dtype=bool)
    is_first[1:] = ordered[1:] > ordered[:-1]
    deviation, has_outliers, quartiles = _robust_deviation(ordered, weight[order])
    unit, has_remote_values, _ = _robust_deviation(ordered, is_first.astype(np.float64))
    unit = np.where(has_outliers | has_remote_values, deviation, unit)
    return np.array([deviation, unit, *quartiles])


def _robust_deviation(ordered, weight):
    """Return what `_without_outliers` does and the quartiles, given ascending values (N, D)."""
    share = weight / weight.sum(axis=0)
    quartiles = _quartiles(ordered, share)
    # Differences from the median are accurate for most rows; those from an outlier would not be.
    moved = ordered - quartiles[1]
    deviation = np.sqrt((share * (moved - (share * moved).sum(axis=0)) ** 2).sum(axis=0))
    return *_without_outliers(deviation, quartiles), quartiles


def _source_scales(X, weight, columns):
    """Return the deviation and the unit of each of the given columns of a `RowSource`."""
    few = spaced_rows(X, QUARTILE_ROWS)
    deviation_of_few, unit_of_few, *quartiles = _column_scales(X[few], weight[few], columns)
    reference = np.array(X[:1][0])
    reference[columns] = quartiles[1]
    deviation, _ = _without_outliers(column_deviations(X, weight, reference)[columns], quartiles)
    # A column that does not vary among the few rows has one other value or few.
    unit = 0.5 * (X.max(axis=0) - X.min(axis=0))[columns]
    known = deviation_of_few > 0.0
    unit[known] = (deviation[known] / deviation_of_few[known]) * unit_of_few[known]
    return deviation, unit


def _quartiles(ordered, share):
    """Return the three quartiles of each column, which are among its values in ascending order.

    ``share`` (N, D) is that of each value in the total weight of its column.
    """
    reached, columns = np.cumsum(share, axis=0), np.arange(ordered.shape[1])
    # Rounding must not hide that a share is reached exactly.
    firsts = [(reached >= q * (1.0 - 1e-12)).argmax(axis=0) for q in (0.25, 0.5, 0.75)]
    return [ordered[first, columns] for first in firsts]


def _without_outliers(deviation, quartiles):
    """Return deviations (D,), and where outliers cause them, (D,).

    There they are replaced by those that the quartiles imply.
    """
    low, _, high = quartiles
    # The quartiles of a Gaussian are 1.349 standard deviations apart.
    from_quartiles = (high - low) / 1.349
    extreme = (low < high) & (deviation > EXTREME * from_quartiles)
    return np.where(extreme, from_quartiles, deviation), extreme
