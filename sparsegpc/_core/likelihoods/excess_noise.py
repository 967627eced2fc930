r"""Gaussian noise of which only a part is known, such as the error of the measurement.

The variance of the noise of a row is :math:`\lambda_n = \kappa_n + \tau`, where :math:`\kappa_n` is
known and the *excess variance* :math:`\tau` is learned: what the columns do not explain, and the
known variance does not include. Meta-analysts call it heterogeneity, astronomers intrinsic scatter
or jitter. The sites are those of :mod:`sparsegpc._core.likelihoods.gaussian`, and do not depend on
f.
"""

import numpy as np
from scipy.optimize import minimize

from sparsegpc._core.likelihoods.base import Likelihood, Sites
from sparsegpc._core.likelihoods.gaussian import (
    constant_log_noise,
    log_likelihood,
    mean_and_scatter,
    records,
)

# Limits of the log excess variance beside a constant f, relative to the variance of the targets.
EXCESS_RANGE = (-18.0, 2.0)


class PartlyKnownNoise(Likelihood):
    """Gaussian noise of known variances plus one that is learned, as its logarithm.

    An entry of ``y`` holds ``known``, the known variance of a row; ``mean``, the weighted mean of
    its copies; and ``scatter``, their weighted mean squared deviation from it. Only rows of equal
    known variances are copies. See `excess_noise_targets`.
    """

    n_params = 1
    has_fixed_sites = True
    merges_unequal_targets = True

    def __init__(self, log_excess=None):
        self.log_excess = log_excess

    def at(self, params):
        return PartlyKnownNoise(float(params[0]))

    def noise_variance(self, y):
        """Return the variance of the noise of each row, (n,)."""
        return y["known"] + np.exp(self.log_excess)

    def sites(self, state, y, weight):
        p, mean = weight / self.noise_variance(y), y["mean"]
        return Sites(p, p * mean, self.peaks(y, weight)[1] - 0.5 * p * mean**2)

    def peaks(self, y, weight):
        noise = self.noise_variance(y)
        return y["mean"], log_likelihood(weight, np.log(noise), weight / noise * y["scatter"])

    def params_gradient(self, y, weight, mean, variance):
        noise = self.noise_variance(y)
        squared_error = (y["mean"] - mean[0]) ** 2 + y["scatter"] + variance[0]
        by_log_noise = 0.5 * weight * (squared_error / noise - 1.0)
        return np.array([by_log_noise @ (np.exp(self.log_excess) / noise)])

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the log excess variance that with the best constant f is the most likely."""
        largest = constant_log_noise(y["mean"], y["scatter"], weight, fit_prior_mean)

        def negative(log_excess):
            likelihood = self.at(log_excess)
            constant = likelihood._best_constants(y, weight) if fit_prior_mean else np.zeros(1)
            value, _, slope = likelihood._constants_and_params(constant, y, weight)
            return -value, -slope

        bounds = [largest + np.array(EXCESS_RANGE)]
        return minimize(negative, np.array([largest]), jac=True, bounds=bounds).x

    def _best_constants(self, y, weight):
        p = weight / self.noise_variance(y)
        return np.array([p @ y["mean"] / p.sum()])


def excess_noise_targets(y, weight, known, rows):
    """Return the targets of `PartlyKnownNoise`, (N',), at `MergedRows` of equal known variances."""
    mean, scatter = mean_and_scatter(y, weight, rows)
    return records(mean=mean, scatter=scatter, known=known[rows.first])
