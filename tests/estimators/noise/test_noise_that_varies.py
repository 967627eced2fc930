"""Noise that depends on the row, by a polynomial and by a process: what is recovered of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from tests.estimators.noise.noise_cases import integral, model_of, quiet, true_std, trumpet


@pytest.fixture(scope="module")
def fitted():
    """Models of every kind of noise, fitted to `trumpet()`; not to be changed."""
    noises = ("homoscedastic", "polynomial", "gp")
    return {noise: model_of(noise).fit(*trumpet()) for noise in noises}


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_noise_that_depends_on_the_row_is_recovered(noise, fitted):
    X, y = trumpet(2000, seed=1)
    ours, constant = fitted[noise], fitted["homoscedastic"]
    error = np.log(ours.predict_noise_std(X) / true_std(X[:, 0]))
    assert np.abs(error).mean() < 0.15
    assert np.abs(error).max() < 0.4
    density = ours.log_predictive_density(X, y).mean()
    assert density > constant.log_predictive_density(X, y).mean() + 0.4
    truth = norm.logpdf(y, np.sin(2.0 * X[:, 0]), true_std(X[:, 0])).mean()
    assert truth - 0.06 < density < truth
    assert ours.lower_bound_ > constant.lower_bound_ + 100.0


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_intervals_cover_evenly_where_the_noise_is_modelled(noise, fitted):
    X, y = trumpet(4000, seed=2)

    def coverage(model, low, high):
        part = (X[:, 0] > low) & (X[:, 0] < high)
        mean, std = model.predict(X[part], return_std=True)
        return (np.abs(y[part] - mean) < 1.645 * std).mean()

    for low in (-2.0, -1.0, 0.0, 1.0):
        assert 0.83 < coverage(fitted[noise], low, low + 1.0) < 0.96
    assert coverage(fitted["homoscedastic"], -2.0, -1.0) > 0.99
    assert coverage(fitted["homoscedastic"], 1.0, 2.0) < 0.8


@quiet
def test_constant_noise_is_found_to_be_constant():
    rng = np.random.RandomState(0)
    x = rng.uniform(-2.0, 2.0, 200)
    y = np.sin(2.0 * x) + 0.3 * rng.standard_normal(200)
    X = x[:, None]
    constant = model_of("homoscedastic").fit(X, y)
    for noise in ("polynomial", "gp"):
        std = model_of(noise).fit(X, y).predict_noise_std(X)
        assert_allclose(std, 0.3, rtol=0.35)
        assert_allclose(np.mean(std), np.sqrt(constant.noise_variance_), rtol=0.05)


def test_each_output_has_noise_of_its_own():
    X, y = trumpet()
    rng = np.random.RandomState(5)
    other = np.cos(2.0 * X[:, 0]) + true_std(-X[:, 0]) * rng.standard_normal(len(X))
    for noise in ("polynomial", "gp"):
        std = model_of(noise).fit(X, np.column_stack([y, other])).predict_noise_std(X)
        assert np.abs(np.log(std[:, 0] / true_std(X[:, 0]))).mean() < 0.2
        assert np.abs(np.log(std[:, 1] / true_std(-X[:, 0]))).mean() < 0.2


@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_scale_and_offset_of_the_columns_do_not_change_the_noise(noise):
    X, y = trumpet(80)
    plain, moved = model_of(noise).fit(X, y), model_of(noise).fit(1e6 * X - 1e7, y)
    expected = plain.predict_noise_std(X)
    assert_allclose(moved.predict_noise_std(1e6 * X - 1e7), expected, rtol=1e-2)


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
@pytest.mark.parametrize("x", [-1.5, 0.3, 1.9, 4.0])
def test_the_predictive_density_has_the_moments_of_the_prediction(noise, x, fitted):
    model = fitted[noise]
    assert_allclose(integral(model, x, np.ones_like), 1.0, atol=1e-8)
    assert_allclose(integral(model, x, lambda z: z), 0.0, atol=1e-8)
    assert_allclose(integral(model, x, np.square), 1.0, rtol=1e-4)
