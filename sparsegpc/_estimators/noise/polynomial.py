"""Noise whose log variance is a polynomial in the columns."""

import numbers
from math import comb

import numpy as np
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils._param_validation import Interval

from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.likelihoods.responses import FREE_OF_NOISE
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.blocks import RowBlocks, Table
from sparsegpc._core.rows.sources import map_rows, spaced_rows
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.kernels.hyperparameters import Entry
from sparsegpc._estimators.noise.base import (
    LIMITS,
    START,
    TO_LITTLE_NOISE,
    LogNormalNoise,
    NoisePlan,
    NoiseSettings,
    noise_prior,
)
from sparsegpc._estimators.noise.censored import censored_model

# A user's basis functions are checked at so many rows before they are used.
CHECKED_ROWS = 100


class PolynomialNoise(NoiseSettings):
    """Gaussian noise whose log variance is a polynomial in the columns.

    The coefficients are learned with the other hyperparameters. Columns are scaled to the range of
    the training rows; beyond it the noise variance is that at the end of the range.

    Parameters
    ----------
    degree : int, default=2
        Degree of the polynomial.
    interactions : bool, default=False
        Whether to include products of different columns. Without them there are 1 + degree times
        n_features coefficients.

    See Also
    --------
    SparseGPRegressor : Uses it as parameter `noise`.

    Notes
    -----
    In Passerello 2021, section 3.1.3, the variance itself is a polynomial; the logarithm keeps it
    positive.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import PolynomialNoise, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SparseGPRegressor(noise=PolynomialNoise(degree=1), n_inducing=20).fit(X, y)
    >>> model.predict_noise_std(X).shape
    (442,)
    """

    _parameter_constraints = {
        "degree": [Interval(numbers.Integral, 0, None, closed="left")],
        "interactions": ["boolean"],
    }

    def __init__(self, degree=2, interactions=False):
        self.degree = degree
        self.interactions = interactions

    def basis(self, X):
        """Return a function of rows whose values multiply the coefficients.

        A subclass may define another one: :ref:`extending-noise`.

        Parameters
        ----------
        X : ndarray of shape (N, D)
            The training rows.

        Returns
        -------
        basis : callable
            Takes rows, (n, D), and returns the values of K functions, (n, K). The first must be 1
            at all rows, and the others should be at most about 1 in absolute value, because the
            prior of their coefficients has mean zero and a scale of its own.
        """
        return PolynomialBasis(X, self.degree, self.interactions)

    @property
    def sees_transforms(self):
        # The functions of a user are of the columns as they are.
        return type(self).basis is PolynomialNoise.basis

    def _plan(self, data):
        """Return the `NoisePlan` for a `NoiseData`."""
        basis = self.basis(data.X)
        if not isinstance(basis, PolynomialBasis):
            basis = OwnBasis(self, basis, data.X)
        log_noise, bounds = np.log(START * data.variance), data.variance[:, None] * LIMITS
        settings = basis, basis.names(data.columns), log_noise, np.log(bounds)
        return PolynomialPlan(*settings, data.prior_mean)


class PolynomialBasis:
    """Monomials of the columns that vary, mapped to [-1, 1] over their ranges in the rows X."""

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
        """Return a description of each parameter, for messages."""
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


class OwnBasis:
    """The values of a user's functions of the rows, from the `basis` of `settings`.

    They are checked at some of the rows X, and their number K at all rows.
    """

    def __init__(self, settings, values, X):
        self._name, self._values, self.n_functions = repr(settings), values, None
        some = self(X[spaced_rows(X, CHECKED_ROWS)])
        if not (some[:, 0] == 1.0).all():
            raise ValueError(
                f"noise {self._name}: the first basis function is {some[:, 0].min():.3g} at a row, "
                "but it must be 1 at all rows: put a column of ones first"
            )
        self.n_functions = some.shape[1]

    def __call__(self, X):
        """Return the basis at the rows of `X`, shape (N, K), the constant first."""
        return map_rows(lambda X: self._checked(X).T, X).T

    def _checked(self, X):
        values = np.asarray(self._values(X), dtype=np.float64)
        K = "K" if self.n_functions is None else self.n_functions
        is_table = values.ndim == 2 and values.shape[1] > 0 and len(values) == len(X)
        if not is_table or K not in ("K", values.shape[1]):
            raise ValueError(
                f"noise {self._name}: the basis has values of shape {values.shape} at {len(X)} "
                f"rows, but it must be ({len(X)}, {K}): return a column for each function"
            )
        if not np.isfinite(values).all():
            raise ValueError(
                f"noise {self._name}: the basis has the value {values[~np.isfinite(values)][0]} "
                "at a row, but all must be finite: limit the arguments of its functions"
            )
        return values

    def names(self, column_names):
        """Return a description of each parameter, for messages."""
        others = (f"noise variance factor of function {k}" for k in range(1, self.n_functions))
        return ["noise variance", *others]


class PolynomialPlan(NoisePlan):
    """A log noise variance that is a polynomial in the columns, or constant.

    `names` are those of the parameters, one for each function of the `basis`. Learning starts at
    `log_noise` (n_outputs,), log variances; `bounds` (n_outputs, 2) are their limits at the centre
    of the columns' ranges, and `prior_mean` (n_outputs,) is the mean of their prior there, or None.
    """

    at_limit = {"lower": FREE_OF_NOISE}

    def __init__(self, basis, names, log_noise, bounds, prior_mean):
        self.basis, self.names = basis, names
        self.log_noise, self._bounds = log_noise, bounds
        self._prior_mean = prior_mean

    @property
    def varies(self):
        return len(self.names) > 1

    def prior(self, spread):
        return noise_prior(self._prior_mean, len(self.names))

    def extend(self, hyperparameters, model):
        n_others = len(self.names) - 1
        # Basis functions are between -1 and 1, so one term changes the variance by at most exp(20).
        limits = np.tile([-20.0, 20.0], (n_others, 1))
        entries = []
        for k in range(len(self._bounds)):
            suffix = "" if len(self._bounds) == 1 else f" of output {k}"
            variance, *factors = [name + suffix for name in self.names]
            entries += [Entry(variance, at_limit=self.at_limit), *map(Entry, factors)]
        bounds = [np.concatenate([bounds[None], limits]) for bounds in self._bounds]
        start, step = np.zeros((2, len(self.log_noise), len(self.names)))
        start[:, 0], step[:, 0] = self.log_noise, TO_LITTLE_NOISE
        added = start.ravel(), np.concatenate(bounds), entries
        return hyperparameters.extended(*added, to_little_noise=step.ravel())

    def model(self, kernel, targets, rows, options):
        if targets.event is not None:
            return censored_model(kernel, targets, rows, options, targets.noise_variance)
        basis = self.basis(rows.X)
        likelihood = GaussianNoise(basis.shape[1])
        y = [noisy_targets(output, targets.weight, basis, rows) for output in targets.y]
        return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)

    def learned(self, evaluation):
        n_outputs, n_basis = len(evaluation.solutions), len(self.names)
        coefficients = evaluation.theta[-n_outputs * n_basis :].reshape(n_outputs, n_basis)
        return LearnedPolynomial(self.basis, coefficients)


class LearnedPolynomial(LogNormalNoise):
    """Log noise variances that are linear in a basis, with ``coefficients`` (n_outputs, K)."""

    def __init__(self, basis, coefficients):
        self.basis, self.coefficients = basis, coefficients

    @property
    def constant(self):
        return np.exp(self.coefficients[:, 0]) if self.coefficients.shape[1] == 1 else None

    def log_moments(self, X):
        mean = self._log_mean(X)
        return mean, np.zeros_like(mean)

    def _log_mean(self, X):
        if self.constant is not None:
            return np.repeat(self.coefficients, len(X), axis=1)
        # Block by block, as the basis may have many more columns than X.
        width = max(self.basis.n_functions, X.shape[1])
        blocks = RowBlocks(len(X), width, **row_options())
        return blocks.visit(lambda X: ((), (self.coefficients @ self.basis(X).T,)), Table(X))[1][0]

    def log_samples(self, X, n_samples, rng):
        mean, _ = self.log_moments(X)
        return np.broadcast_to(mean[:, None], (len(mean), n_samples, len(X)))


def constant_noise(X, log_noise):
    """Return the `LearnedPolynomial` with constant log variances, shape (n_outputs,)."""
    return LearnedPolynomial(PolynomialBasis(X, 0), log_noise[:, None])
