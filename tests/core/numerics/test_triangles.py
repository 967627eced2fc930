"""Packed triangles against numpy's indices, and what a pickle does with them."""

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sparsegpc._core.numerics.linalg import cholesky
from sparsegpc._core.numerics.triangles import pack, reduced, unpack


class Record(NamedTuple):
    name: str
    factor: np.ndarray

    def __reduce__(self):
        return reduced(self, "factor")


def factor(size):
    A = np.random.RandomState(size).randn(size, size)
    return cholesky(A @ A.T + np.eye(size))


@pytest.mark.parametrize("size", [1, 2, 3, 30, 200])
def test_a_packed_triangle_holds_it_by_columns_and_becomes_the_same_again(size):
    L = factor(size)
    rows, columns = np.triu_indices(size)
    assert_array_equal(pack(L), L[columns, rows])
    again = unpack(pack(np.ascontiguousarray(L)))
    assert_array_equal(again, L)
    assert again.flags.f_contiguous
    assert L.flags.f_contiguous


@pytest.mark.parametrize("way", [lambda r: pickle.loads(pickle.dumps(r)), copy.deepcopy])
def test_a_record_is_the_same_again(way):
    record = Record("a", factor(50))
    again = way(record)
    assert type(again) is Record
    assert again.name == "a"
    assert_array_equal(again.factor, record.factor)
    assert len(pickle.dumps(record)) < 8 * 50 * 51 / 2 + 500
