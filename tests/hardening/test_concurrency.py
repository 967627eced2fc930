"""Several at once: the same answers as one after the other, and nobody waits for ever.

What it costs, `tests.hardening.concurrency` measures.
"""

import pickle
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sparsegpc import (
    GPNoise,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
)
from sparsegpc._core.rows import blocks, threads

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("quick_batches"),
]

QUICK = {"n_inducing": 8, "max_iter": 1, "max_reselections": 0, "tol": 0.1, "main_effects": False}
N_THREADS = 4
# Seconds after which what should have ended is said to hang.
PATIENCE = 300


@contextmanager
def patience():
    """Turn waiting for ever into a failure."""

    def give_up(number, frame):
        raise TimeoutError(f"still not done after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def no_deadlock():
    with patience():
        yield
    assert not threads._LIMIT._users


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks for two threads of BLAS, few as the rows are."""
    monkeypatch.setattr(blocks, "SMALLEST_BLOCK", 16)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    before = [(library, library.get_num_threads()) for library in threads._libraries()]
    for library, _ in before:
        threads._set_threads(library, 2)
    now = [library.get_num_threads() for library, _ in before]
    yield
    after = [library.get_num_threads() for library, _ in before]
    for library, n_threads in before:
        threads._set_threads(library, n_threads)
    assert after == now, "BLAS has other threads than before"


def make_data(n_classes=0, n_rows=60):
    rng = np.random.RandomState(0)
    X = rng.uniform(-2.0, 2.0, (n_rows, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n_rows)
    return X, np.digitize(f, np.linspace(-0.4, 0.4, n_classes - 1)) if n_classes else f


ESTIMATORS = {
    "classifier": (SparseGPClassifier(**QUICK), 2),
    "softmax": (SparseGPClassifier(**QUICK), 3),
    "one for each class": (SparseGPClassifier(likelihood="polya-gamma", **QUICK), 3),
    "regressor": (SparseGPRegressor(**QUICK), 0),
    "noise process": (SparseGPRegressor(noise=GPNoise(n_inducing=4), **QUICK), 0),
    "batches": (StochasticSparseGPClassifier(n_inducing=8, n_epochs=1), 2),
    "selector": (InducingPointSelector(n_components=8, random_state=0), 0),
}


def answers(model, X, y):
    """Return all that a model says of rows, as bytes."""
    if isinstance(model, InducingPointSelector):
        return model.transform(X).tobytes()
    said = [model.predict(X)]
    for name, options in (
        ("predict_proba", {}),
        ("sample_f", {"random_state": 0}),
        ("sample_y", {"random_state": 0}),
        ("predict_interval", {}),
        ("latent_mean_and_variance", {}),
    ):
        if hasattr(model, name):
            said.extend(getattr(model, name)(X, **options))
    if hasattr(model, "certificate"):
        said.append(np.array(model.certificate(X, y).gap_per_row))
    return b"".join(np.asarray(part).tobytes() for part in said)


def at_once(*calls):
    """Return the results of calls that begin together, each in a thread of its own."""
    gate = threading.Barrier(len(calls))

    def begin(call):
        gate.wait(PATIENCE)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [task.result(PATIENCE) for task in [pool.submit(begin, call) for call in calls]]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_answers_in_many_threads_are_those_of_one_also_right_after_unpickling(name):
    estimator, n_classes = ESTIMATORS[name]
    X, y = make_data(n_classes)
    model = clone(estimator).fit(X, y)
    expected, saved = answers(model, X, y), pickle.dumps(model)
    assert at_once(*N_THREADS * [lambda: answers(model, X, y)]) == N_THREADS * [expected]
    loaded = pickle.loads(saved)
    assert at_once(*N_THREADS * [lambda: answers(loaded, X, y)]) == N_THREADS * [expected]


@pytest.mark.usefixtures("small_blocks")
def test_fits_in_many_threads_are_those_of_one():
    different = ("classifier", "one for each class", "noise process", "batches")
    fits = [(clone(ESTIMATORS[one][0]), *make_data(ESTIMATORS[one][1])) for one in different]
    expected = [answers(clone(one).fit(X, y), X, y) for one, X, y in fits]
    found = at_once(*[lambda f=f: answers(f[0].fit(*f[1:]), *f[1:]) for f in fits])
    assert found == expected


def search(n_jobs):
    grid = {"n_inducing": [4, 8]}
    inner = SparseGPClassifier(likelihood="polya-gamma", n_jobs=2, **QUICK)
    return GridSearchCV(inner, grid, n_jobs=n_jobs, cv=2, error_score="raise")


def searched(backend):
    X, y = make_data(3)
    with joblib.parallel_config(backend), warnings.catch_warnings():
        # In other processes the filters of this one do not hold.
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = search(None if backend == "sequential" else 2).fit(X, y)
    return found.cv_results_["mean_test_score"].tobytes() + found.predict_proba(X).tobytes()


def test_searches_over_fits_that_have_jobs_of_their_own_give_the_same():
    with patience():
        expected = searched("sequential")
    assert searched("threading") == expected
    assert searched("loky") == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_search_by_the_workers_of_dask_gives_the_same():
    distributed = pytest.importorskip("distributed")
    expected = searched("sequential")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    with distributed.Client(dashboard_address=None, **options):
        assert searched("dask") == expected
