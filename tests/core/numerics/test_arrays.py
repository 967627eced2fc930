"""Memory of arrays that died: used again, never shared, and not kept without limit."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._core.numerics import arrays
from sparsegpc._core.numerics.arrays import KEPT_BYTES, SMALLEST_BYTES, Pool, empty
from sparsegpc._core.rows.threads import single_threaded_blas

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


class Owner:
    """What lives, and dies."""


def lent(pool, *sizes):
    """Return owners of buffers of these sizes, and where these are."""
    owners, where = [], []
    for size in sizes:
        buffer = pool.take(size)
        owners.append(Owner())
        pool.lend(owners[-1], buffer)
        where.append(address(buffer))
    return owners, where


def test_what_has_waited_longest_goes_first():
    pool = Pool(kept_bytes=250)
    owners, where = lent(pool, 100, 100, 100)
    while owners:
        del owners[0]
    kept = [pool.take(100), pool.take(100)]
    assert [address(buffer) for buffer in kept] == where[:0:-1]


def test_a_pool_keeps_no_buffer_larger_than_itself():
    pool = Pool(kept_bytes=100)
    owners, _ = lent(pool, 60, 101)
    owners.clear()
    assert pool.n_bytes <= 100


def test_what_is_larger_than_the_pool_is_never_lent(monkeypatch):
    pool = Pool(2 * SMALLEST_BYTES)
    monkeypatch.setattr(arrays, "_POOL", pool)
    small, large = empty(LARGE), empty((3, SMALLEST_BYTES))
    where = address(small)
    del small, large
    assert pool.n_bytes == SMALLEST_BYTES
    assert address(empty(LARGE)) == where


def test_an_owner_may_die_while_the_lock_is_held():
    pool = Pool(kept_bytes=1000)
    owners, where = lent(pool, 100)
    with pool._lock:
        owners.clear()
    assert address(pool.take(100)) == where[0]


def test_no_line_of_python_runs_when_an_array_dies():
    """An interrupt that arrives then would be reported, and lost."""
    array, lines = empty(LARGE), []
    sys.setprofile(lambda frame, event, what: lines.append((event, frame.f_code.co_name)))
    try:
        del array
    finally:
        sys.setprofile(None)
    assert [line for line in lines if line[0] == "call"] == []


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
