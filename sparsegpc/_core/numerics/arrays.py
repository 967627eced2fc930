"""Memory of large arrays that died, for the next ones.

The C library gives the memory of a large array back to the system when the array dies, and the
system clears every page of it before it hands it out again. That costs as much as a few passes over
the array, and the work on row blocks makes arrays of the same sizes again and again.
"""

from collections import deque
from math import prod
from threading import Lock

import numpy as np

# Smaller arrays are kept by the C library itself.
SMALLEST_BYTES = 2**20
# Bytes that wait to be used again, at most.
KEPT_BYTES = 2**28


class Pool:
    """Buffers that nobody uses, the one freed last at the end.

    Parameters
    ----------
    kept_bytes : int
        Bytes that are kept, at most; what has waited longest goes first.
    """

    def __init__(self, kept_bytes):
        self._kept_bytes = kept_bytes
        self.lock, self._free, self.n_bytes = Lock(), [], 0
        self._returned = deque()

    def take(self, n_bytes):
        """Return a buffer of just this size."""
        with self.lock:
            self._settle()
            for position in reversed(range(len(self._free))):
                if self._free[position].nbytes == n_bytes:
                    self.n_bytes -= n_bytes
                    return self._free.pop(position)
        return np.empty(n_bytes, np.uint8)

    def give_back(self, buffer):
        """Keep a buffer, unless it would have to go at once and take the others with it."""
        if buffer.nbytes > self._kept_bytes:
            return
        self._returned.append(buffer)
        # An array may die at any line, also where this thread holds the lock: never wait for it.
        if self.lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self.lock.release()

    def _settle(self):
        while self._returned:
            self._free.append(self._returned.popleft())
            self.n_bytes += self._free[-1].nbytes
        while self.n_bytes > self._kept_bytes:
            self.n_bytes -= self._free.pop(0).nbytes

    def clear(self):
        """Give back all that waits to be used again."""
        with self.lock:
            self._settle()
            self._free, self.n_bytes = [], 0


class _Lease:
    """Owner of an array's memory, which goes back to the pool with the array's last view."""

    def __init__(self, pool, buffer, shape, dtype):
        self._pool, self._buffer = pool, buffer
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (buffer.ctypes.data, False),
            "version": 3,
        }

    def __del__(self):
        self._pool.give_back(self._buffer)


_POOL = Pool(KEPT_BYTES)


def release():
    """Give the memory that waits to be used again back to the system."""
    _POOL.clear()


def empty(shape, dtype=np.float64):
    """Return an array of this shape, C-contiguous, its values arbitrary."""
    dtype = np.dtype(dtype)
    n_bytes = prod(shape) * dtype.itemsize
    if n_bytes < SMALLEST_BYTES:
        return np.empty(shape, dtype)
    return np.asarray(_Lease(_POOL, _POOL.take(n_bytes), shape, dtype))
