"""A noise process of several columns: the length scales of the log variance, and their prior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import helmert
from scipy.stats import multivariate_t
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import GPNoise, SparseGPRegressor
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.noise.base import NoiseData
from tests.estimators.noise.noise_cases import (
    noise_log_density,
    one_of_five,
    one_of_five_log_std,
    plane,
    quiet,
)


def model_of(noise, **parameters):
    """Return a regressor with a length scale for each column."""
    default = {"noise": noise, "n_inducing": 20, "selector": "hgv", "main_effects": False}
    return SparseGPRegressor(**{**default, "hyperparameters": "best", **parameters})


def objective(model):
    return model.lower_bound_ + model.log_prior_


def log_noise_lengths(model):
    """Return the logarithms of the length scales of the learned noise process."""
    return model._noise.posterior.theta[1:]


def tying_log_density(X, log_lengths):
    """Return the log density of tied length scales, minus its maximum.

    The differences, in an orthonormal basis, have a t distribution with two degrees of freedom.
    """
    n = len(log_lengths)
    differences = helmert(n) @ (log_lengths - np.log(X.std(axis=0)))
    scale = (0.5 * (n - 1) + 1.0) * 0.3**2
    t = multivariate_t(np.zeros(n - 1), scale * np.eye(n - 1), df=2.0)
    return t.logpdf(differences) - t.logpdf(np.zeros(n - 1))


@pytest.fixture(scope="module")
def fitted():
    """Models of `one_of_five()` by the length scales of the noise; not to be changed."""
    X, y = one_of_five()
    return {
        lengths: model_of(GPNoise(length_scales=lengths), n_inducing=60).fit(X, y)
        for lengths in ("auto", "common", "free")
    }


def test_noise_that_depends_on_one_of_several_columns_is_recovered(fitted):
    X, y = one_of_five(1000, seed=1)
    auto, common = fitted["auto"], fitted["common"]
    assert objective(auto) > objective(common) + 200.0
    density = auto.log_predictive_density(X, y).mean()
    assert density > common.log_predictive_density(X, y).mean() + 0.5
    truth = one_of_five_log_std(X)
    errors = [np.abs(np.log(model.predict_noise_std(X)) - truth) for model in (auto, common)]
    assert errors[0].mean() < 0.4 < errors[1].mean()
    lengths = log_noise_lengths(auto)
    assert lengths[0] < lengths[1:].min() - 1.0


def test_noise_that_changes_fast_with_one_of_many_columns_is_found(rng):
    """With equal length scales all distances between rows are about the same."""
    X = rng.standard_normal((400, 10))
    log_std = -2.0 + 2.0 * np.sin(6.0 * X[:, 0])
    y = X[:, 1] + np.exp(log_std) * rng.standard_normal(400)
    model = SparseGPRegressor(noise="gp").fit(X, y)
    lengths = log_noise_lengths(model)
    assert lengths[0] < lengths[1:].min() - 1.0
    assert np.abs(np.log(model.predict_noise_std(X)) - log_std).mean() < 0.5


def test_noise_that_depends_on_two_columns_is_found():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 5))
    log_std = -2.0 + 1.5 * np.sin(2.0 * X[:, 0]) + 1.5 * np.cos(2.0 * X[:, 4])
    y = X[:, 1] + np.exp(log_std) * rng.standard_normal(400)
    model = SparseGPRegressor(noise="gp").fit(X, y)
    lengths = log_noise_lengths(model)
    assert lengths[[0, 4]].max() < lengths[1:4].min()
    assert np.abs(np.log(model.predict_noise_std(X)) - log_std).mean() < 0.6


def test_the_log_prior_is_that_of_both_kernels(fitted):
    X, y = one_of_five()
    for lengths, model in fitted.items():
        expected = tying_log_density(X, np.log(model.kernel_.k2.length_scale))
        expected += noise_log_density(model._noise.prior_means[0], y)
        if lengths == "auto":
            expected += tying_log_density(X, log_noise_lengths(model))
        assert model.log_prior_ == pytest.approx(expected, rel=1e-6)


def test_free_length_scales_have_no_prior_and_common_ones_no_differences(fitted):
    assert fitted["free"].lower_bound_ > fitted["auto"].lower_bound_
    assert objective(fitted["free"]) > objective(fitted["auto"])
    n_lengths = {lengths: len(log_noise_lengths(model)) for lengths, model in fitted.items()}
    assert n_lengths == {"auto": 5, "common": 1, "free": 5}


def test_the_default_is_that_of_the_name_and_of_tied_length_scales():
    X, y = plane()
    default, *others = (
        model_of(noise).fit(X, y) for noise in ("gp", GPNoise("rbf", length_scales="tied"))
    )
    for other in others:
        assert other.lower_bound_ == default.lower_bound_


def test_the_units_of_the_columns_do_not_change_the_noise():
    X, y = plane()
    units = np.array([1e3, 1e-2])
    models = model_of("gp").fit(X, y), model_of("gp").fit(units * X, y)
    assert_allclose(objective(models[0]), objective(models[1]), atol=0.01)
    expected = models[0].predict_noise_std(X)
    assert_allclose(models[1].predict_noise_std(units * X), expected, rtol=1e-2)


@pytest.mark.parametrize(("n_columns", "expected"), [(1, 1), (3, 3), (100, 100), (101, 1)])
def test_very_many_columns_have_a_common_length_scale(n_columns, expected):
    X = np.random.RandomState(0).standard_normal((200, n_columns))
    data = NoiseData(X, measure_spread(X, np.ones(len(X))), np.ones(1), [], np.ones(1))
    hyperparameters = GPNoise()._plan(data).hyperparameters
    assert sum(column is not None for column in hyperparameters.columns) == expected


def test_a_kernel_object_is_used_as_it_is_unless_it_has_to_be_tied():
    X, y = plane()
    kernel = ConstantKernel() * RBF([1.0, 10.0])
    given = 1.0 * RBF([1.0, 1.0])
    priors = [
        model_of(GPNoise(kernel, length_scales=lengths), kernel=given).fit(X, y).log_prior_
        for lengths in ("auto", "free", "tied")
    ]
    assert priors[0] == priors[1] == 0.0 > priors[2]
    with pytest.raises(ValueError, match="length_scales='tied' needs"):
        model_of(GPNoise(RBF(), length_scales="tied")).fit(X, y)


@quiet
def test_noise_that_is_constant_gains_nothing_from_length_scales_of_the_columns():
    rng = np.random.RandomState(0)
    X, X_new = rng.standard_normal((2, 150, 8))
    y, y_new = (np.sin(rows[:, 0]) + 0.4 * rng.standard_normal(150) for rows in (X, X_new))
    process, constant = (model_of(noise).fit(X, y) for noise in ("gp", "homoscedastic"))
    assert -0.5 < objective(process) - objective(constant) < 5.0
    densities = [model.log_predictive_density(X_new, y_new).mean() for model in (process, constant)]
    assert densities[0] > densities[1] - 0.05
    assert model_of("auto").fit(X, y).noise_variance_ is not None


def test_the_choice_of_the_noise_counts_the_prior():
    X, y = one_of_five(150)
    auto = model_of("auto").fit(X, y)
    assert auto.noise_variance_ is None
    assert auto.lower_bound_ == pytest.approx(auto.noise_bounds_["gp"], rel=1e-6)
    gain = objective(auto) - objective(model_of("homoscedastic").fit(X, y))
    assert gain > np.log(len(X))


def test_a_warm_start_goes_on_from_the_length_scales_of_the_noise():
    X, y = plane()
    model = model_of("gp", warm_start=True).fit(X, y)
    before, lengths = objective(model), log_noise_lengths(model)
    cold = model.n_evaluations_
    model.fit(X, y)
    assert objective(model) > before - 0.01
    assert model.n_evaluations_ < cold
    assert_allclose(log_noise_lengths(model), lengths, atol=0.1)
    model.set_params(noise=GPNoise(length_scales="common"))
    with pytest.raises(ValueError, match="parameters of the likelihood and the noise"):
        model.fit(X, y)


def test_length_scales_are_a_parameter_as_others_are():
    noise = GPNoise(length_scales="free")
    assert clone(noise).get_params() == noise.get_params()
    assert noise.get_params()["length_scales"] == "free"
    model = clone(model_of(noise)).set_params(noise__length_scales="common")
    X, y = plane()
    assert len(log_noise_lengths(model.fit(X, y))) == 1


def test_bounds_and_smaller_models_keep_the_noise_of_the_columns():
    X, y = plane()
    model = model_of("gp").fit(X, y)
    certificate = model.certificate(X, y)
    assert certificate.lower_bound == pytest.approx(model.lower_bound_)
    assert model.lower_bound_ < certificate.upper_bound
    smaller = model.truncate(10, X, y)
    assert smaller.lower_bound_ < model.lower_bound_
    assert smaller.log_prior_ == model.log_prior_
    assert_allclose(smaller.predict_noise_std(X), model.predict_noise_std(X))


def test_only_the_limits_of_the_user_say_something_of_a_column_without_effect_on_the_noise():
    X, _ = plane()
    data = NoiseData(X, measure_spread(X, np.ones(len(X))), np.ones(1), [], np.ones(1))
    named, given = (GPNoise(kernel)._plan(data) for kernel in (None, RBF([1.0, 10.0])))
    kernel_of_f = adapt_kernel(RBF(), 2)
    named, given = (
        {entry.name: entry.at_limit for entry in plan.extend(kernel_of_f, None).entries}
        for plan in (named, given)
    )
    # None suppresses the warning.
    assert named["noise k2__length_scale[0]"] == {"upper": None}
    assert given["noise length_scale[0]"] == {}
