"""Subsets of the rows, and what they teach."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import curvature
from sparsegpc._core.learning.growing_subsets import (
    FEWEST_POINTS,
    LARGEST_SUBSET,
    MANY_ROWS,
    subsets,
)
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.runs import Run, Start
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._core.likelihoods.binary import BernoulliLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints, PivotedSelector
from tests.core.helpers import selector_of
from tests.core.learning.fit_cases import (
    BOUNDS,
    GOOD,
    START,
    DividedModel,
    learn,
    make_divided,
    make_model,
    rounding,
    settings_of,
    without_subsets,
)

THETA = np.log([2.0, 0.7])


def of_rows(n, likelihood=None, slack="standard", targets=None, **options):
    X = np.linspace(-3.0, 3.0, n)[:, None]
    y = np.where(np.sin(2.5 * X[:, 0]) + 0.5 * np.cos(40.0 * X[:, 0]) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    likelihood = BernoulliLogit() if likelihood is None else likelihood
    targets = [y] if targets is None else targets
    return SparseModel(kernel, likelihood, X, targets, np.ones(n), slack=SLACKS[slack], **options)


def list_subsets(n, choose):
    return list(subsets(of_rows(n), choose, THETA))


def test_few_rows_are_not_divided():
    assert list_subsets(MANY_ROWS - 1, PivotedSelector(argmax, 10)) == []
    assert list_subsets(MANY_ROWS, PivotedSelector(argmax, 10)) != []


@pytest.mark.parametrize(("n", "sizes"), [(6660, [416, 1665]), (40780, [637, 2548, 10195])])
def test_subsets_grow_and_their_points_with_the_root_of_their_rows(n, sizes):
    found = list_subsets(n, PivotedSelector(argmax, 400))
    assert [len(model.weight) for model, _ in found] == pytest.approx(sizes, abs=1)
    for model, choose in found:
        assert choose.n_points == pytest.approx(400 * np.sqrt(len(model.weight) / n), abs=1)


def test_very_many_rows_have_all_points_and_no_very_large_subset():
    found = list_subsets(1_000_000, PivotedSelector(argmax, 200))
    assert [choose.n_points for _, choose in found] == [50, 50, 156, 200]
    largest = len(found[-1][0].weight)
    assert largest == 62_500 <= LARGEST_SUBSET < 4 * largest


def test_few_points_are_kept():
    for n_points in (8, FEWEST_POINTS + 5):
        found = list_subsets(40780, PivotedSelector(argmax, n_points))
        assert found[0][1].n_points == min(n_points, FEWEST_POINTS)


def test_the_choice_itself_is_left_alone():
    choose = PivotedSelector(argmax, 100)
    list_subsets(6660, choose)
    assert choose.n_points == 100


def test_subsets_too_small_for_their_points_are_left_out():
    """With 300 points, 75 are a fifth of 416 rows; with 500, 125 are too many for them."""
    assert len(list_subsets(6660, PivotedSelector(argmax, 300))) == 2
    assert len(list_subsets(6660, PivotedSelector(argmax, 500))) == 1
    assert list_subsets(6660, PivotedSelector(argmax, 3000)) == []
    assert list_subsets(6660, FixedSelector(np.zeros((500, 1)))) == []


def test_rows_of_a_subset_are_evenly_spread():
    for model, _ in list_subsets(6000, PivotedSelector(argmax, 10)):
        gaps = np.diff(model.X[:, 0])
        assert gaps.min() > 0.7 * gaps.max()
        assert model.X[[0, -1], 0] == pytest.approx([-3.0, 3.0])


@pytest.mark.parametrize("given_points", [True, False])
def test_points_that_do_not_depend_on_the_kernel_are_the_same_on_all_subsets(given_points):
    n = 6660
    order = np.random.RandomState(0).permutation(n)
    choose = selector_of("order", 12, order=order)
    expected = of_rows(n).X[order[:12]]
    if given_points:
        expected = np.linspace(-2.0, 2.0, 12)[:, None]
        choose = FixedSelector(expected)
    found = list_subsets(n, choose)
    assert len(found) == 2
    for model, part in found:
        np.testing.assert_array_equal(
            select_points(model, part, THETA, model.initial_state()).Z, expected
        )


def test_few_rows_are_learned_from_all_at_once():
    model = make_divided()
    learn(model)
    assert model.sizes == []


def test_many_rows_are_approached_on_growing_subsets(monkeypatch):
    monkeypatch.setattr(curvature, "MANY_ROWS", np.inf)
    choose = PivotedSelector(argmax, 15)
    model = make_divided(6000, tol=1e-6)
    result = learn(model, choose=choose)
    assert model.sizes == [1500]
    plain, expected = without_subsets(choose, 6000)
    assert result.best.objective > expected.best.objective - 1e-3 * abs(expected.best.objective)
    assert len(model.seen) < len(plain.seen)


@pytest.mark.parametrize("rule", ["argmax", "sample", "order"])
def test_subsets_do_not_change_what_is_found(early, rule):
    def choose():
        rng = np.random.RandomState(0)
        order = np.random.RandomState(1).permutation(2000)
        return selector_of(rule, 10, rng, order)

    model = make_divided()
    result = learn(model, choose=choose())
    assert model.sizes == [125, 500]
    plain, expected = without_subsets(choose())
    assert result.best.objective > expected.best.objective - 1e-3 * abs(expected.best.objective)
    assert result.best.objective >= model.best_seen(10) - rounding(model)
    assert result.best.objective >= max(result.lower_bounds) - rounding(model)
    assert len(model.seen) < len(plain.seen)
    assert len(model.passes) > len(model.seen)


def test_given_points_stay_put_on_subsets(early):
    Z = np.linspace(-2.0, 2.0, 7)[:, None]
    model = make_divided()
    result = learn(model, choose=FixedSelector(Z))
    assert len(model.sizes) == 2
    np.testing.assert_array_equal(result.best.points.Z, Z)
    assert result.best.objective > without_subsets(FixedSelector(Z))[1].best.objective - 0.1


def test_a_run_that_has_begun_needs_no_subsets(early):
    part = make_divided(200)
    begun = learn(part)
    run = Run(START, begun.best, begun.hessian)
    model = make_divided()
    result = learn(model, starts=[begun.best.theta], run=run)
    assert model.sizes == []
    np.testing.assert_array_equal(model.seen[0][1], begun.best.theta)
    assert result.best.objective > 1.01 * without_subsets()[1].best.objective


def test_learning_from_subsets_twice_gives_the_same_model(early):
    one, two = learn(make_divided()), learn(make_divided())
    assert one.best.objective == two.best.objective
    assert one.lower_bounds == two.lower_bounds


def test_points_to_begin_with_make_subsets_needless(early):
    first = InducingPoints(GOOD)
    model = make_divided()
    result = learn(model, points=first)
    assert model.sizes == []
    np.testing.assert_array_equal(model.seen[0][1], START)
    assert result.best.objective >= model.seen[0][0]


def test_every_restart_is_approached_on_subsets(early):
    model, lines = make_divided(), []
    restart = np.log([7.0, 0.4])
    result = learn(model, restarts=[restart], report=lambda *line: lines.append(line))
    assert model.sizes == [125, 500, 125, 500]
    np.testing.assert_array_equal(model.parts[2].seen[0][1], restart)
    # Subsets are not reported.
    assert [line[0] for line in lines].count(1) == 2
    assert max(line[2] for line in lines) == max(result.lower_bounds)


class BrokenOnSubsets(DividedModel):
    broken_size = 125

    def evaluate(self, *args, **options):
        if len(self.weight) == self.broken_size:
            raise LinAlgError("not positive definite")
        return super().evaluate(*args, **options)


@pytest.mark.parametrize("size", [125, 500])
def test_failure_on_a_subset_leaves_all_to_the_whole(early, monkeypatch, size):
    monkeypatch.setattr(BrokenOnSubsets, "broken_size", size)
    model = make_divided(model=BrokenOnSubsets)
    result = learn(model)
    assert size in model.sizes
    expected = without_subsets()[1]
    assert result.best.objective == expected.best.objective
    assert result.lower_bounds == expected.lower_bounds


def test_failure_where_the_subsets_lead_to_is_no_failure(early):
    class BrokenThere(DividedModel):
        def evaluate(self, theta, *args, **options):
            if len(self.weight) == 2000 and not self.seen and not np.array_equal(theta, START):
                raise LinAlgError("not positive definite")
            return super().evaluate(theta, *args, **options)

    choose, tol = FixedSelector(GOOD), 1e-8
    result = learn(make_divided(model=BrokenThere, tol=tol), choose=choose)
    expected = without_subsets(choose, tol=tol)[1]
    np.testing.assert_allclose(result.best.objective, expected.best.objective, atol=1e-3)


def test_start_stays_where_subsets_see_nothing(early):
    X = np.linspace(-3.0, 3.0, 2000)[:, None]
    y = np.random.RandomState(3).choice([-1.0, 1.0], 2000)
    model = make_model(X, y, model=DividedModel)
    learn(model)
    assert model.sizes == [125, 500]
    assert not np.array_equal(model.parts[1].seen[-1][1], START)
    np.testing.assert_array_equal(model.seen[0][1], START)


def test_max_iter_on_all_rows_is_kept_and_told(early):
    result = learn(make_divided(), max_iter=1, max_reselections=0)
    assert not result.converged
    assert "ITERATIONS" in result.message.upper()


@pytest.mark.parametrize("options", [{"max_iter": 0}, {"starts": [np.empty(0)]}])
def test_nothing_to_learn_needs_no_subsets(early, options):
    free = (False, False) if "starts" in options else (True, True)
    bounds = np.empty((0, 2)) if "starts" in options else BOUNDS
    model = make_divided(free=free)
    learn(model, bounds=bounds, **options)
    assert model.sizes == []


def test_the_mode_of_a_small_subset_does_not_mislead(early):
    """With seven points 125 rows ask for another length scale than 500 or 2000 do."""
    choose = FixedSelector(np.linspace(-2.0, 2.0, 7)[:, None])
    model = make_divided()
    result = learn(model, choose=choose)
    small, _ = model.parts
    misled = fit_from(small, Start(START), choose, settings_of()).best
    assert misled.theta[1] < -0.5
    assert result.best.theta[1] > 0.0
