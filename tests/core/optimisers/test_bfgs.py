"""Hessians by BFGS updates, and maxima in a box, against scipy's minimisers."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from scipy.optimize import lsq_linear, minimize

from sparsegpc._core.optimisers.bfgs import (
    FEW_UPDATES,
    BFGSHessian,
    maximize_bfgs,
    projected_gradient,
)

WIDE = np.array([[-np.inf, np.inf]] * 2)
STEEP = np.array([[40.0, 15.0], [15.0, 9.0]])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6), st.floats(0.01, 3.0))
def test_step_is_the_highest_point_of_the_model_in_the_box(n_params, seed, longest):
    rng = np.random.RandomState(seed)
    A = rng.randn(n_params, n_params)
    hessian = BFGSHessian.known(A @ A.T + 0.1 * np.eye(n_params))
    theta, slope = rng.randn(n_params), 2.0 * rng.randn(n_params)
    bounds = np.stack([theta - rng.choice([0.0, 0.3, 9.0], n_params), theta + 0.5], axis=1)
    box = np.clip(bounds - theta[:, None], -longest, longest)
    step, gain = hessian.step(theta, slope, bounds, longest)

    def fall(s):
        return -slope @ s + 0.5 * s @ hessian.matrix @ s

    best = minimize(
        fall,
        np.zeros(n_params),
        jac=lambda s: hessian.matrix @ s - slope,
        bounds=box,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert np.all((step >= box[:, 0] - 1e-12) & (step <= box[:, 1] + 1e-12))
    np.testing.assert_allclose(gain, -fall(step), atol=1e-12)
    assert gain >= -best.fun - 1e-7


def test_a_parameter_without_room_stays():
    bounds = np.array([[1.0, 1.0], [-5.0, 5.0]])
    step, gain = BFGSHessian(np.full(2, 4.0)).step(
        np.array([1.0, 0.0]), np.array([3.0, 2.0]), bounds, 1.0
    )
    np.testing.assert_allclose(step, [0.0, 0.5])
    assert gain == pytest.approx(0.5)
    step, gain = BFGSHessian(np.full(1, 4.0)).step(np.ones(1), np.ones(1), bounds[:1], 1.0)
    assert (step, gain) == (0.0, 0.0)


def test_a_slope_next_to_zero_does_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        step, _ = BFGSHessian(np.full(2, 1.0)).step(
            np.zeros(2), np.array([5e-324, 1.0]), 9.0 * WIDE, 3.0
        )
    np.testing.assert_allclose(step, [0.0, 1.0], atol=1e-300)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6))
def test_curvature_along_the_last_step_is_right_and_stays_positive(n_params, seed):
    rng = np.random.RandomState(seed)
    hessian = BFGSHessian(np.full(n_params, 2.0))
    first = rng.randn(n_params)
    hessian.update(first, 3.0 * first)
    for _ in range(6):
        step, fall = rng.randn(2, n_params)
        expected = step @ hessian.matrix @ step
        guessed = step @ fall
        hessian.update(step, fall)
        assert np.linalg.eigvalsh(hessian.matrix).min() > 0.0
        along = step @ hessian.matrix @ step
        if guessed >= 0.2 * expected:
            np.testing.assert_allclose(hessian.matrix @ step, fall, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_allclose(along, 0.2 * expected, rtol=1e-5)


@pytest.mark.parametrize("fall", [-1.0, 0.0])
def test_curvature_stays_positive_if_the_first_step_leads_over_a_valley(fall):
    hessian, step = BFGSHessian(np.full(3, 2.0)), np.array([0.3, -1.0, 0.1])
    hessian.update(step, fall * step)
    assert np.linalg.eigvalsh(hessian.matrix).min() > 0.0
    # Of the other directions nothing was learned.
    across = np.cross(step, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(hessian.matrix @ across, 2.0 * across, rtol=1e-12, atol=1e-15)


class Quadratic:
    """The function ``-|A x - b|^2 / 2``, counted."""

    def __init__(self, A, b):
        self.A, self.b, self.seen = A, b, []

    def __call__(self, x, near=None, expected=None):
        self.seen.append(np.array(x))
        error = self.A @ x - self.b
        return SimpleNamespace(x=x, value=-0.5 * error @ error, gradient=-self.A.T @ error)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([1.0, 50.0]))
def test_a_quadratic_in_a_box_is_solved_as_least_squares(n_params, seed, scale):
    rng = np.random.RandomState(seed)
    A = np.vstack([rng.randn(n_params + 2, n_params), 0.3 * np.eye(n_params)])
    b = rng.randn(len(A))
    bounds = np.sort(rng.uniform(-1.0, 1.0, (n_params, 2)), axis=1)
    function = Quadratic(A, b)
    start = function(bounds.mean(axis=1))
    hessian = BFGSHessian(np.full(n_params, 5.0 / scale))
    found = maximize_bfgs(function, start, bounds, hessian, max_iter=200, tol=1e-8, scale=scale)
    expected = lsq_linear(A, b, tuple(bounds.T), tol=1e-14)
    assert found.converged
    assert found.best.value == pytest.approx(-expected.cost, abs=1e-5)
    np.testing.assert_allclose(found.best.x, expected.x, atol=0.02)
    for x in function.seen:
        assert ((x >= bounds[:, 0]) & (x <= bounds[:, 1])).all()


def test_a_known_hessian_solves_a_quadratic_in_one_step():
    A = np.linalg.cholesky(STEEP).T
    function = Quadratic(A, A @ np.array([0.2, -0.3]))
    hessian = BFGSHessian.known(STEEP)
    start = function(np.zeros(2))
    found = maximize_bfgs(function, start, WIDE, hessian, max_iter=50, tol=1e-9)
    np.testing.assert_allclose(found.best.x, [0.2, -0.3], atol=1e-9)
    assert len(function.seen) == 2


class Quartic:
    """The concave function -sum(x^4) / 4."""

    def gradient(self, x):
        return -(x**3)

    def curvature(self, x):
        return np.diag(3.0 * x**2)


@pytest.mark.parametrize("known", [True, False])
def test_a_step_leaves_the_curvature_of_other_directions(known):
    curvatures, step = np.array([40.0, 1.0]), np.array([0.1, 0.0])
    hessian = BFGSHessian.known(np.diag(curvatures)) if known else BFGSHessian(curvatures)
    hessian.update(step, 30.0 * step)
    np.testing.assert_allclose(hessian.matrix, np.diag([30.0, 1.0]), rtol=1e-12)


def test_a_matrix_that_rounding_made_indefinite_stays_finite():
    matrix = np.array([[1e24, 1e24], [1e24, 1e24 - 1e9]])
    hessian = BFGSHessian.known(matrix)
    for fall in ([0.0, 0.0], [1.0, -1.0]):
        hessian.update(np.array([1.0, -1.0]), np.array(fall))
        assert np.isfinite(hessian.matrix).all()


def test_a_guess_is_learned_after_a_few_steps():
    hessian, step = BFGSHessian(np.ones(2)), np.array([0.1, 0.0])
    for _ in range(FEW_UPDATES):
        assert not hessian.is_learned
        hessian.update(step, 30.0 * step)
    assert hessian.is_learned
    assert BFGSHessian.known(np.eye(2)).is_learned
    # Parameters that are added have a guess.
    assert not hessian.with_parameters(2, 1, 0.5).is_learned


def test_a_guess_of_the_curvature_does_not_give_a_search_up():
    """It is too large, so the first step promises little."""
    A = np.linalg.cholesky(STEEP).T
    top = np.array([0.2, -0.3])
    for known in (False, True):
        function, curvatures = Quadratic(A, A @ top), np.full(2, 200.0)
        hessian = BFGSHessian.known(np.diag(curvatures)) if known else BFGSHessian(curvatures)
        start, options = function(np.zeros(2)), {"max_iter": 100, "tol": 1e-9, "to_beat": -1e-6}
        found = maximize_bfgs(function, start, WIDE, hessian, **options)
        assert (found.best is start) == known
        if not known:
            np.testing.assert_allclose(found.best.x, top, atol=1e-3)


def test_a_short_step_does_not_give_a_search_up():
    """The steps must be short at first, so they promise little, while the maximum is far."""
    A = np.linalg.cholesky(STEEP).T
    top = np.array([9.0, -12.0])
    function, hessian = Quadratic(A, A @ top), BFGSHessian.known(STEEP)
    start, options = function(np.zeros(2)), {"max_iter": 100, "tol": 1e-9, "to_beat": -1e-6}
    found = maximize_bfgs(function, start, 20.0 * WIDE, hessian, **options)
    np.testing.assert_allclose(found.best.x, top, atol=1e-3)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_further_parameters_leave_the_curvature_of_the_others(place):
    hessian = BFGSHessian.known(STEEP).with_parameters(place, 2, 0.5)
    others = [k for k in range(4) if not place <= k < place + 2]
    np.testing.assert_array_equal(hessian.matrix[np.ix_(others, others)], STEEP)
    added = np.delete(np.arange(4), others)
    np.testing.assert_array_equal(hessian.matrix[added][:, others], np.zeros((2, 2)))
    np.testing.assert_array_equal(hessian.matrix[np.ix_(added, added)], 0.5 * np.eye(2))


def test_steps_that_are_far_too_long_do_not_end_a_search():
    A = np.array([[32.0, -12.0, -10.0], [-22.0, 18.0, -46.0], [34.0, -16.0, 6.0]])
    x = np.array([-0.09, 0.03, -0.02])
    function, bounds = Quadratic(A, A @ x), np.array([[-np.inf, np.inf]] * 3)
    hessian, start = BFGSHessian.known(1e-3 * np.eye(3)), function(np.zeros(3))
    found = maximize_bfgs(function, start, bounds, hessian, max_iter=80, tol=1e-6)
    # The curvature is far too small, and each step along a new direction falls by far.
    values = [function(x).value - start.value for x in function.seen[1:4]]
    assert max(values) < -10.0
    assert found.converged
    np.testing.assert_allclose(found.best.x, x, atol=1e-3)


def test_a_search_may_end_when_a_step_gains_a_small_share():
    """The top of a fourth power is approached by a third of the distance in each step."""

    def function(x, near=None, expected=None):
        return SimpleNamespace(x=x, value=-float(x[0] ** 4), gradient=-4.0 * x**3)

    ends = []
    for share in (0.0, 0.01, 0.1):
        start, hessian = function(np.array([2.0])), BFGSHessian.known(np.array([[48.0]]))
        found = maximize_bfgs(
            function, start, WIDE[:1], hessian, max_iter=100, tol=1e-9, relative_tol=share
        )
        assert found.converged
        x, slope = found.best.x, found.best.gradient
        _, expected = hessian.step(x, slope, WIDE[:1], 9.0)
        assert expected < max(1e-9, share * (found.best.value - start.value))
        ends.append(found.n_iter)
    assert ends[0] > ends[1] > ends[2] > 0


def test_a_known_part_is_used_but_not_learned():
    rng = np.random.RandomState(0)
    root = rng.randn(3, 3) + 3.0 * np.eye(3)
    quadratic, known = Quadratic(root, root @ np.ones(3)), Quartic()

    def function(x, near=None, expected=None):
        point = quadratic(x)
        value = point.value - 0.25 * float((x**4).sum())
        gradient = point.gradient + known.gradient(x)
        return SimpleNamespace(x=x, value=value, gradient=gradient)

    hessian = BFGSHessian.known(root.T @ root)
    options, box = {"max_iter": 50, "tol": 1e-12}, np.array([[-np.inf, np.inf]] * 3)
    found = maximize_bfgs(function, function(np.full(3, 0.1)), box, hessian, known=known, **options)
    assert found.converged
    np.testing.assert_allclose(function(found.best.x).gradient, 0.0, atol=1e-5)
    # The matrix of the quadratic part was right from the beginning.
    np.testing.assert_allclose(hessian.matrix, root.T @ root, rtol=1e-6)


def test_the_function_is_given_the_best_point_so_far():
    function, values = Quadratic(np.linalg.cholesky(STEEP).T, np.zeros(2)), []

    def objective(x, near, expected):
        values.append(near.value)
        return function(x)

    start = function(np.array([3.0, -2.0]))
    found = maximize_bfgs(
        objective, start, WIDE, BFGSHessian(np.full(2, 1.0)), max_iter=50, tol=1e-6
    )
    assert values[0] == start.value
    assert values == sorted(values)
    assert found.best.value >= values[-1]


def test_a_maximisation_stops_when_asked_to():
    function = Quadratic(np.linalg.cholesky(STEEP).T, np.ones(2))
    found = maximize_bfgs(
        function,
        function(np.array([3.0, -2.0])),
        WIDE,
        BFGSHessian(np.full(2, 100.0)),
        max_iter=50,
        tol=1e-9,
        is_stopped=lambda: len(function.seen) == 4,
    )
    assert found.n_iter == 3
    assert len(function.seen) == 4


@pytest.mark.parametrize("bad", ["raises", "gradient"])
def test_a_point_that_cannot_be_computed_is_a_step_too_far(bad):
    function = Quadratic(np.linalg.cholesky(STEEP).T, np.zeros(2))

    def objective(x, near, expected):
        point = function(x)
        if x[0] < 0.5:
            if bad == "raises":
                raise LinAlgError("a step too far")
            point.gradient = np.full(2, np.inf)
        return point

    start = function(np.array([1.0, 0.4]))
    found = maximize_bfgs(
        objective, start, WIDE, BFGSHessian(np.full(2, 1.0)), max_iter=50, tol=1e-6
    )
    assert any(x[0] < 0.5 for x in function.seen)
    assert found.best.x[0] >= 0.5
    assert found.best.value > start.value


def test_a_start_without_a_finite_gradient_is_refused():
    start = SimpleNamespace(x=np.zeros(2), value=0.0, gradient=np.array([np.nan, 1.0]))
    with pytest.raises(LinAlgError, match="not finite"):
        maximize_bfgs(None, start, WIDE, BFGSHessian(np.full(2, 1.0)), max_iter=5, tol=1e-6)


def test_a_fall_over_an_edge_teaches_no_huge_curvature():
    """Beyond 1 the function falls by a million times its height."""

    def function(x, near=None, expected=None):
        beyond = max(x[0] - 1.0, 0.0)
        value = -0.5 * (x[0] - 0.9) ** 2 - 1e6 * beyond**2
        slope = -(x[0] - 0.9) - 2e6 * beyond
        return SimpleNamespace(x=x, value=value, gradient=np.array([slope]))

    hessian = BFGSHessian(np.array([0.1]))
    found = maximize_bfgs(
        function, function(np.zeros(1)), np.array([[-5.0, 5.0]]), hessian, max_iter=40, tol=1e-6
    )
    assert abs(found.best.x[0] - 0.9) < 1e-2


def test_a_gradient_beyond_a_bound_is_dropped_and_no_other():
    bounds = np.array([[-1.0, 1.0], [-1.0, 2.0], [-2.0, 1.0], [-2.0, 0.5], [-3.0, 3.0]])
    x, gradient = np.array([-1.0, -1.0, 1.0, 0.5, 0.0]), np.array([-0.3, 0.4, 0.5, -0.6, -0.7])
    np.testing.assert_array_equal(
        projected_gradient(x, gradient, bounds), [0.0, 0.4, 0.0, -0.6, -0.7]
    )
