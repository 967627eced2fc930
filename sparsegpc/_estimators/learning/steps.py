"""The steps of a fit after the decision about the kernel and the noise."""

from sparsegpc._estimators.learning.after_search import (
    with_all_rows,
    with_faster_function,
    with_more_points,
    with_moved_points,
    with_worthwhile_points,
)
from sparsegpc._estimators.learning.effect_trials import (
    with_fast_interactions,
    with_separate_values,
)
from sparsegpc._estimators.learning.rougher_kernel import with_rougher_kernel


def learn(decision):
    """Return the `FittedProblem` of a whole fit, given the `Decision` about kernel and noise."""
    fitted = decision.learn()
    fitted = fitted.then(with_faster_function)
    fitted = fitted.then(with_more_points)
    fitted = fitted.then(with_separate_values)
    fitted = fitted.then(with_fast_interactions)
    fitted = fitted.then(with_rougher_kernel)
    fitted = fitted.then(with_moved_points)
    # A model has the posterior of all rows even if the callback stopped the fit.
    fitted = with_all_rows(fitted)
    fitted = fitted.then(with_worthwhile_points)
    return fitted.incomplete() if fitted.stopped else fitted
