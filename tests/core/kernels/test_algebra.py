"""Sums, products, fixed parameters, and kernels known by their values only."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.kernels import algebra
from sparsegpc._core.kernels.families import RBF, Constant, DotProduct, Matern52
from tests.core.helpers import COMPOSITES, LEAVES, central_difference, free, names, read_only

ANY = pytest.mark.parametrize("case", [*LEAVES, *COMPOSITES], ids=names([*LEAVES, *COMPOSITES]))


def _known_by_values(case, D=2):
    return algebra.FiniteDifferenceKernel(
        case.matrix, case.diagonal, case.n_params(D), f"Mine({case.name})"
    )


def test_this_file_knows_every_composite():
    classes = {
        name
        for name, cls in inspect.getmembers(algebra, inspect.isclass)
        if cls.__module__ == algebra.__name__
    }
    covered = {"Sum", "Product", "Scaled", "OnColumns", "_Pair"}
    covered |= {"FiniteDifferenceKernel", "FreeKernel"}
    assert classes == covered


@pytest.mark.parametrize("name", [c.name for c in COMPOSITES])
@given(seed=st.integers(0, 2**31), D=st.integers(1, 4), n=st.integers(1, 12))
def test_symmetric_and_positive_semi_definite(name, seed, D, n):
    case = next(c for c in COMPOSITES if c.name == name)
    X = np.random.RandomState(seed).randn(n, D)
    K, _ = case.build(D).evaluate(case.params(D, seed), X, X)
    assert_allclose(K, K.T, rtol=1e-13, atol=1e-14)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-12 * eigenvalues[-1]


@pytest.mark.parametrize("swap", [False, True], ids=["left", "right"])
def test_scaled_is_the_product_with_a_constant(swap, rng):
    Z, X, adjoint, params = rng.randn(3, 2), rng.randn(5, 2), rng.randn(3, 5), rng.randn(3)
    factors = (Matern52(2), Constant()) if swap else (Constant(), Matern52(2))
    scaled, product = algebra.Scaled(*factors), algebra.Product(*factors)
    K, pullback = scaled.evaluate(params, Z, X)
    K_product, pullback_product = product.evaluate(params, Z, X)
    assert_allclose(K, K_product, rtol=1e-14)
    for ours, theirs in zip(pullback(adjoint, True), pullback_product(adjoint, True), strict=True):
        assert_allclose(ours, theirs, rtol=1e-12)


@ANY
@pytest.mark.parametrize("free_every", [1, 2, 10])
def test_free_kernel_moves_the_free_parameters_only(case, free_every, rng):
    """Every second parameter is free, all are, or (past the first) none is."""
    D = 3
    params, Z, X = read_only(case.params(D)), rng.randn(3, D), read_only(rng.randn(4, D))
    is_free = np.arange(len(params)) % free_every == free_every - 1
    kernel = algebra.FreeKernel(case.build(D), params, is_free)
    theta = read_only(rng.uniform(-0.5, 0.5, is_free.sum()))

    def all_params(free_values):
        moved = np.array(params)
        moved[is_free] = free_values
        return moved

    def matrix(free_values, points=Z):
        return case.matrix(all_params(free_values), points, X)

    assert_allclose(kernel.value(theta, Z, X), matrix(theta), rtol=1e-12, atol=1e-13)
    K, pullback = kernel.evaluate(theta, Z, X)
    assert_array_equal(K, kernel.value(theta, Z, X))
    assert_allclose(kernel.diag(theta, X), case.diagonal(all_params(theta), X), rtol=1e-13)

    adjoint, adjoint_diag = rng.randn(3, 4), rng.randn(4)
    grad_theta, grad_Z = pullback(adjoint, True)
    expected = central_difference(lambda t: np.vdot(adjoint, matrix(t)), theta)
    assert grad_theta.shape == theta.shape
    assert_allclose(grad_theta, expected, rtol=1e-7, atol=1e-8)
    by_Z = central_difference(lambda P: np.vdot(adjoint, matrix(theta, P)), Z)
    assert_allclose(grad_Z, by_Z, rtol=1e-7, atol=1e-8)
    expected = central_difference(lambda t: adjoint_diag @ case.diagonal(all_params(t), X), theta)
    assert_allclose(kernel.diag_pullback(theta, X, adjoint_diag), expected, rtol=1e-8, atol=1e-9)


def test_free_kernel_keeps_the_values_it_was_given(rng):
    params = rng.randn(3)
    kernel = algebra.FreeKernel(
        algebra.Scaled(Constant(), RBF(2)), params, np.array([True, False, True])
    )
    before = params.copy()
    kernel.value(np.array([5.0, -5.0]), rng.randn(2, 2), rng.randn(2, 2))
    assert_array_equal(params, before)


@ANY
def test_finite_differences_agree_with_the_derivatives(case, rng):
    Z, X, adjoint = rng.randn(3, 2), rng.randn(4, 2), rng.randn(3, 4)
    params, kernel, known = case.params(2), case.build(2), _known_by_values(case)
    K, pullback = known.evaluate(params, Z, X)
    assert_array_equal(K, case.matrix(params, Z, X))
    gradient, nothing = pullback(adjoint)
    assert nothing is None
    expected = kernel.evaluate(params, Z, X)[1](adjoint)[0]
    assert_allclose(gradient, expected, rtol=1e-8, atol=1e-8)
    adjoint_diag = rng.randn(4)
    assert_array_equal(known.diag(params, X), case.diagonal(params, X))
    assert_allclose(
        known.diag_pullback(params, X, adjoint_diag),
        kernel.diag_pullback(params, X, adjoint_diag),
        rtol=1e-8,
        atol=1e-8,
    )


def test_kernels_known_by_values_combine_with_others(rng):
    case = COMPOSITES[0]
    mixed = algebra.Sum(algebra.Scaled(Constant(), _known_by_values(case)), DotProduct())
    exact = algebra.Sum(algebra.Scaled(Constant(), case.build(2)), DotProduct())
    params, Z, X = rng.randn(mixed.n_params), rng.randn(3, 2), rng.randn(4, 2)
    adjoint, adjoint_diag = rng.randn(3, 4), rng.randn(4)
    mixed, exact = free(mixed, params), free(exact, params)
    K, pullback = mixed.evaluate(params, Z, X)
    K_exact, pullback_exact = exact.evaluate(params, Z, X)
    assert_allclose(K, K_exact, rtol=1e-13)
    assert_allclose(pullback(adjoint)[0], pullback_exact(adjoint)[0], rtol=1e-8, atol=1e-8)
    assert_allclose(
        mixed.diag_pullback(params, X, adjoint_diag),
        exact.diag_pullback(params, X, adjoint_diag),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize("wrap", [False, True], ids=["alone", "in a sum"])
def test_moving_the_points_of_a_kernel_known_by_values_is_refused(wrap, rng):
    """The message names the kernel and says what to do."""
    kernel = _known_by_values(LEAVES[0])
    if wrap:
        kernel = algebra.Sum(RBF(), kernel)
    _, pullback = kernel.evaluate(np.zeros(kernel.n_params), rng.randn(2, 2), rng.randn(3, 2))
    with pytest.raises(NotImplementedError) as raised:
        pullback(rng.randn(2, 3), True)
    message = str(raised.value)
    assert "Mine(rbf)" in message
    assert "keep the inducing points fixed" in message
    assert "use a kernel made of" in message


@ANY
@pytest.mark.parametrize("room", [0.4, 30.0, np.inf])
def test_nowhere_in_the_box_is_the_variance_less_than_where_it_is_flattest(case, room, rng):
    D = 2
    params, X = case.params(D), rng.randn(5, D)
    kernel = free(case.build(D), params)
    bounds = np.stack([params - 1.5 * room, params + room], axis=1)
    flat = kernel.least_variance(params, bounds, X)
    step = algebra.UNBOUNDED_STEP
    low, high = bounds.T if np.isfinite(room) else (params - step, params + step)
    assert ((flat == params) | (flat == low) | (flat == high)).all()
    least = case.diagonal(flat, X).sum()
    for theta in rng.uniform(params - 0.4, params + 0.4, (50, len(params))):
        assert least <= case.diagonal(np.clip(theta, low, high), X).sum() * (1.0 + 1e-12)
