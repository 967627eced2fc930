"""The model of the core for rows that the user passes again to a fitted estimator."""

from copy import copy
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread


class ModelOfRows(NamedTuple):
    """The core's model of the rows that a user passes to a method of a fitted estimator.

    ``theta`` holds the parameters that the estimator has learned. Adding ``offset``, in nats,
    converts the model's bound to the user's units.
    """

    estimator: BaseEstimator
    model: SparseModel
    theta: np.ndarray
    offset: float = 0.0

    def solved(self, theta=None, posterior=None, wrt_theta=False):
        """Return the `Evaluation` at parameters `theta` and the points of a `Posterior`.

        By default both are those learned. The search for the sites starts from the posterior, so
        that it ends at the same optimum if there are several.
        """
        theta = self.theta if theta is None else theta
        posterior = self.estimator._posterior if posterior is None else posterior
        states = self.model.states_from(self.estimator._theta, posterior)
        points = InducingPoints(posterior.Z)
        return self.model.solve(theta, points, states, wrt_theta=wrt_theta)

    def starts(self):
        """Return values from which to learn ``theta`` again, itself first, and limits (P, 2)."""
        estimator, n_params = self.estimator, len(self.theta)
        hyperparameters = adapt_kernel(estimator.kernel_, estimator.n_features_in_)
        # Where a constant was learned, the objective is flat around it.
        hyperparameters = hyperparameters.rescaled_to(estimator._usual_variance, self.model.X)
        # The model of rows passed again keeps a noise process, whose parameters come last.
        hyperparameters = estimator._extended(hyperparameters, self.model)
        _, *others = start_values(hyperparameters, self.spread())
        starts = [self.theta, *(start[:n_params] for start in others)]
        return starts, hyperparameters.bounds[:n_params]

    def spread(self):
        """Return the `Spread` of the rows."""
        return measure_spread(self.model.X, self.model.weight)

    def estimator_at(self, theta):
        """Return a copy of the estimator with other parameters and the same inducing points."""
        evaluation = self.solved(theta)
        other = copy(self.estimator)
        other._store_kernel(evaluation, other.kernel_)
        other._theta = np.append(theta, self.estimator._theta[len(theta) :])
        if self.model.likelihood.n_params:
            other._store_observation(evaluation, self.model)
        other.feature_relevance_ = column_relevance(other.kernel_, self.spread())
        other._store_posterior(evaluation, self.model, self.offset)
        return other
