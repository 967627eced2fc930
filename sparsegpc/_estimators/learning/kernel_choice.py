"""Choose the kernel by name and the columns that it sees, and learn the model on the way."""

import numpy as np

from sparsegpc._estimators.kernels.log_transform import find_log_transform
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import walk
from sparsegpc._estimators.learning.comparison import Candidate, Decision, is_better, simplified
from sparsegpc._estimators.learning.main_effects import MOST_COLUMNS, with_main_effects
from sparsegpc._estimators.learning.search import learns, search
from sparsegpc._estimators.learning.skewed_columns import with_transform
from sparsegpc.kernels import MainEffects


def decide_kernel(estimator, problem_of, rng):
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
    """
    choice = KernelChoice.of(estimator)
    is_open = choice.main_effects == "auto"
    effects = not is_open and choice.main_effects
    simple = choice._replace(main_effects=False)
    if estimator.warm_start and hasattr(estimator, "_theta"):
        return Decision(_last_choice(estimator, choice._replace(main_effects=effects)))
    demands_transform = estimator.log_transform is True
    if not (choice.is_named or demands_transform):
        return Decision(choice._replace(main_effects=effects))
    problem, transform = problem_of(simple), None
    if estimator.log_transform:
        transform = find_log_transform(problem.rows.X, problem.rows.weight)
    if demands_transform:
        simple, transform = simple._replace(transform=transform), None
    may_tie = choice.may_be_tied(problem.spread)
    may_add = choice.is_named and choice.main_effects
    may_add = may_add and 1 < problem.spread.varies.sum() <= MOST_COLUMNS
    has_choice = may_tie or may_add or transform is not None
    if not has_choice or not learns(estimator, problem.parameters):
        return Decision(simple._replace(main_effects=effects))
    best = _learned(estimator, problem_of, simple, rng)
    if may_tie and not best.result.stopped:
        tied = _learned(estimator, problem_of, simple._replace(length_scales="tied"), rng)
        best = tied if is_better(estimator, tied, best, "tied length scales") else best
    if transform is not None and not best.result.stopped:
        best = with_transform(estimator, problem_of, transform, best, rng)
    if may_add:
        found = with_main_effects(estimator, problem_of, best, rng, is_demanded=effects)
        if found is None:
            return Decision(best.choice._replace(main_effects=effects))
        best = found
    return best.decision(estimator)


def _learned(estimator, problem_of, choice, rng):
    """Return the learned `Candidate` of a choice."""
    candidate = Candidate.of(choice, problem_of)
    found = search(simplified(estimator), candidate.part, rng)
    return candidate._replace(result=found.result)


def _last_choice(estimator, choice):
    """Return a choice of the kernel and the columns that the last fit had."""
    choice = choice._replace(transform=estimator._transform)
    if not choice.is_named:
        return choice
    parts = list(walk(estimator.kernel_))
    if any(isinstance(part, MainEffects) for part in parts):
        choice = choice._replace(main_effects=True)
    is_by_column = any(np.ndim(getattr(part, "length_scale", 0.0)) for part in parts)
    if choice.length_scales == "auto" and is_by_column:
        choice = choice._replace(length_scales="tied")
    return choice
