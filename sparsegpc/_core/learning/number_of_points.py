"""The number of inducing points by doubling, until an upper bound says that it is enough."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.learning.fit import STOPPED, FitResult

FIRST_SIZE = 50
# Growth no longer pays when doubling gains less than this share of what the model gains over a
# constant.
FLAT_SHARE = 1e-3


class Growth(NamedTuple):
    """The best fit, what was found at each size, and why growth ended."""

    result: FitResult
    history: list
    end: str


def grow(fit, gap, model, *, starts, tol, cap):
    """Fit models of twice the size each, from what the last one learned.

    Parameters
    ----------
    fit : callable
        ``fit(n_points, starts)`` returns a `FitResult`; starts of None are the caller's own.
    gap : callable
        ``gap(evaluation)`` returns an upper bound on how many nats per row are missing.
    model : SparseModel
    starts : list of ndarray of shape (P,) or None
        For the first size.
    tol : float
        Nats per row that may be missing.
    cap : int
        Most points.

    Returns
    -------
    Growth
        ``end`` is "certified", "spanned" (no more independent rows), "cap", "flat" (doubling
        gained next to nothing), or "stopped" (a fit was asked to stop).
    """
    size, history, best = min(FIRST_SIZE, cap), [], None
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
            return Growth(best, history, "spanned")
        if size == cap:
            return Growth(best, history, "cap")
        if gained <= max(FLAT_SHARE * (found.objective - model.constant_bound()), model.tol):
            return Growth(best, history, "flat")
        size, starts = min(2 * size, cap), [best.best.theta]
