"""scikit-learn's kernel objects against what the adapter makes of them."""

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
from sparsegpc._estimators.kernels.hyperparameters import Entry
from sparsegpc._estimators.kernels.kernel_trees import split_white
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from tests.estimators.kernels.kernel_cases import (
    CASES,
    EVERY_CASE,
    FIXED,
    SCALES,
    D,
    Wrapper,
    read_only,
    rows,
)


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


class UsersWhite(WhiteKernel):
    pass


def thetas(kernel, n=3):
    """Return the kernel's own theta, and others around it."""
    rng = np.random.RandomState(1)
    return [kernel.theta, *(kernel.theta + rng.uniform(-0.7, 0.7, kernel.n_dims) for _ in range(n))]


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
        ("effects", ["all", None]),
        ("effects-per-column", [0, 1, 2, None, None, None]),
        ("effects-common-variance", [0, 1, 2, None]),
        ("effects-beside", [None, 0, 1, 2, "all", None, None, None]),
        ("orthogonal", ["all", None, None]),
        ("orthogonal-per-column", [0, 1, 2, None, None, None]),
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
    with pytest.raises(ValueError, match=f"{name}=.*positive, finite number"):
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


def test_the_diagonal_of_a_pairwise_kernel_takes_few_evaluations(rng, monkeypatch):
    calls, call = [], PairwiseKernel.__call__

    def counted(self, *args, **kwargs):
        calls.append(args)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(PairwiseKernel, "__call__", counted)
    kernel, X = 2.3 * PairwiseKernel(0.8, metric="polynomial") ** 2 + RBF(0.5), rows(rng, 150)
    adapted = adapt_kernel(kernel, D)
    diagonal = adapted.kernel.diag(adapted.theta, X)
    assert len(calls) == 3
    assert_allclose(diagonal, 2.3 * (0.8 * (X**2).sum(axis=1) + 1.0) ** 6 + 1.0, rtol=1e-12)


def test_a_metric_of_the_user_is_called_once_for_each_entry_of_the_diagonal(rng):
    calls = []

    def metric(x, y, gamma=None):
        calls.append((x, y))
        return np.exp(-np.abs(x - y).sum()) + x @ y

    adapted, X = adapt_kernel(PairwiseKernel(metric=metric), D), rows(rng, 70)
    diagonal = adapted.kernel.diag(adapted.theta, X)
    assert len(calls) == 70
    assert_allclose(diagonal, 1.0 + (X**2).sum(axis=1), rtol=1e-12)


def test_values_of_the_wrong_shape_are_refused_with_both_shapes(rng):
    class Transposed(Hoarder):
        def __call__(self, X, Y=None, eval_gradient=False):
            return super().__call__(X, Y).T

    adapted = adapt_kernel(Transposed(), D)
    with pytest.raises(ValueError, match=r"\(5, 3\).*3 and 5 rows.*\(3, 5\)"):
        adapted.kernel.value(adapted.theta, rows(rng, 3), rows(rng, 5))


class Forgetful(sk.StationaryKernelMixin, sk.Kernel):
    """A kernel with a variance that one of its methods may forget."""

    def __init__(self, variance=4.0, forgets="diag"):
        self.variance, self.forgets = variance, forgets

    @property
    def hyperparameter_variance(self):
        return sk.Hyperparameter("variance", "numeric", (1e-3, 4.0))

    def __call__(self, X, Y=None, eval_gradient=False):
        return (1.0 if self.forgets == "call" else self.variance) * RBF()(X, Y)

    def diag(self, X):
        return np.full(len(X), 1.0 if self.forgets == "diag" else self.variance)


@pytest.mark.parametrize("wrap", [lambda k: k, lambda k: RBF() + k, Wrapper, lambda k: k**2])
def test_a_diagonal_that_is_not_that_of_the_matrix_is_refused_with_both_values(wrap, rng):
    X = rows(rng, 40)
    adapt_kernel(wrap(Forgetful(forgets=None)), D, X=X)
    with pytest.raises(ValueError, match=r"kernel .*: diag\(X\) is .* at a row, but .* is "):
        adapt_kernel(wrap(Forgetful()), D, X=X)


@pytest.mark.parametrize("variance", [1.0, 4.0])
@pytest.mark.parametrize("forgets", ["diag", "call"])
def test_a_forgotten_variance_is_seen_whatever_its_value(variance, forgets, rng):
    with pytest.raises(ValueError, match="prior variance there: correct the method diag"):
        adapt_kernel(Forgetful(variance, forgets), D, X=rows(rng, 40))


@pytest.mark.parametrize("kernel", [UsersWhite(0.1), RBF() + UsersWhite(0.1), Hoarder()])
def test_diagonals_that_agree_pass(kernel, rng):
    adapt_kernel(kernel, D, X=rows(rng, 40))


@EVERY_CASE
def test_every_kernel_passes_the_check_of_its_diagonal(name, rng):
    adapt_kernel(CASES[name].kernel, D, X=rows(rng, 40))


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
    more = adapted.extended(theta, bounds, [Entry("noise"), Entry("slope")])
    assert more.kernel is adapted.kernel
    assert_array_equal(more.theta, np.append(adapted.theta, theta))
    assert_array_equal(more.bounds, np.concatenate([adapted.bounds, bounds]))
    assert more.names == [*adapted.names, "noise", "slope"]
    assert more.columns == [*adapted.columns, None, None]
    assert more.kernel.n_params == len(adapted.theta)
    for old, new in zip(before, (adapted.theta, adapted.bounds, adapted.names), strict=True):
        assert_array_equal(old, new)


def test_a_kernel_without_free_hyperparameters_may_be_extended():
    adapted = adapt_kernel(RBF(1.0, FIXED), D)
    more = adapted.extended(np.array([0.5]), np.array([[-2.0, 2.0]]), [Entry("noise")])
    assert_array_equal(more.theta, [0.5])
    assert more.bounds.shape == (1, 2)


def test_a_short_period_keeps_its_digits_over_a_long_range(rng):
    """Sixty years with a period of a day."""
    kernel = ExpSineSquared(1.0, 1.0 / 365.0)
    X = np.sort(rng.uniform(0.0, 60.0, (200, 1)), axis=0)
    ours = adapt_kernel(kernel, 1)
    found = ours.kernel.value(ours.theta, X, X)
    difference = X - X.T
    expected = np.exp(-2.0 * np.sin(np.pi * difference * 365.0) ** 2)
    assert_allclose(found, expected, atol=1e-10)
    assert np.linalg.eigvalsh(found).min() > -1e-9
