"""Pickles of named tuples that save a triangular matrix without its zeros, at half the size."""

import math

import numpy as np


def reduced(record, field):
    """Return what `__reduce__` of a named tuple returns: ``field`` holds a lower triangle."""
    packed = record._replace(**{field: pack(getattr(record, field))})
    return _restored, (type(record), field, *packed)


def _restored(kind, field, *values):
    record = kind(*values)
    return record._replace(**{field: unpack(getattr(record, field))})


def pack(L):
    """Return the columns of a lower triangle (M, M) one after the other, (M (M + 1) / 2,)."""
    return np.concatenate([L[j:, j] for j in range(len(L))])


def unpack(packed):
    """Return the triangle (M, M) of its columns, in the order that LAPACK's factors have."""
    size = math.isqrt(2 * len(packed))
    L = np.zeros((size, size), order="F")
    end = 0
    for j in range(size):
        start, end = end, end + size - j
        L[j:, j] = packed[start:end]
    return L
