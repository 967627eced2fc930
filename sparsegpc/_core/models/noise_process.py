r"""Gaussian noise whose log variance is itself a sparse Gaussian process.

With :math:`y_n \sim N(f_n, e^{g_n})`, :math:`q(f, g) = q(f) q(g)` and the moments :math:`m, s` of
:math:`g_n` under q(g), f sees Gaussian sites of precision :math:`p_n = E[e^{-g_n}] = e^{-m + s/2}`
and shift :math:`p_n y_n`, and its q(u) and slack are those of regression. Given
:math:`r_n^2 = E[(y_n - f_n)^2]`, g sees the likelihood

.. math:: E[\log t_n] = -\tfrac12 m - \tfrac12 r_n^2 e^{-m + s/2},

whose natural-gradient step of length one is closed form: sites of precision
:math:`\rho_n = \tfrac12 r_n^2 p_n` and shift :math:`\rho_n - \tfrac12 + \rho_n m`. The bound is
:math:`-\frac12 \log 2\pi` per row plus the collapsed bound of f, minus KL(q(g) || p(g)); weights
multiply both likelihoods. At its maximum the derivatives w.r.t. the parameters of either kernel
are those at fixed sites.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import (
    FunctionPosterior,
    collapse,
    divergence,
    gradient,
    marginals,
    moments,
)
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.likelihoods.gaussian import (
    LOG_2PI,
    largest_log_precision,
    limited_exp,
    refuse_no_noise,
)
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.models.model import MAX_SITE_ITERATIONS, SparseModel, posterior_of
from sparsegpc._core.models.sites import ROUNDING
from sparsegpc._core.numerics.linalg import SMALLEST_JITTER
from sparsegpc._core.optimisers.ascent import ascend
from sparsegpc._core.selection.selectors import PivotedSelector


class NoiseState(NamedTuple):
    """Sites of the log noise variance g, and the precisions for f that follow, shape (N,) each."""

    precision: np.ndarray
    shift: np.ndarray
    of_f: np.ndarray


class NoisySolution(NamedTuple):
    """q(u) of f and of g, the sites of both, and the bound (nats) at the end of the ascent."""

    state: NoiseState
    sites: Sites
    posterior: FunctionPosterior
    noise_posterior: FunctionPosterior
    bound: float
    n_iter: int
    converged: bool


def expected_precision(mean, variance):
    """Return E[exp(-g)] from the moments of g, shape (N,)."""
    return limited_exp(-mean + 0.5 * variance)


def expected_variance(mean, variance):
    """Return E[exp(g)] from the moments of g, shape (N,)."""
    return limited_exp(mean + 0.5 * variance)


class NoisePoint(NamedTuple):
    """What follows from given sites of g, and the precision and shift that it asks for."""

    solution: NoisySolution
    target: tuple

    @property
    def bound(self):
        return self.solution.bound

    def towards_target(self, length):
        """Return precision and shift part of the way to those that are asked for."""
        pairs = zip(self.solution.state[:2], self.target, strict=True)
        return tuple((1.0 - length) * old + length * new for old, new in pairs)


class _Problem:
    """The bound as a function of the sites of g."""

    def __init__(self, features, noise_features, y, weight, slack, prior_mean):
        self._features, self._noise_features = features, noise_features
        self._y, self._weight = y, weight
        self._slack, self._prior_mean = slack, prior_mean
        self._limit = largest_log_precision(y, weight)

    def evaluate(self, precision, shift):
        """Return the `NoisePoint` at sites of g."""
        noise_sites = Sites(precision, shift, np.zeros(len(self._weight)))
        noise_posterior = collapse(self._noise_features, noise_sites, STANDARD)
        mean, variance = self._noise_features.rows(
            lambda V, residual: marginals(V, residual, noise_posterior),
            self._noise_features.residual,
        )
        sites = self._sites_of_f(mean, variance)
        posterior = collapse(self._features, sites, self._slack, self._prior_mean)
        bound = posterior.bound - divergence(noise_posterior)
        state = NoiseState(precision, shift, sites.precision)
        solution = NoisySolution(state, sites, posterior, noise_posterior, bound, 0, False)
        wanted = self._wanted(sites.precision, posterior)
        return NoisePoint(solution, (wanted, wanted * (1.0 + mean) - 0.5 * self._weight))

    def _sites_of_f(self, mean, variance):
        """Return the `Sites` of f at moments of g."""
        exponent = -mean + 0.5 * variance
        refuse_no_noise(exponent, self._limit)
        y, p = self._y, self._weight * np.exp(exponent)
        log_scale = -0.5 * (self._weight * (LOG_2PI + mean) + p * (y["mean"] ** 2 + y["scatter"]))
        return Sites(p, p * y["mean"], log_scale)

    def _wanted(self, precision, posterior):
        """Return the precisions of g that f asks for, shape (N,)."""
        # Not of this object in `block`: that would be sent to the workers with its features.
        slack = self._slack

        def block(V, residual, p, y_mean, scatter):
            f_mean, inducing_variance = moments(V, posterior)
            v = slack.scale(p * residual, posterior.mean_cost)
            return (
                0.5 * p * ((y_mean - f_mean) ** 2 + scatter + inducing_variance + v * residual),
            )

        inputs = self._features.residual, precision, self._y["mean"], self._y["scatter"]
        return self._features.rows(block, *inputs)[0]


def solve_noise(
    features, noise_features, y, weight, slack, state, *, prior_mean=None, tol, max_iter
):
    """Maximise the bound over q(f) and q(g).

    Parameters
    ----------
    features, noise_features : RowFeatures
        Of f and of g.
    y : structured array of shape (N,)
        With ``mean`` and ``scatter``, see `GaussianNoise`.
    weight : ndarray of shape (N,)
    slack : Slack
        Of f; that of g is the standard one.
    state : NoiseState
        Where to start.
    prior_mean : float or None
        Of f; None learns it. That of g is learned.
    tol : float
        Stop when a step gains less than this many nats.
    max_iter : int
        Most passes.

    Returns
    -------
    NoisySolution

    Raises
    ------
    LinAlgError
        If the bound cannot be computed at the start, or the noise there is next to none.

    Notes
    -----
    Cost about 2 N (M^2 + M_g^2) per pass.
    """
    problem = _Problem(features, noise_features, y, weight, slack, prior_mean)
    found = ascend(
        lambda sites, best: problem.evaluate(*sites),
        problem.evaluate(state.precision, state.shift),
        tol=tol,
        max_iter=max_iter,
        shortest=1.0 / 64.0,
        rounding=ROUNDING * float(weight.sum()),
        growth=2.0,
    )
    return found.best.solution._replace(n_iter=found.n_iter, converged=found.converged)


class HeteroscedasticModel(SparseModel):
    """A `SparseModel` with a noise process for each output.

    All noise processes share a kernel and inducing points of their own. The vector `theta` holds
    the parameters of the kernel of f, then those of the noise kernel.

    Parameters
    ----------
    *args
        Of `SparseModel`. The likelihood, one without parameters, serves only for the bound of a
        constant function.
    noise_kernel : FreeKernel
    n_noise_points : int
        Most inducing points of the noise processes; they are chosen by greedy variance.
    noise_tol : float
        Choose no more of them once what they miss costs at most this many nats per row.
    log_noise : list of float
        Log noise variance of each output to start from.
    **options
        Of `SparseModel`.
    """

    def __init__(self, *args, noise_kernel, n_noise_points, noise_tol, log_noise, **options):
        super().__init__(*args, **options)
        self.noise_kernel = noise_kernel
        self.noise_selector = PivotedSelector(
            "argmax",
            n_noise_points,
            noise_tol,
        )
        self._log_noise = log_noise

    def noise_theta(self, theta):
        """Return the parameters of the noise kernel."""
        return theta[self.kernel.n_params :]

    def constant_theta(self, theta, bounds):
        few, n_params = self.some_rows(), self.kernel.n_params
        flat = self.kernel.least_variance(theta[:n_params], bounds[:n_params], few)
        of_noise = self.noise_kernel.least_variance(theta[n_params:], bounds[n_params:], few)
        return np.concatenate([flat, of_noise])

    def initial_state(self):
        half = 0.5 * self.weight
        return tuple(
            NoiseState(half, half * g, self.weight * expected_precision(np.asarray(g), 0.0))
            for g in self._log_noise
        )

    def precision(self, theta, states):
        return sum(state.of_f for state in states)

    def evaluate(
        self,
        theta,
        points,
        states,
        *,
        jitter=SMALLEST_JITTER,
        attempts=1,
        tol=None,
        max_iter=MAX_SITE_ITERATIONS,
        wrt_theta=True,
        wrt_Z=False,
    ):
        """Return the `Evaluation`; see `SparseModel.evaluate`.

        Cost 2 N (M^2 + M_g^2) for each pass of each output, and N (5 M^2 + 4 M_g^2) for the
        gradient.
        """
        features, noise_features = self._both_features(theta, points, jitter, attempts)
        tol = 0.1 * self.tol if tol is None else tol
        options = {"prior_mean": self.prior_mean, "tol": tol, "max_iter": max_iter}
        solutions = tuple(
            solve_noise(features, noise_features, y, self.weight, self.slack, state, **options)
            for y, state in zip(self.targets, states, strict=True)
        )
        grad_theta = grad_Z = None
        if wrt_theta or wrt_Z:
            grad_theta, grad_Z = self._noisy_gradient(features, noise_features, solutions, wrt_Z)
        self.counts.add(solutions, self._has_all_rows)
        return Evaluation(
            theta,
            points,
            solutions,
            posterior_of(features, [solution.posterior for solution in solutions]),
            max(features.jitter, noise_features.jitter),
            grad_theta,
            grad_Z,
            posterior_of(noise_features, [solution.noise_posterior for solution in solutions]),
        )

    def _both_features(self, theta, points, jitter, attempts):
        """Return the `RowFeatures` of f and of g.

        Both are needed in turns, so they divide the memory by what they would keep.
        """
        options = {"jitter": jitter, "attempts": attempts}
        of_f = (1.0 + self.kernel.n_arrays) * len(points.Z)
        of_noise = (1.0 + self.noise_kernel.n_arrays) * len(points.Z_noise)
        share = of_f / (of_f + of_noise)
        kernel_theta, _ = self.split(theta)
        features = self.row_features(self.kernel, kernel_theta, points.Z, share=share, **options)
        noise_features = self.row_features(
            self.noise_kernel,
            self.noise_theta(theta),
            points.Z_noise,
            share=1.0 - share,
            **options,
        )
        return features, noise_features

    def _noisy_gradient(self, features, noise_features, solutions, wrt_Z):
        """Return the gradient w.r.t. theta, shape (P,), and w.r.t. the points of f, or None."""
        outputs = [(solution.sites, solution.posterior, None) for solution in solutions]
        by_f = gradient(features, outputs, self.slack, wrt_Z=wrt_Z)
        of_noise = [
            (Sites(*solution.state[:2], None), solution.noise_posterior, None)
            for solution in solutions
        ]
        by_noise = gradient(noise_features, of_noise, STANDARD)
        return np.concatenate([by_f.theta, by_noise.theta]), by_f.Z
