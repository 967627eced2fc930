"""The bound of a model as a function that an optimiser climbs.

Its parameters are theta, and where points move their places, too. The sites are solved for at each
evaluation, warm-started from those of another, and the gradient is that at fixed sites (envelope
theorem).
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.optimisers.bfgs import BFGS, Curvature
from sparsegpc._core.optimisers.lbfgsb import FIRST_STEP, LBFGSB, SMALL_GRADIENT

# While points move the sites are solved to this share: in many directions the line search gives up
# on what sites that are almost solved for say of the gradient.
MOVING_TOL_SHARE = 1e-3
# Small gains in a row that end a line search; while points move among many directions, of which a
# small gain or two says little.
PATIENCE, MOVING_PATIENCE = 2, 4


class Point(NamedTuple):
    """An evaluation as optimisers see it: ``x`` (P,), the value and the gradient (P,)."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    evaluation: Evaluation


def unknown_curvature(model, n_params):
    """Return the `Curvature` of the bound per row where nothing is known of it but a guess."""
    return Curvature(n_params, SMALL_GRADIENT / FIRST_STEP / model.total_weight)


def follow(model, start, bounds, max_iter, curvature, best=-np.inf, progress=None):
    """Maximise the bound over theta by quasi-Newton steps, from a curvature that is known.

    Parameters
    ----------
    model : SparseModel
    start : Evaluation
        With its gradient.
    bounds : ndarray of shape (P, 2)
    max_iter : int
        Most steps.
    curvature : Curvature
        Of the bound in nats per row. Learns on.
    best : float
        What was reached elsewhere: an ascent that will not come near is given up.
    progress : Progress or None
        Is told of the evaluations, and may stop the ascent.

    Returns
    -------
    evaluation : Evaluation
        The best.
    ended : bool
        Whether it ended by itself, before `max_iter`.
    failed : bool
        Whether the bound could not be computed somewhere on the way.

    Raises
    ------
    LinAlgError
        If the gradient at `start` is not finite.
    """

    def point(evaluation):
        return Point(evaluation.theta, evaluation.objective, evaluation.grad_theta, evaluation)

    def objective(theta, current):
        model.counts.optimizer_iterations += 1
        known = current.evaluation
        found = model.evaluate(theta, known.points, known.states, jitter=known.jitter)
        if progress is not None:
            progress.evaluated(model, found)
        return point(found)

    optimiser = BFGS(
        objective,
        bounds,
        curvature,
        tol=model.tol,
        unit=model.total_weight,
        is_stopped=None if progress is None else lambda: progress.stopped,
    )
    climbed = optimiser.climb(point(start), max_iter, best)
    return climbed.best.evaluation, climbed.ended, climbed.failed


class Objective:
    """The bound as a function of theta, and of the inducing points if `moves` is not None.

    Parameters
    ----------
    model : SparseModel
    start : Evaluation
    moves : ndarray of shape (D,) or None
        The units, one for each column, that points move in.
    progress : Progress
    """

    def __init__(self, model, start, moves, progress):
        self._model, self._moves, self._progress = model, moves, progress
        self._start, self._states = start, start.states
        self._site_tol = None if moves is None else MOVING_TOL_SHARE * model.tol

    def point(self, evaluation):
        """Return the `Point` of an evaluation."""
        x, gradient = evaluation.theta, evaluation.grad_theta
        if self._moves is not None:
            x = np.append(x, evaluation.points.Z / self._moves)
            gradient = np.append(gradient, evaluation.grad_Z * self._moves)
        return Point(x, evaluation.objective, gradient, evaluation)

    def _chosen(self, places):
        """Return the points that the part of x behind theta says."""
        points = self._start.points
        if self._moves is None:
            return points
        Z = places.reshape(points.Z.shape) * self._moves
        return points._replace(Z=Z, indices=None, selection=None)

    def __call__(self, x):
        theta, places = np.split(x, [len(self._start.theta)])
        evaluation = self._model.evaluate(
            theta,
            self._chosen(places),
            self._states,
            jitter=self._start.jitter,
            tol=self._site_tol,
            wrt_Z=self._moves is not None,
        )
        self._progress.evaluated(self._model, evaluation)
        self._states = evaluation.states
        return self.point(evaluation)


def line_search(model, start, moves, progress):
    """Return the `LBFGSB` over theta, and the points if they may move, from an evaluation."""
    objective = Objective(model, start, moves, progress)
    return LBFGSB(
        objective,
        objective.point(start),
        tol=model.tol,
        patience=PATIENCE if moves is None else MOVING_PATIENCE,
        is_stopped=lambda: progress.stopped,
    )


def search(model, start, bounds, max_iter, progress, moves=None):
    """Maximise the bound over theta, and the points if they may move, by L-BFGS-B.

    Parameters
    ----------
    model : SparseModel
    start : Evaluation
        With its gradient.
    bounds : ndarray of shape (P, 2)
        Of theta.
    max_iter : int
    progress : Progress
    moves : ndarray of shape (D,) or None
        The units, one for each column, that points move in; None keeps them.

    Returns
    -------
    evaluation, ended, failed
        As of `follow`.
    """
    optimiser = line_search(model, start, moves, progress)
    n_places = len(optimiser.best.x) - len(start.theta)
    free = np.broadcast_to([-np.inf, np.inf], (n_places, 2))
    found = optimiser.search(np.concatenate([bounds, free]), max_iter)
    model.counts.optimizer_iterations += found.n_iter
    return found.best.evaluation, found.ended, found.failed
