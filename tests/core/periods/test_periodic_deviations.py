"""The periods that a periodogram of the deviations shows."""

import numpy as np
import pytest

from sparsegpc._core.periods.harmonic_signals import N_RIVALS
from sparsegpc._core.periods.periodic_deviations import N_SIGNALS, likely_periods


def sine(x, period):
    return np.sin(2.0 * np.pi * x / period)


def signals(x, deviations, lowest=0.0, highest=np.inf, precisions=None):
    """Return the periods of each signal in deviations (K, n) or (n,), the likeliest first."""
    deviations = np.atleast_2d(deviations)
    if precisions is None:
        precisions = np.ones_like(deviations)
    found = likely_periods(x, deviations, precisions, lowest, highest)
    return [[signal.period, *signal.rivals] for signal in found]


def nights(rng, n_rows, n_nights):
    """Return times within some nights, of which each lasts four tenths of a day."""
    return np.floor(rng.uniform(0.0, n_nights, n_rows)) + rng.uniform(0.0, 0.4, n_rows)


def has_phase_of(period, expected, x):
    """Return whether the phases of two periods differ by less than a radian over the range."""
    return abs(np.ptp(x) / period - np.ptp(x) / expected) < 1.0 / (2.0 * np.pi)


@pytest.mark.parametrize("period", [0.01, 0.4, 1.3, 3.0])
@pytest.mark.parametrize("trend", [0.0, 5.0])
def test_the_period_of_a_sine_comes_first(period, trend, rng):
    x = rng.uniform(0.0, 12.0, 150)
    y = sine(x, period) + trend * x + 0.2 * rng.normal(size=150)
    assert has_phase_of(signals(x, y)[0][0], period, x)


def test_both_of_two_periods_are_found(rng):
    x = rng.uniform(0.0, 30.0, 300)
    y = 3.0 * sine(x, 4.0) + sine(x + 0.1, 0.7)
    found = np.array([rivals[0] for rivals in signals(x, y)[:2]])
    np.testing.assert_allclose(found, [4.0, 0.7], rtol=0.02)


def test_functions_share_their_periods(rng):
    x = rng.uniform(0.0, 12.0, 200)
    phase = 2.0 * np.pi * x / 1.7
    assert abs(signals(x, np.stack([np.sin(phase), np.cos(phase)]))[0][0] - 1.7) < 0.05


@pytest.mark.parametrize("first", [0.0, 0.2])
def test_harmonics_tell_the_period_of_which_they_are(first, rng):
    """Even if the second one is the strongest, and the first one is missing."""
    x = nights(rng, 300, 100)
    y = first * sine(x, 0.62) + sine(x, 0.31) + 0.5 * sine(x + 0.05, 0.62 / 3.0)
    found = signals(x, y + 0.3 * rng.normal(size=300))
    assert has_phase_of(found[0][0], 0.62, x)


def test_the_true_period_of_nights_is_among_the_rivals(rng):
    """One more or less in each day fits nearly as well where noise is strong."""
    x = nights(rng, 200, 100)
    found = signals(x, sine(x, 0.31) + 1.2 * rng.normal(size=200))
    assert any(has_phase_of(period, 0.31, x) for period in found[0])


def test_periods_scale_with_the_column_and_stay_within_limits(rng):
    x = rng.uniform(0.0, 12.0, 300)
    y = sum(sine(x, period) for period in (0.2, 0.67, 0.8, 1.1, 1.4, 1.93, 5.0))
    found = signals(x, y, 0.5, 2.0)
    assert len(found) == N_SIGNALS
    assert all(0.5 <= period <= 2.0 for rivals in found for period in rivals)
    scaled = signals(2.0**20 * x, y, 2.0**19, 2.0**21)
    for rivals, others in zip(found, scaled, strict=True):
        np.testing.assert_allclose(others, 2.0**20 * np.array(rivals), rtol=1e-9)


def test_limits_admit_periods_far_below_those_of_a_search_without_them(rng):
    x = rng.uniform(0.0, 1000.0, 60)
    y = sine(x, 0.03) + 0.3 * rng.normal(size=60)
    assert min(min(rivals) for rivals in signals(x, y)) > 0.5
    assert has_phase_of(signals(x, y, 0.02, 0.05)[0][0], 0.03, x)
    # So many cycles would take minutes in one transform.
    assert has_phase_of(signals(1e6 * x, y, 29_999.0, 30_001.0)[0][0], 30_000.0, 1e6 * x)


def test_there_may_be_no_period():
    assert signals(np.zeros(5), np.ones((1, 5))) == []
    assert signals(np.arange(9.0), np.ones((1, 9)), 100.0, 200.0) == []


@pytest.mark.parametrize("readings", [np.array([0.0, 1e-3]), np.arange(8.0) / 24.0])
def test_several_readings_a_day_do_not_hide_a_period_of_days(readings, rng):
    """A month shows as well as one of its aliases, nearly a day."""
    x = np.add.outer(np.arange(300.0), readings).ravel()
    y = sine(x, 30.0) + 0.1 * rng.normal(size=len(x))
    assert abs(signals(x, y)[0][0] - 30.0) < 0.5


@pytest.mark.parametrize("period", [2.5, 7.0])
def test_random_rows_of_a_grid_show_its_periods(period, rng):
    """Few of the rows are neighbours, but their distances are whole numbers."""
    x = np.sort(rng.choice(6000, 1000, replace=False)).astype(float)
    for rivals in signals(x, sine(x, period)):
        assert min(rivals) >= 2.0
    assert abs(signals(x, sine(x, period))[0][0] - period) < 0.01


@pytest.mark.parametrize(
    ("lowest", "highest", "longest"), [(0.0, np.inf, 7.0), (0.5, 5.0, 7.0 / 6.0), (0.1, 0.9, 0.875)]
)
def test_of_equal_aliases_only_the_longest_is_found(lowest, highest, longest, rng):
    """Daily readings show a week as well as any other period whose frequency differs by one."""
    x = np.arange(200.0)
    y = sine(x, 7.0) + 0.5 * rng.normal(size=200)
    found = signals(x, y, lowest, highest)[0]
    assert has_phase_of(found[0], longest, x)
    turns = np.exp(2j * np.pi * x / np.array(found)[:, None]).round(1)
    assert len({tuple(turn.real) for turn in turns}) == len(found)


def test_precise_rows_count_more(rng):
    """A tenth of the rows show one period with little noise, the others another one with much."""
    x = rng.uniform(0.0, 100.0, 400)
    is_precise = np.arange(400) < 40
    y = np.where(is_precise, sine(x, 7.0), 3.0 * sine(x, 4.0))
    precisions = np.where(is_precise, 100.0, 1e-4)[None]
    assert abs(signals(x, precisions * y, precisions=precisions)[0][0] - 7.0) < 0.05
    assert abs(signals(x, y)[0][0] - 4.0) < 0.05


def test_signals_tell_what_they_leave_of_the_variance(rng):
    x = rng.uniform(0.0, 30.0, 2000)
    y = 2.0 * sine(x, 4.0) + sine(x, 0.7) + 0.5 * rng.normal(size=2000) + x
    found = likely_periods(x, y[None], np.ones((1, 2000)))
    # The variances of the three parts are 2, 1/2 and 1/4.
    left = np.array([signal.left for signal in found])
    np.testing.assert_allclose(left, [0.75 / 2.75, 0.25 / 2.75], rtol=0.1)


def test_noise_shows_a_single_signal(rng):
    x = rng.uniform(0.0, 12.0, 200)
    (rivals,) = signals(x, rng.normal(size=200))
    assert 1 <= len(rivals) <= N_RIVALS


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e100, 1e200])
def test_deviations_of_any_size_show_the_same_periods(scale, rng):
    x = rng.uniform(0.0, 12.0, 100)
    y = sine(x, 1.7)
    assert signals(x, scale * y)[0] == pytest.approx(signals(x, y)[0])
    assert signals(1e-310 * x, y) == []
