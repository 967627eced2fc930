r"""Gaussian noise around f where some targets are only limits: the Tobit model.

The event of a row is 1 if y was observed, 0 if it is only a lower limit of the number (the row is
right-censored), and -1 if it is only an upper limit (left-censored). A censored row contributes the
probability of a number above or below y:

.. math:: \log p(y|f) = -\tfrac12 \bigl[\log 2\pi\lambda + (y - f)^2 / \lambda\bigr], \quad
    \log\Phi\bigl((f - y) / \sqrt\lambda\bigr), \quad \log\Phi\bigl((y - f) / \sqrt\lambda\bigr)

for the variance :math:`\lambda` of the noise. All three are concave in f. The variance is the
same at all rows, or known at each row, or the sum of the two.
"""

from copy import copy
from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from sparsegpc._core.likelihoods.base import Likelihood
from sparsegpc._core.likelihoods.constants import best_constant_between
from sparsegpc._core.likelihoods.expectations import expected_log_normal_cdf
from sparsegpc._core.numerics.floats import LOG_2PI

# Beyond so many deviations of the noise a limit says nothing.
WIDTHS = 40.0
# Limits of the logarithm of the variance about a constant, relative to that with limits taken for
# numbers. If few targets were observed, the likelihood may have no maximum.
SPREADS = (-3.0, 10.0)
# The lower limit if the known variance may suffice.
NO_EXCESS = -18.0


TARGET = np.dtype([("y", float), ("event", float), ("known", float)])


class CensoredGaussian(Likelihood):
    """Gaussian noise, where some targets are only limits.

    An entry of ``y`` is one of `censored_targets`. The variance of its noise is what is known of
    it, plus the exponential of ``log_noise`` if there is a variance to be learned.
    """

    def __init__(self, log_noise=None, learns_noise=True):
        self.log_noise, self.learns_noise = log_noise, learns_noise
        self.n_params = int(learns_noise)

    def at(self, params):
        if not self.learns_noise:
            return self
        other = copy(self)
        other.log_noise = float(params[0])
        return other

    def targets(self, y, weight, rows):
        return [y[rows.first]]

    def initial_params(self, y, weight):
        return self.constant_params(y, weight)

    def _log_noise(self, y):
        """Return the log variance of the noise of each target, (n,)."""
        return np.log(y["known"] + (np.exp(self.log_noise) if self.learns_noise else 0.0))

    def _expect_at(self, y, weight, mean, variance):
        parts = expected_log_density(y["y"], y["event"], mean, variance, self._log_noise(y))
        return tuple(weight * part for part in parts)

    def params_gradient(self, y, weight, mean, variance):
        if not self.learns_noise:
            return np.zeros(0)
        log_noise = self._log_noise(y)
        slope = log_noise_slope(y["y"], y["event"], mean[0], variance[0], log_noise)
        return np.array([weight @ (slope * np.exp(self.log_noise - log_noise))])

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the log variance that with the best constant f maximises the likelihood."""
        if not self.learns_noise:
            return np.zeros(0)
        return np.log([best_constant(y, weight, fit_prior_mean)[1]])

    def _best_constants(self, y, weight):
        # In a part of the rows, all of them limits, the slope may have one sign.
        reach = WIDTHS * np.exp(0.5 * self._log_noise(y).max())
        expect = partial(self._expect_constants, y=y, weight=weight)
        return best_constant_between(expect, y["y"].min() - reach, y["y"].max() + reach)


def censored_targets(y, event, known=0.0):
    """Return the targets of `CensoredGaussian`, (N,), with the noise variance that is known."""
    records = np.empty(len(y), dtype=TARGET)
    records["y"], records["event"], records["known"] = y, event, known
    return records


def expected_log_density(y, event, mean, variance, log_noise):
    """Return E[log p(y | f)], its slope in the mean, and minus twice that in the variance.

    They are those of `CensoredGaussian`, for targets, events and moments of f of shape (n,), and
    log variances of the noise, (n,) or a number.
    """
    deviation = np.exp(0.5 * log_noise)
    z, z_variance = (mean - y) / deviation, variance / deviation**2
    value = -0.5 * (LOG_2PI + log_noise + z**2 + z_variance)
    slope, precision = -z, np.ones(len(z))
    is_censored = event != 1.0
    side = _side(event[is_censored])
    tail = expected_log_normal_cdf(side * z[is_censored], z_variance[is_censored])
    value[is_censored], slope[is_censored], precision[is_censored] = tail
    slope[is_censored] *= side
    return value, slope / deviation, precision / deviation**2


def log_noise_slope(y, event, mean, variance, log_noise):
    """Return the derivative of `expected_log_density` with respect to its log variance, (n,)."""
    deviation = np.exp(0.5 * log_noise)
    z, z_variance = (mean - y) / deviation, variance / deviation**2
    slope = 0.5 * (z**2 + z_variance - 1.0)
    is_censored = event != 1.0
    z, z_variance = _side(event[is_censored]) * z[is_censored], z_variance[is_censored]
    _, by_mean, curvature = expected_log_normal_cdf(z, z_variance)
    # By Stein's lemma E[z g'(z)] = E[z] E[g'] + Var[z] E[g''].
    slope[is_censored] = 0.5 * (z_variance * curvature - z * by_mean)
    return slope


def log_density(y, event, f, log_noise):
    """Return log p(y | f) for targets and events (n,), at f of shape (..., n)."""
    z = (f - y) / np.exp(0.5 * log_noise)
    observed = -0.5 * (LOG_2PI + log_noise + z**2)
    return np.where(event == 1.0, observed, log_ndtr(_side(event) * z))


def _side(event):
    """Return on which side of censored targets the numbers may be: 1 above, -1 below, (n,)."""
    return np.where(event < 0.0, -1.0, 1.0)


def best_constant(y, weight, fit_prior_mean=True):
    """Return the constant f, and the variance of the noise, that maximise the likelihood.

    `y` are `censored_targets`; what is known of the variance is not included in the result. Without
    `fit_prior_mean` the constant is zero.
    """
    numbers = _informative_numbers(y["y"], y["event"])
    centre = weight @ numbers / weight.sum() if fit_prior_mean else 0.0
    unit = np.sqrt(weight @ (numbers - centre) ** 2 / weight.sum()) or 1.0

    def negative(x):
        likelihood = CensoredGaussian(x[0] + 2.0 * np.log(unit))
        constant = np.array([centre + unit * x[1]])
        value, slope, by_log_noise = likelihood._constants_and_params(constant, y, weight)
        return -value, -np.append(by_log_noise, unit * slope)

    reach = WIDTHS if fit_prior_mean else 0.0
    smallest, largest = SPREADS
    spreads = (NO_EXCESS if y["known"].any() else smallest), largest
    found = minimize(negative, np.zeros(2), jac=True, bounds=[spreads, (-reach, reach)]).x
    return centre + unit * found[1], unit**2 * np.exp(found[0])


def _informative_numbers(y, event):
    """Return targets (N,) for the size and the spread of numbers, of which some are limits.

    A lower limit below all observed targets says nothing, so it is raised to the least of these,
    and likewise an upper limit above all of them.
    """
    observed = y[event == 1.0]
    if not len(observed):
        return y
    raised = np.where(event == 0.0, np.maximum(y, observed.min()), y)
    return np.where(event == -1.0, np.minimum(raised, observed.max()), raised)
