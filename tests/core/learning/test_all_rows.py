"""Learning from a part of very many rows: how many rows it has, and the posterior of all rows."""

import numpy as np
import pytest

from sparsegpc._core.learning import all_rows
from sparsegpc._core.learning.all_rows import learning_part, on_all_rows
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models import model as models
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import learn, make_data, make_model


def test_the_part_has_enough_rows_for_the_points(monkeypatch):
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", 30)
    monkeypatch.setattr(all_rows, "ENOUGH_ROWS_PER_POINT", 2)
    model = make_model(*make_data(n=100))
    sizes = {n: len(learning_part(model, n).weight) for n in (1, 15, 16, 25, 26)}
    assert sizes == {1: 30, 15: 30, 16: 32, 25: 50, 26: 100}
    assert learning_part(model, 26) is model
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", 51)
    assert learning_part(model, 1) is model


def test_the_result_is_that_of_all_rows_at_what_the_part_has_learned():
    model = make_model()
    part = model.subsample(len(model.weight) // 2)
    learned = learn(part, choose=PivotedSelector(argmax, 8))
    progress = Progress()
    found = on_all_rows(model, learned, progress)
    exact = model.solve(learned.best.theta, learned.best.points, model.initial_state())
    assert exact.elbo - model.tol <= found.best.elbo <= exact.elbo + 1e-6
    assert found.lower_bounds == [found.best.elbo]
    assert found.optimum is learned.best
    assert found.converged
    np.testing.assert_array_equal(model.X[found.best.points.indices], found.best.points.Z)
    assert progress.history()["n_samples"].tolist() == [len(model.weight)]


@pytest.mark.parametrize("limit", [1, 500])
def test_sites_that_are_not_solved_are_reported(monkeypatch, limit):
    model = make_model()
    model.tol *= 1e-4
    learned = learn(model.subsample(10), choose=PivotedSelector(argmax, 8))
    monkeypatch.setattr(models, "MAX_FINAL_ITERATIONS", limit)
    found = on_all_rows(model, learned, Progress())
    assert found.converged == (limit > 1)
    assert ("sites did not converge" in found.message) == (limit == 1)
