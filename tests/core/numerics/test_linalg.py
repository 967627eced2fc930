"""Cholesky factors, triangular solves and their companions against dense numpy."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_triangular

from sparsegpc._core.numerics.linalg import (
    JITTER_GROWTH,
    LARGEST_JITTER,
    SAFE_PIVOT,
    cholesky,
    cholesky_of_identity_plus,
    column_squares,
    inverse_from_cholesky,
    jittered_cholesky,
    log_det,
    mirrored,
    semidefinite_root,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)

SIZES = [1, 5, 20, 60]
EPS = np.finfo(float).eps


def read_only(array):
    array.flags.writeable = False
    return array


def positive_definite(rng, size):
    root = rng.standard_normal((size, size + 5))
    return read_only(root @ root.T / size + 0.1 * np.eye(size))


def lower_factor(rng, size, order="C"):
    """A well-conditioned triangular matrix; NaN above the diagonal betrays whoever reads it."""
    L = np.tril(0.3 * rng.standard_normal((size, size)) / np.sqrt(size))
    L[np.diag_indices(size)] = rng.uniform(0.5, 2.0, size)
    with_nan = L + np.triu(np.full((size, size), np.nan), 1)
    return read_only(L), read_only(np.array(with_nan, order=order))


def radial_kernel(points, variance=1.0):
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    return variance * np.exp(-0.5 * squares)


def with_smallest_eigenvalue(rng, size, smallest):
    """A symmetric matrix of unit mean diagonal with one eigenvalue far below the others."""
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    eigenvalues = np.ones(size)
    eigenvalues[-1] = smallest
    A = (basis * eigenvalues) @ basis.T
    return (A + A.T) / (2.0 * A.diagonal().mean())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", SIZES)
def test_cholesky_equals_numpy(rng, size, order):
    A = read_only(np.array(positive_definite(rng, size), order=order))
    L = cholesky(A)
    assert_allclose(L, np.linalg.cholesky(A), rtol=1e-11, atol=1e-12)
    assert_array_equal(np.triu(L, 1), 0.0)


def test_cholesky_leaves_its_input_alone(rng):
    for order in "CF":
        A = np.array(positive_definite(rng, 12), order=order)
        before = A.copy()
        cholesky(A)
        jittered_cholesky(A)
        assert_array_equal(A, before)


@pytest.mark.parametrize("position", [(0, 0), (2, 1), (4, 4), (4, 0)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("factorise", [cholesky, jittered_cholesky])
def test_values_that_are_not_finite_raise(rng, factorise, value, position):
    A = np.array(positive_definite(rng, 5))
    A[position] = A[position[::-1]] = value
    with pytest.raises(LinAlgError, match="positive definite"):
        factorise(A)


def test_cholesky_names_the_shape_and_the_failing_minor(rng):
    A = np.array(positive_definite(rng, 6))
    A[3, 3] = -1.0
    with pytest.raises(LinAlgError, match=r"\(6, 6\) is not positive definite \(leading minor 4\)"):
        cholesky(A)


@pytest.mark.parametrize("defect", ["indefinite", "nan", "zero"])
def test_hopeless_matrix_raises_with_a_hint(rng, defect):
    A = np.array(positive_definite(rng, 7))
    if defect == "indefinite":
        A = with_smallest_eigenvalue(rng, 7, -0.5)
    elif defect == "nan":
        A[1, 2] = A[2, 1] = np.nan
    else:
        A[...] = 0.0
    with pytest.raises(LinAlgError) as caught:
        jittered_cholesky(A)
    message = str(caught.value)
    assert "7 inducing points" in message
    (tried,) = re.findall(r"even with (\S+) of its mean diagonal", message)
    assert LARGEST_JITTER / JITTER_GROWTH < float(tried) <= LARGEST_JITTER
    assert "kernel is not positive semi-definite, or its values are not finite" in message


def test_a_given_jitter_that_is_too_small_raises(rng):
    with pytest.raises(LinAlgError, match="not positive definite"):
        jittered_cholesky(with_smallest_eigenvalue(rng, 5, -1e-3), jitter=1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_well_conditioned_matrix_takes_no_jitter(rng, size):
    A = positive_definite(rng, size)
    factor, jitter = jittered_cholesky(A)
    assert jitter == 0.0
    assert_array_equal(factor, cholesky(A))


@pytest.mark.parametrize("variance", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("case", ["duplicates", "one point", "smooth line", "almost equal"])
def test_jittered_factor_reproduces_the_shifted_matrix(rng, case, variance):
    points = {
        "duplicates": np.repeat(rng.standard_normal((10, 2)), 5, axis=0),
        "one point": np.zeros((40, 1)),
        "smooth line": np.linspace(0.0, 1.0, 60)[:, None],
        "almost equal": rng.standard_normal((30, 3)) * 1e-7,
    }[case]
    A = read_only(radial_kernel(points, variance))
    factor, jitter = jittered_cholesky(A)
    shifted = A + jitter * A.diagonal().mean() * np.eye(len(A))
    assert_array_equal(np.triu(factor, 1), 0.0)
    assert_allclose(factor @ factor.T, shifted, rtol=0.0, atol=20 * len(A) * EPS * variance)
    # The entries of these matrices are exact up to rounding, so the first jitter is enough.
    least = SAFE_PIVOT * len(A) ** 0.5 * EPS
    assert 0.0 < jitter <= least
    assert factor.diagonal().min() ** 2 >= 0.5 * least * variance


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("needed", 10.0 ** np.arange(-12, -3))
def test_jitter_grows_to_what_a_matrix_with_errors_needs(rng, needed, scale):
    A = scale * with_smallest_eigenvalue(rng, 15, -needed)
    factor, jitter = jittered_cholesky(A)
    assert needed < jitter <= 1.01 * JITTER_GROWTH * needed + SAFE_PIVOT * 15**0.5 * EPS
    shifted = A + jitter * A.diagonal().mean() * np.eye(15)
    assert_allclose(factor @ factor.T, shifted, rtol=0.0, atol=1e-14 * scale)


def test_jitter_is_continuous_where_it_begins():
    """The second squared pivot falls through the least one that is safe."""
    least = SAFE_PIVOT * 2**0.5 * EPS

    def jitter(pivot):
        return jittered_cholesky(np.array([[1.0, 1.0 - pivot], [1.0 - pivot, 1.0]]))[1]

    # 1 - (1 - pivot)^2 is the squared pivot, about twice the argument.
    pivots = 0.5 * least * np.linspace(0.0, 1.5, 60)
    found = np.array([jitter(pivot) for pivot in pivots])
    assert_allclose(found, np.maximum(least - 2.0 * pivots, 0.0), atol=4.0 * EPS)
    assert found[0] == least


def test_given_jitter_is_used(rng):
    A = positive_definite(rng, 8)
    factor, jitter = jittered_cholesky(A, jitter=1e-2)
    assert jitter == 1e-2
    assert_allclose(factor @ factor.T, A + 1e-2 * A.diagonal().mean() * np.eye(8), rtol=1e-12)


def test_jitter_is_relative_to_the_mean_of_an_unequal_diagonal():
    A = read_only(np.diag([1.0, 2.0, 9.0]))
    factor, jitter = jittered_cholesky(A, jitter=0.5)
    assert_allclose(factor**2, np.diag([3.0, 4.0, 11.0]), rtol=1e-14)
    assert jitter == 0.5


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("order_A", ["C", "F"])
@pytest.mark.parametrize("order_L", ["C", "F"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("size", "n_columns"), [(1, 1), (5, 1), (200, 1), (5, 7), (20, 3), (60, 90)]
)
def test_solve_lower_equals_dense_solve(
    rng, size, n_columns, transposed, order_L, order_A, overwrite
):
    dense, L = lower_factor(rng, size, order_L)
    A = np.array(rng.standard_normal((size, n_columns)), order=order_A)
    expected = np.linalg.solve(dense.T if transposed else dense, A)
    result = solve_lower(L, A, transposed=transposed, overwrite=overwrite)
    assert result.shape == (size, n_columns)
    assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_solve_lower_of_a_vector(rng, size, transposed, overwrite):
    dense, L = lower_factor(rng, size)
    a = rng.standard_normal(size)
    expected = np.linalg.solve(dense.T if transposed else dense, a)
    result = solve_lower(L, a, transposed=transposed, overwrite=overwrite)
    assert result.shape == (size,)
    assert_allclose(result, expected, rtol=1e-10, atol=1e-12)


def test_solve_lower_of_a_strided_view(rng):
    dense, L = lower_factor(rng, 12)
    wide = read_only(rng.standard_normal((24, 30)))
    view = wide[::2, 3:21:3]
    assert_allclose(solve_lower(L, view), np.linalg.solve(dense, view), rtol=1e-10, atol=1e-12)
    column = wide[::2, 4]
    assert_allclose(solve_lower(L, column), np.linalg.solve(dense, column), rtol=1e-10)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(9,), (9, 1), (1, 9), (9, 14)])
def test_solve_lower_does_not_modify_its_inputs(rng, shape, order, transposed):
    L = np.array(lower_factor(rng, shape[0])[0], order=order)
    A = np.array(rng.standard_normal(shape), order=order)
    before_L, before_A = L.copy(), A.copy()
    solve_lower(L, A, transposed=transposed)
    solve_cholesky(L, A)
    assert_array_equal(L, before_L)
    assert_array_equal(A, before_A)


@pytest.mark.parametrize("transposed", [False, True])
def test_solve_lower_overwrites_rows_in_place(rng, transposed):
    L = lower_factor(rng, 10)[1]
    A = rng.standard_normal((10, 40))
    result = solve_lower(L, A, transposed=transposed, overwrite=True)
    assert np.shares_memory(result, A)
    assert result.flags.c_contiguous


def test_solve_lower_of_integers_is_not_rounded_into_them(rng):
    dense, L = lower_factor(rng, 6)
    A = np.eye(6, dtype=np.int64)
    assert_allclose(solve_lower(L, A, overwrite=True), np.linalg.inv(dense), rtol=1e-11, atol=1e-14)
    assert_array_equal(A, np.eye(6))


@pytest.mark.parametrize("shape", [(25,), (25, 1), (25, 40)])
def test_solve_cholesky_equals_dense_solve(rng, shape):
    dense, L = lower_factor(rng, 25)
    A = read_only(rng.standard_normal(shape))
    expected = np.linalg.solve(dense @ dense.T, A)
    assert_allclose(solve_cholesky(L, A), expected, rtol=1e-9, atol=1e-11)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30), n_columns=st.integers(1, 8))
def test_solves_satisfy_their_equations(seed, size, n_columns):
    rng = np.random.RandomState(seed)
    dense, L = lower_factor(rng, size)
    A = read_only(rng.standard_normal((size, n_columns)))
    for X, product in [
        (solve_lower(L, A), lambda X: dense @ X),
        (solve_lower(L, A, transposed=True), lambda X: dense.T @ X),
        (solve_cholesky(L, A), lambda X: dense @ (dense.T @ X)),
    ]:
        assert_allclose(product(X), A, rtol=0.0, atol=1e-10 * (1.0 + np.abs(X).max()))


@pytest.mark.parametrize("size", SIZES)
def test_log_det_equals_slogdet(rng, size):
    A = positive_definite(rng, size)
    value = log_det(cholesky(A))
    assert isinstance(value, float)
    assert value == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_log_det_of_determinants_beyond_floating_point(scale):
    assert log_det(np.eye(60) * scale) == pytest.approx(120.0 * np.log(scale), rel=1e-14)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("size", "n_columns"), [(1, 1), (5, 3), (20, 60), (60, 200)])
def test_weighted_gram_is_the_upper_triangle_of_the_explicit_product(rng, size, n_columns, order):
    A = read_only(np.array(rng.standard_normal((size, n_columns)), order=order))
    weight = rng.uniform(0.0, 3.0, n_columns)
    weight[::4] = 0.0
    result = weighted_gram(A, read_only(weight))
    product = A @ np.diag(weight) @ A.T
    assert_allclose(result, np.triu(product), rtol=1e-12, atol=1e-12)
    assert_allclose(mirrored(result), product, rtol=1e-12, atol=1e-12)
    assert_array_equal(mirrored(result), mirrored(result).T)


@pytest.mark.parametrize("size", [1, 5, 64, 65, 130, 300])
def test_inverse_from_cholesky_equals_numpy(rng, size):
    A = rng.standard_normal((size, size))
    A = A @ A.T + size * np.eye(size)
    inverse = inverse_from_cholesky(read_only(np.linalg.cholesky(A)))
    assert_allclose(inverse, np.linalg.inv(A), rtol=1e-9, atol=1e-12)
    assert_array_equal(inverse, inverse.T)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("size", [63, 64, 65, 128, 129, 200, 333])
def test_solves_by_halves_equal_numpy(rng, size, transposed, overwrite):
    L = read_only(np.tril(rng.standard_normal((size, size))) + 2.0 * size * np.eye(size))
    A = rng.standard_normal((size, 7))
    expected = np.linalg.solve(L.T if transposed else L, A)
    assert_allclose(
        solve_lower(L, A.copy(), transposed=transposed, overwrite=overwrite), expected, rtol=1e-11
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", [64, 150, 400])
def test_solves_of_ill_conditioned_factors_are_as_accurate_as_scipy(rng, size, transposed):
    """The factor of a smooth covariance, whose last pivots are its jitter."""
    x = np.linspace(0.0, 1.0, size)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2**2)
    L, jitter = jittered_cholesky(K)
    assert jitter < 1e-10
    assert np.linalg.cond(L) > 1e5
    A = np.exp(-0.5 * (x[:, None] - rng.uniform(0.0, 1.0, 50)) ** 2 / 0.2**2)
    triangle = L.T if transposed else L

    def backward_error(X):
        return np.max(np.abs(triangle @ X - A) / (np.abs(triangle) @ np.abs(X)))

    by_scipy = solve_triangular(L, A, lower=True, trans=int(transposed))
    ours = solve_lower(L, A, transposed=transposed)
    assert backward_error(ours) < 20.0 * max(backward_error(by_scipy), 2.0**-53)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("size", [5, 100])
def test_solve_lower_does_not_read_the_upper_triangle(rng, size, transposed):
    L = np.tril(rng.standard_normal((size, size))) + 2.0 * size * np.eye(size)
    A = rng.standard_normal((size, 4))
    expected = np.linalg.solve(L.T if transposed else L, A)
    L[np.triu_indices(size, 1)] = np.nan
    assert_allclose(solve_lower(L, A, transposed=transposed), expected, rtol=1e-11)
    assert_allclose(
        solve_lower(np.asfortranarray(L), A, transposed=transposed), expected, rtol=1e-11
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 30), (60, 4)])
def test_column_squares_equals_a_loop(rng, shape, order):
    A = read_only(np.array(rng.standard_normal(shape), order=order))
    expected = [sum(value * value for value in column) for column in A.T]
    assert_allclose(column_squares(A), expected, rtol=1e-13)


def test_sums_of_squares_do_not_modify_their_input(rng):
    A, weight = rng.standard_normal((6, 9)), rng.uniform(0.0, 1.0, 9)
    before_A, before_weight = A.copy(), weight.copy()
    weighted_gram(A, weight)
    column_squares(A)
    assert_array_equal(A, before_A)
    assert_array_equal(weight, before_weight)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6, 1e30])
def test_factor_of_identity_plus_a_matrix_of_low_rank(size, rng):
    V = np.sqrt(size) * rng.randn(8, 2)
    A = V @ V.T
    before = A.copy()
    L = cholesky_of_identity_plus(A)
    assert_array_equal(A, before)
    assert_allclose(L @ L.T, np.eye(8) + A, rtol=1e-10, atol=2e-12 * max(size, 1.0))
    assert (np.diag(L @ L.T) >= np.diag(A)).all()


def test_factor_of_identity_plus_an_indefinite_matrix_is_refused(rng):
    with pytest.raises(LinAlgError):
        cholesky_of_identity_plus(-3.0 * np.eye(4))


@pytest.mark.parametrize("rank", [0, 1, 3, 40])
def test_the_root_of_a_matrix_of_any_rank_has_its_rank(rng, rank):
    factor = rng.standard_normal((40, rank))
    A = factor @ factor.T
    root = semidefinite_root(A.copy(), 1e-10)
    assert root.shape == (40, rank)
    assert_allclose(root @ root.T, A, atol=1e-10)


def test_rounding_errors_alone_have_no_root():
    A = np.array([[1e-18, 1e-12], [1e-12, 0.0]])
    assert semidefinite_root(A, 1e-10).shape == (2, 0)


def test_a_root_has_no_larger_variances_than_the_matrix():
    """Rounding errors off the diagonal grow where they are divided by a small pivot."""
    A = np.diag([1.0, 2e-10, 1e-9, 0.0])
    A[1, 2:] = A[2:, 1] = 3e-9
    root = semidefinite_root(A.copy(), 1e-10)
    assert ((root**2).sum(axis=1) <= A.diagonal() * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-11])
def test_what_a_root_leaves_out_is_below_the_tolerance(rng, tolerance):
    x = np.sort(rng.uniform(0.0, 1.0, 60))
    A = np.exp(-0.5 * ((x - x[:, None]) / 0.2) ** 2)
    root = semidefinite_root(A.copy(), tolerance)
    rest = A - root @ root.T
    assert np.abs(rest).max() <= tolerance * (1.0 + 1e-6)
    assert rest.diagonal().min() > -1e-14
    # Eigenvalues of what is left are at most its trace: no root of much fewer columns would do.
    assert root.shape[1] <= 3 * (np.linalg.eigvalsh(A) > tolerance).sum() < 60


@pytest.mark.parametrize("seed", range(4))
def test_rounding_errors_below_the_tolerance_do_not_grow_in_a_root(seed):
    rng = np.random.RandomState(seed)
    factor = rng.standard_normal((50, 3))
    A = factor @ factor.T
    errors = 1e-8 * rng.uniform(-1.0, 1.0, A.shape)
    root = semidefinite_root(A + errors + errors.T, 1e-6)
    assert root.shape[1] == 3
    assert_allclose(root @ root.T, A, atol=1e-5)
