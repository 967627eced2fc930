"""Comparison of models by the bound, on all rows or a part of them.

Noisy data need many rows to show more than a smooth function, so of very many rows a larger part
decides. What is added to a model has to raise the bound, with the prior of the hyperparameters, by
more than log N. That is the penalty of the Bayesian information criterion for two parameters.
"""

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import Starts, finished
from sparsegpc._core.learning.fit_from import Climb, FitResult, Start, fit_from
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.fit_options import limits_of, moves_points, point_selector
from sparsegpc._estimators.learning.problem import Problem
from sparsegpc._estimators.learning.search import Found, search
from sparsegpc._estimators.messages.progress import print_line

# FEW_ROWS decide; from MANY_ROWS on it is a SHARE of them, but at most MOST_ROWS. With
# ``n_inducing="auto"`` these fits have at most MOST_POINTS.
FEW_ROWS, MANY_ROWS, SHARE, MOST_ROWS, MOST_POINTS = 2000, 100_000, 0.2, 100_000, 200
# Where an addition helps, so many iterations show it by a gain of so many nats.
FIRST_ITERATIONS, FIRST_GAIN = 12, 1.0


class Decision(NamedTuple):
    """A `KernelChoice` without "auto", and what was learned with this choice.

    ``starts`` are those of a `search` that goes on from there. ``found`` is what a search returned,
    if that was for all rows and nothing remains to be learned, else None.
    """

    choice: KernelChoice
    starts: Starts | None = None
    found: Found | None = None

    def go_on(self, estimator, problem, rng):
        """Return what is `Found` for the `Problem` of this choice, if need be by a search."""
        if self.found is not None:
            return self.found
        return search(estimator, problem, rng, self.starts)


class Candidate(NamedTuple):
    """A `KernelChoice`, its `Problem` for all rows and for those that decide, and the result."""

    choice: KernelChoice
    problem: Problem
    part: Problem
    result: FitResult

    @classmethod
    def of(cls, choice, problem):
        """Return the candidate of a choice and its problem, which is not learned yet."""
        return cls(choice, problem, _part(problem), None)

    def decision(self, estimator):
        """Return the `Decision` for this candidate, with what is learned."""
        leaves_out = moves_points(estimator) or estimator.n_restarts_optimizer
        if self.part is self.problem and estimator.n_inducing != "auto" and not leaves_out:
            found = Found(self.result).evaluated_last(self.problem)
            return Decision(self.choice, found=found)
        best, climb = self.result.best, None
        # Points that are some of the rows of a part might not suit all rows.
        points = best.points if self.part is self.problem else None
        if len(self.part.model.weight) > FEW_ROWS and self.result.hessian is not None:
            climb = Climb(best.theta, best, self.result.hessian)
        return Decision(self.choice, Starts([best.theta], points, climb))


def simplified(estimator):
    """Return a copy of an estimator for the fits that are compared."""
    simple = copy(estimator)
    simple.optimize_inducing, simple.n_restarts_optimizer = False, 0
    if simple.n_inducing == "auto":
        simple.n_inducing = min(MOST_POINTS, estimator.max_inducing)
    return simple


def _part(problem):
    """Return the `Problem` of the rows that decide."""
    n_rows = len(problem.model.weight)
    n_rows = FEW_ROWS if n_rows < MANY_ROWS else min(int(SHARE * n_rows), MOST_ROWS)
    model = problem.model.at_most(n_rows)
    if model is problem.model:
        return problem
    rows = problem.rows._replace(X=model.X, weight=model.weight)
    return problem._replace(model=model, rows=rows)


def is_better(estimator, other, best, name):
    """Return whether a `Candidate` raises the objective of the best one by enough.

    Print the comparison if ``estimator.verbose`` is set; `name` states what is added.
    """
    gain = other.result.best.objective - best.result.best.objective
    needed = max(np.log(best.part.model.total_weight), FIRST_GAIN)
    if estimator.verbose:
        bound, without = (each.result.best.elbo + each.part.offset for each in (other, best))
        text = (
            f"{name}: {len(best.part.model.weight)} rows, bound {bound:.4f} with them, "
            f"{without:.4f} without, gain with their prior {gain:.4f} of {needed:.4f} needed: "
            f"{'kept' if gain > needed else 'left out'}"
        )
        print_line(estimator, text, best.part.progress.label)
    return gain > needed


def climb_from(estimator, problem, starts, needed, rng):
    """Return the `FitResult` of the best of several climbs, or None if all fail.

    Each may end at a far lower maximum than another. After a few iterations the best one goes on if
    its objective is above `needed`.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem : Problem
    starts : list of (Start, InducingPoints or None)
        Starts, and the points with which to begin.
    needed : float
    rng : RandomState
    """
    selector, limits = point_selector(estimator, problem, rng), limits_of(estimator, problem)

    def climb(start, limits, first=None, rival=-np.inf):
        """Return the `FitResult` from a start, or None if it fails."""
        try:
            return fit_from(problem.model, start, selector, limits, first, rival=rival)
        except LinAlgError:
            return None

    max_iter = min(FIRST_ITERATIONS, limits.max_iter)
    short = limits._replace(max_iter=max_iter, max_reselections=0)
    found = None
    for start, first in starts:
        rival = needed if found is None else max(needed, found.best.objective)
        other = climb(start, short, first, rival)
        found = max(filter(None, (found, other)), key=lambda fit: fit.best.objective, default=None)
        if problem.progress.stopped:
            break
    if found is None:
        return None
    if found.best.objective > needed and not problem.progress.stopped:
        start = Start(found.best.theta, found.best.states, found.hessian)
        # Newly selected points may be worse by more than what the other iterations gain.
        found = climb(start, limits, found.best.points) or found
    return finished(problem.model, found, problem.progress)
