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
    """Return what is `Learned` in a whole fit, after the `Decision` about kernel and noise."""
    learned = decision.learn()
    learned = learned.then(with_faster_function)
    learned = learned.then(with_more_points)
    learned = learned.then(with_separate_values)
    learned = learned.then(with_fast_interactions)
    learned = learned.then(with_rougher_kernel)
    learned = learned.then(with_moved_points)
    # A model has the posterior of all rows even if the callback stopped the fit.
    learned = with_all_rows(learned)
    learned = learned.then(with_worthwhile_points)
    return learned.incomplete() if learned.stopped else learned
