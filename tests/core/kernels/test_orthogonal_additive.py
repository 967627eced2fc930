"""The orthogonal additive kernel, and variances of its effects, against quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.kernels import effect_variances as effect_variances_module
from sparsegpc._core.kernels import orthogonal_additive
from sparsegpc._core.kernels.effect_variances import effect_variances, mean_product
from sparsegpc._core.kernels.orthogonal_additive import OrthogonalAdditive
from tests.core.helpers import read_only

MEANS, DEVIATIONS = np.array([0.3, -1.0, 0.0]), np.array([0.5, 2.0, 1.0])
LOG_SCALES, LOG_VARIANCES = np.log([0.4, 3.0, 0.9]), np.log([0.7, 1.3, 2.0])
KERNEL, PARAMS = OrthogonalAdditive(3, 3, MEANS, DEVIATIONS), np.append(LOG_SCALES, LOG_VARIANCES)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(50)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def test_the_mean_over_a_column_leaves_the_effects_without_it(rng):
    Z, row = rng.randn(4, 3), rng.randn(3)
    for d in range(3):
        X, rest = np.tile(row, (50, 1)), [e for e in range(3) if e != d]
        X[:, d] = MEANS[d] + DEVIATIONS[d] * NODES
        without = OrthogonalAdditive(2, 2, MEANS[rest], DEVIATIONS[rest])
        params = np.append(LOG_SCALES[rest], LOG_VARIANCES[:2])
        expected, _ = without.evaluate(params, Z[:, rest], row[None, rest])
        assert_allclose(
            KERNEL.evaluate(PARAMS, Z, X)[0] @ WEIGHTS, expected[:, 0], rtol=1e-9, atol=1e-12
        )


def test_effects_with_a_long_length_scale_are_linear(rng):
    z, x, scale = rng.randn(4, 1), rng.randn(5, 1), 80.0
    K, _ = OrthogonalAdditive(1, 1).evaluate(np.log([scale, scale**2]), z, x)
    assert_allclose(K, z * x.T, atol=2e-3)


def test_strips_change_nothing_but_rounding(rng, monkeypatch):
    Z, X, adjoint = rng.randn(5, 3), rng.randn(20, 3), read_only(rng.randn(5, 20))
    K, pullback = KERNEL.evaluate(PARAMS, Z, X)
    expected = pullback(adjoint, True)
    monkeypatch.setattr(orthogonal_additive, "STRIP_ELEMENTS", 40)
    K_strips, pullback = KERNEL.evaluate(PARAMS, Z, X)
    assert_allclose(K_strips, K, rtol=1e-14)
    for ours, others in zip(pullback(adjoint, True), expected, strict=True):
        assert_allclose(ours, others, rtol=1e-12)


@pytest.mark.parametrize("scale", [0.03, 0.3, 1.0, 5.0, 40.0, 1e3])
def test_mean_products_are_those_of_a_fine_grid(scale, rng):
    grid, step = np.linspace(-14.0, 14.0, 10001, retstep=True)
    density = step * np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi)
    z = np.append(1.5 * rng.randn(5), [0.0, 4.0, -4.0])
    k, _ = OrthogonalAdditive(1, 1).evaluate(np.log([scale, 1.0]), z[:, None], grid[:, None])
    found = mean_product(z[:, None], z, scale)
    # The terms of the kernel itself cancel to this accuracy.
    accuracy = 1e-12 + 1e-15 * scale**2
    assert_allclose(found, (k * density) @ k.T, rtol=1e-9, atol=accuracy * np.abs(found).max())


def test_mean_products_of_points_far_out_vanish():
    z = np.array([1e3, -1e3, 50.0, 0.0])
    for scale in (1e-3, 1.0, 10.0):
        products = mean_product(z[:, None], z, scale)
        assert np.isfinite(products).all()
        assert_allclose(products[0], 0.0, atol=1e-12)


def conditional_variance(f, masses, kept):
    """Return the variance of the conditional mean of f, on a tensor grid, given some axes."""
    mean = f
    for axis in range(f.ndim):
        if axis not in kept:
            mean = np.average(mean, axis=axis, weights=masses, keepdims=True)
    mean = mean - np.average(f, weights=np.einsum("i,j,k->ijk", masses, masses, masses))
    square = mean**2
    for axis in kept:
        square = np.average(square, axis=axis, weights=masses, keepdims=True)
    return square.item()


def test_variances_of_effects_are_those_of_conditional_means(rng, monkeypatch):
    """By the definition of Sobol's indices."""
    monkeypatch.setattr(effect_variances_module, "STRIP_ELEMENTS", 40)
    Z, weights, scales = rng.randn(6, 3), rng.randn(6), np.array([0.8, 1.5, 2.5])
    variances = np.array([0.7, 1.3, 2.0])
    grid = np.stack(np.meshgrid(NODES, NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 3)
    params = np.log(np.append(scales, variances))
    K, _ = OrthogonalAdditive(3, 3).evaluate(params, Z, grid)
    f = (weights @ K).reshape(50, 50, 50)
    found = effect_variances(Z, weights, scales, variances)
    columns = [conditional_variance(f, WEIGHTS, [d]) for d in range(3)]
    assert_allclose(found.columns, columns, rtol=1e-6)
    total = conditional_variance(f, WEIGHTS, [0, 1, 2])
    pairs = []
    for c, d in ((0, 1), (0, 2), (1, 2)):
        pairs.append(conditional_variance(f, WEIGHTS, [c, d]) - columns[c] - columns[d])
        assert_allclose(found.pairs[c, d], pairs[-1], rtol=1e-5)
        assert found.pairs[d, c] == pytest.approx(found.pairs[c, d])
    orders = [sum(columns), sum(pairs), total - sum(columns) - sum(pairs)]
    assert_allclose(found.orders, orders, rtol=1e-5)
    # Without interactions there is nothing but columns.
    single = effect_variances(Z, weights, scales, variances[:1])
    assert_allclose(single.columns, found.columns)
    assert not single.pairs.any()
