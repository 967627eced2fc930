"""Class probabilities, and the classes that follow from them."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsegpc._core.numerics.budget import refuse_beyond_memory
from sparsegpc._core.numerics.quadrature import N_NODES
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.threads import available_threads, single_threaded_blas


class ProbabilitiesMixin:
    """Predictions of a fitted classifier.

    Beside `UncertaintyMixin`, which knows the moments of f, and a ``_likelihood``, which turns them
    into probabilities.
    """

    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities.

        Without underflow with two classes and a likelihood of two; else down to 1e-308.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`.
        """
        X, n_classes = self._check_rows(X), len(self.classes_)
        # Means, variances and what is returned.
        row_bytes = 8 * (3 * n_classes if n_classes > 2 else 4)
        refuse_beyond_memory(
            len(X) * row_bytes,
            f"probabilities of {n_classes} classes at {len(X)} rows",
            lambda limit: f"ask for at most {limit // row_bytes} rows at a time",
        )
        mean, variance = self._moments(X)
        likelihood, n_columns = self._likelihood, len(mean) * N_NODES

        def block(mean, variance):
            return (), (likelihood.log_probabilities(mean, variance).T,)

        with single_threaded_blas():
            blocks = RowBlocks(mean.shape[1], n_columns, n_threads=available_threads())
            return blocks.visit(block, mean, variance)[1][0].T

    def predict_proba(self, X):
        """Return the class probabilities, integrated over the posterior of f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`; rows sum to one.
        """
        log_proba = self.predict_log_proba(X)
        with np.errstate(under="ignore"):
            proba = np.exp(log_proba)
            return proba / proba.sum(axis=1, keepdims=True)

    def decision_function(self, X):
        """Return the log-odds of the predicted probabilities, or their logarithms.

        They order rows as `predict_proba` does, which the latent mean need not do, since the latent
        variance differs from row to row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes log-odds, positive for ``classes_[1]``; with more the logarithms of the
            probabilities, the largest for the predicted class.
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
