"""Observation noise of the regressors, as users ask for it."""

import numbers

from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import StrOptions

from sparsegpc._estimators.input.validation import (
    LARGEST_NOISE,
    SMALLEST_NOISE,
    Range,
    checked_numbers,
)


class HomoscedasticNoise(BaseEstimator):
    """Gaussian noise of the same variance at all rows.

    Parameters
    ----------
    variance : float or None, default=None
        Where learning starts, in squared units of the target (of the normalised target with
        ``normalize_y=True``). None is a tenth of the variance of the targets.
    variance_bounds : "fixed", pair of float or None, default=None
        Limits of the variance; "fixed" keeps `variance`. None is 1e-8 and 10 times the variance
        of the targets.

    See Also
    --------
    SparseGPRegressor : Takes it as its parameter `noise`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import HomoscedasticNoise, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SparseGPRegressor(noise=HomoscedasticNoise(3000.0), n_inducing=20).fit(X, y)
    >>> model.predict_noise_std(X).shape
    (442,)
    """

    _parameter_constraints = {
        "variance": [Range(numbers.Real, SMALLEST_NOISE, LARGEST_NOISE, closed="both"), None],
        "variance_bounds": [StrOptions({"fixed"}), "array-like", None],
    }

    def __init__(self, variance=None, variance_bounds=None):
        self.variance = variance
        self.variance_bounds = variance_bounds

    def _checked_bounds(self):
        """Return `variance_bounds` as an array of two positive numbers, or raise ValueError."""
        bounds = checked_numbers(
            self.variance_bounds, "variance_bounds", allow_nd=True, ensure_all_finite=False
        )
        ordered = bounds.shape == (2,) and bounds[0] <= bounds[1]
        if not ordered or not bounds[0] >= SMALLEST_NOISE or not bounds[1] <= LARGEST_NOISE:
            raise ValueError(
                "variance_bounds must be 'fixed' or a pair of positive numbers, the lower one "
                f"first, from {SMALLEST_NOISE:.0e} to {LARGEST_NOISE:.0e}, got "
                f"{self.variance_bounds!r}: None stands for limits relative to the targets"
            )
        return bounds


class PolynomialNoise(BaseEstimator):
    """Gaussian noise whose log variance is a polynomial in the columns.

    The coefficients are learned with the other hyperparameters. Columns count relative to the range
    they have in the training rows; beyond it the noise stays what it is at the edge.

    Parameters
    ----------
    degree : int, default=2
        Of the polynomial.
    interactions : bool, default=False
        Whether products of different columns are among its terms. Without them there are
        1 + degree times n_features coefficients.

    See Also
    --------
    SparseGPRegressor : Takes it as its parameter `noise`.

    Notes
    -----
    Passerello 2021, section 3.1.3, takes the variance itself for a polynomial; the logarithm keeps
    it positive.

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
        "degree": [Range(numbers.Integral, 0, None, closed="left")],
        "interactions": ["boolean"],
    }

    def __init__(self, degree=2, interactions=False):
        self.degree = degree
        self.interactions = interactions


class GPNoise(BaseEstimator):
    """Gaussian noise whose log variance is a second sparse Gaussian process.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels or None, default=None
        Covariance of the log variance. None is a constant times RBF with one length scale.
    n_inducing : int, default=100
        Most inducing points of the log variance. They are chosen by greedy variance.
    selection_tol : float, default=1e-3
        As in `SparseGPRegressor`, for the log variance.

    See Also
    --------
    SparseGPRegressor : Takes it as its parameter `noise`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import GPNoise, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SparseGPRegressor(noise=GPNoise(n_inducing=20), n_inducing=20).fit(X, y)
    >>> model.predict_noise_std(X).shape
    (442,)
    """

    _parameter_constraints = {
        "kernel": [Kernel, None],
        "n_inducing": [Range(numbers.Integral, 1, None, closed="left")],
        "selection_tol": [Range(numbers.Real, 0, None, closed="left")],
    }

    def __init__(self, kernel=None, *, n_inducing=100, selection_tol=1e-3):
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.selection_tol = selection_tol


NOISES = {
    "homoscedastic": HomoscedasticNoise,
    "polynomial": PolynomialNoise,
    "gp": GPNoise,
}


def resolve_noise(noise):
    """Return the settings that the parameter `noise` stands for, checked."""
    settings = NOISES[noise]() if isinstance(noise, str) else noise
    settings._validate_params()
    return settings
