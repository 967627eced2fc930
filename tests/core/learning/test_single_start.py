"""Runs: points chosen again keep what was best, and end when it no longer pays."""

import numpy as np
import pytest

from sparsegpc._core.learning import single_start as module
from sparsegpc._core.learning.maximization import typical_hessian
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import Start
from sparsegpc._core.learning.single_start import PATIENCE, fit_from
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints, PivotedSelector
from tests.core.helpers import selector_of
from tests.core.learning.fit_cases import (
    BAD,
    BOUNDS,
    GOOD,
    START,
    ScriptedSelector,
    learn,
    make_model,
    rounding,
    settings_of,
)


def test_choosing_worse_points_again_keeps_the_better_ones():
    choose = ScriptedSelector(GOOD, *BAD)
    result = learn(make_model(), choose=choose)
    np.testing.assert_array_equal(result.best.points.Z, GOOD)
    assert result.lower_bounds[0] == max(result.lower_bounds)


def test_choosing_better_points_later_is_seen():
    choose = ScriptedSelector(np.linspace(-3.0, 1.0, 5)[:, None], GOOD)
    result = learn(make_model(), choose=choose)
    np.testing.assert_array_equal(result.best.points.Z, GOOD)
    assert result.lower_bounds[1] > result.lower_bounds[0] + 1.0


def test_points_are_chosen_again_at_what_was_learned():
    choose = ScriptedSelector(GOOD, BAD[0])
    model = make_model()
    learn(model, choose=choose, max_reselections=1)
    learned, precision = choose.asked[1]
    first_round = learn(make_model(), choose=FixedSelector(GOOD)).best
    np.testing.assert_array_equal(learned, first_round.theta)
    np.testing.assert_allclose(precision, first_round.solutions[0].sites.precision, rtol=0.05)
    np.testing.assert_array_equal(choose.asked[0][0], START)
    np.testing.assert_array_equal(choose.asked[0][1], model.precision(START, model.initial_state()))


def fitted(model, selector, max_reselections):
    """Fit by quasi-Newton steps."""
    start = Start(START, None, typical_hessian(model, len(START)))
    return fit_from(model, start, selector, settings_of(BOUNDS, 50, max_reselections))


def test_with_many_rows_the_best_points_alone_are_searched_to_the_tolerance(monkeypatch):
    monkeypatch.setattr(module, "MANY_ROWS", 0)
    choose, model = ScriptedSelector(GOOD, BAD[0]), make_model(tol=1e-6)
    found = fitted(model, choose, 1)
    top = fitted(make_model(tol=1e-6), FixedSelector(GOOD), 1).best.objective
    np.testing.assert_array_equal(found.best.points.Z, GOOD)
    assert found.best.objective == pytest.approx(top, abs=1e-4)
    assert found.lower_bounds[0] == found.best.elbo > found.lower_bounds[1]
    theta, _ = choose.asked[1]
    early = make_model().evaluate(theta, InducingPoints(GOOD), found.best.states)
    assert early.objective < top - 1e-3


@pytest.mark.parametrize("many_rows", [0, np.inf])
def test_with_many_rows_small_gains_do_not_pay_for_another_selection(monkeypatch, many_rows):
    monkeypatch.setattr(module, "MANY_ROWS", many_rows)
    monkeypatch.setattr(module, "LEAST_GAIN", 1e9)
    # Each set of points contains the one before, and is better.
    sets = [GOOD[:n] for n in range(6, 11)]
    found = fitted(make_model(tol=1e-6), ScriptedSelector(*sets), len(sets) - 1)
    assert (np.diff(found.lower_bounds) > 0.0).all()
    assert len(found.lower_bounds) == (1 + PATIENCE if many_rows == 0 else len(sets))
    # What is gained is kept.
    assert len(found.best.points.Z) == len(sets[len(found.lower_bounds) - 1])


def test_a_single_selection_is_searched_to_the_tolerance_at_once(monkeypatch):
    alike = []
    for many_rows in (0, np.inf):
        monkeypatch.setattr(module, "MANY_ROWS", many_rows)
        for selector, n_more in ((FixedSelector(GOOD), 3), (PivotedSelector(argmax, 8), 0)):
            model = make_model()
            alike.append((fitted(model, selector, n_more).best.objective, len(model.seen)))
    assert alike[:2] == alike[2:]


def test_a_fit_learns_about_the_hessian_and_leaves_its_start_unchanged():
    model = make_model()
    start = Start(START, None, typical_hessian(model, len(START)))
    before = start.hessian.matrix.copy()
    found = fit_from(model, start, FixedSelector(GOOD), settings_of(BOUNDS, 50, 0))
    np.testing.assert_array_equal(start.hessian.matrix, before)
    assert not np.array_equal(found.hessian.matrix, before)


def test_points_to_begin_with_are_used_before_any_are_chosen():
    choose = ScriptedSelector(BAD[0])
    first = InducingPoints(GOOD)
    result = learn(make_model(), choose=choose, points=first, max_reselections=0)
    assert choose.calls == 0
    assert result.best.points is first
    again = learn(make_model(), choose=choose, points=first, max_reselections=1)
    assert choose.calls == 1
    assert again.best.points is first


def test_points_to_begin_with_serve_the_first_run_only():
    choose = ScriptedSelector(BAD[0])
    learn(
        make_model(),
        choose=choose,
        points=InducingPoints(GOOD),
        max_reselections=0,
        restarts=[np.log([3.0, 0.5])],
    )
    # The restart finds nothing, so it is repeated with a line search.
    assert choose.calls == 2


def test_every_choice_of_points_is_reported():
    lines = []
    choose = ScriptedSelector(GOOD, *BAD)
    result = learn(make_model(), choose=choose, report=lambda *line: lines.append(line))
    assert [line[0] for line in lines] == [1, 2, 3]
    assert [line[1] for line in lines] == [10, 3, 3]
    assert [line[2] for line in lines] == result.lower_bounds


def test_choosing_stops_when_it_no_longer_pays():
    choose = ScriptedSelector(GOOD, *BAD)
    result = learn(make_model(), choose=choose, max_reselections=6)
    assert choose.calls == len(result.lower_bounds) == 1 + PATIENCE


def test_choosing_stops_when_the_points_repeat():
    choose = ScriptedSelector(GOOD)
    result = learn(make_model(), choose=choose, max_reselections=6)
    assert choose.calls == 2
    assert len(result.lower_bounds) == 1


@pytest.mark.parametrize("max_reselections", [0, 1, 2])
def test_points_are_chosen_again_no_more_often_than_allowed(rng, max_reselections):
    choose = selector_of("sample", 6, rng)
    result = learn(make_model(), choose=choose, max_reselections=max_reselections)
    assert len(result.lower_bounds) <= 1 + max_reselections


def test_given_points_stay_put():
    Z = np.linspace(-2.0, 2.0, 7)[:, None]
    result = learn(make_model(), choose=FixedSelector(Z))
    np.testing.assert_array_equal(result.best.points.Z, Z)
    assert result.best.points.indices is None
    assert len(result.lower_bounds) == 1


@pytest.mark.parametrize("rule", ["argmax", "order"])
def test_a_kernel_without_free_parameters(rule):
    model, progress = make_model(free=(False, False)), Progress()
    choose = selector_of(rule, 8, order=np.arange(60))
    result = learn(model, [np.empty(0)], choose, bounds=np.empty((0, 2)), progress=progress)
    assert result.converged
    assert progress.optimizer_iterations == 0
    assert result.best.theta.shape == (0,)
    assert result.best.objective >= model.best_seen(8) - rounding(model)
    assert np.isfinite(result.best.objective)


def test_points_follow_the_sites_when_no_parameter_is_free():
    """Only the precisions change between choices then, and the bound does not suffer."""
    model = make_model(free=(False, False), weight=np.linspace(0.1, 5.0, 60))
    result = learn(model, [np.empty(0)], PivotedSelector(argmax, 4), bounds=np.empty((0, 2)))
    assert len(result.lower_bounds) >= 1
    assert result.best.objective >= max(result.lower_bounds) - rounding(model)


def test_sites_are_solved_closely_while_points_move():
    moved = []

    class WatchedModel(SparseModel):
        def evaluate(self, theta, points, state, **options):
            if options.get("wrt_Z") and "tol" in options:
                moved.append(options["tol"])
            return super().evaluate(theta, points, state, **options)

    model = make_model(model=WatchedModel)
    learn(model, max_iter=5, max_reselections=0, move_points=True)
    assert len(moved) > 1
    for tol in moved:
        # Or errors of the bound would look like gains, and those of its gradient like slopes.
        assert 0.0 < tol <= 0.01 * model.tol
