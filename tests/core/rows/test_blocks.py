"""Sums over row blocks: independent of the blocks to rounding, of the threads to the last bit."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.rows.blocks import (
    BLOCK_BYTES,
    LARGEST_BLOCK_BYTES,
    SMALLEST_BLOCK,
    RowBlocks,
    Table,
    row_backend,
    row_blocks,
)
from sparsegpc._core.rows.threads import single_threaded_blas

PATIENCE = 60.0


class Counter:
    """Rows of numbers that remember which slices were taken."""

    def __init__(self, values):
        self.values = values
        self.calls = []

    def __getitem__(self, rows):
        self.calls.append((rows.start, rows.stop))
        return self.values[rows].copy()


def total(blocks, function, *inputs):
    """Return the sums of what `function` returns for each block."""
    return blocks.visit(lambda *values: (function(*values), ()), *inputs)[0]


@given(n_rows=st.integers(1, 300), block_rows=st.integers(1, 350), threads=st.integers(1, 4))
def test_blocks_partition_the_rows(n_rows, block_rows, threads):
    blocks = RowBlocks(n_rows, 3, block_rows=block_rows, n_threads=threads)
    covered = np.concatenate([np.arange(n_rows)[rows] for rows in blocks.slices])
    assert_array_equal(covered, np.arange(n_rows))
    assert all(0 < rows.stop - rows.start <= block_rows for rows in blocks.slices)
    assert all(rows.stop <= n_rows for rows in blocks.slices)


@given(
    n_rows=st.integers(1, 200),
    block_rows=st.integers(1, 250),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_sum_equals_the_plain_sum(n_rows, block_rows, threads, seed):
    rng = np.random.RandomState(seed)
    x = rng.standard_normal((n_rows, 3))
    counts = rng.randint(-1000, 1000, n_rows).astype(float)
    blocks = RowBlocks(n_rows, 3, block_rows=block_rows, n_threads=threads)

    def part(x, counts):
        return x.T @ x, float(counts.sum()), x.sum(axis=0)

    gram, number, columns = total(blocks, part, Table(x), counts)
    assert_allclose(gram, x.T @ x, rtol=1e-12, atol=1e-12)
    assert number == counts.sum()
    assert_allclose(columns, x.sum(axis=0), rtol=1e-12, atol=1e-12)


@given(
    n_rows=st.integers(1, 200),
    block_rows=st.integers(1, 250),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_come_back_in_their_places(n_rows, block_rows, threads, seed):
    rng = np.random.RandomState(seed)
    x, y = rng.standard_normal((2, 3, n_rows)), rng.randint(0, 9, n_rows)
    blocks = RowBlocks(n_rows, 3, block_rows=block_rows, n_threads=threads)
    sums, (shifted, labels, squares) = blocks.visit(
        lambda x, y, nothing: ((), (x + 1.0, 2 * y, y**2 if nothing is None else y)), x, y, None
    )
    assert sums == ()
    assert_array_equal(shifted, x + 1.0)
    assert_array_equal(labels, 2 * y)
    assert labels.dtype == y.dtype
    assert_array_equal(squares, y**2)


@pytest.mark.parametrize("block_rows", [1, 7, 100, 5000, None])
def test_sum_is_bit_identical_over_thread_counts(rng, block_rows):
    n_rows = 1200 if block_rows == 1 else 5000
    x = rng.standard_normal((n_rows, 4)) * 10.0 ** rng.uniform(-8, 8, (n_rows, 1))

    def sums(threads):
        # A width that makes the default choice give several blocks.
        blocks = RowBlocks(n_rows, 2048, block_rows=block_rows, n_threads=threads)
        return total(blocks, lambda x: (x.T @ x, np.sin(x).sum()), Table(x))

    gram, scalar = sums(1)
    for threads in (2, 4):
        other_gram, other_scalar = sums(threads)
        assert_array_equal(other_gram, gram)
        assert other_scalar == scalar


def test_sum_does_not_modify_what_the_blocks_return(rng):
    parts = [rng.standard_normal(3) for _ in range(5)]
    before = [part.copy() for part in parts]
    blocks, numbers = RowBlocks(5, 1, block_rows=1), np.arange(5)
    first = total(blocks, lambda k: (parts[k[0]],), numbers)[0]
    second = total(blocks, lambda k: (parts[k[0]],), numbers)[0]
    assert_array_equal(first, second)
    for part, original in zip(parts, before, strict=True):
        assert_array_equal(part, original)


def test_default_blocks_do_not_depend_on_threads_or_memory():
    reference = RowBlocks(100_000, 300).slices
    assert len(reference) > 4
    for threads in (1, 2, 4):
        for memory in (0, 2**40):
            assert RowBlocks(100_000, 300, n_threads=threads, memory=memory).slices == reference


@pytest.mark.parametrize("n_columns", [1, 10, 300, 500])
def test_default_blocks_hold_about_the_bytes_promised(n_columns):
    rows = RowBlocks(10_000_000, n_columns).slices[0]
    size = 8 * n_columns * (rows.stop - rows.start)
    assert 0.9 * BLOCK_BYTES <= size <= 1.1 * BLOCK_BYTES


def test_default_blocks_are_never_tiny():
    rows = RowBlocks(10_000, 4096).slices[0]
    assert rows.stop - rows.start == SMALLEST_BLOCK


@pytest.mark.parametrize("widths", [(10**5, 3), (3, 10**5), (10**8, 3)])
def test_blocks_of_very_wide_rows_are_no_larger_than_allowed(widths):
    blocks = RowBlocks(10_000, widths[0], n_read=widths[1])
    rows = blocks.slices[0].stop
    assert rows == 1 or 8 * rows * max(widths) <= LARGEST_BLOCK_BYTES


def test_results_of_a_fast_block_do_not_pile_up_behind_a_slow_one():
    """Their sums would take as much memory as all rows."""
    started, slow = [], threading.Event()

    def work(x):
        started.append(x[0])
        if x[0] == 0.0:
            slow.wait(0.3)
        return (x.sum(),), ()

    blocks = RowBlocks(100, 1, n_threads=2, block_rows=1)
    waiting = threading.Timer(0.2, lambda: seen.append(len(started)))
    seen = []
    waiting.start()
    assert blocks.visit(work, np.arange(100.0))[0] == (4950.0,)
    waiting.join()
    assert seen[0] <= 2 * 2
    assert len(started) == 100


def test_width_zero_is_allowed():
    blocks = RowBlocks(10, 0)
    assert total(blocks, lambda x: (len(x),), np.zeros(10))[0] == 10


def test_order_is_kept_when_the_first_block_ends_last():
    """Also shows that two blocks run at once: the first waits for the second."""
    second_done = threading.Event()
    finished = []

    def function(k):
        if k[0] == 0:
            assert second_done.wait(PATIENCE)
        finished.append(int(k[0]))
        if k[0] == 1:
            second_done.set()
        return (), (k,)

    blocks = RowBlocks(2, 1, block_rows=1, n_threads=2)
    assert_array_equal(blocks.visit(function, np.arange(2))[1][0], [0, 1])
    assert finished == [1, 0]


def test_one_thread_works_in_the_calling_thread():
    blocks = RowBlocks(5, 1, block_rows=1, n_threads=1)
    (seen,) = blocks.visit(lambda x: ((), (x + threading.get_ident(),)), np.zeros(5, dtype=int))[1]
    assert set(seen) == {threading.get_ident()}


def test_no_more_blocks_at_once_than_threads():
    running, most, lock = 0, 0, threading.Lock()
    pause = threading.Event()

    def function(x):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pause.wait(0.002)
        with lock:
            running -= 1
        return (), ()

    RowBlocks(20, 1, block_rows=1, n_threads=2).visit(function, np.zeros(20))
    assert most == 2


@pytest.mark.parametrize("failing", [0, 3, 9])
@pytest.mark.parametrize("threads", [1, 2])
def test_exception_in_a_block_propagates(threads, failing):
    def function(k):
        if k[0] == failing:
            raise ArithmeticError(f"block {failing}")
        return (1.0,), ()

    blocks = RowBlocks(10, 1, block_rows=1, n_threads=threads)
    with pytest.raises(ArithmeticError, match=f"block {failing}"):
        blocks.visit(function, np.arange(10))


@pytest.mark.parametrize("threads", [1, 2])
def test_what_to_do_about_overflow_reaches_the_threads(threads):
    blocks = RowBlocks(10, 1, block_rows=2, n_threads=threads)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        blocks.visit(lambda x: ((), (np.exp(x),)), np.full(10, 1e4))
    with np.errstate(over="ignore"):
        blocks.visit(lambda x: ((), (np.exp(x),)), np.full(10, 1e4))


@pytest.mark.parametrize("n_arrays", [1, 3])
@pytest.mark.parametrize("spare", [0, -1])
def test_store_keeps_exactly_what_fits_the_memory(rng, n_arrays, spare):
    n_rows, n_columns = 40, 6
    rows = Counter(rng.standard_normal(n_rows))
    memory = 8 * n_rows * n_columns * n_arrays + spare
    blocks = RowBlocks(n_rows, n_columns, block_rows=9, memory=memory)
    store = blocks.store(np.sin, Table(rows), n_arrays=n_arrays)
    assert rows.calls == []
    for _ in range(3):
        for index, part in enumerate(blocks.slices):
            assert_array_equal(store[index], np.sin(rows.values[part]))
    visits = [(part.start, part.stop) for part in blocks.slices]
    assert rows.calls == (visits if spare == 0 else 3 * visits)
    assert store.kept == (spare == 0)


def test_kept_blocks_are_the_same_object(rng):
    blocks = RowBlocks(20, 1, block_rows=5)
    store = blocks.store(np.sin, rng.standard_normal(20), n_arrays=1)
    assert store[2] is store[2]


@pytest.mark.parametrize("memory", [0, 2**20])
def test_store_serves_threads(rng, memory):
    rows = Counter(rng.standard_normal(60))
    blocks = RowBlocks(60, 1, block_rows=3, n_threads=4, memory=memory)
    store = blocks.store(np.abs, Table(rows), n_arrays=1)
    for _ in range(2):
        (found,) = total(blocks, lambda values: (values.sum(),), store)
        assert found == pytest.approx(np.abs(rows.values).sum(), abs=1e-12)
    assert len(rows.calls) == (40 if memory == 0 else 20)


def test_threads_of_a_process_share_what_each_of_them_may_have():
    """While two threads have work each of them works at half as many blocks at once."""
    inside, most, gate = [], [], threading.Barrier(2)

    def watched(k):
        inside.append(k)
        most.append(len(inside))
        time.sleep(0.002)
        inside.remove(k)
        return (), ()

    def work():
        with single_threaded_blas():
            gate.wait(PATIENCE)
            RowBlocks(30, 1, block_rows=1, n_threads=4).visit(
                lambda k: watched(object()), np.arange(30)
            )
            gate.wait(PATIENCE)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work), pool.submit(work)]:
            done.result()
    assert max(most) <= 4


# --------------------------------------------------------------------------------------------------
# Who works over the rows


class Backend:
    """Makes blocks of its own for tables of so many rows, declines others, and notes every call."""

    def __init__(self, least_rows=0):
        self._least_rows, self.calls = least_rows, []

    def __call__(self, X, n_columns, **options):
        self.calls.append((X, n_columns, options))
        return self if len(X) >= self._least_rows else None


def is_of_rows(blocks, n_rows, n_columns):
    """Return whether these are `RowBlocks` of a table of this size."""
    n_bytes = 8 * n_rows * n_columns
    return type(blocks) is RowBlocks and (blocks.n_rows, blocks.array_bytes) == (n_rows, n_bytes)


def test_without_a_backend_the_work_is_done_here():
    X = np.zeros((40, 3))
    blocks = row_blocks(X, 5, n_threads=2, memory=77, block_rows=15)
    assert is_of_rows(blocks, 40, 5)
    assert (blocks.n_threads, blocks.memory) == (2, 77)
    assert [rows.stop for rows in blocks.slices] == [15, 30, 40]


def test_blocks_of_rows_that_are_wide_count_their_width():
    """A block holds no more of the rows that are read than of what is computed."""
    X = np.broadcast_to(0.0, (10**6, 2000))
    expected = RowBlocks(10**6, 3, n_read=2000).slices
    assert row_blocks(X, 3).slices == expected != RowBlocks(10**6, 3).slices


def test_a_backend_is_asked_and_what_it_makes_is_used():
    X, backend = np.zeros((40, 3)), Backend()
    with row_backend(backend):
        assert row_blocks(X, 5, n_threads=2, memory=77) is backend
    ((rows, n_columns, options),) = backend.calls
    assert rows is X
    assert (n_columns, options) == (5, {"n_threads": 2, "memory": 77})


def test_a_backend_may_decline():
    backend = Backend(least_rows=30)
    with row_backend(backend):
        assert is_of_rows(row_blocks(np.zeros((29, 3)), 5), 29, 5)
        assert row_blocks(np.zeros((30, 3)), 5) is backend
        assert is_of_rows(row_blocks(np.zeros((2, 3)), 1), 2, 1)
    assert len(backend.calls) == 3, "it is asked each time"


def test_options_reach_the_blocks_of_a_backend_that_declines():
    with row_backend(Backend(least_rows=100)):
        blocks = row_blocks(np.zeros((40, 3)), 5, n_threads=3, memory=77, block_rows=15)
    assert (blocks.n_threads, blocks.memory, len(blocks.slices)) == (3, 77, 3)


def test_a_backend_is_gone_after_its_context():
    X, backend = np.zeros((4, 3)), Backend()
    with row_backend(backend):
        pass
    assert is_of_rows(row_blocks(X, 5), 4, 5)
    assert not backend.calls


def test_a_backend_is_gone_after_an_error():
    X, backend = np.zeros((4, 3)), Backend()
    with pytest.raises(ArithmeticError, match="on purpose"), row_backend(backend):
        raise ArithmeticError("on purpose")
    assert is_of_rows(row_blocks(X, 5), 4, 5)

    def refuse(X, n_columns, **options):
        raise ConnectionError("nobody there")

    with pytest.raises(ConnectionError, match="nobody there"), row_backend(refuse):
        row_blocks(X, 5)
    assert is_of_rows(row_blocks(X, 5), 4, 5)
    assert not backend.calls


def test_the_innermost_backend_works_and_the_outer_one_comes_back():
    X, outer, inner = np.zeros((4, 3)), Backend(), Backend()
    with row_backend(outer):
        with row_backend(inner):
            assert row_blocks(X, 5) is inner
        assert row_blocks(X, 5) is outer
        with pytest.raises(ArithmeticError), row_backend(inner):
            raise ArithmeticError
        assert row_blocks(X, 5) is outer
        with row_backend(Backend(least_rows=5)):
            assert is_of_rows(row_blocks(X, 5), 4, 5), "what the inner one declines is done here"
    assert is_of_rows(row_blocks(X, 5), 4, 5)


def test_a_backend_holds_for_the_thread_that_enters_it():
    X, backend = np.zeros((4, 3)), Backend()
    with row_backend(backend), ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(row_blocks, X, 5).result(timeout=PATIENCE)
        assert row_blocks(X, 5) is backend
    assert is_of_rows(elsewhere, 4, 5)
    assert len(backend.calls) == 1
