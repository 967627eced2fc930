"""Growth of the number of points, with fits that are scripted."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparsegpc._core.learning.runs import FitResult
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.learning.enough_points import FIRST_SIZE, PointGrowth

CONSTANT = -1000.0


class ScriptedGrowth(PointGrowth):
    def fit(self, n_points, starts):
        return self.script.fit(n_points, starts)

    def gap(self, evaluation):
        return self.script.gap(evaluation)

    def is_contradicted(self, theta):
        return self.contradicts is not None and self.contradicts(theta)


class Scripted:
    """Fits whose bound is a function of the number of points, of a model with `rank` rows.

    They are their own progress, which stops them after `most_calls`.
    """

    def __init__(self, bound, rank=10**6, gap=lambda n: 1.0, most_calls=np.inf):
        self._bound, self._rank, self._gap = bound, rank, gap
        self._most_calls = most_calls
        self.calls, self.results = [], []

    def fit(self, n_points, starts):
        self.calls.append((n_points, starts))
        n_points = min(n_points, self._rank)
        best = SimpleNamespace(
            points=InducingPoints(np.zeros((n_points, 1))),
            objective=self._bound(n_points),
            elbo=self._bound(n_points),
            theta=np.array([float(n_points)]),
        )
        self.results.append(FitResult(best, [best.objective]))
        return self.results[-1]

    @property
    def stopped(self):
        return len(self.calls) >= self._most_calls

    def gap(self, evaluation):
        return self._gap(len(evaluation.points.Z))

    def grow(self, *, tol=1e-3, max_points=400, starts=None, is_contradicted=None):
        model = SimpleNamespace(
            constant_bound=lambda: CONSTANT, tol=1e-2, total_weight=1000.0, weight=np.ones(1000)
        )
        estimator = SimpleNamespace(certificate_tol=tol, max_inducing=max_points)
        problem = SimpleNamespace(model=model, estimator=estimator, progress=self, learns=True)
        growth = ScriptedGrowth(problem)
        growth.script, growth.contradicts = self, is_contradicted
        return growth.grow(starts)

    @property
    def sizes(self):
        return [n_points for n_points, _ in self.calls]


def rising(n_points):
    """A bound that gains by every doubling."""
    return -500.0 + 50.0 * np.log2(n_points)


def test_growth_doubles_up_to_the_cap():
    fits = Scripted(rising)
    growth = fits.grow(max_points=8 * FIRST_SIZE)
    assert fits.sizes == [FIRST_SIZE, 2 * FIRST_SIZE, 4 * FIRST_SIZE, 8 * FIRST_SIZE]
    assert growth.end == "max_inducing"


def test_a_stop_ends_growth_with_the_best_so_far():
    fits = Scripted(lambda n_points: -abs(n_points - 2.0 * FIRST_SIZE), most_calls=3)
    growth = fits.grow(max_points=16 * FIRST_SIZE)
    assert growth.end == "stopped"
    assert fits.sizes == [step["n_inducing"] for step in growth.history]
    assert growth.result is fits.results[1]
    assert len(fits.results) == 3


@pytest.mark.parametrize("max_points", [1, 7, FIRST_SIZE - 1, FIRST_SIZE])
def test_a_small_cap_is_the_first_and_only_size(max_points):
    fits = Scripted(rising)
    assert fits.grow(max_points=max_points).end == "max_inducing"
    assert fits.sizes == [max_points]


@pytest.mark.parametrize("max_points", [FIRST_SIZE + 1, 3 * FIRST_SIZE])
def test_the_last_size_is_the_cap_itself(max_points):
    fits = Scripted(rising)
    assert fits.grow(max_points=max_points).end == "max_inducing"
    assert fits.sizes[-1] == max_points
    assert sorted(set(fits.sizes)) == fits.sizes


def flat(n_points):
    """A bound that does not depend on the number of points."""
    return -500.0


@pytest.mark.parametrize("enough", [1, 60, 150])
def test_a_certificate_is_confirmed_by_twice_as_many_points(enough):
    def bound(n_points):
        return -500.0 if n_points >= enough else -900.0 + n_points

    fits = Scripted(bound, gap=lambda n: 0.5 if n < enough else 1e-4)
    growth = fits.grow(tol=1e-3)
    assert growth.end == "certified"
    n_points = len(growth.result.best.points.Z)
    assert n_points >= enough > n_points / 2 or n_points == FIRST_SIZE
    assert fits.sizes[-1] == 2 * n_points


def test_a_certificate_that_twice_as_many_points_disprove_does_not_end_growth():
    fits = Scripted(rising, gap=lambda n: 1e-4)
    growth = fits.grow(tol=1e-3, max_points=800)
    assert fits.sizes == [50, 100, 200, 400, 800]
    assert len(growth.result.best.points.Z) == 800


def test_a_gap_of_just_the_tolerance_is_enough():
    assert Scripted(flat, gap=lambda n: 1e-3).grow(tol=1e-3).end == "certified"
    assert Scripted(flat, gap=lambda n: 1.001e-3).grow(tol=1e-3).end == "plateau"


def test_growth_goes_on_while_theta_is_contradicted():
    """As long as it is, every fit begins at the first start again."""
    start = np.array([0.5])
    fits = Scripted(flat, gap=lambda n: 0.0)
    growth = fits.grow(
        max_points=800, starts=[start], is_contradicted=lambda theta: theta[0] < 200.0
    )
    assert fits.sizes == [50, 100, 200, 400]
    assert [starts[0][0] for _, starts in fits.calls[:3]] == [0.5, 0.5, 0.5]
    assert growth.end == "certified"
    assert len(growth.result.best.points.Z) == 200


@pytest.mark.parametrize("rank", [1, 30, FIRST_SIZE + 20])
def test_growth_ends_when_no_independent_rows_are_left(rank):
    fits = Scripted(rising, rank=rank)
    growth = fits.grow()
    assert growth.end == "full_rank"
    assert growth.history[-1]["n_inducing"] == rank
    assert len(growth.result.best.points.Z) == rank


def test_growth_goes_on_where_the_rows_are_just_enough():
    """As many points as asked for say nothing about the next ones."""
    fits = Scripted(rising, rank=FIRST_SIZE)
    assert fits.grow().end == "full_rank"
    assert fits.sizes == [FIRST_SIZE, 2 * FIRST_SIZE]


def test_growth_ends_when_doubling_gains_next_to_nothing():
    """What is gained over a constant is 500 nats: a doubling must gain half a nat."""
    share = 1e-3 * 500.0

    def slowing(n_points):
        return {50: -501.0 - 2.0 * share, 100: -501.0, 200: -501.0 + 0.5 * share}[n_points]

    fits = Scripted(slowing)
    growth = fits.grow()
    assert growth.end == "plateau"
    assert fits.sizes == [50, 100, 200]


def test_one_fit_is_never_a_plateau():
    fits = Scripted(lambda n_points: CONSTANT)
    fits.grow(max_points=200)
    assert len(fits.sizes) > 1


def test_a_fall_of_the_bound_is_a_plateau():
    fits = Scripted(lambda n_points: -500.0 - n_points)
    assert fits.grow().end == "plateau"
    assert fits.sizes == [50, 100]


@pytest.mark.parametrize("gain", [0.0, 1e-6])
def test_growth_ends_where_no_size_is_better_than_a_constant(gain):
    """The bound is then a little below that of the constant itself."""
    fits = Scripted(lambda n_points: CONSTANT - 0.01 + gain * np.log2(n_points))
    assert fits.grow().end == "plateau"
    assert fits.sizes == [50, 100]


def test_a_certified_gap_comes_before_every_other_end():
    assert Scripted(rising, rank=7, gap=lambda n: 0.0).grow(max_points=50).end == "certified"
    assert Scripted(rising, rank=7).grow(max_points=50).end == "full_rank"


def test_history_says_what_was_found_at_each_size():
    fits = Scripted(rising, rank=170, gap=lambda n: 10.0 / n)
    growth = fits.grow()
    assert growth.history == [
        {"n_inducing": n, "lower_bound": rising(n), "gap_per_row": 10.0 / n} for n in (50, 100, 170)
    ]


def test_each_fit_starts_where_the_last_one_ended():
    fits, starts = Scripted(rising), [np.array([1.0]), np.array([2.0])]
    fits.grow(starts=starts, max_points=200)
    assert fits.calls[0][1] is starts
    for (_, given), last in zip(fits.calls[1:], fits.results, strict=False):
        assert len(given) == 1
        np.testing.assert_array_equal(given[0], last.best.theta)


def test_the_first_fit_may_choose_its_own_starts():
    fits = Scripted(rising)
    fits.grow(starts=None)
    assert fits.calls[0][1] is None


def test_the_result_is_the_last_fit():
    fits = Scripted(rising)
    assert fits.grow().result is fits.results[-1]
