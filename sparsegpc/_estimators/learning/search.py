"""Search for the hyperparameters and the points, from the starts that the parameters imply."""

from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.few_rows import FewRows
from sparsegpc._core.learning.fit import Starts, finished, fit
from sparsegpc._core.learning.fit_from import Climb, FitResult
from sparsegpc._core.learning.number_of_points import Growth, grow
from sparsegpc._core.models.certification import gap_per_row
from sparsegpc._estimators.kernels.initialization import shorter_lengths, start_values, weak_prior
from sparsegpc._estimators.learning.fit_options import (
    check_points_may_move,
    learns,
    limits_of,
    moves_points,
    point_selector,
    reporter,
)
from sparsegpc._estimators.learning.inducing_points import make_selector
from sparsegpc._estimators.learning.warm_start import check_same_model, is_warm, last_points
from sparsegpc._estimators.messages.progress import print_line


class Found(NamedTuple):
    """The result of a search, and how the number of points grew if ``n_inducing="auto"``."""

    result: FitResult
    growth: Growth | None = None

    def evaluated_last(self, problem):
        """Return what was found, evaluated again after other evaluations."""
        result = finished(problem.model, self.result, problem.progress)
        return self._replace(result=result)


def search(estimator, problem, rng, starts=None):
    """Learn hyperparameters and points according to the parameters of an estimator.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem : Problem
    rng : RandomState
    starts : Starts or None
        None means what the last fit learned, with its points, if the estimator goes on from there;
        else the values of the kernel and some derived from the data. With ``n_inducing="auto"``
        only the values count.

    Returns
    -------
    Found
    """
    warm = starts is None and is_warm(estimator)
    if warm:
        check_same_model(estimator, problem)
        starts = Starts([estimator._theta])
    if estimator.n_inducing == "auto":
        return _with_enough_points(estimator, problem, rng, warm, starts)
    selector = point_selector(estimator, problem, rng, warm)
    if warm:
        starts = starts._replace(points=last_points(estimator, selector, problem.rows))
    return Found(_fit(estimator, problem, rng, selector, starts))


def _fit(estimator, problem, rng, selector, starts):
    """Return the `FitResult` with the points of a selector; for the arguments see `search`."""
    parameters, spread = problem.parameters, problem.spread
    moves, is_learned = moves_points(estimator), learns(estimator, parameters)
    if moves:
        check_points_may_move(problem)
    values = start_values(parameters, spread) if is_learned else [parameters.theta]
    restarts = _restarts(estimator, problem, rng) if is_learned else []
    if starts is None:
        alternatives = shorter_lengths(parameters, spread)
        # Few rows may not tell how good the user's own start is.
        own = values[:1] if is_learned and isinstance(estimator.kernel, Kernel) else []
        starts = Starts(values, restarts=[*own, *restarts])
    else:
        # The fit from which they come has tried shorter length scales.
        alternatives = None
        starts = starts._replace(restarts=restarts, fallbacks=values if is_learned else [])
    return fit(
        problem.model,
        starts,
        selector,
        limits_of(estimator, problem),
        move_points=moves,
        weak_prior=weak_prior(parameters, spread),
        alternatives=alternatives,
        report=reporter(estimator, problem),
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


def _with_enough_points(estimator, problem, rng, warm, starts):
    """Return what is `Found` as the number of points grows; for the arguments see `search`."""
    rows, first = problem.rows, None if starts is None else starts.values

    def fit_points(n_points, values):
        selector = make_selector(estimator.selector, n_points, 0.0, rows.X, rows.weight, rng)
        last = last_points(estimator, selector, rows) if warm and values is first else None
        starts = None if values is None else Starts(values, last)
        return _fit(estimator, problem, rng, selector, starts)

    is_contradicted = None
    if not warm and learns(estimator, problem.parameters):
        first, is_contradicted = _learned_from_few_rows(estimator, problem, first)
    growth = grow(
        fit_points,
        partial(_gap, estimator, problem),
        problem.model,
        starts=first,
        tol=estimator.certificate_tol,
        max_points=min(estimator.max_inducing, len(rows.X)),
        learns=learns(estimator, problem.parameters),
        is_contradicted=is_contradicted,
    )
    for step in growth.history:
        step["lower_bound"] += problem.offset
    return Found(growth.result, growth)


def _learned_from_few_rows(estimator, problem, values):
    """Return starts learned from a few rows, and a function that tells if they contradict a theta.

    If all that is learned is a constant function, return the given `values`, and None.
    """
    parameters = problem.parameters
    given = start_values(parameters, problem.spread) if values is None else values
    prior = weak_prior(parameters, problem.spread)
    few = FewRows(problem.model, limits_of(estimator, problem), prior)
    needed, _ = few.climbs(list(map(Climb, given)))
    if not few.beats_constant(needed[0]):
        return values, None
    return [climb.end.theta for climb in needed], partial(few.contradict, best=needed[0])


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
