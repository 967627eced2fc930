"""Fit a model: alternate gradient steps in the hyperparameters with the selection of points.

The starts are first fitted to few rows (`few_rows`), and the model is fitted from the best end
(`single_start`). With many rows, growing subsets of them are fitted before (`growing_subsets`), and
the Hessian is measured where the search on all rows begins (`curvature`).

A fit that ends at the trivial optimum, where f is constant, is repeated with the line search of
L-BFGS-B, and if that ends there, too, from the other starts.

If `move_points` is true, the locations of the points are optimised afterwards (`moved_points`).
With many rows for each point, a quarter of the rows is used for all this, and only a few more moves
follow on all rows. Finally the sites are solved to a tighter tolerance.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.curvature import measured_hessian
from sparsegpc._core.learning.few_rows import (
    FewRows,
    Ranking,
    learn_starts,
    rank_starts,
    unranked,
)
from sparsegpc._core.learning.growing_subsets import of_any_rows, run_on_subsets, subset_for_moves
from sparsegpc._core.learning.moved_points import N_PAIRS, move, move_on_all_rows
from sparsegpc._core.learning.pruned_columns import bring_back
from sparsegpc._core.learning.runs import Run, Start
from sparsegpc._core.learning.single_start import fit_from, out_of_iterations
from sparsegpc._core.optimisers.lbfgs import CorrectionPairs

# Why a fit whose points were moved did not converge.
TOO_CLOSE = "inducing points came too close to each other: use fewer points"


def fit(model, starts, selector, settings, *, move_points=False):
    """Learn hyperparameters and inducing points, and return a `FitResult`.

    If `move_points`, the bound is maximised over the locations of the points and theta at the end.
    Unless the first points are given, this may happen on a quarter of the rows, with a few last
    iterations on all rows.

    Raises `LinAlgError` if the fit fails from every start: the kernel matrix cannot be factored, or
    the bound cannot be computed.
    """
    if settings.max_iter:
        values = [np.clip(theta, *settings.bounds.T) for theta in starts.values]
        starts = starts._replace(values=values)
    steps = _Fit(model, starts, selector, settings)
    if move_points and settings.max_iter and starts.points is None:
        steps.fit_subset()
    if not steps.is_over:
        steps.fit()
        if move_points:
            steps.move_points()
    return with_final_sites(model, steps.result, settings.progress)


def with_final_sites(model, result, progress):
    """Return a `FitResult` with sites solved to the final tolerance, and whether it is trivial.

    This is the last evaluation of a fit, so that the last one on record is that of its result.
    """
    best = result.best
    wrt_theta = best.grad_theta is not None
    best = model.solve(best.theta, best.points, best.states, wrt_theta=wrt_theta)
    return with_last_evaluation(model, result, best, progress)


def with_last_evaluation(model, result, best, progress):
    """Record the last evaluation, and return the `FitResult` with it and whether it is trivial."""
    progress.evaluated(model, best)
    message = result.message if best.converged else model.unsolved
    return result._replace(best=best, message=message, trivial=model.is_trivial(best))


class _Fit:
    """The steps of a fit of some rows.

    ``result`` is the best `FitResult` so far, or None, and ``failure`` the last error.
    """

    def __init__(self, model, starts, selector, settings):
        self.model, self.starts, self.selector = model, starts, selector
        self.settings, self.progress = settings, settings.progress
        self.result = self.failure = None

    @property
    def is_over(self):
        """Whether no fit follows: the best is better than a constant f, or the user stopped it."""
        if self.result is None:
            return False
        return self.progress.stopped or not self.model.is_trivial(self.result.best)

    @property
    def may_search(self):
        """Whether theta and the points may be learned, and the fit is not stopped."""
        return self.settings.max_iter > 0 and not self.progress.stopped

    def fit_subset(self):
        """Fit a part of the rows and move the points, and then move them on all rows.

        Do nothing if there are too few rows for each point.
        """
        small = subset_for_moves(self.model, self.selector.n_points, self.settings.weak_prior)
        if small is None:
            return
        selector = of_any_rows(self.model, self.selector, self.starts.values[0])
        steps = _Fit(small, self.starts, selector, self.settings._replace(report=None))
        pairs = CorrectionPairs(N_PAIRS)
        try:
            steps.fit()
            if steps.is_over:
                steps.move_points(pairs)
                self.move_points_on_all_rows(steps, pairs)
        except LinAlgError:
            # Subsets only save time. If the fit of all rows fails too, it raises this error.
            return

    def fit(self):
        """Fit from the starts. If all of them fail, the last error is raised."""
        needed, others = self.ranking()
        further, fallbacks = map(Run, self.starts.on_all_rows), map(Run, self.starts.fallbacks)
        self.try_runs([*needed, *further], [*others, *fallbacks])
        self.try_pruned_columns()
        self.try_simpler()
        self.try_constant(needed[0].begin)
        self.try_restarts()
        if self.result is None:
            raise self.failure

    def ranking(self):
        """Return the `Ranking` of the values; with first points, its runs have not begun."""
        starts, values = self.starts, self.starts.values
        if starts.run is not None:
            return Ranking([starts.run], [])
        if len(values) < 2 or self.progress.stopped:
            return unranked(values)
        if starts.points is not None:
            return unranked(rank_starts(self.model, values, self.settings))
        return learn_starts(self.model, values, self.selector.n_points, self.settings)

    def try_runs(self, needed, others):
        """Continue each `Run` that is needed, and others until a fit is not trivial."""
        # The first points belong to the first run.
        points = self.starts.points
        for k, run in enumerate([*needed, *others]):
            if self.result is not None:
                is_enough = k >= len(needed) and not self.model.is_trivial(self.result.best)
                if is_enough or self.progress.stopped:
                    break
            self.try_run(run, points, k < len(needed))
            points = None

    def try_restarts(self):
        """Fit from each of the restarts, to the end."""
        before = self.result
        for theta in self.starts.restarts:
            if self.progress.stopped:
                return
            self.try_run(Run(theta), None, is_needed=True, gives_up=False)
        if self.result is not before:
            self.try_pruned_columns()

    def try_run(self, run, points, is_needed, gives_up=True):
        """Continue a `Run`. If that finds a constant, fit from its start with L-BFGS-B.

        Unless the run `is_needed`, this follows only if it fails. For `gives_up` see `try_start`.
        """
        settings = self.settings
        if settings.max_iter and len(run.begin):
            if points is None and run is not self.starts.run:
                run = run_on_subsets(self.model, run, self.selector, settings)
            start = run.start_on(self.model)
            hessian = measured_hessian(self.model, run, self.selector, settings) or start.hessian
            found = self.try_start(start._replace(hessian=hessian, points=points), gives_up)
            accepts_constant = not is_needed or settings.progress.stopped
            if found is not None and (accepts_constant or not self.model.is_trivial(found.best)):
                return
        self.try_start(Start(run.begin, points=points), gives_up)

    def try_start(self, start, gives_up=True):
        """Return the `FitResult` from a start, or None if it fails. Keep the best one.

        A search that `gives_up` ends early if it is not expected to come near the best so far.
        """
        try:
            has_rival = gives_up and self.result is not None
            to_beat = self.result.best.objective if has_rival else -np.inf
            found = fit_from(self.model, start, self.selector, self.settings, to_beat)
        except LinAlgError as error:
            self.failure = error.with_traceback(None)
            return None
        if self.result is None or found.best.objective > self.result.best.objective:
            self.result = found
        return found

    def try_pruned_columns(self):
        """Fit once more if columns that were pruned raise the objective."""
        if self.result is None or not self.may_search:
            return
        best = self.result.best
        theta = bring_back(self.model, best, self.settings.shorter_lengths or {}, self.progress)
        if theta is not None:
            self.try_start(Start.typical(self.model, theta, best.states))

    def try_simpler(self):
        """Fit from the best of the simpler starts if few rows prefer it to the best fit."""
        simpler, columns = self.starts.simpler, self.starts.single_columns
        if self.result is None or not self.may_search or not (simpler or columns):
            return
        few = FewRows(self.model, self.settings)
        if columns:
            simpler = [*simpler, *few.relevant_columns(*columns)]
        run = few.preferred(simpler, self.result.best.theta)
        if run is not None and not self.progress.stopped:
            self.try_run(run, None, is_needed=True)

    def try_constant(self, theta):
        """Fit from a nearly constant f if the best fit is worse than a constant function.

        The start is near the best theta so far, or near `theta` if there is no fit yet.
        """
        model, found = self.model, self.result
        if not self.may_search:
            return
        if found is None or not found.best.objective >= model.constant_bound():
            near = theta if found is None else found.best.theta
            self.try_start(Start(model.constant_theta(near, self.settings.bounds)))

    def move_points(self, pairs=None):
        """Maximise the bound over the locations of the points and theta, from the best fit.

        `pairs` are `CorrectionPairs` to which those of the search are added.
        """
        if not self.may_search:
            return
        found = move(self.model, self.result.start(), self.settings, pairs=pairs)
        message = TOO_CLOSE if found.failed else ""
        if not found.converged:
            message = out_of_iterations(self.settings.max_iter)
        self.result = self.result.moved(found.best, message)

    def move_points_on_all_rows(self, small, pairs):
        """Continue the moves of the `_Fit` of a part of the rows, on all rows."""
        before = small.result
        found = move_on_all_rows(self.model, small.model, before, self.settings, pairs=pairs)
        before = before._replace(lower_bounds=[found.start.elbo])
        self.result = before.moved(found.best, before.message)
        if self.settings.report is not None:
            self.settings.report(1, len(found.best.points.Z), found.best.elbo)
