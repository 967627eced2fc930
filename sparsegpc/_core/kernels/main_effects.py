r"""The covariance of a sum of functions of one column each.

.. math::
    k(z, x) = \sum_d c_d \exp\left(-\frac{(z_d - x_d)^2}{2 \ell_d^2}\right)

The node follows the protocol of `families`. Most of its time is spent on D exponentials of (M, N)
arrays, which are computed again in a pullback rather than kept. A column with few distinct values
needs them at these values only: its part of the matrix is that at its r values, (M, r), times an
indicator matrix, (r, N), which has a one where the row has the value.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.blocks import strips

# Up to so many distinct values of a column in a block of rows, the product with zeros and ones
# takes less time than the exponentials.
FEW_VALUES = 32
# Elements of the arrays of an elementwise step, four of which should fit the processor's cache.
STRIP_ELEMENTS = 2**15
# Rows for which the zeros and ones are in memory at once.
INDICATOR_ROWS = 1024


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

    The parameters are the logarithms of the length scales, then those of the variances.

    Parameters
    ----------
    n_length_scales, n_variances : int
        Either 1, common to all columns, or D.
    """

    n_arrays = 0

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
        # A centre keeps the digits of differences in columns with a large offset.
        centre = np.partition(Z, len(Z) // 2, axis=0)[len(Z) // 2]
        few = _few_values(X)
        many = [d for d in range(X.shape[1]) if d not in few]

        def effect(d, values):
            unit = np.sqrt(2.0) * length_scales[d]
            z, x = (Z[:, d] - centre[d]) / unit, (values - centre[d]) / unit
            return _Effect(z, x, log_variances[d])

        def effects():
            """Return those of columns with few values, at these, and those of the other columns."""
            return [effect(d, few[d]) for d in few], [effect(d, X[:, d]) for d in many]

        at_values, at_rows = effects()
        K = np.zeros((len(Z), len(X)))
        _add_values(at_rows, K)
        if few:
            parts = [_add_values([e], np.zeros((len(Z), len(e.x)))) for e in at_values]
            values = np.hstack(parts)
            for rows, indicators in _indicators(few, X):
                K[:, rows] += values @ indicators

        def pullback(adjoint, wrt_Z=False):
            at_values, at_rows = effects()
            result = np.empty((2 + len(Z), Z.shape[1]))
            result[:, many] = _contract(at_rows, adjoint, wrt_Z)
            if few:
                by_value = sum(adjoint[:, rows] @ ones.T for rows, ones in _indicators(few, X))
                ends = np.cumsum([len(e.x) for e in at_values])[:-1]
                for d, e, part in zip(
                    few, at_values, np.split(by_value, ends, axis=1), strict=True
                ):
                    result[:, [d]] = _contract([e], part, wrt_Z)
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


def _few_values(X):
    """Return the distinct values of the columns that have few, as a dict from the column."""
    few, most = {}, min(FEW_VALUES, len(X) // 4)
    for d, column in enumerate(X.T):
        # The first rows show that most columns have many.
        if len(np.unique(column[: 2 * most])) <= most:
            values = np.unique(column)
            if len(values) <= most:
                few[d] = values
    return few


def _indicators(few, X):
    """Yield slices of rows and the (r, n) array of ones where a row has one of the r values."""
    values = np.concatenate(list(few.values()))[:, None]
    columns = np.repeat(list(few), [len(part) for part in few.values()])
    for start in range(0, len(X), INDICATOR_ROWS):
        rows = slice(start, start + INDICATOR_ROWS)
        yield rows, (values == X[rows].T[columns]).astype(np.float64)


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
