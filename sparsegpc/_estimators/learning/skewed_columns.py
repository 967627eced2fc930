"""Transform skewed columns if the bound asks for it."""

import numpy as np

from sparsegpc._core.learning.fit_from import Climb
from sparsegpc._estimators.kernels.initialization import typical_log_lengths
from sparsegpc._estimators.learning.comparison import FIRST_GAIN, Candidate, better, climbed


def with_transform(builder, transform, best):
    """Return the `Candidate` with transformed columns if it is better than the best one, else that.

    Parameters
    ----------
    builder : ProblemBuilder
    transform : LogTransform
    best : Candidate
        The model of the columns as they are.
    """
    other = Candidate.of(builder.build(best.problem.choice._replace(transform=transform)))
    other = climbed(other, _starts(other, best), best.result.best.objective + FIRST_GAIN)
    return best if other is None else better(other, best, "transformed columns")


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
