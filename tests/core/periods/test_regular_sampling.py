"""Frequencies that look the same with regular sampling."""

import numpy as np
import pytest

from sparsegpc._core.periods.regular_sampling import RegularSampling


def longest(u, frequencies, low, high):
    """Return which of some integer frequencies have no lower one with the same values, directly."""
    frequencies = np.asarray(frequencies)
    first = 0 if low <= 1 else low
    kept = []
    for frequency in frequencies:
        phase = np.exp(2j * np.pi * frequency * u)
        lower = np.exp(2j * np.pi * np.outer(np.arange(first, frequency), u))
        same = np.abs(lower - phase).max(axis=1, initial=0.0) < 1e-6
        mirrored = np.abs(lower - phase.conj()).max(axis=1, initial=0.0) < 1e-6
        kept.append(not (same | mirrored).any())
    return np.array(kept)


@pytest.mark.parametrize(("low", "high"), [(1, 150), (35, 90), (70, 75)])
def test_regular_positions_mirror_frequencies(low, high):
    u = np.arange(41.0) / 40.0
    frequencies = np.arange(low, high)
    found = RegularSampling(u, float(low), float(high)).is_longest(frequencies - 1e-3)
    # Half the sampling frequency itself looks like no lower one.
    expected = longest(u, frequencies, low, high)
    unclear = frequencies % 20 == 0
    np.testing.assert_array_equal(found[~unclear], expected[~unclear])
    assert not expected.all() or high - low < 10


def test_some_of_regular_positions_have_the_same_mirrors(rng):
    days = np.sort(rng.choice(2000, 60, replace=False))
    n_days = np.ptp(days)
    sampling = RegularSampling((days - days[0]) / n_days, 1.0, 2.0 * n_days)
    below, above = np.array([0.2, 0.49]) * n_days, np.array([0.51, 0.8, 1.1]) * n_days
    assert sampling.is_longest(below).all()
    assert not sampling.is_longest(above).any()


@pytest.mark.parametrize(("deviation", "is_regular"), [(0.002, True), (0.02, False)])
def test_small_deviations_from_regular_positions_do_not_tell_frequencies(
    deviation, is_regular, rng
):
    days = np.arange(300.0) + deviation * rng.normal(size=300)
    u = (days - days[0]) / np.ptp(days)
    assert RegularSampling(u, 1.0, 400.0).is_longest(np.array([200.0])).all() != is_regular


def test_irregular_positions_mirror_none(rng):
    u = np.append(rng.uniform(size=50), [0.0, 1.0])
    assert RegularSampling(u, 1.0, 5000.0).is_longest(np.arange(1.0, 5000.0)).all()
