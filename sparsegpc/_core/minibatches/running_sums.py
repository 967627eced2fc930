"""Running sums over a window of rows: what `RowSums` of batches can be made into."""

import numpy as np

from sparsegpc._core.bounds.collapsed import RowSums


def window(n_rows, n_batch, n_total, learning_rate):
    """Return how many rows the running sums stand for after a batch; see the module's text."""
    limit = np.inf if n_total is None else n_total
    if learning_rate > 0.0:
        # The batches in which Adam, at its fastest, changes a hyperparameter by a factor of e. A
        # wider window keeps sums of earlier functions, a narrower one learns from too few rows.
        limit = min(limit, n_batch / learning_rate)
    return max(n_batch, min(n_rows + n_batch, limit))


def no_rows(n_points):
    """Return the `RowSums` of no rows."""
    nothing = np.zeros(n_points)
    return RowSums(np.zeros((n_points, n_points)), nothing, nothing, 0.0, 0.0, 0.0, 0.0, 0.0)


def scaled(sums, factor):
    """Return the `RowSums` of rows of which each counts `factor` times."""
    return RowSums(*(factor * part for part in sums))


def added(first, second):
    """Return the `RowSums` of the rows of both."""
    return RowSums(*(one + other for one, other in zip(first, second, strict=True)))


def combined(weights, choices):
    """Return the weighted sum of several tuples of `RowSums`, one for each function."""
    return tuple(
        RowSums(
            *(
                sum(c * x for c, x in zip(weights, xs, strict=True))
                for xs in zip(*of_function, strict=True)
            )
        )
        for of_function in zip(*choices, strict=True)
    )
