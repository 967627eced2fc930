"""Tables of the tabular suite, from its file of results; nothing is fitted.

There are tables of the fits to at most `FEW_ROWS` training rows, and of those to more. They show
the last revision of this package that changed a task. Of each set the number of training rows
counts at which most methods were fitted, and of its splits those that all these methods have. A
mean over splits is one figure of a set, and mean ranks are over sets. Two methods tie on a set
where the mean difference of their splits is within two standard errors.
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
# Most methods were fitted to at most so many training rows.
FEW_ROWS = 2000
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
OTHERS = dict.fromkeys(SECONDS, Score("CPU seconds", ".2g", has_best=False))


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
        present = {method for found in self._found.values() for method in found}
        self.methods = [method for method in METHODS if method in present]

    @property
    def sets(self):
        """The names of the sets, by number of training rows."""
        return sorted(self._found, key=self.size)

    def size(self, name):
        """Return the numbers of training rows, columns and splits of a set."""
        lines = next(iter(self._found[name].values()))
        return int(lines[0]["n_train"]), int(lines[0]["n_columns"]), len(lines)

    def lines(self, name, method):
        """Return the records of a method on a set, one for each split; none if it has none."""
        return self._found[name].get(method, [])

    def values(self, name, method, quantity):
        """Return a figure of each split; of seconds only those that were measured."""
        texts = [line[quantity] for line in self.lines(name, method)]
        return np.array([text for text in texts if text], dtype=np.float64)

    def mean(self, name, method, quantity):
        """Return the mean of a figure over splits, or nan."""
        values = self.values(name, method, quantity)
        return values.mean() if len(values) else np.nan

    def n_failures(self, name, method):
        """Return how many fits failed."""
        return sum(bool(line["failure"]) for line in self.lines(name, method))

    def everywhere(self):
        """Return the methods made for every problem, and the sets on which all of them are."""
        methods = [m for m in self.methods if METHODS[m].applies(self.task, np.inf, np.inf)]
        return methods, [s for s in self.sets if all(self.lines(s, m) for m in methods)]

    def mean_ranks(self, quantity):
        """Return mean ranks over sets by method, of those that are `everywhere`."""
        methods, sets = self.everywhere()
        if not sets:
            return {}
        sign = SCORES[self.task][quantity].sign
        scores = [[sign * self.mean(s, method, quantity) for method in methods] for s in sets]
        ranks = rankdata(np.round(scores, RANK_DIGITS), axis=1).mean(axis=0)
        return dict(zip(methods, ranks, strict=True))

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
    """Return {set: {method: records of the splits that all its methods have}}."""
    sizes = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for record in records:
        of_size = sizes[record["set"]][int(record["n_train"])]
        of_size[record["method"]][record["split"]] = record
    found = {}
    for name, of_set in sizes.items():
        size = max(of_set, key=lambda n_train: (len(of_set[n_train]), n_train))
        splits = set.intersection(*map(set, of_set[size].values()))
        found[name] = {
            method: [lines[split] for split in sorted(splits)]
            for method, lines in of_set[size].items()
            if splits
        }
    return {name: lines for name, lines in found.items() if lines}


def text(value, spec):
    """Return a figure as text, or a dash for nan."""
    return MISSING if np.isnan(value) else f"{value:{spec}}"


def per_set(table, quantity):
    """Return the means of a figure for each set and method; the best one is bold."""
    score = (SCORES[table.task] | OTHERS)[quantity]
    header = ["Set", "N", "D", "Splits", *(METHODS[m].title for m in table.methods)]
    rows = []
    for name in table.sets:
        means = [table.mean(name, method, quantity) for method in table.methods]
        texts = [text(mean, score.spec) for mean in means]
        if score.has_best and np.isfinite(means).sum() > 1:
            best = text(score.sign * np.nanmin(np.multiply(score.sign, means)), score.spec)
            texts = [f"**{cell}**" if cell == best else cell for cell in texts]
        failed = [table.n_failures(name, method) > 0 for method in table.methods]
        cells = [cell + FAILED * mark for cell, mark in zip(texts, failed, strict=True)]
        n_train, n_columns, n_splits = table.size(name)
        rows.append([name, str(n_train), str(n_columns), str(n_splits), *cells])
    return csv_table(header, rows)


def summary(table):
    """Return means over the sets on which all methods were fitted, mean ranks, and seconds."""
    scores = SCORES[table.task]
    methods, sets = table.everywhere()
    ranked = MAIN[table.task]
    header = ["Method", *(score.title for score in scores.values())]
    header += [f"{scores[quantity].title}, mean rank" for quantity in ranked]
    header += ["Fit, CPU s", "Prediction, CPU s", "Failures"]
    ranks = {quantity: table.mean_ranks(quantity) for quantity in ranked}
    rows = []
    for method in methods if sets else []:
        averages = [np.mean([table.mean(s, method, q) for s in sets]) for q in scores]
        seconds = [np.nanmedian([table.mean(s, method, q) for s in sets]) for q in SECONDS]
        rows.append(
            [
                METHODS[method].title,
                *(
                    text(mean, score.spec)
                    for mean, score in zip(averages, scores.values(), strict=True)
                ),
                *(text(ranks[quantity][method], ".2f") for quantity in ranked),
                *(text(value, ".2g") for value in seconds),
                str(sum(table.n_failures(s, method) for s in sets)),
            ]
        )
    return csv_table(header, rows, title=f"Means over {len(sets)} sets; medians of seconds")


def pairs(table):
    """Return wins, ties and losses of this package against every other method."""
    main = MAIN[table.task]
    names = [SCORES[table.task][quantity].title for quantity in main]
    header = ["Against", "Sets"]
    header += [f"{name}, {word}" for name in names for word in ("wins", "ties", "losses")]
    rows = []
    for peer in table.methods if OURS in table.methods else []:
        if peer != OURS:
            counts = [table.against(OURS, peer, quantity) for quantity in main]
            cells = (str(n) for own in counts for n in own)
            rows.append([METHODS[peer].title, str(sum(counts[0])), *cells])
    return csv_table(header, rows, title="sparsegpc against each other method")


def history(records, task):
    """Return the mean scores of this package's revisions, over the fits that all of them have."""
    quantities = [*SCORES[task], "fit_seconds"]
    found = defaultdict(dict)
    for r in records:
        if r["method"] == OURS and r["task"] == task:
            found[r["revision"]][r["set"], r["n_train"], r["split"]] = r
    shared = sorted(set.intersection(*map(set, found.values()))) if found else []
    rows = []
    for revision, fits in found.items():
        values = [[float(fits[key][quantity]) for key in shared] for quantity in quantities]
        means = [f"{np.mean(one):.3f}" for one in values[:-1]] if shared else []
        rows.append([revision, *means, *([f"{np.median(values[-1]):.2g}"] if shared else [])])
    header = ["Revision", *(score.title for score in SCORES[task].values()), "Fit, CPU s"]
    return csv_table(header, rows, title=f"Means over {len(shared)} fits; median of seconds")


def failures(records):
    """Return what happened to the fits that failed."""
    found = defaultdict(list)
    for record in records:
        if record["failure"]:
            found[record["method"], record["set"], record["failure"]].append(record["split"])
    rows = [
        [METHODS[method].title, name, str(len(splits)), failure]
        for (method, name, failure), splits in found.items()
    ]
    return csv_table(["Method", "Set", "Fits", "What happened"], rows) if rows else "None.\n"


def latest(records):
    """Return the records without those of older revisions of this package.

    A task has a revision of its own: not every revision changes both.
    """
    last = {record["task"]: record["revision"] for record in records if record["method"] == OURS}
    return [r for r in records if r["method"] != OURS or r["revision"] == last[r["task"]]]


def render(folder):
    """Write the tables of the suite as fragments into a folder."""
    folder, records = Path(folder), read(RESULTS)
    few = latest([record for record in records if int(record["n_train"]) <= FEW_ROWS])
    many = latest([record for record in records if int(record["n_train"]) > FEW_ROWS])
    fragments = {"failures": failures(few + many)}
    for task, scores in SCORES.items():
        fragments[f"{task}_history"] = history(records, task)
        for prefix, shown in ((task, few), (f"{task}_many", many)):
            table = Table(shown, task)
            fragments[f"{prefix}_summary"] = summary(table)
            fragments[f"{prefix}_pairs"] = pairs(table)
            for quantity in [*scores, *SECONDS]:
                fragments[f"{prefix}_{quantity}"] = per_set(table, quantity)
    for name, fragment in fragments.items():
        (folder / f"tabular_{name}.rst").write_text(fragment, encoding="utf-8")
