"""Learn main effects, and decide by the bound whether they belong in the kernel.

The model with them is learned from the end of the one without and from sums of effects, see
`main_effect_starts` and `comparison`. The two parameters of which the criterion there speaks are a
variance and a length scale that are common to all effects; the prior penalises their differences.
"""

import numpy as np

from sparsegpc._estimators.learning.comparison import FIRST_GAIN, Candidate, better, climbed
from sparsegpc._estimators.learning.main_effect_starts import MainEffectStarts


def with_main_effects(builder, plain, is_demanded):
    """Return the `Candidate` with main effects if it is better, or demanded, else the plain one.

    Demanded effects are learned in the same way, since a fit from other starts may end below the
    one without them. Return None if they are demanded and cannot be learned so.

    Parameters
    ----------
    builder : ProblemBuilder
    plain : Candidate
        The model without main effects.
    is_demanded : bool
    """
    result = plain.result
    if not is_demanded and result.stopped:
        return plain
    if is_demanded and result.trivial:
        return None
    other = Candidate.of(builder.build(plain.problem.choice._replace(main_effects=True)))
    needed = -np.inf if is_demanded else result.best.objective + FIRST_GAIN
    other = climbed(other, MainEffectStarts(other.part, result).all(), needed)
    if is_demanded:
        return other
    return plain if other is None else better(other, plain, "main effects")
