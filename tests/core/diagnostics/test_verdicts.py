"""What deviations show that a fit lacks."""

import numpy as np
import pytest

from sparsegpc._core.diagnostics import verdicts
from sparsegpc._core.diagnostics.neighbour_correlation import neighbour_correlation
from sparsegpc._core.diagnostics.verdicts import are_too_few, missed_group, misses_fast_function
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fast_waves import FAST, slow_fit, waves
from tests.core.learning.fit_cases import learn, make_model


def test_neighbors_that_deviate_alike_show_that_points_are_missing():
    """At hyperparameters of a smooth function, and labels of a rough one or of noise."""
    X = np.sort(np.random.RandomState(0).uniform(-3.0, 3.0, 600))[:, None]
    rng = np.random.RandomState(1)
    found = []
    for f in (np.sin(60.0 * X[:, 0]), np.zeros(600)):
        y = np.where(f + 0.3 * rng.randn(600) > 0.0, 1.0, -1.0)
        model = make_model(X, y)
        few = learn(model, choose=PivotedSelector(argmax, 7), max_iter=0)
        assert few.best.posterior.unexplained_cost < verdicts.HIGH_COST_PER_ROW * len(y)
        found.append(neighbour_correlation(model, few.best))
        # The neighbour of a row is the nearest one; the slope of the bound is y / 2 - p m.
        distance = np.abs(X - X.T) + np.diag(np.full(600, np.inf))
        (site,) = [solution.sites for solution in few.best.solutions]
        slope = 0.5 * y - site.precision * few.best.posterior.moments(X)[0][0]
        expected = slope @ slope[distance.argmin(axis=1)] / (slope @ slope)
        size = slope @ slope / site.precision.sum()
        assert found[-1] == (pytest.approx(expected, abs=1e-6), 600, pytest.approx(size, rel=1e-6))
        assert are_too_few(model, few.best) == f.any()
        # Twenty points leave nothing unexplained at these hyperparameters.
        enough = learn(model, choose=PivotedSelector(argmax, 20), max_iter=0)
        assert not are_too_few(model, enough.best)
    assert found[0][0] > 0.5
    assert abs(found[1][0]) < 4.0 / np.sqrt(600.0)


def test_copies_of_rows_but_for_rounding_do_not_look_like_a_fast_function():
    """Their deviations are equal, however noisy the labels are."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-5.0, 5.0, (200, 2))
    labels = np.where(rng.uniform(size=200) < 1.0 / (1.0 + np.exp(-X[:, 0])), 1.0, -1.0)
    model = make_model(np.concatenate([X, X + 1e-6 * rng.randn(200, 2)]), np.tile(labels, 2))
    slow = slow_fit(model)
    assert not misses_fast_function(model, slow.best)
    assert missed_group(model, slow.best, [0, 1], may_be_single=True) is None


def test_nothing_is_missed_where_points_are_too_few(monkeypatch):
    model = waves()
    slow = slow_fit(model)
    assert missed_group(model, slow.best, [0], False).columns == [0]
    few = learn(waves(), [FAST], choose=PivotedSelector(argmax, 5))
    assert not misses_fast_function(model, few.best)
    monkeypatch.setattr(verdicts, "HIGH_COST_PER_ROW", 1e-3)
    assert missed_group(model, few.best, [0], False) is None


def test_a_group_is_missed_unless_one_of_its_columns_is_enough():
    rng = np.random.RandomState(0)
    X = rng.uniform(-5.0, 5.0, (400, 3))
    slow = np.array([[-6.0, 0.0], np.log([100.0, 1e3])])
    for f, expected in ((np.sin(3.0 * X[:, 0]), [0]), (np.sin(X[:, 1] + X[:, 2]), [1, 2])):
        model = make_model(X, np.where(f > 0.0, 1.0, -1.0))
        choose = PivotedSelector(argmax, 20)
        result = learn(model, [slow.mean(axis=1)], bounds=slow, choose=choose)
        assert missed_group(model, result.best, [0, 1, 2], True).columns == expected
        group = missed_group(model, result.best, [0, 1, 2], False)
        assert group is None if len(expected) == 1 else group.columns == expected
        assert missed_group(model, result.best, [], True) is None
