"""From rows that are given again: bounds and certificates of fitted models, and smaller models."""

from copy import copy
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.learning.fit import solve_final
from sparsegpc._core.models.certification import certificate_of
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.input.fitted_model import (
    check_as_many_rows,
    check_method,
    check_same_rows,
    check_size,
    check_theta,
    needs_rows,
)


class Restated(NamedTuple):
    """The core's model of given rows at what an estimator has learned.

    ``theta`` are its parameters, and ``offset`` is added to the model's bound, in nats, for the
    user's units.
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
        points = InducingPoints(posterior.Z, None, None)
        return solve_final(self.model, theta, points, states, self.estimator.jitter_, wrt_theta)


def certified(estimator, method, *data):
    """Return the `Certificate` of a fitted estimator, for the data given to its fit."""
    check_method(method)
    check_is_fitted(estimator)
    with single_threaded_blas():
        first, *others = [_certified(part, method) for part in estimator._restated(*data)]
        return sum(others, first)


def _certified(part, method):
    evaluation = part.solved(part.theta, part.estimator._posterior)
    check_same_rows(part.estimator, evaluation.elbo + part.offset, part.model.tol)
    return certificate_of(part.model, evaluation, method).shifted(part.offset)


def bound_at(estimator, theta, eval_gradient, X, y, **others):
    """Return the bound of a fitted estimator at its kernel's parameters, and its gradient if asked.

    `others` are what belongs to rows besides X and y. Without rows it is the bound of the fit.
    """
    check_is_fitted(estimator)
    if not needs_rows(X, y, [theta, *others.values()], eval_gradient):
        return estimator.lower_bound_
    theta = check_theta(theta, estimator.kernel_)
    with single_threaded_blas():
        return _sum_of_bounds(estimator._restated(X, y, **others), theta, eval_gradient)


def _sum_of_bounds(parts, theta, eval_gradient):
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
            bound += solved.elbo + part.offset
            gradient = solved.grad_theta
        except np.linalg.LinAlgError:
            bound, gradient = -np.inf, np.zeros_like(values)
        if eval_gradient:
            gradients.append(gradient[:n_params])
    return (bound, np.concatenate(gradients)) if eval_gradient else bound


def truncated(estimator, n_points, *data):
    """Return a copy of a fitted estimator on its first points, from the data given to its fit."""
    check_is_fitted(estimator)
    check_size(n_points, estimator)
    with single_threaded_blas():
        (part,) = estimator._restated(*data)
        check_as_many_rows(len(part.model.weight), estimator._posterior.functions[0].n_rows)
        evaluation = part.solved(part.theta, estimator._posterior.truncated(n_points))
    other = copy(estimator)
    other._store_posterior(evaluation, part.model, part.offset)
    other.converged_ = estimator.converged_ and evaluation.converged
    if estimator.inducing_indices_ is not None:
        other.inducing_indices_ = estimator.inducing_indices_[:n_points]
    return other
