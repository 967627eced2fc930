"""Inducing points as users ask for them: a method by its public name, or the points themselves."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from sparsegpc._core.rows.sources import RowSource, spaced_rows
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector, refuse_points
from sparsegpc._estimators.input.validation import refuse_overflow

# Rows of an array on disk that k-means sees, and for each of its centres.
KMEANS_ROWS, KMEANS_ROWS_PER_POINT = 10_000, 100
# The rules of selection by their public names, and whether they weigh residuals by precisions.
PIVOTED = {
    "hgv": ("argmax", True),
    "rpcholesky": ("sample", True),
    "greedy-variance": ("argmax", False),
    "uniform": ("order", True),
}
METHODS = (*PIVOTED, "kmeans")


def make_choice(method, n_points, tol, X, weight, rng, *, n_functions=1, name="n_inducing"):
    """Return the choice of points of a method by its public name, for merged rows `X`.

    The points will serve so many functions; `name` is how the user knows `n_points`.
    """
    n_points = min(n_points, len(X))
    limits = {"n_functions": n_functions, "name": name}
    if method == "kmeans":
        refuse_points(n_points, **limits)
        kmeans = KMeans(n_points, n_init=1, random_state=rng)
        if isinstance(X, RowSource):
            # k-means wants its rows in memory.
            few = spaced_rows(X, max(KMEANS_ROWS, KMEANS_ROWS_PER_POINT * n_points))
            X, weight = X[few], weight[few]
        return FixedSelector(kmeans.fit(X, sample_weight=weight).cluster_centers_)
    rule, by_precision = PIVOTED[method]
    order = rng.permutation(len(X)) if rule == "order" else None
    options = {"by_precision": by_precision, "rng": rng, "order": order, **limits}
    return PivotedSelector(rule, n_points, tol, **options)


def check_inducing_points(points, n_features, n_functions=1):
    """Return given inducing points as floats of shape (M, D), or raise ValueError.

    Raises MemoryError if they are too many for a model of so many functions.
    """
    if hasattr(points, "__len__"):
        refuse_points(len(points), n_functions, "the rows of selector")
    points = check_array(points, dtype=np.float64, copy=True, input_name="selector")
    if points.shape[1] != n_features:
        raise ValueError(
            f"selector is an array of inducing points with {points.shape[1]} columns, but X has "
            f"{n_features}: give points with a value for each column of X"
        )
    refuse_overflow(points, "selector")
    return points
