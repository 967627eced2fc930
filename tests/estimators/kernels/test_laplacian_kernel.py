"""The public Laplacian kernel, against scikit-learn's, and in the estimators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.metrics.pairwise import laplacian_kernel

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc.kernels import Laplacian
from tests.core.helpers import central_difference
from tests.estimators.kernels.kernel_checks import check_copies, check_exact_process, check_gradient

SCALES = [0.7, 1.3, 2.1]
FIXED = "fixed"
KERNELS = {
    "number": Laplacian(0.8),
    "array": Laplacian(SCALES),
    "fixed": Laplacian(SCALES, FIXED),
}
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@EVERY
def test_values_are_those_of_scikit_learn_in_units_of_the_length_scales(kernel, rng):
    X, Y, unit = rng.randn(5, 3), rng.randn(4, 3), np.array(kernel.length_scale)
    assert_allclose(kernel(X, Y), laplacian_kernel(X / unit, Y / unit, gamma=1.0), rtol=1e-13)
    assert_allclose(kernel(X), laplacian_kernel(X / unit, gamma=1.0), rtol=1e-13)
    assert_array_equal(kernel.diag(X), np.ones(5))


def test_it_is_a_product_of_matern_kernels_of_the_columns(rng):
    X = rng.randn(6, 3)
    factors = [Matern(scale, nu=0.5)(X[:, [d]]) for d, scale in enumerate(SCALES)]
    assert_allclose(Laplacian(SCALES)(X), np.prod(factors, axis=0), rtol=1e-13)


@EVERY
def test_gradient_is_the_difference_of_values(kernel, rng):
    check_gradient(kernel, rng.randn(5, 3), rtol=1e-8, atol=1e-10)


@EVERY
def test_a_clone_and_a_pickled_copy_are_equal(kernel):
    check_copies(kernel)


def test_repr():
    kernel = 4.0 * Laplacian([0.5, 1 / 3])
    assert repr(kernel) == "2**2 * Laplacian(length_scale=[0.5, 0.333])"


@pytest.mark.parametrize("scale", [-1.0, [0.0, 1.0, 1.0], "a", None])
def test_length_scales_that_are_not_positive_are_refused(scale, rng):
    with pytest.raises(ValueError, match=r"Laplacian has length_scale=.*positive"):
        SparseGPRegressor(Laplacian(scale)).fit(rng.randn(9, 3), rng.randn(9))


def test_an_array_that_does_not_suit_the_columns_is_refused(rng):
    kernel, message = Laplacian([1.0, 2.0]), "X has 3 columns: give .*one for each column"
    with pytest.raises(ValueError, match=message):
        kernel(rng.randn(4, 3))
    with pytest.raises(ValueError, match=message):
        SparseGPRegressor(kernel).fit(rng.randn(9, 3), rng.randn(9))


# In the estimators


@EVERY
def test_a_point_at_each_row_is_the_exact_process_of_scikit_learn(kernel, rng):
    check_exact_process(kernel, rng, atol=1e-6)


def test_relevance_is_that_of_the_length_scales(rng):
    X = rng.randn(40, 3) * [1.0, 10.0, 0.1]
    relevance = column_relevance(3.0 * Laplacian([10.0, 1.0, 1e3]), measure_spread(X, np.ones(40)))
    assert_allclose(relevance, X.std(axis=0) / [10.0, 1.0, 1e3])


@pytest.fixture(scope="module")
def steps():
    """Targets that change sign where one of two columns exceeds a threshold."""
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(400, 3))
    return X, np.sign(X[:, 0] - 0.4) * np.sign(X[:, 1] - 0.6) + 0.1 * rng.standard_normal(400)


def test_gradient_of_the_bound(steps):
    X, y = steps
    kernel = 4.0 * Laplacian([1.0, 0.7, 2.0])
    model = SparseGPRegressor(kernel, n_inducing=20, optimizer=None).fit(X, y)
    theta = model.kernel_.theta - 0.3
    _, gradient = model.lower_bound(theta, X, y, eval_gradient=True)
    expected = central_difference(lambda t: model.lower_bound(t, X, y), theta)
    assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_thresholds_of_columns_are_learned_better_than_with_other_kernels(steps):
    X, y = steps
    laplacian, *others = (
        SparseGPRegressor(name, main_effects=False, tol=1e-4).fit(X[:250], y[:250])
        for name in ("laplacian", "rbf", "matern32", "matern12")
    )
    for other in others:
        assert laplacian.lower_bound_ > other.lower_bound_ + 10.0
        assert laplacian.score(X[250:], y[250:]) > other.score(X[250:], y[250:])


def test_points_may_be_moved(steps):
    X, y = steps[0], steps[1] > 0.0
    options = {"n_inducing": 12, "selector": "uniform", "main_effects": False, "tol": 1e-4}
    moved = SparseGPClassifier("laplacian", optimize_inducing=True, **options).fit(X, y)
    fixed = SparseGPClassifier("laplacian", **options).fit(X, y)
    assert moved.lower_bound_ > fixed.lower_bound_
    again = pickle.loads(pickle.dumps(moved))
    assert_array_equal(again.predict_proba(X), moved.predict_proba(X))


def test_it_may_stand_beside_others(steps):
    X, y = steps
    kernel = 1.0 * Laplacian(1.0) + 1.0 * RBF([1.0] * 3)
    model = SparseGPRegressor(kernel, n_inducing=40, tol=1e-3).fit(X, y)
    assert isinstance(model.kernel_.k1.k2, Laplacian)
    assert model.certificate(X, y).gap >= 0.0
