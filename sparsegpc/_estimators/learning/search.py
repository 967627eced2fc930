"""Search for the hyperparameters and the points of a problem."""

from typing import NamedTuple

from sparsegpc._core.learning.fit import with_final_sites
from sparsegpc._core.learning.runs import FitResult, StartOptions
from sparsegpc._estimators.learning.enough_points import Growth, fit_with_enough_points
from sparsegpc._estimators.learning.point_selection import specified_selector
from sparsegpc._estimators.learning.problem import Problem
from sparsegpc._estimators.learning.problem_fit import fit_problem
from sparsegpc._estimators.learning.warm_start import check_same_model, is_warm, last_points

# The message of a fit that did not converge because the callback stopped it.
STOPPED = "the callback asked to stop"


class FittedProblem(NamedTuple):
    """A `Problem` and what was learned.

    ``growth`` tells how the number of points grew if ``n_inducing="auto"``, and ``sought_faster``
    whether a faster function was looked for. At the end of a whole fit ``compared_bounds`` are
    those of the `Decision`, and ``n_left_out`` is the number of copies of rows that were left out,
    counted by their weights; ``choice_weight`` is the number of rows, counted in the same way, from
    which a fit last made all choices of the model, 0 if none has. ``alternatives`` are fits with
    other kernels that the data hardly tell from this one: pairs of a `FittedProblem` and its log
    weight, that of this fit being zero.
    """

    problem: Problem
    result: FitResult
    growth: Growth | None = None
    sought_faster: bool = False
    compared_bounds: dict | None = None
    n_left_out: float = 0.0
    choice_weight: float = 0.0
    alternatives: tuple = ()

    @property
    def stopped(self):
        """Whether the callback stopped the fit."""
        return self.problem.progress.stopped

    @property
    def has_function(self):
        """Whether a function that is not constant was learned."""
        return self.problem.learns and not self.result.trivial

    def then(self, step):
        """Apply a step to this fit; return it unchanged if the fit was stopped."""
        return self if self.stopped else step(self)

    def evaluated_last(self):
        """Return the same, evaluated again, so that this evaluation is the last on record."""
        problem = self.problem
        return self._replace(result=with_final_sites(problem.model, self.result, problem.progress))

    def incomplete(self):
        """Return a copy whose message says that the callback stopped the fit."""
        result, growth = self.result, self.growth
        if result.best.converged:
            result = result._replace(message=STOPPED)
        growth = None if growth is None else growth._replace(end="stopped")
        return self._replace(result=result, growth=growth)


def search(problem, starts=None):
    """Learn hyperparameters and points of a `Problem`, and return the `FittedProblem`.

    `starts` are `StartOptions`. None means what the last fit learned, with its points, if the
    estimator goes on from there; else the values of the kernel and some derived from the data. With
    ``n_inducing="auto"`` only the values count.
    """
    warm = starts is None and is_warm(problem.estimator)
    if warm:
        check_same_model(problem)
        starts = StartOptions([problem.estimator._theta])
    if problem.seeks_number:
        growth = fit_with_enough_points(problem, starts, warm)
        return FittedProblem(problem, growth.result, growth)
    selector = specified_selector(problem, warm)
    if warm:
        starts = starts._replace(points=last_points(problem, selector))
    return FittedProblem(problem, fit_problem(problem, selector, starts))
