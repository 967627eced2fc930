"""The result of evaluating a model, and the work that a fit took."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.models.posterior import Posterior
from sparsegpc._core.selection.selectors import InducingPoints


class Evaluation(NamedTuple):
    """The model at given hyperparameters and inducing points, with the sites solved for.

    ``solutions`` holds a solution for each function of each output, with its ``sites`` and the
    ``state`` to go on from; ``posterior`` is that of all functions, ``noise`` that of the log
    variances of a noise process, if the model has one. ``jitter`` is the larger of theirs.
    """

    theta: np.ndarray
    points: InducingPoints
    solutions: tuple
    posterior: Posterior
    jitter: float
    grad_theta: np.ndarray | None
    grad_Z: np.ndarray | None
    noise: Posterior | None = None
    log_prior: float = 0.0

    @property
    def elbo(self):
        """The lower bound on the log marginal likelihood of the targets, in nats."""
        return sum(solution.bound for solution in self.solutions)

    @property
    def objective(self):
        """The function that learning maximises: the ELBO plus the log prior."""
        return self.elbo + self.log_prior

    @property
    def states(self):
        return tuple(solution.state for solution in self.solutions)

    @property
    def converged(self):
        return all(solution.converged for solution in self.solutions)


class Counts:
    """How much work a fit took: evaluations of the bound, and passes of the site solver.

    ``full_evaluations`` are those on all rows.
    """

    def __init__(self):
        self.evaluations = 0
        self.full_evaluations = 0
        self.site_iterations = 0
        self.optimizer_iterations = 0

    def add(self, solutions, on_all_rows=True):
        """Count one evaluation, and the passes that its outputs took together."""
        self.evaluations += 1
        self.full_evaluations += on_all_rows
        self.site_iterations += sum(solution.n_iter for solution in solutions)
