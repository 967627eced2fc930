"""Noise of one variance, learned or fixed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel

from sparsegpc import HomoscedasticNoise
from tests.estimators.noise.noise_cases import KERNEL, model_of, quiet, trumpet


@quiet
@pytest.mark.parametrize("normalize_y", [False, True])
def test_a_white_summand_is_the_start_and_the_limits_of_the_noise(normalize_y):
    X, y = trumpet(60)
    settings = {"n_inducing": 10, "max_iter": 3, "normalize_y": normalize_y}
    cases = (0.02, (0.01, 0.03)), (0.3, (1e-3, 1.0)), (0.3, "fixed")
    for level, limits in cases[: 1 if normalize_y else 3]:
        expected = model_of(HomoscedasticNoise(level, limits), kernel=KERNEL, **settings)
        expected.fit(X, y)
        white = WhiteKernel(level, limits)
        # On either side of the kernel.
        for kernel in (KERNEL + white, white + KERNEL)[: 2 if level == 0.02 else 1]:
            model = model_of("homoscedastic", kernel=kernel, **settings).fit(X, y)
            assert_allclose(model.lower_bound_, expected.lower_bound_, rtol=1e-9)
            assert model.noise_variance_ == expected.noise_variance_
            assert_array_equal(model.kernel_.theta, expected.kernel_.theta)
            assert "White" not in str(model.kernel_)
            assert model.kernel is kernel


def test_a_white_summand_may_stand_deep_in_a_sum():
    X, y = trumpet(60)
    kernel = (RBF(1.0) + WhiteKernel(0.3)) + DotProduct(1.0)
    model = model_of("homoscedastic", kernel=kernel, optimizer=None, n_inducing=60, selection_tol=0)
    model.fit(X, y)
    full = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y - model.prior_mean_)
    assert_allclose(model.noise_variance_, 0.3)
    assert_allclose(model.lower_bound_, full.log_marginal_likelihood_value_, atol=1e-3)


@quiet
def test_limits_of_the_noise_are_kept():
    X, y = trumpet(60)
    for limits, end in (((1e-6, 1e-3), 1e-3), ((2.0, 9.0), 2.0)):
        noise = HomoscedasticNoise(variance_bounds=limits)
        model = model_of(noise, n_inducing=10).fit(X, y)
        assert_allclose(model.noise_variance_, end)


def test_fixed_noise_stays_and_is_known_everywhere():
    X, y = trumpet(60)
    model = model_of(HomoscedasticNoise(0.4, "fixed")).fit(X, y)
    assert_allclose(model.noise_variance_, 0.4)
    assert_allclose(model.predict_noise_std(X), np.sqrt(0.4))
    known = model_of("homoscedastic").fit(X, y, noise_variance=0.4)
    assert known.noise_variance_ is None
    assert model.lower_bound_ == known.lower_bound_
    assert_array_equal(model.predict(X), known.predict(X))
    assert_allclose(model.lower_bound(X=X, y=y), model.lower_bound_, rtol=1e-10)


@pytest.mark.filterwarnings("error")
def test_settings_start_where_they_say():
    X, y = trumpet(60)
    for variance in (1e-3, 2.0):
        model = model_of(HomoscedasticNoise(variance), optimizer=None).fit(X, y)
        assert_allclose(model.noise_variance_, variance)
    default = model_of("homoscedastic", optimizer=None).fit(X, y)
    assert_allclose(default.noise_variance_, 0.1 * y.var())
    assert_allclose(default.kernel_.k1.constant_value, y.var())
