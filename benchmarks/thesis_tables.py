r"""Passerello 2021, Tables 5.2 to 5.5, D.1 and D.2: eight methods and ours on ten sets.

Fifteen criteria for each set: maximum, minimum, median, mean and standard deviation over splits of
bound, accuracy and log loss. The best method in a criterion gets a point, all that are equally good
get one (Tables 5.2, 5.4); the points on a set rank the methods (5.3, 5.5).

"SVGP K-means", "SVGP GO"
    Bernoulli likelihood, points at centres of k-means, which stay or ("GO") move at the end.
"PGPR Uniform", "PGPR K-means", "PGPR GV", "PGPR HGV", "PGPR GO"
    The Polya-Gamma bound of the thesis, with points by its four rules, or moved.
"sparsegpc", "sparsegpc, points moved"
    SparseGPClassifier as it comes, but for the number of points; or with optimize_inducing=True.
"SVGP K-means, own mean" and so on
    The same rows with what ours has and the thesis has not: a learned constant mean of f and, for
    SVGP, the tighter bound.
"SVGP K-means (GPflow)", "SVGP GO (GPflow)"
    GPflow fits by gpflow_peer.py, on demand (``--methods``), where GPflow is installed.

The rows of the thesis have mean zero and the standard bound, as they have there. All kernels are
isotropic squared exponentials with the thesis' number of points; 90 % of a random permutation
train, and columns are standardised by them. A fit is one line of the file of results; those that
are in it are not repeated.

    python benchmarks/thesis_tables.py
    python benchmarks/thesis_tables.py --sets heart --methods sparsegpc --splits 3 --out few.csv
"""

import argparse
import csv
import time
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from datasets import is_available, load_classification, permuted, split_classification
from gpflow_peer import GPflowSVGP
from scores import log_loss
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

HERE = Path(__file__).parent
PUBLISHED = HERE / "published" / "thesis.csv"
PUBLISHED_POINTS = HERE / "published" / "thesis_points.csv"
RESULTS = HERE / "results" / "thesis.csv"
GPFLOW_RESULTS = HERE / "results" / "thesis_gpflow.csv"
N_SPLITS = 10
# Our row has more splits of the small sets, to see how much depends on which ten these are.
MOST_SPLITS = 40
# A standard deviation over splits needs two.
FEWEST_SPLITS = 2


class ThesisSet(NamedTuple):
    """Title, rows, points, GPflow's limit of iterations and start of the length scale."""

    title: str
    n_rows: int
    n_points: int
    max_iter: int = 500
    start: float = 1.0


SETS = {
    "crabs_species": ThesisSet("Crabs", 200, 10, 1000),
    "heart": ThesisSet("Heart", 270, 35, 250),
    "ionosphere": ThesisSet("Ionosphere", 351, 50),
    "banana": ThesisSet("Banana", 400, 40, 250),
    "breast": ThesisSet("Breast", 569, 50),
    "pima": ThesisSet("Pima", 768, 60),
    # From one GPflow stops at a constant function there: it starts at the root of the columns.
    "twonorm": ThesisSet("Twonorm", 7400, 300, start=4.4721),
    "ringnorm": ThesisSet("Ringnorm", 7400, 300, start=4.4721),
    "magic": ThesisSet("Magic", 19020, 300),
    "electricity": ThesisSet("Electricity", 45312, 300),
}
SMALL, LARGE = list(SETS)[:6], list(SETS)[6:]

OURS, OURS_MOVED = "sparsegpc", "sparsegpc, points moved"
SVGP = {"likelihood": "bernoulli-logit", "selector": "kmeans"}
PGPR = {"likelihood": "polya-gamma"}
# Nats per row, of the thesis' rows on the large sets: with the default the Polya-Gamma bound stops
# 60 nats early on ringnorm, on a long ridge. On the small sets it makes a nat at most.
LARGE_TOL = 1e-8
# What each row of the thesis sets, beside the mean and the bound.
OF_THE_THESIS = {
    "SVGP K-means": SVGP,
    "PGPR Uniform": PGPR | {"selector": "uniform"},
    "PGPR K-means": PGPR | {"selector": "kmeans"},
    "PGPR GV": PGPR | {"selector": "greedy-variance"},
    "PGPR HGV": PGPR | {"selector": "hgv"},
    "SVGP GO": SVGP | {"optimize_inducing": True},
    "PGPR GO": PGPR | {"selector": "kmeans", "optimize_inducing": True},
}
FIXED, MOVED = list(OF_THE_THESIS)[:5], list(OF_THE_THESIS)[5:]
OWN_MEAN = ", own mean"
WITH_MEAN = [f"{method}{OWN_MEAN}" for method in FIXED]
GPFLOW = ["SVGP K-means (GPflow)", "SVGP GO (GPflow)"]
METHODS = [*FIXED, OURS, *MOVED, OURS_MOVED, *WITH_MEAN]

# In this order: first what says most for its time.
PLAN = (
    (SMALL, METHODS, 10),
    (SMALL, [OURS], MOST_SPLITS),
    (LARGE, [OURS], 10),
    (LARGE, [OURS_MOVED], 2),
    (["twonorm", "ringnorm"], FIXED, 10),
    (["ringnorm"], WITH_MEAN, 3),
    (["magic"], FIXED, 5),
    (["electricity"], FIXED, 3),
    (["twonorm", "ringnorm"], [*MOVED, OURS_MOVED], 3),
    (["magic"], [*MOVED, OURS_MOVED], 2),
    (["electricity"], MOVED, 1),
    (LARGE, [OURS_MOVED], 10),
    (LARGE, FIXED, 10),
    (["twonorm", "ringnorm", "magic"], [*MOVED, OURS_MOVED], 5),
    (["electricity"], [*MOVED, OURS_MOVED], 2),
    (LARGE, WITH_MEAN, 3),
    (LARGE, METHODS, 10),
)

METRICS = ("bound", "accuracy", "loss")
METRIC_TITLES = {"bound": "Bound", "accuracy": "Accuracy", "loss": "Log loss"}
STATISTICS = {"max": np.max, "min": np.min, "median": np.median, "mean": np.mean, "std": np.std}
# Figures are compared as they are printed in the thesis.
DIGITS = {"bound": 2, "accuracy": 4, "loss": 4}
# En dash and minus sign: a cell that is a hyphen would be a list.
DASH, MINUS = "\u2013", "\u2212"
# Printed without its sign, and with a digit too many.
MISPRINTS = {
    ("D.1", "twonorm", "PGPR K-means", "bound", "median"): -455.84,
    ("D.2", "electricity", "PGPR GO", "bound", "median"): -17678.0,
}
COLUMNS = (
    "set",
    "method",
    "split",
    "n_asked",
    "bound",
    "accuracy",
    "loss",
    "loss_averaged",
    "seconds",
    "evaluations",
    "n_points",
)


# Fits


def build(method, name, split):
    """Return the classifier of a row of the tables, unfitted."""
    own = SETS[name]
    if method in GPFLOW:
        return GPflowSVGP(
            own.n_points,
            move_points=method == GPFLOW[1],
            length_scale=own.start,
            max_iter=own.max_iter,
            max_seconds=np.inf,
            seed=split,
        )
    if method in (OURS, OURS_MOVED):
        return SparseGPClassifier(n_inducing=own.n_points, optimize_inducing=method == OURS_MOVED)
    base = method.removesuffix(OWN_MEAN)
    has_mean = base != method
    settings = OF_THE_THESIS[base]
    is_svgp = settings["likelihood"] == "bernoulli-logit"
    return SparseGPClassifier(
        n_inducing=own.n_points,
        selection_tol=0.0,
        fit_prior_mean=has_mean,
        bound="auto" if has_mean and is_svgp else "standard",
        **({"tol": LARGE_TOL} if name in LARGE else {}),
        random_state=split,
        **settings,
    )


def latent_mean(model, X):
    """Return the mean of the log-odds of the second class."""
    if isinstance(model, GPflowSVGP):
        return model.model_.predict_f(X)[0].numpy().ravel()
    return model.latent_mean_and_variance(X)[0]


def plug_in_loss(codes, mean):
    r"""Return the mean of :math:`-\log \sigma(\pm\mu)`, the log loss of the thesis."""
    return float(np.logaddexp(0.0, np.where(codes == 1, -mean, mean)).mean())


def measure(method, name, split):
    """Fit a method to a split; return the line of the file of results."""
    data = cached_data(name)
    X_train, y_train, X_test, y_test = split_classification(data, *permuted(len(data.y), split))
    model = build(method, name, split)
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds = time.process_time() - start
    mean = latent_mean(model, X_test)
    n_points = SETS[name].n_points
    if isinstance(model, SparseGPClassifier):
        n_points = len(model.inducing_points_)
    figures = (
        f"{model.lower_bound_:.6f}",
        f"{((mean > 0) == (y_test == 1)).mean():.6f}",
        f"{plug_in_loss(y_test, mean):.6f}",
        f"{log_loss(y_test, model.predict_proba(X_test)):.6f}",
        f"{seconds:.3f}",
        model.n_evaluations_,
        n_points,
    )
    return dict(zip(COLUMNS, (name, method, split, SETS[name].n_points, *figures), strict=True))


@cache
def cached_data(name):
    return load_classification(name)


def planned(sets, methods, n_splits):
    """Return (set, method, split) of all fits that are asked for, in the order of the plan."""
    plan = (*PLAN, (list(SETS), GPFLOW, N_SPLITS))
    jobs = (
        (name, method, split)
        for names, rows, most in plan
        for split in range(min(most, n_splits))
        for name in names
        for method in rows
        if name in sets and method in methods
    )
    return list(dict.fromkeys(jobs))


def read(path):
    """Return the lines of a file of results or of published figures; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def run(jobs, path):
    """Fit what is not in the file yet, and append a line for each fit."""
    from tqdm import tqdm

    done = {(line["set"], line["method"], int(line["split"])) for line in read(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tqdm(jobs, unit="fit") as bar:
        for job in bar:
            if job in done:
                continue
            name, method, split = job
            bar.set_postfix_str(f"{name}, {method}, {split}")
            line = measure(method, name, split)
            is_new = not path.exists()
            with path.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerow(line)


# Scores


def published_cells(table):
    """Return {(set, method, metric): {statistic: figure}} of D.1 or D.2, misprints put right."""
    return {
        (line["set"], line["method"], line["metric"]): {
            statistic: MISPRINTS.get(
                (table, line["set"], line["method"], line["metric"], statistic),
                float(line[statistic]),
            )
            for statistic in STATISTICS
        }
        for line in read(PUBLISHED)
        if line["table"] == table
    }


def measured(first=0):
    """Return {(set, method): {split: line}} of the files of results, for ten splits from one on."""
    found = {}
    for path in (RESULTS, GPFLOW_RESULTS):
        for line in read(path):
            split = int(line["split"])
            if first <= split < first + N_SPLITS:
                found.setdefault((line["set"], line["method"]), {})[split] = line
    return found


def common_splits(found, name, methods):
    """Return the splits of a set that all methods have, in order."""
    return sorted(set.intersection(*(set(found.get((name, method), ())) for method in methods)))


def summarised(lines, splits, loss="loss"):
    """Return {metric: {statistic: figure}} over splits; deviations are those of a population."""
    columns = {"bound": "bound", "accuracy": "accuracy", "loss": loss}
    return {
        metric: {
            statistic: float(function([float(lines[split][column]) for split in splits]))
            for statistic, function in STATISTICS.items()
        }
        for metric, column in columns.items()
    }


def measured_cells(found, methods, loss="loss", sets=tuple(SETS)):
    """Return the same as `published_cells`, over the splits of each set that all methods have.

    Sets with fewer than `FEWEST_SPLITS` of these are left out.
    """
    cells = {}
    for name in sets:
        splits = common_splits(found, name, methods)
        if len(splits) < FEWEST_SPLITS:
            continue
        for method in methods:
            for metric, figures in summarised(found[name, method], splits, loss).items():
                cells[name, method, metric] = figures
    return cells


def rounded(value, metric):
    return round(value, DIGITS[metric])


def points(cells):
    """Return {set: {method: {metric: points}}}: one for the best figure of each criterion.

    The best is the highest; of log losses and of deviations the lowest. Figures that are equal as
    printed all get the point.
    """
    methods = list(dict.fromkeys(method for _, method, _ in cells))
    result = {}
    for name in dict.fromkeys(name for name, _, _ in cells):
        result[name] = {method: Counter() for method in methods}
        for metric in METRICS:
            for statistic in STATISTICS:
                figures = {m: rounded(cells[name, m, metric][statistic], metric) for m in methods}
                wants_low = metric == "loss" or statistic == "std"
                best = min(figures.values()) if wants_low else max(figures.values())
                for method, figure in figures.items():
                    result[name][method][metric] += figure == best
    return result


def ranks(by_set):
    """Return {method: {rank: number of sets}}: one more than the methods with more points."""
    result = {}
    for by_method in by_set.values():
        totals = {method: own.total() for method, own in by_method.items()}
        for method, total in totals.items():
            rank = 1 + sum(other > total for other in totals.values())
            result.setdefault(method, Counter())[rank] += 1
    return result


def scoreboard(cells):
    """Return {method: {column: number}} of both tables: points by metric, ranks, and the score.

    The score of a rank among K methods is K for the first and 1 for the last.
    """
    by_set = points(cells)
    ranked = ranks(by_set)
    n_methods = len(ranked)
    board = {}
    for method, own in ranked.items():
        row = {m: sum(one[method][m] for one in by_set.values()) for m in METRICS}
        row["total"] = sum(row.values())
        row |= {str(rank): own[rank] for rank in range(1, n_methods + 1)}
        row["score"] = sum((n_methods + 1 - rank) * count for rank, count in own.items())
        board[method] = row
    return board


def published_scoreboard(tables):
    """Return the same as `scoreboard`, as the thesis prints it in a pair of tables."""
    board = {}
    for line in read(PUBLISHED_POINTS):
        if line["table"] in tables:
            board.setdefault(line["method"], {})[line["column"]] = int(line["value"])
    return board


class Contest(NamedTuple):
    """Whose points are counted: a title, the row that is to win, and the figures of all rows.

    ``n_splits`` has the number of splits of each set that the rows measured here have in common.
    """

    title: str
    winner: str
    cells: dict
    n_splits: dict


def against_published(title, table, winner, found, loss):
    """Return the contest of one of our rows with all of D.1 or D.2, on the sets that it has."""
    ours = measured_cells(found, [winner], loss)
    n_splits = {name: len(found[name, winner]) for name, _, _ in ours}
    theirs = {key: cell for key, cell in published_cells(table).items() if key[0] in n_splits}
    return Contest(title, winner, theirs | ours, n_splits)


def among_measured(title, methods, found, loss, sets=tuple(SETS)):
    """Return the contest of the last one of these rows with the others, on the same splits."""
    cells = measured_cells(found, methods, loss, sets)
    n_splits = {name: len(common_splits(found, name, methods)) for name, _, _ in cells}
    return Contest(title, methods[-1], cells, n_splits)


def contests(found, loss="loss"):
    """Return the contests by their short names; those without a set are left out."""
    moved = [*MOVED, "PGPR HGV"]
    published, measured_here = "5.{}, published rows", "5.{}, rows measured here"
    here, stay = measured_here.format(4), "{}; our points stay"
    own_mean = f"{measured_here.format(2)}, all with a learned mean"
    found_here = (found, loss)
    entries = {
        "52_published": against_published(published.format(2), "D.1", OURS, *found_here),
        "52_published_moved": against_published(
            f"{published.format(2)}; our points move", "D.1", OURS_MOVED, *found_here
        ),
        "52_measured": among_measured(measured_here.format(2), [*FIXED, OURS], *found_here),
        "52_own_mean": among_measured(own_mean, [*WITH_MEAN, OURS], *found_here),
        "52_gpflow": among_measured(
            "5.2, six small sets, with GPflow", [*FIXED, GPFLOW[0], OURS], *found_here, SMALL
        ),
        "54_published": against_published(published.format(4), "D.2", OURS_MOVED, *found_here),
        "54_published_stay": against_published(
            stay.format(published.format(4)), "D.2", OURS, *found_here
        ),
        "54_measured": among_measured(here, [*moved, OURS_MOVED], *found_here),
        "54_measured_stay": among_measured(stay.format(here), [*moved, OURS], *found_here),
        "54_gpflow": among_measured(
            "5.4, six small sets, with GPflow", [*moved, GPFLOW[1], OURS_MOVED], *found_here, SMALL
        ),
    }
    return {key: contest for key, contest in entries.items() if contest.cells}


# Tables and the picture


def csv_table(header, rows, title=None, stubs=1):
    """Return a csv-table directive; all cells are texts."""
    lines = [
        ".. csv-table::" + ("" if title is None else f" {title}"),
        "   :header-rows: 1",
        f"   :stub-columns: {stubs}",
        "",
    ]
    for row in [header, *rows]:
        lines.append("   " + ",".join('"' + cell.replace('"', '""') + '"' for cell in row))
    return "\n".join(lines) + "\n"


def figure_texts(figures, name, metric, n_splits=N_SPLITS):
    """Return median [min, max] and mean (deviation); of one split its figure; or dashes."""
    if figures is None:
        return DASH, DASH
    digits = 0 if metric == "bound" and name == "electricity" else DIGITS[metric]
    t = {key: f"{value:.{digits}f}".replace("-", MINUS) for key, value in figures.items()}
    if n_splits == 1:
        return t["median"], DASH
    return f"{t['median']} [{t['min']}, {t['max']}]", f"{t['mean']} ({t['std']})"


def comparison(found, table, metric, methods):
    """Return D.1 or D.2 of one metric: published figures, and beside them ours."""
    published = published_cells(table)
    rows = []
    for name, own in SETS.items():
        first = f"{own.title} (N = {own.n_rows}, M = {own.n_points})"
        for method in methods:
            lines = found.get((name, method), {})
            theirs = published.get((name, method, metric))
            if not lines and theirs is None:
                continue
            ours = summarised(lines, sorted(lines))[metric] if lines else None
            pairs = zip(
                figure_texts(theirs, name, metric),
                figure_texts(ours, name, metric, len(lines)),
                strict=True,
            )
            cells = [text for pair in pairs for text in pair]
            rows.append([first, method, *cells, str(len(lines)) if lines else DASH])
            first = ""
    header = [
        "Set",
        "Method",
        "Median [min, max], published",
        "here",
        "Mean (deviation), published",
        "here",
        "splits",
    ]
    return csv_table(header, rows, stubs=2)


def scoreboard_table(board, published=None):
    """Return points and ranks as one table; with published ones each cell has these first."""
    columns = list(next(iter(board.values())))
    titles = METRIC_TITLES | {"total": "Points", "score": "Score", "1": "1st", "2": "2nd"}
    titles |= {"3": "3rd"} | {str(rank): f"{rank}th" for rank in range(4, len(board) + 1)}
    rows = []
    for method, row in board.items():
        cells = [str(row[column]) for column in columns]
        if published is not None:
            cells = [
                f"{published[method][column]}" + ("" if same == cell else f" ({cell})")
                for column, cell in zip(columns, cells, strict=True)
                for same in [str(published[method][column])]
            ]
        rows.append([method, *cells])
    return csv_table(["Method", *(titles[column] for column in columns)], rows)


def points_by_set(by_set):
    """Return the points of each method on each set."""
    methods = list(next(iter(by_set.values())))
    rows = [
        [SETS[name].title, *(str(own[method].total()) for method in methods)]
        for name, own in by_set.items()
    ]
    totals = [sum(own[method].total() for own in by_set.values()) for method in methods]
    return csv_table(["Set", *methods], [*rows, ["All", *map(str, totals)]])


def splits_text(n_splits):
    """Return numbers of splits as "10 (4 sets), 3 (1 set)"."""
    counts = Counter(n_splits.values())
    return ", ".join(
        f"{n} ({k} set{'s' if k > 1 else ''})" for n, k in sorted(counts.items(), reverse=True)
    )


def outcome(contest):
    """Return the points of the row that is to win, and those of all others together."""
    board = scoreboard(contest.cells)
    own = board[contest.winner]["total"]
    return own, sum(row["total"] for row in board.values()) - own


def criterion_table(found):
    """Return for each contest whether ours wins more points than all other rows together."""
    averaged = contests(found, "loss_averaged")
    rows = []
    for key, contest in contests(found).items():
        own, others = outcome(contest)
        rows.append(
            [
                contest.title,
                contest.winner,
                str(own),
                str(others),
                "yes" if own > others else "no",
                "{} : {}".format(*outcome(averaged[key])),
                splits_text(contest.n_splits),
            ]
        )
    header = [
        "Table, rows",
        "Our row",
        "Its points",
        "All others together",
        "More",
        "With averaged probabilities",
        "Splits",
    ]
    return csv_table(header, rows)


def duel(contest, other):
    """Return the points of our row and of another one when these two are alone."""
    own, others = outcome(
        contest._replace(
            cells={
                key: cell
                for key, cell in contest.cells.items()
                if key[1] in (contest.winner, other)
            }
        )
    )
    return f"{own} : {others}"


def duels_table(found):
    """Return the points of our row against each other row by itself, published and measured."""
    entered = contests(found)
    rows = []
    for key in ("52", "54"):
        sides = [entered.get(f"{key}_published"), entered.get(f"{key}_measured")]
        if None in sides:
            continue
        winner = sides[0].winner
        methods = dict.fromkeys(m for _, m, _ in sides[0].cells if m != winner)
        rows += [[winner, method, *(duel(side, method) for side in sides)] for method in methods]
    return csv_table(["Our row", "Against", "as published", "as measured here"], rows, stubs=2)


def other_splits_table():
    """Return the points of our row and of the published ones on the small sets, by ten splits."""
    rows = []
    for first in range(0, MOST_SPLITS, N_SPLITS):
        found = {key: runs for key, runs in measured(first).items() if key[0] in SMALL}
        if not found:
            continue
        contest = against_published("", "D.1", OURS, found, "loss")
        board = scoreboard(contest.cells)
        totals = [str(board[method]["total"]) for method in [OURS, *FIXED]]
        rows.append([f"{first} to {first + N_SPLITS - 1}", *totals, str(outcome(contest)[1])])
    return csv_table(["Our splits", OURS, *FIXED, "All published together"], rows)


def spread_of_means(cells, name, metric):
    """Return how far the means of the Polya-Gamma rows are apart."""
    means = [cells[name, method, metric]["mean"] for method in FIXED[1:]]
    return max(means) - min(means)


def spread_table(found):
    """Return how far the means of the four Polya-Gamma rows of D.1 are apart, there and here."""
    published, ours = published_cells("D.1"), measured_cells(found, FIXED)
    rows = []
    for name in dict.fromkeys(name for name, _, _ in ours):
        cells = [
            f"{spread_of_means(figures, name, metric):.4f}"
            for metric in ("accuracy", "loss")
            for figures in (published, ours)
        ]
        rows.append([SETS[name].title, *cells, str(len(common_splits(found, name, FIXED)))])
    header = ["Set", "Accuracy, published", "here", "Log loss, published", "here", "splits"]
    return csv_table(header, rows)


def mean_table(found):
    """Return median bounds with mean zero and the standard bound, and with ours."""
    shown = ["SVGP K-means", "PGPR HGV"]
    pairs = [(method, method + OWN_MEAN) for method in shown]
    rows = []
    for name, own in SETS.items():
        methods = [method for pair in pairs for method in pair] + [OURS]
        splits = common_splits(found, name, methods)
        if not splits:
            continue
        bounds = [summarised(found[name, m], splits)["bound"]["median"] for m in methods]
        rows.append(
            [own.title, *(f"{b:.2f}".replace("-", MINUS) for b in bounds), str(len(splits))]
        )
    header = ["Set", *(method for pair in pairs for method in pair), OURS, "splits"]
    return csv_table(header, rows)


def time_table(found):
    """Return median CPU seconds and evaluations of a fit."""
    methods = [*FIXED, OURS, *MOVED, OURS_MOVED, *GPFLOW]
    rows = []
    for name, own in SETS.items():
        cells = []
        for method in methods:
            lines = found.get((name, method), {}).values()
            if not lines:
                cells.append(DASH)
                continue
            seconds = np.median([float(line["seconds"]) for line in lines])
            evaluations = np.median([int(line["evaluations"]) for line in lines])
            cells.append(f"{seconds:.3g} ({evaluations:.0f})")
        rows.append([own.title, *cells])
    return csv_table(["Set", *methods], rows)


def draw_bounds(found, path):
    """Draw the bound of each set per training row, less that of the published PGPR HGV."""
    from matplotlib.figure import Figure

    fixed, moved = published_cells("D.1"), published_cells("D.2")
    theirs = {
        "SVGP K-means, published": (fixed, "SVGP K-means", "s", "#e69f00"),
        "SVGP GO, published": (moved, "SVGP GO", "D", "#cc79a7"),
    }
    ours = {
        "PGPR HGV, here": ("PGPR HGV", "v", "#56b4e9"),
        "SVGP K-means, here": ("SVGP K-means", "o", "#0072b2"),
        "sparsegpc, here": (OURS, "*", "#000000"),
        "sparsegpc, points moved, here": (OURS_MOVED, "P", "#009e73"),
    }
    figure = Figure(figsize=(5.6, 7.4), layout="constrained")
    axes = figure.subplots()
    names = list(SETS)
    offsets = np.linspace(-0.3, 0.3, len(theirs) + len(ours))

    def gap(name, figures, statistic="median"):
        zero = fixed[name, "PGPR HGV", "bound"]["median"]
        return (figures[statistic] - zero) / int(0.9 * SETS[name].n_rows)

    def draw(label, offset, marker, colour, by_name):
        kept = [i for i, name in enumerate(names) if by_name[name] is not None]
        cells = [(names[i], by_name[names[i]]) for i in kept]
        middle = np.array([gap(*cell) for cell in cells])
        low = middle - np.array([gap(*cell, "min") for cell in cells])
        high = np.array([gap(*cell, "max") for cell in cells]) - middle
        axes.errorbar(
            middle,
            np.array(kept) + offset,
            xerr=[low, high],
            fmt=marker,
            color=colour,
            markersize=7,
            elinewidth=1,
            label=label,
        )

    rows = iter(offsets)
    for label, (cells, method, marker, colour) in theirs.items():
        by_name = {name: cells[name, method, "bound"] for name in names}
        draw(label, next(rows), marker, colour, by_name)
    for label, (method, marker, colour) in ours.items():
        by_name = {}
        for name in names:
            lines = found.get((name, method), {})
            by_name[name] = summarised(lines, sorted(lines))["bound"] if lines else None
        if any(by_name.values()):
            draw(label, next(rows), marker, colour, by_name)
    axes.axvline(0.0, color="0.5", linewidth=1)
    axes.set_xscale("symlog", linthresh=0.03)
    axes.set_xlim(-0.9, 0.3)
    axes.set_yticks(range(len(names)), [SETS[name].title for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("Bound less that of the published PGPR HGV, nats per row\n(median, min, max)")
    axes.grid(axis="x", color="0.9")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    figure.savefig(path, dpi=150)


def render(folder):
    """Write all tables (.rst) and the picture into a folder, from the files; nothing is fitted."""
    folder = Path(folder)
    found = measured()

    def write(name, text):
        (folder / f"thesis_{name}.rst").write_text(text, encoding="utf-8")

    for metric in METRICS:
        chosen = [*FIXED, GPFLOW[0], OURS]
        moved = [*MOVED, GPFLOW[1], "PGPR HGV", OURS_MOVED]
        write(f"d1_{metric}", comparison(found, "D.1", metric, chosen))
        write(f"d2_{metric}", comparison(found, "D.2", metric, moved))
    for table, pair, name in (("D.1", ("5.2", "5.3"), "52"), ("D.2", ("5.4", "5.5"), "54")):
        board = scoreboard(published_cells(table))
        write(f"points_{name}", scoreboard_table(board, published_scoreboard(pair)))
    for key, contest in contests(found).items():
        write(f"points_{key}", scoreboard_table(scoreboard(contest.cells)))
        write(f"points_by_set_{key}", points_by_set(points(contest.cells)))
    write("criterion", criterion_table(found))
    write("own_mean", mean_table(found))
    write("other_splits", other_splits_table())
    write("spread", spread_table(found))
    write("duels", duels_table(found))
    write("seconds", time_table(found))
    draw_bounds(found, folder / "thesis_bounds.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *GPFLOW], default=METHODS)
    parser.add_argument(
        "--splits", type=int, default=MOST_SPLITS, help="at most so many of each set"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results")
    arguments = parser.parse_args()
    # Hyperparameters at their bounds are nothing that these tables are about.
    warnings.simplefilter("ignore", ConvergenceWarning)
    sets = [name for name in arguments.sets if is_available(name)]
    if left_out := sorted(set(arguments.sets) - set(sets)):
        print("without data, left out:", ", ".join(left_out))
    with threadpool_limits(1):
        run(planned(sets, arguments.methods, arguments.splits), arguments.out)


if __name__ == "__main__":
    main()
