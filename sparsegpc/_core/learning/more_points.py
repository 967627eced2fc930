"""Go on with more inducing points where the first ones are too few and further ones are cheap."""

from math import isqrt

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import result_of
from sparsegpc._core.learning.fit_from import LocalFit, Start, fit_from
from sparsegpc._core.learning.hyperparameters import unknown_hessian

# The number of points with which learning begins, and with which it ends if there are many rows.
FIRST_POINTS = 200
# With fewer rows, there may be so many points that an evaluation costs as much as with these rows.
FULL_COST_ROWS = 8000
# The first points are too few if the variance that they leave unexplained costs so many nats a row.
LEAST_COST_PER_ROW = 0.005


def affordable_points(n_rows, n_functions=1):
    """Return M at which N M^2, for all functions together, is that of `FULL_COST_ROWS`."""
    return max(FIRST_POINTS, isqrt(FULL_COST_ROWS * FIRST_POINTS**2 // (n_rows * n_functions)))


def are_too_few(model, result):
    """Return whether learning should go on with more points than those of a `FitResult`."""
    cost = result.best.posterior.residual_cost
    return not result.stopped and cost > LEAST_COST_PER_ROW * model.total_weight


def fit_further(model, result, selector, bounds, limits, report=None):
    """Continue a fit with other inducing points, and return the better `FitResult`.

    Parameters
    ----------
    model : SparseModel
    result : FitResult
        Its hyperparameters and sites are where the search begins.
    selector : PivotedSelector
    bounds : ndarray of shape (P, 2)
    limits : Limits
    report : callable or None
        See `fit_from`.
    """
    n_before, before = model.counts.full_evaluations, result.best
    hessian = result.hessian
    if hessian is None:
        hessian = unknown_hessian(model, len(before.theta))
    try:
        start = Start(before.theta, before.states, hessian)
        found = fit_from(model, start, selector, bounds, limits, report=report)
    except LinAlgError:
        # Many points may lie too close together where fewer did not.
        found = None
    if found is not None and found.best.objective > before.objective:
        found = found._replace(bounds=[*result.bounds, *found.bounds])
    else:
        found = LocalFit(before, result.bounds, result.message, hessian)
    return result_of(model, found, limits.progress, n_before - result.full_evaluations)
