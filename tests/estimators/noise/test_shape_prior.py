"""The prior of the shapes of positive targets, relative to what a constant function leaves."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import SparseGPGeneralizedRegressor, StochasticSparseGPGeneralizedRegressor
from tests.estimators.noise.noise_cases import quiet

PLAIN = {"length_scales": "common", "main_effects": False}
# Mean and deviation of the prior that a likelihood has by itself, change of the logarithm of the
# shape that divides the variance of log y by ten, and the deviation of the relative prior.
OF_LIKELIHOOD = {
    "gamma": ((1.0, 3.0), np.log(10.0), 2.0),
    "weibull": ((1.0, 3.0), 0.5 * np.log(10.0), 1.0),
    "log-normal": ((0.0, 3.0), -0.5 * np.log(10.0), 1.0),
}


def positive(n=60, noise=0.2, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 1))
    return X, np.exp(np.sin(6.0 * X[:, 0]) + noise * rng.standard_normal(n))


def log_density(x, mean, deviation):
    return norm.logpdf(x, mean, deviation) - norm.logpdf(mean, mean, deviation)


def expected_log_prior(name, model, X, y):
    """Return the log prior of the shape; a kernel without variance leaves a constant f."""
    own, step, deviation = OF_LIKELIHOOD[name]
    constant = SparseGPGeneralizedRegressor(1e-9 * RBF(1.0, "fixed"), likelihood=name)
    constant.kernel.set_params(k1__constant_value_bounds="fixed")
    # The shape is near the one of highest likelihood, as its own prior is wide.
    log_shape = constant.fit(X, y).likelihood_.log_shape
    found = model.likelihood_.log_shape
    return log_density(found, *own) + log_density(found, log_shape + step, deviation)


@quiet
@pytest.mark.filterwarnings("ignore:.*far below the scale")
@pytest.mark.parametrize("name", OF_LIKELIHOOD)
def test_the_prior_is_about_a_tenth_of_the_variance_of_a_constant(name):
    X, y = positive()
    model = SparseGPGeneralizedRegressor(likelihood=name, **PLAIN).fit(X, y)
    expected = expected_log_prior(name, model, X, y)
    assert model.log_prior_ == pytest.approx(expected, abs=0.02)
    batches = StochasticSparseGPGeneralizedRegressor(
        likelihood=name, length_scales="common", batch_size=60, n_inducing=15
    ).fit(X, y)
    expected = expected_log_prior(name, batches, X, y)
    assert batches.log_prior_ == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("name", OF_LIKELIHOOD)
def test_units_of_the_targets_do_not_count(name):
    X, y = positive(30)
    priors = [
        SparseGPGeneralizedRegressor(likelihood=name, **PLAIN).fit(X, unit * y).log_prior_
        for unit in (1.0, 1e6)
    ]
    assert priors[1] == pytest.approx(priors[0], abs=1e-3)


@quiet
@pytest.mark.parametrize("name", ["gamma", "log-normal"])
def test_a_kernel_object_has_only_the_prior_of_the_likelihood(name):
    X, y = positive(30)
    model = SparseGPGeneralizedRegressor(1.0 * RBF(), likelihood=name).fit(X, y)
    own = OF_LIKELIHOOD[name][0]
    assert model.log_prior_ == pytest.approx(log_density(model.likelihood_.log_shape, *own))


@quiet
def test_a_small_relative_spread_is_no_reason_for_noise():
    """The function explains 99 % of a variance of log y of 1e-6."""
    rng = np.random.RandomState(0)
    X, new = rng.normal(size=(40, 1)), rng.normal(size=(200, 1))
    y, f_new = 1000.0 + X[:, 0] + 0.1 * rng.standard_normal(40), 1000.0 + new[:, 0]
    for name in OF_LIKELIHOOD:
        model = SparseGPGeneralizedRegressor(likelihood=name, n_inducing=10, **PLAIN).fit(X, y)
        assert np.sqrt(np.mean((model.predict(new) - f_new) ** 2)) < 0.3


@pytest.mark.parametrize("seed", [5, 7, 13])
def test_the_spread_does_not_vanish_by_chance(seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(20, 4))
    y = np.exp(np.sin(6.0 * X[:, 0]) + 0.3 * rng.standard_normal(20))
    model = SparseGPGeneralizedRegressor(likelihood="log-normal", **PLAIN).fit(X, y)
    assert 0.12 < model.likelihood_.shape < 0.5
