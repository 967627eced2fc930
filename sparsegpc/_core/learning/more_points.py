"""Go on with more inducing points, or better ones, where the first ones are too few."""

from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.curvature import measured_hessian
from sparsegpc._core.learning.fit import result_of
from sparsegpc._core.learning.fit_from import Climb, LocalFit, Start, fit_from
from sparsegpc._core.learning.growing_subsets import subset_for_moves
from sparsegpc._core.learning.hyperparameters import typical_hessian
from sparsegpc._core.learning.moved_points import N_PAIRS, move, move_further, on_rows_of
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.optimisers.lbfgs import CorrectionPairs
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# The number of points with which learning begins, and with which it ends if there are many rows.
FIRST_POINTS = 200
# With fewer rows, there may be so many points that an evaluation costs as much as with these rows.
FULL_COST_ROWS = 50_000
# The first points are too few if the variance that they leave unexplained costs so many nats a row,
LEAST_COST_PER_ROW = 0.005
# or if deviations at neighbouring rows have at least this correlation, and so many standard errors.
LEAST_CORRELATION, LEAST_ERRORS = 0.1, 4.0
# With less unexplained variance than this, further points would change nothing at first.
NEGLIGIBLE_COST_PER_ROW = 1e-4
# Iterations of a search that moves the points, which ends if a step promises to gain less than this
# many nats a row.
MOST_MOVES, LEAST_GAIN_PER_ROW = 30, 1e-4
# Neighbours are found for so many rows, a block at a time, among at most this many.
NEIGHBOR_ROWS, NEIGHBOR_BLOCK, MOST_CANDIDATES = 2000, 100, 50_000


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
    correlation, n_pairs, _ = neighbor_correlation(model, result.best)
    return correlation > max(LEAST_CORRELATION, LEAST_ERRORS / np.sqrt(n_pairs))


class NeighborCorrelation(NamedTuple):
    """The correlation of the deviations at neighbouring rows, and the number of pairs of rows.

    ``size`` is the mean square of the deviations over the mean precision of their sites. It is
    about one if the likelihood suits the data, and far below one where f leaves hardly any
    deviation, as for separable classes.
    """

    correlation: float
    n_pairs: int
    size: float


def neighbor_correlation(model, evaluation):
    r"""Return the `NeighborCorrelation` of an `Evaluation`.

    The deviations are the slopes of the expected log likelihood, :math:`b_n - p_n m_n` with the
    sites' shift b and precision p and the mean m of f. With Gaussian noise they are the residuals
    divided by the noise variance. The neighbour of a row is that with the highest prior correlation
    of f. Cost an element of the kernel matrix for each of `NEIGHBOR_ROWS` rows and each candidate.
    """
    candidates = spaced_rows(model.weight, MOST_CANDIDATES)
    X = take_rows(model.X, candidates, memory=np.inf)
    chosen = spaced_rows(candidates, NEIGHBOR_ROWS)
    neighbors = nearest_rows(model, evaluation.theta, X, chosen)

    def slopes(rows):
        mean = evaluation.posterior.moments(X[rows])[0]
        sites = [solution.sites for solution in evaluation.solutions]
        at = candidates[rows]
        return np.stack(
            [s.shift[at] - s.precision[at] * m for s, m in zip(sites, mean, strict=True)]
        )

    here, there = slopes(chosen), slopes(neighbors)
    precision = sum(s.sites.precision[candidates[chosen]].sum() for s in evaluation.solutions)
    # Where nothing deviates from the mean, there is no correlation.
    square = max(float((here**2).sum()), TINY)
    correlation = float((here * there).sum()) / square
    return NeighborCorrelation(correlation, len(chosen), square / max(float(precision), TINY))


def nearest_rows(model, theta, X, chosen):
    """Return for each of the `chosen` rows of X another row with the highest prior correlation."""
    kernel, theta = model.kernel, model.split(theta)[0]
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
        Its hyperparameters and sites are where the search begins, and its Hessian if that is not
        measured (`curvature`).
    selector : PivotedSelector
    bounds : ndarray of shape (P, 2)
    limits : Limits
    report : callable or None
        See `fit_from`.
    """
    before, hessian = result.best, result.hessian
    if limits.max_iter:
        end = Climb(before.theta, before)
        hessian = measured_hessian(model, end, selector, bounds, limits.progress) or hessian
    if hessian is None:
        hessian = typical_hessian(model, len(before.theta))
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
    return result_of(model, found, limits.progress)


def fit_moved(model, result, bounds, progress):
    """Move the inducing points of a fit for a few iterations, and return the better `FitResult`.

    If there are many rows for each point, most of these iterations are on a part of the rows.

    Parameters
    ----------
    model : SparseModel
    result : FitResult
    bounds : ndarray of shape (P, 2)
        Lower and upper bounds of theta.
    progress : Progress
    """
    before, hessian = result.best, result.hessian
    small = subset_for_moves(model, len(before.points.Z))

    def options(model):
        tol = LEAST_GAIN_PER_ROW * model.total_weight
        return {"hessian": hessian, "max_iter": MOST_MOVES, "progress": progress, "tol": tol}

    try:
        if small is None:
            start = before.theta, before.points, before.states
            _, end = move(model, *start, bounds, **options(model))
        else:
            start, pairs = on_rows_of(small, before), CorrectionPairs(N_PAIRS)
            _, end = move(small, *start, bounds, pairs=pairs, **options(small))
            _, end = move_further(model, small, end.best, bounds, pairs=pairs, **options(model))
        best = end.best
    except LinAlgError:
        # Where they are, the points are good enough to compute the bound.
        best = before
    has_moved = best.objective > before.objective
    found = LocalFit(best, [*result.bounds, best.elbo], result.message, hessian)
    if not has_moved:
        found = LocalFit(before, result.bounds, result.message, hessian)
    return result_of(model, found, progress)._replace(has_moved=has_moved)
