"""Fits that spread their rows over worker processes end where those on one machine do."""

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, DotProduct, Exponentiation

from sparsegpc import (
    GPNoise,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
    distribute,
)
from sparsegpc._core.learning import all_rows
from sparsegpc._core.rows import dask_blocks

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def client():
    """A client of two worker processes, which are started again if they die."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of a few hundred rows, so that there are several of them."""
    monkeypatch.setattr(dask_blocks, "SMALLEST_PART", 450)


@pytest.fixture
def visits(monkeypatch):
    """How often the rows are visited by the workers."""
    names, map_ = [], dask_blocks.Cluster.map

    def watched(self, name, *arguments):
        names.append(name)
        return map_(self, name, *arguments)

    monkeypatch.setattr(dask_blocks.Cluster, "map", watched)
    return names


def make_data(n=1000):
    rng = np.random.RandomState(3)
    X = rng.randn(n, 2)
    f = np.sin(2.0 * X[:, 0]) + X[:, 1]
    return X, f, f + 0.3 * rng.randn(n)


def labels(y, n_classes=2):
    return np.searchsorted(np.linspace(-0.5, 0.5, n_classes - 1), y)


# Sites that are far from converged are as good for a comparison, and take fewer visits.
CASES = {
    "one vs rest": (SparseGPClassifier(n_inducing=8, optimizer=None, tol=1.0), 3),
    "numbers": (SparseGPRegressor(n_inducing=12, max_iter=1, max_reselections=0), None),
    "linear kernel": (SparseGPRegressor(DotProduct(), n_inducing=3, optimizer=None), None),
    "kernel by values": (
        SparseGPRegressor(Exponentiation(RBF(), 2), n_inducing=5, max_iter=1, max_reselections=0),
        None,
    ),
    "basis noise": (
        SparseGPRegressor(n_inducing=8, noise=PolynomialNoise(1), optimizer=None),
        None,
    ),
    "noise process": (
        SparseGPRegressor(n_inducing=8, noise=GPNoise(n_inducing=4), optimizer=None, tol=1.0),
        None,
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == "noise process" else ()) for n in CASES],
)
def test_a_fit_is_that_of_one_machine(client, visits, name):
    estimator, n_classes = CASES[name]
    X, _, y = make_data()
    y = y if n_classes is None else labels(y, n_classes)
    expected = estimator.fit(X, y)
    bound = np.array(expected.lower_bound_)
    mean = expected.latent_mean_and_variance(X)[0] if n_classes != 3 else expected.predict_proba(X)
    assert not visits
    with distribute(client):
        found = estimator.fit(X, y)
        ours = found.latent_mean_and_variance(X)[0] if n_classes != 3 else found.predict_proba(X)
    assert visits.count("visit") > 3
    assert_allclose(found.lower_bound_, bound, rtol=1e-8)
    assert_allclose(ours, mean, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_predictions_are_those_of_rows_that_were_overwritten(client, visits):
    X, _, y = make_data()
    model = SparseGPRegressor(n_inducing=8, optimizer=None).fit(X, y)
    buffer = X.copy()
    with distribute(client):
        first = model.predict(buffer)
        buffer[:] = X[::-1]
        second = model.predict(buffer)
    assert visits
    assert_allclose(second, first[::-1], rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_workers_visit_all_rows_after_learning_from_a_part_of_them(client, visits, monkeypatch):
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", 400)
    X, _, y = make_data()
    model = SparseGPClassifier(1.0 * RBF(), n_inducing=4, max_iter=3)
    bound = model.fit(X, labels(y)).lower_bound_
    with distribute(client):
        model.fit(X, labels(y))
    # The part is too small for several workers.
    assert model.history_["n_samples"].tolist().count(len(X)) == 1
    assert visits.count("visit") > 3
    assert model.lower_bound_ == pytest.approx(bound, rel=1e-8)


def test_client_that_is_closed_is_refused(client):
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    other.close()
    with pytest.raises(ValueError, match="client must be connected"), distribute(other):
        pass


def test_small_problems_and_minibatches_stay_here(client, visits, monkeypatch):
    monkeypatch.setattr(dask_blocks, "SMALLEST_PART", 501)
    X, _, y = make_data()
    with distribute(client):
        StochasticSparseGPRegressor(n_inducing=5, n_epochs=1).fit(X, y)
        SparseGPRegressor(n_inducing=5, optimizer=None).fit(X, y)
    assert visits == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_dask_array_is_fitted_as_rows_from_elsewhere_are(client, visits, tmp_path):
    X, _, y = make_data()
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = SparseGPRegressor(selector=X[::100], optimizer=None)
    bound = model.fit(on_disk, y).lower_bound_
    with distribute(client):
        found = model.fit(da.from_array(X, chunks=(300, 2)), y).lower_bound_
    assert visits.count("visit") > 3
    assert found == pytest.approx(bound, rel=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_worker_that_dies_costs_its_parts_not_the_fit(client, monkeypatch):
    client.wait_for_workers(2, timeout=60)
    X, _, y = make_data()
    model = SparseGPClassifier(n_inducing=12, optimizer=None, tol=1.0)
    y = labels(y)
    bound = model.fit(X, y).lower_bound_
    map_, killed = dask_blocks.Cluster.map, []

    def murderous(self, name, *arguments):
        """Kill a worker while it has the tasks of the fourth visit."""
        futures = map_(self, name, *arguments)
        if name == "visit":
            killed.append(None)
            if len(killed) == 4:
                holders = client.has_what()
                rows = {w: sum("rows" in str(k) for k in keys) for w, keys in holders.items()}
                assert min(rows.values()) > 0, "each worker has something to lose"
                os.kill(pids[min(rows)], signal.SIGKILL)
        return futures

    pids = client.run(os.getpid)
    assert len(pids) == 2
    monkeypatch.setattr(dask_blocks.Cluster, "map", murderous)
    with distribute(client):
        # The other worker goes on alone, until the dead one is started again, at a new address.
        found = model.fit(X, y).lower_bound_
        assert len(killed) > 8
        client.wait_for_workers(2, timeout=60)
        # Then the new one gets its share.
        again = model.fit(X, y).lower_bound_
    left = client.run(os.getpid)
    assert len(set(left.values()) & set(pids.values())) == 1
    assert found == pytest.approx(bound, rel=1e-8)
    assert again == pytest.approx(bound, rel=1e-8)
