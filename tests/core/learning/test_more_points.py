"""Learning goes on with more points: what the continued fit reaches."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_array_equal

from sparsegpc._core.learning import curvature, growing_subsets, more_points
from sparsegpc._core.learning.more_points import (
    are_too_few,
    fit_moved,
    fit_with_more_points,
)
from sparsegpc._core.learning.moved_points import move
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models import neighbour_correlation as neighbours
from sparsegpc._core.models.neighbour_correlation import neighbour_correlation
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import BOUNDS, learn, make_divided, make_model, settings_of


def further(model, result, n_points, *, max_iter=30, progress=None, **options):
    selector = PivotedSelector("argmax", n_points)
    settings = settings_of(BOUNDS, max_iter, 4, progress, **options)
    return fit_with_more_points(model, result, selector, settings)


def test_a_continued_fit_is_as_good_as_one_with_as_many_points_from_the_start():
    model = make_model()
    few = learn(model, choose=PivotedSelector("argmax", 3))
    assert are_too_few(model, few)
    reports = []
    found = further(model, few, 12, report=lambda *report: reports.append(report))
    whole = learn(make_model(), choose=PivotedSelector("argmax", 12))
    assert len(found.best.points.Z) == 12
    assert found.best.objective > few.best.objective + 1.0
    assert found.best.objective > whole.best.objective - 0.01
    assert found.converged
    assert not found.trivial
    assert found.lower_bounds[: len(few.lower_bounds)] == few.lower_bounds
    assert [report[2] for report in reports] == found.lower_bounds[len(few.lower_bounds) :]
    assert not are_too_few(model, found)


def test_the_hessian_of_the_first_fit_saves_evaluations():
    counts = []
    for is_known in (True, False):
        model = make_model()
        few = learn(model, choose=PivotedSelector("argmax", 6))
        assert few.hessian is not None
        n_before = len(model.passes)
        further(model, few if is_known else few._replace(hessian=None), 12)
        counts.append(len(model.passes) - n_before)
    assert counts[0] <= counts[1]


def test_many_rows_have_their_hessian_measured_if_hyperparameters_are_learned(monkeypatch):
    monkeypatch.setattr(curvature, "MANY_ROWS", 100)
    monkeypatch.setattr(curvature, "HESSIAN_ROWS", 50)
    model = make_divided(200)
    few = learn(model, choose=PivotedSelector("argmax", 3))
    sizes = []
    for max_iter in (0, 30):
        model.parts.clear()
        assert further(model, few, 8, max_iter=max_iter).best.elbo >= few.best.elbo
        sizes.append(model.sizes)
    assert sizes == [[], [50]]


def test_points_that_lower_the_bound_are_not_kept():
    model = make_model()
    many = learn(model, choose=PivotedSelector("argmax", 12))
    progress = Progress()
    found = further(model, many, 2, progress=progress)
    assert_array_equal(found.best.points.Z, many.best.points.Z)
    assert found.best.elbo == pytest.approx(many.best.elbo, abs=1e-8)
    assert found.lower_bounds == many.lower_bounds
    # The last evaluation on record is that of the result.
    assert progress.history()["lower_bound"][-1] == found.best.elbo


def test_without_iterations_the_hyperparameters_stay():
    model = make_model()
    few = learn(model, choose=PivotedSelector("argmax", 3), max_iter=0)
    found = further(model, few, 12, max_iter=0)
    assert_array_equal(found.best.theta, few.best.theta)
    assert found.best.elbo > few.best.elbo


def test_a_stop_keeps_the_best_evaluation():
    model = make_model()
    few = learn(model, choose=PivotedSelector("argmax", 3))
    found = further(model, few, 12, progress=Progress(lambda step: True))
    assert found.best.objective >= few.best.objective


def test_more_points_that_fail_leave_the_result(monkeypatch):
    model, progress = make_model(), Progress()
    few = learn(model, choose=PivotedSelector("argmax", 3))

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


def test_neighbors_that_deviate_alike_show_that_points_are_missing():
    """At hyperparameters of a smooth function, and labels of a rough one or of noise."""
    X = np.sort(np.random.RandomState(0).uniform(-3.0, 3.0, 600))[:, None]
    rng = np.random.RandomState(1)
    found = []
    for f in (np.sin(60.0 * X[:, 0]), np.zeros(600)):
        y = np.where(f + 0.3 * rng.randn(600) > 0.0, 1.0, -1.0)
        model = make_model(X, y)
        few = learn(model, choose=PivotedSelector("argmax", 7), max_iter=0)
        assert few.best.posterior.unexplained_cost < more_points.HIGH_COST_PER_ROW * len(y)
        found.append(neighbour_correlation(model, few.best))
        # The neighbour of a row is the nearest one; the slope of the bound is y / 2 - p m.
        distance = np.abs(X - X.T) + np.diag(np.full(600, np.inf))
        (site,) = [solution.sites for solution in few.best.solutions]
        slope = 0.5 * y - site.precision * few.best.posterior.moments(X)[0][0]
        expected = slope @ slope[distance.argmin(axis=1)] / (slope @ slope)
        size = slope @ slope / site.precision.sum()
        assert found[-1] == (pytest.approx(expected, abs=1e-6), 600, pytest.approx(size, rel=1e-6))
        assert are_too_few(model, few) == f.any()
        # Twenty points leave nothing unexplained at these hyperparameters.
        enough = learn(model, choose=PivotedSelector("argmax", 20), max_iter=0)
        assert not are_too_few(model, enough)
    assert found[0][0] > 0.5
    assert abs(found[1][0]) < 4.0 / np.sqrt(600.0)


@pytest.mark.parametrize("n_candidates", [200, 1000])
def test_many_rows_are_represented_by_some(monkeypatch, n_candidates):
    """The correlation is that of the rows that are looked at."""
    monkeypatch.setattr(neighbours, "MOST_CANDIDATES", n_candidates)
    model = make_model()
    few = learn(model, choose=PivotedSelector("argmax", 3))
    rows = spaced_rows(model.X, n_candidates)
    X = model.X[rows]
    correlation, n_pairs, _ = neighbour_correlation(model, few.best)
    distance = np.abs(X - X.T) + np.diag(np.full(len(X), np.inf))
    (site,) = [solution.sites for solution in few.best.solutions]
    slope = site.shift[rows] - site.precision[rows] * few.best.posterior.moments(X)[0][0]
    expected = slope @ slope[distance.argmin(axis=1)] / (slope @ slope)
    assert n_pairs == len(rows) == min(n_candidates, len(model.X))
    assert correlation == pytest.approx(expected, rel=1e-6)


def moved(model, result, progress=None):
    return fit_moved(model, result, settings_of(progress=progress))


def test_points_that_are_too_few_move():
    model = make_model()
    few = learn(model, choose=PivotedSelector("argmax", 4))
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
    few = learn(model, choose=PivotedSelector("argmax", 4))
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
    few = learn(model, choose=PivotedSelector("argmax", 4))

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
    few = learn(model, choose=PivotedSelector("argmax", 4))
    n_before = len(model.seen)
    found = moved(model, few, Progress(lambda step: True))
    assert found.best.objective >= few.best.objective
    assert len(model.seen) - n_before <= 3
