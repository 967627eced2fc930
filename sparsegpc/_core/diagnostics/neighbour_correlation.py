"""The correlation of deviations at neighbouring rows, which shows that f misses a fast function."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.diagnostics.deviations import (
    LEAST_ERRORS,
    deviation_size,
    distinct_rows,
    row_deviations,
)
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.sources import spaced_rows

# Number of rows whose neighbours are found, of those in a block, and of candidates for neighbours.
CHOSEN_ROWS, BLOCK_ROWS, MOST_CANDIDATES = 2000, 100, 50_000
# With at most so many columns that vary, the nearest row is near enough to count as a neighbour.
FEW_COLUMNS = 3


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
    """Return the `NeighbourCorrelation` of an `Evaluation`.

    The neighbour of a row is that with the highest prior correlation of f. Under a wrong period, or
    with a long length scale of a column in which f varies fast, this may be a remote row. So if
    correlations need not fall with the distance, or if few columns vary, the nearest row counts as
    well, and the higher correlation is returned. Cost an element of the kernel matrix for each of
    `CHOSEN_ROWS` rows and each candidate.
    """
    X, candidates = distinct_rows(model, evaluation, MOST_CANDIDATES)
    chosen = spaced_rows(candidates, CHOSEN_ROWS)
    similarities = [_prior_correlation(model, evaluation.theta, X)]
    if not model.kernel.is_local or np.count_nonzero(np.ptp(X, axis=0)) <= FEW_COLUMNS:
        similarities.append(_nearness(X))
    here = row_deviations(evaluation, X[chosen], candidates[chosen])
    values = []
    for similarity in similarities:
        neighbours = _nearest_rows(similarity, chosen)
        there = row_deviations(evaluation, X[neighbours], candidates[neighbours])
        # Where nothing deviates from the mean, there is no correlation.
        values.append(float((here * there).sum()) / max(float((here**2).sum()), TINY))
    value = max(values)
    size = deviation_size(evaluation, here, candidates[chosen])
    return NeighbourCorrelation(value, len(chosen), size)


def _prior_correlation(model, theta, X):
    """Return a function from indices of n rows to their prior correlations with all rows, (n, N).

    Those of each of the n rows are multiplied by the standard deviation of f there.
    """
    kernel, theta = model.kernel, model.kernel_theta(theta)
    deviation = np.sqrt(np.maximum(kernel.diag(theta, X), TINY))
    return lambda rows: kernel.value(theta, X[rows], X) / deviation


def _nearness(X):
    """Return a function from indices of n rows to how near they are to all rows, (n, N).

    Its values are minus half of the squared distances, up to a constant for each row, in columns
    that are scaled to variance one.
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
