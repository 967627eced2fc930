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
    x, y = rng.uniform(0.0, 12.0, 100), rng.normal(size=(1, 100))
    found = likely_periods(x, y, 0.5, 2.0)
    assert len(found) == N_PERIODS
    assert min(found) >= 0.5
    assert max(found) <= 2.0
    scaled = likely_periods(1e6 * x, y, 5e5, 2e6)
    np.testing.assert_allclose(scaled, 1e6 * np.array(found), rtol=1e-9)


def test_there_may_be_no_period():
    assert likely_periods(np.zeros(5), np.ones((1, 5))) == []
    assert likely_periods(np.arange(9.0), np.ones((1, 9)), 100.0, 200.0) == []
