r"""Deviations of the data from the mean of f at rows, which show what f misses.

They are the slopes of the expected log likelihood, :math:`b_n - p_n m_n` with the sites' shift b
and precision p and the mean m of f. With Gaussian noise they are the residuals divided by the noise
variance.
"""

import numpy as np

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.near_copies import SAME_X, SAME_Y, copied_rows
from sparsegpc._core.rows.sources import spaced_rows, take_rows

# A correlation of deviations is significant from this many standard errors on.
LEAST_ERRORS = 4.0


def deviating_rows(model, evaluation, most_rows):
    """Return some rows X (n, D), their deviations (K, n), and their indices (n,) in the model."""
    X, indices = distinct_rows(model, evaluation, most_rows)
    return X, row_deviations(evaluation, X, indices), indices


def row_deviations(evaluation, X, indices):
    """Return the deviations (K, n) at rows `X` (n, D), which are the model's rows `indices`."""
    mean = evaluation.posterior.moments(X)[0]
    all_sites = [solution.sites for solution in evaluation.solutions]
    pairs = zip(all_sites, mean, strict=True)
    return np.stack([s.shift[indices] - s.precision[indices] * m for s, m in pairs])


def deviation_size(evaluation, deviations, indices):
    """Return the mean square of deviations (K, n) over the mean precision of their sites.

    It is about one if the likelihood suits the data, and far below one where f leaves hardly any
    deviation, as for separable classes.
    """
    precision = sum(s.sites.precision[indices].sum() for s in evaluation.solutions)
    return float((deviations**2).sum()) / max(float(precision), TINY)


def distinct_rows(model, evaluation, most_rows):
    """Return some rows (n, D) without copies, and their indices (n,) among the model's rows.

    Copies have the same noise, even if they differ by rounding. Shifts of the sites stand for the
    targets.
    """
    indices = spaced_rows(model.weight, most_rows)
    X = take_rows(model.X, indices, memory=np.inf)
    shifts = [solution.sites.shift[indices] for solution in evaluation.solutions]
    table = np.column_stack([X, *shifts])
    share = np.repeat([SAME_X, SAME_Y], [X.shape[1], len(shifts)])
    tolerance = share * table.std(axis=0)
    varies = tolerance > 0.0
    kept = np.unique(copied_rows(table[:, varies], tolerance[varies]))
    return X[kept], indices[kept]
