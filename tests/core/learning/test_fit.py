"""Learning: nothing better is thrown away, and nothing bad is fallen for."""

from itertools import product

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sparsegpc._core.learning import fit as story
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from tests.core.helpers import SLACK, selector_of
from tests.core.learning.fit_cases import (
    BOUNDS,
    GOOD,
    START,
    RecordingModel,
    constant_log_likelihood,
    learn,
    make_data,
    make_model,
    rounding,
)


@pytest.mark.parametrize("rule", ["argmax", "sample", "order"])
@SLACK
def test_nothing_better_than_the_result_was_ever_seen(rng, rule, slack):
    model = make_model(slack=slack)
    choose = selector_of(rule, 5, rng, rng.permutation(60))
    restarts = [np.log([5.0, 0.3]), np.log([0.1, 3.0])]
    result = learn(model, [START, np.log([3.0, 0.5])], choose, restarts=restarts)
    assert result.best.objective >= model.best_seen(5) - rounding(model)
    assert result.best.objective >= max(result.lower_bounds) - rounding(model)


def test_result_is_no_worse_than_any_start_run_from():
    model = make_model()
    choose = PivotedSelector(argmax, 8)
    starts = [START, np.log([5.0, 0.3]), np.log([0.01, 0.05])]
    result = learn(model, starts[:1], choose, restarts=starts[1:])
    for theta in starts:
        state = model.initial_state()
        start = model.evaluate(theta, select_points(model, choose, theta, state), state)
        assert result.best.objective > start.objective


def test_reported_best_can_be_evaluated_again():
    model = make_model()
    best = learn(model).best
    again = make_model().evaluate(
        best.theta, best.points, model.initial_state(), tol=1e-9, max_iter=500
    )
    np.testing.assert_allclose(again.objective, best.objective, atol=1e-6)


@pytest.mark.parametrize("max_iter", [1, 30])
def test_learning_raises_the_bound_and_stays_in_the_box(max_iter):
    model = make_model()
    narrow = np.log([[0.5, 2.0], [0.8, 1.25]])
    result = learn(model, bounds=narrow, max_iter=max_iter)
    assert result.best.objective > model.seen[0][0] + 0.1
    for _, theta, _ in model.seen:
        assert np.all(theta >= narrow[:, 0])
        assert np.all(theta <= narrow[:, 1])


def test_gradient_vanishes_at_the_end():
    model = make_model(tol=1e-7)
    result = learn(model, choose=FixedSelector(np.linspace(-3.0, 3.0, 8)[:, None]), max_iter=200)
    assert result.converged
    assert np.all(np.abs(result.best.grad_theta) < 1e-2)
    assert np.all((result.best.theta > BOUNDS[:, 0]) & (result.best.theta < BOUNDS[:, 1]))


def test_optimum_is_that_of_a_grid():
    Z = np.linspace(-3.0, 3.0, 8)[:, None]
    result = learn(make_model(), choose=FixedSelector(Z), max_iter=100)
    model = make_model()
    around = [
        model.evaluate(
            result.best.theta + shift, result.best.points, model.initial_state()
        ).objective
        for shift in np.array(list(product((-0.3, 0.0, 0.3), repeat=2)))
    ]
    assert result.best.objective >= max(around) - model.tol
    assert int(np.argmax(around)) == 4


def test_a_parameter_that_is_fixed_stays():
    model = make_model(free=(False, True))
    result = learn(model, [START[1:]], bounds=BOUNDS[1:])
    assert result.best.theta.shape == (1,)
    # The bound is that of the whole kernel with the variance at its fixed value.
    whole = make_model()
    theta = np.array([START[0], result.best.theta[0]])
    again = whole.evaluate(theta, result.best.points, whole.initial_state(), tol=1e-9)
    np.testing.assert_allclose(again.objective, result.best.objective, atol=1e-6)


def test_one_iteration_is_usable_and_says_so():
    model = make_model()
    result = learn(model, max_iter=1, max_reselections=0)
    assert not result.converged
    assert "ITERATIONS" in result.message.upper()
    assert result.best.objective > model.seen[0][0]
    assert result.best.solutions[0].converged


def test_no_iterations_keep_the_parameters():
    model, progress = make_model(), Progress()
    result = learn(model, max_iter=0, progress=progress)
    np.testing.assert_array_equal(result.best.theta, START)
    assert progress.optimizer_iterations == 0
    assert result.best.objective >= model.best_seen(8) - rounding(model)


def test_convergence_is_reported():
    result = learn(make_model(), max_iter=200)
    assert result.converged
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

    assert learn(make_model(), choose=FixedSelector(GOOD)).best.theta[1] < -0.3
    model = make_model(model=FragileModel)
    result = learn(model, choose=FixedSelector(GOOD))
    assert FragileModel.failures > 0
    assert result.best.theta[1] >= forbidden_below
    assert result.best.objective > model.seen[0][0]
    assert result.best.objective >= model.best_seen(len(GOOD)) - rounding(model)


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
    untroubled = learn(make_model(), choose=FixedSelector(Z), max_iter=100)
    troubled = learn(make_model(model=OnceFragileModel), choose=FixedSelector(Z), max_iter=100)
    np.testing.assert_allclose(troubled.best.objective, untroubled.best.objective, atol=0.05)


def test_failure_at_the_start_is_raised():
    class BrokenModel(RecordingModel):
        def evaluate(self, theta, *args, **options):
            raise LinAlgError("not positive definite")

    with pytest.raises(LinAlgError, match="not positive definite"):
        learn(make_model(model=BrokenModel))


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
        result.best.points,
        result.best.states,
        tol=1e-10,
        max_iter=1000,
    )
    assert result.best.solutions[0].converged
    assert 0.0 <= closer.objective - result.best.objective < 1e-3 * model.tol


def test_learning_twice_gives_the_same_model():
    one, two = learn(make_model()), learn(make_model())
    assert one.best.objective == two.best.objective
    np.testing.assert_array_equal(one.best.theta, two.best.theta)
    assert one.lower_bounds == two.lower_bounds


def test_threads_do_not_change_what_is_learned(monkeypatch):
    monkeypatch.setattr("sparsegpc._core.rows.blocks.SMALLEST_BLOCK", 17)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.BLOCK_BYTES", 1)
    one, three = (learn(make_model(n_threads=n), max_iter=10) for n in (1, 3))
    np.testing.assert_array_equal(one.best.theta, three.best.theta)
    assert one.best.objective == three.best.objective


def test_weight_scales_the_data_and_not_the_stopping():
    """Weights of two on every row: twice the likelihood, the same tolerance per row."""
    X, y = make_data()
    plain, double = make_model(X, y), make_model(X, y, weight=np.full(60, 2.0))
    np.testing.assert_allclose(double.tol, 2.0 * plain.tol, rtol=1e-12)
    result = learn(double)
    assert result.best.objective > 2.0 * constant_log_likelihood(y)
    assert result.best.objective < learn(plain).best.objective


def test_searches_from_restarts_end_no_earlier_because_of_what_was_found(monkeypatch):
    """They come last, so that they change nothing but the best result."""
    seen = []

    def recorded(model, start, selector, settings, to_beat=-np.inf):
        seen.append((start.theta, to_beat))
        return fit_from(model, start, selector, settings, to_beat)

    monkeypatch.setattr("sparsegpc._core.learning.fit.fit_from", recorded)
    restart = np.log([5.0, 0.3])
    learn(make_model(), [START, np.log([3.0, 0.5])], restarts=[restart])
    np.testing.assert_array_equal(seen[-1][0], restart)
    assert seen[-1][1] == -np.inf


def test_restarts_are_tried_if_all_other_starts_fail(monkeypatch):
    restart, original = np.log([5.0, 0.3]), story.fit_from

    def fails(model, start, *rest):
        if not np.array_equal(start.theta, restart):
            raise LinAlgError("this start fails")
        return original(model, start, *rest)

    monkeypatch.setattr(story, "fit_from", fails)
    assert not learn(make_model(), [START], restarts=[restart]).trivial
    with pytest.raises(LinAlgError, match="this start fails"):
        learn(make_model(), [START])
