"""Regression with noise that depends on the row: three kinds of noise on the same real data.

One variance for all rows, a log variance that is a polynomial of the columns, and one that is a
second Gaussian process; the same points, rows and kernel, RBF with one length scale. Columns and
targets have mean 0 and deviation 1 over the training rows; log densities are of test targets, in
nats per row and standardised unit, beside the bound per training row. Splits are the sets' own
where they have some. Figures in parentheses are standard errors.

    python benchmarks/noise_tables.py --sets concrete elevators --splits 2
"""

import argparse
import time
import warnings

import numpy as np
from datasets import is_available, load_regression, official, split_regression
from kernel_settings import ONE_LENGTH_SCALE
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPRegressor

# The noise of the last one is the same everywhere.
NOISE_SETS = ("concrete", "elevators", "protein_raw", "nybikes2017", "energy", "snelson1d")
NOISES = ("homoscedastic", "polynomial", "gp")


def measure(model, X_train, y_train, X_test, y_test):
    """Fit the model and return the figures of one split."""
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - start
    log_density = model.log_predictive_density(X_test, y_test)
    return {
        "n": len(y_train),
        "log_density": log_density.mean(),
        "rmse": np.sqrt(np.mean((y_test - model.predict(X_test)) ** 2)),
        "bound": model.lower_bound_ / len(y_train),
        "noise": np.mean(model.predict_noise_std(X_test) ** 2),
        "seconds": seconds,
        "evaluations": model.n_evaluations_,
        "points": len(model.inducing_points_),
    }


def with_error(values, width=15):
    """Return mean and standard error as text."""
    if len(values) < 2:
        return f"{values[0]:.3f}".ljust(8).rjust(width)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.3f} ({error:.3f})".rjust(width)


def compare_noises(arguments):
    """Print test log densities of three kinds of noise; the same kernel, points and rows."""
    print(
        f"{'set':12s}{'N':>6s}{'M':>5s} {'noise':14s}{'log density':>15s}{'nats/row':>9s}"
        f"{'rmse':>8s}{'CPU s':>8s}{'evals':>6s}"
    )
    for name in NOISE_SETS:
        if not is_available(name) or name not in (arguments.sets or NOISE_SETS):
            continue
        data = load_regression(name)
        for noise in NOISES:
            runs = []
            for seed in range(arguments.splits):
                train, test = official(data, seed)
                train = np.random.RandomState(seed).permutation(train)[: arguments.rows]
                model = SparseGPRegressor(
                    noise=noise,
                    n_inducing=arguments.points,
                    selector=arguments.selector,
                    random_state=seed,
                    **ONE_LENGTH_SCALE,
                )
                runs.append(measure(model, *split_regression(data, train, test)))
            m = {key: [run[key] for run in runs] for key in runs[0]}
            print(
                f"{name:12s}{m['n'][0]:6d}{arguments.points:5d} {noise:14s}"
                f"{with_error(m['log_density'])}{np.mean(m['bound']):9.4f}{np.mean(m['rmse']):8.4f}"
                f"{np.mean(m['seconds']):8.1f}{np.mean(m['evaluations']):6.0f}",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=NOISE_SETS)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--selector", default="rpcholesky", help="of SparseGPRegressor")
    parser.add_argument("--rows", type=int, default=5000, help="at most so many training rows")
    arguments = parser.parse_args()
    # These tables are not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    compare_noises(arguments)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
