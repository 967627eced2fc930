"""The periods that a periodogram of the deviations shows."""

import numpy as np
import pytest

from sparsegpc._core.models.periodic_deviations import N_PERIODS, likely_periods


@pytest.mark.parametrize("period", [0.4, 1.3, 3.0])
@pytest.mark.parametrize("trend", [0.0, 5.0])
def test_the_period_of_a_sine_comes_first(period, trend, rng):
    x = rng.uniform(0.0, 12.0, 150)
    y = np.sin(2.0 * np.pi * x / period) + trend * x + 0.2 * rng.normal(size=150)
    first, *_ = likely_periods(x, y[None])
    # Over the range of the column, the phases differ by less than a radian.
    assert abs(12.0 / first - 12.0 / period) < 1.0 / (2.0 * np.pi)


def test_both_of_two_periods_are_found(rng):
    x = rng.uniform(0.0, 30.0, 300)
    y = 3.0 * np.sin(2.0 * np.pi * x / 4.0) + np.cos(2.0 * np.pi * x / 0.7)
    found = np.array(likely_periods(x, y[None])[:2])
    np.testing.assert_allclose(found, [4.0, 0.7], rtol=0.02)


def test_functions_share_their_periods(rng):
    x = rng.uniform(0.0, 12.0, 200)
    phase = 2.0 * np.pi * x / 1.7
    first, *_ = likely_periods(x, np.stack([np.sin(phase), np.cos(phase)]))
    assert abs(first - 1.7) < 0.05


def test_periods_scale_with_the_column_and_stay_within_limits(rng):
    x = rng.uniform(0.0, 12.0, 300)
    periods = (0.2, 0.6, 0.8, 1.1, 1.4, 1.9, 5.0)
    y = sum(np.sin(2.0 * np.pi * x / period) for period in periods)[None]
    found = likely_periods(x, y, 0.5, 2.0)
    assert len(found) == N_PERIODS
    assert min(found) >= 0.5
    assert max(found) <= 2.0
    scaled = likely_periods(2.0**20 * x, y, 2.0**19, 2.0**21)
    np.testing.assert_allclose(scaled, 2.0**20 * np.array(found), rtol=1e-9)


def test_there_may_be_no_period():
    assert likely_periods(np.zeros(5), np.ones((1, 5))) == []
    assert likely_periods(np.arange(9.0), np.ones((1, 9)), 100.0, 200.0) == []


@pytest.mark.parametrize("readings", [np.array([0.0, 1e-3]), np.arange(8.0) / 24.0])
def test_several_readings_a_day_do_not_hide_a_period_of_days(readings, rng):
    """A month shows as well as one of its aliases, nearly a day."""
    x = np.add.outer(np.arange(300.0), readings).ravel()
    y = np.sin(2.0 * np.pi * x / 30.0) + 0.1 * rng.normal(size=len(x))
    first, *_ = likely_periods(x, y[None])
    assert abs(first - 30.0) < 0.5


def test_random_rows_of_a_grid_show_its_periods(rng):
    """Evenly spaced ones, every sixth day, would show a week as six weeks."""
    x = np.sort(rng.choice(6000, 1000, replace=False)).astype(float)
    found = likely_periods(x, np.sin(2.0 * np.pi * x / 7.0)[None], share=1.0 / 6.0)
    assert abs(found[0] - 7.0) < 0.01
    # Few of the values are neighbours, but all rows have a distance of one.
    found = likely_periods(x, np.sin(2.0 * np.pi * x / 2.5)[None], share=1.0 / 6.0)
    assert abs(found[0] - 2.5) < 0.01


def test_noise_shows_a_single_period(rng):
    x = rng.uniform(0.0, 12.0, 200)
    assert len(likely_periods(x, rng.normal(size=(1, 200)))) == 1


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e100, 1e200])
def test_deviations_of_any_size_show_the_same_periods(scale, rng):
    x = rng.uniform(0.0, 12.0, 100)
    y = np.sin(2.0 * np.pi * x / 1.7)[None]
    assert likely_periods(x, scale * y) == pytest.approx(likely_periods(x, y))
    assert likely_periods(1e-310 * x, y) == []
