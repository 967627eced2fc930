r"""One pass over the residual covariance of the rows, in tiles.

The pass computes products of :math:`\tilde K = K - V^\top V`, and the moments of the eigenvalues of
E (see `log_determinants`) for several outputs. Subtracting within each tile keeps the digits that
would cancel in products with K and with :math:`V^\top V`.
"""

from functools import partial

import numpy as np

from sparsegpc._core.bounds.log_determinants import moments
from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.rows.blocks import RowBlocks, Table


def residual_pass(features, outputs, vectors):
    r"""Return :math:`\tilde K` times vectors, and the moments of each output.

    Parameters
    ----------
    features : RowFeatures
    outputs : list of (Sites, FunctionPosterior)
        K outputs with the same kernel and points, but different precisions.
    vectors : ndarray of shape (N, k)

    Returns
    -------
    products : ndarray of shape (N, k)
    all_moments : list of Moments

    Notes
    -----
    Cost N^2 (2 M + 2 M K + D), counting a multiplication and an addition as two. Each thread needs
    the memory of two tiles, and of 2 M (K + 1) numbers for each row of a tile. V is computed again
    for each pair of tiles if it is not stored, which adds N^2 M^2 / `TILE_ROWS`.
    """
    precision = np.stack([sites.precision for sites, _ in outputs])
    tiles = RowBlocks(
        features.n_rows,
        features.tile_rows,
        n_threads=features.blocks.n_threads,
        block_rows=features.tile_rows,
    )
    factors = [posterior.LB for _, posterior in outputs]
    strip = partial(_strip, features, factors, precision, vectors)
    inputs = Table(features.X), np.arange(features.n_rows), features.residual, precision
    (squares, projected_norms, projected), (products,) = tiles.visit(strip, *inputs)
    cost = precision @ features.residual
    # tr(PK) is tr(PQ) = tr(VPV^T) = tr(B) - M, plus the trace of R.
    prior_cost = [(LB**2).sum() - len(LB) for LB in factors] + cost
    all_moments = [
        moments(*values, features.n_rows)
        for values in zip(cost, squares, projected_norms, projected, prior_cost, strict=True)
    ]
    return products.T, all_moments


def _strip(features, factors, precision, vectors, X, index, residual, p):
    """Return the sums over the pairs of some rows with all rows, and the products at these rows.

    The sums are |R|^2 and |R C^T|^2 of each output, shape (K,), and C R C^T, shape (K, M, M).
    """
    n_vectors, n_points, n_outputs = vectors.shape[1], len(factors[0]), len(factors)
    V = features.whiten(X)
    width = n_vectors + n_outputs * n_points
    starts = range(n_vectors, width, n_points)
    columns = [slice(start, start + n_points) for start in starts]
    products, squares = np.zeros((len(X), width)), np.zeros(n_outputs)
    # The largest entry, as squares of entries could underflow, and those of precisions overflow.
    unit = features.residual.max() or 1.0
    for rows, V_of_tile in features.tiles():
        tile = features.kernel.value(features.theta, X, features.X[rows])
        tile -= V.T @ V_of_tile
        shared = slice(max(index[0], rows.start), min(index[-1] + 1, rows.stop))
        diagonal = np.arange(shared.start, shared.stop)
        tile[diagonal - index[0], diagonal - rows.start] = residual[diagonal - index[0]]
        right = np.empty((len(V_of_tile.T), width))
        right[:, :n_vectors] = vectors[rows]
        for k, weight in enumerate(precision[:, rows]):
            np.multiply(V_of_tile.T, weight[:, None], out=right[:, columns[k]])
        products += tile @ right
        tile /= unit
        np.square(tile, out=tile)
        squares += np.einsum("kn,kn->k", (unit * p) @ tile, unit * precision[:, rows])
    projected_norms, projected = [], []
    for k, LB in enumerate(factors):
        root = np.sqrt(p[k])
        RC = solve_lower(LB, root * products[:, columns[k]].T)
        projected_norms.append((RC**2).sum())
        projected.append(solve_lower(LB, root * V) @ RC.T)
    sums = squares, np.array(projected_norms), np.stack(projected)
    return sums, (products[:, :n_vectors].T,)
