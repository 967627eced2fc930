"""Predictions of fitted classifiers: probabilities, their uncertainty, and classes.

They combine the posterior of f at each row with the likelihood of y.
"""

import numbers

import numpy as np
from scipy.special import log_expit, log_softmax, ndtri
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.numerics.quadrature import N_NODES
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.threads import available_threads, single_threaded_blas
from sparsegpc._estimators.latent import by_row, latent_moments, latent_samples


class ClassPredictions(ClassifierMixin):
    """Predictions of a fitted classifier.

    The classifier has a ``_posterior``, or binary models in ``estimators_``; a ``_likelihood``,
    which turns f into probabilities; and factors ``class_weight_``, by which these are multiplied.
    """

    @property
    def _fitted(self):
        """Return a list of (posterior, kernel): of this model, or of each binary model."""
        models = getattr(self, "estimators_", None) or [self]
        return [(model._posterior, model.kernel_) for model in models]

    def _moments(self, X):
        """Return mean and variance of all functions at validated rows, shape (K, N) each."""
        with single_threaded_blas():
            return latent_moments(self._fitted, X)

    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities.

        With a binary likelihood and two classes they are accurate for probabilities of any size,
        else for probabilities down to 1e-308.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`.
        """
        mean, variance = self._moments(self._check_rows(X))
        likelihood, n_columns = self._likelihood, len(mean) * N_NODES

        def block(mean, variance):
            return (), (likelihood.log_probabilities(mean, variance).T,)

        with single_threaded_blas():
            blocks = RowBlocks(mean.shape[1], n_columns, n_threads=available_threads())
            log_proba = blocks.visit(block, mean, variance)[1][0].T
        return reweighted_log(log_proba, self.class_weight_)

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

        They rank rows as `predict_proba` does. The mean of f may rank them otherwise, as the
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
        check_is_fitted(self)
        decision = self.decision_function(X)
        codes = decision.argmax(axis=1) if decision.ndim == 2 else (decision > 0.0).astype(np.intp)
        return self.classes_[codes]

    def predict_proba_interval(self, X, confidence=0.95, random_state=0):
        """Return central intervals of the class probabilities.

        The probabilities are functions of f, so the approximate posterior of f gives a distribution
        of each of them. The interval is wide far from the data, and narrow where there are many
        rows, even if their labels are noisy. In simulations its coverage of the true probability
        was close to `confidence` for the Bernoulli likelihoods, and too low for "logistic-softmax",
        "dirichlet", and "softmax" with many overlapping classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        confidence : float, default=0.95
            Posterior probability of each interval, in (0, 1).
        random_state : int, RandomState instance or None, default=0
            Seed. With more than one function the intervals are quantiles of 1000 draws.

        Returns
        -------
        low : ndarray of shape (n_samples, n_classes)
        high : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`. As these are quantiles and `predict_proba` is a mean, the
            latter may lie outside if the distribution is skewed.

        Raises
        ------
        ValueError
            If `confidence` is not between 0 and 1, or `random_state` is not a seed.
        """
        if not isinstance(confidence, numbers.Real) or not 0.0 < confidence < 1.0:
            raise ValueError(
                f"confidence must be a number between 0 and 1, got {confidence!r}: for example 0.95"
            )
        rng = check_random_state(random_state)
        mean, variance = self._moments(self._check_rows(X))
        tails = np.array([0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)])
        with np.errstate(under="ignore"):
            return self._intervals(mean, variance, tails, rng)

    def _intervals(self, mean, variance, tails, rng, n_draws=1000):
        """Return the quantiles of all classes, (low, high), from moments of f."""
        if len(mean) == 1:
            # The probability of the second class rises with f.
            ends = mean[0] + ndtri(tails)[:, None] * np.sqrt(variance[0])
            low, high = (self._probabilities(f[None])[:, 1] for f in ends)
            return np.stack([1.0 - high, low], axis=1), np.stack([1.0 - low, high], axis=1)
        # With the same draws at all rows, an interval does not depend on the other rows.
        draws = rng.standard_normal((len(mean), n_draws))
        low, high = np.empty((2, mean.shape[1], len(self.classes_)))
        for row, (m, std) in enumerate(zip(mean.T, np.sqrt(variance.T), strict=True)):
            f = m[:, None] + std[:, None] * draws
            proba = self._probabilities(f)
            low[row], high[row] = np.quantile(proba, tails, axis=0)
        return low, high

    def _probabilities(self, f):
        """Return the class probabilities (n, C) at given f, shape (K, n)."""
        weighted = self.class_weight_ * self._likelihood.probabilities(f)
        return weighted / weighted.sum(axis=1, keepdims=True)

    def latent_mean_and_variance(self, X):
        """Return the posterior mean and variance of f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes and a binary likelihood, that of the single function: the log-odds of
            ``classes_[1]`` (with the probit, the normal quantile of its probability). With more
            classes, and always with "softmax", "logistic-softmax" and "dirichlet", that of one
            function per class. f does not depend on `class_weight`.
        variance : ndarray of the shape of `mean`
            Variance of f at each row; far from the data it approaches that of the prior.
        """
        return by_row(*self._moments(self._check_rows(X)))

    def sample_f(self, X, n_samples=1, random_state=0):
        """Return joint draws of f at all rows from its posterior.

        The functions of several classes are independent in the posterior. They do not depend on
        `class_weight`.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0

        Returns
        -------
        f_samples : ndarray of shape (n_samples_X, n_samples) or (n_samples_X, n_classes, n_samples)
            The second shape is that with one function per class. It takes O(n_samples_X^2) memory
            and O(n_samples_X^3) time.

        Raises
        ------
        ValueError
            If `n_samples` is not positive, `random_state` is not a seed, or the kernel overflows.
        MemoryError
            If the covariance of the rows does not fit into memory.
        """
        X = self._check_rows(X)
        n_samples, rng = (
            check_scalar(n_samples, "n_samples", numbers.Integral, min_val=1),
            check_random_state(random_state),
        )
        with single_threaded_blas():
            samples = latent_samples(self._fitted, X, n_samples, rng)
        samples = np.moveaxis(samples, -1, 0)
        return samples[:, 0] if samples.shape[1] == 1 else samples


def reweighted_log(log_proba, factors):
    """Return log probabilities (N, C) multiplied by factors (C,) and normalised.

    This is exact if the ratios p'(c) / p(c) of the class frequencies to those of the data are
    proportional to the factors, and the distribution of x within each class is the same: by Bayes'
    rule p'(c | x) is proportional to p'(c) / p(c) times p(c | x).
    """
    if (factors == factors[0]).all():
        return log_proba
    log_proba = log_proba + np.log(factors)
    if len(factors) > 2:
        return log_softmax(log_proba, axis=1)
    # Unlike log_softmax this is accurate for a probability near one.
    log_odds = log_proba[:, 1] - log_proba[:, 0]
    return log_expit(np.stack([-log_odds, log_odds], axis=1))
