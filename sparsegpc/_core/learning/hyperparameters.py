"""The maximum of a model's bound over its hyperparameters, and the places of points if they move.

The sites are solved for at each evaluation, warm-started from those of another, and the gradient is
that at fixed sites (envelope theorem).
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.optimisers.bfgs import BFGSHessian, maximize_bfgs
from sparsegpc._core.optimisers.lbfgsb import FIRST_STEP, SMALL_GRADIENT, maximize_lbfgsb


class Point(NamedTuple):
    """An evaluation as optimisers see it: ``x`` (P,), the value and the gradient (P,)."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    evaluation: Evaluation


def unknown_hessian(model, n_params):
    """Return the `BFGSHessian` of the bound per row before anything is learned."""
    return BFGSHessian(n_params, SMALL_GRADIENT / FIRST_STEP / model.total_weight)


def maximize(model, start, bounds, *, max_iter, progress, hessian=None, best=-np.inf, units=None):
    """Maximise the bound over theta, and the places of the points if they may move.

    Parameters
    ----------
    model : SparseModel
    start : Evaluation
        With its gradient.
    bounds : ndarray of shape (P, 2)
        Of theta.
    max_iter : int
    progress : Progress
        Records the evaluations, and may stop the search.
    hessian : BFGSHessian or None
        Of the bound in nats per row, for steps over theta only; it is updated. None takes the line
        search of L-BFGS-B.
    best : float
        A bound reached elsewhere: quasi-Newton steps end where they will not come near it.
    units : ndarray of shape (D,) or None
        The units, one for each column, that points move in; None keeps them in place.

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
        scale = model.total_weight
        found = maximize_bfgs(function, first, bounds, hessian, scale=scale, best=best, **options)
    else:
        free = np.broadcast_to([-np.inf, np.inf], (len(first.x) - len(start.theta), 2))
        # A small gain or two says little while points move in many directions.
        patience = 2 if units is None else 4
        box = np.concatenate([bounds, free])
        found = maximize_lbfgsb(function, first, box, patience=patience, **options)
    model.counts.optimizer_iterations += found.n_iter
    return found._replace(best=found.best.evaluation)


def point_of(evaluation, units=None):
    """Return the `Point` of an evaluation; places of points, in their units, follow theta."""
    x, gradient = evaluation.theta, evaluation.grad_theta
    if units is not None:
        x = np.append(x, evaluation.points.Z / units)
        gradient = np.append(gradient, evaluation.grad_Z * units)
    return Point(x, evaluation.objective, gradient, evaluation)


def bound_of(model, start, progress, units=None):
    """Return ``function(x, near)``, the `Point` at x with sites warm-started from those `near`."""
    n_params, points = len(start.theta), start.points
    options = {"jitter": start.jitter}
    if units is not None:
        # In many directions the line search gives up on the gradient of inexact sites.
        options.update(tol=1e-3 * model.tol, wrt_Z=True)

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
