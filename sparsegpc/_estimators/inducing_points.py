"""Inducing points as users ask for them: a method by its public name, or the points themselves."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from sparsegpc._core.numerics.memory import check_square_matrices
from sparsegpc._core.rows.sources import RowSource, spaced_rows
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from sparsegpc._estimators.input.validation import refuse_overflow

# The rules of selection by their public names, and whether they weigh residuals by precisions.
PIVOTED = {
    "hgv": ("argmax", True),
    "rpcholesky": ("sample", True),
    "greedy-variance": ("argmax", False),
    "uniform": ("order", True),
}
METHODS = (*PIVOTED, "kmeans")
# Matrices of shape (M, M) that any model of M points needs at once; most need two to three times
# as many.
N_MATRICES = 5


def make_choice(method, n_points, tol, X, weight, rng):
    """Return the selector of points by the public name of its method, for merged rows `X`.

    Raises MemoryError if the points are certain to be more than a model can hold.
    """
    n_points = min(n_points, len(X))
    # A tolerance may end a selection early.
    if method == "kmeans" or tol == 0.0:
        _check_memory(n_points)
    if method == "kmeans":
        kmeans = KMeans(n_points, n_init=1, random_state=rng)
        if isinstance(X, RowSource):
            # k-means needs its rows in memory: 10 000 of them, and 100 or more for each centre.
            few = spaced_rows(X, max(10_000, 100 * n_points))
            X, weight = X[few], weight[few]
        return FixedSelector(kmeans.fit(X, sample_weight=weight).cluster_centers_)
    rule, by_precision = PIVOTED[method]
    order = rng.permutation(len(X)) if rule == "order" else None
    options = {"by_precision": by_precision, "rng": rng, "order": order}
    return PivotedSelector(rule, n_points, tol, **options)


def check_inducing_points(points, n_features):
    """Return given inducing points as floats of shape (M, D), or raise ValueError.

    Raises MemoryError if they are more than a model can hold.
    """
    if hasattr(points, "__len__"):
        _check_memory(len(points))
    points = check_array(points, dtype=np.float64, copy=True, input_name="selector")
    if points.shape[1] != n_features:
        raise ValueError(
            f"selector is an array of inducing points with {points.shape[1]} columns, but X has "
            f"{n_features}: give points with a value for each column of X"
        )
    refuse_overflow(points, "selector")
    return points


def _check_memory(n_points):
    check_square_matrices(n_points, N_MATRICES, f"a model with {n_points} inducing points")
