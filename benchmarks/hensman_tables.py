"""Hensman, Matthews, Ghahramani 2015, scalable GP classification: Table 1 and Figure 1.

table
    Nine IDA sets: test log loss with 8 points, with 3 % of the training rows as points and, since
    that share may be a misprint, with 30 %; and with all rows. The first ten official splits where
    a set comes with them, else random ones of the same sizes. Diabetes is the thesis' pima.
banana
    The decision boundary and the inducing points on 400 rows, with 4 to 64 points and with all.

"moved" is the paper's model: Bernoulli likelihood with the probit link, zero mean, its bound,
and points that start from centres of k-means and move. "chosen" has the same model and bound, and
points that are rows. "default" has the defaults of SparseGPClassifier but for the kernel: logistic
link, a learned mean and the tighter bound. All have an isotropic squared exponential kernel.
The paper's other methods are in ``hensman_references.py``.

Each fit is one line of ``results/hensman.csv``; those that are there are not repeated. The lines
of the pictures are in ``results/hensman_banana.csv``. ::

    python benchmarks/hensman_tables.py
    python benchmarks/hensman_tables.py --sets ida_heart --splits 2
    python benchmarks/hensman_tables.py --render output
"""

import argparse
import time
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import counted, is_available, load_classification, official, standardised
from evidence import MISSING, append, csv_table, parse_or_render, pending, read
from kernel_settings import ONE_LENGTH_SCALE
from scores import all_scores
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

HERE = Path(__file__).parent
PUBLISHED = HERE / "published" / "hensman.csv"
RESULTS, LINES = HERE / "results" / "hensman.csv", HERE / "results" / "hensman_banana.csv"


class IdaSet(NamedTuple):
    """Title, and the training and test rows of a split."""

    title: str
    n_train: int
    n_test: int


SETS = {
    "ida_thyroid": IdaSet("thyroid", 140, 75),
    "ida_heart": IdaSet("heart", 170, 100),
    "ida_twonorm": IdaSet("twonorm", 400, 7000),
    "ida_ringnorm": IdaSet("ringnorm", 400, 7000),
    "ida_german": IdaSet("german", 700, 300),
    "ida_waveform": IdaSet("waveform", 400, 4600),
    "ida_breast_cancer": IdaSet("cancer", 200, 77),
    "ida_flare_solar": IdaSet("flare solar", 666, 400),
    "pima": IdaSet("diabetes", 468, 300),
}
BANANA = "ida_banana"
BANANA_SET = IdaSet("banana", 400, 4900)
N_SPLITS = 10
ALL = "all"
SIZES, BANANA_SIZES = ("8", "3%", "30%"), ("4", "8", "16", "32", "64")
# With all rows as points there is one model, which is in the file as "chosen".
BANANA_COLUMNS = [(method, "chosen", "bound", "bound") for method in ("moved", "chosen")]

PAPER_MODEL = {
    "likelihood": "bernoulli-probit",
    "bound": "standard",
    "fit_prior_mean": False,
    "selection_tol": 0.0,
}
METHODS = {
    "moved": PAPER_MODEL | {"selector": "kmeans", "optimize_inducing": True, "max_iter": 200},
    "chosen": PAPER_MODEL,
    "default": {},
}
KEY = ("set", "method", "size", "split")
FIELDS = (
    *KEY,
    "n_train",
    "n_inducing",
    "log_loss",
    "accuracy",
    "bound",
    "evaluations",
    "cpu_seconds",
)
LINE_FIELDS = ("method", "size", "kind", "x", "y")
# The lines of the pictures: where the probability of the second class has these values.
LEVELS = {"boundary": 0.5, "low": 0.1, "high": 0.9}
GRID, MARGIN = 60, 0.3


@cache
def cached_data(name):
    return load_classification(name)


def split_rows(name, split):
    """Return X_train, y_train, X_test, y_test of a split, columns standardised by the first.

    Those of banana are left as they come.
    """
    data = cached_data(name)
    own = SETS.get(name, BANANA_SET)
    if data.test_rows is None:
        train, test = counted(len(data.y), split, own.n_train, own.n_test)
    else:
        train, test = official(data, split)
    X = data.X if name == BANANA else standardised(data.X, train)
    return X[train], data.y[train], X[test], data.y[test]


def n_points(size, n_train):
    """Return the number of points that a size stands for: "8", "3%" or "all"."""
    if size == ALL:
        return n_train
    if size.endswith("%"):
        return round(int(size[:-1]) / 100 * n_train)
    return int(size)


def fitted(method, size, X, y, split):
    """Return the classifier of a cell of the table, fitted."""
    n_inducing = n_points(size, len(y))
    options = ONE_LENGTH_SCALE | METHODS[method]
    return SparseGPClassifier(n_inducing=n_inducing, random_state=split, **options).fit(X, y)


def measure(name, method, size, split):
    """Fit and return the line of the file of results, and the model."""
    X, y, X_test, y_test = split_rows(name, split)
    start = time.process_time()
    model = fitted(method, size, X, y, split)
    seconds = time.process_time() - start
    found = all_scores(y_test, model.predict_proba(X_test))
    figures = {
        "n_train": len(y),
        "n_inducing": len(model.inducing_points_),
        "log_loss": found["log_loss"],
        "accuracy": found["accuracy"],
        "bound": model.lower_bound_,
        "evaluations": model.n_evaluations_,
        "cpu_seconds": seconds,
    }
    return dict(zip(KEY, (name, method, size, split), strict=True)) | figures, model


def jobs(sets, n_splits):
    """Return (set, method, size, split) of all fits; with all rows as points there is nothing to
    move, nor to choose.
    """
    cells = [(method, size) for size in SIZES for method in METHODS] + [("chosen", ALL)]
    return [
        (name, method, size, split)
        for split in range(n_splits)
        for name in sets
        if is_available(name) and name in SETS
        for method, size in cells
    ]


def banana_jobs():
    """Return (set, method, size, split) of the panels of the pictures."""
    cells = [(m, size) for m in ("moved", "chosen") for size in BANANA_SIZES] + [("chosen", ALL)]
    return [(BANANA, method, size, 0) for method, size in cells]


def contours(predict_proba, X):
    """Yield the name of a level and the vertices of each of its lines, arrays (n, 2)."""
    from contourpy import contour_generator

    low, high = X.min(axis=0) - MARGIN, X.max(axis=0) + MARGIN
    first, second = (np.linspace(*ends, GRID) for ends in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(first, second), axis=-1)
    proba = predict_proba(grid.reshape(-1, 2))[:, 1].reshape(GRID, GRID)
    generator = contour_generator(first, second, proba)
    for kind, level in LEVELS.items():
        for line in generator.lines(level):
            yield kind, line


def panel_lines(method, size, predict_proba, Z, X):
    """Return the records of a panel: its lines, and its points where they are not all rows.

    Coordinates of all vertices of a line, or of all points, are numbers between spaces.
    """
    parts = list(contours(predict_proba, X))
    if size != ALL:
        parts.append(("point", Z))
    return [
        dict(zip(LINE_FIELDS, (method, size, kind, *map(joined, vertices.T)), strict=True))
        for kind, vertices in parts
    ]


def joined(numbers):
    """Return numbers of two digits as one text."""
    return " ".join(f"{number:.2f}" for number in numbers)


def run(asked, results=RESULTS, lines=LINES):
    """Fit what the file of results does not have yet."""
    for job in pending(asked, results, KEY):
        record, model = measure(*job)
        name, method, size, split = job
        append(results, [record], FIELDS)
        if name == BANANA:
            X = split_rows(name, split)[0]
            panel = panel_lines(method, size, model.predict_proba, model.inducing_points_, X)
            append(lines, panel, LINE_FIELDS)


# Tables and pictures


def digits(value, n=2):
    """Return a number without the zero before its point, as the paper prints it."""
    return f"{value:.{n}f}".removeprefix("0")


def median_text(losses):
    """Return median and two standard deviations, in the paper's form, or a dash."""
    if len(losses) < 2:
        return MISSING
    return f"{digits(np.median(losses))} ± {digits(2 * np.std(losses, ddof=1))}"


def published_text(published, name, method, size):
    """Return a figure of the paper, or a dash."""
    for record in published:
        if (record["set"], record["method"], record["size"]) == (name, method, size):
            interval = record["two_sigma"]
            return f"{record['median']} ± {interval}" if interval else record["median"]
    return MISSING


def columns_of(results, name, method, size, quantity):
    """Return a figure of all splits."""
    wanted = name, method, size
    return [
        float(record[quantity])
        for record in results
        if (record["set"], record["method"], record["size"]) == wanted
    ]


def row_heads():
    """Yield set, size, and the two cells at the head of each row of table 1."""
    for name, own in SETS.items():
        first = f"{own.title} ({own.n_train})"
        for size in (*SIZES, ALL):
            points = ALL if size == ALL else str(n_points(size, own.n_train))
            points += f" ({size.replace('%', ' %')})" if size.endswith("%") else ""
            yield name, size, [first, points]
            first = ""


def table_1(published, results):
    """Return the fragment of table 1, without the rows of `hensman_references`."""
    header = ["Set (rows)", "M", "KLSp, paper"] + [f"{method}, here" for method in METHODS]
    rows = []
    for name, size, heads in row_heads():
        paper = published_text(published, name, "KL" if size == ALL else "KLSp", size)
        here = [
            median_text(columns_of(results, name, method, size, "log_loss")) for method in METHODS
        ]
        rows.append([*heads, paper, *here])
    return csv_table(header, rows, stubs=2)


def banana_table(results, columns):
    """Return the fragment of figures of the panels.

    `columns` lists for each method its name, that of the method with all rows as points, and the
    field and the title of what it maximises.
    """
    header = ["M"]
    for method, _, _, title in columns:
        header += [f"{method}: {title}", "log loss", "accuracy"]
    rows = []
    for size in (*BANANA_SIZES, ALL):
        row = [size]
        for method, dense, field, _ in columns:
            own = dense if size == ALL else method
            for quantity, spec in ((field, ".2f"), ("log_loss", ".3f"), ("accuracy", ".3f")):
                found = columns_of(results, BANANA, own, size, quantity)
                row.append(f"{found[0]:{spec}}" if found else MISSING)
        rows.append(row)
    return csv_table(header, rows)


def published_interval(published, name, method, size):
    """Return median and two deviations of the paper as numbers, or none where it says "large"."""
    text = published_text(published, name, method, size)
    if text == MISSING or "±" not in text:
        return None
    return tuple(float(part) for part in text.split(" ± "))


def measured_interval(results, name, method, size):
    """Return median and two deviations over splits here, or none."""
    losses = columns_of(results, name, method, size, "log_loss")
    return (np.median(losses), 2 * np.std(losses, ddof=1)) if len(losses) > 1 else None


def draw_losses(published, results, path):
    """Draw table 1: medians and two deviations of both sizes, the paper's 3 % beside 30 % here."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 8.0), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    rows = {
        "KLSp, paper": ("KLSp", "s", "#e69f00"),
        "EPFitc, paper": ("EPFitc", "D", "#cc79a7"),
        "moved, here": ("moved", "o", "#0072b2"),
        "default, here": ("default", "*", "#000000"),
    }
    for axes, size, papers in zip(panels, ("8", "30%"), ("8", "3%"), strict=True):
        for offset, (label, (method, marker, colour)) in zip(
            np.linspace(-0.27, 0.27, len(rows)), rows.items(), strict=True
        ):
            for i, name in enumerate(SETS):
                if method in METHODS:
                    found = measured_interval(results, name, method, size)
                else:
                    found = published_interval(published, name, method, papers)
                if found is not None:
                    axes.errorbar(
                        found[0],
                        i + offset,
                        xerr=found[1],
                        fmt=marker,
                        color=colour,
                        markersize=6,
                        elinewidth=1.2,
                        label=None if i else label,
                    )
        axes.set_yticks(range(len(SETS)), [own.title for own in SETS.values()])
        axes.invert_yaxis()
        axes.grid(axis="x", color="0.9")
        axes.set_xlim(0.0, 0.73)
    panels[0].set_title("8 points")
    panels[1].set_title("30 % of the rows as points (paper: “3.0 %”)")
    panels[1].set_xlabel("log loss, nats per row (median ± two deviations)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.savefig(path, dpi=150)


def draw_panel(axes, lines, title, rows):
    """Draw the lines and points of a panel, over rows (X, y) if there are any."""
    if rows is not None:
        X, y = rows
        for code, marker, colour in ((0, "o", "#0072b2"), (1, "^", "#e69f00")):
            axes.plot(*X[y == code].T, marker, color=colour, markersize=2.5, alpha=0.45)
    for line in lines:
        kind = line["kind"]
        x, y = (np.array(line[name].split(), dtype=np.float64) for name in "xy")
        if kind == "point":
            axes.plot(x, y, "o", color="k", markeredgecolor="w", markersize=6)
        elif kind == "boundary":
            axes.plot(x, y, color="k", linewidth=1.8)
        else:
            axes.plot(x, y, color="#0072b2" if kind == "low" else "#d55e00", linewidth=0.9)
    axes.set_title(title)


def draw_banana(lines, method, dense, path, rows=None):
    """Draw the panels of 4 to 64 points, and of all rows from the lines of the method `dense`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 7.4), layout="constrained")
    grid = figure.subplots(3, 2, sharex=True, sharey=True)
    for axes, size in zip(grid.flat, (*BANANA_SIZES, ALL), strict=True):
        own = dense if size == ALL else method
        title = "all 400 rows" if size == ALL else f"M = {size}"
        panel = [line for line in lines if (line["method"], line["size"]) == (own, size)]
        draw_panel(axes, panel, title, rows)
    for axes in grid[-1]:
        axes.set_xlabel("first column (deviations)")
    for axes in grid[:, 0]:
        axes.set_ylabel("second column")
    figure.savefig(path, dpi=150)


def render(folder):
    """Write tables and pictures into a folder, from the files; nothing is fitted.

    The pictures show the training rows where the data set is at hand.
    """
    folder = Path(folder)
    published, results = read(PUBLISHED), read(RESULTS)
    texts = {"table1": table_1(published, results), "banana": banana_table(results, BANANA_COLUMNS)}
    for name, text in texts.items():
        (folder / f"hensman_{name}.rst").write_text(text, encoding="utf-8")
    rows = split_rows(BANANA, 0)[:2] if is_available(BANANA) else None
    draw_losses(published, results, folder / "hensman_losses.png")
    lines = read(LINES)
    for method, dense, _, _ in BANANA_COLUMNS:
        draw_banana(lines, method, dense, folder / f"hensman_banana_{method}.png", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=[*SETS, BANANA], default=[*SETS, BANANA])
    parser.add_argument("--splits", type=int, default=N_SPLITS, help="of ten")
    arguments = parse_or_render(parser, render)
    # These tables are not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    asked = jobs(arguments.sets, arguments.splits)
    if BANANA in arguments.sets and is_available(BANANA):
        asked += banana_jobs()
    run(asked)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
