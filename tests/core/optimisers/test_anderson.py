"""Anderson's extrapolation on iterations whose fixed points are known."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.optimisers.anderson import Anderson


class Point(NamedTuple):
    """A point of the iteration x -> A x + b, and its image, in a diagonal metric."""

    x: np.ndarray
    image: np.ndarray
    metric: np.ndarray
    allowed: bool = True

    def residual(self, x, image):
        return np.sqrt(self.metric) * (image - x)

    def combined(self, gamma, images):
        return images[-1] - gamma @ np.diff(images, axis=0) if self.allowed else None


class Iteration:
    """A linear iteration in `dim` directions, far from a contraction."""

    def __init__(self, dim, seed, norm=3.0):
        rng = np.random.RandomState(seed)
        A = rng.randn(dim, dim)
        self.A, self.b = norm * A / np.linalg.norm(A, 2), rng.randn(dim)
        self.fixed = np.linalg.solve(np.eye(dim) - self.A, self.b)
        self.metric = rng.uniform(0.1, 10.0, dim)

    def point(self, x, allowed=True):
        return Point(x, self.A @ x + self.b, self.metric, allowed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_a_linear_problem_is_solved_in_one_step_more_than_it_has_directions(dim, seed):
    iteration, anderson = Iteration(dim, seed), Anderson(dim)
    x = np.zeros(dim)
    for _ in range(dim + 1):
        x = anderson.next(iteration.point(x))
    # But for the ridge on the changes.
    assert_allclose(x, iteration.fixed, rtol=1e-4, atol=1e-4)


def test_the_first_step_is_plain_and_further_ones_are_not():
    iteration, anderson = Iteration(3, 0), Anderson(2)
    first = iteration.point(np.zeros(3))
    assert not anderson.extrapolated
    assert_array_equal(anderson.next(first), first.image)
    assert not anderson.extrapolated
    anderson.next(iteration.point(first.image))
    assert anderson.extrapolated


def test_no_weights_that_add_up_to_one_have_a_shorter_residual(rng):
    iteration, anderson = Iteration(6, 1), Anderson(3)
    tried = [iteration.point(rng.randn(6)) for _ in range(4)]
    for point in tried[:-1]:
        anderson.next(point)
    found = anderson.next(tried[-1])
    root = np.sqrt(iteration.metric)
    residuals = np.stack([root * (point.image - point.x) for point in tried])
    images = np.stack([point.image for point in tried])
    weights = np.linalg.lstsq(images.T, found, rcond=None)[0]
    assert weights.sum() == pytest.approx(1.0)
    shortest = np.linalg.norm(weights @ residuals)
    for _ in range(50):
        change = rng.randn(4)
        change -= change.mean()
        other = np.linalg.norm((weights + 1e-2 * change) @ residuals)
        assert other > shortest * (1.0 - 1e-9)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_no_more_pairs_are_kept_than_the_depth_and_one(depth):
    """What came before them does not matter."""
    iteration, rng = Iteration(5, 2), np.random.RandomState(0)
    points = [iteration.point(rng.randn(5)) for _ in range(7)]
    whole, late = Anderson(depth), Anderson(depth)
    for point in points:
        found = whole.next(point)
    for point in points[-depth - 1 :]:
        expected = late.next(point)
    assert_array_equal(found, expected)
    assert whole.extrapolated == (depth > 0)


def test_what_is_forgotten_is_not_extrapolated_from():
    iteration, anderson = Iteration(3, 3), Anderson(4)
    for x in np.eye(3):
        anderson.next(iteration.point(x))
    anderson.forget()
    assert not anderson.extrapolated
    point = iteration.point(np.ones(3))
    assert_array_equal(anderson.next(point), point.image)


@pytest.mark.parametrize("keeps_pairs", [False, True])
def test_a_refused_extrapolation_is_forgotten_and_plain_steps_if_asked(keeps_pairs):
    iteration = Iteration(3, 4)
    points = [iteration.point(x) for x in np.eye(3)]
    anderson = Anderson(4, keeps_pairs)
    anderson.next(points[0])
    anderson.refuse()
    anderson.next(points[1])
    assert anderson.extrapolated == keeps_pairs
    anderson.next(points[2])
    assert anderson.extrapolated
    anderson.refuse()
    assert not anderson.extrapolated
    assert_array_equal(anderson.next(points[0]), points[0].image)


def test_a_combination_that_is_no_point_gives_way_to_the_image():
    iteration, anderson = Iteration(3, 5), Anderson(4)
    anderson.next(iteration.point(np.zeros(3)))
    refused = iteration.point(np.ones(3), allowed=False)
    assert_array_equal(anderson.next(refused), refused.image)
    assert not anderson.extrapolated
    # The pairs are forgotten, too.
    last = iteration.point(np.full(3, 2.0))
    assert_array_equal(anderson.next(last), last.image)


def test_points_that_repeat_do_no_harm():
    iteration, anderson = Iteration(3, 6), Anderson(4)
    for _ in range(4):
        found = anderson.next(iteration.point(iteration.fixed))
    assert_allclose(found, iteration.fixed, rtol=1e-9)
