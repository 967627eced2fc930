"""Threads: how many may run, and BLAS on one of them while they have rows to work on.

The threads of most BLAS libraries are the process's, and so is their limit. Those who need it are
counted, whatever thread they are in; one that was interrupted on its way out drops out by itself.
"""

import os
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from threading import RLock, get_ident
from weakref import ref

import numpy as np
import threadpoolctl

# Since its limits belong to the thread that sets them, other threads' are ignored until it gives
# them up; and those of MKL and OpenMP hold in that thread only.
_LIMITS_HAVE_OWNERS = hasattr(threadpoolctl.OpenBLASController, "clear_controlling_thread")


@lru_cache(maxsize=1)
def _libraries():
    """Return what controls each BLAS library that is loaded."""
    controller = threadpoolctl.ThreadpoolController()
    return controller.select(user_api="blas").lib_controllers


def _set_threads(library, n_threads):
    """Set the number of threads of a library, from any thread, and own nothing afterwards."""
    disown = getattr(library, "clear_controlling_thread", None)
    if disown is None:
        library.set_num_threads(n_threads)
        return
    disown(force=True)
    library.set_num_threads(n_threads)
    disown(force=True)


def _is_per_thread(library):
    """Whether the number of threads is that of the calling thread only."""
    openmp = getattr(library, "threading_layer", None) == "openmp"
    return _LIMITS_HAVE_OWNERS and (library.internal_api == "mkl" or openmp)


def _blas_threads():
    return max([library.get_num_threads() or 1 for library in _libraries()], default=1)


class _BlasLimit:
    """The limit of BLAS to one thread, and those who use it.

    The first to come sets the limit and the last to leave restores it, in whatever order threads
    come and go."""

    def __init__(self):
        # Reentrant: a user may be found dead at any line.
        self._lock = RLock()
        self._users, self._before = {}, []
        self.n_threads_outside = None

    def enter(self, user):
        with self._lock:
            key, value = ref(user, self._leave), (get_ident(), _SHARE.get() is None)
            # Made first: a garbage collection here may end the lives of others, who leave.
            if not self._users:
                self._before = [(lib, lib.get_num_threads()) for lib in _libraries()]
                self.n_threads_outside = _blas_threads()
            # Now: whatever interrupts the rest, it is undone when the user dies.
            self._users[key] = value
            for library, _ in self._before:
                _set_threads(library, 1)

    def leave(self, user):
        self._leave(ref(user))

    def _leave(self, user):
        with self._lock:
            if user not in self._users:
                return
            users = None
            while users is not self._users:
                users = self._users
                left = {key: value for key, value in users.items() if key != user}
                # Others may die meanwhile, in this thread, and leave before.
                self._restore(left)
            # At the end, so that what is interrupted is done again.
            self._users = left

    def _restore(self, left):
        here = get_ident()
        for library, n_threads in self._before:
            own = _is_per_thread(library) and all(thread != here for thread, _ in left.values())
            if own or not left:
                _set_threads(library, n_threads)
        if not left:
            self.n_threads_outside = None

    def n_sharing(self):
        """Return in how many threads there is work that takes what share of the cores it gets."""
        return len({thread for thread, takes_all in list(self._users.values()) if takes_all})

    def after_fork(self):
        """Forget other threads, which a forked process does not have."""
        self._lock, here = RLock(), get_ident()
        left = {key: value for key, value in self._users.items() if value[0] == here}
        if self._users and not left:
            self._restore(left)
        self._users = left


_LIMIT = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMIT.after_fork)


class _SingleThreadedBlas:
    """Context in which BLAS runs on one thread, see `single_threaded_blas`."""

    def __init__(self):
        # Covariances and densities vanish far away, whatever users want to hear of underflow.
        self._errors = np.errstate(under="ignore")

    def __enter__(self):
        _LIMIT.enter(self)
        self._errors.__enter__()

    def __exit__(self, *error):
        self._errors.__exit__(*error)
        _LIMIT.leave(self)


def single_threaded_blas():
    """Return a context that keeps every BLAS call inside on one thread.

    Matrices of a few hundred rows are multiplied several times slower by two BLAS threads than by
    one; large problems are spread over row blocks instead. numpy ignores underflow inside.
    """
    return _SingleThreadedBlas()


def limit_this_thread():
    """Keep BLAS on one thread in a thread that others have started, and that ends with its work."""
    for library in _libraries():
        if _is_per_thread(library):
            _set_threads(library, 1)


def available_threads():
    """Number of threads that BLAS may use here: cores, or what the environment allows.

    Within `single_threaded_blas`, what it was outside; within `shared_threads`, no more than that.
    """
    n_threads, share = _LIMIT.n_threads_outside or _blas_threads(), _SHARE.get()
    return n_threads if share is None else min(n_threads, share)


def fair_threads(n_threads):
    """Return how many of `n_threads` to use now, beside the work of other threads.

    Within `shared_threads` all of them, which were shared out before.
    """
    if _SHARE.get() is not None:
        return n_threads
    return max(1, n_threads // max(_LIMIT.n_sharing(), 1))


_SHARE = ContextVar("share", default=None)


@contextmanager
def shared_threads(n_threads):
    """Limit `available_threads` in this context, while others run beside it."""
    token = _SHARE.set(n_threads)
    try:
        yield
    finally:
        _SHARE.reset(token)
