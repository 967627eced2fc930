"""Predictions of fitted generalised regressors: of y and its distribution."""

from functools import partial

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length

from sparsegpc._core.likelihoods.predictive import (
    PredictivePart,
    log_predictive_density,
    mixture_predictive_cdf,
    mixture_predictive_quantiles,
)
from sparsegpc._core.likelihoods.responses import observations
from sparsegpc._core.rows.blocks import strips
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.input.responses import checked_exposure, checked_observations
from sparsegpc._estimators.input.validation import (
    central_levels,
    check_levels,
    check_weights,
    checked_numbers,
    checked_thresholds,
)
from sparsegpc._estimators.messages.user_warnings import warn_user
from sparsegpc._estimators.predictions.latent import LatentPredictions, component_moments
from sparsegpc._estimators.predictions.mixtures import (
    NODES_IN_ALL,
    mixture_log_density,
    positive_mixture_moments,
    quantiles_of_increasing,
)


def _has_survival(estimator):
    """Return whether the likelihood of a fitted estimator has a survival function."""
    if estimator._likelihood is None or estimator._likelihood.has_survival:
        return True
    raise AttributeError(
        "survival_function needs a likelihood of positive numbers or durations, got "
        f"{estimator._likelihood}: fit with likelihood='gamma', 'weibull' or 'log-normal'"
    )


class ResponsePredictions(LatentPredictions, RegressorMixin):
    """Predictions of a fitted regressor with a `ResponseLikelihood` in ``_likelihood``."""

    # Before `fit` there is none.
    _likelihood = None
    # Whether the fit got exposures.
    _has_exposures = False

    @property
    def _bounded_values(self):
        """The values whose density, or for counts probability, `lower_bound_` bounds."""
        return "counts" if self._likelihood.is_discrete else "targets"

    def predict(self, X, exposure=None, return_std=False):
        """Return the predictive mean of y and, optionally, its standard deviation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        exposure : float, array-like of shape (n_samples,) or None, default=None
            Exposure of each row, for likelihoods of counts and "gamma". None means 1: the mean is
            then a rate, or that of a single claim.
        return_std : bool, default=False
            Whether to return the standard deviation of y as well.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,)
            The mean of y, over the likelihood, the posterior of f and, if predictions are averaged
            over them, the hyperparameters.
        y_std : ndarray of shape (n_samples,)
            Only if `return_std`.

        Raises
        ------
        ValueError
            If `exposure` is not positive, or the likelihood takes none.
        """
        parts, exposure = self._parts_and_exposure(X, exposure)
        moments = [p.likelihood.mean_and_variance(p.mean, p.variance, exposure) for p in parts]
        weights = [part.weight for part in parts]
        mean, variance = positive_mixture_moments(weights, *zip(*moments, strict=True))
        return (mean, np.sqrt(variance)) if return_std else mean

    def predict_quantiles(self, X, q, exposure=None):
        """Return quantiles of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_levels,)
            Levels in (0, 1).
        exposure : float, array-like of shape (n_samples,) or None, default=None
            As in `predict`.

        Returns
        -------
        quantiles : ndarray of shape (n_samples,) or (n_samples, n_levels)
            For counts, the smallest count whose distribution function is at least `q`.

        Raises
        ------
        ValueError
            If a level is not between 0 and 1, or as in `predict`.

        Notes
        -----
        If predictions are averaged over hyperparameters or kernels, the quantiles are those of
        the mixture of their distributions. They take 20 to 50 times the time.
        """
        levels = check_levels(q)
        parts, exposure = self._parts_and_exposure(X, exposure)
        quantiles = np.stack(
            [mixture_predictive_quantiles(parts, level, exposure) for level in levels.ravel()],
            axis=1,
        )
        return quantiles if levels.ndim else quantiles[:, 0]

    def predict_interval(self, X, coverage=0.9, exposure=None):
        """Return central intervals of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability of each interval, in (0, 1). For counts it is at least that.
        exposure : float, array-like of shape (n_samples,) or None, default=None
            As in `predict`.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,)
            The quantiles at ``(1 - coverage) / 2`` and ``(1 + coverage) / 2``.

        Raises
        ------
        ValueError
            If `coverage` is not between 0 and 1, or as in `predict`.
        """
        levels = central_levels(coverage)
        lower, upper = self.predict_quantiles(X, levels, exposure).T
        return lower, upper

    def predict_exceedance(self, X, thresholds, exposure=None):
        """Return the probabilities that y exceeds given thresholds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        thresholds : float or array-like of shape (n_thresholds,) or (n_samples, n_thresholds)
            Any finite numbers. An array with two dimensions holds those of each row.
        exposure : float, array-like of shape (n_samples,) or None, default=None
            As in `predict`.

        Returns
        -------
        exceedance : ndarray of shape (n_samples,) or (n_samples, n_thresholds)
            P(y > threshold). If `thresholds` is a number, the last axis is left out.

        Raises
        ------
        ValueError
            If thresholds are not finite numbers, or as in `predict`.

        Notes
        -----
        For positive numbers, probabilities down to 1e-308 are accurate; for counts, those below
        about 1e-12 are rounding errors.
        """
        X = self._check_rows(X)
        limits = checked_thresholds(thresholds, len(X))
        exposure = checked_exposure(self._likelihood, exposure, len(X))
        parts = self._parts(X)
        columns = [_exceedance(parts, limit, exposure) for limit in limits.T]
        exceedance = np.stack(columns, axis=1)
        return exceedance if np.ndim(thresholds) else exceedance[:, 0]

    def log_predictive_density(self, X, y, exposure=None, event=None):
        """Return the logarithm of the predictive density or probability of y at each row, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        exposure : float, array-like of shape (n_samples,) or None, default=None
            As in `predict`.
        event : array-like of shape (n_samples,) or None, default=None
            As in `fit`. A row with a lower limit has the probability of a larger number, and one
            with an upper limit that of a smaller one.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If the likelihood does not allow one of the targets, exposures or events.
        """
        X = self._check_rows(X)
        y = checked_observations(self._likelihood, y, exposure, event)
        check_consistent_length(X, y)
        return _log_density(self._parts(X), y)

    def score(self, X, y, sample_weight=None, exposure=None, event=None):
        """Return the share of the deviance of y that the predictive mean explains, D².

        The deviance is twice the difference between the largest log likelihood of each target and
        that at the prediction, both with the learned `likelihood_`. D² is 1 for perfect predictions
        and 0 for those of the best constant function f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Weights of the deviances of the rows.
        exposure : float, array-like of shape (n_samples,) or None, default=None
            As in `fit`.
        event : array-like of shape (n_samples,) or None, default=None
            As in `fit`.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            As `log_predictive_density`.

        Warns
        -----
        UserWarning
            If the model was fitted with exposures, and gets none.
        """
        if exposure is None and self._has_exposures:
            warn_user(
                "the model was fitted with exposures, but score got none, so all of them count as "
                "1: pass exposure; through scikit-learn's cross-validation enable metadata routing "
                "and call set_score_request(exposure=True)"
            )
        X = self._check_rows(X)
        y = checked_observations(self._likelihood, y, exposure, event)
        check_consistent_length(X, y)
        weight = check_weights(sample_weight, len(y))
        f = self._f_at_mean(self._parts(X))
        y, f, weight = (part[weight > 0.0] for part in (y, f, weight))
        largest = weight @ self._likelihood.saturated_log_density(y)
        lack = largest - weight @ self._likelihood.log_density(y, f)
        lack_of_constant = largest - self._likelihood.constant_bound(y, weight)
        if lack_of_constant < 1e-9 * weight.sum():
            # As in r2_score, if there is nothing to explain.
            return float(lack < 1e-9 * weight.sum())
        return float(1.0 - lack / lack_of_constant)

    def sample_y(self, X, n_samples=1, random_state=0, exposure=None):
        """Return joint draws of y at all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
        exposure : float, array-like of shape (n_samples_X,) or None, default=None
            As in `predict`.

        Returns
        -------
        y_samples : ndarray of shape (n_samples_X, n_samples)
            At the cost of `sample_f`.

        Raises
        ------
        ValueError
            If `n_samples` is not positive, `random_state` is not a seed, or as in `predict`.
        """
        X = self._check_rows(X)
        exposure = checked_exposure(self._likelihood, exposure, len(X))
        rng = check_random_state(random_state)

        def sample(component, n):
            f = self._draws_of_f(component, X, n, rng)
            return component.observation.sample(f, exposure, rng)

        return self._joint_draws(n_samples, rng, sample)

    @available_if(_has_survival)
    def survival_function(self, X, times):
        """Return the probabilities that durations, or other positive numbers, exceed given times.

        Counts have no such function.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        times : float or array-like of shape (n_times,)
            Zero or positive.

        Returns
        -------
        survival : ndarray of shape (n_samples, n_times) or (n_samples,)
            Accurate for probabilities down to 1e-308. If `times` is a number, the last axis is left
            out.

        Raises
        ------
        ValueError
            If a time is negative.
        """
        _checked_times(times)
        return self.predict_exceedance(X, times)

    @available_if(_has_survival)
    def survival_interval(self, X, times, coverage=0.95):
        """Return central intervals of the survival function.

        Given f, durations exceed a time with a certain probability. As f is uncertain, so is this
        probability, of which `survival_function` returns the mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        times : float or array-like of shape (n_times,)
            Zero or positive.
        coverage : float, default=0.95
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        low, high : ndarray of shape (n_samples, n_times) or (n_samples,)
            As of `survival_function`. The parameter of the likelihood is taken as known, and with
            few events the intervals are too narrow, unless ``hyperparameters="average"``.

        Raises
        ------
        ValueError
            If a time is negative, or `coverage` is not between 0 and 1.
        """
        checked = _checked_times(times)
        tails, parts = central_levels(coverage), self._parts(self._check_rows(X))
        low, high = (_survival_quantiles(parts, checked, tail) for tail in tails)
        return (low, high) if np.ndim(times) else (low[:, 0], high[:, 0])

    def _parts(self, X):
        """Return a `PredictivePart` for each component, at validated rows."""
        with single_threaded_blas():
            moments = component_moments(self._components, X)
        return [
            PredictivePart(weight, component.observation, mean[0], variance[0])
            for component, weight, mean, variance in zip(self._components, *moments, strict=True)
        ]

    def _parts_and_exposure(self, X, exposure):
        """Return the `_parts` at a user's rows, and their exposures, (N,)."""
        X = self._check_rows(X)
        exposure = checked_exposure(self._likelihood, exposure, len(X))
        return self._parts(X), exposure

    def _f_at_mean(self, parts):
        """Return the values of f, (N,), at which the predictive means are those given f.

        They are values of the learned likelihood, whose mean given f may differ from those of the
        components by a constant factor.
        """
        own = self._likelihood.log_mean_factor()
        log_means = [
            (part.likelihood.log_mean_factor() - own) + (part.mean + 0.5 * part.variance)
            for part in parts
        ]
        return mixture_log_density([part.weight for part in parts], log_means)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _checked_times(times):
    """Return times, numbers that are not negative, as floats (n_times,)."""
    checked = checked_numbers(np.atleast_1d(times), "times")
    if checked.ndim > 1 or not (checked >= 0.0).all():
        raise ValueError(
            f"times must be a number or a list of numbers, zero or positive, got {times!r}: "
            "give the times after which to know the probability of survival"
        )
    return checked


def _survival_quantiles(parts, times, level):
    """Return quantiles of P(y > time | f), shape (n, n_times), from `PredictivePart`."""
    weights, likelihoods, means, variances = zip(*parts, strict=True)
    found = np.ones((len(means[0]), len(times)))
    for k in np.flatnonzero(times):
        limit = observations(times[[k]], event=0.0)
        functions = [partial(_survival, likelihood, limit) for likelihood in likelihoods]
        for part in strips(len(found), NODES_IN_ALL):
            moments = [mean[part] for mean in means], [variance[part] for variance in variances]
            found[part, k] = quantiles_of_increasing(weights, *moments, functions, level)
    return found


def _survival(likelihood, limit, f):
    """Return the probability of a number above a limit, one of `observations`, at f (..., n)."""
    return np.exp(likelihood.log_density(limit, f))


def _exceedance(parts, limits, exposure):
    """Return the probability that y exceeds a limit in each row, (n,), from `PredictivePart`."""
    likelihood = parts[0].likelihood
    is_within = limits >= 0.0 if likelihood.is_discrete else limits > 0.0
    parts = [part.at(is_within) for part in parts]
    y = observations(limits[is_within], exposure[is_within])
    found = np.ones(len(limits))
    if likelihood.has_survival:
        # The log densities of rows that are censored at these limits, which have all digits.
        y["event"] = 0.0
        above = np.exp(_log_density(parts, y))
    else:
        if likelihood.is_discrete:
            y["y"] = np.floor(y["y"])
        above = 1.0 - mixture_predictive_cdf(parts, y)
    # Rounding must neither raise a probability above one nor lower it below zero.
    found[is_within] = np.clip(above, 0.0, 1.0)
    return found


def _log_density(parts, y):
    """Return the logarithm of the predictive density of targets (n,), from `PredictivePart`."""
    densities = [log_predictive_density(p.likelihood, y, p.mean, p.variance) for p in parts]
    return mixture_log_density([part.weight for part in parts], densities)
