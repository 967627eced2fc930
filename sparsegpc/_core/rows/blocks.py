"""Work over the rows of the data, block by block: what is done at once, and kept in memory.

Everything that grows with the number of rows N goes through `RowBlocks.visit`. The blocks depend on
the sizes of the problem, never on the number of threads, and partial results are added in the order
of the rows, so a result does not depend on how many threads computed it.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from sparsegpc._core.rows.threads import fair_threads, limit_this_thread

BLOCK_BYTES = 8 * 2**20
# Below this products lose speed: their factors are packed once for each block.
SMALLEST_BLOCK = 2048
# But rows as wide as that would make it too large.
LARGEST_BLOCK_BYTES = 64 * 2**20
# Elements that pass through several elementwise steps at once, within the processor's cache.
STRIP = 2**16
DEFAULT_MEMORY = 2**30

# What makes the blocks of rows in place of `RowBlocks`, or None.
_BACKEND = ContextVar("backend", default=None)


@contextmanager
def row_backend(make_blocks):
    """Let `make_blocks` decide who works over the rows in this context.

    Parameters
    ----------
    make_blocks : callable
        ``make_blocks(X, n_columns, **options)``, called by `row_blocks`, returns an object that
        offers what `RowBlocks` does, or None for a `RowBlocks`.
    """
    token = _BACKEND.set(make_blocks)
    try:
        yield
    finally:
        _BACKEND.reset(token)


def row_blocks(X, n_columns, **options):
    """Return the blocks of the rows of `X`: those of a `row_backend`, or else `RowBlocks`.

    Parameters
    ----------
    X : array of shape (N, D)
    n_columns : int
        Width of what is computed for each row.
    **options
        See `RowBlocks`.
    """
    make_blocks = _BACKEND.get()
    blocks = None if make_blocks is None else make_blocks(X, n_columns, **options)
    return RowBlocks(len(X), n_columns, n_read=X.shape[1], **options) if blocks is None else blocks


def strips(n_points, n_rows):
    """Return slices of the first axis of an (M, n) array, of about `STRIP` elements each."""
    size = max(1, STRIP // max(n_rows, 1))
    return [slice(start, start + size) for start in range(0, n_points, size)]


def _begin_thread(errors):
    limit_this_thread()
    np.seterr(**errors)


class Table:
    """An input with the rows on its first axis: anything of N rows that can be sliced."""

    def __init__(self, rows):
        self.rows = rows


class RowBlocks:
    """A partition of N rows into blocks, and the work on all of them.

    `visit` is the only way to the rows. What it calls gets the values of one block and must not
    hold, or write to, anything of N entries: so the work can be done by threads here or, by another
    class that offers `visit`, `store` and `n_rows`, anywhere else.

    Parameters
    ----------
    n_rows : int
        Number of rows N.
    n_columns : int
        Width M of what is computed for each row; a block holds about `BLOCK_BYTES` of it, but has
        `SMALLEST_BLOCK` rows at least, if these are within `LARGEST_BLOCK_BYTES`.
    n_threads : int
        Number of blocks worked on at once; fewer while other threads of the process have work.
    memory : int
        Bytes that arrays of shape (M, N) may take together. What does not fit is computed again
        at each visit.
    n_read : int
        Width of the rows that are read; a block holds no more of them than of what is computed.
    block_rows : int or None
        Rows in a block; None chooses from `n_columns`.
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
        """Call `function` for each block, and put together what it returns.

        Parameters
        ----------
        function : callable
            ``function(*values)`` returns two tuples: terms of sums over the blocks, arrays or
            numbers; and arrays whose last axis is the rows of the block.
        *inputs : array of shape (..., N), Table, BlockStore or None
            What `function` gets the values of for each block: a part of an array by its last axis,
            of a table by its first; what is stored; None.

        Returns
        -------
        sums : tuple
        rows : tuple of ndarray of shape (..., N)
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
            return x.rows[self.slices[index]]
        return None if x is None else x[..., self.slices[index]]

    def _map(self, function):
        """Yield ``function(index)`` for each block in order."""
        indices = range(len(self.slices))
        n_threads = 1 if len(indices) == 1 else fair_threads(self.n_threads)
        if n_threads == 1:
            yield from map(function, indices)
            return
        # A new thread has numpy's default handling of floating-point errors.
        with ThreadPoolExecutor(n_threads, "", _begin_thread, (np.geterr(),)) as pool:
            pending = deque()
            for index in indices:
                pending.append(pool.submit(function, index))
                # With all blocks under way, the sums of all could pile up behind one slow block.
                if len(pending) == 2 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    def store(self, function, *inputs, n_arrays, is_array=False):
        """Return a `BlockStore` of ``function(*values)``, which holds `n_arrays` (M, N) arrays.

        `is_array` says that it is a single array and nothing else, for those who send it about.
        """
        kept = n_arrays * self.array_bytes <= self.memory
        values = lambda index: function(*[self._value(x, index) for x in inputs])  # noqa: E731
        return BlockStore(values, len(self.slices), kept)


class BlockStore:
    """What a function gives for each block: kept if it fits the memory, else computed per visit."""

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
