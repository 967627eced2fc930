"""Bounds, certificates and truncation of fitted models, from rows that the user passes again."""

from copy import copy
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.learning.fit import solve_final
from sparsegpc._core.models.certification import certificate_of, gains_of_rows, point_gains
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.input.fitted_model import (
    check_as_many_rows,
    check_method,
    check_one_model,
    check_same_rows,
    check_size,
    check_theta,
    needs_rows,
)
from sparsegpc._estimators.input.validation import refuse_overflow, validated_rows
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
        points = InducingPoints(posterior.Z, None, None)
        return solve_final(self.model, theta, points, states, wrt_theta)

    def starts(self):
        """Return values from which to learn ``theta`` again, itself first, and limits (P, 2)."""
        estimator, n_params = self.estimator, len(self.theta)
        parameters = adapt_kernel(estimator.kernel_, estimator.n_features_in_)
        # Where a constant was learned, the objective is flat around it.
        parameters = parameters.rescaled_to(estimator._usual_variance, self.model.X)
        # The model of rows passed again keeps a noise process, whose parameters come last.
        parameters = estimator._extended(parameters, self.model)
        _, *others = start_values(parameters, self.spread())
        return [self.theta, *(start[:n_params] for start in others)], parameters.bounds[:n_params]

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


def certified(estimator, method, *data):
    """Return the `Certificate` of a fitted estimator; `data` are those given to its fit."""
    check_method(method)
    check_is_fitted(estimator)
    with single_threaded_blas():
        first, *others = [_certified(part, method) for part in estimator._models_of(*data)]
        return sum(others, first)


def _certified(part, method):
    evaluation = part.solved()
    check_same_rows("certificate", part, evaluation)
    return certificate_of(part.model, evaluation, method).shifted(part.offset)


def gains(estimator, candidates, *data):
    """Return the gains of the points of a fitted estimator, or of candidates for further points.

    `candidates` are rows or None; `data` are those of its fit.
    """
    check_is_fitted(estimator)
    check_one_model("point_gains", estimator)
    if candidates is not None:
        candidates = validated_rows(estimator, candidates, reset=False)[:]
        refuse_overflow(candidates, "candidates")
    with single_threaded_blas():
        (part,) = estimator._models_of(*data)
        evaluation = part.solved()
        check_same_rows("point_gains", part, evaluation)
        if candidates is None:
            return point_gains(part.model, evaluation).gains()
        return gains_of_rows(part.model, evaluation, candidates)


def bound_at(estimator, theta, eval_gradient, X, y, *others):
    """Return the bound of a fitted estimator at kernel parameters `theta`, or (bound, gradient).

    `others` are further arguments with one value per row. Without rows, return the bound of the
    fit.
    """
    check_is_fitted(estimator)
    if not needs_rows(X, y, [theta, *others], eval_gradient):
        return estimator.lower_bound_
    theta = check_theta(theta, estimator.kernel_)
    with single_threaded_blas():
        return _sum_of_bounds(estimator._models_of(X, y, *others), theta, eval_gradient)


def _sum_of_bounds(parts, theta, eval_gradient):
    """Return the sum of the bounds of all parts; `theta` (P,) joins their kernel parameters.

    With `eval_gradient`, return (bound, gradient). If a Cholesky factorisation fails, the bound is
    minus infinity and the gradient of that part zero.
    """
    bound, gradients, start = 0.0, [], 0
    for part in parts:
        n_params = part.model.kernel.n_params
        values = np.append(theta[start : start + n_params], part.theta[n_params:])
        start += n_params
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                solved = part.solved(values, wrt_theta=eval_gradient)
            bound += solved.elbo + part.offset
            gradient = solved.grad_theta
        except np.linalg.LinAlgError:
            bound, gradient = -np.inf, np.zeros_like(values)
        if eval_gradient:
            gradients.append(gradient[:n_params])
    return (bound, np.concatenate(gradients)) if eval_gradient else bound


def truncated(estimator, n_points, *data):
    """Return a copy of a fitted estimator with its first points; `data` are those of its fit."""
    check_is_fitted(estimator)
    check_one_model("truncate", estimator)
    check_size(n_points, estimator)
    with single_threaded_blas():
        (part,) = estimator._models_of(*data)
        check_as_many_rows(len(part.model.weight), estimator._posterior.functions[0].n_rows)
        evaluation = part.solved(posterior=estimator._posterior.truncated(n_points))
    smaller = copy(estimator)
    smaller._store_posterior(evaluation, part.model, part.offset)
    smaller.inducing_points_ = estimator.inducing_points_[:n_points]
    smaller.converged_ = estimator.converged_ and evaluation.converged
    if estimator.inducing_indices_ is not None:
        smaller.inducing_indices_ = estimator.inducing_indices_[:n_points]
    return smaller
