"""Targets of one output and of two, their noise, and regressors of them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import HomoscedasticNoise, SparseGPRegressor
from tests.estimators.simple_kernel import simple_kernel

KERNEL = ConstantKernel(2.0) * RBF(1.5)
NOISE = 0.05
# Fits in milliseconds, where what is learned is not the point.
FIXED = {"kernel": KERNEL, "noise": HomoscedasticNoise(NOISE), "optimizer": None}
ALL_ROWS = {"n_inducing": 10_000, "selection_tol": 0.0}
# Draws of others have sample moments that converge slowly, or not at all.
LIGHT_TAILS = ["homoscedastic", "polynomial", "gp"]
NOISES = [*LIGHT_TAILS, "student-t"]
# Learning is cut short, or finds noise that does not vary: that is said, but not the point.
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
METHODS = ("trace", "cauchy-schwarz", "one-pass", "two-moment", "conjugate-gradient")


def waves(n=60, seed=0):
    """Return read-only rows in the square from -3 to 3, and targets with noise 0.2."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def two_waves(n=60):
    """Return rows and two targets."""
    X, y = waves(n)
    return X, np.column_stack([y, np.cos(X[:, 1]) - 0.3 * X[:, 0] + 0.1 * waves(n, 1)[1]])


def known_noise(n=60, n_outputs=None):
    """Return noise variances over two orders of magnitude."""
    shape = n if n_outputs is None else (n, n_outputs)
    return 10.0 ** np.random.RandomState(7).uniform(-2.0, 0.0, shape)


def grid(n=4):
    """Return points on a grid that reaches beyond the rows of `waves`."""
    side = np.linspace(-4.0, 4.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def model_of(**parameters):
    """Return a regressor with a simple kernel, whose predictions are those of `kernel_`."""
    default = {"n_inducing": 12, "selector": "hgv", "hyperparameters": "best"}
    return SparseGPRegressor(**{**default, **simple_kernel(parameters)})


def fixed_model(**parameters):
    return model_of(**{**FIXED, **parameters})


def assert_same_model(one, other):
    assert_array_equal(one.inducing_points_, other.inducing_points_)
    assert one.lower_bound_ == other.lower_bound_
    for ours, theirs in zip(
        one.latent_mean_and_variance(grid()), other.latent_mean_and_variance(grid()), strict=True
    ):
        assert_array_equal(ours, theirs)
