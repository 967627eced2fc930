r"""Classification beside other programs: two classes, several, and the bound over time.

binary
    The ten sets of Passerello 2021, with its numbers of points; the bound beside the best median of
    any method there. Its splits are not known; here 90 % of a permutation train. Its best method
    moves all points of SVGP for six of the sets: ``--optimize-inducing`` does so here.
multiclass
    Sets of four to ten classes: one model with a function for each class, by three likelihoods, and
    with "bernoulli-logit" a model for each class against the rest; beside scikit-learn's.
curves
    The best bound so far against CPU seconds, on the first split of some sets.

Figures are medians over splits, "worst" the lowest bound or the highest log loss; log losses are in
nats per row; calibration errors have 15 bins (see scores.py); seconds are those of the CPU; passes
are those of the site solver over the rows, per evaluation and function. Columns have mean 0 and
deviation 1 over the training rows. Our model has an isotropic squared exponential kernel and as
many points as asked for (``selection_tol=0``). Peers are fitted on the same splits on demand:

full
    scikit-learn's GaussianProcessClassifier with ConstantKernel() * RBF(), up to 1500 rows.
gpflow
    GPflow's SVGP, if installed, from centres of k-means, which stay ("fixed") or move ("moved").
    See gpflow_peer.py; limits of L-BFGS-B iterations are 1000 for crabs, 250 for heart, banana and
    pima, else 500.
logistic, boosting
    scikit-learn's LogisticRegression and HistGradientBoostingClassifier with their defaults.

The length scale of full and gpflow starts at the square root of the number of columns ("l0=sqrt"),
or at one ("l0=1"), or with ``--peer-starts 1 sqrt`` there are both: from one GPflow stops at a
constant function on twonorm, and from the root it stops low on crabs_species.

    python benchmarks/classification_tables.py --parts binary --sets heart pima --peers full
    python benchmarks/classification_tables.py --parts multiclass --sets vehicle --splits 3
"""

import argparse
import csv
import warnings
from pathlib import Path
from typing import NamedTuple

import curves
import numpy as np
from classifiers import LIKELIHOODS, PEERS, build, measure, peer_names
from datasets import (
    is_available,
    load_classification,
    permuted,
    split_classification,
)
from gpflow_peer import gpflow_is_installed
from scipy.stats import sem
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits


class ThesisSet(NamedTuple):
    """Points, the best published median bound, and GPflow's limit of iterations."""

    n_points: int
    bound: float
    max_iter: int


THESIS = {
    "crabs_species": ThesisSet(10, -29.84, 1000),
    "heart": ThesisSet(35, -103.06, 250),
    "ionosphere": ThesisSet(50, -97.14, 500),
    "banana": ThesisSet(40, -98.14, 250),
    "breast": ThesisSet(50, -55.71, 500),
    "pima": ThesisSet(60, -338.80, 250),
    "twonorm": ThesisSet(300, -452.1, 500),
    "ringnorm": ThesisSet(300, -739.0, 500),
    "magic": ThesisSet(300, -5649.0, 500),
    "electricity": ThesisSet(300, -17524.0, 500),
}


MULTICLASS = ("vehicle", "segment", "pendigits", "digits", "wine")
MULTICLASS_LIKELIHOODS = ("softmax", "logistic-softmax", "dirichlet", "bernoulli-logit")
MULTICLASS_POINTS = 200
CURVES_POINTS = 300


class CsvFile:
    """Records as rows of a file, if there is a folder for it; written as they come."""

    def __init__(self, folder, name):
        self._path = None if folder is None else Path(folder) / f"{name}.csv"
        self._started = False

    def write(self, records):
        """Append records that all have the same keys; the first ones replace an older file."""
        if self._path is None or not records:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a" if self._started else "w", newline="") as file:
            writer = csv.DictWriter(file, records[0])
            if not self._started:
                writer.writeheader()
            writer.writerows(records)
        self._started = True


def chosen_sets(available, arguments):
    """Return those of a part's sets that are asked for and can be had."""
    asked = available if arguments.sets is None else arguments.sets
    return [name for name in available if name in asked and is_available(name)]


def random_splits(data, arguments):
    """Return the parts of each 90/10 split."""
    result = []
    for seed in range(arguments.splits):
        train, test = permuted(len(data.y), seed)
        result.append(split_classification(data, train[: arguments.rows], test))
    return result


def compare(models, splits, n_points, arguments, max_iter=500):
    """Return {model: records of the splits}."""
    result = {}
    for model in models:
        result[model] = []
        for seed, parts in enumerate(splits):
            n_train, n_columns = parts[0].shape
            classifier = build(model, n_points, n_columns, seed, arguments, max_iter)
            sizes = {"split": seed, "n_train": n_train, "n_points": n_points}
            result[model].append({"model": model} | sizes | measure(classifier, *parts))
    return result


def labelled(name, records):
    """Return all records of a set, with its name."""
    return [{"set": name} | one for own in records.values() for one in own]


def column(runs, key):
    """Return a figure of all splits."""
    return np.array([run[key] for run in runs])


def number(value, spec):
    """Return the number as text, or a dash of the same width where there is none."""
    return f"{value:{spec}}" if np.isfinite(value) else f"{'-':>{spec.split('.')[0]}s}"


def print_differences(differences, peers):
    """Print log losses less those of peers on the same splits."""
    if not differences:
        return
    print("\nLog loss less that of a peer, mean over splits (standard error); negative: lower here")
    print(f"{'set':14s}{'model':24s}" + "".join(f"{peer:>22s}" for peer in peers))
    for (name, model), by_peer in differences.items():
        texts = []
        for peer in peers:
            values = by_peer.get(peer)
            if values is None:
                texts.append(f"{'-':>22s}")
                continue
            error = sem(values) if len(values) > 1 else np.nan
            texts.append(f"{np.mean(values):+13.4f} ({number(error, '6.4f')})")
        print(f"{name:14s}{model:24s}" + "".join(texts), flush=True)


def paired(name, likelihoods, records):
    """Return {(set, model): {peer: differences of log loss}}."""
    peers = [model for model in records if model not in likelihoods]
    return {
        (name, model): {
            peer: column(records[model], "log_loss") - column(records[peer], "log_loss")
            for peer in peers
        }
        for model in likelihoods
        if peers
    }


def print_comparison(sets, settings, likelihoods, default_peers, file, arguments):
    """Print a row for each set and model, and the paired differences of log loss.

    ``settings(name)`` returns number of points, published bound, and GPflow's limit of iterations.
    """
    print(
        f"{'set':14s}{'N':>6s}{'M':>5s} {'model':24s}{'bound':>11s}{'worst':>11s}{'paper':>10s}"
        f"{'accuracy':>9s}{'log loss':>9s}{'mean':>8s}{'worst':>8s}{'Brier':>8s}{'calibr.':>8s}"
        f"{'CPU s':>9s}{'evals':>6s}{'passes':>7s}"
    )
    asked = default_peers if arguments.peers is None else arguments.peers
    differences, seen = {}, {}
    for name in sets:
        n_points, published, max_iter = settings(name)
        data = load_classification(name)
        splits = random_splits(data, arguments)
        n_train = len(splits[0][1])
        peers = peer_names(n_train, int(data.y.max()) + 1, asked, arguments.peer_starts)
        seen |= dict.fromkeys(peers)
        records = {}
        for model in [*likelihoods, *peers]:
            records |= compare([model], splits, n_points, arguments, max_iter)
            runs = records[model]
            m = {key: np.median(column(runs, key)) for key in runs[0] if key != "model"}
            losses = column(runs, "log_loss")
            paper = published if model in likelihoods else np.nan
            shown = f"{n_points:5d}" if "bound" in m and np.isfinite(m["bound"]) else f"{'':5s}"
            print(
                f"{name:14s}{n_train:6d}{shown} {model:24s}"
                + number(m["bound"], "11.2f")
                + number(column(runs, "bound").min(), "11.2f")
                + number(paper, "10.2f")
                + f"{m['accuracy']:9.4f}{m['log_loss']:9.4f}{losses.mean():8.4f}"
                + f"{losses.max():8.4f}{m['brier']:8.4f}{m['calibration_error']:8.4f}"
                + f"{m['seconds']:9.3f}"
                + number(m["evaluations"], "6.0f")
                + number(m["passes"], "7.2f"),
                flush=True,
            )
        file.write(labelled(name, records))
        differences |= paired(name, likelihoods, records)
    print_differences(differences, list(seen))


def binary(arguments, file):
    """Print the comparison on the ten sets."""
    print(f"\nThe sets of Passerello 2021: medians over {arguments.splits} splits")

    def settings(name):
        own = THESIS[name]
        if arguments.rows is not None:
            # The bound of fewer rows is another.
            own = own._replace(bound=np.nan)
        return own._replace(n_points=arguments.points or own.n_points)

    likelihoods = arguments.likelihoods or ["bernoulli-logit"]
    print_comparison(chosen_sets(THESIS, arguments), settings, likelihoods, [], file, arguments)


def multiclass(arguments, file):
    """Print the comparison on sets of several classes."""
    print(f"\nSeveral classes: medians over {arguments.splits} splits")
    likelihoods = arguments.likelihoods or MULTICLASS_LIKELIHOODS
    n_points = arguments.points or MULTICLASS_POINTS
    print_comparison(
        chosen_sets(MULTICLASS, arguments),
        lambda name: (n_points, np.nan, 500),
        likelihoods,
        ["full", "logistic", "boosting"],
        file,
        arguments,
    )


def bound_curves(arguments, file):
    """Record, print and draw the best bound against CPU seconds."""
    print("\nThe best bound so far after that many CPU seconds of the fit")
    likelihoods = arguments.likelihoods or ["bernoulli-logit", "polya-gamma"]
    found = curves.read(arguments.curves_from)
    sets = [] if arguments.curves_from else arguments.sets or ["twonorm"]
    for name in sets:
        own = THESIS.get(name, ThesisSet(CURVES_POINTS, np.nan, 500))
        data = load_classification(name)
        train, test = permuted(len(data.y), 0)
        X, y = split_classification(data, train[: arguments.rows], test)[:2]
        # Of the peers only GPflow has a bound.
        asked = ["gpflow"] if arguments.peers is None else {"gpflow"} & set(arguments.peers)
        for model in [*likelihoods, *peer_names(len(y), 2, asked, arguments.peer_starts)]:
            n_points = arguments.points or own.n_points
            classifier = build(model, n_points, X.shape[1], 0, arguments, own.max_iter)
            curve = found[name, model] = curves.record(classifier, X, y)
            record = {"set": name, "model": model}
            file.write([record | {"seconds": s, "bound": b} for s, b in curve.T])
    curves.print_table(found)
    if arguments.plot is not None:
        curves.draw(found, lambda model: model in LIKELIHOODS, arguments.plot)


PARTS = {
    "binary": binary,
    "multiclass": multiclass,
    "curves": bound_curves,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["binary"], choices=list(PARTS))
    parser.add_argument("--sets", nargs="+", help="only these of a part's sets")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--likelihoods", nargs="+", choices=list(LIKELIHOODS))
    parser.add_argument("--points", type=int, help="in place of a part's own")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--selector", default="rpcholesky", help="of SparseGPClassifier")
    parser.add_argument("--optimize-inducing", action="store_true", help="of SparseGPClassifier")
    parser.add_argument("--peers", nargs="*", choices=PEERS)
    parser.add_argument("--peer-starts", nargs="+", default=["sqrt"], choices=["1", "sqrt"])
    parser.add_argument("--peer-seconds", type=float, default=np.inf, help="limit of a GPflow fit")
    parser.add_argument("--csv", help="folder for a file of all figures of each part")
    parser.add_argument("--curves-from", nargs="+", default=[], help="such files, not a new run")
    parser.add_argument("--plot", help="picture of part curves")
    arguments = parser.parse_args()
    # These tables are not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    if not gpflow_is_installed() and "gpflow" in (arguments.peers or []):
        print("GPflow is not installed and is left out")
    for part in arguments.parts:
        PARTS[part](arguments, CsvFile(arguments.csv, part))


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
