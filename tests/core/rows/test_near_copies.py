"""Rows that agree but for rounding, against all pairs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sparsegpc._core.rows import near_copies as module
from sparsegpc._core.rows.near_copies import near_copies


def by_all_pairs(table, tolerance):
    kept = []
    for i, row in enumerate(table):
        if not any((np.abs(row - table[j]) <= tolerance).all() for j in kept):
            kept.append(i)
    return ~np.isin(np.arange(len(table)), kept)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 4))
def test_a_row_is_a_copy_if_it_agrees_with_one_that_is_kept(seed, n_rows, n_columns):
    rng = np.random.RandomState(seed)
    scale = 10.0 ** rng.randint(-3, 4, n_columns)
    table = 7.0 + scale * rng.uniform(size=(n_rows, n_columns))
    again = rng.randint(n_rows, size=n_rows // 2)
    table = np.concatenate([table, table[again] + 1e-3 * scale * rng.randn(len(again), n_columns)])
    tolerance = 1e-3 * scale
    assert_array_equal(near_copies(table, tolerance), by_all_pairs(table, tolerance))


def test_rows_of_a_chain_are_not_all_copies_of_the_first():
    assert_array_equal(near_copies(np.arange(6.0)[:, None], np.array([1.5])), [0, 1, 0, 1, 0, 1])


def test_few_rows_between_two_are_compared(monkeypatch):
    """In a single column the random direction is that of the column."""
    monkeypatch.setattr(module, "MOST_COMPARED", 2)
    found = near_copies(np.arange(9.0)[:, None], np.array([5.5]))
    assert_array_equal(found, [False, True, True, False, True, True, False, True, True])


def test_a_table_without_rows_or_copies_has_none():
    for n_rows in (0, 1, 2):
        assert_array_equal(near_copies(np.eye(2)[:n_rows], np.full(2, 0.1)), [False] * n_rows)
