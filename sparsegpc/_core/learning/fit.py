"""A fit from start to finish: hyperparameters by their gradient, points by selection, alternately.

Several starts are ranked on a subset of the rows (`starts`), and the model is fitted from the best
of them (`fit_from`), with many rows on growing subsets first (`growing_subsets`). A fit that ends
at the trivial optimum, where f is constant, is repeated with the line search of L-BFGS-B, and then
from the other starts. Points move in the end if `move_points` is true (`inducing_points`). Finally
the sites are solved to a tighter tolerance.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning import inducing_points
from sparsegpc._core.learning.constant_function import floor, is_worse_than_constant
from sparsegpc._core.learning.fit_from import Limits, LocalFit, Start, fit_from, out_of_iterations
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.starts import order_starts, rank, starts_at
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS

# The last evaluation solves the sites to this share of the bound's tolerance.
FINAL_TOL_SHARE, MAX_FINAL_ITERATIONS = 1e-4, 500
# Why a fit did not converge.
STOPPED = "the callback asked to stop"
TOO_CLOSE = "inducing points came too close to each other: ask for fewer of them"
SITES_UNSOLVED = (
    "the sites did not converge in {} passes: limit the variance of the kernel, or divide large "
    "weights by a common factor"
)


class FitResult(NamedTuple):
    """The best evaluation of a fit, the bound after each selection of points, and how it ended.

    ``message`` says why the fit did not converge; it is empty if it did. ``full_evaluations``
    counts the evaluations of the bound on all rows; ``stopped`` is true if the callback stopped it.
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
    fallbacks=(),
    first=None,
    report=None,
    progress=None,
):
    """Learn hyperparameters and inducing points, and return a `FitResult`.

    Parameters
    ----------
    model : SparseModel
    starts : list of ndarray of shape (P,)
        Candidates. The fit starts from the one that ranks best on a subset of the rows.
    bounds : ndarray of shape (P, 2)
        Of theta.
    selector : PivotedSelector or FixedSelector
    max_iter : int
        Most iterations over theta for one selection of points; 0 keeps theta as it is.
    max_reselections : int
        How often points may be selected again.
    move_points : bool
        At the end, maximise over the places of the points along with theta.
    restarts : list of ndarray of shape (P,)
        Further starts. The model is fitted from each.
    fallbacks : list of ndarray of shape (P,)
        Starts for while nothing found is better than a constant function, after the candidates
        that did not rank best.
    first : InducingPoints or None
        Points to begin with; None selects them.
    report : callable or None
        Called as ``report(n_selections, n_points, bound)`` after each selection of points.
    progress : Progress or None
        Records all evaluations of the bound, those on subsets included. Once it is ``stopped`` the
        sites of the best evaluation are solved on all rows, and it is returned.

    Raises
    ------
    LinAlgError
        If the kernel cannot be factored, or the bound not computed, from any start.
    """
    limits = Limits(max_iter, max_reselections, Progress() if progress is None else progress)
    fitting = _Fit(model, bounds, selector, limits, report)
    starts = [np.clip(start, *bounds.T) for start in starts] if max_iter else list(starts)
    ranked = fitting.rank(starts)
    fitting.fit_all(order_starts(ranked, restarts, [*starts, *fallbacks]), first)
    fitting.try_constant(ranked[0])
    if move_points:
        fitting.move()
    return fitting.result()


def solve_final(model, theta, points, states, jitter, wrt_theta=True):
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
    """The best fit from any start, and the error of the last start that failed."""

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

    def fit_all(self, starts, first):
        """Fit from each start that is needed, with points to begin with for the first one."""
        for theta, needed in starts:
            found = self._best is not None
            if found and (self._progress.stopped or not (needed or self._is_trivial(self._best))):
                break
            self._fit_at(theta, first)
            first = None

    def _fit_at(self, theta, first):
        for start in starts_at(
            self._model, theta, self._selector, self._bounds, first, self._limits
        ):
            found = self._fit_from(start, first)
            if found is not None and (self._progress.stopped or not self._is_trivial(found)):
                break

    def _fit_from(self, start, first=None):
        """Return the `LocalFit` from a start, or None if it fails; the best one is kept."""
        try:
            found = fit_from(
                self._model,
                start,
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
        """Fit from where f is nearest to a constant if nothing was found that is as good.

        That start is near the best theta so far, or near `theta` if there is none. Raises the error
        of the last start if all failed.
        """
        may_fit = self._limits.max_iter > 0 and not self._progress.stopped
        if may_fit and is_worse_than_constant(self._model, self._best):
            near = theta if self._best is None else self._best.best.theta
            self._fit_from(Start(self._model.constant_theta(near, self._bounds)))
        if self._best is None:
            raise self._failure

    def move(self):
        """Maximise over the places of the best points, along with theta."""
        max_iter = self._limits.max_iter
        if not max_iter or self._progress.stopped:
            return
        found = inducing_points.move(
            self._model, self._best.best, self._bounds, max_iter, self._progress
        )
        message = TOO_CLOSE if found.failed else ""
        if not found.converged:
            message = out_of_iterations(max_iter)
        self._best = LocalFit(found.best, [*self._best.bounds, found.best.elbo], message)

    def result(self):
        """Solve the sites of the best evaluation, and return the `FitResult`."""
        (best, history, message), stopped = self._best, self._progress.stopped
        best = solve_final(
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
            message = SITES_UNSOLVED.format(MAX_FINAL_ITERATIONS)
        n_full = self._model.counts.full_evaluations - self._n_before
        trivial = best.objective <= self._floor
        return FitResult(best, history, trivial, message, n_full, self._progress.stopped)
