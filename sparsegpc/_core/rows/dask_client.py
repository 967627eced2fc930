"""The workers of a Dask cluster: how values, tables of rows and tasks get there."""

import pickle
from itertools import islice
from uuid import uuid4
from weakref import finalize

import numpy as np

from sparsegpc._core.rows.sources import RowSource

# Bytes in a message to the scheduler.
MESSAGE_BYTES = 32 * 2**20
# Share of the workers' memory for arrays of shape (M, N); what a worker without a limit counts for.
MEMORY_SHARE, UNLIMITED = 0.4, 2**32


class Cluster:
    """The workers, and which tables they hold.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client):
        self._client = client
        self._tables = {}

    def memory(self):
        """Return the bytes that arrays of shape (M, N) may take together on the workers."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        return MEMORY_SHARE * sum(worker["memory_limit"] or UNLIMITED for worker in workers)

    def send(self, value):
        """Return the future of a value, functions defined anywhere included."""
        from cloudpickle import dumps

        # As bytes, which the scheduler keeps but does not look into.
        return self.map("send", pickle.loads, [(dumps(value),)])[0]

    def map(self, name, function, calls, n_bytes=0):
        """Return the futures of ``function(*arguments)`` for each tuple of an iterable `calls`.

        `n_bytes` is about what the arguments of one call take.
        """
        from dask import config

        futures, prefix = [], f"sparsegpc-{name}-{uuid4().hex}"
        # Its advice is to send data in ways that would not survive a worker.
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
        """Return the futures of parts of a table, which are kept as long as the table is."""
        key = id(rows), tuple(part.stop for part in slices)
        if key not in self._tables:
            # Whatever has the same identity later is another table.
            finalize(rows, self._tables.pop, key, None).atexit = False
            array = dask_array(rows)
            self._tables[key] = (
                self._send_table(rows, slices) if array is None else self._aligned(array, slices)
            )
        return self._tables[key]

    def _send_table(self, rows, slices):
        # Copies, as Dask's log of messages would keep all rows alive; one after the other, as the
        # rows may be on disk here.
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
    """Return the Dask array that rows come from, or None."""
    from dask.array import Array

    if not isinstance(rows, RowSource):
        return rows if isinstance(rows, Array) else None
    array, kept = rows.rows, rows.kept
    if not isinstance(array, Array):
        return None
    return array if kept is None else array[kept]


def _same(value):
    return value


def groups(values, size):
    """Yield lists of `size` values in a row, the last of what is left."""
    values = iter(values)
    while group := list(islice(values, size)):
        yield group
