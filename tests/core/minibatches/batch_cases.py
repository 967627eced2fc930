"""Targets in batches, with the model of one noise variance in its first state."""

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.collapsed import FunctionPosterior, collapse, divergence, row_sums
from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.minibatches.explicit_posterior import expected_log_sites
from sparsegpc._core.minibatches.gaussian_batches import (
    GaussianBatches,
    batch_gradient,
    gaussian_sites,
)
from tests.core.helpers import free, random_problem, read_only

# The slacks that are sums over rows.
SUM_SLACK = pytest.mark.parametrize("slack", [TIGHT, STANDARD], ids=["tight", "standard"])
SEED = st.integers(0, 2**31)
LOG_NOISE = -1.3
NOISE = np.exp(LOG_NOISE)
SCALED_RBF = free(Scaled(Constant(), RBF()), [0.0, 0.0])


def batches(kernel, slack=TIGHT, **options):
    """Return the model of one noise variance."""
    return GaussianBatches(kernel, slack=slack, **options)


def first_state(model, kernel_theta, noise_variance, Z):
    """Return the first state of such a model."""
    return model.start(np.append(kernel_theta, np.log(noise_variance)), Z)


def posterior_of(model, state):
    (posterior,) = model.posteriors(state)
    return posterior


class Data:
    """Rows, targets, weights and a model in its first state."""

    def __init__(self, seed, n=24, m=5, *, slack=TIGHT, rows=False, kernel=None, **options):
        rng = np.random.RandomState(seed)
        self.problem = random_problem(seed, n=n, m=m, rows=rows, kernel=kernel)
        self.X = self.problem.X
        self.y = read_only(rng.randn(n) + self.X[:, 0] + 0.7)
        self.weight = read_only(rng.uniform(0.5, 2.0, n))
        self.slack = slack
        self.model = batches(self.problem.kernel, slack, **options)
        self.start = first_state(self.model, self.problem.theta, NOISE, self.problem.Z)

    def features(self):
        return self.problem.features(jitter=self.start.jitter)

    def collapsed(self, prior_mean=None):
        sites = gaussian_sites(self.y, self.weight, LOG_NOISE)
        return collapse(self.features(), sites, self.slack, prior_mean)

    def step(self, state, rows=slice(None), **options):
        return self.model.step(state, self.X[rows], self.y[rows], self.weight[rows], **options)

    def estimate(self, state, posterior, rows=slice(None)):
        """Return an estimate of the bound, at any q(u), from some of the rows."""
        features = self.model._features(state, self.X[rows])
        sites = gaussian_sites(self.y[rows], self.weight[rows], state.theta[-1])
        sums = row_sums(features, sites, self.slack)
        of_rows = expected_log_sites(sums, posterior) + self.slack.value(sums.slack, None)
        return len(self.y) / len(self.y[rows]) * of_rows - divergence(posterior)

    def gradient(self, posterior, rows=slice(None)):
        """Return the gradient of the bound of some rows at fixed q(u), w.r.t. theta and Z."""
        sites = gaussian_sites(self.y[rows], self.weight[rows], LOG_NOISE)
        problem = self.problem._replace(X=self.X[rows])
        features = problem.features(jitter=self.start.jitter)
        sums = row_sums(features, sites, self.slack)
        return batch_gradient(features, sites, sums, LOG_NOISE, self.slack, posterior, wrt_Z=True)


def random_posterior(seed, m=5):
    rng = np.random.RandomState(seed)
    LB = np.tril(0.3 * rng.randn(m, m), -1) + np.diag(rng.uniform(0.8, 2.0, m))
    return FunctionPosterior(rng.randn(m), LB, 0.4)


def assert_same_posterior(ours, theirs, *, bound=True, rtol=1e-6, atol=1e-8):
    assert_allclose(ours.w, theirs.w, rtol=rtol, atol=atol)
    assert_allclose(ours.LB, theirs.LB, rtol=rtol, atol=atol)
    assert_allclose(ours.prior_mean, theirs.prior_mean, rtol=rtol, atol=atol)
    if bound:
        assert_allclose(ours.bound, theirs.bound, rtol=1e-9)
        assert_allclose(ours.mean_ratio, theirs.mean_ratio, rtol=1e-9)


def wave(n=400, seed=0):
    """Return rows on a line, a sine with noise of deviation 0.2, and unit weights."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.randn(n), np.ones(n)
