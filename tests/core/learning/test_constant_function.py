"""Fits of labels that a constant function explains best, and of others."""

import numpy as np
import pytest

from sparsegpc._core.learning import fit as story
from tests.core.learning.fit_cases import (
    START,
    constant_log_likelihood,
    learn,
    make_data,
    make_model,
)


def test_labels_that_do_not_depend_on_the_inputs_are_reported_as_trivial():
    """Every input stands twice, once with each label: nothing is to be learned."""
    X = np.repeat(make_data(n=30)[0], 2, axis=0)
    y = np.tile([1.0, -1.0], 30)
    result = learn(make_model(X, y), [START, np.log([1.0, 0.1])])
    assert result.trivial
    constant = constant_log_likelihood(y)
    assert constant - 0.1 < result.best.objective <= constant + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_a_search_that_is_cut_short_is_no_worse_than_a_constant(seed, monkeypatch):
    rng = np.random.RandomState(seed)
    X, y = rng.randn(60, 3), np.where(rng.uniform(size=60) < 0.3, 1.0, -1.0)
    bounds = np.array([[np.log(1e-9), 9.0], [-9.0, 9.0]])
    cut = {"bounds": bounds, "max_iter": 1, "max_reselections": 0}
    constant = constant_log_likelihood(y)
    result = learn(make_model(X, y), [np.log([1e3, 0.01])], **cut)
    assert result.trivial
    assert result.best.objective > constant - 1e-4
    monkeypatch.setattr(story._Fit, "try_constant", lambda self, theta: None)
    assert learn(make_model(X, y), [np.log([1e3, 0.01])], **cut).best.objective < constant - 1.0


def test_hyperparameters_that_are_not_learned_stay_even_if_they_are_worse_than_a_constant():
    X, y = make_data()
    start = np.log([1e3, 0.01])
    result = learn(make_model(X, np.random.RandomState(0).permutation(y)), [start], max_iter=0)
    assert result.best.objective < constant_log_likelihood(y)
    np.testing.assert_array_equal(result.best.theta, start)


def test_random_labels_end_near_the_constant_model():
    rng = np.random.RandomState(3)
    X, y = rng.randn(100, 4), np.where(rng.uniform(size=100) < 0.3, 1.0, -1.0)
    result = learn(make_model(X, y), [START, np.log([1.0, 4.0])])
    constant = constant_log_likelihood(y)
    assert abs(result.best.objective - constant) < 1.0


def test_a_signal_is_not_trivial():
    result = learn(make_model())
    assert not result.trivial
    assert result.best.objective > constant_log_likelihood(make_data()[1]) + 5.0


def test_only_the_best_start_is_searched_again_with_another_line_search(monkeypatch):
    """A start without a Hessian is that of a search by L-BFGS-B."""
    starts = [START, np.log([5.0, 0.3]), np.log([0.3, 3.0])]
    fit_from, begun = story.fit_from, []

    def recorded(model, start, *args):
        begun.append((start.theta, start.hessian is not None))
        return fit_from(model, start, *args)

    monkeypatch.setattr(story, "fit_from", recorded)
    X = np.repeat(make_data(n=30)[0], 2, axis=0)
    assert learn(make_model(X, np.tile([1.0, -1.0], 30)), starts).trivial
    assert [is_learned for _, is_learned in begun[:4]] == [True, False, True, True]
    np.testing.assert_array_equal([theta for theta, _ in begun[1:4]], starts)
