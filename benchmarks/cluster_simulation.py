"""How a fit would scale with rows and workers, from times measured here and a network as stated.

A fit is a number of evaluations, each of which is one *round* for each pass of the site solver, and
one for the gradient. In a round each task, which is some blocks of rows, needs what has changed
(M^2 doubles for the covariance of the points, M^2 for that of q(u), M D for the points), and
returns M^2 doubles and a few vectors of M entries. They go

driver
    with each task, and back, all over the link of the driver, which adds the results up; or
tree
    from worker to worker in log2 K steps, once for each worker, and so do the sums back.

What the driver does alone in a round (factoring M x M matrices) is measured. Rows stay on the
workers. With ``--travelling`` the vectors of the sites, so many doubles for each row, go to the
tasks in each round and half as many come back, as they do where the driver keeps the sites.

The simulation hands out tasks one by one: the scheduler takes its overhead for each, the driver's
link carries their inputs and results in turn, and the next task goes to the worker that is free
first. Times vary from task to task by a log-normal factor (``--spread``). Those of a block are CPU
seconds measured on this machine with one thread: whitened features, a pass, and a gradient, with M
points and D columns. Workers are assumed to have a thread each and the speed of this machine; they
keep the features of an evaluation where their memory suffices (``--worker-memory``), and compute
them again in each round otherwise.

Printed are the seconds of a fit, and which share of them a worker computes, on average.

    python benchmarks/cluster_simulation.py --plot output/cluster.png
    python benchmarks/cluster_simulation.py --exchange driver --travelling 0 6 --overhead 0.001
"""

import argparse
import heapq
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evaluation_speed import LENGTH_SCALE
from measure import median_cost
from records import print_table
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from sparsegpc._core.bounds.slacks import TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc.likelihoods import BernoulliLogit

DOUBLE = 8
# Vectors of M entries beside the M x M matrix in the result of a task.
VECTORS = 4
REPEATS, WARM_UP = 15, 3
# Share of a worker's memory that features may take.
MEMORY_SHARE = 0.8
EXCHANGES = ("driver", "tree")
WORKERS = tuple(2**k for k in range(10))
ROWS = (10**5, 10**6, 10**7, 10**8)


class BlockTimes(NamedTuple):
    """Seconds of one block of `n_rows` rows, and of the driver alone in a round."""

    n_rows: int
    features: float
    one_pass: float
    gradient: float
    driver: float


class Network(NamedTuple):
    """Bytes per second of each link, seconds of a message's way, and of handing out one task."""

    bandwidth: float
    latency: float
    overhead: float


class Plan(NamedTuple):
    """How a round is organised.

    ``exchange`` is "driver" or "tree". ``n_tasks_per_worker`` limits the number of tasks; no task
    has less than one block. ``travelling`` doubles for each row go to a task, half as many back.
    """

    exchange: str
    n_tasks_per_worker: int
    travelling: int
    spread: float


def measure_blocks(n_rows, n_points, n_columns):
    """Return the `BlockTimes` of this machine."""
    rng = np.random.RandomState(0)
    X = rng.randn(n_rows, n_columns)
    codes = (X[:, 0] + rng.randn(n_rows) > 0.0).astype(int)
    weight = np.ones(n_rows)
    rows = merge_rows(X, weight)
    kernel = Scaled(Constant(), RBF(1))
    free = FreeKernel(kernel, np.zeros(2), np.ones(2, dtype=bool))
    likelihood = BernoulliLogit()
    model = SparseModel(
        free,
        likelihood,
        rows.X,
        likelihood.targets(codes, weight, rows),
        rows.weight,
        slack=TIGHT,
    )
    points = InducingPoints(X[rng.choice(n_rows, n_points, replace=False)])
    theta = np.array([0.0, np.log(LENGTH_SCALE * np.sqrt(n_columns))])
    states = model.evaluate(theta, points, model.initial_state()).states

    def seconds(wrt_theta):
        def evaluate(i):
            model.evaluate(
                theta + 1e-3 * i,
                points,
                states,
                tol=np.inf,
                max_iter=1,
                wrt_theta=wrt_theta,
            )

        return median_cost(evaluate, REPEATS, WARM_UP).cpu

    with threadpool_limits(1):
        kernel_theta = model.split(theta)[0]
        features = median_cost(
            lambda i: model.row_features(free, kernel_theta, points.Z),
            REPEATS,
            WARM_UP,
        ).cpu
        value, both = seconds(False), seconds(True)
        driver = median_cost(lambda i: _factor(n_points), REPEATS, WARM_UP).cpu
    return BlockTimes(n_rows, features, max(value - features, 0.0), max(both - value, 0.0), driver)


def _factor(n_points):
    """Do what a round leaves to the driver: factor a matrix, and invert the factor."""
    matrix = np.eye(n_points) + 0.5 / n_points
    solve_triangular(cholesky(matrix, lower=True), np.eye(n_points), lower=True)


def round_seconds(n_rows, n_workers, block, sizes, network, plan):
    """Return the seconds of one round.

    Parameters
    ----------
    n_rows, n_workers : int
    block : (int, float)
        Rows of a block, and its seconds.
    sizes : (float, float)
        Bytes of what a task needs beside its rows, and of its result.
    network : Network
    plan : Plan
    """
    block_rows, block_seconds = block
    to_worker, from_worker = (network.latency + size / network.bandwidth for size in sizes)
    n_tasks = min(-(-n_rows // block_rows), plan.n_tasks_per_worker * n_workers)
    steps = 1.0 + np.ceil(np.log2(n_workers))
    # Seconds for which the driver's link is busy with what goes to and from each task.
    out = DOUBLE * plan.travelling * n_rows / n_tasks / network.bandwidth
    back = 0.5 * out
    start = steps * to_worker
    if plan.exchange == "driver":
        out += sizes[0] / network.bandwidth
        back += sizes[1] / network.bandwidth
        start = 0.0
    rng = np.random.RandomState(0)
    factors = np.exp(plan.spread * rng.randn(n_tasks))
    free, ends = [start] * n_workers, []
    handed_out = start
    for seconds in block_seconds * n_rows / block_rows * factors / factors.sum():
        handed_out += network.overhead + out
        end = max(heapq.heappop(free), handed_out + network.latency) + seconds
        heapq.heappush(free, end)
        ends.append(end)
    received = 0.0
    for end in sorted(ends):
        received = max(received, end + network.latency) + back
    return received + (steps * from_worker if plan.exchange == "tree" else 0.0)


def fit_seconds(n_rows, n_workers, times, network, plan, arguments):
    """Return the seconds of a fit, and those of them that a worker computes, on average."""
    n_points, n_columns = arguments.points, arguments.columns
    features_bytes = DOUBLE * n_rows * n_points / n_workers
    are_kept = features_bytes <= MEMORY_SHARE * arguments.worker_memory * 2**30
    again = 0.0 if are_kept else times.features
    sizes = (
        DOUBLE * (2 * n_points**2 + n_points * n_columns),
        DOUBLE * (n_points**2 + VECTORS * n_points),
    )
    # Seconds of a block in the first pass, in each further one, and for the gradient.
    rounds = [
        (1.0, times.features + times.one_pass),
        (arguments.passes - 1.0, again + times.one_pass),
        (1.0, again + times.gradient),
    ]
    total = sum(
        count
        * (
            round_seconds(n_rows, n_workers, (times.n_rows, seconds), sizes, network, plan)
            + times.driver
        )
        for count, seconds in rounds
    )
    computing = sum(count * seconds for count, seconds in rounds)
    computing *= n_rows / times.n_rows / n_workers
    return arguments.evaluations * total, arguments.evaluations * computing


def table(arguments, times, plan):
    """Return seconds in all and computing, for each number of rows and workers, (R, K, 2)."""
    network = Network(arguments.bandwidth * 1e9 / 8.0, arguments.latency, arguments.overhead)
    return np.array(
        [
            [
                fit_seconds(n_rows, n_workers, times, network, plan, arguments)
                for n_workers in arguments.workers
            ]
            for n_rows in arguments.rows
        ]
    )


def print_seconds(arguments, found):
    """Print seconds, and in brackets the share that workers compute."""
    rows = []
    for n_rows, own in zip(arguments.rows, found, strict=True):
        cells = [f"{seconds:.3g} ({computing / seconds:.0%})" for seconds, computing in own]
        rows.append([f"{n_rows:.0e}", *cells])
    print_table(["rows", *(f"{k} workers" for k in arguments.workers)], rows)


def draw(arguments, found, path):
    """Draw seconds over workers, a panel for each plan."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1,
        len(found),
        figsize=(4.6 * len(found), 4.2),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axes, (title, values) in zip(panels[0], found.items(), strict=True):
        for k, (n_rows, own) in enumerate(zip(arguments.rows, values, strict=True)):
            colour = plt.get_cmap("viridis")(k / len(arguments.rows))
            seconds, computing = own.T
            axes.plot(
                arguments.workers, seconds, "o-", ms=4, color=colour, label=f"{n_rows:.0e} rows"
            )
            axes.plot(arguments.workers, computing, ls=":", lw=0.8, color=colour)
        axes.set(xscale="log", yscale="log", xlabel="workers", title=title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(lw=0.4, color="0.88")
    panels[0, 0].set_ylabel("seconds of a fit (dotted: computing)")
    panels[0, 0].legend(frameon=False, fontsize=8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--block-rows", type=int, default=5000)
    parser.add_argument("--evaluations", type=int, default=15, help="on all rows")
    parser.add_argument("--passes", type=float, default=2.0, help="of the sites, per evaluation")
    parser.add_argument("--bandwidth", type=float, default=10.0, help="Gbit/s of a link")
    parser.add_argument("--latency", type=float, default=1e-4, help="seconds of a message")
    parser.add_argument("--overhead", type=float, default=5e-4, help="scheduler's, for each task")
    parser.add_argument("--tasks-per-worker", type=int, default=4)
    parser.add_argument("--spread", type=float, default=0.1, help="of the logarithm of task times")
    parser.add_argument("--worker-memory", type=float, default=8.0, help="GiB")
    parser.add_argument("--exchange", nargs="+", default=list(EXCHANGES), choices=EXCHANGES)
    parser.add_argument(
        "--travelling", type=int, nargs="+", default=[0, 6], help="doubles for each row"
    )
    parser.add_argument("--plot", help="picture of all plans")
    arguments = parser.parse_args()
    times = measure_blocks(arguments.block_rows, arguments.points, arguments.columns)
    print(
        f"A block of {times.n_rows} rows, M = {arguments.points}, D = {arguments.columns}: "
        f"features {1e3 * times.features:.1f} ms, pass {1e3 * times.one_pass:.1f} ms, "
        f"gradient {1e3 * times.gradient:.1f} ms; driver {1e3 * times.driver:.1f} ms per round"
    )
    found = {}
    for exchange in arguments.exchange:
        for travelling in arguments.travelling:
            plan = Plan(exchange, arguments.tasks_per_worker, travelling, arguments.spread)
            title = f"exchange by {exchange}, {travelling} doubles per row travel"
            found[title] = table(arguments, times, plan)
            print(f"\n{title}: seconds (share computing)\n")
            print_seconds(arguments, found[title])
    if arguments.plot:
        draw(arguments, found, arguments.plot)


if __name__ == "__main__":
    main()
