"""Minibatches: windows of rows, and moves of hyperparameters and points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import inv, solve
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.kernels.algebra import FiniteDifferenceKernel, Scaled
from sparsegpc._core.kernels.families import Constant, Matern52
from sparsegpc._core.optimisers.adam import inverse_time_decay
from sparsegpc._core.rows import blocks
from tests.core.helpers import free
from tests.core.minibatches.batch_cases import (
    NOISE,
    SCALED_RBF,
    SUM_SLACK,
    Data,
    assert_same_posterior,
    batches,
    first_state,
    posterior_of,
    wave,
)


def test_a_step_in_a_full_window_is_a_natural_gradient_step():
    """Of length b / N, towards what the batch says of N rows: B <- (1 - rho) B + rho (...)."""
    data = Data(7, fit_prior_mean=False)
    rows, rho = slice(0, 6), 6 / 24
    old = data.step(data.start, n_total=24)
    new = data.step(old, rows, n_total=24)
    V, scale = data.features().V(0)[:, rows], 24 / 6
    p = data.weight[rows] / NOISE
    before, after = posterior_of(data.model, old), posterior_of(data.model, new)
    B = (1 - rho) * before.LB @ before.LB.T + rho * (np.eye(5) + scale * (V * p) @ V.T)
    h = (1 - rho) * before.LB @ before.LB.T @ before.w + rho * scale * V @ (p * data.y[rows])
    assert new.n_rows == 24
    assert_allclose(after.LB @ after.LB.T, B, rtol=1e-9)
    assert_allclose(B @ after.w, h, rtol=1e-8, atol=1e-9)


@given(
    sizes=st.lists(st.integers(1, 24), min_size=1, max_size=8),
    rate=st.sampled_from([0.0, 0.05, 0.5]),
    n_total=st.sampled_from([None, 5, 30]),
)
def test_no_row_counts_more_than_once_at_a_visit(sizes, rate, n_total):
    """With unit weights the total weight in the window is its number of rows."""
    data = Data(1)
    weight, state = np.ones(24), data.start
    for size in sizes:
        before = state.n_rows
        state = data.model.step(
            state,
            data.X[:size],
            data.y[:size],
            weight[:size],
            n_total=n_total,
            learning_rate=rate,
        )
        assert size <= state.n_rows <= before + size
        assert_allclose(state.sums[0].precision * np.exp(state.theta[-1]), state.n_rows, rtol=1e-9)
    assert state.n_seen == sum(sizes)


@SUM_SLACK
def test_what_a_step_is_given_stays_as_it_was(slack):
    data = Data(2, slack=slack, learn_Z=True)
    state = data.step(data.start, learning_rate=0.1)
    parts = [part for part in (*state.sums[0], *state[:3], *state.adam) if np.ndim(part)]
    copies = [np.array(part) for part in parts]
    # The arrays of `Data` are read-only already.
    data.step(state, learning_rate=0.1)
    for part, copy in zip(parts, copies, strict=True):
        assert_array_equal(part, copy)


def test_blocks_and_threads_change_nothing(monkeypatch):
    X, y, weight = wave()
    states = []
    for block, options in ((400, {}), (90, {}), (90, {"n_threads": 2}), (90, {"memory": 0})):
        monkeypatch.setattr(blocks, "SMALLEST_BLOCK", block)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 0)
        model = batches(SCALED_RBF, learn_Z=True, **options)
        state = first_state(model, np.zeros(2), 0.1, np.linspace(-3.0, 3.0, 8)[:, None])
        for _ in range(3):
            state = model.step(state, X, y, weight, learning_rate=0.1)
        states.append(state)
    for other in states[1:]:
        assert_allclose(other.theta, states[0].theta, rtol=1e-7)
        assert_allclose(other.Z, states[0].Z, rtol=1e-7)


def test_kernel_that_needs_jitter_is_learned_all_the_same():
    X, y, weight = wave()
    rbf = SCALED_RBF.kernel

    def spoiled(params, Z, X):
        """Two equal points have a covariance above their variance."""
        K = rbf.evaluate(params, Z, X)[0]
        return K - 1e-8 * np.eye(len(Z)) if Z is X else K

    kernel = FiniteDifferenceKernel(spoiled, rbf.diag, 2, "spoiled")
    Z = np.linspace(-3.0, 3.0, 10)[[*range(10), 0], None]
    states = []
    for node, points in ((rbf, Z[:-1]), (kernel, Z)):
        model = batches(free(node, [0.0, 0.0]))
        state = first_state(model, np.zeros(2), 0.1, points)
        for _ in range(10):
            state = model.step(state, X, y, weight, n_total=400, learning_rate=0.05)
        states.append(state)
    assert states[0].jitter == 0.0
    assert states[1].jitter > 1e-9
    assert_allclose(states[1].theta, states[0].theta, rtol=1e-2, atol=1e-2)


@SUM_SLACK
def test_first_step_is_as_long_as_the_learning_rate_and_goes_uphill(slack):
    data = Data(9, slack=slack, learn_Z=True)
    state = data.step(data.start, n_total=24, learning_rate=1e-3)
    posterior = data.collapsed()
    by_theta, by_Z = data.gradient(posterior)
    assert_allclose(state.theta - data.start.theta, 1e-3 * np.sign(by_theta), rtol=1e-6)
    moves = (state.Z - data.start.Z) / (data.start.Z.std(axis=0) * np.sign(by_Z))
    assert_allclose(moves, moves[0, 0], rtol=1e-6)
    assert 0.0 < moves[0, 0] < 1e-3


def test_batches_count_in_the_slope_whatever_their_size():
    """The mean gradient is per row, or a large batch would hide the small ones."""
    data = Data(9)
    rows = slice(0, 6)
    once = data.step(data.start, rows, n_total=6, learning_rate=1e-3)
    alone = Data(9)
    alone.problem = data.problem._replace(X=data.X[rows])
    alone.X, alone.y, alone.weight = data.X[rows], data.y[rows], data.weight[rows]
    by_theta, _ = alone.gradient(alone.collapsed())
    assert_allclose(once.adam.mean[: len(by_theta)], 0.1 * by_theta / 6, rtol=1e-9, atol=1e-12)


def test_small_batches_move_together():
    """By the sum of their gradients, each at the q(u) of the rows up to there."""
    data = Data(9, learn_Z=True)
    state, total = data.start, 0.0
    for rows in (slice(0, 10), slice(10, 24)):
        assert state.theta is data.start.theta
        assert state.Z is data.start.Z
        after = data.step(state, rows)
        by_theta, by_Z = data.gradient(posterior_of(data.model, after), rows)
        total += np.append(by_theta, by_Z * 0.3 * data.start.Z.std(axis=0))
        state = data.step(state, rows, learning_rate=0.01, rows_per_move=24)
    assert state.adam.n_steps == 1
    assert state.n_rows == state.n_seen == 24
    assert_allclose(state.adam.mean, 0.1 * total / 24, rtol=1e-8, atol=1e-10)
    moves = state.theta - data.start.theta
    assert_allclose(moves, 0.01 * np.sign(total[: len(moves)]), rtol=1e-6)
    # The next rows begin a new sum.
    state = data.step(state, slice(0, 10), learning_rate=0.01, rows_per_move=24)
    assert state.n_gradient == 10
    assert state.adam.n_steps == 1


def test_points_move_only_if_asked():
    data = Data(9)
    state = data.step(data.start, learning_rate=0.1)
    assert state.Z is data.start.Z
    assert not np.array_equal(state.theta, data.start.theta)


def test_without_a_learning_rate_nothing_moves():
    data = Data(9, learn_Z=True)
    state = data.step(data.start)
    assert state.theta is data.start.theta
    assert state.Z is data.start.Z
    assert state.adam.n_steps == 0


def test_sums_of_points_that_are_all_rows_are_carried_over_exactly():
    data = Data(12, n=8, kernel=Scaled(Constant(), Matern52(2)))
    old = data.step(first_state(data.model, data.problem.theta, NOISE, data.X))
    theta = old.theta + np.array([0.3, 0.4, -0.5, 0.2])
    moved = data.model.carry(old, theta, old.Z)
    fresh = data.step(first_state(data.model, theta[:-1], np.exp(theta[-1]), data.X))
    ours, theirs = posterior_of(data.model, moved), posterior_of(data.model, fresh)
    assert_same_posterior(ours, theirs, rtol=1e-5, atol=1e-7, bound=False)


@pytest.mark.parametrize("moves_Z", [False, True])
def test_carried_sums_are_sites_on_the_function_at_the_points(moves_Z):
    """The posterior of f(Z') by dense algebra, from Gaussian sites on f(Z) and no features."""
    data = Data(13, fit_prior_mean=False)
    kernel, old = data.model.kernel, data.step(data.start)
    rng = np.random.RandomState(0)
    theta = old.theta + 0.3 * rng.randn(len(old.theta))
    Z = old.Z + 0.2 * rng.randn(*old.Z.shape) if moves_Z else old.Z
    new = data.model.carry(old, theta, Z)

    to_f = inv(old.Luu)
    ratio = np.exp(old.theta[-1] - theta[-1])
    site_precision = ratio * to_f.T @ old.sums[0].VpV @ to_f
    site_shift = ratio * to_f.T @ old.sums[0].Vb
    K = kernel.value(theta[:-1], Z, Z) + new.jitter * np.mean(kernel.diag(theta[:-1], Z)) * np.eye(
        5
    )
    between = kernel.value(theta[:-1], old.Z, Z) if moves_Z else K
    interpolation = between @ inv(K)
    precision = inv(K) + interpolation.T @ site_precision @ interpolation
    mean = solve(precision, interpolation.T @ site_shift)

    posterior = posterior_of(data.model, new)
    spread = solve(posterior.LB, new.Luu.T)
    assert_allclose(new.Luu @ posterior.w, mean, rtol=1e-6, atol=1e-8)
    assert_allclose(spread.T @ spread, inv(precision), rtol=1e-6, atol=1e-8)


def test_staying_where_one_is_changes_nothing():
    data = Data(14)
    old = data.step(data.start)
    new = data.model.carry(old, old.theta, old.Z)
    assert_same_posterior(posterior_of(data.model, new), posterior_of(data.model, old), rtol=1e-9)


def test_limits_of_hyperparameters_are_kept_and_not_remembered():
    n_params = len(Data(2).start.theta)
    bounds = np.tile([-0.1, 0.1], (n_params, 1))
    data = Data(2, bounds=bounds)
    assert (np.abs(data.start.theta) <= 0.1).all()
    state = data.start
    for _ in range(30):
        state = data.step(state, n_total=24, learning_rate=0.1)
        assert (np.abs(state.theta) <= 0.1).all()
    stuck = np.abs(state.theta) == 0.1
    assert stuck.any()
    # Of the steps since the limit was met nothing is left in the mean but its decay.
    assert (np.abs(state.adam.mean[:n_params][stuck]) < 0.1).all()
    after = data.step(state, n_total=24, learning_rate=0.1)
    old, new = (np.abs(s.adam.mean[:n_params][stuck]) for s in (state, after))
    assert_allclose(new, 0.9 * old, rtol=1e-9)


def _predicted(model, state, X):
    return model.posterior(state).moments(X)[0][0]


def test_a_stream_is_learned_as_it_comes():
    model = batches(SCALED_RBF)
    X, y, weight = wave(3000)
    state = first_state(model, np.zeros(2), 0.3, np.linspace(-3.0, 3.0, 12)[:, None])
    for step, rows in enumerate(np.split(np.arange(3000), 60)):
        rate = inverse_time_decay(0.1, step)
        state = model.step(state, X[rows], y[rows], weight[rows], learning_rate=rate)
    assert_allclose(np.exp(state.theta[-1]), 0.04, rtol=0.15)
    new = np.linspace(-2.8, 2.8, 50)[:, None]
    assert_allclose(_predicted(model, state, new), np.sin(2.0 * new[:, 0]), atol=0.12)


def test_a_short_memory_follows_a_function_that_changes():
    X, y, weight = wave(1000)
    y = np.where(np.arange(1000) < 500, y, -y)
    new = np.linspace(-2.8, 2.8, 50)[:, None]
    errors = []
    for memory in (None, 100):
        model = batches(SCALED_RBF)
        state = first_state(model, np.array([0.0, -0.5]), 0.04, np.linspace(-3.0, 3.0, 12)[:, None])
        for rows in np.split(np.arange(1000), 40):
            state = model.step(state, X[rows], y[rows], weight[rows], n_total=memory)
        errors.append(np.abs(_predicted(model, state, new) + np.sin(2.0 * new[:, 0])).max())
    assert errors[1] < 0.2 < 0.8 < errors[0]


def test_slacks_that_are_sums_over_rows_are_told_by_name():
    assert sums_over_rows(SLACKS) == ("tight", "standard")
    assert sums_over_rows(("spherical", "standard")) == ("standard",)


def test_posterior_is_that_of_its_functions():
    data = Data(3)
    state = data.step(data.start)
    posterior = data.model.posterior(state)
    assert posterior.kernel is data.model.kernel
    assert_array_equal(posterior.theta, state.theta[: data.model.kernel.n_params])
    assert posterior.Z is state.Z
    assert posterior.Luu is state.Luu
    assert posterior.jitter == state.jitter
    (ours,), (theirs,) = posterior.functions, data.model.posteriors(state)
    assert_array_equal(ours.w, theirs.w)
    assert ours.bound == theirs.bound
