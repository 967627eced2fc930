"""How the learning loop asks for inducing points: by selection among the rows, or given ones."""

from copy import copy
from typing import NamedTuple

import numpy as np

from sparsegpc._core.selection.pivots import Selection, select


class Chosen(NamedTuple):
    """Inducing points, the rows that they are (None if they are no rows), and the selection.

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


class PivotedChoice:
    """Choose inducing points by partial pivoted Cholesky; see `pivots`.

    Parameters
    ----------
    rule : {"argmax", "sample", "order"}
    n_points : int
    tol : float
        Nats per row.
    by_precision : bool
        Weigh residuals by the site precisions; else all alike (greedy variance).
    rng : numpy.random.RandomState or None
    order : ndarray of int or None
    """

    def __init__(self, rule, n_points, tol=0.0, *, by_precision=True, rng=None, order=None):
        self._rule, self._tol = rule, tol
        self._by_precision, self._rng, self._order = by_precision, rng, order
        self.n_points = n_points
        # A given order does not depend on the kernel: choosing again changes nothing.
        self.fixed = rule == "order"

    def limited(self, n_points):
        """Return the same choice of at most this many points."""
        other = copy(self)
        other.n_points = min(n_points, self.n_points)
        return other

    def __call__(self, model, theta, precision):
        selection = select(
            model.covariance(theta),
            model.X,
            model.kdiag(theta),
            precision,
            self.n_points,
            rule=self._rule,
            gain_weight=None if self._by_precision else np.ones(len(precision)),
            tol=self._tol,
            total_weight=model.total_weight,
            rng=self._rng,
            order=self._order,
            **model.row_options,
        )
        return Chosen(model.X[selection.indices], selection.indices, selection)


class FixedChoice:
    """Inducing points that are given."""

    fixed = True

    def __init__(self, Z):
        self._chosen = Chosen(Z, None, None)
        self.n_points = len(Z)

    def __call__(self, model, theta, precision):
        return self._chosen
