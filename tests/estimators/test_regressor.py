"""The regressor as users see it: what it computes, what it accepts, what it promises and says."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    PolynomialNoise,
    SparseGPRegressor,
)

KERNEL = ConstantKernel(2.0) * RBF(1.5)
NOISE = 0.05
# Fits in milliseconds, where what is learned is not the point.
FIXED = {"kernel": KERNEL, "noise": HomoscedasticNoise(NOISE), "optimizer": None}
ALL_ROWS = {"n_inducing": 10_000, "selection_tol": 0.0}
NOISES = ["homoscedastic", "polynomial", "gp"]
# Learning is cut short, or finds noise that does not vary: that is said, but not the point.
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
METHODS = ("trace", "whitened", "cauchy-schwarz", "one-pass", "conjugate-gradient")


def waves(n=60, seed=0):
    """Return read-only rows in the square from -3 to 3, and targets with noise 0.2."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def two_waves(n=60):
    """Return rows and two targets."""
    X, y = waves(n)
    return X, np.column_stack([y, np.cos(X[:, 1]) - 0.3 * X[:, 0] + 0.1 * waves(n, 1)[1]])


def known_noise(n=60, n_outputs=None):
    """Return noise variances over two orders of magnitude."""
    shape = n if n_outputs is None else (n, n_outputs)
    return 10.0 ** np.random.RandomState(7).uniform(-2.0, 0.0, shape)


def grid(n=4):
    """Return points on a grid that reaches beyond the rows of `waves`."""
    side = np.linspace(-4.0, 4.0, n)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


def model_of(**parameters):
    return SparseGPRegressor(**{"n_inducing": 12, "selector": "hgv", **parameters})


def fixed_model(**parameters):
    return model_of(**{**FIXED, **parameters})


@pytest.fixture(scope="module")
def learned():
    """A regressor that has learned its kernel on `waves()`; not to be changed."""
    return model_of().fit(*waves())


# Against other implementations


@pytest.mark.parametrize("bound", ["tight", "spherical", "standard"])
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [KERNEL, ConstantKernel(0.7) * Matern([1.0, 2.0], nu=1.5) + DotProduct(0.5)],
    ids=["rbf", "sum"],
)
def test_with_all_rows_inducing_it_is_the_full_model(kernel, bound, normalize_y):
    X, y = waves()
    y = 3.0 * y + 5.0
    variance = known_noise()
    model = SparseGPRegressor(
        kernel,
        optimizer=None,
        bound=bound,
        fit_prior_mean=False,
        normalize_y=normalize_y,
        **ALL_ROWS,
    ).fit(X, y, noise_variance=variance)
    alpha = variance / y.var() if normalize_y else variance
    full = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None, normalize_y=normalize_y)
    full.fit(X, y)
    assert len(model.inducing_points_) == len(X)
    mean, std = full.predict(grid(), return_std=True)
    _, covariance = full.predict(grid(), return_cov=True)
    ours = model.latent_mean_and_variance(grid())
    assert_allclose(ours[0], mean, atol=1e-6)
    assert_allclose(np.sqrt(ours[1]), std, atol=1e-6)
    # scikit-learn predicts f; the noise of new targets comes on top.
    new = np.linspace(0.1, 2.0, len(grid()))
    assert_allclose(model.predict(grid()), mean, atol=1e-6)
    assert_allclose(
        model.predict(grid(), return_std=True, noise_variance=new)[1] ** 2, std**2 + new, atol=1e-6
    )
    assert_allclose(
        model.predict(grid(), return_cov=True, noise_variance=new)[1],
        covariance + np.diag(new),
        atol=1e-6,
    )
    units = len(y) * np.log(y.std()) if normalize_y else 0.0
    likelihood = full.log_marginal_likelihood_value_
    assert_allclose(model.lower_bound_, likelihood - units, atol=1e-6)


def test_learning_with_all_rows_finds_what_the_full_model_finds():
    X, y = waves()
    kernel = KERNEL + WhiteKernel(0.1)
    model = SparseGPRegressor(kernel, fit_prior_mean=False, tol=1e-8, **ALL_ROWS).fit(X, y)
    full = GaussianProcessRegressor(kernel, normalize_y=False).fit(X, y)
    assert_allclose(model.lower_bound_, full.log_marginal_likelihood_value_, atol=1e-4)
    assert_allclose(model.kernel_.theta, full.kernel_.k1.theta, atol=0.01)
    assert_allclose(model.noise_variance_, full.kernel_.k2.noise_level, rtol=0.01)


def test_the_prior_mean_is_the_generalised_least_squares_estimate():
    X, y = waves()
    y = y + 7.0
    variance = known_noise()
    model = fixed_model(**ALL_ROWS).fit(X, y, noise_variance=variance)
    C = KERNEL(X) + np.diag(variance)
    inverse = np.linalg.inv(C)
    mean = inverse.sum(axis=0) @ y / inverse.sum()
    assert_allclose(model.prior_mean_, mean, atol=1e-6)
    assert_allclose(
        model.lower_bound_, multivariate_normal(np.full(len(y), mean), C).logpdf(y), atol=1e-6
    )
    K = KERNEL(grid(), X)
    assert_allclose(model.predict(grid()), mean + K @ inverse @ (y - mean), atol=1e-6)


def diabetes(n=150):
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X)[:n], y[:n]


@pytest.mark.parametrize("n_inducing", [3, 30])
def test_bounds_are_ordered_around_the_likelihood_of_the_full_model(n_inducing):
    X, y = diabetes()
    kernel = ConstantKernel(70.0**2) * RBF(4.0)
    C = kernel(X) + 3000.0 * np.eye(len(X))
    exact = multivariate_normal(np.zeros(len(X)), C).logpdf(y)
    lower = []
    for bound in ("standard", "spherical", "tight"):
        model = fixed_model(
            kernel=kernel,
            noise=HomoscedasticNoise(3000.0),
            selector=X[:n_inducing],
            bound=bound,
            fit_prior_mean=False,
        ).fit(X, y)
        lower.append(model.lower_bound_)
    upper = [model.certificate(X, y, method=method).upper_bound for method in METHODS]
    assert lower[0] < lower[1] < lower[2] < exact < min(upper)
    trace, whitened, crude, one_pass, gradients = upper
    assert gradients <= one_pass <= crude
    assert model.certificate(X, y).upper_bound == min(trace, whitened, crude, one_pass)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    n_inducing=st.integers(1, 40),
    bound=st.sampled_from(["standard", "spherical", "tight"]),
    selector=st.sampled_from(["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"]),
)
def test_no_bound_exceeds_the_likelihood_of_the_full_model(seed, n_inducing, bound, selector):
    X, y = waves(40, seed)
    variance = known_noise(40)
    model = fixed_model(
        n_inducing=n_inducing,
        selection_tol=0.0,
        bound=bound,
        selector=selector,
        random_state=seed,
        fit_prior_mean=False,
    ).fit(X, y, noise_variance=variance)
    exact = multivariate_normal(np.zeros(40), KERNEL(X) + np.diag(variance)).logpdf(y)
    assert model.lower_bound_ <= exact + 1e-6


def test_the_default_beats_linear_regression_on_diabetes_without_a_warning():
    X, y = load_diabetes(return_X_y=True)
    ours, linear = [], []
    for train, test in KFold(4, shuffle=True, random_state=0).split(X):
        model = SparseGPRegressor(n_inducing=30).fit(X[train], y[train])
        ours.append(model.log_predictive_density(X[test], y[test]).mean())
        line = LinearRegression().fit(X[train], y[train])
        error = y[train] - line.predict(X[train])
        std = np.sqrt(error @ error / (len(train) - X.shape[1] - 1))
        linear.append(norm.logpdf(y[test], line.predict(X[test]), std).mean())
        assert model.converged_
    assert np.mean(ours) > np.mean(linear)


def test_a_kernel_known_by_its_values_only_gives_the_fit_of_the_built_in_one():
    class Unknown(RBF):
        """Not the RBF by its type, so nothing is known of its derivatives."""

    X, y = waves()
    built_in, by_values = (
        model_of(kernel=ConstantKernel() * part + WhiteKernel(0.1), selector=X[::4]).fit(X, y)
        for part in (RBF(1.0), Unknown(1.0))
    )
    assert isinstance(by_values.kernel_.k2, Unknown)
    assert_allclose(by_values.lower_bound_, built_in.lower_bound_, atol=1e-3)
    assert_allclose(by_values.predict(grid()), built_in.predict(grid()), atol=3e-2)


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel() * Matern([1.0, 1.0], nu=0.5),
        ConstantKernel() * Matern(nu=0.7),
        ConstantKernel() * sk.RationalQuadratic(),
        RBF() + ConstantKernel() * DotProduct(),
    ],
    ids=str,
)
@quiet
def test_learning_raises_the_bound_of_any_kernel(kernel):
    X, y = waves()
    fixed = model_of(kernel=kernel, optimizer=None).fit(X, y)
    model = model_of(kernel=kernel, max_iter=30, tol=1e-3, max_reselections=1).fit(X, y)
    assert model.lower_bound_ > fixed.lower_bound_ + 0.1
    assert type(model.kernel_) is type(kernel)
    assert model.score(X, y) > 0.8


# Predictions agree with each other


def all_noises(**parameters):
    """Return fitted models for every kind of noise, one and two outputs."""
    X, Y = two_waves()
    quick = {"max_iter": 10, "tol": 1e-3, "max_reselections": 0, **parameters}
    for noise in NOISES:
        for y in (Y[:, 0], Y):
            yield model_of(noise=noise, **quick).fit(X, y)


@quiet
@pytest.mark.parametrize("normalize_y", [False, True])
def test_the_variance_of_targets_is_that_of_f_and_the_noise(normalize_y):
    for model in all_noises(normalize_y=normalize_y):
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
    for model in all_noises():
        draws = model.sample_y(grid(3), n, random_state=1)
        mean, covariance = model.predict(grid(3), return_cov=True)
        draws, mean = draws.reshape(9, -1, n), mean.reshape(9, -1)
        covariance = covariance.reshape(9, 9, -1)
        for k in range(mean.shape[1]):
            std = np.sqrt(covariance[..., k].diagonal())
            assert np.abs(draws[:, k].mean(axis=1) - mean[:, k]).max() < 5.0 * std.max() / n**0.5
            error = (np.cov(draws[:, k]) - covariance[..., k]) / np.outer(std, std)
            assert np.abs(error).max() < 0.06


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
    assert_allclose(variance, learned.kernel_.diag(np.zeros((1, 2))))


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


# Several outputs


@pytest.mark.parametrize("noise", ["homoscedastic", "polynomial", "gp", HomoscedasticNoise(0.1)])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_outputs_with_fixed_hyperparameters_are_those_of_models_of_their_own(noise, normalize_y):
    X, Y = two_waves()
    points = X[::5]
    model = fixed_model(noise=noise, selector=points, normalize_y=normalize_y)
    both = clone(model).fit(X, Y)
    single = [clone(model).fit(X, y) for y in Y.T]
    assert_allclose(both.lower_bound_, sum(one.lower_bound_ for one in single), rtol=1e-8)
    assert_allclose(both.prior_mean_, [one.prior_mean_ for one in single], rtol=1e-6)
    for k, one in enumerate(single):
        for ours, alone in zip(
            both.predict(grid(), return_std=True), one.predict(grid(), return_std=True), strict=True
        ):
            assert_allclose(ours[:, k], alone, rtol=1e-6)
        assert_allclose(
            both.predict(grid(), return_cov=True)[1][..., k],
            one.predict(grid(), return_cov=True)[1],
            atol=1e-8,
        )
        assert_allclose(
            both.log_predictive_density(X, Y)[:, k],
            one.log_predictive_density(X, Y[:, k]),
            rtol=1e-6,
        )
        noise_std = both.predict_noise_std(grid())[:, k]
        assert_allclose(noise_std, one.predict_noise_std(grid()), rtol=1e-6)


def test_outputs_with_known_noise_of_their_own():
    X, Y = two_waves()
    variance = known_noise(60, 2)
    both = fixed_model(selector=X[::5]).fit(X, Y, noise_variance=variance)
    for k in range(2):
        one = fixed_model(selector=X[::5]).fit(X, Y[:, k], noise_variance=variance[:, k])
        assert_allclose(both.predict(grid())[:, k], one.predict(grid()), rtol=1e-8)
    shared = fixed_model(selector=X[::5]).fit(X, Y, noise_variance=variance[:, 0])
    assert_allclose(shared.predict(grid())[:, 0], both.predict(grid())[:, 0], rtol=1e-8)
    assert np.abs(shared.predict(grid())[:, 1] - both.predict(grid())[:, 1]).max() > 1e-3


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


def test_outputs_of_different_scales_are_equals_with_normalize_y():
    X, Y = two_waves()
    plain = model_of(normalize_y=True).fit(X, Y)
    scaled = model_of(normalize_y=True).fit(X, Y * [1e-6, 1e6] + [1e3, -1e6])
    assert_allclose(scaled.kernel_.theta, plain.kernel_.theta, atol=1e-3)
    expected = plain.predict(grid()) * [1e-6, 1e6] + [1e3, -1e6]
    assert_allclose(scaled.predict(grid()) - [1e3, -1e6], expected - [1e3, -1e6], rtol=1e-2)


# Units of y


@quiet
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("scale", "offset"), [(1000.0, -5e4), (1e-8, 0.0), (1e8, 1e9)])
def test_predictions_follow_the_units_of_the_targets(noise, normalize_y, scale, offset):
    X, y = waves()
    quick = {"max_iter": 10, "max_reselections": 0, "normalize_y": normalize_y, "noise": noise}
    plain, scaled = model_of(**quick).fit(X, y), model_of(**quick).fit(X, scale * y + offset)
    mean, std = plain.predict(grid(), return_std=True)
    ours = scaled.predict(grid(), return_std=True)
    assert_allclose((ours[0] - offset) / scale, mean, atol=1e-4)
    assert_allclose(ours[1] / scale, std, rtol=1e-3)
    noise_std = scaled.predict_noise_std(grid()) / scale
    assert_allclose(noise_std, plain.predict_noise_std(grid()), rtol=1e-3)
    # A density of y is one per unit of y.
    shift = len(y) * np.log(scale)
    assert_allclose(scaled.lower_bound_, plain.lower_bound_ - shift, atol=1e-2)
    assert_allclose(scaled.lower_bounds_, plain.lower_bounds_ - shift, atol=1e-2)
    assert_allclose(
        scaled.log_predictive_density(X, scale * y + offset),
        plain.log_predictive_density(X, y) - np.log(scale),
        atol=1e-3,
    )
    ours, theirs = scaled.certificate(X, scale * y + offset), plain.certificate(X, y)
    assert_allclose(ours.upper_bound, theirs.upper_bound - shift, atol=1e-2)
    assert_allclose(ours.gap_per_row, theirs.gap_per_row, atol=1e-4)


def test_normalize_y_is_the_fit_to_normalised_targets():
    X, y = waves()
    y = 40.0 * y - 7.0
    inside = model_of(normalize_y=True).fit(X, y)
    outside = model_of().fit(X, (y - y.mean()) / y.std())
    assert_allclose(inside.kernel_.theta, outside.kernel_.theta, atol=1e-6)
    assert_allclose(inside.predict(grid()), y.mean() + y.std() * outside.predict(grid()), rtol=1e-6)
    assert_allclose(inside.noise_variance_, y.var() * outside.noise_variance_, rtol=1e-6)
    offset = len(y) * np.log(y.std())
    assert_allclose(inside.lower_bound_, outside.lower_bound_ - offset, rtol=1e-8)
    assert_allclose(inside.prior_mean_, y.mean() + y.std() * outside.prior_mean_, rtol=1e-6)


def test_normalize_y_uses_the_moments_of_the_weighted_targets():
    X, y = waves()
    weight = np.random.RandomState(0).randint(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    weighted = model_of(normalize_y=True).fit(X, 10.0 * y, sample_weight=weight)
    copies = model_of(normalize_y=True).fit(X[repeated], 10.0 * y[repeated])
    assert weighted.lower_bound_ == copies.lower_bound_


def test_without_a_learned_mean_normalised_targets_have_the_mean_of_the_weighted_ones(rng):
    X, Y = two_waves()
    weight = rng.uniform(0.0, 3.0, 60)
    model = fixed_model(normalize_y=True, fit_prior_mean=False).fit(X, Y, weight)
    mean = np.average(Y, axis=0, weights=weight)
    assert_allclose(model.prior_mean_, mean, rtol=1e-12)
    assert_allclose(model.predict([[1e6, 0.0]])[0], mean, rtol=1e-10)
    std = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    variance = model.latent_mean_and_variance([[1e6, 0.0]])[1][0]
    assert_allclose(variance, 2.0 * std**2, rtol=1e-10)
    assert fixed_model(fit_prior_mean=False).fit(X, Y[:, 0], weight).prior_mean_ == 0.0


def test_what_growth_and_verbose_report_is_in_units_of_the_targets(capsys):
    X, y = waves()
    model = model_of(n_inducing="auto", normalize_y=True, verbose=1).fit(X, 1000.0 * y)
    assert_allclose(model.growth_[-1]["lower_bound"], model.lower_bound_, atol=1e-3)
    printed = capsys.readouterr().out.splitlines()
    assert float(printed[-1].split("bound ")[1]) == pytest.approx(model.lower_bound_, abs=1e-3)


# Weights, copies, the order of rows


def assert_same_model(one, other):
    assert_array_equal(one.inducing_points_, other.inducing_points_)
    assert one.lower_bound_ == other.lower_bound_
    for ours, theirs in zip(
        one.latent_mean_and_variance(grid()), other.latent_mean_and_variance(grid()), strict=True
    ):
        assert_array_equal(ours, theirs)


@quiet
@pytest.mark.parametrize("noise", [*NOISES, "known"])
@pytest.mark.parametrize("two", [False, True])
def test_weights_are_repetition_whatever_the_order_of_rows(noise, two, rng):
    X, y = two_waves(40) if two else waves(40)
    weight = rng.randint(0, 4, len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    variance = known_noise(40) if noise == "known" else None
    quick = {"n_inducing": 8, "max_iter": 5, "tol": 1e-3, "max_reselections": 1}
    model = model_of(noise="homoscedastic" if variance is not None else noise, **quick)
    weighted = clone(model).fit(X, y, weight, noise_variance=variance)
    assert len(weighted.inducing_points_) <= 8 < (weight > 0).sum()
    for _ in range(3):
        order = rng.permutation(repeated)
        given_noise = None if variance is None else variance[order]
        assert_same_model(
            clone(model).fit(X[order], y[order], noise_variance=given_noise), weighted
        )
    ours = weighted.certificate(X, y, weight, variance)
    theirs = weighted.certificate(X[order], y[order], noise_variance=given_noise)
    assert ours.upper_bounds == theirs.upper_bounds
    assert ours.n_rows == weight.sum()


def test_different_targets_of_one_row_are_weighed_against_each_other():
    X, y = waves(40)
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, y[:10] + 3.0])
    variance = known_noise(50)
    model = fixed_model(fit_prior_mean=False, **ALL_ROWS).fit(X, y, noise_variance=variance)
    full = GaussianProcessRegressor(KERNEL, alpha=variance, optimizer=None).fit(X, y)
    assert len(model.inducing_points_) == 40
    assert_allclose(model.predict(grid()), full.predict(grid()), atol=1e-6)
    assert_allclose(model.lower_bound_, full.log_marginal_likelihood_value_, rtol=1e-8)


def test_parts_of_a_row_add_up_to_the_row(rng):
    X, y = waves(40)
    share = rng.uniform(size=len(X))
    parts = fixed_model(n_inducing=8).fit(
        np.concatenate([X, X]), np.tile(y, 2), np.concatenate([share, 1 - share])
    )
    whole = fixed_model(n_inducing=8).fit(X, y)
    assert_allclose(parts.lower_bound_, whole.lower_bound_, rtol=1e-10)
    assert_allclose(parts.predict(grid()), whole.predict(grid()), rtol=1e-8)


def test_a_weight_divides_the_variance_of_known_noise_where_predictions_are_concerned(rng):
    X, y = waves(40)
    weight = rng.uniform(0.2, 3.0, 40)
    weighted = fixed_model(selector=X[::4]).fit(X, y, weight, noise_variance=known_noise(40))
    scaled = fixed_model(selector=X[::4]).fit(X, y, noise_variance=known_noise(40) / weight)
    assert_allclose(weighted.predict(grid()), scaled.predict(grid()), rtol=1e-8)
    constant = 0.5 * (weight * np.log(2 * np.pi * known_noise(40))).sum()
    other = 0.5 * np.log(2 * np.pi * known_noise(40) / weight).sum()
    assert_allclose(weighted.lower_bound_ + constant, scaled.lower_bound_ + other, rtol=1e-8)


def test_a_row_of_weight_zero_is_no_row(rng):
    X, y = waves(40)
    weight = rng.uniform(0.5, 2.0, len(X))
    padded = model_of(n_inducing=8, noise="polynomial").fit(
        np.concatenate([[[50.0, -70.0], X[0], [np.pi, 1e5]], X]),
        np.concatenate([[1e9, y[0] + 1.0, -1e9], y]),
        np.concatenate([np.zeros(3), weight]),
    )
    plain = model_of(n_inducing=8, noise="polynomial").fit(X, y, weight)
    assert_same_model(padded, plain)
    assert_array_equal(padded.inducing_indices_, plain.inducing_indices_ + 3)


@pytest.mark.parametrize("weight", [2.0, 2, [2.0] * 40, np.full(40, 2, dtype=np.float32)], ids=repr)
def test_weights_of_any_form(weight):
    X, y = waves(40)
    model = fixed_model().fit(X, y, sample_weight=weight)
    assert_same_model(model, fixed_model().fit(X, y, sample_weight=np.full(40, 2.0)))
    assert model.lower_bound_ != fixed_model().fit(X, y).lower_bound_


@pytest.mark.parametrize("noise", NOISES)
@quiet
def test_the_order_of_rows_does_not_matter_at_all(noise, rng):
    X, Y = two_waves()
    model = model_of(noise=noise, max_iter=5)
    reference = clone(model).fit(X, Y)
    assert_array_equal(X[reference.inducing_indices_], reference.inducing_points_)
    for _ in range(2):
        order = rng.permutation(len(X))
        shuffled = clone(model).fit(X[order], Y[order])
        assert_same_model(shuffled, reference)
        assert_array_equal(order[shuffled.inducing_indices_], reference.inducing_indices_)


def test_an_offset_of_all_columns_does_not_matter():
    X, y = waves()
    plain, moved = fixed_model().fit(X, y), fixed_model().fit(X + 1e6, y)
    assert_allclose(moved.lower_bound_, plain.lower_bound_, atol=1e-5)
    assert_allclose(moved.predict(grid() + 1e6), plain.predict(grid()), atol=1e-5)


# Forms of the input


FORMS = {
    "lists": np.ndarray.tolist,
    "Fortran order": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=0)[::2],
    "objects": lambda array: array.astype(object),
    "big endian": lambda array: array.astype(">f8"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms_of_an_array(form):
    X, Y = two_waves(40)
    model = fixed_model().fit(form(X), form(Y), noise_variance=form(known_noise(40, 2)))
    reference = fixed_model().fit(X, Y, noise_variance=known_noise(40, 2))
    assert_same_model(model, reference)
    assert_array_equal(
        model.log_predictive_density(form(X), form(Y), noise_variance=form(known_noise(40, 2))),
        reference.log_predictive_density(X, Y, noise_variance=known_noise(40, 2)),
    )


def test_single_precision_is_computed_in_double_precision():
    X, y = (array.astype(np.float32) for array in waves(40))
    model = fixed_model().fit(X, y)
    assert_same_model(model, fixed_model().fit(X.astype(np.float64), y.astype(np.float64)))
    assert model.predict(X).dtype == np.float64


def test_integer_targets():
    X, y = waves(40)
    counts = np.round(10 * y).astype(int)
    assert_same_model(fixed_model().fit(X, counts), fixed_model().fit(X, counts.astype(float)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    X, Y = two_waves(40)
    frame = frames.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    targets = frames.DataFrame({"a": Y[:, 0], "b": Y[:, 1]})
    variance = frames.Series(known_noise(40))
    weight = np.linspace(0.5, 1.5, len(X))
    model = fixed_model().fit(frame, targets, frames.Series(weight), noise_variance=variance)
    reference = fixed_model().fit(X, Y, weight, noise_variance=known_noise(40))
    assert not hasattr(reference, "feature_names_in_")
    assert model.lower_bound_ == reference.lower_bound_
    assert_array_equal(
        model.predict(frame, return_std=True, noise_variance=variance),
        reference.predict(X, return_std=True, noise_variance=known_noise(40)),
    )
    again = model.lower_bound(X=frame, y=targets, sample_weight=weight, noise_variance=variance)
    assert_allclose(again, reference.lower_bound_, rtol=1e-10)
    one = fixed_model().fit(frame, frames.Series(Y[:, 0]))
    assert one.predict(frame).shape == (40,)
    # scikit-learn 1.6 does not see the names in the frames of a later polars.
    if hasattr(StandardScaler().fit(frame), "feature_names_in_"):
        assert list(model.feature_names_in_) == ["east", "north"]
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[["north", "east"]])


@quiet
@pytest.mark.parametrize("normalize_y", [False, True])
def test_nothing_that_was_given_is_changed(normalize_y):
    X, Y = (array.copy() for array in two_waves(40))
    weight, points, variance = np.linspace(0.0, 2.0, 40), X[:9].copy(), known_noise(40, 2)
    arrays = (X, Y, weight, points, variance)
    before = [array.copy() for array in arrays]
    kernel = ConstantKernel() * RBF([1.0, 1.0])
    theta, text = kernel.theta.copy(), str(kernel)
    model = SparseGPRegressor(
        kernel, selector=points, max_iter=5, normalize_y=normalize_y, optimize_inducing=True
    )
    model.fit(X, Y, weight, noise_variance=variance)
    model.predict(X, return_cov=True, noise_variance=variance)
    model.log_predictive_density(X, Y, noise_variance=variance)
    model.sample_y(X, noise_variance=variance)
    model.lower_bound(theta, X, Y, weight, variance, eval_gradient=True)
    model.certificate(X, Y, weight, variance)
    for array, copy in zip(arrays, before, strict=True):
        assert_array_equal(array, copy)
    assert model.kernel is kernel
    assert model.selector is points
    assert str(kernel) == text
    assert_array_equal(kernel.theta, theta)
    assert np.abs(model.kernel_.theta - theta).max() > 0.01


@quiet
def test_settings_of_the_noise_are_not_changed():
    X, y = waves(40)
    for noise in (
        HomoscedasticNoise(0.3, (0.01, 1.0)),
        PolynomialNoise(1),
        GPNoise(ConstantKernel(0.5) * RBF(2.0), n_inducing=5),
    ):
        before = repr(noise)
        assert model_of(noise=noise, max_iter=3, tol=1e-2).fit(X, y).noise is noise
        assert repr(noise) == before


def test_changing_the_data_afterwards_does_not_change_the_model():
    X, y = (array.copy() for array in waves())
    points = X[:12].copy()
    model = fixed_model(selector=points).fit(X, y)
    before = model.predict(grid())
    X[:], y[:], points[:] = 0.0, 0.0, 0.0
    assert_array_equal(model.predict(grid()), before)


# Selectors, growth and truncation


@pytest.mark.parametrize("method", ["hgv", "rpcholesky", "greedy-variance", "kmeans", "uniform"])
def test_selectors_by_name_and_by_instance_are_the_same(method):
    X, y = waves()
    by_name = fixed_model(selector=method, selection_tol=0.0, random_state=3).fit(X, y)
    instance = InducingPointSelector(method=method, n_components=12, tol=0.0, random_state=3)
    by_instance = fixed_model(selector=instance, n_inducing=1, selection_tol=1.0).fit(X, y)
    assert_same_model(by_name, by_instance)
    assert by_name.inducing_points_.shape == (12, 2)
    if method == "kmeans":
        assert by_name.inducing_indices_ is None
    else:
        assert_array_equal(X[by_name.inducing_indices_], by_name.inducing_points_)
    assert not hasattr(instance, "inducing_points_")


def test_the_heteroscedastic_selector_follows_the_precision_of_known_noise():
    X, y = waves(200)
    variance = np.where(X[:, 0] > 0.0, 1e-2, 1e2)
    points = fixed_model(selection_tol=0.0).fit(X, y, noise_variance=variance).inducing_points_
    assert (points[:, 0] > 0.0).all()
    plain = fixed_model(selection_tol=0.0, selector="greedy-variance")
    points = plain.fit(X, y, noise_variance=variance).inducing_points_
    assert 3 < (points[:, 0] > 0.0).sum() < 9


def test_the_tolerance_chooses_fewer_points():
    X, y = waves()
    sizes = [
        len(fixed_model(n_inducing=60, selection_tol=tol).fit(X, y).inducing_points_)
        for tol in (1.0, 1e-2, 1e-4)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_more_points_than_distinct_rows_are_silently_all_of_them():
    X, y = waves(20)
    model = fixed_model(**ALL_ROWS).fit(np.tile(X, (2, 1)), np.concatenate([y, y + 1.0]))
    assert_array_equal(np.sort(model.inducing_points_, axis=0), np.sort(X, axis=0))


def test_points_given_as_an_array_are_used_as_they_are():
    X, y = waves()
    points = grid()
    model = fixed_model(selector=points, n_inducing=1).fit(X, y)
    assert_array_equal(model.inducing_points_, points)
    assert model.inducing_indices_ is None


@pytest.mark.parametrize("noise", NOISES)
@quiet
def test_moving_the_points_raises_the_bound(noise):
    X, y = waves(150)
    still = model_of(n_inducing=6, noise=noise).fit(X, y)
    moved = model_of(n_inducing=6, noise=noise, optimize_inducing=True).fit(X, y)
    assert moved.lower_bound_ > still.lower_bound_ + 1.0
    assert moved.inducing_indices_ is None
    assert moved.inducing_points_.shape == (6, 2)
    assert moved.certificate(X, y).upper_bound >= moved.lower_bound_


def growing(tol, **parameters):
    X, y = waves(150)
    model = fixed_model(n_inducing="auto", certificate_tol=tol, **parameters)
    return model.fit(X, y), model.certificate(X, y)


def test_growth_stops_when_certified():
    model, certificate = growing(1e-2)
    assert model.growth_end_ == "certified"
    assert certificate.gap_per_row <= 1e-2
    assert len(model.inducing_points_) == model.growth_[-1]["n_inducing"]
    assert model.growth_[-1]["gap_per_row"] <= 1e-2
    assert all(step["gap_per_row"] > 1e-2 for step in model.growth_[:-1])
    assert_allclose(certificate.gap_per_row, model.growth_[-1]["gap_per_row"], atol=1e-6)
    assert_allclose(model.growth_[-1]["lower_bound"], model.lower_bound_, rtol=1e-8)


def test_growth_stops_at_its_cap():
    model, certificate = growing(1e-9, max_inducing=20)
    assert model.growth_end_ == "cap"
    assert [step["n_inducing"] for step in model.growth_] == [20]
    assert certificate.gap_per_row > 1e-9


def test_growth_doubles_and_stops_when_it_no_longer_pays():
    kernel = ConstantKernel(2.0) * RBF(1.0)
    model, certificate = growing(1e-12, kernel=kernel)
    assert model.growth_end_ in ("flat", "spanned")
    assert [step["n_inducing"] for step in model.growth_][:2] == [50, 100]
    bounds = [step["lower_bound"] for step in model.growth_]
    assert bounds == sorted(bounds)
    assert certificate.gap_per_row > 1e-12


def test_growth_stops_when_the_points_span_the_rows():
    model, certificate = growing(1e-30, kernel=DotProduct(1.0))
    assert model.growth_end_ == "spanned"
    assert len(model.inducing_points_) == 3
    assert certificate.gap < 1e-6


def test_growth_is_left_alone_without_auto(learned):
    assert learned.growth_ is None
    assert learned.growth_end_ is None
    grown = fixed_model(n_inducing="auto").fit(*waves())
    assert grown.set_params(n_inducing=5).fit(*waves()).growth_ is None


def refitted(model, X, y, m, **parameters):
    """Return the model with the hyperparameters of another one on its first m points."""
    scale = y.std(axis=0) if model.normalize_y else np.ones(y.shape[1:])
    variances = np.atleast_1d(model.noise_variance_ / scale**2)
    assert len(variances) == 1
    return SparseGPRegressor(
        model.kernel_,
        noise=HomoscedasticNoise(float(variances[0]), "fixed"),
        optimizer=None,
        selector=model.inducing_points_[:m],
        bound=model.bound,
        fit_prior_mean=model.fit_prior_mean,
        normalize_y=model.normalize_y,
        **parameters,
    ).fit(X, y)


@quiet
@pytest.mark.parametrize("m", [1, 5, 11, 12])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"bound": "spherical"},
        {"bound": "standard", "fit_prior_mean": False},
        {"normalize_y": True},
        {"selector": "kmeans", "random_state": 0},
        {"selector": "rpcholesky", "random_state": 0},
    ],
    ids=str,
)
def test_a_truncated_model_is_the_one_fitted_to_its_points(m, parameters):
    X, y = waves()
    y = 30.0 * y + 100.0
    model = model_of(max_iter=10, **parameters)
    model.fit(X, y)
    bound, before = model.lower_bound_, model.predict(grid())
    short = model.truncate(m, X, y)
    again = refitted(model, X, y, m)
    assert_allclose(short.lower_bound_, again.lower_bound_, rtol=1e-6)
    assert_allclose(short.prior_mean_, again.prior_mean_, rtol=1e-6)
    for ours, theirs in zip(
        short.predict(grid(), return_std=True), again.predict(grid(), return_std=True), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-5)
    assert_array_equal(short.inducing_points_, model.inducing_points_[:m])
    assert short.noise_variance_ == model.noise_variance_
    assert_allclose(short.lower_bound(X=X, y=y), short.lower_bound_, rtol=1e-8)
    assert_allclose(short.certificate(X, y).lower_bound, short.lower_bound_, rtol=1e-8)
    # The model itself stays as it was.
    assert model.lower_bound_ == bound
    assert len(model.inducing_points_) == 12
    assert_array_equal(model.predict(grid()), before)


def test_a_truncated_model_with_known_noise_and_weights(rng):
    X, Y = two_waves()
    weight, variance = rng.uniform(0.0, 2.0, 60), known_noise(60, 2)
    model = model_of(max_iter=5).fit(X, Y, weight, variance)
    short = model.truncate(4, X, Y, weight, variance)
    again = fixed_model(kernel=model.kernel_, selector=model.inducing_points_[:4])
    again.fit(X, Y, weight, variance)
    assert_allclose(short.lower_bound_, again.lower_bound_, rtol=1e-8)
    assert_allclose(short.predict(grid()), again.predict(grid()), rtol=1e-5)
    assert_array_equal(short.inducing_indices_, model.inducing_indices_[:4])


@quiet
@pytest.mark.parametrize("noise", NOISES)
def test_truncating_in_steps_is_truncating_at_once(noise):
    X, y = waves()
    model = model_of(noise=noise, bound="standard").fit(X, y)
    whole = model.truncate(len(model.inducing_points_), X, y)
    assert_allclose(whole.lower_bound_, model.lower_bound_, atol=1e-8)
    assert_allclose(whole.predict(grid()), model.predict(grid()), atol=1e-8)
    at_once, in_steps = model.truncate(4, X, y), model.truncate(9, X, y).truncate(4, X, y)
    assert_allclose(in_steps.lower_bound_, at_once.lower_bound_, rtol=1e-10)
    assert_allclose(in_steps.predict(grid()), at_once.predict(grid()), rtol=1e-8)
    assert_array_equal(at_once.predict_noise_std(grid()), model.predict_noise_std(grid()))
    # A further point never lowers the standard bound.
    sizes = range(1, len(model.inducing_points_) + 1)
    path = [model.truncate(m, X, y).lower_bound_ for m in sizes]
    assert (np.diff(path) > -1e-8).all()


@quiet
def test_a_truncated_model_with_a_noise_process_keeps_its_noise():
    """What it says about given rows is about the noise that it predicts with."""
    X, y = waves()
    model = model_of(noise="gp").fit(X, y)
    short = model.truncate(5, X, y)
    assert_allclose(short.lower_bound(X=X, y=y), short.lower_bound_, rtol=1e-4)
    assert_allclose(short.certificate(X, y).lower_bound, short.lower_bound_, rtol=1e-4)


# Learning


def test_optimizer_none_keeps_all_hyperparameters():
    X, y = waves()
    model = fixed_model(noise=HomoscedasticNoise(0.3)).fit(X, y)
    assert_array_equal(model.kernel_.theta, KERNEL.theta)
    assert_allclose(model.noise_variance_, 0.3, rtol=1e-12)
    model = fixed_model(kernel=KERNEL + WhiteKernel(0.2), noise="homoscedastic").fit(X, y)
    assert_array_equal(model.kernel_.theta, KERNEL.theta)
    assert_allclose(model.noise_variance_, 0.2, rtol=1e-12)
    assert model.n_iter_ == 0


def test_optimizer_none_keeps_a_noise_variance_outside_its_bounds_too():
    model = fixed_model(noise=HomoscedasticNoise(5.0, (0.1, 1.0))).fit(*waves())
    assert_allclose(model.noise_variance_, 5.0, rtol=1e-12)


def test_a_kernel_without_free_hyperparameters():
    kernel = ConstantKernel(2.0, "fixed") * RBF(1.5, "fixed")
    model = model_of(kernel=kernel).fit(*waves())
    assert 0.01 < model.noise_variance_ < 0.2
    assert len(model.kernel_.theta) == 0
    known = model_of(kernel=kernel).fit(*waves(), noise_variance=NOISE)
    assert known.n_iter_ == 0
    bound, gradient = known.lower_bound([], *waves(), noise_variance=NOISE, eval_gradient=True)
    assert_allclose(bound, known.lower_bound_, rtol=1e-10)
    assert gradient.shape == (0,)


def test_the_learned_noise_variance_is_a_local_maximum(learned):
    for factor in (0.9, 1.1):
        other = fixed_model(
            kernel=learned.kernel_,
            noise=HomoscedasticNoise(factor * learned.noise_variance_),
            selector=learned.inducing_points_,
        ).fit(*waves())
        assert other.lower_bound_ < learned.lower_bound_ - 0.05


def test_the_best_choice_of_points_is_kept(learned):
    assert_allclose(learned.lower_bound_, learned.lower_bounds_.max(), atol=1e-3)


@quiet
@settings(max_examples=4)
@given(seed=st.integers(0, 1000))
def test_restarts_never_lower_the_bound(seed):
    X, y = waves()
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(1.0, (1e-1, 1e2)) + WhiteKernel(1.0, (1e-3, 10))
    quick = {"max_iter": 10, "max_reselections": 0, "tol": 1e-3}
    plain = model_of(kernel=kernel, **quick).fit(X, y)
    more = model_of(kernel=kernel, n_restarts_optimizer=2, random_state=seed, **quick).fit(X, y)
    assert more.lower_bound_ >= plain.lower_bound_ - 1e-9
    assert more.n_evaluations_ > plain.n_evaluations_


@quiet
def test_restarts_with_a_noise_process():
    model = model_of(noise="gp", n_restarts_optimizer=1, random_state=0, max_iter=5, tol=1e-2)
    assert np.isfinite(model.fit(*waves(40)).predict(grid(), return_std=True)).all()


@quiet
@pytest.mark.parametrize(
    ("parameters", "known"),
    [
        *(({"noise": noise}, False) for noise in NOISES),
        ({"n_inducing": "auto"}, False),
        ({"kernel": KERNEL + WhiteKernel(0.1)}, False),
        ({}, True),
    ],
    ids=str,
)
def test_warm_start_needs_fewer_evaluations_and_is_no_worse(parameters, known):
    X, y = waves()
    variance = NOISE if known else None
    model = model_of(warm_start=True, **parameters).fit(X, y, noise_variance=variance)
    bound, evaluations = model.lower_bound_, model.n_evaluations_
    model.fit(X, y, noise_variance=variance)
    assert model.lower_bound_ > bound - 1e-2
    assert model.n_evaluations_ < evaluations


@quiet
@pytest.mark.parametrize("noise", NOISES)
def test_warm_start_without_optimizer_keeps_what_was_learned(noise):
    X, y = waves()
    model = model_of(noise=noise, warm_start=True).fit(X, y)
    bound, std = model.lower_bound_, model.predict_noise_std(grid())
    model.set_params(optimizer=None).fit(X, y)
    assert_allclose(model.lower_bound_, bound, atol=1e-3)
    assert_allclose(model.predict_noise_std(grid()), std, rtol=1e-2)


@quiet
def test_warm_start_refuses_another_noise_or_another_number_of_outputs():
    X, Y = two_waves()
    model = model_of(warm_start=True, max_iter=5).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="number of outputs"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="kind of noise"):
        model.fit(X, Y[:, 0], noise_variance=1.0)
    with pytest.raises(ValueError, match="kind of noise"):
        model.set_params(noise="polynomial").fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="warm_start=False to start afresh"):
        model.set_params(noise="gp").fit(X, Y[:, 0])
    assert model.set_params(warm_start=False, noise="polynomial").fit(X, Y).noise_variance_ is None


def test_verbose_prints_a_line_for_each_choice_and_nothing_is_printed_otherwise(capfd):
    X, y = waves()
    silent = model_of().fit(X, y)
    assert capfd.readouterr() == ("", "")
    model_of(verbose=1).fit(X, y)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == len(silent.lower_bounds_)
    assert all(line.startswith("[SparseGPRegressor] choice") for line in lines)


# The bound as a function


def test_the_lower_bound_without_arguments_is_that_of_the_fit(learned):
    assert learned.lower_bound() == learned.lower_bound_


@quiet
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("normalize_y", [False, True])
def test_the_lower_bound_of_the_training_rows_is_that_of_the_fit(noise, normalize_y, rng):
    X, Y = two_waves()
    weight = rng.randint(0, 3, 60)
    model = model_of(noise=noise, normalize_y=normalize_y, max_iter=5).fit(X, 9.0 * Y, weight)
    again = model.lower_bound(None, X, 9.0 * Y, weight)
    assert_allclose(again, model.lower_bound_, atol=1e-5)
    certified = model.certificate(X, 9.0 * Y, weight).lower_bound
    assert_allclose(certified, again, atol=1e-5)


@quiet
@pytest.mark.parametrize("noise", [*NOISES, "known"])
@pytest.mark.parametrize("bound", ["tight", "spherical", "standard"])
def test_the_gradient_of_the_lower_bound(noise, bound, rng):
    X, Y = two_waves(40)
    variance = known_noise(40, 2) if noise == "known" else None
    name = "homoscedastic" if variance is not None else noise
    model = model_of(
        kernel=ConstantKernel(2.0) * RBF([1.0, 2.0]),
        noise=name,
        bound=bound,
        normalize_y=True,
        n_inducing=6,
        max_iter=3,
        tol=1e-9,
    )
    model.fit(X, Y, noise_variance=variance)
    theta = model.kernel_.theta + rng.uniform(-0.3, 0.3, 3)

    def value(theta):
        return model.lower_bound(theta, X, Y, noise_variance=variance)

    bound, gradient = model.lower_bound(theta, X, Y, noise_variance=variance, eval_gradient=True)
    assert bound == value(theta)
    steps = 1e-4 * np.eye(3)
    differences = [(value(theta + step) - value(theta - step)) / 2e-4 for step in steps]
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-3)


def test_the_lower_bound_of_other_rows():
    X, y = waves()
    model = fixed_model(selector=X[::5]).fit(X, y)
    other = fixed_model(selector=X[::5]).fit(*waves(30, seed=9))
    assert_allclose(model.lower_bound(None, *waves(30, seed=9)), other.lower_bound_, rtol=1e-10)
    theta = np.log([3.0, 0.9])
    changed = fixed_model(kernel=KERNEL.clone_with_theta(theta), selector=X[::5]).fit(X, y)
    assert_allclose(model.lower_bound(theta, X, y), changed.lower_bound_, rtol=1e-10)


def test_the_lower_bound_and_the_certificate_change_nothing(learned):
    before = pickle.dumps(learned)
    learned.lower_bound([0.0, 0.0], *waves(), eval_gradient=True)
    learned.certificate(*waves())
    learned.truncate(3, *waves()).lower_bound(X=waves()[0], y=waves()[1])
    assert pickle.dumps(learned) == before


# Certificates


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("n_inducing", [6, 25])
def test_a_certificate_holds_against_the_full_model(method, n_inducing):
    X, y = waves()
    variance = known_noise()
    model = fixed_model(n_inducing=n_inducing, selection_tol=0.0, fit_prior_mean=False)
    model.fit(X, y, noise_variance=variance)
    certificate = model.certificate(X, y, noise_variance=variance, method=method)
    full = GaussianProcessRegressor(KERNEL, alpha=variance, optimizer=None).fit(X, y)
    exact = full.log_marginal_likelihood_value_
    assert_allclose(certificate.lower_bound, model.lower_bound_, rtol=1e-10)
    assert certificate.n_rows == 60
    assert certificate.standard_bound <= certificate.lower_bound
    assert certificate.lower_bound <= certificate.improved_lower_bound <= exact + 1e-8
    assert exact - 1e-8 <= certificate.upper_bound
    mean, std = full.predict(grid(9), return_std=True)
    ours, variance = model.latent_mean_and_variance(grid(9))
    assert (np.abs(ours - mean) <= certificate.mean_error * np.sqrt(variance) + 1e-6).all()
    low, high = certificate.variance_ratio
    assert (low - 1e-6 <= variance / std**2).all()
    assert (variance / std**2 <= high + 1e-6).all()
    if method == "auto":
        assert set(certificate.upper_bounds) == set(METHODS[:4])
    else:
        assert set(certificate.upper_bounds) == {method}


def test_a_certificate_of_all_rows_has_no_gap():
    X, y = waves()
    model = fixed_model(**ALL_ROWS).fit(X, y)
    certificate = model.certificate(X, y)
    assert 0.0 <= certificate.gap < 1e-6
    assert "within" in str(certificate)
    assert "posterior" in str(certificate)


def test_the_certificate_of_several_outputs_is_the_sum():
    X, Y = two_waves()
    both = fixed_model(selector=X[::5]).fit(X, Y).certificate(X, Y)
    single = [fixed_model(selector=X[::5]).fit(X, y).certificate(X, y) for y in Y.T]
    assert_allclose(both.lower_bound, sum(one.lower_bound for one in single), rtol=1e-8)
    for method, bound in both.upper_bounds.items():
        assert_allclose(bound, sum(one.upper_bounds[method] for one in single), rtol=1e-8)


@quiet
@pytest.mark.parametrize("noise", NOISES)
def test_more_points_close_the_gap_of_the_certificate(noise):
    X, y = waves()
    model = model_of(noise=noise, n_inducing=60, selection_tol=0.0, max_iter=5).fit(X, y)
    gaps = [model.truncate(m, X, y).certificate(X, y).gap for m in (4, 12)]
    gaps.append(model.certificate(X, y).gap)
    assert gaps[0] > gaps[1] > gaps[2] > -1e-8
    assert gaps[2] < 1e-4


# The fitted object


def test_the_public_attributes(learned):
    M = len(learned.inducing_points_)
    X, _ = waves()
    assert 1 <= M <= 12
    assert isinstance(learned.kernel_, sk.Product)
    assert isinstance(learned.prior_mean_, float)
    assert isinstance(learned.noise_variance_, float)
    assert learned.inducing_points_.shape == (M, 2)
    assert_array_equal(X[learned.inducing_indices_], learned.inducing_points_)
    assert isinstance(learned.lower_bound_, float)
    assert learned.lower_bounds_.ndim == 1
    assert isinstance(learned.n_iter_, int)
    assert learned.n_site_iterations_ == learned.n_evaluations_ > learned.n_iter_ >= 1
    assert learned.converged_ is True
    assert 0.0 < learned.jitter_ < 1e-6
    assert learned.n_features_in_ == 2
    assert (learned.growth_, learned.growth_end_) == (None, None)


CALLS = {
    "predict": (grid(),),
    "latent_mean_and_variance": (grid(),),
    "predict_noise_std": (grid(),),
    "log_predictive_density": (grid(), np.zeros(16)),
    "sample_y": (grid(),),
    "certificate": (grid(), np.zeros(16)),
    "lower_bound": (),
    "truncate": (1, grid(), np.zeros(16)),
    "score": (grid(), np.zeros(16)),
}


@pytest.mark.parametrize("method", CALLS)
def test_methods_need_a_fit(method):
    with pytest.raises(NotFittedError, match="SparseGPRegressor instance is not fitted yet"):
        getattr(SparseGPRegressor(), method)(*CALLS[method])


def every_array(value, seen):
    """Yield each array within an object, whatever holds it."""
    if any(value is other for other in seen):
        return
    seen.append(value)
    if isinstance(value, np.ndarray):
        yield value
        yield from every_array(value.base, seen)
    elif isinstance(value, dict):
        for part in value.values():
            yield from every_array(part, seen)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from every_array(part, seen)
    elif hasattr(value, "__dict__"):
        yield from every_array(vars(value), seen)


@quiet
@pytest.mark.parametrize("noise", [*NOISES, "known"])
def test_no_training_rows_are_kept_but_the_inducing_points(noise):
    X, y = waves(700)
    variance = known_noise(700) if noise == "known" else None
    model = model_of(
        noise="homoscedastic" if variance is not None else noise, max_iter=3, max_reselections=0
    ).fit(X, y, noise_variance=variance)
    arrays = list(every_array(model, []))
    assert any(array.shape == (12, 12) for array in arrays)
    assert max(array.size for array in arrays) < 700
    assert len(pickle.dumps(model)) < 60_000


@quiet
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("library", ["pickle", "joblib"])
def test_a_saved_model_is_the_same(noise, library):
    X, y = waves()
    model = model_of(noise=noise, max_iter=5).fit(X, y)
    if library == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        stream = io.BytesIO()
        joblib.dump(model, stream)
        stream.seek(0)
        copy = joblib.load(stream)
    assert_array_equal(
        copy.predict(grid(), return_std=True), model.predict(grid(), return_std=True)
    )
    assert_array_equal(copy.sample_y(grid()), model.sample_y(grid()))
    assert copy.lower_bound(X=X, y=y) == model.lower_bound(X=X, y=y)
    assert copy.truncate(3, X, y).lower_bound_ == model.truncate(3, X, y).lower_bound_
    assert str(copy.certificate(X, y)) == str(model.certificate(X, y))


def test_a_clone_is_not_fitted(learned):
    copy = clone(learned)
    assert copy.get_params() == learned.get_params()
    assert not [name for name in vars(copy) if name.endswith("_")]


# With the rest of scikit-learn


def test_known_noise_is_routed_through_a_pipeline():
    X, y = waves()
    variance = known_noise()
    with config_context(enable_metadata_routing=True):
        model = (
            fixed_model()
            .set_fit_request(noise_variance=True, sample_weight=False)
            .set_predict_request(noise_variance=True, return_std=True)
        )
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y, noise_variance=variance)
        mean, std = pipeline.predict(X, return_std=True, noise_variance=variance)
    scaled = StandardScaler().fit_transform(X)
    expected = fixed_model().fit(scaled, y, noise_variance=variance)
    assert pipeline[-1].lower_bound_ == expected.lower_bound_
    assert expected.lower_bound_ != fixed_model().fit(scaled, y).lower_bound_
    reference = expected.predict(scaled, return_std=True, noise_variance=variance)
    assert_array_equal((mean, std), reference)


def test_known_noise_is_routed_through_a_grid_search():
    X, y = waves()
    variance = known_noise()
    sizes = [5, 15]
    with config_context(enable_metadata_routing=True):
        model = fixed_model().set_fit_request(noise_variance=True, sample_weight=False)
        pipeline = make_pipeline(StandardScaler(), model)
        choices = {"sparsegpregressor__n_inducing": sizes}
        search = GridSearchCV(pipeline, choices, cv=KFold(3)).fit(X, y, noise_variance=variance)
    for size, score in zip(sizes, search.cv_results_["mean_test_score"], strict=True):
        scores = []
        for train, test in KFold(3).split(X):
            scaler = StandardScaler().fit(X[train])
            one = fixed_model(n_inducing=size).fit(
                scaler.transform(X[train]), y[train], noise_variance=variance[train]
            )
            scores.append(one.score(scaler.transform(X[test]), y[test]))
        assert_allclose(score, np.mean(scores), rtol=1e-10)


def test_metadata_that_is_not_asked_for_is_refused():
    X, y = waves()
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), fixed_model())
        with pytest.raises(ValueError, match="noise_variance"):
            pipeline.fit(X, y, noise_variance=known_noise())


@quiet
def test_grid_search_reaches_the_settings_of_noise_and_selector():
    X, y = waves(40)
    model = fixed_model(noise=PolynomialNoise(), selector=InducingPointSelector(n_components=9))
    choices = {"noise__degree": [0, 1], "selector__tol": [1.0, 1e-3]}
    search = GridSearchCV(model.set_params(optimizer="bfgs", max_iter=3), choices, cv=2)
    search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    assert search.best_estimator_.noise.degree == search.best_params_["noise__degree"]


def test_grid_search_over_points_tolerance_and_kind_of_noise():
    X, y = waves(40)
    choices = {
        "n_inducing": [4, 8],
        "selection_tol": [1.0, 0.0],
        "noise": [HomoscedasticNoise(0.1), HomoscedasticNoise(1.0)],
    }
    alone = GridSearchCV(fixed_model(), choices, cv=2).fit(X, y)
    with joblib.parallel_backend("threading", n_jobs=2):
        threads = GridSearchCV(fixed_model(), choices, cv=2, n_jobs=2).fit(X, y)
    scores = [search.cv_results_["mean_test_score"] for search in (alone, threads)]
    assert np.isfinite(scores[0]).all()
    assert len(set(scores[0])) > 4
    assert_array_equal(scores[0], scores[1])


def test_cross_validation_in_a_pipeline():
    X, y = waves()
    pipeline = make_pipeline(StandardScaler(), model_of(max_iter=20))
    predicted = cross_val_predict(pipeline, X, y, cv=3)
    assert ((y - predicted) ** 2).mean() < 0.2 * y.var()


# What a fit says


def warnings_of(model, X, y, **fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **fit)
    return [str(item.message) for item in caught]


@pytest.mark.parametrize("noise", NOISES)
def test_an_ordinary_problem_warns_of_nothing(noise):
    """Its noise is not constant, so that there is something to learn for each kind."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (200, 1))
    y = np.sin(X[:, 0]) + np.exp(0.4 * X[:, 0] - 1.5) * rng.standard_normal(200)
    assert warnings_of(model_of(noise=noise, n_inducing=20), X, y) == []


def test_pure_noise_is_said_to_be_constant(rng):
    X, y = rng.standard_normal((2, 60, 2))
    [text] = warnings_of(model_of(), X, y[:, 0])
    assert text.startswith("the learned function is constant")


def test_targets_without_noise_are_said_to_look_so():
    X = np.linspace(0.0, 1.0, 30)[:, None]
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1, (1e-4, 1.0))
    [text] = warnings_of(model_of(kernel=kernel, n_inducing=30), X, np.sin(5.0 * X[:, 0]))
    assert "noise variance = 0.0001 at its lower limit: the targets look free of noise" in text


def test_a_factor_of_the_noise_at_its_limit_is_not_taken_for_noise_free_targets():
    rng = np.random.RandomState(0)
    X = np.sort(rng.uniform(-1.0, 1.0, (60, 1)), axis=0)
    # Noise at one end only, none at all elsewhere.
    y = np.sin(3.0 * X[:, 0]) + np.where(X[:, 0] > 0.9, rng.standard_normal(60), 0.0)
    for text in warnings_of(model_of(noise=PolynomialNoise(6), n_inducing=30), X, y):
        for part in text.split(";"):
            assert not ("factor" in part and "free of noise" in part), text


def test_too_few_iterations_are_said():
    [text] = warnings_of(model_of(max_iter=1, max_reselections=0), *waves())
    assert "max_iter=1" in text
    assert text.startswith("SparseGPRegressor stopped before its bound converged")


def test_a_column_that_hides_the_others_is_named():
    X, y = waves()
    texts = warnings_of(model_of(), X * [1.0, 1e6], y)
    assert any("column 1 has standard deviation" in text for text in texts)


@quiet
@pytest.mark.parametrize("frequency", [2.0, 8.0, 20.0])
def test_a_function_that_varies_fast_is_found_without_a_hint(frequency):
    rng = np.random.RandomState(0)
    x = rng.uniform(-3.0, 3.0, 300)
    y = np.sin(frequency * x) + 0.2 * rng.standard_normal(300)
    hint = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(1.5 / frequency)
    quick = {"n_inducing": 80, "max_reselections": 1}
    told = model_of(kernel=hint, **quick).fit(x[:, None], y)
    found = model_of(**quick).fit(x[:, None], y)
    assert found.lower_bound_ > told.lower_bound_ - 5.0


def test_a_certificate_of_other_data_is_refused(learned):
    X, y = waves()
    for data in ((X[:-1], y[:-1]), (X, y + 0.1 * X[:, 0]), (X, y, np.arange(1.0, len(y) + 1.0))):
        with pytest.raises(ValueError, match="about the data of fit"):
            learned.certificate(*data)


@pytest.mark.parametrize("scale", [1e-130, 1e-140])
def test_targets_in_tiny_units_have_the_certificate_of_others(scale):
    X, Y = (rows[::4] for rows in load_diabetes(return_X_y=True))
    expected = SparseGPRegressor(n_inducing=10).fit(X, Y)
    expected = expected.certificate(X, Y)
    y = scale * Y
    certificate = SparseGPRegressor(n_inducing=10).fit(X, y).certificate(X, y)
    assert certificate.gap == pytest.approx(expected.gap, rel=1e-4)
    assert certificate.upper_bounds.keys() == expected.upper_bounds.keys()
    for method, bound in certificate.upper_bounds.items():
        offset = len(y) * np.log(scale)
        assert bound + offset == pytest.approx(expected.upper_bounds[method], abs=0.01)
