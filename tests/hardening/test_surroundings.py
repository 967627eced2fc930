"""What surrounds a call, such as numpy's error state, neither stops it nor changes what it says."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.gaussian_process.kernels import DotProduct

from sparsegpc import (
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)

X_IRIS, Y_IRIS = (rows[::2] for rows in load_iris(return_X_y=True))
X_DIABETES, Y_DIABETES = (rows[::4] for rows in load_diabetes(return_X_y=True))
TWO = Y_IRIS > 0
# A function that is linear makes probabilities far away as small as can be.
CASES = {
    "two classes": (SparseGPClassifier(n_inducing=10, max_iter=10), X_IRIS, TWO),
    "three classes": (SparseGPClassifier(n_inducing=10, max_iter=10), X_IRIS, Y_IRIS),
    "linear": (SparseGPClassifier(DotProduct(), n_inducing=10, max_iter=10), X_IRIS, Y_IRIS),
    "dirichlet": (
        SparseGPClassifier(likelihood="dirichlet", n_inducing=10, max_iter=10),
        X_IRIS,
        Y_IRIS,
    ),
    "minibatches of labels": (StochasticSparseGPClassifier(n_inducing=10, n_epochs=2), X_IRIS, TWO),
    "regression": (SparseGPRegressor(n_inducing=10, max_iter=10), X_DIABETES, Y_DIABETES),
    "noise process": (
        SparseGPRegressor(noise="gp", n_inducing=10, max_iter=10),
        X_DIABETES,
        Y_DIABETES,
    ),
    "minibatches": (StochasticSparseGPRegressor(n_inducing=10, n_epochs=2), X_DIABETES, Y_DIABETES),
    "selector": (InducingPointSelector(n_components=10), X_DIABETES, Y_DIABETES),
}
ROWS_ONLY = (
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_proba_interval",
    "predict_noise_std",
    "latent_mean_and_variance",
    "sample_f",
    "sample_y",
    "transform",
)


def answers(estimator, X, y):
    """Return what a fresh estimator says after `fit`, near its rows and far from them."""
    estimator = clone(estimator).fit(X, y)
    near_and_far = np.vstack([X[:10], 1e6 * X[:10]])
    said = [
        getattr(estimator, name)(near_and_far) for name in ROWS_ONLY if hasattr(estimator, name)
    ]
    if hasattr(estimator, "certificate"):
        said += [estimator.certificate(X, y).gap, estimator.lower_bound(X=X, y=y)]
    return said


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", CASES)
def test_numpy_may_be_told_to_raise_all_errors(case):
    expected = answers(*CASES[case])
    with np.errstate(all="raise"):
        before = np.geterr()
        said = answers(*CASES[case])
        assert np.geterr() == before
    for one, other in zip(said, expected, strict=True):
        np.testing.assert_array_equal(one, other)
