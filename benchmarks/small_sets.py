"""Seconds of a fit to small sets, beside scikit-learn's full model.

SparseGPClassifier with one length scale for all columns and else its default settings, and
GaussianProcessClassifier(ConstantKernel() * RBF()), of which both learn the kernel, in turns within
one process: on one BLAS thread, and the full model also on as many as there are cores ("default").
The latter stalls for minutes where others use the cores; ``--one-thread`` leaves it out. 90 % of a
random permutation train, columns have mean 0 and deviation 1 over them. Figures are medians over
splits and repeats, the ratio that of the medians of one split: how many times as long the full
model takes, on the better of its numbers of threads by wall seconds and on one thread by CPU
seconds. The bound is a lower one here, and Laplace's
approximation there, so only log losses compare.

    python benchmarks/small_sets.py --splits 10 --out output/small.jsonl
"""

import argparse
import time
import warnings

import numpy as np
from datasets import is_available, load_classification, permuted, split_classification
from kernel_settings import ONE_LENGTH_SCALE
from measure import PAUSE, available_cores, timed
from records import append, print_table
from scores import log_loss
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from sparsegpc import SparseGPClassifier

SETS = ("crabs_species", "heart", "ionosphere", "banana", "breast", "pima")
WARM_UP_ROWS = 100


def full_model(n_columns, start):
    """Return scikit-learn's model, from a length scale of 1 or of the root of D."""
    length_scale = np.sqrt(n_columns) if start == "sqrt" else 1.0
    return GaussianProcessClassifier(ConstantKernel() * RBF(length_scale))


def contestants(n_columns, start, n_cores):
    """Return {name: (estimator, number of BLAS threads)}."""
    models = {
        "sparsegpc": (SparseGPClassifier(**ONE_LENGTH_SCALE), 1),
        "full": (full_model(n_columns, start), 1),
    }
    if n_cores > 1:
        models["full default"] = full_model(n_columns, start), n_cores
    return models


def measure_split(models, parts, arguments, name, split):
    """Fit all models in turns, and return their records."""
    X, y, X_test, y_test = parts
    records = []
    for repeat in range(arguments.repeats):
        for label, (model, n_threads) in models.items():
            time.sleep(PAUSE)
            with threadpool_limits(n_threads):
                cost = timed(lambda model=model: model.fit(X, y))[1]
            record = {
                "set": name,
                "model": label,
                "split": split,
                "repeat": repeat,
                "n_train": len(y),
                "wall": cost.wall,
                "cpu": cost.cpu,
                "log_loss": log_loss(y_test, model.predict_proba(X_test)),
                "evaluations": getattr(model, "n_evaluations_", None),
            }
            append(arguments.out, record)
            records.append(record)
    return records


def medians(records, model, key):
    """Return the median over repeats of a figure, for each split."""
    own = [record for record in records if record["model"] == model]
    splits = sorted({record["split"] for record in own})
    return np.array([np.median([r[key] for r in own if r["split"] == s]) for s in splits])


def row(records, name):
    """Return the cells of a set."""
    labels = list(dict.fromkeys(record["model"] for record in records))
    wall = {label: medians(records, label, "wall") for label in labels}
    cpu = {label: medians(records, label, "cpu") for label in labels}
    best = np.min([wall[label] for label in labels if label != "sparsegpc"], axis=0)
    cells = [name, str(records[0]["n_train"])]
    cells += [f"{np.median(wall[label]):.3f}" for label in labels]
    cells += [f"{np.median(cpu[label]):.3f}" for label in labels]
    cells += [
        f"{np.median(best / wall['sparsegpc']):.2f}",
        f"{np.median(cpu['full'] / cpu['sparsegpc']):.2f}",
        f"{np.median(medians(records, 'sparsegpc', 'evaluations')):.0f}",
    ]
    return cells + [
        f"{np.median(medians(records, label, 'log_loss')):.4f}" for label in ("sparsegpc", "full")
    ]


def warm_up():
    """Fit everything once, so that no set pays for what is loaded when first used."""
    rng = np.random.RandomState(0)
    X = rng.randn(WARM_UP_ROWS, 2)
    y = (X[:, 0] + rng.randn(WARM_UP_ROWS) > 0.0).astype(int)
    for model, _ in contestants(2, "1", 1).values():
        model.fit(X, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3, help="of each split")
    parser.add_argument(
        "--start", default="1", choices=["1", "sqrt"], help="length scale of the full model"
    )
    parser.add_argument(
        "--one-thread", action="store_true", help="leave out the full model on all cores"
    )
    parser.add_argument("--out", help="file of JSON lines to append to")
    arguments = parser.parse_args()
    # This is not about hyperparameters at their bounds.
    warnings.simplefilter("ignore", ConvergenceWarning)
    warm_up()
    n_cores = 1 if arguments.one_thread else available_cores()
    cells, labels = [], []
    for name in filter(is_available, arguments.sets):
        data, records = load_classification(name), []
        for split in range(arguments.splits):
            parts = split_classification(data, *permuted(len(data.y), split))
            models = contestants(parts[0].shape[1], arguments.start, n_cores)
            labels = list(models)
            records += measure_split(models, parts, arguments, name, split)
        cells.append(row(records, name))
    header = ["set", "N", *(f"{label}, wall s" for label in labels)]
    header += [*(f"{label}, CPU s" for label in labels), "wall ratio", "CPU ratio"]
    print_table(
        [*header, "evaluations", "log loss", "full's"],
        cells,
    )


if __name__ == "__main__":
    main()
