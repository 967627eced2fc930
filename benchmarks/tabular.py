"""The tabular suite: classification and regression as users meet them, every method untuned.

Each method of `tabular_methods` is called as its user would call it first. Rows are permuted by
``RandomState(split)``; of the first 90 % at most ``--max-rows`` train, and of the others at most
`MOST_TEST_ROWS` test. Columns and targets have mean 0 and deviation 1 over the training rows, so
errors are in deviations of the target, and log densities in nats per row and such a unit. Sets
below `FEW_ROWS` rows have 10 splits, others 3. Nothing is tuned on test rows.

Each fit runs in a process of its own, on one thread, with a limit of CPU seconds. Seconds of a fit
leave out what `OneDeviation` needs. A fit that raises, ends its process, passes the limit or
predicts infinite values or NaN gets the scores of the constant prediction; its record has the
cause.

Each fit is one line of ``results/tabular.csv``, written when it ends; those that are there are not
repeated (delete the line of a failure to try again). A ``--revision`` labels the lines of this
package, so that two states of it stand side by side; peers have no label. ::

    make tabular
    export SPARSEGPC_DATA=folder
    .venv-tabular/bin/python benchmarks/tabular.py --revision after
    PYTHONPATH=old/checkout .venv-tabular/bin/python benchmarks/tabular.py --methods sparsegpc \
        --revision before
    python benchmarks/tabular.py --render output
"""

import argparse
import signal
import warnings
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec

import numpy as np
from datasets import (
    is_available,
    raw_targets,
    row_count,
    sampled_classification,
    sampled_regression,
)
from evidence import append, parse_or_render, pending
from measure import ChildError, Stopwatch, in_fork, limit_cpu, timed
from scores import all_scores, regression_scores
from tabular_methods import CLASSES, CONSTANT, METHODS, OURS, TARGETS
from tabular_report import RESULTS, render
from threadpoolctl import threadpool_limits

# Left out are copies of these in other units (ida_heart, ida_twonorm, protein), ringnorm and
# nybikes, which are damaged or repeat their rows, and platform with its 50 rows.
SETS = {
    CLASSES: (
        *("wine", "crabs", "crabs_species", "ida_thyroid", "heart", "ida_breast_cancer"),
        *("ionosphere", "banana", "breast", "pima", "vehicle", "ida_german", "ida_flare_solar"),
        *("digits", "ida_titanic", "segment", "ida_image", "ida_splice", "ida_waveform"),
        *("ida_banana", "twonorm", "ida_ringnorm", "higgs7k", "pendigits", "htru2", "magic"),
        *("electricity", "a9a", "mnist", "skin", "airline_nyc2013", "airline_us2001"),
    ),
    TARGETS: (
        *("snelson1d", "nybikes2017", "diabetes", "energy", "concrete", "kin8nm", "pol"),
        *("elevators", "bike", "kin40k", "protein_raw", "keggdirected", "keggundirected"),
    ),
}
TASKS = {name: task for task, names in SETS.items() for name in names}
TRAIN_SHARE = 0.9
MOST_TRAIN_ROWS, MOST_TEST_ROWS = 10_000, 10_000
FEW_ROWS = 2000
SPLITS_OF_FEW, SPLITS_OF_MANY = 10, 3
KEY = ("task", "set", "n_train", "split", "method", "revision")
FIELDS = (
    *KEY,
    "n_test",
    "n_columns",
    "log_loss",
    "brier",
    "calibration_error",
    "accuracy",
    "rmse",
    "log_density",
    "coverage",
    "bound",
    "fit_seconds",
    "predict_seconds",
    "failure",
    "version",
)
LONGEST_MESSAGE = 200
# Where the clock of the processor ticks in hundredths of a second.
PREDICTION_SECONDS = 0.1


@lru_cache(maxsize=1)
def load(name, split, n_train):
    """Return X_train, y_train, X_test, y_test."""
    n_rows = row_count(name)
    n_test = min(n_rows - int(TRAIN_SHARE * n_rows), MOST_TEST_ROWS)
    sampled = {CLASSES: sampled_classification, TARGETS: sampled_regression}[TASKS[name]]
    return sampled(name, split, n_train, n_test)


def prediction_seconds(predict):
    """Return the mean CPU seconds of a prediction, repeated for `PREDICTION_SECONDS`."""
    watch, n_calls = Stopwatch(), 0
    while watch.read().wall < PREDICTION_SECONDS:
        predict()
        n_calls += 1
    return watch.read().cpu / n_calls


def classification_figures(model, X, y, X_test, y_test):
    """Fit a classifier, and return its figures of a split by name."""
    fit = timed(lambda: model.fit(X, y))[1]
    # A class without training rows has probability zero.
    proba = np.zeros((len(y_test), max(y.max(), y_test.max()) + 1))
    proba[:, model.classes_] = model.predict_proba(X_test)
    prediction = prediction_seconds(lambda: model.predict_proba(X_test))
    scores = all_scores(y_test, proba)
    return scores | {"fit_seconds": fit.cpu, "predict_seconds": prediction}


def regression_figures(model, X, y, X_test, y_test):
    """Fit a regressor, and return its figures of a split by name."""
    fit = timed(lambda: model.fit(X, y))[1]
    if hasattr(model, "learn_deviation"):
        model.learn_deviation(X, y)
    mean, std = model.predict(X_test, return_std=True)
    prediction = prediction_seconds(lambda: model.predict(X_test, return_std=True))
    log_density = None
    if hasattr(model, "log_predictive_density"):
        log_density = model.log_predictive_density(X_test, y_test)
    scores = regression_scores(y_test, mean, std, log_density)
    return scores | {"fit_seconds": fit.cpu, "predict_seconds": prediction}


def measure_one(job):
    """Return the figures of one fit, or if it fails the reason."""
    # The scores show what the warnings of a method predict.
    warnings.simplefilter("ignore")
    parts = load(job["set"], job["split"], job["n_train"])
    size = {"n_test": len(parts[3]), "n_columns": parts[0].shape[1]}
    method = METHODS[job["method"]]
    model = method.makers[job["task"]](job["split"])
    size["version"] = import_module(method.library).__version__
    figures = {CLASSES: classification_figures, TARGETS: regression_figures}[job["task"]]
    limit_cpu(job["seconds"])
    try:
        found = figures(model, *parts)
    except Exception as error:  # Whatever a method raises is its result, and goes on record.
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return size | {"failure": message[:LONGEST_MESSAGE]}
    if not np.isfinite(list(found.values())).all():
        return size | {"failure": "predictions are not finite"}
    if hasattr(model, "lower_bound_"):
        found["bound"] = model.lower_bound_
    return size | found


def record_of(job):
    """Fit in a process of its own, and return the record; of a failure the constant's scores."""
    # All methods of a split share the rows that are loaded here.
    load(job["set"], job["split"], job["n_train"])
    try:
        record = in_fork(measure_one, job)
    except ChildError as error:
        timed_out = error.code == -signal.SIGXCPU
        failure = "time limit" if timed_out else f"process ended with code {error.code}"
        record = {"failure": failure}
    if "failure" in record:
        scores = in_fork(measure_one, job | {"method": CONSTANT})
        del scores["fit_seconds"], scores["predict_seconds"], scores["version"]
        record = scores | record
    return {name: value for name, value in (job | record).items() if name in FIELDS}


def jobs(arguments):
    """Return the keys of all fits that are asked for and possible, small sets first."""
    found = []
    for name in filter(is_available, arguments.sets or TASKS):
        targets = raw_targets(name)
        n_rows, task = len(targets), TASKS[name]
        n_train = min(int(TRAIN_SHARE * n_rows), arguments.max_rows)
        n_classes = len(np.unique(targets)) if task == CLASSES else 0
        n_splits = SPLITS_OF_FEW if n_rows < FEW_ROWS else SPLITS_OF_MANY
        found += [
            (task, name, n_train, split, method, arguments.revision if method == OURS else "")
            for split in range(min(n_splits, arguments.splits))
            for method in arguments.methods
            if METHODS[method].applies(task, n_train, n_classes)
        ]
    return sorted(found, key=lambda job: job[2])


def run(arguments, results=RESULTS):
    """Fit what the file of results does not have yet."""
    for values in pending(jobs(arguments), results, KEY):
        job = dict(zip(KEY, values, strict=True)) | {"seconds": arguments.seconds}
        append(results, [record_of(job)], FIELDS)


def installed(methods):
    """Import the libraries of methods, so that no fit pays for it.

    Return the methods whose libraries are installed, and print the names of the others.
    """
    found = []
    for name in methods:
        library = METHODS[name].library
        if find_spec(library) is None:
            print(f"{name} is left out: {library} is not installed (see make tabular)")
        else:
            import_module(library)
            found.append(name)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=list(TASKS), metavar="SET")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", type=int, default=SPLITS_OF_FEW, help="at most so many")
    parser.add_argument(
        "--max-rows", type=int, default=MOST_TRAIN_ROWS, help="at most so many rows train"
    )
    parser.add_argument("--seconds", type=float, default=900.0, help="CPU limit of a fit")
    parser.add_argument("--revision", default="", help="label of this package's lines")
    arguments = parse_or_render(parser, render)
    arguments.methods = installed(arguments.methods)
    run(arguments)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
