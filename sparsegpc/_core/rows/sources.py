"""Rows that stay where they are: on disk, or anywhere that gives them out slice by slice.

Such an array is never read whole. `RowSource` makes float64 rows of the slices that are asked for;
what is known of all rows, like their ranges, takes one pass of slices of `READ_BYTES`.
"""

import mmap
from threading import Lock

import numpy as np
from numpy.lib.stride_tricks import as_strided

# Float64 bytes that are read at a time.
READ_BYTES = 8 * 2**20
# Rows this close together are read by one slice.
LARGEST_GAP = 32
# Booleans, integers, unsigned integers, floats.
REAL_KINDS = "biuf"
# What offers its memory by one of these is in memory already.
IN_MEMORY = ("__array_interface__", "__cuda_array_interface__", "__dlpack__", "__dataframe__")


def gives_slices(X):
    """Return whether `X` is an array that is to be read by slices of its rows.

    A `numpy.memmap` is one, and so is anything that has a shape, a numpy dtype and slices, but is
    no array in memory, sparse matrix or data frame: a dataset of h5py, an array of zarr or Dask.
    Arrays of one dimension are none: what has N entries fits into memory.
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
        # The mark of scipy's sparse matrices and arrays.
        and not hasattr(X, "tocsr")
    )


class RowSource:
    """Rows of float64, read when they are asked for.

    ``source[a:b]`` and ``source[indices]`` are arrays of shape (n, D), C-contiguous; indices may
    come in any order, more than once each.

    Parameters
    ----------
    rows : array of shape (N', D)
        Of real numbers of any type, with slices of its first axis.
    kept : ndarray of int of shape (N,) or None
        Which of `rows` these are, in increasing order. None is all of them.

    Raises
    ------
    ValueError
        If `rows` has no two dimensions of known size, or is not of real numbers.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(self, rows, kept=None):
        shape = tuple(rows.shape)
        # Dask may not know how many rows there are.
        if not all(isinstance(n, int | np.integer) for n in shape):
            raise ValueError(
                f"X must know its numbers of rows and columns, got the shape {shape}: compute the "
                "sizes of its chunks first, with X.compute_chunk_sizes()"
            )
        if rows.dtype.kind not in REAL_KINDS:
            raise ValueError(
                f"X must hold real numbers, got the dtype {rows.dtype}: convert it to a number "
                "type first"
            )
        self.rows, self.kept, self._ranges = rows, kept, None
        self._lock = Lock()
        self.shape = (shape[0] if kept is None else len(kept), *shape[1:])

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        raise TypeError("rows that may not fit into memory are read by slices, never all at once")

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1 and self.kept is None:
                return self._read(start, max(start, stop))
            rows = np.arange(start, stop, step)
        else:
            rows = np.asarray(rows)
            if rows.ndim != 1 or rows.dtype.kind not in "iu":
                raise TypeError("rows are asked for by a slice, or an array of their numbers")
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
                raise IndexError(f"row numbers must be from 0 to {len(self) - 1}")
        return self._gather(rows if self.kept is None else self.kept[rows])

    def slices(self):
        """Return slices that cover the rows in order, each of `READ_BYTES` at most."""
        n, size = len(self), _rows_at_once(self.shape[1])
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def subset(self, indices):
        """Return the source of the rows of these increasing numbers; nothing is read."""
        if len(indices) == len(self):
            return self
        kept = np.asarray(indices)
        part = RowSource(self.rows, kept if self.kept is None else self.kept[kept])
        part._lock = self._lock
        return part

    def min(self, axis=0):
        """Return the least value of each column, shape (D,)."""
        return self._range_of_columns(axis)[0]

    def max(self, axis=0):
        """Return the largest value of each column, shape (D,)."""
        return self._range_of_columns(axis)[1]

    def std(self, axis=0):
        """Return the standard deviation of each column, shape (D,)."""
        return column_deviations(self, np.ones(len(self)), self[:1][0])

    def first_not_finite(self):
        """Return the first row, and in it the first column, that is NaN or infinite, or None.

        One pass over the rows, which also learns the ranges of the columns; none where they are
        integers.
        """
        if self.rows.dtype.kind != "f":
            return None
        # A minimum or a maximum is infinite, or NaN, if anything is.
        if np.isfinite(self._range_of_columns()).all():
            return None
        for rows in self.slices():
            places = np.argwhere(~np.isfinite(self[rows]))
            if len(places):
                return rows.start + int(places[0, 0]), int(places[0, 1])
        raise ValueError("X gave other values when it was read again: its rows must not change")

    def _range_of_columns(self, axis=0):
        if axis != 0:
            raise ValueError("rows are many: only columns have ranges here, axis must be 0")
        if self._ranges is None:
            low, high = np.full(self.shape[1], np.inf), np.full(self.shape[1], -np.inf)
            for rows in self.slices():
                part = self[rows]
                low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
            self._ranges = low, high
        return self._ranges

    def _read(self, start, stop):
        # Readers of files are seldom safe in several threads.
        with self._lock:
            part = self.rows[start:stop]
        # netCDF variables mark missing values so, behind which are numbers.
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
        """Return the rows of these numbers."""
        if isinstance(self.rows, np.ndarray):
            return np.ascontiguousarray(self.rows[indices], dtype=np.float64)
        if hasattr(self.rows, "__dask_graph__"):
            # In one computation, wherever the rows are; a chunk is computed once if they increase.
            order = np.argsort(indices, kind="stable")
            rows = np.empty((len(indices), self.shape[1]))
            rows[order] = self.rows[indices[order]]
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
        # To another process goes where the file is, not what is in it.
        state = vars(self).copy()
        del state["_lock"]
        X = self.rows
        if isinstance(X, np.memmap) and X.filename is not None and X.mode != "c":
            state["rows"] = _Place.of(X)
        return state

    def __setstate__(self, state):
        vars(self).update(state)
        self._lock = Lock()
        if isinstance(self.rows, _Place):
            self.rows = self.rows.open()


class _Place:
    """Where in a file the values of a memory map are."""

    def __init__(self, filename, offset, shape, strides, dtype):
        self._filename, self._offset = filename, offset
        self._shape, self._strides, self._dtype = shape, strides, dtype

    @classmethod
    def of(cls, X):
        # The offset of a memmap is that of the one that it is a part of; the map starts at a page.
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
    """Yield slices of increasing `indices` that one read serves, of at most `size` rows."""
    apart = (np.diff(indices) > LARGEST_GAP) | (np.diff(indices // size) > 0)
    ends = [*(np.flatnonzero(apart) + 1), len(indices)]
    start = 0
    for end in ends:
        if end > start:
            yield slice(start, end)
        start = end


def take_rows(X, indices, memory=0):
    """Return rows of an array or a source: an array if it is one, or if they fit the memory.

    All rows of an array are the array itself.

    Parameters
    ----------
    X : ndarray of shape (N, D) or RowSource
    indices : ndarray of int of shape (n,)
        In increasing order, each once.
    memory : int
        Bytes that rows which are read may take.

    Returns
    -------
    ndarray of shape (n, D) or RowSource
    """
    if isinstance(X, RowSource) and 8 * len(indices) * X.shape[1] > memory:
        return X.subset(indices)
    if isinstance(X, np.ndarray) and len(indices) == len(X):
        return X
    return X[indices]


def map_rows(function, X):
    """Return ``function(X)``, rows on its last axis; of a source, put together from its slices."""
    if not isinstance(X, RowSource):
        return function(X)
    return np.concatenate([function(X[rows]) for rows in X.slices()], axis=-1)


def spaced_rows(X, n_rows):
    """Return the numbers of at most `n_rows` rows of `X`, evenly spaced."""
    return np.linspace(0, len(X) - 1, min(n_rows, len(X))).astype(np.intp)


def column_deviations(source, weight, reference):
    """Return the weighted standard deviation of each column, shape (D,), in one pass.

    Parameters
    ----------
    source : RowSource
    weight : ndarray of shape (N,)
    reference : ndarray of shape (D,)
        Values not far from the means in units of the deviations, or digits are lost.
    """
    total = weight.sum()
    first, second = np.zeros((2, source.shape[1]))
    for rows in source.slices():
        moved, share = source[rows] - reference, weight[rows] / total
        first += share @ moved
        second += share @ moved**2
    return np.sqrt(np.maximum(second - first**2, 0.0))
