"""Starts: the best is found on a subset, and the others serve for want of better."""

import numpy as np
import pytest

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import fit as story
from sparsegpc._core.learning import few_rows
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.few_rows import FewRows, learn_starts
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import (
    BOUNDS,
    HOPELESS,
    START,
    RecordingModel,
    constant_log_likelihood,
    learn,
    make_data,
    make_divided,
    make_model,
)


@pytest.mark.parametrize("bad", HOPELESS)
def test_ranking_passes_over_a_start_where_f_is_constant(bad):
    good = learn(make_model()).best.objective
    result = learn(make_model(), [bad, START])
    assert not result.trivial
    assert result.best.objective > good - 0.5


def test_starts_are_ranked_on_a_subset(monkeypatch):
    monkeypatch.setattr(few_rows, "FEW_ROWS", 30)
    sizes = []

    class SubsetModel(RecordingModel):
        def subset(self, rows, prior=None):
            sizes.append(len(np.unique(rows)))
            return super().subset(rows, prior)

    model = make_model(model=SubsetModel)
    result = learn(model, [HOPELESS[0], START, np.log([0.1, 10.0])])
    assert sizes == [30]
    assert not result.trivial
    # The whole of the rows was not used before the ranking was over.
    assert not any(np.array_equal(theta, HOPELESS[0]) for _, theta, _ in model.seen)


def test_ranking_improves_the_starts_and_puts_the_best_first():
    candidates = [HOPELESS[1], START, np.log([0.02, 0.5])]
    model = make_model()
    choose = PivotedSelector("argmax", 50)

    def bound(theta):
        state = model.initial_state()
        return model.evaluate(theta, select_points(model, choose, theta, state), state).objective

    ranked = rank(model, candidates, BOUNDS, 50, Progress())
    after = [bound(theta) for theta in ranked]
    assert after == sorted(after, reverse=True)
    assert after[0] > after[-1] + 1.0
    assert after[0] > max(bound(theta) for theta in candidates) + 1.0
    assert np.all(np.array(after) >= np.sort([bound(theta) for theta in candidates])[::-1] - 0.1)


def test_one_start_is_not_ranked(monkeypatch):
    def refuse(*args):
        raise AssertionError

    monkeypatch.setattr(story, "rank", refuse)
    assert learn(make_model()).best.objective < 0.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_rare_class_that_the_ranking_hardly_sees_is_found(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.standard_normal((4000, 2)), np.full(4000, -1.0)
    y[:12] = 1.0
    X[:12] += 3.0
    order = np.lexsort(X.T[::-1])
    kernel = FreeKernel(Scaled(Constant(), RBF(1)), np.zeros(2), np.ones(2, dtype=bool))
    model = SparseModel(kernel, PolyaGammaLogit(), X[order], [y[order]], np.ones(4000), slack=TIGHT)
    candidates = [np.log([1.0, length_scale]) for length_scale in (2.0, 1.4, 1.0)]
    bounds = np.log([[1e-4, 1e6], [1e-2, 1e3]])
    result = fit(
        model, candidates, bounds, PivotedSelector("argmax", 20), max_iter=20, max_reselections=1
    )
    assert not result.trivial
    constant = model.likelihood.constant_bound(model.targets[0], model.weight)
    assert result.best.objective > constant + 10.0


def test_ranking_is_not_counted_as_evaluations_of_all_rows(monkeypatch):
    monkeypatch.setattr(few_rows, "FEW_ROWS", 100)
    model = make_divided()
    result = learn(model, [START, np.log([3.0, 0.5])])
    assert model.sizes == [100]
    assert result.full_evaluations == len(model.seen) < model.counts.evaluations


def test_a_climb_that_ends_trivially_is_repeated_from_the_other_starts(monkeypatch):
    """Inputs far apart in units of the smallest length scale: no gradient leads out."""
    X, y = make_data()
    bounds = np.log([[1e-3, 1e3], [1e-6, 1e2]])
    bad = np.log([1.0, 1e-6])
    alone = learn(make_model(X, y), [bad], bounds=bounds)
    assert alone.trivial
    monkeypatch.setattr(story, "rank", lambda model, starts, *rest: list(starts))
    result = learn(make_model(X, y), [bad, bad + 0.1, START], bounds=bounds)
    assert not result.trivial
    assert result.best.objective > constant_log_likelihood(y) + 5.0


def test_other_starts_are_left_alone_when_the_first_climb_succeeds(monkeypatch):
    monkeypatch.setattr(story, "rank", lambda model, starts, *rest: list(starts))
    model = make_model()
    learn(model, [START, np.log([7.0, 0.01])])
    assert not any(np.allclose(theta, np.log([7.0, 0.01])) for _, theta, _ in model.seen)


def test_restarts_are_climbed_from_even_if_the_first_climb_succeeds():
    model = make_model()
    restart = np.log([7.0, 0.4])
    learn(model, restarts=[restart])
    assert any(np.array_equal(theta, restart) for _, theta, _ in model.seen)


def test_a_better_restart_wins():
    bounds = np.log([[1e-3, 1e3], [1e-6, 1e2]])
    bad = np.log([1.0, 1e-6])
    result = learn(make_model(), [bad], bounds=bounds, restarts=[START])
    assert not result.trivial
    np.testing.assert_allclose(result.best.objective, learn(make_model()).best.objective, atol=1e-2)


def test_a_worse_restart_does_not_win():
    bounds = np.log([[1e-3, 1e3], [1e-6, 1e2]])
    good = learn(make_model(), bounds=bounds)
    result = learn(make_model(), bounds=bounds, restarts=[np.log([1.0, 1e-6])])
    assert result.best.objective == good.best.objective
    assert result.bounds == good.bounds
