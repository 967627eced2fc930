"""Learn main effects, and decide by the bound whether they belong in the kernel.

The model with them is learned from the end of the one without and from sums of effects, see
`main_effect_starts` and `comparison`. The two parameters of which the criterion there speaks are a
variance and a length scale that are common to all effects; the prior penalises their differences.
"""

import numpy as np

from sparsegpc._estimators.learning.comparison import (
    FIRST_GAIN,
    Candidate,
    climb_from,
    is_better,
    simplified,
)
from sparsegpc._estimators.learning.main_effect_starts import MainEffectStarts


def with_main_effects(estimator, problem_of, plain, rng, is_demanded):
    """Return the `Candidate` with main effects if it is better, or demanded, else the plain one.

    Demanded effects are learned in the same way, since a fit from other starts may end below the
    one without them. Return None if they are demanded and cannot be learned so.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem_of : callable
        ``problem_of(choice)`` returns the `Problem` for a `KernelChoice`.
    plain : Candidate
        The model without main effects.
    rng : RandomState
    is_demanded : bool
    """
    result = plain.result
    if not is_demanded and result.stopped:
        return plain
    if is_demanded and result.trivial:
        return None
    choice = plain.choice._replace(main_effects=True)
    other = Candidate.of(choice, problem_of(choice))
    needed = -np.inf if is_demanded else result.best.objective + FIRST_GAIN
    starts = MainEffectStarts(other.part, result).all()
    climbed = climb_from(simplified(estimator), other.part, starts, needed, rng)
    if climbed is None:
        return None if is_demanded else plain
    other = other._replace(result=climbed)
    if is_demanded or is_better(estimator, other, plain, "main effects"):
        return other
    return plain
