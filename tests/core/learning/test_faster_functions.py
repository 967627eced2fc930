"""A search from short length scales where a fast function was taken for noise."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from sparsegpc._core.diagnostics.verdicts import misses_fast_function
from sparsegpc._core.learning import faster_functions
from sparsegpc._core.learning.faster_functions import fit_faster
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fast_waves import FAST, slow_fit, waves
from tests.core.learning.fit_cases import BOUNDS, settings_of


def faster(model, result, starts=(FAST,), progress=None):
    settings = settings_of(BOUNDS, 50, 2, progress)
    return fit_faster(model, result, list(starts), PivotedSelector(argmax, 100), settings)


def test_a_fast_function_is_missed_and_found():
    model = waves()
    slow = slow_fit(model)
    assert misses_fast_function(model, slow.best)
    found = faster(model, slow)
    assert found.best.objective > slow.best.objective + 5.0
    assert found.best.theta[1] < 0.0
    assert found.lower_bounds[: len(slow.lower_bounds)] == slow.lower_bounds
    assert not misses_fast_function(model, found.best)


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
