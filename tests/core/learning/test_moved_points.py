"""Points that move along with the hyperparameters at the end of a fit."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.moved_points import FIRST_MOVE, Search, move
from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.prior import NormalPrior, ProductPrior
from sparsegpc._core.optimisers.bfgs import BFGSHessian
from sparsegpc._core.optimisers.lbfgs import CorrectionPairs
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints, PivotedSelector
from tests.core.helpers import central_difference, read_only
from tests.core.learning.fit_cases import settings_of
from tests.core.learning.moving_cases import (
    BOUNDS,
    START,
    M,
    classification,
    noisy_model,
    regression,
)


def learn(model, move_points=True, choose=None, start=START, bounds=BOUNDS, **options):
    choose = PivotedSelector(argmax, M) if choose is None else choose
    options = {"max_iter": 200, "max_reselections": 2, "bounds": bounds, **options}
    return fit(
        model, StartOptions([start]), choose, settings_of(**options), move_points=move_points
    )


MODELS = {"regression": (regression, 3), "classification": (classification, 2)}
MODEL = pytest.mark.parametrize("name", MODELS)


@MODEL
@pytest.mark.parametrize("slack", SLACKS)
def test_moving_raises_the_bound(name, slack):
    build, n = MODELS[name]
    options = {"start": START[:n], "bounds": BOUNDS[:n]}
    still, moved = (learn(build(slack), move, **options) for move in (False, True))
    assert moved.best.objective > still.best.objective + 0.1
    assert moved.lower_bounds[:-1] == still.lower_bounds
    assert_allclose(moved.lower_bounds[-1], moved.best.objective, atol=1e-3)


def test_moving_never_lowers_the_bound_wherever_it_starts(rng):
    for _ in range(6):
        selector, max_iter = FixedSelector(rng.uniform(-4.0, 4.0, (M, 1))), int(rng.randint(1, 6))
        result = learn(regression(), choose=selector, max_iter=max_iter)
        still = learn(regression(), False, selector, max_iter=max_iter)
        assert result.lower_bounds[0] == still.lower_bounds[0]
        assert result.best.objective >= still.best.objective - 1e-9


@MODEL
def test_the_end_is_stationary(name):
    build, n = MODELS[name]
    model = build(tol=1e-9)
    result = learn(model, start=START[:n], bounds=BOUNDS[:n], max_iter=2000)
    best = result.best
    assert result.converged
    evaluation = model.evaluate(best.theta, best.points, best.states, tol=1e-11, wrt_Z=True)
    assert np.abs(evaluation.grad_theta).max() < 0.02
    assert np.abs(evaluation.grad_Z * model.X.std(axis=0)).max() < 0.02


def test_no_small_move_is_better(rng):
    model = regression(tol=1e-8)
    best = learn(model, max_iter=2000).best
    for size in (0.01, 0.1):
        for _ in range(10):
            Z = best.points.Z + size * rng.randn(*best.points.Z.shape)
            moved = model.evaluate(best.theta, InducingPoints(Z), best.states)
            assert moved.objective < best.objective + 1e-6


def test_points_are_no_rows_any_more():
    still, moved = (learn(regression(), move).best.points for move in (False, True))
    assert still.indices is not None
    assert moved.indices is None
    assert moved.Z.shape == still.Z.shape
    assert np.abs(moved.Z - still.Z).max() > 0.05


def test_units_of_a_column_do_not_matter():
    one, other = (
        learn(
            regression(scale=scale),
            start=START + np.array([0.0, np.log(scale), 0.0]),
            bounds=BOUNDS + np.log([[1.0], [scale], [1.0]]),
        ).best
        for scale in (1.0, 1024.0)
    )
    assert_allclose(other.objective, one.objective, atol=1e-3)
    assert_allclose(other.points.Z / 1024.0, one.points.Z, atol=1e-2)


def test_a_constant_column_is_no_obstacle():
    result = learn(regression(constant=True))
    assert_array_equal(result.best.points.Z[:, 1], 4.0)
    assert_allclose(result.best.objective, learn(regression()).best.objective, atol=1e-3)


def test_points_that_are_given_move_too():
    Z = read_only(np.linspace(-1.0, 1.0, M)[:, None])
    result = learn(regression(), choose=FixedSelector(Z))
    assert np.abs(result.best.points.Z - Z).max() > 0.05
    assert result.best.objective > learn(regression(), False, FixedSelector(Z)).best.objective + 0.1


def test_points_move_when_no_parameter_is_free():
    model = classification()
    model.kernel = FreeKernel(
        Scaled(Constant(), RBF()), np.log([3.0, 0.6]), np.zeros(2, dtype=bool)
    )
    options = {"start": np.empty(0), "bounds": np.empty((0, 2))}
    still, moved = (learn(model, move, **options) for move in (False, True))
    assert moved.best.theta.shape == (0,)
    assert moved.best.objective > still.best.objective + 0.1


def test_points_move_where_the_box_of_theta_has_no_width():
    start = np.log([3.0, 0.6])
    options = {"start": start, "bounds": np.stack([start, start], axis=1)}
    still, moved = (learn(classification(), move, **options) for move in (False, True))
    assert_array_equal(moved.best.theta, start)
    assert moved.best.objective > still.best.objective + 0.1


def test_nothing_moves_without_iterations():
    result = learn(regression(), max_iter=0)
    assert result.best.points.indices is not None
    assert_array_equal(result.best.theta, START)


def test_theta_stays_in_its_box():
    bounds = np.log([[0.5, 2.0], [0.8, 1.25], [0.03, 0.2]])
    best = learn(regression(), bounds=bounds).best
    assert (best.theta >= bounds[:, 0]).all()
    assert (best.theta <= bounds[:, 1]).all()


def test_a_limit_that_is_reached_is_reported():
    result = learn(regression(tol=1e-9), max_iter=3)
    assert not result.converged
    assert "max_iter=3" in result.message
    assert learn(regression()).converged


def test_the_move_itself_is_reported_to_have_reached_the_limit():
    """With no parameter free there is nothing else to iterate on."""
    model = classification()
    model.kernel = FreeKernel(
        Scaled(Constant(), RBF()), np.log([3.0, 0.6]), np.zeros(2, dtype=bool)
    )
    options = {"start": np.empty(0), "bounds": np.empty((0, 2)), "max_iter": 1}
    assert learn(model, False, **options).converged
    assert "max_iter=1" in learn(model, **options).message


@pytest.mark.parametrize("forbidden", [0.02, 0.1])
def test_a_move_to_where_nothing_can_be_factored_is_stepped_back_from(forbidden):
    class FragileModel(SparseModel):
        failures, seen = 0, []

        def evaluate(self, theta, points, *args, **options):
            if points.indices is None and np.abs(points.Z - GIVEN).max() > forbidden:
                type(self).failures += 1
                raise LinAlgError("not positive definite")
            evaluation = super().evaluate(theta, points, *args, **options)
            type(self).seen.append(evaluation.objective)
            return evaluation

    GIVEN = np.linspace(-2.0, 2.0, M)[:, None]
    result = learn(regression(model=FragileModel), choose=FixedSelector(GIVEN))
    assert FragileModel.failures > 0
    assert np.abs(result.best.points.Z - GIVEN).max() <= forbidden
    assert result.best.objective >= max(FragileModel.seen) - 1e-9
    assert result.best.objective > learn(regression(), False, FixedSelector(GIVEN)).best.objective


def test_points_that_coincide_are_moved_apart_or_left():
    """Their covariance needs jitter from the start."""
    Z = np.repeat([[-1.5], [0.5]], [3, 2], axis=0)
    still, moved = (learn(regression(), move, FixedSelector(Z)) for move in (False, True))
    assert np.isfinite(moved.best.objective)
    assert moved.best.objective >= still.best.objective - 1e-6


def test_points_of_a_noise_process_stay():
    model = noisy_model()
    start, bounds = np.zeros(4), np.tile([-3.0, 3.0], (4, 1))
    still, moved = (
        learn(model, move, start=start, bounds=bounds, max_iter=15, max_reselections=0).best
        for move in (False, True)
    )
    assert_array_equal(moved.points.Z_noise, still.points.Z_noise)
    assert np.abs(moved.points.Z - still.points.Z).max() > 0.01
    assert moved.objective >= still.objective


FREE = np.array([[-np.inf, np.inf]] * len(START))


def search_of(model, bounds=FREE, hessian=None, pairs=None):
    """Return a `Search` from a few rows moved a little, and the evaluation there."""
    points = InducingPoints(model.X[::12] + 0.1)
    start = model.evaluate(START, points, model.initial_state(), wrt_Z=True)
    pairs = CorrectionPairs() if pairs is None else pairs
    return Search(model, start, settings_of(bounds), hessian, pairs), start


@pytest.mark.parametrize("wide", [True, False], ids=["two columns", "one column"])
def test_value_and_gradient_agree(wide):
    """A search sees theta, then the points in standard deviations of their columns."""
    model = regression(constant=wide, tol=1e-12)
    spread = np.where(model.X.std(axis=0) > 0.0, model.X.std(axis=0), 1.0)
    search, start = search_of(model)
    x = search.start.x
    assert_allclose(x, np.concatenate([START, (start.points.Z / spread).ravel()]))
    point = search.evaluate(x)
    assert_allclose(point.value, start.objective, rtol=1e-12)
    # Short steps: the objective is rough to the rounding of the bound.
    expected = central_difference(lambda x: search.evaluate(x).value, x, 1e-3)
    assert_allclose(point.gradient, expected, rtol=1e-5, atol=1e-5)


def test_a_bound_that_the_gradient_points_beyond_takes_its_slope():
    free, _ = search_of(regression())
    slope = free.start.gradient[:3]
    assert (slope != 0.0).all()
    beyond = np.where(
        (slope > 0.0)[:, None], START[:, None] + [-1.0, 0.0], START[:, None] + [0.0, 1.0]
    )
    inwards = 2.0 * START[:, None] - beyond[:, ::-1]
    assert_array_equal(search_of(regression(), beyond)[0].start.gradient[:3], 0.0)
    assert_array_equal(search_of(regression(), inwards)[0].start.gradient[:3], slope)
    point = search_of(regression(), beyond)[0].evaluate(free.start.x + 5.0)
    assert (point.x[:3] <= beyond[:, 1]).all()


def test_the_first_step_is_a_newton_step_in_theta_and_a_short_move():
    matrix = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    model, hessian = regression(), BFGSHessian.known(matrix)
    model.prior = ProductPrior((NormalPrior.of_all(START, 0.5),))
    search, _ = search_of(model, hessian=hessian)
    gradient = search.start.gradient
    step = search.newton_step(gradient)
    curvature = 60.0 * matrix + 4.0 * np.eye(3)
    assert_allclose(curvature @ step[:3], gradient[:3], rtol=1e-10)
    assert_allclose(np.abs(step[3:]).max(), FIRST_MOVE)
    assert_allclose(step[3:] / gradient[3:], FIRST_MOVE / np.abs(gradient[3:]).max())


def test_later_steps_take_the_curvature_along_the_last_move():
    """Of the points alone, or without a Hessian of everything."""
    gradient = np.ones(8)
    curvature = np.array([1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0, 4.0])
    for hessian, expected in ((BFGSHessian(np.full(3, 1.0 / 60.0)), 0.25), (None, 23.0 / 83.0)):
        pairs = CorrectionPairs()
        search, _ = search_of(regression(), hessian=hessian, pairs=pairs)
        pairs.add(np.ones(8), curvature)
        assert_allclose(search.newton_step(gradient)[3:], expected)
        # A move along which the slope rises tells nothing.
        pairs.add(np.ones(8), np.array([100.0, 0.0, 0.0, *[-1.0] * 5]))
        if hessian is not None:
            assert_allclose(search.newton_step(gradient)[3:], expected)


def test_a_search_ends_where_steps_promise_too_little():
    model = regression()
    ends = []
    for tol in (1.0, 1e-4):
        points = InducingPoints(model.X[::12])
        start = Start(START, model.initial_state(), None, points)
        settings = settings_of(BOUNDS)
        end = move(model, start, settings, tol=tol)
        assert end.converged
        assert end.best.objective >= end.start.objective
        ends.append((settings.progress.optimizer_iterations, end.best.objective))
    assert ends[0][0] < ends[1][0]
    assert ends[0][1] < ends[1][1]


def test_a_hessian_saves_evaluations():
    """What the search over theta has learned need not be learned again."""
    found = {}
    for is_known in (True, False):
        model = regression()
        selector = FixedSelector(model.X[::12])
        result = fit(model, StartOptions([START]), selector, settings_of(BOUNDS, 30))
        assert result.hessian is not None
        start = result.start() if is_known else result.start()._replace(hessian=None)
        end = move(model, start, settings_of(BOUNDS, 6))
        found[is_known] = end.best.objective
    assert found[True] > found[False]
