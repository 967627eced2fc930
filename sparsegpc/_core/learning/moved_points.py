"""Maximise the bound over the hyperparameters and the locations of the inducing points together.

The search is L-BFGS. What an earlier search over theta learned about the curvature is its first
approximation of the Hessian with respect to theta. The curvature with respect to the locations is
that along the last step.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_factor, cho_solve

from sparsegpc._core.learning.maximization import Iterate
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._core.optimisers.bfgs import projected_gradient
from sparsegpc._core.optimisers.lbfgs import CorrectionPairs, maximize_lbfgs
from sparsegpc._core.optimisers.line_searches import interpolated_rise

# The first step moves a coordinate by at most this many standard deviations of its column.
FIRST_MOVE = 0.1
# Number of steps that L-BFGS remembers.
N_PAIRS = 30
# Sites are solved to this fraction of the model's tolerance: with so many parameters the search
# fails if the gradient is inexact.
SITE_TOL = 1e-3
# After moves on a part of the rows, those on all rows take at most this fraction of the iterations.
LAST_SHARE = 0.25


class Moved(NamedTuple):
    """The first and the best `Evaluation` of a search, and how the search ended.

    ``converged`` is False if the limit of iterations ended it. ``failed`` is True if the objective
    could not be computed somewhere.
    """

    start: Evaluation
    best: Evaluation
    converged: bool
    failed: bool


def move(model, start, settings, *, tol=None, pairs=None):
    """Maximise the objective over theta and the locations of the points; return a `Moved`.

    The search begins at a `Start` with points. It ends when a step promises to gain less than `tol`
    nats, by default the model's. `pairs` are those of a search on other rows, in the units of the
    objective on these rows; the search adds its own.
    """
    max_iter, progress = settings.max_iter, settings.progress
    begin = start.theta, start.points, start.states
    first = progress.evaluate(model, *begin, has_new_points=True, wrt_Z=True)
    pairs = CorrectionPairs(N_PAIRS) if pairs is None else pairs
    search = Search(model, first, settings, start.hessian, pairs)
    found = maximize_lbfgs(
        search.evaluate,
        search.start,
        search.newton_step,
        model.tol if tol is None else tol,
        max_iter,
        pairs=pairs,
        is_stopped=lambda: progress.stopped,
        search_line=interpolated_rise,
    )
    progress.optimizer_iterations += found.n_iter
    # A search that finds no higher value has ended, too.
    has_ended = found.converged or found.n_iter < max_iter
    return Moved(first, found.best.evaluation, has_ended, search.failed)


def move_on_all_rows(model, small, result, settings, *, tol=None, pairs):
    """Continue on all rows what `move` began on a part of them, in fewer iterations.

    `model` has all rows and `small` the part, with this `FitResult` and these `pairs`. Return what
    `move` does.
    """
    settings = settings._replace(max_iter=max(1, round(LAST_SHARE * settings.max_iter)))
    pairs = pairs.scaled(model.total_weight / small.total_weight)
    return move(model, result.start_on(model), settings, tol=tol, pairs=pairs)


class Search:
    """The objective as a function of theta and the locations in standard deviations of the columns.

    ``failed`` tells if an evaluation failed.
    """

    def __init__(self, model, start, settings, hessian, pairs):
        self._model, self._bounds, self._progress = model, settings.bounds, settings.progress
        deviations = model.X.std(axis=0)
        self._units = np.where(deviations > 0.0, deviations, 1.0)
        self._points, self._n_params = start.points, len(start.theta)
        self._pairs, self._factor = pairs, _factor(model, start.theta, hessian)
        self.start = self._near = self._iterate(start)
        largest = np.abs(self.start.gradient[self._n_params :]).max(initial=0.0)
        self._length = FIRST_MOVE / largest if largest > 0.0 else 1.0
        self.failed = False

    def _iterate(self, evaluation):
        theta, points = evaluation.theta, evaluation.points
        x = np.append(theta, points.Z / self._units)
        by_theta = projected_gradient(theta, evaluation.grad_theta, self._bounds)
        gradient = np.append(by_theta, evaluation.grad_Z * self._units)
        return Iterate(x, evaluation.objective, gradient, evaluation)

    def evaluate(self, x):
        """Return the `Iterate` at x, with theta within its bounds."""
        theta, places = np.split(x, [self._n_params])
        theta = np.clip(theta, *self._bounds.T)
        Z = places.reshape(self._points.Z.shape) * self._units
        points = self._points._replace(Z=Z, indices=None)
        model, states = self._model, self._near.evaluation.states
        options = {"tol": SITE_TOL * model.tol, "wrt_Z": True}
        try:
            evaluation = self._progress.evaluate(model, theta, points, states, **options)
        except LinAlgError:
            # A value below all others makes the search take a shorter step.
            self.failed = True
            return self._near._replace(x=x, value=-np.inf)
        self._near = self._iterate(evaluation)
        return self._near

    def newton_step(self, gradient):
        """Return an approximation of the Newton step that does not use the pairs."""
        learned = slice(0 if self._factor is None else self._n_params, None)
        self._length = self._pairs.plain_length(learned) or self._length
        step = self._length * gradient
        if self._factor is not None:
            step[: self._n_params] = cho_solve(self._factor, gradient[: self._n_params])
        return step


def _factor(model, theta, hessian):
    """Return the Cholesky factor of minus the Hessian with respect to theta, None if unknown."""
    if hessian is None or not len(theta):
        return None
    curvature = model.total_weight * hessian.matrix + model.prior.curvature(theta)
    # The updates keep it positive definite but for rounding. The search can do without it.
    return attempted(cho_factor, curvature)
