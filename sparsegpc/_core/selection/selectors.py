"""Selectors of inducing points: by selection among the rows, or given points.

A selector is called as ``selector(kernel, theta, rows, precision)`` with `CandidateRows` and the
precisions of their sites, shape (N,), and returns `InducingPoints`. Its attribute ``n_points`` is
the maximum number of points, ``fixed`` is true if the points do not depend on the arguments, and
``or_centroids`` is true if the `centroids` of the rows around the points may replace them.
"""

from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.sources import map_rows
from sparsegpc._core.selection.pivots import select


class CandidateRows(NamedTuple):
    """The rows among which inducing points are chosen.

    ``X`` is an array of shape (N, D), ``total_weight`` the sum of the sample weights, and
    ``options`` are keyword arguments of `RowBlocks`.
    """

    X: np.ndarray
    total_weight: float
    options: dict


class InducingPoints(NamedTuple):
    """Inducing points ``Z`` (M, D).

    ``indices`` (M,) are those of the rows that the points are, or None if the points are not rows.
    ``Z_noise`` holds the points of a noise process, or None if the model has none.
    """

    Z: np.ndarray
    indices: np.ndarray | None = None
    Z_noise: np.ndarray | None = None

    def equals(self, other):
        """Return whether the points are the same as those of `other`, in any order."""
        return _are_same(self.Z, other.Z) and (
            self.Z_noise is None or _are_same(self.Z_noise, other.Z_noise)
        )


def _are_same(points, others):
    """Return whether points (M, D) are the same as others, which may be None, in any order."""
    if others is None or points.shape != others.shape:
        return False
    return np.array_equal(points[np.lexsort(points.T)], others[np.lexsort(others.T)])


class PivotedSelector:
    """Choose at most `n_points` inducing points by partial pivoted Cholesky; see `pivots`.

    `rule` is that of `select`. If it follows a given order it is `fixed`: at other hyperparameters
    it chooses the same points. The selection stops once the cost, in nats per unit of weight, is at
    most `tol`. Unless residuals are weighted `by_precision`, all weights are one (greedy variance).
    If `or_centroids`, a fit tries the `centroids` of the rows around the chosen ones.
    """

    def __init__(
        self, rule, n_points, tol=0.0, *, fixed=False, by_precision=True, or_centroids=False
    ):
        self._rule, self._tol, self._by_precision = rule, tol, by_precision
        self.n_points, self.fixed, self.or_centroids = n_points, fixed, or_centroids

    def limited(self, n_points):
        """Return the same selector with at most `n_points` points."""
        other = copy(self)
        other.n_points = min(n_points, self.n_points)
        return other

    def selection(self, kernel, theta, rows, precision):
        """Return the `Selection` of the rows."""
        return select(
            partial(kernel.value, theta),
            rows.X,
            map_rows(partial(kernel.diag, theta), rows.X),
            precision,
            self.n_points,
            rule=self._rule,
            gain_weight=None if self._by_precision else np.ones(len(precision)),
            tol=self._tol,
            total_weight=rows.total_weight,
            **rows.options,
        )

    def __call__(self, kernel, theta, rows, precision):
        indices = self.selection(kernel, theta, rows, precision).indices
        return InducingPoints(rows.X[indices], indices)


class FixedSelector:
    """Returns given inducing points."""

    fixed, or_centroids = True, False

    def __init__(self, Z):
        self._chosen = InducingPoints(Z)
        self.n_points = len(Z)

    def __call__(self, kernel, theta, rows, precision):
        return self._chosen
