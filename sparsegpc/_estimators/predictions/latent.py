"""Moments and draws of f at the user's rows, with an error message for overflow."""

import numpy as np

from sparsegpc._core.models.posterior import draw
from sparsegpc._estimators.input.settings import row_options


def latent_moments(posteriors, X):
    """Return mean and variance of the functions of all posteriors at rows, shape (K, N) each.

    `posteriors` is a list of `Posterior`; `X` is a validated ndarray or `RowSource`.
    """
    parts = []
    for posterior in posteriors:
        with np.errstate(over="ignore", invalid="ignore"):
            parts.append(posterior.moments(X, **row_options()))
        _refuse_overflowed(X, parts[-1])
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def by_row(*moments):
    """Transpose moments (K, N) to the shape that methods return: (N, K), or (N,) if K is 1."""
    return tuple(part[0] if len(part) == 1 else part.T for part in moments)


def latent_covariance(posterior, X):
    """Return mean and covariance of f, shape (K, N) and (K, N, N)."""
    # A slice reads a source into memory; the rows are small compared with their covariance.
    with np.errstate(over="ignore", invalid="ignore"):
        moments = posterior.covariance(X[:])
    _refuse_overflowed(X, moments)
    return moments


def latent_samples(posteriors, X, n_samples, rng):
    """Return joint draws of the functions of all posteriors, shape (K, n_samples, N)."""
    return np.concatenate([draw(*latent_covariance(q, X), n_samples, rng) for q in posteriors])


def _refuse_overflowed(X, moments):
    """Raise ValueError if moments of f at these rows are not finite."""
    if not all(np.isfinite(part).all() for part in moments):
        largest = float(np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0))).max())
        raise ValueError(
            f"X holds a value of {largest:.3g}, where the learned kernel overflows: leave such "
            "rows out, or scale the columns before fit, for example with StandardScaler"
        )
