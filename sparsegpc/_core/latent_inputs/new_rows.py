r"""The latent inputs of new rows, and the columns at given inputs, with q(u) fixed.

The bound on the log density of a new row y with values in the columns O is, with the `alpha` and
the `covariance` S of `LatentPosterior`,

.. math:: -\tfrac{|O|}{2} \log\tfrac{2\pi}{\beta} - \tfrac{\beta}{2} |y|^2
   + \beta\,\psi_1^\top \sum_{d \in O} \alpha_d y_d
   - \tfrac{\beta}{2} \mathrm{tr}\,\psi_2 \sum_{d \in O} (S_d + \alpha_d \alpha_d^\top)
   - \tfrac{|O|}{2} \mathrm{slack}(c) - \mathrm{KL}(q(x) \| p(x)).

At the optimal q(u) the sum over the training rows, minus KL(q(u) || p(u)), is the collapsed bound.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.latent_inputs.collapsed_bound import divergence_from_prior
from sparsegpc._core.latent_inputs.kernel_expectations import LatentKernel
from sparsegpc._core.optimisers.many_bfgs import maximize_many
from sparsegpc._core.rows.blocks import RowBlocks, Table
from sparsegpc._core.rows.sources import spaced_rows

# Largest number of q(x) of training rows that are tried as the start of a row.
MAX_CANDIDATES = 1000


class RowBounds:
    """The lower bounds of rows Y (n, D) as functions of their q(x), given a `LatentPosterior`."""

    def __init__(self, Y, posterior, slack):
        present = ~np.isnan(Y)
        Y = np.where(present, Y, 0.0)
        self._slack, self._signal, self._beta = slack, posterior.signal, 1.0 / posterior.noise
        self._kernel = kernel = LatentKernel(posterior.Z, posterior.widths, posterior.signal)
        self._trace_weights = kernel.counted(posterior.Kuu_inverse)
        self.n_present = present.sum(axis=1).astype(np.float64)
        # Rows with values in the same columns share the factors of psi2.
        patterns, self._pattern_of = np.unique(present, axis=0, return_inverse=True)
        self._pattern_of = self._pattern_of.ravel()
        covariances = np.array([kernel.counted(S) for S in posterior.covariance])
        moments = covariances[posterior.pattern_of] + kernel.counted_outer(posterior.alpha)
        self._by_psi2 = -0.5 * self._beta * (patterns @ moments)
        self._by_psi1 = self._beta * (Y @ posterior.alpha.T)
        self._constant = -0.5 * self._beta * (Y**2).sum(axis=1)
        self._constant -= 0.5 * self.n_present * np.log(2.0 * np.pi * posterior.noise)

    def _expectations(self, mean, variance):
        """Return psi1 (n, M), psi2 (n, T) and the residual ratios c (n,)."""
        psi1, psi2 = self._kernel.expectations(mean, variance)
        return psi1, psi2, self._beta * np.maximum(self._signal - psi2 @ self._trace_weights, 0.0)

    def of_candidates(self, mean, variance):
        """Return the bound of each row at each of m given q(x), shape (n, m)."""
        psi1, psi2, ratio = self._expectations(mean, variance)
        own = (self._by_psi2 @ psi2.T)[self._pattern_of] + self._by_psi1 @ psi1.T
        slack = -0.5 * np.outer(self.n_present, self._slack.row_term(ratio))
        return self._constant[:, None] + own + slack - divergence_from_prior(mean, variance)

    def __call__(self, x, rows):
        """Return the bounds of some rows, and gradients w.r.t. x: means and log variances."""
        mean, log_variance = np.split(x, 2, axis=1)
        variance, n_present = np.exp(log_variance), self.n_present[rows]
        psi1, psi2, ratio = self._expectations(mean, variance)
        by_log_psi1 = psi1 * self._by_psi1[rows]
        by_log_psi2 = psi2 * self._by_psi2[self._pattern_of[rows]]
        value = self._constant[rows] + by_log_psi1.sum(axis=1) + by_log_psi2.sum(axis=1)
        value -= 0.5 * n_present * self._slack.row_term(ratio)
        value -= divergence_from_prior(mean, variance)
        g = self._beta * n_present * self._slack.scale(ratio, None)
        by_log_psi2 += psi2 * (0.5 * g[:, None] * self._trace_weights)
        gradient = self._kernel.pull_back(by_log_psi1, by_log_psi2, mean, variance)
        by_log_variance = gradient.variance * variance - 0.5 * (variance - 1.0)
        return value, np.hstack([gradient.mean - mean, by_log_variance])


class Projection(NamedTuple):
    """q(x) of rows: ``mean`` and ``variance`` (N, Q), their ``bound`` (N,), and ``converged`` (N,).

    The bound is that on the log density of each row, in nats.
    """

    mean: np.ndarray
    variance: np.ndarray
    bound: np.ndarray
    converged: np.ndarray


def project(Y, posterior, slack, candidates, *, own=(None, None), max_iter, tol, **options):
    """Return the `Projection` of rows Y (N, D), each of which starts at the best of the candidates.

    NaN marks missing values. `candidates` are the means and variances of q(x), (K, Q) each; at most
    `MAX_CANDIDATES` of them, evenly spaced, are tried. Each row also tries its `own` mean and
    variance, (N, Q) each, unless these are None. The search of a row ends when the expected gain is
    below `tol` nats. `options` are those of `RowBlocks`.

    Cost N M^2 Q for each of `max_iter` steps, and N K D + P (K + D) M^2 to choose the starts, for P
    patterns of missing values.
    """

    tried = spaced_rows(candidates[0], MAX_CANDIDATES)
    candidates = [values[tried] for values in candidates]

    def block(Y, own_mean, own_variance):
        lower_bounds = RowBounds(Y, posterior, slack)
        scores = lower_bounds.of_candidates(*candidates)
        best = scores.argmax(axis=1)
        mean, variance = (values[best] for values in candidates)
        if own_mean is not None:
            own = np.hstack([own_mean, np.log(own_variance)])
            stays = lower_bounds(own, np.arange(len(Y)))[0] >= scores.max(axis=1)
            mean[stays], variance[stays] = own_mean[stays], own_variance[stays]
        # The curvature w.r.t. the log variance is about a half where its derivative is zero.
        inverse_curvature = np.hstack([variance, np.full_like(variance, 2.0)])
        start = np.hstack([mean, np.log(variance)])
        x, value, converged = maximize_many(
            lower_bounds, start, inverse_curvature, max_iter=max_iter, tol=tol
        )
        mean, log_variance = np.split(x, 2, axis=1)
        return (), (mean.T, np.exp(log_variance).T, value, converged)

    # Each block computes the expectations at the candidates, so it should not be smaller.
    blocks = RowBlocks(len(Y), len(posterior.Z) ** 2, block_rows=MAX_CANDIDATES, **options)
    inputs = [None if values is None else Table(values) for values in (Y, *own)]
    _, (mean, variance, bound, converged) = blocks.visit(block, *inputs)
    return Projection(mean.T, variance.T, bound, converged)


def columns_at(X, posterior):
    """Return the means and variances of the D functions at latent inputs X, shape (n, D) each."""
    kernel = LatentKernel(posterior.Z, posterior.widths, posterior.signal)
    k = kernel.to_points(X)
    variances = []
    for S in posterior.covariance:
        explained = np.einsum("nm,nm->n", k @ (posterior.Kuu_inverse - S), k)
        variances.append(np.maximum(posterior.signal - explained, 0.0))
    return k @ posterior.alpha, np.array(variances).T[:, posterior.pattern_of]
