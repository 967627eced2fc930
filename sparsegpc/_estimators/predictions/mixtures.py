"""Predictions averaged over draws of the hyperparameters: mixtures of posteriors of f.

An estimator predicts by a list of `Component`, usually a single one.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, log_ndtr, logsumexp, ndtr, ndtri

from sparsegpc._core.likelihoods.gaussian import limited_exp
from sparsegpc._core.numerics.floats import EPSILON, TINY

# Steps for a quantile: Newton's method usually takes four to ten.
MOST_NEWTON_STEPS = 60
# Values that represent a mixture in `quantiles_of_increasing`.
NODES_IN_ALL = 8000


class Component(NamedTuple):
    """A component of a mixture: its weight, and a model at one draw of the hyperparameters.

    ``posteriors`` is a list of `Posterior`. ``observation`` tells how y depends on f: a likelihood,
    a `LearnedNoise`, or None if the noise is not known.
    """

    weight: float
    posteriors: list
    observation: object = None


def mixture_moments(weights, means, variances):
    """Return mean and variance of mixtures, elementwise, from those of each component."""
    mean = sum(w * m for w, m in zip(weights, means, strict=True))
    parts = zip(weights, means, variances, strict=True)
    return mean, sum(w * (s + (m - mean) ** 2) for w, m, s in parts)


def positive_mixture_moments(weights, means, variances):
    """Return the `mixture_moments` of positive numbers, infinite where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variance = mixture_moments(weights, means, variances)
    return mean, np.where(np.isfinite(mean), variance, np.inf)


def mixture_covariance(parts):
    """Return mean (K, N) and covariance (K, N, N) of mixtures of K joint distributions.

    ``parts`` is an iterable of (weight, mean, covariance), so that not all of them need be in
    memory. The covariances are overwritten.
    """
    parts = iter(parts)
    total, mean, covariance = next(parts)
    covariance *= total
    for weight, other, its_covariance in parts:
        step, total = other - mean, total + weight
        mean = mean + (weight / total) * step
        its_covariance += (1.0 - weight / total) * step[:, :, None] * step[:, None, :]
        its_covariance *= weight
        covariance += its_covariance
    return mean, covariance


def mixture_log_density(weights, log_densities):
    """Return the log density of mixtures, elementwise, from those of each component."""
    if len(weights) == 1:
        return log_densities[0]
    log_weights = np.log(weights)
    return logsumexp([w + d for w, d in zip(log_weights, log_densities, strict=True)], axis=0)


def mixture_log_probabilities(weights, log_probabilities):
    """Return logarithms of averaged class probabilities, from a list of (N, C)."""
    log_proba = mixture_log_density(weights, log_probabilities)
    if len(weights) == 1 or log_proba.shape[1] > 2:
        return log_proba
    return normalized_pair(log_proba)


def normalized_pair(log_proba):
    """Return log probabilities of two classes, (N, 2), normalised.

    Unlike those of `log_softmax` they are accurate for a probability near one.
    """
    log_odds = log_proba[:, 1] - log_proba[:, 0]
    return log_expit(np.stack([-log_odds, log_odds], axis=1))


def mixture_quantiles(weights, means, variances, level):
    """Return the quantile of mixtures of J Gaussians, elementwise over arrays of one shape.

    `weights` has the shape (J,) or (J, ...), and `means` and `variances` hold J arrays. The
    quantile is between the least and the largest quantile of the components. Newton's method solves
    ``ndtri(cdf) = ndtri(level)``, where the left side would be linear for a single Gaussian.
    Bisection replaces steps out of the interval that is known to contain the quantile, and all
    steps after `MOST_NEWTON_STEPS`. The relative error of the tail probability is about 1e-12.
    """
    if level > 0.5:
        # The upper tail is the lower one of the mirrored mixture, which keeps its digits.
        return -mixture_quantiles(weights, [-mean for mean in means], variances, 1.0 - level)
    means, deviations = np.stack(means), np.sqrt(np.stack(variances))
    target = ndtri(level)
    ends = means + target * deviations
    if len(ends) == 1:
        return ends[0]
    weights = np.asarray(weights, dtype=np.float64)
    weights = weights.reshape(weights.shape + (1,) * (means.ndim - weights.ndim))
    # Distances from a centre keep the digits that values far from zero lose.
    centre = (weights * means).sum(axis=0)
    means, ends, deviations = means - centre, ends - centre, np.maximum(deviations, TINY)
    low, high = ends.min(axis=0), ends.max(axis=0)
    x = np.clip(target * np.exp((weights * np.log(deviations)).sum(axis=0)), low, high)
    with np.errstate(all="ignore"):
        for step in range(2 * MOST_NEWTON_STEPS):
            z = (x - means) / deviations
            cdf = (weights * ndtr(z)).sum(axis=0)
            is_below = cdf < level
            low, high = np.where(is_below, x, low), np.where(is_below, high, x)
            found = np.abs(cdf - level) <= 1e-12 * level
            found |= high - low <= 4.0 * EPSILON * np.maximum(np.abs(low), np.abs(high))
            if found.all():
                break
            probit = ndtri(cdf)
            density = (weights * np.exp(-0.5 * z**2) / deviations).sum(axis=0)
            newton = x + (target - probit) * np.exp(-0.5 * probit**2) / density
            is_inside = (newton > low) & (newton < high) & (step < MOST_NEWTON_STEPS)
            x = np.where(found, x, np.where(is_inside, newton, 0.5 * (low + high)))
    return centre + x


def quantiles_of_increasing(weights, means, variances, functions, level):
    """Return the quantile of increasing functions of mixtures of J Gaussians, shape (n,).

    `means` and `variances` hold arrays (n,), and `functions` one function of arrays (..., n) for
    each Gaussian. With a single one it is the function of a quantile. Otherwise each Gaussian is
    represented by values of equal probability, `NODES_IN_ALL` together.
    """
    if len(functions) == 1:
        return functions[0](means[0] + ndtri(level) * np.sqrt(variances[0]))
    weights = np.asarray(weights)
    counts = np.maximum(np.ceil(NODES_IN_ALL * weights), 1.0).astype(int)
    # The values of each Gaussian lie between those of the others, which may be nearly the same.
    shifts = (np.arange(len(weights)) + 0.5) / len(weights)
    values = []
    for k, function in enumerate(functions):
        z = ndtri((np.arange(counts[k]) + shifts[k]) / counts[k])[:, None]
        values.append(function(means[k] + z * np.sqrt(variances[k])))
    values = np.concatenate(values)
    order = np.argsort(values, axis=0)
    below = np.cumsum(np.repeat(weights / counts, counts)[order], axis=0)
    first = np.minimum((below < level).sum(axis=0), len(values) - 1)
    return np.take_along_axis(values, np.take_along_axis(order, first[None], axis=0), axis=0)[0]


def mixture_exceedance(weights, means, variances, threshold):
    """Return the probability that mixtures of J Gaussians exceed a threshold, elementwise.

    The weights, means and variances have the shape (J, ...).
    """
    z = (means - threshold) / np.maximum(np.sqrt(variances), TINY)
    # Rounding must not raise a probability above one.
    return np.minimum((weights * ndtr(z)).sum(axis=0), 1.0)


def mixture_log_tail(weights, means, variances, threshold, is_upper):
    """Return the log probability that mixtures exceed a threshold or, elsewhere, fall below it.

    `is_upper` tells for each element which of the two. Other arguments are as in
    `mixture_exceedance`.
    """
    z = (means - threshold) / np.maximum(np.sqrt(variances), TINY)
    return logsumexp(log_ndtr(np.where(is_upper, z, -z)), axis=0, b=weights)


def gaussians_at(rows, weights, parts):
    """Return weights, means and variances of the J Gaussians whose mixture y is at some rows.

    All are of shape (J, n_outputs, n_rows), with a Gaussian for each node of the distributions of
    the noise variance. `rows` is an index of arrays (n_outputs, N); `parts` holds for each
    component the mean and the variance of f, such arrays, and the distribution of the noise
    variance; `weights` holds the weights of the components.
    """
    found = []
    for weight, (mean, variance, noise) in zip(weights, parts, strict=True):
        log_noise, of_nodes = noise.at(rows).nodes()
        total = variance[rows] + limited_exp(log_noise)
        found.append(np.broadcast_arrays(weight * of_nodes, mean[rows], total))
    return tuple(map(np.concatenate, zip(*found, strict=True)))


def mixture_samples(components, n_samples, rng, sample):
    """Return draws from a mixture, shape (K, n_samples, N); each is from a random component.

    ``sample(component, n)`` returns n draws from one component, shape (K, n, N).
    """
    if len(components) == 1:
        return sample(components[0], n_samples)
    weights = [component.weight for component in components]
    which = rng.choice(len(components), size=n_samples, p=weights)
    samples = None
    for k in np.unique(which):
        drawn = sample(components[k], int((which == k).sum()))
        if samples is None:
            samples = np.empty((len(drawn), n_samples, drawn.shape[2]))
        samples[:, which == k] = drawn
    return samples
