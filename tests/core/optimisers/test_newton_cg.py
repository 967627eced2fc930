"""Newton steps by conjugate gradients, on concave functions whose maximum is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.optimisers.newton_cg import maximize_newton
from tests.core.optimisers.concave import Concave


class Case(Concave):
    """A concave function, with its maximisation by Newton steps."""

    def maximize(self, precondition=lambda gradient: gradient, **options):
        start = self.evaluate(np.zeros(self.shape))
        options = {"tol": 1e-10, **options}
        return maximize_newton(self.evaluate, start, self.product, precondition, **options)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_a_quadratic_takes_two_steps_of_limited_accuracy(shape, seed):
    problem = Case(seed, shape)
    best, _, _, left = problem.maximize(tol=1e-3)
    assert -2e-3 < best.value <= 0.0
    assert left <= 1e-3
    assert problem.n_evaluations <= 3
    # Conjugate gradients are exact after as many as there are dimensions.
    assert problem.n_products <= 3 * np.prod(shape)


def test_the_inverse_of_the_hessian_leaves_one_product_for_each_step():
    problem = Case(0, (2, 3))
    inverse = np.linalg.inv(problem.hessian)
    best, *_ = problem.maximize(lambda gradient: (inverse @ gradient.ravel()).reshape(2, 3))
    assert_allclose(best.x, problem.top, rtol=1e-6)
    assert problem.n_products == problem.n_evaluations - 1 == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
def test_what_is_left_is_within_the_tolerance(seed, tol):
    problem = Case(seed, (2, 3), quartic=1.0)
    best, _, _, left = problem.maximize(tol=tol)
    assert left <= tol
    assert -3.0 * tol < best.value <= 0.0
    assert problem.n_evaluations < 15


def test_directions_without_curvature_do_no_harm():
    problem = Case(1, (5,), singular=True)
    best, *_ = problem.maximize()
    assert_allclose(best.value, 0.0, atol=1e-8)


def test_a_share_of_the_gain_may_be_left():
    problems = [Case(2, (2, 3), quartic=1.0) for _ in range(2)]
    gains, lefts = [], []
    for problem, share in zip(problems, (0.0, 0.1), strict=True):
        best, _, _, left = problem.maximize(relative_tol=share)
        gains.append(best.value - problem.evaluate(np.zeros((2, 3))).value)
        lefts.append(left)
    assert gains[1] < gains[0] < 1.3 * gains[1]
    assert 1e-10 < lefts[1] < 0.1 * gains[1]
    assert problems[1].n_evaluations < problems[0].n_evaluations


def test_a_full_step_that_lowers_the_value_is_halved():
    """The logarithm of a hyperbolic cosine, on which Newton's method diverges."""

    def evaluate(x):
        return SimpleNamespace(x=x, value=-np.log(np.cosh(x)).sum(), gradient=-np.tanh(x))

    start = evaluate(np.array([3.0, -2.0]))
    best, _, _, left = maximize_newton(
        evaluate,
        start,
        lambda point, direction: direction / np.cosh(point.x) ** 2,
        lambda gradient: gradient,
        tol=1e-8,
    )
    assert left < 1e-8
    assert_allclose(best.x, 0.0, atol=1e-3)


@pytest.mark.parametrize("curvature", [0.0, -0.5, 1e-320, np.nan])
def test_without_positive_curvature_the_plain_step_is_taken(curvature):
    """The curvature of a logistic function underflows at arguments that are far from zero."""

    def evaluate(x):
        value, gradient = -np.logaddexp(0.0, -x).sum(), 1.0 / (1.0 + np.exp(x))
        return SimpleNamespace(x=x, value=value, gradient=gradient)

    best, _, _, left = maximize_newton(
        evaluate,
        evaluate(np.array([-600.0])),
        lambda point, direction: curvature * direction,
        lambda gradient: 4.0 * gradient,
        tol=1.0,
        max_iter=300,
    )
    assert_allclose(best.x, 4.0, atol=6.0)
    assert left <= 1.0


def test_directions_after_one_of_negative_curvature_are_left_out():
    hessian, gradient = np.array([2.0, -1.0]), np.array([2.0, 1.0])

    def evaluate(x):
        value = gradient @ x - 0.5 * hessian @ x**2
        return SimpleNamespace(x=x, value=value, gradient=gradient - hessian * x)

    start = evaluate(np.zeros(2))
    best, _, _, left = maximize_newton(
        evaluate,
        start,
        lambda point, direction: hessian * direction,
        lambda gradient: gradient,
        tol=1e-6,
        max_iter=1,
    )
    # The first direction has the curvature 2 2^2 - 1^2 = 7, and the second one a negative one.
    assert_allclose(best.x, 5.0 / 7.0 * gradient)
    assert left == np.inf


def test_the_limit_of_steps_is_reported():
    problem = Case(3, (4,), quartic=10.0)
    best, _, _, left = problem.maximize(max_iter=2)
    assert problem.n_evaluations == 3
    assert left == np.inf
    assert best.value > problem.evaluate(np.zeros(4)).value


def test_a_gradient_that_is_not_finite_ends_the_search():
    x = np.zeros(2)
    broken = SimpleNamespace(x=x, value=np.nan, gradient=np.full(2, np.nan))
    best, *_ = maximize_newton(lambda x: broken, broken, None, lambda gradient: gradient, 1e-9)
    assert best is broken
