"""Conditioning of a posterior on further targets, against formulas for dense Gaussian vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from sparsegpc._core.models.conditioning import condition
from tests.core.helpers import random_problem
from tests.core.models.test_posterior import KERNEL, SEED, posterior_at, sites_of_functions


def random_targets(rng, n_functions, n_rows):
    """Return targets and noise precisions, shape (n_functions, n_rows) each."""
    shape = n_functions, n_rows
    return rng.normal(size=shape), np.exp(rng.uniform(-1.0, 4.0, size=shape))


@KERNEL
@pytest.mark.parametrize("mean_shift", [0.0, 0.4])
@settings(max_examples=10)
@given(seed=SEED)
def test_conditioning_is_that_of_a_dense_gaussian_vector(case, mean_shift, seed):
    # The joint distribution of f at the new rows and others is Gaussian, so the moments at the
    # others given targets at the first follow from its covariance. The first prior mean is learned.
    rng = np.random.RandomState(seed)
    problem = random_problem(seed, 14, kernel=case.build(2))
    old = posterior_at(problem, sites_of_functions(problem, seed))
    shifted = old.functions[0]._replace(mean_shift=mean_shift)
    old = old._replace(functions=(shifted, *old.functions[1:]))
    X, others = rng.normal(size=(2, 5, problem.X.shape[1]))
    y, precision = random_targets(rng, 3, 5)
    new, log_density = condition(old, X, y, precision)
    moments = new.moments(others)
    means, covariances = old.covariance(np.vstack([X, others]))
    for k, (mean, C) in enumerate(zip(means, covariances, strict=True)):
        noisy = C[:5, :5] + np.diag(1.0 / precision[k])
        gain = np.linalg.solve(noisy, C[:5, 5:]).T
        variance = np.diag(C[5:, 5:] - gain @ C[:5, 5:])
        scale = np.diag(C).max()
        assert_allclose(moments[0][k], mean[5:] + gain @ (y[k] - mean[:5]), rtol=1e-6, atol=1e-6)
        assert_allclose(moments[1][k], variance, rtol=1e-6, atol=1e-6 * scale)
        exact = multivariate_normal(mean[:5], noisy).logpdf(y[k])
        assert_allclose(log_density[k], exact, rtol=1e-6, atol=1e-6)


@KERNEL
def test_two_steps_equal_one(case):
    rng = np.random.RandomState(0)
    problem = random_problem(3, 14, kernel=case.build(2))
    old = posterior_at(problem, sites_of_functions(problem, 3))
    X, others = rng.normal(size=(2, 6, problem.X.shape[1]))
    y, precision = random_targets(rng, 3, 6)
    whole, density = condition(old, X, y, precision)
    half, first = condition(old, X[:2], y[:, :2], precision[:, :2])
    half, second = condition(half, X[2:], y[:, 2:], precision[:, 2:])
    assert_allclose(half.moments(others), whole.moments(others), rtol=1e-7, atol=1e-9)
    assert_allclose(first + second, density, rtol=1e-8, atol=1e-8)


@KERNEL
def test_copies_of_rows_and_of_points_become_no_points(case):
    problem = random_problem(5, 14, kernel=case.build(2))
    old = posterior_at(problem, sites_of_functions(problem, 5))
    x = np.full((1, problem.X.shape[1]), 0.3)
    X = np.vstack([old.Z[:2], x, x])
    y, precision = random_targets(np.random.RandomState(0), 3, 4)
    new, _ = condition(old, X, y, precision)
    assert len(new.Z) <= len(old.Z) + 1
    # Two targets at a row are as one, their mean weighted by the precisions.
    y = np.column_stack(
        [y[:, :2], (y * precision)[:, 2:].sum(axis=1) / precision[:, 2:].sum(axis=1)]
    )
    precision = np.column_stack([precision[:, :2], precision[:, 2:].sum(axis=1)])
    once, _ = condition(old, X[:3], y, precision)
    assert_allclose(new.moments(X), once.moments(X), rtol=1e-7, atol=1e-9)
