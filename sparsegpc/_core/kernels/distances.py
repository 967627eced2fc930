"""Distances of points and rows in units of the length scales, and derivatives of them."""

import numpy as np
from scipy.spatial.distance import cdist

from sparsegpc._core.rows.blocks import strips

# The expansion |z|^2 - 2 z x + |x|^2 is accurate enough below the squared norm FAR_SQUARED; beyond
# it, for distances above the fraction LOST_DIGITS of the squared norms.
FAR_SQUARED, LOST_DIGITS = 1e4, 1e-4
# In a sum over columns, terms of opposite sign cancel. So two values of a column that are more
# length scales apart are no pair.
MOST_LENGTHS = 1e3


def centre_of(Z):
    """Return a centre of the points, without which columns with a large offset would lose digits.

    The median is robust to far points, and that of Z is the same for every block of rows.
    """
    return np.partition(Z, len(Z) // 2, axis=0)[len(Z) // 2]


class SquaredDistances:
    r"""The distances :math:`\Delta_{in} = \sum_d (z_{id} - x_{nd})^2 / \ell_d^2`, strip by strip.

    They are those between points `Z` (M, D) and rows `X` (N, D), of which scaled copies are kept;
    `length_scale` is a number or has the shape (D,). ``strips`` are slices of the points, in the
    order in which distances are computed.

    The expansion into norms and products is accurate enough up to the squared norm `far_squared`.
    Distances can lose digits only between rows far from the centre, for example rows with a
    sentinel value in an unscaled column. None computes all distances from the differences.
    """

    def __init__(self, Z, X, length_scale, far_squared):
        centre = centre_of(Z)
        self._Z, self._far_squared = (Z - centre) / length_scale, far_squared
        # The squared distances as one product: -2 z x + |z|^2 1 + 1 |x|^2. Rows of the factors are
        # contiguous, since a copy of a transpose would take as long as the product.
        self._right = np.empty((len(X), X.shape[1] + 2))
        self._X = self._right[:, :-2]
        np.subtract(X, centre, out=self._X)
        self._X /= length_scale
        self._zz = np.einsum("md,md->m", self._Z, self._Z)
        self._right[:, -2] = 1.0
        self._right[:, -1] = np.einsum("nd,nd->n", self._X, self._X)
        self.strips, self._near = strips(len(Z), len(X)), []

    def write(self, part, out):
        """Write the distances of the next strip of points, the slice `part`, to `out` (m, N)."""
        Z, pairs = self._Z[part], None
        if self._far_squared is None:
            out[:] = sum(np.subtract.outer(z, x) ** 2 for z, x in self._columns(Z))
        else:
            zz, xx = self._zz[part], self._right[:, -1]
            np.matmul(np.column_stack([-2.0 * Z, zz, np.ones(len(Z))]), self._right.T, out=out)
            np.maximum(out, 0.0, out=out)
            pairs = _near_pairs(out, zz, xx, self._far_squared)
        self._near.append(pairs)
        if pairs is not None:
            out[pairs] = sum((z[pairs[0]] - x[pairs[1]]) ** 2 for z, x in self._columns(Z))

    def _columns(self, Z):
        return zip(Z.T, self._X.T, strict=True)

    def contract(self, weights, wrt_Z=True):
        """Return the derivatives of a weighted sum of the distances.

        The weights of each strip, (m, N), are overwritten. The first derivatives (D,) are those
        w.r.t. the logarithm of the length scale of each column, the second (M, D) those w.r.t. the
        points in units of the length scales, None unless `wrt_Z`.
        """
        Z, X = self._Z, self._X
        by_column, WX = np.zeros(len(X)), np.empty((len(Z), Z.shape[1] + 1))
        per_column, half_by_Z = np.zeros(Z.shape[1]), np.zeros(Z.shape)
        for part, pairs, W in zip(self.strips, self._near, weights, strict=True):
            if pairs is not None:
                near_W, W[pairs] = W[pairs], 0.0
                for d, (z, x) in enumerate(self._columns(Z[part])):
                    difference = z[pairs[0]] - x[pairs[1]]
                    weighted = near_W * difference
                    per_column[d] += weighted @ difference
                    half_by_Z[part, d] += np.bincount(pairs[0], weighted, minlength=len(W))
            by_column += np.ones(len(W)) @ W
            np.matmul(W, self._right[:, :-1], out=WX[part])
        WX, by_row = WX[:, :-1], WX[:, -1]
        per_column += by_row @ Z**2 + by_column @ X**2
        per_column -= 2.0 * np.einsum("md,md->d", Z, WX)
        half_by_Z += by_row[:, None] * Z - WX
        return -2.0 * per_column, 2.0 * half_by_Z if wrt_Z else None


class AbsoluteDistances:
    r"""The distances :math:`\sum_d |z_{id} - x_{nd}| / \ell_d`, strip by strip.

    Arguments, ``strips`` and methods are those of `SquaredDistances`. Where a column of the rows
    has two values l and h, such as those of an indicator, and points are between them,

    .. math:: |z - x| = (z - l) + (l + h - 2 z)\,[x = h]

    is bilinear, so all these columns together are a matrix product.
    """

    def __init__(self, Z, X, length_scale):
        centre = centre_of(Z)
        Z, X = (Z - centre) / length_scale, (X - centre) / length_scale
        low, high = X.min(axis=0), X.max(axis=0)
        is_high, above, below = high <= X, Z - low, high - Z
        is_pair = (is_high | (low >= X)).all(axis=0) & (high - low <= MOST_LENGTHS)
        is_pair &= (above >= 0.0).all(axis=0) & (below >= 0.0).all(axis=0)
        self._pairs, self._others = np.flatnonzero(is_pair), np.flatnonzero(~is_pair)
        self._Z, self._X = Z[:, self._others], X[:, self._others]
        self._is_high = is_high[:, self._pairs].astype(np.float64)
        self._above, self._below = above[:, self._pairs], below[:, self._pairs]
        self.strips = strips(len(Z), len(X))

    def write(self, part, out):
        """Write the distances of the next strip of points, the slice `part`, to `out` (m, N)."""
        cdist(self._Z[part], self._X, "cityblock", out=out)
        if len(self._pairs):
            above, below = self._above[part], self._below[part]
            out += (below - above) @ self._is_high.T
            out += above.sum(axis=1)[:, None]

    def contract(self, weights, wrt_Z=True):
        """Return the derivatives of a weighted sum of the distances, see `SquaredDistances`.

        Where a point and a row have the same value, the distance has a kink, and the derivative
        w.r.t. the point is taken as zero.
        """
        n_columns = len(self._pairs) + len(self._others)
        per_column, by_Z = np.zeros(n_columns), np.zeros((len(self._Z), n_columns))
        for part, W in zip(self.strips, weights, strict=True):
            above, below = self._above[part], self._below[part]
            of_high = W @ self._is_high
            of_low = W.sum(axis=1)[:, None] - of_high
            per_column[self._pairs] += (above * of_low + below * of_high).sum(axis=0)
            if wrt_Z:
                by_Z[part, self._pairs] = (above > 0.0) * of_low - (below > 0.0) * of_high
            difference = np.empty(W.shape)
            for d, z, x in zip(self._others, self._Z[part].T, self._X.T, strict=True):
                np.subtract(z[:, None], x, out=difference)
                if wrt_Z:
                    by_Z[part, d] = (np.sign(difference) * W) @ np.ones(len(x))
                per_column[d] += np.vdot(W, np.abs(difference, out=difference))
        return -per_column, by_Z if wrt_Z else None


def _near_pairs(s, zz, xx, far_squared):
    """Return the pairs whose squared distances `s` have lost digits to cancellation, or None.

    `zz` and `xx` are the squared norms of the two sets of rows.
    """
    largest = zz.max(initial=0.0) + xx.max(initial=0.0)
    if largest < far_squared:
        return None
    # Comparing all pairs with the largest norms first leaves few candidates.
    candidates = np.flatnonzero(s < LOST_DIGITS * largest)
    rows, columns = np.divmod(candidates, len(xx))
    lost = s[rows, columns] < LOST_DIGITS * (zz[rows] + xx[columns])
    return (rows[lost], columns[lost]) if lost.any() else None
