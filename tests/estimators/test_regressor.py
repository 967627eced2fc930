"""The regressor as users see it: what it computes and what it promises."""

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

from sparsegpc import HomoscedasticNoise, InducingPointSelector, PolynomialNoise, SparseGPRegressor
from tests.estimators.regression import (
    ALL_ROWS,
    KERNEL,
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
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
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
    assert isinstance(learned.jitter_, float)
    assert 0.0 <= learned.jitter_ < 1e-9
    assert learned.n_features_in_ == 2
    assert (learned.growth_, learned.growth_end_) == (None, None)


CALLS = {
    "predict": (grid(),),
    "latent_mean_and_variance": (grid(),),
    "predict_noise_std": (grid(),),
    "log_predictive_density": (grid(), np.zeros(16)),
    "predict_quantiles": (grid(), 0.5),
    "predict_interval": (grid(),),
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
