"""Fits of random problems beside the best of 20 searches from other start values.

A problem has 30 to 2000 rows, most of them few, and 1 to 20 uniform columns, of which up to four
matter. Targets are a slow or fast function, drawn from a Gaussian process, with noise; labels have
it as their log-odds. The kernel is RBF or Matern with one length scale or one per column, given as
an object, or RBF with one length scale by name. Every fifth problem has `FEW_POINTS` points; of
the others every row may be a point, or 200 of more than `MOST_DENSE` rows.

The reference is the best of `N_SEARCHES` searches, each to its end unless it is clearly worse than
the best so far: one from the hyperparameters of the function that was drawn, the others from random
ones. With more than `MOST_DENSE` rows these use `SUBSET_ROWS` rows, a point at each; then all rows
and the default number of points are used from the ends of the best `N_KEPT` and from the drawn
hyperparameters.
References are expensive; they have a file of their own, and each is computed once.

A fit is short as in `searches`: by more than a nat and more than 1 % of the gain over a constant.
Each fit is one line of a file of results; fits that are there are not repeated. A ``--revision``
labels the lines, so that two states of the package stand side by side. ::

    python benchmarks/random_problems.py --problems 60 --revision after
    PYTHONPATH=old/checkout python benchmarks/random_problems.py --problems 60 --revision before
    python benchmarks/random_problems.py --report
"""

import argparse
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evidence import append, pending, read
from kernel_settings import ONE_LENGTH_SCALE
from measure import timed
from records import print_table
from searches import allowance, constant_bound, fit_from_kernel, give_up_below
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier, SparseGPRegressor

N_PROBLEMS, N_SEARCHES, N_KEPT = 200, 20, 3
MOST_DENSE, SUBSET_ROWS, FEW_POINTS = 400, 200, 20
ESTIMATORS = {"classification": SparseGPClassifier, "regression": SparseGPRegressor}
# Ranges of log-uniform draws: rows, columns, length scales, deviation of the noise.
ROWS, MANY_ROWS, COLUMNS = (30, 300), (401, 2000), (1, 20)
LENGTHS, NOISE = (0.15, 3.0), (0.03, 1.0)
# Ranges of the start values of searches: variance and common length scale.
START_VARIANCES, START_LENGTHS, START_SPREAD = (0.3, 100.0), (0.05, 20.0), 0.5
IRRELEVANT = 20.0
RESULTS = Path(__file__).parent / "results"
REFERENCES = RESULTS / "random_references.csv"
KEY = ("number", "revision")
FIELDS = (
    *("number", "revision", "task", "n_rows", "n_columns", "length", "kernel", "n_inducing"),
    *("reached", "evaluations", "seconds"),
)


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


class Problem(NamedTuple):
    """Data and an estimator, whose `n_inducing` and kernel are part of the problem.

    `drawn` is the kernel from which the function was drawn, `length` its length scale along each of
    its columns.
    """

    number: int
    task: str
    X: np.ndarray
    y: np.ndarray
    model: object
    drawn: object
    length: float

    def description(self):
        """Return the fields that describe the problem."""
        name, part = "RBF, one, by name", self.drawn.k2
        if self.model.kernel != "rbf":
            name = f"{type(part).__name__}, {'per column' if part.anisotropic else 'one'}"
        n_rows, n_columns = self.X.shape
        return {
            "number": self.number,
            "task": self.task,
            "n_rows": n_rows,
            "n_columns": n_columns,
            "length": self.length,
            "kernel": name,
            "n_inducing": self.model.n_inducing,
        }


def drawn_function(rng, X, length, n_features=500):
    """Return the values at X of a function drawn from an RBF kernel of variance one."""
    frequencies = rng.randn(X.shape[1], n_features) / length
    phases = rng.uniform(0.0, 2.0 * np.pi, n_features)
    return np.sqrt(2.0) * np.cos(X @ frequencies + phases) @ rng.randn(n_features) / n_features**0.5


def make_problem(number):
    """Return the `Problem` of a number."""
    rng = np.random.RandomState(number)
    few, many = number % 5 == 4, number % 5 == 3
    n_rows = int(log_uniform(rng, *(MANY_ROWS if many else ROWS)))
    n_columns = int(log_uniform(rng, *COLUMNS))
    n_used = rng.randint(1, min(n_columns, 4) + 1)
    X = rng.uniform(-2.0, 2.0, (n_rows, n_columns))
    length = log_uniform(rng, *LENGTHS) * n_used**0.5
    f = drawn_function(rng, X[:, :n_used], length)
    task = list(ESTIMATORS)[rng.randint(2)]
    if task == "regression":
        y = f + log_uniform(rng, *NOISE) * rng.randn(n_rows)
    else:
        f = 4.0 * (f - np.median(f))
        y = (f + rng.logistic(size=n_rows) > 0.0).astype(int)
    lengths = np.r_[np.full(n_used, length), np.full(n_columns - n_used, IRRELEVANT)]
    scales = lengths if rng.randint(2) else length
    part = [RBF(scales), Matern(scales, nu=1.5), Matern(scales, nu=2.5)][rng.randint(3)]
    drawn = ConstantKernel(1.0 if task == "regression" else 16.0) * part
    settings = {"kernel": drawn.clone_with_theta(np.zeros(len(drawn.theta)))}
    if type(part) is RBF and not part.anisotropic and rng.randint(2):
        settings = ONE_LENGTH_SCALE | {"kernel": "rbf"}
    n_inducing = FEW_POINTS if few else 200 if n_rows > MOST_DENSE else MOST_DENSE
    model = ESTIMATORS[task](n_inducing=n_inducing, **settings)
    return Problem(number, task, X, y, model, drawn, length)


def start_kernels(problem):
    """Yield the kernels from which searches start, that of the drawn function first."""
    yield problem.drawn
    rng = np.random.RandomState(problem.number)
    for _ in range(N_SEARCHES - 1):
        theta = rng.normal(0.0, START_SPREAD, len(problem.drawn.theta))
        theta += np.log(log_uniform(rng, *START_LENGTHS))
        theta[0] = np.log(log_uniform(rng, *START_VARIANCES))
        yield problem.drawn.clone_with_theta(theta)


def ends(problem, X, y, kernels, n_inducing):
    """Return (bound, kernel, number of the start) of each search, the best first."""
    found, constant = [], constant_bound(y)
    for i, kernel in enumerate(kernels):
        model = clone(problem.model).set_params(
            kernel=kernel, n_inducing=n_inducing, random_state=i
        )
        callback = give_up_below(max(found)[0], constant) if found else None
        model = fit_from_kernel(model, X, y, callback)
        found.append((model.lower_bound_, -i, model.kernel_))
    return [(bound, kernel, -i) for bound, i, kernel in sorted(found, reverse=True)]


def best_end(problem):
    """Return the bound of the best search, and the number of its start."""
    X, y, n_inducing = problem.X, problem.y, problem.model.n_inducing
    starts = list(start_kernels(problem))
    if len(y) > MOST_DENSE:
        rows = np.random.RandomState(problem.number).choice(len(y), SUBSET_ROWS, replace=False)
        small = ends(problem, X[rows], y[rows], starts, SUBSET_ROWS)
        starts = [problem.drawn, *(kernel for _, kernel, _ in small[:N_KEPT])]
    bound, _, i = ends(problem, X, y, starts, n_inducing)[0]
    return bound, i


def reference(problem, path):
    """Return the bound of the best search, from the file of references or to be added to it."""
    for record in read(path):
        if record["number"] == str(problem.number):
            return float(record["bound"])
    (bound, start), cost = timed(lambda: best_end(problem))
    record = {"number": problem.number, "bound": bound, "start": start, "seconds": cost.cpu}
    append(path, [record])
    return bound


def record_of(problem, revision):
    """Fit the problem's estimator, and return its record."""
    model, cost = timed(lambda: clone(problem.model).fit(problem.X, problem.y))
    found = {"reached": model.lower_bound_, "evaluations": model.n_evaluations_}
    return problem.description() | found | {"revision": revision, "seconds": cost.cpu}


def run(arguments, results, references):
    """Fit what the file of results does not have yet, and compute references that are missing."""
    wanted = [(number, arguments.revision) for number in range(arguments.problems)]
    for number, revision in pending(wanted, results, KEY):
        problem = make_problem(number)
        reference(problem, references)
        append(results, [record_of(problem, revision)], FIELDS)


def report(results, references, n_worst=10):
    """Print the share of fits that are not short, and the worst shortfalls of each revision."""
    bounds = {record["number"]: float(record["bound"]) for record in read(references)}
    by_revision = {}
    for record in read(results):
        by_revision.setdefault(record["revision"], []).append(record)
    for revision, records in by_revision.items():
        excess = []
        for record in records:
            should = bounds[record["number"]]
            y = make_problem(int(record["number"])).y
            excess.append((should - float(record["reached"])) / allowance(should, y))
        excess = np.array(excess)
        seconds = sum(float(record["seconds"]) for record in records)
        evaluations = np.median([int(record["evaluations"]) for record in records])
        print(
            f"\n{revision or 'this package'}: {100.0 * np.mean(excess <= 1.0):.1f} % of "
            f"{len(records)} problems within the allowance, {(excess < -1.0).sum()} above it; "
            f"{seconds:.0f} CPU s, {evaluations:.0f} evaluations in the median"
        )
        worst = [k for k in np.argsort(-excess)[:n_worst] if excess[k] > 1.0]
        header = [*KEY[:1], *FIELDS[2:9], "should", "shortfall / allowance"]
        rows = [
            [records[k][name] for name in header[:8]]
            + [f"{bounds[records[k]['number']]:.6g}", f"{excess[k]:.1f}"]
            for k in worst
        ]
        if rows:
            print_table(header, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=N_PROBLEMS, help="the first so many")
    parser.add_argument("--revision", default="", help="label of the lines")
    parser.add_argument("--out", type=Path, default=RESULTS / "random_problems.csv")
    parser.add_argument("--references", type=Path, default=REFERENCES)
    parser.add_argument("--report", action="store_true", help="fit nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments, arguments.out, arguments.references)
    report(arguments.out, arguments.references)


if __name__ == "__main__":
    # The bound shows what the warnings of a fit predict.
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        main()
