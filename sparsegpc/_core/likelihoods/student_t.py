r"""The Student-t likelihood of numbers, for targets with outliers.

Its logarithm is a convex, decreasing function of the squared error :math:`(y - f)^2`, so it is the
maximum of Gaussian log densities over a precision of each row. With this precision as a further
unknown, whose best distribution is a gamma distribution, the contribution of a row to the bound is
(docs/theory.rst)

.. math:: E = \log\frac{\Gamma(\frac{\nu+1}2)}{\Gamma(\frac\nu2)\sqrt{\nu\pi}\,\sigma}
    - \frac{\nu+1}2 \log\Bigl(1 + \frac{(y - m)^2 + s}{\nu\sigma^2}\Bigr)

for f of mean m and variance s. It decreases in s, which :math:`E[\log p(y|f)]` does not for
outliers; so precisions are positive and all slacks hold.
"""

from copy import copy

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from sparsegpc._core.likelihoods.base import Likelihood, SiteState, normal_log_prior
from sparsegpc._core.numerics.medians import robust_deviation, weighted_median

# Normal prior of the logarithm of the degrees of freedom: from 0.6 to 33 within two deviations.
PRIOR_MEAN, PRIOR_DEVIATION = 1.5, 1.0
# Limits of the degrees of freedom. At 1000 the distribution is practically Gaussian.
DF_RANGE = (0.3, 1000.0)
# Start and limits of the scale, relative to the deviation of the targets from their median. From a
# large scale the search would take many outliers for noise.
START, LIMITS = 0.1, (1e-4, 3.0)
# The deviation counts as at least this fraction of the median. Targets with a smaller deviation are
# equal up to rounding, and sites as precise as that hardly converge.
LEAST_DEVIATION = 1e-9
# The first states have targets moved to within this many deviations of the median.
FARTHEST = 3.0


class StudentT(Likelihood):
    r"""The Student-t likelihood of numbers: y is scattered around f, with outliers.

    Its density has :math:`\nu` degrees of freedom and the scale :math:`\sigma`, both of which are
    learned. It enters the bound as a mixture of Gaussians of unequal variances. The logarithm of
    the degrees of freedom has a normal prior with mean 1.5 and deviation 1. The likelihood is not
    log-concave, so the bound may have several local maxima; the search starts from targets clipped
    to three deviations from the median.

    Parameters
    ----------
    df : float or None, default=None
        Degrees of freedom to keep, from 0.3 to 1000; None learns them.

    Attributes
    ----------
    df : float or None
        The degrees of freedom; None before they are learned.
    scale : float or None
        The scale, in units of y; None before it is learned.

    See Also
    --------
    StudentTNoise : The same noise for :class:`sparsegpc.SparseGPRegressor`, which predicts y.
    """

    n_params = 2
    to_little_noise = 0.0, -np.log(10.0)

    def __init__(self, df=None):
        self.df = self._given_df = df
        self.scale = None

    def at(self, params):
        other = copy(self)
        other.df, other.scale = map(float, np.exp(params))
        return other

    def targets(self, y, weight, rows):
        return [np.asarray(y, dtype=np.float64)[rows.first]]

    def _expect_at(self, y, weight, mean, variance):
        error, nu = y - mean, self.df
        square = error**2 + variance
        precision = weight * (nu + 1.0) / (self._width() + square)
        value = self._log_height() - 0.5 * (nu + 1.0) * np.log1p(square / self._width())
        return weight * value, precision * error, precision

    def _width(self):
        """Return nu sigma^2, the squared error from which on the density falls as a power of it."""
        return self.df * self.scale**2

    def _log_height(self):
        half = 0.5 * self.df
        log_ratio = gammaln(half + 0.5) - gammaln(half)
        return log_ratio - 0.5 * np.log(np.pi * self.df) - np.log(self.scale)

    def params_gradient(self, y, weight, mean, variance):
        nu, square = self.df, (y - mean[0]) ** 2 + variance[0]
        share = square / (self._width() + square)
        by_df = digamma(0.5 * (nu + 1.0)) - digamma(0.5 * nu) - 1.0 / nu
        by_df = 0.5 * nu * (by_df - np.log1p(square / self._width())) + 0.5 * (nu + 1.0) * share
        return np.array([weight @ by_df, weight @ ((nu + 1.0) * share - 1.0)])

    def log_prior(self):
        value, slope = normal_log_prior(np.log(self.df), PRIOR_MEAN, PRIOR_DEVIATION)
        return value, np.array([slope, 0.0])

    def params_names(self):
        return ["noise degrees of freedom", "noise scale"]

    def initial_params(self, y, weight):
        log_df = PRIOR_MEAN if self._given_df is None else np.log(self._given_df)
        return np.array([log_df, np.log(START * _centre_and_deviation(y, weight)[1])])

    def params_bounds(self, y, weight):
        limits = np.multiply(LIMITS, _centre_and_deviation(y, weight)[1])
        given = self._given_df
        return np.log([DF_RANGE if given is None else (given, given), limits])

    def initial_states(self, y, weight):
        centre, deviation = _centre_and_deviation(y, weight)
        precision = weight / deviation**2
        near = np.clip(y, centre - FARTHEST * deviation, centre + FARTHEST * deviation)
        return [SiteState(precision, precision * near)]

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the parameters that with the best constant f maximise the likelihood and prior.

        The maximum is that nearest to the median.
        """
        centre, deviation = _centre_and_deviation(y, weight)
        origin = centre if fit_prior_mean else 0.0

        def negative(x):
            constant = origin + deviation * x[2:]
            value, slope, by_params = self.at(x[:2])._constants_and_params(constant, y, weight)
            return -value, -np.append(by_params, deviation * slope)

        reach = [(-FARTHEST, FARTHEST) if fit_prior_mean else (0.0, 0.0)]
        bounds = [*self.params_bounds(y, weight), *reach]
        start = np.append(self.initial_params(y, weight), 0.0)
        return minimize(negative, start, jac=True, bounds=bounds).x[:2]

    def _best_constants(self, y, weight):
        """Return the maximum of the likelihood near the median, by means with changing weights."""
        constant, deviation = _centre_and_deviation(y, weight)
        for _ in range(200):
            precision = weight / (self._width() + (y - constant) ** 2)
            last, constant = constant, float(precision @ y / precision.sum())
            if abs(constant - last) <= 1e-9 * deviation:
                break
        return np.array([constant])


def _centre_and_deviation(y, weight):
    centre = weighted_median(y, weight)
    return centre, max(robust_deviation(y, weight, centre), LEAST_DEVIATION * abs(centre))
