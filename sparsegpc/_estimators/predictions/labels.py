"""Predictions of fitted classifiers: probabilities, their uncertainty, and classes.

They combine the posterior of f at each row with the likelihood of y.
"""

import numpy as np
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state

from sparsegpc._core.likelihoods.binary_probabilities import N_NODES
from sparsegpc._core.likelihoods.multiclass import DirichletTargets
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.threads import available_threads, single_threaded_blas
from sparsegpc._estimators.input.validation import central_levels
from sparsegpc._estimators.predictions.latent import LatentPredictions, component_moments
from sparsegpc._estimators.predictions.mixtures import (
    mixture_log_probabilities,
    mixture_quantiles,
    normalized_pair,
)

# Number of draws of f whose quantiles are the intervals of probabilities of several classes.
INTERVAL_DRAWS = 1000


class ClassPredictions(LatentPredictions, ClassifierMixin):
    """Predictions of a fitted classifier.

    The classifier has a ``_posterior``, or binary models in ``estimators_``; a ``_likelihood``,
    which turns f into probabilities; and factors ``class_weight_``, by which these are multiplied.
    """

    @property
    def _bounded_values(self):
        """The values whose density `lower_bound_` bounds; bounds for others are not comparable."""
        if len(self._fitted_estimators) > 1:
            return "labels of each class against the rest"
        if isinstance(self._likelihood, DirichletTargets):
            return f"Dirichlet targets of concentration {self._likelihood.concentration:g}"
        return "labels"

    def _moments(self, X):
        """Return the `component_moments` at validated rows."""
        with single_threaded_blas():
            return component_moments(self._components, X)

    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities.

        With "ordinal-logit", and with a binary likelihood and two classes, they are accurate for
        probabilities of any size, else for probabilities down to 1e-308.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`.
        """
        weights, means, variances = self._moments(self._check_rows(X))
        parts = [
            _log_probabilities(component.observation, mean, variance)
            for component, mean, variance in zip(self._components, means, variances, strict=True)
        ]
        return reweighted_log(mixture_log_probabilities(weights, parts), self.class_weight_)

    def predict_proba(self, X):
        """Return the class probabilities, integrated over the posterior of f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`; rows sum to one. With `class_weight`, they are those of a
            population with other class frequencies.
        """
        log_proba = self.predict_log_proba(X)
        with np.errstate(under="ignore"):
            proba = np.exp(log_proba)
            return proba / proba.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        """Return log-odds for two classes, and logarithms of probabilities for more.

        They rank rows as `predict_proba` does. The mean of f may rank them differently, as the
        variance of f differs from row to row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, the log-odds of ``classes_[1]``; with more, the logarithms of the
            probabilities of all classes.
        """
        log_proba = self.predict_log_proba(X)
        return log_proba if log_proba.shape[1] > 2 else log_proba[:, 1] - log_proba[:, 0]

    def predict(self, X):
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        decision = self.decision_function(X)
        codes = decision.argmax(axis=1) if decision.ndim == 2 else (decision > 0.0).astype(np.intp)
        return self.classes_[codes]

    def predict_proba_interval(self, X, coverage=0.95, random_state=0):
        """Return central intervals of the class probabilities.

        The probabilities are functions of f, so the approximate posterior of f gives a distribution
        of each of them. The interval is wide far from the data, and narrow where there are many
        rows, even if their labels are noisy. In simulations its coverage of the true probability
        was close to `coverage` for the Bernoulli likelihoods and "softmax", and too low for
        "logistic-softmax" and "dirichlet".

        Hyperparameters, and the cut points of "ordinal-logit", are taken as known unless
        ``hyperparameters="average"``. With few rows or few events the coverage is then too low:
        with ten events in 500 rows, intervals for 0.9 contained 0.82 of the true probabilities,
        and 0.90 of them with the average. If the learned function is constant or nearly linear,
        a function that the labels are too few to show is not covered: with 40 events, 30 columns
        and a weak signal, intervals for 0.95 contained 0.25 of the probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.95
            Posterior probability of each interval, in (0, 1).
        random_state : int, RandomState instance or None, default=0
            Seed. With more than two classes the intervals are quantiles of 1000 draws.

        Returns
        -------
        low, high : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`. As these are quantiles and `predict_proba` is a mean, the
            latter may lie outside if the distribution is skewed.

        Raises
        ------
        ValueError
            If `coverage` is not between 0 and 1, or `random_state` is not a seed.
        """
        tails = central_levels(coverage)
        rng = check_random_state(random_state)
        weights, means, variances = self._moments(self._check_rows(X))
        with np.errstate(under="ignore"):
            return self._intervals(weights, means, variances, tails, rng)

    def _intervals(self, weights, means, variances, tails, rng):
        """Return the quantiles of all classes, (low, high), from moments of f by component."""
        n_functions, n_rows = means[0].shape
        if n_functions == 1 and len(self.classes_) == 2:
            # The probability of the second class rises with f.
            ends = [mixture_quantiles(weights, means, variances, tail) for tail in tails]
            low, high = (self._probabilities(self._likelihood, f)[:, 1] for f in ends)
            return np.stack([1.0 - high, low], axis=1), np.stack([1.0 - low, high], axis=1)
        # With the same draws at all rows, an interval does not depend on the other rows.
        which = np.zeros(INTERVAL_DRAWS, dtype=np.intp)
        if len(weights) > 1:
            which = rng.choice(len(weights), size=INTERVAL_DRAWS, p=weights)
        draws = rng.standard_normal((n_functions, INTERVAL_DRAWS))
        parts = [
            (component.observation, np.flatnonzero(which == k))
            for k, component in enumerate(self._components)
        ]
        means, deviations = np.stack(means), np.sqrt(np.stack(variances))
        low, high = np.empty((2, n_rows, len(self.classes_)))
        proba = np.empty((INTERVAL_DRAWS, len(self.classes_)))
        for row in range(n_rows):
            # From (S, K) to the component of each draw, (n_draws, K).
            f = means[which, :, row].T + deviations[which, :, row].T * draws
            for likelihood, drawn in parts:
                proba[drawn] = self._probabilities(likelihood, f[:, drawn])
            low[row], high[row] = np.quantile(proba, tails, axis=0)
        return low, high

    def _probabilities(self, likelihood, f):
        """Return the class probabilities (n, C) of a likelihood at given f, shape (K, n)."""
        weighted = self.class_weight_ * likelihood.probabilities(f)
        return weighted / weighted.sum(axis=1, keepdims=True)


def _log_probabilities(likelihood, mean, variance):
    """Return the log probabilities (N, C) of a likelihood, from moments (K, N) of f."""

    def block(mean, variance):
        return (), (likelihood.log_probabilities(mean, variance).T,)

    with single_threaded_blas():
        blocks = RowBlocks(mean.shape[1], len(mean) * N_NODES, n_threads=available_threads())
        return blocks.visit(block, mean, variance)[1][0].T


def reweighted_log(log_proba, factors):
    """Return log probabilities (N, C) multiplied by factors (C,) and normalised.

    This is exact if the ratios p'(c) / p(c) of the class frequencies to those of the data are
    proportional to the factors, and the distribution of x within each class is the same: by Bayes'
    rule p'(c | x) is proportional to p'(c) / p(c) times p(c | x).
    """
    if (factors == factors[0]).all():
        return log_proba
    log_proba = log_proba + np.log(factors)
    return log_softmax(log_proba, axis=1) if len(factors) > 2 else normalized_pair(log_proba)
