"""Bounds of single rows: their sum, their derivatives and their maxima; predicted columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from sparsegpc._core.bounds.slacks import STANDARD, TIGHT
from sparsegpc._core.latent_inputs.collapsed_bound import LatentData, evaluate
from sparsegpc._core.latent_inputs.new_rows import RowBounds, columns_at, project
from tests.core.helpers import central_difference
from tests.core.latent_inputs.gplvm_problem import jittered_Kuu, kernel, problem

every_slack = pytest.mark.parametrize("slack", [STANDARD, TIGHT], ids=["standard", "tight"])


def fitted(slack):
    Y, params = problem()
    evaluation = evaluate(params, LatentData(Y, slack))
    x = np.hstack([params.mean, np.log(params.variance)])
    return Y, params, evaluation, RowBounds(Y, evaluation.posterior, slack), x


@every_slack
def test_the_bounds_of_the_training_rows_sum_to_the_collapsed_bound(slack):
    """Minus the divergence of q(u), here in the coordinates of u itself."""
    Y, params, evaluation, bounds, x = fitted(slack)
    q, Kuu, divergence = evaluation.posterior, jittered_Kuu(params), 0.0
    for d, alpha in enumerate(q.alpha.T):
        S = Kuu @ q.covariance[q.pattern_of[d]] @ Kuu
        logs = np.linalg.slogdet(Kuu)[1] - np.linalg.slogdet(S)[1]
        trace = np.trace(np.linalg.solve(Kuu, S))
        divergence += 0.5 * (trace + alpha @ Kuu @ alpha - len(Kuu) + logs)
    values, _ = bounds(x, np.arange(len(Y)))
    assert_allclose(values.sum() - divergence, evaluation.value, rtol=1e-8)
    candidates = bounds.of_candidates(params.mean, params.variance)
    assert_allclose(candidates.diagonal(), values, rtol=1e-10)


@every_slack
def test_the_gradient_of_each_row_is_that_of_differences(slack):
    Y, _, _, bounds, x = fitted(slack)
    _, found = bounds(x, np.arange(len(Y)))
    expected = central_difference(lambda x: bounds(x, np.arange(len(Y)))[0].sum(), x)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    # The derivative of the collapsed bound is that at the optimal q(u).
    joint = fitted(slack)[2].gradient[: x.size].reshape(2, len(Y), -1)
    assert_allclose(found, np.hstack(list(joint)), rtol=1e-6, atol=1e-6)


def test_each_row_is_at_a_maximum_that_no_candidate_exceeds():
    Y, params, evaluation, bounds, _ = fitted(TIGHT)
    new = np.vstack([Y + 0.1, np.full((1, 4), np.nan)])
    candidates = params.mean, params.variance
    rows = project(new, evaluation.posterior, TIGHT, candidates, max_iter=200, tol=1e-18)
    assert rows.converged.all()
    bounds = RowBounds(new, evaluation.posterior, TIGHT)
    assert (rows.bound >= bounds.of_candidates(*candidates).max(axis=1)).all()
    x = np.hstack([rows.mean, np.log(rows.variance)])
    for n in range(len(new)):
        found = minimize(lambda v, n=n: -bounds(v[None], np.array([n]))[0][0], x[n], tol=1e-9)
        assert -found.fun < rows.bound[n] + 1e-7
    # Nothing is known about a row without values.
    assert_allclose(rows.mean[-1], 0.0, atol=1e-8)
    assert_allclose(rows.variance[-1], 1.0)


def test_a_row_starts_at_its_own_place_if_that_is_better_than_the_candidates():
    Y, params, evaluation, bounds, _ = fitted(TIGHT)
    places, start = (params.mean, params.variance), {"max_iter": 0, "tol": 0.0}
    one = params.mean[1:2], params.variance[1:2]
    scores = bounds.of_candidates(*places)
    candidate, own = scores[:, 1], scores.diagonal()
    assert (own > candidate).any()
    assert (own < candidate).any()
    rows = project(Y, evaluation.posterior, TIGHT, one, **start)
    assert_allclose(rows.bound, candidate, rtol=1e-10)
    rows = project(Y, evaluation.posterior, TIGHT, one, own=places, **start)
    assert_allclose(rows.bound, np.maximum(candidate, own), rtol=1e-10)


def test_predicted_columns_are_those_of_dense_regression_at_known_inputs():
    Y, params = problem(spread=1e-9)
    q = evaluate(params, LatentData(Y, STANDARD)).posterior
    new = np.random.RandomState(3).normal(size=(5, 2))
    mean, variance = columns_at(new, q)
    to_points, Kuu = kernel(params, new, params.Z), jittered_Kuu(params)
    for d, y in enumerate(Y.T):
        rows = ~np.isnan(y)
        A = np.linalg.solve(Kuu, kernel(params, params.Z, params.mean[rows]))
        S = np.linalg.inv(np.linalg.inv(Kuu) + A @ A.T / params.noise)
        G = np.linalg.solve(Kuu, to_points.T)
        assert_allclose(mean[:, d], G.T @ S @ A @ y[rows] / params.noise, rtol=1e-6)
        expected = params.signal - np.einsum("mn,mn->n", G, (Kuu - S) @ G)
        assert_allclose(variance[:, d], expected, rtol=1e-6)
