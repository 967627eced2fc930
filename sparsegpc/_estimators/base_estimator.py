"""What all estimators of the package share: parameters, saved state, rows to predict at."""

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsegpc._estimators.input.validation import validated_rows
from sparsegpc._estimators.saving.state import restored_state, saved_state


class Estimator(BaseEstimator):
    """A scikit-learn estimator that sets all parameters or none, and marks its files."""

    def set_params(self, **params):
        """Set parameters: all of them, or none if one is unknown.

        Parameters
        ----------
        params : dict
            By name: parameters of the estimator, and of the objects that it holds as
            ``<parameter>__<parameter of the object>``.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter is unknown. Values are checked by `fit`.
        """
        known = self.get_params()
        for name, value in params.items():
            holder = name.partition("__")[0]
            # What belongs to an object that is set with it cannot be known yet.
            if name not in known and (holder == name or holder not in params):
                super().set_params(**{name: value})
        return super().set_params(**params)

    def __getstate__(self):
        return saved_state(super().__getstate__())

    def __setstate__(self, state):
        super().__setstate__(restored_state(type(self).__name__, state))

    def _check_rows(self, X):
        """Return rows to predict at, validated: an array or a `RowSource`."""
        check_is_fitted(self)
        return validated_rows(self, X, reset=False)
