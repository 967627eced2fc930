"""Transform skewed columns if the bound asks for it."""

import numpy as np

from sparsegpc._core.learning.fit_from import Climb
from sparsegpc._estimators.kernels.initialization import typical_log_lengths
from sparsegpc._estimators.learning.comparison import (
    FIRST_GAIN,
    Candidate,
    climb_from,
    is_better,
    simplified,
)


def with_transform(estimator, problem_of, transform, best, rng):
    """Return the `Candidate` with transformed columns if it is better than the best one, else that.

    Parameters
    ----------
    estimator : BaseSparseGP
    problem_of : callable
        ``problem_of(choice)`` returns the `Problem` for a `KernelChoice`.
    transform : LogTransform
    best : Candidate
        The model of the columns as they are.
    rng : RandomState
    """
    choice = best.choice._replace(transform=transform)
    other = Candidate.of(choice, problem_of(choice))
    needed = best.result.best.objective + FIRST_GAIN
    climbed = climb_from(simplified(estimator), other.part, _starts(other, best), needed, rng)
    if climbed is None:
        return best
    other = other._replace(result=climbed)
    return other if is_better(estimator, other, best, "transformed columns") else best


def _starts(other, best):
    """Return the starts of the climbs with transformed columns.

    One has the learned length scales of the columns as they are, in units of the transformed ones,
    and the other one those that a kernel by name has at first.
    """
    parameters, part = other.part.parameters, best.part
    moved = typical_log_lengths(parameters, other.part.spread)
    moved -= typical_log_lengths(part.parameters, part.spread)
    values = [best.result.best.theta + moved, parameters.rescaled]
    values = [np.clip(theta, *parameters.bounds.T) for theta in values]
    return [(Climb(theta).continued_on(other.part.model), None) for theta in values]
