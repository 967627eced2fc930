"""Learn start values from a few rows with an inducing point at every row.

With few inducing points the bound prefers long length scales, at which few points suffice. With a
point at every row it has no such preference, and 200 rows already say much about theta.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.pruned_columns import MOST_COLUMNS, MOST_PASSES, with_shorter_lengths
from sparsegpc._core.learning.runs import Run, Start
from sparsegpc._core.learning.single_start import continue_run
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints, PivotedSelector

# Number of rows that tell good starts.
START_ROWS = 200
# Iterations from each start, and largest number of further ones from the best.
RANKING_ITERATIONS, MAX_ITERATIONS = 3, 50
# Least tolerance of the bound, in nats per row.
LEAST_TOL = 3e-4
# What a fit of all rows may lose to one from another start, in nats.
LEAST_LOSS = 1.0
# Of the columns that matter by themselves, those that gain less than this fraction of what the best
# one gains are left to the search.
COLUMN_SHARE = 0.5


class Ranking(NamedTuple):
    """Lists of `Run`, the best first.

    Those in ``needed`` are to be continued on all rows, and those in ``others`` if all of these end
    at a constant function.
    """

    needed: list
    others: list


def unranked(thetas):
    """Return the `Ranking` of starts of shape (P,) in their order; only the first is needed."""
    first, *others = map(Run, thetas)
    return Ranking([first], others)


def learn_starts(model, thetas, n_points, settings):
    """Return the `Ranking` of the runs from all `thetas`, of shape (P,) each.

    The bound with an inducing point at every row decides. If `n_points`, those of the fit of all
    rows, are fewer than the rows, the maximum of their bound may lie elsewhere. Then that bound
    decides, and the best theta after a few iterations with a point at every row is one more start.
    A run that ended at a constant function has no end, as its start may do better on all rows.
    """
    origins = list(map(Run, thetas))
    few = FewRows(model, settings)
    if n_points < few.n_rows and not settings.progress.stopped:
        origins += by_objective(few.first_steps(origins))[:1]
        few = FewRows(model, settings, n_points)
    ranking = few.ranking(origins)
    if not few.beats_constant(ranking.needed[0]):
        return unranked(thetas)
    useful = [
        [run if few.beats_constant(run) else Run(run.begin) for run in runs] for runs in ranking
    ]
    return Ranking(*useful)


def rank_starts(model, thetas, settings):
    """Return starts of shape (P,), the best first after a few iterations on few rows."""
    runs = FewRows(model, settings).first_steps(map(Run, thetas))
    return [run.begin for run in by_objective(runs)] or thetas


def by_objective(runs):
    """Return a list of runs in descending order of their objectives."""
    return sorted(runs, key=lambda run: -run.objective)


class FewRows:
    """A model of a few evenly spaced rows, with a point at each unless `n_points` are fewer."""

    def __init__(self, model, settings, n_points=START_ROWS):
        rows = spaced_rows(model.weight, START_ROWS)
        self.n_rows, self._are_all = len(rows), len(rows) == len(model.weight)
        # The prior makes up for rows that are left out.
        self._model = model.subset(rows, None if self._are_all else settings.weak_prior)
        self._model.tol = max(self._model.tol, LEAST_TOL * self._model.total_weight)
        # So few rows of a file fit into memory.
        self._selector = FixedSelector(self._model.X[:])
        if n_points < self.n_rows:
            self._selector = PivotedSelector(argmax, n_points)
        self._settings, self._progress = settings, settings.progress

    def ranking(self, origins):
        """Continue a list of runs, and return their `Ranking`.

        Each is continued for a few iterations. Then three go on: the best one; the first one, which
        may be the user's own; and the one with the highest expected maximum, if this exceeds what
        the other two reach. Besides the best one, the first is needed if it ends at another maximum
        that is about as high. If none can be continued, they stay as they are.
        """
        runs = self.first_steps(origins)
        if not runs:
            return Ranking(origins[:1], origins[1:])
        expected = list(map(self._expected_maximum, runs))
        highest = max(range(len(runs)), key=lambda k: runs[k].objective)
        for k in {0, highest}:
            runs[k] = self._prolonged(runs[k])
        reached, most = by_objective(runs)[0].objective, int(np.argmax(expected))
        if most not in (0, highest) and expected[most] > reached:
            runs[most] = self._prolonged(runs[most], reached)
        first = runs[0]
        best, *others = by_objective(runs)
        if not self._is_other_maximum(first, best):
            return Ranking([best], others)
        return Ranking([best, first], [run for run in others if run is not first])

    def first_steps(self, origins):
        """Return the runs that can be continued after a few iterations."""
        runs = []
        for origin in origins:
            if runs and self._progress.stopped:
                break
            run = attempted(self._further, origin, RANKING_ITERATIONS)
            # The fit of all rows, with points that are further apart, may succeed where it fails.
            if run is not None:
                runs.append(run)
        return runs

    def beats_constant(self, run):
        """Return whether a run ended at a function that is better than a constant one."""
        return run.end is not None and not self._model.is_trivial(run.end)

    def contradict(self, theta, best):
        """Return whether these rows clearly prefer the end of `best`, a `Run`, to `theta`.

        At the true theta, twice the loss in nats has about a chi-squared distribution with as many
        degrees of freedom as theta has entries, so half a nat for each entry is usual. The priors
        do not count, as theta was learned without the one for few rows.
        """
        return self._loss(theta, best) > len(theta)

    def preferred(self, thetas, theta):
        """Return the best run from `thetas` if these rows prefer its end to `theta`, or None.

        If these are all the rows, any loss counts, since none is due to chance. `thetas` may be
        empty.
        """
        if not thetas or self._progress.stopped:
            return None
        best = self.ranking(list(map(Run, thetas))).needed[0]
        usual = LEAST_LOSS if self._are_all else len(theta)
        return best if best.end is not None and self._loss(theta, best) > usual else None

    def relevant_columns(self, theta, alternatives):
        """Return a list of the theta at which the columns matter that do so by themselves, if any.

        At the given `theta` no column matters; `alternatives` are those of `with_shorter_lengths`.
        The list is empty if these rows are not all rows: more rows show a function of few columns
        in other ways.
        """
        if not self._are_all or not 1 < len(alternatives) <= MOST_COLUMNS:
            return []
        start = Start(theta, self._model.initial_state(), points=InducingPoints(self._model.X))
        options = self._progress, MOST_PASSES, COLUMN_SHARE
        found = with_shorter_lengths(self._model, start, alternatives, *options)
        return [] if found is None else [found]

    def _loss(self, theta, best):
        """Return the bound at the end of a `Run` minus the bound at `theta`."""
        found = self._evaluated(theta, best.end)
        return np.inf if found is None else best.end.elbo - found.elbo

    def _expected_maximum(self, run):
        """Return the maximum of the quadratic model of the objective at the end of a run.

        It may be far away. That does no harm: a search that does not come near it ends early.
        """
        end, scale = run.end, self._model.total_weight
        if end.grad_theta is None:
            return run.objective
        curvature = self._model.prior.curvature(end.theta) / scale
        slope = end.grad_theta / scale
        arguments = end.theta, slope, self._settings.bounds, np.inf, curvature
        # Rounding may have made the matrix singular.
        _, gain = attempted(run.hessian.step, *arguments) or (None, 0.0)
        return run.objective + scale * gain

    def _further(self, run, max_iter, to_beat=-np.inf):
        """Return the `Run` after at most `max_iter` further iterations."""
        max_iter = min(max_iter, self._settings.max_iter)
        settings = self._settings._replace(max_iter=max_iter, max_reselections=0)
        return continue_run(self._model, run, self._selector, settings, to_beat)

    def _prolonged(self, run, to_beat=-np.inf):
        """Return the `Run` after many further iterations, or the same if it cannot go on."""
        if self._progress.stopped:
            return run
        # The bound of newly selected points may fail where that of the last ones did not.
        return attempted(self._further, run, MAX_ITERATIONS, to_beat) or run

    def _is_other_maximum(self, run, best):
        """Return whether a run ends at another maximum than the best one that is about as high.

        Between two maxima the objective is lower.
        """
        if run is best or self._progress.stopped:
            return False
        if best.objective - run.objective > len(run.begin):
            return False
        middle = self._evaluated(0.5 * (run.end.theta + best.end.theta), best.end)
        return middle is None or middle.objective < run.objective - self._model.tol

    def _evaluated(self, theta, near):
        """Return the `Evaluation` at the points of another, or None if it cannot be computed."""
        arguments = self._model, theta, near.points, near.states
        return attempted(self._progress.evaluate, *arguments, wrt_theta=False)
