"""L-BFGS in a metric, on functions that are concave."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.optimisers.lbfgs import CorrectionPairs, maximize_lbfgs
from tests.core.optimisers.concave import Concave


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_a_quadratic_in_its_own_metric_takes_one_step(shape):
    problem = Concave(0, shape, 0.0)
    start = problem.evaluate(np.zeros(shape))
    best, solved, *_ = maximize_lbfgs(problem.evaluate, start, problem.newton, 1e-12)
    assert solved
    assert_allclose(best.x, problem.top, rtol=1e-9)
    assert problem.n_evaluations == 2


def test_without_steps_the_start_is_the_best():
    problem = Concave(0, (3,), 0.0)
    start = problem.evaluate(np.zeros(3))
    best, solved, *_ = maximize_lbfgs(problem.evaluate, start, problem.newton, 1e-12, max_iter=0)
    assert best is start
    assert not solved


@pytest.mark.parametrize("quartic", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("metric", ["newton", "another"])
def test_it_ends_within_the_tolerance_of_the_top(seed, quartic, metric):
    problem = Concave(seed, (2, 3), quartic)
    step = problem.newton
    if metric == "another":
        scale = np.random.RandomState(seed).uniform(0.05, 0.5, (2, 3))

        def step(gradient):
            return scale * gradient

    start = problem.evaluate(np.zeros((2, 3)))
    best, solved, *_ = maximize_lbfgs(problem.evaluate, start, step, 1e-6)
    assert best.value >= problem.evaluate(np.zeros((2, 3))).value
    assert best.value <= 0.0
    if solved:
        assert best.value > -1e-3
    assert solved or metric == "another"


def test_a_step_that_is_too_long_is_halved():
    problem = Concave(1, (3,), 0.0)
    start = problem.evaluate(problem.top + 1.0)
    best, *_ = maximize_lbfgs(
        problem.evaluate, start, lambda gradient: 64.0 * problem.newton(gradient), 1e-9
    )
    assert_allclose(best.x, problem.top, atol=1e-4)


@pytest.mark.parametrize("start", [30.0, 60.0, 100.0])
def test_newton_steps_from_where_a_function_is_nearly_straight_find_the_top(start):
    """Such is the log density of a positive number far below its mean."""
    n_evaluations = 0

    def evaluate(x):
        nonlocal n_evaluations
        n_evaluations += 1
        with np.errstate(over="ignore"):
            fall = np.exp(-x)
        return SimpleNamespace(x=x, value=-float((x + fall).sum()), gradient=fall - 1.0)

    best, solved, *_ = maximize_lbfgs(
        evaluate, evaluate(np.array([start])), lambda gradient: np.exp(start) * gradient, 1e-9
    )
    assert solved
    assert_allclose(best.x, 0.0, atol=1e-3)
    # A halving at a time, the first step alone would take as many as its binary digits.
    assert n_evaluations < 100


def test_a_start_at_the_top_stays():
    problem = Concave(2, (3,), 1.0)
    start = problem.evaluate(problem.top)
    best, solved, *_ = maximize_lbfgs(problem.evaluate, start, problem.newton, 1e-9)
    assert best is start
    assert solved
    assert problem.n_evaluations == 1


def test_a_function_that_is_lost_in_nans_is_given_up():
    problem = Concave(3, (3,), 0.0)
    start = problem.evaluate(np.zeros(3))
    broken = SimpleNamespace(x=np.ones(3), value=np.nan, gradient=np.full(3, np.nan))
    best, solved, *_ = maximize_lbfgs(lambda x: broken, start, problem.newton, 1e-9)
    assert best is start
    assert not solved


def test_a_search_reproduces_the_last_change_of_its_gradient():
    """The secant equation, whatever the metric."""
    rng = np.random.RandomState(5)
    pairs, A = CorrectionPairs(), rng.randn(6, 6)
    for _ in range(3):
        step = rng.randn(2, 3)
        change = ((A @ A.T + np.eye(6)) @ step.ravel()).reshape(2, 3)
        pairs.add(step, change)
        found = pairs.direction(change, lambda gradient: np.array([2.0, 0.5, 1.0]) * gradient)
        assert_allclose(found, step, rtol=1e-10)


def plain_step(pairs):
    """Return the step for the curvature along the last one in all directions."""
    length = pairs.plain_length()
    return lambda gradient: gradient.copy() if length is None else length * gradient


def learned_pairs(problem, longest=None):
    """Return the end of a search and its pairs."""
    pairs, start = CorrectionPairs(longest), problem.evaluate(np.zeros(problem.shape))
    best, *_ = maximize_lbfgs(problem.evaluate, start, lambda g: 0.01 * g, 1e-6, 40, pairs=pairs)
    return best, pairs


def test_a_search_goes_on_from_the_pairs_of_another_function():
    """Of a function whose top is elsewhere, a hundred times as high."""
    near, far = (Concave(6, (2, 3), 0.05) for _ in range(2))
    best, pairs = learned_pairs(near)
    far.top = near.top + 0.1
    lost = {}
    for name, own in (("new", CorrectionPairs()), ("old", pairs.scaled(100.0))):
        found, *_ = maximize_lbfgs(
            lambda x: scaled_point(far.evaluate(x), 100.0),
            scaled_point(far.evaluate(best.x), 100.0),
            plain_step(own),
            1e-9,
            3,
            pairs=own,
        )
        lost[name] = -found.value
    assert lost["old"] < 0.01 * lost["new"]


def scaled_point(point, factor):
    return SimpleNamespace(x=point.x, value=factor * point.value, gradient=factor * point.gradient)


def test_scaled_pairs_are_those_of_the_scaled_function():
    problem, gradient = Concave(7, (2, 3), 0.1), np.arange(6.0).reshape(2, 3)
    _, pairs = learned_pairs(problem)
    step = pairs.direction(gradient, plain_step(pairs))
    scaled = pairs.scaled(8.0)
    assert_allclose(scaled.direction(8.0 * gradient, plain_step(scaled)), step, rtol=1e-10)
    assert_allclose(pairs.direction(gradient, plain_step(pairs)), step, rtol=1e-15)


def test_only_the_last_pairs_are_kept():
    """With one pair, L-BFGS is the memoryless BFGS update."""
    rng = np.random.RandomState(8)
    pairs, A = CorrectionPairs(1), rng.randn(4, 4)
    hessian = A @ A.T + np.eye(4)
    for _ in range(3):
        s = rng.randn(4)
        y = hessian @ s
        pairs.add(s, y)
    rho, gamma, gradient = 1.0 / (s @ y), (s @ y) / (y @ y), rng.randn(4)
    V = np.eye(4) - rho * np.outer(y, s)
    expected = (gamma * V.T @ V + rho * np.outer(s, s)) @ gradient
    assert_allclose(pairs.direction(gradient, plain_step(pairs)), expected, rtol=1e-10)


def test_the_plain_length_is_that_of_the_last_step_along_some_entries():
    pairs = CorrectionPairs()
    assert pairs.plain_length() is None
    curvature = np.array([2.0, 2.0, 8.0])
    for step in (np.ones(3), np.array([1.0, -2.0, 3.0])):
        pairs.add(step, curvature * step)
    assert_allclose(pairs.plain_length(slice(0, 2)), 0.5)
    assert_allclose(pairs.plain_length(slice(2, 3)), 0.125)
    assert 0.125 < pairs.plain_length() < 0.5
    pairs.add(np.ones(3), np.array([-1.0, 0.0, 8.0]))
    assert pairs.plain_length(slice(0, 2)) is None
    assert pairs.plain_length() == 7.0 / 65.0


@pytest.mark.parametrize("n_evaluations", [0, 1, 3])
def test_a_search_stops_when_asked_to(n_evaluations):
    problem = Concave(9, (3,), 0.1)
    start = problem.evaluate(np.zeros(3))
    problem.n_evaluations = 0
    best, *_ = maximize_lbfgs(
        problem.evaluate,
        start,
        lambda gradient: 0.01 * gradient,
        1e-12,
        is_stopped=lambda: problem.n_evaluations == n_evaluations,
    )
    assert problem.n_evaluations == n_evaluations
    assert best.value >= start.value
