"""A prior of the hyperparameters."""

from typing import NamedTuple

import numpy as np


class NormalPrior(NamedTuple):
    """Independent normal distributions of the entries of theta, most of which are logarithms.

    ``mean`` (P,); ``deviation``, their standard deviation, in units of theta.
    """

    mean: np.ndarray
    deviation: float

    def applied_to(self, evaluation):
        """Return an `Evaluation` with the log density added to its log prior.

        The constant of the density is left out. It would not change where the maximum is.
        """
        distance = (evaluation.theta - self.mean) / self.deviation
        grad_theta = evaluation.grad_theta
        if grad_theta is not None:
            grad_theta = grad_theta - distance / self.deviation
        log_prior = evaluation.log_prior - 0.5 * float(distance @ distance)
        return evaluation._replace(log_prior=log_prior, grad_theta=grad_theta)
