"""What a piece of work costs: wall and CPU seconds, memory, and what the machine could do.

CPU seconds are those of all threads of the process, its children left out. Memory is that of the
process, so what is measured belongs into a fresh one: see `in_fresh_process`.
"""

import ctypes
import gc
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

MIB = 2**20
# A child reads its job after this option, and prints its record as the last line.
JOB_OPTION = "--one"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)
# Seconds until idle threads of BLAS sleep; before, what runs next pays for their waiting.
PAUSE = 0.2
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Cost(NamedTuple):
    """Wall and CPU seconds."""

    wall: float
    cpu: float


class ChildError(RuntimeError):
    """A child process ended without a record; `code` is its exit code, or minus a signal."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self):
        """Return the `Cost` up to now."""
        return Cost(time.perf_counter() - self._wall, time.process_time() - self._cpu)


def timed(function):
    """Return the result of ``function()``, and its `Cost`."""
    watch = Stopwatch()
    result = function()
    return result, watch.read()


def median_cost(function, repeats, warm_up=0):
    """Return the median `Cost` of ``function(i)`` over the repeats after the warm-up."""
    costs = [timed(lambda i=i: function(i))[1] for i in range(warm_up + repeats)]
    return Cost(*np.median(costs[warm_up:], axis=0).tolist())


def steady_cost(function, seconds=1.0, most=10):
    """Return the median `Cost` of ``function(i)``, repeated for about so many seconds.

    It is called twice at least, and the first call warms up.
    """
    function(0)
    costs, watch = [], Stopwatch()
    while len(costs) < most and (not costs or watch.read().wall < seconds):
        costs.append(timed(lambda: function(len(costs) + 1))[1])
    return Cost(*np.median(costs, axis=0).tolist())


def dgemm_cost(n_points, n_rows, repeats=10):
    """Return the `Cost` of an (M, M) times an (M, N) product, 2 N M^2 operations."""
    rng = np.random.RandomState(0)
    A, V = rng.randn(n_points, n_points), rng.randn(n_points, n_rows)
    out = np.empty_like(V)
    return median_cost(lambda i: np.matmul(A, V, out=out), repeats, warm_up=3)


def _status(key):
    """Return an entry of the process's status, in bytes, or None where there is no such file."""
    if not _STATUS.exists():
        return None
    lines = [line for line in _STATUS.read_text().splitlines() if line.startswith(key + ":")]
    return 1024 * int(lines[0].split()[1])


def current_memory():
    """Return the resident bytes of this process, or None where the system does not say."""
    return _status("VmRSS")


def peak_memory():
    """Return the most resident bytes of this process so far, since `restart_peak` if that worked.

    Linux' own figure: that of getrusage starts from what the parent had when it forked.
    """
    peak = _status("VmHWM")
    if peak is None:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak


def restart_peak():
    """Let `peak_memory` count from now on; return whether the system allows that.

    What was freed before is given back to the system first, where its C library can do that.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def limit_cpu(seconds):
    """Let the system end this process by SIGXCPU after so many more CPU seconds."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, hard))


def in_fresh_process(script, job, n_threads, python=sys.executable):
    """Run ``script --one JOB`` on so many threads, and return the record that it prints.

    Parameters
    ----------
    script : str
        A file that passes the job to `answer`.
    job : dict
        As JSON.
    n_threads : int
        Of BLAS, and so of sparsegpc.
    python : str
        Interpreter, of another environment for instance.

    Raises
    ------
    ChildError
        If the child ends with another code than zero.
    """
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(n_threads))
    done = subprocess.run(
        [python, str(Path(script).resolve()), JOB_OPTION, json.dumps(job)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ChildError(
            f"{Path(script).name} failed with code {done.returncode} on {job}", done.returncode
        )
    return json.loads(done.stdout.splitlines()[-1])


def in_fork(work, job):
    """Return ``work(job)`` of a copy of this process, which has its libraries and data already.

    Raises
    ------
    ChildError
        If the copy ends without a result: in an exception, by a signal or `limit_cpu`.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(work(job)))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        child.join()
        raise ChildError(f"ended with code {child.exitcode} on {job}", child.exitcode) from None
    finally:
        child.join()
        receiver.close()


def answer(work):
    """In a child: do the job of the command line, and print its record. Else return False."""
    if len(sys.argv) != 3 or sys.argv[1] != JOB_OPTION:
        return False
    job = json.loads(sys.argv[2])
    print(json.dumps(job | work(job)), flush=True)
    return True
