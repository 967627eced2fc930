"""The kernel of main effects: columns of few and of many distinct values, threads, precision."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.kernels import main_effects
from sparsegpc._core.kernels.main_effects import MainEffects
from tests.core.helpers import LEAVES, assert_slopes, central_difference, names, read_only

EFFECTS = [case for case in LEAVES if case.name.startswith("main effects")]
EFFECT = pytest.mark.parametrize("case", EFFECTS, ids=names(EFFECTS))


def mixed_rows(rng, n):
    """Return rows with two values, real values, one value, and integers, in four columns."""
    columns = [rng.randint(2, size=n), rng.randn(n), np.full(n, 0.4), rng.randint(5, size=n)]
    return read_only(np.column_stack(columns).astype(np.float64))


@EFFECT
def test_columns_of_few_values_are_those_of_the_formula(case, rng):
    Z, X, params = read_only(rng.randn(20, 4)), mixed_rows(rng, 40), case.params(4)
    assert sorted(main_effects._few_values(X, len(Z) // 4)) == [0, 2, 3]
    adjoint = read_only(rng.randn(20, 40))
    K, pullback = case.build(4).evaluate(params, Z, X)
    grad_params, grad_Z = pullback(adjoint, True)
    assert_allclose(K, case.matrix(params, Z, X), rtol=1e-12)
    by_params = central_difference(lambda p: np.vdot(adjoint, case.matrix(p, Z, X)), params)
    assert_allclose(grad_params, by_params, rtol=1e-7, atol=1e-8)
    assert_slopes(
        lambda P: np.vdot(adjoint, case.matrix(params, P, X)), Z, grad_Z, rtol=1e-7, atol=1e-8
    )
    without_Z, nothing = pullback(adjoint)
    assert nothing is None
    assert_array_equal(without_Z, grad_params)


@given(seed=st.integers(0, 2**31), n=st.integers(1, 150), m=st.integers(1, 40))
def test_distinct_values_change_nothing_but_rounding(seed, n, m):
    rng = np.random.RandomState(seed)
    X, kernel, params = mixed_rows(rng, n), MainEffects(4, 4), rng.randn(8)
    Z, adjoint = X[rng.randint(n, size=m)], rng.randn(m, n)
    K, pullback = kernel.evaluate(params, Z, X)
    gradients = pullback(adjoint, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main_effects, "FEW_VALUES", 0)
        patch.setattr(main_effects, "STRIP_ELEMENTS", 3 * n)
        tables = main_effects._tables(X, Z[0], np.exp(params[:4]), m // 4)
        assert not any(isinstance(t, main_effects._DistinctValues) for t in tables.values())
        K_each, pullback_each = kernel.evaluate(params, Z, X)
        gradients_each = pullback_each(adjoint, True)
    assert_allclose(K, K_each, rtol=1e-12)
    size = np.abs(adjoint).sum() * np.exp(params[4:].max())
    for ours, others in zip(gradients, gradients_each, strict=True):
        assert_allclose(ours, others, rtol=1e-9, atol=1e-12 * size * np.exp(-params[:4].min()))


@given(seed=st.integers(0, 2**31), log_length=st.floats(-2.0, 4.0), offset=st.floats(-1e6, 1e6))
def test_interpolation_is_exact_to_rounding(seed, log_length, offset):
    """Of effects of any length scale, values that are Chebyshev points, and points out of range."""
    rng = np.random.RandomState(seed)
    x = np.append(rng.uniform(-3.0, 3.0, 400), [-3.0, 0.0, 3.0])
    z = np.append(rng.uniform(-4.0, 4.0, 240), [-3.0, 3.0, 9.0])
    X, Z, params = x[:, None] + offset, z[:, None] + offset, np.array([log_length, 0.3])
    table = main_effects._tables(X, np.zeros(1), np.exp(params[:1]), len(z) // 4).get(0)
    if abs(log_length + 0.75) > 0.25:
        # Short length scales need too many points.
        assert (table is None) == (log_length < -0.75)
    scaled = (Z - X.T) * np.exp(-log_length)
    expected = np.exp(0.3 - 0.5 * scaled**2)
    adjoint = rng.randn(*expected.shape)
    K, pullback = MainEffects().evaluate(params, Z, X)
    gradient, grad_Z = pullback(adjoint, True)
    # The offset costs digits of X itself, in units of the length scale.
    rounding = 1e-14 + 1e-16 * abs(offset) * np.exp(-log_length)
    assert_allclose(K, expected, atol=2.0 * rounding)
    by_length_scale, by_variance = (
        np.vdot(adjoint, expected * scaled**2),
        np.vdot(adjoint, expected),
    )
    atol = 10.0 * rounding * np.abs(adjoint).sum()
    assert_allclose(gradient, [by_length_scale, by_variance], atol=atol)
    by_Z = -np.sum(adjoint * expected * scaled, axis=1) * np.exp(-log_length)
    assert_allclose(grad_Z[:, 0], by_Z, atol=atol * np.exp(-log_length))


def test_pieces_of_rows_change_nothing_but_rounding(rng, monkeypatch):
    X, Z, adjoint = mixed_rows(rng, 100), rng.randn(24, 4), rng.randn(24, 100)
    kernel, params = MainEffects(4, 4), rng.randn(8)
    K, pullback = kernel.evaluate(params, Z, X)
    expected = pullback(adjoint, True)
    monkeypatch.setattr(main_effects, "PIECE_ROWS", 7)
    K_pieces, pullback_pieces = kernel.evaluate(params, Z, X)
    assert_allclose(K_pieces, K, rtol=1e-14)
    for ours, others in zip(pullback_pieces(adjoint, True), expected, strict=True):
        assert_allclose(ours, others, rtol=1e-11, atol=1e-12)


def test_many_values_after_few_in_the_first_rows(rng):
    X = np.concatenate([np.zeros(200), rng.randn(200)])[:, None]
    assert main_effects._few_values(X, 50) == {}
    assert_array_equal(main_effects._few_values(X[:200], 50)[0], [0.0])


def test_values_that_rounding_does_not_tell_apart_count_once():
    """Beside the distance to far points their difference is lost."""
    X = np.repeat([0.0, 1e-14, 80.0], 30)[:, None]
    Z, params = np.array([[900.0], [1000.0]]), np.log([500.0, 0.7])
    K = MainEffects(1, 1).evaluate(params, Z, X)[0]
    assert_allclose(K, 0.7 * np.exp(-0.5 * ((Z - X.T) / 500.0) ** 2), rtol=1e-12)


def test_a_column_that_does_not_vary_adds_its_variance(rng):
    X = np.column_stack([rng.randn(50), np.full(50, 1e9 + 0.1)])
    params = rng.randn(4)
    both = MainEffects(2, 2).evaluate(params, X[:5], X)[0]
    one = MainEffects(1, 1).evaluate(params[::2], X[:5, :1], X[:, :1])[0]
    assert_allclose(both, one + np.exp(params[3]), rtol=1e-13)


@EFFECT
def test_pickled_kernel_gives_the_same_values(case, rng):
    Z, X, params = rng.randn(3, 3), rng.randn(50, 3), case.params(3)
    again = pickle.loads(pickle.dumps(case.build(3)))
    expected = case.build(3).evaluate(params, Z, X)[0]
    assert_array_equal(again.evaluate(params, Z, X)[0], expected)


@pytest.mark.parametrize("offset", [1e6, -1e8, 1e9])
def test_a_large_common_offset_costs_no_digits(offset, rng):
    case = next(case for case in EFFECTS if case.name == "main effects per column")
    shift = offset * np.array([1.0, 0.3, 0.0])
    Z, X, params = rng.randn(5, 3) + shift, rng.randn(7, 3) + shift, case.params(3)
    K, pullback = case.build(3).evaluate(params, Z, X)
    assert_allclose(K, case.matrix(params, Z, X), rtol=1e-11)
    adjoint = rng.randn(5, 7)
    near = case.build(3).evaluate(params, Z - shift, X - shift)[1](adjoint, True)
    for ours, others in zip(pullback(adjoint, True), near, strict=True):
        assert_allclose(ours, others, rtol=1e-9, atol=1e-10)


def test_values_far_apart_have_no_covariance_and_no_derivative():
    Z, X = np.array([[0.0], [1e150], [0.25]]), np.array([[0.5], [-1e140], [1e150]])
    K, pullback = MainEffects().evaluate(np.zeros(2), Z, X)
    gradient, grad_Z = pullback(np.ones((3, 3)), True)
    far, near = np.exp(-0.125), np.exp(-0.03125)
    assert_allclose(K, [[far, 0.0, 0.0], [0.0, 0.0, 1.0], [near, 0.0, 0.0]])
    assert_allclose(gradient, [0.25 * far + 0.0625 * near, 1.0 + far + near])
    assert_allclose(grad_Z[:, 0], [0.5 * far, 0.0, 0.25 * near])
