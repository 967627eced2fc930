"""Passerello 2021, Figures 5.1 to 5.5: the models on the sets platform and banana.

5.1  The Pólya-Gamma model: its boundary, and the Pólya-Gamma variance over the plane.
5.2  Probabilities on platform: Pólya-Gamma and Bernoulli model, with their bounds.
5.3  Boundaries on banana: both models, with their bounds.
5.4  The Pólya-Gamma bound at its closed-form q(u) is the highest of all q(u): an explicit q(u) is
     optimised from the prior, by code that shares nothing with the package.
5.5  Points and boundaries on banana by five ways of choosing points.

All rows train, the prior mean is zero but in our default. Platform is standardised, as the thesis'
axis implies; banana is not, as in the author's programs (GitHub, GiovanniPasserello/SHGP), whose
bounds are the published ones here. What the pictures need is kept in files of results: lines,
inducing points (rounded to the size of a mark), the variance on a grid, and of the rows only how
many of each class are in each of the squares that the pictures shade.

    python benchmarks/thesis_pictures.py
"""

import argparse
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import load_classification, standardised
from evidence import append, csv_table, read
from kernel_settings import ONE_LENGTH_SCALE
from pictures import new_panel, new_panels, save
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from thesis_sparsity import (
    HERE,
    MOVED,
    PGPR,
)
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

LINES = HERE / "results" / "pictures_lines.csv"
VARIANCE = HERE / "results" / "pictures_variance.csv"
COUNTS = HERE / "results" / "pictures_counts.csv"
BOUNDS = HERE / "results" / "pictures_bounds.csv"
EQUALITY = HERE / "results" / "pictures_equality.csv"
PUBLISHED = HERE / "published" / "thesis_pictures.csv"

BERNOULLI = {"likelihood": "bernoulli-logit", "bound": "standard", "fit_prior_mean": False}
NON_SPARSE = {"n_inducing": 400, "tol": 1e-7}
BLUE, ORANGE = "#0072b2", "#d55e00"
CLASS_COLOURS = ("#e69f00", "#56b4e9")


class Method(NamedTuple):
    """How a way of choosing points is called, and how it is fitted."""

    label: str
    options: dict


METHODS = {
    "svgp-moved": Method(
        "Bernoulli, points moved from k-means", {**BERNOULLI, **MOVED, "selector": "kmeans"}
    ),
    "pgpr-moved": Method(
        "Pólya-Gamma, points moved from k-means", {**PGPR, **MOVED, "selector": "kmeans"}
    ),
    "pgpr-gv": Method("Pólya-Gamma, greedy variance", {**PGPR, "selector": "greedy-variance"}),
    "pgpr-hgv": Method("Pólya-Gamma, HGV", {**PGPR, "selector": "hgv"}),
    "default": Method("our default", {}),
}
SIZES = (4, 8, 16, 32, 64)
DRAWN_SIZES = SIZES[:4]
GRID = np.linspace(-3.0, 3.0, 61)
# Edges of the squares of which rows are counted; so many rows give the full shade.
SQUARES, FULL_SHADE = np.linspace(-3.0, 3.0, 25), 5
# Points so close to the boundary have probabilities between 0.12 and 0.88.
NEAR_LOG_ODDS = 2.0
# Marks are drawn about so large, in units of the axes.
MARK = 0.05
N_PERTURBATIONS, PERTURBATION = 200, 1e-2


def fitted(X, y, **options):
    """Return a fitted classifier with one length scale that takes all the points that it may."""
    model = SparseGPClassifier(selection_tol=0.0, **ONE_LENGTH_SCALE, **options)
    with warnings.catch_warnings():
        # Four points leave a constant function.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def platform():
    """Return standardised rows and labels of platform."""
    data = load_classification("platform")
    return standardised(data.X, slice(None)), data.y


def banana():
    """Return rows and labels of banana as they are."""
    data = load_classification("banana")
    return data.X, data.y


def on_grid(function):
    """Return the values of a function of rows on the grid, shape (len(GRID), len(GRID))."""
    rows = np.stack(np.meshgrid(GRID, GRID), axis=-1).reshape(-1, 2)
    return function(rows).reshape(len(GRID), len(GRID))


def boundary(model):
    """Return the lines along which both classes are equally probable, arrays (n, 2)."""
    from contourpy import contour_generator

    values = on_grid(model.decision_function)
    return contour_generator(GRID, GRID, values).lines(0.0)


def polya_gamma_variance(mean, variance):
    """Return 1 / theta at moments of f: 2 c / tanh(c / 2) with c^2 the second moment of f."""
    c = np.sqrt(mean**2 + variance)
    return 2.0 * c / np.tanh(0.5 * c)


def marks(points):
    """Return points rounded to the size of a mark."""
    return MARK * np.round(points / MARK)


class Lines:
    """What the pictures consist of: a row of a file for each line, and for each kind of marks."""

    def __init__(self):
        self.rows = []

    def add(self, figure, panel, item, points, digits=2):
        """Add points (n, 2) of a line or of marks."""
        text = " ".join(f"{number:.{digits}f}" for number in np.ravel(points))
        self.rows.append({"figure": figure, "panel": panel, "item": item, "points": text})

    def add_boundary(self, figure, panel, item, model):
        """Add all lines of a model's boundary."""
        for line in boundary(model):
            self.add(figure, panel, item, line)


def bound_row(figure, method, n_inducing, model, near=float("nan")):
    """Return a row of the file of bounds; `near` is a share of points."""
    return {
        "figure": figure,
        "method": method,
        "n_inducing": n_inducing,
        "bound": f"{model.lower_bound_:.4f}",
        "near": f"{near:.3f}",
    }


def fit_platform(lines, bounds):
    """Add Figure 5.2."""
    X, y = platform()
    x = np.linspace(1.1 * X.min(), 1.1 * X.max(), 161)
    for method, options in (("pgpr", PGPR), ("bernoulli", BERNOULLI)):
        model = fitted(X, y, **{**options, **NON_SPARSE, "n_inducing": len(y)})
        probability = model.predict_proba(x[:, None])[:, 1]
        lines.add("5.2", "", method, np.column_stack([x, probability]), digits=4)
        bounds.append(bound_row("5.2", method, len(y), model))


def fit_banana(lines, bounds):
    """Add Figures 5.1 and 5.3; return the variance on the grid, and the Bernoulli model."""
    X, y = banana()
    models = {}
    for method, options in (("pgpr", PGPR), ("bernoulli", BERNOULLI)):
        models[method] = fitted(X, y, **options, **NON_SPARSE)
        lines.add_boundary("5.3", "", method, models[method])
        bounds.append(bound_row("5.3", method, len(y), models[method]))
    variance = on_grid(
        lambda rows: polya_gamma_variance(*models["pgpr"].latent_mean_and_variance(rows))
    )
    return variance, models["bernoulli"]


def count_rows():
    """Return how many rows of each class of banana are in each square, shape (2, n, n)."""
    X, y = banana()
    return np.array([np.histogram2d(*X[y == label].T, SQUARES)[0] for label in (0, 1)])


def fit_points(lines, bounds, reference):
    """Add Figure 5.5, and how many points are near the boundary of a reference model."""
    X, y = banana()

    def share(points):
        log_odds = reference.latent_mean_and_variance(points)[0]
        return float((np.abs(log_odds) < NEAR_LOG_ODDS).mean())

    bounds.append(bound_row("5.5", "rows", len(y), reference, share(X)))
    for method, (_, options) in METHODS.items():
        for n_inducing in SIZES:
            model = fitted(X, y, **options, n_inducing=n_inducing)
            Z = model.inducing_points_
            bounds.append(bound_row("5.5", method, n_inducing, model, share(Z)))
            if n_inducing in DRAWN_SIZES:
                panel = f"{method} {n_inducing}"
                lines.add("5.5", panel, "points", marks(Z))
                lines.add_boundary("5.5", panel, "boundary", model)


class ExplicitBound:
    r"""Minus the Pólya-Gamma bound as a function of q(u) = N(m, L L^T) in whitened coordinates.

    With the best tilts it is :math:`\sum_n (y_n \mu_n / 2 - \log 2 \cosh(c_n / 2))` less the
    divergence of q(u) from the prior, where :math:`c_n^2` is the second moment of f. The vector
    holds m, the logarithms of the diagonal of L, and what is below it.

    Parameters
    ----------
    V : ndarray of shape (M, N)
        Whitened cross-covariance.
    residual : ndarray of shape (N,)
        Prior variance of f given u.
    sign : ndarray of shape (N,)
        Labels -1 and +1.
    """

    def __init__(self, V, residual, sign):
        self._V, self._residual, self._sign = V, residual, sign
        self._below = np.tril_indices(len(V), -1)

    def prior(self):
        """Return the vector of q(u) = p(u)."""
        n = len(self._V)
        return np.zeros(2 * n + len(self._below[0]))

    def _unpack(self, x):
        m, log_diagonal, below = np.split(x, [len(self._V), 2 * len(self._V)])
        L = np.diag(np.exp(log_diagonal))
        L[self._below] = below
        return m, log_diagonal, L

    def mean(self, x):
        """Return the mean of f at the rows."""
        return self._V.T @ self._unpack(x)[0]

    def __call__(self, x):
        """Return value and gradient."""
        m, log_diagonal, L = self._unpack(x)
        mean = self._V.T @ m
        second = mean**2 + self._residual + ((L.T @ self._V) ** 2).sum(axis=0)
        c = np.sqrt(second)
        theta = 0.5 * np.tanh(0.5 * c) / c
        value = (0.5 * self._sign * mean - np.logaddexp(0.5 * c, -0.5 * c)).sum()
        value -= 0.5 * (m @ m + (L**2).sum() - len(m)) - log_diagonal.sum()
        slope_m = self._V @ (0.5 * self._sign - theta * mean) - m
        slope_L = -(self._V * theta) @ self._V.T @ L - L
        slope_diagonal = np.diag(slope_L) * np.diag(L) + 1.0
        return -value, -np.concatenate([slope_m, slope_diagonal, slope_L[self._below]])


def explicit_bound(model, X, y):
    """Return the `ExplicitBound` with kernel and points of a fitted model."""
    Z, kernel = model.inducing_points_, model.kernel_
    Kuu = kernel(Z)
    Kuu[np.diag_indices(len(Z))] += model.jitter_ * np.diag(Kuu).mean()
    V = solve_triangular(np.linalg.cholesky(Kuu), kernel(Z, X), lower=True)
    residual = np.maximum(kernel.diag(X) - (V**2).sum(axis=0), 0.0)
    return ExplicitBound(V, residual, 2.0 * y - 1.0)


def maximum(objective):
    """Return the vector and the bound at the best q(u), from the prior on."""
    options = {"maxiter": 50_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-7, "maxcor": 50}
    found = minimize(objective, objective.prior(), jac=True, method="L-BFGS-B", options=options)
    return found.x, -float(found.fun)


def equality_row(n_inducing, X, y):
    """Return a row of the file behind Figure 5.4."""
    model = fitted(X, y, selector="uniform", n_inducing=n_inducing, **PGPR)
    objective = explicit_bound(model, X, y)
    x, bound = maximum(objective)
    rng = np.random.RandomState(0)
    steps = PERTURBATION * rng.standard_normal((N_PERTURBATIONS, len(x)))
    changes = [-objective(x + step)[0] - bound for step in steps]
    mean = model.latent_mean_and_variance(X)[0]
    return {
        "n_inducing": n_inducing,
        "closed_form": f"{model.lower_bound_:.6f}",
        "explicit": f"{bound:.6f}",
        "numbers": len(x),
        "largest_mean_difference": f"{np.abs(objective.mean(x) - mean).max():.1e}",
        "best_perturbation": f"{max(changes):.2e}",
    }


def run():
    """Fit what the pictures show, and write the files of results anew."""
    from tqdm import tqdm

    lines, bounds, equality = Lines(), [], []
    fit_platform(lines, bounds)
    variance, reference = fit_banana(lines, bounds)
    fit_points(lines, bounds, reference)
    X, y = banana()
    for n_inducing in tqdm(SIZES, unit="size"):
        equality.append(equality_row(n_inducing, X, y))
    for path, rows in ((LINES, lines.rows), (BOUNDS, bounds), (EQUALITY, equality)):
        path.unlink(missing_ok=True)
        append(path, rows)
    np.savetxt(VARIANCE, variance, fmt="%.4g", delimiter=",")
    np.savetxt(COUNTS, count_rows().reshape(-1, len(SQUARES) - 1), fmt="%d", delimiter=",")


def read_lines(path):
    """Return {(figure, panel, item): list of arrays (n, 2)}; a boundary may have several lines."""
    parts = {}
    for row in read(path):
        points = np.array(row["points"].split(), dtype=np.float64).reshape(-1, 2)
        parts.setdefault((row["figure"], row["panel"], row["item"]), []).append(points)
    return parts


def read_bounds(path):
    """Return {(figure, method, number of points): (bound, share of points near the boundary)}."""
    return {
        (row["figure"], row["method"], int(row["n_inducing"])): (
            float(row["bound"]),
            float(row.get("near", "nan")),
        )
        for row in read(path)
    }


def _draw_rows(axes, counts):
    """Shade the squares by how many rows of each class are in them."""
    from matplotlib.colors import to_rgb

    for colour, count in zip(CLASS_COLOURS, counts, strict=True):
        shade = np.empty((*count.T.shape, 4))
        shade[..., :3] = to_rgb(colour)
        shade[..., 3] = 0.7 * np.minimum(count.T / FULL_SHADE, 1.0)
        axes.imshow(shade, extent=2 * (SQUARES[0], SQUARES[-1]), origin="lower")
    axes.set(aspect="equal", xlim=(-3, 3), ylim=(-3, 3), xticks=(-2, 0, 2), yticks=(-2, 0, 2))


def _draw_lines(axes, parts, **style):
    label = style.pop("label", None)
    for part in parts:
        axes.plot(*part.T, label=label, **style)
        label = None


def draw_variance(lines, counts, variance, path):
    """Draw Figure 5.1."""
    figure, panels = new_panels(2, 2.6)
    for axes in panels:
        axes.set(xlabel="first column")
    panels[0].set(ylabel="second column", title="rows and boundary")
    panels[1].set(title="Pólya-Gamma variance")
    _draw_rows(panels[0], counts)
    _draw_lines(panels[0], lines["5.3", "", "pgpr"], color="black")
    field = panels[1].contourf(GRID, GRID, variance, levels=10, cmap="viridis_r")
    _draw_lines(panels[1], lines["5.3", "", "pgpr"], color="black")
    panels[1].set(aspect="equal", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    figure.colorbar(field, ax=panels[1], shrink=0.75)
    save(figure, path)


def draw_platform(lines, bounds, path):
    """Draw Figure 5.2."""
    figure, axes = new_panel(6.0, 3.6)
    for method, label, colour in (
        ("bernoulli", "Bernoulli", ORANGE),
        ("pgpr", "Pólya-Gamma", BLUE),
    ):
        bound = next(b for key, (b, _) in bounds.items() if key[:2] == ("5.2", method))
        text = f"{label} ({bound:.2f})"
        _draw_lines(axes, lines["5.2", "", method], color=colour, lw=2.0, label=text)
    axes.set(xlabel="standardised column", ylabel="probability of class 1", ylim=(-0.08, 1.08))
    figure.legend(loc="outside lower center", ncols=2)
    save(figure, path)


def draw_boundaries(lines, counts, bounds, path):
    """Draw Figure 5.3."""
    figure, axes = new_panel(4.6, 5.0)
    _draw_rows(axes, counts)
    for method, label, colour, style in (
        ("bernoulli", "Bernoulli", ORANGE, "-"),
        ("pgpr", "Pólya-Gamma", BLUE, "--"),
    ):
        text = f"{label} ({bounds['5.3', method, 400][0]:.2f})"
        _draw_lines(axes, lines["5.3", "", method], color=colour, ls=style, lw=2.0, label=text)
    axes.set(xlabel="first column", ylabel="second column")
    figure.legend(loc="outside lower center", ncols=2)
    save(figure, path)


def draw_points(lines, counts, bounds, method, path):
    """Draw one method of Figure 5.5, a panel for each number of points."""
    figure, panels = new_panels(len(DRAWN_SIZES), 2.9)
    for axes, n_inducing in zip(panels, DRAWN_SIZES, strict=True):
        _draw_rows(axes, counts)
        panel = f"{method} {n_inducing}"
        _draw_lines(axes, lines.get(("5.5", panel, "boundary"), ()), color=BLUE, lw=2.0)
        (points,) = lines["5.5", panel, "points"]
        axes.plot(*points.T, "o", ms=6, mfc="black", mec="white", mew=0.8)
        bound = bounds["5.5", method, n_inducing][0]
        axes.set_title(f"M={n_inducing}, bound {bound:.1f}")
    figure.supxlabel("first column", fontsize=11)
    figure.supylabel("second column", fontsize=11)
    figure.suptitle(METHODS[method].label, fontsize=11, fontweight="bold")
    save(figure, path)


def equality_table(rows, published):
    """Return the table that stands for Figure 5.4."""
    header = ["M", "SVGP (thesis)", "PGPR (thesis)", "closed form (ours)", "explicit q(u)"]
    header += ["numbers in q(u)", "largest difference of means", "best of 200 other q(u)"]
    cells = []
    for row in rows:
        m = int(row["n_inducing"])
        theirs = [f"{published['5.4', method, m][0]:.2f}" for method in ("svgp-pg", "pgpr")]
        ours = [f"{float(row[key]):.5f}" for key in ("closed_form", "explicit")]
        rest = [row["numbers"], row["largest_mean_difference"], row["best_perturbation"]]
        cells.append([str(m), *theirs, *ours, *rest])
    return csv_table(header, cells)


def points_table(bounds, published):
    """Return the table of bounds and of the points near the boundary behind Figure 5.5."""
    header = ["points chosen by", *(f"M={m}" for m in SIZES), "near the boundary at M=32"]
    rows = []
    for method, (label, _) in METHODS.items():
        row = [label]
        for m in SIZES:
            theirs = published.get(("5.5", method, m))
            text = f"{bounds['5.5', method, m][0]:.1f}"
            row.append(text if theirs is None else f"{theirs[0]:.1f} / {text}")
        rows.append([*row, f"{bounds['5.5', method, 32][1]:.0%}"])
    rows.append(["all rows", *[""] * len(SIZES), f"{bounds['5.5', 'rows', 400][1]:.0%}"])
    return csv_table(header, rows)


def render(folder):
    """Write tables and pictures of what was measured into a folder; nothing is fitted."""
    folder = Path(folder)
    lines, bounds = read_lines(LINES), read_bounds(BOUNDS)
    published = read_bounds(PUBLISHED)
    variance = np.loadtxt(VARIANCE, delimiter=",")
    counts = np.loadtxt(COUNTS, delimiter=",").reshape(2, len(SQUARES) - 1, -1)
    draw_variance(lines, counts, variance, folder / "thesis_figure_5_1.png")
    draw_platform(lines, bounds, folder / "thesis_figure_5_2.png")
    draw_boundaries(lines, counts, bounds, folder / "thesis_figure_5_3.png")
    for method in METHODS:
        name = method.replace("-", "_")
        draw_points(lines, counts, bounds, method, folder / f"thesis_figure_5_5_{name}.png")
    equality = equality_table(read(EQUALITY), published)
    (folder / "thesis_figure_5_4.rst").write_text(equality)
    (folder / "thesis_figure_5_5.rst").write_text(points_table(bounds, published))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with threadpool_limits(1):
        run()
