"""Start values are learned from few rows, and the poorer ones serve for want of better."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import minimize

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import few_rows as module
from sparsegpc._core.learning import fit as story
from sparsegpc._core.learning.few_rows import RANKING_ITERATIONS, START_ROWS, FewRows, unranked
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import Run, StartOptions
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.prior import NormalPrior
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import InducingPoints, PivotedSelector
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
    settings_of,
)


@pytest.mark.parametrize("bad", HOPELESS)
def test_few_rows_pass_over_a_start_where_f_is_constant(bad):
    good = learn(make_model()).best.objective
    result = learn(make_model(), [bad, START])
    assert not result.trivial
    assert result.best.objective > good - 0.5


def runs_from(starts):
    return [Run(theta) for theta in starts]


def as_given(model, starts, *rest):
    return unranked(starts)


def few_rows(model, n_points=START_ROWS, weak_prior=None):
    return FewRows(model, settings_of(weak_prior=weak_prior), n_points)


def test_starts_are_learned_on_few_rows(monkeypatch):
    monkeypatch.setattr(module, "START_ROWS", 30)
    sizes = []

    class SubsetModel(RecordingModel):
        def subset(self, rows, weak_prior=None):
            sizes.append(len(np.unique(rows)))
            return super().subset(rows, weak_prior)

    model = make_model(model=SubsetModel)
    result = learn(model, [HOPELESS[0], START, np.log([0.1, 10.0])])
    # With a point at every row, and with the eight points of the fit.
    assert sizes == [30, 30]
    assert not result.trivial
    assert not any(np.array_equal(theta, HOPELESS[0]) for _, theta, _ in model.seen)


def test_few_rows_have_a_point_each_unless_points_are_fewer():
    model = make_model()
    needed, _ = few_rows(model).ranking(runs_from([START]))
    assert len(needed[0].end.points.Z) == len(model.X)
    needed, _ = few_rows(model, 8).ranking(runs_from([START]))
    assert len(needed[0].end.points.Z) == 8


def test_the_best_run_reaches_the_optimum_of_the_dense_model():
    model = make_model()
    ranking = few_rows(model).ranking(runs_from([HOPELESS[0], START, np.log([5.0, 5.0])]))
    objectives = [run.objective for run in [*ranking.needed, *ranking.others]]
    assert objectives[0] == max(objectives)

    def negative(theta):
        points, states = InducingPoints(model.X), model.initial_state()
        return -model.evaluate(theta, points, states, wrt_theta=False).objective

    best = minimize(negative, ranking.needed[0].end.theta, method="Nelder-Mead", bounds=BOUNDS)
    assert objectives[0] == pytest.approx(-best.fun, abs=0.02)


class TwoHills(FewRows):
    """Runs on a function with maxima at -1 and 1, the latter higher by `gap`."""

    gap = 0.5

    def _further(self, run, max_iter, to_beat=-np.inf):
        return Run(run.begin, self._evaluated(np.sign(run.begin), None))

    def _evaluated(self, theta, near):
        objective = -10.0 * (abs(theta[0]) - 1.0) ** 2 - self.gap * (theta[0] < 0.0)
        return SimpleNamespace(theta=theta, objective=objective, grad_theta=None)


@pytest.mark.parametrize(
    ("gap", "starts", "ends"),
    [
        (0.5, [-2.0, 2.0], [1.0, -1.0]),
        # Too far below the best.
        (5.0, [-2.0, 2.0], [1.0]),
        # The first start leads to the best, and to the same hill as the best.
        (0.5, [2.0, -2.0], [1.0]),
        (0.5, [0.5, 2.0], [1.0]),
    ],
)
def test_a_first_start_on_a_hill_about_as_high_matters(gap, starts, ends):
    few = TwoHills(make_model(), settings_of())
    few.gap = gap
    needed, others = few.ranking([Run(np.array([start])) for start in starts])
    assert len(needed) + len(others) == len(starts)
    assert [run.end.theta[0] for run in needed] == ends


class LateRise(FewRows):
    """Runs from 2 reach less than others at first, and more than they in the end."""

    promise = 100.0

    def _further(self, run, max_iter, to_beat=-np.inf):
        is_late = run.begin[0] == 2.0
        objective = -1.0 if not is_late else -5.0 if max_iter == RANKING_ITERATIONS else 10.0
        return Run(run.begin, SimpleNamespace(theta=run.begin, objective=objective))

    def _expected_maximum(self, run):
        return run.objective + (self.promise if run.begin[0] == 2.0 else 0.0)


@pytest.mark.parametrize(("promise", "best"), [(100.0, 2.0), (3.0, 1.0)])
def test_a_start_that_promises_more_than_the_others_reach_goes_on(promise, best):
    few = LateRise(make_model(), settings_of())
    few.promise = promise
    needed, _ = few.ranking([Run(np.array([start])) for start in (1.0, 1.0, 2.0)])
    assert needed[0].begin[0] == best


def test_a_quadratic_model_promises_its_maximum():
    few = few_rows(make_model())
    (run,) = few.first_steps(runs_from([START]))
    end, scale = run.end, float(len(make_data()[1]))
    newton = np.linalg.solve(run.hessian.matrix * scale, end.grad_theta)
    expected = end.objective + 0.5 * end.grad_theta @ newton
    assert few._expected_maximum(run) == pytest.approx(expected, rel=1e-9)
    # A Hessian that is singular promises nothing.
    run.hessian.matrix = np.zeros_like(run.hessian.matrix)
    assert few._expected_maximum(run) == run.objective


def test_a_first_start_on_the_same_hill_does_not_matter():
    needed, others = few_rows(make_model()).ranking(runs_from([START, START + 0.2, START - 0.2]))
    assert (len(needed), len(others)) == (1, 2)


def test_few_rows_contradict_a_theta_that_is_far_from_their_optimum():
    few = few_rows(make_model())
    best = few.ranking(runs_from([START]))[0][0]
    assert not few.contradict(best.end.theta, best)
    assert few.contradict(HOPELESS[0], best)


def test_a_prior_contradicts_nothing(monkeypatch):
    monkeypatch.setattr(module, "START_ROWS", 50)
    best = few_rows(make_model()).ranking(runs_from([START]))[0][0].end.theta
    few = few_rows(make_model(), weak_prior=NormalPrior.of_all(best - 3.0, 0.5))
    tied = few.ranking(runs_from([best - 3.0]))[0][0]
    assert np.abs(tied.end.theta - best).max() > 1.0
    assert not few.contradict(best, tied)


def learned(model, prior):
    return few_rows(model, weak_prior=prior).ranking(runs_from([START]))[0][0].end.theta


def test_a_prior_keeps_theta_finite_where_the_rows_say_nothing(monkeypatch):
    monkeypatch.setattr(module, "START_ROWS", 50)
    X = np.linspace(-3.0, 3.0, 60)[:, None]
    model = make_model(X, np.sign(X[:, 0] + 1e-9))
    tied = learned(model, NormalPrior.of_all(np.zeros(2), 1.0))
    assert np.abs(tied).max() < 3.0 < np.abs(learned(model, None)).max()


def test_rows_that_are_all_need_no_prior():
    model, prior = make_model(), NormalPrior.of_all(np.full(2, 5.0), 0.1)
    assert_array_equal(learned(model, prior), learned(model, None))


def test_the_limit_of_iterations_holds_on_few_rows():
    progress = Progress()
    FewRows(make_model(), settings_of(max_iter=1, progress=progress)).ranking(runs_from([START]))
    # A start and a step, and the same once more.
    assert len(progress.history()["lower_bound"]) <= 4


def test_one_start_is_not_learned_from_few_rows(monkeypatch):
    def refuse(*args):
        raise AssertionError

    monkeypatch.setattr(story, "learn_starts", refuse)
    assert learn(make_model()).best.objective < 0.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_rare_class_that_few_rows_hardly_show_is_found(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.standard_normal((4000, 2)), np.full(4000, -1.0)
    y[:12] = 1.0
    X[:12] += 3.0
    order = np.lexsort(X.T[::-1])
    kernel = FreeKernel(Scaled(Constant(), RBF(1)), np.zeros(2), np.ones(2, dtype=bool))
    model = SparseModel(kernel, PolyaGammaLogit(), X[order], [y[order]], np.ones(4000), slack=TIGHT)
    candidates = [np.log([1.0, length_scale]) for length_scale in (2.0, 1.4, 1.0)]
    bounds = np.log([[1e-4, 1e6], [1e-2, 1e3]])
    selector = PivotedSelector(argmax, 20)
    result = fit(model, StartOptions(candidates), selector, settings_of(bounds, 20, 1))
    assert not result.trivial
    constant = model.likelihood.constant_bound(model.targets[0], model.weight)
    assert result.best.objective > constant + 10.0


def test_starts_are_compared_on_few_rows(monkeypatch):
    monkeypatch.setattr(module, "START_ROWS", 100)
    model = make_divided()
    learn(model, [START, np.log([3.0, 0.5])])
    assert model.sizes == [100, 100]
    assert len(model.seen) < len(model.passes)


def test_a_run_that_ends_trivially_is_repeated_from_the_other_starts(monkeypatch):
    """Inputs far apart in units of the smallest length scale: no gradient leads out."""
    X, y = make_data()
    bounds = np.log([[1e-3, 1e3], [1e-6, 1e2]])
    bad = np.log([1.0, 1e-6])
    alone = learn(make_model(X, y), [bad], bounds=bounds)
    assert alone.trivial
    monkeypatch.setattr(story, "learn_starts", as_given)
    result = learn(make_model(X, y), [bad, bad + 0.1, START], bounds=bounds)
    assert not result.trivial
    assert result.best.objective > constant_log_likelihood(y) + 5.0


def test_other_starts_are_left_alone_when_the_first_run_succeeds(monkeypatch):
    monkeypatch.setattr(story, "learn_starts", as_given)
    model = make_model()
    learn(model, [START, np.log([7.0, 0.01])])
    assert not any(np.allclose(theta, np.log([7.0, 0.01])) for _, theta, _ in model.seen)


def test_restarts_are_run_from_even_if_the_first_run_succeeds():
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
    assert result.lower_bounds == good.lower_bounds


def test_starts_are_preferred_only_if_they_lead_to_a_higher_bound():
    good = learn(make_model()).best.theta
    few = few_rows(make_model())
    run = few.preferred([HOPELESS[1], START], HOPELESS[1])
    assert run.objective > few.ranking(runs_from([good])).needed[0].objective - 0.5
    assert few.preferred([HOPELESS[1], START], good) is None
    assert few.preferred([], HOPELESS[1]) is None


def test_a_fit_goes_on_from_a_simpler_start_that_few_rows_prefer(monkeypatch):
    model, seen = make_model(), []
    good = learn(make_model()).best

    def preferred(few, starts, theta):
        seen.append(starts)
        return Run(START)

    monkeypatch.setattr(FewRows, "preferred", preferred)
    poor = {"bounds": np.log([[1e-3, 1e3], [1e-2, 1e2]]), "max_iter": 1, "max_reselections": 0}
    alone = learn(make_model(), [HOPELESS[1]], **poor).best.objective
    assert not seen
    helped = learn(model, [HOPELESS[1]], simpler=[good.theta], **poor).best.objective
    assert len(seen) == 1
    assert_array_equal(seen[0], [good.theta])
    assert helped > alone
    assert any(np.array_equal(theta, START) for _, theta, _ in model.seen)


def test_simpler_starts_that_are_no_better_change_nothing():
    plain = learn(make_model()).best
    found = learn(make_model(), simpler=HOPELESS).best
    assert found.objective == plain.objective
    assert_array_equal(found.theta, plain.theta)


# Columns that matter by themselves

NO_COLUMN, LENGTHS = np.log([4.0, 200.0, 200.0, 200.0]), np.log([0.5, 2.0])
COLUMNS = {1: LENGTHS, 2: LENGTHS, 3: LENGTHS}


def model_of_columns(n_rows):
    """Return a model of labels that depend on the second of three columns only."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, size=(n_rows, 3))
    y = np.where(np.sin(3.0 * X[:, 1]) + 0.3 * rng.randn(n_rows) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF(3)), np.zeros(4), np.ones(4, dtype=bool))
    return SparseModel(kernel, PolyaGammaLogit(), X, [y], np.ones(n_rows), slack=TIGHT)


def test_few_rows_tell_which_columns_matter_by_themselves():
    (theta,) = few_rows(model_of_columns(80)).relevant_columns(NO_COLUMN, COLUMNS)
    assert_array_equal(theta, [*NO_COLUMN[:2], LENGTHS[0], NO_COLUMN[3]])


@pytest.mark.parametrize(("n_rows", "columns"), [(START_ROWS + 1, COLUMNS), (80, {2: LENGTHS})])
def test_a_part_of_the_rows_or_a_single_column_tell_nothing(n_rows, columns):
    assert few_rows(model_of_columns(n_rows)).relevant_columns(NO_COLUMN, columns) == []


def test_a_fit_goes_on_from_the_columns_that_matter_by_themselves():
    """One iteration is too few to find the fast column otherwise."""
    options = {"bounds": np.log([[1e-3, 1e3]] * 4), "max_iter": 1, "max_reselections": 0}
    missed = learn(model_of_columns(80), [NO_COLUMN], **options).best
    columns = NO_COLUMN, COLUMNS
    found = learn(model_of_columns(80), [NO_COLUMN], single_columns=columns, **options).best
    assert found.objective > missed.objective + 5.0
