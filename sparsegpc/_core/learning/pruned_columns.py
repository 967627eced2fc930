"""Bring back columns that a search has pruned by a length scale far beyond their values.

There the gradient with respect to the length scale vanishes. A column whose effect changes fast may
be pruned while other length scales are still poor, and no step would bring it back. So shorter
length scales are tried, one column at a time, on a part of the rows. If very many columns are
pruned, only those are tried for which the bound rises fastest with the inverse square of the length
scale. Such trials also provide a start for a search that might miss that few columns matter.
"""

import numpy as np

from sparsegpc._core.learning.runs import Start
from sparsegpc._core.numerics.linalg import attempted

# A column counts as pruned if its length scale is more than this many times the shortest one.
PRUNED = 5.0
# Largest number of columns that are tried.
MOST_COLUMNS = 100
# A column is brought back if that raises the objective on at most TRIAL_ROWS rows by more than
# LEAST_GAIN nats.
LEAST_GAIN, TRIAL_ROWS = 1.0, 500
# Of more than two values every second one is tried first. The others follow only if one of these
# lowers the objective by less than this many nats.
NEAR = 20.0
# The sites are solved to the tolerance SITES_TOL, in nats, or in MOST_PASSES passes. That suffices
# to tell a good length scale from a poor one.
SITES_TOL, MOST_PASSES = 0.1, 2


def bring_back(model, best, alternatives, progress):
    """Return theta with the columns brought back that raise the objective of `best`, or None.

    `alternatives` maps the index of each length scale in theta to values to try if it is longer
    than all of them; the first one is the unit in which length scales are compared.
    """
    relative = {k: best.theta[k] - values[0] for k, values in alternatives.items()}
    limit = min(relative.values(), default=0.0) + np.log(PRUNED)
    pruned = [
        k
        for k, values in alternatives.items()
        if relative[k] > limit and best.theta[k] > values.max()
    ]
    if not pruned:
        return None
    if len(pruned) > MOST_COLUMNS:
        # The derivative with respect to the inverse square of a length scale does not vanish
        # where that is infinite.
        slopes = model.prior.gradient(best.theta) - best.grad_theta
        steepness = {k: slopes[k] * np.exp(2.0 * relative[k]) for k in pruned}
        pruned = sorted(pruned, key=steepness.get, reverse=True)[:MOST_COLUMNS]
    part = model.subsample(TRIAL_ROWS)
    states = part.states_from(best.theta, best.posterior)
    start = Start(best.theta, states, points=best.points)
    tried = {k: alternatives[k] for k in pruned}
    return with_shorter_lengths(part, start, tried, progress, MOST_PASSES)


def with_shorter_lengths(model, start, alternatives, progress, max_iter, share=0.0):
    """Return theta with those alternatives that raise the objective by themselves, or None.

    `model` has few rows, and the `Start` has points. `alternatives` maps the index of each length
    scale in theta to values to try, one length scale at a time. The sites are solved for in at most
    `max_iter` passes. Length scales that gain less than `share` of what the best one gains are left
    out.
    """
    options = {"tol": SITES_TOL, "max_iter": max_iter, "wrt_theta": False}

    def objective(changes):
        """Return the objective with changed entries of theta, a dict, or -inf if that fails."""
        if progress.stopped:
            return -np.inf
        theta = start.theta.copy()
        for k, value in changes.items():
            theta[k] = value
        found = attempted(progress.evaluate, model, theta, start.points, start.states, **options)
        return -np.inf if found is None else found.objective

    before = objective({})
    best = {
        k: _best_value(lambda value, k=k: objective({k: value}), values, before)
        for k, values in alternatives.items()
    }
    highest = max((reached for reached, _ in best.values()), default=-np.inf)
    if not highest > before + LEAST_GAIN:
        return None
    # If nothing is reached before, every value that can be evaluated is better.
    least = max(LEAST_GAIN, share * (highest - before)) if before > -np.inf else LEAST_GAIN
    result = start.theta.copy()
    for k, (reached, value) in best.items():
        if reached > before + least:
            result[k] = value
    return result


def _best_value(objective, values, before):
    """Return the highest objective at values of a length scale, and the value where it is.

    Values far below the objective `before` may be skipped, see `NEAR`.
    """
    found = {value: objective(value) for value in values[:: 2 if len(values) > 2 else 1]}
    if max(found.values()) > before - NEAR:
        found |= {value: objective(value) for value in values if value not in found}
    best = max(found, key=found.get)
    return found[best], best
