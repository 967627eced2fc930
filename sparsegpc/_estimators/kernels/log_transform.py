r"""The logarithmic transform of skewed columns.

Kernels with one length scale for a column treat equal differences as equally important everywhere.
In a skewed column, or one with heavy tails, most rows are close together and a few are far away.
The inverse hyperbolic sine :math:`z = a \operatorname{arsinh}((x - e) / c)` is linear within a
distance of c from e and about logarithmic beyond; e is the least value of the column, the largest
if the tail is on the other side, and the median if there are tails on both sides. Unlike a
logarithm it takes any value, and unlike negative powers it does not saturate, so predictions far
from all rows stay uncertain. The factor a keeps the standard deviation of the column, so that a
common length scale suits it as before.

In a column of one sign that spans decades, as of a parameter that was sampled on a logarithmic
scale, the least value is no origin: new values of a tenth of it are as usual as ten times it. There
e = 0 and a c far below all values give the logarithm itself.
"""

import numpy as np

from sparsegpc._core.numerics.medians import weighted_median
from sparsegpc._core.rows.sources import RowSource, spaced_rows

# This many evenly spaced rows determine the scales.
SCALE_ROWS = 2000
# Scales to try: the distances from the centre within which there are these fractions of the rows.
SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
# A column is skewed if the correlation with its transform is below this.
NEARLY_LINEAR = 0.95
# Values of one sign span decades if the largest is at least DECADES times the smallest. Beyond a
# hundredth of the smallest, the transform with this scale is the logarithm.
DECADES, SHARE_OF_SMALLEST = 100.0, 0.01
# Larger distances count as this one, so that none is infinite.
LARGEST_DISTANCE = 1e300


class LogTransform:
    """The transform of some columns; the others stay as they are.

    `centres`, `scales` and `factors` hold e, c and a for each of the `columns`, shape (k,) each.
    """

    def __init__(self, columns, centres, scales, factors):
        self._columns, self._centres = columns, centres
        self._scales, self._factors = scales, factors

    def __call__(self, X):
        """Return rows with transformed columns: an array (N, D), or a `RowSource` of a source."""
        if isinstance(X, RowSource):
            return X.mapped(self)
        X = X.copy()
        with np.errstate(over="ignore"):
            distance = (X[:, self._columns] - self._centres) / self._scales
        distance = np.clip(distance, -LARGEST_DISTANCE, LARGEST_DISTANCE)
        X[:, self._columns] = self._factors * np.arcsinh(distance)
        return X

    def inverse(self, Z):
        """Return the rows (N, D) whose transform is `Z`."""
        Z = Z.copy()
        distance = np.sinh(Z[:, self._columns] / self._factors)
        Z[:, self._columns] = self._centres + self._scales * distance
        return Z

    def scales(self, n_columns):
        """Return the scale of each column, shape (n_columns,), infinite for those that stay."""
        found = np.full(n_columns, np.inf)
        found[self._columns] = self._scales
        return found


def find_log_transforms(X, weight, varies):
    """Return a list of each `LogTransform` of the skewed columns of rows `X` (N, D) to try.

    In the first one the centre and the scale of a column maximise the likelihood of a Gaussian
    transformed column, with `weight` (N,). A second one, if any, takes logarithms of those of the
    columns that span decades. The list is empty if no column is skewed. `varies` (D,) marks the
    columns that vary. The cost is that of about thirty passes over at most `SCALE_ROWS` rows.
    """
    few = spaced_rows(X, SCALE_ROWS)
    X, share = X[few], weight[few] / weight[few].sum()
    columns, skewed, logarithms = [], [], []
    for k in np.flatnonzero(varies & (X.max(axis=0) > X.min(axis=0))):
        order = np.argsort(X[:, k], kind="stable")
        x, ordered_share = X[order, k], share[order]
        *found, correlation = _most_gaussian(x, ordered_share)
        if correlation < NEARLY_LINEAR:
            columns.append(k)
            skewed.append(found)
            spans = spans_decades(x[0], x[-1])
            logarithms.append(_logarithm(x, ordered_share) if spans else found)
    choices = [skewed, logarithms] if logarithms != skewed else [skewed]
    return [LogTransform(np.array(columns), *np.array(c).T) for c in choices if c]


def spans_decades(smallest, largest):
    """Return whether columns with these ends, (D,) each, have one sign and span decades."""
    ends = np.sort(np.abs([smallest, largest]), axis=0)
    has_one_sign = np.sign(smallest) * np.sign(largest) > 0.0
    # No distance, in units of the scale that `_logarithm` takes, may exceed the largest.
    is_finite = SHARE_OF_SMALLEST * ends[0] > ends[1] / LARGEST_DISTANCE
    return has_one_sign & is_finite & (ends[1] / DECADES >= ends[0])


def _logarithm(x, share):
    """Return centre, scale and factor of the logarithm of `x` (n,) of one sign, with shares."""
    scale = SHARE_OF_SMALLEST * np.abs(x).min()
    x_deviation, z_deviation = (v - share @ v for v in (x, np.arcsinh(x / scale)))
    return [0.0, scale, np.sqrt(share @ x_deviation**2 / (share @ z_deviation**2))]


def _most_gaussian(x, share):
    """Return centre, scale, factor, and correlation with `x`, of the most Gaussian transform.

    `x` (n,) is sorted; `share` (n,) holds weights whose sum is 1.
    """
    best, size = (-np.inf, 0.0, np.inf, 1.0, 1.0), x[-1] - x[0]
    for centre in np.unique([x[0], weighted_median(x, share), x[-1]]):
        distances = (x - centre) / size
        order = np.argsort(np.abs(distances), kind="stable")
        # Rounding must not hide that a share is reached exactly.
        reached = np.searchsorted(np.cumsum(share[order]), np.multiply(SHARES, 1.0 - 1e-12))
        for scale in np.unique(np.abs(distances[order[reached]])):
            if scale > 0.0:
                z = np.arcsinh(distances / scale)
                log_slope = -np.log(np.hypot(distances, scale))
                x_deviation, z_deviation = (v - share @ v for v in (distances, z))
                variance = share @ z_deviation**2
                likelihood = share @ log_slope - 0.5 * np.log(variance)
                if likelihood > best[0]:
                    factor = np.sqrt(share @ x_deviation**2 / variance)
                    correlation = (share @ (x_deviation * z_deviation)) / (factor * variance)
                    best = likelihood, centre, scale * size, factor * size, correlation
    return best[1:]
