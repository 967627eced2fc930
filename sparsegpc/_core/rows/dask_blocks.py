"""Computation over the rows on a Dask cluster, with the interface of `RowBlocks`.

The rows are divided into parts, which depend on the data but not on the workers. The workers hold
the rows of each part and the arrays that are kept. One task visits one part, in cache-sized blocks.
Sums are added in a tree of fixed shape, so the assignment of parts to workers changes their last
digits at most. The scheduler keeps everything that is sent, so if a worker dies, others can repeat
its work.
"""

from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.blocks import BlockStore, RowBlocks, Table, row_backend
from sparsegpc._core.rows.dask_client import Cluster, dask_array, groups
from sparsegpc._core.rows.threads import single_threaded_blas

# A table is cut into about this many parts.
N_PARTS = 64
# Limits on the rows of a part and the bytes of its X. Smaller tasks cost more to schedule than to
# run; larger tasks are expensive to repeat when a worker dies.
SMALLEST_PART, LARGEST_PART, PART_BYTES = 2**14, 2**17, 64 * 2**20
# The client adds the sums of all parts if they take fewer bytes in total, which saves tasks.
SMALL_SUMS = 2**22
# Parts that a task on a worker adds up.
FAN_IN = 8


@contextmanager
def distribute(client):
    """Run the computation over the rows on the workers of a Dask cluster.

    Within this context, fits and predictions send the rows to the workers once, which keep them and
    return sums over rows. Fewer than about 33 000 rows are processed locally. Results agree with
    those outside the context up to rounding. If a worker dies, the others compute its parts again.

    Parameters
    ----------
    client : distributed.Client
        Connected to a scheduler; synchronous.

    Yields
    ------
    distributed.Client
        The same client.

    Raises
    ------
    TypeError
        If `client` is not a synchronous `distributed.Client`.
    ValueError
        If it is not connected.
    ImportError
        If Dask is not installed.

    Notes
    -----
    The context applies to the thread that enters it. It therefore works with ``n_jobs=None``, but
    not in the processes or threads that other values start.

    Examples
    --------
    >>> from sparsegpc import SparseGPRegressor, distribute
    >>> def fit(X, y, address):
    ...     from distributed import Client
    ...     with Client(address) as client, distribute(client):
    ...         return SparseGPRegressor().fit(X, y)
    """
    cluster = Cluster(_checked(client))
    try:
        with row_backend(partial(_cluster_blocks, cluster)):
            yield client
    finally:
        cluster.forget()


def _checked(client):
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "distribute needs Dask, which is not installed: pip install 'dask[array]' distributed"
        ) from error
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(
            "client must be a synchronous distributed.Client, for example Client(address), got "
            f"{client!r}"
        )
    if client.status != "running":
        raise ValueError(
            f"client must be connected to a scheduler, got one whose status is {client.status!r}: "
            "make a new one, for example Client(address)"
        )
    return client


def _cluster_blocks(cluster, X, n_columns, **options):
    """Return the `ClusterBlocks` of the rows of `X`, or None if there are too few rows."""
    if len(X) < 2 * SMALLEST_PART:
        return None
    return ClusterBlocks(cluster, X, n_columns, n_threads=options.get("n_threads", 1))


def cut(X):
    """Return the slices that divide the rows of `X` into about `N_PARTS` parts.

    A part of a Dask array is a group of its chunks, or one of the equal pieces of a large chunk.
    """
    n_rows, row_bytes = X.shape[0], 8 * max(X.shape[1], 1)
    size = min(max(n_rows // N_PARTS, SMALLEST_PART), LARGEST_PART, max(PART_BYTES // row_bytes, 1))
    array = dask_array(X)
    if array is None:
        ends = _pieces(0, n_rows, -(-n_rows // size))
    else:
        ends = _joined_chunks(array.chunks[0], size)
    return [slice(start, end) for start, end in pairwise([0, *ends])]


def _pieces(start, n_rows, n_pieces):
    """Return the ends of `n_pieces` equal pieces of `n_rows` rows."""
    return [start + k * n_rows // n_pieces for k in range(1, n_pieces + 1)]


def _joined_chunks(chunks, size):
    """Return the ends of parts: groups of chunks of up to `size` rows, or pieces of large ones."""
    ends, start, end = [], 0, 0
    for chunk in chunks:
        for piece in _pieces(end, chunk, max(1, chunk // size)):
            if end > start and piece - start > size:
                ends.append(end)
                start = end
            end = piece
    return [*ends, end]


class ClusterBlocks:
    """The interface of `RowBlocks`, implemented by the workers of a cluster.

    `n_columns` is the number M of values that are computed for each row of `X` (N, D), and
    `n_threads` that of threads for the computation in the client.
    """

    def __init__(self, cluster, X, n_columns, *, n_threads=1):
        # Determines the size of the blocks within a part.
        self._cluster, self._n_columns = cluster, max(n_columns, X.shape[1])
        self.n_rows, self.n_threads = X.shape[0], n_threads
        self.slices = cut(X)
        self.array_bytes = 8 * self.n_rows * max(n_columns, 1)
        self.memory = cluster.memory()

    def visit(self, function, *inputs):
        """See `RowBlocks.visit`; `function` and everything it refers to are sent to the workers."""
        parts = self._tasks("visit", _visit, function, inputs)
        # The size of the first result determines how all results are collected.
        cluster = self._cluster
        n_bytes, n_arrays = cluster.gather(cluster.map("look", _size, [(parts[0],)]))[0]
        if n_bytes * len(parts) <= SMALL_SUMS:
            parts = cluster.gather(parts)
            total = add_up(parts, lambda groups: list(map(_add, groups)))
            rows = list(map(_rows, parts)) if n_arrays else []
        else:
            total = add_up(parts, lambda groups: cluster.map("add", _add, [(g,) for g in groups]))
            rows = cluster.map("take", _rows, [(p,) for p in parts]) if n_arrays else []
            total, *rows = cluster.gather([total, *rows])
        return total[0], self._joined(rows, n_arrays)

    def store(self, function, *inputs, n_arrays, is_array=False):
        """Return the `ClusterStore` of ``function(*values)``, which holds `n_arrays` arrays.

        A single array is kept if it fits the memory. Several arrays are computed again in each
        visit, as they come with functions that cannot be sent.
        """
        if is_array and n_arrays * self.array_bytes <= self.memory:
            return ClusterStore(True, self._tasks("store", _store, function, inputs), None)
        return ClusterStore(False, self._cluster.send(function), inputs)

    def _tasks(self, name, task, function, inputs):
        columns = []
        plans = [self._plan(x, columns) for x in inputs]
        n_bytes = sum(getattr(column[0], "nbytes", 0) for column in columns)
        work = self._cluster.send(_Work(function, plans, self._n_columns, np.geterr()))
        calls = [
            (work, part.stop - part.start, *values)
            for part, *values in zip(self.slices, *columns, strict=True)
        ]
        return self._cluster.map(name, task, calls, n_bytes)

    def _plan(self, x, columns):
        """Return the `_Plan` of an input, and append its values for each part to `columns`."""
        if x is None:
            return _Plan("nothing", 0)
        inputs = ()
        if isinstance(x, ClusterStore):
            kind = "stored" if x.kept else "computed"
            column = x.values if x.kept else [x.values] * len(self.slices)
            if not x.kept:
                inputs = tuple(self._plan(value, columns) for value in x.inputs)
        elif isinstance(x, Table):
            kind, column = "table", self._cluster.table(x.array, self.slices)
        else:
            kind, column = "rows", [np.array(x[..., part]) for part in self.slices]
        columns.append(column)
        return _Plan(kind, len(columns) - 1, inputs)

    def _joined(self, rows, n_arrays):
        if n_arrays == 0:
            return ()
        whole = [np.empty((*part.shape[:-1], self.n_rows), part.dtype) for part in rows[0]]
        for part, values in zip(self.slices, rows, strict=True):
            for array, value in zip(whole, values, strict=True):
                array[..., part] = value
        return tuple(whole)


class ClusterStore(NamedTuple):
    """Futures of the results of a function for each part, or of the function with its inputs."""

    kept: bool
    values: object
    inputs: tuple | None


class _Plan(NamedTuple):
    """How a task builds an input from its arguments: kind, position, and inputs of a function."""

    kind: str
    place: int
    inputs: tuple = ()


class _Work(NamedTuple):
    """The arguments that the tasks of one visit share."""

    function: object
    plans: list
    n_columns: int
    errors: dict


def _inputs(plans, arguments, blocks):
    return [_input(plan, arguments, blocks) for plan in plans]


def _input(plan, arguments, blocks):
    if plan.kind == "nothing":
        return None
    value = arguments[plan.place]
    if plan.kind == "computed":
        return blocks.store(value, *_inputs(plan.inputs, arguments, blocks), n_arrays=1)
    if plan.kind == "stored":
        return BlockStore(lambda index: _in_place(value[index]), len(value), kept=False)
    return Table(_in_place(value)) if plan.kind == "table" else _in_place(value)


def _in_place(array):
    """Return the array, copied if it is not aligned in memory.

    Arrays from messages may not be aligned, and numpy sums unaligned arrays in another order.
    """
    return np.require(array, requirements="A")


def _visit(work, n_rows, *arguments):
    """Return the sums and the rows of a part."""
    blocks = RowBlocks(n_rows, work.n_columns, memory=0)
    with single_threaded_blas(), np.errstate(**work.errors):
        return blocks.visit(work.function, *_inputs(work.plans, arguments, blocks))


def _store(work, n_rows, *arguments):
    """Return the results of the function for each block of a part."""
    blocks = RowBlocks(n_rows, work.n_columns, memory=0)
    with single_threaded_blas(), np.errstate(**work.errors):
        values = blocks.store(work.function, *_inputs(work.plans, arguments, blocks), n_arrays=1)
        return [values[index] for index in range(len(blocks.slices))]


def _size(part):
    """Return the bytes of the sums of a part, and the number of its arrays of rows."""
    sums, rows = part
    return sum(np.asarray(term).nbytes for term in sums), len(rows)


def _rows(part):
    return part[1]


def _add(parts):
    """Return the sums of some parts in their order, and no rows."""
    sums = parts[0][0]
    for terms, _ in parts[1:]:
        sums = tuple(total + term for total, term in zip(sums, terms, strict=True))
    return sums, ()


def add_up(parts, add):
    """Return the sum of all parts by a tree, in which `add` adds lists of `FAN_IN` parts each."""
    while len(parts) > 1:
        parts = add(list(groups(parts, FAN_IN)))
    return parts[0]
