"""Points that are chosen among the rows, and centroids of the rows around them."""

from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.inducing_points import is_fixed, select_points, try_centroids
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import StartOptions
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.centroids import centroids
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from tests.core.helpers import read_only
from tests.core.learning.fit_cases import settings_of
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
    points = select_points(model, PivotedSelector(argmax, 3), theta, states)
    assert points.indices[0] == np.argmax(precision) == 59
    assert_array_equal(points.Z, model.X[points.indices])
    assert points.Z_noise is None


def test_points_of_a_noise_process_are_chosen_along():
    model = noisy_model()
    theta = np.log([1.0, 1.0, 0.8, 1.4])
    points = select_points(model, PivotedSelector(argmax, M), theta, model.initial_state())
    alone = PivotedSelector(argmax, M)(
        model.kernel, theta[:2], model.candidates, model.precision(theta, model.initial_state())
    )
    assert_array_equal(points.Z, alone.Z)
    of_noise = PivotedSelector(argmax, 3)(
        model.noise_kernel, theta[2:], model.candidates, 0.5 * model.weight
    )
    assert_array_equal(points.Z_noise, of_noise.Z)


def test_only_given_points_of_a_model_without_a_noise_process_are_fixed():
    given, points = FixedSelector(np.zeros((1, 1))), PivotedSelector(argmax, 2)
    assert is_fixed(regression(), given)
    assert not is_fixed(regression(), points)
    assert not is_fixed(noisy_model(), given)


LONG = np.log([3.0, 2.0])


def linear_labels():
    """Noisy labels of a linear function of many columns, where means of rows are good points."""
    rng = np.random.RandomState(4)
    X = read_only(rng.randn(100, 6))
    y = np.where(X[:, 0] + 0.5 * rng.randn(100) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    return SparseModel(kernel, PolyaGammaLogit(), X, [y], np.ones(100), slack=SLACKS["tight"])


def tried(model, theta, n_points, or_centroids=True):
    """Return an evaluation at chosen rows, and what `try_centroids` finds in how many others."""
    selector = PivotedSelector(argmax, n_points, or_centroids=or_centroids)
    states = model.initial_state()
    rows = model.evaluate(theta, select_points(model, selector, theta, states), states)
    progress = Progress()
    with patch.object(model, "evaluate", wraps=model.evaluate) as evaluate:
        found = try_centroids(model, selector, rows, progress)
    n_tried = evaluate.call_count
    assert len(progress.history()["lower_bound"]) == n_tried
    return rows, found, n_tried


@pytest.mark.parametrize(("n_points", "are_rows"), [(3, False), (M, True)])
def test_the_points_of_the_higher_bound_are_kept(n_points, are_rows):
    model = regression()
    rows, found, n_tried = tried(model, START, n_points)
    assert n_tried == 1
    assert (found.points.indices is not None) is are_rows
    kernel_theta, sites = START[:2], [solution.sites for solution in rows.solutions]
    means = centroids(rows.points, model.kernel, kernel_theta, model.X, sites)
    other = model.evaluate(START, means, rows.states)
    assert_allclose(found.objective, max(rows.objective, other.objective), rtol=1e-12)
    assert found.grad_theta is not None


def test_centroids_need_permission():
    model = regression()
    rows, found, n_tried = tried(model, START, 3, or_centroids=False)
    assert found is rows
    assert n_tried == 0


def test_centroids_are_not_tried_where_they_could_gain_nothing():
    """With a long length scale five points explain nearly all variance."""
    model, theta = classification(), np.log([3.0, 2.0])
    rows, found, n_tried = tried(model, theta, M)
    kernel_theta = model.kernel_theta(theta)
    features = model.row_features(model.kernel, kernel_theta, rows.points.Z)
    cost = 0.5 * (rows.solutions[0].sites.precision * features.residual).sum()
    assert_allclose(rows.posterior.unexplained_cost, cost, rtol=1e-9)
    assert 0.0 < cost < 0.06
    assert found is rows
    assert n_tried == 0


def from_rows(or_centroids=True, start=LONG, points=None):
    selector = PivotedSelector(argmax, M, or_centroids=or_centroids)
    starts = StartOptions([start], points)
    return fit(linear_labels(), starts, selector, settings_of(BOUNDS[:2], 20, 2)).best


def test_a_fit_goes_on_with_the_better_kind_of_points():
    found, rows = from_rows(), from_rows(False)
    assert found.points.indices is None
    assert rows.points.indices is not None
    assert len(found.points.Z) == len(rows.points.Z) == M
    assert found.elbo > rows.elbo + 2.0


def test_a_fit_that_starts_from_centroids_goes_on_with_centroids():
    first = from_rows()
    again = from_rows(start=first.theta, points=first.points)
    assert again.points.indices is None
    assert again.elbo >= first.elbo - 1e-3
