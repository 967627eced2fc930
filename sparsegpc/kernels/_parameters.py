"""Parameters that are numbers or have one number for each column, and their text."""

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter


def numeric_hyperparameter(name, value, bounds):
    """Return the `Hyperparameter` of a number, or of an array of numbers."""
    n_elements = np.size(value)
    if n_elements > 1:
        return Hyperparameter(name, "numeric", bounds, n_elements)
    return Hyperparameter(name, "numeric", bounds)


def formatted(value):
    """Return numbers as text with three digits, and the repr of anything else, for errors."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return repr(value)
    if numbers.ndim > 1 or np.isnan(numbers).any():
        return repr(value)
    if numbers.size == 1:
        return f"{numbers.item():.3g}"
    return f"[{', '.join(f'{entry:.3g}' for entry in numbers)}]"


def by_column(kernel, name, n_features):
    """Return a parameter of a kernel for each column, shape (n_features,).

    Raises ValueError if it is neither a number nor an array of this size.
    """
    value = np.asarray(getattr(kernel, name), dtype=np.float64)
    if value.ndim > 1 or value.size not in (1, n_features):
        raise ValueError(
            f"{type(kernel).__name__} has {name} of shape {value.shape}, but X has {n_features} "
            "columns: give a number, or one for each column"
        )
    return np.broadcast_to(value, (n_features,))


def checked_rows(X, Y, eval_gradient):
    """Return the rows X and Y as arrays; None stands for the rows X.

    Raises ValueError if the gradient w.r.t. hyperparameters is wanted for rows Y.
    """
    X = np.atleast_2d(X)
    if Y is None:
        return X, X
    if eval_gradient:
        raise ValueError(
            "the gradient exists for Y=None only, got eval_gradient=True and Y of shape "
            f"{np.shape(Y)}: leave one of them out"
        )
    return X, np.atleast_2d(Y)


def stacked_gradient(shape, parts):
    """Return the gradient of a kernel matrix of this shape, with P parameters on its last axis.

    `parts` are pairs of a `Hyperparameter` and a list of derivatives, one for each of its elements
    or, if it has one element, the terms of its derivative.
    """
    gradient = [np.empty((*shape, 0))]
    for hyperparameter, derivatives in parts:
        if not hyperparameter.fixed:
            common = hyperparameter.n_elements == 1
            gradient.append(np.stack([sum(derivatives)] if common else derivatives, axis=-1))
    return np.concatenate(gradient, axis=-1)
