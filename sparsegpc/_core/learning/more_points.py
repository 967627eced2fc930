"""Go on with more inducing points where the first ones are too few and further ones are cheap."""

from math import isqrt

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import result_of
from sparsegpc._core.learning.fit_from import LocalFit, Start, fit_from
from sparsegpc._core.learning.hyperparameters import unknown_hessian
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# The number of points with which learning begins, and with which it ends if there are many rows.
FIRST_POINTS = 200
# With fewer rows, there may be so many points that an evaluation costs as much as with these rows.
FULL_COST_ROWS = 20_000
# The first points are too few if the variance that they leave unexplained costs so many nats a row,
LEAST_COST_PER_ROW = 0.005
# or if deviations at neighbouring rows have at least this correlation, and so many standard errors.
LEAST_CORRELATION, LEAST_ERRORS = 0.1, 4.0
# With less unexplained variance than this, further points would change nothing at first.
NEGLIGIBLE_COST_PER_ROW = 1e-4
# Neighbours are found for so many rows, a block at a time.
NEIGHBOR_ROWS, NEIGHBOR_BLOCK = 2000, 100


def affordable_points(n_rows, n_functions=1):
    """Return M at which N M^2, for all functions together, is that of `FULL_COST_ROWS`."""
    return max(FIRST_POINTS, isqrt(FULL_COST_ROWS * FIRST_POINTS**2 // (n_rows * n_functions)))


def are_too_few(model, result):
    """Return whether learning should go on with more points than those of a `FitResult`.

    Too few points may take a rough function for noise. Then the variance that they leave
    unexplained is small, but neighbouring rows deviate from the mean in the same direction.
    """
    cost_per_row = result.best.posterior.residual_cost / model.total_weight
    if result.stopped or cost_per_row < NEGLIGIBLE_COST_PER_ROW:
        return False
    if cost_per_row > LEAST_COST_PER_ROW:
        return True
    correlation, n_pairs = neighbor_correlation(model, result.best)
    return correlation > max(LEAST_CORRELATION, LEAST_ERRORS / np.sqrt(n_pairs))


def neighbor_correlation(model, evaluation):
    r"""Return the correlation of the deviations at neighbouring rows, and the number of pairs.

    The deviations are the slopes of the expected log likelihood, :math:`b_n - p_n m_n` with the
    sites' shift b and precision p and the mean m of f. With Gaussian noise they are the residuals
    divided by the noise variance. The neighbour of a row is that with the highest prior correlation
    of f. Cost N M^2, and an element of the kernel matrix for each of `NEIGHBOR_ROWS` N pairs.
    """
    mean = evaluation.posterior.moments(model.X)[0]
    sites = [solution.sites for solution in evaluation.solutions]
    slopes = np.stack([s.shift - s.precision * m for s, m in zip(sites, mean, strict=True)])
    chosen = spaced_rows(model.weight, NEIGHBOR_ROWS)
    neighbors = nearest_rows(model, evaluation.theta, chosen)
    of_pairs = float((slopes[:, chosen] * slopes[:, neighbors]).sum())
    # Where nothing deviates from the mean, there is no correlation.
    return of_pairs / max(float((slopes[:, chosen] ** 2).sum()), TINY), len(chosen)


def nearest_rows(model, theta, chosen):
    """Return for each of the `chosen` rows the other row with the highest prior correlation."""
    kernel, theta = model.kernel, model.split(theta)[0]
    X = take_rows(model.X, np.arange(len(model.weight)), memory=np.inf)
    deviation = np.sqrt(np.maximum(kernel.diag(theta, X), TINY))
    nearest = []
    for start in range(0, len(chosen), NEIGHBOR_BLOCK):
        rows = chosen[start : start + NEIGHBOR_BLOCK]
        correlation = kernel.value(theta, X[rows], X) / deviation
        correlation[np.arange(len(rows)), rows] = -np.inf
        nearest.append(correlation.argmax(axis=1))
    return np.concatenate(nearest)


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
