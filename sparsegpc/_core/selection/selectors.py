"""Where inducing points come from: selected among the rows, or given.

A selector is called as ``selector(kernel, theta, rows, precision)`` with `CandidateRows` and the
precisions of their sites, shape (N,), and returns `InducingPoints`. Its ``n_points`` is their
largest number, and ``fixed`` is true if it returns the same points whatever its arguments.
"""

from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.sources import map_rows
from sparsegpc._core.selection.factor import Selection
from sparsegpc._core.selection.pivots import select


class CandidateRows(NamedTuple):
    """Rows that points are chosen among.

    ``X`` is an array of shape (N, D); ``total_weight`` is what "per row" counts; ``options`` are
    those of `RowBlocks`.
    """

    X: np.ndarray
    total_weight: float
    options: dict


class InducingPoints(NamedTuple):
    """Inducing points, their row indices (None if they are not rows), and the selection.

    ``Z_noise`` are the points of a noise process, if the model has one.
    """

    Z: np.ndarray
    indices: np.ndarray | None
    selection: Selection | None
    Z_noise: np.ndarray | None = None

    def equals(self, other):
        """Whether the points are those of `other`."""
        return np.array_equal(self.Z, other.Z) and (
            self.Z_noise is None or np.array_equal(self.Z_noise, other.Z_noise)
        )


class PivotedSelector:
    """Choose inducing points by partial pivoted Cholesky; see `pivots`.

    Parameters
    ----------
    rule : str
        See `pivots`.
    n_points : int
    tol : float
        Nats per row.
    by_precision : bool
        Weigh residuals by the site precisions; else all alike (greedy variance).
    rng : numpy.random.RandomState or None
    order : ndarray of int or None
    """

    def __init__(
        self,
        rule,
        n_points,
        tol=0.0,
        *,
        by_precision=True,
        rng=None,
        order=None,
    ):
        self._rule, self._tol = rule, tol
        self._by_precision, self._rng, self._order = by_precision, rng, order
        self.n_points = n_points
        # A given order does not depend on the kernel: choosing again changes nothing.
        self.fixed = rule == "order"

    def limited(self, n_points):
        """Return the same selector of at most this many points."""
        other = copy(self)
        other.n_points = min(n_points, self.n_points)
        return other

    def __call__(self, kernel, theta, rows, precision):
        selection = select(
            partial(kernel.value, theta),
            rows.X,
            map_rows(partial(kernel.diag, theta), rows.X),
            precision,
            self.n_points,
            rule=self._rule,
            gain_weight=None if self._by_precision else np.ones(len(precision)),
            tol=self._tol,
            total_weight=rows.total_weight,
            rng=self._rng,
            order=self._order,
            **rows.options,
        )
        return InducingPoints(rows.X[selection.indices], selection.indices, selection)


class FixedSelector:
    """Inducing points that are given."""

    fixed = True

    def __init__(self, Z):
        self._chosen = InducingPoints(Z, None, None)
        self.n_points = len(Z)

    def __call__(self, kernel, theta, rows, precision):
        return self._chosen
