"""Row blocks on a cluster of worker processes: the same sums, sent once, whoever dies."""

import os
import time

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.binary import PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows import dask_blocks
from sparsegpc._core.rows.blocks import RowBlocks, Table, row_blocks
from sparsegpc._core.rows.dask_blocks import Cluster, ClusterBlocks, cut, distribute
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._core.selection.selectors import InducingPoints

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

PATIENCE = 60.0


@pytest.fixture(scope="module")
def client():
    """Two worker processes."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def cluster(client):
    return Cluster(client)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of a few dozen rows, so that there are many of them."""
    monkeypatch.setattr(dask_blocks, "SMALLEST_PART", 80)


def keys_of(client, name):
    """Return the keys that the scheduler has of one kind of task."""
    return client.run_on_scheduler(
        lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks if name in str(key)]
    )


def soon(condition):
    """Wait for a condition, and return whether it came."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Counted:
    """Rows that count how often they are read."""

    def __init__(self, values):
        self.values, self.shape, self.n_reads = values, values.shape, 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        self.n_reads += 1
        return self.values[rows]


# How sums come together: here, or on the workers.
SUMS = pytest.mark.parametrize("small_sums", [0, 2**22], ids=["tree", "here"])


@SUMS
def test_visit_gives_what_plain_sums_and_rows_are(cluster, rng, monkeypatch, small_sums):
    monkeypatch.setattr(dask_blocks, "SMALL_SUMS", small_sums)
    X, y, z = rng.randn(1000, 3), rng.randn(1000), rng.randn(2, 1000)
    W = rng.randn(4, 3)
    blocks = ClusterBlocks(cluster, X, 4)
    assert len(blocks.slices) > 8

    def function(V, x, y, z, nothing):
        assert nothing is None
        return (V @ V.T, float(y.sum()), len(y)), (V * y, z, y.astype(np.float32))

    V = blocks.store(lambda x: W @ x.T, Table(X), n_arrays=1, is_array=True)
    sums, rows = blocks.visit(function, V, Table(X), Table(y), z, None)
    assert_allclose(sums[0], W @ X.T @ X @ W.T, rtol=1e-12)
    assert sums[1] == pytest.approx(y.sum(), abs=1e-12)
    assert sums[2] == 1000
    assert_allclose(rows[0], W @ X.T * y, rtol=1e-13)
    assert_array_equal(rows[1], z)
    assert rows[2].dtype == np.float32
    assert blocks.visit(lambda y: ((), (2.0 * y,)), y)[0] == ()
    assert blocks.visit(lambda y: ((y.sum(),), ()), y)[1] == ()


@pytest.mark.parametrize("memory", [0, 2**30])
def test_stores_may_be_made_of_stores_kept_or_not(cluster, rng, memory):
    X, y = rng.randn(400, 2), rng.randn(400)
    blocks = ClusterBlocks(cluster, X, 3)
    blocks.memory = memory
    first = blocks.store(lambda x, y: np.sin(x.T) * y, Table(X), y, n_arrays=1, is_array=True)
    pair = blocks.store(lambda s, x: (s, lambda a: a * x.T), first, Table(X), n_arrays=np.inf)
    assert (first.kept, pair.kept) == (memory > 0, False)
    (found,) = blocks.visit(lambda pair, y: ((), (pair[1](pair[0]) + y,)), pair, y)[1]
    assert_allclose(found, np.sin(X.T) * y * X.T + y, rtol=1e-13)


def test_store_keeps_exactly_what_fits_the_memory(cluster, rng):
    X = rng.randn(100, 2)
    blocks = ClusterBlocks(cluster, X, 6)
    for memory, kept in ((8 * 6 * 100, True), (8 * 6 * 100 - 1, False)):
        blocks.memory = memory
        assert blocks.store(np.transpose, Table(X), n_arrays=1, is_array=True).kept == kept


def test_memory_is_a_share_of_that_of_the_workers(client, cluster):
    limits = [w["memory_limit"] for w in client.scheduler_info()["workers"].values()]
    assert len(limits) == 2
    assert 0.2 * sum(limits) < cluster.memory() < 0.6 * sum(limits)


@SUMS
def test_results_do_not_depend_on_the_workers(cluster, rng, monkeypatch, small_sums):
    monkeypatch.setattr(dask_blocks, "SMALL_SUMS", small_sums)
    X = rng.randn(800, 3) * 10.0 ** rng.uniform(-8, 8, (800, 1))

    def sums(cluster):
        blocks = ClusterBlocks(cluster, X, 3)
        return blocks.visit(lambda x: ((x.T @ x, np.sin(x).sum()), ()), Table(X))[0]

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0"
        ) as other,
        distributed.Client(other, set_as_default=False) as alone,
    ):
        expected = sums(Cluster(alone))
    monkeypatch.setattr(dask_blocks, "SMALL_SUMS", 2**22 - small_sums)
    for found in (sums(cluster), sums(cluster)):
        assert_array_equal(found[0], expected[0])
        assert found[1] == expected[1]


@SUMS
@pytest.mark.parametrize("failing", [0, 333, 999])
def test_errors_arrive_as_themselves(cluster, rng, monkeypatch, small_sums, failing):
    monkeypatch.setattr(dask_blocks, "SMALL_SUMS", small_sums)
    blocks = ClusterBlocks(cluster, rng.randn(1000, 1), 3)

    def function(k, error):
        if failing in k:
            raise error[0](f"at row {failing}")
        return (np.eye(2),), (k,)

    for error in (LinAlgError, ZeroDivisionError):
        with pytest.raises(error, match=f"at row {failing}"):
            blocks.visit(function, np.arange(1000), np.full(1000, error, dtype=object))
    assert blocks.visit(lambda k: ((k.sum(),), ()), np.arange(1000))[0] == (499500,)


def test_settings_of_floating_point_errors_go_along(cluster):
    blocks = ClusterBlocks(cluster, np.zeros((100, 1)), 1)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide"):
        blocks.visit(lambda x: ((np.ones(1) / x[0],), ()), np.zeros(100))


def test_a_table_is_sent_once_and_dropped_with_it(client, cluster, rng):
    X = Counted(rng.randn(500, 2))
    for n_columns in (2, 5):
        blocks = ClusterBlocks(cluster, X, n_columns)
        for _ in range(2):
            (total,) = blocks.visit(lambda x: ((x.sum(axis=0),), ()), Table(X))[0]
            assert_allclose(total, X.values.sum(axis=0), atol=1e-12)
    # And one look at the size of a part.
    assert X.n_reads == len(blocks.slices) + 1
    assert len(keys_of(client, "sparsegpc-rows")) == len(blocks.slices)
    del X, blocks
    assert soon(lambda: not keys_of(client, "sparsegpc-rows"))


def test_the_context_drops_its_tables(client, rng):
    X = rng.randn(160, 2)
    with distribute(client):
        blocks = row_blocks(X, 3)
        blocks.visit(lambda x: ((x.sum(),), ()), Table(X))
        assert keys_of(client, "sparsegpc-rows")
    assert soon(lambda: not keys_of(client, "sparsegpc-rows"))


def test_a_store_is_released_with_its_last_user(client, cluster, rng):
    X = rng.randn(100, 2)
    blocks = ClusterBlocks(cluster, X, 2)
    store = blocks.store(np.transpose, Table(X), n_arrays=1, is_array=True)
    blocks.visit(lambda V: ((V.sum(),), ()), store)
    assert len(keys_of(client, "sparsegpc-store")) == len(blocks.slices)
    del store
    assert soon(lambda: not keys_of(client, "sparsegpc-store"))
    assert keys_of(client, "sparsegpc-rows"), "the table is still there"


def test_the_work_is_done_by_all_workers(cluster):
    X = np.zeros((1000, 1))
    blocks = ClusterBlocks(cluster, X, 1)
    (seen,) = blocks.visit(lambda x: ((), (x[:, 0] + os.getpid(),)), Table(X))[1]
    assert os.getpid() not in seen
    assert len(set(seen)) == 2


@pytest.mark.parametrize("n_rows", [1, 159, 160, 161, 5000, 10**6])
@pytest.mark.parametrize("n_columns", [0, 3, 10**5])
def test_parts_cover_the_rows_within_limits(n_rows, n_columns):
    X = np.broadcast_to(0.0, (n_rows, n_columns))
    parts = cut(X)
    sizes = np.array([part.stop - part.start for part in parts])
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop) == (0, n_rows)
    assert sizes.min() > 0
    assert sizes.max() * n_columns * 8 <= max(dask_blocks.PART_BYTES, 8 * n_columns)
    assert sizes.max() <= dask_blocks.LARGEST_PART
    assert np.ptp(sizes) <= 1


def test_parts_of_a_dask_array_are_chunks_together_or_pieces_of_one(monkeypatch):
    monkeypatch.setattr(dask_blocks, "SMALLEST_PART", 30)
    X = da.zeros((500, 2), chunks=((20, 5, 20, 300, 17, 59, 10, 9, 60), 2))
    sizes = [part.stop - part.start for part in cut(RowSource(X))]
    assert sizes == [25, 20, *[30] * 10, 17, 59, 19, 30, 30]


@pytest.mark.parametrize(
    "wrap", [lambda X: X, RowSource, lambda X: RowSource(X).subset(range(9, 400))]
)
def test_a_dask_array_is_used_where_it_is(client, cluster, wrap, monkeypatch):
    def block(block_info=None):
        (start, stop), _ = block_info[None]["array-location"]
        return np.column_stack([np.arange(start, stop), np.full(stop - start, os.getpid())])

    array = da.map_blocks(
        block, chunks=((130, 70, 200), (2,)), dtype=np.int64, meta=np.empty((0, 0), int)
    )
    X = wrap(array)
    numbers = np.arange(400)[-len(X) :]
    y = np.sqrt(numbers)
    gathered = []
    blocks = ClusterBlocks(cluster, X, 2)
    gather = client.gather
    monkeypatch.setattr(
        client, "gather", lambda futures, **o: gathered.append(futures) or gather(futures, **o)
    )

    def function(x, y):
        assert x.dtype == np.float64
        assert x.flags.c_contiguous
        return (x[:, 0] @ y, float((x[:, 1] == os.getpid()).sum())), ()

    (total, same), rows = blocks.visit(function, Table(X), y)
    assert rows == ()
    assert total == pytest.approx(numbers @ y, rel=1e-12)
    assert same > 0, "some parts stayed on the worker that made them"
    assert all("sparsegpc" in str(future.key) for group in gathered for future in group)


def test_outside_of_the_context_and_for_few_rows_the_work_stays_here(client):
    X = np.zeros((160, 2))
    assert type(row_blocks(X, 2, n_threads=2)) is RowBlocks
    with distribute(client) as same:
        assert same is client
        assert type(row_blocks(X, 2)) is ClusterBlocks
        assert type(row_blocks(X[:159], 2)) is RowBlocks
    assert type(row_blocks(X, 2)) is RowBlocks


def test_the_context_ends_with_an_exception(client):
    with pytest.raises(ArithmeticError), distribute(client):
        raise ArithmeticError
    assert type(row_blocks(np.zeros((160, 2)), 2)) is RowBlocks


@pytest.mark.parametrize("wrong", [None, "tcp://127.0.0.1:8786"])
def test_what_is_no_client_is_refused(wrong):
    message = r"client must be a synchronous distributed\.Client.*got"
    with pytest.raises(TypeError, match=message), distribute(wrong):
        pass


def make_model(kind, rng, n=480):
    X = rng.randn(n, 2)
    f = np.sin(2.0 * X[:, 0]) + X[:, 1]
    kernel = FreeKernel(Scaled(Constant(), RBF(2)), np.zeros(3), np.ones(3, dtype=bool))
    weight = rng.uniform(0.5, 2.0, n)
    if kind == "labels":
        likelihood = PolyaGammaLogit()
        targets = [np.where(f + 0.4 * rng.randn(n) > 0.0, 1.0, -1.0)]
    else:
        likelihood = GaussianNoise(1)
        targets = [noisy_targets(f + 0.1 * rng.randn(n), 0.0)]
    return SparseModel(kernel, likelihood, X, targets, weight, slack=SLACKS[likelihood.slacks[0]])


@pytest.fixture(params=["labels"])
def model(request, rng):
    return make_model(request.param, rng)


def evaluate(model, wrt_Z=True):
    theta = np.full(model.kernel.n_params + model.likelihood.n_params, -0.2)
    Z = model.X[:: len(model.X) // 8]
    return model.evaluate(theta, InducingPoints(Z), model.initial_state(), wrt_Z=wrt_Z)


def test_an_evaluation_is_that_of_one_machine(client, model):
    expected = evaluate(model)
    with distribute(client):
        found = evaluate(model)
        again = evaluate(model)
    assert found.objective == pytest.approx(expected.objective, rel=1e-11)
    assert_allclose(found.grad_theta, expected.grad_theta, rtol=1e-7, atol=1e-8)
    assert_allclose(found.grad_Z, expected.grad_Z, rtol=1e-6, atol=1e-7)
    # A message may end up anywhere in memory, which can change the last digit of a sum.
    assert again.objective == pytest.approx(found.objective, rel=1e-13)
    assert_allclose(again.grad_theta, found.grad_theta, rtol=1e-12, atol=1e-12)


def test_predictions_are_those_of_one_machine(client, model):
    posterior = evaluate(model).posterior
    expected = posterior.moments(model.X)
    with distribute(client):
        found = posterior.moments(model.X)
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


def test_nothing_of_all_rows_is_sent_with_the_functions(client, model, monkeypatch):
    """Functions hold small matrices only, and rows are sent part by part."""
    from cloudpickle import dumps

    sizes, send = [], Cluster.send

    def watched(self, value):
        sizes.append(len(dumps(value)))
        return send(self, value)

    monkeypatch.setattr(Cluster, "send", watched)
    with distribute(client):
        evaluate(model)
    assert len(sizes) > 5
    # M is 9: matrices take 648 bytes, an array of all rows 3840.
    assert max(sizes) < 8 * len(model.weight)
