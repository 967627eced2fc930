"""Steps after the search: a faster function, more or better points, all rows, costly points.

Each takes a `FittedProblem` and returns another, or the same if there is nothing to do.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.diagnostics.verdicts import (
    HIGH_COST_PER_ROW,
    NEGLIGIBLE_COST_PER_ROW,
    SMALL_COST_PER_ROW,
    are_too_few,
)
from sparsegpc._core.learning.all_rows import on_all_rows
from sparsegpc._core.learning.faster_functions import fit_faster
from sparsegpc._core.learning.more_points import fit_moved, fit_with_more_points
from sparsegpc._core.learning.point_cost import keep_worthwhile_points
from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._estimators.improvements.missed_functions import missed_function_starts
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.point_selection import (
    AUTO,
    named_selector,
    selector_in_use,
    specified_selector,
)
from sparsegpc._estimators.learning.problem_fit import check_points_may_move
from sparsegpc._estimators.learning.search import search


def with_faster_function(fitted):
    """Search from other starts if a fast or steep function was taken for noise.

    Return the better `FittedProblem`; the given one if this was tried before.
    """
    result = fitted.result
    is_settled = fitted.sought_faster or (result.has_moved and not result.trivial)
    if is_settled or not fitted.problem.learns:
        return fitted
    # A function of a single column is better described by a main effect, if these were tried.
    choice, spread = KernelChoice.of(fitted.problem.estimator), fitted.problem.spread
    may_be_single = not choice.may_have_effects(spread)
    of_column, others = missed_function_starts(fitted.problem, result.best, may_be_single)
    if of_column or others:
        fitted = _better_from(fitted, of_column, others)
    return fitted._replace(sought_faster=True)


def _better_from(fitted, of_column, others):
    """Return the better of a `FittedProblem` and fits from starts for missed functions.

    Those in `of_column` are for a function of a single column, for which twice as many points are
    tried, too.
    """
    problem, result, thetas = fitted.problem, fitted.result, [*of_column, *others]
    if problem.seeks_number:
        return better_with_enough_points(fitted, thetas)
    selector, settings = specified_selector(problem), problem.settings
    faster = fit_faster(problem.model, result, thetas, selector, settings)
    is_found = not np.array_equal(faster.best.theta, result.best.theta)
    may_grow = problem.chooses_points and len(problem.model.weight) > problem.default_points.first
    if of_column and may_grow and not (is_found or problem.progress.stopped):
        # In a single column they resolve a function that is twice as fast.
        selector = named_selector(problem, 2 * problem.default_points.first)
        faster = fit_faster(problem.model, result, of_column, selector, settings)
    if problem.moves_points and not (faster.trivial or problem.progress.stopped):
        faster = fit_moved(problem.model, faster, settings)
    return fitted._replace(result=faster)


def better_with_enough_points(fitted, thetas):
    """Return the better of a `FittedProblem` and what a search from other starts learns.

    With ``n_inducing="auto"`` other hyperparameters need another number of points.
    """
    try:
        other = search(fitted.problem, StartOptions(thetas))
        if other.result.best.objective > fitted.result.best.objective:
            return other.evaluated_last()
    except LinAlgError:
        # Keep the fit we have.
        pass
    return fitted.evaluated_last()


def with_search_from(fitted, theta):
    """Return the better of a `FittedProblem` and a search from `theta` with as many points.

    If `theta` is None, return the given one, evaluated last.
    """
    if theta is None:
        return fitted.evaluated_last()
    problem, result = fitted.problem, fitted.result
    model, best, settings = problem.model, result.best, problem.settings
    if problem.seeks_number:
        # The certificate has to hold for what is learned in the end.
        return better_with_enough_points(fitted, [theta])
    start, reached = Start(theta, best.states, result.hessian), best.objective
    selector = selector_in_use(problem, len(best.points.Z))
    try:
        found = fit_from(model, start, selector, settings, to_beat=reached)
        if found.best.objective > reached:
            result = result.followed_by(found)
            if problem.moves_points and not problem.progress.stopped:
                result = fit_moved(model, result, settings)
    except LinAlgError:
        # Keep the fit we have.
        pass
    return fitted._replace(result=result).evaluated_last()


def with_more_points(fitted):
    """Fit with more points if they are too few and the fit may choose.

    If they are nearly enough, take twice as many as at first.
    """
    problem, result = fitted.problem, fitted.result
    if not problem.chooses_points:
        return fitted
    # In very many rows, a small gain in each is a large one.
    most_cost = NEGLIGIBLE_COST_PER_ROW if problem.learns_from_part else HIGH_COST_PER_ROW
    n_points = problem.default_points.most
    if not are_too_few(problem.model, result.best, most_cost):
        if problem.model.cost_per_row(result.best) <= SMALL_COST_PER_ROW:
            return fitted
        n_points = min(n_points, 2 * problem.default_points.first)
    return fitted if n_points <= len(result.best.points.Z) else with_points(fitted, n_points)


def with_points(fitted, n_points):
    """Fit with so many points, and return the better result."""
    problem, result = fitted.problem, fitted.result
    selector = named_selector(problem, n_points)
    result = fit_with_more_points(problem.model, result, selector, problem.settings)
    return fitted._replace(result=result)


def with_moved_points(fitted):
    """Move the points if they are too few and the fit may choose."""
    problem, result = fitted.problem, fitted.result
    if not _may_move(problem) or not are_too_few(problem.model, result.best):
        return fitted
    return fitted._replace(result=fit_moved(problem.model, result, problem.settings))


def _may_move(problem):
    """Return whether the points may be moved if they are too few."""
    estimator = problem.estimator
    is_free = problem.chooses_points and problem.learns
    if not is_free or estimator.optimize_inducing != "auto" or estimator.selector != AUTO:
        return False
    try:
        check_points_may_move(problem)
    except NotImplementedError:
        return False
    return True


def with_all_rows(fitted):
    """Compute the posterior of all rows, if only a part of them was used."""
    problem, result = fitted.problem, fitted.result
    if not problem.learns_from_part:
        return fitted
    result = on_all_rows(problem.whole, result, problem.progress)
    problem = problem._replace(model=problem.whole)
    bound, n_rows = result.best.elbo + problem.offset, len(problem.model.weight)
    problem.print_line(f"all {n_rows} rows: {len(result.best.points.Z)} points, bound {bound:.4f}")
    # Alternatives have the posterior of the part only.
    return fitted._replace(problem=problem, result=result, alternatives=())


def with_worthwhile_points(fitted):
    """Remove the points that gain less than ``point_cost``."""
    problem, result = fitted.problem, fitted.result
    cost = float(problem.estimator.point_cost)
    if cost == 0.0:
        return fitted
    smaller = keep_worthwhile_points(problem.model, result, cost, problem.progress)
    sizes = [len(each.best.points.Z) for each in (smaller, result)]
    bound = smaller.best.elbo + problem.offset
    problem.print_line(
        f"{sizes[0]} of {sizes[1]} points gain at least {cost:g} nats, bound {bound:.4f}"
    )
    return fitted._replace(result=smaller)
