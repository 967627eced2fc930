"""Double the number of inducing points until an upper bound certifies that it is enough."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.fit import STOPPED, FitResult

# Enough points for an easy problem, at negligible cost.
FIRST_SIZE = 50


class Growth(NamedTuple):
    """The best fit, a record of each size (a list of dicts), and the reason why growth ended."""

    result: FitResult
    history: list
    end: str


def grow(fit, gap, model, *, starts, tol, max_points, plateau=1e-3):
    """Fit models with ever more points, each from the theta of the best one, and return a `Growth`.

    The number of points doubles from one model to the next.

    Parameters
    ----------
    fit : callable
        ``fit(n_points, starts)`` returns a `FitResult`. If starts is None, `fit` chooses them.
    gap : callable
        ``gap(evaluation)`` returns the gap between an upper bound and the lower bound, in nats per
        row.
    model : SparseModel
    starts : list of ndarray of shape (P,) or None
        Starts for the first size.
    tol : float
        Stop when the gap is at most this many nats per row.
    max_points : int
    plateau : float
        Stop when doubling gains less than this fraction of the gain over a constant function.

    Returns
    -------
    Growth
        ``end`` is "certified", "full_rank" (the points span all rows), "max_inducing", "plateau"
        or "stopped" (by the callback).
    """
    size, history, best = min(FIRST_SIZE, max_points), [], None
    while True:
        result = fit(size, starts)
        found = result.best
        n_points = len(found.points.Z)
        history.append(
            {"n_inducing": n_points, "lower_bound": found.elbo, "gap_per_row": gap(found)}
        )
        if history[-1]["gap_per_row"] <= tol:
            return Growth(result, history, "certified")
        gained = np.inf if best is None else found.objective - best.best.objective
        if gained > 0.0:
            best = result
        if result.stopped:
            return Growth(best._replace(message=STOPPED), history, "stopped")
        if n_points < size:
            return Growth(best, history, "full_rank")
        if size == max_points:
            return Growth(best, history, "max_inducing")
        if gained <= max(plateau * (found.objective - model.constant_bound()), model.tol):
            return Growth(best, history, "plateau")
        size, starts = min(2 * size, max_points), [best.best.theta]
