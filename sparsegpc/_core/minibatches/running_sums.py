"""Running sums over a window of rows, and operations on `RowSums`."""

from functools import reduce

import numpy as np

from sparsegpc._core.bounds.collapsed import RowSums


def window(n_rows, n_batch, n_total, learning_rate, rows_per_move=1):
    """Return the number of rows in the window after a batch; see `stochastic_model`."""
    limit = np.inf if n_total is None else n_total
    if learning_rate > 0.0:
        # Adam can change a hyperparameter by a factor of e in 1 / learning_rate moves. A wider
        # window would keep sums from outdated hyperparameters, and a narrower one would learn from
        # too few rows.
        limit = min(limit, max(n_batch, rows_per_move) / learning_rate)
    return max(n_batch, min(n_rows + n_batch, limit))


def no_rows(n_points):
    """Return the `RowSums` of an empty set of rows."""
    zeros = np.zeros(n_points)
    return RowSums(np.zeros((n_points, n_points)), zeros, zeros, 0.0, 0.0, 0.0, 0.0, 0.0)


def scaled(sums, factor):
    """Return the `RowSums` of `factor` times as many copies of the same rows."""
    return RowSums(*(factor * part for part in sums))


def added(first, second):
    """Return the `RowSums` of the rows of both arguments together."""
    return RowSums(*(one + other for one, other in zip(first, second, strict=True)))


def combined(weights, choices):
    """Return the weighted sum of tuples of `RowSums`, itself a tuple with one for each function."""
    return tuple(
        reduce(added, map(scaled, function_sums, weights))
        for function_sums in zip(*choices, strict=True)
    )
