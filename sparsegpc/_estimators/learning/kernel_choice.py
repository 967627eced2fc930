"""Choose the kernel by name and the columns that it sees, and learn the model on the way."""

from numpy.linalg import LinAlgError

from sparsegpc._estimators.kernels.log_transform import find_log_transform
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.after_search import find_faster_function
from sparsegpc._estimators.learning.comparison import Candidate, Decision, is_better, simplified
from sparsegpc._estimators.learning.fit_options import learns
from sparsegpc._estimators.learning.main_effects import with_main_effects
from sparsegpc._estimators.learning.search import search
from sparsegpc._estimators.learning.skewed_columns import with_transform
from sparsegpc._estimators.learning.warm_start import is_warm, last_choice


def decide_kernel(estimator, problem_of, rng, sees_logarithms=True):
    """Return the `Decision` about the kernel by name of an estimator and the columns that it sees.

    Each addition that may help is tried in turn, and stays if the bound asks for it. Kernels that
    are objects stay as they are, and see the columns as they are unless the user demands the
    transform.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem_of : callable
        ``problem_of(choice)`` returns the `Problem` for a `KernelChoice`.
    rng : RandomState
    sees_logarithms : bool
        Whether columns may be transformed where the user does not demand it.
    """
    choice = KernelChoice.of(estimator)
    demands_effects = choice.main_effects != "auto" and bool(choice.main_effects)
    demands_transform = estimator.log_transform != "auto" and bool(estimator.log_transform)
    if is_warm(estimator):
        return Decision(last_choice(estimator, choice._replace(main_effects=demands_effects)))
    may_transform = demands_transform or (
        estimator.log_transform == "auto" and choice.is_named and sees_logarithms
    )
    plain = choice._replace(main_effects=False)
    if not (choice.is_named or may_transform):
        return Decision(plain._replace(main_effects=demands_effects))
    problem, transform = problem_of(plain), None
    if may_transform:
        rows, spread = problem.rows, problem.spread
        transform = find_log_transform(rows.X, rows.weight, spread.varies)
    if demands_transform and transform is not None:
        plain, transform = plain._replace(transform=transform), None
        problem = problem_of(plain)
    may_tie = choice.may_be_tied(problem.spread)
    may_add = choice.may_have_effects(problem.spread)
    has_trials = may_tie or may_add or transform is not None
    if not has_trials or not learns(estimator, problem.parameters):
        return Decision(plain._replace(main_effects=demands_effects))
    best = _learned(estimator, plain, problem, rng)
    if may_tie and not best.result.stopped:
        best = _with_tied_lengths(estimator, problem_of, best, rng)
    if transform is not None and not best.result.stopped:
        best = with_transform(estimator, problem_of, transform, best, rng)
    if may_add:
        found = with_main_effects(estimator, problem_of, best, rng, demands_effects)
        if found is None:
            return Decision(best.choice._replace(main_effects=demands_effects))
        best = found
    return best.decision(estimator)


def _learned(estimator, choice, problem, rng):
    """Return the learned `Candidate` of a choice and its problem."""
    candidate, estimator = Candidate.of(choice, problem), simplified(estimator)
    found = search(estimator, candidate.part, rng)
    # Comparisons say nothing about a model that misses what there is to learn.
    found = find_faster_function(estimator, candidate.part, found, rng)
    return candidate._replace(result=found.result)


def _with_tied_lengths(estimator, problem_of, best, rng):
    """Return the `Candidate` with tied length scales if it is better than the best one, else that.

    It is learned from the usual starts: from a common length scale, few of many columns would not
    be told from the others.
    """
    try:
        tied = best.choice._replace(length_scales="tied")
        other = _learned(estimator, tied, problem_of(tied), rng)
    except LinAlgError:
        # The best one is usable.
        return best
    return other if is_better(estimator, other, best, "tied length scales") else best
