"""Decide by the bound whether main effects belong in the kernel.

Models with and without them are fitted to a part of the rows, the former from the end of the
latter. Noisy data need many rows to show more than a smooth function, so of very many rows a larger
part decides. Main effects have to raise the bound, with the prior of their own hyperparameters, by
more than log N. That is the penalty of the Bayesian information criterion for two parameters, a
variance and a length scale that are common to all effects; the prior penalises their differences.
"""

from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import result_of
from sparsegpc._core.learning.fit_from import Climb, Limits, Start, fit_from
from sparsegpc._core.learning.hyperparameters import unknown_hessian
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import walk
from sparsegpc._estimators.learning import (
    Found,
    evaluated_last,
    learns,
    moves_points,
    point_selector,
    search,
)
from sparsegpc._estimators.messages.progress import print_line
from sparsegpc.kernels import MainEffects

# FEW_ROWS decide or, if there are MANY_ROWS, a SHARE of them, but at most MOST_ROWS. With
# ``n_inducing="auto"`` they have MOST_POINTS.
FEW_ROWS, MANY_ROWS, SHARE, MOST_ROWS, MOST_POINTS = 2000, 100_000, 0.2, 100_000, 200
# Effects of more columns would take too long.
MOST_COLUMNS = 100
# Where main effects help, so many iterations show it by a gain of so many nats.
FIRST_ITERATIONS, FIRST_GAIN = 12, 1.0


class Decision(NamedTuple):
    """A `KernelChoice` without "auto", and what was learned with this choice.

    ``starts``, ``first`` and ``begun`` are the start values, the first points and the climb on a
    part of the rows from which `search` goes on. ``found`` is what `search` returned, if that was
    for all rows and nothing remains to be learned. Each is None if there is no such thing.
    """

    choice: KernelChoice
    starts: list | None = None
    first: InducingPoints | None = None
    begun: Climb | None = None
    found: Found | None = None


def decide_main_effects(estimator, problem_of, rng):
    """Return the `Decision` whether the kernel of an estimator has main effects.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem_of : callable
        ``problem_of(choice)`` returns the `Problem` for a `KernelChoice`.
    rng : RandomState
    """
    choice = KernelChoice.of(estimator)
    if choice.main_effects != "auto":
        return Decision(choice)
    without, with_effects = (choice._replace(main_effects=value) for value in (False, True))
    if not choice.is_named:
        return Decision(without)
    if estimator.warm_start and hasattr(estimator, "_theta"):
        has_effects = any(isinstance(part, MainEffects) for part in walk(estimator.kernel_))
        return Decision(with_effects if has_effects else without)
    problem = problem_of(without)
    n_varying = int(problem.spread.varies.sum())
    if not 1 < n_varying <= MOST_COLUMNS or not learns(estimator, problem.parameters):
        return Decision(without)
    simple = copy(estimator)
    simple.optimize_inducing, simple.n_restarts_optimizer = False, 0
    if simple.n_inducing == "auto":
        simple.n_inducing = min(MOST_POINTS, estimator.max_inducing)
    part = _part(problem)
    leaves_out = moves_points(estimator) or estimator.n_restarts_optimizer
    is_complete = part is problem and estimator.n_inducing != "auto" and not leaves_out

    def decision(choice, fitted, found=None):
        best, begun = fitted.best, None
        # Points that are some of the rows of a part might not suit all rows.
        first = best.points if part is problem else None
        if len(part.model.weight) > FEW_ROWS and fitted.hessian is not None:
            begun = Climb(best.theta, best, fitted.hessian)
        if found is not None:
            found = evaluated_last(found, problem) if is_complete else None
        return Decision(choice, [best.theta], first, begun, found)

    found = search(simple, part, rng)
    plain = found.result.best
    if found.result.trivial or found.result.stopped:
        return decision(without, found.result, found)
    richer = _part(problem_of(with_effects))
    begin, end = part.model.kernel.n_params, richer.model.kernel.n_params
    theta = np.insert(plain.theta, begin, richer.parameters.rescaled[begin:end])
    try:
        climbed = _climb(simple, richer, theta, plain.objective + FIRST_GAIN, rng)
    except LinAlgError:
        # The kernel without main effects is usable.
        return decision(without, found.result, found)
    best = climbed.best
    shared = np.delete(best.theta, np.arange(begin, end))
    gain = best.elbo - plain.elbo
    gain += richer.model.prior.log_density(best.theta) - part.model.prior.log_density(shared)
    least = max(np.log(part.model.total_weight), FIRST_GAIN)
    is_better = gain > least
    if estimator.verbose:
        text = (
            f"main effects: {len(part.model.weight)} rows, "
            f"bound {best.elbo + richer.offset:.4f} with them, "
            f"{plain.elbo + part.offset:.4f} without, "
            f"gain with their prior {gain:.4f} of {least:.4f} needed: "
            f"{'kept' if is_better else 'left out'}"
        )
        print_line(estimator, text, problem.progress.label)
    if is_better:
        if is_complete:
            result = result_of(richer.model, climbed, problem.progress)
            return Decision(with_effects, found=Found(result))
        return decision(with_effects, climbed)
    return decision(without, found.result, found)


def _part(problem):
    """Return the `Problem` of the rows that decide."""
    n_rows = len(problem.model.weight)
    n_rows = FEW_ROWS if n_rows < MANY_ROWS else min(int(SHARE * n_rows), MOST_ROWS)
    model = problem.model.at_most(n_rows)
    if model is problem.model:
        return problem
    rows = problem.rows._replace(X=model.X, weight=model.weight)
    return problem._replace(model=model, rows=rows)


def _climb(estimator, problem, theta, rival, rng):
    """Return the `LocalFit` of a climb from theta, which ends soon if `rival` is higher."""
    model, selector = problem.model, point_selector(estimator, problem, rng)
    bounds, progress = problem.parameters.bounds, problem.progress
    limits = Limits(min(FIRST_ITERATIONS, estimator.max_iter), 0, progress)
    start = Start(theta, None, unknown_hessian(model, len(theta)))
    found = fit_from(model, start, selector, bounds, limits)
    if found.best.objective > rival and not progress.stopped:
        limits = Limits(estimator.max_iter, estimator.max_reselections, progress)
        start = Start(found.best.theta, found.best.states, found.hessian)
        found = fit_from(model, start, selector, bounds, limits)
    return found
