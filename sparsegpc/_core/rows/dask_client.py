"""Sending of values, tables of rows and tasks to the workers of a Dask cluster."""

import pickle
from itertools import islice
from uuid import uuid4
from weakref import finalize

import numpy as np

from sparsegpc._core.rows.sources import RowSource

# Share of the workers' memory for (M, N) arrays, and assumed bytes of a worker without a limit.
MEMORY_SHARE, UNLIMITED = 0.4, 2**32
# Largest size of a message to the scheduler.
MESSAGE_BYTES = 32 * 2**20


class Cluster:
    """The workers of the Dask cluster of a client, and the tables of rows that they hold."""

    def __init__(self, client):
        self._client = client
        self._tables = {}

    def memory(self):
        """Return the total bytes that arrays of shape (M, N) may take on the workers."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return MEMORY_SHARE * sum(worker["memory_limit"] or UNLIMITED for worker in workers)

    def send(self, value):
        """Send a value, which may contain functions defined anywhere, and return its future."""
        from cloudpickle import dumps

        # The scheduler can store bytes without unpickling them.
        return self.map("send", pickle.loads, [(dumps(value),)])[0]

    def map(self, name, function, calls, n_bytes=0):
        """Return the futures of ``function(*arguments)`` for each tuple of an iterable `calls`.

        The arguments of one call take about `n_bytes`.
        """
        from dask import config

        futures, prefix = [], f"sparsegpc-{name}-{uuid4().hex}"
        # Silence Dask's advice to scatter the data; scattered data are lost if their worker dies.
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            for batch in groups(calls, max(1, MESSAGE_BYTES // max(n_bytes, 1))):
                keys = [f"{prefix}-{len(futures) + k}" for k in range(len(batch))]
                columns = zip(*batch, strict=True)
                futures += self._client.map(function, *columns, key=keys, pure=False)
        return futures

    def gather(self, futures):
        """Return the values of futures."""
        return self._client.gather(futures)

    def table(self, rows, slices):
        """Return the futures of a table's parts, which the workers keep while the table exists."""
        key = id(rows), tuple(part.stop for part in slices)
        if key not in self._tables:
            # A later table may have the same id.
            finalize(rows, self._tables.pop, key, None).atexit = False
            array = dask_array(rows)
            self._tables[key] = (
                self._send_table(rows, slices) if array is None else self._aligned(array, slices)
            )
        return self._tables[key]

    def _send_table(self, rows, slices):
        # Send copies, as Dask's log of messages would keep the array alive. Make them one by one,
        # as the rows may be on disk.
        parts = ((np.array(rows[part], order="C"),) for part in slices)
        return self.map("rows", _same, parts, rows[slices[0]].nbytes)

    def _aligned(self, array, slices):
        sizes = tuple(part.stop - part.start for part in slices)
        parts = array.rechunk((sizes, *array.shape[1:])).astype(np.float64)
        parts = parts.map_blocks(np.ascontiguousarray, dtype=np.float64)
        return self._client.compute(parts.to_delayed().ravel().tolist())

    def forget(self):
        """Drop all tables."""
        self._tables.clear()


def dask_array(rows):
    """Return the Dask array that `rows` is or is read from, or None."""
    from dask.array import Array

    if not isinstance(rows, RowSource):
        return rows if isinstance(rows, Array) else None
    array, indices = rows.array, rows.indices
    if not isinstance(array, Array):
        return None
    return array if indices is None else array[indices]


def _same(value):
    return value


def groups(values, size):
    """Yield lists of `size` consecutive values; the last may be shorter."""
    values = iter(values)
    while group := list(islice(values, size)):
        yield group
