"""Predictions of fitted regressors: of y, f and the noise.

They combine the posterior of f at each row with the noise of y, which is Gaussian with a known or
uncertain variance. Student-t noise is such noise, too.
"""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from sparsegpc._core.likelihoods.noise_variance import (
    DENSITY_ROWS,
    LogNormalVariance,
    log_noisy_density,
)
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.input.events import check_events
from sparsegpc._estimators.input.validation import (
    central_levels,
    check_levels,
    check_noise_variance,
    checked_targets,
    checked_thresholds,
)
from sparsegpc._estimators.predictions.latent import (
    LatentPredictions,
    latent_covariance,
    latent_moments,
)
from sparsegpc._estimators.predictions.mixtures import (
    gaussians_at,
    mixture_covariance,
    mixture_exceedance,
    mixture_log_density,
    mixture_log_tail,
    mixture_quantiles,
)


class GaussianPredictions(LatentPredictions, RegressorMixin):
    """Predictions of a fitted regressor whose noise is Gaussian, given its variance.

    The regressor has a ``_posterior`` with one function per output, and ``_noise``, a
    `LearnedNoise`, or None if `fit` got the noise. Both refer to scaled targets, from which
    ``_y_centre`` is subtracted and which are divided by ``_y_scale``, both of shape (n_outputs,).
    ``_one_output`` is true if y had one dimension.
    """

    @property
    def _observation(self):
        return self._noise

    @property
    def _effect_scale(self):
        return self._y_scale

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
            Variance of the noise at these rows, if it is known. It replaces the learned variance,
            but with ``noise="excess"`` it is added to that, and None means zero: then y is the
            quantity itself, free of errors of its measurement.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        y_std : ndarray of the shape of `y_mean`
            Only if `return_std`. With Student-t noise of at most two degrees of freedom it is
            infinite: use `predict_interval`.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            Only if `return_cov`.

        Raises
        ------
        ValueError
            If both `return_std` and `return_cov` are true; if `noise_variance` has a wrong shape
            or is not positive; or if the standard deviation or the covariance is asked for,
            `noise_variance` is None and the model was fitted with known noise.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True: ask for one of them")
        X = self._check_rows(X)
        with single_threaded_blas():
            if return_cov:
                noise = self._noise_variances(X, noise_variance)
                mean, covariance = mixture_covariance(
                    (component.weight, *self._latent_covariance(component.posteriors[0], X))
                    for component in self._components
                )
                np.einsum("knn->kn", covariance)[...] += noise
                covariance = np.moveaxis(covariance, 0, -1)
                return self._shaped(mean), covariance[..., 0] if self._one_output else covariance
            if return_std:
                noise = self._noise_variances(X, noise_variance)
                mean, variance = self._latent_moments(X)
                return self._shaped(mean), self._shaped(np.sqrt(variance + noise))
            if noise_variance is not None:
                # The mean does not depend on it, but a mistake should not go unnoticed.
                self._known_noise(X, noise_variance)
            return self._shaped(self._latent_moments(X)[0])

    def predict_noise_std(self, X):
        """Return the standard deviation of the noise, the part of y that is not f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        noise_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With ``noise="gp"``, the square root of the expected variance. Infinite for Student-t
            noise of at most two degrees of freedom. With ``noise="excess"``, that of the excess.

        Raises
        ------
        ValueError
            If the model was fitted with known noise, and learned no excess.
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            return self._shaped(np.sqrt(self._noise_variances(X, None)))

    def log_predictive_density(self, X, y, noise_variance=None, event=None):
        """Return the logarithm of the predictive density of y at each row, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `predict`.
        event : array-like of shape (n_samples,) or of that of y, default=None
            1 if the target was observed, 0 if it is only a lower limit, -1 if it is only an upper
            limit. A limit has the probability of a larger or of a smaller number.

        Returns
        -------
        log_density : ndarray of the shape of `y`
            For y in its original units. With ``noise="gp"`` the density is integrated over the
            posterior of the noise variance, so it is a mixture of Gaussians, as it is with
            ``noise="student-t"``.
        """
        X = self._check_rows(X)
        y = checked_targets(y)
        check_consistent_length(X, y)
        self._check_outputs(y)
        outputs = y.reshape(len(y), -1).T
        with single_threaded_blas():
            known = self._known_noise(X, noise_variance)
            densities = [
                log_noisy_density(outputs, *self._parts_of_y(component, X, known))
                for component in self._components
            ]
            weights = [component.weight for component in self._components]
            density = mixture_log_density(weights, densities)
            if event is not None:
                event = check_events(event, len(X), len(outputs))
                for rows, mixture in self._mixtures_of_y(X, noise_variance):
                    tail = mixture_log_tail(*mixture, outputs[:, rows], event[:, rows] == 0.0)
                    density[:, rows] = np.where(event[:, rows] == 1.0, density[:, rows], tail)
        return self._shaped(density)

    def predict_quantiles(self, X, q, noise_variance=None):
        """Return quantiles of y, noise included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,)
            Probabilities of values below the quantiles, in (0, 1).
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `predict`.

        Returns
        -------
        quantiles : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            If `q` is a list, there is an additional last axis of length n_quantiles.

        Raises
        ------
        ValueError
            If `q` is not in (0, 1), or `noise_variance` is missing for a model that was fitted with
            known noise.

        Notes
        -----
        Where the noise is not Gaussian, as with ``noise="gp"`` or "student-t", or predictions are
        averaged over hyperparameters, y is a mixture of Gaussians. Its quantiles have errors of
        less than 1e-8 in probability. A quantile takes less time than `log_predictive_density`.
        """
        levels = check_levels(q)
        X = self._check_rows(X)
        found = np.empty((len(self._y_scale), levels.size, len(X)))
        with single_threaded_blas():
            for rows, mixture in self._mixtures_of_y(X, noise_variance):
                for k, level in enumerate(levels.ravel()):
                    found[:, k, rows] = mixture_quantiles(*mixture, level)
        quantiles = self._shaped(found)
        return quantiles if levels.ndim else quantiles[..., 0]

    def predict_interval(self, X, coverage=0.9, noise_variance=None):
        """Return the central interval that contains y with a given probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability of the interval, in (0, 1). Values below and above it are equally probable.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `predict`.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The ends, which are quantiles as in `predict_quantiles`.

        Raises
        ------
        ValueError
            If `coverage` is not in (0, 1), or as in `predict_quantiles`.
        """
        levels = central_levels(coverage)
        ends = self.predict_quantiles(X, levels, noise_variance)
        return ends[..., 0], ends[..., 1]

    def predict_exceedance(self, X, thresholds, noise_variance=None):
        """Return the probabilities that y exceeds given thresholds, noise included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        thresholds : float or array-like of shape (n_thresholds,) or (n_samples, n_thresholds)
            Numbers in units of y, the same for all outputs. An array with two dimensions holds
            those of each row.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `predict`.

        Returns
        -------
        exceedance : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            P(y > threshold). Unless `thresholds` is a number, there is an additional last axis of
            length n_thresholds.

        Raises
        ------
        ValueError
            If thresholds are not finite numbers, or as in `predict_quantiles`.

        Notes
        -----
        The distribution of y is that of `predict_quantiles`. Where it is Gaussian, probabilities
        down to 1e-300 are accurate; elsewhere the error is about 1e-12.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsegpc import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> X = rng.uniform(0, 6, size=(200, 1))
        >>> y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=200)
        >>> gp = SparseGPRegressor().fit(X, y)
        >>> gp.predict_exceedance([[0.0], [np.pi / 2]], thresholds=0.5).round(1)
        array([0.1, 0.9])
        """
        X = self._check_rows(X)
        limits = checked_thresholds(thresholds, len(X))
        found = np.empty((len(self._y_scale), limits.shape[1], len(X)))
        with single_threaded_blas():
            for rows, mixture in self._mixtures_of_y(X, noise_variance):
                for k, limit in enumerate(limits[rows].T):
                    found[:, k, rows] = mixture_exceedance(*mixture, limit)
        exceedance = self._shaped(found)
        return exceedance if np.ndim(thresholds) else exceedance[..., 0]

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
            Draws of f plus noise, at the cost of `sample_f`. The noise is independent from row to
            row and from output to output.

        Raises
        ------
        ValueError
            If `n_samples` is not positive, `random_state` is not a seed, the kernel overflows, or
            `noise_variance` is missing for a model that was fitted with known noise.
        """
        X = self._check_rows(X)
        rng = check_random_state(random_state)
        with single_threaded_blas():
            known = self._known_noise(X, noise_variance)

            def sample(component, n):
                samples = self._draws_of_f(component, X, n, rng)
                if known is None:
                    log_variance = component.observation.log_samples(X[:], n, rng)
                    std = np.exp(0.5 * log_variance) * self._y_scale[:, None, None]
                else:
                    std = np.sqrt(self._noise_of(component, X, known).expected())[:, None]
                samples += std * rng.standard_normal(samples.shape)
                return samples

            return self._joint_draws(n_samples, rng, sample)

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

    def _latent_moments(self, X):
        return self._in_units_of_y(*super()._latent_moments(X))

    def _in_units_of_y(self, mean, variance):
        scale = self._y_scale[:, None]
        return self._y_centre[:, None] + scale * mean, scale**2 * variance

    def _latent_covariance(self, posterior, X):
        """Return mean and covariance of a `Posterior`, shape (K, N) and (K, N, N)."""
        mean, covariance = latent_covariance(posterior, X)
        scale = self._y_scale[:, None]
        covariance *= scale[..., None] ** 2
        return self._y_centre[:, None] + scale * mean, covariance

    def _draws_of_f(self, component, X, n_samples, rng):
        draws = super()._draws_of_f(component, X, n_samples, rng)
        draws *= self._y_scale[:, None, None]
        draws += self._y_centre[:, None, None]
        return draws

    def _known_noise(self, X, noise_variance):
        """Return the user's noise variances, (n_outputs, N), or None if the noise is learned."""
        if noise_variance is None and self._noise is None:
            raise ValueError(
                "noise_variance is needed: the model was fitted with known noise variances and has "
                "learned none for other rows; latent_mean_and_variance gives the variance without "
                "noise"
            )
        if noise_variance is None:
            return None
        return check_noise_variance(noise_variance, len(X), len(self._y_scale))

    def _noise_variances(self, X, noise_variance):
        """Return the expected noise variance in squared units of y, shape (n_outputs, N)."""
        known = self._known_noise(X, noise_variance)
        return sum(
            component.weight * self._noise_of(component, X, known).expected()
            for component in self._components
        )

    def _noise_of(self, component, X, known):
        """Return the distribution of the noise variance of a component, (n_outputs, N).

        `known`, (n_outputs, N), replaces the learned variance unless that adds to it; None means
        that nothing is known.
        """
        learns = self._noise is not None
        if learns and (known is None or self._noise.adds_to_known):
            learned = component.observation.variance_at(X).multiplied(self._y_scale[:, None] ** 2)
            if known is None:
                return learned
            known = known + learned.expected()
        return LogNormalVariance(np.log(known), np.zeros_like(known))

    def _parts_of_y(self, component, X, known_noise):
        """Return mean and variance of f, and the distribution of the noise variance.

        They are those of a component, in units of y, of shape (n_outputs, N).
        """
        moments = self._in_units_of_y(*latent_moments(component.posteriors, X))
        return *moments, self._noise_of(component, X, known_noise)

    def _mixtures_of_y(self, X, noise_variance):
        """Yield slices of the rows, and the `gaussians_at` them whose mixture y is."""
        known = self._known_noise(X, noise_variance)
        weights = [component.weight for component in self._components]
        parts = [self._parts_of_y(component, X, known) for component in self._components]
        for start in range(0, len(X), DENSITY_ROWS):
            rows = slice(start, start + DENSITY_ROWS)
            yield rows, gaussians_at((slice(None), rows), weights, parts)

    def _is_flat(self, n_functions):
        return self._one_output

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
