"""As many points as a certificate demands: ``n_inducing="auto"``."""

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.few_rows import FewRows
from sparsegpc._core.learning.fit import Starts
from sparsegpc._core.learning.more_points import FIRST_POINTS
from sparsegpc._core.learning.number_of_points import PointGrowth
from sparsegpc._core.learning.single_start import Run
from sparsegpc._core.models.fixed_sites import gap_per_row
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.learning.point_selection import named_selector
from sparsegpc._estimators.learning.problem_fit import (
    evaluate_problem,
    fit_problem,
    simpler_starts,
)
from sparsegpc._estimators.learning.warm_start import last_points


def fit_with_enough_points(problem, starts, warm):
    """Return the `Growth` of the number of points of a `Problem`.

    Of the `Starts`, or None, only the values count; for `warm` starts with the points of the last
    fit see `search`.
    """
    values, fits = None if starts is None else starts.values, _PointGrowth(problem, warm)
    if problem.learns and not warm:
        values = fits.learned_from_few_rows(values)
    growth = fits.grow(values)
    if starts is not None and not (warm or problem.progress.stopped):
        growth = _with_missed(problem, starts.values[0], growth)
    for step in growth.history:
        step["lower_bound"] += problem.offset
    return growth


class _PointGrowth(PointGrowth):
    """The `PointGrowth` of a `Problem`; if it is `warm`, from the points of the last fit."""

    def __init__(self, problem, warm=False):
        estimator, model = problem.estimator, problem.model
        max_points = min(estimator.max_inducing, len(model.weight))
        super().__init__(model, problem.progress, estimator.certificate_tol, max_points)
        self._problem, self._warm, self.learns = problem, warm, problem.learns
        self._few_rows = self._best = None

    def learned_from_few_rows(self, values):
        """Return starts learned from a few rows, which may then contradict what a fit learns.

        If all that is learned is a constant function, return the given `values`.
        """
        problem = self._problem
        given = start_values(problem.hyperparameters, problem.spread) if values is None else values
        few = FewRows(problem.model, problem.settings)
        needed, _ = few.ranking(list(map(Run, given)))
        if not few.beats_constant(needed[0]):
            return values
        simpler = few.preferred(simpler_starts(problem), needed[0].end.theta)
        if simpler is not None:
            needed = [simpler, *needed]
        self._few_rows, self._best = few, needed[0]
        return [run.end.theta for run in needed]

    def is_contradicted(self, theta):
        return self._few_rows is not None and self._few_rows.contradict(theta, self._best)

    def fit(self, n_points, starts):
        selector, points = named_selector(self._problem, n_points, tol=0.0), None
        if self._warm:
            # For the first fit only.
            points, self._warm = last_points(self._problem, selector), False
        starts = None if starts is None else Starts(starts, points)
        return fit_problem(self._problem, selector, starts)

    def gap(self, evaluation):
        """Return the gap of the certificate; report it if the estimator is verbose."""
        print_line = self._problem.print_line
        name = f"certificate of {len(evaluation.points.Z)} points"

        def before_pass():
            print_line(f"{name}: one pass over the kernel matrix with all points")

        gap = gap_per_row(self.model, evaluation, self.tol, before_pass)
        print_line(f"{name}: gap {gap:.3g} nats per row")
        return gap


def _with_missed(problem, theta, growth):
    """Return a `Growth`, or a better one from `theta` if the first one has missed that.

    `theta` was learned from more rows than the few from which the number of points grew, and few
    rows or points may show nothing of a function that varies fast.
    """
    try:
        n_points = _enough_points(problem, theta, growth.result.best)
        if n_points is not None:
            again = _PointGrowth(problem).grow([theta], first_size=n_points)
            if again.result.best.objective > growth.result.best.objective:
                growth = again._replace(history=[*growth.history, *again.history])
    except LinAlgError:
        # More points may lie too close together; what was learned is usable.
        pass
    return growth


def _enough_points(problem, theta, best):
    """Return a number of points with which `theta` is better than the `Evaluation` `best`, or None.

    It is evaluated with ever more points, up to those that a fit uses by default. It is better by
    more than what an addition to the model must gain, and than the certificate allows.
    """
    estimator, model = problem.estimator, problem.model
    n_most = min(problem.most_points, estimator.max_inducing, len(model.weight))
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
