r"""Gaussian observation noise, known at each row or a function of the row.

A target y of weight :math:`\omega` with noise variance :math:`\lambda` is the site of precision
:math:`\omega / \lambda`, shift :math:`\omega y / \lambda` and log scale
:math:`-\frac \omega2 [\log 2 \pi \lambda + y^2 / \lambda]` (Passerello 2021, section 3.1). It does
not depend on f, so the bound needs no iteration.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.likelihoods.base import Likelihood, Sites
from sparsegpc._core.numerics.floats import LOG_2PI, TINY

# Largest log ratio of the mean square of the targets to the noise variance: beyond it rounding
# errors dominate the bound.
LARGEST_LOG_SIGNAL_TO_NOISE = 28.0


class KnownNoise(Likelihood):
    """Gaussian noise of known precision.

    An entry of ``y`` holds ``mean``, the mean of the copies of a row, weighted by their precisions;
    ``precision``, the sum of the precisions; and ``log_scale``, the log likelihood of the copies
    plus ``precision (mean - f)^2 / 2``. See `known_noise_targets`.
    """

    has_fixed_sites = True
    merges_unequal_targets = True

    def sites(self, state, y, weight):
        p, mean = y["precision"], y["mean"]
        return Sites(p, p * mean, y["log_scale"] - 0.5 * p * mean**2)

    def peaks(self, y, weight):
        return y["mean"], y["log_scale"]

    def constant_bound(self, y, weight, fit_prior_mean=True):
        return float(y["log_scale"].sum() - 0.5 * self.scaled_deviation(y, fit_prior_mean))

    @staticmethod
    def scaled_deviation(y, fit_prior_mean=True):
        """Return the sum of the squared deviations from a constant, in units of the noise."""
        p, mean = y["precision"], y["mean"]
        centre = p @ mean / p.sum() if fit_prior_mean else 0.0
        return float(p @ (mean - centre) ** 2)


class GaussianNoise(Likelihood):
    r"""Noise of log variance :math:`\phi_n^\top \nu`, parameters :math:`\nu`, basis :math:`\phi`.

    An entry of ``y`` holds ``mean``, the weighted mean of the copies of a row; ``scatter``, their
    weighted mean squared deviation from it; and ``basis`` (P,). See `noisy_targets`. The first
    basis function is the constant; alone it gives all rows the same variance. The coefficients of
    the others have a Gaussian prior, because few rows do not determine them.
    """

    has_fixed_sites = True
    merges_unequal_targets = True

    def __init__(self, n_params, params=None):
        self.n_params = n_params
        self._params = params
        # The prior variance of the log noise variance is 4 where all basis functions are one.
        self._prior_precision = (n_params - 1) / 4.0

    def at(self, params):
        return GaussianNoise(self.n_params, params)

    def log_prior(self):
        """Return the Gaussian log prior of all parameters except the first, and its gradient.

        Its maximum is zero, so the bound plus the log prior is a lower bound.
        """
        others = np.append(0.0, self._params[1:])
        slope = -self._prior_precision * others
        return 0.5 * float(slope @ others), slope

    def sites(self, state, y, weight):
        log_noise = self._log_noise(y)
        if self.n_params > 1:
            refuse_vanishing_noise(-log_noise, largest_log_precision(y, weight))
        p, mean = weight * np.exp(-log_noise), y["mean"]
        log_height = log_likelihood(weight, log_noise, p * y["scatter"])
        return Sites(p, p * mean, log_height - 0.5 * p * mean**2)

    def peaks(self, y, weight):
        log_noise = self._log_noise(y)
        square = weight * np.exp(-log_noise) * y["scatter"]
        return y["mean"], log_likelihood(weight, log_noise, square)

    def _log_noise(self, y):
        return y["basis"] @ self._params

    def params_gradient(self, y, weight, mean, variance):
        """Return the derivative of the bound w.r.t. the parameters, given the moments of f."""
        p = weight * np.exp(-self._log_noise(y))
        squared_error = (y["mean"] - mean[0]) ** 2 + y["scatter"] + variance[0]
        return 0.5 * (p * squared_error - weight) @ y["basis"]

    def constant_bound(self, y, weight, fit_prior_mean=True):
        """Return the log likelihood of the best constant f with the best constant noise."""
        return constant_bound(y["mean"], y["scatter"], weight, fit_prior_mean)

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the parameters of the best constant noise."""
        log_noise = constant_log_noise(y["mean"], y["scatter"], weight, fit_prior_mean)
        return np.append(log_noise, np.zeros(self.n_params))[: self.n_params]


def log_likelihood(weight, log_noise, square):
    """Return the log likelihood of targets with Gaussian noise, in nats, of the shape of `square`.

    `square` is the sum of the squared errors, each times its precision: at f = 0 the result is the
    log scale of a site, and at f = y the logarithm of its maximum.
    """
    return -0.5 * (weight * (LOG_2PI + log_noise) + square)


def largest_log_precision(y, weight):
    """Return the largest admissible log precision of a row, from the mean square of the targets.

    If the model has a prior mean, the caller has centred the targets.
    """
    moment = weight @ (y["mean"] ** 2 + y["scatter"]) / weight.sum()
    return LARGEST_LOG_SIGNAL_TO_NOISE - (float(np.log(moment)) if moment > 0.0 else 0.0)


def refuse_vanishing_noise(log_precision, limit):
    """Raise LinAlgError if the log precision of a row exceeds the limit.

    Noise that varies over the rows can vanish at one of them, where the bound has no maximum and
    rounding errors dominate it.
    """
    if not log_precision.max() <= limit:
        raise LinAlgError(f"the noise has a log precision of {log_precision.max():.3g} at a row")


def constant_log_noise(mean, scatter, weight, fit_prior_mean):
    """Return the logarithm of the best constant noise variance, in nats, for a constant f.

    ``mean`` (N,) and ``scatter`` (N,) are the mean of the copies of each row and their mean squared
    deviation from it, ``weight`` (N,) is the sum of their weights.
    """
    total = weight.sum()
    centre = weight @ mean / total if fit_prior_mean else 0.0
    return float(np.log(max(weight @ ((mean - centre) ** 2 + scatter) / total, TINY)))


def constant_bound(mean, scatter, weight, fit_prior_mean):
    """Return the log likelihood of the best constant f with the best constant noise."""
    log_noise = constant_log_noise(mean, scatter, weight, fit_prior_mean)
    return float(-0.5 * weight.sum() * (LOG_2PI + log_noise + 1.0))


def known_noise_targets(y, weight, noise_variance, rows):
    """Return the targets of `KnownNoise`, (N',), at `MergedRows`."""
    precision = weight / noise_variance
    total = rows.total(precision)
    mean = rows.total(precision * y) / total
    deviation = rows.total(precision * (y - rows.repeated(mean)) ** 2)
    log_scale = -0.5 * (rows.total(weight * (LOG_2PI + np.log(noise_variance))) + deviation)
    return records(mean=mean, precision=total, log_scale=log_scale)


def learned_noise_targets(y, weight, log_noise, precision, rows):
    """Return the targets of `KnownNoise` for a learned noise process that is held fixed.

    `log_noise` and `precision` (N',) are the expected log variance and the expected precision of
    the noise at each row of `rows`, which are `MergedRows`.
    """
    targets = noisy_targets(y, weight, np.empty((len(rows.weight), 0)), rows)
    total = rows.weight * precision
    log_scale = log_likelihood(rows.weight, log_noise, total * targets["scatter"])
    return records(mean=targets["mean"], precision=total, log_scale=log_scale)


def noisy_targets(y, weight, basis, rows):
    """Return the targets of `GaussianNoise`, (N',), at `MergedRows`.

    `basis` (N', P) holds the basis functions at each merged row.
    """
    mean, scatter = mean_and_scatter(y, weight, rows)
    return records(mean=mean, scatter=scatter, basis=basis)


def mean_and_scatter(y, weight, rows):
    """Return the mean of the copies of `MergedRows`, and their mean squared deviation, (N',)."""
    mean = rows.mean(y, weight)
    return mean, rows.mean((y - rows.repeated(mean)) ** 2, weight)


def limited_exp(log_variance):
    """Return exp(log_variance), from exp(-600) to exp(600): later products do not overflow."""
    return np.exp(np.clip(log_variance, -600.0, 600.0))


def records(**fields):
    """Return a structured array with these fields, arrays of shape (N,) or (N, P)."""
    dtype = [(name, np.float64, values.shape[1:]) for name, values in fields.items()]
    records = np.empty(len(fields["mean"]), dtype=dtype)
    for name, values in fields.items():
        records[name] = values
    return records
