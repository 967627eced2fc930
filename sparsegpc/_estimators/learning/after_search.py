"""Steps after the search: a faster function, more or better points, and what points cost."""

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.faster_functions import (
    fit_faster,
    missed_group,
    misses_fast_function,
)
from sparsegpc._core.learning.fit import Starts
from sparsegpc._core.learning.more_points import are_too_few, fit_further, fit_moved
from sparsegpc._core.learning.point_cost import keep_worthwhile_points
from sparsegpc._estimators.kernels.initialization import (
    faster_starts,
    group_starts,
    own_lengths,
)
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.fit_options import (
    learns,
    limits_of,
    most_points,
    moves_points,
    point_selector,
    points_can_move,
    reporter,
)
from sparsegpc._estimators.learning.inducing_points import AUTO, make_selector
from sparsegpc._estimators.learning.search import Found, search
from sparsegpc._estimators.messages.progress import print_line


def find_faster_function(estimator, problem, found, rng):
    """Return what is `Found` from short length scales if a fast function was taken for noise.

    Where one was looked for already, nothing is done.
    """
    result = found.result
    is_settled = result.sought_faster or (result.has_moved and not result.trivial)
    if not learns(estimator, problem.parameters) or is_settled:
        return found
    found = _with_faster_function(estimator, problem, found, rng)
    return found._replace(result=found.result._replace(sought_faster=True))


def _with_faster_function(estimator, problem, found, rng):
    """Return the better of what is `Found` and fits from short length scales, if any may help."""
    result = found.result
    starts = _faster_starts(estimator, problem, result)
    if not starts:
        return found
    if estimator.n_inducing == "auto":
        return _found_anew(estimator, problem, found, rng, starts)
    selector = point_selector(estimator, problem, rng)
    limits, report = limits_of(estimator, problem), reporter(estimator, problem)
    faster = fit_faster(problem.model, result, starts, selector, limits, report)
    if moves_points(estimator) and not (faster.trivial or faster.stopped):
        faster = fit_moved(problem.model, faster, limits)
    return Found(faster)


def _found_anew(estimator, problem, found, rng, starts):
    """Return the better of what is `Found` and a search from other starts.

    Other hyperparameters need another number of points.
    """
    try:
        other = search(estimator, problem, rng, Starts(starts))
        if other.result.best.objective > found.result.best.objective:
            return other
    except LinAlgError:
        # What was found is usable.
        pass
    return found.evaluated_last(problem)


def _faster_starts(estimator, problem, result):
    """Return starts for the functions that deviations from a `FitResult` show, if any."""
    parameters, spread, theta = problem.parameters, problem.spread, result.best.theta
    if all(column is None for column in parameters.columns):
        return []
    columns = list(own_lengths(parameters, spread))
    # A function of a single column is rather a main effect, if these were tried.
    has_effects = KernelChoice.of(estimator).may_have_effects(spread)
    group = missed_group(problem.model, result, columns, may_be_single=not has_effects)
    starts = [] if group is None else group_starts(parameters, spread, theta, group)
    if misses_fast_function(problem.model, result):
        starts += faster_starts(parameters, spread, theta)
    return starts


def improve_points(estimator, problem, result, rng):
    """Return the `FitResult` with more points, and then moved ones, while they are too few.

    Their number must be left to the fit, and if they are to move their kind, too.
    """
    model = problem.model
    is_free = estimator.n_inducing is None and isinstance(estimator.selector, str)
    if not is_free or moves_points(estimator):
        return result
    if len(result.best.points.Z) < most_points(problem):
        if not are_too_few(model, result):
            return result
        result = _with_more_points(estimator, problem, result, rng)
    may_move = estimator.optimize_inducing == "auto" and estimator.selector == AUTO
    may_move = may_move and learns(estimator, problem.parameters) and points_can_move(problem)
    if may_move and are_too_few(model, result):
        result = fit_moved(model, result, limits_of(estimator, problem))
    return result


def _with_more_points(estimator, problem, result, rng):
    """Return the `FitResult` with the most points that a fit uses by default."""
    n_points, tol, rows = most_points(problem), estimator.selection_tol, problem.rows
    selector = make_selector(estimator.selector, n_points, tol, rows.X, rows.weight, rng)
    limits, report = limits_of(estimator, problem), reporter(estimator, problem)
    return fit_further(problem.model, result, selector, limits, report)


def pay_for_points(estimator, problem, result):
    """Return the `FitResult` without the points that gain less than ``point_cost``."""
    if estimator.point_cost == 0.0:
        return result
    cost, progress = float(estimator.point_cost), problem.progress
    smaller = keep_worthwhile_points(problem.model, result, cost, progress)
    if estimator.verbose:
        sizes = [len(each.best.points.Z) for each in (smaller, result)]
        bound = smaller.best.elbo + problem.offset
        text = f"{sizes[0]} of {sizes[1]} points gain at least {cost:g} nats, bound {bound:.4f}"
        print_line(estimator, text, progress.label)
    return smaller
