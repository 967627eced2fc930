"""Trials of faster effects of single columns, after the search.

The fast effect of a column may be too small to show beside those of other columns until these are
learned. Then deviations are similar at rows where the column has nearly the same value.

The effect of a day, a shop or another code may be independent for each value. A search comes from
longer length scales, at which neighbouring values share their effects, and may end there: few
points can hardly represent many separate effects. So a length scale at which the values are
independent is tried for each effect that varies almost as fast.

Both are tried with as many points as a fit uses. If one is better, the search continues from there.
"""

import numpy as np

from sparsegpc._core.learning.pruned_columns import MOST_PASSES, with_shorter_lengths
from sparsegpc._core.models.similar_distances import similar_distances
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._estimators.kernels.length_scales import (
    effect_lengths,
    shortened_effects,
)
from sparsegpc._estimators.learning.after_search import with_search_from

# An effect is tried if its length scale is less than FEW_VALUES times the typical distance between
# neighbouring values. With INDEPENDENT times this distance their correlation is exp(-8).
FEW_VALUES, INDEPENDENT = 5.0, 0.25
# The values of a column are taken from VALUE_ROWS distinct rows. On average, at least
# FEWEST_SHARING rows must share a value: an effect that differs from row to row is noise.
VALUE_ROWS, FEWEST_SHARING = 10_000, 2


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
