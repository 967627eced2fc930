"""Numbers of threads: one for BLAS during fits and predictions, several for blocks of rows."""

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


def _thread_counts():
    """Return pairs of each BLAS library and its present number of threads."""
    return [(library, library.get_num_threads() or 1) for library in _libraries()]


def _set_threads(library, n_threads):
    # Since threadpoolctl 3.8, the thread that sets a limit controls it: requests of other threads
    # are ignored until it is released. That thread may end before the last fit does.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(n_threads)
    release(force=True)


def _is_per_thread(library):
    """Return whether each calling thread has its own number of BLAS threads (MKL and OpenMP)."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


def limit_this_thread():
    """Limit BLAS to one thread in the calling thread of a pool, as long as that thread exists."""
    for library in _libraries():
        if _is_per_thread(library):
            _set_threads(library, 1)


class _BlasLimit:
    """Limit BLAS to one thread while a fit or a prediction runs in this process.

    Most BLAS libraries have one number of threads for the whole process. The fits and predictions
    that need the limit, in any threads, are therefore counted as users: the first one sets the
    limit, and the last one restores the previous number.
    """

    def __init__(self):
        # Reentrant: the garbage collector may close a context while this thread holds the lock.
        self._lock = RLock()
        self._users, self._before = {}, []

    def enter(self, user):
        with self._lock:
            if not self._before:
                self._before = _thread_counts()
            self._users[user] = get_ident()
            for library, _ in self._before:
                _set_threads(library, 1)

    def leave(self, user):
        """Remove a user, if it has entered."""
        with self._lock:
            self._users.pop(user, None)
            this_thread_left = get_ident() not in self._users.values()
            for library, n_threads in self._before:
                if not self._users or (this_thread_left and _is_per_thread(library)):
                    _set_threads(library, n_threads)
            if not self._users:
                self._before = []

    def n_user_threads(self):
        """Return the number of threads that have users."""
        with self._lock:
            return len(set(self._users.values()))

    def n_threads_without(self):
        """Return the number of threads that BLAS has without the limit."""
        with self._lock:
            before = self._before or _thread_counts()
        return max((n_threads for _, n_threads in before), default=1)


_LIMIT = _BlasLimit()
# The number of threads that `shared_threads` allows in this context, or None.
_SHARE = ContextVar("share", default=None)


@contextmanager
def single_threaded_blas():
    """Limit BLAS calls in this context to one thread, and ignore numpy's underflow.

    Two BLAS threads multiply matrices of a few hundred rows several times slower than one; large
    problems are parallel over blocks of rows instead. Covariances and densities may underflow far
    from the data, which is harmless.
    """
    user = object()
    try:
        _LIMIT.enter(user)
        with np.errstate(under="ignore"):
            yield
    finally:
        _LIMIT.leave(user)


def available_threads():
    """Return the number of threads for blocks of rows: that of BLAS without its limit.

    Within `shared_threads`, at most its number.
    """
    n_threads, share = _LIMIT.n_threads_without(), _SHARE.get()
    return n_threads if share is None else min(n_threads, share)


def fair_threads(n_threads):
    """Return an equal share of `n_threads` for each thread that now fits or predicts.

    Within `shared_threads`, all of them.
    """
    return n_threads if _SHARE.get() else max(1, n_threads // max(1, _LIMIT.n_user_threads()))


@contextmanager
def shared_threads(n_threads):
    """Limit `available_threads` to `n_threads` in this context, for concurrent jobs."""
    token = _SHARE.set(n_threads)
    try:
        yield
    finally:
        _SHARE.reset(token)
