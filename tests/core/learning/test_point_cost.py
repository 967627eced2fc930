"""Removal of points that are not worth their cost, against all subsets and with stops."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.learning import point_cost
from sparsegpc._core.learning.point_cost import keep_worthwhile_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import FitResult
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.models.model_cases import make_model, outputs

N_POINTS = 8


def fitted(model, theta, indices=None):
    """The `FitResult` of a model at given parameters, with points at some rows."""
    indices = np.arange(N_POINTS) if indices is None else np.asarray(indices)
    points = InducingPoints(model.X[indices], indices)
    evaluation = model.evaluate(theta, points, model.initial_state(), tol=1e-9, max_iter=500)
    return FitResult(evaluation, [evaluation.elbo])


def regression():
    return outputs(0.5, 1.7, noisy=True)


def labels():
    return make_model()


def subsets(model, theta):
    """The bound of every subset of the points, by its indices."""
    indices = range(N_POINTS)
    every = [c for m in range(1, N_POINTS + 1) for c in combinations(indices, m)]
    return {each: fitted(model, theta, each).best.elbo for each in every}


@pytest.mark.parametrize("build", [regression, labels])
def test_what_is_left_is_nearly_the_best_subset(build):
    """And no single removal improves it."""
    model, theta = build()
    bounds = subsets(model, theta)
    sizes = set()
    for cost in (0.05, 0.3, 1.0):
        found = keep_worthwhile_points(model, fitted(model, theta), cost, Progress())
        kept = tuple(sorted(found.best.points.indices.tolist()))
        worth = {each: bound - cost * len(each) for each, bound in bounds.items()}
        assert_allclose(found.best.elbo, bounds[kept], atol=1e-4)
        assert max(worth.values()) - worth[kept] < 0.5 * cost
        neighbours = [worth[each] for each in combinations(kept, len(kept) - 1) if each]
        # The gains of labels hold the sites.
        assert worth[kept] > max(neighbours) - (0.1 * cost if build is labels else 1e-9)
        sizes.add(len(kept))
    assert len(sizes) > 1


def test_points_are_left_in_the_order_of_their_worth():
    """The first m of them are the subset of m points to which a higher cost leads."""
    model, theta = regression()
    found = keep_worthwhile_points(model, fitted(model, theta), 0.01, Progress()).best
    assert_array_equal(found.points.Z, model.X[found.points.indices])
    bounds = subsets(model, theta)
    for m in range(1, len(found.points.Z)):
        first = tuple(sorted(found.points.indices[:m].tolist()))
        others = [bounds[each] for each in combinations(sorted(found.points.indices), m)]
        assert bounds[first] > np.quantile(others, 0.8)


def test_the_result_says_what_was_learned_and_what_is_left():
    model, theta = labels()
    before, progress = fitted(model, theta), Progress()
    found = keep_worthwhile_points(model, before, 0.5, progress)
    assert found.optimum is before.best
    assert found.best.theta is before.best.theta
    assert found.lower_bounds[0] == before.best.elbo > found.lower_bounds[-1]
    assert_allclose(found.lower_bounds[-1], found.best.elbo, atol=1e-6)
    assert found.converged
    history = progress.history()
    assert history["n_inducing"][-1] == len(found.best.points.Z) < N_POINTS
    assert history["lower_bound"][-1] == found.best.elbo


def test_a_cost_below_every_gain_removes_nothing():
    model, theta = regression()
    before = fitted(model, theta)
    found = keep_worthwhile_points(model, before, 1e-12, Progress())
    assert sorted(found.best.points.indices) == list(range(N_POINTS))
    assert_allclose(found.best.elbo, before.best.elbo, rtol=1e-9)


def test_removals_that_lose_too_much_are_undone(monkeypatch):
    """Whatever the approximate gains suggest, bound - cost M rises from round to round."""
    model, theta = regression()
    cost, offered = 0.3, []

    def too_many(gains, cost=np.inf):
        offered.append(len(gains.left))
        return list(range(len(gains.left) - 1))

    monkeypatch.setattr(point_cost, "removal_order", too_many)
    progress = Progress()
    before = fitted(model, theta)
    found = keep_worthwhile_points(model, before, cost, progress)
    worth = found.best.elbo - cost * len(found.best.points.Z)
    assert worth >= before.best.elbo - cost * N_POINTS - 1e-9
    assert len(offered) < 20


@pytest.mark.parametrize("n_steps", [1, 2])
def test_a_stop_keeps_what_has_been_reached(n_steps):
    model, theta = labels()
    before = fitted(model, theta)
    progress = Progress(lambda step: step.iteration + 1 == n_steps)
    found = keep_worthwhile_points(model, before, 0.5, progress)
    assert progress.stopped
    assert len(progress.history()["choice"]) == n_steps
    assert len(found.best.points.Z) < N_POINTS
