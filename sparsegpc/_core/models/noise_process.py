r"""Gaussian noise whose log variance is itself a sparse Gaussian process.

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
    gradient,
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
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.models.model import (
    MAX_FINAL_ITERATIONS,
    SEVERAL_TOL_SHARE,
    SparseModel,
    posterior_of,
)
from sparsegpc._core.models.sites import ROUNDING
from sparsegpc._core.optimisers.ascent import ascend
from sparsegpc._core.selection.selectors import PivotedSelector

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


class HeteroscedasticModel(SparseModel):
    """A `SparseModel` with a noise process for each output.

    All noise processes share one noise kernel and one set of inducing points, which differ from
    those of f. The vector `theta` holds the parameters of the kernel of f, then those of the noise
    kernel.

    It takes the arguments of `SparseModel`, whose likelihood must have no parameters and is used
    only for the bound of a constant function, and these: at most `n_noise_points` points of the
    noise processes are chosen by greedy variance, until the residual of g costs at most `noise_tol`
    nats per row; `log_noise` holds the initial log noise variance of each output, and
    `noise_priors` the `MeanPrior` of each log noise variance, by default a flat one.
    """

    unsolved = (
        f"the noise did not converge in {MAX_FINAL_ITERATIONS} passes: if the targets are exact, "
        "give them a fixed small noise, else divide large weights by a common factor"
    )

    def __init__(
        self,
        kernel,
        likelihood,
        X,
        targets,
        weight,
        *,
        noise_kernel,
        n_noise_points,
        noise_tol,
        log_noise,
        noise_priors=None,
        **options,
    ):
        super().__init__(kernel, likelihood, X, targets, weight, **options)
        self.noise_priors = noise_priors or [FLAT] * len(self.targets)
        self.noise_kernel = noise_kernel
        self.noise_selector = PivotedSelector("argmax", n_noise_points, noise_tol)
        self._log_noise = log_noise

    def _noise_log_prior(self, evaluation):
        return sum(solution.log_prior for solution in evaluation.solutions)

    def noise_theta(self, theta):
        """Return the parameters of the noise kernel."""
        return theta[self.kernel.n_params :]

    def with_noise_points(self, points, theta):
        if points.Z_noise is not None:
            return points
        # At the optimum the sites of g have a mean precision of one half.
        noise_theta, precision = self.noise_theta(theta), 0.5 * self.weight
        chosen = self.noise_selector(self.noise_kernel, noise_theta, self.candidates, precision)
        return points._replace(Z_noise=chosen.Z)

    def constant_theta(self, theta, bounds):
        rows, n_params = self.some_rows(), self.kernel.n_params
        kernel_theta = self.kernel.least_variance(theta[:n_params], bounds[:n_params], rows)
        noise_theta = self.noise_kernel.least_variance(theta[n_params:], bounds[n_params:], rows)
        return np.concatenate([kernel_theta, noise_theta])

    def initial_state(self):
        half = 0.5 * self.weight
        return tuple(
            NoiseState(half, half * g, self.weight * expected_precision(np.asarray(g), 0.0))
            for g in self._log_noise
        )

    def precision(self, theta, states):
        return sum(state.f_precision for state in states)

    def site_tol(self, expected=0.0):
        return SEVERAL_TOL_SHARE * self.tol

    def _evaluated(self, theta, points, states, options, wrt_theta, wrt_Z):
        """See `SparseModel._evaluated`.

        Cost 2 N (M^2 + M_g^2) for each pass of each output, and N (5 M^2 + 4 M_g^2) for the
        gradient.
        """
        features, noise_features = self._both_features(theta, points)
        solutions = tuple(
            solve_noise(
                features,
                noise_features,
                y,
                self.weight,
                self.slack,
                state,
                noise_prior=noise_prior,
                **options,
            )
            for y, state, noise_prior in zip(self.targets, states, self.noise_priors, strict=True)
        )
        grad_theta = grad_Z = None
        if wrt_theta:
            grad_theta, grad_Z = self._noisy_gradient(features, noise_features, solutions, wrt_Z)
        return Evaluation(
            theta,
            points,
            solutions,
            posterior=posterior_of(features, [found.posterior for found in solutions]),
            # Bounds of any rows take their noise from it, and they are those at the prior mean.
            noise=posterior_of(
                noise_features, [found.noise_posterior.at_prior_mean() for found in solutions]
            ),
            jitter=max(features.jitter, noise_features.jitter),
            grad_theta=grad_theta,
            grad_Z=grad_Z,
            log_prior=sum(found.log_prior for found in solutions),
        )

    def _both_features(self, theta, points):
        """Return the `RowFeatures` of f and of g.

        Both are used in turns, so they share the memory in proportion to the sizes of their arrays.
        """
        size = (1.0 + self.kernel.n_arrays) * len(points.Z)
        noise_size = (1.0 + self.noise_kernel.n_arrays) * len(points.Z_noise)
        share = size / (size + noise_size)
        kernel_theta = self.kernel_theta(theta)
        features = self.row_features(self.kernel, kernel_theta, points.Z, share=share)
        noise_features = self.row_features(
            self.noise_kernel, self.noise_theta(theta), points.Z_noise, share=1.0 - share
        )
        return features, noise_features

    def _noisy_gradient(self, features, noise_features, solutions, wrt_Z):
        """Return the gradients w.r.t. theta, shape (P,), and w.r.t. Z (None unless `wrt_Z`)."""
        outputs = [(solution.sites, solution.posterior, None) for solution in solutions]
        by_f = gradient(features, outputs, self.slack, wrt_Z=wrt_Z)
        noise_outputs = [
            (Sites(*solution.state[:2], None), solution.noise_posterior, None)
            for solution in solutions
        ]
        by_noise = gradient(noise_features, noise_outputs, STANDARD)
        return np.concatenate([by_f.theta, by_noise.theta]), by_f.Z
