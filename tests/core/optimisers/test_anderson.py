"""Anderson's extrapolation on iterations whose fixed points are known."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.optimisers.anderson import Anderson


class Attempt(NamedTuple):
    """A point of the iteration x -> A x + b, and its image, in a diagonal metric."""

    point: np.ndarray
    image: np.ndarray
    metric: np.ndarray
    allowed: bool = True

    def residual(self, point, image):
        return np.sqrt(self.metric) * (image - point)

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

    def attempt(self, x, allowed=True):
        return Attempt(x, self.A @ x + self.b, self.metric, allowed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_a_linear_problem_is_solved_in_one_step_more_than_it_has_directions(dim, seed):
    iteration, anderson = Iteration(dim, seed), Anderson(dim)
    x = np.zeros(dim)
    for _ in range(dim + 1):
        x = anderson.next(iteration.attempt(x))
    # But for the ridge on the changes.
    assert_allclose(x, iteration.fixed, rtol=1e-4, atol=1e-4)


def test_the_first_step_is_plain_and_further_ones_are_not():
    iteration, anderson = Iteration(3, 0), Anderson(2)
    first = iteration.attempt(np.zeros(3))
    assert not anderson.extrapolated
    assert_array_equal(anderson.next(first), first.image)
    assert not anderson.extrapolated
    anderson.next(iteration.attempt(first.image))
    assert anderson.extrapolated


def test_no_weights_that_add_up_to_one_have_a_shorter_residual(rng):
    iteration, anderson = Iteration(6, 1), Anderson(3)
    tried = [iteration.attempt(rng.randn(6)) for _ in range(4)]
    for attempt in tried[:-1]:
        anderson.next(attempt)
    found = anderson.next(tried[-1])
    root = np.sqrt(iteration.metric)
    residuals = np.stack([root * (attempt.image - attempt.point) for attempt in tried])
    images = np.stack([attempt.image for attempt in tried])
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
    attempts = [iteration.attempt(rng.randn(5)) for _ in range(7)]
    whole, late = Anderson(depth), Anderson(depth)
    for attempt in attempts:
        found = whole.next(attempt)
    for attempt in attempts[-depth - 1 :]:
        expected = late.next(attempt)
    assert_array_equal(found, expected)
    assert whole.extrapolated == (depth > 0)


def test_what_is_forgotten_is_not_extrapolated_from():
    iteration, anderson = Iteration(3, 3), Anderson(4)
    for x in np.eye(3):
        anderson.next(iteration.attempt(x))
    anderson.forget()
    assert not anderson.extrapolated
    attempt = iteration.attempt(np.ones(3))
    assert_array_equal(anderson.next(attempt), attempt.image)


@pytest.mark.parametrize("keeps_pairs", [False, True])
def test_a_refused_extrapolation_is_forgotten_and_plain_steps_if_asked(keeps_pairs):
    iteration = Iteration(3, 4)
    points = [iteration.attempt(x) for x in np.eye(3)]
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
    anderson.next(iteration.attempt(np.zeros(3)))
    refused = iteration.attempt(np.ones(3), allowed=False)
    assert_array_equal(anderson.next(refused), refused.image)
    assert not anderson.extrapolated
    # The pairs are forgotten, too.
    last = iteration.attempt(np.full(3, 2.0))
    assert_array_equal(anderson.next(last), last.image)


def test_points_that_repeat_do_no_harm():
    iteration, anderson = Iteration(3, 6), Anderson(4)
    for _ in range(4):
        found = anderson.next(iteration.attempt(iteration.fixed))
    assert_allclose(found, iteration.fixed, rtol=1e-9)
