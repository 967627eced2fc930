"""A fit from start to finish: hyperparameters by their gradient, points by selection, alternately.

Several starts are ranked on a subset of the rows; see `starts`. The first climb begins from the
best; see `climb`. With many rows a climb begins on growing subsets of them; see `growing_subsets`.
A climb that ends at the trivial optimum, where f is constant, is repeated with the line search of
L-BFGS-B; if that fails, the other starts are tried. If asked to, points move in the end; see
`inducing_points`. Finally the sites are solved to a tighter tolerance.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning import inducing_points
from sparsegpc._core.learning.climb import Begin, Climb, Limits, climb, out_of_iterations
from sparsegpc._core.learning.constant_function import floor, is_worse_than_constant
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.starts import begins, plan, rank
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS

# The last evaluation solves the sites to this share of the bound's tolerance.
FINAL_TOL_SHARE, MAX_FINAL_ITERATIONS = 1e-4, 500
# Why a fit did not converge: it was asked to stop, or what went wrong.
STOPPED = "the callback asked to stop"
TOO_CLOSE = "inducing points came too close to each other: ask for fewer of them"
UNSETTLED = (
    "the sites did not settle in {} passes: limit the variance of the kernel, or divide large "
    "weights by a common factor"
)


class FitResult(NamedTuple):
    """What a fit found: the best evaluation, the bound after each choice of points, and how.

    ``message`` says why it did not converge; empty if it did. ``full_evaluations`` is how many
    evaluations of the bound were on all rows, ``stopped`` whether it was asked to stop.
    """

    best: Evaluation
    bounds: list
    trivial: bool
    message: str
    full_evaluations: int = 0
    stopped: bool = False

    @property
    def converged(self):
        return not self.message


def fit(
    model,
    starts,
    bounds,
    selector,
    *,
    max_iter,
    max_reselections,
    move_points=False,
    restarts=(),
    spares=(),
    first=None,
    report=None,
    progress=None,
):
    """Learn hyperparameters and inducing points, and return a `FitResult`.

    Parameters
    ----------
    model : SparseModel
    starts : list of ndarray of shape (P,)
        Candidates, of which the one ranked best on a subset is climbed from.
    bounds : ndarray of shape (P, 2)
        Of theta.
    selector : PivotedSelector or FixedSelector
    max_iter : int
        Most steps of theta for one choice of points; 0 keeps theta as it is.
    max_reselections : int
        How often points may be chosen again.
    move_points : bool
        At the end, maximise over the places of the points along with theta.
    restarts : list of ndarray of shape (P,)
        Further starts, each climbed from.
    spares : list of ndarray of shape (P,)
        Climbed from only while nothing found is better than a constant function, as are the
        candidates that were not ranked best.
    first : InducingPoints or None
        Points to begin with; None asks `selector`.
    report : callable or None
        Called as ``report(n_choices, n_points, bound)`` after each choice of points.
    progress : Progress or None
        Is told of all evaluations of the bound, those on subsets included. Once it is ``stopped``
        the best that was found is settled on all rows, and returned.

    Raises
    ------
    LinAlgError
        If the kernel cannot be factored, or the bound not computed, from any start.
    """
    limits = Limits(max_iter, max_reselections, Progress() if progress is None else progress)
    fitting = _Fit(model, bounds, selector, limits, report)
    starts = [np.clip(start, *bounds.T) for start in starts] if max_iter else list(starts)
    ranked = fitting.rank(starts)
    fitting.climb_all(plan(ranked, restarts, [*starts, *spares]), first)
    fitting.try_constant(ranked[0])
    if move_points:
        fitting.move()
    return fitting.result()


def settle(model, theta, points, states, jitter, wrt_theta=True):
    """Return the evaluation at given hyperparameters and points, to the final tolerance."""
    return model.evaluate(
        theta,
        points,
        states,
        jitter=jitter,
        attempts=JITTER_ATTEMPTS,
        tol=FINAL_TOL_SHARE * model.tol,
        max_iter=MAX_FINAL_ITERATIONS,
        wrt_theta=wrt_theta,
    )


class _Fit:
    """The climbs of one fit: the best of them, and what went wrong with those that failed."""

    def __init__(self, model, bounds, selector, limits, report):
        self._model, self._bounds, self._selector = model, bounds, selector
        self._limits, self._progress, self._report = limits, limits.progress, report
        self._n_before = model.counts.full_evaluations
        self._floor, self._best, self._failure = floor(model), None, None

    def rank(self, starts):
        """Return the starts, the best first, unless there is nothing to rank."""
        if len(starts) < 2 or self._progress.stopped:
            return starts
        n_points = self._selector.n_points
        return rank(self._model, starts, self._bounds, n_points, self._progress)

    def climb_all(self, planned, first):
        """Climb from each start that is needed, with points to begin with for the first one."""
        for theta, needed in planned:
            found = self._best is not None
            if found and (self._progress.stopped or not (needed or self._is_trivial(self._best))):
                break
            self._climb_from(theta, first)
            first = None

    def _climb_from(self, theta, first):
        for begin in begins(self._model, theta, self._selector, self._bounds, first, self._limits):
            found = self._climb(begin, first)
            if found is not None and (self._progress.stopped or not self._is_trivial(found)):
                break

    def _climb(self, begin, first=None):
        """Return a climb, which is the best so far if it is better; None if it fails."""
        try:
            found = climb(
                self._model,
                begin,
                self._selector,
                self._bounds,
                self._limits,
                first,
                self._report,
            )
        except LinAlgError as error:
            self._failure = error.with_traceback(None)
            return None
        if self._best is None or found.best.objective > self._best.best.objective:
            self._best = found
        return found

    def _is_trivial(self, found):
        return not found.best.objective > self._floor

    def try_constant(self, theta):
        """Climb from where f is nearest to a constant if nothing was found that is as good.

        That is near the best theta so far, or near `theta` if there is none. Raises what went wrong
        if nothing is found at all.
        """
        may_climb = self._limits.max_iter > 0 and not self._progress.stopped
        if may_climb and is_worse_than_constant(self._model, self._best):
            anywhere = theta if self._best is None else self._best.best.theta
            self._climb(Begin(self._model.constant_theta(anywhere, self._bounds)))
        if self._best is None:
            raise self._failure

    def move(self):
        """Let the points of the best climb move, along with theta."""
        max_iter = self._limits.max_iter
        if not max_iter or self._progress.stopped:
            return
        best, ended, failed = inducing_points.move(
            self._model, self._best.best, self._bounds, max_iter, self._progress
        )
        message = "" if ended else out_of_iterations(max_iter)
        if failed and not message:
            message = TOO_CLOSE
        self._best = Climb(best, [*self._best.bounds, best.elbo], message)

    def result(self):
        """Settle the best that was found, and return the `FitResult`."""
        (best, history, message), stopped = self._best, self._progress.stopped
        best = settle(
            self._model,
            best.theta,
            best.points,
            best.states,
            best.jitter,
            wrt_theta=self._limits.max_iter > 0,
        )
        self._progress.evaluated(self._model, best)
        message = STOPPED if stopped else message
        if not best.converged:
            message = UNSETTLED.format(MAX_FINAL_ITERATIONS)
        n_full = self._model.counts.full_evaluations - self._n_before
        trivial = best.objective <= self._floor
        return FitResult(best, history, trivial, message, n_full, self._progress.stopped)
