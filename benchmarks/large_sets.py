"""Two large sets: seconds, memory and test scores beside those of scikit-learn.

airline_us2001
    3 000 000 flights of seven columns; the label is whether the delay is positive, so that a few
    delays that cannot be true (down to -1116 minutes) only say that a flight was not late, and
    their rows stay. 90 % of a random permutation train; columns have mean 0 and deviation 1 over
    them.
mnist
    Odd against even digits, the 60 000 official images train; pixels are divided by 255, and the
    columns are not standardised, as in Hensman, Matthews, Ghahramani 2015, who report 97.8 % and
    0.069 nats. Logistic regression has standardised columns.

default      SparseGPClassifier()
common       with one length scale for all columns, and no main effects
moved        the same, with points that move for at most 20 iterations
stochastic   StochasticSparseGPClassifier with one length scale
logistic     logistic regression on standardised columns
boosting     scikit-learn's gradient boosting

Each fit runs in a fresh process and is one line of ``results/large_sets.csv``; those that are there
are not repeated. Seconds, evaluations, passes and memory are those of fits.py; log losses are in
nats per row.

    export SPARSEGPC_DATA=folder
    python benchmarks/large_sets.py --threads 2
    python benchmarks/large_sets.py --sets airline_us2001 --rows 300000 --models default logistic
    python benchmarks/large_sets.py --render output
"""

import argparse
from itertools import product
from pathlib import Path

from datasets import (
    is_available,
    load_classification,
    official,
    row_count,
    sampled_classification,
)
from evidence import MISSING, append, csv_table, grouped, parse_or_render, pending, read
from fits import measured_fit, prediction_rate
from kernel_settings import ONE_LENGTH_SCALE
from measure import answer, in_fresh_process
from scores import all_scores
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier, StochasticSparseGPClassifier

RESULTS = Path(__file__).parent / "results" / "large_sets.csv"
SETS = ("airline_us2001", "mnist")
MODELS = {
    "default": SparseGPClassifier(),
    "common": SparseGPClassifier(**ONE_LENGTH_SCALE),
    "moved": SparseGPClassifier(**ONE_LENGTH_SCALE, optimize_inducing=True, max_iter=20),
    "stochastic": StochasticSparseGPClassifier(**ONE_LENGTH_SCALE),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "boosting": HistGradientBoostingClassifier(random_state=0),
}
KEY = ("set", "model", "n_rows", "n_threads", "seed")
FIELDS = (
    *KEY,
    "n_train",
    "n_columns",
    "points",
    "fit_wall",
    "fit_cpu",
    "peak_mib",
    "fit_mib",
    "evaluations",
    "passes",
    "predict_rate",
    "log_loss",
    "accuracy",
)
TRAIN_SHARE = 0.9
LARGEST_PIXEL = 255.0


def airline(job):
    """Return X_train, y_train, X_test, y_test; the test part is that of all rows."""
    n_rows = row_count(job["set"])
    n_train = int(TRAIN_SHARE * n_rows)
    return sampled_classification(
        job["set"], job["seed"], min(job["n_rows"], n_train), n_rows - n_train
    )


def mnist(job):
    """Return X_train, y_train, X_test, y_test of the official split."""
    data = load_classification(job["set"])
    train, test = official(data, 0)
    X = data.X
    X /= LARGEST_PIXEL
    return X[train[: job["n_rows"]]], data.y[train[: job["n_rows"]]], X[test], data.y[test]


def measure_one(job):
    """Return the figures of one model."""
    X, y, X_test, y_test = mnist(job) if job["set"] == "mnist" else airline(job)
    model = MODELS[job["model"]]
    figures = measured_fit(model, X, y, count_work=False)
    figures |= {"n_train": len(y), "n_columns": X.shape[1]}
    figures |= all_scores(y_test, model.predict_proba(X_test))
    figures["predict_rate"] = prediction_rate(model.predict_proba, X_test)
    return {name: figures.get(name) for name in FIELDS if name not in KEY}


def rounded(text, digits):
    """Return a cell of a file of results with so many significant digits, or a dash."""
    if not text:
        return MISSING
    value = float(format(float(text), f".{digits}g"))
    return grouped(value) if value >= 1000.0 else f"{value:g}"


def table(records):
    """Return the table of all fits, set by set."""
    header = ["Set", "N", "Model", "Threads", "Log loss", "Accuracy", "Wall, s", "CPU, s"]
    header += ["Peak GiB", "Evaluations", "Predicted rows / s"]
    rows = []
    for r in sorted(records, key=lambda r: (SETS.index(r["set"]), int(r["n_train"]))):
        rows.append(
            [
                r["set"],
                grouped(int(r["n_train"])),
                r["model"],
                r["n_threads"],
                f"{float(r['log_loss']):.4f}",
                f"{float(r['accuracy']):.4f}",
                rounded(r["fit_wall"], 3),
                rounded(r["fit_cpu"], 3),
                f"{float(r['peak_mib']) / 1024:.1f}",
                r["evaluations"] or MISSING,
                rounded(r["predict_rate"], 2),
            ]
        )
    return csv_table(header, rows, stubs=3)


def render(folder):
    """Write the table as a fragment into a folder; nothing is fitted."""
    Path(folder, "large_sets.rst").write_text(table(read(RESULTS)), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    models = ["default", "common", "logistic", "boosting"]
    parser.add_argument("--models", nargs="+", default=models, choices=MODELS)
    parser.add_argument("--rows", type=int, default=3_000_000, help="at most so many rows train")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    arguments = parse_or_render(parser, render)
    names = [name for name in arguments.sets if is_available(name)]
    last = [arguments.rows], [arguments.threads], [arguments.seed]
    for values in pending(product(names, arguments.models, *last), RESULTS, KEY):
        job = dict(zip(KEY, values, strict=True))
        append(RESULTS, [in_fresh_process(__file__, job, job["n_threads"])], FIELDS)


if __name__ == "__main__" and not answer(measure_one):
    main()
