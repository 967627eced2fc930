r"""Remove the inducing points that are not worth their cost.

The prior of Uhrenholt, Charvet, Jensen 2021 makes subsets of the candidates less probable the more
points they have. Here the log prior is minus a cost for each point, so the most probable subset
maximises bound - cost * M. The search removes the point with the least gain until every gain is at
least the cost. The hyperparameters stay the same: if they were learned again, longer length scales
and more noise would make up for the missing points.
"""

import numpy as np

from sparsegpc._core.bounds.point_gains import removal_order
from sparsegpc._core.models.fixed_sites import point_gains


def keep_worthwhile_points(model, result, cost, progress):
    """Return the `FitResult` without the points that gain less than `cost` nats each.

    The points that are left are ordered by worth: if points are removed one by one, the last one
    goes first.

    The gains are those at fixed sites, and after a removal they are approximate (`PointGains`). So
    points are removed in rounds. The bound after a round is computed with new sites, and if its
    fall exceeds the cost of the points, half of the removals are undone. The last round finds that
    every point gains at least the cost. Cost about 5 N M^2 for each round, with M at its beginning;
    a few rounds usually suffice.
    """
    best, lower_bounds = result.best, list(result.lower_bounds)
    while not progress.stopped:
        smaller = _after_round(model, best, cost, progress)
        if smaller is None:
            break
        best = smaller
        lower_bounds.append(best.elbo)
    if not progress.stopped:
        best = _by_worth(model, best, progress)
    message, end = result.message if best.converged else model.unsolved, result.optimum
    return result._replace(best=best, lower_bounds=lower_bounds, message=message, search_end=end)


def _after_round(model, best, cost, progress):
    """Return the `Evaluation` after a round of removals, or None if it removes no point."""
    removed = removal_order(point_gains(model, best), cost)
    while removed and not progress.stopped:
        kept = np.delete(np.arange(len(best.points.Z)), removed)
        smaller = _at(model, best, kept, progress)
        if best.elbo - smaller.elbo < cost * len(removed):
            return smaller
        removed = removed[: len(removed) // 2]
    return None


def _by_worth(model, best, progress):
    first_to_go = removal_order(point_gains(model, best))
    # Points whose gains are dominated by rounding errors are not in this list.
    others = np.delete(np.arange(len(best.points.Z)), first_to_go)
    order = np.concatenate([others, np.array(first_to_go[::-1], dtype=np.intp)])
    return _at(model, best, order, progress)


def _at(model, best, kept, progress):
    """Return the `Evaluation` at the points of given indices, and record it."""
    points = best.points
    indices = None if points.indices is None else points.indices[kept]
    points = points._replace(Z=points.Z[kept], indices=indices)
    evaluation = model.solve(best.theta, points, best.states, wrt_theta=False)
    progress.evaluated(model, evaluation, has_new_points=True)
    return evaluation
