"""Columns of zeros and ones for the levels of categories, and for whether a level is known."""

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from sparsegpc._estimators.base_estimator import Estimator
from sparsegpc._estimators.tables.columns import FEWEST_PER_LEVEL, levels

# Most columns for the levels of a category; one of them may be shared by the rarest levels.
MOST_LEVELS = 200


class Indicators(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Convert columns of text to zeros and ones, one column for each level.

    The columns for several levels are followed by one more, which is 1 if the level is known, as in
    all rows of `fit`. A level that is not known has 0 there, and is otherwise a rare level, or the
    mean of all levels if none share a column. If the length scale of the additional column is like
    those of the levels, a model expects that a new level differs from others as much as these do
    from each other. Without that column it would be certain about a point between all levels. A
    single column of levels tells no rows apart, and is zero.

    Parameters
    ----------
    min_frequency, max_categories : int
        Which levels share a column, see `OneHotEncoder`.
    """

    def __init__(self, min_frequency=FEWEST_PER_LEVEL, max_categories=MOST_LEVELS):
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X, y=None):
        """Learn the levels of a table of text and missing values."""
        self.encoder_ = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=self.min_frequency,
            max_categories=self.max_categories,
            sparse_output=False,
        ).set_output(transform="default")
        self.encoder_.fit(levels(X))
        self.n_features_in_ = self.encoder_.n_features_in_
        return self

    def transform(self, X):
        """Return an array of floats."""
        check_is_fitted(self)
        X, found = levels(X), []
        indicators = np.split(self.encoder_.transform(X), self._ends(), axis=1)
        for column, own, known in zip(X.T, indicators, self.encoder_.categories_, strict=True):
            n = own.shape[1]
            if n == 1:
                found.append(np.zeros(own.shape))
                continue
            own[~own.any(axis=1)] = 1.0 / n
            known_levels = set(known)
            found += [own, [[float(level in known_levels)] for level in column]]
        return np.hstack(found)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns."""
        check_is_fitted(self)
        names = super().get_feature_names_out(input_features)
        found = []
        own_names = np.split(self.encoder_.get_feature_names_out(names), self._ends())
        for name, own in zip(names, own_names, strict=True):
            found += [*own] if len(own) == 1 else [*own, f"{name}_is_known"]
        return np.array(found, dtype=object)

    def _ends(self):
        """Return the ends of the encoder's columns for all columns of text but the last."""
        shared = self.encoder_.infrequent_categories_
        n_levels = [
            len(known) - (0 if rare is None else len(rare) - 1)
            for known, rare in zip(self.encoder_.categories_, shared, strict=True)
        ]
        return np.cumsum(n_levels)[:-1]
