"""Choose the kernel by name and the columns that it sees, and learn the model on the way.

An addition to the kernel is learned from the end of the fit without it and from other starts, and
stays if it gains enough. A transform of skewed columns has no parameters that are learned with the
model, so the best of those to try stays if it gains anything.
"""

import numpy as np

from sparsegpc._core.learning.runs import Start
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._estimators.choices.comparison import (
    DECIDING_ROWS,
    FIRST_GAIN,
    Candidate,
    Decision,
    best_run,
    better_candidate,
    deciding_problem,
)
from sparsegpc._estimators.choices.main_effect_starts import MainEffectStarts
from sparsegpc._estimators.improvements.after_search import with_faster_function
from sparsegpc._estimators.kernels.length_scales import typical_log_lengths
from sparsegpc._estimators.kernels.log_transform import find_log_transforms
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.search import search
from sparsegpc._estimators.learning.warm_start import is_warm, last_choice

# Tied length scales must gain this multiple of what other additions must: they are many, and with
# few rows some of them follow noise.
MULTIPLE_FOR_TIED = 2.0
# A search with transformed columns goes on if its first iterations end less than so many nats below
# the fit without the transform.
SHORTFALL = 5.0


def decide_kernel(builder, allows_transform=True):
    """Return the `Decision` about the kernel of an estimator and the columns that it sees.

    Each addition that may help is tried in turn. Kernels that are objects stay as they are, and see
    the columns as they are unless the user demands the transform. `allows_transform` tells whether
    columns may be transformed where the user does not demand it.
    """
    choice = KernelChoice.of(builder.estimator)
    demands_effects = choice.main_effects not in ("auto", False)
    if is_warm(builder.estimator):
        demanded = choice._replace(main_effects=demands_effects)
        return Decision(builder.build(last_choice(builder.estimator, demanded)))
    problem, transforms = _first_problem(builder, choice, allows_transform)
    may_tie = choice.may_be_tied(problem.spread)
    may_add = choice.may_have_effects(problem.spread)
    has_trials = may_tie or may_add or transforms
    if not has_trials or not problem.learns:
        return Decision(problem.with_choice(main_effects=True) if demands_effects else problem)
    best = _learned(problem)
    if may_tie and not builder.progress.stopped:
        best = _with_tied_lengths(best)
    for transform in transforms:
        if not builder.progress.stopped:
            best = _with_transform(best, transform)
    # A single column has no effect beside f.
    if demands_effects and len(problem.spread.deviations) > 1:
        return _decision_with_effects(best)
    if may_add and not builder.progress.stopped:
        best = _with_main_effects(best)
    return best.decision()


def _first_problem(builder, choice, allows_transform):
    """Return the `Problem` without additions, and a list of the transforms of its columns to try.

    The problem has a transform that the user demands.
    """
    log_transform = builder.estimator.log_transform
    is_demanded = log_transform not in ("auto", False)
    is_open = log_transform == "auto" and choice.is_named and allows_transform
    problem = builder.build(choice._replace(main_effects=False))
    if not (is_demanded or is_open):
        return problem, []
    rows = problem.rows.merged
    transforms = find_log_transforms(rows.X, rows.weight, problem.spread.varies)
    if is_open or not transforms:
        return problem, transforms
    return problem.with_choice(transform=transforms[0]), []


def _learned(problem):
    """Return the `Candidate` of a problem."""
    # Comparisons are meaningless until the base model fits the main signal.
    return Candidate(problem, search(deciding_problem(problem)).then(with_faster_function))


def _with_tied_lengths(best):
    """Return the `Candidate` with tied length scales if it beats `best`, else `best`.

    It is learned from the usual starts: from a common length scale, few of many columns would not
    be told from the others.
    """
    other = attempted(_learned, best.full_problem.with_choice(length_scales="tied"))
    if other is None:
        return best
    needed = MULTIPLE_FOR_TIED * best.deciding_fit.problem.needed_gain
    return better_candidate(other, best, "tied length scales", max(needed, FIRST_GAIN))


def _with_transform(best, transform):
    """Return the `Candidate` with transformed columns if it beats `best`, else `best`.

    It is learned from two starts. One has the learned length scales of the columns as they are, in
    units of the transformed ones, and the other one those that a kernel by name has at first.
    """
    before, problem = best.full_problem, best.full_problem.with_choice(transform=transform)
    hyperparameters, deciding = problem.hyperparameters, deciding_problem(problem)
    moved = typical_log_lengths(hyperparameters, problem.spread)
    moved -= typical_log_lengths(before.hyperparameters, before.spread)
    values = [best.end.theta + moved, hyperparameters.rescaled]
    values = [np.clip(theta, *hyperparameters.bounds.T) for theta in values]
    starts = [Start.typical(deciding.model, theta) for theta in values]
    found = best_run(deciding, starts, best.end.objective - SHORTFALL)
    if found is None:
        return best
    # A faster function was looked for in the columns as they are only.
    other = Candidate(problem, found._replace(sought_faster=False))
    return better_candidate(other, best, "transformed columns", needed=0.0)


def _with_main_effects(plain, only_nested=False):
    """Return the `Candidate` with main effects if it beats `plain`, else `plain`.

    They are learned from as many rows, and if `only_nested` from the end of `plain` only.
    """
    problem = plain.full_problem.with_choice(main_effects=True)
    deciding = deciding_problem(problem, plain.n_rows)
    starts = MainEffectStarts(deciding, plain.deciding_fit.result)
    starts = [starts.nested()] if only_nested else starts.all()
    found = best_run(deciding, starts, plain.end.objective + FIRST_GAIN)
    if found is None:
        return plain
    needed = max(deciding.needed_gain, FIRST_GAIN)
    return better_candidate(Candidate(problem, found), plain, "main effects", needed)


def with_effects_tried_again(fitted):
    """Add main effects if they are better with all rows, and with noise that varies.

    The first decision was made with homoscedastic noise, which may hide them, and with a part of
    the rows if they are many. If all rows are too many to learn from, it stays.
    """
    if not _may_have_missed_effects(fitted):
        return fitted
    plain = Candidate(fitted.problem, fitted)
    # The other starts take long with many rows, and a part of these did not prefer them.
    best = _with_main_effects(plain, only_nested=plain.n_rows > DECIDING_ROWS)
    return fitted.evaluated_last() if best is plain else best.decision().learn()


def _may_have_missed_effects(fitted):
    """Return whether a fit without effects knows more than the decision against them did."""
    problem, choice = fitted.problem, KernelChoice.of(fitted.problem.estimator)
    is_open = choice.main_effects == "auto" and choice.may_have_effects(problem.spread)
    if problem.choice.main_effects or not (is_open and fitted.has_function):
        return False
    if len(problem.model.weight) > DECIDING_ROWS:
        # With as many points as needed, the number of points differs from that of the decision.
        return not (problem.learns_from_part or problem.seeks_number)
    return problem.plan is not None and problem.plan.varies


def _decision_with_effects(plain):
    """Return the `Decision` with main effects that the user demands.

    They are learned like others, since a fit from the usual starts may end below the one without
    them. The usual starts remain if that one is constant, or if there are too many columns.
    """
    problem, result = plain.full_problem.with_choice(main_effects=True), plain.deciding_fit.result
    if result.trivial or not problem.choice.may_have_effects(problem.spread):
        return Decision(problem)
    deciding = deciding_problem(problem)
    found = best_run(deciding, MainEffectStarts(deciding, result).all(), -np.inf)
    return Decision(problem) if found is None else Candidate(problem, found).decision()
