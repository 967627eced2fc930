"""Noise of which only a part is known: the rest, which is learned, and predictions with both."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sparsegpc import (
    BoundSearch,
    ExcessNoise,
    HomoscedasticNoise,
    LocalCorrection,
    SparseGPRegressor,
)
from tests.estimators.noise.noise_cases import log_evidence_with_limits
from tests.estimators.simple_kernel import simple_kernel

SMALL = {"n_inducing": 30, "selector": "hgv", "hyperparameters": "best"}
KERNEL = ConstantKernel(1.3) * RBF(0.8)
EXCESS = 0.3


def model_of(**parameters):
    return SparseGPRegressor(**{**SMALL, "noise": "excess", **simple_kernel(parameters)})


def measured(n=300, excess=EXCESS, seed=0):
    """Return one column, measured quantities and the variances of their errors.

    The quantities scatter around a sine by `excess`.
    """
    rng = np.random.RandomState(seed)
    x = rng.uniform(-3.0, 3.0, n)
    error = rng.uniform(0.05, 0.6, n)
    quantity = np.sin(2.0 * x) + excess * rng.standard_normal(n)
    parts = x[:, None], quantity + error * rng.standard_normal(n), error**2
    for part in parts:
        part.flags.writeable = False
    return parts


@pytest.fixture(scope="module")
def fitted():
    """A model of `measured()`; not to be changed."""
    X, y, known = measured()
    return model_of().fit(X, y, noise_variance=known)


# What is learned


def test_with_all_rows_as_points_it_is_the_full_process():
    """That of scikit-learn, with `alpha` and a WhiteKernel, at its own optimum."""
    X, y, known = measured(80)
    kernel = KERNEL + WhiteKernel(0.1)
    full = GaussianProcessRegressor(kernel, alpha=known).fit(X, y)
    *_, log_excess = full.kernel_.theta
    options = {"kernel": KERNEL, "n_inducing": 80, "selection_tol": 0.0, "fit_prior_mean": False}
    ours = model_of(**options, tol=1e-8).fit(X, y, noise_variance=known)
    best = full.log_marginal_likelihood_value_
    assert best - 1e-3 < ours.lower_bound_ < best + 1e-4
    assert np.log(ours.noise_variance_) == pytest.approx(log_excess, abs=0.02)
    for mine, theirs in zip(ours.predict(X, True), full.predict(X, True), strict=True):
        assert_allclose(mine, theirs, atol=2e-3)


def test_a_white_kernel_beside_known_noise_is_the_excess():
    X, y, known = measured(100)
    kernel = KERNEL + WhiteKernel(0.2, (1e-3, 2.0))
    white = model_of(kernel=kernel, noise="homoscedastic").fit(X, y, noise_variance=known)
    named = model_of(kernel=KERNEL, noise=ExcessNoise(0.2, (1e-3, 2.0)))
    named.fit(X, y, noise_variance=known)
    assert white.lower_bound_ == named.lower_bound_
    assert white.noise_variance_ == named.noise_variance_
    with pytest.raises(ValueError, match="beside noise='excess'"):
        model_of(kernel=kernel).fit(X, y, noise_variance=known)


def test_auto_means_excess_noise(fitted):
    X, y, known = measured()
    model = model_of(noise="auto").fit(X, y, noise_variance=known)
    assert_array_equal(model.predict(X), fitted.predict(X))
    assert model.noise_bounds_ is None


def test_known_noise_alone_takes_the_excess_for_a_function():
    X, y, known = measured()
    truth = np.sin(2.0 * X[:, 0])
    errors = {
        noise: np.sqrt(np.mean((model.predict(X) - truth) ** 2))
        for noise in ("homoscedastic", "excess")
        for model in [model_of(noise=noise).fit(X, y, noise_variance=known)]
    }
    assert errors["excess"] < 0.75 * errors["homoscedastic"]


def test_excess_and_coverage_on_average():
    found, inside = [], {"quantity": [], "measured": []}
    for seed in range(12):
        X, y, known = measured(400, seed=seed)
        model = model_of().fit(X, y, noise_variance=known)
        found.append(np.sqrt(model.noise_variance_))
        X, y, known = measured(500, seed=seed + 100)
        f = np.sin(2.0 * X[:, 0])
        quantity = f + EXCESS * np.random.RandomState(seed).standard_normal(len(f))
        for name, target, given in (("quantity", quantity, None), ("measured", y, known)):
            lower, upper = model.predict_interval(X, 0.9, noise_variance=given)
            inside[name].append(np.mean((lower < target) & (target < upper)))
    assert np.mean(found) == pytest.approx(EXCESS, abs=0.03)
    assert np.mean(inside["quantity"]) == pytest.approx(0.9, abs=0.03)
    assert np.mean(inside["measured"]) == pytest.approx(0.9, abs=0.02)


def test_without_excess_it_is_known_noise_and_no_warning():
    X, y, known = measured(excess=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of().fit(X, y, noise_variance=known)
    assert model.noise_variance_ < 0.1 * known.mean()
    alone = model_of(noise="homoscedastic").fit(X, y, noise_variance=known)
    assert_allclose(model.predict(X), alone.predict(X), atol=0.05)


@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize(("factor", "shift"), [(1e6, 3e6), (1e-6, 0.0)])
def test_units_do_not_matter(fitted, factor, shift, normalize_y):
    X, y, known = measured()
    model = model_of(normalize_y=normalize_y)
    model.fit(X, factor * y + shift, noise_variance=factor**2 * known)
    assert_allclose((model.predict(X) - shift) / factor, fitted.predict(X), atol=0.01)
    excess = np.sqrt(model.noise_variance_) / factor
    assert excess == pytest.approx(np.sqrt(fitted.noise_variance_), rel=0.01)


def test_copies_of_unequal_and_of_equal_variances():
    X, y, known = measured(60)
    rng = np.random.RandomState(1)
    # Three measurements at each row, two of them of the same variance.
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3) + 0.1 * rng.standard_normal(180)
    known = np.repeat(known, 3) * np.tile([1.0, 1.0, 2.0], 60)
    fixed = {"kernel": KERNEL, "optimizer": None, "noise": ExcessNoise(EXCESS**2, "fixed")}
    model = model_of(**fixed, n_inducing=60, selection_tol=0.0, fit_prior_mean=False)
    model.fit(X, y, noise_variance=known)
    covariance = KERNEL(X) + np.diag(known + EXCESS**2)
    expected = stats.multivariate_normal(cov=covariance).logpdf(y)
    assert model.lower_bound_ == pytest.approx(expected, abs=1e-4)
    weight = rng.randint(1, 4, 180)
    one = model_of().fit(X, y, weight, noise_variance=known)
    order = rng.permutation(np.repeat(np.arange(180), weight))
    other = model_of().fit(X[order], y[order], noise_variance=known[order])
    assert_array_equal(one.predict(X), other.predict(X))


def test_each_output_has_its_own_excess():
    X, y, known = measured(400)
    Y, both = np.column_stack([y, 100.0 * y]), np.column_stack([known, 1e4 * known])
    Y[:, 1] += 60.0 * np.random.RandomState(1).standard_normal(400)
    model = model_of(normalize_y=True).fit(X, Y, noise_variance=both)
    expected = [EXCESS, np.hypot(100.0 * EXCESS, 60.0)]
    assert_allclose(np.sqrt(model.noise_variance_), expected, rtol=0.15)


def test_few_rows_are_averaged_over_the_excess():
    X, y, known = measured(80)
    model = model_of(hyperparameters="auto").fit(X, y, noise_variance=known)
    assert len(set(model.hyperparameter_draws_[:, -1])) > 1
    best = model_of().fit(X, y, noise_variance=known)
    assert_allclose(model.predict(X), best.predict(X), atol=0.1)


# Predictions


def test_what_is_known_is_added_to_the_excess(fitted):
    X, y, known = measured(50, seed=1)
    _, variance = fitted.latent_mean_and_variance(X)
    excess = fitted.noise_variance_
    assert_allclose(fitted.predict(X, return_std=True)[1] ** 2, variance + excess)
    assert_allclose(fitted.predict_noise_std(X) ** 2, excess)
    mean, std = fitted.predict(X, return_std=True, noise_variance=known)
    assert_allclose(std**2, variance + excess + known)
    density = fitted.log_predictive_density(X, y, noise_variance=known)
    assert_allclose(density, stats.norm.logpdf(y, mean, std))
    upper = fitted.predict_quantiles(X, 0.9, noise_variance=known)
    assert_allclose(upper, stats.norm.ppf(0.9, mean, std))
    above = fitted.predict_exceedance(X, 0.5, noise_variance=known)
    assert_allclose(above, stats.norm.sf(0.5, mean, std))
    draws = fitted.sample_y(X[:5], 20_000, noise_variance=known[:5])
    assert_allclose(draws.std(axis=1), std[:5], rtol=0.03)
    covariance = fitted.predict(X, return_cov=True, noise_variance=known)[1]
    assert_allclose(covariance.diagonal(), std**2)


def test_other_methods_take_the_data_of_fit(fitted):
    X, y, known = measured()
    certificate = fitted.certificate(X, y, noise_variance=known)
    assert certificate.lower_bound == pytest.approx(fitted.lower_bound_, abs=1e-6)
    assert certificate.upper_bound > fitted.lower_bound_
    smaller = pickle.loads(pickle.dumps(fitted)).truncate(5, X, y, noise_variance=known)
    assert smaller.lower_bound_ < fitted.lower_bound_
    with pytest.raises(ValueError, match="noise_variance is needed for these rows"):
        fitted.certificate(X, y)
    local = LocalCorrection(model_of(), random_state=0).fit(X, y, noise_variance=known)
    truth = np.sin(2.0 * X[:, 0])
    assert np.sqrt(np.mean((local.predict(X) - truth) ** 2)) < 0.2
    search = BoundSearch(model_of(), {"kernel": ["rbf", "matern32"]})
    search.fit(X, y, noise_variance=known)
    assert search.best_estimator_.noise_variance_ > 0.0


def test_warm_start_goes_on_from_the_last_excess(fitted):
    X, y, known = measured()
    model = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True)
    model.fit(X, y, noise_variance=known)
    assert model.n_evaluations_ < fitted.n_evaluations_
    assert model.lower_bound_ > fitted.lower_bound_ - 0.01
    with pytest.raises(ValueError, match="warm_start=True needs the kind of noise"):
        model.set_params(noise="homoscedastic").fit(X, y)


# Warnings and input


def test_outliers_are_reported_and_unequal_errors_are_not():
    X, y, known = measured(1000)
    known = known * np.random.RandomState(1).choice([1.0, 30.0], 1000, p=[0.9, 0.1])
    y = np.sin(2.0 * X[:, 0]) + np.sqrt(known) * np.random.RandomState(2).standard_normal(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model_of().fit(X, y, noise_variance=known)
    y[::50] += 30.0
    with pytest.warns(UserWarning, match='set noise="student-t" without noise_variance'):
        model_of().fit(X, y, noise_variance=known)


def test_the_known_part_must_be_given():
    X, y, _ = measured(30)
    model = model_of()
    with pytest.raises(ValueError, match="noise_variance is needed with noise='excess'"):
        model.fit(X, y)
    assert not hasattr(model, "lower_bound_")


def test_a_fixed_variance_is_refused_beside_a_known_one():
    X, y, known = measured(30)
    with pytest.raises(ValueError, match="noise_variance must be None with noise=Homoscedastic"):
        model_of(noise=HomoscedasticNoise(0.1, "fixed")).fit(X, y, noise_variance=known)


# Limits


def limits(n=300, seed=0):
    """Return `measured` quantities, those below a threshold of their own as upper limits."""
    X, y, known = measured(n, seed=seed)
    limit = -1.0 + 2.0 * np.sqrt(known)
    return X, np.maximum(y, limit), known, np.where(y < limit, -1, 1)


@pytest.mark.parametrize("noise", ["homoscedastic", ExcessNoise(EXCESS**2, "fixed")])
def test_the_bound_with_limits_is_below_the_exact_evidence_and_close_to_it(noise):
    X, y, known, event = limits(12)
    assert set(event) == {-1, 1}
    variance = known if noise == "homoscedastic" else known + EXCESS**2
    evidence = log_evidence_with_limits(KERNEL(X) + np.diag(variance), y, event)
    options = {"kernel": KERNEL, "noise": noise, "optimizer": None, "fit_prior_mean": False}
    model = model_of(**options, n_inducing=12).fit(X, y, noise_variance=known, event=event)
    assert evidence - 0.3 < model.lower_bound_ < evidence + 1e-6


@pytest.mark.parametrize("noise", ["homoscedastic", "excess"])
def test_limits_with_known_noise(noise):
    X, y, known, event = limits(600)
    if noise == "homoscedastic":
        rng = np.random.RandomState(1)
        number = np.sin(2.0 * X[:, 0]) + np.sqrt(known) * rng.standard_normal(600)
        event = np.where(number < -0.5, -1, 1)
        y = np.maximum(number, -0.5)
    model = model_of(noise=noise).fit(X, y, noise_variance=known, event=event)
    truth = np.sin(2.0 * X[:, 0])
    error = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    naive = np.sqrt(np.mean((model_of().fit(X, y, noise_variance=known).predict(X) - truth) ** 2))
    assert error < 0.15
    assert error < 0.8 * naive
    if noise == "excess":
        assert np.sqrt(model.noise_variance_) == pytest.approx(EXCESS, rel=0.15)
    certificate = model.certificate(X, y, noise_variance=known, event=event)
    assert certificate.lower_bound == pytest.approx(model.lower_bound_, abs=1e-2)
    density = model.log_predictive_density(X, y, noise_variance=known, event=event)
    mean, std = model.predict(X, return_std=True, noise_variance=known)
    law = stats.norm(mean, std)
    assert_allclose(density, np.where(event == -1, law.logcdf(y), law.logpdf(y)), rtol=1e-6)


def test_a_warm_start_needs_limits_again():
    X, y, known, event = limits(100)
    model = model_of(warm_start=True).fit(X, y, noise_variance=known, event=event)
    with pytest.raises(ValueError, match="and event if it had event"):
        model.fit(X, y, noise_variance=known)
