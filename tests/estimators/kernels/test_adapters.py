"""scikit-learn's kernel objects against what the adapter makes of them, and start values."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from sparsegpc._core.bounds.features import factor_inducing, features
from sparsegpc._estimators.kernels.adapters import adapt_kernel, split_white
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.kernels.starts import column_relevance, default_kernel, start_values

D = 3
SCALES = [0.7, 1.3, 2.1]
FIXED = "fixed"
WIDE = (1e-30, 1e30)


class Laplace(sk.StationaryKernelMixin, sk.NormalizedKernelMixin, sk.Kernel):
    """A user's kernel: exp(-sum_d |x_d - y_d| / l_d), with a gradient of its own."""

    def __init__(self, length_scale=(1.0,), length_scale_bounds=(1e-5, 1e5)):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self):
        return sk.Hyperparameter(
            "length_scale", "numeric", self.length_scale_bounds, len(self.length_scale)
        )

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        parts = np.abs(X[:, None] - Y) / np.asarray(self.length_scale)
        K = np.exp(-parts.sum(axis=2))
        if not eval_gradient:
            return K
        if self.hyperparameter_length_scale.fixed:
            return K, np.empty((*K.shape, 0))
        return K, K[:, :, None] * parts


class SquaredRBF(RBF):
    """A subclass that computes something else than its parent."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return super().__call__(X, Y) ** 2
        K, gradient = super().__call__(X, Y, eval_gradient=True)
        return K**2, 2.0 * K[:, :, None] * gradient


class TwiceMatern(Matern):
    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            return 2.0 * super().__call__(X, Y)
        K, gradient = super().__call__(X, Y, eval_gradient=True)
        return 2.0 * K, 2.0 * gradient

    def diag(self, X):
        return 2.0 * super().diag(X)


class Hoarder(sk.StationaryKernelMixin, sk.Kernel):
    """A kernel that keeps the arrays that it has handed out, and hands them out again."""

    kept = {}

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        key = ("K", X.tobytes(), Y.tobytes())
        return self.kept.setdefault(key, np.exp(-((X[:, None] - Y) ** 2).sum(axis=2)))

    def diag(self, X):
        return self.kept.setdefault(("diag", X.tobytes()), np.ones(len(X)))


class Wrapper(sk.StationaryKernelMixin, sk.Kernel):
    """A user's kernel made of another one."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.inner(X, Y)

    def diag(self, X):
        return self.inner.diag(X)


class Case(NamedTuple):
    """A kernel, and how accurate scikit-learn's own gradient of it is."""

    kernel: sk.Kernel
    gradient_rtol: float = 1e-9


# Where scikit-learn itself takes forward differences, with a step of 1e-10.
FORWARD = 3e-5
# Where our derivatives are central differences.
CENTRAL = 1e-7

CASES = {
    "rbf": Case(RBF(0.8)),
    "rbf-per-column": Case(RBF(SCALES)),
    "rbf-length-one-array": Case(RBF(np.array([0.8]))),
    "rbf-fixed": Case(RBF(0.8, FIXED)),
    "rbf-per-column-fixed": Case(RBF(SCALES, FIXED)),
    "matern12": Case(Matern(0.8, nu=0.5)),
    "matern12-per-column": Case(Matern(SCALES, nu=0.5)),
    "matern32": Case(Matern(0.8, nu=1.5)),
    "matern32-per-column": Case(Matern(SCALES, nu=1.5)),
    "matern52": Case(Matern(0.8, nu=2.5)),
    "matern52-per-column": Case(Matern(SCALES, nu=2.5)),
    "matern-inf": Case(Matern(0.8, nu=np.inf)),
    "matern-inf-per-column": Case(Matern(SCALES, nu=np.inf)),
    "matern07": Case(Matern(0.8, nu=0.7), FORWARD),
    "matern07-per-column": Case(Matern(SCALES, nu=0.7), FORWARD),
    "matern07-fixed": Case(Matern(0.8, FIXED, nu=0.7)),
    "rational": Case(RationalQuadratic(0.8, 1.7)),
    "rational-fixed-alpha": Case(RationalQuadratic(0.8, 1.7, alpha_bounds=FIXED)),
    "rational-fixed-length": Case(RationalQuadratic(0.8, 1.7, length_scale_bounds=FIXED)),
    "periodic": Case(ExpSineSquared(0.8, 2.7)),
    "periodic-fixed-length": Case(ExpSineSquared(0.8, 2.7, length_scale_bounds=FIXED)),
    "periodic-fixed-period": Case(ExpSineSquared(0.8, 2.7, periodicity_bounds=FIXED)),
    "linear": Case(DotProduct(0.6)),
    "linear-fixed": Case(DotProduct(0.6, FIXED)),
    "constant": Case(ConstantKernel(2.3)),
    "constant-fixed": Case(ConstantKernel(2.3, FIXED)),
    "constant-times": Case(ConstantKernel(2.3) * RBF(SCALES)),
    "times-constant": Case(Matern(SCALES, nu=1.5) * ConstantKernel(2.3)),
    "fixed-constant-times": Case(ConstantKernel(2.3, FIXED) * RBF(SCALES)),
    "times-fixed-constant": Case(DotProduct(0.6) * ConstantKernel(2.3, FIXED)),
    "constant-times-fixed": Case(ConstantKernel(2.3) * RBF(0.8, FIXED)),
    "number-times": Case(4.0 * RBF(0.8) * 0.5),
    "constant-times-constant": Case(ConstantKernel(2.3) * ConstantKernel(0.4)),
    "constants-and-a-kernel": Case(ConstantKernel(2.3) * (RBF(0.8) * ConstantKernel(0.4))),
    "constant-times-sum": Case(ConstantKernel(2.3) * (RBF(0.8) + DotProduct(0.6))),
    "sum-with-constant": Case(ConstantKernel(0.3) + RBF(SCALES)),
    "sum-fixed-left": Case(RBF(SCALES, FIXED) + Matern(0.8, nu=1.5)),
    "sum-fixed-right": Case(RBF(SCALES) + Matern(0.8, FIXED, nu=1.5)),
    "product": Case(RBF(SCALES) * RationalQuadratic(0.8, 1.7)),
    "product-fixed-left": Case(RBF(0.8, FIXED) * ExpSineSquared(1.3, 2.7)),
    "quadratic": Case(DotProduct(0.6) * DotProduct(1.2)),
    "nested": Case(
        ConstantKernel(2.3) * RBF(SCALES) * DotProduct(0.6)
        + ConstantKernel(0.4) * (Matern(0.8, nu=2.5) + RationalQuadratic(1.1, 0.5))
    ),
    "nested-fixed": Case(
        (RBF(0.8, FIXED) + DotProduct(0.6))
        * (ConstantKernel(2.3, FIXED) * Matern(SCALES, nu=0.5) + RBF(0.3, FIXED))
        + ExpSineSquared(0.8, 2.7, periodicity_bounds=FIXED)
    ),
    "power": Case(Exponentiation(RBF(SCALES), 2), CENTRAL),
    "power-of-a-sum": Case((RBF(0.8, FIXED) + DotProduct(0.6)) ** 2, CENTRAL),
    "power-within": Case(ConstantKernel(2.3) * RBF(0.8) ** 3 + DotProduct(0.6), CENTRAL),
    "pairwise": Case(PairwiseKernel(0.8, metric="rbf"), FORWARD),
    "pairwise-fixed": Case(PairwiseKernel(0.8, FIXED, metric="rbf")),
    "pairwise-within": Case(
        ConstantKernel(2.3) * PairwiseKernel(0.8, metric="laplacian") + RBF(0.5), FORWARD
    ),
    "of-the-user": Case(Laplace(SCALES), CENTRAL),
    "of-the-user-fixed": Case(Laplace(SCALES, FIXED)),
    "of-the-user-within": Case(
        ConstantKernel(2.3) * Laplace(SCALES) + Laplace((0.5, 1.0, 2.0), FIXED) * RBF(SCALES),
        CENTRAL,
    ),
    "subclass": Case(SquaredRBF(0.8), CENTRAL),
    "subclass-per-column": Case(ConstantKernel(2.3) * SquaredRBF(SCALES), CENTRAL),
    "subclass-diag": Case(TwiceMatern(0.8, nu=1.5) * RBF(SCALES), CENTRAL),
}
EVERY_CASE = pytest.mark.parametrize("name", CASES)


def read_only(array):
    array.flags.writeable = False
    return array


def thetas(kernel, n=3):
    """Return the kernel's own theta, and others around it."""
    rng = np.random.RandomState(1)
    return [kernel.theta, *(kernel.theta + rng.uniform(-0.7, 0.7, kernel.n_dims) for _ in range(n))]


def rows(rng, n):
    return read_only(rng.randn(n, D))


def symmetric(rng, n):
    A = rng.randn(n, n)
    return read_only(A + A.T)


def five_point(function, theta, step=2e-3):
    """Return the derivatives of an array w.r.t. each entry of theta, in the last axis."""
    columns = []
    for k in range(len(theta)):
        e = np.zeros(len(theta))
        e[k] = step
        one, two = (function(theta + j * e) - function(theta - j * e) for j in (1, 2))
        columns.append((8.0 * one - two) / (12.0 * step))
    return np.stack(columns, axis=-1) if columns else np.empty((*function(theta).shape, 0))


# Values and derivatives


@EVERY_CASE
def test_values_are_those_of_scikit_learn(name, rng):
    kernel, Z, X = CASES[name].kernel, rows(rng, 4), rows(rng, 6)
    adapted = adapt_kernel(kernel, D)
    for theta in thetas(kernel):
        expected = kernel.clone_with_theta(theta)
        assert_allclose(adapted.kernel.value(theta, Z, X), expected(Z, X), rtol=1e-12, atol=1e-14)
        assert_allclose(adapted.kernel.value(theta, X, X), expected(X), rtol=1e-12, atol=1e-14)
        K, _ = adapted.kernel.evaluate(theta, Z, X)
        assert_allclose(K, expected(Z, X), rtol=1e-12, atol=1e-14)


@EVERY_CASE
def test_diagonal_is_that_of_scikit_learn(name, rng):
    kernel, X = CASES[name].kernel, rows(rng, 6)
    adapted = adapt_kernel(kernel, D)
    for theta in thetas(kernel):
        expected = kernel.clone_with_theta(theta).diag(X)
        assert_allclose(adapted.kernel.diag(theta, X), expected, rtol=1e-13)


@EVERY_CASE
def test_gradient_is_the_contraction_of_that_of_scikit_learn(name, rng):
    (kernel, rtol), X, adjoint = CASES[name], rows(rng, 7), symmetric(rng, 7)
    adapted = adapt_kernel(kernel, D)
    for theta in thetas(kernel):
        _, gradient = kernel.clone_with_theta(theta)(X, eval_gradient=True)
        gradient = gradient.reshape(7, 7, len(theta))
        expected = np.einsum("mn,mnp->p", adjoint, gradient)
        # The sum may cancel; its terms say what accuracy means.
        size = np.einsum("mn,mnp->p", np.abs(adjoint), np.abs(gradient))
        _, pullback = adapted.kernel.evaluate(theta, X, X)
        actual, none = pullback(adjoint)
        assert none is None
        assert actual.shape == theta.shape
        assert (np.abs(actual - expected) <= rtol * size).all()


@EVERY_CASE
def test_gradient_of_the_diagonal_is_that_of_scikit_learn(name, rng):
    (kernel, _), X, adjoint = CASES[name], rows(rng, 5), read_only(rng.randn(5))
    adapted = adapt_kernel(kernel, D)
    for theta in thetas(kernel, 1):
        derivative = five_point(lambda t: kernel.clone_with_theta(t).diag(X), theta)
        actual = adapted.kernel.diag_pullback(theta, X, adjoint)
        assert_allclose(actual, adjoint @ derivative, rtol=1e-7, atol=1e-9)


@EVERY_CASE
def test_gradient_of_a_rectangular_matrix_is_the_difference_of_values(name, rng):
    (kernel, _), Z, X = CASES[name], rows(rng, 3), rows(rng, 5)
    adapted, adjoint = adapt_kernel(kernel, D), read_only(rng.randn(3, 5))
    for theta in thetas(kernel, 1):
        derivative = five_point(lambda t: kernel.clone_with_theta(t)(Z, X), theta)
        actual, _ = adapted.kernel.evaluate(theta, Z, X)[1](adjoint)
        expected = np.einsum("mn,mnp->p", adjoint, derivative)
        assert_allclose(actual, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
@pytest.mark.parametrize("scales", [0.8, SCALES], ids=["one", "per-column"])
def test_rows_that_occur_twice(nu, scales, rng):
    X = read_only(np.repeat(rng.randn(4, D), 2, axis=0))
    kernel = ConstantKernel(2.0) * Matern(scales, nu=nu)
    adapted, adjoint = adapt_kernel(kernel, D), symmetric(rng, 8)
    expected, gradient = kernel(X, eval_gradient=True)
    K, pullback = adapted.kernel.evaluate(kernel.theta, X, X)
    # The square root of rounding in the squared distance, where the kernel has a kink.
    assert_allclose(K, expected, atol=1e-7)
    assert_allclose(pullback(adjoint)[0], np.einsum("mn,mnp->p", adjoint, gradient), atol=1e-6)


def test_values_at_a_large_offset(rng):
    # A power of two keeps the differences of the rows exact.
    near, far = rng.randint(-64, 64, size=(6, D)) / 32.0, 2.0**20
    kernel = ConstantKernel(2.0) * RBF(SCALES) + Matern(0.8, nu=1.5)
    adapted = adapt_kernel(kernel, D)
    value = adapted.kernel.value(kernel.theta, near[:3] + far, near + far)
    assert_allclose(value, kernel(near[:3], near), rtol=1e-11)


# Parameters


@EVERY_CASE
def test_theta_and_bounds_are_those_of_scikit_learn(name):
    kernel = CASES[name].kernel
    adapted = adapt_kernel(kernel, D)
    assert_array_equal(adapted.theta, kernel.theta)
    assert adapted.theta.dtype == np.float64
    assert adapted.bounds.shape == (kernel.n_dims, 2)
    assert_array_equal(adapted.bounds, np.reshape(kernel.bounds, (-1, 2)))


@EVERY_CASE
def test_names_are_those_of_the_free_hyperparameters(name):
    kernel = CASES[name].kernel
    expected = []
    for h in kernel.hyperparameters:
        if not h.fixed:
            indices = [""] if h.n_elements == 1 else [f"[{k}]" for k in range(h.n_elements)]
            expected.extend(h.name + index for index in indices)
    assert adapt_kernel(kernel, D).names == expected


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("rbf", ["all"]),
        ("rbf-per-column", [0, 1, 2]),
        ("rbf-length-one-array", ["all"]),
        ("rbf-per-column-fixed", []),
        ("matern12", ["all"]),
        ("matern52-per-column", [0, 1, 2]),
        ("matern-inf", ["all"]),
        ("rational", [None, "all"]),
        ("rational-fixed-alpha", ["all"]),
        ("rational-fixed-length", [None]),
        ("periodic", [None, None]),
        ("linear", [None]),
        ("constant-times", [None, 0, 1, 2]),
        ("times-constant", [0, 1, 2, None]),
        ("fixed-constant-times", [0, 1, 2]),
        ("constant-times-fixed", [None]),
        ("nested", [None, 0, 1, 2, None, None, "all", None, "all"]),
        ("nested-fixed", [None, 0, 1, 2, None]),
        # Where only values are known, nobody knows what a length scale is.
        ("matern07-per-column", [None, None, None]),
        ("power", [None, None, None]),
        ("of-the-user", [None, None, None]),
        ("subclass-per-column", [None, None, None, None]),
    ],
)
def test_columns_say_which_entries_are_length_scales(name, columns):
    assert adapt_kernel(CASES[name].kernel, D).columns == columns


def test_one_length_scale_in_an_array_for_one_column_is_common_to_all():
    adapted = adapt_kernel(RBF([0.8]), 1)
    assert adapted.columns == ["all"]
    assert adapted.names == ["length_scale"]


def test_a_kernel_without_free_hyperparameters_has_an_empty_theta(rng):
    kernel = ConstantKernel(2.0, FIXED) * RBF(SCALES, FIXED)
    adapted, X = adapt_kernel(kernel, D), rows(rng, 4)
    assert adapted.theta.shape == (0,)
    assert adapted.bounds.shape == (0, 2)
    assert adapted.kernel.evaluate(adapted.theta, X, X)[1](np.ones((4, 4)))[0].shape == (0,)


@pytest.mark.parametrize(
    "kernel",
    [
        DotProduct(0.0, FIXED),
        ConstantKernel(2.0) * DotProduct(0.0, FIXED),
        DotProduct(0.0, FIXED) * DotProduct(0.0, FIXED) + RBF(0.8),
    ],
    ids=["alone", "scaled", "quadratic"],
)
def test_homogeneous_linear_kernel(kernel, rng):
    """scikit-learn documents an offset of zero, which has no logarithm but may be fixed."""
    adapted, X = adapt_kernel(kernel, D), rows(rng, 4)
    K, pullback = adapted.kernel.evaluate(adapted.theta, X, X)
    assert_allclose(K, kernel(X), rtol=1e-12, atol=1e-14)
    assert_allclose(adapted.kernel.diag(adapted.theta, X), kernel.diag(X), rtol=1e-13)
    assert np.isfinite(pullback(np.ones((4, 4)))[0]).all()


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (lambda value: ConstantKernel(value, FIXED), "constant_value"),
        (lambda value: ConstantKernel(1.0) * RBF(value, FIXED), "length_scale"),
        (lambda value: RBF([1.0, value, 2.0]), "length_scale"),
        (lambda value: RationalQuadratic(1.0, value), "alpha"),
        (lambda value: RBF() + ExpSineSquared(1.0, value), "periodicity"),
    ],
    ids=["constant", "fixed", "per-column", "alpha", "period"],
)
def test_hyperparameters_without_a_finite_logarithm_are_refused_by_name(kernel, name, value):
    with pytest.raises(ValueError, match=f"{name}=.*positive and finite"):
        adapt_kernel(kernel(value), D)


@EVERY_CASE
def test_the_kernel_given_is_not_modified(name, rng):
    kernel, X = CASES[name].kernel, rows(rng, 4)
    before, theta = repr(kernel), kernel.theta
    adapted = adapt_kernel(kernel, D)
    adapted.kernel.evaluate(adapted.theta + 0.1, X, X)[1](np.ones((4, 4)))
    adapted.theta[:] = 7.0
    adapted.bounds[:] = 7.0
    assert repr(kernel) == before
    assert_array_equal(kernel.theta, theta)


# Kernels known by their values only


def test_an_array_that_a_kernel_keeps_is_not_overwritten(rng):
    kernel, Z, X = Hoarder(), rows(rng, 3), rows(rng, 5)
    adapted = adapt_kernel(kernel, D)
    Hoarder.kept.clear()
    (Luu, _), _ = factor_inducing(adapted.kernel, adapted.theta, Z)
    features(adapted.kernel, adapted.theta, Z, Luu, X)
    adapted.kernel.value(adapted.theta, Z, X)[:] = 7.0
    adapted.kernel.diag(adapted.theta, X)[:] = 7.0
    for key, kept in Hoarder.kept.items():
        fresh = np.array(kept)
        if key[0] == "diag":
            fresh[:] = 1.0
        else:
            left, right = (np.frombuffer(part).reshape(-1, D) for part in key[1:])
            fresh = np.exp(-((left[:, None] - right) ** 2).sum(axis=2))
        assert_array_equal(kept, fresh)
    assert len(Hoarder.kept) == 3


def test_values_of_the_wrong_shape_are_refused_with_both_shapes(rng):
    class Transposed(Hoarder):
        def __call__(self, X, Y=None, eval_gradient=False):
            return super().__call__(X, Y).T

    adapted = adapt_kernel(Transposed(), D)
    with pytest.raises(ValueError, match=r"\(5, 3\).*3 and 5 rows.*\(3, 5\)"):
        adapted.kernel.value(adapted.theta, rows(rng, 3), rows(rng, 5))


def test_a_diagonal_of_the_wrong_shape_is_refused_with_both_shapes(rng):
    class Square(Hoarder):
        def diag(self, X):
            return np.ones((len(X), 1))

    adapted = adapt_kernel(Square(), D)
    with pytest.raises(ValueError, match=r"\(5, 1\) for 5 rows, expected \(5,\)"):
        adapted.kernel.diag(adapted.theta, rows(rng, 5))


@pytest.mark.parametrize("name", ["matern07", "power", "of-the-user-within", "subclass"])
def test_gradient_with_respect_to_points_is_refused_where_only_values_are_known(name, rng):
    adapted, X = adapt_kernel(CASES[name].kernel, D), rows(rng, 4)
    _, pullback = adapted.kernel.evaluate(adapted.theta, X, X)
    with pytest.raises(NotImplementedError, match="inducing points"):
        pullback(np.ones((4, 4)), True)


# What is refused

WHITE = WhiteKernel(0.1)


class UsersWhite(WhiteKernel):
    pass


HOLD_WHITE = {
    "alone": WHITE,
    "sum": RBF() + WHITE,
    "left-of-a-sum": WHITE + RBF(),
    "product": WHITE * ConstantKernel(2.0),
    "deep": ConstantKernel(1.0) * (RBF() + DotProduct() * (Matern() + WHITE)) + RBF(),
    "power": ConstantKernel(1.0) * (RBF() + WHITE) ** 2,
    "power-deep": RBF() + ((RBF() * (RBF() + WHITE)) ** 2 + RBF()) ** 2,
    "fixed": RBF() + WhiteKernel(0.1, FIXED),
    "subclass": RBF() + UsersWhite(0.1),
    "of-the-user": Wrapper(WHITE),
    "of-the-user-deep": RBF() + Wrapper(RBF() + WHITE),
}


@pytest.mark.parametrize("name", HOLD_WHITE)
def test_white_kernel_is_refused_with_the_reason(name):
    with pytest.raises(ValueError, match="WhiteKernel, but labels are noisy already"):
        adapt_kernel(HOLD_WHITE[name], D, refuse_white="labels are noisy already")


@pytest.mark.parametrize("name", HOLD_WHITE)
def test_white_kernel_passes_if_it_is_not_refused(name, rng):
    kernel, Z, X = HOLD_WHITE[name], rows(rng, 3), rows(rng, 5)
    adapted = adapt_kernel(kernel, D)
    assert_allclose(adapted.kernel.value(adapted.theta, Z, X), kernel(Z, X), rtol=1e-12)
    assert_allclose(adapted.kernel.diag(adapted.theta, X), kernel.diag(X), rtol=1e-12)


def test_refusing_white_lets_other_kernels_pass():
    for case in CASES.values():
        adapt_kernel(case.kernel, D, refuse_white="labels are noisy already")


@pytest.mark.parametrize(
    "kernel",
    [
        CompoundKernel([RBF(), DotProduct()]),
        ConstantKernel(1.0) * Exponentiation(CompoundKernel([RBF(), RBF()]), 2),
        RBF() + Wrapper(CompoundKernel([RBF(), RBF()])),
    ],
    ids=["alone", "deep", "of-the-user"],
)
def test_compound_kernel_is_refused(kernel):
    with pytest.raises(ValueError, match="CompoundKernel"):
        adapt_kernel(kernel, D)


@pytest.mark.parametrize("kernel", [None, "rbf", RBF, 1.0, np.eye(2)], ids=repr)
def test_what_is_no_kernel_is_refused(kernel):
    with pytest.raises(TypeError, match="kernel must be None or an instance of"):
        adapt_kernel(kernel, D)


@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(SCALES),
        Matern(SCALES, nu=0.5),
        RBF(SCALES, FIXED),
        ConstantKernel(2.0) * (DotProduct() + Matern(SCALES, nu=np.inf)),
    ],
    ids=["rbf", "matern", "fixed", "deep"],
)
def test_wrong_number_of_length_scales_is_refused_with_both_numbers(kernel, n_features):
    with pytest.raises(ValueError, match=f"has 3 length scales, but X has {n_features} column"):
        adapt_kernel(kernel, n_features)


# Spread


def brute_force_spread(X):
    """Standard deviations, and the root mean square distance over all pairs of rows."""
    distances = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    return X.std(axis=0), np.sqrt(np.mean(distances**2))


@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 2**31))
def test_spread_with_weights_is_that_of_repeated_rows(n, d, seed):
    rng = np.random.RandomState(seed)
    # Exact in binary, so that columns of equal entries have no spread in the oracle either.
    X, weight = read_only(rng.randint(-9, 9, size=(n, d)) / 4.0), rng.randint(1, 5, size=n)
    columns, distance = brute_force_spread(np.repeat(X, weight, axis=0))
    spread = measure_spread(X, weight.astype(np.float64))
    varies = np.ptp(X, axis=0) > 0.0
    assert_array_equal(spread.varies, varies)
    assert_allclose(spread.columns, np.where(varies, columns, 1.0), rtol=1e-12)
    assert_allclose(spread.distance, distance if varies.any() else 1.0, rtol=1e-12)


def test_spread_does_not_depend_on_the_scale_of_the_weights(rng):
    X, weight = rng.randn(20, 3), rng.uniform(size=20)
    one, other = measure_spread(X, weight), measure_spread(X, 1e6 * weight)
    assert_allclose(other.columns, one.columns, rtol=1e-12)
    assert_allclose(other.distance, one.distance, rtol=1e-12)


@pytest.mark.parametrize("value", [1e12, 0.1, -3e15, 1e140])
def test_a_constant_column_of_any_value_does_not_count(value, rng):
    X = rng.randn(30, 3)
    X[:, 1] = value
    weight = rng.uniform(0.1, 1.0, size=30)
    spread, without = measure_spread(X, weight), measure_spread(X[:, [0, 2]], weight)
    assert_array_equal(spread.varies, [True, False, True])
    assert spread.columns[1] == 1.0
    assert_allclose(spread.columns[[0, 2]], without.columns, rtol=1e-12)
    assert_allclose(spread.distance, without.distance, rtol=1e-12)


@pytest.mark.parametrize("value", [1e200, -1e300])
def test_values_whose_squares_overflow_are_refused(value):
    with pytest.raises(ValueError, match=r"1e\+(2|3)00, whose square overflows"):
        measure_spread(np.array([[0.0, 1.0], [value, 2.0]]), np.ones(2))


@pytest.mark.parametrize("tiny", [1.0, 1e-3, 1e-5])
def test_spread_at_a_large_offset(tiny, rng):
    X = 1e9 + tiny * rng.randn(40, 2)
    # The difference of neighbouring numbers is exact.
    columns, distance = brute_force_spread(X - 1e9)
    spread = measure_spread(X, np.ones(40))
    # At the smallest spread the rows are a hundred neighbouring numbers apart.
    assert_allclose(spread.columns, columns, rtol=1e-3)
    assert_allclose(spread.distance, distance, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_spread_scales_with_the_columns(scale, rng):
    X = rng.randn(20, 3)
    spread = measure_spread(scale * X, np.ones(20))
    assert_allclose(spread.columns, scale * X.std(axis=0), rtol=1e-12)
    assert_allclose(spread.distance, scale * brute_force_spread(X)[1], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 7])
def test_spread_is_one_where_nothing_varies(n):
    spread = measure_spread(np.full((n, 2), 1e7 / 3.0), np.full(n, 0.1))
    assert_array_equal(spread.columns, [1.0, 1.0])
    assert spread.distance == 1.0
    assert not spread.varies.any()


# Start values


def starts_of(kernel, X):
    return start_values(adapt_kernel(kernel, X.shape[1]), measure_spread(X, np.ones(len(X))))


PRODUCTS = [
    ConstantKernel(2.3, WIDE) * RBF(0.01, WIDE),
    ConstantKernel(2.3, WIDE) * Matern(np.full(D, 0.01), WIDE, nu=1.5),
    ConstantKernel(2.3, WIDE) * RBF(np.full(D, 0.01), WIDE)
    + RationalQuadratic(0.01, 1.7, WIDE, WIDE),
]


@EVERY_CASE
def test_every_start_is_within_the_bounds_and_has_their_shape(name, rng):
    kernel = CASES[name].kernel
    for X in (rng.randn(20, D), 1e12 * rng.randn(20, D), 1e-12 * rng.randn(20, D)):
        for theta in starts_of(kernel, X):
            assert theta.shape == kernel.theta.shape
            low, high = np.reshape(kernel.bounds, (-1, 2)).T
            assert (low <= theta).all()
            assert (theta <= high).all()


@EVERY_CASE
def test_first_start_is_the_own_theta_of_the_kernel(name, rng):
    kernel = CASES[name].kernel
    assert_array_equal(starts_of(kernel, 100.0 * rng.randn(20, D))[0], kernel.theta)


def test_first_start_is_moved_into_the_bounds(rng):
    kernel = ConstantKernel(1e3, (1e-2, 1e2)) * RBF(1e-3, (1e-1, 1e1))
    assert_allclose(starts_of(kernel, rng.randn(20, D))[0], np.log([1e2, 1e-1]))


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e3, 1e12])
def test_length_scales_of_the_starts_scale_along_with_the_data(kernel, scale, rng):
    X = rng.randn(20, D)
    moves = [c is not None for c in adapt_kernel(kernel, D).columns]
    original, scaled = starts_of(kernel, X), starts_of(kernel, scale * X)
    assert len(original) == len(scaled) == 6
    for one, other in zip(original[1:], scaled[1:], strict=True):
        assert_allclose(other - one, np.where(moves, np.log(scale), 0.0), atol=1e-9)


def test_each_length_scale_of_a_start_follows_its_own_column(rng):
    X, scales = rng.randn(20, D), np.array([1e-4, 1.0, 1e5])
    kernel = RBF(np.full(D, 0.01), WIDE)
    for one, other in zip(starts_of(kernel, X)[1:], starts_of(kernel, X * scales)[1:], strict=True):
        assert_allclose(other - one, np.log(scales), atol=1e-9)


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
def test_a_common_offset_does_not_move_the_starts(kernel, rng):
    X = rng.randn(20, D)
    for one, other in zip(starts_of(kernel, X), starts_of(kernel, X + 1e6), strict=True):
        assert_allclose(other, one, atol=1e-6)


@pytest.mark.parametrize("n_features", [1, 2, 30])
@pytest.mark.parametrize("per_column", [False, True])
def test_starts_go_from_the_distance_of_two_rows_to_an_eighth_of_that_along_a_column(
    n_features, per_column, rng
):
    X = rng.randn(40, n_features)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = RBF(np.full(n_features, 1e-4) if per_column else 1e-4, WIDE)
    starts = np.array(starts_of(kernel, X)[1:])
    assert_allclose(starts[0], np.log(brute_force_spread(X)[1]))
    assert_allclose(starts[2], 0.0, atol=1e-12)
    assert_allclose(starts[-1], np.log(0.125), atol=1e-12)
    assert (np.diff(starts, axis=0) < 0.0).all()


@EVERY_CASE
def test_entries_that_are_no_length_scales_are_left_alone(name, rng):
    kernel = CASES[name].kernel
    others = [c is None for c in adapt_kernel(kernel, D).columns]
    for theta in starts_of(kernel, 50.0 * rng.randn(20, D)):
        assert_array_equal(theta[others], kernel.theta[others])


@EVERY_CASE
def test_no_start_occurs_twice(name, rng):
    starts = starts_of(CASES[name].kernel, rng.randn(20, D))
    for k, start in enumerate(starts):
        assert all(np.abs(start - other).max() > 0.05 for other in starts[:k])


def test_default_kernel_starts_where_a_start_from_the_data_would(rng):
    """So that one of the five is not offered again."""
    X = rng.randn(20, D)
    assert len(starts_of(default_kernel(measure_spread(X, np.ones(20))), X)) == 5


def test_bounds_that_leave_no_room_give_one_start(rng):
    assert len(starts_of(RBF(1.0, (0.999, 1.001)), 1e6 * rng.randn(20, D))) == 1


@pytest.mark.parametrize("name", ["linear", "constant", "periodic", "rbf-fixed", "power"])
def test_kernels_without_known_length_scales_have_their_own_start_only(name, rng):
    assert len(starts_of(CASES[name].kernel, rng.randn(20, D))) == 1


@pytest.mark.parametrize("kernel", PRODUCTS, ids=str)
def test_starts_of_data_that_do_not_vary_are_finite(kernel):
    for theta in starts_of(kernel, np.full((5, D), 1e9)):
        assert np.isfinite(theta).all()


@EVERY_CASE
def test_without_fast_functions_the_shortest_starts_are_left_out(name, rng):
    kernel, X = CASES[name].kernel, rng.randn(20, D)
    spread, adapted = measure_spread(X, np.ones(20)), adapt_kernel(kernel, D)
    slow, all_ = start_values(adapted, spread, fast=False), start_values(adapted, spread)
    assert len(slow) <= 4
    assert_array_equal(slow, all_[: len(slow)])


# How much each column matters


@pytest.mark.parametrize(
    ("kernel", "scales"),
    [
        (RBF(2.0), [2.0, 2.0, 2.0]),
        (ConstantKernel(7.0) * RBF(SCALES), SCALES),
        (Matern(SCALES, nu=1.5), SCALES),
        (ConstantKernel(7.0) * RationalQuadratic(3.0, 0.4), [3.0, 3.0, 3.0]),
        (RBF(SCALES) + ConstantKernel() * Matern(1.0), [0.7, 1.0, 1.0]),
        (RBF(SCALES) * DotProduct(), SCALES),
        (Exponentiation(RBF(SCALES), 2.0), SCALES),
    ],
    ids=str,
)
def test_relevance_is_the_deviation_in_the_shortest_length_scales(kernel, scales, rng):
    X = rng.randn(40, D) * [1.0, 10.0, 0.1]
    relevance = column_relevance(kernel, measure_spread(X, np.ones(40)))
    assert_allclose(relevance, X.std(axis=0) / scales)


def test_a_column_that_does_not_vary_has_no_relevance(rng):
    X = np.column_stack([rng.randn(20), np.full(20, 3.0)])
    spread = measure_spread(X, np.ones(20))
    assert_allclose(column_relevance(RBF([0.5, 0.1]), spread), [X[:, 0].std() / 0.5, 0.0])
    assert_array_equal(
        column_relevance(RBF(0.5), measure_spread(np.ones((5, 2)), np.ones(5))), [0.0, 0.0]
    )


@pytest.mark.parametrize("kernel", [DotProduct(), ConstantKernel(), ExpSineSquared()], ids=str)
def test_without_length_scales_nothing_is_said_of_relevance(kernel, rng):
    assert column_relevance(kernel, measure_spread(rng.randn(20, 1), np.ones(20))) is None


# The kernel that None stands for


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_default_kernel_is_relative_to_the_distance_of_two_rows(scale, rng):
    X = rng.randn(30, D)
    distance = brute_force_spread(X)[1]
    kernel = default_kernel(measure_spread(scale * X, np.ones(30)))
    assert isinstance(kernel.k1, ConstantKernel)
    assert type(kernel.k2) is RBF
    assert_allclose(kernel.k2.length_scale, scale * distance, rtol=1e-12)
    low, high = kernel.k2.length_scale_bounds
    assert low <= 1e-2 * scale * distance
    assert high >= 1e2 * scale * distance
    assert len(adapt_kernel(kernel, D).theta) == 2


def test_default_kernel_of_data_that_do_not_vary_is_usable():
    kernel = default_kernel(measure_spread(np.full((5, D), 1e9), np.ones(5)))
    assert np.isfinite(kernel.theta).all()
    assert np.isfinite(kernel.bounds).all()


def test_default_kernel_is_relative_to_the_variance(rng):
    spread = measure_spread(rows(rng, 20), np.ones(20))
    plain = default_kernel(spread)
    assert plain.k1.constant_value == 1.0
    for variance in (1e-16, 0.3, 1e16):
        kernel = default_kernel(spread, variance)
        assert_allclose(kernel.k1.constant_value, variance)
        assert_allclose(kernel.k1.constant_value_bounds, variance * np.array([1e-4, 1e9]))
        assert kernel.k2.length_scale == plain.k2.length_scale
        assert kernel.k2.length_scale_bounds == plain.k2.length_scale_bounds
    low, high = plain.k1.constant_value_bounds
    assert low < plain.k1.constant_value < high
    several = default_kernel(spread, np.array([1e-6, 3.0, 1e6])).k1
    assert_allclose(several.constant_value, (1e6 + 3.0 + 1e-6) / 3.0)
    assert_allclose(several.constant_value_bounds, (1e-10, 1e15))


# Noise within a kernel


def random_kernel(rng, depth):
    """Return a random sum of kernels with, at random, white ones among them."""
    if depth == 0 or rng.uniform() < 0.2:
        leaf = rng.randint(4)
        level = float(rng.uniform(0.1, 2.0))
        if leaf == 0:
            return ConstantKernel(level) * RBF(level)
        return (RBF(level), Matern(level), WhiteKernel(level))[leaf - 1]
    return random_kernel(rng, depth - 1) + random_kernel(rng, depth - 1)


@given(seed=st.integers(0, 10_000))
def test_splitting_white_summands_off_leaves_the_rest(seed):
    rng = np.random.RandomState(seed)
    kernel = random_kernel(rng, 4)
    before = repr(kernel)
    rest, whites = split_white(kernel)
    X = rows(rng, 6)
    K = sum((white.noise_level for white in whites), 0.0) * np.eye(6)
    if rest is not None:
        assert "White" not in repr(rest)
        K = K + rest(X)
    assert_allclose(K, kernel(X), rtol=1e-12)
    assert len(whites) == repr(kernel).count("White")
    assert repr(kernel) == before


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_without_white_summands_is_returned_as_it_is(name):
    kernel = CASES[name].kernel
    if not any(type(part) is WhiteKernel for part in (kernel, getattr(kernel, "k2", None))):
        rest, whites = split_white(kernel)
        assert rest is kernel
        assert whites == []


def test_the_white_kernel_itself_is_returned_with_its_settings():
    white = WhiteKernel(0.3, (0.1, 0.5))
    rest, [found] = split_white(RBF() + white)
    assert found is white
    assert rest == RBF()
    assert split_white(white) == (None, [white])
    assert split_white(white + WhiteKernel(2.0)) == (None, [white, WhiteKernel(2.0)])


@pytest.mark.parametrize(
    "kernel",
    [RBF() * WhiteKernel(), WhiteKernel() ** 2, UsersWhite(), Wrapper(WhiteKernel())],
    ids=str,
)
def test_white_kernels_that_are_no_summands_are_left_where_they_are(kernel):
    assert split_white(kernel) == (kernel, [])
    rest, whites = split_white(kernel + WhiteKernel(0.3))
    assert rest == kernel
    assert whites == [WhiteKernel(0.3)]
    with pytest.raises(ValueError, match="holds a WhiteKernel"):
        adapt_kernel(rest, D, refuse_white="it has no place here")


# Parameters that are not those of a kernel


def test_further_parameters_stand_behind_those_of_the_kernel():
    adapted = adapt_kernel(ConstantKernel(2.0) * RBF(SCALES), D)
    before = [np.array(adapted.theta), np.array(adapted.bounds), list(adapted.names)]
    theta, bounds = np.array([0.5, -1.0]), np.array([[-2.0, 2.0], [-3.0, 3.0]])
    more = adapted.extended(theta, bounds, ["noise", "slope"])
    assert more.kernel is adapted.kernel
    assert_array_equal(more.theta, np.append(adapted.theta, theta))
    assert_array_equal(more.bounds, np.concatenate([adapted.bounds, bounds]))
    assert more.names == [*adapted.names, "noise", "slope"]
    assert more.columns == [*adapted.columns, None, None]
    assert more.kernel.n_params == len(adapted.theta)
    for old, new in zip(before, adapted[1:4], strict=True):
        assert_array_equal(old, new)


def test_further_parameters_keep_their_start_in_every_start(rng):
    adapted = adapt_kernel(ConstantKernel(2.0) * RBF(SCALES), D)
    more = adapted.extended(np.array([0.5]), np.array([[-2.0, 2.0]]), ["noise"])
    spread = measure_spread(rows(rng, 20), np.ones(20))
    own, extended = start_values(adapted, spread), start_values(more, spread)
    assert len(own) == len(extended) > 1
    for start, longer in zip(own, extended, strict=True):
        assert_array_equal(longer, np.append(start, 0.5))


def test_a_kernel_without_free_hyperparameters_may_be_extended():
    adapted = adapt_kernel(RBF(1.0, FIXED), D)
    more = adapted.extended(np.array([0.5]), np.array([[-2.0, 2.0]]), ["noise"])
    assert_array_equal(more.theta, [0.5])
    assert more.bounds.shape == (1, 2)
