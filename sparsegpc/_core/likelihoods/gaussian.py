r"""Gaussian observation noise, known at each row or a function of the row.

A target y of weight w with noise variance :math:`\lambda` is the site of precision
:math:`w / \lambda` and shift :math:`w y / \lambda` with the log scale
:math:`-\frac w2 [\log 2 \pi \lambda + y^2 / \lambda]` (Passerello 2021, section 3.1). It does not
depend on f, so nothing has to be solved for.
"""

import numpy as np
from numpy.linalg import LinAlgError
from scipy.special import logsumexp

from sparsegpc._core.likelihoods.base import CONDITIONALLY_GAUSSIAN, Likelihood, Sites

LOG_2PI = np.log(2.0 * np.pi)
TINY = np.finfo(np.float64).tiny
# Noise this much smaller than the mean square of the targets, in logarithms, is none.
LARGEST_LOG_RATIO = 28.0
# Rows of a block in the quadrature over the noise: temporaries of 2 MB.
_DENSITY_ROWS = 1024


class KnownNoise(Likelihood):
    """Targets of known precision.

    An entry of ``y`` holds the ``mean`` of the copies of a row, weighted by their precisions, the
    sum of these as the ``precision``, and ``log_scale``, the log likelihood of the copies less
    ``-precision (mean - f)^2 / 2``. See `known_noise_targets`.
    """

    slacks = CONDITIONALLY_GAUSSIAN
    has_fixed_sites = True

    def sites(self, state, y, weight):
        p, mean = y["precision"], y["mean"]
        return Sites(p, p * mean, y["log_scale"] - 0.5 * p * mean**2)

    def constant_bound(self, y, weight, fit_prior_mean=True):
        p, mean = y["precision"], y["mean"]
        centre = p @ mean / p.sum() if fit_prior_mean else 0.0
        return float(y["log_scale"].sum() - 0.5 * p @ (mean - centre) ** 2)


class GaussianNoise(Likelihood):
    r"""Noise of log variance :math:`\phi_n^\top a` with parameters a and a basis :math:`\phi`.

    An entry of ``y`` holds the ``mean`` of the copies of a row, their mean squared deviation from
    it, ``scatter``, both by their weights, and ``basis`` (K,). See `noisy_targets`. The variance is
    positive whatever a is; with the constant as its only basis it is the same for all rows. The
    other coefficients have a Gaussian prior: few rows could not tell them apart.

    Parameters
    ----------
    n_params : int
        Number K of parameters.
    params : ndarray of shape (K,) or None
    """

    slacks = CONDITIONALLY_GAUSSIAN
    has_fixed_sites = True

    def __init__(self, n_params, params=None):
        self.n_params = n_params
        self._params = params
        # The log variance has prior variance 4 where all basis functions are one.
        self._prior_precision = (n_params - 1) / 4.0

    def at(self, params):
        return GaussianNoise(self.n_params, params)

    def log_prior(self):
        """Return the logarithm of a Gaussian prior of all parameters but the first, and its slope.

        It is zero at its peak, so a bound with it added is a bound still.
        """
        others = np.append(0.0, self._params[1:])
        slope = -self._prior_precision * others
        return 0.5 * float(slope @ others), slope

    def sites(self, state, y, weight):
        log_noise = y["basis"] @ self._params
        if self.n_params > 1:
            refuse_no_noise(-log_noise, largest_log_precision(y, weight))
        p = weight * np.exp(-log_noise)
        log_scale = -0.5 * weight * (LOG_2PI + log_noise)
        return Sites(p, p * y["mean"], log_scale - 0.5 * p * (y["mean"] ** 2 + y["scatter"]))

    def params_gradient(self, y, weight, mean, variance):
        """Return the derivative of the bound w.r.t. the parameters, given the moments of f."""
        p = weight * np.exp(-(y["basis"] @ self._params))
        squared_error = (y["mean"] - mean[0]) ** 2 + y["scatter"] + variance[0]
        return 0.5 * (p * squared_error - weight) @ y["basis"]

    def constant_bound(self, y, weight, fit_prior_mean=True):
        """The best constant f with the best constant noise."""
        return constant_bound(y["mean"], y["scatter"], weight, fit_prior_mean)

    def constant_params(self, y, weight, fit_prior_mean=True):
        """Return the parameters of that noise."""
        log_noise = constant_log_noise(y["mean"], y["scatter"], weight, fit_prior_mean)
        return np.append(log_noise, np.zeros(self.n_params))[: self.n_params]


def largest_log_precision(y, weight):
    """Return the largest log precision, in nats, that a row may have beside targets of this size.

    The targets have been centred, if they are to be.
    """
    moment = weight @ (y["mean"] ** 2 + y["scatter"]) / weight.sum()
    return LARGEST_LOG_RATIO - (float(np.log(moment)) if moment > 0.0 else 0.0)


def refuse_no_noise(log_precision, limit):
    """Raise LinAlgError if noise that varies is next to none somewhere, where it would have no end.

    The bound would be lost in rounding there, too.
    """
    if not log_precision.max() <= limit:
        raise LinAlgError(f"the noise has a log precision of {log_precision.max():.3g} at a row")


def constant_log_noise(mean, scatter, weight, fit_prior_mean):
    """Return the logarithm of the best noise variance beside a constant f.

    ``mean`` (N,) and ``scatter`` are of the copies of each row, which ``weight`` counts.
    """
    total = weight.sum()
    centre = weight @ mean / total if fit_prior_mean else 0.0
    return float(np.log(max(weight @ ((mean - centre) ** 2 + scatter) / total, TINY)))


def constant_bound(mean, scatter, weight, fit_prior_mean):
    """Return the log likelihood of the best constant f with the best constant noise."""
    log_noise = constant_log_noise(mean, scatter, weight, fit_prior_mean)
    return float(-0.5 * weight.sum() * (LOG_2PI + log_noise + 1.0))


def known_noise_targets(y, weight, noise_variance, rows):
    """Return the targets of `KnownNoise`, shape (N',), from `UniqueRows` and values per copy.

    Parameters
    ----------
    y, weight, noise_variance : ndarray of shape (N,)
    rows : UniqueRows
    """
    precision = weight / noise_variance
    total = rows.total(precision)
    mean = rows.total(precision * y) / total
    deviation = rows.total(precision * (y - rows.spread(mean)) ** 2)
    log_scale = -0.5 * (rows.total(weight * (LOG_2PI + np.log(noise_variance))) + deviation)
    return _records(mean=mean, precision=total, log_scale=log_scale)


def learned_noise_targets(y, weight, log_noise, precision, rows):
    """Return the targets of `KnownNoise` for a noise process that is learned and kept.

    Parameters
    ----------
    y, weight : ndarray of shape (N,)
    log_noise, precision : ndarray of shape (N',)
        Expected log variance and expected precision of the noise, one for each merged row.
    rows : UniqueRows
    """
    targets = noisy_targets(y, weight, np.empty((len(rows.weight), 0)), rows)
    total = rows.weight * precision
    log_scale = -0.5 * (rows.weight * (LOG_2PI + log_noise) + total * targets["scatter"])
    return _records(mean=targets["mean"], precision=total, log_scale=log_scale)


def noisy_targets(y, weight, basis, rows):
    """Return the targets of `GaussianNoise`, shape (N',), from `UniqueRows` and values per copy.

    Parameters
    ----------
    y, weight : ndarray of shape (N,)
    basis : ndarray of shape (N', K)
        One row for each merged row.
    rows : UniqueRows
    """
    mean = rows.mean(y, weight)
    scatter = rows.mean((y - rows.spread(mean)) ** 2, weight)
    return _records(mean=mean, scatter=scatter, basis=basis)


def log_predictive_density(y, mean, variance, noise_mean, noise_variance):
    """Return log p(y) for y = f + noise, elementwise over arrays of one shape.

    Parameters
    ----------
    y : ndarray
    mean, variance : ndarray
        Of f, Gaussian.
    noise_mean, noise_variance : ndarray
        Of the log noise variance, Gaussian. Where it is uncertain the density is a mixture, with
        heavier tails than a Gaussian of the same variance.

    Notes
    -----
    A mixture costs about a thousand logarithms.
    """
    with np.errstate(over="ignore"):
        squared_error = (y - mean) ** 2
    result = _log_normal(squared_error, variance + limited_exp(noise_mean))
    uncertain = noise_variance > 0.0
    parts = [squared_error, variance, noise_mean, np.sqrt(noise_variance)]
    parts = [np.broadcast_to(part, result.shape)[uncertain] for part in parts]
    blocks = range(0, len(parts[0]), _DENSITY_ROWS)
    if blocks:
        result[uncertain] = np.concatenate(
            [_log_mixture(*(part[k : k + _DENSITY_ROWS] for part in parts)) for k in blocks]
        )
    return result


def limited_exp(log_variance, largest=600.0):
    """Return variances from their logarithms, large ones limited to what can be calculated with."""
    return np.exp(np.minimum(log_variance, largest))


def _log_normal(squared_error, variance):
    with np.errstate(over="ignore"):
        return -0.5 * (LOG_2PI + np.log(variance) + squared_error / variance)


def _log_mixture(squared_error, variance, noise_mean, noise_deviation, n_nodes=200, n_zooms=3):
    """Integrate over the log noise variance by the trapezoidal rule where the integrand lives.

    Far targets pull it away from the mean, up to where the noise explains them, and make it
    narrow: a fixed rule around the mean would miss it. So the interval of the `n_nodes` nodes is
    narrowed `n_zooms` times to where the integrand is within 45 nats of its peak.
    """
    spread = 9.0 * noise_deviation
    low = noise_mean - 0.5 * noise_deviation**2 - spread
    high = np.maximum(noise_mean, np.log(np.maximum(squared_error, TINY))) + spread
    steps = np.linspace(0.0, 1.0, n_nodes)

    def integrand():
        g = low[:, None] + (high - low)[:, None] * steps
        standard = (g - noise_mean[:, None]) / noise_deviation[:, None]
        likelihood = _log_normal(squared_error[:, None], variance[:, None] + limited_exp(g))
        return likelihood - 0.5 * (standard**2 + LOG_2PI) - np.log(noise_deviation)[:, None]

    for _ in range(n_zooms):
        values = integrand()
        counts = values > values.max(axis=1, keepdims=True) - 45.0
        first = np.maximum(counts.argmax(axis=1) - 1, 0)
        last = np.minimum(n_nodes - counts[:, ::-1].argmax(axis=1), n_nodes - 1)
        low, high = low + (high - low) * steps[first], low + (high - low) * steps[last]
    return logsumexp(integrand(), axis=1) + np.log((high - low) * steps[1])


def _records(**fields):
    dtype = [(name, np.float64, values.shape[1:]) for name, values in fields.items()]
    records = np.empty(len(fields["mean"]), dtype=dtype)
    for name, values in fields.items():
        records[name] = values
    return records
