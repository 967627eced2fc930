"""Validation of the arguments of displays: a fitted model or pipeline, and data."""

import numbers
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array, check_is_fitted

from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.input.validation import central_levels, refuse_masked
from sparsegpc._estimators.meta_estimators.bound_search import BoundSearch
from sparsegpc._estimators.minibatches.base import BaseMinibatches

ANY_KIND = BaseSparseGP, BaseMinibatches


class FittedModel(NamedTuple):
    """A fitted estimator of this package, and the steps before it as (name, transformer)."""

    steps: list
    estimator: BaseEstimator

    def transform(self, X):
        """Return the rows after the steps before the estimator."""
        for _, step in self.steps:
            X = step.transform(X)
        # An estimator that was fitted to an array would warn of the names of a frame in each call.
        if hasattr(X, "columns") and not hasattr(self.estimator, "feature_names_in_"):
            return numeric_rows(X)
        return X

    def transform_along(self, X, origin, column, grid):
        """Return rows that differ from `origin` (D,) in one column of X, after the steps."""
        points = np.tile(origin, (len(grid), 1))
        points[:, column] = grid
        return self.transform(like_rows(X, points))

    def inverse_transform(self, points):
        """Return points in the columns of the pipeline's input X."""
        for name, step in reversed(self.steps):
            if not hasattr(step, "inverse_transform"):
                raise ValueError(
                    "the inducing points are drawn in the columns of X, so all steps before the "
                    f"last need inverse_transform, which step {name!r}, a "
                    f"{type(step).__name__}, has not: leave this step out, or give the estimator "
                    "at the end of the pipeline and the transformed X, as in "
                    "from_estimator(pipeline[-1], pipeline[:-1].transform(X), y)"
                )
            points = step.inverse_transform(points)
        return np.asarray(points, dtype=np.float64)


def fitted_model(estimator, kinds):
    """Return the `FittedModel` of an estimator of one of `kinds`, or a pipeline that ends in one.

    That of a `BoundSearch` is that of its best estimator. Raises TypeError for any other estimator,
    and NotFittedError if it is not fitted.
    """
    steps = []
    while isinstance(estimator, Pipeline | BoundSearch):
        if isinstance(estimator, BoundSearch):
            check_is_fitted(estimator)
            estimator = estimator.best_estimator_
            continue
        *before, (_, estimator) = estimator.steps
        steps += [(name, step) for name, step in before if step not in (None, "passthrough")]
    if not isinstance(estimator, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        names = "estimator of sparsegpc" if kinds is ANY_KIND else names
        raise TypeError(
            f"estimator must be a fitted {names}, or a Pipeline that ends in one, or a BoundSearch "
            f"among them, got a {type(estimator).__name__}: for another wrapper, give the fitted "
            "estimator that it contains"
        )
    check_is_fitted(estimator)
    return FittedModel(steps, estimator)


def refuse_one_vs_rest(estimator, what):
    """Raise ValueError for a classifier that consists of a model for each class."""
    if len(estimator._fitted_estimators) > 1:
        raise ValueError(
            f"{what} is for one model, but estimator has one for each of "
            f"{len(estimator.classes_)} classes: give estimator.estimators_[k] instead and, if "
            "y is required, y == estimator.classes_[k]"
        )


def numeric_rows(X, n_columns=None):
    """Return X as an array of floats; check that it has `n_columns` columns, if given."""
    refuse_masked(X, "X")
    rows = check_array(X, dtype=np.float64, input_name="X")
    if n_columns is not None and rows.shape[1] != n_columns:
        raise ValueError(
            f"X must have {n_columns} columns, got {rows.shape[1]}: fit a model to {n_columns} of "
            "them"
        )
    return rows


def column_labels(X):
    """Return the names of the columns of X: those of a frame, else x0, x1, ..."""
    names = getattr(X, "columns", None)
    return [f"x{k}" for k in range(np.shape(X)[1])] if names is None else [str(n) for n in names]


def like_rows(X, values):
    """Return rows (n_rows, n_features); if X is a data frame, as a data frame of the same kind."""
    names = getattr(X, "columns", None)
    if names is None:
        return values
    return type(X)(dict(zip(names, values.T, strict=True)))


def gaussian_quantile(coverage):
    """Return the half-width, in standard deviations, of a central Gaussian interval."""
    return float(ndtri(central_levels(coverage)[1]))


def grid_size(grid_resolution):
    """Validate the number of grid points along an axis, and return it."""
    if not isinstance(grid_resolution, numbers.Integral) or grid_resolution < 2:
        raise ValueError(
            "grid_resolution must be an integer of 2 or more, the number of points along each "
            f"axis, got {grid_resolution!r}: give for example 100"
        )
    return int(grid_resolution)


def along(values, n_points):
    """Return evenly spaced points over the range of values and 5 % of it on either side."""
    low, high = values.min(), values.max()
    margin = 0.05 * ((high - low) or 1.0)
    return np.linspace(low - margin, high + margin, n_points)


def sizes_of_prefixes(n_inducing, n_points):
    """Return distinct numbers of points, ascending.

    None means about eight numbers in geometric progression, up to `n_points`.
    """
    if n_inducing is None:
        n_inducing = np.geomspace(1, n_points, 8).round().astype(int)
    if np.size(n_inducing) == 0:
        raise ValueError(
            f"n_inducing must be one or more integers between 1 and {n_points}, the number of "
            f"inducing points of the estimator, got {n_inducing!r}: None selects a few numbers"
        )
    return np.unique(n_inducing)


def which_column(feature, names):
    """Return the number of a column, given its number or its name; None is that of a single one."""
    if feature is None:
        if len(names) == 1:
            return 0
        raise ValueError(
            f"feature is needed, because X has {len(names)} columns: give the number or the name "
            f"of one of the columns {names}"
        )
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, numbers.Integral) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(
        f"feature must be the number or the name of one of the columns {names}, got {feature!r}: "
        "columns are counted from 0"
    )
