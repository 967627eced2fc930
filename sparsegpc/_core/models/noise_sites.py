r"""Solve for the sites of Gaussian noise whose log variance is a sparse Gaussian process.

The model is :math:`y_n \sim N(f_n, e^{g_n})`, with the approximate posterior q(f) q(g).
Let :math:`m^g_n, s^g_n` be the mean and the variance of :math:`g_n` under q(g), and
:math:`\omega_n` the weights. Then f has Gaussian sites of precision
:math:`p_n = \omega_n E[e^{-g_n}] = \omega_n \exp(-m^g_n + s^g_n/2)` and shift :math:`p_n y_n`. Its
q(u) and slack are those of regression. For g the expected log likelihood of a row is, up to a
constant,

.. math:: -\tfrac12 \omega_n m^g_n - p^g_n, \qquad p^g_n = \tfrac12 p_n E[(y_n - f_n)^2],

and a natural-gradient step of length one gives sites of precision :math:`p^g_n` and shift
:math:`p^g_n - \tfrac12 \omega_n + p^g_n m^g_n`. The bound is the collapsed bound of f less
KL(q(g) || p(g)). At its maximum the derivatives w.r.t. the parameters of either kernel are those at
fixed sites.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import (
    FLAT,
    FunctionPosterior,
    collapse,
    divergence,
    inducing_moments,
    marginals,
)
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.likelihoods.gaussian import (
    largest_log_precision,
    limited_exp,
    log_likelihood,
    refuse_vanishing_noise,
)
from sparsegpc._core.models.sites import ROUNDING
from sparsegpc._core.optimisers.ascent import ascend

# A step of the sites of g that lowers the bound is halved until it is shorter than SHORTEST_STEP.
# The step after it is at most STEP_GROWTH times as long.
SHORTEST_STEP, STEP_GROWTH = 1.0 / 64.0, 2.0


class NoiseState(NamedTuple):
    """Precision and shift of the sites of g, and precision of the sites of f, shape (N,) each."""

    precision: np.ndarray
    shift: np.ndarray
    f_precision: np.ndarray


class NoisySolution(NamedTuple):
    """The result of `solve_noise`: q(u) of f and of g, and the sites of both.

    ``bound`` and ``log_prior``, that of the prior mean of g, are in nats.
    """

    state: NoiseState
    sites: Sites
    posterior: FunctionPosterior
    noise_posterior: FunctionPosterior
    bound: float
    log_prior: float
    n_iter: int
    converged: bool


def expected_precision(mean, variance):
    """Return E[exp(-g)] from the mean and the variance of g, shape (N,)."""
    return limited_exp(-mean + 0.5 * variance)


class NoiseIterate(NamedTuple):
    """The solution at given sites of g, and its ``target``: the next precision and shift of g."""

    solution: NoisySolution
    target: tuple

    next_gain = None

    @property
    def bound(self):
        """What the ascent maximises: the bound plus the log prior."""
        return self.solution.bound + self.solution.log_prior

    def towards_target(self, length):
        """Return the precision and shift at the fraction `length` of the way to the target."""
        pairs = zip(self.solution.state[:2], self.target, strict=True)
        return tuple((1.0 - length) * old + length * new for old, new in pairs)


class _BoundOfNoiseSites:
    """The bound as a function of the sites of g."""

    def __init__(self, features, noise_features, y, weight, slack, prior_mean, noise_prior):
        self._features, self._noise_features = features, noise_features
        self._y, self._weight = y, weight
        self._slack, self._prior_mean, self._noise_prior = slack, prior_mean, noise_prior
        self._limit = largest_log_precision(y, weight)

    def evaluate(self, precision, shift):
        """Return the `NoiseIterate` at sites of g with this precision and shift."""
        noise_sites = Sites(precision, shift, np.zeros(len(self._weight)))
        noise_posterior = collapse(
            self._noise_features, noise_sites, STANDARD, mean_prior=self._noise_prior
        )
        mean, variance = self._noise_features.rows(
            lambda V, residual: marginals(V, residual, noise_posterior),
            self._noise_features.residual,
        )
        sites = self._sites_of_f(mean, variance)
        posterior = collapse(self._features, sites, self._slack, self._prior_mean)
        bound = posterior.bound - divergence(noise_posterior)
        log_prior = self._noise_prior.log_density(noise_posterior.prior_mean)
        state = NoiseState(precision, shift, sites.precision)
        posteriors = posterior, noise_posterior
        solution = NoisySolution(state, sites, *posteriors, bound, log_prior, 0, False)
        target = self._target_precision(sites.precision, posterior)
        return NoiseIterate(solution, (target, target * (1.0 + mean) - 0.5 * self._weight))

    def _sites_of_f(self, mean, variance):
        """Return the `Sites` of f for a mean and a variance of g."""
        exponent = -mean + 0.5 * variance
        refuse_vanishing_noise(exponent, self._limit)
        y, p = self._y, self._weight * np.exp(exponent)
        log_scale = log_likelihood(self._weight, mean, p * (y["mean"] ** 2 + y["scatter"]))
        return Sites(p, p * y["mean"], log_scale)

    def _target_precision(self, precision, posterior):
        """Return the next precisions of the sites of g, given q(f), shape (N,)."""
        # `block` must not refer to self, or all features would be sent to the workers with it.
        slack = self._slack

        def block(V, residual, p, y_mean, scatter):
            f_mean, inducing_variance = inducing_moments(V, posterior)
            v = slack.scale(p * residual, posterior.mean_ratio)
            return (
                0.5 * p * ((y_mean - f_mean) ** 2 + scatter + inducing_variance + v * residual),
            )

        inputs = self._features.residual, precision, self._y["mean"], self._y["scatter"]
        return self._features.rows(block, *inputs)[0]


def solve_noise(
    features,
    noise_features,
    y,
    weight,
    slack,
    state,
    *,
    prior_mean=None,
    noise_prior=FLAT,
    tol,
    max_iter,
):
    """Maximise the bound over q(f) and q(g), and return the `NoisySolution`.

    `features` are those of f and `noise_features` those of g. `y` has the fields ``mean`` and
    ``scatter``; see `GaussianNoise`. `slack` is that of f; that of g is the standard one, as its
    points leave little variance (docs/theory.rst). The ascent starts at a `NoiseState`, and stops
    when a step gains less than `tol` nats or after `max_iter` passes. A `prior_mean` of None learns
    that of f; that of g is always learned, with the `MeanPrior` `noise_prior`.

    Raises `LinAlgError` if the bound cannot be computed at the start, or the noise variance there
    is nearly zero. Cost about 2 N (M^2 + M_g^2) per pass.
    """
    bound = _BoundOfNoiseSites(features, noise_features, y, weight, slack, prior_mean, noise_prior)
    found = ascend(
        lambda sites, best: bound.evaluate(*sites),
        bound.evaluate(state.precision, state.shift),
        tol=tol,
        max_iter=max_iter,
        shortest=SHORTEST_STEP,
        rounding=ROUNDING * float(weight.sum()),
        growth=STEP_GROWTH,
    )
    return found.best.solution._replace(n_iter=found.n_iter, converged=found.converged)
