"""Noise that is known, constant, a polynomial or a process: what is learned, and how it is used."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.preprocessing import PolynomialFeatures

from sparsegpc import GPNoise, HomoscedasticNoise, PolynomialNoise, SparseGPRegressor

KERNEL = ConstantKernel(2.0) * RBF(1.0)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def true_std(x):
    """Return the standard deviation of the noise of `trumpet`, from 0.05 to 1."""
    return np.exp(-1.5 + 0.75 * x)


def trumpet(n=250, seed=0):
    """Return one column between -2 and 2, and targets whose noise grows with it."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-2.0, 2.0, n)
    y = np.sin(2.0 * x) + true_std(x) * rng.standard_normal(n)
    x.flags.writeable = y.flags.writeable = False
    return x[:, None], y


def plane(n=80, seed=0):
    """Return two columns, and targets whose noise grows with the second one."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2)) * [1.0, 10.0]
    y = np.sin(3.0 * X[:, 0]) + np.exp(-2.0 + 0.1 * X[:, 1]) * rng.standard_normal(n)
    return X, y


def model_of(noise, **parameters):
    default = {"noise": noise, "n_inducing": 20, "selector": "hgv"}
    return SparseGPRegressor(**{**default, **parameters})


@pytest.fixture(scope="module")
def fitted():
    """Models of every kind of noise, fitted to `trumpet()`; not to be changed."""
    noises = ("homoscedastic", "polynomial", "gp")
    return {noise: model_of(noise).fit(*trumpet()) for noise in noises}


# What is recovered


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_noise_that_depends_on_the_row_is_recovered(noise, fitted):
    X, y = trumpet(2000, seed=1)
    ours, constant = fitted[noise], fitted["homoscedastic"]
    error = np.log(ours.predict_noise_std(X) / true_std(X[:, 0]))
    assert np.abs(error).mean() < 0.15
    assert np.abs(error).max() < 0.4
    density = ours.log_predictive_density(X, y).mean()
    assert density > constant.log_predictive_density(X, y).mean() + 0.4
    truth = norm.logpdf(y, np.sin(2.0 * X[:, 0]), true_std(X[:, 0])).mean()
    assert truth - 0.06 < density < truth
    assert ours.lower_bound_ > constant.lower_bound_ + 100.0


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_intervals_cover_evenly_where_the_noise_is_modelled(noise, fitted):
    X, y = trumpet(4000, seed=2)

    def coverage(model, low, high):
        part = (X[:, 0] > low) & (X[:, 0] < high)
        mean, std = model.predict(X[part], return_std=True)
        return (np.abs(y[part] - mean) < 1.645 * std).mean()

    for low in (-2.0, -1.0, 0.0, 1.0):
        assert 0.83 < coverage(fitted[noise], low, low + 1.0) < 0.96
    assert coverage(fitted["homoscedastic"], -2.0, -1.0) > 0.99
    assert coverage(fitted["homoscedastic"], 1.0, 2.0) < 0.8


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
def test_constant_noise_is_found_to_be_constant():
    rng = np.random.RandomState(0)
    x = rng.uniform(-2.0, 2.0, 200)
    y = np.sin(2.0 * x) + 0.3 * rng.standard_normal(200)
    X = x[:, None]
    constant = model_of("homoscedastic").fit(X, y)
    for noise in ("polynomial", "gp"):
        std = model_of(noise).fit(X, y).predict_noise_std(X)
        assert_allclose(std, 0.3, rtol=0.35)
        assert_allclose(np.mean(std), np.sqrt(constant.noise_variance_), rtol=0.05)


@quiet
def test_a_noise_process_is_no_worse_than_constant_noise_where_noise_is_constant():
    rng = np.random.RandomState(0)
    x = rng.uniform(-2.0, 2.0, 150)
    X, y = x[:, None], np.sin(2.0 * x) + 0.3 * rng.standard_normal(150)
    process, constant = model_of("gp").fit(X, y), model_of("homoscedastic").fit(X, y)
    assert process.lower_bound_ > constant.lower_bound_ - 0.5


def test_each_output_has_noise_of_its_own():
    X, y = trumpet()
    rng = np.random.RandomState(5)
    other = np.cos(2.0 * X[:, 0]) + true_std(-X[:, 0]) * rng.standard_normal(len(X))
    for noise in ("polynomial", "gp"):
        std = model_of(noise).fit(X, np.column_stack([y, other])).predict_noise_std(X)
        assert np.abs(np.log(std[:, 0] / true_std(X[:, 0]))).mean() < 0.2
        assert np.abs(np.log(std[:, 1] / true_std(-X[:, 0]))).mean() < 0.2


# Homoscedastic


@quiet
@pytest.mark.parametrize("normalize_y", [False, True])
def test_a_white_summand_is_the_start_and_the_limits_of_the_noise(normalize_y):
    X, y = trumpet(60)
    settings = {"n_inducing": 10, "max_iter": 3, "normalize_y": normalize_y}
    for level, limits in ((0.3, (1e-3, 1.0)), (0.02, (0.01, 0.03)), (0.3, "fixed")):
        expected = model_of(HomoscedasticNoise(level, limits), kernel=KERNEL, **settings)
        expected.fit(X, y)
        white = WhiteKernel(level, limits)
        for kernel in (KERNEL + white, white + KERNEL):
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
    low = model_of(HomoscedasticNoise(variance_bounds=(1e-6, 1e-3)), n_inducing=10).fit(X, y)
    assert_allclose(low.noise_variance_, 1e-3)
    high = model_of(HomoscedasticNoise(variance_bounds=(2.0, 9.0)), n_inducing=10).fit(X, y)
    assert_allclose(high.noise_variance_, 2.0)


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


# Known


def test_known_noise_takes_the_place_of_the_setting():
    X, y = trumpet(60)
    variance = true_std(X[:, 0]) ** 2
    reference = model_of("homoscedastic", max_iter=5, tol=1e-2).fit(X, y, noise_variance=variance)
    for noise in ("polynomial", "gp", HomoscedasticNoise(7.0, "fixed")):
        model = model_of(noise, max_iter=5, tol=1e-2).fit(X, y, noise_variance=variance)
        assert model.lower_bound_ == reference.lower_bound_
        with pytest.raises(ValueError, match="noise_variance is needed"):
            model.predict_noise_std(X)


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


# Polynomial


def test_a_polynomial_of_degree_zero_is_constant_noise():
    X, y = trumpet(60)
    constant, polynomial = model_of("homoscedastic"), model_of(PolynomialNoise(0))
    assert constant.fit(X, y).lower_bound_ == polynomial.fit(X, y).lower_bound_
    assert constant.noise_variance_ == polynomial.noise_variance_


@quiet
@pytest.mark.parametrize(
    ("noise", "n_terms"),
    [
        (PolynomialNoise(1), 3),
        (PolynomialNoise(), 5),
        (PolynomialNoise(3), 7),
        (PolynomialNoise(2, interactions=True), 6),
        (PolynomialNoise(3, interactions=True), 10),
    ],
    ids=str,
)
def test_the_log_variance_is_a_polynomial_of_the_columns(noise, n_terms):
    X, y = plane()
    model = model_of(noise, max_iter=5).fit(X, y)
    low, high = X.min(axis=0), X.max(axis=0)
    inside = np.random.RandomState(0).uniform(low, high, (300, 2))
    if noise.interactions:
        terms = PolynomialFeatures(noise.degree).fit_transform(inside)
    else:
        powers = [inside**k for k in range(1, noise.degree + 1)]
        terms = np.column_stack([np.ones(300), *powers])
    assert terms.shape[1] == n_terms
    log_variance = 2.0 * np.log(model.predict_noise_std(inside))
    coefficients = np.linalg.lstsq(terms / np.abs(terms).max(axis=0), log_variance, rcond=None)[0]
    assert_allclose(terms / np.abs(terms).max(axis=0) @ coefficients, log_variance, atol=1e-8)
    # Every term is used: without one of them it is no longer exact.
    assert np.abs(coefficients).min() > 1e-6
    # Beyond the rows the noise stays what it is at the edge.
    beyond = np.array([[low[0] - 5.0, high[1] + 99.0], [0.0, 1e6]])
    edge = np.clip(beyond, low, high)
    assert_array_equal(model.predict_noise_std(beyond), model.predict_noise_std(edge))


def test_the_polynomial_is_at_the_maximum_of_the_likelihood_of_the_full_model():
    X, y = plane(60)
    model = model_of(
        PolynomialNoise(1), n_inducing=60, selection_tol=0.0, fit_prior_mean=False, tol=1e-9
    ).fit(X, y)
    K, variance = model.kernel_(X), model.predict_noise_std(X) ** 2

    def likelihood(log_factor):
        C = K + np.diag(variance * np.exp(log_factor))
        return multivariate_normal(np.zeros(60), C).logpdf(y)

    assert_allclose(likelihood(np.zeros(60)), model.lower_bound_, atol=1e-5)
    assert np.ptp(np.log(variance)) > 1.0
    basis, [coefficients] = model._noise.basis(X), model._noise.coefficients
    for k, direction in enumerate(basis.T):
        slope = (likelihood(1e-4 * direction) - likelihood(-1e-4 * direction)) / 2e-4
        # All but the constant have a Gaussian prior: precisions of 2 / 4 for two columns.
        assert_allclose(slope, 0.5 * coefficients[k] if k else 0.0, atol=0.02)


@quiet
@pytest.mark.parametrize("noise", [PolynomialNoise(), PolynomialNoise(2, True)], ids=str)
def test_a_constant_column_adds_nothing_to_a_polynomial(noise):
    X, y = trumpet(60)
    quick = {"n_inducing": 10, "tol": 1e-7}
    plain = model_of(noise, **quick).fit(X, y)
    padded = model_of(noise, **quick).fit(np.column_stack([X, np.full(60, 7.3)]), y)
    assert_allclose(padded.lower_bound_, plain.lower_bound_, atol=0.05)
    new = np.column_stack([X, np.full(60, 1e3)])
    assert np.isfinite(padded.predict_noise_std(new)).all()


@pytest.mark.filterwarnings("ignore:the bound still rises:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("noise", ["polynomial", "gp"])
def test_scale_and_offset_of_the_columns_do_not_change_the_noise(noise):
    X, y = trumpet(80)
    plain, moved = model_of(noise).fit(X, y), model_of(noise).fit(1e6 * X - 1e7, y)
    expected = plain.predict_noise_std(X)
    assert_allclose(moved.predict_noise_std(1e6 * X - 1e7), expected, rtol=1e-2)


def test_a_noise_variance_at_its_limit_is_named_by_output():
    rng = np.random.RandomState(0)
    x = np.sort(rng.uniform(-1.0, 1.0, 60))
    noise = rng.standard_normal((60, 2)) * np.column_stack([np.full(60, 0.3), x > 0.9])
    with pytest.warns(ConvergenceWarning, match="meet their limits") as caught:
        model_of(PolynomialNoise(6), n_inducing=30).fit(
            x[:, None], np.sin(3.0 * x)[:, None] + noise
        )
    [text] = [str(item.message) for item in caught]
    assert "of output 1" in text
    assert "of output 0" not in text


# Process


def integral(model, x, factor):
    """Return the expectation of ``factor(z)`` for the target mean + std z at x.

    By the trapezoidal rule after z = sinh(t), which reaches far into the tails.
    """
    mean, std = (part[0] for part in model.predict([[x]], return_std=True))
    t = np.linspace(-6.0, 6.0, 3001)
    z = np.sinh(t)
    X = np.full((len(z), 1), x)
    density = std * np.exp(model.log_predictive_density(X, mean + std * z))
    return np.sum(factor(z) * density * np.cosh(t)) * (t[1] - t[0])


@pytest.mark.parametrize("noise", ["polynomial", "gp"])
@pytest.mark.parametrize("x", [-1.5, 0.3, 1.9, 4.0])
def test_the_predictive_density_has_the_moments_of_the_prediction(noise, x, fitted):
    model = fitted[noise]
    assert_allclose(integral(model, x, np.ones_like), 1.0, atol=1e-8)
    assert_allclose(integral(model, x, lambda z: z), 0.0, atol=1e-8)
    assert_allclose(integral(model, x, np.square), 1.0, rtol=1e-4)


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
@pytest.mark.parametrize("targets", ["no noise", "noise on one half", "outliers", "zeros"])
@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_the_bound_of_a_noise_process_is_below_what_any_fit_could_reach(targets, weight):
    """Where noise vanishes its precision has no end, and rounding would be taken for evidence."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (150, 1))
    y = np.sin(X[:, 0])
    if targets == "noise on one half":
        y = y + np.where(X[:, 0] > 0.0, 0.3, 0.0) * rng.standard_normal(150)
    elif targets == "outliers":
        y[::20] += 5.0
    elif targets == "zeros":
        y = np.where(rng.uniform(size=150) < 0.8, 0.0, rng.standard_normal(150))
    model = model_of("gp", max_iter=20, max_reselections=1).fit(X, y, weight)
    log_noise, _ = model._noise.log_moments(X)
    assert model.lower_bound_ <= -0.5 * weight * (np.log(2.0 * np.pi) + log_noise).sum() + 1e-6
    assert model.lower_bound_ <= model.certificate(X, y, weight).upper_bound + 1e-6
    assert np.isfinite(model.predict(X, return_std=True)).all()


@quiet
def test_a_polynomial_in_many_columns_stays_calibrated_with_few_rows():
    """Forty slopes and curvatures from a hundred rows: without their prior they fit noise."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((600, 20))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.3 * rng.standard_normal(600)
    model = model_of("polynomial", n_inducing=50).fit(X[:100], y[:100])
    mean, std = model.predict(X[100:], return_std=True)
    assert 0.85 < (np.abs(y[100:] - mean) < 1.96 * std).mean() < 0.99
