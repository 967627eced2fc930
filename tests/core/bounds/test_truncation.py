"""Smaller models from one fit, against models of the first points made afresh.

The points are factored with the jitter of all of them, relative to the mean diagonal of all of
them, so the models are compared at one and the same covariance: that of a stationary kernel, whose
diagonal is constant, or a dense one.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.collapsed import SLACKS, collapse
from sparsegpc._core.bounds.truncation import nested_sums, truncate
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import Constant, Matern12
from tests.core.helpers import random_problem

SLACK = pytest.mark.parametrize("slack", SLACKS)
PRIOR_MEAN = pytest.mark.parametrize(
    "prior_mean", [None, 0.0, -0.8], ids=["learned", "zero", "-0.8"]
)
SEED = st.integers(0, 2**31)


def stationary_problem(seed, **options):
    kernel = Scaled(Constant(), Matern12(2))
    return random_problem(seed, kernel=kernel, **{"n": 18, "m": 6, "rows": False, **options})


def first_points(problem, m):
    return problem._replace(Z=problem.Z[:m])


def dense_bound(problem, m, slack, prior_mean):
    """Return the bound on the first m points from (N, N) matrices, with the jitter of all."""
    Kuu, Kuf, Kff = problem.dense()
    Q = Kuf[:m].T @ np.linalg.solve(Kuu[:m, :m], Kuf[:m])
    precision, shift, own = problem.sites
    root = np.sqrt(precision)
    inner = np.eye(len(root)) + root[:, None] * Q * root
    pull = shift - precision * prior_mean
    quadratic = pull @ Q @ pull - (root * (Q @ pull)) @ np.linalg.solve(inner, root * (Q @ pull))
    constant = (prior_mean * shift - 0.5 * prior_mean**2 * precision + own).sum()
    cost = precision * np.maximum((Kff - Q).diagonal(), 0.0)
    paid = {
        "standard": cost.sum(),
        "spherical": len(cost) * np.log(1.0 + cost.mean()),
        "tight": np.log(1.0 + cost).sum(),
    }
    return constant - 0.5 * np.linalg.slogdet(inner)[1] + 0.5 * quadratic - 0.5 * paid[slack]


@SLACK
@PRIOR_MEAN
@pytest.mark.parametrize("rows", [{}, {"block_rows": 5, "n_threads": 2, "memory": 0}])
def test_every_prefix_is_the_model_on_its_points(slack, prior_mean, rows):
    problem = stationary_problem(0)
    nested = nested_sums(problem.features(**rows), problem.sites, slack, prior_mean)
    for m in range(1, 7):
        ours = truncate(nested, m)
        theirs = collapse(first_points(problem, m).features(), problem.sites, slack, prior_mean)
        assert ours.w.shape == (m,)
        assert_allclose(ours.bound, theirs.bound, rtol=1e-10)
        assert_allclose(ours.prior_mean, theirs.prior_mean, rtol=1e-9)
        assert_allclose(ours.mean_cost, theirs.mean_cost, rtol=1e-9)
        assert_allclose(ours.w, theirs.w, rtol=1e-7, atol=1e-9)
        assert_allclose(ours.LB, theirs.LB, rtol=1e-9, atol=1e-10)


@SLACK
@given(seed=SEED, n=st.integers(1, 15), m=st.integers(1, 8), prior_mean=st.floats(-2.0, 2.0))
def test_every_prefix_has_the_dense_bound(slack, seed, n, m, prior_mean):
    """Of a kernel whose diagonal is not constant; more points than rows are allowed."""
    problem = random_problem(seed, n=n, m=m, rows=False)
    nested = nested_sums(problem.features(block_rows=4), problem.sites, slack, prior_mean)
    for k in range(1, m + 1):
        expected = dense_bound(problem, k, slack, prior_mean)
        ours = truncate(nested, k).bound
        assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


@SLACK
@PRIOR_MEAN
def test_all_points_are_the_whole_model(slack, prior_mean):
    problem = stationary_problem(1)
    row_features = problem.features()
    whole = collapse(row_features, problem.sites, slack, prior_mean)
    ours = truncate(nested_sums(row_features, problem.sites, slack, prior_mean), 6)
    assert_allclose(ours.bound, whole.bound, rtol=1e-14)
    assert_allclose(ours.w, whole.w, rtol=1e-12, atol=1e-14)
    assert_array_equal(ours.LB, whole.LB)


@given(seed=SEED, exponents=st.tuples(st.floats(-4, 4), st.floats(-4, 4)).map(sorted))
def test_standard_never_falls_as_points_are_added(seed, exponents):
    problem = stationary_problem(seed, log_precision=exponents)
    nested = nested_sums(problem.features(), problem.sites, "standard")
    bounds = np.array([truncate(nested, m).bound for m in range(1, 7)])
    assert (np.diff(bounds) >= -1e-9 * (1.0 + np.abs(bounds[:-1]))).all()


@given(seed=SEED)
def test_tight_never_falls_along_the_dearest_rows(seed):
    problem = stationary_problem(seed, m=1, rows=True)
    for _ in range(5):
        cost = problem.sites.precision * problem.features().residual
        problem = problem._replace(Z=np.concatenate([problem.Z, problem.X[[int(np.argmax(cost))]]]))
    nested = nested_sums(problem.features(), problem.sites, "tight")
    bounds = np.array([truncate(nested, m).bound for m in range(1, 7)])
    assert (np.diff(bounds) >= -1e-7 * (1.0 + np.abs(bounds[:-1]))).all()


@pytest.mark.parametrize("block_rows", [None, 1, 5])
def test_path_of_costs_is_that_of_the_residuals(block_rows):
    problem = stationary_problem(2)
    nested = nested_sums(problem.features(block_rows=block_rows), problem.sites, "tight")
    precision = problem.sites.precision
    assert_allclose(
        nested.costs[0], precision @ problem.kernel.diag(problem.theta, problem.X), rtol=1e-12
    )
    assert nested.costs.shape == nested.log_costs.shape == (7,)
    for m in range(1, 7):
        cost = precision * first_points(problem, m).features().residual
        assert_allclose(nested.costs[m], cost.sum(), rtol=1e-9)
        assert_allclose(nested.log_costs[m], np.log1p(cost).sum(), rtol=1e-9)
    assert nested.n_rows == 18


@given(seed=SEED, exponents=st.tuples(st.floats(-8, 8), st.floats(-8, 8)).map(sorted))
def test_what_is_missed_falls_with_every_point_and_is_not_negative(seed, exponents):
    problem = stationary_problem(seed, rows=True, log_precision=exponents)
    nested = nested_sums(problem.features(), problem.sites, "tight")
    for path in (nested.costs, nested.log_costs):
        assert (path >= 0.0).all()
        assert (np.diff(path) <= 1e-14 * path[0]).all()


@SLACK
def test_truncating_twice_is_truncating_once(slack):
    problem = stationary_problem(3)
    nested = nested_sums(problem.features(), problem.sites, slack)
    twice, once = nested.truncated(5).truncated(3), nested.truncated(3)
    for ours, theirs in zip(twice.sums, once.sums, strict=True):
        assert_array_equal(ours, theirs)
    for ours, theirs in zip(twice[1:], once[1:], strict=True):
        assert_array_equal(ours, theirs)
    assert once.costs.shape == (4,)
    bound = truncate(nested.truncated(5), 2).bound
    assert bound == truncate(nested, 2).bound


@SLACK
def test_truncated_sums_are_those_of_the_smaller_model(slack):
    problem = stationary_problem(4)
    small = nested_sums(first_points(problem, 4).features(), problem.sites, slack)
    ours = nested_sums(problem.features(), problem.sites, slack).truncated(4)
    for mine, other in zip(ours.sums, small.sums, strict=True):
        assert_allclose(mine, other, rtol=1e-8, atol=1e-10)
    assert_allclose(ours.costs, small.costs, rtol=1e-9)
    assert_allclose(ours.log_costs, small.log_costs, rtol=1e-9)


def test_truncating_leaves_the_sums_alone():
    problem = stationary_problem(5)
    nested = nested_sums(problem.features(), problem.sites, "tight")
    before = [np.array(part) for part in nested.sums]
    truncate(nested, 3)
    for part, old in zip(nested.sums, before, strict=True):
        assert_array_equal(part, old)
