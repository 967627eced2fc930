"""Let a column interact faster with the others where its own effect varies far faster.

The effect of a date may differ from day to day while its interaction with other columns changes
over weeks or months. A search with few points prefers the slow interaction, which they can
represent, and with more points it stays there: each selection suits the length scale so far. So
after the search shorter length scales of the interaction are tried, each with points that are
selected for it. The search goes on from there if that is better.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._estimators.kernels.initialization import effect_lengths, own_lengths
from sparsegpc._estimators.learning.after_search import with_search_from
from sparsegpc._estimators.learning.point_selection import selector_of
from sparsegpc._estimators.learning.problem_fit import evaluate_problem

# Each trial divides the length scale of a column by DIVISOR, as long as it remains more than FASTER
# times that of the effect. It must be less than LONGEST times the standard deviation of the column:
# beyond that the column hardly interacts.
DIVISOR, FASTER, LONGEST = 4.0, 10.0, 10.0


def with_fast_interactions(learned):
    """Return what is `Learned` from shorter length scales of the interaction if that is better."""
    problem, result = learned.problem, learned.result
    if not problem.learns or result.trivial:
        return learned
    shortest = _shortest(problem, result.best.theta)
    if not shortest:
        return learned
    if result.stopped:
        return learned.incomplete()
    try:
        theta = _shortened(learned, shortest)
    except LinAlgError:
        # Points may lie too close together for another kernel.
        theta = None
    return learned.evaluated_last() if theta is None else with_search_from(learned, theta)


def _shortest(problem, theta):
    """Return a dict from the index in theta of each length scale to try to its lower limit."""
    parameters, spread = problem.parameters, problem.spread
    own, shortest = own_lengths(parameters, spread), {}
    effects = {column: theta[k] for k, column in effect_lengths(parameters).items()}
    for column, effect in effects.items():
        longest = np.log(LONGEST * spread.units[column])
        for k in own.get(column, []):
            least = max(effect + np.log(FASTER), parameters.bounds[k, 0])
            if least + np.log(DIVISOR) < theta[k] < longest:
                shortest[k] = least
    return shortest


def _shortened(learned, shortest):
    """Return theta with the length scales that raise the objective by enough, or None."""
    problem, states = learned.problem, learned.result.best.states
    selector = selector_of(problem, len(learned.result.best.points.Z))
    first = best = evaluate_problem(problem, selector, learned.result.best.theta, states)
    for k, least in sorted(shortest.items()):
        theta = best.theta.copy()
        while theta[k] - np.log(DIVISOR) > least and not problem.progress.stopped:
            theta[k] -= np.log(DIVISOR)
            found = evaluate_problem(problem, selector, theta.copy(), states)
            best = max(best, found, key=lambda evaluation: evaluation.objective)
    return best.theta if best.objective > first.objective + problem.needed_gain else None
