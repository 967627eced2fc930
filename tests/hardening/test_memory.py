"""Peak memory stays under its formula.

The formulas and the grid are in `memory_grid`, whose other sizes are the long form.
"""

import math
import tracemalloc

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context
from sklearn.gaussian_process.kernels import Matern

from sparsegpc import (
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sparsegpc._core.kernels.algebra import FreeKernel
from sparsegpc._core.kernels.families import RBF
from sparsegpc._core.models import model as core_model
from sparsegpc._core.rows.merged_rows import merge_rows, merge_tables
from sparsegpc._estimators import base_sparse_gp
from sparsegpc._estimators.kernels import spread
from tests.hardening.memory_grid import MIB, QUICK, formula, measure

FAST = {"optimizer": None, "max_reselections": 0}


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


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((3000, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(3000)


def test_points_that_a_tolerance_may_limit(rows):
    X, y = rows
    model = SparseGPRegressor(Matern(1.0, nu=0.5), n_inducing=10**6, selection_tol=4.0, **FAST)
    assert len(model.fit(X, y).inducing_points_) < 1000


def test_distinct_rows_that_are_sorted_already_are_not_copied():
    X, weight = np.arange(2000.0)[:, None] * np.ones(3), np.ones(2000)
    assert merge_rows(X, weight, is_sorted=True).X is X
    assert not np.shares_memory(merge_rows(X, weight).X, X)
    # What `merge_tables` sorts is, equal rows included.
    (two, _), total, _, _ = merge_tables([X[::-1] // 2.0, X], weight)
    once, again = merge_rows(two, total, is_sorted=True), merge_rows(two, total)
    assert len(once.X) == 1000
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_merging_takes_one_copy_of_the_rows():
    X = np.random.RandomState(0).standard_normal((20_000, 50))
    X[:, 0] = 1.0
    peak, rows = traced(lambda: merge_rows(X, np.ones(len(X))))
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
