r"""Fit a model from one start: select points and maximise the bound over theta in turns.

With the points Z, the hyperparameters :math:`\theta` and the site precisions p the turns are

.. math:: Z \leftarrow \mathrm{select}(\theta, p), \qquad
    \theta, p \leftarrow \arg\max_{\theta, p} \{ \mathcal{L}(\theta, Z, p) + \log p(\theta) \}.

Each selection uses the current kernel and site precisions. The maximisation after it continues with
the Hessian learned so far. With many rows it ends early, as the next selection changes the bound by
more than the last steps of a search. A new selection may lower the bound, so the best evaluation is
kept, and only the search from there goes on to the tolerance. If the centroids of the rows around
the first points have a higher bound, all points of the fit are centroids.
"""

from copy import copy

import numpy as np

from sparsegpc._core.learning.inducing_points import (
    is_fixed,
    select_points,
    try_centroids,
)
from sparsegpc._core.learning.maximization import maximize
from sparsegpc._core.learning.runs import FitResult, Run

# The fit ends after this many selections in a row that do not raise the bound. A single one may be
# bad luck.
PATIENCE = 2
# Rows are many from here on: evaluations of the bound take so long that it pays to make fewer of
# them, by searches that end early, by subsets of the rows, and by a measured Hessian.
MANY_ROWS = 5000
# With many rows, a search that another selection may follow ends when the next step is expected to
# gain less than EARLY_SHARE of what the search has gained. A new selection then counts as better
# only if it raises the objective by LEAST_GAIN times the tolerance.
EARLY_SHARE, LEAST_GAIN = 0.03, 10.0


def fit_from(model, start, selector, settings, to_beat=-np.inf):
    """Select points and maximise the bound over theta in turns, and return a `FitResult`.

    At least one selection and one evaluation are made, even if ``settings.progress`` is stopped.
    `to_beat` is the objective that another fit has reached: the search ends early if it is not
    expected to come near it.
    """
    theta, states, hessian, first = start
    # A search updates its Hessian, and another fit may begin at the same start.
    hessian = copy(hessian)
    states = model.initial_state() if states is None else states
    most_reselections = 0 if is_fixed(model, selector) else settings.max_reselections
    ends_early = most_reselections > 0 and len(model.weight) >= MANY_ROWS and hessian is not None
    relative_tol = EARLY_SHARE if ends_early else 0.0
    least_gain = LEAST_GAIN * model.tol if ends_early else model.tol
    lower_bounds = []

    def record(evaluation):
        lower_bounds.append(evaluation.elbo)
        if settings.report is not None:
            settings.report(len(lower_bounds), len(evaluation.points.Z), evaluation.elbo)

    if first is None:
        points = select_points(model, selector, theta, states)
    else:
        points = model.with_noise_points(first, theta)
    current = _evaluated(model, theta, points, states, settings)
    current = try_centroids(model, selector, current, settings.progress)
    current, message = _maximized(model, current, hessian, to_beat, settings, relative_tol)
    record(current)
    best, best_at, n_worse = current, 0, 0
    for k in range(1, 1 + most_reselections):
        if n_worse == PATIENCE or settings.progress.stopped:
            break
        points = select_points(model, selector, current.theta, current.states, current)
        if points.equals(current.points):
            break
        current = _evaluated(model, current.theta, points, current.states, settings)
        highest = max(best.objective, to_beat)
        current, end = _maximized(model, current, hessian, highest, settings, relative_tol)
        record(current)
        n_worse = 0 if current.objective > best.objective + least_gain else n_worse + 1
        if current.objective > best.objective:
            best, message, best_at = current, end, k
    if ends_early and not message:
        best, message = _maximized(model, best, hessian, to_beat, settings)
        lower_bounds[best_at] = best.elbo
    return FitResult(best, lower_bounds, message, hessian)


def continue_run(model, run, selector, settings, to_beat=-np.inf):
    """Return the `Run` that continues another on a model of a part of the rows, without a report.

    For `to_beat` see `fit_from`.
    """
    start, settings = run.start_on(model), settings._replace(report=None)
    found = fit_from(model, start, selector, settings, to_beat)
    return Run(run.begin, found.best, found.hessian)


def out_of_iterations(max_iter):
    """Return the message of a fit that reached its limit of iterations."""
    return f"the optimizer took all of max_iter={max_iter} iterations: raise it, or loosen tol"


def _evaluated(model, theta, points, states, settings):
    """Return the recorded `Evaluation` at newly selected points."""
    options = {"has_new_points": True, "wrt_theta": settings.max_iter > 0}
    return settings.progress.evaluate(model, theta, points, states, **options)


def _maximized(model, first, hessian, to_beat, settings, relative_tol=0.0):
    """Return the evaluation at the maximum over theta, and the message if it did not converge.

    `first` is the `Evaluation` with which to begin; for the other arguments see `maximize`.
    """
    if not settings.max_iter or not len(first.theta) or settings.progress.stopped:
        return first, ""
    options = {"hessian": hessian, "to_beat": to_beat, "relative_tol": relative_tol}
    found = maximize(model, first, settings, **options)
    return found.best, "" if found.converged else out_of_iterations(settings.max_iter)
