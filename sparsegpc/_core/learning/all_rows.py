"""Learn from a part of very many rows, and compute the posterior from all of them.

A part determines the hyperparameters: P of them that are learned from n rows are expected to cost
P / 2n nats a row. Learning from few rows leaves time for more inducing points, which gain more. All
rows then enter the posterior at the end of the search, where the sites need few passes, and no
gradient.
"""

from sparsegpc._core.learning.fit import with_last_evaluation
from sparsegpc._core.learning.growing_subsets import ENOUGH_ROWS_PER_POINT
from sparsegpc._core.rows.sources import spaced_rows

# Rows of the part, unless the points need more; with fewer than twice as many all of them learn.
LEARNING_ROWS = 100_000


def learning_part(model, n_points):
    """Return the model of the rows to learn from with `n_points` points: all rows or a part."""
    n_rows = max(LEARNING_ROWS, ENOUGH_ROWS_PER_POINT * n_points)
    return model if len(model.weight) < 2 * n_rows else model.subsample(n_rows)


def on_all_rows(model, result, progress):
    """Return the `FitResult` on all rows at the hyperparameters and points learned on a part.

    The sites are solved to the tolerance of the bound. ``optimum`` remains that of the part. This
    is done even if the callback stopped the fit, so the posterior is always that of all rows.
    """
    before = result.best
    indices = before.points.indices
    if indices is not None:
        n_part = len(before.solutions[0].sites.precision)
        indices = spaced_rows(model.weight, n_part)[indices]
    points = before.points._replace(indices=indices)
    states = model.states_from(before.theta, before.posterior)
    best = model.solve(before.theta, points, states, tol=model.tol, wrt_theta=False)
    result = result._replace(lower_bounds=[best.elbo], search_end=result.optimum)
    return with_last_evaluation(model, result, best, progress)
