"""Tables 5.2 to 5.5, D.1 and D.2 of Passerello 2021 beside ours, as fragments of the docs."""

from collections import Counter
from pathlib import Path

import numpy as np
from evidence import MISSING, csv_table
from thesis_points import (
    DIGITS,
    METRICS,
    against_published,
    common_splits,
    contests,
    measured,
    measured_cells,
    points,
    published_cells,
    published_scoreboard,
    scoreboard,
    summarised,
)
from thesis_tables import (
    FIXED,
    GPFLOW,
    MOST_SPLITS,
    MOVED,
    N_SPLITS,
    OURS,
    OURS_MOVED,
    OWN_MEAN,
    SETS,
    SMALL,
)

METRIC_TITLES = {"bound": "Bound", "accuracy": "Accuracy", "loss": "Log loss"}
MINUS = "\N{MINUS SIGN}"


def figure_texts(figures, name, metric, n_splits=N_SPLITS):
    """Return median [min, max] and mean (deviation); of one split its figure; or dashes."""
    if figures is None:
        return MISSING, MISSING
    digits = 0 if metric == "bound" and name == "electricity" else DIGITS[metric]
    t = {key: f"{value:.{digits}f}".replace("-", MINUS) for key, value in figures.items()}
    if n_splits == 1:
        return t["median"], MISSING
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
            rows.append([first, method, *cells, str(len(lines)) if lines else MISSING])
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
                cells.append(MISSING)
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
