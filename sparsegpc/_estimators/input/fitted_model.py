"""Checks of the arguments of methods that need the training rows again."""

import numbers

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_array

from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS

# Largest relative difference of two bounds of the same data, due to rounding and site tolerances.
SAME_BOUND = 1e-6


def check_method(method):
    """Raise ValueError for the name of an unknown upper bound."""
    if not isinstance(method, str) or method not in ("auto", *UPPER_BOUNDS):
        raise ValueError(f"method must be 'auto' or one of {tuple(UPPER_BOUNDS)}, got {method!r}")


def check_theta(theta, kernel):
    """Check parameters of the kernel, and return them; None means those of `kernel`."""
    if theta is None:
        return kernel.theta
    theta = check_array(
        theta, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="theta"
    )
    if theta.shape != kernel.theta.shape:
        raise ValueError(
            f"theta must have the shape {kernel.theta.shape} of kernel_.theta, got {theta.shape}: "
            "give the logarithms of the free hyperparameters"
        )
    return theta


def needs_rows(X, y, others, eval_gradient):
    """Return whether the bound needs rows; raise ValueError if they are missing."""
    if all(value is None for value in (X, y, *others)) and not eval_gradient:
        return False
    if X is None or y is None:
        raise ValueError(
            "lower_bound needs both X and y if any argument is given, since the model keeps no "
            "rows of fit: call lower_bound(theta, X, y)"
        )
    return True


def check_one_model(method, estimator):
    """Raise ValueError if a fitted classifier has one model for each class."""
    if getattr(estimator, "estimators_", None) is not None:
        raise ValueError(
            f"{method} takes one model, but this classifier has {len(estimator.estimators_)}, one "
            f"for each class: call {method} of the models in estimators_, with y == class as y"
        )


def check_size(n_inducing, estimator):
    """Raise ValueError for a number of points to which a fitted model cannot be truncated."""
    n_points = len(estimator.inducing_points_)
    check_scalar(n_inducing, "n_inducing", numbers.Integral, min_val=1, max_val=n_points)


def check_as_many_rows(n_rows, n_fitted):
    """Raise ValueError if the number of rows differs from that in `fit`."""
    if n_rows != n_fitted:
        raise ValueError(
            f"X must have the {n_fitted} distinct rows of positive weight that fit had, got "
            f"{n_rows}: give the data of fit"
        )


def check_same_rows(method, part, evaluation):
    """Raise ValueError if the bound differs from that of the data of `fit`.

    Parameters
    ----------
    method : str
        The method that needs these data.
    part : ModelOfRows
    evaluation : Evaluation
        That of the model of the rows that were passed.
    """
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
