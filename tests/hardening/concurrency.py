"""Count the threads that want a processor while fits run within searches within jobs.

    python -m tests.hardening.concurrency --rows 20000

Samples are taken of the states of all threads of this process and of those that it started: one
that runs, or would if there were a processor, is counted. The answers must be those of one job.
"""

import argparse
import os
import threading
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from sklearn.model_selection import GridSearchCV

from sparsegpc import SparseGPClassifier, SparseGPRegressor
from sparsegpc._core.rows import threads

SECONDS = 0.01


class Watch:
    """Counts of threads that want a processor, one of each sample, while within the context."""

    def __enter__(self):
        self.counts, self.blas, self._end = [], [], threading.Event()
        self._begin, self._cpu = time.perf_counter(), sum(os.times()[:4])
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._thread.join()
        self.seconds = time.perf_counter() - self._begin
        self.cpu = sum(os.times()[:4]) - self._cpu

    def _sample(self):
        own = threading.get_native_id()
        while not self._end.wait(SECONDS):
            wanting = [tid for pid in _family(os.getpid()) for tid in _wanting(pid)]
            self.counts.append(len(set(wanting) - {own}))
            self.blas.append(_blas_threads())


def _blas_threads():
    return max((library.get_num_threads() or 1 for library in threads._libraries()), default=1)


def _family(pid):
    """Yield a process and all that it started."""
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(n) for task in tasks for n in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from _family(child)


def _wanting(pid):
    """Yield the threads of a process that run, or wait for nothing but a processor."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if state == "R":
                yield int(task.name)
    except OSError:
        return


def _data(n_rows):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n_rows, 3))
    f = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.standard_normal(n_rows)
    return X, f, np.digitize(f, [-0.4, 0.4])


def _search(model, backend, X, y):
    grid = {"tol": [1e-2, 1e-1]}
    with joblib.parallel_config(backend):
        search = GridSearchCV(model, grid, n_jobs=2, cv=2).fit(X, y)
    return search.cv_results_["mean_test_score"]


def _predictions(model, X, n_threads):
    with joblib.parallel_config("threading"):
        parts = joblib.Parallel(n_threads)(joblib.delayed(model.predict)(X) for _ in range(8))
    return np.array(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["PYTHONWARNINGS"] = "ignore"
    X, f, y = _data(options.rows)
    limits = {"n_inducing": 100, "max_iter": 2, "max_reselections": 0}
    single = SparseGPRegressor(**limits)
    several = SparseGPClassifier(likelihood="polya-gamma", n_jobs=2, **limits)
    fitted = SparseGPRegressor(**limits).fit(X, f)
    many = np.tile(X, (10, 1))
    tasks = {
        "one fit": lambda: np.array(SparseGPRegressor(**limits).fit(X, f).lower_bound_),
        "search, one job": lambda: _search(single, "sequential", X, f),
        "search, 2 threads": lambda: _search(single, "threading", X, f),
        "search, 2 processes": lambda: _search(single, "loky", X, f),
        "search of jobs, one job": lambda: _search(several, "sequential", X, y),
        "search of jobs, 2 threads": lambda: _search(several, "threading", X, y),
        "search of jobs, 2 processes": lambda: _search(several, "loky", X, y),
        "predictions, one thread": lambda: _predictions(fitted, many, 1),
        "predictions, 8 threads": lambda: _predictions(fitted, many, 8),
    }
    print(f"{os.cpu_count()} processors, BLAS on {_blas_threads()} threads")
    print(f"{'':30}{'mean':>8}{'95%':>8}{'most':>8}{'CPU/wall':>10}{'BLAS':>6}  same answer")
    first, wrong = None, False
    for name, task in tasks.items():
        with Watch() as watch:
            found = task()
        first = found if "one" in name else first
        same = np.array_equal(found, first)
        wrong |= not same
        counts = watch.counts or [0]
        print(
            f"{name:30}{np.mean(counts):8.2f}{np.quantile(counts, 0.95):8.0f}{max(counts):8}"
            f"{watch.cpu / watch.seconds:10.2f}{np.median(watch.blas or [0]):6.0f}  {same}",
            flush=True,
        )
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
