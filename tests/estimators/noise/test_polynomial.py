"""Noise whose log variance is a polynomial in the columns."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PolynomialFeatures

from sparsegpc import HomoscedasticNoise, PolynomialNoise, SparseGPRegressor
from sparsegpc._estimators.noise.base import NoiseSettings
from tests.estimators.noise.noise_cases import model_of, plane, quiet, true_std, trumpet


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
        # Priors: of the constant with precision 1 / 4, of the others with 2 / 4 for two columns.
        pull = 0.5 * coefficients[k] if k else 0.25 * (coefficients[0] - np.log(0.1 * y @ y / 60))
        assert_allclose(slope, pull, atol=0.02)


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


@quiet
def test_a_polynomial_in_many_columns_stays_calibrated_with_few_rows():
    """Forty slopes and curvatures from a hundred rows: without their prior they fit noise."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((600, 20))
    y = X[:, 0] + np.sin(X[:, 1]) + 0.3 * rng.standard_normal(600)
    model = model_of("polynomial", n_inducing=50).fit(X[:100], y[:100])
    mean, std = model.predict(X[100:], return_std=True)
    assert 0.85 < (np.abs(y[100:] - mean) < 1.96 * std).mean() < 0.99


class Bumps(PolynomialNoise):
    """A user's noise: its log variance is a sum of bumps between the ends of the rows."""

    def __init__(self, n_bumps=4, spoil=None):
        self.n_bumps, self.spoil = n_bumps, spoil

    def basis(self, X):
        return Values(np.linspace(X.min(), X.max(), self.n_bumps), self.spoil)


class Values:
    def __init__(self, centres, spoil):
        self.centres, self.spoil = centres, spoil

    def __call__(self, X):
        bumps = np.exp(-0.5 * (X[:, :1] - self.centres) ** 2)
        values = np.column_stack([np.ones(len(X)), bumps])
        return values if self.spoil is None else self.spoil(values)


@quiet
def test_a_basis_of_the_user_describes_the_log_variance():
    X, y = trumpet()
    model = model_of(Bumps()).fit(X, y)
    log_variance, basis = 2.0 * np.log(model.predict_noise_std(X)), Bumps().basis(X)(X)
    (coefficients,) = model._noise.coefficients
    assert_allclose(basis @ coefficients, log_variance, rtol=1e-10)
    assert np.abs(0.5 * log_variance - np.log(true_std(X[:, 0]))).mean() < 0.15
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_noise_std(X), model.predict_noise_std(X))
    assert clone(model).noise.n_bumps == 4


@quiet
def test_the_polynomials_of_the_package_are_a_basis_like_any_other():
    class Own(PolynomialNoise):
        def basis(self, X):
            return super().basis(X).__call__

    X, y = plane()
    own, given = (model_of(noise(1), max_iter=5).fit(X, y) for noise in (Own, PolynomialNoise))
    assert own.lower_bound_ == given.lower_bound_
    assert_array_equal(own.predict_noise_std(X), given.predict_noise_std(X))


@quiet
def test_a_basis_of_the_user_sees_the_columns_as_they_are():
    rng = np.random.RandomState(0)
    X = np.exp(2.0 * rng.standard_normal((200, 1)))
    y = np.log(X[:, 0]) + 0.1 * rng.standard_normal(200)
    seen = []

    class Raw(Bumps):
        def basis(self, X):
            seen.append(X.max())
            return super().basis(X)

    SparseGPRegressor(noise=Raw(1), n_inducing=10, max_iter=5).fit(X, y)
    assert set(seen) == {X.max()}
    SparseGPRegressor(noise=Raw(1), n_inducing=10, max_iter=5, log_transform=True).fit(X, y)
    assert len(set(seen)) == 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda values: values[:, 1:], "first basis function is .* must be 1 at all rows"),
        (lambda values: values[:, 0], r"shape \(60,\) at 60 rows, but it must be \(60, K\)"),
        (lambda values: values.T, r"shape \(5, 60\) at 60 rows, but it must be \(60, K\)"),
        (lambda values: values[:, :0], r"shape \(60, 0\) at 60 rows"),
        (lambda values: values / (values > 0.5), "value inf at a row, but all must be finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_wrong_basis_is_refused_with_what_is_needed(spoil, message):
    X, y = trumpet(60)
    with pytest.raises(ValueError, match=rf"noise Bumps\(.*{message}"):
        model_of(Bumps(spoil=spoil)).fit(X, y)


def test_other_settings_of_the_user_are_taken():
    class Quiet(NoiseSettings):
        _parameter_constraints = {}

        def _plan(self, data):
            return HomoscedasticNoise()._plan(data)

    X, y = trumpet(60)
    assert (
        model_of(Quiet()).fit(X, y).lower_bound_ == model_of("homoscedastic").fit(X, y).lower_bound_
    )
