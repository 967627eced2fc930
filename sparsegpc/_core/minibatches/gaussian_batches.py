r"""Regression from minibatches, with Gaussian noise of one variance.

The sites do not depend on f, so one visit to each row at fixed hyperparameters gives the collapsed
posterior of `collapsed`. All sites scale with the noise variance :math:`\lambda`, so the running
sums can be adapted exactly to a new variance.
"""

import numpy as np

from sparsegpc._core.bounds.collapsed import optimal_posterior, row_sums
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.likelihoods.gaussian import constant_bound, constant_log_noise, log_likelihood
from sparsegpc._core.minibatches.explicit_posterior import expected_log_sites, kernel_gradient
from sparsegpc._core.minibatches.running_sums import added, scaled
from sparsegpc._core.minibatches.stochastic_model import StochasticModel
from sparsegpc._core.numerics.floats import LOG_2PI


class GaussianBatches(StochasticModel):
    """A `StochasticModel` for regression. The last entry of theta is the log noise variance."""

    def posteriors(self, state):
        return [optimal_posterior(state.sums[0], state.n_rows, self.slack, self.prior_mean)]

    def solve(self, state, X, y, weight, batch_size):
        """Return the optimal state for the given rows at its theta and Z. Cost N M^2."""
        n_seen = state.n_seen
        state = state._replace(n_rows=0)
        for first in range(0, len(y), batch_size):
            rows = slice(first, first + batch_size)
            state = self.step(state, X[rows], y[rows], weight[rows])
        return state._replace(n_seen=n_seen)

    def constant_bound(self, y, weight):
        if not y.any():
            # The best noise variance is zero, and an infinite bound is no use for comparison.
            return -np.inf
        return constant_bound(y, 0.0, weight, self.fit_prior_mean)

    def _constant_params(self, y, weight):
        return [constant_log_noise(y, 0.0, weight, self.fit_prior_mean)]

    def _absorb(self, state, features, y, weight, kept):
        sites = gaussian_sites(y, weight, state.theta[-1])
        batch = row_sums(features, sites, self.slack)
        return (added(kept[0], batch),), (sites, batch)

    def _gradient(self, state, features, found):
        (q,) = self.posteriors(state)
        return batch_gradient(features, *found, state.theta[-1], self.slack, q, self.learn_Z)

    def _carried(self, sums, old, new):
        return (with_noise(sums[0], self.slack, old[-1], new[-1]),)


def gaussian_sites(y, weight, log_noise):
    """Return the `Sites` of targets with one noise variance; see `likelihoods.gaussian`."""
    precision = weight * np.exp(-log_noise)
    log_scale = log_likelihood(weight, log_noise, precision * y**2)
    return Sites(precision, precision * y, log_scale)


def with_noise(sums, slack, old, new):
    """Return the sums of the sites of targets at another log noise variance.

    The sum of the slack is approximate, since its exact value would need the rows.
    """
    ratio, total_weight = np.exp(old - new), sums.precision * np.exp(old)
    squares = -2.0 * sums.log_scale - total_weight * (LOG_2PI + old)
    log_scale = log_likelihood(total_weight, new, ratio * squares)
    return scaled(sums, ratio)._replace(
        log_scale=log_scale, slack=slack.rescaled(sums.slack, ratio)
    )


def batch_gradient(features, sites, sums, log_noise, slack, posterior, wrt_Z=False):
    """Return the gradients of the bound of a batch at fixed q(u), in whitened coordinates.

    The bound is the sum over rows of the expected log likelihood and the slack. `sites` are those
    of `gaussian_sites`, and `sums` their `RowSums`. The first gradient is that w.r.t. the free
    parameters of the kernel and the log noise variance, (P,), the second that w.r.t. Z, (M, D), or
    None. Cost 6 N_b M^2 + 4 M^3.
    """
    w, prior_mean = posterior.w, posterior.prior_mean
    p = sites.precision
    g = p * slack.scale(p * features.residual, None)
    (mean,) = features.rows(lambda V: (w @ V + prior_mean,))
    slope = sites.shift - p * mean
    grad_kernel, grad_Z = kernel_gradient(
        features, [posterior], slope[None], p[None], g[None], wrt_Z
    )
    # The precision of a site is its weight divided by the noise variance.
    total_weight = sums.precision * np.exp(log_noise)
    misfit = -total_weight * (LOG_2PI + log_noise) - 2.0 * expected_log_sites(sums, posterior)
    grad_noise = 0.5 * (misfit - total_weight + g @ features.residual)
    return np.append(grad_kernel, grad_noise), grad_Z
