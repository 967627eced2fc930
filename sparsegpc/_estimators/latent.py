"""Moments of f at new rows, from what a fitted estimator keeps."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.models.model import predict_covariance, predict_moments
from sparsegpc._core.numerics.budget import largest_square, refuse_beyond_memory
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.input.validation import validated_rows
from sparsegpc._estimators.kernels.adapters import adapt_kernel


class LatentMixin:
    """Latent predictions of an estimator with a kernel, inducing points and a posterior.

    It has ``kernel_`` and ``inducing_points_``, their factor ``_Luu``, and ``_posteriors``, one
    `Posterior` for each output.
    """

    def _check_rows(self, X):
        """Return rows to predict at, validated: an array or a `RowSource`."""
        check_is_fitted(self)
        return validated_rows(self, X, reset=False)

    def _latent_moments(self, X):
        """Return mean and variance of f at the rows of validated `X`, shape (n_outputs, N) each."""
        with np.errstate(over="ignore", invalid="ignore"):
            moments = predict_moments(*self._latent_core(), X, **row_options())
        return self._refuse_overflowed(X, moments)

    def _latent_covariance(self, X, request, n_samples=None):
        """Return mean and covariance of f, shape (n_outputs, N) and (n_outputs, N, N).

        Refused where that cannot fit the memory, or so many draws of it; `request` is what the user
        has asked for.
        """
        _refuse_joint(request, len(X), len(self._posteriors), n_samples)
        # Beside the covariance all rows are small.
        with np.errstate(over="ignore", invalid="ignore"):
            moments = predict_covariance(*self._latent_core(), X[:])
        return self._refuse_overflowed(X, moments)

    def _refuse_overflowed(self, X, moments):
        """Return moments of f, or raise ValueError if the kernel has overflowed."""
        if not all(np.isfinite(part).all() for part in moments):
            largest = float(np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0))).max())
            raise ValueError(
                f"X holds a value of {largest:.3g}, where kernel {self.kernel_} overflows: leave "
                "such rows out, or scale the columns before fit, for example with StandardScaler"
            )
        return moments

    def _latent_core(self):
        adapted = adapt_kernel(self.kernel_, self.n_features_in_)
        points = self.inducing_points_
        return adapted.kernel, adapted.theta, points, self._Luu, self._posteriors


def _refuse_joint(request, n_rows, n_outputs, n_samples):
    # The covariances; what f has beyond the inducing points, or the factor of one of them.
    n_arrays = n_outputs + 1
    fixed = 0 if n_samples is None else 8 * n_outputs * n_rows * n_samples
    refuse_beyond_memory(
        8 * n_arrays * n_rows**2 + fixed,
        f"{request} at {n_rows} rows",
        lambda limit: (
            f"ask for at most {largest_square(limit, n_arrays)} rows at once"
            + ("" if n_samples is None else ", and for fewer than n_samples draws")
        ),
    )


def sample_gaussians(mean, covariance, n_samples, rng):
    """Return draws of shape (K, n_samples, N) from K Gaussians whose covariances may be singular.

    ``mean`` is of shape (K, N), ``covariance`` of shape (K, N, N).
    """
    draws = [_sample(m, C, n_samples, rng) for m, C in zip(mean, covariance, strict=True)]
    return np.stack(draws)


def _sample(mean, covariance, n_samples, rng):
    values, root = np.linalg.eigh(covariance)
    root *= np.sqrt(np.maximum(values, 0.0))
    return mean + rng.standard_normal((n_samples, len(mean))) @ root.T
