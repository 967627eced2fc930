"""Visits to batches: values, sums and moments of rows against one row at a time."""

import numpy as np
import pytest
from numpy.linalg import inv
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import KnownNoise, known_noise_targets
from sparsegpc._core.minibatches.batch_visits import Batch, initial_sums, visit_batch
from sparsegpc._core.rows.merged_rows import UnmergedRows
from tests.core.helpers import random_problem
from tests.core.minibatches.batch_cases import random_posterior

SUM_SLACK = pytest.mark.parametrize("slack", [TIGHT, STANDARD], ids=["tight", "standard"])


def make_batch(likelihood, outputs, seed=0):
    problem, rng = random_problem(seed), np.random.RandomState(seed)
    weight, targets = rng.uniform(0.5, 2.0, 15), []
    for _ in range(outputs):
        if likelihood.has_fixed_sites:
            rows, noise = UnmergedRows(None, weight), rng.uniform(0.2, 1.0, 15)
            targets.append(known_noise_targets(rng.randn(15), weight, noise, rows))
        else:
            targets.append(np.where(rng.randn(15) > 0.0, 1.0, -1.0))
    return Batch(problem.features(), [likelihood] * outputs, targets, weight)


def moments(V, q):
    return V.T @ q.w + q.prior_mean, np.einsum("mn,mk,kn->n", V, inv(q.LB @ q.LB.T), V)


@SUM_SLACK
def test_rows_with_fixed_sites_pay_the_slack_of_their_sites(slack):
    likelihood = KnownNoise()
    batch = make_batch(likelihood, 2)
    posteriors = [random_posterior(1), random_posterior(2)]
    found = visit_batch(batch, posteriors, slack)
    V, residual, total = batch.features.V(0), batch.features.residual, 0.0
    for k, (y, q) in enumerate(zip(batch.targets, posteriors, strict=True)):
        p, shift, log_scale = likelihood.sites(None, y, batch.weight)
        mean, inducing_variance = moments(V, q)
        cost = p * residual
        paid = np.log1p(cost) if slack is TIGHT else cost
        value = log_scale + shift * mean - 0.5 * p * (mean**2 + inducing_variance) - 0.5 * paid
        total += value.sum()
        v = 1.0 / (1.0 + cost) if slack is TIGHT else 1.0
        assert_allclose(found.slopes[0][k], shift - p * mean, rtol=1e-9, atol=1e-12)
        assert_allclose(found.slopes[1][k], p)
        assert_allclose(found.slopes[2][k], v * p, rtol=1e-12)
        assert_allclose(found.sums[k].VpV, (V * p) @ V.T, rtol=1e-9, atol=1e-12)
        assert_allclose(found.sums[k].Vb, V @ shift, rtol=1e-9, atol=1e-12)
    assert_allclose(found.value, total, rtol=1e-10)
    assert found.moments == ()


def test_scales_are_those_that_the_precisions_at_them_imply():
    likelihood, q = PolyaGammaLogit(), random_posterior(3)
    batch = make_batch(likelihood, 1)
    found = visit_batch(batch, [q], TIGHT)
    mean, inducing_variance = moments(batch.features.V(0), q)
    residual, v = batch.features.residual, np.ones(15)
    for _ in range(500):
        c = np.sqrt(mean**2 + inducing_variance + v * residual)
        precision = batch.weight * np.tanh(c / 2.0) / (2.0 * c)
        v = 1.0 / (1.0 + precision * residual)
    assert_allclose(found.slopes[1][0], precision, rtol=1e-6)
    assert_allclose(found.sums[0].precision, precision.sum(), rtol=1e-7)
    y = batch.targets[0]
    value = batch.weight * (0.5 * y * mean - np.logaddexp(0.5 * c, -0.5 * c))
    value -= 0.5 * (v - np.log(v) - 1.0)
    assert_allclose(found.value, value.sum(), rtol=1e-8)


def test_sites_to_begin_with_are_those_of_the_likelihood():
    likelihood = PolyaGammaLogit()
    batch = make_batch(likelihood, 2)
    V = batch.features.V(0)
    for sums, y in zip(initial_sums(batch), batch.targets, strict=True):
        (state,) = likelihood.initial_states(y, batch.weight)
        assert_allclose(sums.VpV, (V * state.precision) @ V.T, rtol=1e-10, atol=1e-13)
        assert_allclose(sums.Vb, V @ state.shift, rtol=1e-9, atol=1e-12)
        assert_allclose(sums.shift, state.shift.sum(), rtol=1e-12)
        assert sums.log_scale == sums.slack == 0.0
