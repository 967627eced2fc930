"""Selection against LAPACK's pivoted Cholesky, dense residuals, and enumerated laws."""

from fractions import Fraction
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from scipy.linalg.lapack import dpstrf
from scipy.stats import chi2

from sparsegpc._core.rows.blocks import RowBlocks, row_blocks
from sparsegpc._core.selection import factor as factors
from sparsegpc._core.selection import pivots, rules
from tests.core.helpers import RULES, rule_of

seeds = st.integers(0, 10_000)


def read_only(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays[0] if len(arrays) == 1 else arrays


def blocks_of(block_rows, X, n_columns, **options):
    return RowBlocks(len(X), n_columns, block_rows=block_rows, **options)


def numbered(n):
    """Rows that hold their own number."""
    return read_only(np.arange(n)[:, None])


def covariance_of(K):
    return lambda Z, X: K[np.ix_(Z[:, 0], X[:, 0])]


def rbf(X, length_scale):
    squares = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    return read_only(np.exp(-0.5 * squares / length_scale**2))


def random_covariance(seed, n, rank):
    """A covariance of the given rank whose diagonal has no ties, and precisions."""
    rng = np.random.RandomState(seed)
    A = rng.randn(n, rank) * rng.uniform(0.5, 2.0, size=(n, 1))
    return read_only(A @ A.T, rng.uniform(0.1, 3.0, size=n))


def select(*args, rule, rng=None, order=None, **options):
    rule = rule if callable(rule) else rule_of(rule, rng, order)
    return pivots.select(*args, rule=rule, **options)


def run(K, precision=None, n_points=None, rule="argmax", **options):
    n = len(K)
    precision = read_only(np.ones(n)) if precision is None else precision
    n_points = n if n_points is None else n_points
    diag = read_only(K.diagonal().copy())
    return select(covariance_of(K), numbered(n), diag, precision, n_points, rule=rule, **options)


def lapack_pivots(K, n_points):
    _, pivots, _, _ = dpstrf(np.array(K, order="F"), lower=1)
    return pivots[:n_points] - 1


def dense_residual(K, indices):
    """Diagonal of the Schur complement of the chosen rows, all eliminated at once."""
    if len(indices) == 0:
        return K.diagonal().copy()
    # A general solve loses the small residuals of nearly dependent rows.
    half = np.linalg.solve(np.linalg.cholesky(K[np.ix_(indices, indices)]), K[indices])
    return K.diagonal() - np.einsum("mn,mn->n", half, half)


@pytest.mark.parametrize("length_scale", [0.3, 1.0])
def test_argmax_with_unit_precision_has_the_pivots_of_lapack(rng, length_scale):
    K = rbf(rng.randn(60, 2), length_scale)
    selection = run(K, n_points=20)
    np.testing.assert_array_equal(selection.indices, lapack_pivots(K, 20))


@given(seeds)
def test_argmax_has_the_pivots_of_lapack_on_the_kernel_scaled_by_precisions(seed):
    K, precision = random_covariance(seed, 25, 25)
    scale = np.sqrt(precision)
    selection = run(K, precision, n_points=15)
    np.testing.assert_array_equal(selection.indices, lapack_pivots(scale[:, None] * K * scale, 15))


@pytest.mark.parametrize("tol", [0.0, 1e-9])
@pytest.mark.parametrize("rule", RULES)
def test_a_short_selection_is_the_start_of_a_long_one(rng, rule, tol):
    K, order = rbf(rng.randn(150, 3), 0.8), rng.permutation(150)
    long, *others = (
        run(K, n_points=m, rule=rule, order=order, tol=tol, rng=np.random.RandomState(1))
        for m in (120, 1, 20, 33, 90)
    )
    for short in others:
        m = len(short.indices)
        np.testing.assert_array_equal(short.indices, long.indices[:m])
        np.testing.assert_allclose(short.traces, long.traces[: m + 1], rtol=1e-12)
        np.testing.assert_allclose(short.costs, long.costs[: m + 1], rtol=1e-12)


@given(seeds, st.sampled_from(RULES), st.sampled_from([4, 12, 30]))
def test_traces_and_costs_along_the_path_are_those_of_dense_residuals(seed, rule, rank):
    K, precision = random_covariance(seed, 30, rank)
    rng = np.random.RandomState(seed)
    total_weight = 47.0
    selection = run(
        K, precision, 20, rule, rng=rng, order=rng.permutation(30), total_weight=total_weight
    )
    assert len(selection.indices) >= min(rank, 20)
    # An unlucky order has small pivots, which lift the rounding of the others above the floor.
    assert len(selection.indices) == min(rank, 20) or rule == "order"
    assert len(set(selection.indices)) == len(selection.indices)
    atol = (1e-7 if rule == "order" else 1e-9) * (precision * K.diagonal()).sum()
    for m in range(min(rank, 20) + 1):
        cost = precision * np.maximum(dense_residual(K, selection.indices[:m]), 0.0)
        np.testing.assert_allclose(selection.traces[m], cost.sum(), rtol=1e-7, atol=atol)
        expected = 0.5 * cost.sum() / total_weight
        np.testing.assert_allclose(selection.costs[m], expected, rtol=1e-7, atol=atol)
    assert np.all(np.diff(selection.costs) < 0.0)
    assert np.all(np.diff(selection.traces) < 0.0)


def test_costs_are_per_row_without_a_total_weight(rng):
    K, precision = random_covariance(3, 20, 20)
    free = run(K, precision, 5)
    weighted = run(K, precision, 5, total_weight=10.0)
    np.testing.assert_allclose(weighted.costs, 2.0 * free.costs, rtol=1e-14)
    np.testing.assert_array_equal(weighted.traces, free.traces)


@given(seeds, st.floats(1e-3, 0.1), st.sampled_from(RULES))
def test_tolerance_is_reached_by_the_returned_set_and_not_by_one_less(seed, tol, rule):
    rng = np.random.RandomState(seed)
    x, precision = rng.randn(40), rng.uniform(0.1, 2.0, size=40)
    # A rough kernel: its residuals are far from rounding, in whatever order rows are chosen.
    K = np.exp(-np.abs(x[:, None] - x) / 0.7)
    selection = run(K, precision, 40, rule, tol=tol, rng=rng, order=rng.permutation(40))

    def dense_cost(indices):
        return 0.5 * (precision * dense_residual(K, indices)).mean()

    margin = 1e-6 * tol + 1e-12
    assert dense_cost(selection.indices) <= tol + margin
    assert len(selection.indices) == 1 or dense_cost(selection.indices[:-1]) > tol - margin
    assert selection.costs[-1] <= tol
    assert np.all(selection.costs[:-1] > tol)


@pytest.mark.parametrize("rule", RULES)
def test_enormous_tolerance_still_returns_one_point(rng, rule):
    K = rbf(rng.randn(30, 2), 1.0)
    selection = run(K, n_points=10, rule=rule, tol=1e10, rng=rng, order=np.arange(30))
    assert len(selection.indices) == 1
    assert len(selection.traces) == len(selection.costs) == 2
    assert selection.costs[1] < selection.costs[0]


@pytest.mark.parametrize("rule", RULES)
def test_one_point(rng, rule):
    K, precision = random_covariance(1, 20, 20)
    order = np.array([7, 3])
    selection = run(K, precision, 1, rule, rng=rng, order=order)
    assert len(selection.indices) == 1
    if rule == "argmax":
        assert selection.indices[0] == np.argmax(precision * K.diagonal())
    if rule == "order":
        assert selection.indices[0] == 7


@pytest.mark.parametrize("n_points", [25, 40])
@pytest.mark.parametrize("rule", RULES)
def test_as_many_points_as_rows_or_more_chooses_every_row_of_a_full_rank_kernel(
    rng, rule, n_points
):
    K, precision = random_covariance(2, 25, 60)
    selection = run(K, precision, n_points, rule, rng=rng, order=rng.permutation(25))
    np.testing.assert_array_equal(np.sort(selection.indices), np.arange(25))
    assert selection.costs[-1] < 1e-12


@pytest.mark.parametrize("rule", RULES)
def test_equal_rows_are_never_chosen_twice(rng, rule):
    X = np.repeat(np.arange(12.0)[:, None], 5, axis=0)[rng.permutation(60)]
    K = rbf(X, 0.5)
    selection = run(K, n_points=60, rule=rule, rng=rng, order=rng.permutation(60))
    assert len(selection.indices) == 12
    assert len(np.unique(X[selection.indices])) == 12


@pytest.mark.parametrize("rule", RULES)
def test_a_diagonal_that_disagrees_with_the_columns_by_rounding_is_survived(rng, rule):
    """Kernels compute both by different formulas, and spanned rows then seem to be left over."""
    x = np.repeat(np.arange(3.0), 2)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2)
    calls = []

    def covariance(Z, X):
        calls.append(len(Z))
        assert len(calls) < 100, "no progress"
        return covariance_of(K)(Z, X)

    diag = K.diagonal() * (1.0 + 1e-9)
    selection = select(
        covariance, numbered(6), diag, np.ones(6), 6, rule=rule, rng=rng, order=np.arange(6)
    )
    assert set(x[selection.indices]) == {0.0, 1.0, 2.0}
    assert selection.traces[-1] < 1e-8
    if rule in ("argmax", "sample"):
        # Nothing is left at rows that were found to be spanned.
        assert selection.traces[-1] == 0.0


@pytest.mark.parametrize("rule", RULES)
def test_no_tolerance_ends_a_selection_before_its_first_point(rng, rule):
    """Where all the rows looked at first have columns of zeros, unlike their diagonal."""
    K = np.diag(np.append(np.zeros(300), np.ones(5)))
    diag = np.append(np.full(300, 1e6), np.ones(5))
    selection = select(
        covariance_of(K),
        numbered(305),
        diag,
        np.ones(305),
        1,
        rule=rule,
        rng=rng,
        order=np.arange(305),
        tol=1e9,
    )
    assert selection.indices[0] >= 300


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("value", [1e-8, 0.3, 1e8])
def test_constant_kernel_stops_at_one_point(rng, rule, value):
    K = np.full((40, 40), value)
    selection = run(K, n_points=20, rule=rule, rng=rng, order=np.arange(40))
    assert len(selection.indices) == 1
    assert selection.traces[-1] <= 1e-10 * selection.traces[0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_linear_kernel_stops_at_its_rank(rng, rule, scale):
    X = scale * rng.randn(80, 3)
    selection = run(0.7 + X @ X.T, n_points=50, rule=rule, rng=rng, order=rng.permutation(80))
    assert len(selection.indices) == 4
    assert selection.traces[-1] <= 1e-8 * selection.traces[0]


def test_gain_weight_decides_the_pivots_and_precision_the_costs(rng):
    K, precision = random_covariance(5, 30, 30)
    selection = run(K, precision, 10, gain_weight=np.ones(30))
    np.testing.assert_array_equal(selection.indices, lapack_pivots(K, 10))
    assert not np.array_equal(selection.indices, run(K, precision, 10).indices)
    expected = precision @ dense_residual(K, selection.indices)
    np.testing.assert_allclose(selection.traces[-1], expected, rtol=1e-9)


def test_gain_weight_decides_what_may_be_drawn(rng):
    K = random_covariance(6, 30, 30)[0]
    allowed = np.zeros(30)
    allowed[[3, 8, 21]] = 1.0
    selection = run(K, n_points=30, rule="sample", gain_weight=allowed, rng=rng)
    np.testing.assert_array_equal(np.sort(selection.indices), [3, 8, 21])


def test_argmax_ends_whatever_the_gains():
    K = random_covariance(6, 30, 30)[0]
    gain_weight = np.full(30, -1.0)
    gain_weight[[3, 8]], gain_weight[21], gain_weight[5] = 1.0, np.nan, 5e-324
    selection = run(1e-3 * K, n_points=30, gain_weight=gain_weight)
    assert {3, 8} <= set(selection.indices) <= {3, 5, 8}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("value", [-1e-9, np.nan])
def test_a_negative_precision_is_refused(rule, value):
    precision = np.ones(6)
    precision[4] = value
    with pytest.raises(LinAlgError, match=r"precision of a site is .* must not be negative"):
        run(np.eye(6), precision, rule=rule, rng=np.random.RandomState(0), order=np.arange(6))


@pytest.mark.parametrize("rule", RULES)
def test_a_precision_that_is_negative_by_rounding_is_zero(rule):
    precision = np.array([1.0, 2.0, 3.0, -1e-14, 4.0, 5.0])
    inputs = {"rule": rule, "order": np.arange(6)}
    found = run(np.eye(6), precision, rng=np.random.RandomState(0), **inputs)
    precision[3] = 0.0
    expected = run(np.eye(6), precision, rng=np.random.RandomState(0), **inputs)
    assert list(found.indices) == list(expected.indices)


def test_ties_of_argmax_go_to_the_first_row():
    selection = run(np.eye(6), n_points=6)
    np.testing.assert_array_equal(selection.indices, np.arange(6))


def test_order_is_followed_and_skips_spanned_rows(rng):
    X = rng.randn(10, 2)[[0, 1, 0, 2, 1, 3, 4, 5, 6, 7, 8, 9]]
    selection = run(rbf(X, 0.4), n_points=5, rule="order", order=np.array([2, 4, 0, 1, 5, 3, 9]))
    np.testing.assert_array_equal(selection.indices, [2, 4, 5, 3, 9])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_rounding_error_of_a_residual_grows_with_the_weights_of_its_prediction(scale):
    K = scale * random_covariance(3, 12, 12)[0]
    diag = K.diagonal().copy()
    factor = factors.Factor(
        covariance_of(K),
        numbered(12),
        diag,
        precision=np.ones(12),
        n_points=12,
        gain_weight=np.ones(12),
        tol=0.0,
        total_weight=12.0,
        row_options={},
    )
    chosen, rows = np.array([4, 1, 7]), np.array([0, 9, 2, 5])
    empty = np.sqrt(np.finfo(float).eps * diag[rows])
    np.testing.assert_allclose(factor.errors(factor.candidates(rows)), empty, rtol=1e-12)
    block = factor.candidates(chosen)
    for k in range(3):
        block.take(k)
    factor.append(block)
    weights = np.linalg.solve(K[np.ix_(chosen, chosen)], K[np.ix_(chosen, rows)])
    total = np.sqrt(diag[chosen]) @ np.abs(weights) + np.sqrt(diag[rows])
    errors = factor.errors(factor.candidates(rows))
    np.testing.assert_allclose(errors**2, np.finfo(float).eps * total**2, rtol=1e-9)


@pytest.mark.parametrize("rule", ["argmax", "sample"])
def test_precise_rows_get_points_until_less_variance_is_left(rule):
    """Without noise a residual of 1e-10 costs half a nat."""
    K, left = rbf(np.linspace(-1.0, 1.0, 40)[:, None], 1.0), []
    for precision in (1.0, 1e10):
        rng = np.random.RandomState(1)
        rows = run(K, np.full(40, precision), rule=rule, rng=rng).indices
        left.append(dense_residual(K, rows).max())
    assert left[1] < 2e-13 < left[0] <= 1e-10


def exact_pivots(K):
    """The variance that each row adds to the rows before it, by elimination without rounding."""
    rows, pivots = [[Fraction(float(value)) for value in row] for row in K], []
    while rows:
        first, *rest = rows
        pivots.append(float(first[0]))
        rows = [
            [a - row[0] / first[0] * b for a, b in zip(row, first, strict=True)] for row in rest
        ]
        rows = [row[1:] for row in rows]
    return np.array(pivots)


@pytest.mark.parametrize("n", [32, 60])
@pytest.mark.parametrize("length_scale", [0.3, 0.5, 1.0])
def test_rows_in_order_along_a_line_become_points_while_more_than_rounding_is_left(length_scale, n):
    """Each is predicted from those before it with large weights, whose rounding is no variance."""
    K = rbf(np.linspace(-1.0, 1.0, n)[:, None], length_scale)
    chosen = run(K, n_points=n, rule="order", order=np.arange(n)).indices
    assert 5 < len(chosen) < 20
    assert exact_pivots(K[np.ix_(chosen, chosen)]).min() > factors.RANK_TOLERANCES[1]
    # The sign of f at a row is nothing that a choice of rows can depend on.
    sign = np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    flipped = run(K * np.outer(sign, sign), n_points=n, rule="order", order=np.arange(n))
    np.testing.assert_array_equal(flipped.indices, chosen)


def test_order_starts_with_its_first_row_at_any_tolerance():
    K, precision = random_covariance(7, 10, 10)
    order = np.roll(np.arange(10), 1 - np.argmax(precision * K.diagonal()))[::-1]
    assert order[0] != np.argmax(precision * K.diagonal())
    selection = run(K, precision, 5, "order", order=order, tol=1e10)
    np.testing.assert_array_equal(selection.indices, order[:1])


def test_order_shorter_than_the_number_of_points_ends_with_it(rng):
    selection = run(rbf(rng.randn(9, 2), 0.5), n_points=8, rule="order", order=np.array([4, 2]))
    np.testing.assert_array_equal(selection.indices, [4, 2])


def sequential_law(K, gain_weight, length):
    """Probability of each ordered choice when pivots are drawn one at a time."""
    law = {}
    for path in permutations(np.flatnonzero(gain_weight), length):
        probability = 1.0
        for m, pivot in enumerate(path):
            gains = gain_weight * np.maximum(dense_residual(K, list(path[:m])), 0.0)
            gains[list(path[:m])] = 0.0
            probability *= gains[pivot] / gains.sum()
        law[tuple(int(i) for i in path)] = probability
    return law


@pytest.mark.parametrize("n_idle", [0, 100])
def test_sample_has_the_law_of_draws_one_at_a_time(n_idle):
    """Rows of zero gain put off the pass, and more draws are of old residuals."""
    X = np.array([0.0, 0.3, 0.5, 1.6])
    K = np.eye(4 + n_idle)
    K[:4, :4] = np.exp(-0.5 * (X[:, None] - X) ** 2) * np.outer([1, 2, 1, 1.5], [1, 2, 1, 1.5])
    gain_weight = np.zeros(4 + n_idle)
    gain_weight[:4] = [1.0, 0.4, 2.0, 0.7]
    law = sequential_law(K, gain_weight, 3)
    assert abs(sum(law.values()) - 1.0) < 1e-9
    counts = dict.fromkeys(law, 0)
    rng, n_repeats = np.random.RandomState(0), 1000
    for _ in range(n_repeats):
        counts[tuple(run(K, gain_weight, 3, "sample", rng=rng).indices.tolist())] += 1
    assert_law(counts, law, n_repeats)


def assert_law(counts, law, n_repeats):
    """Chi-square of counts against probabilities; cells too rare for it are pooled."""
    expected = n_repeats * np.array(list(law.values()))
    observed = np.array(list(counts.values()), dtype=float)
    rare = expected < 8.0
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-3, len(expected) - 1)


def test_sample_keeps_its_law_while_old_proposals_are_turned_down(monkeypatch):
    """Of two dense clusters nearly all draws repeat what is chosen; blocks are small."""
    monkeypatch.setattr(factors.Factor, "block_size", 3)
    x = np.array([0.0, 0.1, 0.2, 4.0, 4.2])
    K = rbf(x[:, None], 0.5)
    gain_weight = read_only(np.array([1.0, 2.0, 1.0, 0.5, 1.0]))
    law, n_repeats = sequential_law(K, gain_weight, 3), 1000
    counts = dict.fromkeys(law, 0)
    rng = np.random.RandomState(1)
    rule = partial(rules.sample, rng=rng, waste=1.5)
    for _ in range(n_repeats):
        counts[tuple(run(K, gain_weight, 3, rule).indices.tolist())] += 1
    assert_law(counts, law, n_repeats)


def smooth_problem(rule, n=5000, **options):
    rng = np.random.RandomState(3)
    X, precision = read_only(rng.randn(n, 3), rng.uniform(0.1, 1.0, size=n))

    def covariance(Z, X):
        return np.exp(-0.5 * ((Z[:, None, :] - X[None]) ** 2).sum(axis=2))

    order = rng.permutation(n)
    return select(
        covariance, X, np.ones(n), precision, 60, rule=rule, rng=rng, order=order, **options
    )


@pytest.mark.parametrize("rule", RULES)
def test_neither_threads_nor_memory_change_a_selection(rule, monkeypatch):
    monkeypatch.setattr(factors, "row_blocks", partial(blocks_of, 700))
    one, three, lean = (
        smooth_problem(rule, **options)
        for options in ({}, {"n_threads": 3}, {"n_threads": 2, "memory": 1})
    )
    for other in (three, lean):
        np.testing.assert_array_equal(other.indices, one.indices)
        np.testing.assert_array_equal(other.traces, one.traces)


@pytest.mark.parametrize("rule", RULES)
def test_no_call_of_the_kernel_needs_more_than_blocks(rule, monkeypatch):
    monkeypatch.setattr(factors, "row_blocks", partial(blocks_of, 300))
    K, sizes = random_covariance(4, 1000, 1000)[0], []

    def covariance(Z, X):
        sizes.append(Z.shape[0] * X.shape[0])
        return covariance_of(K)(Z, X)

    rng = np.random.RandomState(0)
    order = rng.permutation(1000)
    select(
        covariance,
        numbered(1000),
        K.diagonal(),
        np.ones(1000),
        50,
        rule=rule,
        tol=1e-6,
        rng=rng,
        order=order,
    )
    assert max(sizes) <= max(300 * 50, 256**2)


@given(seeds, st.sampled_from([1, 2, 5, 16]))
def test_blocks_of_any_size_have_the_greedy_pivots(seed, block):
    """However the candidates come, also where many rows have the same gain."""
    rng = np.random.RandomState(seed)
    K = rbf(np.round(rng.randn(60, 2), 1), 0.6)
    precision = read_only(rng.choice([0.0, 1.0, 1.0, 2.0], size=60))
    n_points = 12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors.Factor, "block_size", block)
        rule = partial(rules.argmax, waste=rng.choice([0.0, 0.2, 2.0]))
        selection = run(K, precision, n_points, rule)
    for m, pivot in enumerate(selection.indices):
        gains = precision * dense_residual(K, selection.indices[:m])
        # Gains that agree to 1e-12 here may be told apart by the rounding of either algorithm.
        np.testing.assert_allclose(gains[pivot], gains.max(), rtol=1e-9)
        assert not np.any(gains[:pivot] > (1.0 + 1e-9) * gains[pivot])
    assert len(selection.indices) == n_points


@pytest.mark.parametrize("n", [40, 700])
def test_ties_across_blocks_go_to_the_first_row(n):
    """Equal gains, and gains that only rounding tells apart."""
    for diagonal in (np.ones(n), 1.0 + 1e-15 * np.random.RandomState(0).randint(0, 5, size=n)):
        K = read_only(np.diag(diagonal))
        np.testing.assert_array_equal(run(K, n_points=n - 1).indices, np.arange(n - 1))
        # Two levels: rounding orders the lower one before it comes up.
        precision = read_only(np.where(np.arange(n) % 2, 2.0, 1.0))
        expected = [*range(1, n, 2), *range(0, n, 2)]
        np.testing.assert_array_equal(run(K, precision).indices, expected)


@pytest.mark.parametrize("seed", [0, 193])
def test_ties_among_equal_groups_of_rows_go_to_the_first_row(seed):
    """Rows that are no candidates any more may tie with those that are."""
    rng = np.random.RandomState(seed)
    n_groups, size = rng.randint(10, 40), rng.randint(2, 6)
    A = rng.randint(0, 3, size=(size, size)).astype(float)
    K = np.kron(np.eye(n_groups), A @ A.T + np.eye(size))
    shuffled = rng.permutation(len(K))
    K = K[np.ix_(shuffled, shuffled)]
    left, expected = K.copy(), []
    for _ in range(len(K) // 2):
        gains = left.diagonal()
        expected.append(int(np.argmax(gains >= (1.0 - 1e-9) * gains.max())))
        column = left[expected[-1]] / np.sqrt(left[expected[-1], expected[-1]])
        left = left - np.outer(column, column)
    np.testing.assert_array_equal(run(K, n_points=len(K) // 2).indices, expected)


def test_argmax_goes_on_where_rounding_differs_between_blocks_and_candidates():
    """Every candidate is then left less than its rivals seem to be, whoever is candidate."""
    K, n_calls = rbf(np.random.RandomState(0).randn(500, 2), 0.5), []

    def covariance(Z, X):
        n_calls.append(1)
        assert len(n_calls) < 2000, "no progress"
        values = covariance_of(K)(Z, X)
        return values if len(X) == 500 or len(Z) == len(X) else values * (1.0 + 1e-7)

    selection = select(covariance, numbered(500), np.ones(500), np.ones(500), 20, rule="argmax")
    assert len(set(selection.indices)) == 20


def test_argmax_visits_all_rows_a_few_times_only():
    n_visits = []

    def counted(*args, **options):
        blocks = row_blocks(*args, **options)
        n_visits.append(len(blocks.slices))
        return blocks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "row_blocks", counted)
        smooth_problem("argmax")
        assert 3 <= len(n_visits) <= 8
        n_visits.clear()
        smooth_problem("sample")
        assert len(n_visits) <= 3
        n_visits.clear()
        smooth_problem("order")
        assert len(n_visits) == 1


@pytest.mark.parametrize("rule", RULES)
def test_a_tolerance_is_not_passed_by_far(rule):
    """All rows are visited long before the most points are chosen."""
    n, largest = 4000, []
    rng = np.random.RandomState(3)
    X, precision = rng.randn(n, 2), rng.uniform(0.1, 1.0, size=n)

    def covariance(Z, X):
        largest.append(len(Z))
        return np.exp(-0.5 * ((Z[:, None, :] - X[None]) ** 2).sum(axis=2))

    order = rng.permutation(n)
    selection = select(
        covariance, X, np.ones(n), precision, n, rule=rule, tol=0.02, rng=rng, order=order
    )
    assert len(selection.indices) > 10
    assert max(largest) <= 2 * len(selection.indices) + 32
    assert selection.costs[-1] <= 0.02 < selection.costs[-2]


@pytest.mark.parametrize("rule", RULES)
def test_a_single_row(rule):
    selection = run(
        np.array([[2.0]]), None, 5, rule, rng=np.random.RandomState(0), order=np.array([0])
    )
    np.testing.assert_array_equal(selection.indices, [0])
    np.testing.assert_array_equal(selection.traces, [2.0, 0.0])


@pytest.mark.parametrize("rule", RULES)
def test_an_indefinite_kernel_is_refused(rule):
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(LinAlgError, match=r"not positive semi-definite.* another is -3"):
        run(K, rule=rule, rng=np.random.RandomState(0), order=np.arange(3))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("place", [(0, 4), (4, 0), (200, 4), (200, 200)])
def test_values_that_are_not_finite_are_refused(rule, place):
    K = np.eye(300)
    K[place] = np.nan
    with pytest.raises(LinAlgError, match="not finite"):
        select(
            covariance_of(K),
            numbered(300),
            np.ones(300),
            np.ones(300),
            300,
            rule=rule,
            rng=np.random.RandomState(0),
            order=np.arange(300),
        )


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5])
def test_a_wrong_diagonal_is_refused_with_its_value(value):
    K = np.eye(6)
    K[4, 4] = value
    with pytest.raises(LinAlgError, match=f"the kernel's diagonal is {value} at a row"):
        run(K, n_points=2)


@pytest.mark.parametrize("rule", RULES)
def test_a_kernel_of_zeros_is_refused(rule):
    with pytest.raises(LinAlgError, match="zero at every row"):
        run(np.zeros((4, 4)), rule=rule, rng=np.random.RandomState(0), order=np.arange(4))


def test_a_kernel_whose_columns_are_zero_is_refused_whatever_its_diagonal():
    for rule in ("argmax", "sample", "order"):
        with pytest.raises(LinAlgError, match="zero at every row"):
            select(
                covariance_of(np.zeros((50, 50))),
                numbered(50),
                np.ones(50),
                np.ones(50),
                3,
                rule=rule,
                rng=np.random.RandomState(0),
                order=np.arange(50),
            )


@pytest.mark.parametrize("rule", RULES)
def test_the_trace_keeps_its_digits_as_it_falls(rule):
    """By the eigenvalues' scale the last traces are 1e-9 of the first."""
    rng = np.random.RandomState(0)
    K = rbf(np.sort(rng.uniform(0.0, 8.0, size=300))[:, None], 1.0)
    selection = run(K, n_points=14, rule=rule, rng=rng, order=rng.permutation(300))
    dense = [
        np.maximum(dense_residual(K, selection.indices[:m]), 0.0).sum()
        for m in range(len(selection.indices) + 1)
    ]
    np.testing.assert_allclose(selection.traces, dense, rtol=1e-6, atol=1e-12 * dense[0])


def test_sample_is_determined_by_the_generator(rng):
    K, precision = random_covariance(8, 60, 60)
    first, again, other = (
        run(K, precision, 30, "sample", rng=np.random.RandomState(seed)).indices
        for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_sample_does_not_touch_the_global_generator():
    before = np.random.get_state()[1].copy()
    run(np.eye(20), rule="sample", rng=np.random.RandomState(0))
    np.testing.assert_array_equal(np.random.get_state()[1], before)


@given(seeds)
def test_sample_never_chooses_a_spanned_row_or_one_of_zero_precision(seed):
    K = random_covariance(seed, 40, 6)[0]
    rng = np.random.RandomState(seed)
    precision = rng.uniform(size=40) * (rng.uniform(size=40) < 0.5)
    selection = run(K, precision, 40, "sample", rng=rng)
    assert np.all(precision[selection.indices] > 0.0)
    for m, pivot in enumerate(selection.indices):
        assert dense_residual(K, selection.indices[:m])[pivot] > 1e-11 * K[pivot, pivot]
    assert len(selection.indices) == min(6, np.count_nonzero(precision))


def test_sample_when_every_distinct_candidate_is_accepted(rng):
    selection = run(np.eye(200), n_points=150, rule="sample", rng=rng)
    assert len(set(selection.indices)) == 150
    np.testing.assert_allclose(selection.traces, 200.0 - np.arange(151), rtol=1e-14)


def test_sample_when_nearly_every_candidate_is_rejected(rng):
    """Next to one common direction each row has little of its own."""
    n = 100
    K = np.ones((n, n)) + 1e-6 * np.eye(n)
    selection = run(K, n_points=80, rule="sample", rng=rng)
    assert len(set(selection.indices)) == 80
    expected = dense_residual(K, selection.indices).sum()
    np.testing.assert_allclose(selection.traces[-1], expected, rtol=1e-6)


def test_sample_stops_exactly_at_the_number_of_points(rng):
    for n_points in (16, 17, 31, 33):
        selection = run(np.eye(100), n_points=n_points, rule="sample", rng=rng)
        assert len(selection.indices) == n_points


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20])
def test_pivots_do_not_depend_on_the_units_of_the_kernel(rng, scale):
    K = rbf(rng.randn(40, 2), 0.7)
    plain = run(K, n_points=15)
    scaled = run(scale * K, n_points=15)
    np.testing.assert_array_equal(scaled.indices, plain.indices)
    np.testing.assert_allclose(scaled.traces, scale * plain.traces, rtol=1e-8)


def test_small_rows_beside_large_ones_are_not_taken_for_rounding():
    """The floor of a residual is relative to the row's own diagonal."""
    K = np.diag([1e12, 1.0, 1e-12])
    assert len(run(K, n_points=3).indices) == 3


def test_heavy_rows_are_not_thought_cheap():
    """The cost per unit of weight does not shrink because a row weighs more."""
    x = np.linspace(0.0, 10.0, 30)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2)
    chosen = [
        select(
            covariance_of(K),
            numbered(30),
            np.ones(30),
            np.full(30, 0.25 * weight),
            30,
            rule="argmax",
            tol=1e-3,
            total_weight=30.0 * weight,
        ).indices
        for weight in (1.0, 1e6)
    ]
    np.testing.assert_array_equal(*chosen)
    assert len(chosen[0]) > 5
