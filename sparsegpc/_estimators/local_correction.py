"""Predictions from the inducing points and the nearest training rows, as a meta-estimator."""

import numbers
from copy import copy

import numpy as np
from sklearn.base import _fit_context, clone, is_classifier
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_method_params

from sparsegpc._core.models.neighbours import LocalPosterior
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.base_estimator import all_or_nothing
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.delegation import DelegatingEstimator
from sparsegpc._estimators.input.validation import check_weights
from sparsegpc._estimators.kernels.initialization import inverse_length_scales

MODES = ("points", "both", "neighbors")


class LocalCorrection(DelegatingEstimator):
    r"""Predict from the inducing points and the nearest training rows.

    The inducing points of a sparse Gaussian process leave a part of f unexplained. Where f varies
    fast and rows are many, the rows near a new one tell most of this part. The meta-estimator fits
    an estimator of this package, keeps its training rows, and at each new row conditions the
    posterior on the nearest of them as well. With few points this brings the predictions close to
    those of the exact Gaussian process.

    Parameters
    ----------
    estimator : SparseGPRegressor, SparseGPClassifier or another with all rows in `fit`
        It is cloned, and its parameters can be set as ``estimator__kernel``.
    n_neighbors : int, default=40
        Number of nearest distinct rows, by distance in units of the length scales, or in those of
        the columns if the kernel has no length scales.
    mode : {"auto", "points", "both", "neighbors"}, default="auto"
        From what to predict: from the inducing points, as the estimator does by itself; from the
        points and the neighbours; or from the neighbours alone, which is best where f varies so
        fast that the points explain little. "auto" takes the one with the highest mean log density
        of `n_validation` training rows, each predicted without itself and its copies among the
        neighbours, and with its weight in `sample_weight`.
    n_validation : int, default=500
        Number of rows that decide with "auto".
    random_state : int, RandomState instance or None, default=0
        Seed for the choice of the rows that decide.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, without neighbours. Its bounds and certificates, its effects and joint
        draws ignore the neighbours.
    corrected_estimator_ : estimator
        A copy of it that predicts with neighbours. It has all methods that predict single rows.
        Those that need more, for draws, covariances, bounds or effects, raise a ValueError: each
        row has neighbours of its own, so predictions of several rows have no joint distribution.
    mode_ : str
        The mode, as chosen.
    validation_scores_ : dict or None
        With "auto", the mean log density of each mode in nats.
    classes_ : ndarray of shape (n_classes,)
        Class labels, if the estimator is a classifier.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    SparseGPRegressor : Regression from inducing points.
    SparseGPClassifier : Classification from inducing points.

    Notes
    -----
    A prediction with k neighbours and M points costs O(k M^2 + k^3) for each row; 1 to 3
    milliseconds for k = 40 and M = 200. The model keeps N (2 D + 2 K) numbers for N distinct rows,
    D columns and K functions, and a search tree. Classes and other targets that are not Gaussian
    enter by the pseudo-targets of their sites.

    The idea of combining global inducing points with local data is that of [1]_.

    References
    ----------
    .. [1] Snelson, Ghahramani, "Local and global sparse Gaussian process approximations",
       AISTATS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import LocalCorrection, SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(size=(600, 2))
    >>> y = np.sin(10 * X[:, 0]) * np.cos(6 * X[:, 1]) + 0.1 * rng.normal(size=600)
    >>> model = LocalCorrection(SparseGPRegressor(n_inducing=20)).fit(X[:500], y[:500])
    >>> model.mode_
    'both'
    >>> bool(model.score(X[500:], y[500:]) > model.estimator_.score(X[500:], y[500:]))
    True
    """

    _parameter_constraints = {
        "estimator": [BaseSparseGP],
        "n_neighbors": [Interval(numbers.Integral, 1, None, closed="left")],
        "mode": [StrOptions({"auto", *MODES})],
        "n_validation": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    _fitted_name = "corrected_estimator_"

    def __init__(
        self,
        estimator,
        *,
        n_neighbors=40,
        mode="auto",
        n_validation=500,
        random_state=0,
    ):
        self.estimator = estimator
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.n_validation = n_validation
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None, **params):
        """Fit the estimator, keep the rows, and choose the mode.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that are read by slices are loaded into memory.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in the estimator's `fit`.
        **params : dict
            Other arguments of the estimator's `fit`, such as `exposure`, `event` or
            `noise_variance`.

        Returns
        -------
        self : LocalCorrection

        Raises
        ------
        ValueError
            If the estimator averages over hyperparameters, or as in its `fit`.
        """
        if getattr(self.estimator, "hyperparameters", "best") == "average":
            raise ValueError(
                "hyperparameters='average' has no neighbours: set it to 'best' in the estimator"
            )
        X, y = indexable(X, y)
        with all_or_nothing(self):
            data = {"sample_weight": sample_weight, **params}
            self.estimator_ = clone(self.estimator).fit(X, y, **data)
            local = Corrections(self, X, y, **data)
            self.validation_scores_, self.mode_ = None, self.mode
            if self.mode == "auto":
                scores = local.validation_scores(self, X, y, **data)
                self.validation_scores_, self.mode_ = scores, max(scores, key=scores.get)
            self.corrected_estimator_ = local.corrected(self.estimator_, self.mode_)
        return self


class Corrections:
    """The training rows and sites of a fitted estimator, and copies of it that use them."""

    def __init__(self, meta, X, y, sample_weight, **params):
        self._n_neighbors = meta.n_neighbors
        self._parts = []
        with single_threaded_blas():
            for part in meta.estimator_._restated(X, y, sample_weight, **params):
                evaluation = part.solved(part.theta, part.estimator._posterior)
                sites = [solution.sites for solution in evaluation.solutions]
                self._parts.append((part.estimator, *_distinct(part.model.X, sites)))

    def corrected(self, estimator, mode, leaves_out=False):
        """Return a copy of the fitted estimator that predicts in this mode.

        With `leaves_out`, training rows that equal the row to predict are no neighbours of it.
        """
        if mode == "points":
            return estimator
        models = [self._corrected(*part, mode, leaves_out) for part in self._parts]
        if getattr(estimator, "estimators_", None) is None:
            return models[0]
        whole = copy(estimator)
        whole.estimators_ = models
        return whole

    def _corrected(self, model, rows, sites, mode, leaves_out):
        nearest = NearestRows(model, rows, self._n_neighbors, leaves_out)
        uses_points = mode == "both"
        model = copy(model)
        model._posterior = LocalPosterior(model._posterior, rows, sites, nearest, uses_points)
        return model

    def validation_scores(self, meta, X, y, sample_weight, **params):
        """Return the mean log density of training rows in each mode, each without itself."""
        weight = check_weights(sample_weight, len(y))
        present = np.flatnonzero(weight)
        rng = check_random_state(meta.random_state)
        n_rows = min(meta.n_validation, len(present))
        rows = np.sort(rng.choice(present, n_rows, replace=False))
        params = _check_method_params(X, params, rows)
        X, y, weight = _safe_indexing(X, rows), _safe_indexing(y, rows), weight[rows]
        # A single row has no others as neighbours.
        has_others = all(len(kept) > 1 for _, kept, _ in self._parts)
        scores = {}
        for mode in MODES if has_others else MODES[:1]:
            corrected = self.corrected(meta.estimator_, mode, True)
            log_density = _log_density(corrected, X, y, params)
            scores[mode] = float(np.mean(np.average(log_density, axis=0, weights=weight)))
        return scores


class NearestRows:
    """Search of the nearest rows, by distance in units of the length scales of a fitted model.

    Rows must be distinct. With `leaves_out`, one that equals the row given is left out.
    """

    def __init__(self, model, rows, n_neighbors, leaves_out):
        rates = inverse_length_scales(model.kernel_, rows.shape[1])
        self._rates = np.ones(rows.shape[1]) if rates is None else rates
        # Differences of large numbers would lose digits.
        self._centre = rows.mean(axis=0)
        self._leaves_out = leaves_out
        self._rows = rows if leaves_out else None
        self._n = min(n_neighbors, len(rows) - leaves_out)
        self._search = NearestNeighbors().fit(self._scaled(rows))

    def __call__(self, X):
        """Return the indices (n, k) of the nearest rows."""
        n_found = self._n + self._leaves_out
        index = self._search.kneighbors(self._scaled(X), n_found, return_distance=False)
        if not self._leaves_out:
            return index
        is_same = (self._rows[index] == X[:, None]).all(axis=2)
        # The others in order, and the farthest one dropped where none is the same.
        order = np.argsort(is_same, axis=1, kind="stable")
        return np.take_along_axis(index, order, axis=1)[:, : self._n]

    def _scaled(self, X):
        return (X - self._centre) * self._rates


def _distinct(X, sites):
    """Return the distinct ones of rows (N, D), in memory, and the sites of each function at them.

    Sites at equal rows tell of the same f, so their precisions and shifts add up.
    """
    merged = unique_rows(X[:], np.ones(len(X)))
    return merged.X, [
        site._replace(precision=merged.total(site.precision), shift=merged.total(site.shift))
        for site in sites
    ]


def _log_density(estimator, X, y, params):
    """Return the log density, or log probability, of y at each row, or at each row and output."""
    if not is_classifier(estimator):
        return estimator.log_predictive_density(X, y, **params)
    codes = np.searchsorted(estimator.classes_, np.ravel(y))
    return estimator.predict_log_proba(X)[np.arange(len(codes)), codes]
