r"""Whitened features of the rows with respect to the inducing points, by row blocks.

With :math:`L_{uu} L_{uu}^\top = K_{uu}` plus jitter, the features :math:`V = L_{uu}^{-1} K_{uf}`
reproduce the Nystrom approximation, :math:`Q_{ff} = V^\top V`; what they miss is the residual
:math:`k(x_n, x_n) - \sum_m V_{mn}^2`. Everything after this room sees the kernel through V and the
residual only, and hands back their adjoints.
"""

import numpy as np

from sparsegpc._linalg import SMALLEST_JITTER, column_squares, jittered_cholesky, solve_lower
from sparsegpc._rows import RowBlocks

# 2 MiB of doubles: large enough for the products, small enough for the cache.
TILE_ROWS = 512


def factor_inducing(kernel, theta, Z, jitter=SMALLEST_JITTER, **attempts):
    """Return the jittered Cholesky factor of Kuu, and the pullback of its adjoint."""
    Kuu, pullback = kernel.evaluate(theta, Z, Z)
    return jittered_cholesky(Kuu, jitter, **attempts), pullback


def features(kernel, theta, Z, Luu, X):
    """Return V of shape (M, N) and the residual of shape (N,) for rows `X`. Cost M N (M + D)."""
    V = _whiten(kernel, theta, Z, Luu, X)
    return V, _residual(kernel, theta, X, V)


def _whiten(kernel, theta, Z, Luu, X):
    return solve_lower(Luu, kernel.value(theta, Z, X), overwrite=True)


def _residual(kernel, theta, X, V):
    residual = kernel.diag(theta, X) - column_squares(V)
    # Rounding leaves about -1e-16 of the diagonal at the inducing points themselves.
    return np.maximum(residual, 0.0, out=residual)


class RowFeatures:
    """The features of the training rows, and the way back from adjoints to `theta` and Z.

    Parameters
    ----------
    blocks : RowBlocks
    kernel : FreeKernel
    theta : ndarray of shape (P,)
    Z : ndarray of shape (M, D)
    X : array of shape (N, D)
        Sliced block by block.
    jitter : float
        Relative jitter on Kuu; only this one is tried if `attempts` is 1.
    attempts : int
        See `jittered_cholesky`.

    Attributes
    ----------
    Luu : ndarray of shape (M, M)
    jitter : float
        Relative jitter used.
    residual : ndarray of shape (N,)
    """

    def __init__(self, blocks, kernel, theta, Z, X, *, jitter=SMALLEST_JITTER, attempts=1):
        self.blocks, self.kernel, self.theta, self.Z, self._X = blocks, kernel, theta, Z, X
        (self.Luu, self.jitter), self._pull_back_Kuu = factor_inducing(
            kernel, theta, Z, jitter, attempts=attempts
        )

        # Not methods: a store that held this object would make a cycle, and its (M, N) arrays
        # would outlive every evaluation until the garbage collector runs.
        def evaluate(rows):
            K, pullback = kernel.evaluate(theta, Z, X[rows])
            return solve_lower(Luu, K), pullback

        def whiten(rows):
            return _whiten(kernel, theta, Z, Luu, X[rows])

        Luu = self.Luu
        self._full = blocks.store(evaluate, 1 + kernel.n_arrays)
        self._lean = blocks.store(whiten, 1)
        self.residual = np.empty(blocks.n_rows)
        blocks.run(self._set_residual)

    def _set_residual(self, index, rows):
        V = self.V(index)
        self.residual[rows] = _residual(self.kernel, self.theta, self._X[rows], V)

    def V(self, index):
        """Return the block of V, shape (M, n)."""
        return self._full[index][0] if self._full.kept else self._lean[index]

    def kernel_product(self, vectors):
        """Return ``K @ vectors`` of shape (N, k), where K is the kernel matrix of the rows.

        Cost N^2 (D / 2 + k). K is symmetric, so each entry is evaluated once, in square tiles of at
        most `TILE_ROWS` rows: the memory is that of one tile and one (N, k) array per thread.
        """
        n_rows, n_threads = self.blocks.n_rows, self.blocks.n_threads
        tile_rows = min(TILE_ROWS, self.blocks.slices[0].stop)
        tiles = RowBlocks(n_rows, tile_rows, n_threads=n_threads, block_rows=tile_rows)

        def row_of_tiles(index, rows):
            part = np.zeros(vectors.shape)
            X = self._X[rows]
            part[rows] = self.kernel.value(self.theta, X, X) @ vectors[rows]
            for columns in tiles.slices[index + 1 :]:
                K = self.kernel.value(self.theta, X, self._X[columns])
                part[rows] += K @ vectors[columns]
                part[columns] = K.T @ vectors[rows]
            return (part,)

        return tiles.sum(row_of_tiles)[0]

    def _pullback(self, index, rows):
        if self._full.kept:
            return self._full[index][1]
        return self.kernel.evaluate(self.theta, self.Z, self._X[rows])[1]

    def pull_back(self, adjoint_V, adjoint_Kuu, adjoint_kdiag, wrt_Z=False):
        """Contract adjoints of V, Kuu and kdiag into gradients w.r.t. `theta` and Z.

        Parameters
        ----------
        adjoint_V : callable
            ``adjoint_V(index, rows)`` returns G of shape (M, n), the derivative of the objective
            w.r.t. the block of V at fixed residual, plus that through the residual.
        adjoint_Kuu : ndarray of shape (M, M)
            Symmetric, w.r.t. Kuu including its jitter, in whitened coordinates:
            ``Luu^-T adjoint_Kuu Luu^-1`` is the adjoint of Kuu.
        adjoint_kdiag : ndarray of shape (N,)
        wrt_Z : bool
            Whether to return the gradient w.r.t. Z.

        Returns
        -------
        grad_theta : ndarray of shape (P,)
        grad_Z : ndarray of shape (M, D) or None

        Notes
        -----
        Cost M N (M + D) beyond `adjoint_V`.
        """

        def block(index, rows):
            adjoint_Kuf = solve_lower(
                self.Luu, adjoint_V(index, rows), transposed=True, overwrite=True
            )
            grad_theta, grad_Z = self._pullback(index, rows)(adjoint_Kuf, wrt_Z)
            grad_theta = grad_theta + self.kernel.diag_pullback(
                self.theta, self._X[rows], adjoint_kdiag[rows]
            )
            return (grad_theta, grad_Z) if wrt_Z else (grad_theta,)

        parts = self.blocks.sum(block)
        half = solve_lower(self.Luu, adjoint_Kuu, transposed=True)
        adjoint = solve_lower(self.Luu, half.T, transposed=True)
        # The jitter is relative to the mean of the diagonal, so it moves with theta too.
        adjoint.flat[:: len(adjoint) + 1] += self.jitter * adjoint.trace() / len(adjoint)
        grad_theta, grad_Z = self._pull_back_Kuu(adjoint, wrt_Z)
        # Z stands on both sides of Kuu.
        return parts[0] + grad_theta, parts[1] + 2.0 * grad_Z if wrt_Z else None
