"""The likelihoods of two classes as textbooks have them: nothing here is code of the package.

A row has a label y in [-1, 1], a weight, and a latent f with mean m. Its variance is the sum of the
one that comes from q(u), s, and of the residual k times a scale v. All are arrays of shape (n,)
or numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr

from sparsegpc._core.likelihoods import binary
from sparsegpc._core.likelihoods.base import Likelihood


def gaussian_mean(function, mean, variance):
    """Return E[function(z)] of Gaussian z by a trapezoid rule with steps of at most 0.25 in z.

    No function here has a singularity within 2.8 of the real line: it errs by exp(-70).
    """
    deviation = np.sqrt(variance)
    step = min(0.25, 0.25 / np.max(deviation, initial=1e-300))
    t = step * np.arange(-round(10.0 / step), round(10.0 / step) + 1)[:, None]
    density = np.exp(-0.5 * t**2)
    return (function(mean + deviation * t) * density).sum(axis=0) / density.sum()


def log_2_cosh_half(c):
    return np.logaddexp(0.5 * c, -0.5 * c)


def polya_gamma_mean(c):
    """The mean of a PG(1, c) variable, tanh(c / 2) / (2 c)."""
    c = np.maximum(c, 1e-12)
    return np.tanh(0.5 * c) / (2.0 * c)


def conditional_precision(r, weight, mean, inducing_variance):
    return weight * gaussian_mean(
        lambda z: polya_gamma_mean(np.sqrt(z**2 + r)), mean, inducing_variance
    )


def conditional_value_at(r, y, weight, mean, inducing_variance, residual):
    """What a row contributes to the conditional Polya-Gamma bound at any r >= 0."""
    p = conditional_precision(r, weight, mean, inducing_variance)
    cost = weight * gaussian_mean(
        lambda z: log_2_cosh_half(np.sqrt(z**2 + r)), mean, inducing_variance
    )
    return 0.5 * weight * y * mean - cost + 0.5 * r * p - 0.5 * np.log(1.0 + p * residual)


def conditional_v(weight, mean, inducing_variance, residual, n_steps=60):
    """Return v = r / k at the root of r = k / (1 + p(r) k), by bisection of log v."""
    p = conditional_precision(0.0, weight, mean, inducing_variance)
    # p falls as r grows.
    low, high = -np.log(1.0 + p * residual), np.zeros_like(p)
    for _ in range(n_steps):
        middle = 0.5 * (low + high)
        p = conditional_precision(np.exp(middle) * residual, weight, mean, inducing_variance)
        beyond = middle + np.log(1.0 + p * residual) > 0.0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.exp(0.5 * (low + high))


def _expectation(log_likelihood):
    def value(y, weight, mean, inducing_variance, residual, v):
        variance = inducing_variance + v * residual
        return weight * gaussian_mean(lambda f: log_likelihood(f, y), mean, variance)

    return value


def _polya_gamma(y, weight, mean, inducing_variance, residual, v):
    tilt = np.sqrt(mean**2 + inducing_variance + v * residual)
    return weight * (0.5 * y * mean - log_2_cosh_half(tilt))


def _conditional(y, weight, mean, inducing_variance, residual, v):
    return conditional_value_at(v * residual, y, weight, mean, inducing_variance, residual)


def logit(f, y):
    """The weighted mean of the log likelihoods of both labels."""
    return 0.5 * (1.0 + y) * log_expit(f) + 0.5 * (1.0 - y) * log_expit(-f)


def probit(f, y):
    return 0.5 * (1.0 + y) * log_ndtr(f) + 0.5 * (1.0 - y) * log_ndtr(-f)


class BinaryCase(NamedTuple):
    """A likelihood, and what a row of it contributes to the bound.

    ``value(y, weight, mean, inducing_variance, residual, v)`` is that at any scale v. With
    `has_own_slack` it holds what the residual costs as well, else ``(v - log v - 1) / 2`` is to be
    subtracted from it.
    """

    likelihood: object
    log_likelihood: Callable
    value: Callable
    slacks: tuple
    has_own_slack: bool = False

    @property
    def name(self):
        return type(self.likelihood).__name__

    def expected_value(self, y, weight, mean, inducing_variance, residual, v):
        """The value that `expect` should return: a likelihood with a slack finds v by itself."""
        if self.has_own_slack:
            v = conditional_v(weight, mean, inducing_variance, residual)
        return self.value(y, weight, mean, inducing_variance, residual, v)


POLYA_GAMMA = BinaryCase(binary.PolyaGammaLogit(), logit, _polya_gamma, Likelihood.slacks)
CONDITIONAL = BinaryCase(binary.ConditionalPolyaGamma(), logit, _conditional, ("tight",), True)
LOGIT = BinaryCase(binary.BernoulliLogit(), logit, _expectation(logit), Likelihood.slacks)
PROBIT = BinaryCase(binary.BernoulliProbit(), probit, _expectation(probit), Likelihood.slacks)
CASES = [POLYA_GAMMA, CONDITIONAL, LOGIT, PROBIT]
LIKELIHOODS = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
PAIRS = [(case, slack) for case in CASES for slack in case.slacks]
BOUNDS = pytest.mark.parametrize(
    ("case", "slack"), PAIRS, ids=[f"{case.name}-{slack}" for case, slack in PAIRS]
)
