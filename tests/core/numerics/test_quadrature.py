"""Rules of integration, against scipy's adaptive integration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from sparsegpc._core.numerics.quadrature import (
    NEGLIGIBLE,
    legendre_panels,
    narrowed,
    normal_rule,
)


def wave(x):
    return np.exp(-0.3 * x) * np.cos(2.0 * x)


@pytest.mark.parametrize("edges", [[0.0, 1.0], [-2.0, 0.5, 0.7, 3.0]])
def test_panels_integrate_from_the_first_edge_to_the_last(edges):
    nodes, weights = legendre_panels(edges, 12)
    assert nodes.shape == weights.shape == (12 * (len(edges) - 1),)
    assert (np.diff(nodes) > 0.0).all()
    expected, _ = quad(wave, edges[0], edges[-1], epsabs=1e-13)
    assert_allclose(weights @ wave(nodes), expected, rtol=1e-11)


def test_a_panel_covers_a_kink_at_an_edge():
    nodes, weights = legendre_panels([-1.0, 0.25, 2.0], 3)
    expected, _ = quad(lambda x: abs(x - 0.25), -1.0, 2.0, points=[0.25])
    assert_allclose(weights @ np.abs(nodes - 0.25), expected, rtol=1e-13)


def test_the_normal_rule_takes_expectations():
    nodes, weights = normal_rule(24)
    expected, _ = quad(lambda z: wave(z) * norm.pdf(z), -12.0, 12.0, epsabs=1e-13)
    assert_allclose(weights @ wave(nodes), expected, rtol=1e-10)


def test_narrowed_intervals_lose_nothing_of_the_integrals():
    centre, deviation = np.array([-5.0, 0.3, 9.9, 2.0]), np.array([0.1, 1.0, 0.05, 30.0])
    ends = np.full(4, -10.0), np.full(4, 10.0)
    low, high = ends
    for _ in range(3):
        x = np.linspace(low, high, 65)
        low, high, n_steps = narrowed(low, high, -0.5 * ((x - centre) / deviation) ** 2)
        assert_allclose(n_steps, (high - low) / (x[1] - x[0]), rtol=1e-9)
    reach = np.sqrt(2.0 * NEGLIGIBLE) * deviation
    # One step on either side remains, and nothing beyond the ends is added.
    step = (x[1] - x[0]) * (1.0 + 1e-9)
    first, last = np.maximum(centre - reach, ends[0]), np.minimum(centre + reach, ends[1])
    for relevant, kept in ((first, low), (-last, -high)):
        assert (kept <= relevant).all()
        assert (kept >= relevant - step).all()
    for k in range(4):
        law = norm(centre[k], deviation[k])
        kept, _ = quad(law.pdf, low[k], high[k], epsabs=1e-12)
        assert_allclose(kept, law.cdf(ends[1][k]) - law.cdf(ends[0][k]), atol=1e-10)
