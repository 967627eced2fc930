"""Predictive distributions against scipy's distributions, integrated on dense panels of f."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from sparsegpc._core.likelihoods.counts import NegativeBinomial, Poisson
from sparsegpc._core.likelihoods.positive import Gamma, LogNormal, Weibull
from sparsegpc._core.likelihoods.predictive import (
    PredictivePart,
    log_predictive_density,
    mixture_predictive_quantiles,
    predictive_cdf,
    predictive_quantiles,
)
from sparsegpc._core.likelihoods.responses import ResponseLikelihood, observations
from sparsegpc.likelihoods import RESPONSES
from tests.core.helpers import names


class Case(NamedTuple):
    """A likelihood, and the distribution of scipy at exposure(s) times exp(f)."""

    name: str
    likelihood: ResponseLikelihood
    law: Callable

    def log_density(self, y, scale, event=1.0):
        law = self.law(scale)
        with np.errstate(over="ignore"):
            if self.likelihood.is_discrete:
                return law.logpmf(y)
            return {1.0: law.logpdf, 0.0: law.logsf, -1.0: law.logcdf}[event](y)

    def cdf(self, y, scale):
        with np.errstate(over="ignore"):
            return self.law(scale).cdf(y)


def negative_binomial(log_size):
    size = np.exp(log_size)
    law = lambda rate: stats.nbinom(size, size / (size + rate))  # noqa: E731
    return Case(f"negative binomial {log_size}", NegativeBinomial(log_size), law)


def positive(name, build, log_shape, law):
    shape = np.exp(log_shape)
    return Case(f"{name} {log_shape}", build(log_shape), lambda scale: law(shape, scale))


def gamma_law(shape, mean):
    return stats.gamma(shape, scale=mean / shape)


def weibull_law(shape, scale):
    return stats.weibull_min(shape, scale=scale)


def log_normal_law(shape, median):
    return stats.lognorm(shape, scale=median)


CASES = [
    Case("poisson", Poisson(), stats.poisson),
    negative_binomial(-3.0),
    negative_binomial(1.0),
    negative_binomial(9.0),
    positive("gamma", Gamma, -2.0, gamma_law),
    positive("gamma", Gamma, 6.0, gamma_law),
    positive("weibull", Weibull, -1.0, weibull_law),
    positive("weibull", Weibull, 4.0, weibull_law),
    positive("log-normal", LogNormal, -4.0, log_normal_law),
    positive("log-normal", LogNormal, 1.0, log_normal_law),
]
COUNTS = [case for case in CASES if case.likelihood.is_discrete]
CENSORED = [case for case in CASES if case.likelihood.row_argument == "event"]
EACH = pytest.mark.parametrize("case", CASES, ids=names(CASES))
EACH_OF_COUNTS = pytest.mark.parametrize("case", COUNTS, ids=names(COUNTS))
EACH_OF_DURATIONS = pytest.mark.parametrize("case", CENSORED, ids=names(CENSORED))
# What depends on targets and exposures.
BOTH = [log_predictive_density, predictive_cdf]
VARIANCES = pytest.mark.parametrize("variance", [1e-12, 1e-3, 0.09, 1.0, 100.0])


def test_the_cases_cover_every_likelihood():
    assert {type(case.likelihood) for case in CASES} == set(RESPONSES.values())


def panels(case, mean, deviation, y):
    """Return nodes and weights of rules on hundreds of panels, fine where the density of y is."""
    place = np.log(max(y, 0.5) if case.likelihood.is_discrete else y)
    reach = 10.0 * deviation
    far = np.linspace(min(mean, place) - reach, max(mean, place) + reach, 400)
    near = place + np.concatenate([s * np.geomspace(1e-6, 40.0, 200) for s in (-1.0, 1.0)])
    around = mean + reach * np.linspace(-1.0, 1.0, 200)
    edges = np.unique(np.concatenate([far, near.clip(far[0], far[-1]), around]))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    width = np.diff(edges)
    f = edges[:-1] + 0.5 * width * (1.0 + nodes[:, None])
    return f.ravel(), (0.5 * width * weights[:, None]).ravel()


def brute_log_density(case, y, mean, variance, event=1.0):
    f, weights = panels(case, mean, np.sqrt(variance), y)
    exponent = case.log_density(y, np.exp(f), event) + stats.norm.logpdf(f, mean, np.sqrt(variance))
    return logsumexp(exponent, b=weights)


def brute_cdf(case, y, mean, variance):
    f, weights = panels(case, mean, np.sqrt(variance), y)
    return weights @ (case.cdf(y, np.exp(f)) * stats.norm.pdf(f, mean, np.sqrt(variance)))


def some_rows(case, variance, seed=0, n=8):
    """Return likely and unlikely targets, and means."""
    rng = np.random.RandomState(seed)
    mean = rng.uniform(-2.0, 5.0, n)
    f = mean + np.sqrt(variance) * rng.standard_normal(n).clip(-1.5, 1.5)
    y = case.law(np.exp(f)).rvs(random_state=rng).astype(float)
    y[:3] = [0.0, 1.0, 60.0] if case.likelihood.is_discrete else [1e-3, 1.0, 200.0]
    return np.maximum(y, 0.0 if case.likelihood.is_discrete else 1e-30), mean


# Densities


@EACH
@VARIANCES
def test_log_densities_are_integrals_over_f(case, variance):
    y, mean = some_rows(case, variance)
    found = log_predictive_density(case.likelihood, observations(y), mean, np.full(8, variance))
    expected = [brute_log_density(case, *row, variance) for row in zip(y, mean, strict=True)]
    assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@EACH_OF_DURATIONS
@VARIANCES
def test_log_densities_of_censored_rows_are_probabilities_of_longer_durations(case, variance):
    y, mean = some_rows(case, variance)
    rows = observations(y, event=np.zeros(8))
    found = log_predictive_density(case.likelihood, rows, mean, np.full(8, variance))
    expected = [brute_log_density(case, *row, variance, 0.0) for row in zip(y, mean, strict=True)]
    assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@VARIANCES
def test_log_densities_of_upper_limits_are_probabilities_of_smaller_numbers(variance):
    for case in (case for case in CENSORED if case.likelihood.takes_upper_limits):
        y, mean = some_rows(case, variance)
        rows = observations(y, event=np.full(8, -1.0))
        found = log_predictive_density(case.likelihood, rows, mean, np.full(8, variance))
        pairs = zip(y, mean, strict=True)
        expected = [brute_log_density(case, *row, variance, -1.0) for row in pairs]
        assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@EACH_OF_COUNTS
@pytest.mark.parametrize("variance", [1e-12, 0.3, 9.0])
def test_exposures_multiply_the_rate(case, variance):
    y, mean = some_rows(case, variance)
    exposure, variance = np.geomspace(0.1, 50.0, 8), np.full(8, variance)
    rows = observations(y, exposure)
    shifted = observations(y), mean + np.log(exposure), variance
    for function in (log_predictive_density, predictive_cdf):
        found = function(case.likelihood, rows, mean, variance)
        assert_allclose(found, function(case.likelihood, *shifted), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("variance", [1e-12, 0.3, 9.0])
def test_exposures_multiply_mean_and_shape_of_gamma_totals(variance):
    """They change the distribution at f to that of another shape and mean, row by row."""
    y, mean = np.geomspace(1e-3, 200.0, 8), np.linspace(-2.0, 5.0, 8)
    exposure, variance = np.geomspace(0.1, 50.0, 8), np.full(8, variance)
    rows = observations(y, exposure)
    found = np.stack([f(Gamma(-0.5), rows, mean, variance) for f in BOTH], axis=1)
    quantiles = predictive_quantiles(Gamma(-0.5), 0.3, mean, variance, exposure)
    for i, e in enumerate(exposure):
        alone, at = Gamma(-0.5 + np.log(e)), slice(i, i + 1)
        moments = mean[at] + np.log(e), variance[at]
        own = [f(alone, observations(y[at]), *moments)[0] for f in BOTH]
        assert_allclose(found[i], own, rtol=1e-9, atol=1e-12)
        own = predictive_quantiles(alone, 0.3, *moments, np.ones(1))
        assert_allclose(quantiles[at], own, rtol=1e-8)


def test_single_gamma_targets_say_more_than_their_total_about_the_shape_only():
    """By how they divide it, a symmetric Dirichlet distribution, whatever f is."""
    rng, log_shape, n = np.random.RandomState(0), -0.3, 5
    shape, y = np.exp(log_shape), rng.gamma(0.7, size=n)
    total = y.sum()
    log_division = stats.dirichlet.logpdf(y / total, np.full(n, shape))
    log_division -= (n - 1) * np.log(total)
    single, whole = observations(y), observations(np.array([total]), exposure=float(n))
    for f in (-3.0, 0.0, 2.0):
        apart = stats.gamma.logpdf(y, shape, scale=np.exp(f) / shape).sum()
        found = Gamma(log_shape).log_density(whole, np.array([f]))
        assert_allclose(found + log_division, apart, rtol=1e-10)
        expectations = [
            Gamma(log_shape)._expect_at(rows, np.ones(len(rows)), np.array([f]), np.array([0.4]))
            for rows in (single, whole)
        ]
        values, *slopes = zip(*expectations, strict=True)
        assert_allclose(values[0].sum(), values[1].sum() + log_division, rtol=1e-10)
        for of_singles, of_total in slopes:
            assert_allclose(of_singles.sum(), of_total.sum(), rtol=1e-10)


@pytest.mark.parametrize("exposure", [1e3, 1e7, 1e12])
def test_large_totals_of_gamma_targets_keep_their_digits(exposure):
    """They are Gaussian, and log x - digamma(x) is 1 / 2x."""
    y = exposure * (1.0 + np.array([-1.0, 0.0, 2.0]) / np.sqrt(exposure))
    rows = observations(y, exposure)
    found = Gamma(0.0).log_density(rows, np.zeros(3))
    atol = 5.0 / np.sqrt(exposure) + 1e-9
    assert_allclose(found, stats.norm.logpdf(y, exposure, np.sqrt(exposure)), atol=atol)
    (slope,) = Gamma(0.0).params_gradient(
        observations(np.array([exposure]), exposure), np.ones(1), np.zeros((1, 1)), np.zeros((1, 1))
    )
    assert_allclose(slope, 0.5, rtol=1.0 / exposure)


@pytest.mark.parametrize("variance", [1e-12, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize("log_shape", [-5.0, 0.0, 2.0])
def test_log_normal_targets_have_closed_forms(variance, log_shape):
    """Up to thirty deviations from the mean."""
    likelihood, n = LogNormal(log_shape), 25
    deviation = np.sqrt(variance + np.exp(2.0 * log_shape))
    mean, variance = np.linspace(-3.0, 3.0, n), np.full(n, variance)
    z = np.linspace(-30.0, 30.0, n)
    log_y = mean + deviation * z
    rows = observations(np.exp(log_y))
    found = log_predictive_density(likelihood, rows, mean, variance)
    expected = stats.norm.logpdf(log_y, mean, deviation) - log_y
    assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
    assert_allclose(predictive_cdf(likelihood, rows, mean, variance), stats.norm.cdf(z), atol=1e-9)
    for level in (1e-6, 0.05, 0.5, 0.999):
        found = predictive_quantiles(likelihood, level, mean, variance, np.ones(n))
        expected = mean + deviation * stats.norm.ppf(level)
        assert_allclose(np.log(found), expected, rtol=1e-8, atol=1e-8)


def test_densities_far_from_their_mean_are_not_lost():
    """Where exp(f) changes by many orders of magnitude between the mean and the target."""
    for case, y, mean, variance in [
        (CASES[0], 0.0, 12.0, 0.01),
        (CASES[0], 5000.0, -3.0, 0.04),
        (CASES[2], 0.0, 15.0, 1e-4),
        (CASES[5], 1e-4, 6.0, 0.01),
        (CASES[7], 40.0, -2.0, 0.02),
    ]:
        rows = observations(np.array([y]))
        found = log_predictive_density(
            case.likelihood, rows, np.array([mean]), np.array([variance])
        )
        expected = brute_log_density(case, y, mean, variance)
        assert expected < -30.0
        assert_allclose(found, expected, rtol=1e-8)


def test_huge_counts_keep_their_digits():
    """They are Gaussian."""
    rate = np.array([1e8, 1e10, 1e12])
    y = np.rint(rate + np.sqrt(rate))
    found = Poisson().log_density(observations(y), np.log(rate))
    assert_allclose(found, stats.norm.logpdf(y, rate, np.sqrt(rate)), atol=1e-3)
    found = log_predictive_density(Poisson(), observations(y), np.log(rate), np.full(3, 1e-20))
    assert_allclose(found, stats.norm.logpdf(y, rate, np.sqrt(rate)), atol=1e-3)


@EACH
def test_the_saturated_log_density_is_the_largest(case):
    y = np.array([0.0, 1.0, 3.0, 40.0, 5000.0]) + (0.0 if case.likelihood.is_discrete else 0.01)
    found = case.likelihood.saturated_log_density(observations(y))
    for value, target in zip(found, y, strict=True):
        centre = np.log(max(target, 1e-12))
        largest = minimize_scalar(
            lambda f, y=target: -case.log_density(y, np.exp(f)),
            bounds=(centre - 3.0, centre + 3.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert_allclose(value, -largest.fun, rtol=1e-7, atol=1e-8)


@EACH_OF_DURATIONS
def test_the_saturated_log_density_of_censored_rows_is_zero(case):
    rows = observations(np.array([0.5, 3.0]), event=np.zeros(2))
    assert_array_equal(case.likelihood.saturated_log_density(rows), 0.0)


# Distribution functions


@EACH
@VARIANCES
def test_distribution_functions_are_integrals_over_f(case, variance):
    y, mean = some_rows(case, variance)
    found = predictive_cdf(case.likelihood, observations(y), mean, np.full(8, variance))
    expected = [brute_cdf(case, *row, variance) for row in zip(y, mean, strict=True)]
    assert_allclose(found, expected, atol=1e-9)


MEANS = st.floats(-6.0, 8.0)
LOG_VARIANCES = st.floats(np.log(1e-12), np.log(100.0))
LEVELS = st.floats(1e-4, 1.0 - 1e-4)
LOG_EXPOSURES = st.floats(-5.0, 5.0)


@EACH_OF_COUNTS
@given(mean=MEANS, log_variance=LOG_VARIANCES, first=st.integers(0, 10**6))
def test_probabilities_of_counts_are_steps_of_the_distribution_function(
    case, mean, log_variance, first
):
    """So that they add up to one."""
    count = first + np.arange(-1.0, 4.0)
    mean, variance = np.full(5, mean), np.full(5, np.exp(log_variance))
    cdf = predictive_cdf(case.likelihood, observations(np.maximum(count, 0.0)), mean, variance)
    cdf[count < 0.0] = 0.0
    density = log_predictive_density(
        case.likelihood, observations(count[1:]), mean[1:], variance[1:]
    )
    assert_allclose(np.exp(density), np.diff(cdf), atol=1e-9)


@EACH
@given(mean=MEANS, log_variance=LOG_VARIANCES, log_exposure=LOG_EXPOSURES)
def test_distribution_functions_increase_from_zero_to_one(case, mean, log_variance, log_exposure):
    exposure = np.exp(log_exposure) if case.likelihood.row_argument == "exposure" else 1.0
    width = np.exp(0.5 * log_variance) + 5.0
    y = exposure * np.exp(np.linspace(mean - 20.0 * width, mean + 20.0 * width, 60).clip(-700, 700))
    if case.likelihood.is_discrete:
        y = np.floor(y)
    rows = observations(y, exposure)
    cdf = predictive_cdf(
        case.likelihood, rows, np.full(60, mean), np.full(60, np.exp(log_variance))
    )
    assert (np.diff(cdf) >= -1e-9).all()
    assert cdf[0] >= 0.0
    assert cdf[-1] <= 1.0
    assert cdf[-1] > 0.99


# Quantiles


@EACH_OF_COUNTS
@given(mean=MEANS, log_variance=LOG_VARIANCES, level=LEVELS, log_exposure=LOG_EXPOSURES)
def test_a_quantile_is_the_smallest_count_that_reaches_the_level(
    case, mean, log_variance, level, log_exposure
):
    mean, variance = np.full(1, mean), np.full(1, np.exp(log_variance))
    exposure = np.full(1, np.exp(log_exposure))
    found = predictive_quantiles(case.likelihood, level, mean, variance, exposure)

    def cdf(y):
        return predictive_cdf(case.likelihood, observations(y, exposure), mean, variance)

    assert found == np.rint(found) >= 0.0
    assert cdf(found) >= level * (1.0 - 1e-12)
    assert found == 0.0 or cdf(found - np.spacing(found).clip(1.0)) < level


@EACH
@given(mean=MEANS, log_variance=LOG_VARIANCES, level=LEVELS)
def test_the_distribution_function_at_a_quantile_is_the_level(case, mean, log_variance, level):
    if case.likelihood.is_discrete:
        return
    mean, variance = np.full(1, mean), np.full(1, np.exp(log_variance))
    found = predictive_quantiles(case.likelihood, level, mean, variance, np.ones(1))
    cdf = predictive_cdf(case.likelihood, observations(found), mean, variance)
    assert_allclose(cdf, level, atol=1e-8)


@EACH
def test_quantiles_of_many_rows_are_those_of_each(case):
    rng = np.random.RandomState(0)
    mean, variance, exposure = rng.randn(300), rng.gamma(1.0, size=300), np.ones(300)
    found = predictive_quantiles(case.likelihood, 0.3, mean, variance, exposure)
    for i in range(0, 300, 37):
        row = slice(i, i + 1)
        alone = predictive_quantiles(case.likelihood, 0.3, mean[row], variance[row], exposure[row])
        assert_allclose(found[row], alone, rtol=1e-9)


# Quantiles of mixtures


def random_mixture(kind, seed, n_parts, log_spread, log_variance):
    """Return parts and exposures of three rows, with likelihoods of one kind."""
    rng, kinds = np.random.RandomState(seed), [c for c in CASES if isinstance(c.likelihood, kind)]
    weights = rng.dirichlet(np.full(n_parts, 0.5)).clip(1e-12)
    parts = [
        PredictivePart(
            weight,
            kinds[rng.randint(len(kinds))].likelihood,
            3.0 + np.exp(log_spread) * rng.standard_normal(3),
            np.exp(log_variance + 2.0 * rng.standard_normal(3)),
        )
        for weight in weights / weights.sum()
    ]
    is_discrete = kinds[0].likelihood.is_discrete
    return parts, np.exp(rng.standard_normal(3)) if is_discrete else np.ones(3)


def mixture_cdf(parts, y, exposure):
    rows = observations(y, exposure)
    return sum(
        part.weight * predictive_cdf(part.likelihood, rows, part.mean, part.variance)
        for part in parts
    )


DRAWN = {
    "seed": st.integers(0, 2**31),
    "n_parts": st.integers(2, 6),
    "log_spread": st.floats(-8.0, 3.5),
    "log_variance": st.floats(-8.0, 3.0),
}
MIXTURES = given(drawn=st.fixed_dictionaries(DRAWN), level=LEVELS)


@pytest.mark.parametrize("kind", [Poisson, NegativeBinomial])
@MIXTURES
def test_a_quantile_of_a_mixture_is_the_smallest_count_that_reaches_the_level(kind, drawn, level):
    parts, exposure = random_mixture(kind, **drawn)
    found = mixture_predictive_quantiles(parts, level, exposure)
    assert (found == np.rint(found)).all()
    assert (found >= 0.0).all()
    assert (mixture_cdf(parts, found, exposure) >= level * (1.0 - 1e-12)).all()
    less = found - np.spacing(found).clip(1.0)
    below = mixture_cdf(parts, np.maximum(less, 0.0), exposure)
    assert ((found == 0.0) | (below < level * (1.0 + 1e-12))).all()


@pytest.mark.parametrize("kind", [Gamma, Weibull, LogNormal])
@MIXTURES
def test_the_distribution_function_of_a_mixture_at_a_quantile_is_the_level(kind, drawn, level):
    parts, exposure = random_mixture(kind, **drawn)
    found = mixture_predictive_quantiles(parts, level, exposure)
    assert_allclose(mixture_cdf(parts, found, exposure), level, atol=1e-8)


@EACH
def test_the_quantile_of_a_mixture_of_one_is_its_own(case):
    rng = np.random.RandomState(0)
    mean, variance, exposure = rng.randn(20), rng.gamma(1.0, size=20), np.ones(20)
    own = predictive_quantiles(case.likelihood, 0.3, mean, variance, exposure)
    one = [PredictivePart(1.0, case.likelihood, mean, variance)]
    assert_array_equal(mixture_predictive_quantiles(one, 0.3, exposure), own)
    equal = [part._replace(weight=weight) for part in one for weight in (0.2, 0.5, 0.3)]
    assert_allclose(mixture_predictive_quantiles(equal, 0.3, exposure), own, rtol=1e-9)


@pytest.mark.parametrize("level", [0.25, 0.5, 0.75, 0.5 + 1e-9])
def test_levels_on_a_plateau_between_counts_are_reached_exactly(level):
    """With equal weights the distribution function stays at these levels for many counts."""
    parts = [
        PredictivePart(0.25, Poisson(), np.full(2, mean), np.full(2, 1e-6))
        for mean in (0.0, 5.0, 12.0, 25.0)
    ]
    found = mixture_predictive_quantiles(parts, level, np.ones(2))
    assert (mixture_cdf(parts, found, np.ones(2)) >= level * (1.0 - 1e-12)).all()
    assert (mixture_cdf(parts, found - 1.0, np.ones(2)) < level).all()


@EACH
def test_quantiles_of_mixtures_with_absurd_rates_are_ordered(case):
    means, ones = np.array([-900.0, 0.0, 900.0]), np.ones(3)
    parts = [
        PredictivePart(weight, case.likelihood, mean, 0.1 * ones)
        for weight, mean in ((0.3, means), (0.7, means[::-1]))
    ]
    quantiles = [mixture_predictive_quantiles(parts, level, ones) for level in (1e-3, 0.5, 0.999)]
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=0) >= 0.0).all()


# Moments and draws


@EACH
@pytest.mark.parametrize("variance", [0.0, 0.04, 0.25])
def test_moments_are_those_of_draws(case, variance):
    """For f at four rows, 60 000 draws each; laws with heavy tails have none to compare."""
    rng = np.random.RandomState(1)
    mean, n = np.array([-1.0, 0.0, 2.0, 3.0]), 60_000
    takes_exposure = case.likelihood.row_argument == "exposure"
    exposure = np.array([3.0, 1.0, 0.2, 5.0]) if takes_exposure else np.ones(4)
    f = mean + np.sqrt(variance) * rng.standard_normal((n, 4))
    y = case.likelihood.sample(f, exposure, rng)
    y_mean, y_variance = case.likelihood.mean_and_variance(mean, np.full(4, variance), exposure)
    assert y.shape == f.shape
    if np.exp(getattr(case.likelihood, "log_shape", None) or 0.0) > 2.0 and "log" in case.name:
        return
    assert_allclose(y.mean(axis=0), y_mean, atol=6.0 * np.sqrt(y_variance / n).max())
    centred = (y - y_mean) ** 2
    error = centred.std(axis=0) / np.sqrt(n)
    assert (np.abs(centred.mean(axis=0) - y_variance) < 6.0 * error).all()


@EACH
def test_moments_without_uncertainty_are_those_of_the_law(case):
    mean = np.array([-2.0, 0.0, 3.0])
    law = case.law(np.exp(mean))
    found = case.likelihood.mean_and_variance(mean, np.zeros(3))
    assert_allclose(found[0], law.mean(), rtol=1e-10)
    assert_allclose(found[1], law.var(), rtol=1e-8)


# Absurd moments, which extrapolation can produce; warnings are errors


@EACH
def test_moments_that_overflow_are_infinite_and_others_zero(case):
    mean = np.array([900.0, -900.0, -4000.0, 0.0])
    variance = np.array([0.0, 0.0, 1500.0, 2000.0])
    y_mean, y_variance = case.likelihood.mean_and_variance(mean, variance)
    assert_array_equal(y_mean, [np.inf, 0.0, 0.0, np.inf])
    assert_array_equal(y_variance, [np.inf, 0.0, 0.0, np.inf])


@EACH
def test_quantiles_and_draws_of_absurd_rates_are_ordered(case):
    mean = np.array([-900.0, -30.0, 0.0, 30.0, 900.0])
    exposure = np.ones(5)
    for variance in (0.0, 1.0, 300.0):
        variance = np.full(5, variance)
        quantiles = np.array(
            [
                predictive_quantiles(case.likelihood, level, mean, variance, exposure)
                for level in (1e-3, 0.5, 0.999)
            ]
        )
        assert np.isfinite(quantiles).all()
        assert (np.diff(quantiles, axis=0) >= 0.0).all()
        assert (np.diff(quantiles, axis=1) >= 0.0).all()
    drawn = case.likelihood.sample(np.tile(mean, (3, 1)), exposure, np.random.RandomState(0))
    assert (drawn >= 0.0).all()
    assert (drawn[:, -1] > 1e150).all()


@pytest.mark.parametrize("likelihood", [Gamma, Weibull, LogNormal])
def test_draws_of_heavy_tails_are_finite_at_absurd_rates(likelihood):
    """Small shapes of gamma and Weibull laws, and a large deviation of logarithms."""
    log_shape = 2.0 if likelihood is LogNormal else -3.0
    f = np.tile([-900.0, 0.0, 690.0, 900.0], (1000, 1))
    drawn = likelihood(log_shape).sample(f, np.ones(4), np.random.RandomState(0))
    assert np.isfinite(drawn).all()
    assert (drawn >= 0.0).all()
    assert (np.diff(np.median(drawn, axis=0)) >= 0.0).all()


@EACH_OF_COUNTS
@pytest.mark.parametrize("exposure", [1e-100, 1e15])
def test_exposures_of_any_size_are_allowed(case, exposure):
    """A rate of 5 at an absurd exposure."""
    mean, ones = np.log(5.0) - np.log(np.full(3, exposure)), np.ones(3)
    rows = observations(np.array([0.0, 5.0, 20.0]), exposure)
    plain = observations(rows["y"])
    for function in (log_predictive_density, predictive_cdf):
        found = function(case.likelihood, rows, mean, 0.3 * ones)
        expected = function(case.likelihood, plain, np.log(5.0) * ones, 0.3 * ones)
        assert_allclose(found, expected, rtol=1e-9)
    found = predictive_quantiles(case.likelihood, 0.9, mean, 0.3 * ones, exposure * ones)
    expected = predictive_quantiles(case.likelihood, 0.9, np.log(5.0) * ones, 0.3 * ones, ones)
    assert_array_equal(found, expected)
