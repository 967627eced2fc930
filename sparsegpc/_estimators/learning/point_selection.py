"""Selectors of inducing points: by the public name of a method, or of given points."""

from functools import partial

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.utils import check_array, check_random_state

from sparsegpc._core.learning.default_points import FIRST_POINTS
from sparsegpc._core.rows.sources import RowSource, spaced_rows
from sparsegpc._core.selection.rules import argmax, in_order, sample
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector
from sparsegpc._estimators.input.validation import refuse_overflow

# Public names of the methods: the selection rule, and whether it weights residuals by precisions.
PIVOTED = {
    "hgv": (argmax, True),
    "rpcholesky": (sample, True),
    "greedy-variance": (argmax, False),
    "uniform": (in_order, True),
}
METHODS = (*PIVOTED, "kmeans")
# The default of the estimators: points of `AUTO_METHOD`, or the centroids of the rows around them.
AUTO, AUTO_METHOD = "auto", "rpcholesky"


def make_selector(method, n_points, tol, rows, rng):
    """Return a selector of points among rows, given the public name of its method.

    The `rows` are `MergedRows`, or a model that has them.
    """
    X, weight = rows.X, rows.weight
    n_points = min(n_points, len(X))
    if method == "kmeans":
        kmeans = KMeans(n_points, n_init=1, random_state=rng)
        if isinstance(X, RowSource):
            # k-means needs its rows in memory: 10 000 of them, or 100 for each centre if that is
            # more.
            few = spaced_rows(X, max(10_000, 100 * n_points))
            X, weight = X[few], weight[few]
        return FixedSelector(kmeans.fit(X, sample_weight=weight).cluster_centers_)
    rule, by_precision = PIVOTED[AUTO_METHOD if method == AUTO else method]
    if rule is sample:
        rule = partial(sample, rng=rng)
    elif rule is in_order:
        rule = partial(in_order, order=rng.permutation(len(X)))
    options = {"by_precision": by_precision, "or_centroids": method == AUTO}
    return PivotedSelector(rule, n_points, tol, fixed=method == "uniform", **options)


def first_points(estimator):
    """Return the number of points with which an estimator begins to learn."""
    selector = estimator.selector
    if isinstance(selector, str):
        return FIRST_POINTS if estimator.n_inducing is None else estimator.n_inducing
    if isinstance(selector, BaseEstimator):
        selector._validate_params()
        return selector.n_components
    return len(np.atleast_2d(selector))


def specified_selector(problem, warm=False):
    """Return the selector that the parameters `selector` and `n_inducing` of a `Problem` specify.

    If it is `warm`, the default number of points is at least that of the last fit, if affordable.
    """
    estimator, transform = problem.estimator, problem.choice.transform
    selector = estimator.selector
    if isinstance(selector, str):
        n_points = estimator.n_inducing
        if n_points is None:
            n_last = len(estimator.inducing_points_) if warm else 0
            n_points = max(problem.default_points.first, min(n_last, problem.default_points.most))
        return named_selector(problem, n_points)
    if not isinstance(selector, BaseEstimator):
        points = check_inducing_points(selector, estimator.n_features_in_)
        return FixedSelector(points if transform is None else transform(points))
    # An InducingPointSelector.
    selector._validate_params()
    for name in ("kernel", "weighting"):
        if getattr(selector, name) is not None:
            raise ValueError(
                f"selector.{name} must be None within {type(estimator).__name__}, which uses its "
                f"own, got {getattr(selector, name)!r}: leave it out"
            )
    rng = problem.rng
    if selector.random_state is not None:
        rng = check_random_state(selector.random_state)
    n_points, tol = selector.n_components, selector.tol
    return make_selector(selector.method, n_points, tol, problem.model, rng)


def selector_in_use(problem, n_points):
    """Return the selector of `n_points` if the fit has found this number, else that of the user."""
    if problem.seeks_number:
        return named_selector(problem, n_points, tol=0.0)
    is_found = has_more_points(problem, n_points)
    return named_selector(problem, n_points) if is_found else specified_selector(problem)


def has_more_points(problem, n_points):
    """Return whether a fit has gone on to more points than those with which learning begins."""
    return problem.chooses_points and n_points > problem.default_points.first


def named_selector(problem, n_points, tol=None):
    """Return the selector of `n_points` points by the method that a `Problem` names.

    If `tol` is None, the parameter `selection_tol` is used.
    """
    estimator = problem.estimator
    tol = estimator.selection_tol if tol is None else tol
    return make_selector(estimator.selector, n_points, tol, problem.model, problem.rng)


def check_auto(estimator):
    """Raise ValueError if ``n_inducing="auto"`` but `selector` is not the name of a method."""
    if estimator.n_inducing == "auto" and not isinstance(estimator.selector, str):
        raise ValueError(
            "n_inducing='auto' needs a selector by name, which can choose any number of "
            f"points, got selector of type {type(estimator.selector).__name__}: give a "
            "name, or a number of points"
        )


def check_inducing_points(points, n_features):
    """Validate given inducing points, and return them as floats of shape (M, D)."""
    points = check_array(points, dtype=np.float64, copy=True, input_name="selector")
    if points.shape[1] != n_features:
        raise ValueError(
            f"selector is an array of inducing points with {points.shape[1]} columns, but X has "
            f"{n_features}: give points with a value for each column of X"
        )
    refuse_overflow(points, "selector")
    return points
