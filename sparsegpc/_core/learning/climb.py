"""One climb: points are chosen and the bound is maximised over the hyperparameters, alternately.

Points are chosen with the current kernel and site precisions. Curvature learned with one choice of
points is reused for the next. Choosing again is not monotone, so the best state ever seen is kept.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.hyperparameters import follow, search, unknown_curvature
from sparsegpc._core.learning.inducing_points import is_fixed, select_points
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.numerics.linalg import JITTER_ATTEMPTS, SMALLEST_JITTER
from sparsegpc._core.optimisers.bfgs import Curvature

# Choices of points in a row that may fail to raise the bound.
PATIENCE = 2
# Growth of the jitter after a round in which theta moved to where it did not suffice.
JITTER_STEP = 100.0


class Limits(NamedTuple):
    """How long to climb: steps of theta for one choice of points, and choices after the first.

    ``progress`` is told of all evaluations, and may stop the climb.
    """

    max_iter: int
    max_reselections: int
    progress: Progress


class Begin(NamedTuple):
    """Where a climb begins: states and curvature are None where nothing is known of them."""

    theta: np.ndarray
    states: tuple | None = None
    curvature: Curvature | None = None


def fresh(model, theta):
    """Return the `Begin` at `theta` where nothing is known of the curvature but a guess."""
    return Begin(theta, None, unknown_curvature(model, len(theta)))


class Climb(NamedTuple):
    """The best evaluation of a climb, the bound after each choice, how it ended if unconverged."""

    best: Evaluation
    bounds: list
    message: str


def climb(model, begin, selector, bounds, limits, first=None, report=None):
    """Choose points and maximise over theta in turns.

    After it was asked to stop no more is done than a model needs: one choice, one evaluation.

    Parameters
    ----------
    model : SparseModel
    begin : Begin
        Without a curvature theta is learned by the line search of L-BFGS-B.
    selector : PivotedSelector or FixedSelector
    bounds : ndarray of shape (P, 2)
    limits : Limits
    first : InducingPoints or None
        Points to begin with; None asks `selector`.
    report : callable or None
        Called as ``report(n_choices, n_points, bound)`` after each choice of points.

    Returns
    -------
    Climb
    """
    best, message, history, stalled, failed = None, "", [], 0, False
    theta, states, curvature = begin
    states = model.initial_state() if states is None else states
    points, current, jitter = first, None, SMALLEST_JITTER
    for _ in range(limits.max_reselections + 1):
        if points is None:
            points = select_points(model, selector, theta, states)
        if not failed and current is not None and points.equals(current.points):
            break
        # The jitter found here is kept while theta moves, so that the bound stays smooth.
        current = _evaluated(model, theta, points, states, jitter, limits)
        reached = -np.inf if best is None else best.objective
        current, end, failed = _learned(model, current, bounds, curvature, reached, limits)
        jitter, points = current.jitter * (JITTER_STEP if failed else 1.0), None
        history.append(current.elbo)
        if report is not None:
            report(len(history), len(current.points.Z), current.elbo)
        stalled = (
            0 if best is None or current.objective > best.objective + model.tol else stalled + 1
        )
        if best is None or current.objective > best.objective:
            best, message = current, end
        if stalled == PATIENCE or limits.progress.stopped:
            break
        if is_fixed(model, selector) and not failed:
            break
        theta, states = current.theta, current.states
    return Climb(best, history, message)


def out_of_iterations(max_iter):
    """Return the message of a climb that took all its steps."""
    return f"the optimizer took all of max_iter={max_iter} iterations: raise it, or loosen tol"


def _evaluated(model, theta, points, states, jitter, limits):
    """Return the evaluation at points that were just chosen."""
    evaluation = model.evaluate(
        theta,
        points,
        states,
        jitter=jitter,
        attempts=JITTER_ATTEMPTS,
        wrt_theta=limits.max_iter > 0,
    )
    limits.progress.choose()
    limits.progress.evaluated(model, evaluation)
    return evaluation


def _learned(model, start, bounds, curvature, reached, limits):
    """Return the best evaluation over theta, how the search ended, and whether it failed anywhere.

    The end is empty if the search converged; `reached` is the best bound for other points.
    """
    max_iter, progress = limits.max_iter, limits.progress
    if not max_iter or not len(start.theta) or progress.stopped:
        return start, "", False
    if curvature is None:
        best, ended, failed = search(model, start, bounds, max_iter, progress)
    else:
        best, ended, failed = follow(model, start, bounds, max_iter, curvature, reached, progress)
    return best, "" if ended else out_of_iterations(max_iter), failed
