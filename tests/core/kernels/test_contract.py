"""What every kernel promises, simple or composite: the formula, and its contracted derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.core.helpers import COMPOSITES, LEAVES, central_difference, names, read_only, symmetric

KERNELS = [*LEAVES, *COMPOSITES]
KERNEL = pytest.mark.parametrize("case", KERNELS, ids=names(KERNELS))
DIMENSIONS = pytest.mark.parametrize("D", [1, 3])


@KERNEL
@DIMENSIONS
def test_number_of_parameters(case, D):
    assert case.build(D).n_params == case.n_params(D)


@KERNEL
@DIMENSIONS
def test_values_are_the_formula(case, D, rng):
    Z, X, params = rng.randn(4, D), rng.randn(6, D), case.params(D)
    K, _ = case.build(D).evaluate(params, read_only(Z), read_only(X))
    assert_allclose(K, case.matrix(params, Z, X), rtol=1e-12, atol=1e-13)


@KERNEL
@DIMENSIONS
def test_diagonal_is_the_formula_and_that_of_the_matrix(case, D, rng):
    X, params, kernel = read_only(rng.randn(6, D)), case.params(D), case.build(D)
    diagonal = kernel.diag(params, X)
    assert_allclose(diagonal, case.diagonal(params, X), rtol=1e-13)
    assert_allclose(kernel.evaluate(params, X, X)[0].diagonal(), diagonal, rtol=1e-13)


@KERNEL
@DIMENSIONS
def test_pullback_of_a_rectangular_matrix(case, D, rng):
    Z, X, params = rng.randn(3, D), rng.randn(4, D), case.params(D)
    adjoint = read_only(rng.randn(3, 4))
    _, pullback = case.build(D).evaluate(params, read_only(Z), read_only(X))
    grad_params, grad_Z = pullback(adjoint, True)
    by_params = central_difference(lambda p: np.vdot(adjoint, case.matrix(p, Z, X)), params)
    by_Z = central_difference(lambda P: np.vdot(adjoint, case.matrix(params, P, X)), Z)
    assert_allclose(grad_params, by_params, rtol=1e-7, atol=1e-8)
    assert_allclose(grad_Z, by_Z, rtol=1e-7, atol=1e-8)
    without_Z, nothing = pullback(adjoint)
    assert nothing is None
    assert_array_equal(without_Z, grad_params)


@KERNEL
@DIMENSIONS
def test_pullback_of_a_symmetric_matrix(case, D, rng):
    """The points stand on both sides: the whole derivative is twice the one-sided one."""
    Z, params, adjoint = rng.randn(4, D), case.params(D), symmetric(rng, 4)
    grad_params, grad_Z = case.build(D).evaluate(params, Z, Z)[1](adjoint, True)
    by_params = central_difference(lambda p: np.vdot(adjoint, case.matrix(p, Z, Z)), params)
    by_Z = central_difference(lambda P: np.vdot(adjoint, case.matrix(params, P, P)), Z)
    assert_allclose(grad_params, by_params, rtol=1e-7, atol=1e-8)
    assert_allclose(2.0 * grad_Z, by_Z, rtol=1e-7, atol=1e-8)


@KERNEL
@DIMENSIONS
def test_pullback_of_the_diagonal(case, D, rng):
    X, params, adjoint = read_only(rng.randn(5, D)), case.params(D), rng.randn(5)
    gradient = case.build(D).diag_pullback(params, X, adjoint)
    expected = central_difference(lambda p: adjoint @ case.diagonal(p, X), params)
    assert gradient.shape == params.shape
    assert_allclose(gradient, expected, rtol=1e-8, atol=1e-9)
