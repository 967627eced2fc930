"""Bounds, certificates and truncation of fitted models, from rows that the user passes again."""

import numbers
from copy import copy
from inspect import signature
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_scalar
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS
from sparsegpc._core.models.fixed_sites import certificate_of, gains_of_rows, point_gains
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.selection.selectors import InducingPoints
from sparsegpc._estimators.input.validation import refuse_overflow, validated_rows
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread

# Largest relative difference of two bounds of the same data, due to rounding and site tolerances.
SAME_BOUND = 1e-6


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
        return self.model.solve(theta, points, states, wrt_theta=wrt_theta)

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


def certified(estimator, method, *data, **params):
    """Return the `Certificate` of a fitted estimator, given the arguments of its fit."""
    if not isinstance(method, str) or method not in ("auto", *UPPER_BOUNDS):
        raise ValueError(f"method must be 'auto' or one of {tuple(UPPER_BOUNDS)}, got {method!r}")
    check_is_fitted(estimator)
    _check_arguments("certificate", estimator, params)
    with single_threaded_blas():
        first, *others = [
            _certified(part, method) for part in estimator._models_of_rows(*data, **params)
        ]
        return sum(others, first)


def _certified(part, method):
    evaluation = part.solved()
    _check_same_rows("certificate", part, evaluation)
    return certificate_of(part.model, evaluation, method).shifted(part.offset)


def gains(estimator, candidates, *data, **params):
    """Return the gains of the points of a fitted estimator, or of candidates for further points.

    `candidates` are rows or None; the other arguments are those of its fit.
    """
    check_is_fitted(estimator)
    _check_arguments("point_gains", estimator, params)
    _check_one_model("point_gains", estimator)
    if candidates is not None:
        candidates = validated_rows(estimator, candidates, reset=False)[:]
        refuse_overflow(candidates, "candidates")
    with single_threaded_blas():
        (part,) = estimator._models_of_rows(*data, **params)
        evaluation = part.solved()
        _check_same_rows("point_gains", part, evaluation)
        if candidates is None:
            return point_gains(part.model, evaluation).gains()
        return gains_of_rows(part.model, evaluation, candidates)


def bound_at(estimator, theta, eval_gradient, X, y, sample_weight, params):
    """Return the bound of a fitted estimator at kernel parameters `theta`, or (bound, gradient).

    `params` are further arguments of its fit. Without rows, return the bound of the fit.
    """
    check_is_fitted(estimator)
    _check_arguments("lower_bound", estimator, params)
    given = theta, X, y, sample_weight, *params.values()
    if all(value is None for value in given) and not eval_gradient:
        return estimator.lower_bound_
    if X is None or y is None:
        raise ValueError(
            "lower_bound needs both X and y if any argument is given, since the model keeps no "
            "rows of fit: call lower_bound(theta, X, y)"
        )
    theta = _checked_theta(theta, estimator.kernel_.theta)
    with single_threaded_blas():
        models = estimator._models_of_rows(X, y, sample_weight, **params)
        return _sum_of_bounds(models, theta, eval_gradient)


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


def truncated(estimator, n_points, *data, **params):
    """Return a copy of a fitted estimator with its first points, given the arguments of its fit."""
    check_is_fitted(estimator)
    _check_arguments("truncate", estimator, params)
    _check_one_model("truncate", estimator)
    n_present = len(estimator.inducing_points_)
    check_scalar(n_points, "n_inducing", numbers.Integral, min_val=1, max_val=n_present)
    with single_threaded_blas():
        (part,) = estimator._models_of_rows(*data, **params)
        n_rows, n_fitted = len(part.model.weight), estimator._posterior.functions[0].n_rows
        if n_rows != n_fitted:
            raise ValueError(
                f"X must have the {n_fitted} distinct rows of positive weight that fit had, got "
                f"{n_rows}: give the data of fit"
            )
        evaluation = part.solved(posterior=estimator._posterior.truncated(n_points))
    smaller = copy(estimator)
    smaller._store_posterior(evaluation, part.model, part.offset)
    smaller.inducing_points_ = estimator.inducing_points_[:n_points]
    smaller.converged_ = estimator.converged_ and evaluation.converged
    if estimator.inducing_indices_ is not None:
        smaller.inducing_indices_ = estimator.inducing_indices_[:n_points]
    return smaller


def _check_arguments(name, estimator, params):
    """Raise TypeError if `params` holds an argument that the estimator's `fit` does not take."""
    for argument in params:
        if argument not in signature(estimator.fit).parameters:
            raise TypeError(
                f"{type(estimator).__name__}.{name}() got an unexpected keyword argument "
                f"{argument!r}: give arguments of fit"
            )


def _checked_theta(theta, learned):
    """Check parameters of the kernel, and return them; None means the `learned` ones."""
    if theta is None:
        return learned
    theta = check_array(
        theta, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="theta"
    )
    if theta.shape != learned.shape:
        raise ValueError(
            f"theta must have the shape {learned.shape} of kernel_.theta, got {theta.shape}: "
            "give the logarithms of the free hyperparameters"
        )
    return theta


def _check_one_model(method, estimator):
    """Raise ValueError if a fitted classifier has one model for each class."""
    n_models = len(estimator._fitted_estimators)
    if n_models > 1:
        raise ValueError(
            f"{method} takes one model, but this classifier has {n_models}, one "
            f"for each class: call {method} of the models in estimators_, with y == class as y"
        )


def _check_same_rows(method, part, evaluation):
    """Raise ValueError if the bound of a `ModelOfRows` differs from that of the data of `fit`."""
    bound, fitted = evaluation.elbo + part.offset, part.estimator.lower_bound_
    # Bounds near zero differ by 1e-9 nats through rounding.
    if abs(bound - fitted) <= max(part.model.tol, SAME_BOUND * abs(fitted), 1e-9):
        return
    converged = part.estimator.converged_
    unsettled = "" if converged else "; the fit did not converge, so fit again first"
    raise ValueError(
        f"{method} needs the data of fit, whose bound is {fitted:.6g}, but these rows, targets, "
        f"weights and noise have the bound {bound:.6g}: give the data of fit{unsettled}"
    )
