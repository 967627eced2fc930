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

Each point is measured in a fresh process. Printed are, for each: seconds of the fit; evaluations
of the bound and passes of the site solver, in all and on all rows; CPU seconds of one evaluation
with its gradient at fixed sites, on all rows; how many times that the fit took, by CPU seconds
("ratio") and by operations, with those on subsets counted as what they are ("work"); MiB of the
process at the peak of the fit, and what of that the fit added; and predicted rows per wall second,
probabilities or means and deviations. Slopes are those of straight lines through the logarithms,
by least squares.

    python benchmarks/scaling.py --out output/scaling.jsonl --plot output/scaling.png
    python benchmarks/scaling.py --parts rows --set airline_us2001 --rows 1000 10000 100000 1000000
    python benchmarks/scaling.py --from output/scaling.jsonl --plot output/scaling.png
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from datasets import MADE, made_classification, sampled_classification, standardised
from fits import measured_fit, prediction_rate
from kernel_settings import ONE_LENGTH_SCALE
from measure import answer, in_fresh_process
from records import append, latest, print_table, read, slope, text
from sklearn.datasets import make_friedman1

from sparsegpc import SparseGPClassifier, SparseGPRegressor

# At the upper end of a range, where what grows slowest no longer shows.
N_LAST = 3
# A range over fewer times than this has marks within its decades.
WIDE = 200
X_OF = {"rows": "n_rows", "points": "n_points", "columns": "n_columns"}
SYMBOLS = {"rows": "N", "points": "M", "columns": "D"}
KEYS = ("part", "task", "set", "n_rows", "n_points", "n_columns", "n_threads", "seed")


def made_data(job):
    """Return X_train, y_train, X_test, y_test of made rows."""
    n_rows, n_columns = job["n_rows"] + job["n_test"], job["n_columns"]
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
        parts = made_data(job)
    else:
        parts = sampled_classification(job["set"], job["seed"], job["n_rows"], job["n_test"])
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
    return figures | {"predict_rate": prediction_rate(predict, X_test)}


def jobs(arguments):
    """Yield what is to be measured."""
    values = {
        "rows": [(n, arguments.fixed_points, arguments.fixed_columns) for n in arguments.rows],
        "points": [(arguments.fixed_rows, m, arguments.fixed_columns) for m in arguments.points],
        "columns": [(arguments.fixed_rows, arguments.fixed_points, d) for d in arguments.columns],
    }
    for part in arguments.parts:
        for n_rows, n_points, n_columns in values[part]:
            yield {
                "part": part,
                "task": arguments.task,
                "set": MADE if part == "columns" else arguments.set,
                "n_rows": n_rows,
                "n_points": n_points,
                "n_columns": n_columns,
                "n_test": arguments.test_rows,
                "n_threads": arguments.threads,
                "seed": arguments.seed,
            }


def series(records):
    """Return the records of each line of points, sorted by what varies along it."""
    found = {}
    for record in records:
        part = record["part"]
        fixed = [record[key] for key in KEYS if key not in (X_OF[part], "seed")]
        found.setdefault(tuple(fixed), []).append(record)
    return [sorted(own, key=lambda r: r[X_OF[r["part"]]]) for own in found.values()]


def heading(records):
    """Return what a series has in common, in two parts."""
    first = records[0]
    threads = f"{first['n_threads']} thread(s)"
    fixed = [f"{SYMBOLS[p]} = {first[X_OF[p]]}" for p in X_OF if p != first["part"]]
    return f"{first['task']}, {first['set']} rows", ", ".join([*fixed, threads])


def slopes(records, key):
    """Return the slope over all records of a series, and over the last few; None for a single."""
    variable = X_OF[records[0]["part"]]
    x, y = np.transpose([(record[variable], record[key]) for record in records])
    whole = slope(x, y) if len(x) > 1 else None
    return whole, slope(x[-N_LAST:], y[-N_LAST:]) if len(x) > N_LAST else whole


def print_series(records):
    """Print the figures of a series and its slopes."""
    part = records[0]["part"]
    header = [SYMBOLS[part], "points", "fit wall s", "fit CPU s", "evaluations", "on all rows"]
    header += ["passes", "on all rows", "evaluation CPU s", "ratio", "work"]
    header += ["peak MiB", "added MiB", "predicted/s"]
    rows = [
        [
            str(r[X_OF[part]]),
            str(r["points"]),
            text(r["fit_wall"], ".3g"),
            text(r["fit_cpu"], ".3g"),
            text(r["evaluations"], "d"),
            text(r["full_evaluations"], "d"),
            text(r["passes"], "d"),
            text(r["full_passes"], "d"),
            text(r["evaluation_cpu"], ".3g"),
            text(r["ratio"], ".0f"),
            text(r["work"], ".0f"),
            text(r["peak_mib"], ".0f"),
            text(r["fit_mib"], ".0f"),
            text(r["predict_rate"], ".3g"),
        ]
        for r in records
    ]
    print(f"\n{', '.join(heading(records))}\n")
    print_table(header, rows)
    if len(records) == 1:
        return
    for key, name in (("fit_cpu", "fit"), ("evaluation_cpu", "evaluation")):
        whole, last = slopes(records, key)
        line = f"slope of the {name}'s CPU seconds: {text(whole, '.2f')}"
        print(line + (f"; of the last {N_LAST}: {last:.2f}" if len(records) > N_LAST else ""))


def draw(records, path):
    """Draw CPU seconds and memory of each series over what varies along it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    lines = series(records)
    figure, panels = plt.subplots(
        2 * len(lines),
        1,
        figsize=(6.0, 5.6 * len(lines)),
        height_ratios=(2, 1) * len(lines),
        layout="constrained",
    )
    for (time, memory), own in zip(panels.reshape(-1, 2), lines, strict=True):
        time.sharex(memory)
        time.tick_params(labelbottom=False)
        part = own[0]["part"]
        x = [record[X_OF[part]] for record in own]
        for key, name, colour in (
            ("fit_cpu", "fit", "#08306b"),
            ("evaluation_cpu", "one value and gradient", "#e6550d"),
        ):
            whole = text(slopes(own, key)[0], ".2f")
            y = [record[key] for record in own]
            time.plot(x, y, "o-", ms=4, color=colour, label=f"{name}: slope {whole}")
        peaks = [record["peak_mib"] for record in own]
        memory.plot(x, peaks, "o-", ms=4, color="#54278f", label="process")
        if all(record["fit_mib"] for record in own):
            added = [record["fit_mib"] for record in own]
            memory.plot(x, added, "o--", ms=4, color="#54278f", label="of the fit alone")
        time.set_title("\n".join(heading(own)), fontsize=9)
        time.set(xscale="log", yscale="log")
        memory.set(yscale="log", xlabel=SYMBOLS[part])
        steps = (1.0, 2.0, 5.0) if max(x) < WIDE * min(x) else (1.0,)
        memory.xaxis.set_major_locator(LogLocator(subs=steps))
        memory.xaxis.set_major_formatter("{x:g}")
        memory.xaxis.set_minor_formatter(NullFormatter())
        memory.yaxis.set_minor_formatter(NullFormatter())
        for axes in (time, memory):
            axes.legend(frameon=False, fontsize=8)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(lw=0.4, color="0.88")
        time.set_ylabel("CPU seconds")
        memory.set_ylabel("peak memory, MiB")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(X_OF), choices=list(X_OF))
    parser.add_argument(
        "--task", default="classification", choices=["classification", "regression"]
    )
    parser.add_argument("--set", default=MADE, help="of two classes, for rows and points")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10000, 30000, 100000])
    parser.add_argument("--points", type=int, nargs="+", default=[25, 50, 100, 200, 400, 800])
    parser.add_argument("--columns", type=int, nargs="+", default=[5, 10, 20, 50, 100, 200, 500])
    parser.add_argument("--fixed-rows", type=int, default=20000)
    parser.add_argument("--fixed-points", type=int, default=100)
    parser.add_argument("--fixed-columns", type=int, default=8, help="of made rows")
    parser.add_argument("--test-rows", type=int, default=20000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="file of JSON lines to append to")
    parser.add_argument("--from", dest="old", help="print and draw such a file, measure nothing")
    parser.add_argument("--plot", help="picture of all parts")
    arguments = parser.parse_args()
    if arguments.old:
        records = latest(read(arguments.old), KEYS)
    else:
        records = []
        for job in jobs(arguments):
            records.append(in_fresh_process(__file__, job, job["n_threads"]))
            append(arguments.out, records[-1])
    for own in series(records):
        print_series(own)
    if arguments.plot:
        draw(records, arguments.plot)


if __name__ == "__main__" and not answer(measure_one):
    main()
