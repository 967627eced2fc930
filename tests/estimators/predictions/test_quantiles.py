"""Quantiles and intervals of y, against scipy.stats and integrals over the predictive density."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sparsegpc import StochasticSparseGPRegressor
from sparsegpc._estimators.predictions.mixtures import mixture_quantiles
from tests.estimators.noise.noise_cases import trumpet
from tests.estimators.regression import (
    NOISES,
    fixed_model,
    grid,
    known_noise,
    model_of,
    quiet,
    two_waves,
    waves,
)

LEVELS = [1e-6, 0.05, 0.3, 0.5, 0.95, 1.0 - 1e-6]
QUICK = {"max_iter": 10, "tol": 1e-3, "max_reselections": 0}


@pytest.fixture(scope="module")
def process():
    """A regressor with a noise process, fitted to one column; not to be changed."""
    return model_of(noise="gp").fit(*trumpet())


def probability_below(model, x, value):
    """Return the integral of the predictive density at the row x, from its far tail to value.

    By Gauss-Legendre rules after y = mean + std sinh(t), over the tail on the side of the value, so
    that a small probability keeps its digits.
    """
    mean, std = (part[0] for part in model.predict([x], return_std=True))
    sign = 1.0 if value > mean else -1.0
    edges = np.linspace(np.arcsinh(sign * (value - mean) / std), 8.0, 61)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(edges)[:, None]
    t = edges[:-1, None] + half * (1.0 + nodes)
    y = (mean + sign * std * np.sinh(t)).ravel()
    density = np.exp(model.log_predictive_density(np.tile(x, (len(y), 1)), y)).reshape(t.shape)
    tail = (half * weights * std * np.cosh(t) * density).sum()
    return 1.0 - tail if value > mean else tail


def test_with_one_gaussian_they_are_those_of_a_normal_distribution():
    X, y = waves()
    model = model_of(normalize_y=True).fit(X, y)
    mean, std = model.predict(grid(), return_std=True)
    expected = norm.ppf(LEVELS, mean[:, None], std[:, None])
    assert_allclose(model.predict_quantiles(grid(), LEVELS), expected, rtol=1e-10, atol=1e-12)
    lower, upper = model.predict_interval(grid())
    assert_allclose(lower, norm.ppf(0.05, mean, std), rtol=1e-10, atol=1e-12)
    assert_allclose(upper, norm.ppf(0.95, mean, std), rtol=1e-10, atol=1e-12)


def test_known_noise_widens_them():
    X, Y = two_waves()
    model = fixed_model().fit(X, Y, noise_variance=known_noise(60, 2))
    for noise in (0.3, known_noise(60), known_noise(60, 2)):
        mean, std = model.predict(X, return_std=True, noise_variance=noise)
        found = model.predict_quantiles(X, LEVELS, noise_variance=noise)
        expected = norm.ppf(LEVELS, mean[..., None], std[..., None])
        assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
        lower, upper = model.predict_interval(X, 0.5, noise_variance=noise)
        assert_allclose([lower, upper], norm.ppf([[[0.25]], [[0.75]]], mean, std), rtol=1e-10)
    with pytest.raises(ValueError, match="noise_variance is needed"):
        model.predict_quantiles(X, 0.5)
    with pytest.raises(ValueError, match="noise_variance is needed"):
        model.predict_interval(X)


@pytest.mark.parametrize("x", [-1.5, 0.3, 1.9, 4.0])
def test_with_a_noise_process_they_solve_for_the_integral_of_the_density(x, process):
    found = process.predict_quantiles([[x]], LEVELS)[0]
    assert (np.diff(found) > 0.0).all()
    # Beyond 1e-8 the oracle has no digits left.
    below = [probability_below(process, [x], value) for value in found]
    assert_allclose(below, LEVELS, rtol=0.0, atol=1e-8)
    assert found[3] == pytest.approx(process.predict([[x]])[0], abs=1e-9)


@quiet
@pytest.mark.parametrize("noise", NOISES)
def test_averages_over_hyperparameters_solve_for_the_integral_of_the_density(noise):
    model = model_of(noise=noise, hyperparameters="average", **QUICK).fit(*waves())
    for x in grid(2)[:2]:
        found = model.predict_quantiles([x], LEVELS[1:5])[0]
        below = [probability_below(model, x, value) for value in found]
        assert_allclose(below, LEVELS[1:5], rtol=0.0, atol=1e-8)


@quiet
@pytest.mark.parametrize(("noise", "average"), [*zip(NOISES, [True, False] * 2, strict=True)])
def test_draws_are_below_them_as_often_as_they_say(noise, average):
    n, levels = 20_000, [0.05, 0.5, 0.9]
    hyperparameters = "average" if average else "best"
    model = model_of(noise=noise, hyperparameters=hyperparameters, **QUICK).fit(*two_waves())
    draws = model.sample_y(grid(2), n, random_state=3)
    found = model.predict_quantiles(grid(2), levels)
    share = (draws[..., None] < found[:, :, None, :]).mean(axis=2)
    assert np.abs(share - levels).max() < 5.0 * 0.5 / n**0.5


def models_of_shapes(n_outputs):
    """Return fitted models, and the last dimensions of their means; None means y of one dimension.

    One has Gaussian predictions, the other mixtures.
    """
    X, y = waves()
    if n_outputs is not None:
        y = np.repeat(y[:, None], n_outputs, axis=1)
    return (fixed_model().fit(X, y), model_of(noise="gp", **QUICK).fit(X, y)), y.shape[1:]


@quiet
@pytest.mark.parametrize("n_outputs", [None, 1, 2])
def test_their_shapes(n_outputs):
    models, tail = models_of_shapes(n_outputs)
    for model in models:
        several = model.predict_quantiles(grid(), LEVELS)
        assert several.shape == (16, *tail, 6)
        for k, level in enumerate(LEVELS):
            one = model.predict_quantiles(grid(), level)
            assert one.shape == (16, *tail)
            assert_array_equal(one, several[..., k])
        assert model.predict_quantiles(grid(), [0.5]).shape == (16, *tail, 1)
        lower, upper = model.predict_interval(grid(), coverage=0.4)
        assert lower.shape == upper.shape == (16, *tail)
        assert_allclose(
            [lower, upper], np.moveaxis(model.predict_quantiles(grid(), [0.3, 0.7]), -1, 0)
        )


def test_rows_in_several_blocks_are_predicted_one_by_one(process, monkeypatch):
    rows = np.linspace(-3.0, 3.0, 11)[:, None]
    whole = process.predict_quantiles(rows, [0.1, 0.9])
    monkeypatch.setattr("sparsegpc._estimators.predictions.targets.DENSITY_ROWS", 4)
    assert_allclose(process.predict_quantiles(rows, [0.1, 0.9]), whole, rtol=1e-9)


def test_the_regressor_of_minibatches_has_them():
    X, y = waves(200)
    model = StochasticSparseGPRegressor(n_inducing=12, n_epochs=2, random_state=0).fit(X, y)
    mean, std = model.predict(grid(), return_std=True)
    expected = norm.ppf([0.1, 0.8], mean[:, None], std[:, None])
    assert_allclose(model.predict_quantiles(grid(), [0.1, 0.8]), expected, rtol=1e-10)
    assert_allclose(model.predict_interval(grid(), 0.8)[0], expected[:, 0], rtol=1e-10)


@pytest.mark.parametrize(
    "q", [0.0, 1.0, 1, -0.1, np.nan, "0.5", None, [], [0.5, 1.5], [[0.5]], True]
)
def test_levels_outside_zero_and_one_are_refused(q, process):
    with pytest.raises(ValueError, match=r"q must be a number between 0 and 1 .* for example 0\.5"):
        process.predict_quantiles([[0.0]], q)


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, np.nan, "0.5", None, [0.5]])
def test_coverages_outside_zero_and_one_are_refused(coverage, process):
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1, got"):
        process.predict_interval([[0.0]], coverage)


# The quantiles of a mixture

SCALE = st.floats(-12.0, 12.0)


@given(
    weights=st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=6),
    seed=st.integers(0, 2**31),
    log_spread=SCALE,
    log_range=SCALE,
    offset=st.sampled_from([0.0, 1.0, -1e6]),
    log_tail=st.floats(-14.0, -0.31),
    upper=st.booleans(),
)
def test_quantiles_of_mixtures_have_the_right_probability(
    weights, seed, log_spread, log_range, offset, log_tail, upper
):
    rng = np.random.RandomState(seed)
    weights = np.array(weights) / np.sum(weights)
    means = offset + np.exp(log_range) * rng.standard_normal((len(weights), 3))
    deviations = np.exp(log_spread + 3.0 * rng.standard_normal((len(weights), 3)))
    tail = 10.0**log_tail
    level = 1.0 - tail if upper else tail
    found = mixture_quantiles(weights, list(means), list(deviations**2), level)
    z = (found - means) / deviations
    tails = weights @ (norm.sf(z) if upper else norm.cdf(z))
    expected = 1.0 - level if upper else level
    # As far as the rounding of quantiles and means allows.
    density = weights @ (norm.pdf(z) / deviations)
    assert (
        np.abs(tails - expected)
        <= 1e-9 * expected + 2e-15 * (np.abs(found) + np.abs(means).max(axis=0)) * density
    ).all()


def test_weights_may_differ_from_place_to_place():
    means, variances = [np.zeros(2), np.ones(2)], [np.ones(2), np.full(2, 0.25)]
    weights = np.array([[0.3, 0.9], [0.7, 0.1]])
    found = mixture_quantiles(weights, means, variances, 0.2)
    for k in range(2):
        parts = [part[k : k + 1] for part in means], [part[k : k + 1] for part in variances]
        assert_allclose(found[k], mixture_quantiles(weights[:, k], *parts, 0.2)[0], rtol=1e-12)
