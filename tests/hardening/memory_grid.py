"""Peak memory over a grid of sizes, against the formulas of the user guide.

``python -m tests.hardening.memory_grid`` prints for each case what was measured, what the formula
allows, and the ratio, which must be at most one. What is measured is what numpy allocates beyond
the input. ``--resident`` adds the growth of the resident memory of a fresh process (on Linux), with
the work arrays of LAPACK and the buffers of BLAS. ``--quick`` takes the short form's cases only.
"""

import argparse
import multiprocessing
import sys
import tracemalloc
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from sparsegpc import (
    InducingPointSelector,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.threads import available_threads

MIB = 2**20
# Beyond what BLAS and the interpreter take in any case.
RESIDENT_SLACK = 96 * MIB


class Case(NamedTuple):
    """Sizes and settings; ``method`` is what is measured, ``model`` of what."""

    model: str
    method: str
    n_rows: int
    n_points: int
    n_columns: int
    n_classes: int = 2
    working_memory: int = 64
    options: tuple = ()

    @property
    def n_functions(self):
        """Functions that are learned together, those of the noise included."""
        options = dict(self.options)
        if self.model in ("regressor", "stochastic regressor", "selector"):
            return 2 if options.get("noise") == "gp" else 1
        several = options.get("likelihood", "softmax") in ("softmax", "logistic-softmax")
        return self.n_classes if several and self.n_classes > 2 else 1


QUICK = [
    Case("regressor", "fit", 3000, 100, 3),
    Case("regressor", "fit", 3000, 20, 150),
    Case("regressor", "fit", 2000, 40, 2, options=(("noise", "gp"),)),
    Case("regressor", "predict", 50_000, 50, 4, working_memory=16),
    Case("regressor", "return_cov", 1000, 30, 2),
    Case("regressor", "sample_y", 700, 30, 2),
    Case("regressor", "certificate", 3000, 50, 3),
    Case("classifier", "fit", 3000, 50, 3),
    Case("classifier", "predict_proba", 20_000, 30, 3),
    Case("classifier", "fit", 800, 30, 2, 4),
    Case("classifier", "sample_f", 600, 20, 2, 4),
    Case("stochastic regressor", "fit", 6000, 40, 3),
    Case("stochastic classifier", "partial_fit", 3000, 40, 3),
    Case("selector", "fit", 20_000, 60, 4),
    Case("selector", "transform", 20_000, 60, 4),
]
LONG = [
    *[
        Case("regressor", "fit", n_rows, n_points, n_columns, working_memory=memory)
        for n_rows, n_points, n_columns in (
            (1000, 10, 2),
            (1000, 500, 10),
            (20_000, 10, 100),
            (20_000, 200, 5),
            (200_000, 10, 2),
            (200_000, 20, 10),
        )
        for memory in (16, 1024)
    ],
    Case("regressor", "fit", 20_000, 100, 2, working_memory=64, options=(("noise", "gp"),)),
    Case("regressor", "fit", 20_000, 100, 2, options=(("noise", "polynomial"),)),
    Case("regressor", "fit", 20_000, 50, 2, options=(("kernel", "matern"),)),
    Case("classifier", "fit", 20_000, 100, 4, working_memory=16),
    Case("classifier", "fit", 100_000, 20, 2, working_memory=1024),
    Case("classifier", "fit", 5000, 30, 2, 6, working_memory=16),
    Case("classifier", "fit", 5000, 30, 2, 4, options=(("likelihood", "polya-gamma"),)),
    Case("classifier", "predict_proba", 200_000, 100, 4, 6),
    Case("regressor", "certificate", 20_000, 100, 4, working_memory=1024),
    Case("regressor", "return_cov", 3000, 100, 4),
    Case("regressor", "predict", 200_000, 500, 4),
    Case("stochastic regressor", "fit", 100_000, 100, 10),
    Case("stochastic classifier", "fit", 20_000, 100, 10),
    Case("stochastic classifier", "fit", 10_000, 40, 2, 6),
    Case("selector", "fit", 200_000, 200, 4),
    Case("selector", "transform", 100_000, 50, 2000),
]


def formula(case):
    """Return the bytes beyond the input that the user guide allows."""
    few = min(case.n_rows, 200)
    if case.method.endswith("fit") and case.model != "selector" and case.n_points < few:
        # Start values are learned from 200 rows with a point at each.
        return max(_formula(case), _formula(case._replace(n_rows=few, n_points=few)))
    return _formula(case)


def _formula(case):
    N, M, D, F = case.n_rows, case.n_points, case.n_columns, case.n_functions
    learns = case.method.endswith("fit") and case.model != "selector"
    n_visited = N
    if case.model == "stochastic regressor" or case.method == "partial_fit":
        # Batches are smaller than the rows that it begins with.
        n_visited = min(N, max(2000, 20 * M))
    block = RowBlocks(n_visited, M, n_read=D).slices[0].stop
    threads = min(available_threads(), -(-n_visited // block))
    blocks = 8 * threads * block * ((10 if learns else 3) * M + 4 * D)
    kept = 0
    if learns or case.method == "certificate":
        kept = min(case.working_memory * MIB, 8 * n_visited * (_arrays(case) * M + D))
    if learns:
        n_numbers = 25 + 2 * D + 12 * F
    elif case.method in ("fit", "certificate"):
        n_numbers = 25 + 2 * D + 5 * F
    else:
        n_numbers = 10 + 5 * F
    tiles = 0
    if case.method == "certificate":
        threads = min(available_threads(), -(-N // 512))
        tiles = threads * (8 * (1536 * M * (F + 1) + 2 * F * M * M) + 8 * MIB)
    return kept + blocks + tiles + 8 * N * n_numbers + 8 * M * M * (12 + 6 * F) + _result(case)


def _arrays(case):
    """Return how many numbers for each row and point a fit keeps."""
    return 3 if dict(case.options).get("kernel") == "matern" else 2


def _result(case):
    """Return the bytes of results that are larger than some numbers for each row."""
    N, M, F = case.n_rows, case.n_points, case.n_functions
    if case.method == "transform":
        return 8 * N * M
    if case.method == "return_cov":
        return 8 * N * (N * (F + 2) + 3 * M)
    if case.method in ("sample_y", "sample_f"):
        return 24 * N * (N + M + F)
    if case.method == "predict_proba":
        return available_threads() * min(8 * 200 * N * F, 16 * MIB)
    return 0


def _data(case):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((case.n_rows, case.n_columns))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1 % case.n_columns]
    noisy = f + 0.3 * rng.standard_normal(len(f))
    if "classifier" not in case.model:
        return X, noisy
    limits = np.quantile(noisy, np.linspace(0.0, 1.0, case.n_classes + 1)[1:-1])
    return X, np.digitize(noisy, limits)


def _estimator(case):
    options = dict(case.options)
    family = Matern if options.pop("kernel", None) == "matern" else RBF
    kernel = ConstantKernel(1.0) * family(0.3 * case.n_columns**0.5)
    if case.model == "selector":
        return InducingPointSelector(kernel, n_components=case.n_points)
    if case.model == "stochastic regressor":
        return StochasticSparseGPRegressor(kernel, n_inducing=case.n_points, n_epochs=1)
    if case.model == "stochastic classifier":
        return StochasticSparseGPClassifier(kernel, n_inducing=case.n_points, n_epochs=1)
    kind = SparseGPRegressor if case.model == "regressor" else SparseGPClassifier
    short = {"selection_tol": 0.0, "max_iter": 1, "max_reselections": 0}
    return kind(kernel, n_inducing=case.n_points, **short, **options)


def _call(case):
    """Return a function without arguments that does what is measured."""
    X, y = _data(case)
    model = _estimator(case)
    if case.method == "fit":
        return lambda: model.fit(X, y)
    if case.method == "partial_fit":
        classes = {"classes": np.unique(y)} if "classifier" in case.model else {}
        return lambda: model.partial_fit(X, y, **classes)
    few = X[:2000], y[:2000]
    if case.method == "certificate":
        model.fit(X, y)
        return lambda: model.certificate(X, y)
    model.fit(*few)
    if case.method == "return_cov":
        return lambda: model.predict(X, return_cov=True)
    return lambda: getattr(model, case.method)(X)


def measure(case):
    """Return the bytes that numpy had allocated beyond the input at the peak."""
    with warnings.catch_warnings(), config_context(working_memory=case.working_memory):
        warnings.simplefilter("ignore", ConvergenceWarning)
        call = _call(case)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            call()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()


def _resident(case):
    """Return by how much the resident memory of this process is larger at the peak, on Linux."""
    with warnings.catch_warnings(), config_context(working_memory=case.working_memory):
        warnings.simplefilter("ignore", ConvergenceWarning)
        call = _call(case)
        # The peak begins anew; that of resource.getrusage would be that of the parent.
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        call()
        return _status("VmHWM") - before


def _status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main():
    """Print the table, and return whether all ratios are at most one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--resident", action="store_true")
    arguments = parser.parse_args()
    print(f"{'case':78s} measured  formula  ratio")
    worst = 0.0
    for case in QUICK if arguments.quick else QUICK + LONG:
        found, allowed = measure(case), formula(case)
        texts = [f"{found / MIB:8.1f} {allowed / MIB:8.1f} {found / allowed:6.2f}"]
        ratios = [found / allowed]
        if arguments.resident:
            # A fresh process for each: the peak of a process never falls.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                grown = pool.submit(_resident, case).result()
            ratios.append(grown / (allowed + RESIDENT_SLACK))
            texts.append(f"resident {grown / MIB:8.1f}")
        worst = max(worst, *ratios)
        sizes = f"N={case.n_rows} M={case.n_points} D={case.n_columns} C={case.n_classes}"
        name = f"{case.model} {case.method} {sizes} {case.working_memory} MiB {dict(case.options)}"
        print(f"{name:78s} {' '.join(texts)}", flush=True)
    print(f"largest ratio {worst:.2f}")
    return worst <= 1.0


if __name__ == "__main__":
    sys.exit(not main())
