"""Choice of inducing points: by the public name of a method, or as given points."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from sparsegpc._core.numerics.memory import check_square_matrices
from sparsegpc._core.rows.sources import RowSource, spaced_rows
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from sparsegpc._estimators.input.validation import refuse_overflow

# Public names of the methods: the selection rule, and whether it weighs residuals by precisions.
PIVOTED = {
    "hgv": ("argmax", True),
    "rpcholesky": ("sample", True),
    "greedy-variance": ("argmax", False),
    "uniform": ("order", True),
}
METHODS = (*PIVOTED, "kmeans")
# The default of the estimators: points of `AUTO_METHOD`, or the centroids of the rows around them.
AUTO, AUTO_METHOD = "auto", "rpcholesky"
# Number of (M, M) matrices that every model of M points needs at once; most need two to three times
# as many.
N_MATRICES = 5


def make_selector(method, n_points, tol, X, weight, rng):
    """Return a selector of points among merged rows `X`, given the public name of its method.

    Raises MemoryError if a model with `n_points` points cannot fit into memory.
    """
    n_points = min(n_points, len(X))
    # With a tolerance the selection may end with fewer points.
    if method == "kmeans" or tol == 0.0:
        _check_memory(n_points)
    if method == "kmeans":
        kmeans = KMeans(n_points, n_init=1, random_state=rng)
        if isinstance(X, RowSource):
            # k-means needs its rows in memory: 10 000 of them, or 100 for each centre if that is
            # more.
            few = spaced_rows(X, max(10_000, 100 * n_points))
            X, weight = X[few], weight[few]
        return FixedSelector(kmeans.fit(X, sample_weight=weight).cluster_centers_)
    rule, by_precision = PIVOTED[AUTO_METHOD if method == AUTO else method]
    order = rng.permutation(len(X)) if rule == "order" else None
    options = {"by_precision": by_precision, "rng": rng, "order": order}
    return PivotedSelector(rule, n_points, tol, or_centroids=method == AUTO, **options)


def check_auto(estimator):
    """Raise ValueError if ``n_inducing="auto"`` but `selector` is not the name of a method."""
    if estimator.n_inducing == "auto" and not isinstance(estimator.selector, str):
        raise ValueError(
            "n_inducing='auto' needs a selector by name, which can choose any number of "
            f"points, got selector of type {type(estimator.selector).__name__}: give a "
            "name, or a number of points"
        )


def check_inducing_points(points, n_features):
    """Validate given inducing points, and return them as floats of shape (M, D).

    Raises ValueError if they are invalid, and MemoryError if the model cannot fit into memory.
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
