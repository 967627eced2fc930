"""How inducing points are asked for."""

import numpy as np
import pytest

from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.rows.blocks import row_blocks
from sparsegpc._core.selection import factor
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import (
    CandidateRows,
    FixedSelector,
    InducingPoints,
    PivotedSelector,
)
from tests.core.helpers import read_only, selector_of

THETA = np.log([2.0, 0.5])
KERNEL = FreeKernel(Scaled(Constant(), RBF()), THETA, np.ones(2, dtype=bool))


def make_rows(seed=0, n=40, total_weight=None, **row_options):
    rng = np.random.RandomState(seed)
    X = read_only(np.sort(rng.uniform(-3.0, 3.0, size=(n, 1)), axis=0))
    return CandidateRows(X, float(n) if total_weight is None else total_weight, row_options)


def greedy(K, gain, n_points):
    """Greedy pivots by dense Schur complements."""
    indices = []
    for _ in range(n_points):
        chosen = K[np.ix_(indices, indices)]
        half = np.linalg.solve(chosen, K[indices]) if indices else np.zeros((0, len(K)))
        residual = K.diagonal() - np.einsum("mn,mn->n", K[indices], half)
        gains = gain * residual
        # Of rows that agree to rounding the first one counts.
        indices.append(int(np.argmax(gains >= (1.0 - 1e-12) * gains.max())))
    return indices


def dense_kernel(X):
    return 2.0 * np.exp(-0.5 * ((X - X.T) / 0.5) ** 2)


def test_points_are_the_rows_of_their_indices():
    rows = make_rows()
    chosen = PivotedSelector(argmax, 5)(KERNEL, THETA, rows, np.linspace(0.1, 0.3, 40))
    np.testing.assert_array_equal(chosen.Z, rows.X[chosen.indices])
    assert chosen.Z.shape == (5, 1)


def test_by_precision_weighs_residuals_and_greedy_variance_does_not():
    """With precise sites on the left only, one rule stays there and the other spreads out."""
    rows = make_rows()
    left = rows.X[:, 0] < 0.0
    precision = np.where(left, 1.0, 1e-6)
    K = dense_kernel(rows.X)
    by_precision = PivotedSelector(argmax, 4)(KERNEL, THETA, rows, precision)
    by_variance = PivotedSelector(argmax, 4, by_precision=False)(KERNEL, THETA, rows, precision)
    assert by_precision.indices.tolist() == greedy(K, precision, 4)
    assert by_variance.indices.tolist() == greedy(K, np.ones(40), 4)
    assert np.all(left[by_precision.indices])
    assert not np.all(left[by_variance.indices])


@pytest.mark.parametrize("by_precision", [True, False])
def test_costs_are_those_of_the_precisions_under_either_rule(by_precision):
    rows = make_rows()
    precision = np.linspace(0.05, 0.25, 40)
    choice = PivotedSelector(argmax, 4, by_precision=by_precision)
    selection = choice.selection(KERNEL, THETA, rows, precision)
    np.testing.assert_allclose(selection.traces[0], 2.0 * precision.sum(), rtol=1e-12)


def test_tolerance_is_in_nats_per_unit_of_weight():
    precision = np.full(40, 0.2)
    sizes = {}
    for weight in (1.0, 100.0):
        rows = make_rows(total_weight=40.0 * weight)
        choice = PivotedSelector(argmax, 40, 1e-3)
        selection = choice.selection(KERNEL, THETA, rows, precision)
        cost = 0.5 * 0.2 * 2.0 / weight
        np.testing.assert_allclose(selection.costs[0], cost, rtol=1e-12)
        assert selection.costs[-1] <= 1e-3
        sizes[weight] = len(selection.indices)
    assert sizes[100.0] < sizes[1.0] < 40


def test_chosen_points_follow_the_kernel():
    rows = make_rows()
    choose = PivotedSelector(argmax, 6)
    precision = np.linspace(0.1, 0.3, 40)
    short = choose(KERNEL, np.log([2.0, 0.1]), rows, precision)
    long = choose(KERNEL, np.log([2.0, 3.0]), rows, precision)
    assert not np.array_equal(short.indices, long.indices)


def test_sampled_points_follow_the_generator():
    rows, precision = make_rows(), np.full(40, 0.2)

    def draw(seed):
        choose = selector_of("sample", 6, np.random.RandomState(seed))
        return choose(KERNEL, THETA, rows, precision).indices

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


def test_threads_and_memory_of_the_rows_serve_the_selection(monkeypatch):
    seen = []

    def recorded(*args, **options):
        seen.append(options)
        return row_blocks(*args, **options)

    monkeypatch.setattr(factor, "row_blocks", recorded)
    rows = make_rows(n_threads=3, memory=12345)
    PivotedSelector(argmax, 5)(KERNEL, THETA, rows, np.ones(40))
    assert seen
    assert all(options == {"n_threads": 3, "memory": 12345} for options in seen)


def test_given_order_is_followed():
    order = np.array([30, 2, 17, 9])
    choose = selector_of("order", 3, order=order)
    chosen = choose(KERNEL, THETA, make_rows(), np.full(40, 0.2))
    np.testing.assert_array_equal(chosen.indices, order[:3])


def test_given_points_are_returned_whatever_the_rows():
    Z = np.array([[0.1], [5.0]])
    choose = FixedSelector(Z)
    chosen = choose(KERNEL, THETA, make_rows(), np.full(40, 0.2))
    np.testing.assert_array_equal(chosen.Z, Z)
    assert chosen.indices is None
    assert choose.fixed


def test_a_limit_lowers_the_number_of_points_and_never_raises_it():
    choose = PivotedSelector(argmax, 5)
    assert choose.limited(3).n_points == 3
    assert choose.limited(8).n_points == 5
    assert choose.n_points == 5
    chosen = choose.limited(3)(KERNEL, THETA, make_rows(), np.full(40, 0.2))
    assert len(chosen.indices) == 3


def test_points_are_equal_if_those_of_the_noise_are_too():
    Z, noise = np.array([[0.1], [5.0]]), np.array([[2.0]])
    assert InducingPoints(Z).equals(InducingPoints(Z.copy(), np.arange(2)))
    assert not InducingPoints(Z).equals(InducingPoints(Z + 1e-9))
    both = InducingPoints(Z, None, noise)
    assert both.equals(InducingPoints(Z.copy(), None, noise.copy()))
    assert not both.equals(InducingPoints(Z, None, noise + 1e-9))
    assert not both.equals(InducingPoints(Z + 1e-9, None, noise))


def test_the_order_of_points_does_not_matter():
    Z = np.random.RandomState(0).randint(0, 3, (12, 2)).astype(float)
    order = np.random.RandomState(1).permutation(12)
    assert InducingPoints(Z).equals(InducingPoints(Z[order]))
    assert not InducingPoints(Z).equals(InducingPoints(Z[order][:11]))
    assert not InducingPoints(Z).equals(InducingPoints(Z[:, ::-1]))
    both = InducingPoints(Z, None, Z[:4])
    assert both.equals(InducingPoints(Z, None, Z[3::-1]))
    assert not both.equals(InducingPoints(Z))
