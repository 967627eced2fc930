"""Parameters of estimators, which are set all together or not at all."""


class ParametersMixin:
    """What estimators add to scikit-learn's `set_params`; before `BaseEstimator`."""

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
