"""Fits that must give the same answer, and the circumstances that must not change it."""

import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest import mock
from warnings import catch_warnings, simplefilter

import numpy as np
from sklearn import clone, config_context
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_moons,
)
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from threadpoolctl import threadpool_limits

from benchmarks import datasets
from sparsegpc import (
    GPNoise,
    LocalCorrection,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.rows import blocks, dask_blocks, sources
from sparsegpc.kernels import Columns

# Rows taken of each set, of those of several classes, and where subsets are learned from first.
MOST_ROWS, FEWER_ROWS, MANY_ROWS = 700, 400, 6000
# Rows whose predictions are compared.
SHOWN = 50
SHIPPED = {
    "breast": load_breast_cancer,
    "diabetes": load_diabetes,
    "iris": load_iris,
    "moons": lambda **options: make_moons(300, noise=0.3, random_state=0),
    "wine": load_wine,
}
BINARY = ["breast", "pima", "heart", "ionosphere", "crabs", "ida_banana", "ringnorm", "twonorm"]
MANY_CLASSES = ["iris", "wine", "vehicle", "segment"]
NUMBERS = ["diabetes", "snelson1d", "concrete", "energy", "kin8nm", "elevators"]
POSITIVE = {"positive": np.exp, "counts": lambda y: np.round(5.0 * np.exp(y))}


class Answer(NamedTuple):
    """The bound, predictions at some rows of training, and the inducing points."""

    bound: float
    predictions: np.ndarray
    points: np.ndarray


class Case(NamedTuple):
    """An estimator and the name of the set that it learns from."""

    estimator: object
    data: str


@cache
def load(name):
    """Return X and y of a set, standardised unless its name ends in "raw".

    Targets are positive if it ends in "positive", and counts if it ends in "counts".
    """
    name, _, form = name.partition(" ")
    is_regression = name in NUMBERS
    if name in SHIPPED:
        X, y = SHIPPED[name](return_X_y=True)
    else:
        read = datasets.load_regression if is_regression else datasets.load_classification
        X, y, _ = read(name)
    size = FEWER_ROWS if name in MANY_CLASSES else MOST_ROWS
    size = min(len(y), MANY_ROWS if form == "many" else size)
    rows = np.random.RandomState(0).permutation(len(y))[:size]
    X, y = X[rows], y[rows]
    X = X[:, X.std(axis=0) > 0.0]
    if form != "raw":
        X = datasets.standardised(X, slice(None))
    if is_regression:
        y = datasets.standardised(y, slice(None))
    if form in POSITIVE:
        y = POSITIVE[form](y)
    return X, y


def is_here(case):
    """Whether the set of a `Case` needs no download."""
    name = case.data.split()[0]
    return name in SHIPPED or (datasets._local_path(name) or Path()).is_file()


def _classifier(**options):
    return SparseGPClassifier(**{"n_inducing": 40, **options})


def _regressor(**options):
    return SparseGPRegressor(**{"n_inducing": 40, **options})


GIVEN = {"optimizer": None, "kernel": ConstantKernel(2.0) * RBF(2.0)}
SELECTORS = ["hgv", "greedy-variance", "kmeans", "uniform"]


def _kinds(kind, make, data, n_columns):
    """Yield names of cases and the cases that classifiers and regressors have in common."""
    bounded = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-2, 1e2))
    scales = ConstantKernel(1.0) * RBF(np.ones(n_columns))
    options = {
        "given": GIVEN,
        **{selector: {"selector": selector} for selector in SELECTORS},
        "auto points": {"n_inducing": "auto", "max_inducing": 200},
        "moving points": {"n_inducing": 15, "optimize_inducing": True, "main_effects": False},
        "length scales": {"kernel": scales},
        "Matern": {"kernel": ConstantKernel(1.0) * Matern(nu=1.5)},
        "restarts": {"kernel": bounded, "n_restarts_optimizer": 2},
        "standard bound": {"bound": "standard"},
        "spherical bound": {"bound": "spherical"},
    }
    for name, own in options.items():
        yield f"{kind}, {name}", Case(make(**own), data)


def _cases(binary, numbers, n_binary, n_numbers, classes="wine"):
    """Yield names of cases and the cases, those of kinds of models on one set for each task."""
    yield from _kinds("classifier", _classifier, binary, n_binary)
    yield from _kinds("regressor", _regressor, numbers, n_numbers)
    for likelihood in ("bernoulli-probit", "conditional-polya-gamma", "polya-gamma", "dirichlet"):
        yield f"classifier, {likelihood}", Case(_classifier(likelihood=likelihood), binary)
    for likelihood in ("bernoulli-logit", "logistic-softmax", "dirichlet", "ordinal-logit"):
        yield f"classes, {likelihood}", Case(_classifier(likelihood=likelihood), classes)
    yield "classes, given", Case(_classifier(**GIVEN), classes)
    for name, noise in (("polynomial", PolynomialNoise(1)), ("process", GPNoise(n_inducing=10))):
        yield f"regressor, {name} noise", Case(_regressor(noise=noise), numbers)
        given = _regressor(noise=noise, **GIVEN)
        yield f"regressor, {name} noise, given", Case(given, numbers)
    groups = Columns(RBF(2.0), [0]) + Columns(RBF(3.0), range(1, n_numbers))
    given = _regressor(kernel=groups, optimizer=None)
    yield "regressor, groups of columns, given", Case(given, numbers)
    for likelihood, form in (
        ("gamma", "positive"),
        ("log-normal", "positive"),
        ("negative-binomial", "counts"),
    ):
        options = {"n_inducing": 40, "main_effects": False}
        model = SparseGPGeneralizedRegressor(likelihood=likelihood, **options)
        yield f"{form}, {likelihood}", Case(model, f"{numbers} {form}")
    for name, noise in (("noise by the bound", "auto"), ("student-t noise", "student-t")):
        yield f"regressor, {name}", Case(_regressor(noise=noise), numbers)
    # What these learn is that of a regressor; the rows beside it are new.
    corrected = LocalCorrection(_regressor(**GIVEN), mode="both")
    yield "neighbours, given", Case(corrected, numbers)
    quick = {"n_inducing": 40, "batch_size": 256, "n_epochs": 5}
    yield "stochastic classifier", Case(StochasticSparseGPClassifier(**quick), binary)
    yield "stochastic regressor", Case(StochasticSparseGPRegressor(**quick), numbers)
    counts = StochasticSparseGPGeneralizedRegressor(likelihood="poisson", **quick)
    yield "stochastic counts", Case(counts, f"{numbers} counts")


def _sets():
    """Yield names of cases and the cases of default models, one for each set."""
    for name in [*BINARY, "breast raw", "ringnorm many", *MANY_CLASSES]:
        yield f"classifier of {name}", Case(_classifier(), name)
    for name in [*NUMBERS, "kin8nm many"]:
        yield f"regressor of {name}", Case(_regressor(), name)


# On sets that scikit-learn ships, and on those of the benchmarks' folder.
SHORT = dict(_cases("moons", "diabetes", 2, 10, "iris"))
LONG = dict([*_sets(), *_cases("pima", "concrete", 8, 8)])


def fit(estimator, X, y, shown=None, **options):
    """Return the `Answer` of a fit; the first rows of `shown` (N, D) are predicted, or of X."""
    with catch_warnings():
        # What a fit has to say about itself is not the question here.
        simplefilter("ignore")
        estimator = clone(estimator).fit(X, y, **options)
        predict = getattr(estimator, "predict_proba", estimator.predict)
        predictions = predict((X if shown is None else shown)[:SHOWN])
    # That of a corrected model is within.
    estimator = getattr(estimator, "estimator_", estimator)
    points = estimator.inducing_points_
    points = np.concatenate(points) if isinstance(points, list) else points
    return Answer(float(estimator.lower_bound_), np.asarray(predictions), np.asarray(points))


def far(found, expected):
    """Return how far the bounds are apart, relative, and predictions, as a share of the largest."""
    scale = np.abs(expected.predictions).max()
    apart = np.abs(found.predictions - expected.predictions).max() / scale
    return abs(found.bound / expected.bound - 1.0), float(apart)


def is_same(found, expected):
    """Whether two answers have the same bits."""
    return found.bound == expected.bound and all(
        np.array_equal(one, other) for one, other in zip(found[1:], expected[1:], strict=True)
    )


# Each way to fit takes the estimator, X and y, and the answer of a plain fit. It returns the
# answer that it found, and that which it should have found.


def _again(estimator, X, y, plain):
    return fit(estimator, X, y), plain


def _permuted(estimator, X, y, plain):
    order = np.random.RandomState(1).permutation(len(y))
    return fit(estimator, X[order], y[order], X), plain


def _fortran(estimator, X, y, plain):
    other = np.asfortranarray(X)
    other.flags.writeable = False
    return fit(estimator, other, y, X), plain


def _strided(estimator, X, y, plain):
    wide = np.full((2 * len(X), 2 * X.shape[1]), np.nan)
    wide[::-2, ::2] = X
    return fit(estimator, wide[::-2, ::2], y, X), plain


def _listed(estimator, X, y, plain):
    return fit(estimator, X.tolist(), y.tolist(), X), plain


def _cast(estimator, X, y, plain):
    narrow = X.astype(np.float32)
    wide = narrow.astype(np.float64)
    return fit(estimator, narrow, y, wide), fit(estimator, wide, y)


def _integers(estimator, X, y, plain):
    whole = np.round(8.0 * X).astype(np.int16)
    return fit(estimator, whole, y, X), fit(estimator, whole.astype(np.float64), y, X)


def _copies(estimator, X, y, plain):
    weight = np.random.RandomState(2).randint(1, 4, size=len(y))
    found = fit(estimator, np.repeat(X, weight, axis=0), np.repeat(y, weight), X)
    return found, fit(estimator, X, y, sample_weight=weight.astype(float))


@contextmanager
def _blocks_of(size):
    """Cut rows into blocks of this many."""
    with ExitStack() as stack:
        for module, name, value in (
            (blocks, "BLOCK_BYTES", 1),
            (blocks, "SMALLEST_BLOCK", size),
            (sources, "READ_BYTES", 8 * 8 * size),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def _in_blocks(size):
    def run(estimator, X, y, plain):
        with _blocks_of(size):
            return fit(estimator, X, y), plain

    return run


def _threads(n_threads, memory=1024):
    """Fit in blocks by threads, with `memory` MiB for what is kept, and by one with much memory."""

    def run(estimator, X, y, plain):
        with _blocks_of(200):
            with threadpool_limits(1, "blas"):
                expected = fit(estimator, X, y)
            with threadpool_limits(n_threads, "blas"), config_context(working_memory=memory):
                return fit(estimator, X, y), expected

    return run


def _distinct(X, y):
    """Return distinct rows in the order in which a fit sorts them."""
    first = np.unique(X, axis=0, return_index=True)[1]
    return X[first], y[first]


def _mapped(estimator, X, y, plain):
    X, y = _distinct(X, y)
    with tempfile.TemporaryDirectory() as folder, _blocks_of(200):
        path = Path(folder, "rows")
        X.tofile(path)
        rows = np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)
        return fit(estimator, rows, y, X), fit(estimator, X, y)


def _dask(estimator, X, y, plain):
    import dask.array

    X, y = _distinct(X, y)
    with _blocks_of(200):
        rows = dask.array.from_array(X, chunks=(150, -1))
        return fit(estimator, rows, y, X), fit(estimator, X, y)


def _distributed(estimator, X, y, plain):
    import distributed

    X, y = _distinct(X, y)
    parts = mock.patch.object(dask_blocks, "SMALLEST_PART", 200)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=False, **options) as workers,
        distributed.Client(workers) as client,
        parts,
        dask_blocks.distribute(client),
    ):
        found = fit(estimator, X, y)
    return found, fit(estimator, X, y)


SAME_BITS = {
    "again": _again,
    "rows permuted": _permuted,
    "Fortran order": _fortran,
    "every other of a larger array": _strided,
    "lists": _listed,
    "float32 as it is": _cast,
    "integers": _integers,
    "2 threads": _threads(2),
    "4 threads": _threads(4),
    "no memory": _threads(1, memory=1e-3),
}
SAME_NUMBERS = {
    "copies for weights": _copies,
    "blocks of 200": _in_blocks(200),
    "blocks of 77": _in_blocks(77),
    "memmap": _mapped,
    "Dask array": _dask,
}
# Slow, so for few cases.
ON_WORKERS = {"Dask workers": _distributed}
