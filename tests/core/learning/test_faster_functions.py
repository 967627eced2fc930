"""A search from short length scales where a fast function was taken for noise."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sparsegpc._core.learning import faster_functions
from sparsegpc._core.learning.faster_functions import (
    fit_faster,
    missed_group,
    misses_fast_function,
)
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import BOUNDS, learn, make_model, settings_of

SLOW, FAST = np.log([1.0, 3.0]), np.log([4.0, 0.4])
FEW_SHORT = np.array([[-3.0, 8.0], np.log([1.0, 1e2])])


def waves(n=300, seed=0):
    """Return a model of labels of a fast wave beside a trend."""
    rng = np.random.RandomState(seed)
    X = np.sort(rng.uniform(-5.0, 5.0, (n, 1)), axis=0)
    f = X[:, 0] + 2.0 * np.sin(6.0 * X[:, 0])
    return make_model(X, np.where(f + 0.3 * rng.randn(n) > 0.0, 1.0, -1.0))


def slow_fit(model):
    """Return the fit of a model with long length scales only."""
    return learn(model, [SLOW], bounds=FEW_SHORT, choose=PivotedSelector("argmax", 100))


def faster(model, result, starts=(FAST,), progress=None):
    settings = settings_of(BOUNDS, 50, 2, progress)
    return fit_faster(model, result, list(starts), PivotedSelector("argmax", 100), settings)


def test_a_fast_function_is_missed_and_found():
    model = waves()
    slow = slow_fit(model)
    assert misses_fast_function(model, slow)
    found = faster(model, slow)
    assert found.best.objective > slow.best.objective + 5.0
    assert found.best.theta[1] < 0.0
    assert found.lower_bounds[: len(slow.lower_bounds)] == slow.lower_bounds
    assert not misses_fast_function(model, found)


def test_copies_of_rows_but_for_rounding_do_not_look_like_a_fast_function():
    """Their deviations are equal, however noisy the labels are."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-5.0, 5.0, (200, 2))
    labels = np.where(rng.uniform(size=200) < 1.0 / (1.0 + np.exp(-X[:, 0])), 1.0, -1.0)
    model = make_model(np.concatenate([X, X + 1e-6 * rng.randn(200, 2)]), np.tile(labels, 2))
    slow = slow_fit(model)
    assert not misses_fast_function(model, slow)
    assert missed_group(model, slow, [0, 1], may_be_single=True) is None


def test_the_fit_so_far_is_kept_if_no_start_is_better():
    model, progress = waves(), Progress()
    slow = slow_fit(model)
    kept = faster(model, slow, [np.log([1e-3, 1e-2])], progress)
    assert kept.best.objective == pytest.approx(slow.best.objective, abs=model.tol)
    np.testing.assert_array_equal(kept.best.theta, slow.best.theta)
    assert kept.lower_bounds == slow.lower_bounds
    # The last evaluation that is reported is that of the result.
    assert progress.history()["lower_bound"][-1] == kept.best.elbo


def test_a_start_that_fails_does_not_end_the_fit(monkeypatch):
    model = waves()
    slow = slow_fit(model)
    whole, calls = faster_functions.fit_from, []

    def failing(*args, **options):
        calls.append(args)
        if len(calls) == 1:
            raise LinAlgError
        return whole(*args, **options)

    monkeypatch.setattr(faster_functions, "fit_from", failing)
    assert faster(model, slow, [FAST, FAST]).best.objective > slow.best.objective + 5.0
    assert len(calls) == 2


def test_nothing_is_missed_where_points_are_too_few(monkeypatch):
    model = waves()
    slow = slow_fit(model)
    assert missed_group(model, slow, [0], False).columns == [0]
    few = learn(waves(), [FAST], choose=PivotedSelector("argmax", 5))
    assert not misses_fast_function(model, few)
    monkeypatch.setattr(faster_functions, "HIGH_COST_PER_ROW", 1e-3)
    assert missed_group(model, few, [0], False) is None


def test_of_many_rows_a_part_tells_where_to_start(monkeypatch):
    model = waves(400)
    slow = slow_fit(model)
    direct = faster(model, slow)
    monkeypatch.setattr(faster_functions, "MANY_ROWS", 400)
    monkeypatch.setattr(faster_functions, "RANKING_ROWS", 200)
    progress = Progress()
    found = faster(model, slow, [FAST, np.log([1e-3, 1e-2])], progress)
    assert found.best.objective > direct.best.objective - 1.0
    assert set(progress.history()["n_samples"]) == {200, 400}
    # No start is better than where the fit is.
    progress = Progress()
    kept = faster(model, direct, [np.log([1e-3, 1e-2])], progress)
    assert kept.best.objective == pytest.approx(direct.best.objective, abs=model.tol)
    assert list(progress.history()["n_samples"]).count(400) == 1


def test_a_group_is_missed_unless_one_of_its_columns_is_enough():
    rng = np.random.RandomState(0)
    X = rng.uniform(-5.0, 5.0, (400, 3))
    slow = np.array([[-6.0, 0.0], np.log([100.0, 1e3])])
    for f, expected in ((np.sin(3.0 * X[:, 0]), [0]), (np.sin(X[:, 1] + X[:, 2]), [1, 2])):
        model = make_model(X, np.where(f > 0.0, 1.0, -1.0))
        choose = PivotedSelector("argmax", 20)
        result = learn(model, [slow.mean(axis=1)], bounds=slow, choose=choose)
        assert missed_group(model, result, [0, 1, 2], True).columns == expected
        group = missed_group(model, result, [0, 1, 2], False)
        assert group is None if len(expected) == 1 else group.columns == expected
        assert missed_group(model, result, [], True) is None
