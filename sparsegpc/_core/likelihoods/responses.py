r"""The base class of likelihoods of numbers with a logarithmic link: counts, sizes, durations.

The mean of y is proportional to exp(f), and its variance given f is a quadratic polynomial of the
mean. A subclass adds the density, the distribution function and the expectations of one
distribution.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, xlogy

from sparsegpc._core.likelihoods.base import Likelihood
from sparsegpc._core.likelihoods.constants import LARGEST_CONSTANT, best_constant_between

OBSERVATION = np.dtype([("y", float), ("exposure", float), ("event", float)])
# Beyond this logarithm of a ratio of mean to target, exp continues as a quadratic polynomial.
LARGEST_LOG_RATIO = 30.0
# What it means if there is as little noise as is allowed, in messages.
FREE_OF_NOISE = "the targets look free of noise"
# Logarithm of the largest number that is drawn or returned as a quantile.
LARGEST_LOG = 700.0
# From this number on Stirling's series of its factorial has all digits.
_LARGE = 32.0


class Peak(NamedTuple):
    """Where the density of a target is largest as a function of f, and its width there, (n,)."""

    place: np.ndarray
    width: np.ndarray


def observations(y, exposure=None, event=None):
    """Return an array of `OBSERVATION` of shape (N,); exposures and events are 1 by default.

    An array of `OBSERVATION` is returned as it is.
    """
    y = np.asarray(y)
    if y.dtype.names:
        return y
    records = np.empty(len(y), dtype=OBSERVATION)
    records["y"] = y
    records["exposure"] = 1.0 if exposure is None else exposure
    records["event"] = 1.0 if event is None else event
    return records


class ResponseLikelihood(Likelihood):
    r"""Base class of likelihoods of numbers with a logarithmic link.

    The conditional moments of a target are

    .. math:: E[y | f] = c e \exp(f), \quad \mathrm{Var}[y | f] = a E[y | f] + b E[y | f]^2,

    where e is the exposure of the row, 1 unless the user gives it; b may depend on it. A subclass
    defines `expect`, the methods without a default below and, if it has parameters, those of
    `Likelihood` for parameters.

    Attributes
    ----------
    row_argument : {"exposure", "event"} or None
        The additional number per row that the likelihood takes: its exposure, or whether the event
        was observed (1) or the target is only a lower limit of the duration (0).
    takes_upper_limits : bool
        Whether events can also be -1, where the target is only an upper limit: a row contributes
        the probability of a smaller number.
    is_discrete : bool
        Whether targets are whole numbers.
    has_survival : bool
        Whether `log_density` takes events of 0, and returns the log probability of a number larger
        than the target there. By default if the `row_argument` is "event".
    rule, remedy : str
        What `accepts` requires, and advice for other targets, in messages.
    at_limit : dict of str
        What it means if a parameter is at its "lower" or "upper" limit, in messages.

    See Also
    --------
    Likelihood : Base class of all likelihoods.

    Notes
    -----
    Targets are structured arrays with the fields "y", "exposure" and "event". Only rows that agree
    in X and in all three are merged.
    """

    row_argument = None
    takes_upper_limits = False
    is_discrete = False
    rule = "positive numbers"
    remedy = "leave these rows out"
    at_limit = {}

    def targets(self, y, weight, rows):
        return [observations(y)[rows.first]]

    def accepts(self, y):
        """Return whether each number can be a target, shape (N,)."""
        return y > 0.0

    @property
    def has_survival(self):
        return self.row_argument == "event"

    # Moments of a target

    def log_mean_factor(self):
        """Return log c, the logarithm of E[y] at f = 0 and exposure 1."""
        return 0.0

    def variance_coefficients(self, exposure):
        """Return (a, b), where Var[y | f] is a E[y | f] + b E[y | f]^2 at exposures (n,).

        They are numbers, or arrays of shape (n,).
        """
        raise self._lacks("variance_coefficients")

    def mean_and_variance(self, mean, variance, exposure=1.0):
        """Return mean and variance of targets, from the moments of f and exposures, shape (n,).

        They are infinite where they overflow.
        """
        linear, quadratic = self.variance_coefficients(exposure)
        log_mean = self.log_mean_factor() + mean + np.log(exposure) + 0.5 * variance
        # Logarithms, since an infinite factor must not meet one of zero.
        with np.errstate(over="ignore", divide="ignore"):
            log_ratio = variance + np.log(quadratic - np.expm1(-variance))
            y_mean = np.exp(log_mean)
            return y_mean, np.exp(np.log(linear) + log_mean) + np.exp(2.0 * log_mean + log_ratio)

    # The distribution given f

    def log_density(self, y, f):
        """Return log p(y | f), in nats, for targets (n,) and f of shape (..., n)."""
        raise self._lacks("log_density")

    def cdf(self, y, f):
        """Return P(Y <= y | f) of targets (n,), without their events, at f of shape (..., n).

        For counts it is a smooth increasing function of real y >= -1.
        """
        raise self._lacks("cdf")

    def sample(self, f, exposure, rng):
        """Return draws of y given f, shape (..., n), and exposures (n,)."""
        raise self._lacks("sample")

    def peak(self, y):
        """Return the `Peak` of log p(y | f) as a function of f, for targets (n,).

        If it has no maximum, a place where p is about half its supremum.
        """
        raise self._lacks("peak")

    def saturated_log_density(self, y):
        """Return the supremum of log p(y | f) over f, for targets (n,)."""
        return self.log_density(y, self.peak(y).place)

    # Constant functions

    def initial_params(self, y, weight):
        return self.constant_params(y, weight)

    def params_start(self):
        """Return parameters from which the search for `constant_params` starts, shape (P,)."""
        return np.zeros(self.n_params)

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the parameters that maximise the density of the data for a constant f."""
        if not self.n_params:
            return np.empty(0)
        bounds = self.params_bounds(y, weight)
        # Away from finite limits, since an optimiser that starts at one may stay there.
        width = bounds[:, 1] - bounds[:, 0]
        margin = np.where(np.isfinite(width), 1e-3 * width, 0.0)
        bounds = np.stack([bounds[:, 0] + margin, bounds[:, 1] - margin], axis=1)

        def negative(point):
            found = self.at(point[1:])._constants_and_params(point[:1], y, weight)
            return -found[0], -np.concatenate(found[1:])

        first, limits = 0.0, (0.0, 0.0)
        if fit_prior_mean:
            first, limits = self.at(self.params_start())._constant_start(y, weight)
        begin = np.append(first, self.params_start())
        return minimize(negative, begin, jac=True, bounds=[limits, *bounds]).x[1:]

    def _constant_start(self, y, weight):
        """Return the constant f whose mean is that of the targets, and limits of the best one."""
        places = self.peak(y).place
        limits = places.min() - LARGEST_CONSTANT, places.max() + LARGEST_CONSTANT
        # Half a count in place of none.
        total = weight @ y["y"] or 0.5 * weight.min()
        start = np.log(total / (weight @ y["exposure"])) - self.log_mean_factor()
        return float(np.clip(start, *limits)), limits

    def _best_constants(self, y, weight):
        expect = partial(self._expect_constants, y=y, weight=weight)
        return best_constant_between(expect, *self._constant_start(y, weight)[1])


def finite_exp(x):
    """Return exp(x), or exp(`LARGEST_LOG`) if that is smaller: its product with zero is zero."""
    return np.exp(np.minimum(x, LARGEST_LOG))


def log_power_over_factorial(x):
    """Return log(x^x e^-x / x!), where x! is Gamma(x + 1), of numbers x >= 0, to all digits."""
    # At large x the two logarithms nearly cancel; what is left is Stirling's series.
    large, small = np.maximum(x, _LARGE), np.minimum(x, _LARGE)
    series = -1.0 / (12.0 * large) + 1.0 / (360.0 * large**3) - 1.0 / (1260.0 * large**5)
    return np.where(
        x < _LARGE,
        xlogy(small, small) - small - gammaln(small + 1.0),
        series - 0.5 * np.log(2.0 * np.pi * large),
    )


def tamed_exp(x, limit):
    """Return exp(x) and its derivative, continued above `limit` by the second-order expansion.

    The continuation is convex, increasing and twice continuously differentiable, so that a search
    that strays to absurd values encounters neither overflow nor a flat function.
    """
    excess = np.maximum(x - limit, 0.0)
    value = np.exp(np.minimum(x, limit))
    return value * (1.0 + excess + 0.5 * excess**2), value * (1.0 + excess)
