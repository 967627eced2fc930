"""Fitted models and the objects of the user's that they were made with."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Exponentiation, Matern

from sparsegpc import (
    GPNoise,
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc.likelihoods import Expectation, LabelLikelihood

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def data(rng):
    X = rng.uniform(-2.0, 2.0, (120, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.randn(120)


@pytest.mark.parametrize(
    "estimator",
    [
        lambda kernel: SparseGPRegressor(kernel, n_inducing=10, max_iter=3),
        lambda kernel: SparseGPRegressor(noise=GPNoise(kernel, n_inducing=5), n_inducing=8),
        lambda kernel: StochasticSparseGPRegressor(kernel, n_inducing=8, n_epochs=1),
    ],
    ids=["kernel", "kernel of the noise", "minibatches"],
)
def test_a_fitted_model_does_not_change_with_the_kernel_that_was_given(estimator, data):
    X, y = data
    kernel = ConstantKernel() * Matern(nu=0.7)
    model = estimator(kernel).fit(X, y)
    before = model.predict(X, return_std=True)
    kernel.set_params(k2__nu=4.7)
    assert_array_equal(model.predict(X, return_std=True), before)


def test_a_fitted_classifier_does_not_change_with_an_exponent(data):
    X, y = data
    kernel = Exponentiation(ConstantKernel(2.0) * RBF(), 2.0)
    model = SparseGPClassifier(kernel, n_inducing=8, max_iter=3).fit(X, y > 0.0)
    before = model.predict_proba(X)
    kernel.exponent = 3.0
    assert_array_equal(model.predict_proba(X), before)


class Shifted(LabelLikelihood):
    """Labels whose log-odds are f plus a constant, which is learned."""

    n_params = 1
    has_prior_mean = False

    def __init__(self, constant=0.0):
        self.constant = constant

    def at(self, params):
        return Shifted(float(params[0]))

    def targets(self, codes, weight, rows):
        return [rows.mean(codes.astype(float), weight)]

    def initial_params(self, y, weight):
        return np.zeros(1)

    def params_bounds(self, y, weight):
        return np.array([[-6.0, 6.0]])

    def _expected(self, y, mean, variance):
        f = self.constant + mean + np.sqrt(variance) * NODES[:, None]
        p = expit(f)
        value = y * f - np.logaddexp(0.0, f)
        return (WEIGHTS @ value, WEIGHTS @ (y - p), WEIGHTS @ (p * (1.0 - p)))

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        value, slope, p = self._expected(y, mean[0], inducing_variance[0] + v[0] * residual)
        return Expectation(
            weight * value, (weight * slope)[None], (weight * p)[None], v * weight * p
        )

    def params_gradient(self, y, weight, mean, variance):
        return np.array([weight @ self._expected(y, mean[0], variance[0])[1]])

    def log_probabilities(self, mean, variance):
        f = self.constant + mean[0] + np.sqrt(variance[0]) * NODES[:, None]
        p = WEIGHTS @ expit(f)
        return np.log(np.stack([1.0 - p, p], axis=-1))

    def probabilities(self, f):
        p = expit(self.constant + f[0])
        return np.stack([1.0 - p, p], axis=-1)


def labels(X, rng, share=0.85):
    return (rng.uniform(size=len(X)) < share).astype(int)


@pytest.mark.parametrize(
    "estimator",
    [
        SparseGPClassifier(likelihood=Shifted(), n_inducing=8, fit_prior_mean=False),
        StochasticSparseGPClassifier(
            likelihood=Shifted(), n_inducing=8, n_epochs=3, batch_size=60, fit_prior_mean=False
        ),
    ],
    ids=["all rows", "minibatches"],
)
def test_classes_are_predicted_with_the_parameters_that_were_learned(estimator, rng):
    X = rng.uniform(-2.0, 2.0, (300, 1))
    y = labels(X, rng)
    proba = estimator.fit(X, y).predict_proba(X)[:, 1]
    assert estimator.likelihood.constant == 0.0
    assert_allclose(proba.mean(), y.mean(), atol=0.05)


def test_so_are_those_of_one_model_for_each_class(rng):
    X = rng.uniform(-2.0, 2.0, (120, 1))
    y = rng.choice(3, p=[0.7, 0.2, 0.1], size=120)
    model = SparseGPClassifier(RBF(), likelihood=Shifted(), n_inducing=8, fit_prior_mean=False)
    model.fit(X, y)
    assert_allclose(model.predict_proba(X).mean(axis=0), np.bincount(y) / 120, atol=0.05)


@pytest.mark.parametrize("kind", [SparseGPRegressor, SparseGPClassifier])
def test_rows_that_are_not_as_many_as_those_of_fit_are_refused(kind, data):
    X, y = data
    y = y > 0.0 if kind is SparseGPClassifier else y
    model = kind(n_inducing=8).fit(X, y)
    assert len(model.truncate(3, X, y).inducing_points_) == 3
    with pytest.raises(ValueError, match=r"X must have the 120 distinct rows .* got 50"):
        model.truncate(3, X[:50], y[:50])


def test_a_selector_takes_no_callbacks_that_it_would_not_call():
    assert not hasattr(InducingPointSelector(), "set_callbacks")
