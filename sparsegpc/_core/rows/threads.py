"""Numbers of threads: one for BLAS during a fit or prediction, several for blocks of rows."""

from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import RLock, get_ident

import numpy as np
import threadpoolctl


@lru_cache(maxsize=1)
def _libraries():
    """Return threadpoolctl's controller of each BLAS library that is loaded."""
    return threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers


def _set_threads(library, n_threads):
    # Since threadpoolctl 3.8 a limit belongs to the thread that sets it, which may end before the
    # last fit does; other threads' requests are ignored until it is released.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(n_threads)
    release(force=True)


def _is_per_thread(library):
    """Whether the library counts threads for each calling thread, as MKL and OpenMP do."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


def limit_this_thread():
    """Keep BLAS on one thread in a thread of a pool, for as long as the thread lives."""
    for library in _libraries():
        if _is_per_thread(library):
            _set_threads(library, 1)


class _BlasLimit:
    """BLAS on one thread while anyone in this process needs it.

    The number of threads of most BLAS libraries belongs to the process, so users are counted: the
    first one sets the limit and the last one restores what was there, in whatever threads they are.
    """

    def __init__(self):
        # Reentrant: the garbage collector may close a context while this thread holds the lock.
        self._lock = RLock()
        self._users, self._before = {}, []

    def enter(self, user):
        with self._lock:
            if not self._before:
                self._before = [(lib, lib.get_num_threads() or 1) for lib in _libraries()]
            self._users[user] = get_ident()
            for library, _ in self._before:
                _set_threads(library, 1)

    def leave(self, user):
        """Stop being a user; nothing happens to one that never entered."""
        with self._lock:
            self._users.pop(user, None)
            this_thread_left = get_ident() not in self._users.values()
            for library, n_threads in self._before:
                if not self._users or (this_thread_left and _is_per_thread(library)):
                    _set_threads(library, n_threads)
            if not self._users:
                self._before = []

    def n_user_threads(self):
        """Return in how many threads there are users."""
        with self._lock:
            return len(set(self._users.values()))

    def n_threads_without(self):
        """Return the number of threads of BLAS where it is not limited."""
        with self._lock:
            before = self._before or [(lib, lib.get_num_threads() or 1) for lib in _libraries()]
        return max((n_threads for _, n_threads in before), default=1)


_LIMIT = _BlasLimit()
# The number of threads that `shared_threads` leaves to this context, or None.
_SHARE = ContextVar("share", default=None)


@contextmanager
def single_threaded_blas():
    """Keep every BLAS call of this context on one thread, and ignore numpy's underflow.

    Two BLAS threads multiply matrices of a few hundred rows several times slower than one; large
    problems are spread over row blocks instead. Covariances and densities vanish far away.
    """
    user = object()
    try:
        _LIMIT.enter(user)
        with np.errstate(under="ignore"):
            yield
    finally:
        _LIMIT.leave(user)


def available_threads():
    """Return how many threads may work on blocks of rows: as many as BLAS had before its limit.

    Within `shared_threads`, no more than its number.
    """
    n_threads, share = _LIMIT.n_threads_without(), _SHARE.get()
    return n_threads if share is None else min(n_threads, share)


def fair_threads(n_threads):
    """Return how many of `n_threads` to use now: an equal part for each thread with work.

    Within `shared_threads` that is all of them.
    """
    return n_threads if _SHARE.get() else max(1, n_threads // max(1, _LIMIT.n_user_threads()))


@contextmanager
def shared_threads(n_threads):
    """Limit `available_threads` to `n_threads` in this context, for jobs that run side by side."""
    token = _SHARE.set(n_threads)
    try:
        yield
    finally:
        _SHARE.reset(token)
