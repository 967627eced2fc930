"""The partial Cholesky factor that a selection grows, and the candidates for its next rows."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.blas import dger

from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.rows.blocks import Table, row_blocks

# A residual below this share of the diagonal is rounding: the row is spanned by the chosen ones.
RANK_TOLERANCE = 1e-10
# A residual variance this far below zero, as a share of the diagonal, is more than rounding, which
# reaches 1e-5 where rows in an unlucky order nearly depend on each other.
INDEFINITE = 1e-3


class Selection(NamedTuple):
    """Chosen rows in order, and what they leave.

    ``indices`` (M,); ``traces`` (M + 1,), the sum of ``precision * residual`` after 0, 1, ..., M
    points; ``costs`` (M + 1,), the cost per row in nats: half of that over the total weight.
    """

    indices: np.ndarray
    traces: np.ndarray
    costs: np.ndarray


class Factor:
    """The factor of the chosen rows' covariance, with its history and what is left elsewhere.

    Parameters
    ----------
    covariance, X, kdiag, precision, n_points
        As in `select`.
    gain_weight : ndarray of shape (N,) or None
        What the rules weigh residuals by. None is `precision`.
    tol : float
        Stop as soon as the cost per row, in nats, is at most this.
    total_weight : float or None
        What "per row" counts: the sum of the sample weights. None is N.
    **row_options
        Of `RowBlocks`.

    Attributes
    ----------
    indices : list of int
        Chosen rows.
    residual : ndarray of shape (N,)
        What the points of the last pass leave at each row; zero at chosen and spanned rows.
    traces : list of float
        See `Selection`; up to the last pass.
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
        self._floor = RANK_TOLERANCE * kdiag
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
        """Number of candidates in a block.

        It depends on the number of points only, so a selection is nested.
        """
        return min(256, 32 + self.size // 2)

    def gains(self, rows=slice(None)):
        """Return ``gain_weight * residual``, zero where the residual is rounding."""
        left = self.residual[rows]
        return np.where(left > self._floor[rows], self._gain_weight[rows] * left, 0.0)

    def pass_due(self, n_wasted=0, share=0.0):
        """Return whether to visit the rows, as more than a share of them was turned down."""
        return self.size == self._n_points or n_wasted > share * len(self.residual)

    def has_doubled(self):
        """Return whether there is a tolerance, and twice the points of the last pass."""
        return self._tol > 0.0 and self.size >= 2 * max(len(self.traces) - 1, 16)

    def _cost(self, trace):
        return 0.5 * trace / self._total_weight

    def candidates(self, rows):
        """Return the `Candidates` at these rows."""
        X = self._X[rows]
        H = self._covariance(X, X)
        V = _whiten(self._covariance, self._Z, self._L, X)
        H = H - V.T @ V
        if not np.isfinite(H.sum()):
            raise LinAlgError(
                "the kernel has values that are not finite, but all of them must be: check its "
                "parameters, and scale the columns"
            )
        block = Candidates(rows, X, V, H, self._floor[rows], self._n_points - self.size)
        # Where a kernel's diagonal disagrees with its columns, the columns decide: or a spanned
        # row would be proposed for ever.
        self._floor[rows[H.diagonal() <= block.floor]] = np.inf
        return block

    def gains_of(self, block):
        """Return ``gain_weight * residual`` at the `Candidates`, as `gains` does."""
        left = block.residual
        return np.where(left > block.floor, self._gain_weight[block.rows] * left, 0.0)

    def errors(self, block):
        """Return the square root of the rounding error of each candidate's residual.

        To first order ``eps * (sum |w|)^2``, where w are the weights of the points, and one of the
        row itself, in the prediction that leaves the residual.
        """
        weights = solve_lower(self._L, block.V, transposed=True) if self.size else block.V
        scale = np.sqrt(self._kdiag[self.indices])
        total = scale @ np.abs(weights) + np.sqrt(self._kdiag[block.rows])
        return np.sqrt(np.finfo(np.float64).eps) * total

    def append(self, block):
        """Add the pivots of these `Candidates`."""
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
        """Renew the residuals of all rows, and return whether the selection is complete."""
        blocks = row_blocks(self._X, self.size, **self._row_options)
        (costs,), (residual,) = blocks.visit(
            partial(_leave, self._covariance, self._Z, self._L),
            Table(self._X),
            self._kdiag,
            self._precision,
        )
        if not np.isfinite(residual).all():
            raise LinAlgError(
                "the kernel has values that are not finite, but all of them must be: check its "
                "parameters, and scale the columns"
            )
        residual[self._floor == np.inf] = 0.0
        self.residual = residual
        trace = self._precision @ residual
        # What each point took, added from the end: no digits are lost as the trace falls.
        path = trace + np.append(np.cumsum(costs[: len(self.traces) - 1 : -1])[::-1], 0.0)
        path = np.minimum(path, self.traces[-1])
        self.traces.extend(path[: self.size + 1 - len(self.traces)].tolist())
        # Without new points, rows may have been found to be spanned.
        self.traces[-1] = min(self.traces[-1], trace)
        return self.size == self._n_points or (self.size > 0 and self._cost(trace) <= self._tol)

    def result(self):
        """Return the `Selection` up to the first point that reaches the tolerance."""
        traces = np.array(self.traces)
        costs = self._cost(traces)
        # The empty set may satisfy a large tolerance, but a model needs a point all the same.
        reached = np.flatnonzero(costs[1:] <= self._tol)
        size = self.size if len(reached) == 0 else int(reached[0]) + 1
        indices = np.array(self.indices[:size], dtype=np.intp)
        return Selection(indices, traces[: size + 1], costs[: size + 1])


def _whiten(covariance, Z, L, X):
    """Return ``L^-1 k(Z, X)``; no point has no row of it."""
    return solve_lower(L, covariance(Z, X), overwrite=True) if len(Z) else np.empty((0, len(X)))


def _leave(covariance, Z, L, X, kdiag, precision):
    """Return the cost that each point takes from these rows, and the residual left at each."""
    V = _whiten(covariance, Z, L, X)
    V *= V
    return (V @ precision,), (np.maximum(kdiag - V.sum(axis=0), 0.0),)


class Candidates:
    """Rows that may become pivots, and their residual covariance given all pivots so far.

    A row may be there twice: when it is taken, rounding is left of its residual at both places.
    """

    def __init__(self, rows, X, V, H, floor, n_wanted):
        self.rows, self.X, self.V = rows, X, V
        self._H, self.floor, self._n_wanted = np.ascontiguousarray(H), floor, n_wanted
        # With the variance that the points explain.
        self._below_zero = -INDEFINITE * (H.diagonal() + np.einsum("mn,mn->n", V, V))
        self.pivots, self.columns = [], []

    @property
    def complete(self):
        """Whether there are as many pivots as were wanted."""
        return len(self.pivots) == self._n_wanted

    @property
    def residual(self):
        """Residual variance at each candidate, a view; shape (b,)."""
        return self._H.diagonal()

    def take(self, k):
        """Make the candidate at position `k` a pivot."""
        column = self._H[k] / np.sqrt(self._H[k, k])
        dger(-1.0, column, column, a=self._H.T, overwrite_a=1)
        self.pivots.append(k)
        self.columns.append(column)

    def factor(self):
        """Return the lower Cholesky factor of the pivots' residual covariance."""
        # Residuals only fall, so what was below zero before a pivot was taken is so still.
        if (self.residual < self._below_zero).any():
            raise LinAlgError(
                "the kernel is not positive semi-definite: given the chosen rows, the variance at "
                f"another is {self.residual.min():.3g}, but must be positive: check its formula "
                "and parameters, or use another"
            )
        columns = np.reshape(self.columns, (-1, len(self.rows)))
        return np.tril(columns[:, self.pivots].T)
