"""Learning: nothing better is thrown away, and nothing bad is fallen for."""

from itertools import product

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import curriculum, inference
from sparsegpc._core.learning.inference import PATIENCE, fit
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS
from sparsegpc._core.selection.choices import Chosen, FixedChoice, PivotedChoice

LIKELIHOOD = PolyaGammaLogit()
BOUNDS = np.log([[1e-3, 1e3], [1e-2, 1e2]])
START = np.log([1.0, 1.0])


class RecordingModel(SparseModel):
    """A model that keeps bound, theta and number of points of every evaluation it completes."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.seen = []

    def evaluate(self, theta, chosen, *args, **options):
        evaluation = super().evaluate(theta, chosen, *args, **options)
        self.seen.append((evaluation.bound, np.array(theta), len(chosen.Z)))
        return evaluation

    def subset(self, rows):
        other = super().subset(rows)
        other.seen = []
        return other

    def best_seen(self, n_points):
        """The ranking of the starts may use more points than the model has."""
        return max(bound for bound, _, m in self.seen if m <= n_points)


def make_data(seed=0, n=60, noise=0.3):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 1))
    y = np.where(np.sin(2.5 * X[:, 0]) + noise * rng.randn(n) > -0.2, 1.0, -1.0)
    return X, y


def make_model(X=None, y=None, *, free=(True, True), model=RecordingModel, weight=None, **options):
    if X is None:
        X, y = make_data()
    weight = np.ones(len(y)) if weight is None else weight
    for array in (X, y, weight):
        array.flags.writeable = False
    kernel = FreeKernel(Scaled(Constant(), RBF()), START.copy(), np.array(free))
    return model(kernel, LIKELIHOOD, X, [y], weight, **{"slack": "tight", **options})


def learn(model, starts=(START,), choose=None, *, bounds=BOUNDS, **options):
    choose = PivotedChoice("argmax", 8) if choose is None else choose
    options = {"max_iter": 30, "max_reselections": 4, **options}
    return fit(model, list(starts), bounds, choose, **options)


def constant_log_likelihood(y):
    counts = np.array([np.sum(y > 0), np.sum(y < 0)])
    return float((counts * np.log(counts / len(y))).sum())


def rounding(model):
    return 1e-9 * model.total_weight


@pytest.mark.parametrize("rule", ["argmax", "sample", "order"])
@pytest.mark.parametrize("slack", ["tight", "spherical", "standard"])
def test_nothing_better_than_the_result_was_ever_seen(rng, rule, slack):
    model = make_model(slack=slack)
    choose = PivotedChoice(rule, 5, rng=rng, order=rng.permutation(60))
    restarts = [np.log([5.0, 0.3]), np.log([0.1, 3.0])]
    result = learn(model, [START, np.log([3.0, 0.5])], choose, restarts=restarts)
    assert result.best.bound >= model.best_seen(5) - rounding(model)
    assert result.best.bound >= max(result.bounds) - rounding(model)


def test_result_is_no_worse_than_any_start_climbed_from():
    model = make_model()
    choose = PivotedChoice("argmax", 8)
    starts = [START, np.log([5.0, 0.3]), np.log([0.01, 0.05])]
    result = learn(model, starts[:1], choose, restarts=starts[1:])
    for theta in starts:
        state = model.initial_state()
        start = model.evaluate(theta, model.choose(choose, theta, state), state)
        assert result.best.bound > start.bound


def test_reported_best_can_be_evaluated_again():
    model = make_model()
    best = learn(model).best
    again = make_model().evaluate(
        best.theta, best.chosen, model.initial_state(), jitter=best.jitter, tol=1e-9, max_iter=500
    )
    np.testing.assert_allclose(again.bound, best.bound, atol=1e-6)


@pytest.mark.parametrize("max_iter", [1, 30])
def test_learning_raises_the_bound_and_stays_in_the_box(max_iter):
    model = make_model()
    narrow = np.log([[0.5, 2.0], [0.8, 1.25]])
    result = learn(model, bounds=narrow, max_iter=max_iter)
    assert result.best.bound > model.seen[0][0] + 0.1
    for _, theta, _ in model.seen:
        assert np.all(theta >= narrow[:, 0])
        assert np.all(theta <= narrow[:, 1])


def test_gradient_vanishes_at_the_end():
    model = make_model(tol=1e-7)
    result = learn(model, choose=FixedChoice(np.linspace(-3.0, 3.0, 8)[:, None]), max_iter=200)
    assert result.converged
    assert np.all(np.abs(result.best.grad_theta) < 1e-2)
    assert np.all((result.best.theta > BOUNDS[:, 0]) & (result.best.theta < BOUNDS[:, 1]))


def test_optimum_is_that_of_a_grid():
    Z = np.linspace(-3.0, 3.0, 8)[:, None]
    result = learn(make_model(), choose=FixedChoice(Z), max_iter=100)
    model = make_model()
    around = [
        model.evaluate(result.best.theta + shift, result.best.chosen, model.initial_state()).bound
        for shift in np.array(list(product((-0.3, 0.0, 0.3), repeat=2)))
    ]
    assert result.best.bound >= max(around) - model.tol
    assert int(np.argmax(around)) == 4


class ScriptedChoice:
    """Hand out given sets of points in turn, the last one for ever."""

    fixed = False

    def __init__(self, *sets):
        self.sets, self.calls, self.asked = sets, 0, []

    def __call__(self, model, theta, precision):
        self.asked.append((np.array(theta), precision))
        Z = self.sets[min(self.calls, len(self.sets) - 1)]
        self.calls += 1
        return Chosen(Z, None, None)


GOOD = np.linspace(-3.0, 3.0, 10)[:, None]
BAD = [np.linspace(2.8 + 0.01 * k, 3.0, 3)[:, None] for k in range(6)]


def test_choosing_worse_points_again_keeps_the_better_ones():
    choose = ScriptedChoice(GOOD, *BAD)
    result = learn(make_model(), choose=choose)
    np.testing.assert_array_equal(result.best.chosen.Z, GOOD)
    assert result.bounds[0] == max(result.bounds)


def test_choosing_better_points_later_is_seen():
    choose = ScriptedChoice(np.linspace(-3.0, 1.0, 5)[:, None], GOOD)
    result = learn(make_model(), choose=choose)
    np.testing.assert_array_equal(result.best.chosen.Z, GOOD)
    assert result.bounds[1] > result.bounds[0] + 1.0


def test_points_are_chosen_again_at_what_was_learned():
    choose = ScriptedChoice(GOOD, BAD[0])
    model = make_model()
    learn(model, choose=choose, max_reselections=1)
    learned, precision = choose.asked[1]
    first_round = learn(make_model(), choose=FixedChoice(GOOD)).best
    np.testing.assert_array_equal(learned, first_round.theta)
    np.testing.assert_allclose(precision, first_round.solutions[0].sites.precision, rtol=0.05)
    np.testing.assert_array_equal(choose.asked[0][0], START)
    np.testing.assert_array_equal(choose.asked[0][1], model.precision(START, model.initial_state()))


def test_points_to_begin_with_are_used_before_any_are_chosen():
    choose = ScriptedChoice(BAD[0])
    first = Chosen(GOOD, None, None)
    result = learn(make_model(), choose=choose, first=first, max_reselections=0)
    assert choose.calls == 0
    assert result.best.chosen is first
    again = learn(make_model(), choose=choose, first=first, max_reselections=1)
    assert choose.calls == 1
    assert again.best.chosen is first


def test_points_to_begin_with_serve_the_first_climb_only():
    choose = ScriptedChoice(BAD[0])
    learn(
        make_model(),
        choose=choose,
        first=Chosen(GOOD, None, None),
        max_reselections=0,
        restarts=[np.log([3.0, 0.5])],
    )
    # The restart finds nothing, so it is repeated with a line search.
    assert choose.calls == 2


def test_every_choice_of_points_is_reported():
    lines = []
    choose = ScriptedChoice(GOOD, *BAD)
    result = learn(make_model(), choose=choose, report=lambda *line: lines.append(line))
    assert [line[0] for line in lines] == [1, 2, 3]
    assert [line[1] for line in lines] == [10, 3, 3]
    assert [line[2] for line in lines] == result.bounds


def test_choosing_stops_when_it_no_longer_pays():
    choose = ScriptedChoice(GOOD, *BAD)
    result = learn(make_model(), choose=choose, max_reselections=6)
    assert choose.calls == len(result.bounds) == 1 + PATIENCE


def test_choosing_stops_when_the_points_repeat():
    choose = ScriptedChoice(GOOD)
    result = learn(make_model(), choose=choose, max_reselections=6)
    assert choose.calls == 2
    assert len(result.bounds) == 1


@pytest.mark.parametrize("max_reselections", [0, 1, 2])
def test_points_are_chosen_again_no_more_often_than_allowed(rng, max_reselections):
    choose = PivotedChoice("sample", 6, rng=rng)
    result = learn(make_model(), choose=choose, max_reselections=max_reselections)
    assert len(result.bounds) <= 1 + max_reselections


def test_given_points_stay_put():
    Z = np.linspace(-2.0, 2.0, 7)[:, None]
    result = learn(make_model(), choose=FixedChoice(Z))
    np.testing.assert_array_equal(result.best.chosen.Z, Z)
    assert result.best.chosen.indices is None
    assert len(result.bounds) == 1


def test_labels_that_do_not_depend_on_the_inputs_are_reported_as_trivial():
    """Every input stands twice, once with each label: nothing is to be learned."""
    X = np.repeat(make_data(n=30)[0], 2, axis=0)
    y = np.tile([1.0, -1.0], 30)
    result = learn(make_model(X, y), [START, np.log([1.0, 0.1])])
    assert result.trivial
    constant = constant_log_likelihood(y)
    assert constant - 0.1 < result.best.bound <= constant + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_a_search_that_is_cut_short_is_no_worse_than_a_constant(seed, monkeypatch):
    rng = np.random.RandomState(seed)
    X, y = rng.randn(60, 3), np.where(rng.uniform(size=60) < 0.3, 1.0, -1.0)
    bounds = np.array([[np.log(1e-9), 9.0], [-9.0, 9.0]])
    cut = {"bounds": bounds, "max_iter": 1, "max_reselections": 0}
    constant = constant_log_likelihood(y)
    result = learn(make_model(X, y), [np.log([1e3, 0.01])], **cut)
    assert result.trivial
    assert result.best.bound > constant - 1e-4
    monkeypatch.setattr(inference, "_is_worse_than_constant", lambda model, outcome: False)
    assert learn(make_model(X, y), [np.log([1e3, 0.01])], **cut).best.bound < constant - 1.0


def test_hyperparameters_that_are_not_learned_stay_even_if_they_are_worse_than_a_constant():
    X, y = make_data()
    start = np.log([1e3, 0.01])
    result = learn(make_model(X, np.random.RandomState(0).permutation(y)), [start], max_iter=0)
    assert result.best.bound < constant_log_likelihood(y)
    np.testing.assert_array_equal(result.best.theta, start)


def test_random_labels_end_near_the_constant_model():
    rng = np.random.RandomState(3)
    X, y = rng.randn(100, 4), np.where(rng.uniform(size=100) < 0.3, 1.0, -1.0)
    result = learn(make_model(X, y), [START, np.log([1.0, 4.0])])
    constant = constant_log_likelihood(y)
    assert abs(result.best.bound - constant) < 1.0


def test_a_signal_is_not_trivial():
    result = learn(make_model())
    assert not result.trivial
    assert result.best.bound > constant_log_likelihood(make_data()[1]) + 5.0


HOPELESS = [np.log([1.0, 1e-2]), np.log([1e-3, 1e2])]


@pytest.mark.parametrize("bad", HOPELESS)
def test_ranking_passes_over_a_start_where_f_is_constant(bad):
    good = learn(make_model()).best.bound
    result = learn(make_model(), [bad, START])
    assert not result.trivial
    assert result.best.bound > good - 0.5


def test_a_climb_that_ends_trivially_is_repeated_from_the_other_starts(monkeypatch):
    """Inputs far apart in units of the smallest length scale: no gradient leads out."""
    X, y = make_data()
    bounds = np.log([[1e-3, 1e3], [1e-6, 1e2]])
    bad = np.log([1.0, 1e-6])
    alone = learn(make_model(X, y), [bad], bounds=bounds)
    assert alone.trivial
    monkeypatch.setattr(inference, "_rank", lambda model, starts, *rest: list(starts))
    result = learn(make_model(X, y), [bad, bad + 0.1, START], bounds=bounds)
    assert not result.trivial
    assert result.best.bound > constant_log_likelihood(y) + 5.0


def test_other_starts_are_left_alone_when_the_first_climb_succeeds(monkeypatch):
    monkeypatch.setattr(inference, "_rank", lambda model, starts, *rest: list(starts))
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
    np.testing.assert_allclose(result.best.bound, learn(make_model()).best.bound, atol=1e-2)


def test_a_worse_restart_does_not_win():
    bounds = np.log([[1e-3, 1e3], [1e-6, 1e2]])
    good = learn(make_model(), bounds=bounds)
    result = learn(make_model(), bounds=bounds, restarts=[np.log([1.0, 1e-6])])
    assert result.best.bound == good.best.bound
    assert result.bounds == good.bounds


def test_starts_are_ranked_on_a_subset(monkeypatch):
    monkeypatch.setattr(inference, "RANKING_ROWS", 30)
    sizes = []

    class SubsetModel(RecordingModel):
        def subset(self, rows):
            sizes.append(len(np.unique(rows)))
            return super().subset(rows)

    model = make_model(model=SubsetModel)
    result = learn(model, [HOPELESS[0], START, np.log([0.1, 10.0])])
    assert sizes == [30]
    assert not result.trivial
    # The whole of the rows was not used before the ranking was over.
    assert not any(np.array_equal(theta, HOPELESS[0]) for _, theta, _ in model.seen)


def test_ranking_improves_the_starts_and_puts_the_best_first():
    starts = [HOPELESS[1], START, np.log([0.02, 0.5])]
    model = make_model()
    choose = PivotedChoice("argmax", 50)

    def bound(theta):
        state = model.initial_state()
        return model.evaluate(theta, model.choose(choose, theta, state), state).bound

    ranked = inference._rank(model, starts, BOUNDS, 50, Progress())
    after = [bound(theta) for theta in ranked]
    assert after == sorted(after, reverse=True)
    assert after[0] > after[-1] + 1.0
    assert after[0] > max(bound(theta) for theta in starts) + 1.0
    assert np.all(np.array(after) >= np.sort([bound(theta) for theta in starts])[::-1] - 0.1)


def test_one_start_is_not_ranked(monkeypatch):
    def refuse(*args):
        raise AssertionError

    monkeypatch.setattr(inference, "_rank", refuse)
    assert learn(make_model()).best.bound < 0.0


@pytest.mark.parametrize("rule", ["argmax", "order"])
def test_a_kernel_without_free_parameters(rule):
    model = make_model(free=(False, False))
    choose = PivotedChoice(rule, 8, order=np.arange(60))
    result = learn(model, [np.empty(0)], choose, bounds=np.empty((0, 2)))
    assert result.converged
    assert model.counts.optimizer_iterations == 0
    assert result.best.theta.shape == (0,)
    assert result.best.bound >= model.best_seen(8) - rounding(model)
    assert np.isfinite(result.best.bound)


def test_points_follow_the_sites_when_no_parameter_is_free():
    """Only the precisions change between choices then, and the bound does not suffer."""
    model = make_model(free=(False, False), weight=np.linspace(0.1, 5.0, 60))
    result = learn(model, [np.empty(0)], PivotedChoice("argmax", 4), bounds=np.empty((0, 2)))
    assert len(result.bounds) >= 1
    assert result.best.bound >= max(result.bounds) - rounding(model)


def test_a_parameter_that_is_fixed_stays():
    model = make_model(free=(False, True))
    result = learn(model, [START[1:]], bounds=BOUNDS[1:])
    assert result.best.theta.shape == (1,)
    # The bound is that of the whole kernel with the variance at its fixed value.
    whole = make_model()
    theta = np.array([START[0], result.best.theta[0]])
    again = whole.evaluate(theta, result.best.chosen, whole.initial_state(), tol=1e-9)
    np.testing.assert_allclose(again.bound, result.best.bound, atol=1e-6)


def test_one_iteration_is_usable_and_says_so():
    model = make_model()
    result = learn(model, max_iter=1, max_reselections=0)
    assert not result.converged
    assert "ITERATIONS" in result.message.upper()
    assert result.best.bound > model.seen[0][0]
    assert result.best.solutions[0].converged


def test_no_iterations_keep_the_parameters():
    model = make_model()
    result = learn(model, max_iter=0)
    np.testing.assert_array_equal(result.best.theta, START)
    assert model.counts.optimizer_iterations == 0
    assert result.best.bound >= model.best_seen(8) - rounding(model)


def test_convergence_is_reported():
    model = make_model()
    result = learn(model, max_iter=200)
    assert result.converged
    assert model.counts.optimizer_iterations > 0
    assert isinstance(result.message, str)


@pytest.mark.parametrize("forbidden_below", [-0.05, -0.2])
def test_a_failed_factorisation_in_the_line_search_is_stepped_back_from(forbidden_below):
    """The best length scale lies where the covariance of the points cannot be factored."""

    class FragileModel(RecordingModel):
        failures = 0

        def evaluate(self, theta, *args, **options):
            if theta[1] < forbidden_below:
                type(self).failures += 1
                raise LinAlgError("not positive definite")
            return super().evaluate(theta, *args, **options)

    assert learn(make_model(), choose=FixedChoice(GOOD)).best.theta[1] < -0.3
    model = make_model(model=FragileModel)
    result = learn(model, choose=FixedChoice(GOOD))
    assert FragileModel.failures > 0
    assert result.best.theta[1] >= forbidden_below
    assert result.best.bound > model.seen[0][0]
    assert result.best.bound >= model.best_seen(len(GOOD)) - rounding(model)


def test_line_search_goes_on_after_a_failure():
    """A single failure costs a step, not the optimum."""

    class OnceFragileModel(RecordingModel):
        calls = 0

        def evaluate(self, theta, *args, **options):
            type(self).calls += 1
            if type(self).calls == 3:
                raise LinAlgError("not positive definite")
            return super().evaluate(theta, *args, **options)

    Z = np.linspace(-3.0, 3.0, 8)[:, None]
    untroubled = learn(make_model(), choose=FixedChoice(Z), max_iter=100)
    troubled = learn(make_model(model=OnceFragileModel), choose=FixedChoice(Z), max_iter=100)
    np.testing.assert_allclose(troubled.best.bound, untroubled.best.bound, atol=0.05)


def test_failure_at_the_start_is_raised():
    class BrokenModel(RecordingModel):
        def evaluate(self, theta, *args, **options):
            raise LinAlgError("not positive definite")

    with pytest.raises(LinAlgError, match="not positive definite"):
        learn(make_model(model=BrokenModel))


def test_jitter_grows_at_a_choice_of_points_and_is_kept_in_the_line_search():
    jitters = []

    class WatchedModel(SparseModel):
        def evaluate(self, theta, chosen, state, **options):
            jitters.append((options["jitter"], options.get("attempts", 1)))
            return super().evaluate(theta, chosen, state, **options)

    result = learn(make_model(model=WatchedModel), max_reselections=0)
    assert jitters[0][1] == jitters[-1][1] == JITTER_ATTEMPTS
    assert jitters[-1][0] == result.best.jitter
    assert all(pair == (result.best.jitter, 1) for pair in jitters[1:-1])


def test_jitter_is_kept_and_sites_are_solved_closely_while_points_move():
    moved = []

    class NeedyModel(SparseModel):
        def evaluate(self, theta, chosen, state, **options):
            if options.get("attempts", 1) > 1:
                # As if Kuu could not be factored with less.
                options["jitter"] = max(options["jitter"], 1e-7)
            elif options.get("wrt_Z"):
                moved.append((options.get("jitter"), options.get("tol")))
            return super().evaluate(theta, chosen, state, **options)

    model = make_model(model=NeedyModel)
    learn(model, max_iter=5, max_reselections=0, move_points=True)
    assert len(moved) > 1
    for jitter, tol in moved:
        assert jitter == 1e-7
        # Or errors of the bound would look like gains, and those of its gradient like slopes.
        assert 0.0 < tol <= 0.01 * model.tol


def test_start_outside_the_bounds_ends_inside():
    bounds = np.log([[0.5, 2.0], [0.8, 1.25]])
    result = learn(make_model(), [np.log([1.0, 0.6])], bounds=bounds)
    assert np.all(result.best.theta >= bounds[:, 0])
    assert np.all(result.best.theta <= bounds[:, 1])


def test_last_evaluation_solves_the_sites_more_closely():
    model = make_model(tol=1e-3)
    result = learn(model)
    closer = model.evaluate(
        result.best.theta,
        result.best.chosen,
        result.best.states,
        jitter=result.best.jitter,
        tol=1e-10,
        max_iter=1000,
    )
    assert result.best.solutions[0].converged
    assert 0.0 <= closer.bound - result.best.bound < 1e-3 * model.tol


def test_work_is_counted():
    model = make_model()
    learn(model)
    assert model.counts.evaluations == len(model.seen)
    assert model.counts.site_iterations >= model.counts.evaluations
    assert model.counts.optimizer_iterations > 0


def test_evaluations_of_an_earlier_learning_are_not_counted_again():
    model = make_model()
    one, two = (learn(model, max_iter=2, max_reselections=0) for _ in range(2))
    assert one.full_evaluations == two.full_evaluations > 0


def test_learning_twice_gives_the_same_model():
    one, two = learn(make_model()), learn(make_model())
    assert one.best.bound == two.best.bound
    np.testing.assert_array_equal(one.best.theta, two.best.theta)
    assert one.bounds == two.bounds


def test_threads_do_not_change_what_is_learned(monkeypatch):
    monkeypatch.setattr("sparsegpc._core.rows.blocks.SMALLEST_BLOCK", 17)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.BLOCK_BYTES", 1)
    one, three = (learn(make_model(n_threads=n), max_iter=10) for n in (1, 3))
    np.testing.assert_array_equal(one.best.theta, three.best.theta)
    assert one.best.bound == three.best.bound


def test_memory_does_not_change_what_is_learned(monkeypatch):
    whole = learn(make_model(), max_iter=10)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.SMALLEST_BLOCK", 17)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.BLOCK_BYTES", 1)
    for memory in (0, 8 * 60 * 8, 2**30):
        parts = learn(make_model(memory=memory), max_iter=10)
        np.testing.assert_allclose(parts.best.bound, whole.best.bound, atol=1e-3)
        np.testing.assert_array_equal(parts.best.chosen.Z, whole.best.chosen.Z)


def test_weight_scales_the_data_and_not_the_stopping():
    """Weights of two on every row: twice the likelihood, the same tolerance per row."""
    X, y = make_data()
    plain, double = make_model(X, y), make_model(X, y, weight=np.full(60, 2.0))
    np.testing.assert_allclose(double.tol, 2.0 * plain.tol, rtol=1e-12)
    result = learn(double)
    assert result.best.bound > 2.0 * constant_log_likelihood(y)
    assert result.best.bound < learn(plain).best.bound


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_rare_class_that_the_ranking_hardly_sees_is_found(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.standard_normal((4000, 2)), np.full(4000, -1.0)
    y[:12] = 1.0
    X[:12] += 3.0
    order = np.lexsort(X.T[::-1])
    kernel = FreeKernel(Scaled(Constant(), RBF(1)), np.zeros(2), np.ones(2, dtype=bool))
    model = SparseModel(
        kernel, PolyaGammaLogit(), X[order], [y[order]], np.ones(4000), slack="tight"
    )
    starts = [np.log([1.0, length_scale]) for length_scale in (2.0, 1.4, 1.0)]
    bounds = np.log([[1e-4, 1e6], [1e-2, 1e3]])
    result = inference.fit(
        model, starts, bounds, PivotedChoice("argmax", 20), max_iter=20, max_reselections=1
    )
    assert not result.trivial
    constant = model.likelihood.constant_bound(model.targets[0], model.weight)
    assert result.best.bound > constant + 10.0


@pytest.fixture
def early(monkeypatch):
    """Learn from subsets even of few rows: of 2000, those of 125 and 500."""
    monkeypatch.setattr(curriculum, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(curriculum, "SMALLEST_SUBSET", 100)


class DividedModel(RecordingModel):
    """Keeps the subsets that it was asked for."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.parts = []

    def subset(self, rows):
        other = super().subset(rows)
        self.parts.append(other)
        return other

    @property
    def sizes(self):
        return [len(part.weight) for part in self.parts]


def make_divided(n=2000, model=DividedModel, **options):
    return make_model(*make_data(n=n), model=model, **options)


def without_subsets(choose=None, n=2000, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curriculum, "FEWEST_ROWS", np.inf)
        model = make_divided(n)
        return model, learn(model, choose=choose, **options)


def test_few_rows_are_learned_from_all_at_once():
    model = make_divided()
    learn(model)
    assert model.sizes == []


def test_many_rows_are_approached_on_growing_subsets():
    choose = PivotedChoice("argmax", 15)
    model = make_divided(6000, tol=1e-6)
    result = learn(model, choose=choose)
    assert model.sizes == [1500]
    plain, expected = without_subsets(choose, 6000)
    assert result.best.bound > expected.best.bound - 1e-3 * abs(expected.best.bound)
    assert result.full_evaluations < plain.counts.evaluations
    assert expected.full_evaluations == plain.counts.evaluations


@pytest.mark.parametrize("rule", ["argmax", "sample", "order"])
def test_subsets_do_not_change_what_is_found(early, rule):
    def choose():
        rng = np.random.RandomState(0)
        return PivotedChoice(rule, 10, rng=rng, order=np.random.RandomState(1).permutation(2000))

    model = make_divided()
    result = learn(model, choose=choose())
    assert model.sizes == [125, 500]
    plain, expected = without_subsets(choose())
    assert result.best.bound > expected.best.bound - 1e-3 * abs(expected.best.bound)
    assert result.best.bound >= model.best_seen(10) - rounding(model)
    assert result.best.bound >= max(result.bounds) - rounding(model)
    assert result.full_evaluations == len(model.seen) < len(plain.seen)
    assert model.counts.evaluations > len(model.seen)


def test_given_points_stay_put_on_subsets(early):
    Z = np.linspace(-2.0, 2.0, 7)[:, None]
    model = make_divided()
    result = learn(model, choose=FixedChoice(Z))
    assert len(model.sizes) == 2
    np.testing.assert_array_equal(result.best.chosen.Z, Z)
    assert result.best.bound > without_subsets(FixedChoice(Z))[1].best.bound - 0.1


def test_learning_from_subsets_twice_gives_the_same_model(early):
    one, two = learn(make_divided()), learn(make_divided())
    assert one.best.bound == two.best.bound
    assert one.bounds == two.bounds


def test_points_to_begin_with_make_subsets_needless(early):
    first = Chosen(GOOD, None, None)
    model = make_divided()
    result = learn(model, first=first)
    assert model.sizes == []
    np.testing.assert_array_equal(model.seen[0][1], START)
    assert result.best.bound >= model.seen[0][0]


def test_every_restart_is_approached_on_subsets(early):
    model, lines = make_divided(), []
    restart = np.log([7.0, 0.4])
    result = learn(model, restarts=[restart], report=lambda *line: lines.append(line))
    assert model.sizes == [125, 500, 125, 500]
    np.testing.assert_array_equal(model.parts[2].seen[0][1], restart)
    # Subsets are not reported.
    assert [line[0] for line in lines].count(1) == 2
    assert max(line[2] for line in lines) == max(result.bounds)


def test_ranking_is_not_counted_as_evaluations_of_all_rows(monkeypatch):
    monkeypatch.setattr(inference, "RANKING_ROWS", 100)
    model = make_divided()
    result = learn(model, [START, np.log([3.0, 0.5])])
    assert model.sizes == [100]
    assert result.full_evaluations == len(model.seen) < model.counts.evaluations


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
    assert result.best.bound == expected.best.bound
    assert result.bounds == expected.bounds


def test_failure_where_the_subsets_lead_to_is_no_failure(early):
    class BrokenThere(DividedModel):
        def evaluate(self, theta, *args, **options):
            if len(self.weight) == 2000 and not self.seen and not np.array_equal(theta, START):
                raise LinAlgError("not positive definite")
            return super().evaluate(theta, *args, **options)

    result = learn(make_divided(model=BrokenThere))
    np.testing.assert_allclose(result.best.bound, without_subsets()[1].best.bound, atol=1e-3)


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
    choose = FixedChoice(np.linspace(-2.0, 2.0, 7)[:, None])
    model = make_divided()
    result = learn(model, choose=choose)
    small, _ = model.parts
    begin, limits = inference._Begin(START), {"max_iter": 100, "max_reselections": 0}
    misled = inference._climb(small, begin, choose, BOUNDS, **limits, progress=Progress()).best
    assert misled.theta[1] < -0.5
    assert result.best.theta[1] > 0.0


# Progress


def test_every_evaluation_is_told_of():
    model, steps = make_model(), []
    result = learn(model, progress=Progress(steps.append))
    assert [step.lower_bound for step in steps] == [bound for bound, _, _ in model.seen]
    assert [step.n_inducing for step in steps] == [n_points for _, _, n_points in model.seen]
    assert [step.iteration for step in steps] == list(range(len(steps)))
    assert {step.n_samples for step in steps} == {60}
    assert {step.label for step in steps} == {None}
    assert steps[-1].lower_bound == result.best.evidence
    assert steps[-1].choice >= len(result.bounds) - 1


def test_subsets_are_told_of(early):
    model = make_divided()
    progress = Progress()
    learn(model, progress=progress)
    sizes = progress.history()["n_samples"]
    assert list(dict.fromkeys(sizes)) == [*model.sizes, len(model.weight)]
    assert len(sizes) == model.counts.evaluations


def test_offset_and_label_are_those_given():
    model, steps = make_model(), []
    progress = Progress(steps.append, label="b")
    progress.offset = 0.5
    result = learn(model, progress=progress)
    assert steps[-1].lower_bound == result.best.evidence + 0.5 * 60
    assert steps[-1].label == "b"


@pytest.mark.parametrize("starts", [[START], [START, np.log([3.0, 0.5]), np.log([0.5, 2.0])]])
@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_learning_stops_when_asked_to_with_the_best_on_all_rows(starts, at):
    model, told = make_model(), []

    def stop(step):
        told.append(step)
        return step.iteration == at

    result = learn(model, starts, progress=Progress(stop))
    assert len(told) == at + 1
    # One choice on all rows if there was none yet, and the end.
    assert at + 2 <= len(model.seen) <= at + 3
    assert result.stopped
    assert not result.converged
    assert result.message == inference.STOPPED
    assert len(result.best.chosen.Z) == model.seen[-1][2]
    if len(starts) == 1:
        assert result.best.bound >= max(bound for bound, _, _ in model.seen) - 1e-3


def test_learning_stops_on_a_subset_and_ends_on_all_rows(early):
    model = make_divided()
    progress = Progress(lambda step: step.iteration == 2)
    result = learn(model, progress=progress)
    sizes = progress.history()["n_samples"]
    assert (sizes[:3] == model.sizes[0]).all()
    assert (sizes[-2:] == len(model.weight)).all()
    # What the subset taught is where all rows begin.
    assert not np.array_equal(result.best.theta, START)


def test_an_error_of_the_listener_ends_learning():
    def fail(step):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn(make_model(), progress=Progress(fail))


def test_a_history_goes_on_from_the_past_and_keeps_the_last_entries():
    first = Progress()
    for bound in (1.0, 2.0):
        first.add(5, 3, bound)
    second = Progress(past=first.history())
    second.add(6, 3, 3.0)
    history = second.history(2)
    assert list(history["lower_bound"]) == [2.0, 3.0]
    assert list(history["n_samples"]) == [5, 6]
    assert (np.diff(second.history()["seconds"]) >= 0.0).all()
    assert len(second.history()["choice"]) == 3
    # Not a part of a longer array, which would be saved with it.
    assert all(column.base is None for column in history.values())
