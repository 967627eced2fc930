"""Features in single precision: nearly the same model, whatever the likelihood or the noise."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.preprocessing import StandardScaler

from sparsegpc import GPNoise, PolynomialNoise, SparseGPClassifier, SparseGPRegressor

LEAST = {"max_iter": 20, "max_reselections": 1, "n_inducing": 30}


def fitted_in_both(model, data):
    X, y = data(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    with np.errstate(all="raise", under="ignore"):
        models = [
            clone(model).set_params(working_dtype=dtype).fit(X, y)
            for dtype in ("float64", "float32")
        ]
    return X, y, *models


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("likelihood", "data"),
    [
        ("bernoulli-logit", load_breast_cancer),
        ("polya-gamma", load_breast_cancer),
        ("softmax", load_wine),
        ("dirichlet", load_wine),
    ],
)
def test_classifiers(likelihood, data):
    model = SparseGPClassifier(likelihood=likelihood, **LEAST)
    X, y, double, single = fitted_in_both(model, data)
    assert single.lower_bound_ == pytest.approx(double.lower_bound_, abs=1e-3 * len(y))
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=0.1)
    # At the same hyperparameters and points there is only rounding between them.
    restated = double.set_params(working_dtype="float32").lower_bound(double.kernel_.theta, X, y)
    assert restated == pytest.approx(double.lower_bound_, abs=1e-5 * len(y))
    assert restated != double.lower_bound_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("noise", ["homoscedastic", PolynomialNoise(1), GPNoise(n_inducing=10)])
def test_regressors(noise):
    model = SparseGPRegressor(noise=noise, normalize_y=True, **LEAST)
    X, y, double, single = fitted_in_both(model, load_diabetes)
    assert single.lower_bound_ == pytest.approx(double.lower_bound_, abs=1e-2 * len(y))
    spread = y.std()
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=0.1 * spread)
    assert single.certificate(X, y).upper_bound >= single.lower_bound_
