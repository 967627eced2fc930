"""Predictions from points, points and neighbours, and neighbours alone, on test rows.

LocalCorrection over SparseGPRegressor or SparseGPClassifier with 200 points and 40 neighbours. Of
each set some rows train and up to 2000 others test, from one random permutation; columns, and
targets of regression, have mean 0 and deviation 1 over the rows that train. Figures are log losses,
or RMSE and log density. The last columns are the mode that the training rows chose, CPU seconds of
the fit and this choice, and CPU milliseconds for each row predicted from points and neighbours.

    python benchmarks/local_correction.py --sets kin40k bike --rows 3000
"""

import argparse
import warnings

import numpy as np
from datasets import (
    is_available,
    load_classification,
    load_regression,
    permuted,
    split_classification,
    split_regression,
)
from measure import timed
from records import print_table
from scores import log_loss
from sklearn.exceptions import ConvergenceWarning

from sparsegpc import LocalCorrection, SparseGPClassifier, SparseGPRegressor
from sparsegpc._estimators.meta_estimators.corrections import Corrections
from sparsegpc._estimators.meta_estimators.local_correction import MODES, RELEARNED

REGRESSION = ("kin40k", "protein", "bike", "elevators")
CLASSIFICATION = ("electricity", "magic", "airline_nyc2013")
MOST_TEST_ROWS = 2000


def scores(model, X, y, is_label):
    """Return scores of test rows as text: log loss, or RMSE and log density."""
    if is_label:
        return f"{log_loss(y, model.predict_proba(X)):.4f}"
    density = model.log_predictive_density(X, y).mean()
    return f"{np.sqrt(np.mean((model.predict(X) - y) ** 2)):.4f} / {density:.3f}"


def row(name, n_rows, n_points, n_neighbors):
    """Return the cells of a set."""
    is_label = name in CLASSIFICATION
    data = (load_classification if is_label else load_regression)(name)
    train, test = permuted(len(data.y), 0)
    split = split_classification if is_label else split_regression
    X, y, X_test, y_test = split(data, train[:n_rows], test[:MOST_TEST_ROWS])
    estimator = (SparseGPClassifier if is_label else SparseGPRegressor)(n_inducing=n_points)
    model = LocalCorrection(estimator, n_neighbors=n_neighbors)
    fit_cost = timed(lambda: model.fit(X, y))[1]
    # Models of the other choices, without another fit of the estimator.
    learned = Corrections.of(model.estimator_, X, y, n_neighbors)
    relearned = learned.relearned(np.random.RandomState(0))
    choices = [(learned, mode) for mode in MODES] + [(relearned, mode) for mode in MODES[1:]]
    cells = [scores(local.corrected(mode), X_test, y_test, is_label) for local, mode in choices]
    both = learned.corrected("both")
    cost = timed(lambda: both.predict(X_test))[1].cpu / len(y_test)
    chosen = model.mode_ + RELEARNED * model.relearned_
    return [name, str(len(y)), *cells, chosen, f"{fit_cost.cpu:.1f}", f"{1e3 * cost:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=[*REGRESSION, *CLASSIFICATION])
    parser.add_argument("--rows", type=int, default=6000, help="that train, at most")
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--neighbors", type=int, default=40)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    relearned = [mode + RELEARNED for mode in MODES[1:]]
    header = ["set", "N", *MODES, *relearned, "chosen", "fit, CPU s", "ms per row, both"]
    for name in filter(is_available, arguments.sets):
        cells = row(name, arguments.rows, arguments.points, arguments.neighbors)
        print_table(header, [cells])


if __name__ == "__main__":
    main()
