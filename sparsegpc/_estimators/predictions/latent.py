"""Predictions of f by fitted estimators: its moments and joint draws at the user's rows."""

import numbers

import numpy as np
from sklearn.utils import check_random_state, check_scalar

from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.predictions.mixtures import Component, mixture_moments, mixture_samples


class LatentPredictions:
    """Predictions of f of a fitted estimator.

    The estimator has a ``_posterior``, or a model for each class in ``estimators_``. ``_mixture``
    is a list of `Component` if it averages over hyperparameters, else None. A regressor overrides
    the private methods that convert f to units of y.
    """

    _mixture = None

    @property
    def _components(self):
        """The list of `Component`: of the mixture, or of this model or the models of classes."""
        if self._mixture is not None:
            return self._mixture
        posteriors = [model._posterior for model in self._fitted_estimators]
        return [Component(1.0, posteriors, self._observation)]

    @property
    def _observation(self):
        """How y depends on f, see `Component`."""
        return self._likelihood

    def latent_mean_and_variance(self, X):
        """Return the posterior mean and variance of f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_functions)
            A regressor with Gaussian or Student-t noise has a function for each output, in units of
            y. Of a generalised regressor f is the logarithm of the mean of y at exposure 1, up to a
            constant of the likelihood.

            A classifier of two classes with a binary likelihood, and one with "ordinal-logit", has
            a single function: the log-odds of ``classes_[1]`` (with the probit, the normal quantile
            of its probability); for ordered classes `likelihood_` holds the cut points. With more
            classes, and always with "softmax", "logistic-softmax" and "dirichlet", there is one for
            each class. They do not depend on `class_weight`.
        variance : ndarray of the shape of `mean`
            Variance of f, without the noise of y. Far from the data it approaches that of the prior
            plus that of a learned prior mean.
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            mean, variance = self._latent_moments(X)
        return self._shaped(mean), self._shaped(variance)

    def sample_f(self, X, n_samples=1, random_state=0):
        """Return joint draws of f at all rows from its posterior.

        Functions of several outputs or classes are independent in the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        draws : ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_functions, n_samples)
            Functions as in `latent_mean_and_variance`. With N rows they take O(N^2) memory and at
            most O(N^3) time, and this time for each of the models that are drawn from if the
            estimator averages over hyperparameters or has one for each class. For thousands of
            rows see the :ref:`user guide <joint-draws>`.

        Raises
        ------
        ValueError
            If `n_samples` is not positive, `random_state` is not a seed, or the kernel overflows.
        """
        X = self._check_rows(X)
        rng = check_random_state(random_state)

        def sample(component, n):
            return self._draws_of_f(component, X, n, rng)

        return self._joint_draws(n_samples, rng, sample)

    def _latent_moments(self, X):
        """Return mean and variance of the functions at validated rows, shape (K, N) each."""
        return mixture_moments(*component_moments(self._components, X))

    def _draws_of_f(self, component, X, n_samples, rng):
        """Return joint draws of the functions of a component, shape (K, n_samples, N)."""
        draws = [latent_draws(posterior, X, n_samples, rng) for posterior in component.posteriors]
        return np.concatenate(draws) if len(draws) > 1 else draws[0]

    def _joint_draws(self, n_samples, rng, sample):
        """Return draws of all components as methods do; for `sample` see `mixture_samples`."""
        n_samples = check_scalar(n_samples, "n_samples", numbers.Integral, min_val=1)
        with single_threaded_blas():
            return self._shaped(mixture_samples(self._components, n_samples, rng, sample))

    def _shaped(self, values):
        """Return values of each function, (K, ..., N), as methods do: (N, K, ...), or (N, ...)."""
        values = np.moveaxis(values, -1, 0)
        return values[:, 0] if self._is_flat(values.shape[1]) else values

    def _is_flat(self, n_functions):
        """Return whether results have no axis for the functions."""
        return n_functions == 1


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


def component_moments(components, X):
    """Return the weights of components, and sequences of their means and variances at rows `X`.

    Each mean and each variance has the shape (K, N), see `latent_moments`.
    """
    moments = [latent_moments(component.posteriors, X) for component in components]
    return [component.weight for component in components], *zip(*moments, strict=True)


def latent_covariance(posterior, X):
    """Return mean and covariance of f, shape (K, N) and (K, N, N)."""
    # A slice reads a source into memory; the rows are small compared with their covariance.
    with np.errstate(over="ignore", invalid="ignore"):
        moments = posterior.covariance(X[:])
    _refuse_overflowed(X, moments)
    return moments


def latent_draws(posterior, X, n_samples, rng):
    """Return joint draws of f, shape (K, n_samples, N)."""
    with np.errstate(over="ignore", invalid="ignore"):
        draws = posterior.draws(X[:], n_samples, rng)
    _refuse_overflowed(X, (draws,))
    return draws


def _refuse_overflowed(X, moments):
    """Raise ValueError if moments or draws of f at these rows are not finite."""
    if not all(np.isfinite(part).all() for part in moments):
        largest = float(np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0))).max())
        raise ValueError(
            f"X holds a value of {largest:.3g}, where the learned kernel overflows: leave such "
            "rows out, or scale the columns before fit, for example with StandardScaler"
        )
