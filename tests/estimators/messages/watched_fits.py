"""Fits of every estimator, quick ones, to be watched."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    GPNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)

QUICK = {
    "n_inducing": 8,
    "max_iter": 4,
    "max_reselections": 1,
    "main_effects": False,
    "random_state": 0,
}
MINIBATCHES = {"n_inducing": 8, "n_epochs": 3, "batch_size": 20, "random_state": 0}
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n=60):
    X = np.random.RandomState(0).uniform(-3.0, 3.0, (n, 2))
    X.flags.writeable = False
    return X


def targets(n=60):
    X = rows(n)
    return np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * np.random.RandomState(1).randn(n)


def labels(n_classes, n=60):
    return np.digitize(targets(n), [-0.4, 0.4][: n_classes - 1])


def fit_of(name, **options):
    """Return an unfitted estimator and what it is fitted to."""
    makers = {
        "classifier": (SparseGPClassifier, {}, labels(2)),
        "one for each class": (SparseGPClassifier, {"likelihood": "polya-gamma"}, labels(3)),
        "regressor": (SparseGPRegressor, {"main_effects": "auto"}, targets()),
        "noise process": (SparseGPRegressor, {"noise": GPNoise(RBF(2.0), n_inducing=5)}, targets()),
        "moved points": (SparseGPRegressor, {"optimize_inducing": True}, targets()),
        "restarts": (
            SparseGPRegressor,
            {"kernel": ConstantKernel() * RBF(), "n_restarts_optimizer": 2},
            targets(),
        ),
        "grown": (
            SparseGPRegressor,
            {"n_inducing": "auto", "max_inducing": 60, "certificate_tol": 1e-12},
            targets(),
        ),
    }
    stochastic = {
        "classifier from minibatches": (StochasticSparseGPClassifier, {}, labels(2)),
        "regressor from minibatches": (StochasticSparseGPRegressor, {}, targets()),
    }
    quick = QUICK if name in makers else MINIBATCHES
    kind, own, y = {**makers, **stochastic}[name]
    return kind(**{**quick, **own, **options}), y


@cache
def watched(name):
    """Return a fitted estimator, not to be changed, and the steps that its callback was told of."""
    steps = []
    model, y = fit_of(name, callback=steps.append)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows(), y), steps


SINGLE = [
    "classifier",
    "regressor",
    "noise process",
    "moved points",
    "restarts",
    "grown",
]
FROM_MINIBATCHES = ["classifier from minibatches", "regressor from minibatches"]
EVERY = [*SINGLE, "one for each class", *FROM_MINIBATCHES]
COLUMNS = {"choice", "n_samples", "n_inducing", "lower_bound", "seconds"}


class StopAt:
    """Ask to stop at the given step, and at every later one; count the calls."""

    def __init__(self, iteration):
        self.iteration, self.n_calls = iteration, 0

    def __call__(self, step):
        self.n_calls += 1
        return step.iteration >= self.iteration
