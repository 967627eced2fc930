"""Moments and draws of f at users' rows, with errors explained in users' terms."""

import numpy as np

from sparsegpc._core.models.posterior import draw
from sparsegpc._core.numerics.budget import largest_square, refuse_beyond_memory
from sparsegpc._estimators.input.settings import row_options


def latent_moments(fitted, X):
    """Return mean and variance of the functions of fitted models at rows, shape (K, N) each.

    Parameters
    ----------
    fitted : list of (Posterior, sklearn.gaussian_process.kernels.Kernel)
        The kernel is as the user knows it, for a ValueError where it overflows.
    X : ndarray or RowSource of shape (N, D)
        Validated.
    """
    parts = []
    for posterior, kernel in fitted:
        with np.errstate(over="ignore", invalid="ignore"):
            parts.append(posterior.moments(X, **row_options()))
        _refuse_overflowed(X, parts[-1], kernel)
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def by_row(*moments):
    """Return moments of shape (K, N) as users know them: (N,) of one function, else (N, K)."""
    return tuple(part[0] if len(part) == 1 else part.T for part in moments)


def latent_covariance(posterior, kernel, X, request, n_samples=0):
    """Return mean and covariance of f, shape (K, N) and (K, N, N).

    Raises MemoryError where that, and so many draws of it, cannot fit the memory; `request` is what
    the user has asked for.
    """
    # The covariances; what f has beyond the inducing points, or the factor of one of them.
    n_rows, n_functions = len(X), len(posterior.functions)
    n_arrays = n_functions + 1
    refuse_beyond_memory(
        8 * (n_arrays * n_rows**2 + n_functions * n_rows * n_samples),
        f"{request} at {n_rows} rows",
        lambda limit: (
            f"ask for at most {largest_square(limit, n_arrays)} rows at once"
            + (", and for fewer than n_samples draws" if n_samples else "")
        ),
    )
    # Beside the covariance all rows are small.
    with np.errstate(over="ignore", invalid="ignore"):
        moments = posterior.covariance(X[:])
    _refuse_overflowed(X, moments, kernel)
    return moments


def latent_samples(fitted, X, n_samples, rng):
    """Return joint draws of the functions of fitted models, shape (K, n_samples, N)."""
    return np.concatenate(
        [
            draw(*latent_covariance(*model, X, "sample_f", n_samples), n_samples, rng)
            for model in fitted
        ]
    )


def _refuse_overflowed(X, moments, kernel):
    """Raise ValueError if moments of f at these rows are not finite."""
    if not all(np.isfinite(part).all() for part in moments):
        largest = float(np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0))).max())
        raise ValueError(
            f"X holds a value of {largest:.3g}, where kernel {kernel} overflows: leave such rows "
            "out, or scale the columns before fit, for example with StandardScaler"
        )
