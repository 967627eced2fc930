"""Triangular solves in place, against scipy's."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_triangular

from sparsegpc._core.numerics.blas import SOLVE_LEAF, solve_in_place

PATIENCE = 60.0


def problem(seed, size, n_columns, dtype=np.float64):
    rng = np.random.RandomState(seed)
    L = rng.standard_normal((size, size)) + 3.0 * np.sqrt(size) * np.eye(size)
    return L.astype(dtype), rng.standard_normal((size, n_columns)).astype(dtype)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-4)])
@given(
    seed=st.integers(0, 1000),
    size=st.sampled_from([1, 2, SOLVE_LEAF - 1, SOLVE_LEAF, SOLVE_LEAF + 1, 3 * SOLVE_LEAF, 150]),
    n_columns=st.integers(0, 40),
    transposed=st.booleans(),
    order=st.sampled_from("CF"),
)
def test_solve_is_that_of_scipy(dtype, rtol, seed, size, n_columns, transposed, order):
    L, A = problem(seed, size, n_columns, dtype)
    expected = solve_triangular(
        np.tril(L).astype(np.float64), A.astype(np.float64), lower=True, trans=int(transposed)
    )
    ours = A.copy()
    # What is above the diagonal is not read.
    solve_in_place(np.array(L, order=order), ours, transposed)
    assert_allclose(ours, expected, rtol=rtol, atol=rtol)


def test_factor_is_left_alone_and_memory_beside_the_rows_too():
    L, A = problem(0, 100, 30)
    before, wide = L.copy(), np.full((102, 30), 7.0)
    wide[1:-1] = A
    solve_in_place(L, wide[1:-1], False)
    assert_array_equal(L, before)
    assert_array_equal(wide[[0, -1]], 7.0)


def test_other_threads_run_during_a_solve():
    """With the interpreter's lock held, this one would get on between the calls of BLAS only."""
    n_calls = 2 * 8 - 1
    L, A = problem(1, 8 * SOLVE_LEAF, 200_000)
    started, done, counts = threading.Event(), threading.Event(), []

    def solve():
        started.set()
        solve_in_place(L, A, False)
        done.set()

    thread = threading.Thread(target=solve)
    thread.start()
    assert started.wait(PATIENCE)
    while not done.wait(0.001):
        counts.append(1)
    thread.join()
    assert len(counts) > 2 * n_calls
