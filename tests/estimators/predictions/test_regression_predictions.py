"""What fitted regressors predict: y, f, the noise, densities and draws agree with each other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn import config_context
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

from sparsegpc import SparseGPRegressor
from tests.estimators.regression import (
    KERNEL,
    LIGHT_TAILS,
    NOISE,
    NOISES,
    fixed_model,
    grid,
    known_noise,
    model_of,
    quiet,
    two_waves,
    waves,
)


@pytest.fixture(scope="module")
def learned():
    """A regressor that has learned its kernel on `waves()`; not to be changed."""
    return model_of().fit(*waves())


def all_noises(noises=NOISES, **parameters):
    """Return fitted models for every kind of noise, one and two outputs."""
    X, Y = two_waves()
    quick = {"max_iter": 10, "tol": 1e-3, "max_reselections": 0, **parameters}
    for noise in noises:
        for y in (Y[:, 0], Y):
            yield model_of(noise=noise, **quick).fit(X, y)


@quiet
@pytest.mark.parametrize(
    ("normalize_y", "noises"), [(False, NOISES), (True, ["homoscedastic", "gp"])]
)
def test_the_variance_of_targets_is_that_of_f_and_the_noise(normalize_y, noises):
    for model in all_noises(noises, normalize_y=normalize_y):
        mean, std = model.predict(grid(), return_std=True)
        same, covariance = model.predict(grid(), return_cov=True)
        latent_mean, variance = model.latent_mean_and_variance(grid())
        assert_array_equal(model.predict(grid()), mean)
        assert_array_equal(latent_mean, mean)
        assert_allclose(same, mean, atol=1e-10)
        assert_allclose(std**2, variance + model.predict_noise_std(grid()) ** 2, rtol=1e-10)
        columns = covariance if covariance.ndim == 3 else covariance[..., None]
        for k in range(columns.shape[-1]):
            C = columns[..., k]
            assert_allclose(C, C.T, atol=1e-12)
            assert_allclose(C.diagonal(), std.reshape(len(std), -1)[:, k] ** 2, rtol=1e-8)
            assert np.linalg.eigvalsh(C).min() > 0.0


@quiet
def test_draws_have_the_moments_of_the_prediction():
    n = 20_000
    for model in all_noises(LIGHT_TAILS):
        draws = model.sample_y(grid(3), n, random_state=1)
        mean, covariance = model.predict(grid(3), return_cov=True)
        draws, mean = draws.reshape(9, -1, n), mean.reshape(9, -1)
        covariance = covariance.reshape(9, 9, -1)
        for k in range(mean.shape[1]):
            std = np.sqrt(covariance[..., k].diagonal())
            assert np.abs(draws[:, k].mean(axis=1) - mean[:, k]).max() < 5.0 * std.max() / n**0.5
            error = (np.cov(draws[:, k]) - covariance[..., k]) / np.outer(std, std)
            assert np.abs(error).max() < 0.06


@quiet
def test_draws_of_f_have_the_moments_of_f():
    n = 20_000
    for model in all_noises(LIGHT_TAILS):
        f, y = (draw(grid(3), n, random_state=1) for draw in (model.sample_f, model.sample_y))
        assert f.shape == y.shape
        mean, variance = model.latent_mean_and_variance(grid(3))
        assert_allclose(f.mean(axis=-1), mean, atol=5.0 * np.sqrt(variance.max() / n))
        assert_allclose(f.var(axis=-1), variance, rtol=0.06)
        # Draws of f are smooth: neighbours differ by less than those of y, which have noise.
        assert np.diff(f, axis=0).var() < np.diff(y, axis=0).var()
        assert_array_equal(f[..., :5], model.sample_f(grid(3), n, 1)[..., :5])


def test_rows_where_the_kernel_overflows_are_refused():
    model = fixed_model(kernel=ConstantKernel(1e3) * DotProduct()).fit(*waves())
    refused = pytest.raises(ValueError, match=r"X holds a value of 1e\+154, .* kernel overflows")
    for method in (model.latent_mean_and_variance, model.predict, model.sample_f, model.sample_y):
        with refused:
            method([[0.0, 1.0], [1e154, 1.0]])


def test_draws_follow_the_random_state_and_leave_the_global_one_alone(learned):
    np.random.seed(5)
    expected = np.random.RandomState(5).uniform()
    one, same, other = (learned.sample_y(grid(), 3, random_state=seed) for seed in (0, 0, 1))
    assert_array_equal(one, same)
    assert np.abs(one - other).min() > 0.0
    assert np.random.uniform() == expected
    assert_array_equal(learned.sample_y(grid(), 3), one)
    assert learned.sample_y(grid()).shape == (len(grid()), 1)


def test_the_log_density_is_that_of_a_normal_distribution(learned):
    X, y = waves(30, seed=4)
    mean, std = learned.predict(X, return_std=True)
    assert_allclose(learned.log_predictive_density(X, y), norm.logpdf(y, mean, std), rtol=1e-10)
    X, Y = two_waves(30)
    model = fixed_model(normalize_y=True).fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    assert_allclose(model.log_predictive_density(X, Y), norm.logpdf(Y, mean, std), rtol=1e-10)
    std = np.sqrt(model.latent_mean_and_variance(X)[1] + known_noise(30, 2))
    density = model.log_predictive_density(X, Y, noise_variance=known_noise(30, 2))
    assert_allclose(density, norm.logpdf(Y, mean, std), rtol=1e-10)


def test_far_from_the_rows_the_prior_returns(learned):
    mean, variance = learned.latent_mean_and_variance([[1e6, 0.0]])
    assert_allclose(mean, learned.prior_mean_)
    (q,) = learned._posterior.functions
    assert_allclose(variance, learned.kernel_.diag(np.zeros((1, 2))) + q.mean_variance)


def test_predictions_do_not_depend_on_which_rows_are_asked_for_together(learned):
    one_by_one = [learned.predict(x[None], return_std=True) for x in grid()]
    assert_allclose(np.hstack(one_by_one), learned.predict(grid(), return_std=True), rtol=1e-10)


def test_results_do_not_depend_on_the_working_memory():
    X, y = waves(3000)
    default = fixed_model().fit(X, y)
    with config_context(working_memory=0.05):
        blocked = fixed_model().fit(X, y)
        std = blocked.predict(X, return_std=True)[1]
    assert_allclose(blocked.lower_bound_, default.lower_bound_, rtol=1e-10)
    assert_allclose(std, default.predict(X, return_std=True)[1], rtol=1e-8)


@pytest.mark.parametrize("n_outputs", [None, 1, 2, 3])
def test_shapes_are_those_of_scikit_learn(n_outputs):
    X, y = waves()
    if n_outputs is not None:
        y = np.repeat(y[:, None], n_outputs, axis=1)
    model = fixed_model().fit(X, y)
    full = GaussianProcessRegressor(KERNEL, optimizer=None, alpha=NOISE).fit(X, y)
    tail = () if n_outputs is None else (n_outputs,)
    assert model.predict(grid()).shape == (16, *tail)
    assert model.predict(grid(), return_std=True)[1].shape == (16, *tail)
    assert model.predict(grid(), return_cov=True)[1].shape == (16, 16, *tail)
    assert model.sample_y(grid(), 5).shape == (16, *tail, 5)
    # scikit-learn makes one column flat in `predict`, which loses the shape of y.
    if n_outputs != 1:
        assert full.predict(grid()).shape == (16, *tail)
        assert full.predict(grid(), return_std=True)[1].shape == (16, *tail)
        assert full.predict(grid(), return_cov=True)[1].shape == (16, 16, *tail)
        assert full.sample_y(grid(), 5).shape == (16, *tail, 5)
    assert model.predict_noise_std(grid()).shape == (16, *tail)
    assert model.log_predictive_density(X, y).shape == (60, *tail)
    assert np.shape(model.prior_mean_) == np.shape(model.noise_variance_) == tail
    for part in model.latent_mean_and_variance(grid()):
        assert part.shape == (16, *tail)
        assert part.dtype == np.float64


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [0, 1])
def test_draws_of_an_exact_function_are_not_wider_than_its_moments(seed):
    """The covariance given the points is then as small as rounding errors."""
    rng = np.random.RandomState(seed)
    X, new = rng.uniform(-1.0, 1.0, (60, 2)), rng.uniform(-1.0, 1.0, (100, 2))
    model = SparseGPRegressor(hyperparameters="best").fit(X, (X[:, 0] + 0.5 * X[:, 1]) ** 2)
    _, variance = model.latent_mean_and_variance(new)
    ratio = model.sample_f(new, 2000).std(axis=1) / np.sqrt(variance)
    assert ratio.max() < 1.1
    assert np.median(ratio) > 0.9
