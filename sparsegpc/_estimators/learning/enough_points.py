"""As many points as a certificate demands: ``n_inducing="auto"``.

The number of points is doubled until they are enough. A certificate is about the hyperparameters
that were learned, and with too few points these are others: long length scales, at which few points
suffice. So learning with twice as many points must confirm it, and a few rows with a point at each
must not contradict what was learned.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.default_points import FIRST_POINTS
from sparsegpc._core.learning.few_rows import FewRows
from sparsegpc._core.learning.runs import FitResult, Run, StartOptions
from sparsegpc._core.models.fixed_sites import gap_per_row
from sparsegpc._estimators.kernels.period_starts import function_starts
from sparsegpc._estimators.learning.point_selection import named_selector
from sparsegpc._estimators.learning.problem_fit import (
    evaluate_problem,
    fit_problem,
    simpler_starts,
)
from sparsegpc._estimators.learning.warm_start import last_points

# Enough points for an easy problem, at negligible cost.
FIRST_SIZE = 50
# Growth stops when doubling gains less than this fraction of the gain over a constant function.
PLATEAU = 1e-3


class Growth(NamedTuple):
    """The best fit, a record of each size (a list of dicts), and the reason why growth ended."""

    result: FitResult
    history: list
    end: str


def fit_with_enough_points(problem, starts, warm):
    """Return the `Growth` of the number of points of a `Problem`.

    Of the `StartOptions`, or None, only the values count; for `warm` starts with the points of the
    last fit see `search`.
    """
    values, fits = None if starts is None else starts.values, PointGrowth(problem, warm)
    if problem.learns and not warm:
        values = fits.learned_from_few_rows(values)
    growth = fits.grow(values)
    if starts is not None and not (warm or problem.progress.stopped):
        growth = _better_growth(problem, starts.values[0], growth)
    for step in growth.history:
        step["lower_bound"] += problem.offset
    return growth


class PointGrowth:
    """Fits a `Problem` with ever more points until these are enough.

    The number of points doubles from one fit to the next, up to `max_inducing`. Growth stops when
    the gap of the certificate is at most `certificate_tol`, in nats per row, and twice as many
    points gain no more. If the fits do not learn theta, the certificate needs no such confirmation.
    If `warm`, the first fit has the points of the last fit of the estimator.
    """

    def __init__(self, problem, warm=False):
        self._problem, self._warm = problem, warm
        self._few_rows = self._best = None

    def learned_from_few_rows(self, values):
        """Return starts learned from a few rows, which may then contradict what a fit learns.

        If all that is learned is a constant function, return the given `values`.
        """
        problem = self._problem
        usual, _ = function_starts(problem)
        given = usual if values is None else values
        few = FewRows(problem.model, problem.settings)
        needed, _ = few.ranking(list(map(Run, given)))
        if not few.beats_constant(needed[0]):
            return values
        simpler = few.preferred(simpler_starts(problem, usual), needed[0].end.theta)
        if simpler is not None:
            needed = [simpler, *needed]
        self._few_rows, self._best = few, needed[0]
        return [run.end.theta for run in needed]

    def is_contradicted(self, theta):
        """Return whether a few rows contradict theta, so that growth has to go on."""
        return self._few_rows is not None and self._few_rows.contradict(theta, self._best)

    def fit(self, n_points, thetas):
        """Return the `FitResult` from a list of theta, or None for the usual starts."""
        selector, points = named_selector(self._problem, n_points, tol=0.0), None
        if self._warm:
            # For the first fit only.
            points, self._warm = last_points(self._problem, selector), False
        starts = None if thetas is None else StartOptions(thetas, points)
        return fit_problem(self._problem, selector, starts)

    def gap(self, evaluation):
        """Return the gap of the certificate in nats per row; report it if verbose."""
        model, tol = self._problem.model, self._problem.estimator.certificate_tol
        print_line = self._problem.print_line
        name = f"certificate of {len(evaluation.points.Z)} points"

        def before_pass():
            print_line(f"{name}: one pass over the kernel matrix with all points")

        gap = gap_per_row(model, evaluation, tol, before_pass)
        print_line(f"{name}: gap {gap:.3g} nats per row")
        return gap

    def grow(self, thetas, first_size=FIRST_SIZE):
        """Return the `Growth` from `thetas`, from which the first fit starts.

        Each further fit starts from the theta of the best so far, or from the first `thetas` again
        if the last theta is contradicted.

        The ``end`` is "certified", "full_rank" (the points span all rows), "max_inducing",
        "plateau" or "stopped" (by the callback). If it is "certified", the last fit confirmed the
        result, or is the result because nothing can confirm it.
        """
        problem, model = self._problem, self._problem.model
        tol = problem.estimator.certificate_tol
        max_points = min(problem.estimator.max_inducing, len(model.weight))
        size, history, best, before = min(first_size, max_points), [], None, None
        first, was_certified = thetas, False
        while True:
            result = self.fit(size, thetas)
            found = result.best
            n_points, gap = len(found.points.Z), self.gap(found)
            history.append({"n_inducing": n_points, "lower_bound": found.elbo, "gap_per_row": gap})
            gained = np.inf if best is None else found.objective - best.best.objective
            if gained > 0.0:
                best = result
            if problem.progress.stopped:
                return Growth(best, history, "stopped")
            is_certified = gap <= tol
            if is_certified and not problem.learns:
                return Growth(result, history, "certified")
            contradicted = self.is_contradicted(found.theta)
            is_confirmed = before is not None and not contradicted
            gains_little = gained <= tol * model.total_weight
            if was_certified and is_confirmed and gains_little:
                return Growth(before, history, "certified")
            if n_points < size or size == max_points:
                end = "full_rank" if n_points < size else "max_inducing"
                end = "certified" if is_certified and best is result else end
                return Growth(best, history, end)
            gain = found.objective - model.constant_bound()
            if is_confirmed and gained <= max(PLATEAU * gain, model.tol):
                return Growth(best, history, "plateau")
            before, thetas = (None, first) if contradicted else (result, [best.best.theta])
            was_certified = is_certified
            size = min(2 * size, max_points)


def _better_growth(problem, theta, growth):
    """Return the `Growth`, or a better one that begins at `theta`, if the first has missed that.

    `theta` was learned from more rows than the few from which the number of points grew, and few
    rows or points may show nothing of a function that varies fast.
    """
    try:
        n_points = _enough_points(problem, theta, growth.result.best)
        if n_points is not None:
            again = PointGrowth(problem).grow([theta], first_size=n_points)
            if again.result.best.objective > growth.result.best.objective:
                growth = again._replace(history=[*growth.history, *again.history])
    except LinAlgError:
        # More points may lie too close together. Keep the fit we have.
        pass
    return growth


def _enough_points(problem, theta, best):
    """Return a number of points with which `theta` is better than the `Evaluation` `best`, or None.

    It is evaluated with ever more points, up to those that a fit uses by default. It is better by
    more than what an addition to the model must gain, and than the certificate allows.
    """
    estimator, model = problem.estimator, problem.model
    n_most = min(problem.default_points.most, estimator.max_inducing, len(model.weight))
    n_points = min(max(FIRST_POINTS, len(best.points.Z)), n_most)
    tol = estimator.certificate_tol * model.total_weight
    needed = best.objective + max(problem.needed_gain, tol)
    while True:
        selector = named_selector(problem, n_points, tol=0.0)
        if evaluate_problem(problem, selector, theta).objective > needed:
            return n_points
        if n_points == n_most or problem.progress.stopped:
            return None
        n_points = min(2 * n_points, n_most)
