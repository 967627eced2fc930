"""A whole fit: the decision about the model, a search, and the steps that follow.

It is repeated without copies of rows if they hide the noise. Without noise the density of a target
that is observed twice has no limit, so a few copies of records outweigh all evidence of noise,
whereas two measurements with noise hardly ever agree to the last digit. So if the noise vanishes,
but not without the copies, the model is the one without them. Copies that were rounded differently
hide noise as well.

A warm start keeps the choices of the last fit: those of the kernel, the columns, the noise and the
likelihood, and the optimum to which they have led. So it leaves out the steps that look for others,
which may take far longer than the search. Few rows may support no other choices. So once the rows
have grown by enough since all choices were made, the rows are fitted afresh as well. Over many fits
to ever more rows, this costs as much as a few fits without a warm start.
"""

from numpy.linalg import LinAlgError
from sklearn.gaussian_process.kernels import Kernel

from sparsegpc._estimators.choices.kernel_choice import with_effects_tried_again
from sparsegpc._estimators.choices.vanishing_noise import vanishing_noise
from sparsegpc._estimators.improvements.after_search import (
    with_all_rows,
    with_faster_function,
    with_more_points,
    with_moved_points,
    with_worthwhile_points,
)
from sparsegpc._estimators.improvements.effect_trials import (
    with_fast_interactions,
    with_faster_effects,
    with_separate_values,
)
from sparsegpc._estimators.improvements.rougher_kernel import with_rougher_kernel
from sparsegpc._estimators.learning.warm_start import has_several_kernels, is_warm

# The factor by which the rows must have grown before a warm start reconsiders choices, with up to
# FEW_ROWS rows and with more. A few further rows of few may show much more of f.
FEW_ROWS, FEW_GROWTH, GROWTH = 200, 1.1, 1.5
# By how much the sum of weights exceeds the number of rows because of rounding, relatively.
ROUNDING = 1e-9


def learn_rows(builder, decide):
    """Return the `FittedProblem` of a whole fit of a `ProblemBuilder`.

    `decide` is the function that returns the `Decision` of a builder about the kernel, and the
    noise or the likelihood.
    """
    estimator, n_rows = builder.estimator, builder.total_weight
    if not is_warm(estimator):
        return _learned_afresh(builder, decide, estimator)
    try:
        warm = _learn_without_hidden_noise(builder, decide)
    except LinAlgError:
        # The last fit may have ended at a limit beyond which the bound cannot be computed.
        return _learned_afresh(builder.afresh(), decide, estimator)
    warm = warm._replace(choice_weight=estimator._choice_weight)
    growth = FEW_GROWTH if n_rows <= FEW_ROWS else GROWTH
    if warm.problem.learns and not warm.stopped and n_rows >= growth * warm.choice_weight:
        return _reconsidered(warm, builder, decide)
    return warm


def _learned_afresh(builder, decide, estimator):
    """Return the `FittedProblem`, for an estimator, that does not go on from the last fit."""
    fitted = _learn_without_hidden_noise(builder, decide)
    fitted = fitted._replace(problem=fitted.problem._replace(estimator=estimator))
    # If nothing is learned, the values of a kernel object are the start that the user wants.
    is_chosen = fitted.problem.learns or isinstance(builder.estimator.kernel, Kernel)
    made = is_chosen and not fitted.stopped
    return fitted._replace(choice_weight=builder.total_weight if made else 0.0)


def _reconsidered(warm, builder, decide):
    """Return the better `FittedProblem` of a `warm` start and a fit afresh to the same rows."""
    try:
        afresh = _learned_afresh(builder.afresh(), decide, builder.estimator)
        kept = _better_fit(afresh, warm)
    except LinAlgError:
        # Keep the fit we have.
        kept = warm.evaluated_last()
    if kept.stopped:
        # The next fit makes the choices.
        return kept.incomplete()._replace(choice_weight=warm.choice_weight)
    return kept._replace(choice_weight=builder.total_weight)


def _better_fit(afresh, warm):
    """Return the better `FittedProblem` of a fit afresh and a warm start, evaluated last."""
    after, before = afresh.result.best, warm.result.best
    # Objectives for other rows, noise or likelihoods do not tell which model is better.
    comparable = _are_comparable(afresh, warm)
    is_better = after.objective > before.objective if comparable else not afresh.stopped
    bound, bound_before = after.elbo + afresh.problem.offset, before.elbo + warm.problem.offset
    comparison = f"fit afresh: bound {bound:.4f}, from the last fit {bound_before:.4f}"
    warm.problem.print_verdict(comparison, is_better)
    if is_better:
        return afresh
    return warm.evaluated_last()._replace(compared_bounds=afresh.compared_bounds)


def _are_comparable(one, other):
    """Return whether two `FittedProblem` have the same rows, noise and likelihood."""
    noise, other_noise = one.problem.plan, other.problem.plan
    same_noise = noise is None or noise.is_like(other_noise)
    same_likelihood = type(one.problem.model.likelihood) is type(other.problem.model.likelihood)
    return same_noise and same_likelihood and one.n_left_out == other.n_left_out


def _learn_without_hidden_noise(builder, decide):
    """Return the `FittedProblem` of a fit, again without copies of rows if they hide the noise."""
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
        # Keep the fit we have.
        pass
    return fitted.evaluated_last()


def learn(decision):
    """Return the `FittedProblem` of a `Decision`, after all steps."""
    fitted, estimator = decision.learn(), decision.problem.estimator
    makes_choices = not is_warm(estimator)
    if makes_choices:
        fitted = fitted.then(with_effects_tried_again)
        fitted = fitted.then(with_faster_function)
    fitted = fitted.then(with_more_points)
    if makes_choices:
        fitted = fitted.then(with_faster_effects)
        fitted = fitted.then(with_separate_values)
        fitted = fitted.then(with_fast_interactions)
    if makes_choices or has_several_kernels(estimator):
        fitted = fitted.then(with_rougher_kernel)
    fitted = fitted.then(with_moved_points)
    # A model has the posterior of all rows even if the callback stopped the fit.
    fitted = with_all_rows(fitted)
    fitted = fitted.then(with_worthwhile_points)
    fitted = fitted._replace(compared_bounds=decision.compared_bounds)
    return fitted.incomplete() if fitted.stopped else fitted
