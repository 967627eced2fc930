"""The periodogram beside the sums that define it."""

import numpy as np
import pytest

from sparsegpc._core.periods.periodograms import BAND, periodogram


def direct(u, numbers, frequencies):
    phase = 2.0 * np.pi * np.outer(frequencies, u)
    return (numbers @ np.cos(phase).T) ** 2 + (numbers @ np.sin(phase).T) ** 2


@pytest.mark.parametrize(
    ("lowest", "highest"), [(1.0, 30.0), (900.0, 904.5), (0.0, 2.5 * BAND)], ids=str
)
def test_power_is_that_of_the_defining_sums(lowest, highest, rng):
    u = np.append(rng.uniform(size=40), [0.0, 1.0])
    numbers = rng.normal(size=(2, 42))
    frequencies, power = periodogram(u, numbers, lowest, highest)
    assert power.shape == (2, len(frequencies))
    expected = direct(u, numbers, frequencies)
    # Positions are rounded to a quarter of the shortest period within a band.
    assert np.abs(power - expected).mean() < 0.15 * expected.mean()


def test_frequencies_cover_the_limits_without_gaps(rng):
    frequencies, _ = periodogram(rng.uniform(size=9), np.ones((1, 9)), 3.0, 2.2 * BAND)
    assert frequencies[0] == 3.0
    assert frequencies[-1] < 2.2 * BAND
    steps = np.diff(frequencies, append=2.2 * BAND)
    assert steps.min() > 0.0
    assert steps.max() <= 0.25 + 1e-9


def test_a_sine_keeps_its_power_at_any_frequency(rng):
    """Also where a band ends."""
    u = np.sort(rng.uniform(size=500))
    for frequency in (10.0, 0.5 * BAND, BAND - 1.0, 1.3 * BAND):
        wave = np.exp(2j * np.pi * frequency * u)
        numbers = np.stack([wave.real, wave.imag])
        frequencies, power = periodogram(u, numbers, 0.0, 1.5 * BAND)
        found = frequencies[power.sum(axis=0).argmax()]
        assert abs(found - frequency) < 0.3
        assert power.sum(axis=0).max() == pytest.approx(500.0**2 / 2.0, rel=0.2)
