r"""Centroids: inducing points moved from chosen rows to means of the rows around them.

This is Lloyd's algorithm for k-means, started at chosen rows, in the geometry of the kernel. Each
row belongs to the point z at the smallest distance
:math:`k(z, z) - 2 k(x_n, z) + k(x_n, x_n)`, and each point moves to the mean of its rows with
weights :math:`p_n k(x_n, z)`, site precision times covariance.

Rows and points are in groups, and rows belong to points of their own group only. The groups are the
classes, or in regression the rows with centred targets above and below zero; with several outputs,
the rows in which the same output is largest. A mean over rows whose targets differ would lie where
f is close to its prior mean, and would carry little information about f.
"""

import numpy as np
from scipy.sparse import csr_array

from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.sources import spaced_rows

# More rows or passes hardly raised the bound further.
ROWS_PER_POINT, N_PASSES = 50, 5


def centroids(points, kernel, theta, X, sites):
    """Return `InducingPoints` at the centroids of the rows around `points`, in their order.

    `points` are chosen rows, and `sites` the `Sites` of each function at the rows X (N, D). The
    centroids are not rows, so their ``indices`` are None. Cost O(n M D) for n rows, at most
    `ROWS_PER_POINT` for each of the M points.
    """
    precision, groups = sum(site.precision for site in sites), _groups(sites)
    some = spaced_rows(X, ROWS_PER_POINT * len(points.Z))
    X, precision, group_of_row = X[some], precision[some], groups[some]
    Z, group_of_point = points.Z.copy(), groups[points.indices]
    for group in np.unique(group_of_point):
        own, rows = group_of_point == group, group_of_row == group
        X_own, p_own = X[rows], precision[rows]
        for _ in range(N_PASSES):
            Z[own] = _means(kernel, theta, Z[own], X_own, p_own)
    return points._replace(Z=Z, indices=None)


def _groups(sites):
    """Return the group of each row, shape (N,): which function its sites raise most.

    With one function, whether they raise or lower it.
    """
    shift = np.array([site.shift for site in sites])
    return shift[0] > 0.0 if len(shift) == 1 else shift.argmax(axis=0)


def _means(kernel, theta, Z, X, precision):
    """Return the weighted mean of the rows nearest to each point, or the point if it has none."""
    total, weight = np.zeros(Z.shape), np.zeros(len(Z))
    half_variance = 0.5 * kernel.diag(theta, Z)[:, None]
    for part in RowBlocks(len(X), len(Z), n_read=X.shape[1]).slices:
        K = kernel.value(theta, Z, X[part])
        nearest = (K - half_variance).argmax(axis=0)
        rows = np.arange(len(nearest))
        share = precision[part] * np.maximum(K[nearest, rows], 0.0)
        total += csr_array((share, (nearest, rows)), shape=K.shape) @ X[part]
        weight += np.bincount(nearest, share, len(Z))
    return np.divide(total, weight[:, None], out=Z.copy(), where=weight[:, None] > 0.0)
