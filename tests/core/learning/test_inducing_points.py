"""Points that are chosen, and that move along with the hyperparameters at the end of a fit."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.inducing_points import is_fixed, select_points, try_centroids
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.centroids import centroids
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints, PivotedSelector
from tests.core.helpers import read_only
from tests.core.learning.moving_cases import (
    BOUNDS,
    START,
    M,
    classification,
    noisy_model,
    regression,
)


def test_points_are_chosen_with_the_sites_precisions_of_all_outputs():
    """The first pivot of a stationary kernel is where they add up to most."""
    model = regression()
    model.targets = model.targets * 2
    model.likelihood = GaussianNoise(1)
    model.weight = read_only(np.linspace(0.5, 2.0, 60))
    theta = np.append(START, np.log(0.01))
    states = model.initial_state()
    precision = model.precision(theta, states)
    assert_allclose(precision, model.weight * (10.0 + 100.0), rtol=1e-12)
    points = select_points(model, PivotedSelector("argmax", 3), theta, states)
    assert points.indices[0] == np.argmax(precision) == 59
    assert_array_equal(points.Z, model.X[points.indices])
    assert points.Z_noise is None


def test_points_of_a_noise_process_are_chosen_along():
    model = noisy_model()
    theta = np.log([1.0, 1.0, 0.8, 1.4])
    points = select_points(model, PivotedSelector("argmax", M), theta, model.initial_state())
    alone = PivotedSelector("argmax", M)(
        model.kernel, theta[:2], model.rows, model.precision(theta, model.initial_state())
    )
    assert_array_equal(points.Z, alone.Z)
    of_noise = PivotedSelector("argmax", 3)(
        model.noise_kernel, theta[2:], model.rows, 0.5 * model.weight
    )
    assert_array_equal(points.Z_noise, of_noise.Z)


def test_only_given_points_of_a_model_without_a_noise_process_are_fixed():
    given, points = FixedSelector(np.zeros((1, 1))), PivotedSelector("argmax", 2)
    assert is_fixed(regression(), given)
    assert not is_fixed(regression(), points)
    assert not is_fixed(noisy_model(), given)


def learn(model, move_points=True, choose=None, start=START, bounds=BOUNDS, **options):
    choose = PivotedSelector("argmax", M) if choose is None else choose
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
    assert moved.best.objective > still.best.objective + 0.1
    assert moved.bounds[:-1] == still.bounds
    assert_allclose(moved.bounds[-1], moved.best.objective, atol=1e-3)


def test_moving_never_lowers_the_bound_wherever_it_starts(rng):
    for _ in range(6):
        selector, max_iter = FixedSelector(rng.uniform(-4.0, 4.0, (M, 1))), int(rng.randint(1, 6))
        result = learn(regression(), choose=selector, max_iter=max_iter)
        still = learn(regression(), False, selector, max_iter=max_iter)
        assert result.bounds[0] == still.bounds[0]
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
            moved = model.evaluate(best.theta, InducingPoints(Z, None, None), best.states)
            assert moved.objective < best.objective + 1e-6


def test_points_are_no_rows_any_more():
    still, moved = (learn(regression(), move).best.points for move in (False, True))
    assert still.indices is not None
    assert moved.indices is None
    assert moved.selection is None
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


def linear_labels():
    """Noisy labels of a linear function of many columns, where means of rows are good points."""
    rng = np.random.RandomState(4)
    X = read_only(rng.randn(100, 6))
    y = np.where(X[:, 0] + 0.5 * rng.randn(100) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    return SparseModel(kernel, PolyaGammaLogit(), X, [y], np.ones(100), slack=SLACKS["tight"])


def tried(model, theta, n_points, or_centroids=True):
    """Return an evaluation at chosen rows, and what `try_centroids` makes of it."""
    selector = PivotedSelector("argmax", n_points, or_centroids=or_centroids)
    states = model.initial_state()
    rows = model.evaluate(theta, select_points(model, selector, theta, states), states)
    progress = Progress()
    found = try_centroids(model, selector, rows, progress)
    assert len(progress.history()["lower_bound"]) == model.counts.evaluations - 1
    return rows, found


@pytest.mark.parametrize(("n_points", "are_rows"), [(3, False), (M, True)])
def test_the_points_of_the_higher_bound_are_kept(n_points, are_rows):
    model = regression()
    rows, found = tried(model, START, n_points)
    assert model.counts.evaluations == 2
    assert (found.points.indices is not None) is are_rows
    kernel_theta, sites = START[:2], [solution.sites for solution in rows.solutions]
    means = centroids(rows.points, model.kernel, kernel_theta, model.X, sites)
    other = model.evaluate(START, means, rows.states)
    assert_allclose(found.objective, max(rows.objective, other.objective), rtol=1e-12)
    assert found.grad_theta is not None


def test_centroids_need_permission():
    model = regression()
    rows, found = tried(model, START, 3, or_centroids=False)
    assert found is rows
    assert model.counts.evaluations == 1


def test_centroids_are_not_tried_where_they_could_gain_nothing():
    """With a long length scale five points explain nearly all variance."""
    model, theta = classification(), np.log([3.0, 2.0])
    rows, found = tried(model, theta, M)
    kernel_theta, _ = model.split(theta)
    features = model.row_features(model.kernel, kernel_theta, rows.points.Z)
    cost = 0.5 * (rows.solutions[0].sites.precision * features.residual).sum()
    assert_allclose(rows.posterior.residual_cost, cost, rtol=1e-9)
    assert 0.0 < cost < 0.06
    assert found is rows
    assert model.counts.evaluations == 1


def from_rows(or_centroids=True, **options):
    selector = PivotedSelector("argmax", M, or_centroids=or_centroids)
    options = {"start": np.log([3.0, 2.0]), "bounds": BOUNDS[:2], "max_iter": 20, **options}
    return learn(linear_labels(), False, selector, **options).best


def test_a_fit_goes_on_with_the_better_kind_of_points():
    found, rows = from_rows(), from_rows(False)
    assert found.points.indices is None
    assert rows.points.indices is not None
    assert len(found.points.Z) == len(rows.points.Z) == M
    assert found.elbo > rows.elbo + 2.0


def test_a_fit_that_starts_from_centroids_goes_on_with_centroids():
    first = from_rows()
    again = from_rows(start=first.theta, first=first.points)
    assert again.points.indices is None
    assert again.elbo >= first.elbo - 1e-3
