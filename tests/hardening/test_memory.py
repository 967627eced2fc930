"""Peak memory stays under its formula, and what cannot fit is refused before it is allocated.

The formulas and the grid are in `memory_grid`, whose other sizes are the long form.
"""

import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.gaussian_process.kernels import Matern

from sparsegpc import (
    InducingPointSelector,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.kernels.algebra import FreeKernel
from sparsegpc._core.kernels.families import RBF
from sparsegpc._core.models import model as core_model
from sparsegpc._core.numerics import memory
from sparsegpc._core.rows.unique_rows import unique_rows, unique_tables
from sparsegpc._estimators import base_sparse_gp
from sparsegpc._estimators.kernels import spread
from tests.hardening.memory_grid import MIB, QUICK, formula, measure

FAST = {"optimizer": None, "max_reselections": 0}
LIMIT = 80 * MIB


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.model}-{case.method}")
def test_peak_memory_is_under_the_formula_of_the_user_guide(case):
    found, allowed = measure(case), formula(case)
    assert found <= allowed, f"{found / MIB:.1f} MiB, where the formula allows {allowed / MIB:.1f}"
    # A formula that allowed everything would say nothing.
    assert found > 0.1 * allowed


def traced(function):
    """Return the peak of what numpy allocates while `function` runs, and what it returns."""
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "memory_limit", lambda: LIMIT)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((3000, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(3000)


@pytest.fixture(scope="module")
def regressor(rows):
    X, y = rows
    return SparseGPRegressor(n_inducing=10, **FAST).fit(X[:200], y[:200])


@pytest.fixture(scope="module")
def classifier(rows):
    X, y = rows
    return SparseGPClassifier(n_inducing=10, **FAST).fit(X[:200], (y > 0.0)[:200])


def refused(function, request, n_matrices, peak=8 * MIB):
    """Check that a call is refused before it allocates more than `peak` bytes."""
    most = math.isqrt(LIMIT // (8 * n_matrices))

    def call():
        with pytest.raises(MemoryError) as error:
            function()
        return str(error.value)

    found, text = traced(call)
    assert text.startswith(f"{request} needs at least ")
    assert text.endswith(f"this process may have 0.0781 GiB: ask for at most {most}")
    assert found < peak


JOINT = "the joint covariance of 3000 rows"
# Matrices that any model needs at once.
OF_POINTS = 5


@pytest.mark.usefixtures("small_machine")
class TestRefusals:
    def test_covariances(self, rows, regressor):
        X, _ = rows
        refused(lambda: regressor.predict(X, return_cov=True), JOINT, 2)
        refused(lambda: regressor.sample_y(X), JOINT, 2)

    def test_draws_of_f(self, rows, classifier):
        refused(lambda: classifier.sample_f(rows[0]), JOINT, 2)

    def test_what_fits_is_not_refused(self, rows, regressor):
        n = math.isqrt(LIMIT // 16)
        mean, covariance = regressor.predict(rows[0][:n], return_cov=True)
        assert covariance.shape == (n, n)
        assert np.isfinite(mean).all()

    @pytest.mark.parametrize("kind", [SparseGPRegressor, StochasticSparseGPRegressor])
    def test_given_points(self, rows, kind):
        X, y = rows
        points = np.broadcast_to(np.float64(1.0), (10**5, 2))
        request = "a model with 100000 inducing points"
        refused(lambda: kind(selector=points).fit(X[:50], y[:50]), request, OF_POINTS)

    @pytest.mark.parametrize("method", ["kmeans", "hgv", "rpcholesky", "uniform"])
    def test_points_that_are_certain(self, rows, method):
        X, y = rows
        request = "a model with 3000 inducing points"
        model = SparseGPRegressor(selector=method, n_inducing=10**6, selection_tol=0.0, **FAST)
        refused(lambda: model.fit(X, y), request, OF_POINTS)
        selector = InducingPointSelector(method=method, n_components=10**6, tol=0.0)
        refused(lambda: selector.fit(X), request, OF_POINTS)

    def test_points_that_a_tolerance_may_limit(self, rows):
        X, y = rows
        model = SparseGPRegressor(Matern(1.0, nu=0.5), n_inducing=10**6, selection_tol=4.0, **FAST)
        assert len(model.fit(X, y).inducing_points_) < 1000

    def test_a_fitted_model_stays_as_it_was(self, rows):
        X, y = rows
        model = SparseGPRegressor(n_inducing=10, **FAST).fit(X[:200], y[:200])
        model.set_params(selector="kmeans", n_inducing=3000)
        before, expected = dict(vars(model)), model.predict(X[:5])
        refused(lambda: model.fit(X, y), "a model with 3000 inducing points", OF_POINTS)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is before[name] for name in before)
        np.testing.assert_array_equal(model.predict(X[:5]), expected)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the address space has a limit on Linux")
def test_a_limit_of_the_process_is_seen():
    program = (
        "import resource, numpy as np\n"
        "from sparsegpc import SparseGPRegressor\n"
        "X = np.linspace(0.0, 1.0, 50)[:, None]\n"
        "model = SparseGPRegressor(n_inducing=5, optimizer=None).fit(X, X[:, 0])\n"
        "resource.setrlimit(resource.RLIMIT_AS, (5 * 2**30, 5 * 2**30))\n"
        "try:\n"
        "    model.predict(np.zeros((30_000, 1)), return_cov=True)\n"
        "except MemoryError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "needs at least 13.4 GiB of memory, but this process may have 5 GiB" in run.stdout


def fake_groups(tmp_path, monkeypatch, lines, limits):
    groups = tmp_path / "cgroup"
    groups.write_text("\n".join(lines))
    for name, text in limits.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(memory, "GROUPS", groups)
    monkeypatch.setattr(memory, "GROUP_FILES", tmp_path / "fs")
    return memory._group_limit()


@pytest.mark.parametrize(
    ("lines", "limits", "expected"),
    [
        (["0::/"], {"memory.max": "1000\n"}, 1000),
        (["0::/a/b"], {"a/memory.max": "500\n", "a/b/memory.max": "max\n"}, 500),
        (["0::/outside"], {"memory.max": "700\n"}, 700),
        (["0::/a"], {"a/memory.max": "max\n"}, math.inf),
        (["4:memory:/a"], {}, math.inf),
    ],
)
def test_limits_of_control_groups(tmp_path, monkeypatch, lines, limits, expected):
    assert fake_groups(tmp_path, monkeypatch, lines, limits) == expected


def test_without_any_limit_nothing_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "resource", None)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "none")
    monkeypatch.delattr(memory.os, "sysconf", raising=False)
    assert memory.memory_limit() == math.inf
    memory.check_square_matrices(10**15, 1, "everything")


def test_the_least_limit_counts(monkeypatch):
    monkeypatch.setattr(memory, "_physical_memory", lambda: 300)
    monkeypatch.setattr(memory, "_process_limit", lambda: math.inf)
    monkeypatch.setattr(memory, "_group_limit", lambda: 200)
    assert memory.memory_limit() == 200


def test_distinct_rows_that_are_sorted_already_are_not_copied():
    X, weight = np.arange(2000.0)[:, None] * np.ones(3), np.ones(2000)
    assert unique_rows(X, weight, is_sorted=True).X is X
    assert not np.shares_memory(unique_rows(X, weight).X, X)
    # What `unique_tables` sorts is, equal rows included.
    (two, _), total, _, _ = unique_tables([X[::-1] // 2.0, X], weight)
    once, again = unique_rows(two, total, is_sorted=True), unique_rows(two, total)
    assert len(once.X) == 1000
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_merging_takes_one_copy_of_the_rows():
    X = np.random.RandomState(0).standard_normal((20_000, 50))
    X[:, 0] = 1.0
    peak, rows = traced(lambda: unique_rows(X, np.ones(len(X))))
    assert peak < 1.3 * X.nbytes + 8 * 20 * len(X)
    np.testing.assert_array_equal(rows.X, X[np.lexsort(X.T[::-1])])


def test_the_spread_takes_some_columns_at_a_time():
    X = np.random.RandomState(0).standard_normal((50_000, 100))
    weight = np.ones(len(X))
    peak, found = traced(lambda: spread.measure_spread(X, weight))
    assert peak < 1.5 * X.nbytes
    np.testing.assert_allclose(found.deviations, X.std(axis=0), rtol=1e-9)


def test_a_pullback_keeps_one_copy_of_the_rows():
    rng = np.random.RandomState(0)
    kernel = FreeKernel(RBF(), np.zeros(1), np.ones(1, dtype=bool))
    Z, X = rng.standard_normal((10, 500)), rng.standard_normal((2000, 500))
    tracemalloc.start()
    kept = kernel.evaluate(np.zeros(1), Z, X)
    now = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(kept) == 2
    assert now < 1.1 * X.nbytes + 8 * 10 * 2000


def test_function_and_noise_divide_the_working_memory(rows, monkeypatch):
    X, y = rows
    seen, original = [], core_model.row_blocks

    def watched(X, n_columns, **options):
        if "memory" in options:
            seen.append(options["memory"])
        return original(X, n_columns, **options)

    monkeypatch.setattr(core_model, "row_blocks", watched)
    with config_context(working_memory=64):
        SparseGPRegressor(noise="gp", n_inducing=10, **FAST).fit(X[:200], y[:200])
    shares = [memory for memory in seen if memory < 64 * MIB]
    assert len(shares) >= 2
    for of_f, of_noise in zip(shares[::2], shares[1::2], strict=True):
        assert of_f + of_noise == pytest.approx(64 * MIB)


def test_models_learned_at_once_divide_the_working_memory(rows, monkeypatch):
    X, _ = rows
    seen, original = [], base_sparse_gp.row_options

    def watched():
        seen.append(original()["memory"])
        return original()

    monkeypatch.setattr(base_sparse_gp, "row_options", watched)
    y = np.digitize(X[:200, 0], [-0.5, 0.5])
    model = SparseGPClassifier(likelihood="polya-gamma", n_inducing=10, n_jobs=2, **FAST)
    with config_context(working_memory=64), parallel_config("threading"):
        model.fit(X[:200], y)
    assert set(seen) == {32 * MIB}


def test_noise_at_many_rows_is_predicted_block_by_block(rows):
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((300, 6)), rows[1][:300]
    noise = PolynomialNoise(degree=3, interactions=True)
    model = SparseGPRegressor(noise=noise, n_inducing=5, **FAST).fit(X, y)
    many = rng.standard_normal((50_000, 6))
    n_functions = math.comb(9, 3)
    peak, std = traced(lambda: model.predict_noise_std(many))
    assert peak < 8 * n_functions * len(many)
    np.testing.assert_allclose(std[:100], model.predict_noise_std(many[:100]), rtol=1e-12)
