"""What a fit lacks: points, a fast function of all columns or of a few, or a steep one.

The variance that the points leave unexplained costs a part of the bound. If this cost is high,
there are too few points. If it is low, but deviations from the mean are correlated at rows that are
near each other, a fast function was taken for noise. Then other hyperparameters are needed, not
more points. A function of the difference of two nearly equal columns is steep, and may be taken for
noise as well. Deviations then depend linearly on the columns.

In all functions `best` is the `Evaluation` of `model` at the end of a fit.
"""

from sparsegpc._core.diagnostics.linear_deviations import linear_deviations
from sparsegpc._core.diagnostics.neighbour_correlation import neighbour_correlation
from sparsegpc._core.diagnostics.similar_groups import similar_group

# Costs, in nats a row, of the variance that the points leave unexplained. Above the first, points
# are too few. Above the second, a few more are worth their time. Below the third, more would change
# nothing at first.
HIGH_COST_PER_ROW, SMALL_COST_PER_ROW, NEGLIGIBLE_COST_PER_ROW = 0.005, 0.0015, 1e-4
# Correlations from which on something is lacking: that of neighbouring rows in all columns, and
# that within a group of columns.
LEAST_CORRELATION, LEAST_GROUP_CORRELATION = 0.1, 0.08
# A linear function of more columns is not looked for, as this would take longer than an evaluation.
MOST_COLUMNS = 300


def are_too_few(model, best, most_cost=HIGH_COST_PER_ROW):
    """Return whether there are too few points.

    There are if the variance that they leave unexplained costs more than `most_cost` nats a row.
    Too few points may also take a rough function for noise. Then the variance that they leave
    unexplained is small, but neighbouring rows deviate from the mean in the same direction.
    """
    cost = model.cost_per_row(best)
    if cost < NEGLIGIBLE_COST_PER_ROW:
        return False
    if cost > most_cost:
        return True
    correlation = neighbour_correlation(model, best)
    return correlation.is_significant and correlation.value > LEAST_CORRELATION


def remaining_correlation(model, best):
    """Return the correlation of deviations at neighbouring rows, zero if it is insignificant.

    Small deviations count less.
    """
    correlation = neighbour_correlation(model, best)
    return correlation.value * min(correlation.size, 1.0) if correlation.is_significant else 0.0


def missed_correlation(model, best):
    """Return the `remaining_correlation` that a faster function may explain.

    It is zero if there are too few points: then more points are needed, not another search.
    """
    has_few_points = model.cost_per_row(best) >= NEGLIGIBLE_COST_PER_ROW
    return 0.0 if has_few_points else remaining_correlation(model, best)


def misses_fast_function(model, best):
    """Return whether another search may find a faster function."""
    return missed_correlation(model, best) > LEAST_CORRELATION


def missed_group(model, best, columns, may_be_single):
    """Return the `SimilarGroup` of a few of the `columns` of which f misses a function, or None.

    It is None, too, if there are too few points, or if the group is a single one of several
    columns and not `may_be_single`. Small deviations count less.
    """
    if not columns or model.cost_per_row(best) > HIGH_COST_PER_ROW:
        return None
    group = similar_group(model, best, columns)
    if group is None or group.correlation * min(group.size, 1.0) < LEAST_GROUP_CORRELATION:
        return None
    is_one_of_several = len(group.columns) == 1 < len(columns)
    return None if is_one_of_several and not may_be_single else group


def missed_slope_variance(model, best):
    """Return the variance of the slopes of a linear function that f misses, or None.

    The columns have variance one. It is None, too, if there are more than `MOST_COLUMNS` of them,
    or too few points.
    """
    has_few_points = model.cost_per_row(best) > HIGH_COST_PER_ROW
    if has_few_points or model.X.shape[1] > MOST_COLUMNS:
        return None
    found = linear_deviations(model, best)
    return found.slope_variance if found is not None and found.is_significant else None
