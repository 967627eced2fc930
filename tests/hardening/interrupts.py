"""Fits that are interrupted at a given line of the package, and what they leave behind."""

import dis
import linecache
import os
import sys
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

import sparsegpc
from sparsegpc import (
    GPNoise,
    InducingPointSelector,
    LocalCorrection,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.rows import blocks, dask_blocks, threads
from sparsegpc._estimators.minibatches import first_model
from sparsegpc.decomposition import BayesianGPLVM

PACKAGE = str(Path(sparsegpc.__file__).parent) + os.sep
# Seconds that threads and processes which have nothing to do may take to end.
PATIENCE = 30.0
QUICK = {"kernel": RBF(), "n_inducing": 5, "max_iter": 1, "max_reselections": 0, "tol": 0.1}
BATCHES = {"kernel": RBF(), "n_inducing": 4, "n_epochs": 1, "batch_size": 20}


class Boom(Exception):
    """What a user's callback might raise."""


ERRORS = (KeyboardInterrupt, MemoryError, Boom)


class Case(NamedTuple):
    """What is fitted, by which method, to what, in which surroundings.

    ``y`` makes targets of the function of the rows.
    """

    estimator: BaseEstimator
    y: object
    method: str = "fit"
    around: object = nullcontext
    on_disk: bool = False
    n_rows: int = 30


def two(f):
    return (f > 0).astype(int)


def three(f):
    return np.digitize(f, [-0.4, 0.4])


def numbers(f):
    return f


def positive(f):
    return np.exp(f)


def both(f):
    return np.stack([f, f**2], axis=1)


@contextmanager
def small_blocks():
    """Blocks of a few rows, for two threads."""
    with ExitStack() as stack:
        for library in threads._libraries():
            before = library.get_num_threads()
            threads._set_threads(library, 2)
            stack.callback(threads._set_threads, library, before)
        old = blocks.SMALLEST_BLOCK, blocks.BLOCK_BYTES
        blocks.SMALLEST_BLOCK, blocks.BLOCK_BYTES = 9, 1
        stack.callback(lambda: vars(blocks).update(SMALLEST_BLOCK=old[0], BLOCK_BYTES=old[1]))
        yield


@contextmanager
def a_cluster():
    """Rows spread over a cluster within this process."""
    from distributed import Client

    with ExitStack() as stack:
        options = {"processes": False, "dashboard_address": None}
        client = stack.enter_context(Client(n_workers=1, threads_per_worker=1, **options))
        old, dask_blocks.SMALLEST_PART = dask_blocks.SMALLEST_PART, 20
        stack.callback(lambda: vars(dask_blocks).update(SMALLEST_PART=old))
        stack.enter_context(dask_blocks.distribute(client))
        yield


@contextmanager
def quick_start():
    """Few iterations for what batches begin with."""
    old, first_model.START_ITERATIONS = first_model.START_ITERATIONS, 1
    try:
        yield
    finally:
        first_model.START_ITERATIONS = old


CASES = {
    "classifier": Case(SparseGPClassifier(**QUICK), two),
    "softmax": Case(SparseGPClassifier(**QUICK), three),
    "one for each class": Case(SparseGPClassifier(likelihood="polya-gamma", **QUICK), three),
    "one for each class, processes": Case(
        SparseGPClassifier(likelihood="polya-gamma", n_jobs=2, **QUICK), three
    ),
    "restarts": Case(
        SparseGPClassifier(n_restarts_optimizer=1, random_state=0, **QUICK),
        two,
    ),
    "number by certificate": Case(
        SparseGPClassifier(n_inducing="auto", max_inducing=30, max_iter=1, max_reselections=0), two
    ),
    "regressor": Case(SparseGPRegressor(**QUICK), numbers),
    "several outputs": Case(SparseGPRegressor(**QUICK), both),
    "positive numbers": Case(SparseGPGeneralizedRegressor(likelihood="gamma", **QUICK), positive),
    "polynomial noise": Case(SparseGPRegressor(noise="polynomial", **QUICK), numbers),
    "noise process": Case(SparseGPRegressor(noise=GPNoise(n_inducing=4), **QUICK), numbers),
    "noise chosen by the bound": Case(SparseGPRegressor(noise="auto", **QUICK), numbers),
    "neighbours": Case(LocalCorrection(SparseGPRegressor(**QUICK), mode="both"), numbers),
    "latent variables": Case(BayesianGPLVM(n_inducing=4, max_iter=2), numbers),
    "points that move": Case(SparseGPRegressor(optimize_inducing=True, **QUICK), numbers),
    "selector with k-means": Case(
        SparseGPRegressor(
            selector=InducingPointSelector(method="kmeans", n_components=4, random_state=1),
            max_iter=1,
            max_reselections=0,
        ),
        numbers,
    ),
    "warm start": Case(SparseGPRegressor(warm_start=True, **QUICK), numbers),
    "warm start, one for each class": Case(
        SparseGPClassifier(likelihood="polya-gamma", warm_start=True, **QUICK), three
    ),
    "rows on disk": Case(SparseGPRegressor(**QUICK), numbers, on_disk=True),
    "threads": Case(SparseGPRegressor(**QUICK), numbers, "fit", small_blocks, n_rows=60),
    "cluster": Case(SparseGPRegressor(**QUICK), numbers, "fit", a_cluster, n_rows=60),
    "batches of labels": Case(StochasticSparseGPClassifier(**BATCHES), three),
    "batches of targets": Case(
        StochasticSparseGPRegressor(optimize_inducing=True, random_state=0, **BATCHES),
        numbers,
    ),
    "stream of positive numbers": Case(
        StochasticSparseGPGeneralizedRegressor(likelihood="gamma", **BATCHES),
        positive,
        "partial_fit",
    ),
    "stream of labels": Case(StochasticSparseGPClassifier(**BATCHES), two, "partial_fit"),
    "stream of targets": Case(StochasticSparseGPRegressor(**BATCHES), numbers, "partial_fit"),
    "selector": Case(
        InducingPointSelector(weighting="classification", n_components=4, random_state=0),
        three,
    ),
    "pipeline": Case(make_pipeline(StandardScaler(), SparseGPClassifier(**QUICK)), two),
}


class Data(NamedTuple):
    """Rows and targets, and rows to predict."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray


def data(case, seed, folder=None):
    """Return the `Data` of a case."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (case.n_rows, 2))
    y = case.y(np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(case.n_rows))
    X_new = rng.uniform(-3.0, 3.0, (9, 2))
    if case.on_disk:
        path = Path(folder) / f"rows{seed}.npy"
        np.save(path, X)
        X = np.load(path, mmap_mode="r")
    return Data(X, y, X_new)


def call(case, estimator, data):
    """Call the method of the case, its warnings of no interest."""
    options = {}
    if case.method == "partial_fit" and hasattr(estimator, "class_weight"):
        options["classes"] = np.unique(data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with quick_start():
            getattr(estimator, case.method)(data.X, data.y, **options)


def predictions(estimator, X_new):
    """Return what a fitted estimator says of rows, as bytes; None of an unfitted one."""
    try:
        sklearn.utils.validation.check_is_fitted(estimator)
    except sklearn.exceptions.NotFittedError:
        return None
    if isinstance(estimator, (InducingPointSelector, BayesianGPLVM)):
        return estimator.transform(X_new).tobytes()
    said = [estimator.predict(X_new)]
    if hasattr(estimator, "predict_proba"):
        said.append(estimator.predict_proba(X_new))
    return b"".join(part.tobytes() for part in said)


def parts(estimator):
    """Return the steps of a pipeline, whose last is ours, or this estimator."""
    return [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]


def state(estimator):
    """Return a digest of all attributes, parameters and their generators included."""
    return joblib.hash(vars(parts(estimator)[-1]))


def surroundings():
    """Return what no fit may change outside of its estimator."""
    return {
        "BLAS threads": sorted((lib["filepath"], lib["num_threads"]) for lib in threadpool_info()),
        "numpy's errors": np.geterr(),
        "warnings' filters": list(warnings.filters),
        "scikit-learn's settings": sklearn.get_config(),
        "numpy's generator": joblib.hash(np.random.get_state()),
        "users of BLAS": len(threads._LIMIT._users),
        "share of threads": threads._SHARE.get(),
        "threads": set(threading.enumerate()),
    }


def differences(before):
    """Return what of the surroundings has changed for good."""
    deadline = time.monotonic() + PATIENCE
    while True:
        after = surroundings()
        # Idle threads of earlier tests may end at any time.
        after["threads"] |= before["threads"]
        changed = [f"{k}: {before[k]} -> {after[k]}" for k in before if before[k] != after[k]]
        if not changed or time.monotonic() > deadline:
            return changed
        time.sleep(0.01)


def _leaves_context(frame):
    """Whether the line is that of a `with` on its way out, where Python takes no signal.

    Raised there, an error would keep the context from its end, and a lock for ever.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return line.startswith("with ") and not operation.startswith(("LOAD_G", "LOAD_F", "PUSH_NULL"))


def _restores_threads(code):
    """Return whether an interrupt of this code may leave BLAS on one thread, as documented."""
    return code.co_filename.endswith("rows/threads.py") and code.co_name in (
        "single_threaded_blas",
        "leave",
        "_set_threads",
    )


class Interrupt:
    """Raise an error at the k-th line of the package that is run, or the next, in any thread.

    Lines that restore the number of threads of BLAS are left out.

    Parameters
    ----------
    at : int or None
        None counts lines only.
    error : type of exception
    """

    def __init__(self, at=None, error=KeyboardInterrupt):
        self.n_lines, self.place, self.raised = 0, None, None
        self._at, self._error = at, error

    def _global(self, frame, event, arg):
        code = frame.f_code
        inside = code.co_filename.startswith(PACKAGE) and not _restores_threads(code)
        return self._local if inside else None

    def _local(self, frame, event, arg):
        if event != "line" or self.raised is not None:
            return self._local
        self.n_lines += 1
        if self._at is not None and self.n_lines >= self._at and not _leaves_context(frame):
            code = frame.f_code
            self.place = f"{code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno}"
            self.raised = self._error("now")
            raise self.raised
        return self._local

    def __enter__(self):
        self._before = sys.gettrace()
        threading.settrace(self._global)
        sys.settrace(self._global)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before)
        threading.settrace(None)


class Outcome(NamedTuple):
    """Where the interrupt was; "as before", "completed" or "not reached"; what is wrong."""

    place: str
    end: str
    wrong: list


def prepared(case, fitted, folder=None):
    """Return an estimator to be interrupted, fitted to other data or not."""
    estimator = clone(case.estimator)
    if fitted:
        call(case, estimator, data(case, 0, folder))
    return estimator


def count_lines(case, start, folder=None):
    """Return how many lines of the package the call runs, from the estimator `start` on."""
    with Interrupt() as counter:
        call(case, deepcopy(start), data(case, 1, folder))
    return counter.n_lines


def interrupted(case, start, at, error, folder=None):
    """Return the `Outcome` of a call that an error meets at its line of number `at`."""
    estimator, given = deepcopy(start), data(case, 1, folder)
    inputs, around = joblib.hash([given.X, given.y]), surroundings()
    # Trees of neighbours count their queries.
    said, before = predictions(estimator, given.X_new), state(estimator)
    interrupt, wrong, got = Interrupt(at, error), [], None
    try:
        with interrupt:
            call(case, estimator, given)
    except ERRORS as met:
        got = met if met is interrupt.raised else repr(met)
        if isinstance(got, str):
            # From a thread or a process comes a copy.
            got = met if type(met) is error else got
        # Now, while its traceback lives.
        end, is_changed = "as before", state(estimator) != before
        after = predictions_or_error(estimator, given.X_new)
        if is_changed or after != said:
            whole = deepcopy(start)
            call(case, whole, given)
            end = "completed"
            if vars(parts(estimator)[-1]).keys() != vars(parts(whole)[-1]).keys() or (
                after != predictions(whole, given.X_new)
            ):
                wrong.append(f"half fitted: {sorted(vars(estimator))}")
        met = None
    else:
        end = "not reached"
        if interrupt.raised is not None:
            wrong.append("the error was lost")
    if isinstance(got, str):
        wrong.append(f"another error came out: {got}")
    got = None
    interrupt.raised = None
    if joblib.hash([given.X, given.y]) != inputs:
        wrong.append("X or y was written to")
    wrong += differences(around)
    return Outcome(interrupt.place, end, wrong)


def predictions_or_error(estimator, X_new):
    """Return `predictions`, or what they raise."""
    try:
        return predictions(estimator, X_new)
    except Exception as error:
        return repr(error)
