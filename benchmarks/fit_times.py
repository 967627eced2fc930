"""How long a fit with the defaults takes, and how much memory, for N rows, D columns and M points.

The rows are made by scikit-learn: make_friedman1 for the regressor, make_classification (two
clusters for each class, 5 % of the labels at random) for the classifier. Estimators have their
default settings, but for ``n_inducing``. Each fit runs in a fresh process and is one line of
``results/fit_times.csv``; those that are there are not repeated. ::

    python benchmarks/fit_times.py
    python benchmarks/fit_times.py --rows 500000 --columns 5 --points 200
    python benchmarks/fit_times.py --render output
"""

import argparse
from itertools import product
from pathlib import Path

from evidence import MISSING, append, csv_table, grouped, parse_or_render, pending, read
from fits import measured_fit
from measure import answer, in_fresh_process
from scaling import made_data

import sparsegpc
from sparsegpc import SparseGPClassifier, SparseGPRegressor

RESULTS = Path(__file__).parent / "results" / "fit_times.csv"
KEY = ("task", "n_rows", "n_columns", "n_inducing", "n_threads")
ESTIMATORS = {"regression": SparseGPRegressor, "classification": SparseGPClassifier}
FIELDS = (
    *KEY,
    "points",
    "fit_wall",
    "fit_cpu",
    "evaluations",
    "peak_mib",
    "fit_mib",
    "version",
)


def measure_one(job):
    """Return the figures of one fit."""
    X, y, _, _ = made_data(job | {"made_columns": job["n_columns"], "seed": 0}, n_test=0)
    model = ESTIMATORS[job["task"]](n_inducing=job["n_inducing"])
    figures = measured_fit(model, X, y, count_work=False)
    figures["version"] = sparsegpc.__version__
    return {name: figures[name] for name in FIELDS if name not in KEY}


def _seconds(value):
    return f"{value:.1f}" if value < 10.0 else f"{value:.0f}"


def _mib(value):
    return f"{value:.0f}"


def table(records, field, write):
    """Return a table of a field, regressor and classifier in each cell, on one thread."""
    found = {tuple(record[name] for name in KEY): record for record in records}
    of_one = [record for record in records if record["n_threads"] == "1"]
    sizes = sorted({(int(r["n_rows"]), int(r["n_columns"])) for r in of_one})
    points = sorted({int(r["n_inducing"]) for r in of_one})
    rows = []
    for n_rows, n_columns in sizes:
        row = [grouped(n_rows), str(n_columns)]
        for n_inducing in points:
            keys = [
                (task, str(n_rows), str(n_columns), str(n_inducing), "1") for task in ESTIMATORS
            ]
            cells = [write(float(found[key][field])) if key in found else MISSING for key in keys]
            row.append(MISSING if set(cells) == {MISSING} else ", ".join(cells))
        rows.append(row)
    return csv_table(["N", "D", *(f"M = {m}" for m in points)], rows, stubs=2)


def render(folder):
    """Write the tables as fragments into a folder; nothing is fitted."""
    records = read(RESULTS)
    for field, write in (("fit_cpu", _seconds), ("fit_mib", _mib)):
        path = Path(folder) / f"fit_times_{field}.rst"
        path.write_text(table(records, field, write), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(ESTIMATORS), choices=list(ESTIMATORS))
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 5000, 50_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--points", type=int, nargs="+", default=[50, 200, 500])
    parser.add_argument("--threads", type=int, default=1)
    arguments = parse_or_render(parser, render)
    jobs = product(
        arguments.tasks,
        arguments.rows,
        arguments.columns,
        arguments.points,
        [arguments.threads],
    )
    for values in pending(jobs, RESULTS, KEY):
        job = dict(zip(KEY, values, strict=True))
        append(RESULTS, [in_fresh_process(__file__, job, job["n_threads"])], FIELDS)


if __name__ == "__main__" and not answer(measure_one):
    main()
