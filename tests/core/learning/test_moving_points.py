"""Points that move along with the hyperparameters at the end of a fit."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.collapsed import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import inference
from sparsegpc._core.learning.inference import fit
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.noise_process import HeteroscedasticModel
from sparsegpc._core.rows.merging import merge_rows
from sparsegpc._core.selection.choices import Chosen, FixedChoice, PivotedChoice
from tests.core.helpers import central_difference, read_only

START = np.log([1.0, 1.0, 0.1])
BOUNDS = np.log([[1e-3, 1e3], [1e-2, 1e2], [1e-4, 1e2]])
M = 5


def make_rows(n=60, scale=1.0, constant=False):
    X = scale * np.random.RandomState(0).uniform(-3.0, 3.0, (n, 1))
    return merge_rows(np.hstack([X, np.full((n, 1), 4.0)]) if constant else X, np.ones(n))


def regression(slack="tight", model=SparseModel, free=(True, True), scale=1.0, constant=False, **o):
    """A model of three parameters with the noise, and too few points for its targets."""
    rows = make_rows(scale=scale, constant=constant)
    n = len(rows.X)
    y = np.sin(1.5 * rows.X[:, 0] / scale) + 0.2 * np.random.RandomState(1).randn(n)
    # The rows are sorted and distinct: they are their own merged rows.
    target = noisy_targets(y, np.ones(n), np.ones((n, 1)), merge_rows(rows.X, np.ones(n)))
    params = np.log([1.0, scale])
    kernel = FreeKernel(Scaled(Constant(), RBF()), params, np.array(free))
    return model(kernel, GaussianNoise(1), rows.X, [target], np.ones(n), slack=slack, **o)


def classification(slack="tight", **options):
    X = read_only(make_rows().X)
    y = np.where(np.sin(2.5 * X[:, 0]) + 0.3 * np.random.RandomState(2).randn(60) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    return SparseModel(kernel, PolyaGammaLogit(), X, [y], np.ones(60), slack=slack, **options)


def learn(model, move_points=True, choose=None, start=START, bounds=BOUNDS, **options):
    choose = PivotedChoice("argmax", M) if choose is None else choose
    options = {"max_iter": 200, "max_reselections": 2, **options}
    return fit(model, [start], bounds, choose, move_points=move_points, **options)


MODELS = {"regression": (regression, 3), "classification": (classification, 2)}
MODEL = pytest.mark.parametrize("name", MODELS)


@MODEL
@pytest.mark.parametrize("slack", SLACKS)
def test_moving_raises_the_bound(name, slack):
    build, n = MODELS[name]
    options = {"start": START[:n], "bounds": BOUNDS[:n]}
    still, moved = (learn(build(slack), move, **options) for move in (False, True))
    assert moved.best.bound > still.best.bound + 0.1
    assert moved.bounds[:-1] == still.bounds
    assert_allclose(moved.bounds[-1], moved.best.bound, atol=1e-3)


def test_moving_never_lowers_the_bound_wherever_it_starts(rng):
    for _ in range(6):
        choice, max_iter = FixedChoice(rng.uniform(-4.0, 4.0, (M, 1))), int(rng.randint(1, 6))
        result = learn(regression(), choose=choice, max_iter=max_iter)
        still = learn(regression(), False, choice, max_iter=max_iter)
        assert result.bounds[0] == still.bounds[0]
        assert result.best.bound >= still.best.bound - 1e-9


@MODEL
def test_the_end_is_stationary(name):
    build, n = MODELS[name]
    model = build(tol=1e-9)
    result = learn(model, start=START[:n], bounds=BOUNDS[:n], max_iter=2000)
    best = result.best
    assert result.converged
    evaluation = model.evaluate(
        best.theta, best.chosen, best.states, jitter=best.jitter, tol=1e-11, wrt_Z=True
    )
    assert np.abs(evaluation.grad_theta).max() < 0.02
    assert np.abs(evaluation.grad_Z * model.X.std(axis=0)).max() < 0.02


def test_no_small_move_is_better(rng):
    model = regression(tol=1e-8)
    best = learn(model, max_iter=2000).best
    for size in (0.01, 0.1):
        for _ in range(10):
            Z = best.chosen.Z + size * rng.randn(*best.chosen.Z.shape)
            moved = model.evaluate(
                best.theta, Chosen(Z, None, None), best.states, jitter=best.jitter
            )
            assert moved.bound < best.bound + 1e-6


def test_points_are_no_rows_any_more():
    still, moved = (learn(regression(), move).best.chosen for move in (False, True))
    assert still.indices is not None
    assert moved.indices is None
    assert moved.selection is None
    assert moved.Z.shape == still.Z.shape
    assert np.abs(moved.Z - still.Z).max() > 0.05


@pytest.mark.parametrize("wide", [True, False], ids=["two columns", "one column"])
def test_objective_and_gradient_of_the_minimiser_agree(wide):
    """What L-BFGS-B sees: theta, then the points in units of the spread of their columns."""
    model = regression(constant=wide, tol=1e-12)
    spread = np.array([3.0, 0.7])[: model.X.shape[1]]
    Z = model.X[::12] + 0.1
    start = model.evaluate(START, Chosen(Z, None, None), model.initial_state(), wrt_Z=True)
    ascent = inference._Ascent(model, start, spread)
    x = ascent.pack(START, Z)
    assert_allclose(x, np.concatenate([START, (Z / spread).ravel()]))
    value, gradient = ascent(x)
    assert_allclose(value, ascent._scale * start.bound, rtol=1e-12)
    # Short steps: the objective is rough to the rounding of the bound.
    expected = central_difference(lambda point: ascent(point)[0], x, 1e-3)
    assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


def test_units_of_a_column_do_not_matter():
    one, other = (
        learn(
            regression(scale=scale),
            start=START + np.array([0.0, np.log(scale), 0.0]),
            bounds=BOUNDS + np.log([[1.0], [scale], [1.0]]),
        ).best
        for scale in (1.0, 1024.0)
    )
    assert_allclose(other.bound, one.bound, atol=1e-3)
    assert_allclose(other.chosen.Z / 1024.0, one.chosen.Z, atol=1e-2)


def test_a_constant_column_is_no_obstacle():
    result = learn(regression(constant=True))
    assert_array_equal(result.best.chosen.Z[:, 1], 4.0)
    assert_allclose(result.best.bound, learn(regression()).best.bound, atol=1e-3)


def test_points_that_are_given_move_too():
    Z = read_only(np.linspace(-1.0, 1.0, M)[:, None])
    result = learn(regression(), choose=FixedChoice(Z))
    assert np.abs(result.best.chosen.Z - Z).max() > 0.05
    assert result.best.bound > learn(regression(), False, FixedChoice(Z)).best.bound + 0.1


def test_points_move_when_no_parameter_is_free():
    model = classification()
    model.kernel = FreeKernel(
        Scaled(Constant(), RBF()), np.log([3.0, 0.6]), np.zeros(2, dtype=bool)
    )
    options = {"start": np.empty(0), "bounds": np.empty((0, 2))}
    still, moved = (learn(model, move, **options) for move in (False, True))
    assert moved.best.theta.shape == (0,)
    assert moved.best.bound > still.best.bound + 0.1


def test_points_move_where_the_box_of_theta_has_no_width():
    start = np.log([3.0, 0.6])
    options = {"start": start, "bounds": np.stack([start, start], axis=1)}
    still, moved = (learn(classification(), move, **options) for move in (False, True))
    assert_array_equal(moved.best.theta, start)
    assert moved.best.bound > still.best.bound + 0.1


def test_nothing_moves_without_iterations():
    result = learn(regression(), max_iter=0)
    assert result.best.chosen.indices is not None
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

        def evaluate(self, theta, chosen, *args, **options):
            if chosen.indices is None and np.abs(chosen.Z - GIVEN).max() > forbidden:
                type(self).failures += 1
                raise LinAlgError("not positive definite")
            evaluation = super().evaluate(theta, chosen, *args, **options)
            type(self).seen.append(evaluation.bound)
            return evaluation

    GIVEN = np.linspace(-2.0, 2.0, M)[:, None]
    result = learn(regression(model=FragileModel), choose=FixedChoice(GIVEN))
    assert FragileModel.failures > 0
    assert np.abs(result.best.chosen.Z - GIVEN).max() <= forbidden
    assert result.best.bound >= max(FragileModel.seen) - 1e-9
    assert result.best.bound > learn(regression(), False, FixedChoice(GIVEN)).best.bound


def test_points_that_coincide_are_moved_apart_or_left():
    """Their covariance needs jitter from the start."""
    Z = np.repeat([[-1.5], [0.5]], [3, 2], axis=0)
    still, moved = (learn(regression(), move, FixedChoice(Z)) for move in (False, True))
    assert np.isfinite(moved.best.bound)
    assert moved.best.bound >= still.best.bound - 1e-6


def test_points_of_a_noise_process_stay():
    model = regression()
    noise_kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    model = HeteroscedasticModel(
        model.kernel,
        model.likelihood,
        model.X,
        model.targets,
        model.weight,
        slack="tight",
        noise_kernel=noise_kernel,
        n_noise_points=3,
        noise_tol=0.0,
        log_noise=[-2.0],
    )
    start, bounds = np.zeros(4), np.tile([-3.0, 3.0], (4, 1))
    still, moved = (
        learn(model, move, start=start, bounds=bounds, max_iter=15, max_reselections=0).best
        for move in (False, True)
    )
    assert_array_equal(moved.chosen.Z_noise, still.chosen.Z_noise)
    assert np.abs(moved.chosen.Z - still.chosen.Z).max() > 0.01
    assert moved.bound >= still.bound


def test_the_last_digits_of_a_slope_do_not_change_the_search(monkeypatch):
    """They differ between processors, and a search over many directions would magnify that."""
    evaluate = SparseModel.evaluate

    def disturbed(self, *arguments, **options):
        found = evaluate(self, *arguments, **options)
        if found.grad_Z is None:
            return found
        size = 1e-9 * np.random.RandomState(model.counts.evaluations).randn(*found.grad_Z.shape)
        return found._replace(grad_Z=found.grad_Z + size)

    model = regression()
    expected = learn(model).best
    monkeypatch.setattr(SparseModel, "evaluate", disturbed)
    model = regression()
    found = learn(model).best
    assert_allclose(found.bound, expected.bound, rtol=1e-12)
    assert_allclose(found.chosen.Z, expected.chosen.Z, rtol=0.0, atol=1e-12)


def test_a_tiny_tolerance_rounds_nothing():
    values = np.array([0.0, -0.1, 1e-300, 3.7e12, -1.7e308])
    assert_array_equal(inference._rounded(values, 1e-320), values)
    assert_array_equal(inference._rounded(values[:4], 0.3), [0.0, 0.0, 0.0, 3.7e12])
