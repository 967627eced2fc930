"""Learn start values from a few rows with an inducing point at every row.

With few inducing points the bound prefers long length scales, at which few points suffice. With a
point at every row it has no such preference, and 200 rows already say much about theta.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.single_start import Climb, climb_further
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.selectors import FixedSelector, PivotedSelector

FEW_ROWS = 200
# Iterations from each start, and largest number of further ones from the best.
RANKING_ITERATIONS, MAX_ITERATIONS = 3, 50
# Least tolerance of the bound, in nats per row.
LEAST_TOL = 3e-4
# What a fit of all rows may lose to one from another start, in nats.
LEAST_LOSS = 1.0


class Ranking(NamedTuple):
    """Lists of `Climb`, the best first.

    Those in ``needed`` are to be continued on all rows, and those in ``others`` if all of these end
    at a constant function.
    """

    needed: list
    others: list


def unranked(starts):
    """Return the `Ranking` of starts of shape (P,) in their order; only the first is needed."""
    first, *others = map(Climb, starts)
    return Ranking([first], others)


def learn_starts(model, starts, n_points, settings):
    """Return the `Ranking` of the climbs from all `starts`, theta of shape (P,).

    The bound with an inducing point at every row decides. If `n_points`, those of the fit of all
    rows, are fewer than the rows, the maximum of their bound may lie elsewhere. Then that bound
    decides, and the best theta after a few iterations with a point at every row is one more start.
    A climb that ended at a constant function has no end, as its start may do better on all rows.
    """
    origins = list(map(Climb, starts))
    few = FewRows(model, settings)
    if n_points < few.n_rows and not settings.progress.stopped:
        origins += by_objective(few.first_steps(origins))[:1]
        few = FewRows(model, settings, n_points)
    ranking = few.climbs(origins)
    if not few.beats_constant(ranking.needed[0]):
        return unranked(starts)
    useful = [
        [climb if few.beats_constant(climb) else Climb(climb.theta) for climb in climbs]
        for climbs in ranking
    ]
    return Ranking(*useful)


def rank_starts(model, starts, settings):
    """Return starts of shape (P,), the best first after a few iterations on few rows."""
    climbs = FewRows(model, settings).first_steps(map(Climb, starts))
    return [climb.theta for climb in by_objective(climbs)] or starts


def by_objective(climbs):
    """Return a list of climbs in descending order of their objectives."""
    return sorted(climbs, key=lambda climb: -climb.objective)


class FewRows:
    """A model of a few evenly spaced rows, with a point at each unless `n_points` are fewer."""

    def __init__(self, model, settings, n_points=FEW_ROWS):
        rows = spaced_rows(model.weight, FEW_ROWS)
        self.n_rows, self._are_all = len(rows), len(rows) == len(model.weight)
        # The prior makes up for rows that are left out.
        self._model = model.subset(rows, None if self._are_all else settings.weak_prior)
        self._model.tol = max(self._model.tol, LEAST_TOL * self._model.total_weight)
        # So few rows of a file fit into memory.
        self._selector = FixedSelector(self._model.X[:])
        if n_points < self.n_rows:
            self._selector = PivotedSelector("argmax", n_points)
        self._settings, self._progress = settings, settings.progress

    def climbs(self, origins):
        """Continue a list of climbs, and return their `Ranking`.

        Each is continued for a few iterations. Then three go on: the best one; the first one, which
        may be the user's own; and the one with the highest expected maximum, if this exceeds what
        the other two reach. Besides the best one, the first is needed if it ends at another maximum
        that is about as high. If none can be continued, they stay as they are.
        """
        climbs = self.first_steps(origins)
        if not climbs:
            return Ranking(origins[:1], origins[1:])
        expected = list(map(self._expected_maximum, climbs))
        highest = max(range(len(climbs)), key=lambda k: climbs[k].objective)
        for k in {0, highest}:
            climbs[k] = self._continued(climbs[k])
        reached, most = by_objective(climbs)[0].objective, int(np.argmax(expected))
        if most not in (0, highest) and expected[most] > reached:
            climbs[most] = self._continued(climbs[most], reached)
        first = climbs[0]
        best, *others = by_objective(climbs)
        if not self._is_rival(first, best):
            return Ranking([best], others)
        return Ranking([best, first], [climb for climb in others if climb is not first])

    def first_steps(self, origins):
        """Return the climbs that can be continued after a few iterations."""
        climbs = []
        for origin in origins:
            if climbs and self._progress.stopped:
                break
            try:
                climbs.append(self._climb(origin, RANKING_ITERATIONS))
            except LinAlgError:
                # The fit of all rows, with points that are further apart, may still succeed.
                continue
        return climbs

    def beats_constant(self, climb):
        """Return whether a climb ended at a function that is better than a constant one."""
        return climb.end is not None and not self._model.is_trivial(climb.end)

    def contradict(self, theta, best):
        """Return whether these rows clearly prefer the end of `best`, a `Climb`, to `theta`.

        At the true theta, twice the loss in nats has about a chi-squared distribution with as many
        degrees of freedom as theta has entries, so half a nat for each entry is usual. The priors
        do not count, as theta was learned without the one for few rows.
        """
        return self._loss(theta, best) > len(theta)

    def preferred(self, starts, theta):
        """Return the best climb from some starts if these rows prefer its end to `theta`, or None.

        If they are all rows, no loss is due to chance. There may be no starts.
        """
        if not starts or self._progress.stopped:
            return None
        best = self.climbs(list(map(Climb, starts))).needed[0]
        usual = LEAST_LOSS if self._are_all else len(theta)
        return best if best.end is not None and self._loss(theta, best) > usual else None

    def _loss(self, theta, best):
        """Return the bound at the end of a `Climb` minus the bound at `theta`."""
        found = self._evaluated(theta, best.end)
        return np.inf if found is None else best.end.elbo - found.elbo

    def _expected_maximum(self, climb):
        """Return the maximum of the quadratic model of the objective at the end of a climb.

        It may be far away. That does no harm: a search that does not come near it ends early.
        """
        end, scale = climb.end, self._model.total_weight
        if end.grad_theta is None:
            return climb.objective
        curvature = self._model.prior.curvature(end.theta) / scale
        slope = end.grad_theta / scale
        _, gain = climb.hessian.step(end.theta, slope, self._settings.bounds, np.inf, curvature)
        return climb.objective + scale * gain

    def _climb(self, climb, max_iter, rival=-np.inf):
        """Return the `Climb` after at most `max_iter` further iterations."""
        max_iter = min(max_iter, self._settings.max_iter)
        settings = self._settings._replace(max_iter=max_iter, max_reselections=0)
        return climb_further(self._model, climb, self._selector, settings, rival)

    def _continued(self, climb, rival=-np.inf):
        if self._progress.stopped:
            return climb
        try:
            return self._climb(climb, MAX_ITERATIONS, rival)
        except LinAlgError:
            # The bound of newly selected points may fail where that of the last ones did not.
            return climb

    def _is_rival(self, climb, best):
        """Return whether a climb ends about as high as the best, and beyond a valley."""
        if climb is best or self._progress.stopped:
            return False
        if best.objective - climb.objective > len(climb.theta):
            return False
        middle = self._evaluated(0.5 * (climb.end.theta + best.end.theta), best.end)
        return middle is None or middle.objective < climb.objective - self._model.tol

    def _evaluated(self, theta, near):
        """Return the `Evaluation` at the points of another, or None if it cannot be computed."""
        try:
            evaluation = self._model.evaluate(theta, near.points, near.states, wrt_theta=False)
        except LinAlgError:
            return None
        self._progress.evaluated(self._model, evaluation)
        return evaluation
