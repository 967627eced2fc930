"""Share of new targets in 90 % intervals, and their width, for each kind of regressor.

Random splits of real sets, at most 500 training rows and 1000 test rows; columns have mean 0 and
deviation 1 over the training rows, targets their own units. "Conformal" is split conformal
prediction on top of the default regressor: a fourth of the training rows is held out, and the
intervals are widened or narrowed by a quantile of what these rows need. Widths are divided by the
deviation of the training targets; the table compares them with those of the default. Each fit is
one line of ``results/interval_coverage.csv``; those that are there are not repeated. ::

    python benchmarks/interval_coverage.py --splits 3
    python benchmarks/interval_coverage.py --render output
"""

import argparse
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from datasets import counted, load_regression, standardised
from evidence import append, csv_table, parse_or_render, pending, read
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import (
    LocalCorrection,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)

RESULTS = Path(__file__).parent / "results" / "interval_coverage.csv"
KEY = ("set", "method", "split")
FIELDS = (*KEY, "n_train", "n_test", "coverage", "width", "cpu_seconds")
SETS = ("diabetes", "concrete", "energy", "nybikes2017", "kin8nm")
COVERAGE = 0.9
CONFORMAL = "conformal"
MODELS = {
    "default": SparseGPRegressor(),
    "noise gp": SparseGPRegressor(noise="gp"),
    "noise student-t": SparseGPRegressor(noise="student-t"),
    "average": SparseGPRegressor(hyperparameters="average"),
    "local correction": LocalCorrection(SparseGPRegressor()),
    "stochastic": StochasticSparseGPRegressor(),
    "gamma": SparseGPGeneralizedRegressor(likelihood="gamma"),
    CONFORMAL: SparseGPRegressor(),
}
TITLES = {
    "default": "default",
    "noise gp": '``noise="gp"``',
    "noise student-t": "Student-t noise",
    "average": "averaged",
    "local correction": "local correction",
    "stochastic": "stochastic",
    "gamma": "gamma",
    CONFORMAL: "conformal",
}
MAX_TRAIN, MAX_TEST, TRAIN_SHARE = 500, 1000, 0.75


def conformal_margin(lower, upper, y, coverage):
    """Return by how much intervals must grow at both ends to contain this share of new targets.

    Of the n distances of held-out targets from their intervals, negative inside, the k-th smallest,
    where k is the coverage times n + 1, rounded up [1]_.

    References
    ----------
    .. [1] Romano, Patterson, Candès, "Conformalized Quantile Regression", NeurIPS 2019,
       Algorithm 1.
    """
    distance = np.maximum(lower - y, y - upper)
    return np.sort(distance)[int(np.ceil(coverage * (len(y) + 1))) - 1]


def measured(name, method, split):
    """Return the record of one fit."""
    data = load_regression(name)
    n_train = min(MAX_TRAIN, int(TRAIN_SHARE * len(data.y)))
    n_test = min(MAX_TEST, len(data.y) - n_train)
    train, test = counted(len(data.y), split, n_train, n_test)
    X, y, model = standardised(data.X, train), data.y, MODELS[method]
    n_held_out = n_train // 4 if method == CONFORMAL else 0
    held_out, fitted = train[:n_held_out], train[n_held_out:]
    start = time.process_time()
    model.fit(X[fitted], y[fitted])
    margin = 0.0
    if n_held_out:
        ends = model.predict_interval(X[held_out], coverage=COVERAGE)
        margin = conformal_margin(*ends, y[held_out], COVERAGE)
    seconds = time.process_time() - start
    lower, upper = model.predict_interval(X[test], coverage=COVERAGE)
    inside = (lower - margin <= y[test]) & (y[test] <= upper + margin)
    return dict(zip(KEY, (name, method, split), strict=True)) | {
        "n_train": n_train,
        "n_test": n_test,
        "coverage": float(np.mean(inside)),
        "width": float(np.mean(upper - lower + 2 * margin) / np.std(y[fitted])),
        "cpu_seconds": seconds,
    }


def table(records):
    """Return a table with a line for each method: its share, on which sets, and its widths."""
    found = {}
    for record in records:
        figures = found.setdefault((record["method"], record["set"]), [])
        figures.append([float(record["coverage"]), float(record["width"])])
    means = {key: np.mean(figures, axis=0) for key, figures in found.items()}
    rows = []
    for method, title in TITLES.items():
        own = {name: means[method, name] for name in SETS if (method, name) in means}
        if not own:
            continue
        shares = [share for share, _ in own.values()]
        ratios = [width / means["default", name][1] for name, (_, width) in own.items()]
        rows.append(
            [
                title,
                f"{np.mean(shares):.2f}",
                f"{min(shares):.2f}\N{EN DASH}{max(shares):.2f}",
                f"{np.exp(np.mean(np.log(ratios))):.2f}",
            ]
        )
    return csv_table(["Estimator", "Share inside", "Sets", "Width"], rows)


def render(folder):
    """Write the table as a fragment into a folder; nothing is fitted."""
    path = Path(folder) / "interval_coverage.rst"
    path.write_text(table(read(RESULTS)), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--splits", type=int, default=3)
    arguments = parse_or_render(parser, render)
    # Coverage does not depend on whether hyperparameters are at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    jobs = product(arguments.sets, arguments.methods, range(arguments.splits))
    for name, method, split in pending(jobs, RESULTS, KEY):
        append(RESULTS, [measured(name, method, split)], FIELDS)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
