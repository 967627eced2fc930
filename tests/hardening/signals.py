"""Fits in a process of their own: Ctrl-C at random moments, and memory that does not suffice.

    python -m tests.hardening.signals --runs 20

With Ctrl-C the fit must end by KeyboardInterrupt, soon, with the estimator as it was, and neither
processes nor files may outlive the process. Under a limit of the memory, little above what the
process has, the fit must end by MemoryError, or succeed, and leave the estimator as it was; where
joblib cannot start its threads it says so by a RuntimeError.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np

from sparsegpc import SparseGPClassifier, SparseGPRegressor, StochasticSparseGPClassifier
from sparsegpc._core.rows import threads

ROOT = Path(__file__).parents[2]
N_ROWS = 20_000
# Seconds after which a fit that was told to end counts as one that was not.
PATIENCE = 120.0


def estimator_of(kind):
    """Return an estimator, and how many classes its targets have; 0 is numbers."""
    one_by_one = {"n_inducing": 60, "likelihood": "polya-gamma", "n_jobs": 2}
    return {
        "regressor": (SparseGPRegressor(n_inducing=200), 0),
        "classifier": (SparseGPClassifier(n_inducing=200), 2),
        "batches": (StochasticSparseGPClassifier(n_inducing=200), 2),
        "processes": (SparseGPClassifier(**one_by_one), 3),
        "threads": (SparseGPClassifier(**one_by_one), 3),
    }[kind]


KINDS = ("regressor", "classifier", "batches", "processes", "threads")


def _data(n_classes, n_rows=N_ROWS):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n_rows, 4))
    f = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.standard_normal(n_rows)
    return X, np.digitize(f, np.linspace(-0.4, 0.4, n_classes - 1)) if n_classes else f


def _fit(kind, estimator, X, y):
    with joblib.parallel_config("threading" if kind == "threads" else "loky"):
        estimator.fit(X, y)


def _is_as_before(estimator, before):
    return vars(estimator) == before and not threads._LIMIT._users


class _InterruptOfFits:
    """Handle Ctrl-C as Python does while a fit runs; elsewhere, only note that it came.

    Signals may arrive late, when the fit has ended and its end is being looked at.
    """

    def __init__(self):
        self.came, self.n_raised = False, 0

    def __call__(self, signum, frame):
        self.came = True
        while frame is not None:
            if frame.f_code is _fit.__code__:
                self.n_raised += 1
                raise KeyboardInterrupt
            frame = frame.f_back


def _child(kind):
    """Fit until interrupted; say when, and whether all is as before."""
    warnings.simplefilter("ignore")
    handler = _InterruptOfFits()
    signal.signal(signal.SIGINT, handler)
    n_classes = estimator_of(kind)[1]
    X, y = _data(n_classes)
    n_threads = threading.active_count()
    print("go", flush=True)
    while True:
        estimator, _ = estimator_of(kind)
        before, ended = dict(vars(estimator)), False
        try:
            _fit(kind, estimator, X, y)
        except KeyboardInterrupt:
            ended = True
        # The signal may come before the first fit.
        if handler.came:
            break
    # A signal that came between two fits has nothing to end.
    when, clean = time.time(), ended == (handler.n_raised > 0)
    if ended and handler.n_raised == 1:
        clean = clean and _is_as_before(estimator, before)
    elif ended:
        # A second interrupt may leave BLAS on one thread, as documented.
        clean = clean and vars(estimator) == before
    # Python takes its handlers away as it exits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while threading.active_count() > n_threads and time.time() < when + 5.0 and kind != "processes":
        time.sleep(0.01)
    left = [thread.name for thread in threading.enumerate()[1:] if "Executor" not in thread.name]
    left = [] if kind == "processes" else left
    print(when, clean and not left, left, flush=True)


class Ended(NamedTuple):
    """How a process ended: seconds since the first signal, whether all was right, what was left."""

    seconds: float
    right: bool
    left: list
    text: str


def interrupt(kind, delay, n_signals=1, gap=0.0):
    """Return how a fit `Ended` that was sent signals after `delay` seconds."""
    process = _start("--child", kind)
    assert process.stdout.readline() == "go\n"
    time.sleep(delay)
    begin = time.time()
    for _ in range(n_signals):
        process.send_signal(signal.SIGINT)
        time.sleep(gap)
    out, err = process.communicate(timeout=PATIENCE)
    when, _, rest = out.partition(" ")
    left = _left_behind(process.pid)
    right = rest.startswith("True") and process.returncode == 0 and not left
    return Ended(float(when or "nan") - begin, right, left, (out + err)[-3000:])


def _start(*arguments):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONWARNINGS="ignore")
    command = [sys.executable, "-m", "tests.hardening.signals", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **pipes)


def _left_behind(session):
    """Return what is left of a process that led a session: processes and joblib's files."""
    deadline = time.monotonic() + 5.0
    while True:
        left = [f"process {pid}" for pid in _processes_of(session)]
        for folder in map(Path, ("/dev/shm", "/tmp")):
            if folder.is_dir():
                left += [str(p) for p in folder.glob(f"joblib_memmapping_folder_{session}_*")]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _processes_of(session):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == session:
                yield int(pid)
        except ProcessLookupError:
            continue


def _child_memory(kind, megabytes, n_rows=60_000):
    """Fit with so many megabytes left; say how it ended, and whether all is as before."""
    import resource

    warnings.simplefilter("ignore")
    estimator, n_classes = estimator_of(kind)
    # What is loaded at the first use is no matter of memory for the rows.
    _fit(kind, estimator_of(kind)[0].set_params(n_inducing=50), *_data(n_classes, 6000))
    X, y = _data(n_classes, n_rows)
    before = dict(vars(estimator))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + int(megabytes * 2**20)
    without = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit, without[1]))
    try:
        _fit(kind, estimator, X, y)
        end = "fitted"
    except (MemoryError, RuntimeError) as error:
        # joblib's threads cannot start where there is no memory for their stacks.
        end = type(error).__name__ if isinstance(error, MemoryError) else str(error)
        end += "" if _is_as_before(estimator, before) else ", not as before"
    resource.setrlimit(resource.RLIMIT_AS, without)
    print(end, flush=True)


def starve(kind, megabytes):
    """Return how a fit ended that had so many megabytes: what it printed, else its last line."""
    process = _start("--child-memory", kind, "--megabytes", str(megabytes))
    out, err = process.communicate(timeout=5 * PATIENCE)
    return out.strip() or f"exit {process.returncode}: {' '.join(err.splitlines()[-1:])}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="signals for each kind of fit")
    parser.add_argument("--delay", type=float, default=4.0, help="longest, in seconds")
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--child")
    parser.add_argument("--child-memory")
    parser.add_argument("--megabytes", type=float)
    options = parser.parse_args()
    if options.child:
        return _child(options.child)
    if options.child_memory:
        return _child_memory(options.child_memory, options.megabytes)
    rng, n_wrong = np.random.RandomState(0), 0
    print(f"{'fit':12}{'signals':>9}{'runs':>6}{'wrong':>7}{'median s':>10}{'longest s':>11}")
    for kind in options.kinds:
        for n_signals in (1, 3):
            found = [
                interrupt(kind, rng.uniform(0.0, options.delay), n_signals, rng.uniform(0.0, 0.05))
                for _ in range(options.runs)
            ]
            wrong = [ended for ended in found if not ended.right]
            seconds = [ended.seconds for ended in found]
            print(
                f"{kind:12}{n_signals:9}{len(found):6}{len(wrong):7}{np.median(seconds):10.3f}"
                f"{np.max(seconds):11.3f}",
                flush=True,
            )
            for ended in wrong:
                print("   ", ended.left, ended.text, flush=True)
            n_wrong += len(wrong)
    for kind in ("regressor", "classifier", "batches", "threads"):
        sizes = np.geomspace(2.0, 300.0, max(options.runs // 2, 2))
        ends = Counter(starve(kind, megabytes) for megabytes in sizes)
        print(f"{kind:12} under limits of 2 to 300 MB: {dict(ends)}", flush=True)
        allowed = {"fitted", "MemoryError"}
        allowed |= {"can't start new thread"} if kind == "threads" else set()
        n_wrong += sum(n for end, n in ends.items() if end not in allowed)
    return n_wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
