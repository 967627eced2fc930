"""The methods of the tabular suite, each as its user would call it first: with its defaults.

This package's defaults are an RBF with a length scale for each column, tied by a prior, and main
effects where the bound asks for them. Only what a default rules out is set: scikit-learn's full
Gaussian process learns a constant times RBF, since its own default kernel stays as it is; logistic
regression gets iterations enough to converge; and all use one thread. Regressors without a
predictive deviation get one for all rows, the root mean square of residuals of five-fold
cross-validation on the training rows.
"""

from typing import NamedTuple

import numpy as np
from classifiers import FULL_ROWS
from gpboost_peer import GPBoostClassifier, GPBoostRegressor
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict

from sparsegpc import LocalCorrection, SparseGPClassifier, SparseGPRegressor

N_FOLDS = 5


class OneDeviation:
    """A regressor with the same predictive standard deviation at all rows."""

    def __init__(self, model):
        self._model = model

    def fit(self, X, y):
        """Fit the regressor."""
        self._model.fit(X, y)
        return self

    def learn_deviation(self, X, y):
        """Take the root mean square of residuals of cross-validation; it fits five times more."""
        folds = KFold(N_FOLDS, shuffle=True, random_state=0)
        residuals = y - cross_val_predict(clone(self._model), X, y, cv=folds)
        self._deviation = np.sqrt(np.mean(residuals**2))

    def predict(self, X, return_std=False):
        """Return means, and with `return_std` standard deviations, each (N,)."""
        mean = self._model.predict(X)
        return (mean, np.full(len(mean), self._deviation)) if return_std else mean


class CatBoostUncertainty:
    """CatBoost's mean and variance of each row, both learned by its RMSEWithUncertainty."""

    def __init__(self, seed):
        self._model = _catboost("Regressor", seed, loss_function="RMSEWithUncertainty")

    def fit(self, X, y):
        """Fit the regressor."""
        self._model.fit(X, y)
        return self

    def predict(self, X, return_std=False):
        """Return means, and with `return_std` standard deviations, each (N,)."""
        mean, variance = self._model.predict(X).T
        return (mean, np.sqrt(variance)) if return_std else mean


def _catboost(kind, seed, **options):
    import catboost

    settings = {"random_seed": seed, "thread_count": 1, "allow_writing_files": False, "verbose": 0}
    return getattr(catboost, f"CatBoost{kind}")(**settings, **options)


def _lightgbm(kind, seed):
    import lightgbm

    return getattr(lightgbm, f"LGBM{kind}")(random_state=seed, n_jobs=1, verbose=-1)


class Method(NamedTuple):
    """How a method is called, and for each task a function of a seed that makes its estimator.

    A regressor's ``predict(X, return_std=True)`` returns means and standard deviations of y. A
    limit of None means no limit.
    """

    title: str
    makers: dict
    library: str = "sklearn"
    most_rows: int | None = None
    most_classes: int | None = None

    def applies(self, task, n_train, n_classes):
        """Return whether the method is made for such a problem."""
        return (
            task in self.makers
            and (self.most_rows is None or n_train <= self.most_rows)
            and (self.most_classes is None or n_classes <= self.most_classes)
        )


OURS, CONSTANT = "sparsegpc", "constant"
CLASSES, TARGETS = "classification", "regression"
METHODS = {
    OURS: Method(
        "sparsegpc",
        {
            CLASSES: lambda seed: SparseGPClassifier(random_state=seed),
            TARGETS: lambda seed: SparseGPRegressor(random_state=seed),
        },
        "sparsegpc",
    ),
    "sparsegpc-noise": Method(
        'sparsegpc, noise="auto"',
        {TARGETS: lambda seed: SparseGPRegressor(noise="auto", random_state=seed)},
        "sparsegpc",
    ),
    "sparsegpc-corrected": Method(
        "sparsegpc, LocalCorrection",
        {
            CLASSES: lambda seed: LocalCorrection(SparseGPClassifier(random_state=seed)),
            TARGETS: lambda seed: LocalCorrection(SparseGPRegressor(random_state=seed)),
        },
        "sparsegpc",
    ),
    "full": Method(
        "full GP",
        {
            CLASSES: lambda seed: GaussianProcessClassifier(
                ConstantKernel() * RBF(), random_state=seed
            ),
            TARGETS: lambda seed: GaussianProcessRegressor(
                ConstantKernel() * RBF() + WhiteKernel(), random_state=seed
            ),
        },
        most_rows=FULL_ROWS,
    ),
    "gpboost": Method(
        "GPBoost",
        {CLASSES: GPBoostClassifier, TARGETS: GPBoostRegressor},
        "gpboost",
        most_classes=2,
    ),
    "catboost": Method(
        "CatBoost",
        {
            CLASSES: lambda seed: _catboost("Classifier", seed),
            TARGETS: lambda seed: OneDeviation(_catboost("Regressor", seed)),
        },
        "catboost",
    ),
    "catboost-uncertainty": Method(
        "CatBoost, RMSEWithUncertainty", {TARGETS: CatBoostUncertainty}, "catboost"
    ),
    "lightgbm": Method(
        "LightGBM",
        {
            CLASSES: lambda seed: _lightgbm("Classifier", seed),
            TARGETS: lambda seed: OneDeviation(_lightgbm("Regressor", seed)),
        },
        "lightgbm",
    ),
    "boosting": Method(
        "HistGradientBoosting",
        {
            CLASSES: lambda seed: HistGradientBoostingClassifier(random_state=seed),
            TARGETS: lambda seed: OneDeviation(HistGradientBoostingRegressor(random_state=seed)),
        },
    ),
    "forest": Method(
        "random forest",
        {
            CLASSES: lambda seed: RandomForestClassifier(random_state=seed),
            TARGETS: lambda seed: OneDeviation(RandomForestRegressor(random_state=seed)),
        },
    ),
    "linear": Method(
        "logistic / ridge",
        {
            CLASSES: lambda seed: LogisticRegression(max_iter=1000),
            TARGETS: lambda seed: OneDeviation(Ridge()),
        },
    ),
    # What a failure counts as.
    CONSTANT: Method(
        "constant",
        {
            CLASSES: lambda seed: DummyClassifier(strategy="prior"),
            TARGETS: lambda seed: OneDeviation(DummyRegressor()),
        },
    ),
}
