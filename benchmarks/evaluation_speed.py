"""Seconds of one evaluation of the bound with its gradient, and what share of dgemm's rate it has.

N rows of a set, the first of a random permutation, M of them as fixed inducing points, a constant
times RBF with one length scale or with one per column, double precision. Hyperparameters change
from each evaluation to the next, so that nothing can be kept. After three evaluations to warm up,
the median of the next ones.

regression
    The collapsed bound with homoscedastic noise: 6 N M^2 floating-point operations, 5 with the
    standard slack.
classification
    The logistic likelihood on a set of two classes, at sites that were solved for once: one pass
    over the rows and the gradient, 7 N M^2 operations.
poisson, negative-binomial
    The same with these likelihoods, on counts made of the targets of a set of regression.

The share is that of these operations, beside which exponentials and sums over columns should hardly
show, relative to the rate of an (M, M) times (M, N) product at the same time. Seconds are those of
the CPU on one thread. With ``--threads n`` they are wall seconds, first on n threads of sparsegpc's
own, which take blocks of rows with a single-threaded BLAS each ("rows"), then on n threads of BLAS
("BLAS"); the product has n threads of BLAS, too.

    python benchmarks/evaluation_speed.py [--points 512 1024] [--slacks tight] [--peers FOLDER]
    python benchmarks/evaluation_speed.py --set electricity --rows 45000 --points 300 \
        --tasks regression classification --threads 2

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
from datasets import (
    MADE,
    load_classification,
    load_regression,
    made_classification,
    permuted,
    standardised,
)
from measure import PAUSE, dgemm_cost, median_cost, timed
from threadpoolctl import threadpool_limits

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.likelihoods.responses import observations
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc.likelihoods import BernoulliLogit, NegativeBinomial, Poisson

WARM_UP, NUDGE = 3, 1e-3
LENGTH_SCALE, NOISE = 2.0, 0.1
# Floating-point operations of an evaluation, in units of N M^2.
OPERATIONS = {"tight": 6, "spherical": 6, "standard": 5}
OPERATIONS_OF_SITES = 7
SLACK_OF_SITES = "tight"
MADE_COLUMNS = 8
COUNTS = {"poisson": Poisson(), "negative-binomial": NegativeBinomial()}
LOG_SIZE = 1.0
TASKS = ("regression", "classification", *COUNTS)


class Run(NamedTuple):
    """What is timed: `n_length_scales` is one or the number of columns."""

    task: str
    slack: str
    n_points: int
    n_length_scales: int
    wrt_Z: bool

    def operations(self, n_rows):
        """Return the floating-point operations of an evaluation."""
        each = OPERATIONS[self.slack] if self.task == "regression" else OPERATIONS_OF_SITES
        return each * n_rows * self.n_points**2


def load(name, task, n_rows, seed):
    """Return X and y of the first rows of a random permutation, or of made rows."""
    if name == MADE:
        X, y = made_classification(n_rows, MADE_COLUMNS, seed)
        if task == "classification":
            return X, y
        return X, y.astype(float) if task in COUNTS else standardised(y, np.arange(n_rows))
    data = load_classification(name) if task == "classification" else load_regression(name)
    rows = permuted(len(data.y), seed, train_share=1.0)[0][:n_rows]
    y = data.y[rows] if task == "classification" else standardised(data.y, rows)[rows]
    if task in COUNTS:
        y = np.random.RandomState(seed).poisson(np.exp(1.0 + y)).astype(float)
    return standardised(data.X, rows)[rows], y


def make_evaluation(X, y, seed, run, n_threads):
    """Return ``evaluate(i)``, which computes the bound and its gradient."""
    weight = np.ones(len(y))
    rows = merge_rows(X, weight)
    kernel = Scaled(Constant(), RBF(run.n_length_scales))
    free = FreeKernel(kernel, np.zeros(kernel.n_params), np.ones(kernel.n_params, dtype=bool))
    if run.task == "classification":
        likelihood, params = BernoulliLogit(), []
        targets = likelihood.targets(y, weight, rows)
    elif run.task in COUNTS:
        likelihood = COUNTS[run.task]
        params = [LOG_SIZE] * likelihood.n_params
        rows = merge_rows(X, weight, targets=observations(y))
        targets = likelihood.targets(y, weight, rows)
    else:
        likelihood, params = GaussianNoise(1), [np.log(NOISE)]
        targets = [noisy_targets(y, weight, np.ones((len(rows.X), 1)), rows)]
    model = SparseModel(
        free, likelihood, rows.X, targets, rows.weight, slack=SLACKS[run.slack], n_threads=n_threads
    )
    Z = X[np.random.RandomState(seed).choice(len(X), run.n_points, replace=False)]
    points = InducingPoints(Z)

    def theta(i):
        log_length_scale = np.log(LENGTH_SCALE * (1.0 + NUDGE * i))
        return np.r_[0.0, np.full(run.n_length_scales, log_length_scale), params]

    states = model.initial_state()
    if run.task != "regression":
        states = model.evaluate(theta(0), points, states).states
    # One pass over the rows.
    at_fixed_sites = {"tol": np.inf, "max_iter": 1}

    def evaluate(i):
        model.evaluate(theta(i), points, states, wrt_Z=run.wrt_Z, **at_fixed_sites)

    return evaluate


def runs(arguments, task, n_points, n_columns):
    """Yield the runs of a task with so many points."""
    slacks = arguments.slacks if task == "regression" else [SLACK_OF_SITES]
    for slack in slacks:
        for n_length_scales in dict.fromkeys((1, n_columns)):
            yield Run(task, slack, n_points, n_length_scales, arguments.wrt_z)


def label(run):
    """Return the first columns of a row."""
    return f"{run.task:18s}{run.n_points:6d}{run.slack:>11s}{run.n_length_scales:8d}"


LABELS = f"{'task':18s}{'M':>6s}{'slack':>11s}{'lengths':>8s}"


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


def one_thread(X, y, task, arguments, others):
    """Print CPU seconds, and those of other libraries."""
    for n_points in arguments.points:
        rate = 2.0 * len(y) * n_points**2 / dgemm_cost(n_points, len(y), arguments.repeats).cpu
        first = None
        for run in runs(arguments, task, n_points, X.shape[1]):
            evaluate = make_evaluation(X, y, arguments.seed, run, 1)
            seconds = median_cost(evaluate, arguments.repeats, WARM_UP).cpu
            first = seconds if first is None else first
            share = run.operations(len(y)) / seconds / rate
            print(f"{label(run)}{seconds:9.3f}{share:10.2f}{rate / 1e9:9.1f}", flush=True)
        if task == "regression":
            for library, seconds in sorted(others.get((n_points, arguments.wrt_z), {}).items()):
                ratio = seconds / first
                print(
                    f"{library:18s}{n_points:6d}{'standard':>11s}{1:8d}{seconds:9.3f}"
                    f"   {ratio:.2f} times the first"
                )


def interleaved(X, y, run, arguments):
    """Return wall seconds on one thread, on threads over blocks of rows, on threads of BLAS.

    They take turns, so that what else the machine does falls on all of them.
    """
    n = arguments.threads
    kinds = ((1, 1), (n, 1), (1, n))
    evaluations = [
        make_evaluation(X, y, arguments.seed, run, row_threads) for row_threads, _ in kinds
    ]
    seconds = []
    for i in range(WARM_UP + arguments.repeats):
        seconds.append([])
        for evaluate, (_, blas_threads) in zip(evaluations, kinds, strict=True):
            with threadpool_limits(blas_threads):
                seconds[-1].append(timed(lambda f=evaluate, i=i: f(i))[1].wall)
            time.sleep(PAUSE)
    return np.median(seconds[WARM_UP:], axis=0)


def several_threads(X, y, task, arguments):
    """Print wall seconds with threads over blocks of rows beside threads of BLAS."""
    n = arguments.threads
    for n_points in arguments.points:
        with threadpool_limits(n):
            cost = dgemm_cost(n_points, len(y), arguments.repeats)
        rate = 2.0 * len(y) * n_points**2 / cost.wall
        for run in runs(arguments, task, n_points, X.shape[1]):
            alone, by_rows, by_blas = interleaved(X, y, run, arguments)
            by_rows, by_blas = (
                f"{seconds:9.3f}{run.operations(len(y)) / seconds / rate:10.2f}"
                for seconds in (by_rows, by_blas)
            )
            line = f"{label(run)}{alone:9.3f}{by_rows}{by_blas}"
            print(f"{line}{rate / 1e9:9.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="pol", help=f"or {MADE!r}, which needs no file")
    parser.add_argument("--tasks", nargs="+", default=["regression"], choices=TASKS)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--points", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--slacks", nargs="+", default=["tight"], choices=list(OPERATIONS))
    parser.add_argument("--wrt-z", action="store_true", help="derivatives for the points, too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--peers", help="folder with the measurements of other libraries")
    arguments = parser.parse_args()
    for task in arguments.tasks:
        X, y = load(arguments.set, task, arguments.rows, arguments.seed)
        print(f"\n{arguments.set}, N = {len(y)}, D = {X.shape[1]}, threads: {arguments.threads}")
        if arguments.threads > 1:
            print(
                f"{LABELS}{'1 thread':>9s}{'rows, s':>9s}{'of dgemm':>10s}{'BLAS, s':>9s}"
                f"{'of dgemm':>10s}{'GFLOP/s':>9s}"
            )
            several_threads(X, y, task, arguments)
            continue
        others = {}
        if arguments.peers:
            others = measurements_of_others(arguments.peers, arguments.set, len(y))
        print(f"{LABELS}{'CPU s':>9s}{'of dgemm':>10s}{'GFLOP/s':>9s}")
        with threadpool_limits(1):
            one_thread(X, y, task, arguments, others)


if __name__ == "__main__":
    main()
