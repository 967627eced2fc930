"""The result of evaluating a model."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.selection.selectors import InducingPoints


class Evaluation(NamedTuple):
    """The result of evaluating a model at given hyperparameters and inducing points.

    ``solutions`` holds one solution for each function of each output, with its ``sites`` and the
    ``state`` from which the next evaluation can start. ``posterior`` is the `Posterior` of all
    functions, and ``noise`` that of the log noise variances, or None if the model has no noise
    process. ``log_prior`` is that of theta, and ``grad_theta`` (P,) and ``grad_Z`` (M, D) are the
    gradients of the `objective`, or None.
    """

    theta: np.ndarray
    points: InducingPoints
    solutions: tuple
    posterior: Posterior
    noise: Posterior | None
    log_prior: float
    grad_theta: np.ndarray | None = None
    grad_Z: np.ndarray | None = None

    @property
    def elbo(self):
        """The lower bound on the log marginal likelihood of the targets, in nats."""
        return sum(solution.bound for solution in self.solutions)

    @property
    def objective(self):
        """The function that learning maximises: the ELBO plus the log prior."""
        return self.elbo + self.log_prior

    @property
    def jitter(self):
        """The relative jitter of the covariance of the points; the larger one of f and noise."""
        return max(q.jitter for q in (self.posterior, self.noise) if q is not None)

    @property
    def states(self):
        return tuple(solution.state for solution in self.solutions)

    @property
    def converged(self):
        return all(solution.converged for solution in self.solutions)
