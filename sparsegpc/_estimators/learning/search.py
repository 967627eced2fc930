"""Search for the hyperparameters and the points of a problem."""

from typing import NamedTuple

from sparsegpc._core.learning.fit import STOPPED, Starts, finished
from sparsegpc._core.learning.number_of_points import Growth
from sparsegpc._core.learning.single_start import FitResult
from sparsegpc._estimators.learning.enough_points import fit_with_enough_points
from sparsegpc._estimators.learning.point_selection import point_selector
from sparsegpc._estimators.learning.problem import Problem
from sparsegpc._estimators.learning.problem_fit import fit_problem
from sparsegpc._estimators.learning.warm_start import check_same_model, is_warm, last_points


class Learned(NamedTuple):
    """What was learned for a `Problem`.

    ``growth`` tells how the number of points grew if ``n_inducing="auto"``.
    """

    problem: Problem
    result: FitResult
    growth: Growth | None = None

    def evaluated_last(self):
        """Return what was learned, evaluated again after other evaluations."""
        growth, progress = self.growth, self.problem.progress
        if progress.stopped and growth is not None:
            # The number of points might have grown again.
            growth = growth._replace(end="stopped")
        result = finished(self.problem.model, self.result, progress)
        return self._replace(result=result, growth=growth)

    def incomplete(self):
        """Return what was learned until the callback stopped the fit before a further step."""
        growth = None if self.growth is None else self.growth._replace(end="stopped")
        return self._replace(result=self.result._replace(message=STOPPED), growth=growth)


def search(problem, starts=None):
    """Learn hyperparameters and points of a `Problem`, and return what is `Learned`.

    `starts` are `Starts`. None means what the last fit learned, with its points, if the estimator
    goes on from there; else the values of the kernel and some derived from the data. With
    ``n_inducing="auto"`` only the values count.
    """
    warm = starts is None and is_warm(problem.estimator)
    if warm:
        check_same_model(problem)
        starts = Starts([problem.estimator._theta])
    if problem.estimator.n_inducing == "auto":
        growth = fit_with_enough_points(problem, starts, warm)
        return Learned(problem, growth.result, growth)
    selector = point_selector(problem, warm)
    if warm:
        starts = starts._replace(points=last_points(problem, selector))
    return Learned(problem, fit_problem(problem, selector, starts))
