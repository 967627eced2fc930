"""Groups of columns in which deviations of near rows are alike, against what was put in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.diagnostics import similar_groups
from sparsegpc._core.diagnostics.similar_groups import similar_group
from tests.core.diagnostics.deviating_labels import deviating


@pytest.mark.parametrize("columns", [[1], [0, 2], [0, 1, 2]])
def test_the_columns_of_a_fast_function_are_found(columns):
    rate = 1.5 / len(columns)
    model, result = deviating(lambda X: np.sin(rate * X[:, columns].sum(axis=1)), n=1000)
    group = similar_group(model, result.best, [0, 1, 2])
    assert group.columns == columns
    # The labels suit their likelihood.
    assert 0.8 < group.size < 1.2
    # A sixth of the period, with all columns together.
    expected = 2.0 * np.pi / rate / 6.0 / np.sqrt(len(columns))
    assert_allclose(group.distances, expected, rtol=0.7)


def test_no_group_is_found_where_nothing_deviates_or_its_columns_are_left_out(monkeypatch):
    model, result = deviating(lambda X: np.zeros(len(X)))
    assert similar_group(model, result.best, [0, 1, 2]) is None
    model, result = deviating(lambda X: np.sin(2.0 * (X[:, 0] + X[:, 1])))
    assert similar_group(model, result.best, [0, 1, 2]).columns == [0, 1]
    assert similar_group(model, result.best, [0, 2]) is None
    # Two columns make one pair, and three columns make three.
    monkeypatch.setattr(similar_groups, "MOST_GROUPS", 2)
    assert similar_group(model, result.best, [0, 1]).columns == [0, 1]
    assert similar_group(model, result.best, [0, 1, 2]) is None


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_correlation_is_that_of_all_pairs_of_rows_in_a_cell(n_outputs, rng):
    X = np.column_stack([rng.randn(60), rng.randint(3, size=60), rng.randn(60) ** 3])
    deviations = rng.randn(n_outputs, 60)
    grids = similar_groups._Grids(X, deviations)
    correlation, n_errors = grids.correlation([0, 1], [4, 4])
    edges = [np.quantile(X[:, k], [0.25, 0.5, 0.75]) for k in (0, 1)]
    cells = [tuple(int((row[k] >= edges[k]).sum()) for k in (0, 1)) for row in X]
    pairs = [(i, j) for i in range(60) for j in range(60) if i != j and cells[i] == cells[j]]
    products = [(deviations[:, i] * deviations[:, j]).sum() for i, j in pairs]
    expected = np.mean(products) / (deviations**2).sum(axis=0).mean()
    assert correlation == pytest.approx(expected)
    if n_outputs == 1:
        square = np.sqrt(2.0 * sum((deviations[0, i] * deviations[0, j]) ** 2 for i, j in pairs))
        assert n_errors == pytest.approx(np.sum(products) / square)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 60, 90])
def test_bins_hold_about_equally_many_rows_and_equal_values_share_one(n_bins, rng):
    X = np.column_stack([rng.randn(60), rng.randint(3, size=60)])
    grids = similar_groups._Grids(X, rng.randn(1, 60))
    counts = np.bincount(grids._bins_of(0, n_bins), minlength=n_bins)
    assert counts.sum() == 60
    assert np.ptp(counts) <= 1
    assert len(np.unique(np.column_stack([X[:, 1], grids._bins_of(1, n_bins)]), axis=0)) == 3


@pytest.mark.parametrize("mixing", [np.eye(1), np.eye(3), np.array([[1.0, 0.0], [1.0, 0.1]])])
def test_the_standard_error_is_that_of_independent_rows(mixing, rng):
    for rate in (0.0, 1.0):
        found = []
        for _ in range(400):
            X = rng.randn(500, 2)
            deviations = np.exp(rate * X[:, 0]) * (mixing @ rng.randn(len(mixing), 500))
            grids = similar_groups._Grids(X, deviations)
            found.append(grids.correlation([0, 1], [11, 11])[1])
        assert abs(np.mean(found)) < 0.2
        assert 0.85 < np.std(found) < 1.15


def test_a_cycle_whose_size_depends_slowly_on_another_column_is_found():
    model, result = deviating(lambda X: np.sin(6.0 * X[:, 0]) * np.sign(X[:, 1] - 5.0))
    group = similar_group(model, result.best, [0, 1, 2])
    assert group.columns == [0, 1]
    assert group.distances[0] < 0.5 < 1.0 < group.distances[1]


def test_columns_of_few_values_are_left_out_of_a_group(rng):
    X = np.column_stack([rng.randn(2000, 2), rng.randint(2, size=(2000, 3)), np.ones(2000)])
    deviations = np.sin(3.0 * X[:, :2].sum(axis=1)) + 0.3 * rng.randn(2000)
    grids = similar_groups._Grids(X, deviations[None])
    assert grids.varies.tolist() == [True] * 5 + [False]
    for group, n_bins in (([0, 1, 3], [10, 10, 3]), ([4, 0, 1], [2, 10, 10])):
        found = similar_groups._without_idle_columns(grids, group, n_bins)
        assert found[:2] == ([0, 1], [10, 10])
        assert found[2] == grids.correlation([0, 1], [10, 10])[0]
