r"""Passes over the kernel matrix of the rows, in square tiles.

`kernel_product` computes products of the kernel matrix K with vectors. `residual_pass` computes
those of the residual covariance :math:`\tilde K = K - V^\top V`, and the moments of the eigenvalues
of E (see `log_determinants`) for several outputs. Subtracting within each tile keeps the digits
that would cancel in products with K and with :math:`V^\top V`.
"""

from functools import partial

import numpy as np

from sparsegpc._core.bounds.log_determinants import eigenvalue_moments
from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.rows.blocks import RowBlocks, Table

# Rows of a tile: its 2 MiB of doubles make fast matrix products and fit in the cache.
TILE_ROWS = 512


def _tile_rows(features):
    return min(TILE_ROWS, features.blocks.slices[0].stop)


def _strips(features):
    """Return blocks of the rows of a tile: the strips of the kernel matrix that a thread visits."""
    size = _tile_rows(features)
    n_threads = features.blocks.n_threads
    return RowBlocks(features.n_rows, size, n_threads=n_threads, block_rows=size)


def kernel_product(features, vectors):
    """Return ``K @ vectors`` of shape (N, k), where K is the kernel matrix of the rows.

    Cost N^2 (D / 2 + k). K is symmetric, so each pair of rows is evaluated once. Each thread needs
    the memory of one tile and of one (N, k) array.
    """
    strips = _strips(features)
    kernel, theta, X = features.kernel, features.theta, features.X

    def strip(row_indices):
        index = int(row_indices[0]) // strips.slices[0].stop
        rows, part = strips.slices[index], np.zeros(vectors.shape)
        tile_X = X[rows]
        part[rows] = kernel.value(theta, tile_X, tile_X) @ vectors[rows]
        for columns in strips.slices[index + 1 :]:
            K = kernel.value(theta, tile_X, X[columns])
            part[rows] += K @ vectors[columns]
            part[columns] = K.T @ vectors[rows]
        return (part,), ()

    return strips.visit(strip, np.arange(features.n_rows))[0][0]


def residual_pass(features, outputs, vectors):
    r"""Return :math:`\tilde K` times vectors, shape (N, k), and the `Moments` of each output.

    The outputs, pairs of `Sites` and `FunctionPosterior`, have the same kernel and points, but
    different precisions.

    With F outputs this takes 2 N^2 M (1 + F) operations, counting multiplications and additions,
    and evaluates the kernel for all pairs of rows. Each thread needs the memory of about four
    tiles, and of 3 M (F + 1) numbers for each row of a tile. V is computed again for each pair of
    tiles if it is not stored, which takes another N^2 M^2 / `TILE_ROWS` operations.
    """
    precision = np.stack([sites.precision for sites, _ in outputs])
    factors = [posterior.LB for _, posterior in outputs]
    strip = partial(_strip, features, factors, precision, vectors)
    inputs = Table(features.X), np.arange(features.n_rows), features.residual, precision
    (squares, projected_norms, projected), (products,) = _strips(features).visit(strip, *inputs)
    traces = precision @ features.residual
    # tr(PK) is tr(PQ) = tr(VPV^T) = tr(B) - M, plus the trace of R.
    prior_traces = traces + [(LB**2).sum() - len(LB) for LB in factors]
    # E is zero for rows of precision zero.
    ranks = np.count_nonzero(precision, axis=1)
    sums = traces, squares, projected_norms, projected, prior_traces, ranks
    all_moments = [eigenvalue_moments(*values) for values in zip(*sums, strict=True)]
    return products.T, all_moments


def _strip(features, factors, precision, vectors, X, index, residual, p):
    """Return the sums over the pairs of some rows with all rows, and the products at these rows.

    The sums are, for each output, |R|^2 and |R C^T|^2, shape (F,), and C R C^T, shape (F, M, M).
    """
    n_vectors, n_points = vectors.shape[1], len(factors[0])
    n_columns = n_vectors + len(factors) * n_points
    # Besides the vectors, the tiles multiply P V^T of each output.
    columns = [slice(k, k + n_points) for k in range(n_vectors, n_columns, n_points)]
    V = features.whiten(X)
    products, squares = np.zeros((len(X), n_columns)), np.zeros(len(factors))
    # No entry is larger. Without the unit, squares of entries could underflow or overflow.
    unit = features.residual.max() or 1.0
    for rows, V_of_rows in _tiles(features):
        tile = features.kernel.value(features.theta, X, features.X[rows])
        tile -= V.T @ V_of_rows
        _set_diagonal(tile, index, rows, residual)
        right = np.empty((tile.shape[1], n_columns))
        right[:, :n_vectors] = vectors[rows]
        for k, weight in enumerate(precision[:, rows]):
            np.multiply(V_of_rows.T, weight[:, None], out=right[:, columns[k]])
        products += tile @ right
        tile /= unit
        np.square(tile, out=tile)
        squares += np.einsum("kn,kn->k", (unit * p) @ tile, unit * precision[:, rows])
    projected_norms, projected = [], []
    for LB, root, part in zip(factors, np.sqrt(p), columns, strict=True):
        CR = solve_lower(LB, root * products[:, part].T)
        projected_norms.append((CR**2).sum())
        projected.append(solve_lower(LB, root * V) @ CR.T)
    sums = squares, np.array(projected_norms), np.stack(projected)
    return sums, (products[:, :n_vectors].T,)


def _tiles(features):
    """Yield slices of the rows of a tile, and V at each, which is computed if it is not kept."""
    size = _tile_rows(features)
    for index, block in enumerate(features.blocks.slices):
        for start in range(block.start, block.stop, size):
            rows = slice(start, min(start + size, block.stop))
            if features.keeps_V:
                yield rows, features.V(index)[:, start - block.start : rows.stop - block.start]
            else:
                yield rows, features.whiten(features.X[rows])


def _set_diagonal(tile, index, rows, residual):
    """Replace the entries of rows with themselves by the residuals that the bounds use.

    The tile is between rows with these consecutive indices and a slice of rows.
    """
    shared = np.arange(max(index[0], rows.start), min(index[-1] + 1, rows.stop))
    tile[shared - index[0], shared - rows.start] = residual[shared - index[0]]
