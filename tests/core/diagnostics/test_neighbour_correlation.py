"""The correlation of deviations at neighbouring rows, from its definition."""

import numpy as np
import pytest

from sparsegpc._core.diagnostics import neighbour_correlation as module
from sparsegpc._core.diagnostics.neighbour_correlation import neighbour_correlation
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import learn, make_model


@pytest.mark.parametrize("n_candidates", [200, 1000])
def test_many_rows_are_represented_by_some(monkeypatch, n_candidates):
    """The correlation is that of the rows that are looked at."""
    monkeypatch.setattr(module, "MOST_CANDIDATES", n_candidates)
    model = make_model()
    few = learn(model, choose=PivotedSelector(argmax, 3))
    rows = spaced_rows(model.X, n_candidates)
    X = model.X[rows]
    correlation, n_pairs, _ = neighbour_correlation(model, few.best)
    distance = np.abs(X - X.T) + np.diag(np.full(len(X), np.inf))
    (site,) = [solution.sites for solution in few.best.solutions]
    slope = site.shift[rows] - site.precision[rows] * few.best.posterior.moments(X)[0][0]
    expected = slope @ slope[distance.argmin(axis=1)] / (slope @ slope)
    assert n_pairs == len(rows) == min(n_candidates, len(model.X))
    assert correlation == pytest.approx(expected, rel=1e-6)
