"""Student-t noise: outliers do not move f, and what is learned and said of it is right."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sparsegpc import BoundSearch, SparseGPRegressor, StudentTNoise
from sparsegpc.likelihoods import StudentT
from tests.estimators.noise.noise_cases import KERNEL, quiet
from tests.estimators.simple_kernel import simple_kernel

SMALL = {"n_inducing": 20, "selector": "hgv", "hyperparameters": "best"}


def model_of(**parameters):
    return SparseGPRegressor(**{"noise": "student-t", **SMALL, **simple_kernel(parameters)})


def outlying(n=200, df=3.0, scale=0.1, seed=0):
    """Return one column, targets with Student-t noise around a sine, and the sine."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-3.0, 3.0, n)
    f = np.sin(2.0 * x)
    y = f + scale * rng.standard_t(df, n)
    for values in (x, y, f):
        values.flags.writeable = False
    return x[:, None], y, f


@pytest.fixture(scope="module")
def fitted():
    """A model of `outlying()`; not to be changed."""
    return model_of().fit(*outlying()[:2])


# What is learned


@pytest.mark.parametrize(("df", "scale"), [(1.0, 0.1), (8.0, 0.05)])
def test_degrees_of_freedom_and_scale_are_recovered(df, scale):
    X, y, _ = outlying(3000, df, scale)
    model = model_of().fit(X, y)
    assert model.noise_df_ == pytest.approx(df, rel=0.25)
    assert model.noise_scale_ == pytest.approx(scale, rel=0.07)
    expected = np.inf if model.noise_df_ <= 2.0 else t.var(model.noise_df_) * model.noise_scale_**2
    assert model.noise_variance_ == pytest.approx(expected)


def test_intervals_cover_as_they_say(fitted):
    X, y, _ = outlying(5000, seed=1)
    for coverage in (0.5, 0.9, 0.99):
        lower, upper = fitted.predict_interval(X, coverage)
        assert np.mean((lower < y) & (y < upper)) == pytest.approx(coverage, abs=0.02)


@quiet
@pytest.mark.filterwarnings("ignore:the standard deviation of the residuals is")
def test_gross_outliers_hardly_move_the_prediction():
    X, y, f = outlying(100, df=200.0)
    clean = model_of().fit(X, y)
    for size in (5.0, 1e9):
        moved = y.copy()
        moved[::10] += size
        model = model_of().fit(X, moved)
        assert np.abs(model.predict(X) - clean.predict(X)).max() < 0.1
        assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.05
        gaussian = model_of(noise="homoscedastic").fit(X, moved)
        assert model.lower_bound_ > gaussian.lower_bound_ + 100.0


@quiet
def test_a_third_of_the_targets_may_be_outliers_on_one_side():
    noise = 0.3
    rng = np.random.RandomState(1)
    X = rng.uniform(-3.0, 3.0, (600, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    y = f + noise * rng.standard_normal(600)
    y[rng.permutation(600)[:200]] += 4.0
    model = SparseGPRegressor(noise="student-t", n_inducing=50, main_effects=False).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.6 * noise
    assert model.noise_df_ < 1.0


def test_gaussian_noise_is_found_to_be_nearly_so():
    rng = np.random.RandomState(0)
    X, _, f = outlying(600)
    y = f + 0.2 * rng.standard_normal(600)
    ours, gaussian = model_of().fit(X, y), model_of(noise="homoscedastic").fit(X, y)
    assert ours.noise_df_ > 15.0
    assert ours.lower_bound_ == pytest.approx(gaussian.lower_bound_, abs=4.0)
    assert_allclose(ours.predict(X), gaussian.predict(X), atol=0.02)
    assert_allclose(*(model.predict_interval(X)[1] for model in (ours, gaussian)), atol=0.05)


def test_given_degrees_of_freedom_are_kept(fitted):
    X, y, _ = outlying()
    for df in (0.3, 1000.0):
        model = model_of(noise=StudentTNoise(df)).fit(X, y)
        assert model.noise_df_ == pytest.approx(df, rel=1e-12)
        assert model.lower_bound_ < fitted.lower_bound_ + 1.0
    for df in (0.0, 0.2, 2000.0, "many"):
        with pytest.raises(ValueError, match="'df' parameter of StudentTNoise must be a float in"):
            model_of(noise=StudentTNoise(df)).fit(X, y)


@pytest.mark.parametrize("normalize_y", [False, True])
def test_the_unit_of_the_targets_does_not_matter(normalize_y):
    X, y, _ = outlying(100)
    kernel = ConstantKernel(2.0, (1e-12, 1e12)) * RBF(1.0)
    one, other = (
        # The bound is flat in the degrees of freedom.
        model_of(kernel=kernel, normalize_y=normalize_y, tol=1e-7).fit(X, target)
        for target in (y, 100.0 * y - 7.0)
    )
    assert_allclose(other.predict(X), 100.0 * one.predict(X) - 7.0, atol=0.2)
    assert other.noise_df_ == pytest.approx(one.noise_df_, rel=0.005)
    assert other.noise_scale_ == pytest.approx(100.0 * one.noise_scale_, rel=0.01)
    assert other.lower_bound_ == pytest.approx(one.lower_bound_ - 100 * np.log(100.0), abs=0.05)


def test_each_output_has_noise_of_its_own():
    X, y, f = outlying(1000, 1.5)
    Y = np.column_stack([y, f + 0.3 * np.random.RandomState(1).standard_normal(1000)])
    model = model_of().fit(X, Y)
    assert model.noise_df_.shape == model.noise_scale_.shape == model.noise_variance_.shape == (2,)
    assert model.noise_df_[0] < 2.0 < 10.0 < model.noise_df_[1]
    assert_allclose(model.noise_scale_[0], 0.1, rtol=0.15)
    std = model.predict_noise_std(X)
    assert np.isinf(std[:, 0]).all()
    assert_allclose(std[:, 1], 0.3, rtol=0.05)


# What is said


def test_bounds_and_predictions_are_those_of_the_likelihood(fitted):
    """By the class for your own estimators, which merges rows, scales and starts in its own way."""
    X, y, _ = outlying()
    likelihood = StudentT().at(np.log([fitted.noise_df_, fitted.noise_scale_]))
    mean, variance = fitted.latent_mean_and_variance(X)
    expected = likelihood.expect(
        y, np.ones(len(y)), mean[None], variance[None], 0.0, np.ones((1, 1))
    )
    # With nearly enough points, the bound is the sum over the rows less a divergence.
    assert fitted.lower_bound_ < expected.value.sum()
    assert fitted.lower_bound_ > expected.value.sum() - 60.0
    assert fitted.lower_bound(X=X, y=y) == pytest.approx(fitted.lower_bound_, abs=1e-3)


def test_the_density_is_an_average_over_f(fitted):
    X, y, _ = outlying(20, seed=2)
    mean, variance = fitted.latent_mean_and_variance(X)
    z, weights = np.polynomial.hermite_e.hermegauss(80)
    f = mean[:, None] + np.sqrt(variance)[:, None] * z
    density = t.pdf(y[:, None], fitted.noise_df_, f, fitted.noise_scale_) @ weights
    expected = np.log(density / np.sqrt(2.0 * np.pi))
    assert_allclose(fitted.log_predictive_density(X, y), expected, atol=1e-7)
    below = t.cdf(
        fitted.predict_quantiles(X, 0.95)[:, None], fitted.noise_df_, f, fitted.noise_scale_
    )
    assert_allclose(below @ weights / np.sqrt(2.0 * np.pi), 0.95, atol=1e-8)
    assert_allclose(fitted.predict_quantiles(X, 0.5), mean, atol=1e-8)
    above = t.sf(1.5, fitted.noise_df_, f, fitted.noise_scale_) @ weights / np.sqrt(2.0 * np.pi)
    assert_allclose(fitted.predict_exceedance(X, 1.5), above, atol=1e-8)


def test_the_variance_is_that_of_f_and_the_noise(fitted):
    X = outlying(20, seed=2)[0]
    _, std = fitted.predict(X, return_std=True)
    variance = fitted.latent_mean_and_variance(X)[1]
    noise = t.var(fitted.noise_df_, scale=fitted.noise_scale_)
    assert_allclose(std**2, variance + noise)
    assert_allclose(fitted.predict_noise_std(X) ** 2, noise)


def test_with_two_degrees_of_freedom_or_fewer_deviations_are_infinite():
    X, y, _ = outlying(400, 1.0)
    model = model_of().fit(X, y)
    assert model.noise_df_ < 2.0
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isinf(std).all()
    covariance = model.predict(X[:5], return_cov=True)[1]
    assert np.isinf(covariance.diagonal()).all()
    assert np.isfinite(covariance[~np.eye(5, dtype=bool)]).all()
    for values in (*model.predict_interval(X), model.log_predictive_density(X, y)):
        assert np.isfinite(values).all()
    assert np.isfinite(model.sample_y(X, 3)).all()


def test_draws_have_the_quantiles_of_the_prediction(fitted):
    X = outlying(3, seed=2)[0]
    draws = fitted.sample_y(X, 40_000, random_state=1)
    share = (draws[..., None] < fitted.predict_quantiles(X, [0.001, 0.05, 0.5, 0.9])[:, None]).mean(
        1
    )
    assert_allclose(share, np.tile([0.001, 0.05, 0.5, 0.9], (3, 1)), atol=0.013)
    # Each row has outliers of its own.
    outlier = np.abs(draws - np.median(draws, axis=1, keepdims=True)) > 0.6
    assert np.abs(np.corrcoef(outlier))[np.triu_indices(3, 1)].max() < 0.1


def test_the_certificate_is_that_of_the_same_sites(fitted):
    X, y, _ = outlying()
    certificate = fitted.certificate(X, y)
    assert "same sites" in str(certificate)
    assert certificate.lower_bound == pytest.approx(fitted.lower_bound_, abs=1e-3)
    assert 0.0 <= certificate.gap < 0.1
    short = fitted.truncate(6, X, y)
    assert short.noise_df_ == fitted.noise_df_
    certificate = short.certificate(X, y)
    assert certificate.lower_bound == pytest.approx(short.lower_bound_, abs=1e-3)
    assert certificate.gap > 1.0


# With the rest


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_weight_of_k_is_that_many_copies(n_outputs):
    X, y, f = outlying(40)
    Y = y if n_outputs == 1 else np.column_stack([y, y + f])
    k = np.random.RandomState(0).randint(0, 3, 40)
    weighted = model_of(n_inducing=10).fit(X, Y, sample_weight=k)
    copies = model_of(n_inducing=10).fit(np.repeat(X, k, axis=0), np.repeat(Y, k, axis=0))
    assert weighted.lower_bound_ == copies.lower_bound_
    assert_array_equal(weighted.predict(X), copies.predict(X))


def test_equal_rows_with_unequal_targets_stay_apart():
    """If they were averaged, an outlier among three copies would move their mean."""
    X, _, f = outlying(60)
    X, f = np.repeat(X, 3, axis=0), np.repeat(f, 3)
    y = f + 0.05 * np.random.RandomState(0).standard_normal(180)
    y[::3] += 4.0
    model = model_of().fit(X, y)
    assert np.abs(model.predict(X) - f).max() < 0.25
    assert len(np.unique(model.inducing_indices_)) == len(model.inducing_indices_) <= 20


@quiet
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_inducing": "auto", "max_inducing": 20},
        {"hyperparameters": "average"},
        {"main_effects": "auto", "kernel": None},
        {"optimize_inducing": True},
        {"normalize_y": True, "fit_prior_mean": False},
        {"n_restarts_optimizer": 1},
        {"bound": "standard"},
        {"optimizer": None, "kernel": KERNEL},
    ],
    ids=lambda parameters: "-".join(parameters),
)
def test_parameters_of_the_regressor(parameters):
    X, y, f = outlying(80)
    model = model_of(**{"n_inducing": 15, **parameters}).fit(X, y)
    error = np.sqrt(np.mean((model.predict(X) - f) ** 2))
    assert error < (0.3 if parameters.get("optimizer", "") is None else 0.1)
    for values in (*model.predict_interval(X), model.log_predictive_density(X, y)):
        assert np.isfinite(values).all()
    bound, gradient = model.lower_bound(X=X, y=y, eval_gradient=True)
    assert bound == pytest.approx(model.lower_bound_, abs=1e-2)
    assert gradient.shape == model.kernel_.theta.shape


def test_the_gradient_of_the_bound(fitted):
    X, y, _ = outlying()
    theta = fitted.kernel_.theta
    _, gradient = fitted.lower_bound(theta + 0.1, X, y, eval_gradient=True)
    for k, step in enumerate(1e-3 * np.eye(len(theta))):
        ends = [fitted.lower_bound(theta + 0.1 + sign * step, X, y) for sign in (-1.0, 1.0)]
        assert gradient[k] == pytest.approx((ends[1] - ends[0]) / 2e-3, rel=1e-3, abs=1e-2)


def test_a_further_fit_goes_on_from_the_last():
    X, y, _ = outlying()
    model = model_of(warm_start=True).fit(X, y)
    bound, steps = model.lower_bound_, model.n_iter_
    model.fit(X, y)
    assert model.lower_bound_ >= bound - 1e-2
    assert model.n_iter_ < steps
    with pytest.raises(ValueError, match="warm_start=True needs the kind of noise"):
        model.set_params(noise="homoscedastic").fit(X, y)


def test_the_bound_chooses_it_where_there_are_outliers():
    X, y, _ = outlying()
    grid = {"noise": ["homoscedastic", "student-t"]}
    search = BoundSearch(model_of(max_iter=10), grid).fit(X, y)
    assert search.best_params_ == {"noise": "student-t"}
    assert np.isfinite(search.predict_interval(X)).all()


def test_a_saved_model_says_the_same(fitted):
    X = outlying()[0]
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(loaded.predict_interval(X), fitted.predict_interval(X))
    assert loaded.noise_df_ == fitted.noise_df_


def test_it_is_refused_beside_known_noise():
    X, y, _ = outlying()
    with pytest.raises(ValueError, match="noise_variance must be None with noise='student-t'"):
        model_of().fit(X, y, noise_variance=0.04)
    assert model_of(noise="homoscedastic").fit(X, y).noise_df_ is None


def test_a_white_kernel_beside_it_is_refused():
    X, y, _ = outlying(30)
    kernel = KERNEL + WhiteKernel()
    for noise in ("student-t", StudentTNoise()):
        with pytest.raises(ValueError, match="WhiteKernel, which stands for homoscedastic noise"):
            model_of(kernel=kernel, noise=noise).fit(X, y)


@quiet
@pytest.mark.filterwarnings("ignore:.*of the targets are equal")
@pytest.mark.parametrize(
    "y", [np.zeros(12), np.r_[np.zeros(11), 1e9], 1e-120 * np.arange(12.0), 1e140 * np.arange(12.0)]
)
def test_odd_targets(y):
    X = np.arange(12.0)[:, None]
    model = model_of(normalize_y=True, n_inducing=5, max_iter=5).fit(X, y)
    for values in (model.predict(X), *model.predict_interval(X), model.lower_bounds_):
        assert np.isfinite(values).all()


@pytest.mark.parametrize(("share", "warns"), [(0.2, False), (0.4, True)])
def test_many_equal_targets_are_reported(share, warns):
    X, y, _ = outlying(100)
    y = np.where(np.arange(100) < 100 * share, 0.5, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model_of(max_iter=2).fit(X, y)
    assert any("40% of the targets are equal" in str(w.message) for w in caught) == warns


def test_few_targets_that_differ_are_not_called_equal():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model_of(max_iter=2).fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 4.0])
    assert not any("targets are equal" in str(one.message) for one in caught)


def test_a_function_that_vanishes_is_not_called_free_of_noise():
    rng = np.random.RandomState(3)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SparseGPRegressor(noise="student-t").fit(X, y)
    assert caught
    assert not any("free of noise" in str(one.message) for one in caught)
