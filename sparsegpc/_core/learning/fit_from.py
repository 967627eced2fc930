"""A fit from one start: points are selected and the bound is maximised over theta, alternately.

Points are selected with the current kernel and site precisions. The Hessian learned with one
selection is reused for the next. Selecting again may lower the bound, so the best evaluation is
kept.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.hyperparameters import maximize, unknown_hessian
from sparsegpc._core.learning.inducing_points import is_fixed, select_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS, SMALLEST_JITTER
from sparsegpc._core.optimisers.bfgs import BFGSHessian

# Selections in a row that may fail to raise the bound: one may be unlucky.
PATIENCE = 2


class Limits(NamedTuple):
    """The most iterations over theta for one selection, and the most selections after the first.

    ``progress`` records all evaluations, and may stop the fit.
    """

    max_iter: int
    max_reselections: int
    progress: Progress


class Start(NamedTuple):
    """Hyperparameters to start from.

    ``states`` of None are the model's initial ones; ``hessian`` of None takes the line search of
    L-BFGS-B.
    """

    theta: np.ndarray
    states: tuple | None = None
    hessian: BFGSHessian | None = None


def quasi_newton_start(model, theta):
    """Return the `Start` at `theta` for quasi-Newton steps, before anything is learned."""
    return Start(theta, None, unknown_hessian(model, len(theta)))


class LocalFit(NamedTuple):
    """The best evaluation from one start, and the bound after each selection.

    ``message`` says why the fit did not converge; it is empty if it did.
    """

    best: Evaluation
    bounds: list
    message: str


def fit_from(model, start, selector, bounds, limits, first=None, report=None):
    """Select points and maximise over theta in turns.

    Where `progress` asks to stop, one selection and one evaluation are still made.

    Parameters
    ----------
    model : SparseModel
    start : Start
    selector : PivotedSelector or FixedSelector
    bounds : ndarray of shape (P, 2)
    limits : Limits
    first : InducingPoints or None
        Points to begin with; None selects them.
    report : callable or None
        Called as ``report(n_selections, n_points, bound)`` after each selection.

    Returns
    -------
    LocalFit
    """
    best, message, history, n_worse = None, "", [], 0
    theta, states, hessian = start
    states = model.initial_state() if states is None else states
    points, current, jitter = first, None, SMALLEST_JITTER
    for _ in range(limits.max_reselections + 1):
        if points is None:
            points = select_points(model, selector, theta, states)
        if current is not None and points.equals(current.points):
            break
        # The jitter found here is kept while theta moves, so that the bound stays smooth.
        current = _evaluated(model, theta, points, states, jitter, limits)
        reached = -np.inf if best is None else best.objective
        current, end = _maximized(model, current, bounds, hessian, reached, limits)
        jitter, points = current.jitter, None
        history.append(current.elbo)
        if report is not None:
            report(len(history), len(current.points.Z), current.elbo)
        n_worse = 0 if best is None or current.objective > reached + model.tol else n_worse + 1
        if best is None or current.objective > reached:
            best, message = current, end
        if n_worse == PATIENCE or limits.progress.stopped or is_fixed(model, selector):
            break
        theta, states = current.theta, current.states
    return LocalFit(best, history, message)


def out_of_iterations(max_iter):
    """Return the message of a fit that took all its iterations."""
    return f"the optimizer took all of max_iter={max_iter} iterations: raise it, or loosen tol"


def _evaluated(model, theta, points, states, jitter, limits):
    """Return the evaluation at points that were just selected."""
    evaluation = model.evaluate(
        theta,
        points,
        states,
        jitter=jitter,
        attempts=JITTER_ATTEMPTS,
        wrt_theta=limits.max_iter > 0,
    )
    limits.progress.count_selection()
    limits.progress.evaluated(model, evaluation)
    return evaluation


def _maximized(model, start, bounds, hessian, reached, limits):
    """Return the best evaluation over theta, and why it did not converge.

    `reached` is the best bound for other points.
    """
    max_iter, progress = limits.max_iter, limits.progress
    if not max_iter or not len(start.theta) or progress.stopped:
        return start, ""
    found = maximize(
        model, start, bounds, max_iter=max_iter, progress=progress, hessian=hessian, best=reached
    )
    return found.best, "" if found.converged else out_of_iterations(max_iter)
