"""What rows say at an explicit q(u), against dense expectations and differences."""

import numpy as np
import pytest
from numpy.linalg import inv
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.collapsed import row_sums
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.minibatches.explicit_posterior import expected_log_sites, kernel_gradient
from tests.core.helpers import central_difference, random_problem
from tests.core.minibatches.batch_cases import random_posterior


@pytest.mark.parametrize("seed", range(3))
def test_expected_log_of_sites_is_that_of_a_gaussian(seed):
    problem, q = random_problem(seed), random_posterior(seed)
    features = problem.features()
    V, (precision, shift, log_scale) = features.V(0), problem.sites
    mean = V.T @ q.w + q.prior_mean
    variance = np.einsum("mn,mk,kn->n", V, inv(q.LB @ q.LB.T), V)
    expected = log_scale + shift * mean - 0.5 * precision * (mean**2 + variance)
    sums = row_sums(features, problem.sites, STANDARD)
    assert_allclose(expected_log_sites(sums, q), expected.sum(), rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_that_of_any_function_of_the_moments(seed):
    """Of a linear one, which has the slopes everywhere, for two functions at once."""
    problem, rng = random_problem(seed, rows=False), np.random.RandomState(seed)
    posteriors = [random_posterior(seed), random_posterior(seed + 10)]
    slope = rng.randn(2, 15)
    precision, cost = rng.uniform(0.1, 2.0, (2, 2, 15))

    def value(theta, Z):
        features = problem.features(theta=theta, Z=Z)
        V, total = features.V(0), 0.0
        for q, a, p, g in zip(posteriors, slope, precision, cost, strict=True):
            inducing_variance = np.einsum("mn,mk,kn->n", V, inv(q.LB @ q.LB.T), V)
            total += a @ (V.T @ q.w) - 0.5 * p @ inducing_variance - 0.5 * g @ features.residual
        return total

    theta, Z = problem.theta, problem.Z
    found = kernel_gradient(problem.features(), posteriors, slope, precision, cost, wrt_Z=True)
    expected = central_difference(lambda t: value(t, Z), theta)
    assert_allclose(found[0], expected, rtol=1e-5, atol=1e-6)
    expected = central_difference(lambda z: value(theta, z), Z)
    assert_allclose(found[1], expected, rtol=1e-5, atol=1e-6)
    assert kernel_gradient(problem.features(), posteriors, slope, precision, cost)[1] is None
