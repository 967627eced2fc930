r"""Ordered classes: one function with cut points, beside methods that know no order or no curves.

The classes are made from targets of regression: fifths of the training targets, or with
``--classes`` another number of quantiles. Columns have mean 0 and deviation 1 over the training
rows, and splits are the sets' own where they have some. The methods are

ordinal-logit, softmax
    SparseGPClassifier with these likelihoods and tied length scales, without main effects.
linear
    The proportional odds model, :math:`p(y \le k) = \sigma(b_k - \beta^\top x)`, with half the
    squared length of :math:`\beta` as a penalty, as scikit-learn's LogisticRegression has.
boosting
    scikit-learn's HistGradientBoostingClassifier with its defaults.

The ranked probability score counts how far probabilities are from the right class (see scores.py);
"off by two" is the share of test rows whose most probable class is two or more from the right one.
Figures are means over splits, and standard errors in parentheses; evaluations are those of the
bound.

    python benchmarks/ordered_classes.py --splits 5
"""

import argparse
import time
import warnings

import numpy as np
from datasets import is_available, load_regression, official, standardised
from scipy.optimize import minimize
from scipy.special import expit
from scores import SMALLEST, log_loss, ranked_probability_score
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

SETS = ("diabetes", "concrete", "energy", "kin8nm")


class ProportionalOdds:
    """The linear model of ordered classes, numbered from 0."""

    def fit(self, X, y):
        n_columns = X.shape[1]
        below = np.bincount(y).cumsum()[:-1] / len(y)
        first = np.log(below / (1.0 - below))

        def objective(parameters):
            self._split(parameters, n_columns)
            right = self.predict_proba(X)[np.arange(len(y)), y]
            log_likelihood = np.log(np.maximum(right, SMALLEST)).sum()
            return 0.5 * self._slopes @ self._slopes - log_likelihood

        start = np.concatenate([np.zeros(n_columns), first[:1], np.log(np.diff(first))])
        self._split(minimize(objective, start, method="L-BFGS-B").x, n_columns)
        return self

    def _split(self, parameters, n_columns):
        self._slopes, first = parameters[:n_columns], parameters[n_columns : n_columns + 1]
        gaps = np.exp(parameters[n_columns + 1 :])
        self._cut_points = np.cumsum(np.concatenate([first, gaps]))

    def predict_proba(self, X):
        below = expit(self._cut_points - (X @ self._slopes)[:, None])
        ends = np.zeros((len(X), 1)), np.ones((len(X), 1))
        return np.diff(np.concatenate([ends[0], below, ends[1]], axis=1), axis=1)


def build(method, seed, n_points):
    """Return the classifier of that name."""
    if method == "linear":
        return ProportionalOdds()
    if method == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    return SparseGPClassifier(
        likelihood=method, main_effects=False, n_inducing=n_points, random_state=seed
    )


METHODS = ("ordinal-logit", "softmax", "linear", "boosting")


def measure(model, X_train, y_train, X_test, y_test):
    """Fit the model and return the figures of one split."""
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - start
    proba = model.predict_proba(X_test)
    return {
        "log_loss": log_loss(y_test, proba),
        "score": ranked_probability_score(y_test, proba),
        "far": np.mean(np.abs(proba.argmax(axis=1) - y_test) >= 2),
        "seconds": seconds,
        "evaluations": getattr(model, "n_evaluations_", np.nan),
    }


def split(data, seed, arguments):
    """Return X_train, y_train, X_test, y_test with classes by quantiles of the train targets."""
    train, test = official(data, seed)
    train = np.random.RandomState(seed).permutation(train)[: arguments.rows]
    X = standardised(data.X, train)
    shares = np.arange(1, arguments.classes) / arguments.classes
    codes = np.digitize(data.y, np.quantile(data.y[train], shares))
    return X[train], codes[train], X[test], codes[test]


def with_error(values):
    """Return mean and standard error as text."""
    if len(values) < 2:
        return f"{values[0]:.4f}".ljust(10).rjust(18)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.4f} ({error:.4f})".rjust(18)


def compare(arguments):
    """Print the figures of each method on each set."""
    print(
        f"{'set':12s}{'N':>6s} {'method':15s}{'log loss':>18s}{'ranked prob.':>18s}"
        f"{'off by two':>18s}{'CPU s':>8s}{'evals':>6s}"
    )
    for name in arguments.sets or SETS:
        if not is_available(name):
            continue
        data = load_regression(name)
        parts = [split(data, seed, arguments) for seed in range(arguments.splits)]
        for method in arguments.methods:
            runs = [
                measure(build(method, seed, arguments.points), *part)
                for seed, part in enumerate(parts)
            ]
            m = {key: [run[key] for run in runs] for key in runs[0]}
            evaluations = np.mean(m["evaluations"])
            print(
                f"{name:12s}{len(parts[0][0]):6d} {method:15s}{with_error(m['log_loss'])}"
                f"{with_error(m['score'])}{with_error(m['far'])}{np.mean(m['seconds']):8.2f}"
                + (f"{evaluations:6.0f}" if np.isfinite(evaluations) else f"{'-':>6s}"),
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1000, help="at most so many training rows")
    arguments = parser.parse_args()
    # These tables are not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    compare(arguments)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
