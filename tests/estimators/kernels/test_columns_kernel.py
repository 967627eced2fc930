"""The public kernel of some columns, against kernels of these columns alone."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Kernel,
    Matern,
    WhiteKernel,
)

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc.kernels import Columns, MainEffects

NESTED = {
    "one length scale": RBF(0.8),
    "each": Matern([0.7, 1.3], nu=1.5),
    "a sum": 2.0 * RBF([0.7, 1.3]) + DotProduct(0.5, "fixed"),
    "main effects": MainEffects([0.4, 1.3], 0.9),
    "by finite differences": RBF(0.8) ** 2.0,
    "columns of columns": Columns(ExpSineSquared(1.2, 3.0), [1]),
}
EVERY = pytest.mark.parametrize("nested", NESTED.values(), ids=NESTED)
PLACES = [3, 1]


@EVERY
def test_it_is_the_nested_kernel_of_these_columns(nested, rng):
    X, Y, kernel = rng.randn(5, 4), rng.randn(4, 4), Columns(nested, PLACES)
    assert_array_equal(kernel(X, Y), nested(X[:, PLACES], Y[:, PLACES]))
    assert_array_equal(kernel.diag(X), nested.diag(X[:, PLACES]))
    for found, expected in zip(
        kernel(X, eval_gradient=True), nested(X[:, PLACES], eval_gradient=True), strict=True
    ):
        assert_array_equal(found, expected)
    assert kernel.is_stationary() == nested.is_stationary()


@EVERY
def test_the_core_computes_the_same(nested, rng):
    Z, X, kernel = rng.randn(3, 4), rng.randn(5, 4), Columns(nested, PLACES)
    adapted = adapt_kernel(kernel, 4)
    assert_allclose(adapted.kernel.value(adapted.theta, Z, X), kernel(Z, X), rtol=1e-12)
    assert_allclose(adapted.kernel.diag(adapted.theta, X), kernel.diag(X), rtol=1e-12)
    assert len(adapted.names) == len(adapted.columns) == len(adapted.theta)


@EVERY
def test_clones_copies_and_parameters(nested):
    kernel = Columns(nested, PLACES)
    assert clone(kernel) == kernel == pickle.loads(pickle.dumps(kernel))
    assert kernel != Columns(nested, [1, 3])
    assert kernel != nested
    assert_allclose(kernel.clone_with_theta(kernel.theta + 1.0).theta, nested.theta + 1.0)
    assert_array_equal(kernel.bounds, nested.bounds)
    assert [h.name for h in kernel.hyperparameters] == [
        f"kernel__{h.name}" for h in nested.hyperparameters
    ]
    changed = clone(kernel).set_params(columns=[0, 2])
    assert changed.columns == [0, 2]
    assert changed.get_params()["kernel"] == nested


@pytest.mark.parametrize("columns", [1, None, "a", [0.5]])
def test_columns_to_be_refused_are_printed_and_compared(columns):
    kernel = Columns(RBF(1.0), columns)
    assert repr(kernel) == f"Columns(RBF(length_scale=1), {columns!r})"
    assert kernel != Columns(RBF(1.0), [1])
    assert kernel == clone(kernel)


@pytest.mark.parametrize("columns", [[0, 2], (0, 2), range(0, 3, 2), np.array([0, 2])])
def test_columns_in_any_sequence_are_equal(columns):
    kernel = Columns(RBF(1.0), columns)
    assert repr(kernel) == "Columns(RBF(length_scale=1), [0, 2])"
    assert kernel == Columns(RBF(1.0), [0, 2])


def test_nested_parameters_can_be_set():
    kernel = Columns(RBF(1.0), [0]).set_params(kernel__length_scale=2.0)
    assert kernel.kernel.length_scale == 2.0


def test_length_scales_belong_to_columns_of_the_rows():
    kernel = Columns(RBF([1.0, 1.0]), PLACES) + Columns(RBF(1.0), PLACES) + Columns(RBF(1.0), [2])
    adapted = adapt_kernel(kernel + MainEffects([1.0] * 4), 4)
    assert adapted.columns[:5] == [3, 1, (3, 1), 2, "all"]
    nested = Columns(Columns(MainEffects([1.0, 1.0], [1.0, 1.0]), [2, 0]), [1, 0, 3])
    assert adapt_kernel(nested, 4).columns[:2] == [3, 1]
    assert "length_scale[3]" in adapted.names[0]


def test_start_values_and_relevance_follow_the_group(rng):
    X = rng.randn(2000, 4) * [1.0, 10.0, 100.0, 1000.0]
    spread = measure_spread(X, np.ones(2000))
    kernel = Columns(RBF(1.0), [0, 1])
    starts = start_values(adapt_kernel(kernel, 4), spread)
    distance = np.sqrt(2.0 * (X[:, :2].std(axis=0) ** 2).sum())
    assert_allclose(np.exp(starts[1]), distance, rtol=1e-9)
    relevance = column_relevance(Columns(RBF(5.0), [0, 1]) + Columns(RBF([50.0]), [2]), spread)
    assert_allclose(relevance, spread.deviations * [0.2, 0.2, 0.02, 0.0])


class OnFirst(Kernel):
    """A user's kernel of the first two columns."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.kernel(X[:, :2], None if Y is None else Y[:, :2])

    def diag(self, X):
        return self.kernel.diag(X[:, :2])

    def is_stationary(self):
        return True


def test_parts_of_a_user_s_kernel_may_see_columns_that_nobody_knows(rng):
    spread = measure_spread(rng.randn(50, 3), np.ones(50))
    assert column_relevance(OnFirst(RBF([1.0, 2.0])), spread) is None
    relevance = column_relevance(OnFirst(RBF([1.0, 2.0])) + Columns(RBF(2.0), [2]), spread)
    assert_allclose(relevance, spread.deviations * [0.0, 0.0, 0.5])


def additive(rng, n=150):
    X = rng.uniform(-2.0, 2.0, (n, 3))
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.randn(n)


def test_it_is_learned_as_scikit_learn_learns_it(rng):
    X, y = additive(rng, 80)
    kernel = 1.0 * Columns(RBF(1.0), [0]) + 1.0 * Columns(RBF([1.0, 1.0]), [1, 2])
    full = GaussianProcessRegressor(kernel + WhiteKernel(0.1)).fit(X, y - y.mean())
    model = SparseGPRegressor(kernel, n_inducing=80, selection_tol=0.0).fit(X, y)
    assert model.lower_bound_ > full.log_marginal_likelihood_value_ - 1.0
    assert str(model.kernel_).count("Columns") == 2


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_points_can_be_moved_and_groups_make_functions_easier(rng):
    X, y = additive(rng)
    together = SparseGPRegressor(1.0 * RBF([1.0] * 3), n_inducing=30).fit(X[:100], y[:100])
    kernel = 1.0 * Columns(RBF(1.0), [0]) + 1.0 * Columns(RBF(1.0), [1, 2])
    apart = SparseGPRegressor(kernel, n_inducing=30).fit(X[:100], y[:100])
    assert apart.lower_bound_ > together.lower_bound_ + 10.0
    assert apart.score(X[100:], y[100:]) > together.score(X[100:], y[100:])
    moved = SparseGPRegressor(kernel, n_inducing=15, optimize_inducing=True).fit(X, y)
    assert moved.lower_bound_ > SparseGPRegressor(kernel, n_inducing=15).fit(X, y).lower_bound_


def test_a_category_gets_one_length_scale(rng):
    group = rng.randint(0, 5, 200)
    X = np.column_stack([rng.uniform(-1.0, 1.0, 200), np.eye(5)[group]])
    y = np.sin(3.0 * X[:, 0]) * group > 0.0
    kernel = 1.0 * Columns(RBF(1.0), [0]) * Columns(RBF(1.0), range(1, 6))
    model = SparseGPClassifier(kernel, n_inducing=40).fit(X, y)
    assert len(model.kernel_.theta) == 3
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("columns", [[0, 3], [-1], [0, 0], [], 1, [0.0], [[0]], None])
def test_columns_that_are_none_are_refused(columns, rng):
    X, y = additive(rng, 20)
    with pytest.raises(ValueError, match=r"Columns has columns=.*from 0 to 2: give for example"):
        SparseGPRegressor(Columns(RBF(1.0), columns)).fit(X, y)


def test_names_of_columns_are_refused_with_the_reason(rng):
    X, y = additive(rng, 20)
    with pytest.raises(ValueError, match="from 0 to 2: kernels do not know names; give for"):
        SparseGPRegressor(Columns(RBF(1.0), ["a"])).fit(X, y)


def test_what_does_not_suit_the_group_is_refused(rng):
    X, y = additive(rng, 20)
    with pytest.raises(ValueError, match="the part of X that it sees has 1 columns"):
        SparseGPRegressor(Columns(RBF([1.0, 2.0]), [0])).fit(X, y)
    with pytest.raises(ValueError, match="WhiteKernel"):
        SparseGPRegressor(Columns(ConstantKernel() * WhiteKernel(), [0])).fit(X, y)
