"""Probabilities that y exceeds thresholds, against scipy.stats and integrals over the density."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    BoundSearch,
    LocalCorrection,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc.likelihoods import Gamma
from tests.estimators import regression, responses
from tests.estimators.noise.noise_cases import trumpet
from tests.estimators.predictions.test_quantiles import QUICK, models_of_shapes, probability_below
from tests.estimators.predictions.test_response_mixtures import averaged, expected, exposures
from tests.estimators.regression import (
    LIGHT_TAILS,
    NOISES,
    known_noise,
    model_of,
    quiet,
    two_waves,
    waves,
)

THRESHOLDS = [-1.5, 0.2, 30.0]


# Numbers with Gaussian noise, given its variance


def test_with_one_gaussian_it_is_its_upper_tail():
    X, y = waves()
    model = model_of(normalize_y=True).fit(X, y)
    mean, std = model.predict(regression.grid(), return_std=True)
    # The last ones have probabilities near 1e-300.
    limits = np.stack([mean - std, mean, mean + 37.0 * std], axis=1)
    found = model.predict_exceedance(regression.grid(), limits)
    tails = norm.sf(limits, mean[:, None], std[:, None])
    assert_allclose(found, tails, rtol=1e-9)
    assert 0.0 < found[:, 2].max() < 1e-290


def test_known_noise_counts():
    X, Y = two_waves()
    model = regression.fixed_model().fit(X, Y, noise_variance=known_noise(60, 2))
    for noise in (0.3, known_noise(60), known_noise(60, 2)):
        mean, std = model.predict(X, return_std=True, noise_variance=noise)
        found = model.predict_exceedance(X, THRESHOLDS, noise_variance=noise)
        assert_allclose(found, norm.sf(THRESHOLDS, mean[..., None], std[..., None]), rtol=1e-9)
    with pytest.raises(ValueError, match="noise_variance is needed"):
        model.predict_exceedance(X, 0.5)


@quiet
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("noise", LIGHT_TAILS)
def test_it_is_the_integral_of_the_predictive_density(noise, average):
    hyperparameters = "average" if average else "best"
    model = model_of(noise=noise, hyperparameters=hyperparameters, **QUICK).fit(*trumpet())
    for x in (-1.5, 0.3, 4.0):
        found = model.predict_exceedance([[x]], [-1.0, 0.1, 2.0])[0]
        below = [probability_below(model, [x], limit) for limit in (-1.0, 0.1, 2.0)]
        assert_allclose(found, 1.0 - np.array(below), rtol=0.0, atol=1e-7)


@quiet
def test_quantiles_are_exceeded_with_the_rest_of_their_probability():
    levels = np.array([1e-9, 0.05, 0.5, 0.9, 1.0 - 1e-9])
    for noise in NOISES:
        model = model_of(noise=noise, hyperparameters="average", **QUICK).fit(*waves())
        quantiles = model.predict_quantiles(regression.grid(), levels)
        found = model.predict_exceedance(regression.grid(), quantiles)
        assert_allclose(found, np.broadcast_to(1.0 - levels, found.shape), rtol=0.0, atol=1e-11)


@quiet
@pytest.mark.parametrize("n_outputs", [None, 1, 2])
def test_shapes(n_outputs):
    models, tail = models_of_shapes(n_outputs)
    for model in models:
        several = model.predict_exceedance(regression.grid(), THRESHOLDS)
        assert several.shape == (16, *tail, 3)
        by_row = np.tile(THRESHOLDS, (16, 1))
        assert_array_equal(model.predict_exceedance(regression.grid(), by_row), several)
        for k, limit in enumerate(THRESHOLDS):
            one = model.predict_exceedance(regression.grid(), limit)
            assert_array_equal(one, several[..., k])
        assert model.predict_exceedance(regression.grid(), [0.5]).shape == (16, *tail, 1)


def test_rows_in_several_blocks_have_their_own_thresholds(monkeypatch):
    model = model_of(noise="gp", **QUICK).fit(*trumpet())
    rows, limits = np.linspace(-3.0, 3.0, 11)[:, None], np.linspace(-1.0, 1.0, 11)[:, None]
    whole = model.predict_exceedance(rows, limits)
    monkeypatch.setattr("sparsegpc._estimators.predictions.targets.DENSITY_ROWS", 4)
    assert_allclose(model.predict_exceedance(rows, limits), whole, rtol=1e-9)


# Counts, positive numbers and durations


@responses.EACH
def test_of_responses_it_is_the_upper_tail_of_the_mixture(response):
    model, given = averaged(response.likelihood)[0], exposures(response)
    found = model.predict_exceedance(responses.grid(), [-1.0, 0.0, 0.5, 2.0, 9.7], **given)
    assert_array_equal(found[:, 0], 1.0)
    for limit, exceedance in zip([0.0, 0.5, 2.0, 9.7], found.T[1:], strict=True):
        tail = expected(
            response, model, responses.grid(), lambda law, limit=limit: law.sf(limit), **given
        )
        assert_allclose(exceedance, tail, rtol=0.0, atol=1e-8)


def test_counts_exceed_whole_thresholds_only_if_they_are_larger():
    model = averaged("poisson")[0]
    found = model.predict_exceedance(responses.grid(), [1.0, 1.9, 2.0])
    assert_array_equal(found[:, 0], found[:, 1])
    none = np.exp(model.log_predictive_density(responses.grid(), np.full(9, 2.0)))
    assert_allclose(found[:, 1] - found[:, 2], none, atol=1e-8)


def test_a_likelihood_without_a_survival_function_has_it_too(monkeypatch):
    model = averaged("gamma")[0]
    accurate = model.predict_exceedance(responses.grid(), [-1.0, 0.0, 0.5, 9.0])
    monkeypatch.setattr(Gamma, "has_survival", False)
    found = model.predict_exceedance(responses.grid(), [-1.0, 0.0, 0.5, 9.0])
    assert_allclose(found, accurate, rtol=0.0, atol=1e-9)


def test_the_survival_function_is_this_at_times():
    model, times = averaged("weibull")[0], [0.0, 0.5, 3.0]
    found = model.survival_function(responses.grid(), times)
    assert_array_equal(model.predict_exceedance(responses.grid(), times), found)


# Other estimators, and what is refused


def test_meta_estimators_and_minibatches_have_it():
    X, y = waves(200)
    stochastic = StochasticSparseGPRegressor(n_inducing=12, n_epochs=2, random_state=0).fit(X, y)
    corrected = LocalCorrection(model_of(**QUICK), mode="both", relearn=False).fit(X, y)
    scaled = make_pipeline(StandardScaler(), SparseGPRegressor(optimizer=None))
    search = BoundSearch(scaled, {}).fit(X, y)
    for model in (stochastic, corrected, search):
        mean, std = model.predict(regression.grid(), return_std=True)
        found = model.predict_exceedance(regression.grid(), THRESHOLDS)
        assert_allclose(found, norm.sf(THRESHOLDS, mean[:, None], std[:, None]), rtol=1e-9)


@pytest.mark.parametrize("limit", [np.nan, np.inf, "a", None, [], [[1.0], [2.0]], [[[1.0]]]])
def test_thresholds_that_are_no_numbers_are_refused(limit):
    X, y = waves()
    counts = SparseGPGeneralizedRegressor(likelihood="poisson", optimizer=None)
    for model in (regression.fixed_model().fit(X, y), counts.fit(X, np.arange(len(X)) % 3)):
        with pytest.raises(ValueError, match="thresholds"):
            model.predict_exceedance(regression.grid(), limit)
