"""Maximise the bound of a model over its hyperparameters and, optionally, its inducing points.

Each evaluation solves for the sites, starting from those of an earlier evaluation. By the envelope
theorem the gradient is the one at fixed sites.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.optimisers.bfgs import BFGSHessian, maximize_bfgs
from sparsegpc._core.optimisers.lbfgs import maximize_lbfgs
from sparsegpc._core.optimisers.lbfgsb import FIRST_STEP, SMALL_GRADIENT, maximize_lbfgsb


class Point(NamedTuple):
    """An evaluation for the optimisers: ``x`` (P,), the objective there and its gradient (P,)."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    evaluation: Evaluation


def unknown_hessian(model, n_params):
    """Return the initial guess of the `BFGSHessian` of the bound in nats per row."""
    return BFGSHessian(n_params, SMALL_GRADIENT / FIRST_STEP / model.total_weight)


def maximize(
    model,
    start,
    bounds,
    *,
    max_iter,
    progress,
    hessian=None,
    best=-np.inf,
    units=None,
    pairs=None,
):
    """Maximise the objective over theta and, if `units` is given, the locations of the points.

    Parameters
    ----------
    model : SparseModel
    start : Evaluation
        Where to start. It must include its gradient.
    bounds : ndarray of shape (P, 2)
        Lower and upper bounds of theta.
    max_iter : int
    progress : Progress
        Records the evaluations and may stop the search.
    hessian : BFGSHessian or None
        Hessian of the bound in nats per row with respect to theta. It is updated. None uses the
        line search of L-BFGS-B.
    best : float
        Objective reached elsewhere. Quasi-Newton steps end early if they are not expected to come
        near it.
    units : ndarray of shape (D,) or None
        Unit of each column for moves of the points; None keeps the points fixed.
    pairs : CorrectionPairs or None
        Where to add those of the line search of L-BFGS-B.

    Returns
    -------
    Maximum
        Its ``best`` is an `Evaluation`.

    Raises
    ------
    LinAlgError
        If the gradient at `start` is not finite.
    """
    function, first = bound_of(model, start, progress, units), point_of(start, units)
    options = {"max_iter": max_iter, "tol": model.tol, "is_stopped": lambda: progress.stopped}
    if hessian is not None:
        # On other rows the prior has another weight, or none, so the Hessian must not learn it.
        options |= {"scale": model.total_weight, "known": model.prior, "best": best}
        found = maximize_bfgs(function, first, bounds, hessian, **options)
    else:
        free = np.broadcast_to([-np.inf, np.inf], (len(first.x) - len(start.theta), 2))
        # Points move in many directions, where one or two small gains do not mean convergence.
        patience = 2 if units is None else 4
        box = np.concatenate([bounds, free])
        found = maximize_lbfgsb(function, first, box, patience=patience, pairs=pairs, **options)
    model.counts.optimizer_iterations += found.n_iter
    return found._replace(best=found.best.evaluation)


def maximize_further(model, start, bounds, *, max_iter, progress, units, pairs):
    """Maximise the objective over theta and the points from the maximum on other rows.

    The first steps are quasi-Newton steps already, so no line search is needed.

    Parameters
    ----------
    model, start, bounds, max_iter, progress, units
        See `maximize`.
    pairs : CorrectionPairs
        Those of the search on other rows, in the units of the objective on these.

    Returns
    -------
    Evaluation
        The best one.
    """
    function, near = bound_of(model, start, progress, units), point_of(start, units)

    def evaluate(x):
        nonlocal near
        theta, moved = np.split(x, [len(start.theta)])
        try:
            near = function(np.append(np.clip(theta, *bounds.T), moved), near)
        except LinAlgError:
            return near._replace(x=x, value=-np.inf)
        model.counts.optimizer_iterations += 1
        return near

    best, _ = maximize_lbfgs(
        evaluate,
        near,
        pairs.plain_step,
        model.tol,
        max_iter,
        pairs=pairs,
        is_stopped=lambda: progress.stopped,
    )
    return best.evaluation


def point_of(evaluation, units=None):
    """Return the `Point` of an evaluation: theta, then the locations of the points in `units`."""
    x, gradient = evaluation.theta, evaluation.grad_theta
    if units is not None:
        x = np.append(x, evaluation.points.Z / units)
        gradient = np.append(gradient, evaluation.grad_Z * units)
    return Point(x, evaluation.objective, gradient, evaluation)


def bound_of(model, start, progress, units=None):
    """Return ``function(x, near)``: the `Point` at x, its sites started from those of `near`."""
    n_params, points = len(start.theta), start.points
    # With many parameters the line search fails if the sites, and so the gradient, are inexact.
    options = {} if units is None else {"tol": 1e-3 * model.tol, "wrt_Z": True}

    def function(x, near):
        theta, moved = np.split(x, [n_params])
        at = points
        if units is not None:
            Z = moved.reshape(points.Z.shape) * units
            at = points._replace(Z=Z, indices=None, selection=None)
        evaluation = model.evaluate(theta, at, near.evaluation.states, **options)
        progress.evaluated(model, evaluation)
        return point_of(evaluation, units)

    return function
