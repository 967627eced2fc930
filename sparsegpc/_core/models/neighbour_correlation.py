"""The correlation of deviations at neighbouring rows, which shows that f misses a fast function."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# Number of rows for which neighbours are found, a block at a time, and of candidates for these.
CHOSEN_ROWS, BLOCK_ROWS, MOST_CANDIDATES = 2000, 100, 50_000
# A correlation is significant from this many standard errors on.
LEAST_ERRORS = 4.0


class NeighbourCorrelation(NamedTuple):
    """The correlation of the deviations at neighbouring rows, and the number of pairs of rows.

    ``size`` is the mean square of the deviations over the mean precision of their sites. It is
    about one if the likelihood suits the data, and far below one where f leaves hardly any
    deviation, as for separable classes.
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
    of f. Cost an element of the kernel matrix for each of `CHOSEN_ROWS` rows and each candidate.
    """
    candidates = spaced_rows(model.weight, MOST_CANDIDATES)
    X = take_rows(model.X, candidates, memory=np.inf)
    chosen = spaced_rows(candidates, CHOSEN_ROWS)
    neighbours = _nearest_rows(model, evaluation.theta, X, chosen)
    here = _deviations(evaluation, X[chosen], candidates[chosen])
    there = _deviations(evaluation, X[neighbours], candidates[neighbours])
    precision = sum(s.sites.precision[candidates[chosen]].sum() for s in evaluation.solutions)
    # Where nothing deviates from the mean, there is no correlation.
    square = max(float((here**2).sum()), TINY)
    value = float((here * there).sum()) / square
    return NeighbourCorrelation(value, len(chosen), square / max(float(precision), TINY))


def similar_distances(model, evaluation):
    """Return within which distance in a column, by itself, rows deviate from the mean alike, (D,).

    It is where the correlation of the deviations, in the order of the column, falls below half of
    that of successive rows, and infinite if these have no significant correlation. A fast function
    of a single column shows in this way, although rows that are near in all columns may be far
    apart for it. Rows with equal values are in random order, as otherwise they would be near in
    other columns, too. Cost O(n D log n) for at most `CHOSEN_ROWS` rows.
    """
    chosen = spaced_rows(model.weight, CHOSEN_ROWS)
    X = take_rows(model.X, chosen, memory=np.inf)
    deviations = _deviations(evaluation, X, chosen)
    square = max(float((deviations**2).sum()), TINY)
    found = np.full(X.shape[1], np.inf)
    shuffled = np.random.RandomState(0).permutation(len(X))
    for k, x in enumerate(X.T):
        order = np.lexsort((shuffled, x))
        x, sorted_deviations = x[order], deviations[:, order]
        lag, first = 1, None
        while lag < len(x):
            product = sorted_deviations[:, lag:] * sorted_deviations[:, :-lag]
            correlation = float(product.sum()) / square
            first = correlation if first is None else first
            if first <= LEAST_ERRORS / np.sqrt(len(x)):
                break
            distance = float(np.median(x[lag:] - x[:-lag]))
            if correlation < 0.5 * first and distance > 0.0:
                found[k] = distance
                break
            lag += 1 + lag // 4
    return found


def _deviations(evaluation, X, places):
    """Return the deviations (K, n) at rows `X` (n, D), which are the model's rows `places`."""
    mean = evaluation.posterior.moments(X)[0]
    all_sites = [solution.sites for solution in evaluation.solutions]
    pairs = zip(all_sites, mean, strict=True)
    return np.stack([s.shift[places] - s.precision[places] * m for s, m in pairs])


def _nearest_rows(model, theta, X, chosen):
    """Return for each of the `chosen` rows of X another row with the highest prior correlation."""
    kernel, theta = model.kernel, model.split(theta)[0]
    deviation = np.sqrt(np.maximum(kernel.diag(theta, X), TINY))
    nearest = []
    for start in range(0, len(chosen), BLOCK_ROWS):
        rows = chosen[start : start + BLOCK_ROWS]
        correlation = kernel.value(theta, X[rows], X) / deviation
        correlation[np.arange(len(rows)), rows] = -np.inf
        nearest.append(correlation.argmax(axis=1))
    return np.concatenate(nearest)
