"""Fitted models at rows that are given again: bounds, certificates, and models on fewer points."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler

from sparsegpc import HomoscedasticNoise, SparseGPRegressor
from tests.estimators import many_classes, regression, two_classes


@pytest.fixture(scope="module")
def learned_classifier():
    """A classifier that has learned its kernel; not to be changed."""
    return two_classes.small_model().fit(*two_classes.moons())


@pytest.fixture(scope="module")
def learned_regressor():
    """A regressor that has learned its kernel; not to be changed."""
    return regression.model_of().fit(*regression.waves())


# The lower bound of two classes


def test_the_lower_bound_of_labels_without_arguments_is_that_of_the_fit(learned_classifier):
    assert learned_classifier.lower_bound() == learned_classifier.lower_bound_


@two_classes.PAIRS
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_the_lower_bound_of_the_training_labels_is_that_of_the_fit(
    likelihood, bound, fit_prior_mean, rng
):
    X, y = two_classes.moons()
    weight = rng.uniform(0.0, 2.0, len(X)) * (rng.uniform(size=len(X)) < 0.8)
    model = two_classes.fixed_model(
        likelihood=likelihood, bound=bound, fit_prior_mean=fit_prior_mean
    )
    model.fit(X, y, weight)
    assert_allclose(
        model.lower_bound(X=X, y=y, sample_weight=weight), model.lower_bound_, atol=1e-6
    )
    at_theta = model.lower_bound(model.kernel_.theta, X, y, weight)
    assert_allclose(at_theta, model.lower_bound_, atol=1e-6)
    assert abs(model.lower_bound(X=X, y=y) - model.lower_bound_) > 1.0


@two_classes.PAIRS
def test_the_gradient_of_the_lower_bound_of_two_classes(likelihood, bound, rng):
    X, y = two_classes.moons(60)
    weight = rng.uniform(0.5, 2.0, len(X))
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0]) + ConstantKernel(0.3) * sk.DotProduct()
    model = two_classes.fixed_model(kernel=kernel, likelihood=likelihood, bound=bound, tol=1e-9)
    model.fit(X, y, weight)
    theta = kernel.theta + rng.uniform(-0.3, 0.3, len(kernel.theta))

    def value(theta):
        return model.lower_bound(theta, X, y, weight)

    at_theta, gradient = model.lower_bound(theta, X, y, weight, eval_gradient=True)
    assert at_theta == value(theta)
    forward, backward = (approx_fprime(theta, value, step) for step in (1e-4, -1e-4))
    assert_allclose(gradient, (forward + backward) / 2, rtol=1e-4, atol=1e-4)
    assert np.abs(gradient).min() > 1e-3


def test_the_lower_bound_of_other_labelled_rows(learned_classifier):
    X, y = two_classes.moons(50, seed=9)
    value = learned_classifier.lower_bound(X=X, y=y)
    assert -50 * np.log(2.0) < value < 0.0
    shuffled = learned_classifier.lower_bound(X=X[::-1], y=y[::-1])
    assert shuffled == value
    doubled = learned_classifier.lower_bound(X=np.tile(X, (2, 1)), y=np.tile(y, 2))
    assert_allclose(doubled, learned_classifier.lower_bound(X=X, y=y, sample_weight=2.0), rtol=1e-9)
    one_class = learned_classifier.lower_bound(X=X[y == 1], y=y[y == 1])
    # Their best prior mean is infinite: all labels are certain, but for rounding.
    assert value < one_class < 1e-9


def test_the_lower_bound_changes_nothing(learned_classifier):
    before = pickle.dumps(learned_classifier)
    learned_classifier.lower_bound(np.zeros(2), *two_classes.moons(30), eval_gradient=True)
    assert pickle.dumps(learned_classifier) == before


def test_lower_bound_at_absurd_hyperparameters_is_minus_infinity():
    X, y = two_classes.moons()
    model = two_classes.fixed_model().fit(X, y)
    bound, gradient = model.lower_bound([1000.0, 0.0], X, y, eval_gradient=True)
    assert bound == -np.inf
    assert_array_equal(gradient, 0.0)


# The lower bound of many classes


@many_classes.every_likelihood
def test_the_lower_bound_of_many_classes_is_that_of_fit(likelihood, rng):
    X, y = many_classes.blobs()
    weight = rng.uniform(0.0, 2.0, 45)
    model = many_classes.fixed_model(likelihood=likelihood).fit(X, y, weight)
    again = model.lower_bound(X=X, y=y, sample_weight=weight)
    assert_allclose(again, model.lower_bound_, rtol=1e-9)
    assert abs(model.lower_bound(X=X, y=y) - again) > 0.1
    assert np.isfinite(model.lower_bound(X=X[:5], y=y[:5]))


@many_classes.some_likelihoods
def test_the_gradient_of_the_lower_bound_of_many_classes(likelihood, rng):
    X, y = many_classes.blobs(40)
    weight = rng.uniform(0.5, 2.0, 40)
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0])
    model = many_classes.fixed_model(kernel=kernel, likelihood=likelihood, n_inducing=6, tol=1e-8)
    model.fit(X, y, weight)
    theta = model.kernel_.theta + rng.uniform(-0.3, 0.3, len(model.kernel_.theta))
    assert len(theta) == (9 if likelihood in many_classes.BINARY else 3)

    def value(theta):
        return model.lower_bound(theta, X, y, weight)

    at_theta, gradient = model.lower_bound(theta, X, y, weight, eval_gradient=True)
    assert at_theta == value(theta)
    steps = 3e-4 * np.eye(len(theta))
    expected = [(value(theta + step) - value(theta - step)) / 6e-4 for step in steps]
    assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(gradient).max() > 0.1


# The lower bound of regressors


def test_the_lower_bound_of_targets_without_arguments_is_that_of_the_fit(learned_regressor):
    assert learned_regressor.lower_bound() == learned_regressor.lower_bound_


@regression.quiet
@pytest.mark.parametrize(
    ("noise", "normalize_y"), [*zip(regression.NOISES, [False, True] * 2, strict=True)]
)
def test_the_lower_bound_of_the_training_targets_is_that_of_the_fit(noise, normalize_y, rng):
    X, Y = regression.two_waves()
    weight = rng.randint(0, 3, 60)
    model = regression.model_of(noise=noise, normalize_y=normalize_y, max_iter=5).fit(
        X, 9.0 * Y, weight
    )
    again = model.lower_bound(None, X, 9.0 * Y, weight)
    assert_allclose(again, model.lower_bound_, atol=1e-5)
    certified = model.certificate(X, 9.0 * Y, weight).lower_bound
    assert_allclose(certified, again, atol=1e-5)


@regression.quiet
@pytest.mark.parametrize(
    ("noise", "bound"),
    [
        *((noise, "tight") for noise in regression.NOISES),
        ("known", "spherical"),
        ("polynomial", "standard"),
    ],
)
def test_the_gradient_of_the_lower_bound_of_targets(noise, bound, rng):
    X, Y = regression.two_waves(40)
    variance = regression.known_noise(40, 2) if noise == "known" else None
    name = "homoscedastic" if variance is not None else noise
    model = regression.model_of(
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


def test_the_lower_bound_of_other_targets():
    X, y = regression.waves()
    model = regression.fixed_model(selector=X[::5]).fit(X, y)
    other = regression.fixed_model(selector=X[::5]).fit(*regression.waves(30, seed=9))
    assert_allclose(
        model.lower_bound(None, *regression.waves(30, seed=9)), other.lower_bound_, rtol=1e-10
    )
    theta = np.log([3.0, 0.9])
    changed = regression.fixed_model(
        kernel=regression.KERNEL.clone_with_theta(theta), selector=X[::5]
    ).fit(X, y)
    assert_allclose(model.lower_bound(theta, X, y), changed.lower_bound_, rtol=1e-10)


def test_the_lower_bound_and_the_certificate_change_nothing(learned_regressor):
    before = pickle.dumps(learned_regressor)
    learned_regressor.lower_bound([0.0, 0.0], *regression.waves(), eval_gradient=True)
    learned_regressor.certificate(*regression.waves())
    learned_regressor.truncate(3, *regression.waves()).lower_bound(
        X=regression.waves()[0], y=regression.waves()[1]
    )
    assert pickle.dumps(learned_regressor) == before


# Certificates of classifiers


@many_classes.every_kind
def test_a_certificate_closes_with_the_number_of_points(likelihood, n_classes):
    X, y = many_classes.blobs(50, n_classes)
    gaps = []
    for n_inducing in (4, 12, 50):
        model = many_classes.fixed_model(likelihood=likelihood, n_inducing=n_inducing).fit(X, y)
        certificate = model.certificate(X, y)
        assert_allclose(certificate.lower_bound, model.lower_bound_, atol=1e-4)
        assert certificate.total_weight == 50
        assert certificate.upper_bound >= certificate.lower_bound
        assert certificate.improved_lower_bound >= certificate.lower_bound - 1e-9
        assert certificate.standard_bound <= certificate.lower_bound + 1e-9
        gaps.append(certificate.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[0] > 1.0
    assert -1e-9 <= gaps[2] < 1e-3


@pytest.mark.parametrize("method", ["trace", "cauchy-schwarz", "one-pass", "two-moment"])
def test_each_upper_bound_by_name(method):
    X, y = many_classes.blobs()
    for likelihood in many_classes.SOME:
        model = many_classes.fixed_model(likelihood=likelihood).fit(X, y)
        by_name, best = model.certificate(X, y, method=method), model.certificate(X, y)
        assert set(by_name.upper_bounds) == {method}
        assert by_name.upper_bound >= best.upper_bound - 1e-9
        assert by_name.upper_bound >= by_name.lower_bound


def dense_polya_gamma(kernel, X, y, tilt, prior_mean):
    """The dense Polya-Gamma bound at given tilts, y of +1 and -1, as log N(target | mean, ...)."""
    omega = np.tanh(0.5 * tilt) / (2.0 * tilt)
    covariance = kernel(X) + np.diag(1.0 / omega)
    residual = 0.5 * y / omega - prior_mean
    return (
        -0.5 * residual @ np.linalg.solve(covariance, residual)
        - 0.5 * np.linalg.slogdet(covariance)[1]
        + 0.5 * ((0.5 * y) ** 2 / omega - np.log(omega) + tilt**2 * omega).sum()
        - np.log(2.0 * np.cosh(0.5 * tilt)).sum()
    )


@pytest.mark.parametrize("n_inducing", [3, 8, 30])
def test_the_certificate_of_polya_gamma_holds_for_the_dense_bound_at_its_tilts(n_inducing):
    X, y = many_classes.moons()
    model = many_classes.fixed_model(
        likelihood="polya-gamma",
        bound="standard",
        n_inducing=n_inducing,
        fit_prior_mean=False,
        tol=1e-9,
    ).fit(X, y)
    mean, variance = model.latent_mean_and_variance(X)
    dense = dense_polya_gamma(
        many_classes.KERNEL, X, 2.0 * y - 1.0, np.sqrt(mean**2 + variance), 0.0
    )
    certificate = model.certificate(X, y)
    assert model.lower_bound_ < dense + 1e-6
    assert dense <= certificate.upper_bound + 1e-6
    assert certificate.upper_bound - dense < dense - model.lower_bound_ + 1e-3
    one = many_classes.fixed_model(likelihood="polya-gamma", selector=X, fit_prior_mean=False).fit(
        X, y
    )
    assert one.lower_bound_ >= dense - 1e-3


def test_the_certificate_of_dirichlet_holds_for_the_exact_regression():
    X, y = many_classes.blobs()
    noise = np.log1p(1.0 / (0.01 + np.eye(3)[y]))
    targets = np.log(0.01 + np.eye(3)[y]) - 0.5 * noise
    exact = 0.0
    for k in range(3):
        covariance = many_classes.KERNEL(X) + np.diag(noise[:, k])
        exact -= 0.5 * targets[:, k] @ np.linalg.solve(covariance, targets[:, k])
        exact -= 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    for n_inducing in (5, 20):
        model = many_classes.fixed_model(
            likelihood="dirichlet", n_inducing=n_inducing, fit_prior_mean=False
        ).fit(X, y)
        certificate = model.certificate(X, y)
        assert model.lower_bound_ <= certificate.improved_lower_bound <= exact + 1e-6
        assert exact <= certificate.upper_bound + 1e-6


@many_classes.some_likelihoods
def test_a_certificate_of_other_labels_is_refused(likelihood):
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood=likelihood).fit(X, y)
    for rows, labels, weight in ((X[:40], y[:40], None), (X, np.roll(y, 1), None), (X, y, 1.5)):
        with pytest.raises(ValueError, match="certificate needs the data of fit"):
            model.certificate(rows, labels, weight)
    with pytest.raises(ValueError, match=r"y holds the label 7, which is not in classes_"):
        model.certificate(X, np.where(y == 0, 7, y))


# Certificates of regressors


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
        model = regression.fixed_model(
            kernel=kernel,
            noise=HomoscedasticNoise(3000.0),
            selector=X[:n_inducing],
            bound=bound,
            fit_prior_mean=False,
        ).fit(X, y)
        lower.append(model.lower_bound_)
    upper = [model.certificate(X, y, method=method).upper_bound for method in regression.METHODS]
    assert lower[0] < lower[1] < lower[2] < exact < min(upper)
    trace, crude, one_pass, two_moment, gradients = upper
    assert gradients <= two_moment <= one_pass <= crude
    assert_allclose(model.certificate(X, y).upper_bound, min(trace, two_moment), rtol=1e-12)


@pytest.mark.parametrize("method", [*regression.METHODS, "auto"])
@pytest.mark.parametrize("n_inducing", [6, 25])
def test_a_certificate_holds_against_the_full_model(method, n_inducing):
    X, y = regression.waves()
    variance = regression.known_noise()
    model = regression.fixed_model(n_inducing=n_inducing, selection_tol=0.0, fit_prior_mean=False)
    model.fit(X, y, noise_variance=variance)
    certificate = model.certificate(X, y, noise_variance=variance, method=method)
    full = GaussianProcessRegressor(regression.KERNEL, alpha=variance, optimizer=None).fit(X, y)
    exact = full.log_marginal_likelihood_value_
    assert_allclose(certificate.lower_bound, model.lower_bound_, rtol=1e-10)
    assert certificate.total_weight == 60
    assert certificate.standard_bound <= certificate.lower_bound
    low, high = certificate.interval
    assert certificate.lower_bound <= low <= exact + 1e-8
    assert exact - 1e-8 <= high == certificate.upper_bound
    mean, std = full.predict(regression.grid(9), return_std=True)
    ours, variance = model.latent_mean_and_variance(regression.grid(9))
    assert (np.abs(ours - mean) <= certificate.mean_error * np.sqrt(variance) + 1e-6).all()
    low, high = certificate.variance_ratio
    assert (low - 1e-6 <= variance / std**2).all()
    assert (variance / std**2 <= high + 1e-6).all()
    if method == "auto":
        assert set(certificate.upper_bounds) == set(regression.METHODS[:-1])
    else:
        assert set(certificate.upper_bounds) == {method}


def test_a_certificate_of_all_rows_has_no_gap():
    X, y = regression.waves()
    model = regression.fixed_model(**regression.ALL_ROWS).fit(X, y)
    certificate = model.certificate(X, y)
    assert 0.0 <= certificate.gap < 1e-6
    assert "within" in str(certificate)
    assert "posterior" in str(certificate)


def test_the_certificate_of_several_outputs_is_the_sum():
    X, Y = regression.two_waves()
    both = regression.fixed_model(selector=X[::5]).fit(X, Y).certificate(X, Y)
    single = [regression.fixed_model(selector=X[::5]).fit(X, y).certificate(X, y) for y in Y.T]
    assert_allclose(both.lower_bound, sum(one.lower_bound for one in single), rtol=1e-8)
    for method, bound in both.upper_bounds.items():
        assert_allclose(bound, sum(one.upper_bounds[method] for one in single), rtol=1e-8)


@regression.quiet
@pytest.mark.parametrize("noise", regression.NOISES)
def test_more_points_close_the_gap_of_the_certificate(noise):
    X, y = regression.waves()
    model = regression.model_of(noise=noise, n_inducing=60, selection_tol=0.0, max_iter=5).fit(X, y)
    gaps = [model.truncate(m, X, y).certificate(X, y).gap for m in (4, 12)]
    gaps.append(model.certificate(X, y).gap)
    assert gaps[0] > gaps[1] > gaps[2] > -1e-8
    assert gaps[2] < 1e-4


def test_a_certificate_of_other_targets_is_refused(learned_regressor):
    X, y = regression.waves()
    for data in ((X[:-1], y[:-1]), (X, y + 0.1 * X[:, 0]), (X, y, np.arange(1.0, len(y) + 1.0))):
        with pytest.raises(ValueError, match="needs the data of fit"):
            learned_regressor.certificate(*data)


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


# Fewer points


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


@regression.quiet
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
def test_a_truncated_model_is_the_one_fitted_to_its_points(parameters):
    X, y = regression.waves()
    y = 30.0 * y + 100.0
    model = regression.model_of(max_iter=10, **parameters)
    model.fit(X, y)
    bound, before = model.lower_bound_, model.predict(regression.grid())
    for m in (1, 5, 12):
        short = model.truncate(m, X, y)
        again = refitted(model, X, y, m)
        assert_allclose(short.lower_bound_, again.lower_bound_, rtol=1e-6)
        assert_allclose(short.prior_mean_, again.prior_mean_, rtol=1e-6)
        for ours, theirs in zip(
            short.predict(regression.grid(), return_std=True),
            again.predict(regression.grid(), return_std=True),
            strict=True,
        ):
            assert_allclose(ours, theirs, rtol=1e-5)
        assert_array_equal(short.inducing_points_, model.inducing_points_[:m])
        assert short.noise_variance_ == model.noise_variance_
        assert_allclose(short.lower_bound(X=X, y=y), short.lower_bound_, rtol=1e-8)
        assert_allclose(short.certificate(X, y).lower_bound, short.lower_bound_, rtol=1e-8)
    # The model itself stays as it was.
    assert model.lower_bound_ == bound
    assert len(model.inducing_points_) == 12
    assert_array_equal(model.predict(regression.grid()), before)


@regression.quiet
def test_a_truncated_model_with_known_noise_and_weights(rng):
    X, Y = regression.two_waves()
    weight, variance = rng.uniform(0.0, 2.0, 60), regression.known_noise(60, 2)
    kernel = ConstantKernel() * RBF()
    model = regression.model_of(kernel=kernel, max_iter=5).fit(X, Y, weight, variance)
    short = model.truncate(4, X, Y, weight, noise_variance=variance)
    again = regression.fixed_model(kernel=model.kernel_, selector=model.inducing_points_[:4])
    again.fit(X, Y, weight, variance)
    assert_allclose(short.lower_bound_, again.lower_bound_, rtol=1e-8)
    assert_allclose(short.predict(regression.grid()), again.predict(regression.grid()), rtol=1e-5)
    assert_array_equal(short.inducing_indices_, model.inducing_indices_[:4])


@regression.quiet
@pytest.mark.parametrize("noise", regression.NOISES)
def test_truncating_in_steps_is_truncating_at_once(noise):
    X, y = regression.waves()
    model = regression.model_of(noise=noise, bound="standard").fit(X, y)
    whole = model.truncate(len(model.inducing_points_), X, y)
    assert_allclose(whole.lower_bound_, model.lower_bound_, atol=1e-8)
    # Sites that depend on f are found to a tolerance.
    atol = 1e-4 if noise == "student-t" else 1e-8
    assert_allclose(whole.predict(regression.grid()), model.predict(regression.grid()), atol=atol)
    at_once, in_steps = model.truncate(4, X, y), model.truncate(9, X, y).truncate(4, X, y)
    assert_allclose(in_steps.lower_bound_, at_once.lower_bound_, rtol=1e-10, atol=1e-2 * atol)
    assert_allclose(
        in_steps.predict(regression.grid()),
        at_once.predict(regression.grid()),
        rtol=1e-8,
        atol=atol,
    )
    assert_array_equal(
        at_once.predict_noise_std(regression.grid()), model.predict_noise_std(regression.grid())
    )
    # A further point never lowers the standard bound.
    sizes = range(1, len(model.inducing_points_) + 1)
    path = [model.truncate(m, X, y).lower_bound_ for m in sizes]
    assert (np.diff(path) > -1e-8).all()


@regression.quiet
def test_a_truncated_model_with_a_noise_process_keeps_its_noise():
    """What it says about given rows is about the noise that it predicts with."""
    X, y = regression.waves()
    model = regression.model_of(noise="gp").fit(X, y)
    short = model.truncate(5, X, y)
    assert_allclose(short.lower_bound(X=X, y=y), short.lower_bound_, rtol=1e-9)
    assert_allclose(short.certificate(X, y).lower_bound, short.lower_bound_, rtol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "bound"),
    [
        ("bernoulli-logit", "tight"),
        ("bernoulli-probit", "standard"),
        ("polya-gamma", "spherical"),
        ("conditional-polya-gamma", "tight"),
        ("softmax", "spherical"),
        ("dirichlet", "tight"),
    ],
)
def test_a_truncated_classifier_is_the_one_fitted_to_its_points(likelihood, bound, rng):
    classes = many_classes if likelihood in many_classes.JOINT else two_classes
    X, y = many_classes.blobs() if classes is many_classes else two_classes.moons()
    weight = rng.uniform(0.5, 2.0, len(y))
    # Sites settle up to the tolerance: so low that it makes no difference where they start.
    settings = {"likelihood": likelihood, "bound": bound, "class_weight": "balanced", "tol": 1e-11}
    model = classes.fixed_model(n_inducing=12, selection_tol=0.0, **settings).fit(X, y, weight)
    before, proba = model.lower_bound_, model.predict_proba(X)
    for m in (1, 5, 12):
        short = model.truncate(m, X, y, weight)
        again = classes.fixed_model(selector=model.inducing_points_[:m], **settings)
        again.fit(X, y, weight)
        assert_allclose(short.lower_bound_, again.lower_bound_, rtol=1e-8)
        assert_allclose(short.cost_per_row_, again.cost_per_row_, rtol=1e-4)
        assert_allclose(short.predict_proba(X), again.predict_proba(X), atol=1e-5)
        assert_array_equal(short.inducing_points_, model.inducing_points_[:m])
        assert_array_equal(short.inducing_indices_, model.inducing_indices_[:m])
        assert_allclose(short.lower_bound(None, X, y, weight), short.lower_bound_, rtol=1e-9)
        assert_allclose(short.certificate(X, y, weight).lower_bound, short.lower_bound_, rtol=1e-9)
    # The model itself stays as it was.
    assert model.lower_bound_ == before
    assert_array_equal(model.predict_proba(X), proba)


def test_truncating_a_classifier_in_steps_is_truncating_at_once(learned_classifier):
    X, y = two_classes.moons()
    at_once = learned_classifier.truncate(4, X, y)
    in_steps = learned_classifier.truncate(9, X, y).truncate(4, X, y)
    assert_allclose(in_steps.lower_bound_, at_once.lower_bound_, rtol=1e-8)
    assert_allclose(in_steps.predict_proba(X), at_once.predict_proba(X), atol=1e-3)
    assert at_once.kernel_ == learned_classifier.kernel_
    assert_array_equal(at_once.history_["seconds"], learned_classifier.history_["seconds"])


def test_one_model_for_each_class_is_truncated_one_by_one():
    X, y = many_classes.blobs()
    model = many_classes.fixed_model(likelihood="polya-gamma").fit(X, y)
    with pytest.raises(
        ValueError, match="has 3, one for each class: call truncate of the models in"
    ):
        model.truncate(4, X, y)
    one = model.estimators_[2].truncate(4, X, (y == 2).astype(int))
    assert one.lower_bound_ < model.estimators_[2].lower_bound_
    assert len(one.inducing_points_) == 4


@regression.quiet
@pytest.mark.parametrize("noise", regression.NOISES)
def test_noise_that_was_learned_is_not_given_and_known_noise_is(noise):
    X, y = regression.waves()
    learned = regression.model_of(noise=noise, max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="noise_variance must be None"):
        learned.truncate(4, X, y, noise_variance=0.1)
    known = regression.fixed_model(noise="homoscedastic").fit(X, y, noise_variance=0.1)
    with pytest.raises(ValueError, match="noise_variance is needed for these rows"):
        known.truncate(4, X, y)
    assert known.truncate(4, X, y, noise_variance=0.1).lower_bound_ < known.lower_bound_


def test_other_rows_are_no_reason_for_a_smaller_model(learned_classifier, learned_regressor):
    for model, (X, y) in (
        (learned_classifier, two_classes.moons()),
        (learned_regressor, regression.waves()),
    ):
        with pytest.raises(ValueError, match=f"the {len(y)} distinct rows.*got {len(y) - 1}"):
            model.truncate(4, X[1:], y[1:])
        # Copies are not counted.
        twice = np.tile(X, (2, 1)), np.tile(y, 2), 0.5
        expected = model.truncate(4, X, y).lower_bound_
        assert_allclose(model.truncate(4, *twice).lower_bound_, expected, rtol=1e-7)


@pytest.mark.parametrize("value", [None, 1.0])
@pytest.mark.parametrize("name", ["certificate", "lower_bound", "truncate", "point_gains"])
def test_an_argument_that_fit_lacks_is_refused_by_name(name, value, learned_regressor):
    X, y = regression.waves()
    data = {"X": X, "y": y} | ({"n_inducing": 2} if name == "truncate" else {})
    with pytest.raises(TypeError, match=rf"\.{name}\(\) got an unexpected .* 'noise_varianc'"):
        getattr(learned_regressor, name)(**data, noise_varianc=value)


def test_the_bound_of_the_fit_takes_no_unknown_argument(learned_regressor):
    with pytest.raises(TypeError, match="unexpected keyword argument 'exposure'"):
        learned_regressor.lower_bound(exposure=None)
