r"""Likelihoods of two classes: one function f, the classes y = +1 and y = -1.

The label of merged rows is the weighted mean of their labels, in [-1, 1].
"""

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, xlogy

from sparsegpc._core.likelihoods.base import (
    Expectation,
    LabelLikelihood,
    SiteState,
    polya_gamma_mean,
)
from sparsegpc._core.likelihoods.binary_probabilities import log_expected_sigmoid
from sparsegpc._core.likelihoods.expectations import (
    expected_log_cosh,
    expected_log_normal_cdf,
    expected_log_sigmoid,
)

# Steps to the best scale of the residual of `ConditionalPolyaGamma`.
CLOSED_STEPS, SECANT_STEPS = 10, 4


class _BinaryLikelihood(LabelLikelihood):
    """Base class of the likelihoods of two classes."""

    merges_unequal_targets = True

    def targets(self, codes, weight, rows):
        return [rows.mean(2.0 * codes - 1.0, weight)]

    def initial_states(self, y, weight):
        # The sites of the logistic likelihood around f = 0.
        return [SiteState(0.25 * weight, 0.5 * weight * y)]

    def constant_bound(self, y, weight, fit_prior_mean=True):
        total = float(weight.sum())
        if not fit_prior_mean:
            return -np.log(2.0) * total
        counts = np.array([weight @ (1.0 + y), weight @ (1.0 - y)]) / 2.0
        return float(xlogy(counts, counts / total).sum())

    def log_probabilities(self, mean, variance):
        positive, negative = self._log_probability(mean[0], variance[0])
        return np.stack([negative, positive], axis=-1)

    def _log_probability(self, mean, variance):
        return log_expected_sigmoid(mean, variance), log_expected_sigmoid(-mean, variance)

    def probabilities(self, f):
        return np.stack([self._link(-f[0]), self._link(f[0])], axis=-1)

    _link = staticmethod(expit)


class BernoulliLogit(_BinaryLikelihood):
    r"""The logistic likelihood :math:`p(y|f) = \sigma(y f)`, with expectations by quadrature.

    References
    ----------
    Hensman, Matthews, Ghahramani 2015, equation 15.
    """

    def _expect_at(self, y, weight, mean, variance):
        # The label of most copies becomes +1, so that exchanging the labels gives the same bound.
        sign = np.where(y < 0.0, -1.0, 1.0)
        mean = sign * mean
        value, slope, curvature = expected_log_sigmoid(mean, variance)
        # log sigma(-f) = log sigma(f) - f.
        minority = 0.5 * (1.0 - np.abs(y))
        value = value - minority * mean
        return weight * value, weight * sign * (slope - minority), weight * curvature


class BernoulliProbit(_BinaryLikelihood):
    r"""The probit likelihood :math:`p(y|f) = \Phi(y f)`, with expectations by quadrature.

    References
    ----------
    Hensman, Matthews, Ghahramani 2015, equation 15.
    """

    def _expect_at(self, y, weight, mean, variance):
        value, slope, precision = np.zeros((3, len(mean)))
        for sign in (1.0, -1.0):
            share = 0.5 * weight * (1.0 + sign * y)
            rows = np.flatnonzero(share)
            share = share[rows]
            parts = expected_log_normal_cdf(sign * mean[rows], variance[rows])
            value[rows] += share * parts[0]
            slope[rows] += sign * share * parts[1]
            precision[rows] += share * parts[2]
        return value, slope, precision

    def _log_probability(self, mean, variance):
        z = mean / np.sqrt(1.0 + variance)
        return log_ndtr(z), log_ndtr(-z)

    _link = staticmethod(ndtr)


class PolyaGammaLogit(_BinaryLikelihood):
    r"""The logistic likelihood bounded by Polya-Gamma augmentation.

    Given a Polya-Gamma variable with the prior :math:`PG(\omega, 0)` for each row, of weight
    :math:`\omega`, the likelihood is Gaussian in f. The optimal density of the variable is
    :math:`PG(\omega, c)`, and

    .. math::
        \omega \log \sigma(y f) \ge \tfrac12 \omega y f - \tfrac12 \omega \theta(c) (f^2 - c^2)
        - \omega \log(2 \cosh(c / 2)), \qquad \theta(c) = \frac{\tanh(c/2)}{2c}.

    The optimal squared tilt is :math:`c^2 = m^2 + s + v r`, at which the row contributes
    :math:`\omega (\tfrac12 y m - \log(2\cosh(c/2)))` to the bound.

    References
    ----------
    Polson, Scott, Windle 2013, theorem 1; Passerello 2021, section 4.1 (there with unit weights).
    """

    def _expect_at(self, y, weight, mean, variance):
        tilt = np.sqrt(np.maximum(mean**2 + variance, 1e-16))
        precision = weight * polya_gamma_mean(tilt)
        value = 0.5 * y * mean - 0.5 * tilt - np.log1p(np.exp(-tilt))
        return weight * value, 0.5 * weight * y - precision * mean, precision


class ConditionalPolyaGamma(_BinaryLikelihood):
    r"""The logistic likelihood bounded by Polya-Gamma augmentation given the inducing values.

    Let :math:`\hat f = E[f | u]`, which is Gaussian under q(u) with mean m. Given u the Polya-Gamma
    variable of a row has the density :math:`PG(\omega, c(u))` with
    :math:`c(u)^2 = \hat f^2 + v r`. A row of weight :math:`\omega` and residual r contributes

    .. math::
        \omega (\tfrac12 y m - E[\log(2\cosh(c / 2))]) + \tfrac12 p v r
        - \tfrac12 \log(1 + p r), \qquad p = \omega E[\theta(c)],

    for every v >= 0; the best is v = 1 / (1 + p r). The bound is at least the tight Polya-Gamma
    bound, whose tilt does not depend on u. With an inducing point at every row it equals the bound
    of `BernoulliLogit`.
    """

    slacks = ("tight",)
    has_own_slack = True

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        mean, variance = mean[0], inducing_variance[0]
        scaled = residual * _best_scale(weight, mean, variance, residual)
        parts = expected_log_cosh(mean, variance, scaled)
        p = weight * parts[1]
        value = weight * (0.5 * y * mean - parts[0]) + 0.5 * p * scaled
        return Expectation(
            value - 0.5 * np.log1p(p * residual),
            (weight * (0.5 * y - parts[2]))[None],
            (weight * parts[3])[None],
            (p / (1.0 + p * residual))[None],
        )


def _best_scale(weight, mean, variance, residual):
    """Return the best v = 1 / (1 + p(v) r), by the secant method in log v.

    The precision p depends on v. Where the residual is large, fixed-point steps at best halve the
    error. After `CLOSED_STEPS` fixed-point steps with p in closed form and `SECANT_STEPS` secant
    steps with the expectation the relative error is below 1e-8.
    """

    def step(log_v):
        theta = expected_log_cosh(mean, variance, residual * np.exp(log_v)).theta
        return -np.log1p(weight * theta * residual) - log_v

    log_v = -np.log1p(0.25 * weight * residual)
    second = mean**2 + variance
    for _ in range(CLOSED_STEPS):
        c = np.sqrt(second + residual * np.exp(log_v) + 1e-16)
        log_v = -np.log1p(weight * polya_gamma_mean(c) * residual)
    old, old_step = log_v, step(log_v)
    log_v = old + old_step
    for _ in range(SECANT_STEPS - 1):
        new_step = step(log_v)
        change = old_step - new_step
        # The best length is between 1 and 4, as the slope of the fixed-point map is in (0, 3/4).
        length = np.divide(log_v - old, change, out=np.ones_like(change), where=change != 0.0)
        old, old_step = log_v, new_step
        log_v = log_v + np.clip(length, 0.5, 4.0) * new_step
    return np.exp(log_v)
