"""Search for the hyperparameters and the points, from the starts that the parameters imply."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.few_rows import FewRows
from sparsegpc._core.learning.fit import STOPPED, Starts, finished, fit
from sparsegpc._core.learning.fit_from import Climb, FitResult, Start, fit_from
from sparsegpc._core.learning.more_points import FIRST_POINTS
from sparsegpc._core.learning.number_of_points import Growth, grow
from sparsegpc._core.models.fixed_sites import gap_per_row
from sparsegpc._estimators.kernels.initialization import (
    shorter_lengths,
    start_values,
    summand_starts,
    weak_prior,
)
from sparsegpc._estimators.kernels.sklearn_kernels import summand_places
from sparsegpc._estimators.learning.point_selection import point_selector, selector_by_name
from sparsegpc._estimators.learning.problem import Problem
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
        result = finished(self.problem.model, self.result, self.problem.progress)
        return self._replace(result=result)


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
        return _with_enough_points(problem, warm, starts)
    selector = point_selector(problem, warm)
    if warm:
        starts = starts._replace(points=last_points(problem, selector))
    return Learned(problem, _fit(problem, selector, starts))


def _fit(problem, selector, starts):
    """Return the `FitResult` with the points of a selector; for the starts see `search`."""
    parameters, spread = problem.parameters, problem.spread
    if problem.moves_points:
        try:
            problem.check_points_may_move()
        except NotImplementedError as error:
            raise ValueError(f"optimize_inducing=True is not possible: {error}") from error
    values = start_values(parameters, spread) if problem.learns else [parameters.theta]
    restarts = _restarts(problem) if problem.learns else []
    if starts is None:
        alternatives = shorter_lengths(parameters, spread)
        # Few rows may not tell how good the user's own start is.
        is_own = problem.learns and isinstance(problem.estimator.kernel, Kernel)
        simpler = _simpler_starts(problem)
        starts = Starts(values, restarts=[*values[: int(is_own)], *restarts], simpler=simpler)
    else:
        # The fit from which they come has tried shorter length scales.
        alternatives = None
        starts = starts._replace(restarts=restarts, fallbacks=values if problem.learns else [])
    return fit(
        problem.model,
        starts,
        selector,
        problem.limits,
        move_points=problem.moves_points,
        weak_prior=weak_prior(parameters, spread),
        alternatives=alternatives,
        report=problem.report,
    )


def _restarts(problem):
    """Return starts drawn log-uniformly within the bounds."""
    n_restarts, bounds = problem.estimator.n_restarts_optimizer, problem.parameters.bounds
    if n_restarts and not np.isfinite(bounds).all():
        raise ValueError(
            f"n_restarts_optimizer={n_restarts} draws hyperparameters between their bounds, so "
            f"all bounds, those of kernel {problem.kernel} first, must be finite and positive, got "
            f"{np.exp(bounds).tolist()}: change the bounds, or set n_restarts_optimizer=0"
        )
    return [problem.rng.uniform(*bounds.T) for _ in range(n_restarts)]


def _simpler_starts(problem):
    """Return starts at which a single summand of a kernel matters that the user gave."""
    parameters, model = problem.parameters, problem.model
    if not problem.learns or not isinstance(problem.estimator.kernel, Kernel):
        return []
    places = summand_places(problem.kernel, parameters.names[: model.kernel.n_params])
    return summand_starts(parameters, problem.spread, model, places)


def _with_enough_points(problem, warm, starts):
    """Return what is `Learned` as the number of points grows; for the starts see `search`."""
    estimator, first = problem.estimator, None if starts is None else starts.values

    def fit_points(n_points, values):
        selector = selector_by_name(problem, n_points, tol=0.0)
        last = last_points(problem, selector) if warm and values is first else None
        return _fit(problem, selector, None if values is None else Starts(values, last))

    grown = partial(
        grow,
        fit_points,
        partial(_gap, problem),
        problem.model,
        tol=estimator.certificate_tol,
        max_points=min(estimator.max_inducing, len(problem.model.weight)),
        learns=problem.learns,
    )
    is_contradicted = None
    if problem.learns and not warm:
        first, is_contradicted = _learned_from_few_rows(problem, first)
    growth = grown(starts=first, is_contradicted=is_contradicted)
    if starts is not None and not (warm or growth.result.stopped):
        try:
            theta, n_points = _missed(problem, starts, growth.result)
            if theta is not None:
                again = grown(starts=[theta], first_size=n_points)
                if again.result.best.objective > growth.result.best.objective:
                    growth = again._replace(history=[*growth.history, *again.history])
        except LinAlgError:
            # More points may lie too close together; what was learned is usable.
            pass
        if problem.progress.stopped:
            result = growth.result._replace(message=STOPPED, stopped=True)
            growth = growth._replace(result=result, end="stopped")
    for step in growth.history:
        step["lower_bound"] += problem.offset
    return Learned(problem, growth.result, growth)


def _missed(problem, starts, result):
    """Return the first of the `Starts` if it is better than a `FitResult`, and a number of points.

    It was learned from more rows than the few from which the number of points grew, and few rows or
    points may show nothing of a function that varies fast. So it is evaluated with ever more
    points, up to those that a fit uses by default. It is better by more than what an addition to
    the kernel must gain, and than the certificate allows; otherwise, return None for it.
    """
    estimator, model, theta = problem.estimator, problem.model, starts.values[0]
    n_most = min(problem.most_points, estimator.max_inducing, len(model.weight))
    n_points = min(max(FIRST_POINTS, len(result.best.points.Z)), n_most)
    tol = estimator.certificate_tol * model.total_weight
    needed = result.best.objective + max(problem.needed_gain, tol)
    limits = problem.limits._replace(max_iter=0, max_reselections=0)
    while True:
        selector = selector_by_name(problem, n_points, tol=0.0)
        found = fit_from(model, Start(theta), selector, limits).best
        if found.objective > needed:
            return theta, n_points
        if n_points == n_most or problem.progress.stopped:
            return None, n_points
        n_points = min(2 * n_points, n_most)


def _learned_from_few_rows(problem, values):
    """Return starts learned from a few rows, and a function that tells if they contradict a theta.

    If all that is learned is a constant function, return the given `values`, and None.
    """
    parameters, spread = problem.parameters, problem.spread
    given = start_values(parameters, spread) if values is None else values
    few = FewRows(problem.model, problem.limits, weak_prior(parameters, spread))
    needed, _ = few.climbs(list(map(Climb, given)))
    if not few.beats_constant(needed[0]):
        return values, None
    simpler = few.preferred(_simpler_starts(problem), needed[0].end.theta)
    if simpler is not None:
        needed = [simpler, *needed]
    return [climb.end.theta for climb in needed], partial(few.contradict, best=needed[0])


def _gap(problem, evaluation):
    """Return the gap of the certificate in nats per row; report it if the estimator is verbose."""

    def report(text):
        problem.print_line(f"certificate of {len(evaluation.points.Z)} points: {text}")

    def before_pass():
        report("one pass over the kernel matrix with all points")

    gap = gap_per_row(problem.model, evaluation, problem.estimator.certificate_tol, before_pass)
    report(f"gap {gap:.3g} nats per row")
    return gap
