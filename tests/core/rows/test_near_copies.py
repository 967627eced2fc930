"""Rows that agree but for rounding, against all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sparsegpc._core.rows import near_copies
from sparsegpc._core.rows.near_copies import copied_rows


def by_all_pairs(table, tolerance):
    """Return for each row the first one that is kept and agrees with it."""
    kept, originals = [], []
    for i, row in enumerate(table):
        near = [j for j in kept if (np.abs(row - table[j]) <= tolerance).all()]
        originals.append(near[0] if near else i)
        kept += [] if near else [i]
    return originals


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(3, 5))
def test_a_copy_agrees_with_a_row_that_is_kept(seed, n_rows, n_columns):
    rng = np.random.RandomState(seed)
    scale = 10.0 ** rng.randint(-3, 4, n_columns)
    table = 7.0 + scale * rng.uniform(size=(n_rows, n_columns))
    again = rng.randint(n_rows, size=n_rows // 2)
    copies = table[again] + 1e-5 * scale * rng.uniform(-0.8, 0.8, (len(again), n_columns))
    table = np.concatenate([table, copies])
    assert_array_equal(copied_rows(table, 1e-5 * scale), by_all_pairs(table, 1e-5 * scale))


def test_rows_of_a_chain_are_not_all_copies_of_the_first(monkeypatch):
    monkeypatch.setattr(near_copies, "MOST_MORE", 10.0)
    found = copied_rows(np.arange(6.0)[:, None], np.array([1.5]))
    assert_array_equal(found, [0, 0, 2, 2, 4, 4])


@pytest.mark.parametrize("n_columns", [1, 2])
def test_rows_that_are_near_by_chance_are_not_copies(n_columns, rng):
    table = rng.uniform(size=(500, n_columns))
    tolerance = np.full(n_columns, 0.1 ** (3 / n_columns))
    own = np.arange(500)
    assert np.sum(by_all_pairs(table, tolerance) < own) > 50
    assert_array_equal(copied_rows(table, tolerance), own)


def test_few_rows_between_two_are_compared(monkeypatch):
    """In a single column the random direction is that of the column."""
    monkeypatch.setattr(near_copies, "MOST_COMPARED", 2)
    found = copied_rows(np.arange(9.0)[:, None], np.array([5.5]))
    assert_array_equal(found, [0, 0, 0, 3, 3, 3, 6, 6, 6])


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_a_table_without_copies_has_none(n_rows):
    assert_array_equal(copied_rows(np.eye(2)[:n_rows], np.full(2, 0.1)), np.arange(n_rows))
