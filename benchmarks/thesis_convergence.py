"""Passerello 2021, Figures 5.6 and D.1: the bound against evaluations while points move.

The Bernoulli model with zero prior mean starts from points that HGV chose for the Pólya-Gamma
model, and from centres of k-means; then points, kernel and posterior are optimised. Three ways:
ours (the posterior is solved for at each evaluation), and GPflow's SVGP with everything in one
vector, by L-BFGS-B and by Adam with the thesis' settings. All rows train; columns have mean 0 and
deviation 1; the bound is the same in all three. Numbers of points are those of appendix D.1, limits
of iterations those of the author's repository (GitHub, GiovanniPasserello/SHGP). Evaluations are
kept in a file of results, thinned out towards the end.

    python benchmarks/thesis_convergence.py --sets banana --programs ours
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import is_available
from evidence import MISSING, append, csv_table, dash, read
from gpflow_peer import ATTEMPTS, gpflow_is_installed, import_gpflow, kmeans_centres
from kernel_settings import ONE_LENGTH_SCALE
from pictures import new_panels, save
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from thesis_sparsity import (
    DASHES,
    HERE,
    PGPR,
    SETS,
    load_rows,
)
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

RESULTS = HERE / "results" / "convergence.csv"
COLUMNS = ("set", "program", "start", "evaluation", "bound", "seconds")
BERNOULLI = {"likelihood": "bernoulli-logit", "bound": "standard", "fit_prior_mean": False}
# Section 5.5.3: both decay rates of Adam, its first learning rate and the share left at the end.
ADAM_DECAY, ADAM_RATE, ADAM_LEFT = 0.5, 0.5, 0.05
ADAM_EPSILON = 1e-7
MAX_EVALUATIONS = 3000
# scipy's status of L-BFGS-B for that end.
LINE_SEARCH_FAILED = 2
# Evaluations kept: all of the first ones, and so many of the rest, evenly by their logarithm.
KEPT_FIRST, KEPT_LATER = 20, 60
NEAR = 1.0


class Run(NamedTuple):
    """The number of points, and the limit of iterations of L-BFGS-B and Adam."""

    n_inducing: int
    n_iter: int


RUNS = {
    "banana": Run(80, 250),
    "breast": Run(150, 250),
    "crabs_species": Run(20, 1000),
    "heart": Run(100, 100),
    "ionosphere": Run(150, 350),
    "pima": Run(100, 150),
}
BODY = ("banana", "breast")
# How far down the pictures go, in multiples of the non-sparse bound.
LOWEST = {"crabs_species": 7.0, "heart": 1.4, "pima": 1.2}
STARTS = {"hgv": ("HGV", "#0072b2"), "kmeans": ("k-means", "#e69f00")}
PROGRAMS = {
    "ours": ("ours", "-", 2.2),
    "lbfgs": ("GPflow, L-BFGS-B", "--", 1.4),
    "adam": ("GPflow, Adam", ":", 1.4),
}


def classifier(**options):
    """Return a classifier with one length scale that takes all the points that it may."""
    return SparseGPClassifier(selection_tol=0.0, **ONE_LENGTH_SCALE, **options)


def starting_points(name, start, X, y, seed=0):
    """Return inducing points (M, D)."""
    n_inducing = RUNS[name].n_inducing
    if start == "kmeans":
        return kmeans_centres(X, n_inducing, seed)
    return classifier(selector="hgv", n_inducing=n_inducing, **PGPR).fit(X, y).inducing_points_


def our_curve(X, y, Z):
    """Return the bounds of all evaluations with the points Z, first kept, then moved."""
    model = classifier(selector=Z, optimize_inducing=True, max_iter=1000, tol=1e-6, **BERNOULLI)
    model.fit(X, y)
    # The starts of the kernel are compared first, with other points. Then follow two choices:
    # these points kept, and moved.
    history = model.history_
    return history["lower_bound"][history["choice"] >= history["choice"][-1] - 1]


def our_optimum(X, y):
    """Return the bound with a point at every row that does not depend on others."""
    return classifier(n_inducing=len(y), tol=1e-7, **BERNOULLI).fit(X, y).lower_bound_


class Objective:
    """Minus GPflow's bound and its gradient as a function of one vector; keeps what it saw."""

    def __init__(self, X, y, Z):
        gpflow, tensorflow = import_gpflow()
        model = gpflow.models.SVGP(
            kernel=gpflow.kernels.SquaredExponential(),
            likelihood=gpflow.likelihoods.Bernoulli(invlink=tensorflow.sigmoid),
            inducing_variable=Z.copy(),
            num_data=len(X),
        )
        loss = model.training_loss_closure((X, y[:, None].astype(np.float64)))
        scipy_optimizer = gpflow.optimizers.Scipy()
        self.start = scipy_optimizer.initial_parameters(model.trainable_variables).numpy()
        self._function = scipy_optimizer.eval_func(loss, model.trainable_variables, tf_fun_args={})
        self.failure = tensorflow.errors.InvalidArgumentError
        self.bounds = []

    def __call__(self, x):
        value, slope = self._function(x)
        self.bounds.append(-float(value))
        return value, slope


def lbfgs(objective, n_iter):
    """Minimise by L-BFGS-B; return whether its line search never failed."""
    options = {"maxiter": n_iter, "maxfun": MAX_EVALUATIONS}
    found = minimize(objective, objective.start, jac=True, method="L-BFGS-B", options=options)
    return found.status != LINE_SEARCH_FAILED


def adam(objective, n_iter):
    """Minimise by Adam with a learning rate that falls along a cosine; return True."""
    x = objective.start
    first, second = np.zeros((2, len(x)))
    for step in range(n_iter + 1):
        slope = objective(x)[1]
        first += (1.0 - ADAM_DECAY) * (slope - first)
        second += (1.0 - ADAM_DECAY) * (slope**2 - second)
        unbiased = 1.0 - ADAM_DECAY ** (step + 1)
        cosine = 0.5 * (1.0 + np.cos(np.pi * step / n_iter))
        rate = ADAM_RATE * (ADAM_LEFT + (1.0 - ADAM_LEFT) * cosine)
        x = x - rate * (first / unbiased) / (np.sqrt(second / unbiased) + ADAM_EPSILON)
    return True


def peer_curve(name, start, X, y, optimise):
    """Return the bounds of all evaluations.

    Where GPflow cannot factor a matrix, the bound is not finite, or the line search fails, centres
    of k-means are drawn anew, a few times; of these attempts the one that came highest counts.
    """
    curves = []
    for attempt in range(ATTEMPTS if start == "kmeans" else 1):
        objective = Objective(X, y, starting_points(name, start, X, y, attempt))
        try:
            ended = optimise(objective, RUNS[name].n_iter)
        except objective.failure:
            ended = False
        curves.append(np.array(objective.bounds))
        if ended and np.isfinite(curves[-1]).all():
            break
    return max(curves, key=np.max)


def kept_evaluations(n_evaluations):
    """Return the indices of the evaluations that go into the file."""
    later = np.geomspace(KEPT_FIRST, max(n_evaluations, KEPT_FIRST + 1), KEPT_LATER).astype(int)
    kept = np.union1d(np.arange(KEPT_FIRST), np.append(later, n_evaluations) - 1)
    return kept[kept < n_evaluations]


def curve(name, program, start, X, y):
    """Return the bounds of all evaluations."""
    if program == "optimum":
        return np.array([our_optimum(X, y)])
    if program == "ours":
        return our_curve(X, y, starting_points(name, start, X, y))
    return peer_curve(name, start, X, y, {"lbfgs": lbfgs, "adam": adam}[program])


def run(names, programs):
    """Record what the file of results does not have yet."""
    from tqdm import tqdm

    done = {(row["set"], row["program"], row["start"]) for row in read(RESULTS)}
    jobs = [(name, "optimum", "") for name in names]
    jobs += [(name, p, start) for name in names for p in programs for start in STARTS]
    for name, program, start in tqdm(jobs, unit="fit"):
        if (name, program, start) in done:
            continue
        X, y = load_rows(name)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            bounds = curve(name, program, start, X, y)
        seconds = f"{time.process_time() - began:.1f}"
        rows = [
            (name, program, start, i + 1, f"{bounds[i]:.3f}", seconds)
            for i in kept_evaluations(len(bounds))
        ]
        append(RESULTS, [dict(zip(COLUMNS, row, strict=True)) for row in rows])


def read_curves(path):
    """Return {(set, program, start): (evaluations, bounds)} of a file of results."""
    points = {}
    for row in read(path):
        key = row["set"], row["program"], row["start"]
        points.setdefault(key, []).append((int(row["evaluation"]), float(row["bound"])))
    return {key: tuple(np.transpose(values)) for key, values in points.items()}


def evaluations_until(curve, bound):
    """Return the first kept evaluation whose bound is that high, or None."""
    evaluation, bounds = curve
    high = np.flatnonzero(bounds >= bound)
    return int(evaluation[high[0]]) if len(high) else None


def _draw_panel(axes, name, curves):
    optimum = curves[name, "optimum", ""][1][0]
    axes.axhline(optimum, ls=DASHES, lw=1.1, color="black")
    for program, (_, style, width) in PROGRAMS.items():
        for start, (_, colour) in STARTS.items():
            if (name, program, start) in curves:
                evaluation, bound = curves[name, program, start]
                best = np.maximum.accumulate(bound)
                axes.plot(evaluation, best, style, color=colour, lw=width)
    axes.set(xscale="log", xlim=(1, None), title=f"{SETS[name].title}, M={RUNS[name].n_inducing}")
    axes.xaxis.set_major_formatter("{x:g}")
    # The start is far below; what matters is how the optimum is approached.
    axes.set_ylim(LOWEST.get(name, 1.8) * optimum, 0.95 * optimum)
    axes.locator_params(axis="y", nbins=5)


def draw(names, curves, path):
    """Draw a panel for each set: colours are starts, line styles are programs."""
    from matplotlib.lines import Line2D

    figure, panels = new_panels(len(names))
    for axes, name in zip(panels, names, strict=True):
        _draw_panel(axes, name, curves)
    lines = [Line2D([], [], color=colour, lw=2.2) for _, colour in STARTS.values()]
    labels = [f"from {label}" for label, _ in STARTS.values()]
    for label, style, width in PROGRAMS.values():
        lines.append(Line2D([], [], color="0.3", ls=style, lw=width))
        labels.append(label)
    lines.append(Line2D([], [], color="black", ls=DASHES, lw=1.1))
    labels.append("non-sparse")
    figure.legend(lines, labels, loc="outside lower center", ncols=2, fontsize=10)
    for axes in panels[-2:]:
        axes.set_xlabel("evaluations")
    figure.supylabel("best lower bound so far, nats", fontsize=11)
    save(figure, path)


def end_table(curves):
    """Return the table of the bounds at the end, and of the evaluations to a nat of the best."""
    header = ["set", "M", "non-sparse"]
    header += [f"{p[0]}, {s[0]}" for p in PROGRAMS.values() for s in STARTS.values()]
    rows = []
    for name in RUNS:
        own = {key[1:]: value for key, value in curves.items() if key[0] == name}
        optimum = own.pop(("optimum", ""))[1][0]
        best = max(bounds.max() for _, bounds in own.values())
        row = [SETS[name].title, str(RUNS[name].n_inducing), f"{optimum:.2f}"]
        for program in PROGRAMS:
            for start in STARTS:
                found = own.get((program, start))
                if found is None:
                    row.append(MISSING)
                    continue
                near = dash(evaluations_until(found, best - NEAR))
                row.append(f"{found[1].max():.2f} ({near} of {found[0][-1]:.0f})")
        rows.append(row)
    return csv_table(header, rows)


def render(folder):
    """Write table and pictures of what was measured into a folder; nothing is fitted."""
    folder = Path(folder)
    curves = read_curves(RESULTS)
    draw(BODY, curves, folder / "thesis_figure_5_6.png")
    appendix = [name for name in RUNS if name not in BODY]
    draw(appendix, curves, folder / "thesis_figure_d_1.png")
    (folder / "thesis_convergence.rst").write_text(end_table(curves))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", choices=RUNS, default=list(RUNS))
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    arguments = parser.parse_args()
    programs = [p for p in arguments.programs if p == "ours" or gpflow_is_installed()]
    with threadpool_limits(1):
        run([name for name in arguments.sets if is_available(name)], programs)
