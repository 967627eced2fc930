"""Find start values on a few rows with an inducing point at every row.

With few inducing points the bound favours long length scales, at which few points suffice. With a
point at every row it favours none, and 200 rows tell much about the hyperparameters.
"""

from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.constant_function import floor
from sparsegpc._core.learning.fit_from import Limits, Start, fit_from, quasi_newton_start
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.optimisers.bfgs import BFGSHessian
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector

# Number of rows; a fit of them has at most this many iterations after the ranking.
FEW_ROWS, MOST_ITERATIONS = 200, 50
# Iterations from each start before the best is climbed from, and the tolerance of these fits in
# units of that of the fit of all rows.
RANKING_ITERATIONS, LOOSE_TOL = 3, 30.0


@dataclass
class _Climb:
    """A search from one start: the best evaluation so far, and the Hessian learned on the way."""

    evaluation: Evaluation
    hessian: BFGSHessian

    @property
    def objective(self):
        return self.evaluation.objective


class FewRows:
    """A model of a few rows, in which hyperparameters are learned and compared at little cost.

    Parameters
    ----------
    model : SparseModel
        The model of all rows. The few are evenly spaced among them.
    bounds : ndarray of shape (P, 2)
        Lower and upper bounds of theta.
    progress : Progress
    n_points : int or None
        Number of inducing points; None puts a point at every row.
    """

    def __init__(self, model, bounds, progress, n_points=None):
        n_rows = min(len(model.weight), FEW_ROWS)
        rows = np.linspace(0, len(model.weight) - 1, n_rows).astype(np.intp)
        self._model = model.subset(rows)
        self._model.tol *= LOOSE_TOL
        self._bounds, self._progress = bounds, progress
        self._selector = FixedSelector(self._model.X)
        if n_points is not None:
            self._selector = PivotedSelector("argmax", n_points)

    def climb(self, climb, max_iter):
        """Return the `_Climb` after at most `max_iter` more iterations."""
        before = climb.evaluation
        start = Start(before.theta, before.states, climb.hessian)
        return self._climb_from(start, max_iter)
