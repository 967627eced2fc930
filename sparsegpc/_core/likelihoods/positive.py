r"""Likelihoods of positive numbers; those of durations take censored values.

The event d of a row is 1 if y was observed, 0 if it is only a lower limit, and -1 if it is only an
upper limit. A censored row contributes the probability of a longer or a shorter duration.
"""

from copy import copy

import numpy as np
from scipy.special import digamma, gammainc, gammaincc, gammaln, ndtr

from sparsegpc._core.likelihoods import censored
from sparsegpc._core.likelihoods.base import normal_log_prior
from sparsegpc._core.likelihoods.responses import (
    FREE_OF_NOISE,
    LARGEST_LOG_RATIO,
    Peak,
    ResponseLikelihood,
    finite_exp,
    log_power_over_factorial,
    tamed_exp,
)
from sparsegpc._core.numerics.floats import LOG_2PI

# What it means if a parameter is at its limit.
MUCH_NOISE = "targets vary by many orders of magnitude among rows that X does not tell apart"
# From this number on the asymptotic series of its digamma function has all digits.
_LARGE = 1e3


class _Positive(ResponseLikelihood):
    """Base class of likelihoods of positive numbers, with the logarithm of a shape as parameter."""

    n_params = 1
    remedy = (
        "leaving out rows of zero would bias the result: give durations of zero the smallest unit "
        "that was recorded; for amounts below a limit of detection give this limit as y and event "
        "-1, with the likelihood 'log-normal'; for other amounts, let a classifier tell whether "
        "there is one, and this model how large it is; for rates give the counts as y, and the "
        "sizes to which they refer as exposure"
    )
    at_limit = {"lower": MUCH_NOISE, "upper": FREE_OF_NOISE}
    _prior_mean, _prior_deviation = 1.0, 3.0

    def __init__(self, log_shape=None):
        self.log_shape = log_shape

    def at(self, params):
        likelihood = copy(self)
        likelihood.log_shape = float(params[0])
        return likelihood

    @property
    def shape(self):
        """The shape, None before it is learned."""
        return None if self.log_shape is None else float(np.exp(self.log_shape))

    def params_bounds(self, y, weight):
        # Beyond the upper limit the rounding errors of the value would grow.
        return np.array([[-6.0, 18.0]])

    def log_prior(self):
        value, slope = normal_log_prior(self.log_shape, self._prior_mean, self._prior_deviation)
        return value, np.array([slope])


class Gamma(_Positive):
    r"""The gamma likelihood of positive numbers, whose shape a is learned.

    A target y is the total over e units, the exposure of the row, which are independent given f:
    its shape is :math:`k = e a`, its mean :math:`\mu = e e^f` and its variance :math:`\mu^2 / k`:

    .. math:: \log p(y|f) = k \log k - \log\Gamma(k) - \log y + k \log(y / \mu) - k y / \mu.

    The parameter log a has a normal prior with mean 1 and deviation 3.

    Parameters
    ----------
    log_shape : float or None, default=None
        Logarithm of the shape a of a single unit; None before it is learned.
    """

    row_argument = "exposure"
    has_survival = True
    to_little_noise = np.log(100.0)

    def variance_coefficients(self, exposure):
        return 0.0, 1.0 / (self.shape * exposure)

    def params_names(self):
        return ["the shape of the gamma distribution"]

    def _shape_and_log_ratio(self, y, f):
        """Return the shapes of totals, (n,), and the logarithms of their ratios to their means."""
        return self.shape * y["exposure"], np.log(y["y"]) - np.log(y["exposure"]) - f

    def _expect_at(self, y, weight, mean, variance):
        shape, log_ratio = self._shape_and_log_ratio(y, mean)
        ratio, by_ratio = tamed_exp(log_ratio + 0.5 * variance, LARGEST_LOG_RATIO)
        value = self.saturated_log_density(y) + shape * (1.0 + log_ratio - ratio)
        precision = weight * shape * by_ratio
        return weight * value, precision - weight * shape, precision

    def params_gradient(self, y, weight, mean, variance):
        shape, log_ratio = self._shape_and_log_ratio(y, mean[0])
        ratio = tamed_exp(log_ratio + 0.5 * variance[0], LARGEST_LOG_RATIO)[0]
        slope = _log_minus_digamma(shape) + (1.0 + log_ratio - ratio)
        return np.array([weight @ (shape * slope)])

    def log_density(self, y, f):
        shape, log_ratio = self._shape_and_log_ratio(y, f)
        with np.errstate(over="ignore", divide="ignore"):
            lack = shape * (log_ratio - np.expm1(log_ratio))
            observed = self.saturated_log_density(y) + lack
            if (y["event"] == 1.0).all():
                return observed
            survival = gammaincc(shape, shape * np.exp(log_ratio))
            return np.where(y["event"] == 0.0, np.log(survival), observed)

    def cdf(self, y, f):
        shape, log_ratio = self._shape_and_log_ratio(y, f)
        with np.errstate(over="ignore"):
            return gammainc(shape, shape * np.exp(log_ratio))

    def sample(self, f, exposure, rng):
        return _scaled(f, rng.gamma(self.shape * exposure, size=f.shape) / self.shape)

    def peak(self, y):
        shape, place = self._shape_and_log_ratio(y, 0.0)
        return Peak(place, 1.0 / np.sqrt(shape))

    def saturated_log_density(self, y):
        # Where y is its mean: k^k e^-k / (Gamma(k) y), which is k k^k e^-k / (k! y).
        shape = self.shape * y["exposure"]
        return log_power_over_factorial(shape) + np.log(shape) - np.log(y["y"])


def _log_minus_digamma(x):
    """Return log x - digamma(x), to all digits."""
    inverse = 1.0 / np.maximum(x, _LARGE)
    series = inverse * (0.5 + inverse * (1.0 / 12.0 - inverse**2 / 120.0))
    return np.where(x < _LARGE, np.log(x) - digamma(x), series)


class Weibull(_Positive):
    r"""The Weibull likelihood of durations, whose shape k is learned.

    The survival function is :math:`P(Y > y | f) = \exp(-t)`, where :math:`t = (y e^{-f})^k` is the
    cumulative hazard. With the event d,

    .. math:: \log p(y|f) = d\,(\log k - \log y + k (\log y - f)) - t.

    For k = 1 the hazard is constant; for k > 1 it grows with time. The parameter log k has a normal
    prior with mean 1 and deviation 3.

    Parameters
    ----------
    log_shape : float or None, default=None
        Logarithm of the shape k; None before it is learned.
    """

    row_argument = "event"
    to_little_noise = np.log(10.0)

    def log_mean_factor(self):
        return gammaln(1.0 + 1.0 / self.shape)

    def variance_coefficients(self, exposure):
        return 0.0, np.expm1(gammaln(1.0 + 2.0 / self.shape) - 2.0 * self.log_mean_factor())

    def params_names(self):
        return ["the shape of the Weibull distribution"]

    def params_bounds(self, y, weight):
        return np.array([[-3.0, 9.0]])

    def _hazard(self, y, mean, variance):
        """Return E[t], with its growth limited, its derivative by E[log t] + Var / 2, and log t."""
        log_hazard = self.shape * (np.log(y["y"]) - mean)
        half_variance = 0.5 * self.shape**2 * variance
        return *tamed_exp(log_hazard + half_variance, LARGEST_LOG_RATIO), log_hazard

    def _expect_at(self, y, weight, mean, variance):
        hazard, by_log, log_hazard = self._hazard(y, mean, variance)
        value = y["event"] * (self.log_shape - np.log(y["y"]) + log_hazard) - hazard
        slope = weight * self.shape * (by_log - y["event"])
        return weight * value, slope, weight * self.shape**2 * by_log

    def params_gradient(self, y, weight, mean, variance):
        _, by_log, log_hazard = self._hazard(y, mean[0], variance[0])
        slope = y["event"] * (1.0 + log_hazard)
        slope -= by_log * (log_hazard + self.shape**2 * variance[0])
        return np.array([weight @ slope])

    def log_density(self, y, f):
        log_hazard = self.shape * (np.log(y["y"]) - f)
        with np.errstate(over="ignore"):
            hazard = np.exp(log_hazard)
        return y["event"] * (self.log_shape - np.log(y["y"]) + log_hazard) - hazard

    def cdf(self, y, f):
        with np.errstate(over="ignore"):
            return -np.expm1(-np.exp(self.shape * (np.log(y["y"]) - f)))

    def sample(self, f, exposure, rng):
        return _scaled(f, rng.weibull(self.shape, size=f.shape))

    def peak(self, y):
        place = np.log(y["y"]) - np.log(np.maximum(y["event"], 0.5)) / self.shape
        return Peak(place, np.full(len(y), 1.0 / self.shape))

    def saturated_log_density(self, y):
        return y["event"] * (self.log_shape - np.log(y["y"]) - 1.0)


class LogNormal(_Positive):
    r"""The log-normal likelihood of positive numbers or durations: log y is Gaussian with mean f.

    Its standard deviation :math:`\sigma` is learned. A row with a lower limit contributes
    :math:`\log\Phi((f - \log y) / \sigma)`, and one with an upper limit
    :math:`\log\Phi((\log y - f) / \sigma)`. The parameter :math:`\log\sigma` has a normal prior
    with mean 0 and deviation 3.

    Parameters
    ----------
    log_shape : float or None, default=None
        Logarithm of the deviation; None before it is learned.
    """

    row_argument = "event"
    takes_upper_limits = True
    at_limit = {"lower": FREE_OF_NOISE, "upper": MUCH_NOISE}
    to_little_noise = -np.log(10.0)
    _prior_mean = 0.0

    def log_mean_factor(self):
        return 0.5 * self.shape**2

    def variance_coefficients(self, exposure):
        return 0.0, np.expm1(self.shape**2)

    def params_names(self):
        return ["the deviation of the logarithms"]

    def params_bounds(self, y, weight):
        return np.array([[-12.0, 3.0]])

    @property
    def _log_noise(self):
        """The logarithm of the variance of log y."""
        return 2.0 * self.log_shape

    def _expect_at(self, y, weight, mean, variance):
        log_y = np.log(y["y"])
        value, slope, precision = censored.expected_log_density(
            log_y, y["event"], mean, variance, self._log_noise
        )
        return weight * (value - _log_jacobian(y, log_y)), weight * slope, weight * precision

    def params_gradient(self, y, weight, mean, variance):
        moments = np.log(y["y"]), y["event"], mean[0], variance[0]
        return np.array([2.0 * (weight @ censored.log_noise_slope(*moments, self._log_noise))])

    def log_density(self, y, f):
        log_y = np.log(y["y"])
        return censored.log_density(log_y, y["event"], f, self._log_noise) - _log_jacobian(y, log_y)

    def cdf(self, y, f):
        return ndtr((np.log(y["y"]) - f) / self.shape)

    def sample(self, f, exposure, rng):
        return finite_exp(f + self.shape * rng.standard_normal(f.shape))

    def peak(self, y):
        return Peak(np.log(y["y"]), np.full(len(y), self.shape))

    def saturated_log_density(self, y):
        observed = -np.log(y["y"]) - self.log_shape - 0.5 * LOG_2PI
        return np.where(y["event"] == 1.0, observed, 0.0)


def _log_jacobian(y, log_y):
    """Return what turns the log density of log y into that of y; probabilities need nothing."""
    return np.where(y["event"] == 1.0, log_y, 0.0)


def _scaled(f, factors):
    """Return exp(f) times `factors`, which are not negative, without overflow."""
    with np.errstate(divide="ignore"):
        return finite_exp(f + np.log(factors))
