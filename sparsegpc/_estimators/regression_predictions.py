"""Predictions of fitted regressors with Gaussian noise: of y, f and the noise.

They combine the posterior of f at each row with the noise of y.
"""

import numbers

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_consistent_length

from sparsegpc._core.likelihoods.gaussian import log_predictive_density
from sparsegpc._core.models.noise_process import expected_variance
from sparsegpc._core.models.posterior import draw
from sparsegpc._core.rows.sources import map_rows
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.input.validation import (
    check_noise_variance,
    checked_targets,
)
from sparsegpc._estimators.latent import latent_covariance, latent_moments


class GaussianPredictions(RegressorMixin):
    """Predictions of a fitted regressor with Gaussian noise.

    The regressor has a ``_posterior`` with one function per output, and ``_noise``, a
    `LearnedNoise`, or None if `fit` got the noise. Both refer to scaled targets, from which
    ``_y_centre`` is subtracted and which are divided by ``_y_scale``, both of shape (n_outputs,).
    ``_one_output`` is true if y had one dimension.
    """

    def latent_mean_and_variance(self, X):
        """Return the posterior mean and variance of f, the function without its noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        variance : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Variance of f, in squared units of y. The standard deviation that `predict` returns
            includes the noise.
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            mean, variance = self._latent(X)
        return self._shaped(mean), self._shaped(variance)

    def predict(self, X, return_std=False, return_cov=False, noise_variance=None):
        """Return the predictive mean of y and, optionally, its standard deviation or covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return the standard deviation of y, that is of f plus noise.
        return_cov : bool, default=False
            Whether to return the joint covariance of y at the rows instead, which takes
            O(n_samples^2) memory.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            Variance of the noise at these rows, if it is known. None means the learned variance.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        y_std : ndarray of the shape of `y_mean`
            Only if `return_std`.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            Only if `return_cov`.

        Raises
        ------
        ValueError
            If both `return_std` and `return_cov` are true, or if either is true, `noise_variance`
            is None and the model was fitted with known noise.
        MemoryError
            If the covariance of the rows does not fit into memory.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: ask for one of them")
        X = self._check_rows(X)
        with single_threaded_blas():
            if return_cov:
                noise = self._noise_variances(X, noise_variance)
                mean, covariance = self._latent_with_covariance(X)
                np.einsum("knn->kn", covariance)[...] += noise
                covariance = np.moveaxis(covariance, 0, -1)
                return self._shaped(mean), covariance[..., 0] if self._one_output else covariance
            if return_std:
                noise = self._noise_variances(X, noise_variance)
                mean, variance = self._latent(X)
                return self._shaped(mean), self._shaped(np.sqrt(variance + noise))
            if noise_variance is not None:
                # The mean does not depend on it, but invalid input must still raise an error.
                self._noise_variances(X, noise_variance)
            return self._shaped(self._latent(X)[0])

    def predict_noise_std(self, X):
        """Return the standard deviation of the noise, the part of y that is not f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        noise_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With ``noise="gp"``, the square root of the expected variance.

        Raises
        ------
        ValueError
            If the model was fitted with known noise.
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            return self._shaped(np.sqrt(self._noise_variances(X, None)))

    def log_predictive_density(self, X, y, noise_variance=None):
        """Return the logarithm of the predictive density of y at each row, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `predict`.

        Returns
        -------
        log_density : ndarray of the shape of `y`
            For y in its original units. With ``noise="gp"`` the density is integrated over the
            posterior of the noise variance, so it is a mixture of Gaussians.
        """
        X = self._check_rows(X)
        y = checked_targets(y)
        check_consistent_length(X, y)
        self._check_outputs(y)
        with single_threaded_blas():
            mean, variance = self._latent(X)
            if noise_variance is None:
                self._refuse_unknown_noise()
                noise_mean, noise_spread = self._log_noise(X)
                noise_mean = noise_mean + 2.0 * np.log(self._y_scale)[:, None]
            else:
                noise_mean = np.log(self._noise_variances(X, noise_variance))
                noise_spread = np.zeros_like(noise_mean)
        outputs = y.reshape(len(y), -1).T
        return self._shaped(
            log_predictive_density(outputs, mean, variance, noise_mean, noise_spread)
        )

    def sample_y(self, X, n_samples=1, random_state=0, noise_variance=None):
        """Return joint draws of y at all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
        noise_variance : float, array-like of shape (n_samples_X,) or of that of y, default=None
            As in `predict`.

        Returns
        -------
        y_samples : ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_outputs, n_samples)
            Draws of f plus noise. They take O(n_samples_X^2) memory and O(n_samples_X^3) time.

        Raises
        ------
        ValueError
            If `n_samples` is not positive, `random_state` is not a seed, the kernel overflows, or
            `noise_variance` is missing for a model that was fitted with known noise.
        MemoryError
            If the covariance of the rows does not fit into memory.
        """
        X = self._check_rows(X)
        n_samples, rng = (
            check_scalar(n_samples, "n_samples", numbers.Integral, min_val=1),
            check_random_state(random_state),
        )
        with single_threaded_blas():
            # The covariances get no name, so that their memory is free before the noise needs as
            # much.
            samples = draw(*self._latent_with_covariance(X), n_samples, rng)
            if noise_variance is None:
                self._refuse_unknown_noise()
                log_noise = self._noise.log_samples(X[:], n_samples, rng)
                std = np.exp(0.5 * log_noise) * self._y_scale[:, None, None]
            else:
                std = np.sqrt(self._noise_variances(X, noise_variance))[:, None]
        samples += std * rng.standard_normal(samples.shape)
        samples = np.moveaxis(samples, -1, 0)
        return samples[:, 0] if self._one_output else samples

    def _check_outputs(self, y):
        """Raise ValueError for targets whose shape differs from that in `fit`."""
        n_outputs = len(self._y_scale)
        expected = "one dimension" if self._one_output else f"{n_outputs} columns"
        right = y.ndim == 1 if self._one_output else y.ndim == 2 and y.shape[1] == n_outputs
        if not right:
            raise ValueError(
                f"y must have {expected}, as in fit, got an array of shape {y.shape}: "
                "give the targets of all outputs, and no others"
            )

    def _latent(self, X):
        """Return mean and variance of f in units of y, shape (n_outputs, N) each."""
        mean, variance = latent_moments([(self._posterior, self.kernel_)], X)
        scale = self._y_scale[:, None]
        return self._y_centre[:, None] + scale * mean, scale**2 * variance

    def _latent_with_covariance(self, X):
        mean, covariance = latent_covariance(self._posterior, self.kernel_, X)
        scale = self._y_scale[:, None]
        covariance *= scale[..., None] ** 2
        return self._y_centre[:, None] + scale * mean, covariance

    def _refuse_unknown_noise(self):
        if self._noise is None:
            raise ValueError(
                "noise_variance is needed: the model was fitted with known noise variances and has "
                "learned none for other rows; latent_mean_and_variance gives the variance without "
                "noise"
            )

    def _noise_variances(self, X, noise_variance):
        """Return the noise variance in squared units of y, shape (n_outputs, N)."""
        if noise_variance is not None:
            n_outputs = len(self._y_scale)
            return check_noise_variance(noise_variance, len(X), n_outputs)
        self._refuse_unknown_noise()
        return self._y_scale[:, None] ** 2 * expected_variance(*self._log_noise(X))

    def _log_noise(self, X):
        """Return mean and variance of the log noise variance, shape (n_outputs, N) each."""
        return map_rows(lambda X: np.stack(self._noise.log_moments(X)), X)

    def _shaped(self, values):
        """Return values of shape (n_outputs, N) in the shape of y."""
        return values[0] if self._one_output else values.T

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
