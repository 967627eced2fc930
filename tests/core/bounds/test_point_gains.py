"""Gains of inducing points against the textbook bound with and without them.

The oracle sees covariance matrices only, and knows neither whitened features nor inverses that are
updated.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.collapsed import collapse
from sparsegpc._core.bounds.point_gains import (
    gains_of_new_points,
    gains_of_points,
    removal_order,
)
from sparsegpc._core.bounds.slacks import SPHERICAL, STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant, Matern32
from sparsegpc._core.likelihoods.base import Sites
from tests.core.helpers import SLACK, random_problem, slack_value

LEARNS_MEAN = pytest.mark.parametrize("learns_mean", [True, False])
FIXED_MEAN = -0.4


def problem_of(seed=0, n=30, m=7, family=Matern32):
    kernel = Scaled(Constant(), family(2))
    return random_problem(seed, n, m, kernel=kernel, log_precision=(-1.0, 2.0))


def other_sites(problem):
    """Sites of a second function of the same rows."""
    p, b, log_scale = problem.sites
    return Sites(p[::-1].copy(), 0.5 - b, log_scale)


def textbook_bound(problem, sites, slack, learns_mean, Z):
    """Return log N(b/p; mean, Q + 1/p), maximised over the mean if it is learned, plus the slack.

    It leaves out what does not depend on Z or the mean.
    """
    kernel, theta, X = problem.kernel, problem.theta, problem.X
    Kuf = kernel.value(theta, Z, X)
    Q = Kuf.T @ np.linalg.solve(kernel.value(theta, Z, Z), Kuf)
    S, y = Q + np.diag(1.0 / sites.precision), sites.shift / sites.precision
    ones = np.ones(len(y))
    mean = FIXED_MEAN
    if learns_mean:
        mean = (ones @ np.linalg.solve(S, y)) / (ones @ np.linalg.solve(S, ones))
    quadratic = (y - mean) @ np.linalg.solve(S, y - mean)
    cost = sites.precision * np.maximum(kernel.diag(theta, X) - Q.diagonal(), 0.0)
    return slack_value(slack, cost) - 0.5 * (np.linalg.slogdet(S)[1] + quadratic)


def outputs_of(problem, slack, learns_mean, features, several):
    prior_mean = None if learns_mean else FIXED_MEAN
    all_sites = [problem.sites, other_sites(problem)] if several else [problem.sites]
    return [(sites, collapse(features, sites, slack, prior_mean)) for sites in all_sites]


def gain_by_textbook(problem, outputs, slack, learns_mean, Z, less):
    return sum(
        textbook_bound(problem, sites, slack, learns_mean, Z)
        - textbook_bound(problem, sites, slack, learns_mean, less)
        for sites, _ in outputs
    )


def without(Z, *indices):
    return np.delete(Z, indices, axis=0)


@SLACK
@LEARNS_MEAN
@pytest.mark.parametrize("several", [False, True])
def test_gains_are_differences_of_the_textbook_bound(slack, learns_mean, several, rng):
    """Those of the points, of new points, and of points at rows; with the rows in blocks."""
    problem = problem_of()
    features = problem.features(jitter=0.0, block_rows=8)
    outputs = outputs_of(problem, slack, learns_mean, features, several)
    Z, others = problem.Z, (slack, learns_mean)
    expected = [
        gain_by_textbook(problem, outputs, *others, Z, without(Z, i)) for i in range(len(Z))
    ]
    gains = gains_of_points(features, outputs, *others).gains()
    assert_allclose(gains, expected, rtol=1e-8, atol=1e-9)
    assert gains.std() > 0.1
    new = np.vstack([rng.randn(3, 2), problem.X[:2], [[30.0, 30.0]]])
    expected = [gain_by_textbook(problem, outputs, *others, np.vstack([Z, z]), Z) for z in new]
    found = gains_of_new_points(features, outputs, *others, new)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@LEARNS_MEAN
def test_gains_stay_exact_as_points_are_removed(learns_mean):
    """With the standard slack, which is linear in the residuals."""
    problem = problem_of()
    features = problem.features(jitter=0.0)
    outputs = outputs_of(problem, STANDARD, learns_mean, features, several=True)
    gains = gains_of_points(features, outputs, STANDARD, learns_mean)
    for place in (2, 0, 3):
        gains.remove(place)
        Z = problem.Z[gains.left]
        expected = [
            gain_by_textbook(problem, outputs, STANDARD, learns_mean, Z, without(Z, i))
            for i in range(len(Z))
        ]
        assert_allclose(gains.gains(), expected, rtol=1e-7, atol=1e-8)
    assert gains.left.tolist() == [1, 3, 4, 6]


@pytest.mark.parametrize("slack", [TIGHT, SPHERICAL], ids=["tight", "spherical"])
def test_gains_after_a_removal_are_nearly_exact_with_other_slacks(slack):
    problem = problem_of(n=60, m=12)
    features = problem.features(jitter=0.0)
    outputs = outputs_of(problem, slack, True, features, several=False)
    gains = gains_of_points(features, outputs, slack, True)
    gains.remove(int(gains.gains().argmin()))
    Z = problem.Z[gains.left]
    expected = [
        gain_by_textbook(problem, outputs, slack, True, Z, without(Z, i)) for i in range(len(Z))
    ]
    assert_allclose(gains.gains(), expected, rtol=0.2, atol=0.2)


def test_removals_are_greedy_and_end_at_the_cost():
    problem = problem_of(n=40, m=9)
    features = problem.features(jitter=0.0)
    outputs = outputs_of(problem, STANDARD, True, features, several=False)

    def gains():
        return gains_of_points(features, outputs, STANDARD, True)

    left, expected, least = list(range(9)), [], []
    while len(left) > 1:
        Z = problem.Z[left]
        values = [
            gain_by_textbook(problem, outputs, STANDARD, True, Z, without(Z, i))
            for i in range(len(Z))
        ]
        least.append(min(values))
        expected.append(left.pop(int(np.argmin(values))))
    assert removal_order(gains()) == expected
    cost = 0.5 * (least[2] + max(least[:3]) + 1e-3)
    n_removed = next(k for k, value in enumerate(least) if value >= cost)
    assert 0 < n_removed < 8
    assert removal_order(gains(), cost) == expected[:n_removed]
    assert removal_order(gains(), 0.0) == []


def test_a_new_point_that_the_others_span_gains_nothing():
    problem = problem_of()
    features = problem.features(jitter=0.0)
    outputs = outputs_of(problem, TIGHT, True, features, several=True)
    found = gains_of_new_points(features, outputs, TIGHT, True, problem.Z)
    assert_allclose(found, 0.0, atol=1e-9)


def test_gains_that_rounding_would_spoil_are_left_for_another_round():
    """Of two points that nearly coincide one goes; then the gain of the other is not known."""
    problem = problem_of(family=RBF)
    features = problem.features(Z=np.vstack([problem.Z, problem.Z[2] + 1e-6]), jitter=None)
    outputs = outputs_of(problem, TIGHT, True, features, several=False)
    gains = gains_of_points(features, outputs, TIGHT, True)
    assert gains.is_reliable().all()
    gains.remove(7)
    assert gains.left[~gains.is_reliable()].tolist() == [2]
    assert 2 not in removal_order(gains)
    assert gains.left.tolist() == [2]


def test_variances_that_rounding_would_spoil_make_a_gain_unreliable():
    """Of two points that nearly coincide one goes: the posterior variance of the other is lost."""
    problem = problem_of(family=RBF)
    features = problem.features(Z=np.vstack([problem.Z, problem.Z[2] + 1e-6]), jitter=None)
    gains = gains_of_points(
        features, outputs_of(problem, TIGHT, True, features, False), TIGHT, True
    )
    function = gains._functions[0]
    gains._first[:] = 0.0
    gains.remove(7)
    assert not function.is_reliable(gains.left)[2]
    assert gains.left[~gains.is_reliable()].tolist() == [2]
    function._inverse[2, 2] = -1e-9
    assert 2 not in removal_order(gains)
