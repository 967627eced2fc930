"""The bound of the Bayesian GP-LVM against quadrature and regression, and its gradient."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.latent_inputs.collapsed_bound import LatentData, evaluate
from sparsegpc._core.latent_inputs.kernel_expectations import JITTER
from sparsegpc._core.likelihoods.base import Sites
from sparsegpc._core.rows.blocks import RowBlocks
from tests.core.helpers import central_difference
from tests.core.latent_inputs.gplvm_problem import kernel, nodes, problem, textbook_bound

PENALTIES = {"standard": (STANDARD, lambda c: c), "tight": (TIGHT, np.log1p)}
every_bound = pytest.mark.parametrize("name", PENALTIES)


@every_bound
def test_the_bound_is_that_of_quadrature(name):
    slack, penalty = PENALTIES[name]
    Y, params = problem()
    found = evaluate(params, LatentData(Y, slack)).value
    assert_allclose(found, textbook_bound(params, Y, penalty), rtol=1e-9)


@every_bound
def test_the_gradient_is_that_of_differences(name):
    Y, params = problem()
    data = LatentData(Y, PENALTIES[name][0])
    found = evaluate(params, data)
    expected = central_difference(
        lambda x: evaluate(params.from_vector(x), data).value, params.to_vector()
    )
    assert_allclose(found.gradient, expected, rtol=1e-6, atol=1e-6)


@every_bound
def test_known_inputs_give_the_bounds_of_regressions(name):
    """As the variances vanish, the rest of the bound is a sum over columns."""
    slack = PENALTIES[name][0]
    Y, params = problem(spread=1e-9)
    theta = np.append(np.log(params.signal), 0.5 * np.log(params.widths))
    gp = Scaled(Constant(), RBF(2))
    total = 0.0
    for y in Y.T:
        rows = ~np.isnan(y)
        y, X = y[rows], params.mean[rows]
        precision = np.full(len(y), 1.0 / params.noise)
        log_scale = -0.5 * (np.log(2.0 * np.pi * params.noise) + y**2 / params.noise)
        features = RowFeatures(RowBlocks(len(y), 4), gp, theta, params.Z, X, jitter=JITTER)
        sites = Sites(precision, y / params.noise, log_scale)
        total += collapse(features, sites, slack, prior_mean=0.0).bound
    divergence = params.mean**2 + params.variance - np.log(params.variance) - 1.0
    found = evaluate(params, LatentData(Y, slack)).value
    assert_allclose(found + 0.5 * divergence.sum(), total, rtol=1e-6)


def test_the_bounds_are_below_the_log_density_and_the_tight_one_is_nearer():
    """The density of two rows by quadrature over their latent inputs, in one dimension."""
    Y, params = problem(n_rows=2, n_columns=2, n_latent=1, n_points=2)
    Y = np.nan_to_num(Y, nan=0.4)
    standard, tight = (evaluate(params, LatentData(Y, s)).value for s in (STANDARD, TIGHT))
    places, weights = nodes(np.zeros(2), np.ones(2))
    density = 0.0
    for X, weight in zip(places, weights, strict=True):
        K = kernel(params, X[:, None], X[:, None]) + params.noise * np.eye(2)
        density += weight * np.exp(multivariate_normal(cov=K).logpdf(Y.T).sum())
    assert standard < tight - 1e-3
    assert tight < np.log(density)


def test_blocks_of_rows_do_not_change_the_bound(monkeypatch):
    Y, params = problem()
    whole = evaluate(params, LatentData(Y, TIGHT))
    monkeypatch.setattr("sparsegpc._core.latent_inputs.collapsed_bound.BLOCK_BYTES", 160)
    blocks = evaluate(params, LatentData(Y, TIGHT, n_threads=2, memory=0))
    assert_allclose(blocks.value, whole.value)
    assert_allclose(blocks.gradient, whole.gradient, rtol=1e-10, atol=1e-12)
