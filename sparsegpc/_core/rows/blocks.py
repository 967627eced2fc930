"""Computation over the rows in blocks, by several threads, with arrays that are kept or recomputed.

All computation whose cost grows with the number of rows N uses `RowBlocks.visit`. Neither the
blocks nor the order in which their sums are added depends on the number of threads, so the results
do not depend on it either.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from sparsegpc._core.rows.threads import fair_threads, limit_this_thread

# Values of a block should fit the cache; `SMALLEST_BLOCK` wide rows may take the larger size.
BLOCK_BYTES, LARGEST_BLOCK_BYTES = 8 * 2**20, 64 * 2**20
# Products over fewer rows are slow, as BLAS packs the factors once for each block.
SMALLEST_BLOCK = 2048
# scikit-learn's default of `working_memory`.
DEFAULT_MEMORY = 2**30

# A function that makes blocks of rows instead of `RowBlocks`, or None.
_BACKEND = ContextVar("backend", default=None)


@contextmanager
def row_backend(make_blocks):
    """Let `make_blocks` make the blocks of rows in this context.

    ``make_blocks(X, n_columns, **options)``, called by `row_blocks`, returns an object with the
    interface of `RowBlocks`, or None for a `RowBlocks`.
    """
    token = _BACKEND.set(make_blocks)
    try:
        yield
    finally:
        _BACKEND.reset(token)


def row_blocks(X, n_columns, **options):
    """Return the blocks of the rows `X` (N, D), from the `row_backend` if there is one.

    `n_columns` is the number of values that are computed for each row; `options` are those of
    `RowBlocks`.
    """
    make_blocks = _BACKEND.get()
    blocks = None if make_blocks is None else make_blocks(X, n_columns, **options)
    return RowBlocks(len(X), n_columns, n_read=X.shape[1], **options) if blocks is None else blocks


def strips(n_points, n_rows, n_elements=2**16):
    """Return slices of the first axis of an (M, n) array, of about `n_elements` elements each.

    The default fits the processor's cache, which makes a sequence of elementwise steps fast.
    """
    size = max(1, n_elements // max(n_rows, 1))
    return [slice(start, start + size) for start in range(0, n_points, size)]


class Table:
    """An input whose first axis is that of the N rows, and which supports slices."""

    def __init__(self, array):
        self.array = array


class RowBlocks:
    """A partition of N rows into blocks, and computation over all blocks.

    Only `visit` reads the rows. It calls functions with the values of one block. The functions must
    not refer to arrays of N entries, so that another class with `visit`, `store` and `n_rows` can
    run them in other processes.

    `n_columns` is the number M of values that are computed for each of `n_rows` rows, and `n_read`
    that of values that are read. The values of a block take about `BLOCK_BYTES`; a block has at
    least `SMALLEST_BLOCK` rows, unless their values exceed `LARGEST_BLOCK_BYTES`. `block_rows`
    replaces this number of rows. `n_threads` blocks are processed at once; fewer while other
    threads fit or predict. Arrays of shape (M, N) may take `memory` bytes in total; those that do
    not fit are computed again in each visit.
    """

    def __init__(
        self, n_rows, n_columns, *, n_threads=1, memory=DEFAULT_MEMORY, n_read=0, block_rows=None
    ):
        if block_rows is None:
            row_bytes = 8 * max(n_columns, n_read, 1)
            block_rows = max(SMALLEST_BLOCK, BLOCK_BYTES // row_bytes)
            block_rows = max(1, min(block_rows, LARGEST_BLOCK_BYTES // row_bytes))
        self.n_rows = n_rows
        self.n_threads = n_threads
        self.memory = memory
        self.array_bytes = 8 * n_rows * max(n_columns, 1)
        starts = range(0, n_rows, block_rows)
        self.slices = [slice(start, min(start + block_rows, n_rows)) for start in starts]

    def visit(self, function, *inputs):
        """Call `function` for each block, add up its sums, and concatenate its rows.

        ``function(*values)`` returns two tuples: terms of sums over the blocks, arrays or numbers;
        and arrays whose last axis is the rows of the block. It gets the values of each input in the
        block: columns of an array (..., N), rows of a `Table`, the value of a `BlockStore`, or
        None. Return the tuple of sums, and that of arrays (..., N).
        """
        sums, joined = (), ()
        results = self._map(lambda index: function(*[self._value(x, index) for x in inputs]))
        for row_slice, (terms, parts) in zip(self.slices, results, strict=True):
            if row_slice.start == 0:
                sums = terms
                joined = [np.empty((*p.shape[:-1], self.n_rows), p.dtype) for p in parts]
            else:
                sums = tuple(total + term for total, term in zip(sums, terms, strict=True))
            for whole, part in zip(joined, parts, strict=True):
                whole[..., row_slice] = part
        return sums, tuple(joined)

    def _value(self, x, index):
        if isinstance(x, BlockStore):
            return x[index]
        if isinstance(x, Table):
            return x.array[self.slices[index]]
        return None if x is None else x[..., self.slices[index]]

    def _map(self, function):
        """Yield ``function(index)`` for each block in order."""
        indices = range(len(self.slices))
        n_threads = 1 if len(indices) == 1 else fair_threads(self.n_threads)
        if n_threads == 1:
            yield from map(function, indices)
            return
        # A new thread has numpy's default handling of floating-point errors.
        errors = np.geterr()

        def in_thread(index):
            limit_this_thread()
            with np.errstate(**errors):
                return function(index)

        with ThreadPoolExecutor(n_threads) as pool:
            pending = deque()
            for index in indices:
                pending.append(pool.submit(in_thread, index))
                # Limit the blocks in progress, so that sums do not pile up behind one slow block.
                if len(pending) == 2 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def store(self, function, *inputs, n_arrays, is_array=False):
        """Return a `BlockStore` of ``function(*values)``, which holds `n_arrays` (M, N) arrays.

        `is_array` states whether the result is a single array, which other processes can keep.
        """

        def compute(index):
            return function(*[self._value(x, index) for x in inputs])

        return BlockStore(compute, len(self.slices), n_arrays * self.array_bytes <= self.memory)


class BlockStore:
    """Results of a function for each block, kept in memory or recomputed on each access."""

    def __init__(self, compute, n_blocks, kept):
        self._compute = compute
        self.kept = kept
        self._values = [None] * n_blocks

    def __getitem__(self, index):
        value = self._values[index]
        if value is None:
            value = self._compute(index)
            if self.kept:
                self._values[index] = value
        return value
