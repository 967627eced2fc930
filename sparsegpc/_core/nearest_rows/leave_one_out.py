r"""The posterior of f at training rows, each without its own site.

A training row tells how well new rows are predicted only if q(u) has not seen it. Without the site
of row n, of precision p and shift b, the optimal q(u) at the sites of the other rows and the same
prior mean, as uncertain as with all rows, is :math:`N(w_{-n}, B_{-n}^{-1})` with
:math:`B_{-n} = B - p v v^\top` for the features v of the row. With
:math:`r = 1 - p v^\top B^{-1} v` and the slope :math:`\alpha = b - p (\mu + v^\top w)` of the
site at the mean,

.. math::
    g^\top w_{-n} = g^\top w - \frac{\alpha}{r} g^\top B^{-1} v, \quad
    g^\top B_{-n}^{-1} g = g^\top B^{-1} g + \frac{p}{r} (g^\top B^{-1} v)^2.
"""

import numpy as np

from sparsegpc._core.numerics.linalg import column_squares, solve_lower
from sparsegpc._core.rows.blocks import RowBlocks, Table


def site_removal(q, V, half_V, half_g, precision, shift):
    """Return how the moments of g[:, n]' a change when site n is removed, for each n.

    These are the changes of the mean, of the variance, and of the derivative of the mean w.r.t. the
    prior mean, (N,) each; a are the whitened values at the inducing points.

    Site n has the features V[:, n]; one of precision and shift zero changes nothing. q is the
    `FunctionPosterior` with all sites, and `half_V` and `half_g` are the solutions of LB h = V and
    LB h = g. They and `V` have the shape (M, N), the others (N,). Cost N M.
    """
    cross = (half_V * half_g).sum(axis=0)
    # r is 1 / (1 + p v' C v), where C, the inverse of B without the site, is at most I.
    r = 1.0 - precision * column_squares(half_V)
    r = np.maximum(r, 1.0 / (1.0 + precision * column_squares(V)))
    slope = shift - precision * (q.prior_mean + q.w @ V)
    gain = precision / r * cross
    return -slope / r * cross, gain * cross, gain * q.share_of_mean(V)


class LeaveOneOutPosterior:
    """A posterior of K functions that predicts each training row without its own site.

    It takes the distinct training rows `X` (N, D) and the `Sites` of each function there, from
    which the `Posterior` was computed. Other rows are predicted as by the latter.
    """

    def __init__(self, posterior, X, sites):
        self._posterior = posterior
        # Adding zero turns minus zero into zero.
        self._index = {row.tobytes(): n for n, row in enumerate(X + 0.0)}
        # The last entry is for rows that are no training rows.
        self._sites = [
            (np.append(site.precision, 0.0), np.append(site.shift, 0.0)) for site in sites
        ]

    def own_sites(self, X):
        """Return the precisions and shifts (n,) of the sites at n rows, for each function."""
        index = [self._index.get(row.tobytes(), -1) for row in X + 0.0]
        return [(precision[index], shift[index]) for precision, shift in self._sites]

    def moments(self, X, **row_options):
        """Return the mean and the variance of each f at n rows, shape (K, n) each."""
        posterior = self._posterior

        def block(X):
            V, residual = posterior.features(X)
            found = []
            for q, site in zip(posterior.functions, self.own_sites(X), strict=True):
                half = solve_lower(q.LB, V)
                mean_change, variance_change, share_change = site_removal(q, V, half, half, *site)
                mean = q.prior_mean + q.w @ V + mean_change
                variance = column_squares(half) + residual + variance_change
                share = q.share_of_mean(V) + share_change
                found.append(q.with_uncertain_mean(mean, variance, share))
            return (), tuple(map(np.stack, zip(*found, strict=True)))

        blocks = RowBlocks(len(X), len(posterior.Z), n_read=X.shape[1], **row_options)
        return blocks.visit(block, Table(X))[1]
