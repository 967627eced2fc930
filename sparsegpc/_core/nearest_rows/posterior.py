r"""The posterior of f at a row, given the inducing points and the sites of the nearest rows.

The inducing points leave a part of f unexplained at each row, with the prior covariance
:math:`\tilde K`. A prediction can also use what the sites of k training rows S near the row say
about this part. Given q(u), f at the new row and at S are jointly Gaussian, and S have the
pseudo-targets :math:`\tilde y = b / p` with the noise variances 1 / p. With
:math:`\kappa = (\tilde K_{SS} + P_S^{-1})^{-1} \tilde K_{S*}` and
:math:`g = v_* - V_S \kappa`,

.. math::
    E[f_*] = \mu + w^\top v_* + \kappa^\top (\tilde y_S - \mu - V_S^\top w), \quad
    \mathrm{Var}[f_*] = \tilde k_{**} - \kappa^\top \tilde K_{S*} + g^\top B^{-1} g.

To the variance a learned prior mean adds its own, times the square of the derivative of the mean
w.r.t. it, which is :math:`1 - 1^\top \kappa - w_p^\top g`.

Each row has its own neighbours, so the predictions of several rows have no joint distribution.
"""

import numpy as np

from sparsegpc._core.nearest_rows.leave_one_out import site_removal
from sparsegpc._core.numerics.linalg import column_squares, solve_lower
from sparsegpc._core.rows.blocks import RowBlocks, Table

# Rows predicted at a time; the features of their neighbours are k times as many.
BLOCK_ROWS = 128
# Sites whose precision is below this fraction of the largest carry no information.
LEAST_PRECISION = 1e-12


class LocalPosterior:
    """The posterior of K functions at a row, given inducing points and nearest training rows.

    It takes the training rows `X` (N, D) and the `Sites` of each function there. ``nearest(X)``
    returns the indices (n, k) of the training rows to use at n rows. Unless `uses_points`, f is
    predicted from these rows alone. With `left_out`, a `LeaveOneOutPosterior`, q(u) has not seen
    the site of a training row that equals the row to predict.
    """

    def __init__(self, posterior, X, sites, nearest, uses_points=True, left_out=None):
        self._posterior, self._X, self._nearest = posterior, X, nearest
        self._uses_points, self._left_out = uses_points, left_out
        precision = np.stack([site.precision for site in sites])
        shift = np.stack([site.shift for site in sites])
        is_silent = precision < LEAST_PRECISION * precision.max(axis=1, keepdims=True)
        self._root = np.sqrt(np.where(is_silent, 0.0, precision))
        # P^(-1/2) b, so that kappa' y is a product of moderate numbers.
        self._target = np.divide(shift, self._root, out=np.zeros_like(shift), where=~is_silent)

    def _refuse(self, *arguments):
        """Raise ValueError."""
        raise ValueError(
            "predictions from nearest rows have no joint distribution, since each row has its own, "
            "and so no draws, covariances, bounds and effects: ask the attribute estimator_ for "
            "those from the inducing points"
        )

    covariance = draws = difference_moments = _refuse
    # What bounds and effects start from.
    kernel = Z = property(_refuse)

    def moments(self, X, **row_options):
        """Return the mean and the variance of each f at N rows, shape (K, N) each.

        Cost k M^2 + k^3 for each row and function.
        """
        blocks = RowBlocks(
            len(X), len(self._posterior.Z), n_read=X.shape[1], block_rows=BLOCK_ROWS, **row_options
        )
        return blocks.visit(lambda X: ((), self._block(X)), Table(X))[1]

    def _block(self, X):
        posterior, index = self._posterior, self._nearest(X)
        V, V_near, variance, cross, K = self._prior_moments(X, self._X[index])
        left_out = [None] * len(posterior.functions)
        if self._left_out is not None and self._uses_points:
            left_out = self._left_out.own_sites(X)
        found = []
        for q, root, target, site in zip(
            posterior.functions, self._root, self._target, left_out, strict=True
        ):
            root, target = root[index], target[index]
            scaled = root * cross
            A = K * root[:, :, None] * root[:, None, :]
            # A view of the diagonals.
            np.einsum("nkk->nk", A)[...] += 1.0
            solved = np.linalg.solve(A, scaled[..., None])[..., 0]
            known = q.prior_mean + np.tensordot(q.w, V_near, 1)
            mean = q.prior_mean + q.w @ V + ((target - root * known) * solved).sum(axis=1)
            g = V - np.einsum("mnk,nk->mn", V_near, root * solved)
            left = np.maximum(variance - (scaled * solved).sum(axis=1), 0.0)
            half_g = solve_lower(q.LB, g)
            inducing = column_squares(half_g)
            share = q.share_of_mean(g, 1.0 - (root * solved).sum(axis=1))
            if site is not None:
                half_V = solve_lower(q.LB, V)
                changes = site_removal(q, V, half_V, half_g, *site)
                mean, inducing, share = map(np.add, (mean, inducing, share), changes)
            found.append(q.with_uncertain_mean(mean, left + inducing, share))
        return tuple(map(np.stack, zip(*found, strict=True)))

    def _prior_moments(self, X, near):
        """Return features and residual prior covariances of n rows and their neighbours (n, k, D).

        These are the features of the rows (M, n) and of the neighbours (M, n, k); and, given u, the
        prior variances of the rows (n,), their covariances with the neighbours (n, k), and those of
        the neighbours (n, k, k). Without the points the features are zero.
        """
        kernel, theta, M = self._posterior.kernel, self._posterior.theta, len(self._posterior.Z)
        n, k, n_columns = near.shape
        K = np.stack([kernel.value(theta, rows, rows) for rows in near])
        cross = np.concatenate(
            [kernel.value(theta, rows, x[None]) for rows, x in zip(near, X, strict=True)], axis=1
        ).T
        if not self._uses_points:
            return np.zeros((M, n)), np.zeros((M, n, k)), kernel.diag(theta, X), cross, K
        V, variance = self._posterior.features(X)
        V_near = self._posterior.features(near.reshape(n * k, n_columns))[0].reshape(M, n, k)
        by_row = np.ascontiguousarray(V_near.transpose(1, 2, 0))
        K -= by_row @ by_row.transpose(0, 2, 1)
        cross -= (by_row @ V.T[:, :, None])[..., 0]
        return V, V_near, variance, cross, K
