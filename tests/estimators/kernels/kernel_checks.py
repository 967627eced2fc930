"""What holds for each kernel of the package, for the tests of each."""

import pickle

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor

from sparsegpc import SparseGPRegressor
from tests.core.helpers import central_difference
from tests.estimators.regression import ALL_ROWS


def check_gradient(kernel, X, *, rtol, atol):
    """Check the gradient of a kernel matrix against differences of its values."""
    n = len(X)
    K, gradient = kernel(X, eval_gradient=True)
    assert_array_equal(K, kernel(X))
    assert gradient.shape == (n, n, kernel.n_dims)
    for row, column in np.ndindex(n, n):
        expected = central_difference(
            lambda t, entry=(row, column): kernel.clone_with_theta(t)(X)[entry], kernel.theta
        )
        assert_allclose(gradient[row, column], expected, rtol=rtol, atol=atol)


def check_copies(kernel):
    """Check that a clone and a pickled copy are equal, and that a clone takes another theta."""
    assert clone(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert_allclose(kernel.clone_with_theta(kernel.theta + 1.0).theta, kernel.theta + 1.0)


def check_exact_process(kernel, rng, *, atol):
    """Check a model with a point at each row against scikit-learn's exact Gaussian process."""
    X = rng.randn(25, 3)
    y, noise = np.sin(X).sum(axis=1), 0.05
    exact = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    ours = SparseGPRegressor(kernel, optimizer=None, fit_prior_mean=False, **ALL_ROWS)
    ours.fit(X, y, noise_variance=noise)
    assert_allclose(ours.lower_bound_, exact.log_marginal_likelihood_value_, rtol=1e-6)
    assert_allclose(ours.predict(X), exact.predict(X), rtol=1e-5, atol=atol)
