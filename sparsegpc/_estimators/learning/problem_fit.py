"""Fit a problem with the points of a selector, from the starts that the parameters imply."""

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._core.learning.few_rows import START_ROWS
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._estimators.kernels.initialization import (
    shorter_starts,
    single_columns,
    summand_starts,
)
from sparsegpc._estimators.kernels.kernel_trees import summand_indices
from sparsegpc._estimators.kernels.period_starts import function_starts


def fit_problem(problem, selector, starts):
    """Return the `FitResult` with the points of a selector, from `StartOptions`.

    ``starts=None`` means the kernel's own values and some derived from the data.
    """
    hyperparameters, settings = problem.hyperparameters, problem.settings
    if problem.moves_points:
        try:
            check_points_may_move(problem)
        except NotImplementedError as error:
            raise ValueError(f"optimize_inducing=True is not possible: {error}") from error
    values, restarts, periodic = [hyperparameters.theta], [], []
    if problem.learns:
        values, periodic = function_starts(problem)
        restarts = _restarts(problem)
    if starts is None:
        starts = StartOptions(
            values,
            on_all_rows=_starts_on_all_rows(problem, values, periodic[:1]),
            restarts=restarts,
            simpler=simpler_starts(problem, values),
            single_columns=_single_columns(problem),
        )
    else:
        # The fit from which they come has tried shorter length scales.
        settings = settings._replace(shorter_lengths=None)
        starts = starts._replace(restarts=restarts, fallbacks=values if problem.learns else [])
    return fit(problem.model, starts, selector, settings, move_points=problem.moves_points)


def evaluate_problem(problem, selector, theta, states=None):
    """Return the `Evaluation` at theta with newly selected points, without a gradient.

    `states` are those from which to solve for the sites, None for those of a new model.
    """
    settings = problem.settings._replace(max_iter=0, max_reselections=0, report=None)
    return fit_from(problem.model, Start(theta, states), selector, settings).best


def check_points_may_move(problem):
    """Raise NotImplementedError if the kernel has no derivatives w.r.t. the points."""
    kernel, X = problem.hyperparameters.kernel, problem.model.X
    _, pullback = kernel.evaluate(np.zeros(kernel.n_params), X[:1], X[:1])
    pullback(np.ones((1, 1)), wrt_Z=True)


def _starts_on_all_rows(problem, values, periodic):
    """Return starts whose worth few rows may not tell: the user's own, short lengths, periods.

    The user's own are the first of the `values`, and `periodic` are those with periods.
    """
    if not problem.learns:
        return []
    found = values[:1] if isinstance(problem.estimator.kernel, Kernel) else []
    if len(problem.model.weight) > START_ROWS:
        found = found + shorter_starts(problem.hyperparameters, problem.spread, found) + periodic
    return found


def _restarts(problem):
    """Return starts drawn log-uniformly within the bounds."""
    n_restarts, bounds = problem.estimator.n_restarts_optimizer, problem.hyperparameters.bounds
    if n_restarts and not np.isfinite(bounds).all():
        raise ValueError(
            f"n_restarts_optimizer={n_restarts} draws hyperparameters between their bounds, so "
            f"all bounds, those of kernel {problem.kernel} first, must be finite and positive, got "
            f"{np.exp(bounds).tolist()}: change the bounds, or set n_restarts_optimizer=0"
        )
    return [problem.rng.uniform(*bounds.T) for _ in range(n_restarts)]


def _single_columns(problem):
    """Return what `StartOptions` need to try columns by themselves; None if lengths are tied."""
    if not problem.learns or problem.choice.ties_length_scales:
        return None
    return single_columns(problem.hyperparameters, problem.spread)


def simpler_starts(problem, thetas):
    """Return `thetas` with a single summand that matters, if the user's kernel is a sum."""
    hyperparameters, model = problem.hyperparameters, problem.model
    if not problem.learns or not isinstance(problem.estimator.kernel, Kernel):
        return []
    return summand_starts(hyperparameters, thetas, model, summand_indices(problem.kernel))
