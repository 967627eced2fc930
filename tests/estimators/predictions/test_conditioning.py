"""`condition`: a fitted regressor given further targets, without learning again."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import ExcessNoise, GPNoise, HomoscedasticNoise, SparseGPRegressor
from sparsegpc._estimators.predictions.latent import component_moments


@pytest.fixture(scope="module")
def data():
    """Rows, targets of two outputs, further rows and targets, and rows to predict."""
    rng = np.random.RandomState(0)
    X, new, at = rng.uniform(1, 6, (40, 2)), rng.uniform(1, 8, (5, 2)), rng.uniform(1, 9, (7, 2))

    def targets(X):
        f = np.column_stack([np.sin(X[:, 0]) + 2.0, 100.0 * np.cos(X[:, 1])])
        return f + rng.normal(size=f.shape) * [0.1, 10.0]

    return X, targets(X), new, targets(new), at


def fixed(points, noise, **parameters):
    """Return a regressor of fixed hyperparameters, with these rows as points."""
    kernel = 1.7 * RBF([1.0, 2.0])
    points = {"selector": points, "n_inducing": len(points)}
    return SparseGPRegressor(kernel, noise=noise, optimizer=None, **points, **parameters)


@pytest.mark.parametrize("fit_prior_mean", [True, False])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_result_is_that_of_a_fit_to_all_rows(data, fit_prior_mean, n_outputs):
    X, y, new, y_new, at = data
    y, y_new = (y[:, 0], y_new[:, 0]) if n_outputs == 1 else (y, y_new)
    noise = HomoscedasticNoise(0.02, "fixed")
    gp = fixed(X, noise, fit_prior_mean=fit_prior_mean).fit(X, y)
    before = gp.predict(at, return_std=True)
    found = gp.condition(new, y_new)
    rows = np.vstack([X, new])
    whole = fixed(rows, noise, fit_prior_mean=fit_prior_mean)
    whole.fit(rows, np.concatenate([y, y_new]))
    assert_allclose(
        found.latent_mean_and_variance(at), whole.latent_mean_and_variance(at), atol=1e-6
    )
    assert_allclose(found.prior_mean_, whole.prior_mean_, rtol=1e-7)
    assert_array_equal(found.inducing_points_[:40], X)
    assert found.inducing_indices_ is None
    # The model that was there has not changed.
    assert_array_equal(gp.predict(at, return_std=True), before)
    assert_array_equal(pickle.loads(pickle.dumps(found)).predict(at), found.predict(at))


def test_known_noise(data):
    X, y, new, y_new, at = data
    errors, errors_new = np.linspace(0.01, 0.2, 40), np.linspace(0.3, 0.01, 5)
    gp = fixed(X, "homoscedastic").fit(X, y[:, 0], noise_variance=errors)
    rows = np.vstack([X, new])
    whole = fixed(rows, "homoscedastic")
    whole.fit(rows, np.append(y[:, 0], y_new[:, 0]), noise_variance=np.append(errors, errors_new))
    found = gp.condition(new, y_new[:, 0], noise_variance=errors_new)
    assert_allclose(
        found.latent_mean_and_variance(at), whole.latent_mean_and_variance(at), rtol=1e-6
    )
    with pytest.raises(ValueError, match="noise_variance is needed"):
        gp.condition(new, y_new[:, 0])


def test_excess_adds_to_known_noise(data):
    X, y, new, y_new, at = data
    gp = fixed(X, ExcessNoise(0.05, "fixed")).fit(X, y[:, 0], noise_variance=0.02)
    found = gp.condition(new, y_new[:, 0], noise_variance=0.03)
    same = fixed(X, "homoscedastic").fit(X, y[:, 0], noise_variance=0.07)
    same = same.condition(new, y_new[:, 0], noise_variance=0.08)
    assert_allclose(found.predict(at, noise_variance=0.1), same.predict(at, noise_variance=0.1))


def test_noise_that_varies_and_units(data):
    X, y, new, y_new, at = data
    gp = SparseGPRegressor(noise=GPNoise(), normalize_y=True, hyperparameters="best")
    gp.fit(X, y[:, 1])
    found = gp.condition(new, y_new[:, 1])
    # Conditioning of the joint distribution of the new rows and the others.
    m, v = gp.latent_mean_and_variance(new)
    noise = gp.predict(new, return_std=True)[1] ** 2 - v
    draws = gp.sample_f(np.vstack([new, at]), n_samples=20000)
    C = np.cov(draws)
    mean = gp.latent_mean_and_variance(at)[0]
    mean = mean + C[5:, :5] @ np.linalg.solve(C[:5, :5] + np.diag(noise), y_new[:, 1] - m)
    assert_allclose(found.predict(at), mean, atol=0.05 * y[:, 1].std())


def test_weights_of_components_follow_the_new_targets(data):
    X, y, new, y_new, _ = data
    gp = SparseGPRegressor(hyperparameters="average").fit(X, y[:, 0])
    one, target = new[:1], y_new[:1, 0]
    found = gp.condition(one, target)
    weights, means, variances = component_moments(gp._components, one)
    noise = [component.observation.constant[0] for component in gp._components]
    log_weights = np.log(weights)
    for k, (mean, variance) in enumerate(zip(means, variances, strict=True)):
        total = variance[0, 0] + noise[k]
        error = target[0] - gp._y_centre[0] - mean[0, 0]
        log_weights[k] -= 0.5 * (np.log(total) + error**2 / total)
    assert_allclose([c.weight for c in found._components], softmax(log_weights), rtol=1e-6)
    assert len(found._components) == len(gp._components) > 1


def test_rows_have_the_columns_of_the_user():
    rng = np.random.RandomState(0)
    X = np.exp(rng.normal(size=(60, 1)) * 2.0)
    y = np.log(X[:, 0]) + 0.05 * rng.normal(size=60)
    gp = SparseGPRegressor(log_transform=True).fit(X, y)
    assert np.isfinite(gp.log_scales_[0])
    found = gp.condition([[3000.0]], [8.0])
    assert_allclose(found.inducing_points_[-1], 3000.0)
    assert_allclose(found.predict([[3000.0]]), 8.0, atol=0.1)


def test_a_copy_of_a_point_adds_none(data):
    X, y, *_ = data
    gp = fixed(X, HomoscedasticNoise(0.02, "fixed")).fit(X, y[:, 0])
    found = gp.condition(X[:3], y[:3, 0])
    assert_array_equal(found.inducing_points_, X)
    assert (found.predict(X[:3], True)[1] < gp.predict(X[:3], True)[1]).all()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((2, 3)), [1.0, 1.0], "features"),
        (np.ones((2, 2)), [1.0], "inconsistent numbers of samples"),
        (np.ones((2, 2)), np.ones((2, 2)), "y must have one dimension"),
        (np.ones((2, 2)), [1.0, np.nan], "y"),
    ],
)
def test_input_that_does_not_suit_is_refused(data, X, y, message):
    gp = fixed(data[0], HomoscedasticNoise(0.02, "fixed")).fit(data[0], data[1][:, 0])
    with pytest.raises(ValueError, match=message):
        gp.condition(X, y)


def test_student_t_noise_is_refused(data):
    X, y, new, y_new, _ = data
    gp = SparseGPRegressor(1.7 * RBF(1.0), noise="student-t", n_inducing=10).fit(X, y[:, 0])
    with pytest.raises(ValueError, match="condition needs Gaussian noise"):
        gp.condition(new, y_new[:, 0])
