"""Small problems of two classes: what the solver of sites needs, and dense features of its own."""

from types import SimpleNamespace

import numpy as np

from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.rows.blocks import RowBlocks

JITTER = 1e-9


def make_problem(
    seed, n=30, m=6, *, variance=4.0, length_scale=0.8, noise=0.3, weighted=True, block_rows=None
):
    """A small problem: what `solve_sites` needs, and dense features of its own."""
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    latent = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5
    y = np.where(latent + noise * rng.randn(n) > 0.0, 1.0, -1.0)
    # Labels of one sign have no best prior mean.
    y[:2] = 1.0, -1.0
    weight = rng.uniform(0.3, 3.0, size=n) if weighted else np.ones(n)
    return assemble(X, y, weight, X[:m] + 0.01, variance, length_scale, block_rows)


def assemble(X, y, weight, Z, variance=4.0, length_scale=0.8, block_rows=None):
    for array in (X, y, weight, Z):
        array.flags.writeable = False
    theta = np.log([variance, length_scale])
    kernel = FreeKernel(Scaled(Constant(), RBF()), theta, np.ones(2, dtype=bool))
    blocks = RowBlocks(len(X), len(Z), block_rows=block_rows)
    features = RowFeatures(blocks, kernel, theta, Z, X, jitter=JITTER)

    def k(A, B):
        squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2)
        return variance * np.exp(-0.5 * squares / length_scale**2)

    Kuu = k(Z, Z) + JITTER * variance * np.eye(len(Z))
    V = np.linalg.solve(np.linalg.cholesky(Kuu), k(Z, X))
    residual = np.maximum(variance - (V**2).sum(axis=0), 0.0)
    return SimpleNamespace(
        features=features, y=y, weight=weight, K=k(X, X), V=V, Q=V.T @ V, residual=residual
    )
