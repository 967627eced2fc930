"""The Hessian measured on a part of the rows, against second differences of the bound."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sparsegpc._core.learning import curvature, growing_subsets
from sparsegpc._core.learning.curvature import measured_hessian
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import Run
from sparsegpc._core.models.prior import NormalPrior, ProductPrior
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from tests.core.helpers import selector_of
from tests.core.learning.fit_cases import (
    BOUNDS,
    GOOD,
    DividedModel,
    RecordingModel,
    learn,
    make_data,
    make_divided,
    make_model,
    settings_of,
)

SELECTOR = PivotedSelector(argmax, 16)
THETA = np.log([2.0, 0.8])


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(curvature, "MANY_ROWS", 300)
    monkeypatch.setattr(curvature, "HESSIAN_ROWS", 100)
    monkeypatch.setattr(growing_subsets, "FEWEST_POINTS", 5)


def measured(model, theta=THETA, selector=SELECTOR, bounds=BOUNDS, progress=None):
    return measured_hessian(model, Run(theta), selector, settings_of(bounds, progress=progress))


def second_differences(model, theta, selector, step=0.02):
    """Return minus the Hessian of the bound of 100 of the rows, for each row."""
    part = model.subset(spaced_rows(model.weight, 100))
    points = select_points(part, selector, theta, part.initial_state())

    def bound(*changes):
        found = part.evaluate(theta + sum(changes), points, part.initial_state(), wrt_theta=False)
        return found.elbo

    result = np.empty((2, 2))
    e = step * np.eye(2)
    for i in range(2):
        for j in range(2):
            result[i, j] = -(
                bound(e[i], e[j]) - bound(e[i], -e[j]) - bound(-e[i], e[j]) + bound(-e[i], -e[j])
            ) / (4.0 * step**2)
    return result / part.total_weight


@pytest.mark.parametrize("prior", [None, NormalPrior.of_all(np.zeros(2), 0.1)])
def test_it_is_that_of_the_bound_on_a_part_of_the_rows(prior):
    model = make_divided(400, tol=1e-9)
    best = learn(model).best
    if prior is not None:
        model.prior = ProductPrior((prior,))
    model.parts.clear()
    found = measured(model, best.theta)
    # Half as many points as for all rows, as there are a quarter of the rows.
    expected = second_differences(model, best.theta, SELECTOR.limited(8))
    assert np.linalg.eigvalsh(expected).min() > 0.0
    np.testing.assert_allclose(found.matrix, expected, rtol=0.1, atol=0.02 * expected.max())
    assert model.sizes[0] == 100
    assert [m for _, _, m in model.parts[0].seen] == [8] * 3


def test_the_points_are_those_of_a_selector_that_has_them():
    model = make_divided(400)
    assert measured(model, selector=FixedSelector(GOOD)) is not None
    assert {m for _, _, m in model.parts[0].seen} == {len(GOOD)}


def test_points_in_a_given_order_of_all_rows_serve_the_part():
    model, order = make_divided(400), np.random.RandomState(0).permutation(400)
    selector = selector_of("order", 7, order=order)
    chosen = select_points(model, selector, THETA, model.initial_state())
    ordered = measured(model, selector=selector)
    given = measured(model, selector=FixedSelector(chosen.Z))
    np.testing.assert_array_equal(ordered.matrix, given.matrix)


def test_there_are_at_least_a_few_points():
    model = make_divided(400)
    measured(model, selector=PivotedSelector(argmax, 6))
    assert {m for _, _, m in model.parts[0].seen} == {5}


def test_curvatures_are_positive_where_the_bound_is_not_concave():
    theta = np.log([5.0, 5.0])
    model = make_divided(400, tol=1e-9)
    expected = second_differences(model, theta, SELECTOR.limited(8))
    values, vectors = np.linalg.eigh(expected)
    assert values.min() < 0.0
    matrix = measured(model, theta).matrix
    np.testing.assert_allclose(
        matrix, vectors * np.abs(values) @ vectors.T, rtol=0.1, atol=0.02 * values.max()
    )


def test_a_parameter_that_does_not_matter_has_the_least_curvature():
    model = make_divided(400)
    bounds = np.array([[-60.0, 9.0], [-9.0, 9.0]])
    found = measured(model, np.array([-50.0, 0.0]), bounds=bounds)
    np.testing.assert_allclose(found.matrix, curvature.LEAST_CURVATURE * np.eye(2), atol=1e-12)


def test_gradients_are_computed_within_the_bounds():
    model = make_divided(400)
    bounds = np.stack([THETA - 1.0, THETA], axis=1)
    assert measured(model, bounds=bounds) is not None
    seen = np.array([theta for _, theta, _ in model.parts[0].seen])
    assert len(seen) == 3
    assert np.all((seen >= bounds[:, 0]) & (seen <= bounds[:, 1]))


def test_evaluations_are_recorded_and_need_only_a_part_of_the_rows():
    model, progress = make_divided(400), Progress()
    measured(model, progress=progress)
    assert len(progress.history()["lower_bound"]) == 3
    assert model.seen == []


def test_a_stop_ends_the_measurement():
    model = make_divided(400)
    assert measured(model, progress=Progress(lambda step: step.iteration == 1)) is None
    assert len(model.parts[0].seen) == 2


def test_after_a_stop_nothing_is_measured():
    model, progress = make_divided(400), Progress()
    progress.stopped = True
    assert measured(model, progress=progress) is None
    assert model.parts == []


@pytest.mark.parametrize("change", [{"MANY_ROWS": 401}, {"MOST_PARAMETERS": 1}])
def test_it_is_not_measured_where_that_would_not_pay(monkeypatch, change):
    for name, value in change.items():
        monkeypatch.setattr(curvature, name, value)
    model = make_divided(400)
    assert measured(model) is None
    assert model.parts == []


def test_without_hyperparameters_there_is_nothing_to_measure():
    model = make_model(*make_data(n=400), free=(False, False))
    assert measured(model, np.empty(0), bounds=np.empty((0, 2))) is None


class Refusing(DividedModel):
    """Subsets can be evaluated once."""

    bad = None

    def evaluate(self, theta, *args, **options):
        found = RecordingModel.evaluate(self, theta, *args, **options)
        if len(self.weight) < 400 and len(self.seen) > 1:
            if self.bad is None:
                raise LinAlgError("too close")
            return found._replace(grad_theta=np.full(len(theta), self.bad))
        return found


@pytest.mark.parametrize("bad", [None, np.nan, np.inf])
def test_a_bound_that_cannot_be_computed_is_not_measured(bad):
    model = make_divided(400, model=Refusing)
    model.bad = bad
    assert measured(model) is None
    result = learn(model)
    assert result.converged
    assert result.best.objective > make_reference() - 1e-2


def make_reference():
    return learn(make_divided(400)).best.objective


def test_a_fit_measures_where_it_begins_on_all_rows():
    model = make_divided(400, tol=1e-6)
    result = learn(model, choose=SELECTOR)
    assert model.sizes[-1] == 100
    top = learn(make_model(*make_data(n=400), tol=1e-6), choose=SELECTOR)
    assert result.best.objective == pytest.approx(top.best.objective, abs=0.1)
