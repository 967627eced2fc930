"""L-BFGS in a metric, on functions that are concave."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.optimisers.lbfgs import _direction, _remember, maximize_lbfgs


class Concave:
    """A quadratic less fourth powers, over arrays of one shape."""

    def __init__(self, seed, shape, quartic):
        rng = np.random.RandomState(seed)
        n = int(np.prod(shape))
        A = rng.randn(n, n)
        self.hessian, self.shape, self.quartic = A @ A.T + np.eye(n), shape, quartic
        self.top, self.n_evaluations = rng.randn(*shape), 0

    def evaluate(self, x):
        self.n_evaluations += 1
        d = (x - self.top).ravel()
        value = -0.5 * d @ self.hessian @ d - self.quartic * (d**4).sum()
        gradient = -self.hessian @ d - 4.0 * self.quartic * d**3
        return SimpleNamespace(x=x, value=value, gradient=gradient.reshape(self.shape))

    def newton(self, gradient):
        return np.linalg.solve(self.hessian, gradient.ravel()).reshape(self.shape)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_a_quadratic_in_its_own_metric_takes_one_step(shape):
    problem = Concave(0, shape, 0.0)
    start = problem.evaluate(np.zeros(shape))
    best, solved = maximize_lbfgs(problem.evaluate, start, problem.newton, 1e-12)
    assert solved
    assert_allclose(best.x, problem.top, rtol=1e-9)
    assert problem.n_evaluations == 2


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
    best, solved = maximize_lbfgs(problem.evaluate, start, step, 1e-6)
    assert best.value >= problem.evaluate(np.zeros((2, 3))).value
    assert best.value <= 0.0
    if solved:
        assert best.value > -1e-3
    assert solved or metric == "another"


def test_a_step_that_is_too_long_is_halved():
    problem = Concave(1, (3,), 0.0)
    start = problem.evaluate(problem.top + 1.0)
    best, _ = maximize_lbfgs(
        problem.evaluate, start, lambda gradient: 64.0 * problem.newton(gradient), 1e-9
    )
    assert_allclose(best.x, problem.top, atol=1e-4)


def test_a_start_at_the_top_stays():
    problem = Concave(2, (3,), 1.0)
    start = problem.evaluate(problem.top)
    best, solved = maximize_lbfgs(problem.evaluate, start, problem.newton, 1e-9)
    assert best is start
    assert solved
    assert problem.n_evaluations == 1


def test_a_function_that_is_lost_in_nans_is_given_up():
    problem = Concave(3, (3,), 0.0)
    start = problem.evaluate(np.zeros(3))
    broken = SimpleNamespace(x=np.ones(3), value=np.nan, gradient=np.full(3, np.nan))
    best, solved = maximize_lbfgs(lambda x: broken, start, problem.newton, 1e-9)
    assert best is start
    assert not solved


def test_a_search_reproduces_the_last_change_of_its_gradient():
    """The secant equation, whatever the metric."""
    rng = np.random.RandomState(5)
    pairs, A = [], rng.randn(6, 6)
    for _ in range(3):
        step = rng.randn(2, 3)
        change = ((A @ A.T + np.eye(6)) @ step.ravel()).reshape(2, 3)
        _remember(pairs, step, change)
        found = _direction(change, pairs, lambda gradient: np.array([2.0, 0.5, 1.0]) * gradient)
        assert_allclose(found, step, rtol=1e-10)
