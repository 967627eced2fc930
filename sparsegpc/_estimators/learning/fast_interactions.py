"""Trials of shorter length scales of the interaction, where columns have effects of their own.

The effect of a date may differ from day to day while its interaction with other columns changes
over weeks or months. A search with few points prefers a slow interaction, which they can represent,
and with more points it stays there, because each selection suits the current length scale. So
shorter length scales of the interaction are tried, each with points selected for it, and with as
many points as a fit uses. If one is better, the search continues from there.
"""

import numpy as np

from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._estimators.kernels.length_scales import effect_lengths, lengths_by_column
from sparsegpc._estimators.learning.after_search import with_search_from
from sparsegpc._estimators.learning.point_selection import selector_in_use
from sparsegpc._estimators.learning.problem_fit import evaluate_problem

# Each trial divides the length scale of a column by DIVISOR, as long as it remains more than FASTER
# times that of the effect. It must be less than LONGEST times the standard deviation of the column:
# beyond that the column hardly interacts.
DIVISOR, FASTER, LONGEST = 4.0, 10.0, 10.0


def with_fast_interactions(fitted):
    """Search from shorter length scales of the interaction, if these are better."""
    if not fitted.has_function:
        return fitted
    shortest = _shortest_lengths(fitted.problem, fitted.result.best.theta)
    return with_search_from(fitted, _better_interactions(fitted, shortest)) if shortest else fitted


def _shortest_lengths(problem, theta):
    """Return the lower limits of the length scales of interactions to try, by index in theta."""
    hyperparameters, spread = problem.hyperparameters, problem.spread
    own, shortest = lengths_by_column(hyperparameters, spread), {}
    effects = {column: theta[k] for k, column in effect_lengths(hyperparameters).items()}
    for column, effect in effects.items():
        longest = np.log(LONGEST * spread.units[column])
        for k in own.get(column, []):
            least = max(effect + np.log(FASTER), hyperparameters.bounds[k, 0])
            if least + np.log(DIVISOR) < theta[k] < longest:
                shortest[k] = least
    return shortest


def _better_interactions(fitted, shortest):
    """Return the theta with shorter length scales that has the highest objective, or None.

    It is None unless that is better by enough.
    """
    problem, start = fitted.problem, fitted.result.best
    selector = selector_in_use(problem, len(start.points.Z))

    def objective(theta):
        """Return the objective with points selected for theta, or -inf if this fails."""
        # Points may lie too close together for another kernel.
        found = attempted(evaluate_problem, problem, selector, theta, start.states)
        return -np.inf if found is None else found.objective

    best, first = start.theta, objective(start.theta)
    highest = first
    for k, least in sorted(shortest.items()):
        theta = best.copy()
        while theta[k] - np.log(DIVISOR) > least and not problem.progress.stopped:
            theta[k] -= np.log(DIVISOR)
            found = objective(theta.copy())
            if found > highest:
                best, highest = theta.copy(), found
    return best if highest > first + problem.needed_gain else None
