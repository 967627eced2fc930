"""Arrays of rows that are read by slices: on disk, or in the storage of an array library.

They are never read as a whole. A `RowSource` reads slices and converts them to float64. Statistics
of all rows, such as ranges, take one pass over slices of `READ_BYTES`.
"""

import mmap
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.lib.stride_tricks import as_strided

# Bytes of float64 to read at a time: efficient for any disk, and small compared with a fit's
# arrays.
READ_BYTES = 8 * 2**20
# Rows that are no farther apart than this are read together.
LARGEST_GAP = 32
# numpy's kinds of dtype: booleans, integers, unsigned integers, floats.
REAL_KINDS = "biuf"
# An object with one of these attributes is in memory already.
IN_MEMORY = ("__array_interface__", "__cuda_array_interface__", "__dlpack__", "__dataframe__")


def gives_slices(X):
    """Return whether `X` must be read by slices of its rows.

    This is true for a `numpy.memmap`, and for an object with a shape, a numpy dtype and slices that
    is not an array in memory, a sparse matrix or a data frame, for example a dataset of h5py or an
    array of zarr or Dask. It is false for one-dimensional arrays, whose N entries fit into memory.
    """
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple) or len(shape) < 2:
        return False
    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap)
    return (
        isinstance(getattr(X, "dtype", None), np.dtype)
        and hasattr(X, "__getitem__")
        and not any(hasattr(X, name) for name in IN_MEMORY)
        # Only scipy's sparse matrices and arrays have this method.
        and not hasattr(X, "tocsr")
    )


class RowSource:
    """Rows of an array as float64, read on access.

    ``source[a:b]`` and ``source[indices]`` are C-contiguous arrays of shape (n, D). Indices may be
    in any order, and may repeat. `array` (N', D) holds real numbers of any type, and supports
    slices of its first axis; `indices` (N,), in increasing order, are those of its rows that form
    the source, None for all. Raises ValueError if the shape of the array is unknown, or its values
    are not real numbers.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, array, indices=None):
        shape = tuple(array.shape)
        # A Dask array may have an unknown number of rows.
        if not all(isinstance(n, int | np.integer) for n in shape):
            raise ValueError(
                f"X must have known numbers of rows and columns, got the shape {shape}: compute "
                "the sizes of its chunks first, with X.compute_chunk_sizes()"
            )
        if array.dtype.kind not in REAL_KINDS:
            raise ValueError(
                f"X must hold real numbers, got the dtype {array.dtype}: convert it to a number "
                "type first"
            )
        self.array, self.indices = array, indices
        self._function, self._lock = None, Lock()
        self.shape = (shape[0] if indices is None else len(indices), *shape[1:])

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        raise TypeError("rows that may not fit into memory are read by slices, never all at once")

    def __getitem__(self, key):
        rows = self._rows_at(key)
        return rows if self._function is None else self._function(rows)

    def _rows_at(self, key):
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1 and self.indices is None:
                return self._read(start, max(start, stop))
            key = np.arange(start, stop, step)
        key = np.asarray(key)
        return self._gather(key if self.indices is None else self.indices[key])

    def slices(self):
        """Return slices that cover the rows in order, of at most `READ_BYTES` each."""
        n, size = len(self), _rows_at_once(self.shape[1])
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def subset(self, indices):
        """Return a source of the rows with these increasing indices, without reading them."""
        if len(indices) == len(self):
            return self
        indices = np.asarray(indices)
        part = RowSource(self.array, indices if self.indices is None else self.indices[indices])
        part._function, part._lock = self._function, self._lock
        return part

    def mapped(self, function):
        """Return a source of ``function(rows)``, without reading rows.

        The function maps an array of rows (n, D) to another such array, each row by itself.
        """
        if hasattr(self.array, "__dask_graph__"):
            whole = self.array.rechunk({1: -1}).astype(np.float64)
            return RowSource(whole.map_blocks(function, dtype=np.float64), self.indices)
        if self._function is not None:
            raise ValueError("rows that are mapped cannot be mapped again")
        source = RowSource(self.array, self.indices)
        source._function, source._lock = function, self._lock
        return source

    def min(self, axis=0):
        """Return the least value of each column, shape (D,)."""
        return self._ranges[0]

    def max(self, axis=0):
        """Return the largest value of each column, shape (D,)."""
        return self._ranges[1]

    def std(self, axis=0):
        """Return the standard deviation of each column, shape (D,)."""
        return column_deviations(self, np.ones(len(self)), self[:1][0])

    def first_not_finite(self):
        """Return (row, column) of the first value that is NaN or infinite, or None.

        Takes one pass over the rows, which also gives the ranges of the columns. Integers need no
        pass.
        """
        if self.array.dtype.kind != "f":
            return None
        # If any value is infinite or NaN, so is a minimum or a maximum.
        if np.isfinite(self._ranges).all():
            return None
        for row_slice in self.slices():
            places = np.argwhere(~np.isfinite(self[row_slice]))
            if len(places):
                return row_slice.start + int(places[0, 0]), int(places[0, 1])
        raise ValueError("X gave other values when it was read again: its rows must not change")

    @cached_property
    def _ranges(self):
        """The least and the largest value of each column, shape (D,) each."""
        low, high = np.full(self.shape[1], np.inf), np.full(self.shape[1], -np.inf)
        for row_slice in self.slices():
            part = self[row_slice]
            low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
        return low, high

    def _read(self, start, stop):
        # Few file readers are thread-safe.
        with self._lock:
            part = self.array[start:stop]
        # netCDF variables mask missing values; masked numbers are arbitrary.
        if np.ma.is_masked(part):
            raise ValueError(
                f"X has missing values in rows {start} to {stop - 1}, which are masked: fill them, "
                "or leave these rows out"
            )
        part = np.ascontiguousarray(part, dtype=np.float64)
        expected = (stop - start, self.shape[1])
        if part.shape != expected:
            raise ValueError(f"X[{start}:{stop}] must have the shape {expected}, got {part.shape}")
        return part

    def _gather(self, indices):
        """Return the rows of the array with these indices."""
        if isinstance(self.array, np.ndarray):
            return np.ascontiguousarray(self.array[indices], dtype=np.float64)
        if hasattr(self.array, "__dask_graph__"):
            # One computation for all rows; with increasing indices each chunk is computed only
            # once.
            order = np.argsort(indices, kind="stable")
            rows = np.empty((len(indices), self.shape[1]))
            rows[order] = self.array[indices[order]]
            return rows
        wanted, places = indices, slice(None)
        if not (np.diff(indices) > 0).all():
            wanted, places = np.unique(indices, return_inverse=True)
        rows = np.empty((len(wanted), self.shape[1]))
        for part in _runs(wanted, _rows_at_once(self.shape[1])):
            start = wanted[part][0]
            rows[part] = self._read(start, wanted[part][-1] + 1)[wanted[part] - start]
        return rows[places]

    def __getstate__(self):
        # Pickle the location of a file, not its contents.
        state = vars(self).copy()
        del state["_lock"]
        X = self.array
        if isinstance(X, np.memmap) and X.filename is not None and X.mode != "c":
            state["array"] = _Place.of(X)
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        self._lock = Lock()
        if isinstance(self.array, _Place):
            self.array = self.array.open()


class _Place:
    """The location of a memory map's values in its file."""

    def __init__(self, filename, offset, shape, strides, dtype):
        self._filename, self._offset = filename, offset
        self._shape, self._strides, self._dtype = shape, strides, dtype

    @classmethod
    def of(cls, X):
        # A view of a memmap has the offset of the whole memmap; the mapping itself starts at a
        # page.
        page = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
        start = np.frombuffer(X._mmap, dtype=np.uint8).ctypes.data
        offset = page + X.ctypes.data - start
        return cls(str(X.filename), offset, X.shape, X.strides, X.dtype)

    def open(self):
        whole = np.memmap(self._filename, dtype=np.uint8, mode="r")
        first = whole[self._offset : self._offset + self._dtype.itemsize].view(self._dtype)
        return as_strided(first, self._shape, self._strides, subok=True, writeable=False)


def _rows_at_once(n_columns):
    return max(1, READ_BYTES // (8 * max(n_columns, 1)))


def _runs(indices, size):
    """Yield slices of increasing `indices` for one read each, of at most `size` rows.

    Rows at most `LARGEST_GAP` apart are read together.
    """
    apart = (np.diff(indices) > LARGEST_GAP) | (np.diff(indices // size) > 0)
    ends = [*(np.flatnonzero(apart) + 1), len(indices)]
    start = 0
    for end in ends:
        if end > start:
            yield slice(start, end)
        start = end


def take_rows(X, indices, memory=0):
    """Return the rows with increasing indices (n,) of an array or of a `RowSource`.

    Those of a source are an array if they take at most `memory` bytes, else a source. If they are
    all rows of an array, it is the array itself.
    """
    if isinstance(X, RowSource) and 8 * len(indices) * X.shape[1] > memory:
        return X.subset(indices)
    if isinstance(X, np.ndarray) and len(indices) == len(X):
        return X
    return X[indices]


def map_rows(function, X):
    """Return ``function(X)``, whose last axis is that of the rows; a source is read by slices."""
    if not isinstance(X, RowSource):
        return function(X)
    return np.concatenate([function(X[row_slice]) for row_slice in X.slices()], axis=-1)


def spaced_rows(X, n_rows):
    """Return the indices of at most `n_rows` evenly spaced rows of `X`."""
    return np.linspace(0, len(X) - 1, min(n_rows, len(X))).astype(np.intp)


def column_deviations(source, weight, reference):
    """Return the weighted standard deviation of each column of a `RowSource`, (D,), in one pass.

    The `reference` (D,) should be within a few standard deviations of the means; from more distant
    values digits are lost.
    """
    total = weight.sum()
    first, second = np.zeros((2, source.shape[1]))
    for row_slice in source.slices():
        moved, share = source[row_slice] - reference, weight[row_slice] / total
        first += share @ moved
        second += share @ moved**2
    return np.sqrt(np.maximum(second - first**2, 0.0))
