"""Let the effect of a column differ from value to value where the search has not found that.

The effect of a day, a shop or another code may be independent for each value. A search comes from
longer length scales, at which neighbouring values share their effects, and may end there: few
points can hardly represent many separate effects. So after the search, with as many points as a fit
uses, a length scale at which the values are independent is tried for each effect that varies almost
as fast. The search goes on from there if that is better.
"""

import numpy as np

from sparsegpc._core.learning.pruned_columns import MOST_PASSES, shortened
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._estimators.kernels.initialization import effect_lengths
from sparsegpc._estimators.learning.after_search import with_search_from

# An effect is tried if its length scale is less than FEW_VALUES times the typical distance between
# neighbouring values. With INDEPENDENT times this distance their correlation is exp(-8).
FEW_VALUES, INDEPENDENT = 5.0, 0.25
# MOST_ROWS distinct rows tell the values of a column. On average, at least FEWEST_SHARING rows must
# share a value: an effect that differs from row to row is noise.
MOST_ROWS, FEWEST_SHARING = 10_000, 2


def with_separate_values(learned):
    """Return what is `Learned` from shorter length scales of effects if that is better."""
    problem, result = learned.problem, learned.result
    if not problem.learns or result.trivial:
        return learned
    model, best = problem.model, result.best
    alternatives = _alternatives(problem, best.theta)
    if not alternatives:
        return learned
    if result.stopped:
        return learned.incomplete()
    theta = shortened(
        model, best.theta, best.points, best.states, alternatives, problem.progress, MOST_PASSES
    )
    if theta is not None:
        return with_search_from(learned, theta)
    return learned.evaluated_last()


def _alternatives(problem, theta):
    """Return a dict from the index in theta of each length scale to try to the value to try."""
    parameters, X = problem.parameters, problem.model.X
    effects = effect_lengths(parameters)
    if not effects:
        return {}
    rows, alternatives = X[spaced_rows(X, MOST_ROWS)], {}
    for k, column in effects.items():
        values = np.unique(rows[:, column])
        if not 2 < len(values) <= len(rows) / FEWEST_SHARING:
            continue
        gap = np.median(np.diff(values))
        value = max(np.log(INDEPENDENT * gap), parameters.bounds[k, 0])
        if value < theta[k] < np.log(FEW_VALUES * gap):
            alternatives[k] = np.array([value])
    return alternatives
