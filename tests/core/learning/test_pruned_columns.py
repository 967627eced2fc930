"""Columns that a search has pruned are brought back where they raise the objective."""

import numpy as np
import pytest

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning import pruned_columns as module
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.pruned_columns import bring_back, with_shorter_lengths
from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import settings_of

LONG, SHORT = np.log(200.0), np.log([1.0, 3.0])
ALTERNATIVES = {1: SHORT, 2: SHORT, 3: SHORT}
BOUNDS = np.log([[1e-3, 1e3]] * 4)
SELECTOR = PivotedSelector(argmax, 40)


def make_model(function, n_rows=300):
    """Return a model of labels of three columns; theta holds a variance and three length scales."""
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, size=(n_rows, 3))
    y = np.where(function(X) + 0.1 * rng.randn(n_rows) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF(3)), np.zeros(4), np.ones(4, dtype=bool))
    return SparseModel(kernel, PolyaGammaLogit(), X, [y], np.ones(n_rows), slack=TIGHT)


def evaluated(model, lengths):
    theta = np.array([np.log(4.0), *lengths])
    points = select_points(model, SELECTOR, theta, model.initial_state())
    return model.evaluate(theta, points, model.initial_state())


def fast_and_slow(X):
    """The first column changes the label several times, the second once, the third never."""
    return np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]


@pytest.mark.parametrize("most_rows", [100, 1000])
def test_only_the_column_that_matters_is_brought_back(monkeypatch, most_rows):
    monkeypatch.setattr(module, "TRIAL_ROWS", most_rows)
    model = make_model(fast_and_slow)
    best = evaluated(model, [LONG, SHORT[1], LONG])
    theta = bring_back(model, best, ALTERNATIVES, Progress())
    assert theta[1] in SHORT
    np.testing.assert_array_equal(theta[[0, 2, 3]], best.theta[[0, 2, 3]])


def test_without_a_column_to_bring_back_there_is_no_theta():
    model = make_model(lambda X: X[:, 0] + 0.5 * X[:, 1])
    best = evaluated(model, [SHORT[1], SHORT[1], LONG])
    assert bring_back(model, best, ALTERNATIVES, Progress()) is None


@pytest.mark.parametrize(("near", "n_tried"), [(0.0, 2 + 4), (np.inf, 4 + 4)])
def test_values_between_hopeless_ones_are_not_tried(monkeypatch, near, n_tried):
    """The first column matters where it is long, the second one does not matter at all."""
    monkeypatch.setattr(module, "NEAR", near)
    model, progress = make_model(lambda X: X[:, 1]), Progress()
    theta, points = np.array([np.log(4.0), LONG, LONG, LONG]), evaluated(model, [LONG] * 3).points
    values = np.log([0.03, 0.06, 0.1, 3.0]), np.log([1.0, 2.0, 3.0, 6.0])
    alternatives = dict(zip((1, 2), values, strict=True))
    start = Start(theta, model.initial_state(), points=points)
    with_shorter_lengths(model, start, alternatives, progress, 10)
    assert len(progress.history()["n_samples"]) == 1 + n_tried


def test_length_scales_that_are_all_long_are_not_pruned():
    model, progress = make_model(fast_and_slow), Progress()
    best = evaluated(model, [LONG, LONG, LONG])
    assert bring_back(model, best, ALTERNATIVES, progress) is None
    assert not progress.history()["n_samples"].size


@pytest.mark.parametrize("most", [1, 2])
def test_of_very_many_pruned_columns_the_most_promising_are_tried(monkeypatch, most):
    """The bound rises with the inverse square of the second length scale, not with the third."""
    monkeypatch.setattr(module, "MOST_COLUMNS", most)
    model, progress = make_model(lambda X: X[:, 0] + 0.5 * X[:, 1] ** 2 - 1.0), Progress()
    best = evaluated(model, [SHORT[1], LONG, LONG])
    theta = bring_back(model, best, ALTERNATIVES, progress)
    assert theta[2] in SHORT
    np.testing.assert_array_equal(theta[[0, 1, 3]], best.theta[[0, 1, 3]])
    assert len(progress.history()["n_samples"]) == 1 + most * len(SHORT)


def test_a_stop_ends_the_trials():
    model, progress = make_model(fast_and_slow), Progress()
    progress.stopped = True
    best = evaluated(model, [LONG, SHORT[1], LONG])
    assert bring_back(model, best, ALTERNATIVES, progress) is None


@pytest.mark.parametrize(("share", "expected"), [(0.0, [1, 2]), (0.5, [1])])
def test_length_scales_that_gain_little_beside_the_best_one_stay_long(share, expected):
    model = make_model(lambda X: X[:, 0] + 0.7 * X[:, 1])
    theta, states = np.array([np.log(4.0), LONG, LONG, LONG]), model.initial_state()
    points = evaluated(model, [SHORT[0]] * 3).points
    progress = Progress()
    start = Start(theta, states, points=points)
    found = with_shorter_lengths(model, start, ALTERNATIVES, progress, 10, share)
    assert [k for k in range(4) if found[k] != theta[k]] == expected
    assert np.isin(found[expected], SHORT).all()
    assert len(progress.history()["n_samples"]) == 1 + 3 * len(SHORT)


def test_a_start_that_cannot_be_evaluated_is_left_for_values_that_can(monkeypatch):
    model = make_model(fast_and_slow)
    theta, states = np.array([np.log(4.0), LONG, LONG, LONG]), model.initial_state()
    points, evaluate = evaluated(model, [SHORT[0]] * 3).points, model.evaluate

    def fails_at(fails):
        def evaluate_or_fail(theta, *args, **options):
            if fails(theta):
                raise np.linalg.LinAlgError
            return evaluate(theta, *args, **options)

        monkeypatch.setattr(model, "evaluate", evaluate_or_fail)
        start = Start(theta, states, points=points)
        return with_shorter_lengths(model, start, ALTERNATIVES, Progress(), 10, 0.5)

    found = fails_at(lambda other: np.array_equal(other, theta))
    assert (found[1:] < LONG).all()
    assert fails_at(lambda other: True) is None


def test_a_fit_that_starts_with_a_pruned_column_finds_it():
    model = make_model(fast_and_slow)
    start = np.array([np.log(4.0), LONG, SHORT[1], SHORT[1]])
    without, found = (
        fit(
            model,
            StartOptions([start]),
            SELECTOR,
            settings_of(BOUNDS, 60, 3, shorter_lengths=values),
        ).best
        for values in (None, ALTERNATIVES)
    )
    assert without.theta[1] > np.log(10.0)
    assert found.theta[1] < np.log(3.0)
    assert found.objective > without.objective + 10.0
