"""Covariance functions against their textbook formulae."""

import inspect
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.kernels import families as kernels
from sparsegpc._core.kernels.main_effects import MainEffects
from sparsegpc._core.kernels.orthogonal_additive import OrthogonalAdditive
from tests.core.helpers import LEAVES, STATIONARY, central_difference, names, symmetric

PER_COLUMN = [case for case in STATIONARY if "per column" in case.name]
LEAF = pytest.mark.parametrize("case", LEAVES, ids=names(LEAVES))
STATIONARY_LEAF = pytest.mark.parametrize("case", STATIONARY, ids=names(STATIONARY))


def test_the_table_lists_every_kernel():
    classes = {cls for _, cls in inspect.getmembers(kernels, inspect.isclass)}
    own = {cls for cls in classes if cls.__module__ == kernels.__name__}
    longer = {MainEffects, OrthogonalAdditive}
    assert own - {kernels.Stationary} | longer == {type(case.build(2)) for case in LEAVES}


@LEAF
def test_pullback_may_be_called_again(case, rng):
    kernel, params = case.build(2), case.params(2)
    K, pullback = kernel.evaluate(params, rng.randn(3, 2), rng.randn(4, 2))
    before, adjoint = K.copy(), rng.randn(3, 4)
    first, second = pullback(adjoint, True), pullback(adjoint, True)
    assert_array_equal(K, before)
    assert_array_equal(first[0], second[0])
    assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("name", [c.name for c in LEAVES])
@given(seed=st.integers(0, 2**31), D=st.integers(1, 4), n=st.integers(1, 12))
def test_symmetric_and_positive_semi_definite(name, seed, D, n):
    case = next(c for c in LEAVES if c.name == name)
    if not case.everywhere:
        D = 1
    X = np.random.RandomState(seed).randn(n, D)
    K, _ = case.build(D).evaluate(case.params(D, seed), X, X)
    assert_allclose(K, K.T, rtol=1e-13, atol=1e-15)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


@STATIONARY_LEAF
def test_stationary_kernels_are_at_most_one(case, rng):
    """Rounding must not give a squared distance below zero between copies of one point."""
    X = 10.0 * rng.randn(50, 3)
    K, _ = case.build(3).evaluate(case.params(3), X, X.copy())
    assert K.max() <= 1.0
    assert_allclose(K.diagonal(), 1.0, atol=1e-6)


@STATIONARY_LEAF
@pytest.mark.parametrize("copy", [True, False], ids=["copy", "same array"])
def test_gradient_at_coinciding_points(case, copy, rng):
    """Finite where a kernel has a kink (Matern12), and that of the formula in the parameters."""
    Z = rng.randn(5, 2)
    Z[3] = Z[1]
    X, params, adjoint = Z.copy() if copy else Z, case.params(2), symmetric(rng, 5)
    K, pullback = case.build(2).evaluate(params, Z, X)
    grad_params, grad_Z = pullback(adjoint, True)
    assert np.isfinite(grad_Z).all()
    assert_allclose(K, case.matrix(params, Z, Z), atol=1e-7)
    by_params = central_difference(lambda p: np.vdot(adjoint, case.matrix(p, Z, Z)), params)
    assert_allclose(grad_params, by_params, atol=1e-6)


@STATIONARY_LEAF
def test_coinciding_points_do_not_push_each_other(case, rng):
    """At a coinciding pair the one-sided derivative w.r.t. the point is zero."""
    Z = rng.randn(4, 2)
    _, pullback = case.build(2).evaluate(case.params(2), Z, Z.copy())
    assert_allclose(pullback(np.eye(4), True)[1], 0.0, atol=1e-6)


@STATIONARY_LEAF
@pytest.mark.parametrize("offset", [1e6, -1e8, 1e9])
def test_a_large_common_offset_costs_no_digits(case, offset, rng):
    shift = offset * np.array([1.0, 0.3, 0.0])
    Z, X, params = rng.randn(5, 3) + shift, rng.randn(7, 3) + shift, case.params(3)
    adjoint = rng.randn(5, 7)
    K, pullback = case.build(3).evaluate(params, Z, X)
    grad_params, grad_Z = pullback(adjoint, True)
    assert_allclose(K, case.matrix(params, Z, X), rtol=1e-11, atol=1e-13)
    # The same points with the offset taken away, without error in these subtractions.
    near = case.build(3).evaluate(params, Z - shift, X - shift)[1](adjoint, True)
    assert_allclose(grad_params, near[0], rtol=1e-9, atol=1e-10)
    assert_allclose(grad_Z, near[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shift", [0.0, 1e-9, 1e-3])
def test_the_root_of_matern12_magnifies_no_rounding_where_points_and_rows_are_near(shift, rng):
    case = next(case for case in LEAVES if case.name == "matern12")
    params, Z = case.params(30), 8.0 * rng.randn(20, 30)
    K, _ = case.build(30).evaluate(params, Z, Z + shift)
    assert_allclose(K, case.matrix(params, Z, Z + shift), rtol=1e-11, atol=1e-12)


@STATIONARY_LEAF
def test_one_far_point_costs_the_others_no_digits(case, rng):
    """Selection takes outliers first, so the mean of the points may lie far from all rows."""
    Z, X, params = rng.randn(9, 2), rng.randn(7, 2), case.params(2)
    Z[0] += 1e6
    K, _ = case.build(2).evaluate(params, Z, X)
    assert_allclose(K[1:], case.matrix(params, Z, X)[1:], atol=1e-9)


@STATIONARY_LEAF
@pytest.mark.parametrize("offset", [2.0**7, 2.0**20])
def test_points_that_are_far_from_the_others_and_near_each_other(case, offset, rng):
    """Neither their covariances nor the derivatives of these are lost in rounding."""
    # Multiples of a power of two, so that the offset is added without error.
    Z, X = np.round(rng.randn(9, 2) * 2**20) / 2**20, np.round(rng.randn(8, 2) * 2**20) / 2**20
    params, far_Z, far_X = case.params(2), Z.copy(), X.copy()
    far_Z[:3] += offset
    far_X[:4] += offset
    K, pullback = case.build(2).evaluate(params, far_Z, far_X)
    # A stationary kernel does not see what points have in common.
    near = np.zeros((9, 8), dtype=bool)
    near[:3, :4] = near[3:, 4:] = True
    assert_allclose(K[near], case.matrix(params, Z, X)[near], rtol=1e-8)
    adjoint = np.where(near, rng.randn(9, 8), 0.0)
    grad_params, grad_Z = pullback(adjoint, True)
    by_params = central_difference(lambda p: np.vdot(adjoint, case.matrix(p, Z, X)), params)
    by_Z = central_difference(lambda P: np.vdot(adjoint, case.matrix(params, P, X)), Z)
    assert_allclose(grad_params, by_params, rtol=1e-6, atol=1e-7)
    assert_allclose(grad_Z, by_Z, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("case", PER_COLUMN, ids=names(PER_COLUMN))
def test_one_length_scale_is_equal_length_scales(case, rng):
    Z, X, adjoint = rng.randn(3, 4), rng.randn(5, 4), rng.randn(3, 5)
    extra = case.n_params(4) - 4
    one, each = type(case.build(4))(1), case.build(4)
    params = case.params(4)[: extra + 1]
    K, pullback = each.evaluate(np.append(params, np.full(3, params[-1])), Z, X)
    K_one, pullback_one = one.evaluate(params, Z, X)
    assert_allclose(K, K_one, rtol=1e-14)
    gradient, gradient_one = pullback(adjoint)[0], pullback_one(adjoint)[0]
    assert_allclose(gradient[:extra], gradient_one[:extra], rtol=1e-12)
    assert_allclose(gradient[extra:].sum(), gradient_one[-1], rtol=1e-12)


@LEAF
def test_memory_stays_at_a_few_matrices(case, rng):
    """An array of shape (M, N, D) would take fifty."""
    M, N, D = 200, 2000, 50
    Z, X, adjoint = rng.randn(M, D), rng.randn(N, D), rng.randn(M, N)
    params, kernel = case.params(D) + 2.0, case.build(D)
    tracemalloc.start()
    try:
        kernel.evaluate(params, Z, X)[1](adjoint, True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * (8 * M * N)
