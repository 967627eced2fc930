"""How Passerello 2021 compares its methods: points for fifteen criteria on each set, and ranks.

Fifteen criteria for each set: maximum, minimum, median, mean and standard deviation over splits of
bound, accuracy and log loss. The best method in a criterion gets a point, all that are equally good
get one (Tables 5.2, 5.4); the points on a set rank the methods (5.3, 5.5).
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from evidence import read
from thesis_tables import (
    FIXED,
    GPFLOW,
    GPFLOW_RESULTS,
    HERE,
    MOVED,
    N_SPLITS,
    OURS,
    OURS_MOVED,
    RESULTS,
    SETS,
    SMALL,
    WITH_MEAN,
)

PUBLISHED = HERE / "published" / "thesis.csv"
PUBLISHED_POINTS = HERE / "published" / "thesis_points.csv"
# A standard deviation over splits needs two.
FEWEST_SPLITS = 2

METRICS = ("bound", "accuracy", "loss")
STATISTICS = {"max": np.max, "min": np.min, "median": np.median, "mean": np.mean, "std": np.std}
# Figures are compared as they are printed in the thesis.
DIGITS = {"bound": 2, "accuracy": 4, "loss": 4}
# Printed without its sign, and with a digit too many.
MISPRINTS = {
    ("D.1", "twonorm", "PGPR K-means", "bound", "median"): -455.84,
    ("D.2", "electricity", "PGPR GO", "bound", "median"): -17678.0,
}


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
