"""Memory of large arrays that died, for the next ones.

The C library gives the memory of a large array back to the system when the array dies, and the
system clears every page of it before it hands it out again. That costs as much as a few passes over
the array, and the work on row blocks makes arrays of the same sizes again and again.
"""

import os
from collections import deque
from math import prod
from threading import Lock
from weakref import ref

import numpy as np

# Smaller arrays are kept by the C library itself.
SMALLEST_BYTES = 2**20
# Bytes that wait to be used again, at most.
KEPT_BYTES = 2**28


class _Loan(ref):
    """The end of an owner's life, at which its buffer goes back."""

    __slots__ = ("buffer",)


class Pool:
    """Buffers that nobody uses, the one given back last at the end.

    An owner may die at any line, in any thread. Nothing of Python runs then, only a method of C:
    what the user's Ctrl-C raised there would be lost, and a lock might be held already.

    Parameters
    ----------
    kept_bytes : int
        Bytes that are kept, at most, when buffers are asked for; what has waited longest goes
        first.
    """

    def __init__(self, kept_bytes):
        self.kept_bytes = kept_bytes
        self._lock, self._free = Lock(), []
        self._lent, self._returned = set(), deque()

    def take(self, n_bytes):
        """Return a buffer of just this size."""
        with self._lock:
            self._settle()
            for position in reversed(range(len(self._free))):
                if self._free[position].nbytes == n_bytes:
                    return self._free.pop(position)
        return np.empty(n_bytes, np.uint8)

    def lend(self, owner, buffer):
        """Give a buffer that was taken to an owner, for life."""
        loan = _Loan(owner, self._returned.append)
        loan.buffer = buffer
        self._lent.add(loan)

    @property
    def n_bytes(self):
        """Bytes that wait to be used again."""
        with self._lock:
            self._settle()
            return self._n_free()

    def _n_free(self):
        return sum(buffer.nbytes for buffer in self._free)

    def _settle(self):
        while self._returned:
            loan = self._returned.popleft()
            self._free.append(loan.buffer)
            self._lent.discard(loan)
        excess = self._n_free() - self.kept_bytes
        while excess > 0:
            excess -= self._free.pop(0).nbytes

    def clear(self):
        """Give back all that waits to be used again."""
        with self._lock:
            self._settle()
            self._free = []

    def after_fork(self):
        """Do without the lock, which another thread may have held."""
        self._lock = Lock()


class _Lease:
    """Owner of an array's memory, which goes back to the pool with the array's last view."""

    def __init__(self, pool, buffer, shape, dtype):
        self.__array_interface__ = {
            "shape": shape,
            "typestr": dtype.str,
            "data": (buffer.ctypes.data, False),
            "version": 3,
        }
        pool.lend(self, buffer)


_POOL = Pool(KEPT_BYTES)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.after_fork)


def release():
    """Give the memory that waits to be used again back to the system."""
    _POOL.clear()


def empty(shape, dtype=np.float64):
    """Return an array of this shape, C-contiguous, its values arbitrary."""
    dtype = np.dtype(dtype)
    n_bytes = prod(shape) * dtype.itemsize
    if not SMALLEST_BYTES <= n_bytes <= _POOL.kept_bytes:
        return np.empty(shape, dtype)
    return np.asarray(_Lease(_POOL, _POOL.take(n_bytes), shape, dtype))
