"""Base of the kernels whose hyperparameters are numbers, or have one number for each column."""

from abc import abstractmethod

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel


class ByColumnKernel(Kernel):
    """Base of the kernels with a `length_scale` that is a number, or has one for each column."""

    @property
    def hyperparameter_length_scale(self):
        return self._numeric("length_scale")

    def _numeric(self, name):
        """Return the `Hyperparameter` of a number, or of an array of numbers."""
        bounds, n_elements = getattr(self, f"{name}_bounds"), np.size(getattr(self, name))
        return Hyperparameter(name, "numeric", bounds, n_elements)

    def __call__(self, X, Y=None, eval_gradient=False):
        """Return the kernel matrix and, optionally, its gradient.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        Y : array-like of shape (n_samples_Y, n_features) or None, default=None
            None means X.
        eval_gradient : bool, default=False
            Whether to return the gradient w.r.t. the log hyperparameters too, if Y is None.

        Returns
        -------
        K : ndarray of shape (n_samples_X, n_samples_Y)
        K_gradient : ndarray of shape (n_samples_X, n_samples_X, n_dims)
            Only if `eval_gradient`.

        Raises
        ------
        ValueError
            If a parameter does not suit the columns of X, or the gradient is wanted and Y is given.
        """
        X = np.atleast_2d(X)
        if Y is not None and eval_gradient:
            raise ValueError(
                "the gradient exists for Y=None only, got eval_gradient=True and Y of shape "
                f"{np.shape(Y)}: leave one of them out"
            )
        K, derivatives = self._evaluated(X, X if Y is None else np.atleast_2d(Y), eval_gradient)
        if not eval_gradient:
            return K
        gradient = [np.empty((*K.shape, 0))]
        for hyperparameter, parts in zip(self.hyperparameters, derivatives, strict=True):
            if not hyperparameter.fixed:
                common = hyperparameter.n_elements == 1
                gradient.append(np.stack([sum(parts)] if common else parts, axis=-1))
        return K, np.concatenate(gradient, axis=-1)

    @abstractmethod
    def _evaluated(self, X, Y, eval_gradient):
        """Return the kernel matrix, and a list of derivatives for each of `hyperparameters`.

        The list has one for each element or, for a single element, the terms of its derivative.
        Without `eval_gradient` the second value is not used.
        """


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
