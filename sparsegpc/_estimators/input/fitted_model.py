"""Checks of what users ask of a fitted model, together with rows that they give again."""

import numbers

import numpy as np

from sparsegpc._core.bounds.upper_bounds import UPPER_BOUNDS
from sparsegpc._estimators.input.validation import checked_numbers

# Bounds of the same data agree to this, relative to their size.
SAME_BOUND = 1e-6
# Less than this, in nats, is rounding whatever the bound.
SMALLEST_BOUND = 1e-9


def check_method(method):
    """Refuse the name of an upper bound that does not exist."""
    if not isinstance(method, str) or method not in ("auto", *UPPER_BOUNDS):
        raise ValueError(
            f"method must be 'auto' or one of {tuple(UPPER_BOUNDS)}, got {method!r}: 'auto' takes "
            "the best of those that are fast"
        )


def check_theta(theta, kernel):
    """Return the kernel's parameters that a user gives, or those of `kernel` for None."""
    learned = kernel.theta
    if theta is None:
        return learned
    theta = checked_numbers(theta, "theta", allow_nd=True, ensure_all_finite=False)
    if theta.shape != learned.shape:
        raise ValueError(
            f"theta must have the shape {learned.shape} of kernel_.theta, got {theta.shape}: "
            "give the logarithms of the free hyperparameters"
        )
    if not np.isfinite(theta).all():
        raise ValueError(f"theta must be finite, got {theta}: give logarithms")
    return theta


def needs_rows(X, y, asked, eval_gradient):
    """Return whether the bound asked for needs rows; raise ValueError if they are missing.

    `asked` maps the names of further arguments to what was given.
    """
    if X is None and y is None:
        if all(value is None for value in asked.values()) and not eval_gradient:
            return False
        raise ValueError(
            f"lower_bound needs X and y for {', '.join(asked)} or eval_gradient: the rows given to "
            "fit are not kept"
        )
    if X is None or y is None:
        raise ValueError(
            "lower_bound needs X and y together, or neither: its first argument is theta, so "
            "call lower_bound(X=X, y=y)"
        )
    return True


def checked_size(n_inducing, estimator):
    """Return a number of points of a fitted model, or raise ValueError if it is none."""
    if getattr(estimator, "estimators_", None) is not None:
        raise ValueError(
            f"truncate is about one model, but this one consists of {len(estimator.estimators_)}, "
            "one for each class: truncate those in estimators_, with whether y is the class as y"
        )
    n_points = len(estimator.inducing_points_)
    whole = isinstance(n_inducing, numbers.Integral) and not isinstance(n_inducing, bool)
    if not whole or not 1 <= n_inducing <= n_points:
        raise ValueError(
            f"n_inducing must be an integer between 1 and {n_points}, the number of points of "
            f"this model, got {n_inducing!r}"
        )
    return int(n_inducing)


def check_as_many_rows(n_rows, n_fitted):
    """Refuse rows of which there are not as many as `fit` was given."""
    if n_rows != n_fitted:
        raise ValueError(
            f"X holds {n_rows} distinct rows of positive weight, but that of fit held {n_fitted}: "
            "give what was given to fit"
        )


def check_same_rows(estimator, bound, tol):
    """Refuse other data than those of `fit`, whose bound they cannot have."""
    fitted = estimator.lower_bound_
    if abs(bound - fitted) <= max(tol, SAME_BOUND * abs(fitted), SMALLEST_BOUND):
        return
    if not estimator.converged_:
        raise ValueError(
            f"these rows have the bound {bound:.6g} where lower_bound_ is "
            f"{fitted:.6g}: either they are not those of fit, or the fit, which "
            "did not converge, left its sites unsettled; see its warning, and fit again"
        )
    raise ValueError(
        "a certificate is about the data of fit, but for these rows, targets, weights and "
        f"noise the bound is {bound:.6g}, where lower_bound_ is {fitted:.6g}: "
        "give what was given to fit"
    )
