"""Learned hyperparameters against the average over their posterior, with few training rows.

Random rows of real sets train, and at most 1000 others test; columns and targets have mean 0 and
deviation 1 over the training rows. Rows that repeat others with the same target are left out:
without noise they would be fitted exactly, which decides the fits of some splits. Estimators have
their defaults, but for ``hyperparameters``. The score is the mean log density of the test targets,
or minus the log loss of the test labels. Each fit is one line of ``results/few_rows.csv``; those
that are there are not repeated. ::

    python benchmarks/few_rows.py --splits 6
    python benchmarks/few_rows.py --render output
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from datasets import (
    counted,
    is_available,
    load_classification,
    load_regression,
    split_classification,
    split_regression,
)
from evidence import append, csv_table, parse_or_render, pending, read
from scores import log_loss
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier, SparseGPRegressor

RESULTS = Path(__file__).parent / "results" / "few_rows.csv"
KEY = ("task", "set", "n_train", "split", "hyperparameters")
FIELDS = (*KEY, "score", "rmse", "coverage", "ess", "cpu_seconds")
SETS = {
    "regression": (
        *("snelson1d", "diabetes", "energy", "concrete"),
        *("kin8nm", "pol", "elevators", "protein_raw"),
    ),
    "classification": (
        *("crabs_species", "heart", "ida_breast_cancer", "ionosphere"),
        *("pima", "vehicle", "higgs7k"),
    ),
}
CHOICES = ("best", "average")
N_TRAIN = {"regression": (25, 50, 100, 200, 400), "classification": (25, 50, 100, 200)}
FEWEST_TEST, MAX_TEST, COVERAGE = 50, 1000, 0.9
# A difference that counts, in nats for each row.
CLEAR = 0.02


def distinct(data):
    """Return `Data` without the rows that repeat others."""
    table = np.column_stack([data.X, data.y])
    first = np.sort(np.unique(table, axis=0, return_index=True)[1])
    return data._replace(X=data.X[first], y=data.y[first])


def measured(task, name, n_train, split, hyperparameters):
    """Return the record of one fit, or None if the training rows lack a class or few can test."""
    is_label = task == "classification"
    data = distinct((load_classification if is_label else load_regression)(name))
    n_test = min(MAX_TEST, len(data.y) - n_train)
    rows = counted(len(data.y), split, n_train, n_test)
    divided = split_classification if is_label else split_regression
    X, y, X_test, y_test = divided(data, *rows)
    lacks_class = is_label and len(np.unique(y)) < len(np.unique(data.y))
    if lacks_class or n_test < FEWEST_TEST:
        return None
    model = (SparseGPClassifier if is_label else SparseGPRegressor)(hyperparameters=hyperparameters)
    start = time.process_time()
    model.fit(X, y)
    record = dict(zip(KEY, (task, name, n_train, split, hyperparameters), strict=True))
    record |= {"ess": model.ess_, "cpu_seconds": time.process_time() - start}
    if is_label:
        return record | {"score": -log_loss(y_test, model.predict_proba(X_test))}
    lower, upper = model.predict_interval(X_test, coverage=COVERAGE)
    return record | {
        "score": float(model.log_predictive_density(X_test, y_test).mean()),
        "rmse": float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))),
        "coverage": float(np.mean((lower <= y_test) & (y_test <= upper))),
    }


def pairs(records, task, n_train):
    """Return a dict from sets and splits to their records with either choice."""
    found = {}
    for record in records:
        if record["task"] == task and int(record["n_train"]) == n_train:
            both = found.setdefault((record["set"], record["split"]), {})
            both[record["hyperparameters"]] = record
    return {key: both for key, both in found.items() if len(both) == len(CHOICES)}


def table(records, task):
    """Return a table with a line for each number of rows: scores, and how often they differ."""
    means = {"score": "Log density"}
    if task == "regression":
        means = {"coverage": "Coverage", "rmse": "RMSE", **means}
    rows = []
    for n_train in N_TRAIN[task]:
        found = pairs(records, task, n_train).values()
        if not found:
            continue
        # Values of each field with either choice, shape (fits, 2).
        both = {
            field: np.array([[float(pair[choice][field]) for choice in CHOICES] for pair in found])
            for field in (*means, "cpu_seconds")
        }
        gains = np.diff(both["score"])
        seconds = both["cpu_seconds"].mean(axis=0)
        rows.append(
            [
                str(n_train),
                str(len(gains)),
                *("{:.3f} / {:.3f}".format(*both[field].mean(axis=0)) for field in means),
                f"{np.median(gains):.3f}",
                f"{np.sum(gains > CLEAR)} / {np.sum(gains < -CLEAR)}",
                f"{seconds[1] / seconds[0]:.1f}",
            ]
        )
    header = ["Rows", "Fits", *means.values(), "Median gain", "Better / worse", "Time"]
    return csv_table(header, rows)


def render(folder):
    """Write the tables as fragments into a folder; nothing is fitted."""
    records = read(RESULTS)
    for task in SETS:
        path = Path(folder) / f"few_rows_{task}.rst"
        path.write_text(table(records, task), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=6)
    arguments = parse_or_render(parser, render)
    # Scores do not depend on whether hyperparameters are at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    sets = [(task, name) for task, names in SETS.items() for name in names if is_available(name)]
    jobs = [
        (task, name, n_train, split, choice)
        for split, (task, name) in product(range(arguments.splits), sets)
        for n_train, choice in product(N_TRAIN[task], CHOICES)
    ]
    for job in pending(jobs, RESULTS, KEY):
        record = measured(*job)
        if record is not None:
            append(RESULTS, [record], FIELDS)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
