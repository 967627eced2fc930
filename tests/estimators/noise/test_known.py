"""Noise that is known at each row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone

from sparsegpc import HomoscedasticNoise
from tests.estimators.noise.noise_cases import KERNEL, model_of, true_std, trumpet


@pytest.fixture(scope="module")
def fitted():
    """Models of every kind of noise, fitted to `trumpet()`; not to be changed."""
    noises = ("homoscedastic", "polynomial", "gp")
    return {noise: model_of(noise).fit(*trumpet()) for noise in noises}


@pytest.mark.parametrize("noise", ["polynomial", "gp", "student-t"])
def test_noise_that_varies_is_refused_beside_known_noise(noise):
    X, y = trumpet(60)
    model = model_of(noise)
    with pytest.raises(ValueError, match="noise_variance must be None with noise="):
        model.fit(X, y, noise_variance=true_std(X[:, 0]) ** 2)
    assert not hasattr(model, "lower_bound_")


def test_known_noise_takes_the_place_of_homoscedastic_noise():
    X, y = trumpet(60)
    variance = true_std(X[:, 0]) ** 2
    one, other = (
        model_of(noise).fit(X, y, noise_variance=variance)
        for noise in ("homoscedastic", HomoscedasticNoise(7.0))
    )
    assert one.lower_bound_ == other.lower_bound_
    assert one.noise_variance_ is None
    with pytest.raises(ValueError, match="noise_variance is needed"):
        one.predict_noise_std(X)


def test_forms_of_known_noise_agree():
    X, y = trumpet(60)
    Y = np.column_stack([y, -2.0 * y])
    fixed = model_of("homoscedastic", kernel=KERNEL, optimizer=None)
    forms = [0.3, np.float32(0.3), np.full(60, 0.3), [0.3] * 60, np.full((60, 2), 0.3)]
    reference = clone(fixed).fit(X, Y, noise_variance=forms[2])
    for form in forms:
        model = clone(fixed).fit(X, Y, noise_variance=form)
        assert_allclose(model.lower_bound_, reference.lower_bound_, rtol=1e-6)
        std = model.predict(X, return_std=True, noise_variance=form)[1]
        assert std.shape == (60, 2)
        assert_allclose(std, reference.predict(X, True, noise_variance=0.3)[1], rtol=1e-6)


def test_known_noise_of_new_rows_is_added_to_the_variance_of_f():
    X, y = trumpet(60)
    model = model_of("homoscedastic").fit(X, y, noise_variance=0.05)
    new, variance = X[:9] + 0.1, np.linspace(0.01, 3.0, 9)
    mean, of_f = model.latent_mean_and_variance(new)
    std = model.predict(new, return_std=True, noise_variance=variance)[1]
    assert_allclose(std**2, of_f + variance, rtol=1e-10)
    density = model.log_predictive_density(new, y[:9], noise_variance=variance)
    assert_allclose(density, norm.logpdf(y[:9], mean, std), rtol=1e-10)
    draws = model.sample_y(new, 20_000, noise_variance=variance)
    assert_allclose(draws.std(axis=1), std, rtol=0.03)
    # The mean alone needs no noise.
    assert_array_equal(model.predict(new), mean)


def test_known_noise_may_replace_what_was_learned_at_new_rows(fitted):
    X, _ = trumpet(5, seed=3)
    for model in fitted.values():
        of_f = model.latent_mean_and_variance(X)[1]
        std = model.predict(X, return_std=True, noise_variance=0.7)[1]
        assert_allclose(std**2, of_f + 0.7, rtol=1e-10)
