"""Many searches at once: maxima, independence of the rows, and how they end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.optimisers.many_bfgs import maximize_many

# Curved valleys after Rosenbrock, each with its own maximum and steepness.
TOPS, STEEPNESS = np.array([1.0, -0.5, 0.3]), np.array([1.0, 10.0, 100.0])
STARTS = np.array([[-1.2, 1.0], [0.0, 0.0], [2.0, -1.0]])


def valleys(x, rows):
    top, steep = TOPS[rows], STEEPNESS[rows]
    across, along = x[:, 1] - x[:, 0] ** 2, x[:, 0] - top
    by_first = 4.0 * steep * across * x[:, 0] - 2.0 * along
    return -steep * across**2 - along**2, np.stack([by_first, -2.0 * steep * across], axis=1)


def search(rows=slice(None), max_iter=500):
    starts, places = STARTS[rows], np.arange(3)[rows]
    return maximize_many(
        lambda x, k: valleys(x, places[k]),
        starts,
        np.full_like(starts, 0.1),
        max_iter=max_iter,
        tol=1e-16,
    )


def test_every_row_reaches_its_maximum():
    x, values, converged = search()
    assert converged.all()
    assert_allclose(x, np.stack([TOPS, TOPS**2], axis=1), atol=1e-6)
    assert_allclose(values, 0.0, atol=1e-12)


@pytest.mark.parametrize("row", range(3))
def test_a_row_is_searched_as_if_it_were_alone(row):
    assert_array_equal(search([row])[0][0], search()[0][row])


def test_the_start_is_kept_and_the_limit_reported():
    before = STARTS.copy()
    x, values, converged = search(max_iter=3)
    assert_array_equal(STARTS, before)
    assert not converged.any()
    assert (values >= valleys(STARTS, np.arange(3))[0]).all()
    assert_allclose(values, valleys(x, np.arange(3))[0])


def test_a_flat_function_ends_at_once():
    x, _, converged = maximize_many(
        lambda x, rows: (np.zeros(len(x)), np.zeros_like(x)),
        STARTS,
        STARTS * 0 + 1,
        max_iter=1,
        tol=0,
    )
    assert converged.all()
    assert_array_equal(x, STARTS)
