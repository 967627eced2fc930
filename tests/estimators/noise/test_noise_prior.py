"""The prior that keeps learned noise from vanishing by chance."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sparsegpc import (
    GPNoise,
    HomoscedasticNoise,
    PolynomialNoise,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
    StudentTNoise,
)
from sparsegpc._core.likelihoods.student_t import PRIOR_DEVIATION as DF_DEVIATION
from sparsegpc._core.likelihoods.student_t import PRIOR_MEAN as DF_MEAN
from tests.estimators.noise.noise_cases import noise_log_density, quiet

# A common length scale has no prior of its own.
PLAIN = {"length_scales": "common", "main_effects": False, "hyperparameters": "best"}


def wave(n=50, noise=0.1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n, 1))
    return X, 3.0 + np.sin(6.0 * X[:, 0]) + noise * rng.standard_normal(n)


@pytest.mark.parametrize("noise", ["homoscedastic", HomoscedasticNoise(), PolynomialNoise(0)])
def test_a_log_noise_variance_has_a_normal_prior_about_a_tenth_of_the_variance(noise):
    X, y = wave()
    model = SparseGPRegressor(noise=noise, **PLAIN).fit(X, y)
    assert model.log_prior_ == pytest.approx(noise_log_density(np.log(model.noise_variance_), y))
    assert model.log_prior_ < -0.1


def test_each_output_has_a_prior_for_its_own_scale():
    X, y = wave()
    both = np.stack([y, 1e3 * np.cos(4.0 * X[:, 0]) + 100.0 * np.sin(99.0 * y)], axis=1)
    model = SparseGPRegressor(**PLAIN).fit(X, both)
    expected = sum(map(noise_log_density, np.log(model.noise_variance_), both.T))
    assert model.log_prior_ == pytest.approx(expected)


@pytest.mark.parametrize("estimator", [SparseGPRegressor, StochasticSparseGPRegressor])
def test_the_distance_of_the_targets_from_zero_does_not_count(estimator):
    X, y = wave()
    settings = {"fit_prior_mean": False, "length_scales": "common", "n_inducing": 20}
    model = estimator(**settings, main_effects=False).fit(X, 100.0 + y)
    assert model.log_prior_ == pytest.approx(noise_log_density(np.log(model.noise_variance_), y))


def test_the_coefficients_of_a_polynomial_keep_theirs():
    X, y = wave()
    model = SparseGPRegressor(noise=PolynomialNoise(2), **PLAIN).fit(X, y)
    [(constant, *others)] = model._noise.coefficients
    # Two terms, linear and square, with precisions of 2 / 4.
    expected = noise_log_density(constant, y) - 0.25 * np.square(others).sum()
    assert model.log_prior_ == pytest.approx(expected)


def test_the_mean_of_a_noise_process_has_the_prior():
    X, y = wave()
    model = SparseGPRegressor(noise=GPNoise(length_scales="common"), **PLAIN).fit(X, y)
    assert model.log_prior_ == pytest.approx(noise_log_density(model._noise.prior_means[0], y))


@quiet
def test_the_scale_of_student_t_noise_has_the_prior():
    X, y = wave(noise=0.3)
    model = SparseGPRegressor("rbf", noise="student-t", **PLAIN).fit(X, y)
    deviation = 1.4826 * np.median(np.abs(y - np.median(y)))
    # Half the deviation for the scale, the root of the variance.
    of_scale = norm(np.log(0.1**0.5 * deviation), 1.0)
    expected = of_scale.logpdf(np.log(model.noise_scale_)) - of_scale.logpdf(of_scale.mean())
    of_df = norm(DF_MEAN, DF_DEVIATION)
    expected += of_df.logpdf(np.log(model.noise_df_)) - of_df.logpdf(DF_MEAN)
    assert model.log_prior_ == pytest.approx(expected, abs=0.01)
    given = SparseGPRegressor(noise=StudentTNoise(df=3.0), kernel=1.0 * RBF()).fit(X, y)
    assert given.log_prior_ == pytest.approx(-0.5 * ((np.log(3.0) - DF_MEAN) / DF_DEVIATION) ** 2)


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": 1.0 * RBF()},
        {"kernel": 1.0 * RBF() + WhiteKernel()},
        {"kernel": 1.0 * RBF(), "noise": GPNoise(1.0 * RBF())},
        {"noise": HomoscedasticNoise(variance=0.01), **PLAIN},
        {"noise": HomoscedasticNoise(variance_bounds=(1e-4, 1.0)), **PLAIN},
        {"noise": HomoscedasticNoise(0.01, "fixed"), **PLAIN},
    ],
    ids=str,
)
def test_what_the_user_specifies_has_no_prior(parameters):
    X, y = wave(30)
    assert SparseGPRegressor(**parameters).fit(X, y).log_prior_ == 0.0


def test_minibatches_have_the_same_prior():
    X, y = wave(60, 0.3)
    settings = {"length_scales": "common", "n_inducing": 15}
    batches = StochasticSparseGPRegressor(batch_size=60, **settings).fit(X, y)
    assert batches.log_prior_ == pytest.approx(
        noise_log_density(np.log(batches.noise_variance_), y)
    )
    given = StochasticSparseGPRegressor(1.0 * RBF(), n_inducing=15, n_epochs=2).fit(X, y)
    assert given.log_prior_ == 0.0


@pytest.mark.parametrize("seed", [0, 5])
def test_noise_does_not_vanish_by_chance(seed):
    """Of the variance of y, 14 % is noise, which four columns and 20 rows may well hide."""
    rng = np.random.RandomState(seed)
    X, new = rng.uniform(size=(20, 4)), rng.uniform(size=(500, 4))
    y, y_new = (np.sin(6.0 * Z[:, 0]) + 0.3 * rng.standard_normal(len(Z)) for Z in (X, new))
    free = HomoscedasticNoise(variance_bounds=(1e-8 * y.var(), 10.0 * y.var()))
    without = SparseGPRegressor("rbf", noise=free, **PLAIN).fit(X, y)
    model = SparseGPRegressor("rbf", **PLAIN).fit(X, y)
    assert without.noise_variance_ < 2e-3 * y.var() < 5e-3 * y.var() < model.noise_variance_
    # The bound does not notice.
    assert model.lower_bound_ < without.lower_bound_
    densities = [each.log_predictive_density(new, y_new).mean() for each in (model, without)]
    assert densities[0] > densities[1]


@quiet
def test_an_exact_function_is_still_learned_as_one():
    rng = np.random.RandomState(0)
    X, new = rng.uniform(size=(20, 1)), rng.uniform(size=(100, 1))
    model = SparseGPRegressor(hyperparameters="best").fit(X, np.sin(6.0 * X[:, 0]))
    assert_allclose(model.predict(new), np.sin(6.0 * new[:, 0]), atol=0.01)
    assert model.noise_variance_ < 1e-7


@pytest.mark.filterwarnings("ignore:a weight counts copies")
@pytest.mark.parametrize("noise", ["homoscedastic", "gp", "student-t"])
def test_the_prior_is_no_evidence_of_a_function(noise):
    """It favours noise that a function would have to explain, here by three hundredths of a row."""
    X, y = wave(30, 0.3)
    with pytest.warns(ConvergenceWarning, match="add up to 0.03 rows, too little to learn from"):
        SparseGPRegressor(noise=noise).fit(X, y, np.full(30, 1e-3))
