"""Memory of arrays that died: used again, never shared, and not kept without limit."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._core.numerics import arrays
from sparsegpc._core.numerics.arrays import KEPT_BYTES, SMALLEST_BYTES, Pool, empty
from sparsegpc._core.rows.blocks import single_threaded_blas

LARGE = (64, SMALLEST_BYTES // 8 // 64)


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(0, 5), (3, 4), LARGE, (2000, 1500)])
def test_arrays_are_ordinary(shape, dtype):
    array = empty(shape, dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.flags.aligned
    array[:] = 1.0
    assert array.sum() == array.size


def test_memory_of_an_array_that_died_is_used_again(monkeypatch):
    pool = Pool(2**26)
    monkeypatch.setattr(arrays, "_POOL", pool)
    first = empty(LARGE)
    where, n_bytes = address(first), first.nbytes
    assert pool.n_bytes == 0
    del first
    assert pool.n_bytes == n_bytes
    second = empty(LARGE)
    assert address(second) == where
    assert pool.n_bytes == 0


def test_memory_is_not_used_again_while_a_view_lives():
    first = empty(LARGE)
    first[:] = 7.0
    view = first[3:5].T
    del first
    gc.collect()
    others = [empty(LARGE) for _ in range(3)]
    for other in others:
        other[:] = -1.0
    assert_array_equal(view, 7.0)


def test_arrays_that_live_at_once_share_nothing():
    arrays = [empty(LARGE) for _ in range(5)]
    for k, array in enumerate(arrays):
        array[:] = k
    for k, array in enumerate(arrays):
        assert_array_equal(array, k)


def test_what_has_waited_longest_goes_first():
    pool = Pool(kept_bytes=250)
    buffers = [pool.take(100) for _ in range(3)]
    where = [address(buffer) for buffer in buffers]
    for buffer in buffers:
        pool.give_back(buffer)
    del buffer, buffers
    kept = [pool.take(100), pool.take(100)]
    assert [address(buffer) for buffer in kept] == where[:0:-1]


def test_a_pool_keeps_no_buffer_larger_than_itself():
    pool = Pool(kept_bytes=100)
    small, large = pool.take(60), pool.take(101)
    pool.give_back(small)
    pool.give_back(large)
    assert pool.n_bytes <= 100


def test_giving_back_does_not_wait_for_the_lock():
    """An array may die in the thread that holds it."""
    pool = Pool(kept_bytes=1000)
    buffer = pool.take(100)
    where = address(buffer)
    with pool.lock:
        pool.give_back(buffer)
    del buffer
    assert address(pool.take(100)) == where


def test_threads_do_not_get_the_same_memory():
    def work(k):
        for _ in range(50):
            array = empty(LARGE)
            array[:] = k
            if not (array == k).all():
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(8)))


def test_the_limit_is_stated_in_bytes():
    assert SMALLEST_BYTES < KEPT_BYTES <= 2**28


def test_nothing_is_kept_when_the_work_is_done(monkeypatch):
    pool = Pool(2**26)
    monkeypatch.setattr(arrays, "_POOL", pool)
    with single_threaded_blas():
        with single_threaded_blas():
            array = empty(LARGE)
            del array
        assert pool.n_bytes > 0
    assert pool.n_bytes == 0


def test_what_is_too_large_to_keep_does_not_cost_the_others():
    pool = Pool(100)
    for _ in range(9):
        pool.give_back(np.empty(10, np.uint8))
    pool.give_back(np.empty(101, np.uint8))
    assert pool.n_bytes == 90
