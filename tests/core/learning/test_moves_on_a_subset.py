"""Points that move on a part of the rows first."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_array_equal

from sparsegpc._core.learning import growing_subsets, moved_points
from sparsegpc._core.learning.growing_subsets import (
    ROWS_PER_MOVED_POINT,
    of_any_rows,
    subset_for_moves,
)
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.prior import NormalPrior
from sparsegpc._core.optimisers.lbfgs import CorrectionPairs
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from tests.core.learning.fit_cases import BOUNDS, START, DividedModel, learn, make_divided, rounding

N, M = 2000, 6


def moved(model, choose=None, **options):
    choose = PivotedSelector(argmax, M) if choose is None else choose
    return learn(model, choose=choose, move_points=True, **options)


def moved_on_all_rows(**options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_subsets, "ROWS_PER_MOVED_POINT", N)
        model = make_divided(N)
        return model, moved(model, **options)


@pytest.mark.parametrize("n_points", [1, 12])
def test_a_quarter_of_the_rows_must_suffice_for_the_points(early, n_points):
    n_rows = 4 * ROWS_PER_MOVED_POINT * n_points
    enough, prior = max(n_rows, 1000), NormalPrior.of_all(START, 1.0)
    small = subset_for_moves(make_divided(enough), n_points, prior)
    assert len(small.weight) == enough // 4
    assert_array_equal(small.prior.curvature(START), np.eye(2))
    assert subset_for_moves(make_divided(enough - 1), n_points, prior) is None


def test_given_points_are_the_same_on_a_subset(early):
    model, Z = make_divided(N), np.linspace(-1.0, 1.0, M)[:, None]
    choose = of_any_rows(model, FixedSelector(Z), START)
    assert_array_equal(choose(model.kernel, START, model.candidates, model.weight).Z, Z)


def test_a_few_evaluations_of_all_rows_reach_the_bound_of_many(early):
    model = make_divided(N)
    found, (whole, expected) = moved(model), moved_on_all_rows()
    assert found.best.objective > expected.best.objective - 1e-3 * N
    # The first, eight steps (a quarter of 30), two of them halved, and the last.
    assert len(model.seen) <= 1 + 8 + 2 + 1
    assert len(found.lower_bounds) == 2
    assert found.lower_bounds[1] >= found.lower_bounds[0]
    assert found.best.objective >= found.lower_bounds[1] - rounding(model)
    assert found.best.points.indices is None
    assert len(found.best.solutions[0].sites.precision) == N
    assert len(whole.seen) > len(model.seen)


def test_there_is_at_least_one_step_on_all_rows(early):
    model = make_divided(N)
    found = moved(model, max_iter=2)
    assert len(model.seen) == 3
    assert found.lower_bounds[1] > found.lower_bounds[0]
    assert "max_iter=2" in found.message


def test_what_was_learned_on_the_part_saves_evaluations(early, monkeypatch):
    """Without the pairs of steps and gradients as many iterations gain less."""
    monkeypatch.setattr(moved_points, "LAST_SHARE", 0.1)
    known = moved(make_divided(N))
    monkeypatch.setattr(CorrectionPairs, "scaled", lambda pairs, factor: CorrectionPairs())
    new = moved(make_divided(N))
    assert known.lower_bounds[0] == new.lower_bounds[0]
    assert known.lower_bounds[1] > new.lower_bounds[1]


def test_theta_stays_in_its_box_on_all_rows(early):
    learned = moved(make_divided(N)).best.theta
    bounds = np.stack([learned - 1.0, learned - 0.1], axis=1)
    best = moved(make_divided(N), bounds=bounds).best
    assert (best.theta >= bounds[:, 0]).all()
    assert (best.theta <= bounds[:, 1]).all()


def test_points_move_when_no_parameter_is_free(early):
    model = make_divided(N, free=(False, False))
    found = moved(model, starts=[np.empty(0)], bounds=np.empty((0, 2)))
    assert model.sizes == [N // 4]
    assert found.lower_bounds[1] > found.lower_bounds[0]


def test_first_points_move_on_all_rows(early):
    model = make_divided(N)
    first = PivotedSelector(argmax, M)(model.kernel, START, model.candidates, model.weight)
    moved(model, points=first)
    assert N // 4 not in model.sizes


class FailingModel(DividedModel):
    """Cannot be evaluated at points that are no rows, on its parts or on all rows."""

    fails_on_parts = True

    def evaluate(self, theta, points, *args, **options):
        is_part = len(self.weight) == N // 4
        if points.indices is None and is_part == self.fails_on_parts and options.get("wrt_Z"):
            raise LinAlgError("not positive definite")
        return super().evaluate(theta, points, *args, **options)


def test_a_failure_on_all_rows_leaves_the_usual_way(early):
    class Fragile(FailingModel):
        fails_on_parts = False

    found = moved(make_divided(N, Fragile))
    assert found.best.points.indices is not None
    assert found.best.objective > -0.6 * N


def test_moves_that_fail_on_the_part_end_there(early):
    found = moved(make_divided(N, FailingModel))
    assert found.best.objective > -0.6 * N
    assert found.best.points.indices is None


def test_a_step_that_fails_on_all_rows_is_shortened(early):
    class Fragile(DividedModel):
        failures = 0

        def evaluate(self, theta, points, *args, **options):
            if len(self.weight) == N and options.get("wrt_Z") and len(self.seen) == 1:
                type(self).failures += 1
                if type(self).failures < 3:
                    raise LinAlgError("not positive definite")
            return super().evaluate(theta, points, *args, **options)

    found = moved(make_divided(N, Fragile))
    assert Fragile.failures == 3
    assert found.lower_bounds[1] > found.lower_bounds[0]


def test_a_constant_function_is_not_enough(early):
    """On the part nothing better is found, so all rows are tried as without a part."""

    class Lost(DividedModel):
        def evaluate(self, theta, *args, **options):
            if len(self.weight) < N:
                theta = np.array([BOUNDS[0, 0], theta[1]])
            return super().evaluate(theta, *args, **options)

    found = moved(make_divided(N, Lost))
    assert not found.trivial
    assert found.best.objective > -0.6 * N


@pytest.mark.parametrize("n_evaluations", [1, 8, 25])
def test_a_fit_that_is_stopped_ends_on_all_rows(early, n_evaluations):
    steps = []

    def stop(step):
        steps.append(step)
        return len(steps) == n_evaluations

    model, progress = make_divided(N), Progress(stop)
    found = moved(model, progress=progress)
    assert progress.stopped
    assert len(found.best.solutions[0].sites.precision) == N
    assert len(progress.history()["choice"]) <= n_evaluations + 3


def test_each_fit_on_all_rows_is_reported(early):
    lines = []
    found = moved(make_divided(N), report=lambda *line: lines.append(line))
    assert lines == [(1, M, found.lower_bounds[1])]
