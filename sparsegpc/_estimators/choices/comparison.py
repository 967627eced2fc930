"""Comparison of models by the bound, on all rows or a part of them.

Noisy data need many rows to show more than a smooth function, so when there are very many rows,
more of them are used to decide. What is compared is the objective: the bound plus the log density
of the prior.
"""

from copy import copy
from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.runs import Run, StartOptions
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._estimators.learning.point_selection import specified_selector
from sparsegpc._estimators.learning.problem import Problem
from sparsegpc._estimators.learning.search import FittedProblem, search

# DECIDING_ROWS decide; of VERY_MANY_ROWS or more, it is a DECIDING_SHARE of them, but at most
# MOST_DECIDING_ROWS. With ``n_inducing="auto"`` these fits have at most MOST_POINTS.
DECIDING_ROWS, VERY_MANY_ROWS, MOST_POINTS = 2000, 100_000, 200
DECIDING_SHARE, MOST_DECIDING_ROWS = 0.2, 100_000
# Where an addition helps, FIRST_ITERATIONS iterations show it by a gain of FIRST_GAIN nats.
FIRST_ITERATIONS, FIRST_GAIN = 12, 1.0
# With at most FEW_ROWS, that many of several runs go on: these iterations tell little if the
# variance of f rises to thousands of times that of the targets, as without noise.
FEW_ROWS, FINALISTS = 300, 2


class Decision(NamedTuple):
    """The `Problem` that was chosen, and what was learned on the way.

    ``starts`` are those of a `search` that goes on from there. ``fitted`` is what a search
    returned, if that was for all rows and nothing remains to be learned, else None.
    ``compared_bounds`` is a dict of the bound for each kind of noise or each likelihood, or None if
    none were compared.
    """

    problem: Problem
    starts: StartOptions | None = None
    fitted: FittedProblem | None = None
    compared_bounds: dict | None = None

    def learn(self):
        """Return the `FittedProblem`, if need be by a search."""
        return search(self.problem, self.starts) if self.fitted is None else self.fitted


class Candidate(NamedTuple):
    """A `Problem` of all rows, and the `FittedProblem` of the rows that decide, a part or all."""

    full_problem: Problem
    deciding_fit: FittedProblem

    @property
    def end(self):
        """The `Evaluation` at the end of the fit."""
        return self.deciding_fit.result.best

    @property
    def n_rows(self):
        """The number of rows that decide."""
        return len(self.deciding_fit.problem.model.weight)

    def decision(self):
        """Return the `Decision` for this candidate, with what is learned."""
        problem, (deciding, result, *_) = self.full_problem, self.deciding_fit
        has_all_rows = deciding.model is problem.model
        was_simplified = problem.moves_points or problem.estimator.n_restarts_optimizer
        if has_all_rows and not (problem.seeks_number or was_simplified):
            fitted = self.deciding_fit._replace(problem=problem)
            return Decision(problem, fitted=fitted.evaluated_last())
        best, run = result.best, None
        # Points among a part of the rows might not suit all rows.
        points = best.points if has_all_rows else None
        if len(deciding.model.weight) > DECIDING_ROWS and result.hessian is not None:
            run = Run(best.theta, best, result.hessian)
        return Decision(problem, StartOptions([best.theta], points, run))


def simplified(estimator):
    """Return a copy of an estimator that neither moves its points nor restarts."""
    simple = copy(estimator)
    simple.optimize_inducing, simple.n_restarts_optimizer = False, 0
    return simple


def deciding_problem(problem, n_rows=None):
    """Return the `Problem` of the `n_rows` that decide, with a simplified estimator.

    By default they are the usual number for all rows of the problem.
    """
    simple = simplified(problem.estimator)
    if problem.seeks_number:
        simple.n_inducing = min(MOST_POINTS, simple.max_inducing)
    n_rows = _n_deciding(problem) if n_rows is None else n_rows
    return problem._replace(estimator=simple, model=problem.model.subsample(n_rows))


def _n_deciding(problem):
    """Return the usual number of rows that decide."""
    n_rows = len(problem.model.weight)
    # What is learned from a part of very many rows is decided on all of this part.
    if problem.learns_from_part:
        return n_rows
    share = min(int(DECIDING_SHARE * n_rows), MOST_DECIDING_ROWS)
    return DECIDING_ROWS if n_rows < VERY_MANY_ROWS else share


def better_candidate(other, best, name, needed):
    """Return the better of two `Candidate`: the other one has to gain more than `needed` nats.

    Print the comparison if the estimator is verbose; `name` states what the other one adds.
    """
    gain, deciding = other.end.objective - best.end.objective, best.deciding_fit.problem
    bound, without = (each.end.elbo + each.deciding_fit.problem.offset for each in (other, best))
    is_better = gain > needed
    comparison = (
        f"{name}: {len(deciding.model.weight)} rows, bound {bound:.4f} with them, "
        f"{without:.4f} without, gain with their prior {gain:.4f} of {needed:.4f} needed"
    )
    deciding.print_verdict(comparison, is_better)
    return other if is_better else best


def best_run(problem, starts, needed):
    """Return the `FittedProblem` of the best of several runs, or None if all fail.

    Each may end at a far lower maximum than another. After a few iterations the best one goes on if
    its objective is above `needed`, and the second one, too, if there are few rows. `starts` is a
    list of `Start`.
    """
    selector, progress = specified_selector(problem), problem.progress
    settings = problem.settings._replace(report=None)

    def run(start, settings, to_beat=-np.inf):
        """Return the `FitResult` from a start, or None if it fails."""
        return attempted(fit_from, problem.model, start, selector, settings, to_beat)

    max_iter = min(FIRST_ITERATIONS, settings.max_iter)
    short = settings._replace(max_iter=max_iter, max_reselections=0)
    runs = []
    for start in starts:
        other = run(start, short, max([needed, *map(_objective, runs)]))
        runs += [] if other is None else [other]
        if progress.stopped:
            break
    if not runs:
        return None
    runs.sort(key=_objective, reverse=True)
    best = runs[0]
    if _objective(best) > needed and not progress.stopped:
        n_finalists = FINALISTS if len(problem.model.weight) <= FEW_ROWS else 1
        # Newly selected points may be worse by more than what the other iterations gain.
        ends = [run(fit.start(), settings) for fit in runs[:n_finalists]]
        best = max(filter(None, ends), key=_objective, default=best)
    # A comparison does not need sites of the final tolerance. A faster function was looked for in
    # the fit from which the starts come.
    result = best._replace(trivial=problem.model.is_trivial(best.best))
    return FittedProblem(problem, result, sought_faster=True)


def _objective(result):
    """Return the objective at the end of a `FitResult`."""
    return result.best.objective
