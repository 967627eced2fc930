"""The public orthogonal additive kernel, by itself and in the estimators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc.kernels import OrthogonalAdditive
from tests.estimators.kernels.kernel_checks import check_copies, check_exact_process, check_gradient

SCALES, FIXED = [0.7, 1.3, 2.1], "fixed"
KERNELS = {
    "numbers": OrthogonalAdditive(0.8, 1.3),
    "default": OrthogonalAdditive(),
    "arrays": OrthogonalAdditive(SCALES, [0.4, 1.3, 2.0], [0.3, -1.0, 0.0], 1.5),
    "fixed variances": OrthogonalAdditive(SCALES, variance_bounds=FIXED),
    "fixed length scales": OrthogonalAdditive(SCALES, length_scale_bounds=FIXED),
    "fixed": OrthogonalAdditive(0.8, 1.3, 0.0, 1.0, FIXED, FIXED),
}
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@EVERY
def test_gradient_is_the_difference_of_values(kernel, rng):
    X = rng.randn(4, 3)
    K = kernel(X)
    assert_allclose(K, kernel(X, X), rtol=1e-14)
    assert_allclose(K.diagonal(), kernel.diag(X), rtol=1e-12)
    check_gradient(kernel, X, rtol=1e-7, atol=1e-9)


@EVERY
def test_a_clone_and_a_pickled_copy_are_equal(kernel):
    check_copies(kernel)
    assert not kernel.is_stationary()


def test_hyperparameters_and_text():
    kernel = OrthogonalAdditive([3.0, 4.0], [1.0, 2.0], 0.5, 2.0, (0.1, 10.0))
    assert_allclose(np.exp(kernel.theta), [3.0, 4.0, 1.0, 2.0])
    assert kernel.set_params(input_std=1.0).input_std == 1.0
    assert repr(kernel) == (
        "OrthogonalAdditive(length_scale=[3, 4], variance=[1, 2], input_mean=0.5)"
    )
    assert repr(OrthogonalAdditive()) == "OrthogonalAdditive(length_scale=1, variance=[1, 1])"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"variance": [1.0] * 4}, r"from 1 to at most 3, the number of columns"),
        ({"variance": []}, r"variance=\[\]"),
        ({"variance": [[1.0, 1.0]]}, "one variance for each size of sets"),
        ({"variance": [1.0, -1.0]}, "2 positive, finite numbers: give for example 1.0 for each"),
        ({"variance": "a"}, "positive, finite number"),
        ({"length_scale": [1.0, 2.0]}, "X has 3 columns"),
        ({"length_scale": 0.0}, "length_scale=0.0"),
        ({"input_std": 0.0}, r"input_std=0.0.*positive, finite number.*X.std\(axis=0\)"),
        ({"input_std": [1.0, 1.0]}, "input_std"),
        ({"input_mean": np.nan}, r"input_mean=nan.*X.mean\(axis=0\)"),
    ],
)
def test_what_does_not_suit_the_columns_is_refused(settings, message, rng):
    X, y = rng.randn(9, 3), rng.randn(9)
    with pytest.raises(ValueError, match=message):
        SparseGPRegressor(OrthogonalAdditive(**settings)).fit(X, y)


def test_the_gradient_of_a_rectangular_matrix_is_refused(rng):
    with pytest.raises(ValueError, match="Y=None"):
        OrthogonalAdditive()(rng.randn(3, 2), rng.randn(4, 2), eval_gradient=True)


# In the estimators


@EVERY
def test_a_point_at_each_row_is_the_exact_process_of_scikit_learn(kernel, rng):
    check_exact_process(kernel, rng, atol=1e-5)


def test_variances_move_with_the_scale_of_the_targets(rng):
    X, kernel = rng.randn(20, 3), OrthogonalAdditive(SCALES)
    adapted = adapt_kernel(kernel, 3).rescaled_to(50.0, X)
    moved = kernel.clone_with_theta(adapted.rescaled)
    assert_allclose(moved.diag(X).mean(), 50.0)
    assert_allclose(moved.variance[0], moved.variance[1])
    assert_allclose(moved.length_scale, SCALES)


def test_start_values_and_relevance_follow_the_columns(rng):
    X, kernel = rng.randn(60, 3) * [1.0, 10.0, 0.1], OrthogonalAdditive([9.0, 9.0, 9.0])
    spread = measure_spread(X, np.ones(60))
    longest = start_values(adapt_kernel(kernel, 3), spread)[1]
    assert_allclose(np.exp(longest[:3]), X.std(axis=0), rtol=1e-12)
    assert_allclose(column_relevance(kernel, spread), X.std(axis=0) / 9.0)


def test_tied_length_scales_leave_the_variances_alone(rng):
    X, kernel = rng.randn(60, 3), OrthogonalAdditive(SCALES)
    spread, adapted = measure_spread(X, np.ones(60)), adapt_kernel(kernel, 3)
    prior = KernelChoice(kernel, "tied").prior(adapted, spread)
    unequal = adapted.theta + 2.0 * np.eye(5)[4]
    assert prior.log_density(unequal) == prior.log_density(adapted.theta)
    assert prior.log_density(adapted.theta + np.eye(5)[2]) < prior.log_density(unequal)


@pytest.fixture(scope="module")
def interacting():
    rng = np.random.RandomState(3)
    X = rng.randn(160, 3)
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, f, f + 0.05 * rng.randn(160)


def test_it_is_learned_as_scikit_learn_learns_it(interacting):
    X, _, y = (part[:50] for part in interacting)
    kernel = OrthogonalAdditive()
    full = GaussianProcessRegressor(kernel + WhiteKernel(0.1)).fit(X, y - y.mean())
    model = SparseGPRegressor(kernel, n_inducing=50, selection_tol=0.0).fit(X, y)
    assert model.lower_bound_ > full.log_marginal_likelihood_value_ - 1.0


# Main effects alone leave correlated residuals.
@pytest.mark.filterwarnings(
    "ignore:residuals of neighbouring:sklearn.exceptions.ConvergenceWarning"
)
def test_interactions_are_learned_where_they_are(interacting):
    X, f, y = interacting
    models = [
        SparseGPRegressor(OrthogonalAdditive([1.0] * 3, variance), n_inducing=50).fit(
            X[:120], y[:120]
        )
        for variance in ([1.0, 1.0], 1.0)
    ]
    errors = [np.sqrt(np.mean((model.predict(X[120:]) - f[120:]) ** 2)) for model in models]
    assert errors[0] < 0.1 < errors[1]
    assert models[0].lower_bound_ > models[1].lower_bound_ + 50.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifier_with_moved_points(interacting):
    X, f, _ = interacting
    kernel, labels = OrthogonalAdditive([1.0] * 3), f > 0.0
    options = {"n_inducing": 8, "selector": "uniform", "max_iter": 20}
    fixed = SparseGPClassifier(kernel, **options).fit(X, labels)
    model = SparseGPClassifier(kernel, optimize_inducing=True, **options).fit(X, labels)
    assert model.lower_bound_ > fixed.lower_bound_
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
