"""Learning from all rows in shuffled batches."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import norm

from sparsegpc._core.minibatches.epochs import epochs, solve_best
from sparsegpc._core.optimisers.adam import cosine_annealing
from tests.core.minibatches.batch_cases import (
    SCALED_RBF,
    SUM_SLACK,
    batches,
    first_state,
    posterior_of,
    wave,
)


def _recorded(n, n_epochs, batch_size):
    """Return the calls that `epochs` makes of a model, and the states after the epochs."""
    calls = []

    def step(state, X, y, weight, *, n_total, learning_rate):
        assert_array_equal(y, 10 * X[:, 0])
        assert_array_equal(weight, X[:, 0] + 1)
        calls.append(SimpleNamespace(rows=X[:, 0], n_total=n_total, rate=learning_rate))
        return state + 1

    rows = np.arange(n)
    states = epochs(
        SimpleNamespace(step=step),
        0,
        rows[:, None],
        10 * rows,
        rows + 1,
        n_epochs=n_epochs,
        batch_size=batch_size,
        rng=np.random.RandomState(0),
        learning_rate=0.4,
    )
    return calls, list(states)


@given(n=st.integers(1, 40), n_epochs=st.integers(0, 3), batch_size=st.integers(1, 50))
def test_each_epoch_visits_each_row_once(n, n_epochs, batch_size):
    calls, states = _recorded(n, n_epochs, batch_size)
    n_batches = -(-n // batch_size)
    assert len(calls) == n_epochs * n_batches
    assert states == [(epoch + 1) * n_batches for epoch in range(n_epochs)]
    for k in range(n_epochs):
        epoch = calls[k * n_batches : (k + 1) * n_batches]
        assert_array_equal(np.sort(np.concatenate([call.rows for call in epoch])), np.arange(n))
        sizes = [len(call.rows) for call in epoch]
        assert max(sizes) - min(sizes) <= 1
        assert all((np.diff(call.rows) > 0).all() for call in epoch)
    shares = np.arange(len(calls)) / max(len(calls), 1)
    assert_allclose(
        [call.rate for call in calls], [cosine_annealing(0.4, share) for share in shares]
    )
    assert all(call.n_total == n for call in calls)


def test_epochs_differ_in_their_order():
    calls, _ = _recorded(20, 2, 20 // 2)
    assert not np.array_equal(calls[0].rows, calls[2].rows)


@SUM_SLACK
@pytest.mark.parametrize("learn_Z", [False, True])
def test_learning_comes_close_to_the_best_collapsed_bound(slack, learn_Z):
    X, y, weight = wave()
    model = batches(SCALED_RBF, slack=slack, learn_Z=learn_Z)
    start = first_state(model, np.zeros(2), 1.0, np.linspace(-3.0, 3.0, 10)[:, None])
    rng = np.random.RandomState(0)
    *_, state = epochs(model, start, X, y, weight, n_epochs=20, batch_size=50, rng=rng)
    learned = model.solve(state, X, y, weight, 64)
    assert_array_equal(learned.theta, state.theta)
    assert learned.n_seen == state.n_seen == 20 * 400
    assert learned.n_rows == 400

    def loss(theta):
        here = first_state(model, theta[:-1], np.exp(theta[-1]), start.Z)
        return -posterior_of(model, model.step(here, X, y, weight)).bound

    best = -minimize(loss, start.theta, method="Nelder-Mead", options={"fatol": 0.01}).fun
    bound = posterior_of(model, learned).bound
    assert bound > best - 2.0
    if not learn_Z:
        assert bound <= best + 0.02
    assert_allclose(np.exp(learned.theta[-1]), 0.04, rtol=0.25)


@SUM_SLACK
def test_a_search_that_goes_astray_ends_at_its_beginning_or_at_a_constant(slack):
    X, y, weight = wave(60)
    bounds = np.array([[-20.0, 9.0], [-9.0, 9.0], [-9.0, 9.0]])
    model = batches(SCALED_RBF, slack=slack, bounds=bounds)
    Z = np.linspace(-3.0, 3.0, 10)[:, None]
    constant = norm.logpdf(y, y.mean(), y.std()).sum()
    good, bad = (first_state(model, np.zeros(2), noise, Z) for noise in (0.04, 1e-3))
    bad = bad._replace(theta=np.array([5.0, -5.0, -8.0]))

    def end(state, start):
        solved, astray = solve_best(model, state, start, X, y, weight, 16)
        return solved, astray, posterior_of(model, solved).bound

    solved, astray, bound = end(good, bad)
    assert not astray
    assert not model.is_trivial(solved, y, weight)
    assert_array_equal(solved.theta, good.theta)
    solved, astray, beginning = end(bad, good)
    assert astray
    assert_array_equal(solved.theta, good.theta)
    assert_allclose(beginning, bound, rtol=1e-12)
    solved, astray, bound = end(bad, bad)
    assert astray
    assert model.is_trivial(solved, y, weight)
    assert_allclose(bound, constant, rtol=1e-6)
    assert_allclose(solved.theta[-1], 2.0 * np.log(y.std()), rtol=1e-9)
