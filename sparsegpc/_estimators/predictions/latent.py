"""Moments and draws of f at the user's rows, with an error message for overflow."""

import numpy as np

from sparsegpc._core.models.posterior import draw
from sparsegpc._estimators.input.settings import row_options


def latent_moments(fitted, X):
    """Return mean and variance of the functions of fitted models at rows, shape (K, N) each.

    `fitted` is a list of (Posterior, kernel), where scikit-learn's kernel is for the message of the
    ValueError if it overflows; `X` is a validated ndarray or `RowSource`.
    """
    parts = []
    for posterior, kernel in fitted:
        with np.errstate(over="ignore", invalid="ignore"):
            parts.append(posterior.moments(X, **row_options()))
        _refuse_overflowed(X, parts[-1], kernel)
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def by_row(*moments):
    """Transpose moments (K, N) to the shape that methods return: (N, K), or (N,) if K is 1."""
    return tuple(part[0] if len(part) == 1 else part.T for part in moments)


def latent_covariance(posterior, kernel, X):
    """Return mean and covariance of f, shape (K, N) and (K, N, N)."""
    # A slice reads a source into memory; the rows are small compared with their covariance.
    with np.errstate(over="ignore", invalid="ignore"):
        moments = posterior.covariance(X[:])
    _refuse_overflowed(X, moments, kernel)
    return moments


def latent_samples(fitted, X, n_samples, rng):
    """Return joint draws of the functions of fitted models, shape (K, n_samples, N)."""
    return np.concatenate([draw(*latent_covariance(*model, X), n_samples, rng) for model in fitted])


def _refuse_overflowed(X, moments, kernel):
    """Raise ValueError if moments of f at these rows are not finite."""
    if not all(np.isfinite(part).all() for part in moments):
        largest = float(np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0))).max())
        raise ValueError(
            f"X holds a value of {largest:.3g}, where kernel {kernel} overflows: leave such rows "
            "out, or scale the columns before fit, for example with StandardScaler"
        )
