"""Maximisation by L-BFGS-B: scaling, failures, and the ends of a search."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear

from sparsegpc._core.optimisers.lbfgsb import FIRST_STEP, SMALL_GRADIENT, maximize_lbfgsb

WIDE = np.array([[-np.inf, np.inf]] * 2)
STEEP = np.array([[40.0, 15.0], [15.0, 9.0]])
TOP = np.array([0.5, -0.3])


class Hill:
    """A function of two parameters, which may be refused in places."""

    def __init__(self, refused=None, hessian=STEEP):
        self.refused, self.hessian, self.seen = refused, hessian, []

    def __call__(self, x, near=None):
        self.seen.append(np.array(x))
        if self.refused is not None and self.refused(x):
            raise LinAlgError("a step too far")
        d = x - TOP
        return SimpleNamespace(x=x, value=-0.5 * d @ self.hessian @ d, gradient=-self.hessian @ d)

    def search(self, x, bounds=WIDE, max_iter=100, **options):
        options = {"tol": 1e-10, "patience": 4, "max_iter": max_iter, **options}
        return maximize_lbfgsb(self, self(np.array(x)), bounds, **options)


def test_the_top_is_reached():
    found = Hill().search([3.0, 2.0])
    assert found.converged
    assert found.n_iter > 0
    assert_allclose(found.best.x, TOP, atol=1e-4)


@pytest.mark.parametrize("low", [[0.7, -5.0], [0.7, 0.4], [-5.0, 0.5]])
def test_the_best_of_a_box_is_found(low):
    bounds = np.stack([low, [5.0, 5.0]], axis=1)
    hill = Hill()
    found = hill.search([2.0, 2.0], bounds)
    # The same as least squares: STEEP = L L^T.
    L = np.linalg.cholesky(STEEP)
    expected = lsq_linear(L.T, L.T @ TOP, tuple(bounds.T)).x
    assert_allclose(found.best.x, expected, atol=1e-4)
    assert all((x >= bounds[:, 0]).all() and (x <= bounds[:, 1]).all() for x in hill.seen)


@pytest.mark.parametrize(("size", "length"), [(1e4, FIRST_STEP), (1e-2, FIRST_STEP / 3e3)])
def test_the_first_step_is_of_a_fixed_length_and_less_where_the_gradient_is_small(size, length):
    assert SMALL_GRADIENT == 30.0
    hill = Hill(hessian=np.eye(2))
    hill.search(TOP + np.array([size, 0.0]), np.array([[-1e9, 1e9]] * 2), 1, tol=0.0, patience=1)
    first = hill.seen[1]
    assert np.linalg.norm(first - (TOP + np.array([size, 0.0]))) == pytest.approx(length, rel=1e-3)


def test_the_start_is_not_asked_for_again():
    hill = Hill()
    hill.search([3.0, 2.0])
    assert len({tuple(x) for x in hill.seen}) == len(hill.seen)


def test_a_step_too_far_is_stepped_back_from():
    hill = Hill(refused=lambda x: x[1] < 0.5)
    found = hill.search([3.0, 2.0])
    assert any(x[1] < 0.5 for x in hill.seen)
    assert found.best.x[1] >= 0.5
    assert found.best.value > hill(np.array([3.0, 2.0])).value


def test_the_best_point_is_kept_even_if_it_is_not_the_last():
    values = []

    class Recorded(Hill):
        def __call__(self, x, near=None):
            point = super().__call__(x, near)
            values.append(point.value)
            return point

    found = Recorded().search([3.0, 2.0])
    assert found.best.value == max(values)


def test_a_search_that_takes_all_its_iterations_says_so():
    found = Hill().search([30.0, 20.0], max_iter=2)
    assert not found.converged
    assert found.n_iter == 2


def test_a_search_ends_after_small_gains_in_a_row():
    found = Hill().search([3.0, 2.0], tol=np.inf, patience=3)
    assert found.converged
    assert found.n_iter == 3


def test_a_search_stops_when_asked_to():
    hill = Hill()
    found = hill.search([3.0, 2.0], is_stopped=lambda: len(hill.seen) == 4)
    assert found.converged
    assert len(hill.seen) == 4


def test_a_box_without_width_leaves_nothing_to_do():
    start = np.array([3.0, 2.0])
    found = Hill().search(start, np.stack([start, start], axis=1))
    assert found.converged
    assert_array_equal(found.best.x, start)
