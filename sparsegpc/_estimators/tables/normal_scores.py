"""Normal scores of columns, as a transformer."""

import numbers

import numpy as np
from scipy.special import ndtri
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._estimators.base_estimator import Estimator
from sparsegpc._estimators.input.validation import refuse_rows_of_times


class NormalScores(OneToOneFeatureMixin, TransformerMixin, Estimator):
    r"""Map each column to normal scores, the Gaussian quantiles of its ranks.

    A value with rank r among n training values becomes :math:`\Phi^{-1}((r - \tfrac12) / n)`, with
    the standard normal distribution function :math:`\Phi` [1]_. Equal values have their mean rank.
    New values are interpolated linearly between those of training rows, and beyond their range have
    the score at its end. Missing values (nan) stay missing.

    In skewed columns most rows are close together and a few are far away; normal scores spread
    them. The bound tells whether that helps, see :class:`BoundSearch`.

    Parameters
    ----------
    max_values : int, default=10000
        Maximum number of values of a column that are kept with their scores. Of more distinct
        values, this many are kept, evenly spaced in their order; the others are interpolated.

    Attributes
    ----------
    values_ : list of ndarray
        The distinct training values of each column that are kept, in increasing order.
    scores_ : list of ndarray
        Their scores.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    tabular_pipeline : Uses it on the numbers of a table.
    sklearn.preprocessing.QuantileTransformer : Gives the least and the largest value, however many
        rows share them, the scores of the extreme quantiles; for many rows it uses fewer quantiles.

    Notes
    -----
    Cost O(N D log N) for N rows and D columns. A column whose values are all missing stays as it
    is. Without ties, scores have a mean of 0 and a standard deviation near 1.

    References
    ----------
    .. [1] Conover, "Practical nonparametric statistics", 3rd edition, Wiley 1999, chapter 5, on
       normal scores in place of ranks.

    Examples
    --------
    >>> from sparsegpc import NormalScores
    >>> scores = NormalScores().fit([[1.0], [10.0], [10.0], [1000.0]])
    >>> scores.transform([[1.0], [10.0], [505.0], [9999.0]]).round(2)
    array([[-1.15],
           [ 0.  ],
           [ 0.58],
           [ 1.15]])
    """

    _parameter_constraints = {"max_values": [Interval(numbers.Integral, 2, None, closed="left")]}

    def __init__(self, *, max_values=10_000):
        self.max_values = max_values

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the scores of the values of each column.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None, default=None
            Ignored.

        Returns
        -------
        self : NormalScores

        Raises
        ------
        ValueError
            If X holds infinite values or no rows.
        """
        X = self._validated(X, reset=True)
        self.values_, self.scores_ = [], []
        for column in X.T:
            values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
            ranks = np.cumsum(counts) - 0.5 * counts
            kept = spaced_rows(values, self.max_values)
            self.values_.append(values[kept])
            self.scores_.append(ndtri(ranks[kept] / max(counts.sum(), 1)))
        return self

    def transform(self, X):
        """Map each value to its score.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        return _interpolated(X, self.values_, self.scores_)

    def inverse_transform(self, X):
        """Map each score to the value that has it.

        Scores beyond those of the training rows become the least or the largest training value.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Scores.

        Returns
        -------
        values : ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            If X has another number of columns than in `fit`, or holds infinite values.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X must have {self.n_features_in_} columns of scores, as in fit, got {X.shape[1]}"
            )
        return _interpolated(X, self.scores_, self.values_)

    def _validated(self, X, reset):
        refuse_rows_of_times(X)
        return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _interpolated(X, places, heights):
    """Return the values at X (N, D) of piecewise linear functions, one for each column."""
    result = np.full(X.shape, np.nan)
    for k, (x, y) in enumerate(zip(places, heights, strict=True)):
        if len(x):
            # nan stays nan.
            result[:, k] = np.interp(X[:, k], x, y)
    return result
