"""Lin et al. 2023, "Sampling from Gaussian process posteriors using stochastic gradient descent".

Regression on the official splits of the UCI sets, with three models: SparseGPRegressor with 1024
points; LocalCorrection of the same fit with its default settings, which chooses between points,
neighbours and both; and scikit-learn's gradient boosting with its default settings, of which there
are no densities. kin40k, which Lin et al. do not have, is for comparison with Titsias 2025. The
kernel is Matern 3/2 with a length scale for each column; other settings are the defaults. Columns
and targets have mean 0 and deviation 1 over the rows that train; errors are in these units, log
densities in nats per row and standardised unit.

Each fit is one line of ``results/lin.csv``; those that are there are not repeated. ``fit_seconds``
are CPU seconds of the fit and of the choice between points and neighbours. ::

    python benchmarks/lin_table.py --sets elevators bike --splits 1
    python benchmarks/lin_table.py --render output
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from datasets import is_available, load_regression, official, split_regression
from evidence import MISSING, append, csv_table, parse_or_render, pending, read
from measure import timed
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from threadpoolctl import threadpool_limits

from sparsegpc import LocalCorrection, SparseGPRegressor
from sparsegpc._estimators.meta_estimators.local_correction import RELEARNED

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "lin.csv"
# Tables 2 and 4 of Titsias 2025 have some of the sets, with other splits.
TITSIAS = HERE / "published" / "titsias.csv"
SETS = ("pol", "elevators", "bike", "protein", "keggdirected", "kin40k")
TITSIAS_SETS = ("kin40k", "protein")
KEY = ("set", "n_inducing", "max_iter", "max_reselections", "split")
FIELDS = (
    *KEY,
    "n_train",
    "n_test",
    "points_rmse",
    "points_log_density",
    "mode",
    "corrected_rmse",
    "corrected_log_density",
    "boosting_rmse",
    "evaluations",
    "noise_variance",
    "bound_per_row",
    "fit_seconds",
    "corrected_seconds",
)
LIMITS = (1e-5, 1e5)


def kernel(n_columns):
    """Return a constant times Matern 3/2 with one length scale per column."""
    return ConstantKernel(1.0, LIMITS) * Matern(np.ones(n_columns), LIMITS, nu=1.5)


def scores(model, X, y):
    """Return the root mean squared error and the mean log density of a model of Gaussian noise.

    Both come from one prediction: with points and neighbours, predictions take long.
    """
    mean, deviation = model.predict(X, return_std=True)
    return np.sqrt(np.mean((y - mean) ** 2)), norm.logpdf(y, mean, deviation).mean()


def figures(X, y, X_test, y_test, **settings):
    """Return the figures of all three models by name."""
    model = LocalCorrection(SparseGPRegressor(kernel(X.shape[1]), random_state=0, **settings))
    fit_cost = timed(lambda: model.fit(X, y))[1]
    fitted = model.estimator_
    points = scores(fitted, X_test, y_test)
    corrected, cost = timed(lambda: scores(model, X_test, y_test))
    boosting = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    return {
        "n_train": len(y),
        "n_test": len(y_test),
        "points_rmse": points[0],
        "points_log_density": points[1],
        "mode": model.mode_ + RELEARNED * model.relearned_,
        "corrected_rmse": corrected[0],
        "corrected_log_density": corrected[1],
        "boosting_rmse": np.sqrt(np.mean((y_test - boosting.predict(X_test)) ** 2)),
        "evaluations": fitted.n_evaluations_,
        "noise_variance": fitted.noise_variance_,
        "bound_per_row": fitted.lower_bound_ / len(y),
        "fit_seconds": fit_cost.cpu,
        "corrected_seconds": cost.cpu,
    }


def jobs(arguments):
    """Return the keys of all fits that are asked for and whose set can be had, split by split."""
    names = [name for name in arguments.sets if is_available(name)]
    return [
        (name, arguments.points, arguments.max_iter, arguments.max_reselections, split)
        for split, name in product(range(arguments.splits), names)
    ]


def run(arguments, results=RESULTS):
    """Fit what the file of results does not have yet."""
    for job in pending(jobs(arguments), results, KEY):
        name, *limits, split = job
        data = load_regression(name)
        rows = split_regression(data, *official(data, split))
        settings = dict(zip(KEY[1:-1], limits, strict=True))
        record = dict(zip(KEY, job, strict=True)) | figures(*rows, **settings)
        append(results, [record], FIELDS)


def mean(records, name, spec):
    """Return the mean of a figure over the records as text."""
    return format(np.mean([float(record[name]) for record in records]), spec)


def table(records):
    """Return the fragment of the table: a row for each set, number of points and pair of limits."""
    header = ["Set", "M", "Limits", "Splits", "Evaluations", "Points, error", "log density"]
    header += ["Corrected, from", "error", "log density", "Boosting, error", "Fit, CPU s"]
    rows = []
    for name in SETS:
        of_set = [record for record in records if record["set"] == name]
        for limits in sorted({tuple(int(record[key]) for key in KEY[1:-1]) for record in of_set}):
            fits = [r for r in of_set if tuple(int(r[key]) for key in KEY[1:-1]) == limits]
            rows.append(
                [
                    name,
                    str(limits[0]),
                    f"{limits[1]} / {limits[2]}",
                    str(len(fits)),
                    mean(fits, "evaluations", ".0f"),
                    mean(fits, "points_rmse", ".3f"),
                    mean(fits, "points_log_density", ".3f"),
                    ", ".join(sorted({record["mode"] for record in fits})),
                    mean(fits, "corrected_rmse", ".3f"),
                    mean(fits, "corrected_log_density", ".3f"),
                    mean(fits, "boosting_rmse", ".3f"),
                    mean(fits, "fit_seconds", ".0f"),
                ]
            )
        if not of_set:
            rows.append([name, *[MISSING] * (len(header) - 1)])
    return csv_table(header, rows)


def published(records, name, n_inducing, quantity):
    """Return a figure of Titsias' new bound, with its error."""
    (record,) = (
        record
        for record in records
        if (record["set"], record["method"]) == (name, "tight")
        and (record["n_inducing"], record["quantity"]) == (str(n_inducing), quantity)
    )
    return f"{record['value']} ({record['error']})"


def iterations(record):
    """Return the limits of a fit, by which fits of a set are ordered."""
    return int(record["max_iter"]), int(record["max_reselections"])


def comparison(records, titsias):
    """Return the fragment with the fits of Titsias' large sets and 1024 points beside the paper."""
    header = ["Set", "Error, paper, M = 1024", "M = 2048", "points", "corrected"]
    header += ["Log density, paper, M = 1024", "M = 2048", "points", "corrected"]
    rows = []
    for name in TITSIAS_SETS:
        fits = [r for r in records if (r["set"], r["n_inducing"]) == (name, "1024")]
        # Fits with the highest limits only.
        highest = max((iterations(record) for record in fits), default=None)
        fits = [record for record in fits if iterations(record) == highest]
        row = [name]
        for quantity, spec in (("rmse", ".3f"), ("log_density", ".3f")):
            row += [published(titsias, name, n_inducing, quantity) for n_inducing in (1024, 2048)]
            for model in ("points", "corrected"):
                row.append(mean(fits, f"{model}_{quantity}", spec) if fits else MISSING)
        rows.append(row)
    return csv_table(header, rows)


def render(folder):
    """Write the tables as fragments into a folder; nothing is fitted."""
    records = read(RESULTS)
    fragments = {"lin_table": table(records), "lin_titsias": comparison(records, read(TITSIAS))}
    for name, fragment in fragments.items():
        (Path(folder) / f"{name}.rst").write_text(fragment, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--splits", type=int, default=1, help="the first ones of ten")
    parser.add_argument("--max-iter", type=int, default=100, help="of SparseGPRegressor")
    parser.add_argument("--max-reselections", type=int, default=10, help="likewise")
    arguments = parse_or_render(parser, render)
    # This table is not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    run(arguments)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
