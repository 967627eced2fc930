"""The correlation of deviations at neighbouring rows, which shows that f misses a fast function."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.near_copies import SAME_X, SAME_Y, copied_rows
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# Number of rows whose neighbours are found, of those in a block, and of candidates for neighbours.
CHOSEN_ROWS, BLOCK_ROWS, MOST_CANDIDATES = 2000, 100, 50_000
# A correlation is significant from this many standard errors on.
LEAST_ERRORS = 4.0


class NeighbourCorrelation(NamedTuple):
    """The correlation of the deviations at neighbouring rows, and the number of pairs of rows.

    ``size`` is their `deviation_size`.
    """

    value: float
    n_pairs: int
    size: float

    @property
    def is_significant(self):
        return self.value > LEAST_ERRORS / np.sqrt(self.n_pairs)


def neighbour_correlation(model, evaluation):
    r"""Return the `NeighbourCorrelation` of an `Evaluation`.

    The deviations are the slopes of the expected log likelihood, :math:`b_n - p_n m_n` with the
    sites' shift b and precision p and the mean m of f. With Gaussian noise they are the residuals
    divided by the noise variance. The neighbour of a row is that with the highest prior correlation
    of f. Under a wrong period this may be a remote row, so if correlations need not fall with the
    distance, the nearest row counts as well, and the higher correlation is returned. Cost an
    element of the kernel matrix for each of `CHOSEN_ROWS` rows and each candidate.
    """
    X, candidates = distinct_rows(model, evaluation, MOST_CANDIDATES)
    chosen = spaced_rows(candidates, CHOSEN_ROWS)
    kinds = [_nearest_rows(_prior_correlation(model, evaluation.theta, X), chosen)]
    if not model.kernel.is_local:
        kinds.append(_nearest_rows(_nearness(X), chosen))
    here = row_deviations(evaluation, X[chosen], candidates[chosen])
    values = []
    for neighbours in kinds:
        there = row_deviations(evaluation, X[neighbours], candidates[neighbours])
        # Where nothing deviates from the mean, there is no correlation.
        values.append(float((here * there).sum()) / max(float((here**2).sum()), TINY))
    value = max(values)
    size = deviation_size(evaluation, here, candidates[chosen])
    return NeighbourCorrelation(value, len(chosen), size)


def distinct_rows(model, evaluation, most_rows):
    """Return some rows (n, D) without copies, and their places (n,).

    Copies but for rounding have the same noise. Shifts of the sites stand for the targets.
    """
    places = spaced_rows(model.weight, most_rows)
    X = take_rows(model.X, places, memory=np.inf)
    shifts = [solution.sites.shift[places] for solution in evaluation.solutions]
    table = np.column_stack([X, *shifts])
    share = np.repeat([SAME_X, SAME_Y], [X.shape[1], len(shifts)])
    tolerance = share * table.std(axis=0)
    varies = tolerance > 0.0
    kept = np.unique(copied_rows(table[:, varies], tolerance[varies]))
    return X[kept], places[kept]


def deviation_size(evaluation, deviations, places):
    """Return the mean square of deviations (K, n) over the mean precision of their sites.

    It is about one if the likelihood suits the data, and far below one where f leaves hardly any
    deviation, as for separable classes.
    """
    precision = sum(s.sites.precision[places].sum() for s in evaluation.solutions)
    return float((deviations**2).sum()) / max(float(precision), TINY)


def row_deviations(evaluation, X, places):
    """Return the deviations (K, n) at rows `X` (n, D), which are the model's rows `places`."""
    mean = evaluation.posterior.moments(X)[0]
    all_sites = [solution.sites for solution in evaluation.solutions]
    pairs = zip(all_sites, mean, strict=True)
    return np.stack([s.shift[places] - s.precision[places] * m for s, m in pairs])


def _prior_correlation(model, theta, X):
    """Return the function of some indices of rows that returns their prior correlation with X.

    The result (n, N) is divided by a number for each row.
    """
    kernel, theta = model.kernel, model.kernel_theta(theta)
    deviation = np.sqrt(np.maximum(kernel.diag(theta, X), TINY))
    return lambda rows: kernel.value(theta, X[rows], X) / deviation


def _nearness(X):
    """Return the function of some indices of rows that returns how near they are to X, (n, N).

    It is minus half of the squared distance, up to a constant for each row, where the columns have
    variance one.
    """
    deviation = X.std(axis=0)
    varies = deviation > 0.0
    scaled = (X[:, varies] - X[:, varies].mean(axis=0)) / deviation[varies]
    half_square = 0.5 * (scaled**2).sum(axis=1)
    return lambda rows: scaled[rows] @ scaled.T - half_square


def _nearest_rows(similarity, chosen):
    """Return for each of the `chosen` rows another row with the highest similarity."""
    nearest = []
    for start in range(0, len(chosen), BLOCK_ROWS):
        rows = chosen[start : start + BLOCK_ROWS]
        values = similarity(rows)
        values[np.arange(len(rows)), rows] = -np.inf
        nearest.append(values.argmax(axis=1))
    return np.concatenate(nearest)
