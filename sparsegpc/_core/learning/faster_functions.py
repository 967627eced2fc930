"""Search once more, from other starts, where a fast or steep function was taken for noise.

A search that starts with long length scales may find only slow variation of f, and take the rest
for noise. But the deviations from the mean are then correlated at rows that are near each other, in
all columns or in a few, although the points leave hardly any variance unexplained. So other
hyperparameters are needed, not more points. With many rows, searches on a part of them tell which
start is better, if any, and the search on all rows continues from the end of the best.

A function of the difference of two nearly equal columns is steep, and may be taken for noise as
well. The deviations then depend linearly on the columns.
"""

import numpy as np

from sparsegpc._core.learning.fit import finished
from sparsegpc._core.learning.more_points import (
    HIGH_COST_PER_ROW,
    LEAST_CORRELATION,
    NEGLIGIBLE_COST_PER_ROW,
)
from sparsegpc._core.learning.single_start import MANY_ROWS, Run, Start, continue_run, fit_from
from sparsegpc._core.models.linear_deviations import linear_deviations
from sparsegpc._core.models.neighbour_correlation import neighbour_correlation
from sparsegpc._core.models.similar_groups import similar_group
from sparsegpc._core.numerics.linalg import attempted

# Least correlation within a group of columns from which another search begins.
LEAST_GROUP_CORRELATION = 0.08
# A linear function of more columns is not looked for, as this would take longer than an evaluation.
MOST_COLUMNS = 300
# Of many rows, this many tell from which start to continue.
RANKING_ROWS = 2000


def missed_correlation(model, result):
    """Return the correlation of deviations at neighbouring rows that a faster function may explain.

    Zero if there are too few points: then more points are needed, not another search.
    """
    has_few_points = model.cost_per_row(result.best) >= NEGLIGIBLE_COST_PER_ROW
    return 0.0 if has_few_points else remaining_correlation(model, result)


def remaining_correlation(model, result):
    """Return the correlation of deviations at neighbouring rows, zero if it is insignificant.

    Small deviations count less.
    """
    correlation = neighbour_correlation(model, result.best)
    return correlation.value * min(correlation.size, 1.0) if correlation.is_significant else 0.0


def misses_fast_function(model, result):
    """Return whether another search may find a faster function."""
    return missed_correlation(model, result) > LEAST_CORRELATION


def missed_group(model, result, columns, may_be_single):
    """Return the `SimilarGroup` of a few columns of which f misses a function, or None.

    It is None, too, if there are too few points, or if the group is a single one of several
    columns and not `may_be_single`. Small deviations count less.
    """
    if not columns or model.cost_per_row(result.best) > HIGH_COST_PER_ROW:
        return None
    group = similar_group(model, result.best, columns)
    if group is None or group.correlation * min(group.size, 1.0) < LEAST_GROUP_CORRELATION:
        return None
    is_one_of_several = len(group.columns) == 1 < len(columns)
    return None if is_one_of_several and not may_be_single else group


def missed_slope_variance(model, result):
    """Return the variance of the slopes of a linear function that f misses, or None.

    The columns have variance one. It is None, too, if there are more than `MOST_COLUMNS` of them,
    or too few points.
    """
    has_few_points = model.cost_per_row(result.best) > HIGH_COST_PER_ROW
    if has_few_points or model.X.shape[1] > MOST_COLUMNS:
        return None
    found = linear_deviations(model, result.best)
    return found.slope_variance if found is not None and found.is_significant else None


def fit_faster(model, result, thetas, selector, settings):
    """Fit from `thetas`, of shape (P,) each, as well, and return the better `FitResult`."""
    best = result
    if len(model.weight) >= MANY_ROWS:
        starts = _found_in_part(model, result, thetas, selector, settings)
    else:
        starts = [Start.typical(model, theta) for theta in thetas]
    for start in starts:
        reached = best.best.objective
        found = attempted(fit_from, model, start, selector, settings, reached)
        if found is None:
            # Rows may lie too close together for another kernel.
            continue
        if found.best.objective > reached:
            best = result.followed_by(found)
        if settings.progress.stopped:
            break
    return finished(model, best, settings.progress)


def _found_in_part(model, result, thetas, selector, settings):
    """Return the `Start` for all rows at the best end of searches on a part of them.

    The list that holds it is empty if the search from the hyperparameters of `result` is the best.
    """
    part, best, winner = model.subsample(RANKING_ROWS), None, 0
    for k, theta in enumerate((result.best.theta, *thetas)):
        to_beat = -np.inf if best is None else best.objective
        run = attempted(continue_run, part, Run(theta), selector, settings, to_beat)
        if run is None:
            continue
        if run.objective > to_beat:
            best, winner = run, k
        if settings.progress.stopped:
            return []
    return [best.start_on(model)] if winner > 0 else []
