"""The model of Gaussian noise whose log variance is itself a sparse Gaussian process.

The formulas are in `noise_sites`.
"""

import numpy as np

from sparsegpc._core.bounds.collapsed import FLAT, gradient
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.models.model import MAX_FINAL_ITERATIONS, SEVERAL_TOL_SHARE, SparseModel
from sparsegpc._core.models.noise_sites import NoiseState, expected_precision, solve_noise
from sparsegpc._core.models.posterior import posterior_of
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector


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
        self.noise_selector = PivotedSelector(argmax, n_noise_points, noise_tol)
        self._log_noise = log_noise

    def _noise_log_prior(self, evaluation):
        return self._log_prior(evaluation.theta, evaluation.solutions)

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

    def _features(self, theta, points):
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

    def _solve_sites(self, features, theta, states, **options):
        """Return a tuple of the `NoisySolution` of each output, given options of `solve_noise`.

        Cost 2 N (M^2 + M_g^2) for each pass of each output.
        """
        outputs = zip(self.targets, states, self.noise_priors, strict=True)
        options = {"prior_mean": self.prior_mean, **options}
        return tuple(
            solve_noise(
                *features, y, self.weight, self.slack, state, noise_prior=noise_prior, **options
            )
            for y, state, noise_prior in outputs
        )

    def _posteriors(self, features, solutions):
        of_f, of_noise = features
        # Bounds of any rows take their noise from it, and they are those at the prior mean.
        noise = [found.noise_posterior.at_prior_mean() for found in solutions]
        posterior = posterior_of(of_f, [found.posterior for found in solutions])
        return posterior, posterior_of(of_noise, noise)

    def _log_prior(self, theta, solutions):
        return sum(found.log_prior for found in solutions)

    def _gradient(self, features, theta, solutions, wrt_Z):
        """See `SparseModel._gradient`. Cost N (5 M^2 + 4 M_g^2) for each output."""
        of_f, of_noise = features
        outputs = [(found.sites, found.posterior, None) for found in solutions]
        by_f = gradient(of_f, outputs, self.slack, wrt_Z=wrt_Z)
        outputs = [
            (Sites(*found.state[:2], None), found.noise_posterior, None) for found in solutions
        ]
        by_noise = gradient(of_noise, outputs, STANDARD)
        return np.concatenate([by_f.theta, by_noise.theta]), by_f.Z
