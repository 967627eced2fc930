"""Learn from few rows, with an inducing point at each, where to start on all rows.

With few inducing points the bound prefers long length scales, at which few points suffice. With a
point at every row it has no such preference, and 200 rows already say much about theta.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.constant_function import floor
from sparsegpc._core.learning.fit_from import Climb, Limits, Start, fit_from
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector

FEW_ROWS = 200
# Iterations from each start, and then from the best. The tolerance is that of the fit of all rows
# times LOOSE.
RANKING_ITERATIONS, MAX_ITERATIONS, LOOSE = 3, 50, 30.0


class FewRows:
    """A model of a few evenly spaced rows.

    Parameters
    ----------
    model : SparseModel
        The model of all rows.
    bounds : ndarray of shape (P, 2)
        Lower and upper bounds of theta.
    progress : Progress
    prior : NormalPrior or None
    n_points : int
        Number of inducing points. With `FEW_ROWS` or more there is one at every row.
    """

    def __init__(self, model, bounds, progress, prior=None, n_points=FEW_ROWS):
        n_rows = min(len(model.weight), FEW_ROWS)
        rows = np.linspace(0, len(model.weight) - 1, n_rows).astype(np.intp)
        self.model = model.subset(rows, prior)
        self.model.tol *= LOOSE
        self._selector = FixedSelector(self.model.X)
        if n_points < n_rows:
            self._selector = PivotedSelector("argmax", n_points)
        self._bounds, self._progress = bounds, progress

    def climbs(self, starts):
        """Return a `Climb` from each start, the best first, and how many of them matter.

        A few iterations are made from each start, then more from the best and from the first. The
        latter matters beside the best if it ended on another hill, at a bound that is not too far
        below.

        Parameters
        ----------
        starts : list of ndarray of shape (P,)

        Raises
        ------
        LinAlgError
            If no start can be evaluated.
        """
        climbs, failure = [], None
        for theta in starts:
            if climbs and self._progress.stopped:
                break
            try:
                start = Climb(theta).continued_on(self.model)
                climbs.append(self._climb(theta, start, RANKING_ITERATIONS))
            except LinAlgError as error:
                failure = error.with_traceback(None)
        if not climbs:
            raise failure
        best = max(range(len(climbs)), key=lambda k: climbs[k].objective)
        for k in {0, best}:
            climbs[k] = self._continued(climbs[k])
        own = climbs[0]
        climbs.sort(key=lambda climb: -climb.objective)
        if own is climbs[0] or not self._matters(own, climbs[0]):
            return climbs, 1
        others = [climb for climb in climbs[1:] if climb is not own]
        return [climbs[0], own, *others], 2

    def contradicts(self, theta, best):
        """Return whether `theta` is worse than `best`, a `Climb`, by more than a nat a parameter.

        That is more than the maximum of the bound on other rows would explain: twice the
        difference has about a chi-squared distribution of as many degrees of freedom.
        """
        return best.objective - self._objective_at(theta, best.end) > len(theta)

    def _climb(self, theta, start, max_iter):
        limits = Limits(max_iter, 0, self._progress)
        end = fit_from(self.model, start, self._selector, self._bounds, limits).best
        return Climb(theta, end, start.hessian)

    def _continued(self, climb):
        if self._progress.stopped:
            return climb
        start = Start(climb.end.theta, climb.end.states, climb.hessian)
        try:
            return self._climb(climb.theta, start, MAX_ITERATIONS)
        except LinAlgError:
            # The bound of newly selected points may fail where that of the last ones did not.
            return climb

    def _matters(self, own, best):
        """Return whether a climb is not too far below the best, and beyond a valley."""
        lower = own.objective
        if self._progress.stopped or best.objective - lower > len(own.theta):
            return False
        middle = self._objective_at(0.5 * (own.end.theta + best.end.theta), best.end)
        return middle < lower - self.model.tol

    def _objective_at(self, theta, near):
        """Return the objective at the points of an evaluation, or -inf if it cannot be computed."""
        try:
            evaluation = self.model.evaluate(theta, near.points, near.states, wrt_theta=False)
        except LinAlgError:
            return -np.inf
        self._progress.evaluated(self.model, evaluation)
        return evaluation.objective


def learn_starts(model, starts, bounds, n_points, progress, prior=None):
    """Return climbs from starts of shape (P,) on few rows, the best first, and how many matter.

    With few inducing points the maximum of their bound may lie elsewhere, so it is their bound on
    the few rows that decides. A climb that ended at a constant function has no end, since on all
    rows its start may do better. Raises LinAlgError if no start can be evaluated.
    """
    few = FewRows(model, bounds, progress, prior)
    climbs, n_needed = few.climbs(starts)
    if n_points < len(few.model.weight) and not progress.stopped:
        ends = [climb.end.theta for climb in climbs[:n_needed]]
        few = FewRows(model, bounds, progress, prior, n_points)
        climbs, n_needed = few.climbs([*ends, *starts])
    constant = floor(few.model)
    return [
        climb if climb.objective > constant else Climb(climb.theta) for climb in climbs
    ], n_needed
