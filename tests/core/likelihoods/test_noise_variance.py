"""Noise of uncertain variance: densities and expectations against composite quadrature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm, t

from sparsegpc._core.likelihoods.noise_variance import (
    InverseGammaVariance,
    LogNormalVariance,
    log_noisy_density,
)
from tests.core.helpers import integral


def density_by_quadrature(y, mean, variance, noise_mean, noise_variance):
    """Return log of the integral of N(y; mean, variance + e^g) over g, split where it matters."""
    spread = np.sqrt(noise_variance)

    def log_integrand(g):
        total = variance + np.exp(g)
        likelihood = -0.5 * (np.log(2.0 * np.pi * total) + (y - mean) ** 2 / total)
        return likelihood + norm.logpdf(g, noise_mean, spread)

    # The likelihood pulls g towards log (y - mean)^2, however far that is.
    ends = noise_mean - 30.0 * spread, noise_mean + 30.0 * spread + 2.0 * np.log1p(abs(y - mean))
    for _ in range(3):
        grid = np.linspace(*ends, 2001)
        values = log_integrand(grid)
        top = values.max()
        inside = np.flatnonzero(values > top - 50.0)
        ends = grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, 2000)]
    return top + np.log(integral(lambda g: np.exp(log_integrand(g) - top), np.linspace(*ends, 9)))


def log_density(*arguments):
    y, mean, variance, *noise = (np.array([value]) for value in arguments)
    return log_noisy_density(y, mean, variance, LogNormalVariance(*noise))[0]


@pytest.mark.parametrize("variance", [1e-6, 0.1, 3.0])
@pytest.mark.parametrize("error", [0.0, 0.3, -1.0, 3.0, -10.0])
@pytest.mark.parametrize("noise_variance", [1e-8, 0.01, 0.3, 1.0])
def test_predictive_density_is_the_integral_over_the_noise(noise_variance, error, variance):
    expected = density_by_quadrature(2.0 + error, 2.0, variance, 0.3, noise_variance)
    ours = log_density(2.0 + error, 2.0, variance, 0.3, noise_variance)
    assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise_variance", [4.0, 25.0, 100.0])
@pytest.mark.parametrize("error", [0.0, 0.3, 3.0, 100.0])
def test_predictive_density_where_the_noise_is_all_but_unknown(noise_variance, error):
    expected = density_by_quadrature(error, 0.0, 0.01, 0.0, noise_variance)
    ours = log_density(error, 0.0, 0.01, 0.0, noise_variance)
    assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise_variance", [1e-4, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("error", [100.0, 1e4])
def test_predictive_density_of_far_targets(noise_variance, error):
    expected = density_by_quadrature(error, 0.0, 0.01, 0.0, noise_variance)
    ours = log_density(error, 0.0, 0.01, 0.0, noise_variance)
    assert_allclose(ours, expected, rtol=1e-6)


def test_predictive_density_of_known_noise_is_gaussian(rng):
    y, mean = rng.randn(2, 7)
    variance, log_noise = rng.uniform(0.1, 2.0, 7), rng.randn(7)
    expected = norm.logpdf(y, mean, np.sqrt(variance + np.exp(log_noise)))
    known = LogNormalVariance(log_noise, np.zeros(7))
    ours = log_noisy_density(y, mean, variance, known)
    assert_allclose(ours, expected, rtol=1e-12)
    unknown = LogNormalVariance(log_noise, np.append(0.5, np.zeros(6)))
    mixed = log_noisy_density(y, mean, variance, unknown)
    assert_allclose(mixed[1:], expected[1:], rtol=1e-12)
    assert mixed[0] != expected[0]


def test_predictive_density_integrates_to_one():
    def density(y):
        return np.exp(log_density(y, 0.3, 0.2, -1.0, 1.5))

    total = quad(density, -np.inf, 0.3)[0] + quad(density, 0.3, np.inf)[0]
    assert_allclose(total, 1.0, rtol=1e-6)


@pytest.mark.parametrize("n_rows", [5, 1024])
def test_predictive_density_is_elementwise(rng, monkeypatch, n_rows):
    monkeypatch.setattr("sparsegpc._core.likelihoods.noise_variance.DENSITY_ROWS", n_rows)
    shape = (3, 4)
    arguments = [rng.randn(*shape), rng.randn(*shape), rng.uniform(0.1, 1.0, shape)]
    noise = LogNormalVariance(rng.randn(*shape), rng.uniform(0.1, 1.0, shape))
    whole = log_noisy_density(*arguments, noise)
    assert whole.shape == shape
    for index in np.ndindex(shape):
        assert_allclose(whole[index], log_density(*(part[index] for part in (*arguments, *noise))))


def test_unknown_noise_has_heavier_tails_than_a_gaussian_of_the_same_variance():
    variance, noise_mean, noise_variance = 0.1, 0.0, 1.0
    total = variance + np.exp(noise_mean + 0.5 * noise_variance)
    for error in (6.0, 20.0):
        ours = log_density(error, 0.0, variance, noise_mean, noise_variance)
        assert ours > norm.logpdf(error, 0.0, np.sqrt(total)) + 1.0


@pytest.mark.parametrize("variance", [0.0, 1e-4, 0.3, 4.0])
@pytest.mark.parametrize("mean", [-3.0, 0.2, 2.0])
def test_expected_noise_variance(mean, variance):
    noise = LogNormalVariance(np.array([mean]), np.array([variance]))
    spread = max(np.sqrt(variance), 1e-6)
    centre = mean + variance
    value = quad(
        lambda g: np.exp(g) * norm.pdf(g, mean, spread),
        centre - 12.0 * spread,
        centre + 12.0 * spread,
        epsrel=1e-11,
    )[0]
    assert_allclose(noise.expected(), value, rtol=1e-9)
    assert_allclose(noise.multiplied(9.0).expected(), 9.0 * value, rtol=1e-9)


def test_an_expected_noise_variance_too_large_to_calculate_with_is_limited():
    assert np.isfinite(LogNormalVariance(np.array([1e6]), np.zeros(1)).expected()).all()


@pytest.mark.parametrize("error", [0.0, -0.3, 1.0, -4.0, 30.0])
@pytest.mark.parametrize("noise_variance", [0.0, 1e-8, 0.01, 0.3, 2.0, 25.0])
@pytest.mark.parametrize("variance", [1e-9, 0.1, 50.0])
def test_nodes_give_the_probability_below_a_value(noise_variance, error, variance):
    noise = LogNormalVariance(np.array([0.3, -0.4]), np.array([noise_variance, 0.0]))
    g, weights = noise.nodes()
    ours = (weights * norm.cdf(error / np.sqrt(variance + np.exp(g)))).sum(axis=0)

    def integrand(g):
        p = norm.pdf(g, 0.3, np.sqrt(noise_variance))
        return p * norm.cdf(error / np.sqrt(variance + np.exp(g)))

    expected = norm.cdf(error / np.sqrt(variance + np.exp(0.3)))
    if noise_variance > 0.0:
        expected = integral(integrand, 0.3 + np.sqrt(noise_variance) * np.linspace(-9.0, 9.0, 19))
    assert_allclose(ours[0], expected, rtol=0.0, atol=1e-10)
    assert_allclose(ours[1], norm.cdf(error / np.sqrt(variance + np.exp(-0.4))), atol=1e-13)


# Student-t noise

DFS = pytest.mark.parametrize("df", [0.3, 1.0, 2.5, 8.0, 1000.0])


def student(df, scale, n=1):
    return InverseGammaVariance(np.full(n, df), np.full(n, 2.0 * np.log(scale)))


def over_f(function, variance, around=0.0):
    """Return the expectation of a function of f ~ N(0, variance), steepest around a place."""
    width = np.sqrt(variance)
    ends = 38.0 * width
    edges = np.append(np.linspace(-ends, ends, 77), around + np.linspace(-1.0, 1.0, 9))
    edges = np.unique(np.clip(edges, -ends, ends))
    return integral(lambda f: function(f) * norm.pdf(f, 0.0, width), edges)


@DFS
@pytest.mark.parametrize("variance", [1e-8, 0.02, 3.0])
@pytest.mark.parametrize("error", [0.0, 0.3, -2.0, 12.0])
def test_the_density_with_student_noise_is_the_integral_over_f(error, variance, df):
    scale = 0.4
    expected = over_f(lambda f: t.pdf(error - f, df, 0.0, scale), variance, error)
    ours = log_noisy_density(
        np.array([error]), np.zeros(1), np.array([variance]), student(df, scale)
    )
    assert_allclose(ours, np.log(expected), rtol=1e-8, atol=1e-8)


@DFS
@pytest.mark.parametrize("error", [1e4, 1e10, 1e100])
def test_far_targets_have_the_density_of_the_noise_alone(error, df):
    ours = log_noisy_density(np.array([error]), np.zeros(1), np.array([0.5]), student(df, 0.4))
    if df * np.log(error) < 600.0:
        assert_allclose(ours, t.logpdf(error, df, 0.0, 0.4), rtol=1e-4)
    assert np.isfinite(ours).all()


@DFS
@pytest.mark.parametrize("variance", [1e-8, 0.02, 3.0])
@pytest.mark.parametrize("error", [0.0, 0.3, -2.0, -40.0])
def test_nodes_give_the_probability_with_student_noise(error, variance, df):
    scale = 0.4
    g, weights = student(df, scale).nodes()
    ours = (weights * norm.cdf(error / np.sqrt(variance + np.exp(g)))).sum()
    expected = over_f(lambda f: t.cdf(error - f, df, 0.0, scale), variance, error)
    assert_allclose(ours, expected, rtol=0.0, atol=1e-10)


def test_nodes_of_unlike_outputs_are_each_right():
    noise = InverseGammaVariance(np.array([[0.5], [40.0]]), np.array([[1.0], [-2.0]]))
    g, weights = noise.nodes()
    ours = (weights * norm.cdf(-0.7 / np.sqrt(0.1 + np.exp(g)))).sum(axis=0)[:, 0]
    for found, (df,), (log_variance,) in zip(ours, *noise, strict=True):
        scale = np.exp(0.5 * log_variance)
        expected = over_f(lambda f, df=df, scale=scale: t.cdf(-0.7 - f, df, 0.0, scale), 0.1)
        assert found == pytest.approx(expected, abs=1e-10)


def test_the_expected_variance_of_student_noise_may_be_infinite():
    noise = InverseGammaVariance(np.array([0.5, 2.0, 4.0]), np.log([1.0, 1.0, 0.3]))
    assert_allclose(noise.expected(), [np.inf, np.inf, t.var(4.0, scale=np.sqrt(0.3))])
    assert_allclose(noise.multiplied(4.0).expected()[2], 4.0 * noise.expected()[2])
    assert_allclose(noise.at(slice(2, 3)).expected(), noise.expected()[2:])


@pytest.mark.parametrize("y", [1e60, 1e100, -1e200, 1e300])
def test_a_mixture_has_a_density_at_any_target(y):
    """Errors of more than 1e100 count as 1e100, since squares of some overflow."""
    noise = InverseGammaVariance(*np.array([[3.0], [np.log(4.0)]]))
    found = log_noisy_density(np.array([y]), np.zeros(1), np.zeros(1), noise)
    assert_allclose(found, t.logpdf(min(abs(y), 1e100), 3.0, scale=2.0), rtol=1e-6)
    noise = LogNormalVariance(np.zeros(1), np.ones(1))
    found = log_noisy_density(np.array([y]), np.zeros(1), np.zeros(1), noise)
    assert np.isfinite(found)
    assert found < -1e3
