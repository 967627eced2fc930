r"""Noise that is Gaussian with an uncertain variance, and the density of y = f + noise.

Let :math:`g` be the logarithm of the noise variance at a row, with the density p(g). With f of mean
m and variance s, the density of y is :math:`\int N(y; m, s + e^g)\, p(g)\, dg`, a mixture of
Gaussians. The trapezoidal rule converges exponentially for such integrals, since the integrand is
analytic in g and decays on both sides.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from sparsegpc._core.likelihoods.gaussian import limited_exp
from sparsegpc._core.numerics.floats import LOG_2PI, TINY
from sparsegpc._core.numerics.quadrature import narrowed

# Rows of a block in the quadrature over the noise, whose temporary arrays take 2 MB.
DENSITY_ROWS = 1024
# Nodes of this quadrature, and how often their interval is narrowed to the relevant part.
DENSITY_NODES, ZOOMS = 200, 3
# Largest step of the nodes of a mixture: the error of the rule is about exp(-9.9 / step).
LARGEST_STEP = 0.35
MOST_NODES = 1000
# Larger squared errors count as this one in a mixture, which has a density at any target.
LARGEST_SQUARE = 1e200


class LogNormalVariance(NamedTuple):
    """Noise variances whose logarithms are Gaussian with these moments, arrays of one shape.

    Where ``variance`` is zero, the noise variance is known.
    """

    mean: np.ndarray
    variance: np.ndarray

    def expected(self):
        """Return the expected noise variance, of the shape of ``mean``."""
        return limited_exp(self.mean + 0.5 * self.variance)

    def multiplied(self, factor):
        """Return the same for noise variances that are multiplied by a positive factor."""
        return self._replace(mean=self.mean + np.log(factor))

    def at(self, index):
        """Return the same for some of the entries, given by an index of arrays."""
        return LogNormalVariance(self.mean[index], self.variance[index])

    def is_uncertain(self):
        """Return where the noise variance is uncertain, of the shape of ``mean``."""
        return self.variance > 0.0

    def log_density(self, g):
        """Return log p(g) for log variances g, whose last axis is that of the nodes."""
        deviation = np.sqrt(self.variance)[..., None]
        standard = (g - self.mean[..., None]) / deviation
        return -0.5 * (standard**2 + LOG_2PI) - np.log(deviation)

    def limits(self, log_squared_error):
        """Return limits of g outside which N(y; m, s + exp(g)) p(g) is negligible."""
        deviation = np.sqrt(self.variance)
        low = self.mean - 0.5 * self.variance - 9.0 * deviation
        return low, np.maximum(self.mean, log_squared_error) + 9.0 * deviation

    def nodes(self):
        """Return nodes g of a quadrature, (J, ...), and their weights, which sum to one.

        Expectations of smooth functions of g between 0 and 1 have errors of about 1e-12.
        """
        largest = float(np.sqrt(self.variance.max(initial=0.0)))
        if largest == 0.0:
            return self.mean[None], np.ones((1,) + (1,) * self.mean.ndim)
        step = min(0.6, LARGEST_STEP / largest)
        n_nodes = min(2 * int(np.ceil(8.0 / step)) + 1, MOST_NODES)
        standard = np.linspace(-8.0, 8.0, n_nodes).reshape(-1, *[1] * self.mean.ndim)
        weights = np.exp(-0.5 * standard**2)
        return self.mean + np.sqrt(self.variance) * standard, weights / weights.sum()


class InverseGammaVariance(NamedTuple):
    r"""Noise variances with inverse gamma distributions: the noise is Student-t.

    ``df`` holds the degrees of freedom :math:`\nu`, and ``log_variance`` the logarithm of the
    squared scale :math:`\sigma^2`, arrays of one shape. The variance is
    :math:`\nu\sigma^2/\chi^2_\nu`. The methods are those of `LogNormalVariance`.
    """

    df: np.ndarray
    log_variance: np.ndarray

    def expected(self):
        """Return the expected noise variance, infinite for two degrees of freedom or fewer."""
        ratio = np.where(self.df > 2.0, self.df / np.maximum(self.df - 2.0, TINY), np.inf)
        return limited_exp(self.log_variance) * ratio

    def multiplied(self, factor):
        return self._replace(log_variance=self.log_variance + np.log(factor))

    def at(self, index):
        return InverseGammaVariance(self.df[index], self.log_variance[index])

    def is_uncertain(self):
        return np.ones(self.df.shape, dtype=bool)

    def log_density(self, g):
        half, ratio = 0.5 * self.df[..., None], g - self.log_variance[..., None]
        with np.errstate(over="ignore"):
            return half * (np.log(half) - ratio - np.exp(-ratio)) - gammaln(half)

    def limits(self, log_squared_error):
        below, above = self._reach(60.0)
        # Beyond the squared error the integrand falls at least as fast as p(g).
        return self.log_variance - below, np.maximum(self.log_variance, log_squared_error) + above

    def nodes(self):
        below, above = self._reach(36.0)
        low, high = self.log_variance - below, self.log_variance + above
        step = np.minimum(LARGEST_STEP, 0.6 * np.sqrt(2.0 / self.df))
        n_nodes = min(2 + int(((high - low) / step).max(initial=0.0)), MOST_NODES)
        steps = np.linspace(0.0, 1.0, n_nodes).reshape(-1, *[1] * self.df.ndim)
        g = low + (high - low) * steps
        log_weights = np.moveaxis(self.log_density(np.moveaxis(g, 0, -1)), -1, 0)
        weights = np.exp(log_weights - log_weights.max(axis=0, initial=-np.inf))
        return g, weights / weights.sum(axis=0)

    def _reach(self, nats):
        """Return how far below and above its maximum log p(g) has fallen by at least `nats`."""
        # With u = g - log_variance it falls by df / 2 (exp(-u) + u - 1).
        fall = 4.0 * nats / self.df
        return np.log1p(np.sqrt(fall) + fall), 1.0 + np.sqrt(fall) + 0.5 * fall


def log_noisy_density(y, mean, variance, noise):
    """Return log p(y) for y = f + noise, elementwise over arrays of one shape.

    f is Gaussian with this mean and variance. Where the variance of the noise is uncertain, the
    density is a mixture, with heavier tails than a Gaussian of the same variance. A mixture takes
    about a thousand logarithms.
    """
    with np.errstate(over="ignore"):
        squared_error = (y - mean) ** 2
        uncertain = np.broadcast_to(noise.is_uncertain(), squared_error.shape)
        result = _log_normal(squared_error, variance + noise.expected())
    squared_error = np.minimum(squared_error, LARGEST_SQUARE)
    noise = noise.at(uncertain)
    parts = [np.broadcast_to(part, result.shape)[uncertain] for part in (squared_error, variance)]
    blocks = [slice(k, k + DENSITY_ROWS) for k in range(0, len(parts[0]), DENSITY_ROWS)]
    if blocks:
        result[uncertain] = np.concatenate(
            [_log_mixture(*(part[rows] for part in parts), noise.at(rows)) for rows in blocks]
        )
    return result


def _log_normal(squared_error, variance):
    with np.errstate(over="ignore"):
        return -0.5 * (LOG_2PI + np.log(variance) + squared_error / variance)


def _log_mixture(squared_error, variance, noise):
    """Integrate over the log noise variance by the trapezoidal rule around the integrand's peak.

    For targets far from their mean the peak is narrow and lies where the noise explains them, far
    from where p(g) is large, so nodes around there would miss it. The interval of the nodes is
    narrowed `ZOOMS` times to where the integrand is not negligible.
    """
    low, high = noise.limits(np.log(np.maximum(squared_error, TINY)))
    steps = np.linspace(0.0, 1.0, DENSITY_NODES)

    def integrand():
        g = low[:, None] + (high - low)[:, None] * steps
        likelihood = _log_normal(squared_error[:, None], variance[:, None] + limited_exp(g))
        return likelihood + noise.log_density(g)

    for _ in range(ZOOMS):
        low, high, _ = narrowed(low, high, integrand().T)
    return logsumexp(integrand(), axis=1) + np.log((high - low) * steps[1])
