"""From rows that are given again: bounds and certificates of fitted models, and smaller models."""

from copy import copy
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sparsegpc._core.learning.fit import settle
from sparsegpc._core.models.certification import certificate_of
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.choices import Chosen
from sparsegpc._estimators.input.fitted_model import check_as_many_rows, check_same_rows


class Restated(NamedTuple):
    """The core's model of given rows at what an estimator has learned.

    ``theta`` are its parameters, and ``offset`` is the bound that the user is told less the model's
    own, in nats.
    """

    estimator: BaseEstimator
    model: SparseModel
    theta: np.ndarray
    offset: float = 0.0

    def solved(self, theta, posterior, wrt_theta=False):
        """Return the `Evaluation` at parameters `theta` and the points of a `Posterior`.

        The search for the sites starts from the learned posterior: where a bound has several optima
        it leads back to the one that was learned.
        """
        states = self.model.states_from(self.estimator._theta, posterior)
        points = Chosen(posterior.Z, None, None)
        return settle(self.model, theta, points, states, self.estimator.jitter_, wrt_theta)


def certified(parts, method):
    """Return the `Certificate` of all models that are `Restated`, for the data of their fit."""
    certificates = []
    for part in parts:
        evaluation = part.solved(part.theta, part.estimator._posterior)
        bound = evaluation.evidence + part.offset
        check_same_rows(part.estimator, bound, part.model.tol)
        certificates.append(certificate_of(part.model, evaluation, method).shifted(part.offset))
    return sum(certificates[1:], certificates[0])


def bound_at(parts, theta, eval_gradient):
    """Return the sum of the bounds of all parts at their kernels' parameters, shape (P,) together.

    With `eval_gradient` the gradient, too. Minus infinity, with a gradient of zero, where a kernel
    cannot be factored.
    """
    bound, gradients, start = 0.0, [], 0
    for part in parts:
        n_params = part.model.kernel.n_params
        values = np.append(theta[start : start + n_params], part.theta[n_params:])
        start += n_params
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                solved = part.solved(values, part.estimator._posterior, eval_gradient)
            bound += solved.evidence + part.offset
            gradient = solved.grad_theta
        except np.linalg.LinAlgError:
            bound, gradient = -np.inf, np.zeros_like(values)
        if eval_gradient:
            gradients.append(gradient[:n_params])
    return (bound, np.concatenate(gradients)) if eval_gradient else bound


def truncated(parts, n_points):
    """Return a copy of the fitted estimator, on its first points."""
    (part,) = parts
    whole = part.estimator
    check_as_many_rows(len(part.model.weight), whole._posterior.functions[0].n_rows)
    evaluation = part.solved(part.theta, whole._posterior.truncated(n_points))
    other = copy(whole)
    other._store_posterior(evaluation, part.model, part.offset)
    other.converged_ = whole.converged_ and evaluation.converged
    if whole.inducing_indices_ is not None:
        other.inducing_indices_ = whole.inducing_indices_[:n_points]
    return other
