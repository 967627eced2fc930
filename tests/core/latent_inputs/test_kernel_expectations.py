"""Expectations of the kernel against quadrature, and derivatives against differences."""

import numpy as np
from numpy.testing import assert_allclose

from sparsegpc._core.latent_inputs.kernel_expectations import (
    LatentKernel,
    expected_bumps,
    pull_back_bumps,
)
from tests.core.latent_inputs.gplvm_problem import jittered_Kuu, kernel, nodes, problem


def test_expectations_of_the_kernel_and_of_products_are_those_of_quadrature():
    _, p = problem()
    latent = LatentKernel(p.Z, p.widths, p.signal)
    assert_allclose(latent.Kuu, jittered_Kuu(p))
    psi1, psi2 = latent.expectations(p.mean, p.variance)
    for n in range(len(p.mean)):
        X, w = nodes(p.mean[n], p.variance[n])
        k = kernel(p, p.Z, X)
        assert_allclose(psi1[n], k @ w, rtol=1e-9)
        assert_allclose(latent.full(psi2[n]), (k * w) @ k.T, rtol=1e-9)


def test_derivatives_of_expectations_are_those_of_differences():
    rng = np.random.RandomState(1)
    arguments = [rng.normal(size=(4, 2)), rng.uniform(0.1, 1.0, size=(4, 2))]
    arguments += [rng.normal(size=(5, 2)), rng.uniform(0.5, 2.0, size=2)]
    weights = rng.normal(size=(4, 5))
    found = pull_back_bumps(weights, *arguments)
    for k, gradient in enumerate(found):
        direction, step = rng.normal(size=gradient.shape), 1e-6
        ahead, behind = (
            [a + s * step * direction if j == k else a for j, a in enumerate(arguments)]
            for s in (1, -1)
        )
        log_ratio = np.log(expected_bumps(*ahead)) - np.log(expected_bumps(*behind))
        expected = (weights * log_ratio).sum() / (2.0 * step)
        assert_allclose((gradient * direction).sum(), expected, rtol=1e-7)


def test_packed_matrices_have_the_inner_products_of_full_ones():
    rng = np.random.RandomState(2)
    _, p = problem()
    latent = LatentKernel(p.Z, p.widths, p.signal)
    A, B = (a + a.T for a in rng.normal(size=(2, 4, 4)))
    packed = B[np.tril_indices(4)]
    assert_allclose(latent.full(packed), B)
    assert_allclose(latent.counted(A) @ packed, (A * B).sum())
    column = rng.normal(size=(4, 1))
    assert_allclose(latent.counted_outer(column)[0], latent.counted(column @ column.T))
