"""Adam against the algorithm written out for one number."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.optimisers.adam import (
    adam_step,
    cosine_annealing,
    inverse_time_decay,
    no_steps,
    rate_with_memory,
)


def test_adam_is_that_of_the_paper():
    """Algorithm 1 of Kingma and Ba 2015, with beta 0.9 and 0.95, written out for one number."""
    rng = np.random.RandomState(0)
    memory, first, second = no_steps(3), np.zeros(3), np.zeros(3)
    for t in range(1, 40):
        slope = rng.randn(3) + np.array([0.0, 1.0, -30.0])
        memory, direction = adam_step(memory, slope)
        first, second = 0.9 * first + 0.1 * slope, 0.95 * second + 0.05 * slope**2
        expected = first / (1 - 0.9**t) / np.sqrt(second / (1 - 0.95**t))
        assert_allclose(direction, expected, rtol=1e-8)
    assert memory.n_steps == 39


def test_adam_stays_where_there_is_no_slope():
    """Rounding errors of a gradient are no slope."""
    _, direction = adam_step(no_steps(3), np.array([0.0, 1e-170, 1e-17]))
    assert_allclose(direction, 0.0, atol=1e-6)


def test_adam_climbs_a_hill_whatever_the_units_of_its_parameters():
    units, x, memory = np.array([1e-3, 1.0, 1e3]), np.ones(3), no_steps(3)
    for step in range(400):
        memory, direction = adam_step(memory, -units * x)
        x = x + cosine_annealing(0.1, step / 400) * direction
    assert_allclose(x, 0.0, atol=1e-2)


def test_a_memory_is_left_as_it_was():
    memory = adam_step(no_steps(2), np.ones(2))[0]
    copies = [np.array(part) for part in memory]
    adam_step(memory, np.array([3.0, -1.0]))
    for part, copy in zip(memory, copies, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_learning_rates_fall():
    assert cosine_annealing(0.2, 0.0) == 0.2
    assert cosine_annealing(0.2, 0.5) == pytest.approx(0.1)
    assert cosine_annealing(0.2, 1.0) == pytest.approx(0.0)
    rates = [inverse_time_decay(0.2, step) for step in (0, 20, 60)]
    assert_allclose(rates, [0.2, 0.1, 0.05])


def test_rates_fall_until_a_memory_of_rows_allows_a_factor_of_e():
    """Steps of 10 rows, where 0.1 is meant for 100 rows, and 500 rows are remembered."""
    rates = [rate_with_memory(0.1, step, 10 / 100, 10 / 500) for step in (0, 200, 10**6)]
    assert_allclose(rates, 10 / 500)
    # With 10 000 rows the rate falls from a tenth, as steps of 100 rows would.
    rates = [rate_with_memory(0.1, step, 10 / 100, 10 / 10_000) for step in (0, 200, 10**6)]
    assert_allclose(rates, [0.01, 0.005, 0.001])
    assert rate_with_memory(0.001, 10**6, 10 / 100, 10 / 500) == 0.001
    assert rate_with_memory(0.0, 10**6, 10 / 100, 10 / 500) == 0.0


@pytest.mark.filterwarnings("error")
def test_adam_follows_the_sign_of_a_slope_whose_square_overflows():
    memory, direction = adam_step(no_steps(2), np.array([1e200, -1e300]))
    assert_allclose(direction, [1.0, -1.0])
    _, direction = adam_step(memory, np.array([1.0, -1e300]))
    assert 0.0 < direction[0] < 1.0
    assert_allclose(direction[1], -1.0)
