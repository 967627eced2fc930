"""CPU seconds of one evaluation of the collapsed regression bound with its gradient.

N rows of a set, M of them as fixed inducing points, a constant times RBF with one length scale or
with one per column, homoscedastic noise, double precision, one thread. Hyperparameters change from
each evaluation to the next, so that nothing can be kept. After three evaluations to warm up, the
median of the next ones, and what share of dgemm's rate it amounts to: the bound and its gradient
take 6 N M^2 floating-point operations, 5 with the standard slack, beside which exponentials and
sums over columns should hardly show.

    python benchmarks/evaluation_speed.py [--points 512 1024] [--slacks tight] [--peers FOLDER]

A folder with the measurements of other libraries holds JSON files with ``lib``, ``data``, ``n``,
``M``, ``optimise_z`` and ``value_and_grad_cpu_median_s``, of the same rows, points, kernel with one
length scale and number of threads; they are printed with the ratio of their time to ours.
"""

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import load_regression, permuted, split_regression
from threadpoolctl import threadpool_limits

from sparsegpc._choices import Chosen
from sparsegpc._gaussian import GaussianNoise, noisy_targets
from sparsegpc._kernel_algebra import FreeKernel, Scaled
from sparsegpc._kernels import RBF, Constant
from sparsegpc._merging import merge_rows
from sparsegpc._model import SparseModel

WARM_UP, NUDGE = 3, 1e-3
LENGTH_SCALE, NOISE, JITTER = 2.0, 0.1, 1e-6
# Floating-point operations of an evaluation, in units of N M^2.
OPERATIONS = {"tight": 6, "spherical": 6, "standard": 5}


class Run(NamedTuple):
    """What is timed: `n_length_scales` is one or the number of columns."""

    slack: str
    n_points: int
    n_length_scales: int
    wrt_Z: bool


def cpu_median(function, repeats):
    """Return the median CPU seconds of ``function(i)`` over the repeats after the warm-up."""
    seconds = []
    for i in range(WARM_UP + repeats):
        start = time.process_time()
        function(i)
        seconds.append(time.process_time() - start)
    return float(np.median(seconds[WARM_UP:]))


def dgemm_rate(n_points, n_rows, repeats):
    """Return operations per second of an (M, M) times an (M, N) product."""
    rng = np.random.RandomState(0)
    A, V = rng.randn(n_points, n_points), rng.randn(n_points, n_rows)
    out = np.empty_like(V)
    seconds = cpu_median(lambda i: np.matmul(A, V, out=out), repeats)
    return 2.0 * n_points**2 * n_rows / seconds


def evaluation_seconds(X, y, seed, run, repeats):
    """Return CPU seconds of an evaluation."""
    rows = merge_rows(X, np.ones(len(y)))
    kernel = Scaled(Constant(), RBF(run.n_length_scales))
    free = FreeKernel(kernel, np.zeros(kernel.n_params), np.ones(kernel.n_params, dtype=bool))
    basis = np.ones((len(rows.X), 1))
    targets = [noisy_targets(y, np.ones(len(y)), basis, rows)]
    model = SparseModel(free, GaussianNoise(1), rows.X, targets, rows.weight, slack=run.slack)
    Z = X[np.random.RandomState(seed).choice(len(X), run.n_points, replace=False)]
    chosen, states = Chosen(Z, None, None), model.initial_state()

    def evaluate(i):
        log_length_scale = np.log(LENGTH_SCALE * (1.0 + NUDGE * i))
        theta = np.r_[0.0, np.full(run.n_length_scales, log_length_scale), np.log(NOISE)]
        model.evaluate(theta, chosen, states, jitter=JITTER, wrt_Z=run.wrt_Z)

    return cpu_median(evaluate, repeats)


def measurements_of_others(folder, name, n_rows):
    """Return {(M, wrt_Z): {library: CPU seconds}} of this set and number of rows."""
    found = {}
    for path in sorted(Path(folder).glob("*.json")):
        record = json.loads(path.read_text())
        if "lib" not in record or (record["data"], record["n"]) != (name, n_rows):
            continue
        key = record["M"], record["optimise_z"]
        found.setdefault(key, {})[record["lib"]] = record["value_and_grad_cpu_median_s"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="pol")
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--points", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--slacks", nargs="+", default=["tight"], choices=list(OPERATIONS))
    parser.add_argument("--wrt-z", action="store_true", help="derivatives for the points, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--peers", help="folder with the measurements of other libraries")
    arguments = parser.parse_args()
    data = load_regression(arguments.set)
    train, test = permuted(len(data.y), arguments.seed)
    X, y = (part[: arguments.rows] for part in split_regression(data, train, test)[:2])
    others = {}
    if arguments.peers:
        others = measurements_of_others(arguments.peers, arguments.set, len(y))
    print(f"{arguments.set}, N = {len(y)}, D = {X.shape[1]}, one thread")
    print(f"{'library':12s}{'M':>6s}{'slack':>11s}{'lengths':>8s}{'CPU s':>8s}{'of dgemm':>9s}")
    for n_points in arguments.points:
        rate = dgemm_rate(n_points, len(y), arguments.repeats)
        first = None
        for slack in arguments.slacks:
            for n_length_scales in (1, X.shape[1]):
                run = Run(slack, n_points, n_length_scales, arguments.wrt_z)
                seconds = evaluation_seconds(X, y, arguments.seed, run, arguments.repeats)
                first = seconds if first is None else first
                share = OPERATIONS[slack] * len(y) * n_points**2 / seconds / rate
                print(
                    f"{'sparsegpc':12s}{n_points:6d}{slack:>11s}{n_length_scales:8d}{seconds:8.3f}"
                    f"{share:9.2f}",
                    flush=True,
                )
        for library, seconds in sorted(others.get((n_points, arguments.wrt_z), {}).items()):
            print(
                f"{library:12s}{n_points:6d}{'standard':>11s}{1:8d}{seconds:8.3f}"
                f"{'':9s}  {seconds / first:.2f} times the first"
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
