"""The mean of q(u) at a given covariance, by the normal equations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.likelihoods.base import SiteState
from sparsegpc._core.models.posterior_means import FixedPrecisions
from tests.core.models.site_problems import make_problem


@pytest.mark.parametrize("prior_mean", [None, -0.7])
def test_a_step_of_the_mean_is_that_of_newton(prior_mean):
    """For a quadratic bound whose curvature in f is the precisions."""
    problem, rng = make_problem(9), np.random.RandomState(3)
    state = SiteState(rng.uniform(0.1, 3.0, 30), rng.randn(30))
    design = np.vstack([problem.V, np.ones(30)])
    curvature = (design * state.precision) @ design.T
    curvature[np.diag_indices(6)] += 1.0
    gradient, expected = rng.randn(7), np.zeros(7)
    free = slice(7 if prior_mean is None else 6)
    expected[free] = np.linalg.solve(curvature[free, free], gradient[free])
    function = FixedPrecisions(problem.features, state, prior_mean, 0.0)
    assert_allclose(function.newton_step(gradient), expected, rtol=1e-8)
    # The mean itself is where that step leads to from nothing.
    pull = design @ state.shift - curvature[:, 6] * (prior_mean or 0.0)
    mean = np.append(np.linalg.solve(curvature[:6, :6], pull[:6]), prior_mean)
    if prior_mean is None:
        mean = np.linalg.solve(curvature, design @ state.shift)
    assert_allclose(function.mean(), mean, rtol=1e-8)


@pytest.mark.parametrize("prior_mean", [None, -0.7])
def test_the_covariance_is_that_of_the_precisions(prior_mean):
    problem, rng = make_problem(9), np.random.RandomState(3)
    state = SiteState(rng.uniform(0.1, 3.0, 30), rng.randn(30))
    function = FixedPrecisions(problem.features, state, prior_mean, 0.0)
    expected = np.eye(6) + (problem.V * state.precision) @ problem.V.T
    assert_allclose(function.LB @ function.LB.T, expected, rtol=1e-8)
    mean = rng.randn(7)
    posterior = function.posterior(mean)
    assert_allclose(np.append(posterior.w, posterior.prior_mean), mean)
    assert posterior.mean_ratio == pytest.approx(np.mean(state.precision * problem.residual))
