"""Regression with outliers among the training targets: three kinds of noise on the same real data.

A share of the training targets is moved up or down by 5 to 10 standard deviations of the targets;
the test targets are clean. Columns and targets have mean 0 and deviation 1 over the training rows;
log densities are of test targets, in nats per row and standardised unit, with standard errors in
parentheses. "within" is the share of the test targets that intervals of coverage .9 contain.

    python benchmarks/outliers.py --sets concrete kin8nm --splits 5
"""

import argparse
import time
import warnings

import numpy as np
from datasets import is_available, load_regression, official, split_regression
from noise_tables import with_error
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPRegressor

SETS = ("concrete", "kin8nm", "elevators", "protein_raw", "diabetes")
NOISES = ("homoscedastic", "gp", "student-t")


def with_outliers(y, share, rng):
    """Return targets of which a share is moved by 5 to 10 up or down."""
    y = y.copy()
    moved = rng.choice(len(y), round(share * len(y)), replace=False)
    y[moved] += rng.choice([-1.0, 1.0], len(moved)) * rng.uniform(5.0, 10.0, len(moved))
    return y


def measure(model, X_train, y_train, X_test, y_test):
    """Fit the model and return the figures of one split."""
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - start
    lower, upper = model.predict_interval(X_test)
    return {
        "n": len(y_train),
        "log_density": model.log_predictive_density(X_test, y_test).mean(),
        "rmse": np.sqrt(np.mean((y_test - model.predict(X_test)) ** 2)),
        "within": np.mean((lower < y_test) & (y_test < upper)),
        "df": np.nan if model.noise_df_ is None else model.noise_df_,
        "seconds": seconds,
    }


def compare_noises(arguments):
    """Print figures of three kinds of noise, with and without outliers."""
    print(
        f"{'set':12s}{'N':>6s}{'outliers':>9s} {'noise':14s}{'log density':>16s}{'rmse':>8s}"
        f"{'within':>8s}{'df':>7s}{'CPU s':>8s}"
    )
    for name in SETS:
        if not is_available(name) or name not in (arguments.sets or SETS):
            continue
        data = load_regression(name)
        for share in arguments.shares:
            for noise in NOISES:
                runs = []
                for seed in range(arguments.splits):
                    rng = np.random.RandomState(seed)
                    train, test = official(data, seed)
                    train = rng.permutation(train)[: arguments.rows]
                    X_train, y_train, *clean = split_regression(data, train, test)
                    model = SparseGPRegressor(noise=noise, n_inducing=arguments.points)
                    y_train = with_outliers(y_train, share, rng)
                    runs.append(measure(model, X_train, y_train, *clean))
                m = {key: [run[key] for run in runs] for key in runs[0]}
                print(
                    f"{name:12s}{m['n'][0]:6d}{share:9.2f} {noise:14s}"
                    f"{with_error(m['log_density'], 16)}{np.mean(m['rmse']):8.3f}"
                    f"{np.mean(m['within']):8.3f}{np.mean(m['df']):7.1f}"
                    f"{np.mean(m['seconds']):8.1f}",
                    flush=True,
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.05])
    parser.add_argument("--points", type=int, default=80)
    parser.add_argument("--rows", type=int, default=2000, help="at most so many training rows")
    arguments = parser.parse_args()
    # This table is not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    compare_noises(arguments)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
