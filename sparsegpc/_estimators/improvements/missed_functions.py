"""Starts for functions that a fit took for noise, as its deviations show."""

from sparsegpc._core.diagnostics.verdicts import (
    missed_group,
    missed_slope_variance,
    misses_fast_function,
)
from sparsegpc._estimators.kernels.initialization import faster_starts, group_starts, steep_starts
from sparsegpc._estimators.kernels.length_scales import lengths_by_column


def missed_function_starts(problem, best, may_be_single):
    """Return two lists of starts for the functions that deviations from an `Evaluation` show.

    `problem` has the ``model``, the ``hyperparameters`` and the ``spread`` of the rows. The first
    list holds the starts for a function of a single column. Where there are several columns, it is
    looked for if the function `may_be_single`.
    """
    model, hyperparameters, spread = problem.model, problem.hyperparameters, problem.spread
    if not hyperparameters.has_length_scales:
        return [], []
    theta, columns = best.theta, list(lengths_by_column(hyperparameters, spread))
    group = missed_group(model, best, columns, may_be_single)
    of_group = [] if group is None else group_starts(hyperparameters, spread, theta, group)
    others = []
    if misses_fast_function(model, best):
        others += faster_starts(hyperparameters, spread, theta)
    slope_variance = missed_slope_variance(model, best)
    if slope_variance is not None:
        others += steep_starts(hyperparameters, spread, slope_variance)
    is_single = group is not None and len(group.columns) == 1
    return (of_group, others) if is_single else ([], of_group + others)
