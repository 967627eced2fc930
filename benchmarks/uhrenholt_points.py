"""Uhrenholt, Charvet, Jensen 2021: fewer points where points are less informative; and their cost.

Three parts, each a table:

made
    500 rows of one column drawn as in the supplement, C.3.1, with noise, smoothness or clustering
    of several levels. The number of points at the paper's prior, exp(-alpha M^2) with alpha = .05,
    and at a cost of one nat for each point.
real
    Four real sets with noise added to the targets, as in the supplement, C.3.2 and Table 1, at the
    paper's alpha and at a cost of one nat.
cost
    Default models of real sets: number of points and mean log density of test rows at several
    costs, beside those of a fit with as many points from the start.

The maximum under exp(-alpha M^2) is found among the first points of a model whose points are in the
order of their worth (`truncate`). For "cost" the model is learned once, and points are removed
from it at each cost with its hyperparameters, which is what a fit with `point_cost` does.

    python benchmarks/uhrenholt_points.py made real cost
"""

import argparse
import time
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
from datasets import (
    is_available,
    load_classification,
    load_regression,
    permuted,
    standardised,
)
from evidence import append, csv_table, dash, pending, read
from pictures import new_panels, save
from scores import log_loss
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import HomoscedasticNoise, SparseGPClassifier, SparseGPRegressor

RESULTS = Path(__file__).parent / "results" / "uhrenholt_points.csv"
KEY = ("part", "set", "level", "price", "seed")
FIELDS = (*KEY, "n_rows", "n_all", "n_points", "bound", "log_density", "direct", "cpu_seconds")

# Supplement, C.3.1: the levels are not printed; the defaults are.
MADE = {
    "noise": (0.05, 0.1, 0.2, 0.4, 0.8),
    "smoothness": (0.5, 1.0, 2.0, 4.0, 8.0),
    "clustering": (0.02, 0.1, 0.5, 2.0),
}
TITLES = {
    "noise": "standard deviation of the noise",
    "smoothness": "length scale",
    "clustering": "precision of the clusters",
}
N_MADE, WIDTH, N_CLUSTERS, MADE_ALPHA = 500, 100.0, 5, 0.05
# Supplement, Table 1: noise levels and alpha.
REAL = {
    "concrete": ((0.0, 0.2, 0.3, 0.4), 0.01),
    "energy": ((0.0, 0.05, 0.1, 0.15), 0.05),
    "kin8nm": ((0.0, 0.2, 0.3, 0.4), 0.1),
    "protein_raw": ((0.0, 0.3, 0.5, 0.7), 0.2),
}
COST_SETS = {
    "concrete": load_regression,
    "energy": load_regression,
    "kin8nm": load_regression,
    "protein_raw": load_regression,
    "banana": load_classification,
    "breast": load_classification,
    "magic": load_classification,
    "electricity": load_classification,
}
COSTS = (0.3, 1.0, 3.0)
MOST_ROWS, MOST_TEST_ROWS, MOST_POINTS = 2000, 4000, 300
# The paper's model.
PAPER = {"kernel": "rbf", "main_effects": False, "bound": "standard", "selection_tol": 0.0}
# Small enough to remove hardly any point: it orders them.
LITTLE = 1e-3


def made_rows(condition, level, seed):
    """Return X and y of the supplement, C.3.1: a draw of a Gaussian process, with noise."""
    settings = {"noise": 0.1, "smoothness": 1.0, "clustering": None, condition: level}
    rng = np.random.RandomState(seed)
    x = rng.uniform(0.0, WIDTH, N_MADE)
    if settings["clustering"] is not None:
        centres = WIDTH * (np.arange(N_CLUSTERS) + 0.5) / N_CLUSTERS
        x = rng.choice(centres, N_MADE) + rng.randn(N_MADE) * settings["clustering"] ** -0.5
    squares = (x[:, None] - x) ** 2
    K = np.exp(-0.5 * squares / settings["smoothness"] ** 2)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(N_MADE)) @ rng.randn(N_MADE)
    return x[:, None], f + settings["noise"] * rng.randn(N_MADE)


@cache
def data_of(load, name):
    return load(name)


def split_of(load, name, seed):
    """Return X_train, y_train, X_test, y_test of a random split, numbers standardised."""
    data = data_of(load, name)
    train, test = permuted(len(data.y), seed)
    train, test = train[:MOST_ROWS], test[:MOST_TEST_ROWS]
    X = standardised(data.X, train)
    y = standardised(data.y, train) if load is load_regression else data.y
    return X[train], y[train], X[test], y[test]


def log_density(model, X, y):
    """Return the mean log density of test rows, or log probability of their classes."""
    if hasattr(model, "log_predictive_density"):
        return float(model.log_predictive_density(X, y).mean())
    return -log_loss(y, model.predict_proba(X))


def best_size(worth, n_points, n_tried=12):
    """Return the number of points, from 1 to `n_points`, at the maximum of a function with one."""
    low, high, values = 1, n_points, {}
    while True:
        tried = np.unique(np.linspace(low, high, n_tried).astype(int))
        values.update({m: worth(m) for m in tried.tolist() if m not in values})
        place = int(np.argmax([values[m] for m in tried]))
        if high - low < n_tried:
            return int(tried[place])
        low, high = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]


def at_square_cost(model, alpha, X, y):
    """Return the model with the first points for which bound - alpha M^2 is highest."""
    part = cache(lambda m: model.truncate(m, X, y))
    worth = partial(_worth, part, alpha)
    return part(best_size(worth, len(model.inducing_points_)))


def _worth(part, alpha, m):
    return part(m).lower_bound_ - alpha * m * m


def with_cost(model, cost, X, y):
    """Return the model with points removed at a cost, with its hyperparameters."""
    options = {"optimizer": None, "selector": model.inducing_points_, "point_cost": cost}
    options["log_transform"] = bool(np.isfinite(model.log_scales_).any())
    if isinstance(model, SparseGPRegressor):
        options["noise"] = HomoscedasticNoise(model.noise_variance_, "fixed")
    parameters = {"bound": model.bound, **options}
    return type(model)(model.kernel_, **parameters).fit(X, y)


def timed(function):
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


def record(key, X, whole, found, seconds, X_test=None, y_test=None, direct=None):
    values = {
        "n_rows": len(X),
        "n_all": len(whole.inducing_points_),
        "n_points": len(found.inducing_points_),
        "bound": found.lower_bound_,
        "log_density": "" if X_test is None else log_density(found, X_test, y_test),
        "direct": "" if direct is None else log_density(direct, X_test, y_test),
        "cpu_seconds": seconds,
    }
    return dict(zip(KEY, key, strict=True)) | values


def run_paper(part, name, level, seed):
    """Fit rows of the paper's experiments, and append the records of both prices."""
    if part == "made":
        X, y = made_rows(name, level, seed)
        test, alpha = (), MADE_ALPHA
    else:
        X, y, *test = split_of(load_regression, name, seed)
        noise = np.random.RandomState(1000 + seed)
        y = y + level * noise.randn(len(y))
        test[1] = test[1] + level * noise.randn(len(test[1]))
        alpha = REAL[name][1]
    model = SparseGPRegressor(**PAPER, n_inducing=MOST_POINTS, point_cost=LITTLE)
    whole, seconds = timed(lambda: model.fit(X, y))
    found = at_square_cost(whole, alpha, X, y)
    cheap, removal = timed(lambda: with_cost(whole, 1.0, X, y))
    first, second = ((part, name, f"{level:g}", price, seed) for price in ("square", "1.0"))
    append(RESULTS, [record(first, X, whole, found, seconds, *test)], FIELDS)
    append(RESULTS, [record(second, X, whole, cheap, removal, *test)], FIELDS)


def run_costs(name, seed):
    """Fit the default model, and append the records of all costs."""
    load = COST_SETS[name]
    X, y, *test = split_of(load, name, seed)
    make = SparseGPRegressor if load is load_regression else SparseGPClassifier
    whole, seconds = timed(lambda: make(n_inducing=MOST_POINTS).fit(X, y))
    rows = [record(("cost", name, "", "0.0", seed), X, whole, whole, seconds, *test)]
    for cost in COSTS:
        found, removal = timed(partial(with_cost, whole, cost, X, y))
        direct = make(n_inducing=len(found.inducing_points_)).fit(X, y)
        key = "cost", name, "", str(cost), seed
        rows.append(record(key, X, whole, found, removal, *test, direct))
    append(RESULTS, rows, FIELDS)


def run(parts, n_seeds):
    """Fit what the file of results does not have yet."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    levels = {"made": MADE, "real": {name: own[0] for name, own in REAL.items()}}
    for part in parts:
        if part == "cost":
            names = [name for name in COST_SETS if is_available(name)]
            jobs = [("cost", name, "", "3.0", s) for s in range(n_seeds) for name in names]
        else:
            names = [n for n in levels[part] if part == "made" or is_available(n)]
            jobs = [
                (part, name, f"{level:g}", "1.0", seed)
                for seed in range(n_seeds)
                for name in names
                for level in levels[part][name]
            ]
        for _, name, level, _, seed in pending(jobs, RESULTS, KEY):
            if part == "cost":
                run_costs(name, seed)
            else:
                run_paper(part, name, float(level), seed)


def means(records, *names):
    """Return {(set, level, price): means of columns over seeds}, with their number."""
    groups = {}
    for one in records:
        groups.setdefault((one["set"], one["level"], one["price"]), []).append(one)
    return {
        key: [np.mean([float(r[name]) if r[name] else np.nan for r in group]) for name in names]
        for key, group in groups.items()
    }


def draw_made(found, path):
    """Draw the number of points at each level of the three conditions."""
    figure, panels = new_panels(3)
    for axes, (name, levels) in zip(panels, MADE.items(), strict=True):
        for price, label, colour in (
            ("square", "alpha = .05", "#0072b2"),
            ("1.0", "1 nat a point", "#d55e00"),
        ):
            sizes = [found[name, f"{level:g}", price][0] for level in levels]
            axes.plot(levels, sizes, "o-", color=colour, label=label)
        axes.set(xscale="log", xlabel=TITLES[name], ylim=(0, None))
        axes.set_xticks(levels, [f"{level:g}" for level in levels])
        axes.minorticks_off()
    figure.supylabel("inducing points", fontsize=11)
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=2)
    save(figure, path)


def made_table(found):
    header = ["condition", "level", "points, alpha = .05", "points, 1 nat each"]
    rows = []
    for name, levels in MADE.items():
        for k, level in enumerate(levels):
            sizes = [f"{found[name, f'{level:g}', price][0]:.0f}" for price in ("square", "1.0")]
            rows.append([name if k == 0 else "", f"{level:g}", *sizes])
    return csv_table(header, rows, stubs=2)


def real_table(found):
    header = ["set", "alpha", "noise", "points, alpha", "points, 1 nat each"]
    header += ["log density, alpha", "1 nat each"]
    rows = []
    for name, (levels, alpha) in REAL.items():
        for k, level in enumerate(levels):
            pair = [found[name, f"{level:g}", price] for price in ("square", "1.0")]
            own = [name, f"{alpha:g}"] if k == 0 else ["", ""]
            sizes, densities = ([f"{p[i]:{s}}" for p in pair] for i, s in ((0, ".0f"), (1, ".3f")))
            rows.append([*own, f"{level:g}", *sizes, *densities])
    return csv_table(header, rows)


def cost_table(found):
    header = ["set", "rows", "points", "log density"]
    for cost in COSTS:
        header += [f"at {cost:g}: points", "log density", "direct"]
    rows = []
    for name in COST_SETS:
        n_rows, size, density, _ = found[name, "", "0.0"]
        row = [name, f"{n_rows:.0f}", f"{size:.0f}", f"{density:.3f}"]
        for cost in COSTS:
            _, size, density, direct = found[name, "", str(cost)]
            row += [f"{size:.0f}", f"{density:.3f}", dash(direct, ".3f")]
        rows.append(row)
    return csv_table(header, rows)


def render(folder):
    """Write tables and a picture of what was measured into a folder; nothing is fitted."""
    folder, records = Path(folder), read(RESULTS)

    def of(part, *names):
        return means([one for one in records if one["part"] == part], *names)

    made = of("made", "n_points")
    draw_made(made, folder / "uhrenholt_made.png")
    (folder / "uhrenholt_made.rst").write_text(made_table(made))
    real = of("real", "n_points", "log_density")
    (folder / "uhrenholt_real.rst").write_text(real_table(real))
    costs = of("cost", "n_rows", "n_points", "log_density", "direct")
    (folder / "uhrenholt_cost.rst").write_text(cost_table(costs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=("made", "real", "cost"))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    with threadpool_limits(1):
        run(arguments.parts, arguments.seeds)
