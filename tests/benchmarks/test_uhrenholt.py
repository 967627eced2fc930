"""The program about fewer points where they tell less: data, searches and tables."""

import evidence
import numpy as np
import pytest
import uhrenholt_points as program
from numpy.testing import assert_allclose
from scipy.stats import kstest
from sklearn.base import clone


def test_results_have_the_columns_and_no_fit_twice():
    records = evidence.read(program.RESULTS)
    assert tuple(records[0]) == program.FIELDS
    keys = [tuple(record[name] for name in program.KEY) for record in records]
    assert len(set(keys)) == len(keys)


def test_made_rows_are_those_of_the_supplement():
    X, y = program.made_rows("noise", 0.1, 0)
    assert X.shape == (500, 1)
    assert kstest(X[:, 0] / 100.0, "uniform").pvalue > 1e-3
    neighbours = np.argsort(X[:, 0])
    gaps, changes = np.diff(X[neighbours, 0]), np.diff(y[neighbours])
    # The variance of a change is 2 (1 - exp(-gap^2 / 2)) + 2 noise^2.
    expected = 2.0 * (1.0 - np.exp(-0.5 * gaps**2)) + 2.0 * 0.1**2
    assert_allclose((changes**2).sum() / expected.sum(), 1.0, atol=0.3)
    clusters, _ = program.made_rows("clustering", 2.0, 0)
    offsets = clusters[:, 0] - np.round((clusters[:, 0] - 10.0) / 20.0) * 20.0 - 10.0
    assert_allclose(offsets.std(), 2.0**-0.5, rtol=0.15)


@pytest.mark.parametrize("peak", [1, 7, 113, 300])
def test_the_best_size_is_found_with_few_trials(peak):
    tried = []

    def worth(m):
        tried.append(m)
        return -abs(m - peak)

    assert program.best_size(worth, 300) == peak
    assert len(tried) < 60


def test_a_learned_model_with_a_cost_is_the_fit_with_that_cost(rng):
    X = rng.uniform(-3.0, 3.0, (80, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.randn(80)
    model = program.SparseGPRegressor(**program.PAPER, n_inducing=20)
    fitted = clone(model).set_params(point_cost=1.0).fit(X, y)
    found = program.with_cost(clone(model).fit(X, y), 1.0, X, y)
    assert len(found.inducing_points_) == len(fitted.inducing_points_)
    assert_allclose(found.lower_bound_, fitted.lower_bound_, rtol=1e-3)
    square = program.at_square_cost(model.set_params(point_cost=1e-3).fit(X, y), 0.1, X, y)
    assert 1 < len(square.inducing_points_) < 20


def test_the_page_has_its_tables_and_its_picture(tmp_path):
    program.render(tmp_path)
    for name in ("made", "real", "cost"):
        table = (tmp_path / f"uhrenholt_{name}.rst").read_text()
        assert '"nan"' not in table
        assert table.count("\n") > 9
    assert (tmp_path / "uhrenholt_made.png").stat().st_size > 10_000
