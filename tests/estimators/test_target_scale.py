"""Targets of any scale: what is learned from them, and what is said if it is little."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from sparsegpc import HomoscedasticNoise, SparseGPRegressor, StochasticSparseGPRegressor
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread


def waves(n=80):
    """Return rows and targets of standard deviation one."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    return X, y / y.std()


def texts_of(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert {item.filename for item in caught} <= {__file__}
    return [str(item.message) for item in caught]


@pytest.mark.parametrize("scale", [1e-5, 1e2, 1e7])
def test_a_kernel_far_from_the_scale_of_the_targets_learns_within_its_limits(scale):
    X, y = waves()
    kernel = ConstantKernel(1.0, (1e-20, 1e20)) * RBF()
    model = SparseGPRegressor(kernel, n_inducing=20)
    assert texts_of(model, X, scale * y) == []
    unit = SparseGPRegressor(kernel, n_inducing=20).fit(X, y)
    # The density of the scaled targets is lower by their scale.
    bound = unit.lower_bound_ - len(y) * np.log(scale)
    assert abs(model.lower_bound_ - bound) < 0.5
    assert model.score(X, scale * y) > 0.95


@pytest.mark.parametrize("noise", ["homoscedastic", "polynomial"])
def test_outputs_of_any_scales_are_learned_as_if_they_had_the_same(noise):
    X, y = waves()
    Y, scales = np.column_stack([y, y[::-1]]), np.array([1.0, 1e4])
    one = SparseGPRegressor(noise=noise, n_inducing=20).fit(X, Y)
    other = SparseGPRegressor(noise=noise, n_inducing=20).fit(X, Y * scales)
    assert_allclose(one.kernel_.theta, other.kernel_.theta, atol=1e-4)
    assert_allclose(other.lower_bound_, one.lower_bound_ - len(y) * np.log(1e4), atol=1e-3)
    assert_allclose(other.predict(X) / scales, one.predict(X), atol=1e-4)
    assert_allclose(other.predict_noise_std(X) / scales, one.predict_noise_std(X), rtol=1e-4)
    normalized = SparseGPRegressor(noise=noise, n_inducing=20, normalize_y=True)
    assert_allclose(normalized.fit(X, Y * scales).predict(X) / scales, one.predict(X), atol=1e-4)
    bound = other.lower_bound(X=X, y=Y * scales)
    assert_allclose(bound, other.lower_bound_, rtol=1e-6)


def test_outputs_keep_their_units_where_the_user_gives_numbers_in_them():
    X, y = waves()
    Y = np.column_stack([y, 3.0 * y])
    fixed = HomoscedasticNoise(0.25, "fixed")
    for noise, expected in ((fixed, 0.5), ("homoscedastic", None)):
        kernel = None if noise is fixed else ConstantKernel(4.0, "fixed") * RBF(1.0)
        model = SparseGPRegressor(kernel, noise=noise, n_inducing=20, fit_prior_mean=False)
        model.fit(X, Y)
        if expected:
            assert_allclose(model.predict_noise_std(X), expected)
        else:
            far = model.latent_mean_and_variance([[1e6]])[1]
            assert_allclose(far, 4.0, rtol=0.1)


REACH = "limits of the kernel give f a standard deviation from"


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [
        (RBF(), 7e4),
        (1.0 * RBF() + WhiteKernel(), 1e-4),
        (1.0 * RBF() + WhiteKernel(), 1e5),
    ],
    ids=str,
)
def test_limits_that_do_not_suit_the_targets_are_named_and_not_the_columns(kernel, scale):
    X, y = waves()
    (text,) = texts_of(SparseGPRegressor(kernel, n_inducing=20, max_iter=30), X, scale * y)
    assert REACH in text
    assert f"that of the targets is {scale:.3g}: set normalize_y=True" in text
    assert "columns" not in text
    model = SparseGPRegressor(kernel, n_inducing=20, normalize_y=True)
    assert texts_of(model, X, scale * y) == []
    assert model.score(X, scale * y) > 0.95


def test_a_variance_too_small_for_the_targets_is_named_though_something_is_learned():
    X, y = waves()
    with pytest.warns(UserWarning, match="from 1 to 1, but that of the targets is 8: set norm"):
        SparseGPRegressor(RBF(), n_inducing=20).fit(X, 8.0 * y)


def test_nothing_is_said_where_nothing_is_learned():
    X, y = waves()
    assert texts_of(SparseGPRegressor(RBF(), optimizer=None, n_inducing=20), X, 1e3 * y) == []


def test_outputs_of_unlike_scale_under_one_kernel_are_named():
    X, y = waves()
    Y = np.column_stack([y, 50.0 * y])
    kernel = ConstantKernel(1.0, (1e-3, 1e6)) * RBF()
    (text,) = texts_of(SparseGPRegressor(kernel, n_inducing=20), X, Y)
    assert "outputs range from 1 to 50" in text
    assert "set normalize_y=True" in text
    assert texts_of(SparseGPRegressor(kernel, n_inducing=20, normalize_y=True), X, Y) == []
    # A constant output has no scale.
    Y = np.column_stack([50.0 * y, np.full(len(y), 3.0)])
    assert not any("range" in text for text in texts_of(SparseGPRegressor(kernel), X, Y))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_minibatches_say_so_too(method):
    X, y = waves()
    model = StochasticSparseGPRegressor(1.0 * RBF(), n_inducing=10, n_epochs=1)
    with pytest.warns(UserWarning, match="divide the targets by their standard dev") as caught:
        getattr(model, method)(X, 1e5 * y)
    assert {item.filename for item in caught} == {__file__}


# Start values


def test_starts_from_the_data_have_the_variance_of_the_targets():
    X = np.random.RandomState(0).randn(30, 2)
    wide = (1e-30, 1e30)
    kernel = ConstantKernel(4.0, wide) * RBF(1.0, wide) + ConstantKernel(1.0, wide) * DotProduct()
    adapted = adapt_kernel(kernel, 2).rescaled_to(1e6, X)
    own, *others = start_values(adapted, measure_spread(X, np.ones(30)))
    assert_allclose(own, kernel.theta)
    for theta in others:
        assert_allclose(kernel.clone_with_theta(theta).diag(X).mean(), 1e6)


def test_without_length_scales_a_start_has_the_variance_of_the_targets():
    X = np.random.RandomState(0).randn(30, 2)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * DotProduct(1.0, "fixed")
    adapted = adapt_kernel(kernel, 2).rescaled_to(1e9, X)
    starts = start_values(adapted, measure_spread(X, np.ones(30)))
    assert_allclose(starts, [[0.0], [np.log(1e3)]])
