r"""Likelihoods of counts: the rate is :math:`\lambda = e e^f`, where e is the row's exposure."""

from copy import copy

import numpy as np
from scipy.special import (
    betainc,
    betaln,
    digamma,
    expit,
    gammainc,
    gammaincc,
    log_expit,
    xlogy,
)

from sparsegpc._core.likelihoods.base import normal_log_prior
from sparsegpc._core.likelihoods.expectations import expected_log_sigmoid
from sparsegpc._core.likelihoods.responses import (
    LARGEST_LOG_RATIO,
    Peak,
    ResponseLikelihood,
    finite_exp,
    log_power_over_factorial,
    tamed_exp,
)

# Above this rate counts vary by less than 1e-7 of it, and numpy draws none above 1e18.
LARGEST_RATE = 1e15
# Normal prior of the logarithm of the size of the negative binomial distribution.
PRIOR_MEAN, PRIOR_DEVIATION = 2.0, 3.0
# Above this count a gamma distribution takes the place of the negative binomial one.
_HUGE_COUNT = 1e10


class _Counts(ResponseLikelihood):
    """Base class of likelihoods of counts."""

    row_argument = "exposure"
    is_discrete = True
    # With zeros alone, the prior mean would go to minus infinity, and rates to zero.
    mean_deviation = 3.0
    rule = "counts: whole numbers from 0"
    remedy = (
        "give counts and not rates, and the sizes to which they refer as exposure; for positive "
        "numbers that are not whole choose the likelihood 'gamma'"
    )

    def accepts(self, y):
        return (y >= 0.0) & (y == np.floor(y))

    def _log_rate(self, y, f):
        return f + np.log(y["exposure"])

    def sample(self, f, exposure, rng):
        with np.errstate(over="ignore"):
            rate = exposure * finite_exp(f) * self._draw_factors(f.shape, rng)
        drawn = rng.poisson(np.minimum(rate, LARGEST_RATE)).astype(float)
        return np.where(rate > LARGEST_RATE, np.rint(rate), drawn)

    def _draw_factors(self, shape, rng):
        """Return draws of the factors of the rates, of mean one."""
        return 1.0


class Poisson(_Counts):
    r"""The Poisson likelihood of counts, :math:`p(y|f) = \lambda^y e^{-\lambda} / y!`.

    References
    ----------
    Titsias 2025, section 3.3.
    """

    def variance_coefficients(self, exposure):
        return 1.0, 0.0

    def _scaled(self, y, f):
        """Return the count, or 1/2 if it is zero, and the logarithm of the rate relative to it."""
        scale = np.maximum(y["y"], 0.5)
        return scale, self._log_rate(y, f) - np.log(scale)

    def _expect_at(self, y, weight, mean, variance):
        scale, log_ratio = self._scaled(y, mean)
        ratio, by_ratio = tamed_exp(log_ratio + 0.5 * variance, LARGEST_LOG_RATIO)
        value = self.saturated_log_density(y) + y["y"] * (1.0 + log_ratio) - scale * ratio
        precision = weight * scale * by_ratio
        return weight * value, weight * y["y"] - precision, precision

    def log_density(self, y, f):
        scale, log_ratio = self._scaled(y, f)
        with np.errstate(over="ignore"):
            change = y["y"] * log_ratio - scale * np.expm1(log_ratio)
        return self.saturated_log_density(y) + change + (y["y"] - scale)

    def cdf(self, y, f):
        with np.errstate(over="ignore"):
            return gammaincc(y["y"] + 1.0, np.exp(self._log_rate(y, f)))

    def peak(self, y):
        rate = np.maximum(y["y"], 0.5)
        return Peak(np.log(rate / y["exposure"]), 1.0 / np.sqrt(rate))

    def saturated_log_density(self, y):
        return log_power_over_factorial(y["y"])


class NegativeBinomial(_Counts):
    r"""The negative binomial likelihood of counts, whose size k is learned.

    The mean is :math:`\lambda` and the variance :math:`\lambda + \lambda^2 / k`: counts vary more
    than those of a Poisson distribution, which is the limit of large k. With
    :math:`g = \log \lambda - \log k`,

    .. math:: \log p(y|f) = \log\Gamma(y + k) - \log\Gamma(k) - \log y! + y g
        - (y + k) \log(1 + e^g),

    so the expectations are those of the logarithm of the logistic function. The parameter log k has
    a normal prior with mean 2 and deviation 3.

    Parameters
    ----------
    log_size : float or None, default=None
        Logarithm of the size k; None before it is learned.
    """

    n_params = 1
    at_limit = {
        "lower": "counts vary by many orders of magnitude among rows that X does not tell apart",
        "upper": "counts vary as those of a Poisson distribution",
    }
    to_little_noise = np.log(100.0)

    def __init__(self, log_size=None):
        self.log_size = log_size

    def at(self, params):
        likelihood = copy(self)
        likelihood.log_size = float(params[0])
        return likelihood

    @property
    def size(self):
        """The size k, None before it is learned."""
        return None if self.log_size is None else float(np.exp(self.log_size))

    def variance_coefficients(self, exposure):
        return 1.0, 1.0 / self.size

    def _expected(self, y, mean, variance):
        """Return E[log sigma(g)], E[log sigma(-g)], E[d log p / df] and E[sigma(g) sigma(-g)].

        sigma is the logistic function. Without differences of large numbers where counts are large.
        """
        g = self._log_rate(y, mean) - self.log_size
        value, smaller, curvature = expected_log_sigmoid(np.abs(g), variance)
        larger, is_positive = 1.0 - smaller, g > 0.0
        slope = y["y"] * np.where(is_positive, smaller, larger)
        slope -= self.size * np.where(is_positive, larger, smaller)
        return value + np.minimum(g, 0.0), value - np.maximum(g, 0.0), slope, curvature

    def _log_coefficient(self, count):
        """Return log Gamma(y + k) - log Gamma(k) - log y!."""
        return -betaln(self.size, count + 1.0) - np.log(self.size + count)

    def _expect_at(self, y, weight, mean, variance):
        log_more, log_none, slope, curvature = self._expected(y, mean, variance)
        value = self._log_coefficient(y["y"]) + y["y"] * log_more + self.size * log_none
        return weight * value, weight * slope, weight * (y["y"] + self.size) * curvature

    def params_gradient(self, y, weight, mean, variance):
        _, log_none, slope, _ = self._expected(y, mean[0], variance[0])
        by_size = digamma(y["y"] + self.size) - digamma(self.size) + log_none
        return np.array([weight @ (self.size * by_size - slope)])

    def params_start(self):
        return np.array([1.0])

    def params_bounds(self, y, weight):
        return np.array([[-8.0, 12.0]])

    def params_names(self):
        return ["the size of the negative binomial distribution"]

    def log_prior(self):
        value, slope = normal_log_prior(self.log_size, PRIOR_MEAN, PRIOR_DEVIATION)
        return value, np.array([slope])

    def log_density(self, y, f):
        g = self._log_rate(y, f) - self.log_size
        return self._log_coefficient(y["y"]) + y["y"] * log_expit(g) + self.size * log_expit(-g)

    def cdf(self, y, f):
        log_rate, count = self._log_rate(y, f), np.minimum(y["y"], _HUGE_COUNT)
        probability = betainc(self.size, count + 1.0, expit(self.log_size - log_rate))
        # Larger counts have nearly a gamma distribution, here that of the same mean and variance;
        # older versions of scipy lose digits there, and return nan.
        shape = 1.0 / (1.0 / self.size + finite_exp(-log_rate))
        log_ratio = np.log(shape) + np.log(np.maximum(y["y"], _HUGE_COUNT)) - log_rate
        return np.where(y["y"] > _HUGE_COUNT, gammainc(shape, finite_exp(log_ratio)), probability)

    def _draw_factors(self, shape, rng):
        return rng.gamma(self.size, size=shape) / self.size

    def peak(self, y):
        rate = np.maximum(y["y"], 0.5)
        return Peak(np.log(rate / y["exposure"]), np.sqrt(1.0 / rate + 1.0 / self.size))

    def saturated_log_density(self, y):
        count, size = y["y"], self.size
        log_share = xlogy(count, count / (count + size)) + size * np.log(size / (count + size))
        return self._log_coefficient(count) + log_share
