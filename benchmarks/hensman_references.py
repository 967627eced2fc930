"""Hensman, Matthews, Ghahramani 2015: the methods of Table 1 and Figure 1 that are not ours.

EPFitc
    Generalised FITC by expectation propagation. The points start from centres of k-means and move
    to raise the log evidence of expectation propagation.
EPFitc, centres
    The same with points that stay at the centres.
EP
    Expectation propagation with a point at each row.
MFSp
    The mean-field bound, with points that start from the same centres and move.
MF
    The mean-field bound with a point at each row; in Figure 1 only.

Rows, splits and sizes are those of ``hensman_tables.py``, and the methods are in
``reference_methods.py``. Sizes 8 and 3 % are run first. Each fit is one line of
``results/hensman_references.csv``; those that are there are not repeated. The lines of the
pictures are in ``results/hensman_references_banana.csv``. ::

    python benchmarks/hensman_references.py
    python benchmarks/hensman_references.py --sets ida_heart --splits 2
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
from datasets import is_available
from evidence import append, csv_table, parse_or_render, pending, read
from hensman_tables import (
    ALL,
    BANANA,
    BANANA_SIZES,
    KEY,
    LINE_FIELDS,
    N_SPLITS,
    PUBLISHED,
    SETS,
    banana_table,
    columns_of,
    draw_banana,
    median_text,
    n_points,
    panel_lines,
    published_text,
    row_heads,
    split_rows,
)
from hensman_tables import RESULTS as PACKAGE_RESULTS
from reference_methods import expectation_propagation, fit, log_probabilities, mean_field
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

FOLDER = Path(__file__).parent / "results"
RESULTS, LINES = FOLDER / "hensman_references.csv", FOLDER / "hensman_references_banana.csv"
FIELDS = (
    *KEY,
    "n_train",
    "n_inducing",
    "log_loss",
    "accuracy",
    "objective",
    "variance",
    "length_scale",
    "converged",
    "evaluations",
    "cpu_seconds",
)
# Name: function, and whether the points move.
METHODS = {
    "EPFitc": (expectation_propagation, True),
    "EPFitc, centres": (expectation_propagation, False),
    "EP": (expectation_propagation, False),
    "MFSp": (mean_field, True),
    "MF": (mean_field, False),
}
# As in `hensman_tables`.
BANANA_COLUMNS = [
    ("EPFitc", "EP", "objective", "log evidence"),
    ("MFSp", "MF", "objective", "bound"),
]
SPARSE = ("EPFitc", "EPFitc, centres", "MFSp")
# Of the logarithms of variance and length scale. At larger variances the jitter would count.
BOUNDS = [(np.log(1e-3), np.log(1e5)), (np.log(1e-2), np.log(1e3))]


def fitted(method, size, X, y, split):
    """Return the model of a cell of the table; y holds 0 and 1."""
    function, move = METHODS[method]
    Z = X
    if size != ALL:
        centres = KMeans(n_points(size, len(y)), n_init=1, random_state=split).fit(X)
        Z = centres.cluster_centers_
    return fit(function, X, 2.0 * y - 1.0, Z, BOUNDS, move)


def measure(name, method, size, split):
    """Fit and return the line of the file of results, and the model."""
    X, y, X_test, y_test = split_rows(name, split)
    start = time.process_time()
    model = fitted(method, size, X, y, split)
    seconds = time.process_time() - start
    logs = log_probabilities(model, X_test)
    figures = {
        "n_train": len(y),
        "n_inducing": len(model.Z),
        "log_loss": float(-logs[np.arange(len(y_test)), y_test].mean()),
        "accuracy": float((logs.argmax(axis=1) == y_test).mean()),
        "objective": float(model.inference.value),
        "variance": float(model.variance),
        "length_scale": float(model.length_scale),
        "converged": int(model.inference.converged),
        "evaluations": model.n_evaluations,
        "cpu_seconds": seconds,
    }
    return dict(zip(KEY, (name, method, size, split), strict=True)) | figures, model


def jobs(sets, n_splits):
    """Return (set, method, size, split) of all fits, those with few points first."""
    few = [(method, size) for size in ("8", "3%") for method in SPARSE]
    many = [(method, "30%") for method in SPARSE] + [("EP", ALL)]
    return [
        (name, method, size, split)
        for cells in (few, many)
        for split in range(n_splits)
        for name in sets
        if is_available(name) and name in SETS
        for method, size in cells
    ]


def banana_jobs():
    """Return (set, method, size, split) of the panels of the pictures."""
    sparse = [(method, size) for method in ("EPFitc", "MFSp") for size in BANANA_SIZES]
    return [(BANANA, method, size, 0) for method, size in [*sparse, ("EP", ALL), ("MF", ALL)]]


def run(asked, results=RESULTS, lines=LINES):
    """Fit what the file of results does not have yet."""
    for job in pending(asked, results, KEY):
        record, model = measure(*job)
        name, method, size, split = job
        append(results, [record], FIELDS)
        if name == BANANA:
            X = split_rows(name, split)[0]
            panel = panel_lines(method, size, partial(probabilities, model), model.Z, X)
            append(lines, panel, LINE_FIELDS)


def probabilities(model, X):
    """Return the probabilities of both classes at rows X, (N, 2)."""
    return np.exp(log_probabilities(model, X))


def has_failed(record):
    """Whether a fit has not converged, or is worse than the probability 1/2 everywhere."""
    return record["converged"] == "0" or float(record["log_loss"]) > np.log(2.0)


def cell(results, name, method, size):
    """Return median and two deviations over splits, and how many there are if not all, or fail."""
    wanted = name, method, size
    own = [r for r in results if (r["set"], r["method"], r["size"]) == wanted]
    text = median_text([float(record["log_loss"]) for record in own])
    n_failed = sum(map(has_failed, own))
    if n_failed:
        return f"{text} ({n_failed} of {len(own)} failed)"
    return f"{text} ({len(own)} splits)" if 1 < len(own) < N_SPLITS else text


def table(published, results, package_results):
    """Return the fragment of the rows of table 1 that are not the package's."""
    header = ["Set (rows)", "M", "EPFitc, paper", "EPFitc, here", "centres, here"]
    header += ["MFSp, paper", "MFSp, here", "moved, here"]
    rows = []
    for name, size, heads in row_heads():
        method, bound = ("EP", "chosen") if size == ALL else ("EPFitc", "moved")
        rows.append(
            [
                *heads,
                published_text(published, name, method, size),
                cell(results, name, method, size),
                cell(results, name, "EPFitc, centres", size),
                published_text(published, name, "MFSp", size),
                cell(results, name, "MFSp", size),
                median_text(columns_of(package_results, name, bound, size, "log_loss")),
            ]
        )
    return csv_table(header, rows, stubs=2)


def render(folder):
    """Write tables and pictures into a folder, from the files; nothing is fitted."""
    folder = Path(folder)
    results, lines = read(RESULTS), read(LINES)
    text = table(read(PUBLISHED), results, read(PACKAGE_RESULTS))
    (folder / "hensman_references.rst").write_text(text, encoding="utf-8")
    text = banana_table(results, BANANA_COLUMNS)
    (folder / "hensman_references_banana.rst").write_text(text, encoding="utf-8")
    rows = split_rows(BANANA, 0)[:2] if is_available(BANANA) else None
    for method, dense, _, _ in BANANA_COLUMNS:
        draw_banana(lines, method, dense, folder / f"hensman_banana_{method}.png", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=[*SETS, BANANA], default=[*SETS, BANANA])
    parser.add_argument("--splits", type=int, default=N_SPLITS, help="of ten")
    arguments = parse_or_render(parser, render)
    asked = jobs(arguments.sets, arguments.splits)
    if BANANA in arguments.sets and is_available(BANANA):
        asked += banana_jobs()
    run(asked)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
