"""How many points a fit can afford."""

import pytest

from sparsegpc._core.learning.default_points import affordable_points


@pytest.mark.parametrize("n_functions", [1, 3])
def test_an_evaluation_costs_no_more_than_with_fifty_thousand_rows(n_functions):
    for n_rows in (1, 50, 1260, 2000, 49999, 50000, 10**7):
        n_points = affordable_points(n_rows, n_functions)
        cost = n_functions * n_rows * n_points**2
        assert n_points == 200 or cost <= 50000 * 200**2 < cost * (1.0 + 1.0 / n_points) ** 2
    assert [affordable_points(n) for n in (1259, 2000, 10000, 50000)] == [1260, 1000, 447, 200]
