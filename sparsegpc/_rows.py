"""Work over the rows of the data, block by block: threads and memory are decided here only.

Every sum over the N rows goes through `RowBlocks.sum`. The blocks depend on the sizes of the
problem, never on the number of threads, and partial results are added in the order of the rows, so
a result does not depend on how many threads computed it.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import Lock

from threadpoolctl import ThreadpoolController

BLOCK_BYTES = 8 * 2**20
# Below this products lose speed: their factors are packed once for each block.
SMALLEST_BLOCK = 2048
# Elements that pass through several elementwise steps at once, within the processor's cache.
STRIP = 2**16
DEFAULT_MEMORY = 2**30


@lru_cache(maxsize=1)
def _controller():
    return ThreadpoolController()


def _blas_threads():
    blas = _controller().select(user_api="blas").info()
    return max([library["num_threads"] for library in blas], default=1)


class _SingleThreadedBlas:
    """Context in which BLAS runs on one thread; the limit is the process's, so users are counted.

    The first to enter sets the limit and the last to leave restores it, in whatever order threads
    come and go.
    """

    def __init__(self):
        self._lock = Lock()
        self._n_users = 0
        self._limit = None
        self.n_threads_outside = None

    def __enter__(self):
        with self._lock:
            if self._n_users == 0:
                n_threads = _blas_threads()
                self._limit = _controller().limit(limits=1, user_api="blas")
                self.n_threads_outside = n_threads
            self._n_users += 1

    def __exit__(self, *error):
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                self._limit.restore_original_limits()
                self.n_threads_outside = None


_BLAS = _SingleThreadedBlas()


def available_threads():
    """Number of threads that BLAS may use here: cores, or what the environment allows.

    Within `single_threaded_blas`, what it was outside; within `shared_threads`, no more than that.
    """
    n_threads, share = _BLAS.n_threads_outside or _blas_threads(), _SHARE.get()
    return n_threads if share is None else min(n_threads, share)


_SHARE = ContextVar("share", default=None)


@contextmanager
def shared_threads(n_threads):
    """Limit `available_threads` in this context, while others run beside it."""
    token = _SHARE.set(n_threads)
    try:
        yield
    finally:
        _SHARE.reset(token)


def single_threaded_blas():
    """Return a context that keeps every BLAS call inside on one thread.

    Matrices of a few hundred rows are multiplied several times slower by two BLAS threads than by
    one; large problems are spread over row blocks instead.
    """
    return _BLAS


def strips(n_points, n_rows):
    """Return slices of the first axis of an (M, n) array, of about `STRIP` elements each."""
    size = max(1, STRIP // max(n_rows, 1))
    return [slice(start, start + size) for start in range(0, n_points, size)]


class RowBlocks:
    """A partition of N rows into blocks, and the reductions over it.

    Parameters
    ----------
    n_rows : int
        Number of rows N.
    n_columns : int
        Width M of what is computed for each row; a block holds about `BLOCK_BYTES` of it, but has
        `SMALLEST_BLOCK` rows at least.
    n_threads : int
        Number of blocks worked on at once.
    memory : int
        Bytes that arrays of shape (M, N) may take together. What does not fit is computed again
        at each visit.
    block_rows : int or None
        Rows in a block; None chooses from `n_columns`.
    """

    def __init__(self, n_rows, n_columns, *, n_threads=1, memory=DEFAULT_MEMORY, block_rows=None):
        if block_rows is None:
            block_rows = max(SMALLEST_BLOCK, BLOCK_BYTES // (8 * max(n_columns, 1)))
        self.n_rows = n_rows
        self.n_threads = n_threads
        self.memory = memory
        self.array_bytes = 8 * n_rows * max(n_columns, 1)
        starts = range(0, n_rows, block_rows)
        self.slices = [slice(start, min(start + block_rows, n_rows)) for start in starts]

    def map(self, function):
        """Yield ``function(index, rows)`` for each block in order; `rows` is a slice."""
        if self.n_threads == 1 or len(self.slices) == 1:
            yield from map(function, range(len(self.slices)), self.slices)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            yield from pool.map(function, range(len(self.slices)), self.slices)

    def run(self, function):
        """Call ``function(index, rows)`` for each block, for its effect on arrays of N entries."""
        for _ in self.map(function):
            pass

    def sum(self, function):
        """Return the sum over blocks of ``function(index, rows)``, a tuple of arrays or numbers."""
        total = None
        for part in self.map(function):
            if total is None:
                total = list(part)
                continue
            for k, term in enumerate(part):
                total[k] = total[k] + term
        return tuple(total)

    def store(self, compute, n_arrays):
        """Return a `BlockStore` of ``compute(rows)``, which holds `n_arrays` (M, N) arrays."""
        return BlockStore(self.slices, compute, n_arrays * self.array_bytes <= self.memory)


class BlockStore:
    """What a function gives for each block: kept if it fits the memory, else computed per visit."""

    def __init__(self, slices, compute, kept):
        self._slices = slices
        self._compute = compute
        self.kept = kept
        self._values = [None] * len(slices)

    def __getitem__(self, index):
        value = self._values[index]
        if value is None:
            value = self._compute(self._slices[index])
            if self.kept:
                self._values[index] = value
        return value
