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

The model has one length scale for all columns, else its default settings, with at most so many
points as asked for; with ``--selection-tol 0`` it takes all of them. "collapsed" is
SparseGPClassifier, "stochastic" is StochasticSparseGPClassifier. Each model is fitted in a fresh
process; seconds, evaluations, passes and memory are those of fits.py. Log losses are in nats per
row.

    python benchmarks/large_sets.py --set airline_us2001 --threads 2 --out output/large.jsonl
    python benchmarks/large_sets.py --set mnist --threads 2 --out output/large.jsonl
    python benchmarks/large_sets.py --set airline_us2001 --rows 300000 --models collapsed logistic
"""

import argparse

from datasets import load_classification, official, row_count, sampled_classification
from fits import measured_fit, prediction_rate
from kernel_settings import ONE_LENGTH_SCALE
from measure import MIB, answer, current_memory, in_fresh_process, peak_memory, restart_peak, timed
from records import append, print_table, text
from scores import all_scores
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier

SETS = ("airline_us2001", "mnist")
MODELS = ("collapsed", "stochastic", "logistic", "boosting")
TRAIN_SHARE = 0.9
LARGEST_PIXEL = 255.0


def airline(job):
    """Return X_train, y_train, X_test, y_test; the test part is that of all rows."""
    n_rows = row_count(job["set"])
    n_train = int(TRAIN_SHARE * n_rows)
    return sampled_classification(
        job["set"], job["seed"], min(job["n_rows"] or n_train, n_train), n_rows - n_train
    )


def mnist(job):
    """Return X_train, y_train, X_test, y_test of the official split."""
    data = load_classification(job["set"])
    train, test = official(data, 0)
    X = data.X
    X /= LARGEST_PIXEL
    return X[train[: job["n_rows"]]], data.y[train[: job["n_rows"]]], X[test], data.y[test]


def build(job):
    """Return the estimator."""
    options = ONE_LENGTH_SCALE | {"n_inducing": job["n_points"], "random_state": job["seed"]}
    if job["selection_tol"] is not None:
        options["selection_tol"] = job["selection_tol"]
    if job["model"] == "collapsed":
        return SparseGPClassifier(**options)
    if job["model"] == "stochastic":
        from sparsegpc import StochasticSparseGPClassifier

        return StochasticSparseGPClassifier(**options)
    if job["model"] == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return HistGradientBoostingClassifier(random_state=job["seed"])


def peer_fit(model, X, y):
    """Fit, and return those figures that there are for any estimator."""
    restart_peak()
    before = current_memory()
    cost = timed(lambda: model.fit(X, y))[1]
    peak = peak_memory()
    return {
        "fit_wall": cost.wall,
        "fit_cpu": cost.cpu,
        "peak_mib": peak / MIB,
        "fit_mib": None if before is None else (peak - before) / MIB,
    }


def measure_one(job):
    """Return the figures of one model."""
    X, y, X_test, y_test = mnist(job) if job["set"] == "mnist" else airline(job)
    model = build(job)
    if job["model"] in ("logistic", "boosting"):
        figures = peer_fit(model, X, y)
    else:
        figures = measured_fit(model, X, y, count_work=job["model"] == "collapsed")
    return {
        "n_train": len(y),
        "n_columns": X.shape[1],
        **figures,
        **all_scores(y_test, model.predict_proba(X_test)),
        "predict_rate": prediction_rate(model.predict_proba, X_test),
    }


def print_records(records):
    """Print the figures of all models of a set."""
    first = records[0]
    print(
        f"\n{first['set']}, N = {first['n_train']}, D = {first['n_columns']}, "
        f"{first['n_threads']} thread(s)\n"
    )
    header = ["model", "points", "fit wall s", "fit CPU s", "peak MiB", "added MiB"]
    header += ["evaluations", "on all rows", "passes", "evaluation CPU s", "ratio", "work"]
    header += ["predicted/s", "accuracy", "log loss"]
    specs = ["d", ".1f", ".1f", ".0f", ".0f", "d", "d", "d", ".3g", ".0f", ".0f", ".3g", ".4f"]
    keys = ["points", "fit_wall", "fit_cpu", "peak_mib", "fit_mib", "evaluations"]
    keys += ["full_evaluations", "passes", "evaluation_cpu", "ratio", "work", "predict_rate"]
    keys += ["accuracy", "log_loss"]
    print_table(
        header,
        [
            [r["model"]]
            + [text(r.get(k), spec) for k, spec in zip(keys, [*specs, ".4f"], strict=True)]
            for r in records
        ],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="airline_us2001", choices=SETS)
    parser.add_argument(
        "--models", nargs="+", default=["collapsed", "logistic", "boosting"], choices=MODELS
    )
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--selection-tol", type=float, help="in place of the model's default")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="file of JSON lines to append to")
    arguments = parser.parse_args()
    records = []
    for model in arguments.models:
        job = {
            "set": arguments.set,
            "model": model,
            "n_rows": arguments.rows,
            "n_points": arguments.points,
            "selection_tol": arguments.selection_tol,
            "n_threads": arguments.threads,
            "seed": arguments.seed,
        }
        records.append(in_fresh_process(__file__, job, arguments.threads))
        append(arguments.out, records[-1])
    print_records(records)


if __name__ == "__main__" and not answer(measure_one):
    main()
