"""Passerello 2021, Figures 5.7, 5.8, D.2 and D.3: the bound against the number of points.

The Pólya-Gamma model as in the thesis (squared exponential, zero prior mean, "standard" slack) with
points drawn uniformly, from k-means, by greedy variance and by HGV, kept where they are or moved
along the gradient; and the defaults of `SparseGPClassifier` with that kernel. All rows train, as in
the captions; of magic 25 % and of electricity 10 %. Columns have mean 0 and deviation 1. Methods
that draw are fitted with several seeds; greedy variance and HGV draw nothing here.

Published bounds are those that the author's repository keeps beside his program (GitHub,
GiovanniPasserello/SHGP, shgp/data/metadata_sparsity.py): he has them for all but Twonorm,
Electricity, and k-means with moving points.

    python benchmarks/thesis_sparsity.py --sets banana breast
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import counted, is_available, load_classification, standardised
from evidence import append, csv_table, dash, read
from kernel_settings import ONE_LENGTH_SCALE
from pictures import new_panels, save
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sparsity.csv"
PUBLISHED = HERE / "published" / "thesis_sparsity.csv"
COLUMNS = ("set", "n_rows", "method", "n_inducing", "seed", "n_points", "bound", "seconds")

PGPR = {"likelihood": "polya-gamma", "bound": "standard", "fit_prior_mean": False}
# At a looser tolerance points that still creep are left where they are.
MOVED = {"optimize_inducing": True, "max_iter": 1000, "tol": 1e-6}


class Method(NamedTuple):
    """A line of a picture: its label and looks, how it is fitted, and with how many seeds."""

    label: str
    colour: str
    options: dict
    n_seeds: int = 1
    style: str = "-"
    width: float = 1.6


METHODS = {
    "uniform": Method("uniform", "#8c8c8c", {**PGPR, "selector": "uniform"}, 3),
    "kmeans": Method("k-means", "#e69f00", {**PGPR, "selector": "kmeans"}, 3),
    "hgv": Method("HGV", "#0072b2", {**PGPR, "selector": "hgv"}),
    "greedy-variance": Method(
        "greedy variance", "#cc79a7", {**PGPR, "selector": "greedy-variance"}, style="--"
    ),
    "hgv-moved": Method("HGV, moved", "#009e73", {**PGPR, **MOVED, "selector": "hgv"}),
    "kmeans-moved": Method(
        "k-means, moved", "#e69f00", {**PGPR, **MOVED, "selector": "kmeans"}, 2, "--"
    ),
    "default": Method("our default", "#000000", {}, 2, width=2.2),
    # With as many points as there are rows, but for those that depend on others.
    "full": Method("", "#0072b2", {**PGPR, "tol": 1e-7}),
    "default-full": Method("", "#000000", {"tol": 1e-7}),
}
FULL = ("full", "default-full")
FIXED = ("uniform", "kmeans", "hgv", "greedy-variance", "default")
MOVING = ("hgv", "hgv-moved", "kmeans-moved", "default")
DASHES = (0, (2, 2))


class Set(NamedTuple):
    """How a set is called in the thesis, the numbers of points, and which share of the rows."""

    title: str
    points: tuple
    share: float = 1.0
    is_small: bool = True


UP_TO_50, UP_TO_100 = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50), (5, 10, 20, 30, 40, 60, 80, 100)
UP_TO_19 = (5, 6, 7, 8, 9, 10, 12, 15, 19)
UP_TO_305 = (25, 55, 105, 205, 305)
SETS = {
    "banana": Set("Banana", UP_TO_50),
    "breast": Set("Breast Cancer", (5, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)),
    "crabs_species": Set("Crabs", UP_TO_19),
    "heart": Set("Heart", UP_TO_50),
    "ionosphere": Set("Ionosphere", UP_TO_100),
    "pima": Set("Pima", UP_TO_100),
    "magic": Set("Magic, 25 %", UP_TO_305, 0.25, False),
    "electricity": Set("Electricity, 10 %", UP_TO_305, 0.1, False),
    "ringnorm": Set("Ringnorm", UP_TO_305, 1.0, False),
    "twonorm": Set("Twonorm", UP_TO_305, 1.0, False),
}
BODY = ("banana", "breast")
NEAR = 1.0


def load_rows(name):
    """Return X and y of the rows that are used."""
    data = load_classification(name)
    n_rows = len(data.y)
    rows = np.sort(counted(n_rows, 0, int(SETS[name].share * n_rows), 0)[0])
    return standardised(data.X, rows)[rows], data.y[rows]


def jobs(names, most_seeds):
    """Yield (set, method, number of points, seed) of all fits; None is a point at every row."""
    for name in names:
        own = SETS[name]
        for method, how in METHODS.items():
            if not own.is_small and (method in FULL or "moved" in method):
                continue
            n_seeds = min(how.n_seeds, most_seeds) if own.is_small else 1
            for n_inducing in (None,) if method in FULL else own.points:
                for seed in range(n_seeds):
                    yield name, method, n_inducing, seed


def fitted_row(name, method, n_inducing, seed, X, y):
    """Fit, and return the row of the file of results."""
    n_inducing = len(y) if n_inducing is None else n_inducing
    model = SparseGPClassifier(
        n_inducing=n_inducing,
        selection_tol=0.0,
        random_state=seed,
        **ONE_LENGTH_SCALE,
        **METHODS[method].options,
    )
    start = time.process_time()
    with warnings.catch_warnings():
        # Far too few points leave a constant function, which the picture shows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    seconds = time.process_time() - start
    n_points, bound = len(model.inducing_points_), f"{model.lower_bound_:.4f}"
    values = name, len(y), method, n_inducing, seed, n_points, bound, f"{seconds:.2f}"
    return dict(zip(COLUMNS, values, strict=True))


def run(names, most_seeds):
    """Fit what the file of results does not have yet."""
    from tqdm import tqdm

    done = {(r["set"], r["method"], r["n_inducing"], r["seed"]) for r in read(RESULTS)}
    data = {name: load_rows(name) for name in names}
    for name, method, n_inducing, seed in tqdm(list(jobs(names, most_seeds)), unit="fit"):
        X, y = data[name]
        key = name, method, str(len(y) if n_inducing is None else n_inducing), str(seed)
        if key not in done:
            append(RESULTS, [fitted_row(name, method, n_inducing, seed, X, y)])


def mean_curves(rows):
    """Return {(set, method): (numbers of points, mean bounds)}."""
    bounds = {}
    for row in rows:
        own = bounds.setdefault((row["set"], row["method"]), {})
        own.setdefault(int(row["n_inducing"]), []).append(float(row["bound"]))
    return {
        key: (np.array(sorted(own)), np.array([np.mean(own[m]) for m in sorted(own)]))
        for key, own in bounds.items()
    }


def points_within(curve, line, distance=NEAR):
    """Return the fewest points from which on a curve stays within `distance` of a line.

    None if its end does not.
    """
    n_inducing, bound = curve
    far = np.flatnonzero(bound < line - distance)
    first = far[-1] + 1 if len(far) else 0
    return int(n_inducing[first]) if first < len(bound) else None


def _draw_panel(axes, name, methods, ours, published):
    for method in methods:
        how = METHODS[method]
        axes.plot(*ours[name, method], how.style, color=how.colour, lw=how.width)
        if (name, method) in published:
            n_inducing, bound = published[name, method]
            both = np.isin(n_inducing, ours[name, method][0])
            style = {"ms": 4, "mfc": "none", "mew": 0.9, "color": how.colour}
            axes.plot(n_inducing[both], bound[both], "o", **style)
    ends = [ours[name, m][1][-1] for m in ("hgv", "default")]
    for place, method in enumerate(FULL):
        if (name, method) in ours:
            ends[place] = ours[name, method][1][0]
            axes.axhline(ends[place], ls=DASHES, lw=1.1, color=METHODS[method].colour)
    height = ends[1] - ends[0]
    axes.set_ylim(ends[0] - 1.2 * height, ends[1] + 0.2 * height)
    axes.set_xlim(0, None)
    axes.set_title(SETS[name].title)
    axes.locator_params(nbins=5)


def draw(names, methods, ours, published, path):
    """Draw a panel for each set: lines are ours, circles published, dashes non-sparse."""
    from matplotlib.lines import Line2D

    figure, panels = new_panels(len(names))
    for axes, name in zip(panels, names, strict=True):
        _draw_panel(axes, name, methods, ours, published)
    for axes in panels[-2:]:
        axes.set_xlabel("inducing points")
    figure.supylabel("lower bound, nats", fontsize=11)
    lines = [
        Line2D([], [], color=how.colour, ls=how.style, lw=how.width, label=how.label)
        for how in map(METHODS.get, methods)
    ]
    if any((name, method) in published for name in names for method in methods):
        lines.append(Line2D([], [], color="0.3", ls="", marker="o", mfc="none", label="thesis"))
    if any((name, method) in ours for name in names for method in FULL):
        lines.append(Line2D([], [], color="0.3", ls=DASHES, lw=1.1, label="non-sparse"))
    figure.legend(handles=lines, loc="outside lower center", ncols=3, fontsize=10)
    save(figure, path)


def needed_table(ours, published):
    """Return the table of how many points come within a nat of the non-sparse bound."""
    methods = ("uniform", "kmeans", "greedy-variance", "hgv", "hgv-moved")
    header = ["set", "non-sparse", *(METHODS[m].label for m in methods), "k-means, moved"]
    header += ["our default, non-sparse", "our default"]
    rows = []
    for name in (name for name, own in SETS.items() if own.is_small):
        lines = [curves[name, "full"][1][0] for curves in (published, ours)]
        row = [SETS[name].title, " / ".join(f"{line:.2f}" for line in lines)]
        for method in methods:
            pairs = zip((published, ours), lines, strict=True)
            near = [points_within(curves[name, method], line) for curves, line in pairs]
            row.append(" / ".join(map(dash, near)))
        row.append(dash(points_within(ours[name, "kmeans-moved"], lines[1])))
        line = ours[name, "default-full"][1][0]
        rows.append([*row, f"{line:.2f}", dash(points_within(ours[name, "default"], line))])
    return csv_table(header, rows)


def large_table(ours, published, n_rows):
    """Return the table of bounds of the larger sets at the most points."""
    methods = ("uniform", "kmeans", "greedy-variance", "hgv")
    header = ["set", "rows", "M", *(METHODS[m].label for m in methods), "our default"]
    rows = []
    for name in (name for name, own in SETS.items() if not own.is_small):
        n_inducing, bound = ours[name, "default"]
        row = [SETS[name].title, n_rows[name], str(n_inducing[-1])]
        for method in methods:
            known = dict(zip(*published.get((name, method), ((), ())), strict=True))
            pair = known.get(n_inducing[-1]), ours[name, method][1][-1]
            row.append(" / ".join(dash(value, ".0f") for value in pair))
        rows.append([*row, f"{bound[-1]:.0f}"])
    return csv_table(header, rows)


def render(folder):
    """Write tables and pictures of what was measured into a folder; nothing is fitted."""
    folder = Path(folder)
    rows = read(RESULTS)
    ours, published = mean_curves(rows), mean_curves(read(PUBLISHED))
    appendix = [name for name in SETS if name not in BODY]
    small = [name for name in appendix if SETS[name].is_small]
    large = [name for name in appendix if not SETS[name].is_small]
    for figure, names, methods in (
        ("5_7", BODY, FIXED),
        ("5_8", BODY, MOVING),
        ("d_2", small, FIXED),
        ("d_2_large", large, FIXED),
        ("d_3", small, MOVING),
    ):
        draw(names, methods, ours, published, folder / f"thesis_figure_{figure}.png")
    (folder / "thesis_sparsity_needed.rst").write_text(needed_table(ours, published))
    (folder / "thesis_sparsity_large.rst").write_text(
        large_table(ours, published, {row["set"]: row["n_rows"] for row in rows})
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3, help="most seeds of methods that draw")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        run([name for name in arguments.sets if is_available(name)], arguments.seeds)
