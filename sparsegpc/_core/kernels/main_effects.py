r"""The covariance of a sum of functions of one column each.

.. math::
    k(z, x) = \sum_d c_d \exp\left(-\frac{(z_d - x_d)^2}{2 \ell_d^2}\right)

The node follows the protocol of `families`. D exponentials of (M, N) arrays would take most of its
time. A column with few distinct values needs them at these values only: its part of the matrix is
that at its r values, (M, r), times an indicator matrix, (r, N), which has a one where the row has
the value. An effect whose length scale is not short is a smooth function of x, which interpolation
between r Chebyshev points gives to rounding: its part is a matrix of coefficients, (M, r), which
follow from the exponentials there, times r Chebyshev polynomials, (r, N) (Trefethen 2013, chapter
4). Derivatives are those at the points. Only the other effects take (M, N) exponentials, which a
pullback computes again.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from sparsegpc._core.kernels.distances import centre_of
from sparsegpc._core.rows.blocks import strips

# Up to this many distinct values of a column in a block of rows, the product with zeros and ones
# takes less time than the exponentials.
FEW_VALUES = 64
# The same limit for Chebyshev points, and the largest error of interpolation in units of the
# variance.
MOST_CHEBYSHEV_POINTS, INTERPOLATION_ERROR = 60, 1e-15
# Elements of the arrays of an elementwise step, four of which should fit the processor's cache.
STRIP_ELEMENTS = 2**13
# Rows for which indicators and polynomials are in memory at once, and the most elements of these.
PIECE_ROWS, PIECE_ELEMENTS = 1024, 2**20

# Ellipses around the range of a column, for the error of interpolation: the sums of their semi-axes
# and the minor ones, in units of half the range.
RHOS = 1.0 + np.geomspace(0.05, 200.0, 200)
MINOR_AXES = 0.5 * (RHOS - 1.0 / RHOS)
LOG_OVERHEADS = np.log(4.0 / INTERPOLATION_ERROR / (RHOS - 1.0))


class _Effect(NamedTuple):
    """The effect of one column.

    ``z`` (M,) and ``x`` (n,) hold the values of the column in units of sqrt(2) length scales;
    ``log_variance`` is log c.
    """

    z: np.ndarray
    x: np.ndarray
    log_variance: float


class MainEffects:
    """A sum of squared exponentials of single columns, each times a variance.

    The parameters are the logarithms of the length scales, then those of the variances. Either
    number is 1, common to all columns, or D.
    """

    n_arrays = 0
    is_local = True

    def __init__(self, n_length_scales=1, n_variances=1):
        self.n_length_scales, self.n_variances = n_length_scales, n_variances
        self.n_params = n_length_scales + n_variances

    def _by_column(self, params, n_columns):
        """Return the length scales and the log variances of all columns, shape (D,) each."""
        length_scales = np.exp(params[: self.n_length_scales])
        log_variances = params[self.n_length_scales :]
        return [np.broadcast_to(part, n_columns) for part in (length_scales, log_variances)]

    def _by_parameter(self, by_length_scale, by_variance):
        """Return derivatives w.r.t. the parameters from those w.r.t. each column's."""
        parts = ((by_length_scale, self.n_length_scales), (by_variance, self.n_variances))
        return np.concatenate([by if len(by) == n else by.sum(keepdims=True) for by, n in parts])

    def evaluate(self, params, Z, X):
        length_scales, log_variances = self._by_column(params, Z.shape[1])
        centre = centre_of(Z)
        # A table with many values would take longer than what it replaces.
        tables = _tables(X, centre, length_scales, min(len(Z), len(X)) // 4)
        others = [d for d in range(X.shape[1]) if d not in tables]

        def effect(d, centred):
            unit = np.sqrt(2.0) * length_scales[d]
            return _Effect((Z[:, d] - centre[d]) / unit, centred / unit, log_variances[d])

        def effects():
            """Return those with a table, at its values, and the others, at the rows."""
            at_values = [effect(d, table.values) for d, table in tables.items()]
            return at_values, [effect(d, X[:, d] - centre[d]) for d in others]

        at_values, at_rows = effects()
        K = np.zeros((len(Z), len(X)))
        _add_values(at_rows, K)
        if tables:
            coefficients = np.hstack(
                [
                    _add_values([e], np.zeros((len(Z), len(e.x)))) @ table.from_values
                    for table, e in zip(tables.values(), at_values, strict=True)
                ]
            )
            for rows, basis in _bases(tables, X, centre):
                K[:, rows] += coefficients @ basis

        def pullback(adjoint, wrt_Z=False):
            at_values, at_rows = effects()
            result = np.empty((2 + len(Z), Z.shape[1]))
            result[:, others] = _contract(at_rows, adjoint, wrt_Z)
            if tables:
                total = sum(adjoint[:, rows] @ basis.T for rows, basis in _bases(tables, X, centre))
                ends = np.cumsum([len(e.x) for e in at_values])[:-1]
                parts = np.split(total, ends, axis=1)
                for (d, table), e, part in zip(tables.items(), at_values, parts, strict=True):
                    result[:, [d]] = _contract([e], part @ table.from_values.T, wrt_Z)
            by_length_scale, by_variance, grad_Z = result[0], result[1], result[2:]
            gradient = self._by_parameter(by_length_scale, by_variance)
            return gradient, grad_Z / length_scales if wrt_Z else None

        return K, pullback

    def diag(self, params, X):
        _, log_variances = self._by_column(params, X.shape[1])
        return np.full(len(X), np.exp(log_variances).sum())

    def diag_pullback(self, params, X, adjoint):
        _, log_variances = self._by_column(params, X.shape[1])
        by_variance = np.exp(log_variances) * adjoint.sum()
        return self._by_parameter(np.zeros(X.shape[1]), by_variance)


class _DistinctValues(NamedTuple):
    """The distinct values (r,) of a column, relative to its centre."""

    values: np.ndarray

    @property
    def from_values(self):
        """The matrix (r, r) that turns values into coefficients of the basis."""
        return np.eye(len(self.values))

    def basis(self, x):
        """Return (r, n) ones where a row has one of the values, and zeros elsewhere."""
        return (self.values[:, None] == x).astype(np.float64)


class _ChebyshevPoints(NamedTuple):
    """Chebyshev points of the range of a column: ``unit`` (r,) are those of [-1, 1].

    ``middle``, relative to the centre of the column, and ``half`` describe the range.
    """

    unit: np.ndarray
    middle: float
    half: float

    @property
    def values(self):
        return self.middle + self.half * self.unit

    @property
    def from_values(self):
        """The matrix (r, r) that turns values at the points into coefficients of polynomials."""
        return _chebyshev_coefficients(len(self.unit))

    def basis(self, x):
        """Return the Chebyshev polynomials at x, (r, n)."""
        return _chebyshev_polynomials((x - self.middle) / self.half, len(self.unit) - 1)


@cache
def _chebyshev_coefficients(n_points):
    """Return the matrix from values at Chebyshev points to coefficients of the polynomials."""
    k, last = np.arange(n_points), n_points - 1
    halved = np.where((k == 0) | (k == last), 0.5, 1.0)
    return np.cos(np.pi / last * np.outer(k, k)) * np.outer(halved, 2.0 / last * halved)


def _chebyshev_polynomials(x, degree):
    """Return the Chebyshev polynomials up to a degree of at least one at x, (degree + 1, n)."""
    T = np.empty((degree + 1, len(x)))
    T[0], T[1] = 1.0, x
    known = 1
    while known < degree:
        # T_(m + j) = 2 T_m T_j - T_(m - j)
        new = min(known, degree - known)
        rows = slice(known + 1, known + new + 1)
        np.multiply(2.0 * T[known], T[1 : new + 1], out=T[rows])
        T[rows] -= T[known - new : known][::-1]
        known += new
    return T


def _tables(X, centre, length_scales, most):
    """Return a dict from columns to few values of each from which its effect at all rows follows.

    Columns that need more than `most` such values are left out.
    """
    tables = {}
    for d, values in _few_values(X, min(FEW_VALUES, most)).items():
        # The difference to a distant centre may be the same for several values.
        tables[d] = _DistinctValues(np.unique(values - centre[d]))
    low, high = X.min(axis=0) - centre, X.max(axis=0) - centre
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    n_points = _n_chebyshev_points(half / length_scales)
    for d in np.flatnonzero((half > 0.0) & (n_points <= min(MOST_CHEBYSHEV_POINTS, most))):
        if d not in tables:
            unit = np.cos(np.pi * np.arange(n_points[d]) / (n_points[d] - 1))
            tables[d] = _ChebyshevPoints(unit, middle[d], half[d])
    return tables


def _n_chebyshev_points(half_ranges):
    """Return the numbers of Chebyshev points that interpolate effects to rounding.

    Half the range of a column in length scales is h below. In the ellipse with foci at the ends of
    the range and semi-axes of sum rho times h and minor axis b h, an effect of variance 1 is at
    most exp(h^2 b^2 / 2), so n + 1 points have an error of at most 4 exp(h^2 b^2 / 2) / (rho^n (rho
    - 1)) (Trefethen 2013, theorem 8.2).
    """
    with np.errstate(over="ignore"):
        log_largest = 0.5 * np.outer(half_ranges, MINOR_AXES) ** 2
    degrees = ((log_largest + LOG_OVERHEADS) / np.log(RHOS)).min(axis=1)
    return np.minimum(np.ceil(degrees), 2 * MOST_CHEBYSHEV_POINTS).astype(int) + 1


def _few_values(X, most):
    """Return a dict of the distinct values of each column that has at most `most` of them."""
    few = {}
    # The first rows show that most columns have many.
    first = np.sort(X[: 2 * most], axis=0)
    n_changes = np.count_nonzero(first[1:] != first[:-1], axis=0)
    for d in np.flatnonzero(n_changes < most):
        values = np.unique(X[:, d])
        if len(values) <= most:
            few[d] = values
    return few


def _bases(tables, X, centre):
    """Yield slices of rows and the basis functions (r, n) of all tables at these rows."""
    n_functions = sum(len(table.values) for table in tables.values())
    size = max(1, min(PIECE_ROWS, PIECE_ELEMENTS // n_functions))
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        parts = [table.basis(X[rows, d] - centre[d]) for d, table in tables.items()]
        yield rows, np.vstack(parts)


def _add_values(effects, K):
    """Add the covariances of the effects to K, shape (M, n), and return it."""
    for part in strips(*K.shape, STRIP_ELEMENTS):
        total = K[part]
        E = np.empty(total.shape)
        for z, x, log_variance in effects:
            np.subtract(z[part, None], x, out=E)
            np.multiply(E, E, out=E)
            np.subtract(log_variance, E, out=E)
            total += np.exp(E, out=E)
    return K


def _contract(effects, adjoint, wrt_Z):
    """Return contractions of the adjoint with derivatives of the effects, shape (2 + M, n_effects).

    The first row has those w.r.t. log length scales, the second those w.r.t. log variances, and the
    others those w.r.t. the points in units of the length scale.
    """
    result = np.zeros((2 + len(adjoint), len(effects)))
    for part in strips(*adjoint.shape, STRIP_ELEMENTS):
        shape = adjoint[part].shape
        T, S, W = np.empty(shape), np.empty(shape), np.empty(shape)
        for k, (z, x, log_variance) in enumerate(effects):
            np.subtract(z[part, None], x, out=T)
            np.multiply(T, T, out=S)
            np.subtract(log_variance, S, out=W)
            np.exp(W, out=W)
            W *= adjoint[part]
            result[0, k] += 2.0 * np.vdot(W, S)
            result[1, k] += W.sum()
            if wrt_Z:
                result[2:, k][part] = -np.sqrt(2.0) * np.einsum("mn,mn->m", W, T)
    return result
