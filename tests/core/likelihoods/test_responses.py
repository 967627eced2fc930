"""Likelihoods of numbers with a logarithmic link where numbers are extreme."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from sparsegpc._core.likelihoods.counts import NegativeBinomial, Poisson
from sparsegpc._core.likelihoods.positive import Gamma, Weibull
from sparsegpc._core.likelihoods.responses import observations, tamed_exp
from sparsegpc._core.rows.merged_rows import merge_rows
from tests.core.helpers import central_difference

COUNTS = [Poisson(), NegativeBinomial(-1.0), NegativeBinomial(1.0), NegativeBinomial(10.0)]
TAMED = [Poisson(), Gamma(1.0), Weibull(0.5)]
EACH_OF_COUNTS = pytest.mark.parametrize("likelihood", COUNTS)
EACH_TAMED = pytest.mark.parametrize("likelihood", TAMED, ids=map(repr, TAMED))


def expect(likelihood, y, mean, variance):
    n = len(y)
    mean, variance = (np.broadcast_to(part, (1, n)) for part in (mean, variance))
    return likelihood.expect(y, np.ones(n), mean, variance, np.zeros(n), np.ones((1, n)))


# The continuation of exp


def test_the_continuation_is_smooth_convex_and_below_the_exponential():
    x = np.linspace(-3.0, 8.0, 2001)
    value, slope = tamed_exp(x, 2.0)
    below = x <= 2.0
    assert_array_equal(value[below], np.exp(x[below]))
    assert (value <= np.exp(x) * (1.0 + 1e-12)).all()
    assert_allclose(slope, central_difference(lambda x: tamed_exp(x, 2.0)[0].sum(), x), rtol=1e-6)
    assert (np.diff(slope) > 0.0).all()
    assert np.isfinite(tamed_exp(np.array([1e5]), 30.0)).all()


@EACH_TAMED
@pytest.mark.parametrize("variance", [0.01, 30.0])
def test_absurd_moments_have_consistent_derivatives(likelihood, variance):
    y = observations(np.array([1.0, 4.0, 300.0]))
    sign = 1.0 if isinstance(likelihood, Poisson) else -1.0
    for mean in (sign * 45.0, sign * 300.0):
        mean = mean + np.log(y["y"])
        found = expect(likelihood, y, mean, variance)
        by_mean = central_difference(lambda m: expect(likelihood, y, m, variance).value.sum(), mean)
        by_variance = central_difference(
            lambda s, m=mean: expect(likelihood, y, m, s).value.sum(), np.full(3, variance)
        )
        assert_allclose(found.slope[0], by_mean, rtol=1e-6)
        assert_allclose(found.precision[0], -2.0 * by_variance, rtol=1e-6)


@EACH_TAMED
def test_the_continuation_starts_where_a_row_costs_more_than_a_trillion_nats(likelihood):
    """So that no bound of interest is there: beyond it the value is no longer a lower bound."""
    y = observations(np.array([1.0, 20.0]))
    sign = 1.0 if isinstance(likelihood, Poisson) else -1.0
    unit = likelihood.shape if isinstance(likelihood, Weibull) else 1.0
    for excess in (29.0, 31.0, 60.0):
        mean = np.log(y["y"]) + sign * excess / unit
        value = expect(likelihood, y, mean, 0.0).value
        exact = likelihood.log_density(y, mean)
        assert (value >= exact * (1.0 + 1e-12)).all()
        assert (value < -1e12).all()
        if excess < 30.0:
            assert_allclose(value, exact, rtol=1e-9)


# Counts


@EACH_OF_COUNTS
@pytest.mark.parametrize("count", [1e4, 1e7, 1e10])
def test_large_counts_have_consistent_derivatives(likelihood, count):
    """To the digits that differences have."""
    y = observations(np.full(5, count))
    width = likelihood.peak(y).width[0]
    mean, step = np.log(count) + width * np.linspace(-1.0, 1.0, 5), 0.01 * width

    def at(mean):
        return expect(likelihood, y, mean, 0.04 * width**2)

    slope = central_difference(lambda m: at(m).value.sum(), mean, step)
    precision = -central_difference(lambda m: at(m).slope.sum(), mean, step)
    assert_allclose(at(mean).slope[0], slope, rtol=1e-3, atol=1e-3 / width)
    assert_allclose(at(mean).precision[0], precision, rtol=1e-4, atol=1e-6 / width**2)


@EACH_OF_COUNTS
def test_the_place_of_the_peak_is_the_log_of_the_count(likelihood):
    """Where slopes vanish, for counts up to 1e12, to about an ulp of f."""
    y = observations(np.array([1.0, 50.0, 1e6, 1e12]), exposure=np.array([1.0, 7.0, 1e-9, 1e15]))
    found = expect(likelihood, y, likelihood.peak(y).place, 0.0)
    ulp = 1e-14 * np.maximum(1.0, np.abs(likelihood.peak(y).place))
    assert (np.abs(found.slope[0]) <= ulp * (y["y"] + found.precision[0])).all()


def test_a_huge_size_is_the_poisson_distribution():
    rng = np.random.RandomState(0)
    y = observations(rng.poisson(5.0, 20).astype(float), rng.uniform(0.5, 2.0, 20))
    mean, variance = rng.randn(20), rng.uniform(0.0, 0.5, 20)
    ours = expect(NegativeBinomial(25.0), y, mean, variance)
    limit = expect(Poisson(), y, mean, variance)
    for found, expected in zip(ours, limit, strict=True):
        assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@EACH_OF_COUNTS
@pytest.mark.parametrize("exposure", [1e-100, 1.0, 1e15])
def test_counts_that_are_all_zero_have_a_finite_start(likelihood, exposure):
    """Half a count in place of none, also if there is one row only."""
    for n in (1, 6):
        y, weight = observations(np.zeros(n), exposure), np.ones(n)
        fitted = likelihood.at(likelihood.constant_params(y, weight))
        (state,) = fitted.initial_states(y, weight)
        assert np.isfinite(state.precision).all()
        assert np.isfinite(state.shift).all()
        assert -1.0 * n < fitted.constant_bound(y, weight) <= 0.0


@pytest.mark.parametrize("build", [Poisson, NegativeBinomial])
def test_the_best_constant_is_total_over_exposure(build):
    """For a Poisson distribution; with equal exposures for both."""
    rng = np.random.RandomState(1)
    y, weight = observations(rng.poisson(4.0, 50).astype(float), 2.5), rng.uniform(0.5, 2.0, 50)
    likelihood = build().at(np.ones(build.n_params))
    (found,) = likelihood._best_constants(y, weight)
    assert_allclose(found, np.log(weight @ y["y"] / (weight @ y["exposure"])), rtol=1e-5)


def test_the_size_for_a_constant_is_that_of_the_distribution_of_the_counts():
    rng = np.random.RandomState(0)
    y = observations(rng.negative_binomial(3.0, 0.2, 4000).astype(float))
    likelihood = NegativeBinomial()
    (log_size,) = likelihood.constant_params(y, np.ones(4000))
    assert_allclose(np.exp(log_size), 3.0, rtol=0.15)
    fitted = NegativeBinomial(log_size)
    expected = stats.nbinom.logpmf(y["y"], fitted.size, fitted.size / (fitted.size + 12.0)).sum()
    assert_allclose(fitted.constant_bound(y, np.ones(4000)), expected, rtol=1e-3)


def test_only_rows_with_equal_counts_and_exposures_are_merged():
    X = np.zeros((5, 1))
    y = observations(np.array([2.0, 2.0, 2.0, 3.0, 2.0]), np.array([1.0, 1.0, 4.0, 1.0, 4.0]))
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    rows = merge_rows(X, weight, targets=y)
    (targets,) = Poisson().targets(y, weight, rows)
    merged = sorted(zip(targets["y"], targets["exposure"], rows.weight, strict=True))
    assert merged == [(2.0, 1.0, 3.0), (2.0, 4.0, 8.0), (3.0, 1.0, 4.0)]


@pytest.mark.parametrize("log_size", [-3.0, 0.0, 9.0])
def test_the_distribution_of_huge_counts_is_that_of_their_rates(log_size):
    likelihood, size = NegativeBinomial(log_size), np.exp(log_size)
    for scale in (0.3, 1.0, 4.0):
        y = observations(np.array([0.9e10, 1.1e10, 1e13, 1e100, 1e200]))
        found = likelihood.cdf(y, np.log(y["y"] / scale))
        assert_allclose(found, stats.gamma.cdf(scale, size, scale=1.0 / size), rtol=1e-6)
