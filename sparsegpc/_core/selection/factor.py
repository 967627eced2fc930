"""The partial Cholesky factor of a selection, and blocks of candidates for the next pivots."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.blas import dger

from sparsegpc._core.numerics.floats import EPSILON
from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.rows.blocks import Table, row_blocks

# The chosen rows span a row if its residual costs less than this, in nats, and is below the second
# fraction of the diagonal, or if it is below the first fraction. Up to two thousand points with
# larger residuals can be factored without jitter.
NEGLIGIBLE_COST, RANK_TOLERANCES = 1e-6, (1e-13, 1e-10)
# A residual below minus this fraction of the diagonal shows that the kernel is indefinite. Rounding
# errors reach 1e-5 where rows are nearly linearly dependent.
INDEFINITE = 1e-3


class Selection(NamedTuple):
    """The chosen rows in order, and the cost of their residuals.

    ``indices`` (M,) are those of the rows. ``traces`` (M + 1,) holds the sum of
    ``precision * residual`` after 0, 1, ..., M points. ``costs`` (M + 1,) holds half the trace
    divided by the total weight: the cost in nats per unit of weight.
    """

    indices: np.ndarray
    traces: np.ndarray
    costs: np.ndarray


class Factor:
    """The Cholesky factor of the covariance of the chosen rows, and the residuals of all rows.

    The rules weight residuals by `gain_weight` (N,), or by the precision if that is None. The
    selection stops once the cost, in nats per unit of weight, is at most `tol`; `total_weight` is
    the sum of the sample weights, by default N. For the other arguments see `select` and
    `RowBlocks`.

    ``indices`` are the chosen rows, and ``residual`` (N,) the residual of each row given the points
    at the last pass, zero at chosen and spanned rows. ``traces`` are those up to the last pass; see
    `Selection`.
    """

    def __init__(
        self,
        covariance,
        X,
        kdiag,
        precision,
        n_points,
        *,
        gain_weight=None,
        tol=0.0,
        total_weight=None,
        **row_options,
    ):
        self._covariance, self._X, self._row_options = covariance, X, row_options
        self._kdiag, self._precision = kdiag, precision
        self._gain_weight = precision if gain_weight is None else gain_weight
        self._floor = spanned_residual(kdiag, precision)
        self._n_points = min(n_points, len(kdiag))
        self._tol, self._total_weight = tol, len(kdiag) if total_weight is None else total_weight
        self._L, self._Z = np.zeros((0, 0)), X[:0]
        self.indices = []
        self.residual = kdiag.copy()
        self.traces = [precision @ kdiag]

    @property
    def size(self):
        """Number of points so far."""
        return len(self.indices)

    @property
    def block_size(self):
        """Number of candidates in the next block.

        It depends on the number of points only, so selections are nested.
        """
        return min(256, 32 + self.size // 2)

    def gains(self, rows=slice(None)):
        """Return ``gain_weight * residual``, or zero where the residual is rounding error."""
        residual = self.residual[rows]
        return np.where(residual > self._floor[rows], self._gain_weight[rows] * residual, 0.0)

    def pass_due(self, n_wasted=0, share=0.0):
        """Return whether to visit all rows now.

        A visit is due if there are enough points, or if `n_wasted`, the number of rejected
        candidates since the last visit, exceeds the fraction `share` of the rows.
        """
        return self.size == self._n_points or n_wasted > share * len(self.residual)

    def has_doubled(self):
        """Return whether `tol` is positive and the number of points doubled since the last pass."""
        return self._tol > 0.0 and self.size >= 2 * max(len(self.traces) - 1, 16)

    def _cost(self, trace):
        return 0.5 * trace / self._total_weight

    def candidates(self, rows):
        """Return the `Candidates` for the given rows."""
        X = self._X[rows]
        H = self._covariance(X, X)
        V = _whiten(self._covariance, self._Z, self._L, X)
        H = H - V.T @ V
        _refuse_infinite(H)
        block = Candidates(rows, X, V, H, self._floor[rows], self._n_points - self.size)
        # If the diagonal of a kernel disagrees with its columns, the columns decide. Otherwise a
        # spanned row would be proposed again and again.
        self._floor[rows[H.diagonal() <= block.floor]] = np.inf
        return block

    def gains_of(self, block):
        """Return the gains of the `Candidates`, as `gains` does for rows."""
        residual = block.residual
        return np.where(residual > block.floor, self._gain_weight[block.rows] * residual, 0.0)

    def errors(self, block):
        """Return the square root of the rounding error of the residual of each candidate.

        The residual is the error of a linear prediction of the row from the points. To first order
        its rounding error is ``eps * (sum |weight|)^2`` over the weights of the points in the
        prediction and a weight of one for the row itself.
        """
        weights = solve_lower(self._L, block.V, transposed=True) if self.size else block.V
        scale = np.sqrt(self._kdiag[self.indices])
        total = scale @ np.abs(weights) + np.sqrt(self._kdiag[block.rows])
        return np.sqrt(EPSILON) * total

    def append(self, block):
        """Add the pivots of the `Candidates` to the factor."""
        pivots, factor = block.pivots, block.factor()
        if not pivots:
            return
        n_old, n_new = self.size, len(pivots)
        L = np.zeros((n_old + n_new, n_old + n_new), order="F")
        L[:n_old, :n_old] = self._L
        L[n_old:, :n_old] = block.V[:, pivots].T
        L[n_old:, n_old:] = factor
        self._L, self._Z = L, np.concatenate([self._Z, block.X[pivots]])
        chosen = block.rows[pivots]
        self._floor[chosen] = np.inf
        self.indices.extend(chosen.tolist())

    def visit_rows(self):
        """Recompute the residuals of all rows, and return whether the selection is complete."""
        blocks = row_blocks(self._X, self.size, **self._row_options)
        (decreases,), (residual,) = blocks.visit(
            partial(_block_residuals, self._covariance, self._Z, self._L),
            Table(self._X),
            self._kdiag,
            self._precision,
        )
        _refuse_infinite(residual)
        residual[self._floor == np.inf] = 0.0
        self.residual = residual
        trace = self._precision @ residual
        # Sum the decreases of the trace from the last point back, which loses no digits.
        path = trace + np.append(np.cumsum(decreases[: len(self.traces) - 1 : -1])[::-1], 0.0)
        path = np.minimum(path, self.traces[-1])
        self.traces.extend(path[: self.size + 1 - len(self.traces)].tolist())
        # The trace may fall without new points, if candidates turned out to be spanned rows.
        self.traces[-1] = min(self.traces[-1], trace)
        return self.size == self._n_points or (self.size > 0 and self._cost(trace) <= self._tol)

    def result(self):
        """Return the `Selection` up to the first point that reaches the tolerance."""
        traces = np.array(self.traces)
        costs = self._cost(traces)
        # A model needs at least one point, even if the tolerance is met without any.
        reached = np.flatnonzero(costs[1:] <= self._tol)
        size = self.size if len(reached) == 0 else int(reached[0]) + 1
        indices = np.array(self.indices[:size], dtype=np.intp)
        return Selection(indices, traces[: size + 1], costs[: size + 1])


def spanned_residual(kdiag, precision):
    """Return the residuals up to which the chosen rows span a row, shape (N,)."""
    with np.errstate(divide="ignore"):
        free = 2.0 * NEGLIGIBLE_COST / precision
    return np.clip(free, RANK_TOLERANCES[0] * kdiag, RANK_TOLERANCES[1] * kdiag)


def _whiten(covariance, Z, L, X):
    """Return ``L^-1 k(Z, X)``, of shape (0, N) if there are no points."""
    return solve_lower(L, covariance(Z, X), overwrite=True) if len(Z) else np.empty((0, len(X)))


def _block_residuals(covariance, Z, L, X, kdiag, precision):
    """Return how much each point reduces the trace, and the residual of each row."""
    V = _whiten(covariance, Z, L, X)
    V *= V
    return (V @ precision,), (np.maximum(kdiag - V.sum(axis=0), 0.0),)


def _refuse_infinite(covariance):
    """Raise LinAlgError for values of a kernel that are not finite."""
    if not np.isfinite(covariance).all():
        raise LinAlgError(
            "the kernel has values that are not finite, but all of them must be: check its "
            "parameters, and scale the columns"
        )


class Candidates:
    """A block of rows that may become pivots, and their residual covariance given the pivots.

    A row may occur twice. Once it is a pivot, the residuals of both copies are rounding errors.
    """

    def __init__(self, rows, X, V, H, floor, max_pivots):
        self.rows, self.X, self.V = rows, X, V
        self._H, self.floor, self._max_pivots = np.ascontiguousarray(H), floor, max_pivots
        # The prior variance is the residual plus the variance that the points explain.
        self._below_zero = -INDEFINITE * (H.diagonal() + np.einsum("mn,mn->n", V, V))
        self.pivots, self.columns = [], []

    @property
    def complete(self):
        """Whether the block has as many pivots as the selection needs."""
        return len(self.pivots) == self._max_pivots

    @property
    def residual(self):
        """Residual variance of each candidate, a view of shape (block size,)."""
        return self._H.diagonal()

    def take(self, k):
        """Make the candidate at position `k` a pivot: subtract l l^T, see `pivots`."""
        column = self._H[k] / np.sqrt(self._H[k, k])
        dger(-1.0, column, column, a=self._H.T, overwrite_a=1)
        self.pivots.append(k)
        self.columns.append(column)

    def factor(self):
        """Return the lower Cholesky factor of the pivots' residual covariance."""
        # Residuals only decrease, so a negative one stays negative and one check is enough.
        if (self.residual < self._below_zero).any():
            raise LinAlgError(
                "the kernel is not positive semi-definite: given the chosen rows, the variance at "
                f"another is {self.residual.min():.3g}, but must be positive: check its formula "
                "and parameters, or use another"
            )
        columns = np.reshape(self.columns, (-1, len(self.rows)))
        return np.tril(columns[:, self.pivots].T)
