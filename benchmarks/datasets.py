"""The benchmarks' data: from a local folder, or else from OpenML.

If the environment variable ``SPARSEGPC_DATA`` names a folder, ``NAME.npz`` there holds arrays ``X``
(N, D) and ``y`` (N,). Otherwise sets that OpenML has are fetched by their id and kept by
scikit-learn's cache.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml

FOLDER_VARIABLE = "SPARSEGPC_DATA"
OPENML_IDS = {
    "breast": 1510,
    "electricity": 151,
    "heart": 53,
    "ionosphere": 59,
    "magic": 1120,
    "pima": 37,
    "ringnorm": 1496,
    "twonorm": 1507,
}


def load(name):
    """Return X of shape (N, D) and integer labels y of shape (N,); constant columns are dropped."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is not None:
        with np.load(Path(folder) / f"{name}.npz") as data:
            X, y = np.asarray(data["X"], dtype=np.float64), data["y"]
    elif name in OPENML_IDS:
        bunch = fetch_openml(data_id=OPENML_IDS[name], as_frame=False, parser="liac-arff")
        X, y = np.asarray(bunch.data, dtype=np.float64), bunch.target
    else:
        raise KeyError(
            f"{name!r} is not on OpenML: set {FOLDER_VARIABLE} to a folder that holds {name}.npz"
        )
    varies = X.max(axis=0) > X.min(axis=0)
    return X[:, varies], np.unique(y, return_inverse=True)[1]


def split(X, y, seed):
    """Return X_train, y_train, X_test, y_test: 90 % of a permutation, standardised by that part."""
    order = np.random.RandomState(seed).permutation(len(X))
    n_train = int(0.9 * len(X))
    train, test = order[:n_train], order[n_train:]
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(deviation > 0.0, deviation, 1.0)
    return X[train], y[train], X[test], y[test]
