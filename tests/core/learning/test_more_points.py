"""Learning goes on with more points: what the continued fit reaches."""

import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_array_equal

from sparsegpc._core.diagnostics.verdicts import are_too_few
from sparsegpc._core.learning import curvature, growing_subsets, more_points
from sparsegpc._core.learning.more_points import (
    fit_moved,
    fit_with_more_points,
)
from sparsegpc._core.learning.moved_points import move
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import BOUNDS, learn, make_divided, make_model, settings_of


def further(model, result, n_points, *, max_iter=30, progress=None, **options):
    selector = PivotedSelector(argmax, n_points)
    settings = settings_of(BOUNDS, max_iter, 4, progress, **options)
    return fit_with_more_points(model, result, selector, settings)


def test_a_continued_fit_is_as_good_as_one_with_as_many_points_from_the_start():
    model = make_model()
    few = learn(model, choose=PivotedSelector(argmax, 3))
    assert are_too_few(model, few.best)
    reports = []
    found = further(model, few, 12, report=lambda *report: reports.append(report))
    whole = learn(make_model(), choose=PivotedSelector(argmax, 12))
    assert len(found.best.points.Z) == 12
    assert found.best.objective > few.best.objective + 1.0
    assert found.best.objective > whole.best.objective - 0.01
    assert found.converged
    assert not found.trivial
    assert found.lower_bounds[: len(few.lower_bounds)] == few.lower_bounds
    assert [report[2] for report in reports] == found.lower_bounds[len(few.lower_bounds) :]
    assert not are_too_few(model, found.best)


def test_the_hessian_of_the_first_fit_saves_evaluations():
    counts = []
    for is_known in (True, False):
        model = make_model()
        few = learn(model, choose=PivotedSelector(argmax, 6))
        assert few.hessian is not None
        n_before = len(model.passes)
        further(model, few if is_known else few._replace(hessian=None), 12)
        counts.append(len(model.passes) - n_before)
    assert counts[0] <= counts[1]


def test_many_rows_have_their_hessian_measured_if_hyperparameters_are_learned(monkeypatch):
    monkeypatch.setattr(curvature, "MANY_ROWS", 100)
    monkeypatch.setattr(curvature, "HESSIAN_ROWS", 50)
    model = make_divided(200)
    few = learn(model, choose=PivotedSelector(argmax, 3))
    sizes = []
    for max_iter in (0, 30):
        model.parts.clear()
        assert further(model, few, 8, max_iter=max_iter).best.elbo >= few.best.elbo
        sizes.append(model.sizes)
    assert sizes == [[], [50]]


def test_points_that_lower_the_bound_are_not_kept():
    model = make_model()
    many = learn(model, choose=PivotedSelector(argmax, 12))
    progress = Progress()
    found = further(model, many, 2, progress=progress)
    assert_array_equal(found.best.points.Z, many.best.points.Z)
    assert found.best.elbo == pytest.approx(many.best.elbo, abs=1e-8)
    assert found.lower_bounds == many.lower_bounds
    # The last evaluation on record is that of the result.
    assert progress.history()["lower_bound"][-1] == found.best.elbo


def test_without_iterations_the_hyperparameters_stay():
    model = make_model()
    few = learn(model, choose=PivotedSelector(argmax, 3), max_iter=0)
    found = further(model, few, 12, max_iter=0)
    assert_array_equal(found.best.theta, few.best.theta)
    assert found.best.elbo > few.best.elbo


def test_a_stop_keeps_the_best_evaluation():
    model = make_model()
    few = learn(model, choose=PivotedSelector(argmax, 3))
    found = further(model, few, 12, progress=Progress(lambda step: True))
    assert found.best.objective >= few.best.objective


def test_more_points_that_fail_leave_the_result(monkeypatch):
    model, progress = make_model(), Progress()
    few = learn(model, choose=PivotedSelector(argmax, 3))

    def fails(*args, **options):
        more_points_fit(*args, **options)
        raise LinAlgError

    more_points_fit = more_points.fit_from
    monkeypatch.setattr(more_points, "fit_from", fails)
    found = further(model, few, 12, progress=progress)
    assert_array_equal(found.best.points.Z, few.best.points.Z)
    assert found.lower_bounds == few.lower_bounds
    # The last evaluation on record is that of the result.
    assert progress.history()["lower_bound"][-1] == found.best.elbo


def moved(model, result, progress=None):
    return fit_moved(model, result, settings_of(progress=progress))


def test_points_that_are_too_few_move():
    model = make_model()
    few = learn(model, choose=PivotedSelector(argmax, 4))
    n_before, progress = len(model.seen), Progress()
    found = moved(model, few, progress)
    assert found.has_moved
    assert not few.has_moved
    assert found.best.objective > few.best.objective + 1.0
    assert found.best.points.indices is None
    assert found.best.points.Z.shape == few.best.points.Z.shape
    assert found.lower_bounds == [*few.lower_bounds, pytest.approx(found.best.elbo, abs=1e-3)]
    assert found.message == few.message
    assert len(model.seen) - n_before <= 2 * more_points.MOST_MOVES
    assert progress.history()["lower_bound"][-1] == found.best.elbo


def test_points_move_on_a_part_of_many_rows_first(monkeypatch):
    monkeypatch.setattr(growing_subsets, "MANY_ROWS", 100)
    model = make_divided(2000)
    few = learn(model, choose=PivotedSelector(argmax, 4))
    model.parts.clear()
    n_before = len(model.seen)
    found = moved(model, few)
    assert model.sizes == [500]
    assert found.has_moved
    assert found.best.objective > few.best.objective + 1.0
    # The first, a quarter of the iterations, whose steps may be shortened, and the last.
    assert len(model.seen) - n_before <= 1 + 2 * 8 + 1


@pytest.mark.parametrize("is_early", [True, False])
def test_moves_that_fail_leave_the_result(monkeypatch, is_early):
    model, progress = make_model(), Progress()
    few = learn(model, choose=PivotedSelector(argmax, 4))

    def fails(*args, **options):
        if not is_early:
            move(*args, **options)
        raise LinAlgError

    monkeypatch.setattr(more_points, "move", fails)
    found = moved(model, few, progress)
    assert not found.has_moved
    assert_array_equal(found.best.points.Z, few.best.points.Z)
    assert found.lower_bounds == few.lower_bounds
    assert progress.history()["lower_bound"][-1] == found.best.elbo


def test_a_stop_ends_the_moves():
    model = make_model()
    few = learn(model, choose=PivotedSelector(argmax, 4))
    n_before = len(model.seen)
    found = moved(model, few, Progress(lambda step: True))
    assert found.best.objective >= few.best.objective
    assert len(model.seen) - n_before <= 3
