"""Translate an estimator's parameters into the core's search for hyperparameters and points."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.learning.faster_functions import (
    fit_faster,
    missed_group,
    misses_fast_function,
)
from sparsegpc._core.learning.few_rows import FewRows
from sparsegpc._core.learning.fit import STOPPED, fit, solve_final
from sparsegpc._core.learning.fit_from import Climb, FitResult, Limits
from sparsegpc._core.learning.more_points import (
    FIRST_POINTS,
    affordable_points,
    are_too_few,
    fit_further,
    fit_moved,
)
from sparsegpc._core.learning.number_of_points import Growth, grow
from sparsegpc._core.learning.point_cost import keep_worthwhile_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.certification import gap_per_row
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._core.rows.unique_rows import UniqueRows, find_rows
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints
from sparsegpc._estimators.kernels.initialization import (
    faster_starts,
    group_starts,
    shorter_lengths,
    start_values,
    weak_prior,
)
from sparsegpc._estimators.kernels.log_transform import LogTransform
from sparsegpc._estimators.kernels.sklearn_kernels import AdaptedKernel, kernel_structure
from sparsegpc._estimators.kernels.spread import Spread
from sparsegpc._estimators.learning.inducing_points import AUTO, check_inducing_points, make_choice
from sparsegpc._estimators.messages.progress import print_line
from sparsegpc._estimators.selector import InducingPointSelector


class Problem(NamedTuple):
    """The inputs of the search.

    ``rows`` are `UniqueRows`; ``places`` (N,) are the indices of the user's rows from which they
    are merged; ``spread`` holds their distances; ``kernel`` is scikit-learn's kernel of f;
    ``parameters`` is an `AdaptedKernel`, extended by the parameters of the likelihood; ``model`` is
    the core's model; ``progress`` records the evaluations. ``transform`` is the `LogTransform`
    that the columns have in all of these, or None, and ``untransformed_X`` (N, D) holds the rows
    without it.
    """

    rows: UniqueRows
    places: np.ndarray
    spread: Spread
    kernel: Kernel
    parameters: AdaptedKernel
    model: SparseModel
    progress: Progress
    transform: LogTransform | None
    untransformed_X: np.ndarray | RowSource

    @property
    def offset(self):
        """The constant that converts the model's bound to the user's units by addition, in nats."""
        return self.progress.offset * self.model.total_weight

    def untransformed(self, points):
        """Return the locations of `InducingPoints` in the user's columns, shape (M, D)."""
        if self.transform is None:
            return points.Z
        if points.indices is None:
            return self.transform.inverse(points.Z)
        return self.untransformed_X[self.rows.first[points.indices]]


class Found(NamedTuple):
    """The result of a search, and how the number of points grew if ``n_inducing="auto"``."""

    result: FitResult
    growth: Growth | None = None


def evaluated_last(found, problem):
    """Evaluate what was `Found` again, and return it.

    The last evaluation that a fit reports must be that of its result, even if others were tried.
    """
    result, progress = found.result, problem.progress
    if progress.stopped:
        result = result._replace(stopped=True, message=STOPPED)
    best = result.best
    best = solve_final(problem.model, best.theta, best.points, best.states)
    progress.evaluated(problem.model, best)
    return found._replace(result=result._replace(best=best))


def search(estimator, problem, rng, *, warm=False, starts=None, first=None, begun=None):
    """Learn hyperparameters and points according to the parameters of an estimator.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem : Problem
    rng : RandomState
    warm : bool
        Whether to start from the last fit.
    starts : list of ndarray of shape (P,) or None
        Start values. None means those of the last fit if `warm`, else those of the kernel and some
        derived from the data.
    first : InducingPoints or None
        The first points. None means those of the last fit if `warm`, else points are selected.
        Ignored with ``n_inducing="auto"``.
    begun : Climb or None
        A climb from the only start, already made on a part of the rows. Ignored with
        ``n_inducing="auto"``.

    Returns
    -------
    Found
    """
    if warm:
        _check_same_kernel(estimator, problem)
        _check_same_parameters(estimator, problem)
    if estimator.n_inducing == "auto":
        return _with_enough_points(estimator, problem, rng, warm, starts)
    choose = point_selector(estimator, problem, rng, warm)
    if warm:
        first = _last_points(estimator, choose, problem.rows)
    return Found(_fit(estimator, problem, rng, choose, warm, starts, first, begun))


def _with_enough_points(estimator, problem, rng, warm, starts):
    """Return what is `Found` as the number of points grows; for the arguments see `search`."""
    rows = problem.rows

    def fit_points(n_points, starts_then):
        choose = make_choice(estimator.selector, n_points, 0.0, rows.X, rows.weight, rng)
        is_warm = warm and starts_then is None
        last = _last_points(estimator, choose, rows) if is_warm else None
        return _fit(estimator, problem, rng, choose, is_warm, starts_then, last)

    is_contradicted = None
    if not warm and learns(estimator, problem.parameters):
        starts, is_contradicted = _learned_from_few_rows(estimator, problem, starts)
    growth = grow(
        fit_points,
        partial(_gap, estimator, problem),
        problem.model,
        starts=starts,
        tol=estimator.certificate_tol,
        max_points=min(estimator.max_inducing, len(rows.X)),
        learns=learns(estimator, problem.parameters),
        is_contradicted=is_contradicted,
    )
    for step in growth.history:
        step["lower_bound"] += problem.offset
    return Found(growth.result, growth)


def find_faster_function(estimator, problem, result, rng):
    """Return the `FitResult` from short length scales if a fast function was taken for noise."""
    may_learn = learns(estimator, problem.parameters)
    if not may_learn or estimator.n_inducing == "auto" or result.has_moved:
        return result
    starts = _faster_starts(problem, result)
    if not starts:
        return result
    return fit_faster(
        problem.model,
        result,
        starts,
        point_selector(estimator, problem, rng),
        limits_of(estimator, problem),
        _reporter(estimator, problem),
    )


def _faster_starts(problem, result):
    """Return starts for the functions that deviations from a `FitResult` show, if any."""
    parameters, spread, theta = problem.parameters, problem.spread, result.best.theta
    if all(column is None for column in parameters.columns):
        return []
    group = missed_group(problem.model, result, np.flatnonzero(spread.varies).tolist())
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
    if len(result.best.points.Z) < _most_points(problem):
        if not are_too_few(model, result):
            return result
        result = _with_more_points(estimator, problem, result, rng)
    may_move = estimator.optimize_inducing == "auto" and estimator.selector == AUTO
    may_move = may_move and learns(estimator, problem.parameters) and _can_move(problem)
    if may_move and are_too_few(model, result):
        result = fit_moved(model, result, limits_of(estimator, problem))
    return result


def _with_more_points(estimator, problem, result, rng):
    """Return the `FitResult` with the most points that a fit uses by default."""
    n_points, tol, rows = _most_points(problem), estimator.selection_tol, problem.rows
    choose = make_choice(estimator.selector, n_points, tol, rows.X, rows.weight, rng)
    limits, report = limits_of(estimator, problem), _reporter(estimator, problem)
    return fit_further(problem.model, result, choose, limits, report)


def moves_points(estimator):
    """Return whether every fit moves its points."""
    may_move = estimator.optimizer is not None and estimator.optimize_inducing != "auto"
    return may_move and bool(estimator.optimize_inducing)


def _most_points(problem):
    """Return the most points that a fit uses by default."""
    return affordable_points(len(problem.rows.X), problem.model.n_functions)


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


def _learned_from_few_rows(estimator, problem, starts):
    """Return starts learned from a few rows, and a function that tells if they contradict a theta.

    If all that is learned is a constant function, return the given `starts`, and None.
    """
    parameters = problem.parameters
    given = start_values(parameters, problem.spread) if starts is None else starts
    prior = weak_prior(parameters, problem.spread)
    few = FewRows(problem.model, limits_of(estimator, problem), prior)
    needed, _ = few.climbs(list(map(Climb, given)))
    if not few.beats_constant(needed[0]):
        return starts, None
    return [climb.end.theta for climb in needed], partial(few.contradict, best=needed[0])


def with_likelihood(parameters, model):
    """Return an `AdaptedKernel` extended by the likelihood's parameters for each output.

    Raises ValueError if the initial values of a likelihood are not within its bounds.
    """
    likelihood, weight = model.likelihood, model.weight
    for k, y in enumerate(model.targets):
        start, bounds = likelihood.initial_params(y, weight), likelihood.params_bounds(y, weight)
        _check_start(likelihood, start, bounds)
        suffix = "" if len(model.targets) == 1 else f" of output {k}"
        names = [name + suffix for name in likelihood.params_names()]
        parameters = parameters.extended(start, bounds, names, likelihood.to_little_noise)
    return parameters


def _check_start(likelihood, start, bounds):
    """Raise ValueError if initial parameters of a likelihood are not within their bounds."""
    name, n_params = type(likelihood).__name__, likelihood.n_params
    for method, value, shape in (
        ("initial_params", start, (n_params,)),
        ("params_bounds", bounds, (n_params, 2)),
    ):
        if np.shape(value) != shape:
            raise ValueError(
                f"{name}.{method} must return an array of shape {shape}, as {name}.n_params is "
                f"{n_params}, got shape {np.shape(value)}"
            )
    start, (low, high) = np.asarray(start), np.asarray(bounds).T
    if not ((low <= start) & (start <= high) & np.isfinite(start)).all():
        raise ValueError(
            f"{name}.initial_params must be finite and within {name}.params_bounds, got "
            f"{start.tolist()} for the bounds {np.asarray(bounds).tolist()}: change one of them"
        )


def resolve_slack(bound, likelihood, *, in_batches=False):
    """Return the `Slack` named by the parameter `bound`; "auto" means the tightest one."""
    offered, where = likelihood.slacks, ""
    if in_batches:
        offered, where = sums_over_rows(offered), " from minibatches"
    if bound != "auto" and bound not in offered:
        raise ValueError(
            f"bound={bound!r} is not available for {type(likelihood).__name__}{where}: choose "
            f"'auto' or one of {offered}"
        )
    return SLACKS[offered[0] if bound == "auto" else bound]


def check_auto(estimator):
    """Raise ValueError if ``n_inducing="auto"`` but `selector` is not the name of a method."""
    if estimator.n_inducing == "auto" and not isinstance(estimator.selector, str):
        raise ValueError(
            "n_inducing='auto' needs a selector by name, which can choose any number of "
            f"points, got selector of type {type(estimator.selector).__name__}: give a "
            "name, or a number of points"
        )


def learns(estimator, parameters):
    """Return whether hyperparameters are learned."""
    return estimator.optimizer is not None and len(parameters.theta) > 0


def limits_of(estimator, problem):
    """Return the `Limits` of a fit."""
    learned = learns(estimator, problem.parameters) or moves_points(estimator)
    max_iter = estimator.max_iter if learned else 0
    return Limits(problem.parameters.bounds, max_iter, estimator.max_reselections, problem.progress)


def _fit(estimator, problem, rng, choose, warm, starts, first, begun=None):
    """Return the `FitResult` for one choice of points."""
    parameters = problem.parameters
    is_learned = learns(estimator, parameters)
    moves = moves_points(estimator)
    if moves:
        _check_points_may_move(problem)
    cold = [parameters.theta]
    if is_learned:
        cold = start_values(parameters, problem.spread)
    is_cold = starts is None and not warm
    # Few rows may not tell how good the user's own start is.
    own = cold[:1] if is_cold and isinstance(estimator.kernel, Kernel) else []
    fallbacks = cold if is_learned and not is_cold else []
    # Other starts come from a fit that has tried them.
    alternatives = shorter_lengths(parameters, problem.spread) if is_cold else None
    if starts is None:
        starts = [estimator._theta] if warm else cold
    return fit(
        problem.model,
        starts,
        choose,
        limits_of(estimator, problem),
        move_points=moves,
        restarts=[*own, *_restarts(estimator, problem, rng)] if is_learned else [],
        fallbacks=fallbacks,
        first=first,
        begun=begun,
        weak_prior=weak_prior(parameters, problem.spread),
        alternatives=alternatives,
        report=_reporter(estimator, problem),
    )


def _restarts(estimator, problem, rng):
    """Return starts drawn log-uniformly within the bounds."""
    n_restarts, bounds = estimator.n_restarts_optimizer, problem.parameters.bounds
    if n_restarts and not np.isfinite(bounds).all():
        raise ValueError(
            f"n_restarts_optimizer={n_restarts} draws hyperparameters between their bounds, so "
            f"all bounds, those of kernel {problem.kernel} first, must be finite and positive, got "
            f"{np.exp(bounds).tolist()}: change the bounds, or set n_restarts_optimizer=0"
        )
    return [rng.uniform(*bounds.T) for _ in range(n_restarts)]


def point_selector(estimator, problem, rng, warm=False):
    """Return the selector of points that the parameter `selector` specifies."""
    selector, rows = estimator.selector, problem.rows
    if isinstance(selector, str):
        n_points = estimator.n_inducing
        if n_points is None:
            n_last = len(estimator.inducing_points_) if warm else 0
            n_points = max(FIRST_POINTS, min(n_last, _most_points(problem)))
        return make_choice(selector, n_points, estimator.selection_tol, rows.X, rows.weight, rng)
    if not isinstance(selector, InducingPointSelector):
        points = check_inducing_points(selector, estimator.n_features_in_)
        return FixedSelector(points if problem.transform is None else problem.transform(points))
    selector._validate_params()
    for name in ("kernel", "weighting"):
        if getattr(selector, name) is not None:
            raise ValueError(
                f"selector.{name} must be None within {type(estimator).__name__}, which uses its "
                f"own, got {getattr(selector, name)!r}: leave it out"
            )
    if selector.random_state is not None:
        rng = check_random_state(selector.random_state)
    return make_choice(
        selector.method,
        selector.n_components,
        selector.tol,
        rows.X,
        rows.weight,
        rng,
    )


def check_same_columns(estimator):
    """Raise ValueError if the last fit had other columns."""
    n_columns = estimator.inducing_points_.shape[1]
    if n_columns != estimator.n_features_in_:
        raise ValueError(
            f"warm_start=True needs the columns of the last fit: it had {n_columns}, X has "
            f"{estimator.n_features_in_}; set warm_start=False to start afresh"
        )


def _check_same_kernel(estimator, problem):
    """Raise ValueError if the last fit had another kernel structure."""
    before = estimator.kernel_
    if kernel_structure(problem.kernel) != kernel_structure(before):
        raise ValueError(
            f"warm_start=True needs the kernel structure of the last fit: it had "
            f"{before} with {_free(before)} free, kernel is {problem.kernel} with "
            f"{_free(problem.kernel)} free; set warm_start=False to start afresh"
        )


def _check_same_parameters(estimator, problem):
    """Raise ValueError if the last fit had other parameters of the likelihood or the noise."""
    n_kernel = problem.model.kernel.n_params
    before, now = len(estimator._theta) - n_kernel, len(problem.parameters.theta) - n_kernel
    if before != now:
        raise ValueError(
            "warm_start=True needs the parameters of the likelihood and the noise of the last fit: "
            f"it had {before} parameters beside those of the kernel, this one has {now}; set "
            "warm_start=False to start afresh"
        )


def _free(kernel):
    return [h.name for h in kernel.hyperparameters if not h.fixed] or "nothing"


def _last_points(estimator, choose, rows):
    """Return the points of the last fit, or None if the parameters do not allow them."""
    points = estimator._posterior.Z
    if choose.fixed or len(points) > choose.n_points or estimator.point_cost > 0.0:
        return None
    Z_noise = None if estimator._noise is None else estimator._noise.points
    return InducingPoints(points, find_rows(points, rows.X), None, Z_noise)


def _check_points_may_move(problem):
    """Raise ValueError if a kernel has no derivatives w.r.t. the points."""
    kernel, X = problem.parameters.kernel, problem.rows.X
    theta = np.zeros(kernel.n_params)
    try:
        kernel.evaluate(theta, X[:1], X[:1])[1](np.ones((1, 1)), wrt_Z=True)
    except NotImplementedError as error:
        raise ValueError(f"optimize_inducing=True is not possible: {error}") from error


def _can_move(problem):
    """Return whether the kernel has derivatives w.r.t. the points."""
    try:
        _check_points_may_move(problem)
    except ValueError:
        return False
    return True


def _reporter(estimator, problem):
    """Return the function that prints each choice of points, None if the estimator is silent."""
    if not estimator.verbose:
        return None

    def report(n_choices, n_points, bound):
        text = f"choice {n_choices}: {n_points} points, bound {bound + problem.offset:.4f}"
        print_line(estimator, text, problem.progress.label)

    return report


def _gap(estimator, problem, evaluation):
    """Return the gap of the certificate in nats per row; report it if the estimator is verbose."""

    def report(text):
        if estimator.verbose:
            size = len(evaluation.points.Z)
            print_line(estimator, f"certificate of {size} points: {text}", problem.progress.label)

    def before_pass():
        report("one pass over the kernel matrix with all points")

    gap = gap_per_row(problem.model, evaluation, estimator.certificate_tol, before_pass)
    report(f"gap {gap:.3g} nats per row")
    return gap
