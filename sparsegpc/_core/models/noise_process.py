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

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.bounds.collapsed import (
    Posterior,
    collapse,
    divergence,
    gradient,
    marginals,
    moments,
    shrinkage,
)
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.likelihoods.gaussian import (
    LOG_2PI,
    largest_log_precision,
    limited_exp,
    refuse_no_noise,
)
from sparsegpc._core.models.model import MAX_SITE_ITERATIONS, Evaluation, SparseModel
from sparsegpc._core.models.sites import ROUNDING, refuse_infinite
from sparsegpc._core.numerics.linalg import SMALLEST_JITTER
from sparsegpc._core.rows.sources import map_rows
from sparsegpc._core.selection.choices import refuse_points
from sparsegpc._core.selection.pivots import select

# The noise is solved for to this share of the bound's tolerance.
NOISE_TOL_SHARE = 0.1
# A step of the noise sites that lowers the bound is halved, down to this length.
SHORTEST_STEP = 1.0 / 64.0


class NoiseState(NamedTuple):
    """Sites of the log noise variance g, and the precisions for f that follow, shape (N,) each."""

    precision: np.ndarray
    shift: np.ndarray
    of_f: np.ndarray


class NoisySolution(NamedTuple):
    """q(u) of f and of g, the sites of both, and the bound (nats) at the end of the ascent."""

    state: NoiseState
    sites: Sites
    posterior: Posterior
    noise_posterior: Posterior
    bound: float
    n_iter: int
    converged: bool


def expected_precision(mean, variance):
    """Return E[exp(-g)] from the moments of g, shape (N,)."""
    return limited_exp(-mean + 0.5 * variance)


def expected_variance(mean, variance):
    """Return E[exp(g)] from the moments of g, shape (N,)."""
    return limited_exp(mean + 0.5 * variance)


class _Attempt(NamedTuple):
    """What follows from given sites of g, and the precision and shift that it asks for."""

    solution: NoisySolution
    target: tuple


def _attempt(features, noise_features, y, weight, slack, prior_mean, limit, precision, shift):
    noise_sites = Sites(precision, shift, np.zeros(len(weight)))
    noise_posterior = collapse(noise_features, noise_sites, "standard")
    mean, variance = noise_features.rows(
        lambda V, residual: marginals(V, residual, noise_posterior), noise_features.residual
    )
    exponent = -mean + 0.5 * variance
    refuse_no_noise(exponent, limit)
    p = weight * np.exp(exponent)
    own = -0.5 * (weight * (LOG_2PI + mean) + p * (y["mean"] ** 2 + y["scatter"]))
    sites = Sites(p, p * y["mean"], own)
    posterior = collapse(features, sites, slack, prior_mean)

    def target(V, residual, p, y_mean, scatter):
        f_mean, explained = moments(V, posterior)
        v = shrinkage(slack, p * residual, posterior.mean_cost)
        return (0.5 * p * ((y_mean - f_mean) ** 2 + scatter + explained + v * residual),)

    (wanted,) = features.rows(target, features.residual, p, y["mean"], y["scatter"])
    bound = posterior.bound - divergence(noise_posterior)
    state = NoiseState(precision, shift, p)
    solution = NoisySolution(state, sites, posterior, noise_posterior, bound, 0, False)
    return _Attempt(solution, (wanted, wanted * (1.0 + mean) - 0.5 * weight))


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
    slack : str
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
    limit = largest_log_precision(y, weight)

    def attempt(*noise_sites):
        return _attempt(features, noise_features, y, weight, slack, prior_mean, limit, *noise_sites)

    best = attempt(state.precision, state.shift)
    refuse_infinite(best.solution.bound)
    rounding = ROUNDING * float(weight.sum())
    length, n_iter, converged = 1.0, 1, False
    while n_iter < max_iter and not converged:
        old, new = best.solution.state[:2], best.target
        n_iter += 1
        try:
            trial = attempt(
                *((1.0 - length) * a + length * b for a, b in zip(old, new, strict=True))
            )
            gain = trial.solution.bound - best.solution.bound
        except LinAlgError:
            gain = -np.inf
        # A short step gains little because it is short.
        converged = abs(gain) < tol * length
        if gain >= -rounding:
            best = trial
            length = min(1.0, 2.0 * length)
        else:
            length *= 0.5
            if length < SHORTEST_STEP:
                break
    return best.solution._replace(n_iter=n_iter, converged=converged)


class HeteroscedasticModel(SparseModel):
    """A `SparseModel` with a noise process for each output.

    All noise processes share a kernel and inducing points of their own. The vector `theta` holds
    the parameters of the kernel of f, then those of the noise kernel.

    Parameters
    ----------
    *args
        Of `SparseModel`. The likelihood serves only for the bound of a constant function.
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
        self._n_noise_points, self._noise_tol = n_noise_points, noise_tol
        self._log_noise = log_noise

    def split(self, theta):
        """Return the parameters of the kernel of f, and those of the noise kernel."""
        return np.split(theta, [self.kernel.n_params])

    def constant_theta(self, theta, bounds):
        parts = zip(
            (self.kernel, self.noise_kernel), self.split(theta), self.split(bounds), strict=True
        )
        few = self.some_rows()
        return np.concatenate([kernel.flattest(own, limits, few) for kernel, own, limits in parts])

    def initial_state(self):
        half = 0.5 * self.weight
        return tuple(
            NoiseState(half, half * g, self.weight * expected_precision(np.asarray(g), 0.0))
            for g in self._log_noise
        )

    def precision(self, theta, states):
        return sum(state.of_f for state in states)

    def choose(self, choice, theta, states):
        chosen = super().choose(choice, theta, states)
        noise_theta = self.split(theta)[1]
        # At the optimum the sites of g have precisions of a half on average.
        selection = select(
            partial(self.noise_kernel.value, noise_theta),
            self.X,
            map_rows(partial(self.noise_kernel.diag, noise_theta), self.X),
            0.5 * self.weight,
            self._n_noise_points,
            rule="argmax",
            tol=self._noise_tol,
            total_weight=self.total_weight,
            check=partial(refuse_points, n_functions=self.n_functions, name="noise.n_inducing"),
            **self.row_options,
        )
        return chosen._replace(Z_noise=self.X[selection.indices])

    def keeps(self, choice):
        # The points of the noise follow its kernel.
        return False

    def evaluate(
        self,
        theta,
        chosen,
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
        kernel_theta, noise_theta = self.split(theta)
        jitters = {"jitter": jitter, "attempts": attempts}
        # Both are needed in turns, so they divide the memory by what they would keep.
        of_f = (1.0 + self.kernel.n_arrays) * len(chosen.Z)
        of_noise = (1.0 + self.noise_kernel.n_arrays) * len(chosen.Z_noise)
        share = of_f / (of_f + of_noise)
        features = self.row_features(self.kernel, kernel_theta, chosen.Z, share=share, **jitters)
        noise_features = self.row_features(
            self.noise_kernel, noise_theta, chosen.Z_noise, share=1.0 - share, **jitters
        )
        solutions = tuple(
            solve_noise(
                features,
                noise_features,
                y,
                self.weight,
                self.slack,
                state,
                prior_mean=self.prior_mean,
                tol=NOISE_TOL_SHARE * self.tol if tol is None else tol,
                max_iter=max_iter,
            )
            for y, state in zip(self.targets, states, strict=True)
        )
        grad_theta = grad_Z = None
        if wrt_theta or wrt_Z:
            outputs = [(solution.sites, solution.posterior, None) for solution in solutions]
            grad_theta, grad_Z, _ = gradient(features, outputs, self.slack, wrt_Z=wrt_Z)
            noise_outputs = [
                (Sites(*solution.state[:2], None), solution.noise_posterior, None)
                for solution in solutions
            ]
            by_noise = gradient(noise_features, noise_outputs, "standard").theta
            grad_theta = np.concatenate([grad_theta, by_noise])
        self.counts.add(solutions, self._has_all_rows)
        return Evaluation(
            theta,
            chosen,
            solutions,
            features.Luu,
            max(features.jitter, noise_features.jitter),
            grad_theta,
            grad_Z,
            noise_features.Luu,
        )
