"""A whole fit: the decision about the model, a search, and the steps that follow.

It is repeated without copies of rows if they hide the noise. Without noise the density of a target
that is observed twice has no limit, so a few copies of records outweigh all evidence of noise,
whereas two measurements with noise hardly ever agree to the last digit. So if the noise vanishes,
but not without the copies, the model is the one without them. Copies that were rounded differently
hide noise as well.
"""

from numpy.linalg import LinAlgError

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
from sparsegpc._estimators.learning.vanishing_noise import vanishing_noise

# By how much the sum of weights exceeds the number of rows because of rounding, relatively.
ROUNDING = 1e-9


def learn_rows(builder, decide):
    """Return the `FittedProblem` of a whole fit of a `ProblemBuilder`.

    `decide` is the function that returns the `Decision` of a builder about the kernel, and the
    noise or the likelihood.
    """
    fitted = learn(decide(builder))
    vanished = vanishing_noise(fitted, at_copies=True)
    if fitted.stopped or not vanished:
        return fitted
    distinct, n_copies = builder.without_copies()
    if n_copies <= ROUNDING * fitted.problem.whole.total_weight:
        return fitted
    try:
        other = learn(decide(distinct))
        remaining = vanishing_noise(other, at_copies=False)
        if remaining < vanished and not other.stopped:
            return other._replace(n_left_out=n_copies)
    except LinAlgError:
        # What was learned is usable.
        pass
    return fitted.evaluated_last()


def learn(decision):
    """Return the `FittedProblem` of a `Decision`, after all steps."""
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
    fitted = fitted._replace(compared_bounds=decision.compared_bounds)
    return fitted.incomplete() if fitted.stopped else fitted
