"""Choose the kernel by name and the columns that it sees, and learn the model on the way."""

from numpy.linalg import LinAlgError

from sparsegpc._estimators.kernels.log_transform import find_log_transform
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.after_search import find_faster_function
from sparsegpc._estimators.learning.comparison import Candidate, Decision, better
from sparsegpc._estimators.learning.main_effects import with_main_effects
from sparsegpc._estimators.learning.search import search
from sparsegpc._estimators.learning.skewed_columns import with_transform
from sparsegpc._estimators.learning.warm_start import is_warm, last_choice


def decide_kernel(builder, sees_logarithms=True):
    """Return the `Decision` about the kernel of an estimator and the columns that it sees.

    Each addition that may help is tried in turn, and stays if the bound asks for it. Kernels that
    are objects stay as they are, and see the columns as they are unless the user demands the
    transform.

    Parameters
    ----------
    builder : ProblemBuilder
    sees_logarithms : bool
        Whether columns may be transformed where the user does not demand it.
    """
    estimator = builder.estimator
    choice, log_transform = KernelChoice.of(estimator), estimator.log_transform
    demands_effects = choice.main_effects not in ("auto", False)
    demands_transform = log_transform not in ("auto", False)
    plain = choice._replace(main_effects=False)

    def with_demanded_effects(choice):
        return Decision(builder.build(choice._replace(main_effects=demands_effects)))

    if is_warm(estimator):
        choice = choice._replace(main_effects=demands_effects)
        return Decision(builder.build(last_choice(estimator, choice)))
    may_transform = demands_transform or (
        log_transform == "auto" and choice.is_named and sees_logarithms
    )
    if not (choice.is_named or may_transform):
        return with_demanded_effects(plain)
    problem, transform = builder.build(plain), None
    if may_transform:
        rows, spread = problem.rows, problem.spread
        transform = find_log_transform(rows.X, rows.weight, spread.varies)
    if demands_transform and transform is not None:
        plain, transform = plain._replace(transform=transform), None
        problem = builder.build(plain)
    may_tie = choice.may_be_tied(problem.spread)
    may_add = choice.may_have_effects(problem.spread)
    has_trials = may_tie or may_add or transform is not None
    if not has_trials or not problem.learns:
        return with_demanded_effects(plain)
    best = _learned(problem)
    if may_tie and not best.result.stopped:
        best = _with_tied_lengths(builder, best)
    if transform is not None and not best.result.stopped:
        best = with_transform(builder, transform, best)
    if may_add:
        found = with_main_effects(builder, best, demands_effects)
        if found is None:
            return with_demanded_effects(best.problem.choice)
        best = found
    return best.decision()


def _learned(problem):
    """Return the learned `Candidate` of a problem."""
    candidate = Candidate.of(problem)
    # Comparisons say nothing about a model that misses what there is to learn.
    learned = find_faster_function(search(candidate.part))
    return candidate._replace(result=learned.result)


def _with_tied_lengths(builder, best):
    """Return the `Candidate` with tied length scales if it is better than the best one, else that.

    It is learned from the usual starts: from a common length scale, few of many columns would not
    be told from the others.
    """
    try:
        other = _learned(builder.build(best.problem.choice._replace(length_scales="tied")))
    except LinAlgError:
        # The best one is usable.
        return best
    return better(other, best, "tied length scales")
