"""Kernels of which only values are known, as functions of their hyperparameters."""

from contextlib import contextmanager

import numpy as np


@contextmanager
def _evaluating(kernel):
    """Name the kernel in the message of errors that its settings cause."""
    try:
        yield
    except (LookupError, NameError, TypeError) as error:
        raise ValueError(
            f"kernel {kernel} cannot be evaluated at arrays of two or more rows with the columns "
            f"of X, {type(error).__name__}: {error}; check its parameters"
        ) from error


class KernelValue:
    """Compute ``value(params, Z, X)``, shape (M, N), by a scikit-learn kernel."""

    def __init__(self, kernel):
        self._kernel = kernel

    def __call__(self, params, Z, X):
        with _evaluating(self._kernel):
            K = np.asarray(self._kernel.clone_with_theta(params)(Z, X), dtype=np.float64)
        if K.shape != (len(Z), len(X)):
            raise ValueError(
                f"kernel {self._kernel} returned an array of shape {K.shape} for {len(Z)} and "
                f"{len(X)} rows, expected {(len(Z), len(X))}"
            )
        # Solves overwrite the result, and the kernel may return an array that it keeps.
        return K.copy()


class KernelDiagonal(KernelValue):
    """Compute ``diag(params, X)``, shape (N,), by a scikit-learn kernel."""

    def __call__(self, params, X):
        with _evaluating(self._kernel):
            diag = np.array(self._kernel.clone_with_theta(params).diag(X), dtype=np.float64)
        if diag.shape != (len(X),):
            raise ValueError(
                f"kernel {self._kernel} returned a diagonal of shape {diag.shape} for {len(X)} "
                f"rows, expected {(len(X),)}"
            )
        return diag
