"""The benchmarks' data: from a local folder, from scikit-learn, or else from OpenML.

If the environment variable ``SPARSEGPC_DATA`` names a folder, ``NAME.npz`` there holds arrays ``X``
(N, D) and ``y`` (N,), and where a set has official splits the boolean ``test_mask`` (N, n_splits)
or the indices ``test_idx`` (n_splits, n_test). What is not there comes from scikit-learn, if that
ships it. Without such a folder sets that OpenML has are fetched by their id and kept by
scikit-learn's cache; they come without official splits, and the target of elevators in other units.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import (
    fetch_openml,
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
)

# Rows that are made when they are needed; this share of their labels is drawn at random.
MADE, FLIPPED = "made", 0.05
FOLDER_VARIABLE = "SPARSEGPC_DATA"
SHIPPED = {
    "breast": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
    "wine": load_wine,
}
OPENML_IDS = {
    "electricity": 151,
    "elevators": 216,
    "heart": 53,
    "ionosphere": 59,
    "kin8nm": 189,
    "magic": 1120,
    "pendigits": 32,
    "pima": 37,
    "pol": 201,
    "ringnorm": 1496,
    "segment": 36,
    "twonorm": 1507,
    "vehicle": 54,
}


class Data(NamedTuple):
    """Rows X (N, D), targets y (N,), and the test rows of each official split, if there are any.

    Targets are floats in regression, and the integers from 0 on in classification.
    """

    X: np.ndarray
    y: np.ndarray
    test_rows: list | None


def _local_path(name):
    folder = os.environ.get(FOLDER_VARIABLE)
    return None if folder is None else Path(folder) / f"{name}.npz"


def is_available(name):
    """Whether the set is in the local folder if there is one, in scikit-learn, or on OpenML."""
    path = _local_path(name)
    return name in SHIPPED or (name in OPENML_IDS if path is None else path.exists())


def _arrays(name):
    path = _local_path(name)
    if path is not None and path.exists():
        with np.load(path) as data:
            arrays = {key: data[key] for key in data.files}
    elif name in SHIPPED:
        arrays = dict(zip("Xy", SHIPPED[name](return_X_y=True), strict=True))
    elif path is None and name in OPENML_IDS:
        bunch = fetch_openml(data_id=OPENML_IDS[name], as_frame=False, parser="liac-arff")
        arrays = {"X": bunch.data, "y": bunch.target}
    elif path is None:
        raise KeyError(
            f"{name!r} is not on OpenML: set {FOLDER_VARIABLE} to a folder that holds {name}.npz"
        )
    else:
        raise FileNotFoundError(f"{FOLDER_VARIABLE} names a folder without {path.name}")
    return arrays


def _load(name, targets):
    """Return `Data`; constant columns are dropped."""
    arrays = _arrays(name)
    X = np.asarray(arrays["X"], dtype=np.float64)
    X = X[:, X.max(axis=0) > X.min(axis=0)]
    test_rows = None
    if "test_idx" in arrays:
        test_rows = list(arrays["test_idx"])
    elif "test_mask" in arrays:
        test_rows = [np.flatnonzero(mask) for mask in np.atleast_2d(arrays["test_mask"].T)]
    return Data(X, targets(arrays["y"]), test_rows)


def load_classification(name):
    """Return the `Data` of a set; constant columns are dropped."""
    return _load(name, lambda y: np.unique(y, return_inverse=True)[1])


def load_regression(name):
    """Return the `Data` of a set; constant columns are dropped."""
    return _load(name, lambda y: np.asarray(y, dtype=np.float64))


def permuted(n_rows, seed, train_share=0.9, test_share=None):
    """Return train and test rows of a random split: the first and the last of a permutation."""
    n_train = int(train_share * n_rows)
    n_test = n_rows - n_train if test_share is None else int(test_share * n_rows)
    return counted(n_rows, seed, n_train, n_test)


def counted(n_rows, seed, n_train, n_test):
    """Return so many train and test rows: the first and the last of a random permutation."""
    order = np.random.RandomState(seed).permutation(n_rows)
    return order[:n_train], order[n_rows - n_test :]


def official(data, seed):
    """Return train and test rows of an official split, or of `permuted` if there are none."""
    if data.test_rows is None:
        return permuted(len(data.y), seed)
    test = data.test_rows[seed]
    return np.setdiff1d(np.arange(len(data.y)), test), test


def standardised(values, train):
    """Return `values`, columns or a target, with mean 0 and deviation 1 over the rows `train`."""
    mean, deviation = values[train].mean(axis=0), values[train].std(axis=0)
    return (values - mean) / np.where(deviation > 0.0, deviation, 1.0)


def made_classification(n_rows, n_columns, seed):
    """Return X and y of two classes of two clusters each, in five columns; the others say nothing.

    From fewer columns if there are fewer.
    """
    return make_classification(
        n_rows,
        n_columns,
        n_informative=min(n_columns, 5),
        n_redundant=0,
        n_clusters_per_class=2,
        flip_y=FLIPPED,
        random_state=seed,
    )


def raw_targets(name):
    """Return the targets of a set as they were stored; of a local set no column is read."""
    path = _local_path(name)
    if path is not None and path.exists():
        with np.load(path) as data:
            return data["y"]
    return _arrays(name)["y"]


def row_count(name):
    """Return the number of rows of a set."""
    return len(raw_targets(name))


def _sampled(name, seed, n_train, n_test):
    """Return X_train and X_test of `counted` rows, all targets, and both sets of rows."""
    arrays = _arrays(name)
    n_rows = len(arrays["y"])
    if n_train + n_test > n_rows:
        raise ValueError(
            f"{name!r} has {n_rows} rows, fewer than n_train + n_test = {n_train + n_test}: "
            f"ask for fewer"
        )
    train, test = counted(n_rows, seed, n_train, n_test)
    X_train, X_test = (arrays["X"][rows].astype(np.float64) for rows in (train, test))
    mean, deviation = X_train.mean(axis=0), X_train.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    for X in (X_train, X_test):
        X -= mean
        X /= deviation
    return X_train, X_test, arrays["y"], train, test


def sampled_classification(name, seed, n_train, n_test):
    """Return X_train, y_train, X_test, y_test of `counted` random rows, as `split_classification`.

    Only these rows become floats, and no column is dropped: for large sets of small integers.
    """
    X_train, X_test, y, train, test = _sampled(name, seed, n_train, n_test)
    y = np.unique(y, return_inverse=True)[1]
    return X_train, y[train], X_test, y[test]


def sampled_regression(name, seed, n_train, n_test):
    """Return X_train, y_train, X_test, y_test of `counted` random rows, as `split_regression`.

    Only these rows become floats, and no column is dropped.
    """
    X_train, X_test, y, train, test = _sampled(name, seed, n_train, n_test)
    y = standardised(np.asarray(y, dtype=np.float64), train)
    return X_train, y[train], X_test, y[test]


def split_classification(data, train, test):
    """Return X_train, y_train, X_test, y_test, columns standardised by the train part."""
    X = standardised(data.X, train)
    return X[train], data.y[train], X[test], data.y[test]


def split_regression(data, train, test):
    """Return X_train, y_train, X_test, y_test, columns and target standardised by the train part.

    Log densities of the test targets are per standardised unit.
    """
    X, y = standardised(data.X, train), standardised(data.y, train)
    return X[train], y[train], X[test], y[test]
