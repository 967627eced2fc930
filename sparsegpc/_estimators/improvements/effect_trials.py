"""Trials of faster effects of single columns, and of faster interactions, after the search.

The fast effect of a column may be too small to show beside those of other columns until these are
learned. Then deviations are similar at rows where the column has nearly the same value.

The effect of a day, a shop or another code may be independent for each value. A search comes from
longer length scales, at which neighbouring values share their effects, and may end there: few
points can hardly represent many separate effects. So a length scale at which the values are
independent is tried for each effect that varies almost as fast.

The effect of a date may differ from day to day while its interaction with other columns changes
over weeks or months. A search with few points prefers a slow interaction, which they can represent,
and with more points it stays there, because each selection suits the current length scale. So
shorter length scales of the interaction are tried, each with points selected for it.

All are tried with as many points as a fit uses. If one is better, the search continues from there.
"""

import numpy as np

from sparsegpc._core.diagnostics.similar_distances import similar_distances
from sparsegpc._core.learning.pruned_columns import MOST_PASSES, with_shorter_lengths
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._estimators.improvements.after_search import with_search_from
from sparsegpc._estimators.kernels.length_scales import (
    effect_lengths,
    lengths_by_column,
    shortened_effects,
)
from sparsegpc._estimators.learning.point_selection import selector_in_use
from sparsegpc._estimators.learning.problem_fit import evaluate_problem

# An effect is tried if its length scale is less than FEW_VALUES times the typical distance between
# neighbouring values. With INDEPENDENT times this distance their correlation is exp(-8).
FEW_VALUES, INDEPENDENT = 5.0, 0.25
# The values of a column are taken from VALUE_ROWS distinct rows. On average, at least
# FEWEST_SHARING rows must share a value: an effect that differs from row to row is noise.
VALUE_ROWS, FEWEST_SHARING = 10_000, 2
# Each trial of an interaction divides the length scale of a column by DIVISOR, as long as it stays
# more than FASTER times that of the effect. It must be less than LONGEST times the standard
# deviation of the column: beyond that the column hardly interacts.
DIVISOR, FASTER, LONGEST = 4.0, 10.0, 10.0


def with_faster_effects(fitted):
    """Search from effects that vary as fast as the deviations do by themselves, if that is better.

    See `similar_distances`.
    """
    problem, best = fitted.problem, fitted.result.best
    effects, bounds = effect_lengths(problem.hyperparameters), problem.hyperparameters.bounds
    if not (effects and fitted.has_function):
        return fitted
    distances = similar_distances(problem.model, best)
    theta = shortened_effects(best.theta, effects, distances, bounds)
    return fitted if np.array_equal(theta, best.theta) else with_search_from(fitted, theta)


def with_separate_values(fitted):
    """Search from effects that differ from value to value, if these are better."""
    if not fitted.has_function:
        return fitted
    lengths = _independent_lengths(fitted.problem, fitted.result.best.theta)
    return with_search_from(fitted, _better_effects(fitted, lengths)) if lengths else fitted


def _independent_lengths(problem, theta):
    """Return the length scales of effects at which values are independent, by index in theta."""
    hyperparameters, X = problem.hyperparameters, problem.model.X
    effects = effect_lengths(hyperparameters)
    if not effects:
        return {}
    rows, lengths = X[spaced_rows(X, VALUE_ROWS)], {}
    for k, column in effects.items():
        values = np.unique(rows[:, column])
        if not 2 < len(values) <= len(rows) / FEWEST_SHARING:
            continue
        gap = np.median(np.diff(values))
        value = max(np.log(INDEPENDENT * gap), hyperparameters.bounds[k, 0])
        if value < theta[k] < np.log(FEW_VALUES * gap):
            lengths[k] = value
    return lengths


def _better_effects(fitted, lengths):
    """Return theta with those `lengths` that raise the objective at the same points, or None."""
    problem, start = fitted.problem, fitted.result.start()
    alternatives = {k: np.array([value]) for k, value in lengths.items()}
    return with_shorter_lengths(problem.model, start, alternatives, problem.progress, MOST_PASSES)


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
