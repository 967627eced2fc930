r"""The logarithmic transform of skewed columns.

Kernels with one length scale for a column take equal differences for equally important anywhere in
it. In a skewed column most rows are close together and a few are far away. The inverse hyperbolic
sine :math:`z = a \operatorname{arsinh}((x - e) / c)`, where e is the end of the column with most
rows, is linear where x is within c of that end, and the logarithm of the distance from it further
away. Unlike a logarithm it takes any value. Unlike most powers it neither saturates nor explodes,
so predictions far from all rows stay uncertain. The factor a keeps the standard deviation of the
column, so that a common length scale suits it as before.
"""

import numpy as np

from sparsegpc._core.rows.sources import RowSource, spaced_rows

# So many evenly spaced rows determine the scales.
MOST_ROWS = 2000
# Scales to try: the distances from the end within which there are these shares of the rows.
SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
# A column is skewed if the correlation with its transform is below this.
NEARLY_LINEAR = 0.95


class LogTransform:
    """The transform of some columns; the others stay as they are.

    Parameters
    ----------
    columns : ndarray of int of shape (k,)
    ends, scales, factors : ndarray of shape (k,)
        The end e, the scale c and the factor a of each of these columns.
    """

    def __init__(self, columns, ends, scales, factors):
        self._columns, self._ends = columns, ends
        self._scales, self._factors = scales, factors

    def __call__(self, X):
        """Return rows with transformed columns: an array (N, D), or a `RowSource` of a source."""
        if isinstance(X, RowSource):
            return X.mapped(self)
        X = X.copy()
        distance = (X[:, self._columns] - self._ends) / self._scales
        X[:, self._columns] = self._factors * np.arcsinh(distance)
        return X

    def inverse(self, Z):
        """Return the rows (N, D) whose transform is `Z`."""
        Z = Z.copy()
        distance = np.sinh(Z[:, self._columns] / self._factors)
        Z[:, self._columns] = self._ends + self._scales * distance
        return Z

    def scales(self, n_columns):
        """Return the scale of each column, shape (n_columns,), infinite for those that stay."""
        found = np.full(n_columns, np.inf)
        found[self._columns] = self._scales
        return found


def find_log_transform(X, weight):
    """Return the `LogTransform` of the skewed columns of rows `X` (N, D), None if none is skewed.

    The end and the scale of a column maximise the likelihood of a Gaussian transformed column, with
    `weight` (N,). The cost is that of about twenty passes over at most `MOST_ROWS` rows.
    """
    few = spaced_rows(X, MOST_ROWS)
    X, share = X[few], weight[few] / weight[few].sum()
    skewed = []
    for k in np.flatnonzero(X.max(axis=0) > X.min(axis=0)):
        order = np.argsort(X[:, k], kind="stable")
        end, scale, factor, correlation = _most_gaussian(X[order, k], share[order])
        if correlation < NEARLY_LINEAR:
            skewed.append((k, end, scale, factor))
    return LogTransform(*map(np.array, zip(*skewed, strict=True))) if skewed else None


def _most_gaussian(x, share):
    """Return end, scale, factor and correlation with `x` of the transform that is most Gaussian.

    `x` (n,) is sorted; `share` (n,) holds weights whose sum is 1.
    """
    best = -np.inf, 0.0, np.inf, 1.0, 1.0
    for end, weights, distances in (
        (x[0], share, x - x[0]),
        (x[-1], share[::-1], (x[-1] - x)[::-1]),
    ):
        # Rounding must not put off a share that is reached.
        reached = np.searchsorted(np.cumsum(weights), np.multiply(SHARES, 1.0 - 1e-12))
        for scale in np.unique(distances[reached]):
            if scale > 0.0:
                z = np.arcsinh((x - end) / scale)
                # The logarithm of the derivative of z.
                slope = -0.5 * np.log(((x - end) / scale) ** 2 + 1.0) - np.log(scale)
                x_deviates, z_deviates = x - share @ x, z - share @ z
                variance = share @ z_deviates**2
                likelihood = share @ slope - 0.5 * np.log(variance)
                if likelihood > best[0]:
                    factor = np.sqrt(share @ x_deviates**2 / variance)
                    correlation = (share @ (x_deviates * z_deviates)) / (factor * variance)
                    best = likelihood, end, scale, factor, correlation
    return best[1:]
