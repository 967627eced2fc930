"""How observation noise enters the core's model, and what is learned of it.

A *plan* is one way that noise can be. It offers

``extend(parameters)``
    The kernel's parameters with its own behind them.
``model(kernel, targets, rows, options)``
    The core's model.
``learned(evaluation)``
    The noise that a fit found: None, or an object that knows the log noise variance at new rows.
``restated(kernel, targets, rows, options, noise)``
    The model of given rows with the noise that was learned, and what its bound lacks to the fit's.
``varies``
    Whether the noise is to be learned row by row. If so, ``starting_at(log_noise)`` is the plan
    that begins with constant log variances, and ``starts(spread)`` are values of its parameters.
"""

from math import comb
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.preprocessing import PolynomialFeatures

from sparsegpc._core.bounds.collapsed import divergence
from sparsegpc._core.likelihoods.gaussian import (
    GaussianNoise,
    KnownNoise,
    known_noise_targets,
    learned_noise_targets,
    noisy_targets,
)
from sparsegpc._core.models.model import SparseModel, predict_covariance, predict_moments
from sparsegpc._core.models.noise_process import HeteroscedasticModel, expected_precision
from sparsegpc._core.rows.blocks import RowBlocks, Table
from sparsegpc._core.rows.sources import map_rows
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.kernels.adapters import adapt_kernel, start_values
from sparsegpc._estimators.latent import sample_gaussians

# Start and limits of a noise variance, relative to the variance of the targets.
START, LIMITS = 0.1, (1e-8, 10.0)
# Limits of the other coefficients of a log variance: basis functions are between -1 and 1.
COEFFICIENT_LIMIT = 20.0


class Targets(NamedTuple):
    """Rows of positive weight: targets (n_outputs, N), and their noise variance where known."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    noise_variance: np.ndarray | None


class KnownPlan:
    """Noise that is known at each row, or the same for all rows and fixed.

    Parameters
    ----------
    constant : ndarray of shape (n_outputs,) or None
        The fixed variances; None takes those that come with the targets.
    """

    varies = False

    def __init__(self, constant=None):
        self.constant = constant

    def extend(self, parameters):
        return parameters

    def model(self, kernel, targets, rows, options):
        likelihood, noise = KnownNoise(), targets.noise_variance
        if self.constant is not None:
            noise = np.broadcast_to(self.constant[:, None], targets.y.shape)
        y = [
            known_noise_targets(one, targets.weight, variance, rows)
            for one, variance in zip(targets.y, noise, strict=True)
        ]
        return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)

    def restated(self, kernel, targets, rows, options, noise):
        return self.model(kernel, targets, rows, options), 0.0

    def learned(self, evaluation):
        if self.constant is None:
            return None
        X = evaluation.chosen.Z
        return LearnedPolynomial(PolynomialBasis(X, 0), np.log(self.constant)[:, None])


class PolynomialPlan:
    """A log noise variance that is a polynomial in the columns, or constant.

    Parameters
    ----------
    basis : PolynomialBasis
    names : list of str
        Of its parameters.
    log_noise : ndarray of shape (n_outputs,)
        Log noise variances to start from.
    bounds : ndarray of shape (n_outputs, 2)
        Of the log noise variances in the middle of the rows.
    """

    def __init__(self, basis, names, log_noise, bounds):
        self.basis, self.names = basis, names
        self._log_noise, self._bounds = log_noise, bounds

    @property
    def varies(self):
        return len(self.names) > 1

    def starting_at(self, log_noise):
        return PolynomialPlan(self.basis, self.names, log_noise, self._bounds)

    def starts(self, spread):
        return [self._start()]

    def _start(self):
        start = np.zeros((len(self._log_noise), len(self.names)))
        start[:, 0] = self._log_noise
        return start.ravel()

    def extend(self, parameters):
        n_others = len(self.names) - 1
        limits = np.tile([-COEFFICIENT_LIMIT, COEFFICIENT_LIMIT], (n_others, 1))
        names = []
        for k in range(len(self._bounds)):
            suffix = "" if len(self._bounds) == 1 else f" of output {k}"
            names.extend(name + suffix for name in self.names)
        bounds = [np.concatenate([bounds[None], limits]) for bounds in self._bounds]
        return parameters.extended(self._start(), np.concatenate(bounds), names)

    def model(self, kernel, targets, rows, options):
        basis = self.basis(rows.X)
        likelihood = GaussianNoise(basis.shape[1])
        y = [noisy_targets(one, targets.weight, basis, rows) for one in targets.y]
        return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)

    def restated(self, kernel, targets, rows, options, noise):
        return self.model(kernel, targets, rows, options), 0.0

    def learned(self, evaluation):
        n_outputs, n_basis = len(evaluation.solutions), len(self.names)
        coefficients = evaluation.theta[-n_outputs * n_basis :].reshape(n_outputs, n_basis)
        return LearnedPolynomial(self.basis, coefficients)


class ProcessPlan:
    """A log noise variance that is a Gaussian process.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Of the log noise variance.
    n_columns : int
    n_points : int
    tol : float
        See `HeteroscedasticModel`.
    log_noise : ndarray of shape (n_outputs,)
        Log noise variances to start from.
    """

    varies = True

    def __init__(self, kernel, n_columns, n_points, tol, log_noise):
        adapt_kernel(kernel, n_columns, refuse_white="a log variance has no noise of its own")
        self.kernel, self._n_columns = kernel, n_columns
        self._n_points, self._tol, self._log_noise = n_points, tol, log_noise

    @property
    def parameters(self):
        """The kernel for the core, an `AdaptedKernel`."""
        return adapt_kernel(self.kernel, self._n_columns)

    def starting_at(self, log_noise):
        return ProcessPlan(self.kernel, self._n_columns, self._n_points, self._tol, log_noise)

    def starts(self, spread):
        return start_values(self.parameters, spread)

    def extend(self, parameters):
        own = self.parameters
        names = [f"noise {name}" for name in own.names]
        return parameters.extended(own.theta, own.bounds, names)

    def model(self, kernel, targets, rows, options):
        likelihood = GaussianNoise(1)
        y = [
            noisy_targets(one, targets.weight, np.ones((len(rows.X), 1)), rows) for one in targets.y
        ]
        return HeteroscedasticModel(
            kernel,
            likelihood,
            rows.X,
            y,
            rows.weight,
            noise_kernel=self.parameters.kernel,
            n_noise_points=min(self._n_points, len(rows.X)),
            noise_tol=self._tol,
            log_noise=self._log_noise,
            **options,
        )

    def restated(self, kernel, targets, rows, options, noise):
        # The noise is what predictions are made with; to solve for it again would change it.
        moments = zip(*noise.log_moments(rows.X), strict=True)
        y = [
            learned_noise_targets(
                one, targets.weight, mean, expected_precision(mean, variance), rows
            )
            for one, (mean, variance) in zip(targets.y, moments, strict=True)
        ]
        model = SparseModel(kernel, KnownNoise(), rows.X, y, rows.weight, **options)
        return model, -sum(divergence(posterior) for posterior in noise.posteriors)

    def learned(self, evaluation):
        theta = evaluation.theta[len(evaluation.theta) - len(self.parameters.theta) :]
        return LearnedProcess(
            self.kernel.clone_with_theta(theta),
            evaluation.chosen.Z_noise,
            evaluation.Luu_noise,
            [solution.noise_posterior for solution in evaluation.solutions],
        )


class PolynomialBasis:
    """Monomials of the columns that vary, mapped to [-1, 1] over their ranges in the training rows.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Training rows.
    degree : int
    interactions : bool
    """

    def __init__(self, X, degree, interactions=False):
        low, high = X.min(axis=0), X.max(axis=0)
        self._varies = low < high
        self._low, self._high = low[self._varies], high[self._varies]
        self._degree, self._interactions = degree, interactions

    @property
    def n_functions(self):
        """Number K of basis functions."""
        n_columns = int(self._varies.sum())
        if self._interactions:
            return comb(n_columns + self._degree, self._degree)
        return 1 + n_columns * self._degree

    def __call__(self, X):
        """Return the basis at the rows of `X`, shape (N, K), the constant first."""
        return map_rows(lambda X: self._values(X).T, X).T

    def _values(self, X):
        middle = 0.5 * (self._low + self._high)
        half = 0.5 * (self._high - self._low)
        columns = (np.clip(X[:, self._varies], self._low, self._high) - middle) / half
        if self._interactions and len(half):
            return PolynomialFeatures(self._degree).fit_transform(columns)
        powers = [columns**k for k in range(1, self._degree + 1)]
        return np.concatenate([np.ones((len(X), 1)), *powers], axis=1)

    def names(self, column_names):
        """Return how each basis function changes the variance, in words."""
        column_names = np.asarray(column_names, dtype=object)[self._varies]
        if self._interactions and len(column_names):
            columns = np.zeros((1, len(column_names)))
            features = PolynomialFeatures(self._degree).fit(columns)
            terms = features.get_feature_names_out(column_names)[1:]
        else:
            terms = [
                column if k == 1 else f"{column}^{k}"
                for k in range(1, self._degree + 1)
                for column in column_names
            ]
        return ["noise variance", *(f"noise variance factor of {term}" for term in terms)]


class LearnedPolynomial(NamedTuple):
    """Log noise variances linear in a basis; ``coefficients`` (n_outputs, K)."""

    basis: PolynomialBasis
    coefficients: np.ndarray

    def log_moments(self, X):
        """Return mean and variance of the log noise variance, shape (n_outputs, N) each."""
        # Block by block, as the basis may be much wider than X.
        width = max(self.basis.n_functions, X.shape[1])
        blocks = RowBlocks(len(X), width, **row_options())
        mean = blocks.visit(lambda X: ((), (self.coefficients @ self.basis(X).T,)), Table(X))[1][0]
        return mean, np.zeros_like(mean)

    def log_samples(self, X, n_samples, rng):
        """Return draws of the log noise variance, shape (n_outputs, n_samples, N)."""
        mean, _ = self.log_moments(X)
        return np.broadcast_to(mean[:, None], (len(mean), n_samples, len(X)))


class LearnedProcess(NamedTuple):
    """Log noise variances that are sparse Gaussian processes, one for each output."""

    kernel: Kernel
    Z: np.ndarray
    Luu: np.ndarray
    posteriors: list

    def log_moments(self, X):
        """Return mean and variance of the log noise variance, shape (n_outputs, N) each."""
        return predict_moments(*self._core(), X, **row_options())

    def log_samples(self, X, n_samples, rng):
        """Return draws of the log noise variance, shape (n_outputs, n_samples, N)."""
        mean, covariance = predict_covariance(*self._core(), X)
        return sample_gaussians(mean, covariance, n_samples, rng)

    def _core(self):
        adapted = adapt_kernel(self.kernel, self.Z.shape[1])
        return adapted.kernel, adapted.theta, self.Z, self.Luu, self.posteriors
