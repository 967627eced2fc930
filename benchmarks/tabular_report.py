"""Tables of the tabular suite, from its file of results; nothing is fitted.

Of each set the number of training rows counts at which most methods were fitted, and of its splits
those that all these methods have. A mean over splits is one figure of a set. Mean ranks are over
sets; revisions of this package are ranked one at a time, each among the peers, and the peers beside
the last one. Two methods tie on a set where the mean difference of their splits is within two
standard errors.
"""

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from evidence import MISSING, csv_table, read
from scipy.stats import rankdata
from tabular_methods import CLASSES, METHODS, OURS, TARGETS

RESULTS = Path(__file__).parent / "results" / "tabular.csv"
FAILED = "\N{DAGGER}"
ERRORS_OF_A_TIE = 2.0
# Equal to so many digits, scores have the same rank.
RANK_DIGITS = 4


class Score(NamedTuple):
    """How a figure is called and written, and in which direction it is better."""

    title: str
    spec: str = ".3f"
    sign: int = 1
    has_best: bool = True


# A sign of -1: higher is better. Coverage is best at .9.
SCORES = {
    CLASSES: {
        "log_loss": Score("Log loss"),
        "brier": Score("Brier score"),
        "calibration_error": Score("Calibration error"),
        "accuracy": Score("Accuracy", sign=-1),
    },
    TARGETS: {
        "rmse": Score("RMSE"),
        "log_density": Score("Log density", sign=-1),
        "coverage": Score("Coverage", has_best=False),
    },
}
MAIN = {CLASSES: ("log_loss",), TARGETS: ("rmse", "log_density")}
SECONDS = ("fit_seconds", "predict_seconds")
OTHERS = {
    "bound": Score("Bound", ".1f", sign=-1),
    **dict.fromkeys(SECONDS, Score("CPU seconds", ".2g", has_best=False)),
}


class Column(NamedTuple):
    """A method in the tables, with the label of its revision if it has one."""

    method: str
    revision: str = ""

    @classmethod
    def of(cls, record):
        """Return the column of a line of the file of results."""
        return cls(record["method"], record["revision"])

    @property
    def title(self):
        """Its heading."""
        name = METHODS[self.method].title
        return f"{name}, {self.revision}" if self.revision else name


class Table:
    """What was measured of a task.

    Parameters
    ----------
    records : list of dict
        Lines of the file of results, texts by name.
    task : str
    """

    def __init__(self, records, task):
        self.task = task
        self._found = _common(record for record in records if record["task"] == task)
        present = {column for found in self._found.values() for column in found}
        in_order = [column for column in map(Column.of, records) if column in present]
        # In the order in which they first appear.
        self.revisions = [c for c in dict.fromkeys(in_order) if c.method == OURS]
        peers = [Column(name) for name in METHODS if name != OURS]
        self.columns = self.revisions + [column for column in peers if column in present]

    @property
    def sets(self):
        """The names of the sets, by number of training rows."""
        return sorted(self._found, key=self.size)

    def size(self, name):
        """Return the numbers of training rows, columns and splits of a set."""
        lines = next(iter(self._found[name].values()))
        return int(lines[0]["n_train"]), int(lines[0]["n_columns"]), len(lines)

    def lines(self, name, column):
        """Return the records of a method on a set, one for each split; none if it has none."""
        return self._found[name].get(column, [])

    def values(self, name, column, quantity):
        """Return a figure of each split; of seconds only those that were measured."""
        texts = [line[quantity] for line in self.lines(name, column)]
        return np.array([text for text in texts if text], dtype=np.float64)

    def mean(self, name, column, quantity):
        """Return the mean of a figure over splits, or nan."""
        values = self.values(name, column, quantity)
        return values.mean() if len(values) else np.nan

    def n_failures(self, name, column):
        """Return how many fits failed."""
        return sum(bool(line["failure"]) for line in self.lines(name, column))

    def everywhere(self):
        """Return the methods made for every problem, and the sets on which all of them are."""
        columns = [
            column
            for column in self.columns
            if METHODS[column.method].applies(self.task, np.inf, np.inf)
        ]
        return columns, [s for s in self.sets if all(self.lines(s, c) for c in columns)]

    def mean_ranks(self, quantity):
        """Return mean ranks over sets by method, of those that are `everywhere`."""
        columns, sets = self.everywhere()
        sign = SCORES[self.task][quantity].sign
        peers = [column for column in columns if column not in self.revisions]
        ranks = {}
        # The last revision overwrites the peers' ranks beside the others.
        for revision in self.revisions or [None]:
            contest = peers if revision is None else [revision, *peers]
            scores = [[sign * self.mean(s, column, quantity) for column in contest] for s in sets]
            if sets:
                own = rankdata(np.round(scores, RANK_DIGITS), axis=1).mean(axis=0)
                ranks |= dict(zip(contest, own, strict=True))
        return ranks

    def against(self, ours, peer, quantity):
        """Return wins, ties and losses of `ours` over the sets that both have."""
        sign = SCORES[self.task][quantity].sign
        counts = [0, 0, 0]
        for name in self.sets:
            if not (self.lines(name, ours) and self.lines(name, peer)):
                continue
            difference = sign * (
                self.values(name, ours, quantity) - self.values(name, peer, quantity)
            )
            error = 0.0
            if len(difference) > 1:
                error = difference.std(ddof=1) / np.sqrt(len(difference))
            mean = difference.mean()
            tie = abs(mean) <= ERRORS_OF_A_TIE * error
            counts[1 if tie else 0 if mean < 0.0 else 2] += 1
        return counts


def _common(records):
    """Return {set: {column: records of the splits that all its columns have}}."""
    sizes = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for record in records:
        of_size = sizes[record["set"]][int(record["n_train"])]
        of_size[Column.of(record)][record["split"]] = record
    found = {}
    for name, of_set in sizes.items():
        size = max(of_set, key=lambda n_train: (len(of_set[n_train]), n_train))
        splits = set.intersection(*map(set, of_set[size].values()))
        found[name] = {
            column: [lines[split] for split in sorted(splits)]
            for column, lines in of_set[size].items()
            if splits
        }
    return {name: lines for name, lines in found.items() if lines}


def text(value, spec):
    """Return a figure as text, or a dash for nan."""
    return MISSING if np.isnan(value) else f"{value:{spec}}"


def per_set(table, quantity, columns):
    """Return the means of a figure for each set and column; the best one is bold."""
    score = (SCORES[table.task] | OTHERS)[quantity]
    header = ["Set", "N", "D", "Splits", *(column.title for column in columns)]
    rows = []
    for name in table.sets:
        means = [table.mean(name, column, quantity) for column in columns]
        texts = [text(mean, score.spec) for mean in means]
        if score.has_best and np.isfinite(means).sum() > 1:
            best = text(score.sign * np.nanmin(np.multiply(score.sign, means)), score.spec)
            texts = [f"**{cell}**" if cell == best else cell for cell in texts]
        failed = [table.n_failures(name, column) > 0 for column in columns]
        cells = [cell + FAILED * mark for cell, mark in zip(texts, failed, strict=True)]
        n_train, n_columns, n_splits = table.size(name)
        rows.append([name, str(n_train), str(n_columns), str(n_splits), *cells])
    return csv_table(header, rows)


def summary(table):
    """Return means over the sets on which all methods were fitted, mean ranks, and seconds."""
    scores = SCORES[table.task]
    columns, sets = table.everywhere()
    ranked = MAIN[table.task]
    header = ["Method", *(score.title for score in scores.values())]
    header += [f"{scores[quantity].title}, mean rank" for quantity in ranked]
    header += ["Fit, CPU s", "Prediction, CPU s", "Failures"]
    ranks = {quantity: table.mean_ranks(quantity) for quantity in ranked}
    rows = []
    for column in columns if sets else []:
        averages = [np.mean([table.mean(s, column, q) for s in sets]) for q in scores]
        seconds = [np.nanmedian([table.mean(s, column, q) for s in sets]) for q in SECONDS]
        rows.append(
            [
                column.title,
                *(
                    text(mean, score.spec)
                    for mean, score in zip(averages, scores.values(), strict=True)
                ),
                *(text(ranks[quantity][column], ".2f") for quantity in ranked),
                *(text(value, ".2g") for value in seconds),
                str(sum(table.n_failures(s, column) for s in sets)),
            ]
        )
    return csv_table(header, rows, title=f"Means over {len(sets)} sets; medians of seconds")


def pairs(table):
    """Return wins, ties and losses of the last revision against every other method."""
    main = MAIN[table.task]
    titles = [SCORES[table.task][quantity].title for quantity in main]
    header = ["Against", "Sets"]
    header += [f"{name}, {word}" for name in titles for word in ("wins", "ties", "losses")]
    rows = []
    for peer in table.columns if table.revisions else []:
        if peer != table.revisions[-1]:
            counts = [table.against(table.revisions[-1], peer, quantity) for quantity in main]
            rows.append([peer.title, str(sum(counts[0])), *(str(n) for own in counts for n in own)])
    return csv_table(header, rows, title="The last revision of sparsegpc against each other method")


def failures(records):
    """Return what happened to the fits that failed."""
    found = defaultdict(list)
    for record in records:
        if record["failure"]:
            found[Column.of(record), record["set"], record["failure"]].append(record["split"])
    rows = [
        [column.title, name, str(len(splits)), failure]
        for (column, name, failure), splits in found.items()
    ]
    return csv_table(["Method", "Set", "Fits", "What happened"], rows) if rows else "None.\n"


def render(folder):
    """Write the tables of the suite as fragments into a folder."""
    folder, records = Path(folder), read(RESULTS)
    fragments = {"failures": failures(records)}
    for task, scores in SCORES.items():
        table = Table(records, task)
        fragments[f"{task}_summary"] = summary(table)
        fragments[f"{task}_pairs"] = pairs(table)
        for quantity in [*scores, *SECONDS]:
            fragments[f"{task}_{quantity}"] = per_set(table, quantity, table.columns)
        fragments[f"{task}_bound"] = per_set(table, "bound", table.revisions)
    for name, fragment in fragments.items():
        (folder / f"tabular_{name}.rst").write_text(fragment, encoding="utf-8")
