"""Learning rates fall as they should."""

import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.optimisers.learning_rates import cosine_annealing, inverse_time_decay


def test_learning_rates_fall():
    assert cosine_annealing(0.2, 0.0) == 0.2
    assert cosine_annealing(0.2, 0.5) == pytest.approx(0.1)
    assert cosine_annealing(0.2, 1.0) == pytest.approx(0.0)
    rates = [inverse_time_decay(0.2, step) for step in (0, 20, 60)]
    assert_allclose(rates, [0.2, 0.1, 0.05])
