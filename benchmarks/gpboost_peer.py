"""GPBoost's Gaussian processes behind the interface of scikit-learn: two classes, and regression.

The kernel is GPBoost's default, Matern 3/2 with one length scale; the constant mean is learned, as
in this package. Up to `EXACT_ROWS` rows nothing is approximated but the likelihood of labels, by
Laplace's method. Above that it is FITC with `N_POINTS` points, centres of k-means++, or with as
many as there are distinct rows.
"""

import numpy as np

EXACT_ROWS = 1500
N_POINTS = 200


class _GPBoost:
    def __init__(self, likelihood, seed):
        self._likelihood, self._seed = likelihood, seed

    def fit(self, X, y):
        """Learn mean, kernel and noise by maximum likelihood."""
        import gpboost

        self._model = gpboost.GPModel(
            gp_coords=X,
            likelihood=self._likelihood,
            gp_approx="none" if len(X) <= EXACT_ROWS else "fitc",
            num_ind_points=min(N_POINTS, len(np.unique(X, axis=0))),
            num_parallel_threads=1,
            seed=self._seed,
        )
        self._model.fit(y=y.astype(np.float64), X=np.ones((len(X), 1)))
        return self

    def _predict(self, X):
        return self._model.predict(
            gp_coords_pred=X, X_pred=np.ones((len(X), 1)), predict_response=True, predict_var=True
        )


class GPBoostClassifier(_GPBoost):
    """Two classes by the logistic likelihood."""

    classes_ = np.array([0, 1])

    def __init__(self, seed):
        super().__init__("bernoulli_logit", seed)

    def predict_proba(self, X):
        """Return probabilities, shape (N, 2)."""
        positive = self._predict(X)["mu"]
        return np.column_stack([1.0 - positive, positive])


class GPBoostRegressor(_GPBoost):
    """Regression with one noise variance."""

    def __init__(self, seed):
        super().__init__("gaussian", seed)

    def predict(self, X, return_std=False):
        """Return the mean of y, and with `return_std` its standard deviation, each (N,)."""
        prediction = self._predict(X)
        if return_std:
            return prediction["mu"], np.sqrt(prediction["var"])
        return prediction["mu"]
