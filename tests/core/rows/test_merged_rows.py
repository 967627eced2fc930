"""Canonical order and merging of equal rows, against sorting and counting tuples in Python."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.rows.merged_rows import find_rows, merge_rows, merge_with_targets
from tests.core.helpers import read_only


def few_integers(rng, n, d):
    return rng.randint(-1, 2, size=(n, d)).astype(np.float64)


def continuous(rng, n, d):
    return rng.randn(n, d)


def tied_leading_columns(rng, n, d):
    """Only the last columns, one or two, tell rows apart."""
    X = np.ones((n, d)) * rng.randn(d)
    X[:, -2:] = rng.randint(0, 3, size=(n, min(d, 2)))
    return X


def repeated_continuous(rng, n, d):
    return rng.randn(max(1, n // 3), d)[rng.randint(0, max(1, n // 3), size=n)]


def huge_offset(rng, n, d):
    """Neighbouring floating-point numbers are different rows."""
    return 1e9 + np.spacing(1e9) * rng.randint(0, 3, size=(n, d))


def signed_zeros(rng, n, d):
    return rng.choice([-0.0, 0.0, 1.0], size=(n, d))


KINDS = [
    few_integers,
    continuous,
    tied_leading_columns,
    repeated_continuous,
    huge_offset,
    signed_zeros,
]

problems = st.builds(
    lambda kind, n, d, seed: read_only(kind(np.random.RandomState(seed), n, d)),
    st.sampled_from(KINDS),
    st.integers(1, 30),
    st.sampled_from([1, 2, 3, 5, 40]),
    st.integers(0, 2**31),
)
seeds = st.integers(0, 2**31)


def as_tuples(X):
    # Tuples of floats compare and hash as the numbers do: -0.0 is 0.0.
    return [tuple(row) for row in X.tolist()]


def copies_of(merged):
    """Return, for each distinct row, the set of original positions of its copies."""
    return [set(part.tolist()) for part in np.split(merged.order, merged.starts[1:])]


@given(problems)
def test_rows_are_the_sorted_set_of_tuples(X):
    merged = merge_rows(X, np.ones(len(X)))
    assert as_tuples(merged.X) == sorted(set(as_tuples(X)))


@given(problems, seeds)
def test_weights_of_equal_rows_add(X, seed):
    weight = read_only(np.random.RandomState(seed).randint(1, 9, size=len(X)).astype(np.float64))
    expected = Counter()
    for row, w in zip(as_tuples(X), weight, strict=True):
        expected[row] += w
    merged = merge_rows(X, weight)
    assert dict(zip(as_tuples(merged.X), merged.weight, strict=True)) == expected


@given(problems, seeds)
def test_totals_add_any_values_over_the_copies(X, seed):
    values = read_only(np.random.RandomState(seed).randn(len(X)))
    expected = dict.fromkeys(as_tuples(X), 0.0)
    for row, value in zip(as_tuples(X), values, strict=True):
        expected[row] += value
    merged = merge_rows(X, np.ones(len(X)))
    assert_allclose(
        merged.total(values), [expected[row] for row in as_tuples(merged.X)], atol=1e-13
    )


@given(problems)
def test_every_copy_gets_the_value_of_its_row(X):
    merged = merge_rows(X, np.ones(len(X)))
    values = read_only(np.random.RandomState(0).randn(len(merged.X)))
    of_row = dict(zip(as_tuples(merged.X), values.tolist(), strict=True))
    assert merged.repeated(values).tolist() == [of_row[row] for row in as_tuples(X)]


@given(problems, seeds)
def test_means_are_weighted_over_the_copies(X, seed):
    rng = np.random.RandomState(seed)
    weight, values = rng.uniform(0.1, 3.0, len(X)), rng.randn(len(X))
    merged, tuples = merge_rows(X, weight), as_tuples(X)
    for row, mean in zip(as_tuples(merged.X), merged.mean(values, weight), strict=True):
        copies = [k for k, other in enumerate(tuples) if other == row]
        assert_allclose(mean, np.average(values[copies], weights=weight[copies]), atol=1e-12)


@given(problems)
def test_totals_of_repeated_values_are_counts_times_values(X):
    merged = merge_rows(X, np.ones(len(X)))
    values = np.arange(1.0, 1.0 + len(merged.X))
    assert_allclose(merged.total(merged.repeated(values)), merged.weight * values)


def test_repeated_values_keep_their_type():
    merged = merge_rows(np.array([[2.0], [1.0], [2.0]]), np.ones(3))
    assert merged.repeated(np.array([7, 9])).dtype.kind == "i"
    assert merged.repeated([True, False]).tolist() == [False, True, False]


@given(problems)
def test_first_is_the_first_original_position(X):
    merged, tuples = merge_rows(X, np.ones(len(X))), as_tuples(X)
    assert merged.first.tolist() == [tuples.index(row) for row in as_tuples(merged.X)]


@given(problems)
def test_order_and_starts_give_the_original_rows_back(X):
    merged = merge_rows(X, np.ones(len(X)))
    rebuilt = np.full_like(X, np.nan)
    for row, positions in zip(merged.X, copies_of(merged), strict=True):
        rebuilt[list(positions)] = row
    assert_array_equal(rebuilt, X)
    assert sorted(merged.order.tolist()) == list(range(len(X)))


@given(problems, seeds)
def test_permuted_rows_merge_to_the_same_bits(X, seed):
    rng = np.random.RandomState(seed)
    permutation = rng.permutation(len(X))
    # Sums of such weights depend on their order, unless it is settled too.
    weight, values = 10.0 ** rng.uniform(-6.0, 6.0, len(X)), rng.randn(len(X))
    merged = merge_rows(X, weight)
    shuffled = merge_rows(read_only(X[permutation]), read_only(weight[permutation]))
    assert shuffled.X.tobytes() == merged.X.tobytes()
    assert shuffled.weight.tobytes() == merged.weight.tobytes()
    assert shuffled.total(values[permutation]).tobytes() == merged.total(values).tobytes()


@given(problems, seeds)
def test_permuted_rows_lead_to_the_same_originals(X, seed):
    permutation = np.random.RandomState(seed).permutation(len(X))
    merged = merge_rows(X, np.ones(len(X)))
    shuffled = merge_rows(X[permutation], np.ones(len(X)))
    back = [{int(permutation[k]) for k in part} for part in copies_of(shuffled)]
    assert back == copies_of(merged)


@given(problems, seeds)
def test_a_weight_of_k_is_k_copies(X, seed):
    weight = np.random.RandomState(seed).randint(1, 4, size=len(X))
    weighted = merge_rows(X, weight.astype(np.float64))
    repeated = merge_rows(np.repeat(X, weight, axis=0), np.ones(weight.sum()))
    assert weighted.X.tobytes() == repeated.X.tobytes()
    assert_array_equal(weighted.weight, repeated.weight)


@given(problems)
def test_merging_merged_rows_changes_nothing(X):
    once = merge_rows(X, np.ones(len(X)))
    twice = merge_rows(once.X, once.weight)
    assert_array_equal(twice.X, once.X)
    assert_array_equal(twice.weight, once.weight)
    assert_array_equal(twice.order, np.arange(len(once.X)))


@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_negative_zero_is_zero(zeros):
    merged = merge_rows(np.array([[zeros[0], 1.0], [zeros[1], 1.0]]), np.array([2.0, 3.0]))
    assert_array_equal(merged.X, [[0.0, 1.0]])
    assert_array_equal(merged.weight, [5.0])


def test_sign_of_zero_does_not_depend_on_the_order_of_the_rows():
    X = np.array([[-0.0, 1.0], [0.0, 1.0], [0.0, -0.0], [-0.0, 0.0]])
    bits = {merge_rows(X[list(p)], np.ones(4)).X.tobytes() for p in permutations(range(4))}
    assert len(bits) == 1


def test_negative_zero_leaves_the_later_columns_to_decide():
    X = np.array([[0.0, 2.0], [-0.0, 3.0], [-0.0, 1.0], [0.0, 3.0]])
    merged = merge_rows(X, np.ones(4))
    assert_array_equal(merged.X, [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    assert_array_equal(merged.first, [2, 0, 1])


@pytest.mark.parametrize("D", [1, 2, 3, 4, 5, 8, 9, 40])
def test_rows_that_differ_in_the_last_column_only_are_kept_apart(D, rng):
    X = np.ones((50, D))
    X[:, -1] = rng.permutation(50)
    merged = merge_rows(read_only(X), np.ones(50))
    assert_array_equal(merged.X[:, -1], np.arange(50.0))


@pytest.mark.parametrize("D", [1, 40])
def test_constant_columns_are_one_row(D):
    merged = merge_rows(np.full((7, D), 3.5), np.arange(1.0, 8.0))
    assert_array_equal(merged.X, np.full((1, D), 3.5))
    assert_array_equal(merged.weight, [28.0])
    assert_array_equal(merged.first, [0])


def test_one_row():
    merged = merge_rows(np.array([[1.0, 2.0]]), np.array([0.5]))
    assert_array_equal(merged.X, [[1.0, 2.0]])
    assert_array_equal(merged.weight, [0.5])
    assert_array_equal(merged.first, [0])


def test_memory_layout_of_the_rows_does_not_matter(rng):
    X = few_integers(rng, 30, 4)
    merged = merge_rows(X, np.ones(30))
    for layout in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        other = merge_rows(layout, np.ones(30))
        assert_array_equal(other.X, merged.X)
        assert_array_equal(other.order, merged.order)


def test_the_result_shares_no_memory_with_the_rows(rng):
    X, weight = rng.randn(5, 2), np.ones(5)
    merged = merge_rows(X, weight)
    assert not np.shares_memory(merged.X, X)
    assert not np.shares_memory(merged.weight, weight)


@given(problems, seeds)
def test_points_are_found_where_their_row_stands_first(X, seed):
    wanted = np.random.RandomState(seed).randint(len(X), size=6)
    tuples = as_tuples(X)
    expected = [tuples.index(tuples[k]) for k in wanted]
    assert find_rows(X[wanted], X).tolist() == expected


def test_a_point_that_is_no_row_leaves_none_to_be_found(rng):
    X = continuous(rng, 9, 3)
    points = X[[2, 7]]
    assert_array_equal(find_rows(points, X), [2, 7])
    points[1, 2] = np.nextafter(points[1, 2], 9.0)
    assert find_rows(points, X) is None


@pytest.mark.parametrize("seed", range(5))
def test_means_of_copies_are_within_the_range_of_their_values(seed):
    rng = np.random.RandomState(seed)
    X, weight = np.zeros((5000, 1)), rng.uniform(0.5, 2.0, 5000)
    X[:, 0] = rng.randint(800, size=5000)
    rows = merge_rows(X, weight)
    for value in (1.0, -1.0):
        np.testing.assert_array_equal(rows.mean(np.full(5000, value), weight), value)


@pytest.mark.parametrize(
    "y",
    [
        np.array([2, 1, 2, 1, 2]),
        np.array([[2.5], [1.0], [2.5], [1.0], [2.5]]),
        np.array(
            [(2.0, 1.0), (2.0, 0.5), (2.0, 1.0), (2.0, 0.5), (2.0, 1.0)],
            dtype=[("y", float), ("exposure", float)],
        ),
    ],
    ids=["integers", "a column", "records"],
)
def test_only_rows_with_equal_targets_are_merged(y):
    X = np.array([[1.0], [1.0], [1.0], [0.0], [0.0]])
    found, targets, weight = merge_with_targets(X, y, np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert targets.dtype == y.dtype
    expected = [(0.0, y[3], 8.0), (0.0, y[4], 16.0), (1.0, y[1], 2.0), (1.0, y[0], 5.0)]
    assert list(zip(found[:, 0], targets, weight, strict=True)) == expected
