r"""Whitened features of the rows with respect to the inducing points, in blocks of rows.

With :math:`L_{uu} L_{uu}^\top = K_{uu}`, plus jitter if it is nearly singular, the features
:math:`V = L_{uu}^{-1} K_{uf}` give the Nystrom approximation :math:`Q = V^\top V` of the kernel
matrix. The residual of a row is the prior variance that the inducing points do not explain,
:math:`k(x_n, x_n) - \sum_i V_{in}^2`.
The bounds depend on the kernel through V and the residual only, so their gradients follow from the
*adjoints* of the two: the derivatives :math:`\bar V` and :math:`\bar r` of the bound. Since
:math:`dV = L_{uu}^{-1} dK_{uf} - L_{uu}^{-1} dL_{uu} V` and
:math:`dK_{uu} = dL_{uu} L_{uu}^\top + L_{uu} dL_{uu}^\top`,

.. math:: \bar K_{uf} = L_{uu}^{-\top} \bar V, \qquad
    \bar K_{uu} = L_{uu}^{-\top} A L_{uu}^{-1}, \quad A = -\tfrac12 \bar V V^\top, \qquad
    \bar K_{nn} = \bar r_n,

where :math:`\bar V V^\top` is symmetric at the optimal q(u).
"""

import numpy as np

from sparsegpc._core.numerics.floats import EPSILON
from sparsegpc._core.numerics.linalg import column_squares, jittered_cholesky, solve_lower
from sparsegpc._core.rows.blocks import BlockStore, Table
from sparsegpc._core.rows.sources import RowSource

# Rounding errors of a residual are up to about sqrt(M) eps times the diagonal; residuals up to
# twice this count as zero.
ZERO_RESIDUAL = 2.0


def factor_inducing(kernel, theta, Z, jitter=None):
    """Return the `JitteredFactor` of Kuu, and the pullback of its adjoint."""
    Kuu, pullback = kernel.evaluate(theta, Z, Z)
    return jittered_cholesky(Kuu, jitter), pullback


def features(kernel, theta, Z, Luu, X):
    """Return V of shape (M, N) and the residual of shape (N,) for rows `X`. Cost M N (M + D)."""
    V = _whiten(kernel, theta, Z, Luu, X)
    return V, _residual(kernel, theta, X, V)


def _whiten(kernel, theta, Z, Luu, X):
    return solve_lower(Luu, kernel.value(theta, Z, X), overwrite=True)


def _residual(kernel, theta, X, V):
    kdiag = kernel.diag(theta, X)
    residual = kdiag - column_squares(V)
    # At an inducing point it is zero without jitter, whatever rounding leaves.
    residual[residual < ZERO_RESIDUAL * np.sqrt(len(V)) * EPSILON * kdiag] = 0.0
    return residual


def _stores(blocks, kernel, theta, Z, Luu, X):
    """Return a store of V, and one of V with the pullback of the adjoint of Kuf.

    Both are kept if there is memory for them, or V alone, or else none. They do not refer to the
    `RowFeatures`: in a cycle arrays would stay in memory until the garbage collector runs.
    """
    rows = Table(X)

    def evaluate(X):
        K, pullback = kernel.evaluate(theta, Z, X)
        return solve_lower(Luu, K), pullback

    # A pullback keeps a scaled copy of the rows, and the block that a `RowSource` has read.
    n_copies = kernel.n_arrays + isinstance(X, RowSource)
    n_arrays = 1 + kernel.n_arrays + n_copies * X.shape[1] / len(Z)
    both = blocks.store(evaluate, rows, n_arrays=n_arrays)
    if both.kept:
        return blocks.store(lambda values: values[0], both, n_arrays=0), both
    V = blocks.store(lambda X: _whiten(kernel, theta, Z, Luu, X), rows, n_arrays=1, is_array=True)
    if V.kept:
        both = blocks.store(
            lambda V, X: (V, kernel.evaluate(theta, Z, X)[1]), V, rows, n_arrays=np.inf
        )
    return V, both


class RowFeatures:
    """The features of the training rows, and gradients of functions of them.

    The rows `X` (N, D) are read one block of `blocks` at a time. ``Luu`` (M, M) has the relative
    jitter ``jitter``: that given, or the least that is needed, see `jittered_cholesky`. The rows
    have the ``residual`` (N,).
    """

    def __init__(self, blocks, kernel, theta, Z, X, *, jitter=None):
        self.blocks, self.kernel, self.theta, self.Z, self.X = blocks, kernel, theta, Z, X
        (self.Luu, self.jitter), self._pull_back_Kuu = factor_inducing(kernel, theta, Z, jitter)
        self._rows = Table(X)
        self._V, self._with_pullback = _stores(blocks, kernel, theta, Z, self.Luu, X)
        _, (self.residual,) = blocks.visit(
            lambda V, X: ((), (_residual(kernel, theta, X, V),)), self._V, self._rows
        )

    @property
    def n_rows(self):
        return self.blocks.n_rows

    @property
    def keeps_V(self):
        """Whether all of V is in the memory of this process."""
        return isinstance(self._V, BlockStore) and self._V.kept

    def V(self, index):
        """Return the block of V, shape (M, n)."""
        return self._V[index]

    def whiten(self, X):
        """Return V at any rows `X`, shape (M, n). Cost M n (M + D)."""
        return _whiten(self.kernel, self.theta, self.Z, self.Luu, X)

    def visit(self, function, *inputs):
        """Return ``blocks.visit`` of ``function(V, *values)``."""
        return self.blocks.visit(function, self._V, *inputs)

    def sum(self, function, *inputs):
        """Return the sums over blocks of ``function(V, *values)``, a tuple of arrays or numbers."""
        return self.visit(lambda *values: (function(*values), ()), *inputs)[0]

    def rows(self, function, *inputs):
        """Return ``function(V, *values)`` at all rows, a tuple of (..., N) arrays."""
        return self.visit(lambda *values: ((), function(*values)), *inputs)[1]

    def pull_back(self, adjoint_V, inputs, adjoint_kdiag, adjoint_Kuu, wrt_Z=False):
        """Contract adjoints of V, Kuu and kdiag into gradients w.r.t. `theta` (P,) and Z (M, D).

        ``adjoint_V(V, *values)`` takes the values of the `inputs` in a block, as in `visit`. It
        returns the adjoint of the block of V, (M, n), including that through the residual; a tuple
        of terms of sums over the blocks; and a tuple of arrays over the rows of the block.
        `adjoint_kdiag` has the shape (N,). ``adjoint_Kuu(sums)`` takes the sums over blocks and
        returns the symmetric matrix A (M, M), see the docstring of the module.

        Return the two gradients, the second None unless `wrt_Z`, and the arrays over all rows. Cost
        M N (M + D) beyond `adjoint_V`.
        """
        kernel, theta, Luu = self.kernel, self.theta, self.Luu

        def block(stored, X, by_kdiag, *values):
            V, pullback = stored
            V_bar, sums, rows = adjoint_V(V, *values)
            adjoint_Kuf = solve_lower(Luu, V_bar, transposed=True, overwrite=True)
            grad_theta, grad_Z = pullback(adjoint_Kuf, wrt_Z)
            grad_theta = grad_theta + kernel.diag_pullback(theta, X, by_kdiag)
            return (grad_theta, grad_Z if wrt_Z else 0.0, *sums), rows

        (grad_theta, grad_Z, *sums), rows = self.blocks.visit(
            block, self._with_pullback, self._rows, adjoint_kdiag, *inputs
        )
        half = solve_lower(Luu, adjoint_Kuu(sums), transposed=True)
        adjoint = solve_lower(Luu, half.T, transposed=True)
        # The jitter is relative to the mean of the diagonal, so it depends on theta. Changes of the
        # relative jitter are neglected.
        adjoint.flat[:: len(adjoint) + 1] += self.jitter * adjoint.trace() / len(adjoint)
        by_Kuu, Z_by_Kuu = self._pull_back_Kuu(adjoint, wrt_Z)
        # Z is both arguments of Kuu, and the pullback differentiates w.r.t. the first.
        return grad_theta + by_Kuu, grad_Z + 2.0 * Z_by_Kuu if wrt_Z else None, rows
