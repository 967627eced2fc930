"""Counts: test log densities, deviances and intervals, beside other methods.

nybikes2017
    Bicycles on Brooklyn Bridge on 214 days, from the highest and lowest temperature.
bike
    Bicycles lent in each hour, from date, hour and weather; without the two columns whose sum is
    the count.
flights
    Delayed arrivals among the flights that left New York in each hour of 2013, whose number is the
    exposure; from hour, weekday and day of the year.

Rows are split at random, 90 % and the rest, at most ``--rows`` each; columns have mean 0 and
deviation 1 over the training rows. The generalised regressor has its defaults but the likelihood
and, with a number after its name, the number of points. scikit-learn's methods fit rates with
exposures as weights: a linear PoissonRegressor and HistGradientBoostingRegressor with the Poisson
loss; their distribution is the Poisson one at the predicted mean. GPBoost's Gaussian processes are
set up as in `gpboost_peer`, on sets without exposure, if it can be imported; only their means are
compared.

With ``--minibatches`` the negative binomial model is learned from all rows at once, from
minibatches by `fit`, and in a stream by `partial_fit` with blocks of 1000 rows, each with and
without main effects in the kernel.

Every row has means over the splits: log density in nats per row; the share D2 of the Poisson
deviance of the test rows that the predicted mean explains, whatever the likelihood; the share of
targets in intervals of 90 % and their mean width; CPU seconds of the fit. ::

    python benchmarks/counts.py --splits 3 --out counts.jsonl
    python benchmarks/counts.py --sets bike --rows 20000 --minibatches
"""

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
from datasets import counted, load_regression, standardised
from gpboost_peer import EXACT_ROWS, N_POINTS
from records import append, print_table, text
from scipy.stats import poisson
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPGeneralizedRegressor, StochasticSparseGPGeneralizedRegressor

COVERAGE = 0.9
# Rows in a block of a stream.
BLOCK = 1000
QUANTITIES = ("log_density", "d2", "coverage", "width", "cpu_seconds")


class Counts(NamedTuple):
    """Rows X (N, D), counts y (N,), and exposures (N,) or None."""

    X: np.ndarray
    y: np.ndarray
    exposure: np.ndarray | None


def bicycles_of_days():
    """Return the counts of 214 days."""
    data = load_regression("nybikes2017")
    return Counts(data.X, data.y, None)


def bicycles_of_hours():
    """Return the counts of 17 379 hours; the set has their centred logarithms."""
    data = load_regression("bike")
    return Counts(data.X[:, :-2], np.rint(np.exp(data.y - data.y.min())), None)


def delays():
    """Return the delayed arrivals and the flights of each hour of 2013."""
    data = load_regression("airline_nyc2013")
    minute, weekday, day, month = (data.X[:, column].astype(int) for column in (3, 5, 6, 7))
    months = np.datetime64("2013", "M") + (month - 1).astype("timedelta64[M]")
    date = months.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    day_of_year = (date - np.datetime64("2013-01-01")).astype(int)
    keys, inverse, flights = np.unique(
        np.stack([minute // 60, weekday, day_of_year], axis=1),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    delayed = np.bincount(inverse.ravel(), data.y)
    return Counts(keys.astype(np.float64), delayed, flights.astype(np.float64))


SETS = {"nybikes2017": bicycles_of_days, "bike": bicycles_of_hours, "flights": delays}


class SparseGP:
    """The generalised regressor."""

    estimator = SparseGPGeneralizedRegressor

    def __init__(self, likelihood, **settings):
        self._model = self.estimator(likelihood=likelihood, **settings)

    def fit(self, train):
        self._model.fit(train.X, train.y, exposure=train.exposure)

    def mean(self, test):
        return self._model.predict(test.X, exposure=test.exposure)

    def interval(self, test):
        return self._model.predict_interval(test.X, COVERAGE, exposure=test.exposure)

    def log_density(self, test):
        return self._model.log_predictive_density(test.X, test.y, exposure=test.exposure)


class Minibatches(SparseGP):
    """The one that learns from minibatches."""

    estimator = StochasticSparseGPGeneralizedRegressor


class Stream(Minibatches):
    """The same, given the rows in blocks."""

    def fit(self, train):
        for first in range(0, len(train.y), BLOCK):
            rows = slice(first, first + BLOCK)
            exposure = None if train.exposure is None else train.exposure[rows]
            self._model.partial_fit(train.X[rows], train.y[rows], exposure=exposure)


class _PoissonAtTheMean:
    """The distribution of methods that predict a mean only."""

    def interval(self, test):
        tail = 0.5 * (1.0 - COVERAGE)
        return poisson(self.mean(test)).ppf([[tail], [1.0 - tail]])

    def log_density(self, test):
        return poisson.logpmf(test.y, self.mean(test))


class Rates(_PoissonAtTheMean):
    """A regressor of scikit-learn, fitted to rates with exposures as weights."""

    def __init__(self, model):
        self._model = model

    def fit(self, train):
        exposure = exposure_of(train)
        self._model.fit(train.X, train.y / exposure, sample_weight=exposure)

    def mean(self, test):
        return exposure_of(test) * self._model.predict(test.X)


class GPBoost:
    """A Gaussian process of GPBoost: exact, or FITC if there are many rows; its mean only."""

    def __init__(self, likelihood, seed):
        self._likelihood, self._seed = likelihood, seed

    def fit(self, train):
        import gpboost

        self._model = gpboost.GPModel(
            gp_coords=train.X,
            likelihood=self._likelihood,
            gp_approx="none" if len(train.y) <= EXACT_ROWS else "fitc",
            num_ind_points=min(N_POINTS, len(np.unique(train.X, axis=0))),
            num_parallel_threads=1,
            seed=self._seed,
        )
        self._model.fit(y=train.y, X=np.ones((len(train.y), 1)))

    def mean(self, test):
        ones = np.ones((len(test.y), 1))
        predicted = self._model.predict(gp_coords_pred=test.X, X_pred=ones, predict_response=True)
        return predicted["mu"]

    def interval(self, test):
        return np.full((2, len(test.y)), np.nan)

    def log_density(self, test):
        return np.full(len(test.y), np.nan)


def exposure_of(rows):
    """Return the exposures of the rows, or ones if the set has none."""
    return np.ones(len(rows.y)) if rows.exposure is None else rows.exposure


def methods(has_exposure, points, seed):
    """Return the methods to compare, by name."""
    found = {
        "negative-binomial": SparseGP("negative-binomial"),
        "poisson": SparseGP("poisson"),
    }
    for n_points in points:
        for likelihood in ("negative-binomial", "poisson"):
            found[f"{likelihood} {n_points}"] = SparseGP(likelihood, n_inducing=n_points)
    found["PoissonRegressor"] = Rates(PoissonRegressor(alpha=1e-3, max_iter=1000))
    boosting = HistGradientBoostingRegressor(loss="poisson", random_state=seed)
    found["HistGradientBoosting"] = Rates(boosting)
    if has_exposure or not has_gpboost():
        return found
    for likelihood in ("negative_binomial", "poisson"):
        found[f"GPBoost, {likelihood.replace('_', ' ')}"] = GPBoost(likelihood, seed)
    return found


def ways_to_learn():
    """Return the negative binomial model learned in each way, by name."""
    kinds = {"all rows": SparseGP, "minibatches": Minibatches, "stream": Stream}
    found = {}
    for name, kind in kinds.items():
        found[name] = kind("negative-binomial", main_effects=False)
        found[f"{name}, main effects"] = kind("negative-binomial", main_effects=True)
    return found


def has_gpboost():
    """Whether GPBoost can be imported."""
    try:
        import gpboost  # noqa: F401
    except ImportError:
        return False
    return True


def split_counts(data, split, n_rows):
    """Return the training and test rows of a random split as `Counts`."""
    n_train = int(0.9 * len(data.y))
    train, test = counted(
        len(data.y), split, min(n_train, n_rows), min(len(data.y) - n_train, n_rows)
    )
    X = standardised(data.X, train)

    def rows(index):
        exposure = None if data.exposure is None else data.exposure[index]
        return Counts(X[index], data.y[index], exposure)

    return rows(train), rows(test)


def explained_deviance(test, mean):
    """Return D2 of the Poisson deviance, minus infinity if a mean overflows."""
    if not np.isfinite(mean).all():
        return -np.inf
    exposure = exposure_of(test)
    rate = np.maximum(mean / exposure, 1e-12)
    return float(d2_tweedie_score(test.y / exposure, rate, sample_weight=exposure, power=1))


def measure(model, train, test):
    """Return the figures of a fit by name."""
    start = time.process_time()
    model.fit(train)
    seconds = time.process_time() - start
    lower, upper = model.interval(test)
    inside = np.where(np.isnan(lower), np.nan, (lower <= test.y) & (test.y <= upper))
    return {
        "log_density": float(model.log_density(test).mean()),
        "d2": explained_deviance(test, model.mean(test)),
        "coverage": float(np.mean(inside)),
        "width": float(np.mean(upper - lower)),
        "cpu_seconds": seconds,
    }


def compare(name, arguments):
    """Print the table of a set."""
    data, found = SETS[name](), {}
    for split in range(arguments.splits):
        train, test = split_counts(data, split, arguments.rows)
        models = methods(data.exposure is not None, arguments.points, split)
        if arguments.minibatches:
            models = ways_to_learn()
        for method, model in models.items():
            figures = measure(model, train, test)
            found.setdefault(method, []).append(figures)
            record = {"set": name, "method": method, "split": split, "n_train": len(train.y)}
            append(arguments.out, record | figures)
    print(f"\n{name}: {len(train.y)} training rows, {len(test.y)} test rows")
    specs = (".3f", ".3f", ".2f", ".0f", ".1f")
    rows = [
        [method]
        + [
            text(np.mean([one[quantity] for one in figures]), spec)
            for quantity, spec in zip(QUANTITIES, specs, strict=True)
        ]
        for method, figures in found.items()
    ]
    print_table(["method", "log density", "D2", "in 90 %", "width", "CPU s"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--points", nargs="*", type=int, default=[], help="further fits")
    parser.add_argument("--minibatches", action="store_true", help="compare ways to learn")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3000, help="the most in either part")
    parser.add_argument("--out", help="file of JSON lines to append to")
    arguments = parser.parse_args()
    # Peers on sets with few rows reach their limits of iterations.
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        for name in arguments.sets:
            compare(name, arguments)


if __name__ == "__main__":
    main()
