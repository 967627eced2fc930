"""Noise whose log variance is a second Gaussian process."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import GPNoise
from tests.estimators.noise.noise_cases import integral, model_of, quiet, true_std, trumpet


def test_a_noise_process_follows_what_no_quadratic_polynomial_can():
    rng = np.random.RandomState(0)
    x = rng.uniform(-3.0, 3.0, 400)
    log_std = -1.5 + 1.0 * np.sin(2.5 * x)
    y = np.cos(x) + np.exp(log_std) * rng.standard_normal(400)
    X = x[:, None]
    process, polynomial = model_of("gp").fit(X, y), model_of("polynomial").fit(X, y)
    errors = [np.log(model.predict_noise_std(X)) - log_std for model in (process, polynomial)]
    assert np.abs(errors[0]).mean() < 0.25 < np.abs(errors[1]).mean()
    assert process.lower_bound_ > polynomial.lower_bound_ + 20.0


@quiet
def test_a_noise_process_is_no_worse_than_constant_noise_where_noise_is_constant():
    rng = np.random.RandomState(0)
    x = rng.uniform(-2.0, 2.0, 150)
    X, y = x[:, None], np.sin(2.0 * x) + 0.3 * rng.standard_normal(150)
    process, constant = model_of("gp").fit(X, y), model_of("homoscedastic").fit(X, y)
    assert process.lower_bound_ > constant.lower_bound_ - 0.5


def test_uncertain_noise_has_heavy_tails():
    """Far from the rows the noise process is as uncertain as its prior."""
    x = trumpet()[0][:, 0]
    y = true_std(x) * np.random.RandomState(2).standard_normal(len(x))
    process = GPNoise(ConstantKernel(1.0, "fixed") * RBF(0.5, "fixed"))
    small = ConstantKernel(1e-6, "fixed") * RBF(1.0, "fixed")
    model = model_of(process, kernel=small).fit(x[:, None], y)
    assert_allclose(integral(model, 9.0, np.square), 1.0, rtol=1e-3)
    # A Gaussian whose log variance is Gaussian with variance 1 has a kurtosis of 3 e.
    assert_allclose(integral(model, 9.0, lambda z: z**4), 3.0 * np.e, rtol=0.02)
    assert_allclose(integral(model, 0.0, lambda z: z**4), 3.2, atol=0.2)
    mean, std = (part[0] for part in model.predict([[9.0]], return_std=True))
    draws = (model.sample_y([[9.0]], 40_000)[0] - mean) / std
    for limit in (2.0, 3.5):
        tail = integral(model, 9.0, lambda z, limit=limit: z > limit)
        assert_allclose((draws > limit).mean(), tail, rtol=0.15)


def test_the_kernel_and_the_points_of_the_noise_process_are_settings():
    X, y = trumpet(80)
    fixed = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    few, many = (
        model_of(GPNoise(fixed, n_inducing=n, selection_tol=0.0)).fit(X, y) for n in (1, 20)
    )
    assert many.lower_bound_ > few.lower_bound_ + 1.0
    # A kernel that hardly varies leaves constant noise.
    flat = ConstantKernel(1e-4, "fixed") * RBF(1.0, "fixed")
    model = model_of(GPNoise(flat)).fit(X, y)
    constant = model_of("homoscedastic").fit(X, y)
    assert_allclose(model.lower_bound_, constant.lower_bound_, atol=0.2)
    assert_allclose(model.predict_noise_std(X) ** 2, constant.noise_variance_, rtol=0.05)


def test_a_loose_tolerance_takes_fewer_points_for_the_noise():
    X, y = trumpet(80)
    fixed = ConstantKernel(1.0, "fixed") * RBF(0.2, "fixed")
    tight, loose = (model_of(GPNoise(fixed, selection_tol=tol)).fit(X, y) for tol in (1e-6, 0.2))
    assert tight.lower_bound_ > loose.lower_bound_ + 1.0
    assert loose.predict_noise_std(X).shape == (80,)


@quiet
@pytest.mark.parametrize(
    ("targets", "weight"),
    [("no noise", 1.0), ("noise on one half", 10.0), ("outliers", 1.0), ("zeros", 1.0)],
)
def test_the_bound_of_a_noise_process_is_below_what_any_fit_could_reach(targets, weight):
    """Where noise vanishes its precision has no end, and rounding would be taken for evidence."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (100, 1))
    y = np.sin(X[:, 0])
    if targets == "noise on one half":
        y = y + np.where(X[:, 0] > 0.0, 0.3, 0.0) * rng.standard_normal(100)
    elif targets == "outliers":
        y[::20] += 5.0
    elif targets == "zeros":
        y = np.where(rng.uniform(size=100) < 0.8, 0.0, rng.standard_normal(100))
    tol = 1e-4
    model = model_of("gp", max_iter=20, max_reselections=1, tol=tol).fit(X, y, weight)
    log_noise, _ = model._noise.log_moments(X)
    assert model.lower_bound_ <= -0.5 * weight * (np.log(2.0 * np.pi) + log_noise).sum() + 1e-6
    # Where noise vanishes the sites converge slowly, so both bounds are within the tolerance only.
    upper_bound = model.certificate(X, y, weight).upper_bound
    assert model.lower_bound_ <= upper_bound + tol * weight * len(y)
    assert np.isfinite(model.predict(X, return_std=True)).all()


def test_noise_that_vanishes_everywhere_is_reported():
    X = np.random.RandomState(0).normal(size=(50, 2))
    model = model_of("gp", n_inducing=50)
    with pytest.warns(ConvergenceWarning, match="the noise did not converge in 500 passes: if"):
        model.fit(X, X @ [1.0, 2.0])
    assert not model.converged_
