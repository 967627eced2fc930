"""The tilted bound, against quadrature, a general optimiser and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from sparsegpc._core.likelihoods.tilted import tilted_bound
from tests.core.helpers import central_difference


def moments(seed, n_classes, deviation, n=8):
    rng = np.random.RandomState(seed)
    mean = deviation * rng.randn(n_classes, n)
    return mean, deviation**2 * rng.uniform(0.01, 1.0, mean.shape)


@pytest.mark.parametrize("deviation", [0.1, 1.0, 5.0])
def test_it_is_a_bound_on_the_expectation(deviation):
    mean, variance = moments(0, 3, deviation)
    bound, _ = tilted_bound(mean, variance)
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    grids = np.stack(np.meshgrid(z, z, z, indexing="ij")).reshape(3, -1)
    weight = np.prod(np.meshgrid(weight, weight, weight, indexing="ij"), axis=0).ravel()
    for n in range(mean.shape[1]):
        f = mean[:, n, None] + np.sqrt(variance[:, n, None]) * grids
        exact = logsumexp(f, axis=0) @ weight / weight.sum()
        assert bound[n] > exact
        # The difference is of second order in the variances.
        assert bound[n] - exact < 0.05 * variance[:, n].sum() ** 2


@given(st.integers(0, 999), st.integers(2, 9), st.floats(-4.0, 2.0))
def test_no_tilts_give_a_smaller_bound(seed, n_classes, log_deviation):
    mean, variance = moments(seed, n_classes, 10.0**log_deviation, n=1)
    mean, variance = mean[:, 0], variance[:, 0]

    def at(tilts):
        exponents = mean + (0.5 - tilts) * variance
        slope = variance * (tilts - softmax(exponents))
        return 0.5 * tilts**2 @ variance + logsumexp(exponents), slope

    bound, tilts = tilted_bound(mean[:, None], variance[:, None])
    assert at(tilts[:, 0])[0] == pytest.approx(bound[0], rel=1e-10, abs=1e-10)
    for start in (softmax(mean), np.eye(n_classes)[mean.argmax()]):
        best = minimize(at, start, jac=True, method="L-BFGS-B").fun
        assert bound[0] <= best + 1e-9 * (1.0 + abs(best))


@pytest.mark.parametrize("deviation", [0.5, 1.0, 10.0])
def test_its_derivatives_follow_from_the_tilts(deviation):
    mean, variance = moments(1, 4, deviation)
    _, tilts = tilted_bound(mean, variance)
    slope = central_difference(lambda m: tilted_bound(m, variance)[0].sum(), mean)
    by_variance = central_difference(lambda s: tilted_bound(mean, s)[0].sum(), variance)
    assert_allclose(tilts, slope, rtol=1e-5, atol=1e-7)
    assert_allclose(0.5 * tilts * (1.0 - tilts), by_variance, rtol=1e-5, atol=1e-7)
    assert_allclose(tilts.sum(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("variance", [0.0, 1e-30, 1e-9])
def test_it_is_exact_without_variance(variance):
    mean = np.random.RandomState(2).randn(5, 7)
    bound, tilts = tilted_bound(mean, np.full(mean.shape, variance))
    assert_allclose(bound, logsumexp(mean, axis=0), rtol=1e-8)
    assert_allclose(tilts, softmax(mean, axis=0), rtol=1e-8)


def test_it_is_finite_at_extreme_moments():
    mean = np.array([[0.0, 1e9, 0.0, -1e12], [1.0, -1e9, 3.0, 1e12], [2.0, 0.0, 1e3, 0.0]])
    variance = np.array([[1e300, 1.0, np.inf, 0.0], [1e200, 1e9, 0.0, 1e-9], [0.0, 0.0, 1.0, 2.0]])
    bound, tilts = tilted_bound(mean, variance)
    assert np.isfinite(bound).all()
    assert_allclose(tilts.sum(axis=0), 1.0, rtol=1e-3)
    assert np.all(bound[[1, 3]] >= mean[:, [1, 3]].max(axis=0) * (1.0 - 1e-12))
