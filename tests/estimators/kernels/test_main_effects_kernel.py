"""The public kernel of main effects, against kernels of scikit-learn, and in the estimators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc.kernels import MainEffects
from tests.core.helpers import central_difference
from tests.estimators.kernels.kernel_checks import check_copies, check_exact_process, check_gradient

VARIANCES, SCALES = [0.4, 1.3, 2.0], [0.7, 1.3, 2.1]
FIXED = "fixed"
KERNELS = {
    "numbers": MainEffects(1.3, 0.8),
    "arrays": MainEffects(VARIANCES, SCALES),
    "variances": MainEffects(VARIANCES, 0.8),
    "length scales": MainEffects(1.3, SCALES),
    "fixed variances": MainEffects(VARIANCES, SCALES, variance_bounds=FIXED),
    "fixed length scales": MainEffects(VARIANCES, 0.8, length_scale_bounds=FIXED),
    "fixed": MainEffects(1.3, SCALES, FIXED, FIXED),
}
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def sum_of_columns(kernel, X, Y=None):
    """Return the matrix as a sum of scikit-learn's kernels of one column each."""
    variances = np.broadcast_to(kernel.variance, 3)
    length_scales = np.broadcast_to(kernel.length_scale, 3)
    return sum(
        (c * RBF(scale))(X[:, [d]], None if Y is None else Y[:, [d]])
        for d, (c, scale) in enumerate(zip(variances, length_scales, strict=True))
    )


@EVERY
def test_values_are_those_of_a_sum_of_kernels_of_one_column(kernel, rng):
    X, Y = rng.randn(5, 3), rng.randn(4, 3)
    assert_allclose(kernel(X, Y), sum_of_columns(kernel, X, Y), rtol=1e-13)
    assert_allclose(kernel(X), sum_of_columns(kernel, X), rtol=1e-13)
    assert_allclose(kernel.diag(X), kernel(X).diagonal(), rtol=1e-14)


@EVERY
def test_gradient_is_the_difference_of_values(kernel, rng):
    check_gradient(kernel, rng.randn(5, 3), rtol=1e-8, atol=1e-10)


@EVERY
def test_a_clone_and_a_pickled_copy_are_equal(kernel):
    check_copies(kernel)


def test_hyperparameters():
    kernel = MainEffects([1.0, 2.0], [3.0, 4.0], (0.1, 10.0), [(1.0, 5.0), (2.0, 6.0)])
    assert_allclose(np.exp(kernel.theta), [3.0, 4.0, 1.0, 2.0])
    assert_allclose(np.exp(kernel.bounds), [(1.0, 5.0), (2.0, 6.0), (0.1, 10.0), (0.1, 10.0)])
    assert kernel.is_stationary()
    assert KERNELS["fixed"].n_dims == 0
    assert KERNELS["numbers"].n_dims == 2
    assert_allclose(np.exp(KERNELS["fixed variances"].theta), SCALES)


def test_repr():
    assert repr(MainEffects()) == "MainEffects(variance=1, length_scale=1)"
    kernel = 2.0 * RBF() + MainEffects(np.array([1 / 3, 2.0]), [0.5])
    assert repr(kernel).endswith("+ MainEffects(variance=[0.333, 2], length_scale=0.5)")


@pytest.mark.parametrize("variance", [[[1.0, 2.0]], [[1.0]], [[1.0], [2.0, 3.0]], "a", None])
def test_values_that_are_no_numbers_are_shown_and_refused(variance, rng):
    kernel = MainEffects(variance)
    assert repr(kernel) == f"MainEffects(variance={variance!r}, length_scale=1)"
    with pytest.raises(ValueError, match=r"MainEffects has variance=.*it must be .* positive"):
        SparseGPRegressor(kernel).fit(rng.randn(9, 2), rng.randn(9))


@pytest.mark.parametrize("name", ["variance", "length_scale"])
def test_an_array_that_does_not_suit_the_columns_is_refused(name, rng):
    kernel = MainEffects(**{name: [1.0, 2.0]})
    message = rf"{name}.*but X has 3 columns: give .*one for each column"
    with pytest.raises(ValueError, match=message):
        kernel(rng.randn(4, 3))
    with pytest.raises(ValueError, match=message):
        SparseGPRegressor(kernel).fit(rng.randn(9, 3), rng.randn(9))


def test_the_gradient_of_a_rectangular_matrix_is_refused(rng):
    with pytest.raises(ValueError, match="Y=None"):
        MainEffects()(rng.randn(3, 2), rng.randn(4, 2), eval_gradient=True)


# In the estimators


@EVERY
def test_a_point_at_each_row_is_the_exact_process_of_scikit_learn(kernel, rng):
    check_exact_process(kernel, rng, atol=1e-6)


def test_names_of_parameters():
    adapted = adapt_kernel(2.0 * RBF() + MainEffects(VARIANCES, SCALES), 3)
    each = [f"k2__{name}[{d}]" for name in ("length_scale", "variance") for d in range(3)]
    assert adapted.names == ["k1__k1__constant_value", "k1__k2__length_scale", *each]
    assert [entry.effect for entry in adapted.entries] == [None, None, *[MainEffects] * 6]
    assert adapt_kernel(MainEffects(), 3).names == ["length_scale", "variance"]


def test_rescaling_moves_the_variances_of_effects(rng):
    X = rng.randn(20, 3)
    kernel = 2.0 * RBF(SCALES) + MainEffects(VARIANCES, SCALES, (1e-9, 1e9))
    adapted = adapt_kernel(kernel, 3).rescaled_to(50.0, X)
    moved = kernel.clone_with_theta(adapted.rescaled)
    assert_allclose(moved.diag(X), 50.0)
    factor = 50.0 / (2.0 + sum(VARIANCES))
    assert_allclose(moved.k2.variance, factor * np.array(VARIANCES))
    assert_allclose(moved.k2.length_scale, SCALES)


def test_start_values_of_length_scales_of_effects_are_deviations_of_columns(rng):
    X = rng.randn(60, 3) * [1.0, 10.0, 0.1]
    spread = measure_spread(X, np.ones(60))
    each = adapt_kernel(RBF(SCALES, (1e-9, 1e9)) + MainEffects(1.0, SCALES, FIXED, (1e-9, 1e9)), 3)
    longest = np.exp(start_values(each, spread)[1])
    assert_allclose(longest[3:], X.std(axis=0), rtol=1e-12)
    assert_allclose(longest[:3], np.sqrt(6.0) * X.std(axis=0), rtol=1e-12)
    common = start_values(adapt_kernel(MainEffects(1.0, 77.0), 3), spread)[1]
    assert_allclose(np.exp(common[0]), np.sqrt(np.mean(X.var(axis=0))), rtol=1e-12)


def test_relevance_counts_an_effect_by_its_share_of_the_variance(rng):
    X = rng.randn(40, 3) * [1.0, 10.0, 0.1]
    kernel = 5.0 * RBF([10.0, 1.0, 1e3]) + MainEffects([3.0, 1e-9, 2.0], [0.5, 1e-2, 1.0])
    relevance = column_relevance(kernel, measure_spread(X, np.ones(40)))
    assert_allclose(relevance, X.std(axis=0) * [np.sqrt(0.3) / 0.5, 1.0, np.sqrt(0.2)])


@pytest.fixture(scope="module")
def additive():
    rng = np.random.RandomState(3)
    X = np.column_stack([rng.uniform(-2, 2, (150, 2)), rng.randint(2, size=150)])
    f = np.sin(3.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - X[:, 2]
    return X, f, f + 0.05 * rng.randn(150)


KERNEL = ConstantKernel() * RBF(1.0) + MainEffects([1.0] * 3, [1.0] * 3)


def test_regressor_learns_an_additive_function(additive):
    X, f, y = additive
    model = SparseGPRegressor(KERNEL, n_inducing=60).fit(X[:100], y[:100])
    plain = SparseGPRegressor(ConstantKernel() * RBF([1.0] * 3), n_inducing=60).fit(
        X[:100], y[:100]
    )
    assert model.lower_bound_ > plain.lower_bound_ + 10.0
    error = np.sqrt(np.mean((model.predict(X[100:]) - f[100:]) ** 2))
    assert error < 0.05
    assert isinstance(model.kernel_.k2, MainEffects)
    assert model.feature_relevance_.shape == (3,)
    assert model.certificate(X[:100], y[:100]).gap >= 0.0
    smaller = model.truncate(10, X[:100], y[:100])
    assert smaller.lower_bound_ <= model.lower_bound_ + 1e-6
    assert model.sample_y(X[:5], 3).shape == (5, 3)


def test_gradient_of_the_bound(additive):
    X, _, y = additive
    model = SparseGPRegressor(KERNEL, n_inducing=20, optimizer=None).fit(X, y)
    theta = model.kernel_.theta - 0.3
    _, gradient = model.lower_bound(theta, X, y, eval_gradient=True)
    expected = central_difference(lambda t: model.lower_bound(t, X, y), theta)
    assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifier_with_moved_points(additive):
    X, f, _ = additive
    labels = f > np.median(f)
    kernel = MainEffects([1.0] * 3, [1.0] * 3, (1e-4, 1e4))
    options = {"n_inducing": 8, "selector": "uniform", "max_iter": 20}
    model = SparseGPClassifier(kernel, optimize_inducing=True, **options).fit(X, labels)
    fixed = SparseGPClassifier(kernel, **options).fit(X, labels)
    assert model.lower_bound_ > fixed.lower_bound_
    assert model.score(X, labels) > 0.9
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_effect_that_vanishes_raises_no_warning(additive, recwarn):
    X, _, y = additive
    X = np.column_stack([X[:, :2], np.random.RandomState(0).randn(150)])
    y = np.sin(3.0 * X[:, 0]) + 0.05 * np.random.RandomState(1).randn(150)
    SparseGPRegressor(MainEffects([1.0] * 3, [1.0] * 3), n_inducing=60).fit(X, y)
    assert [str(w.message) for w in recwarn if "limit" in str(w.message)] == []
