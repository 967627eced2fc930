"""How the cost of a fit grows with rows N, points M and columns D.

rows
    N at fixed M, on random rows of a set of `datasets` or on made ones.
points
    M at fixed N, of the same rows.
columns
    D at fixed N and M, on made rows.

Made rows are those of scikit-learn's make_classification (two clusters for each class, 5 % of the
labels at random) or make_friedman1; columns are standardised by the training rows. The estimator
has one length scale for all columns and ``selection_tol=0``, so that it takes all the points that
it may, and else its default settings.

Each fit runs in a fresh process and is one line of a file of results; those that are there are not
repeated. A line has seconds of the fit; evaluations of the bound and passes of the site solver, in
all and on all rows; seconds of one evaluation with its gradient at fixed sites, on all rows; how
many times that the fit took, by CPU seconds ("ratio") and by operations, with those on subsets
counted as what they are ("work"); MiB of the process at the peak of the fit, and what of that the
fit added; and predicted rows per wall second, probabilities or means and deviations. Slopes are
those of straight lines through the logarithms, by least squares.

    python benchmarks/scaling.py --parts rows --set airline_us2001 \
        --rows 1000 3000 10000 30000 100000 300000 1000000 2700000
    python benchmarks/scaling.py --parts points columns --tasks classification regression
    python benchmarks/scaling.py --render output
"""

import argparse
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from datasets import MADE, made_classification, sampled_classification, standardised
from evidence import append, csv_table, parse_or_render, pending, read
from fits import measured_fit, prediction_rate
from kernel_settings import ONE_LENGTH_SCALE
from measure import answer, in_fresh_process
from pictures import new_panels, save
from records import print_table, slope
from sklearn.datasets import make_friedman1

from sparsegpc import SparseGPClassifier, SparseGPRegressor

RESULTS = Path(__file__).parent / "results" / "scaling.csv"

# At the upper end of a range, where what grows slowest no longer shows.
N_LAST = 3
X_OF = {"rows": "n_rows", "points": "n_points", "columns": "n_columns"}
SYMBOLS = {"rows": "N", "points": "M", "columns": "D"}
TASKS = ("classification", "regression")
# Rows that the rate of predictions is measured on.
N_TEST = 20_000
# Of one series after the other: a fit, and an evaluation.
DARK, LIGHT = ("#08306b", "#a63603"), ("#6baed6", "#fdae6b")
# Columns of a set are as many as it has, so only those of made rows are asked for.
KEY = ("part", "task", "set", "n_rows", "n_points", "made_columns", "n_threads", "seed")
FIELDS = (
    *KEY,
    "n_columns",
    "points",
    "fit_wall",
    "fit_cpu",
    "evaluations",
    "full_evaluations",
    "passes",
    "full_passes",
    "evaluation_wall",
    "evaluation_cpu",
    "ratio",
    "work",
    "peak_mib",
    "fit_mib",
    "predict_rate",
)


def made_data(job, n_test):
    """Return X_train, y_train, X_test, y_test of made rows."""
    n_rows, n_columns = job["n_rows"] + n_test, job["made_columns"]
    if job["task"] == "regression":
        X, y = make_friedman1(n_rows, n_columns, noise=1.0, random_state=job["seed"])
    else:
        X, y = made_classification(n_rows, n_columns, job["seed"])
    train = np.arange(n_rows) < job["n_rows"]
    X = standardised(X, train)
    return X[train], y[train], X[~train], y[~train]


def measure_one(job):
    """Return the figures of one point."""
    if job["set"] == MADE:
        parts = made_data(job, N_TEST)
    else:
        parts = sampled_classification(job["set"], job["seed"], job["n_rows"], N_TEST)
    X, y, X_test, _ = parts
    estimator = SparseGPRegressor if job["task"] == "regression" else SparseGPClassifier
    model = estimator(
        n_inducing=job["n_points"],
        selection_tol=0.0,
        random_state=job["seed"],
        **ONE_LENGTH_SCALE,
    )
    figures = {"n_columns": X.shape[1]} | measured_fit(model, X, y)
    predict = partial(model.predict, return_std=True)
    if job["task"] == "classification":
        predict = model.predict_proba
    figures["predict_rate"] = prediction_rate(predict, X_test)
    return {name: figures[name] for name in FIELDS if name not in KEY}


def jobs(arguments):
    """Return the keys of all fits that are asked for."""
    points, columns = arguments.fixed_points, arguments.fixed_columns
    values = {
        "rows": [(n, points, columns) for n in arguments.rows],
        "points": [(arguments.fixed_rows, m, columns) for m in arguments.points],
        "columns": [(arguments.fixed_rows, points, d) for d in arguments.columns],
    }
    return [
        (
            part,
            task,
            MADE if part == "columns" else arguments.set,
            *sizes,
            arguments.threads,
            arguments.seed,
        )
        for part, task in product(arguments.parts, arguments.tasks)
        for sizes in values[part]
    ]


def numbers(records):
    """Return records of a file with numbers in place of their texts; empty cells are None."""
    return [
        {
            name: text if name in KEY[:3] else float(text) if text else None
            for name, text in r.items()
        }
        for r in records
    ]


def series(records):
    """Return the records of each line of points, sorted by what varies along it."""
    found = {}
    for record in records:
        part = record["part"]
        varies = (X_OF[part], "made_columns" if part == "columns" else None)
        fixed = tuple(record[name] for name in KEY if name not in varies)
        found.setdefault(fixed, []).append(record)
    return [sorted(own, key=lambda r: r[X_OF[r["part"]]]) for own in found.values()]


def heading(records):
    """Return what a series has in common."""
    first = records[0]
    threads = f"{first['n_threads']:.0f} thread(s)"
    fixed = [f"{SYMBOLS[p]} = {first[X_OF[p]]:.0f}" for p in X_OF if p != first["part"]]
    return ", ".join([first["task"], f"{first['set']} rows", *fixed, threads])


def slope_line(records, key, name):
    """Return a sentence with the slope of a figure over two sizes or more, and over the last."""
    variable = X_OF[records[0]["part"]]
    x, y = np.transpose([(record[variable], record[key]) for record in records])
    line = f"The slope of the CPU seconds of {name} is {slope(x, y):.2f} over all sizes"
    if len(records) > N_LAST:
        line += f", {slope(x[-N_LAST:], y[-N_LAST:]):.2f} over the last {N_LAST} sizes"
    return f"{line}."


def slope_lines(records):
    """Return the sentences about a fit and about an evaluation; none for a single size."""
    if len(records) == 1:
        return []
    names = {"fit_cpu": "a fit", "evaluation_cpu": "one evaluation"}
    return [slope_line(records, key, name) for key, name in names.items()]


def table(records):
    """Return the header and the rows of the table of a series."""
    part = records[0]["part"]
    header = [SYMBOLS[part], "fit, CPU s", "evaluations / on all rows"]
    header += ["one evaluation, CPU s", "ratio", "work", "added MiB", "predicted rows / s"]
    rows = [
        [
            f"{r[X_OF[part]]:.0f}",
            f"{r['fit_cpu']:.3g}",
            f"{r['evaluations']:.0f} / {r['full_evaluations']:.0f}",
            f"{r['evaluation_cpu']:.3g}",
            f"{r['ratio']:.0f}",
            f"{r['work']:.0f}",
            "-" if r["fit_mib"] is None else f"{r['fit_mib']:.0f}",
            f"{float(format(r['predict_rate'], '.2g')):.0f}",
        ]
        for r in records
    ]
    return header, rows


def print_series(records):
    """Print the figures of a series and its slopes."""
    print(f"\n{heading(records)}\n")
    print_table(*table(records))
    print(*slope_lines(records), sep="\n")


def draw(part, lines, path):
    """Draw CPU seconds and memory of all series of a part over what varies along them."""
    from matplotlib.ticker import LogLocator

    figure, (time, memory) = new_panels(2, height=3.2)
    for own, dark, light in zip(lines, DARK, LIGHT, strict=False):
        x = [record[X_OF[part]] for record in own]
        task = own[0]["task"]
        for key, name, colour in (
            ("fit_cpu", "fit", dark),
            ("evaluation_cpu", "evaluation", light),
        ):
            y = [record[key] for record in own]
            time.plot(x, y, "o-", ms=4, color=colour, label=f"{task}, {name}")
        added = [record["fit_mib"] or np.nan for record in own]
        memory.plot(x, added, "o-", ms=4, color=dark, label=task)
    for axes, name in ((time, "CPU seconds"), (memory, "MiB added by the fit")):
        axes.set(xscale="log", yscale="log", xlabel=SYMBOLS[part], title=name)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        if part != "rows":
            axes.set_xticks(x, [f"{value:.0f}" for value in x])
            axes.set_xticks([], minor=True)
        axes.legend(fontsize=8)
        axes.grid(lw=0.4, color="0.88")
    memory.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    save(figure, path)


def render(folder):
    """Write tables and pictures into a folder; nothing is fitted."""
    records = numbers(read(RESULTS))
    for part in X_OF:
        lines = series([record for record in records if record["part"] == part])
        fragments = []
        for own in lines:
            fragments += [csv_table(*table(own), title=heading(own)), *slope_lines(own), ""]
        Path(folder, f"scaling_{part}.rst").write_text("\n".join(fragments), encoding="utf-8")
        draw(part, lines, Path(folder, f"scaling_{part}.png"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(X_OF), choices=list(X_OF))
    parser.add_argument("--tasks", nargs="+", default=["classification"], choices=TASKS)
    parser.add_argument("--set", default=MADE, help="of two classes, for rows and points")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10000, 30000, 100000])
    parser.add_argument("--points", type=int, nargs="+", default=[25, 50, 100, 200, 400, 800])
    parser.add_argument("--columns", type=int, nargs="+", default=[5, 10, 20, 50, 100, 200, 500])
    parser.add_argument("--fixed-rows", type=int, default=20000)
    parser.add_argument("--fixed-points", type=int, default=100)
    parser.add_argument("--fixed-columns", type=int, default=8, help="of made rows")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of results")
    arguments = parse_or_render(parser, render)
    for values in pending(jobs(arguments), arguments.results, KEY):
        job = dict(zip(KEY, values, strict=True))
        record = in_fresh_process(__file__, job, job["n_threads"])
        append(arguments.results, [record], FIELDS)
    for own in series(numbers(read(arguments.results))):
        print_series(own)


if __name__ == "__main__" and not answer(measure_one):
    main()
