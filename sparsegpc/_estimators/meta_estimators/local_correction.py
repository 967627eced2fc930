"""Predictions from the inducing points and the nearest training rows, as a meta-estimator."""

import numbers
from dataclasses import field

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _check_method_params

from sparsegpc._estimators.base_estimator import all_or_nothing, with_parameters
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.input.validation import check_weights
from sparsegpc._estimators.messages.user_warnings import warn_user
from sparsegpc._estimators.meta_estimators.corrections import Corrections
from sparsegpc._estimators.meta_estimators.delegation import DelegatingEstimator

MODES = ("points", "both", "neighbors")
RELEARNED = ", relearned"
# A single row must not decide. Densities of nearly exact targets differ by hundreds of nats.
LARGEST_GAIN = 10.0
# Predictions from neighbours are slow, so a smaller mean gain in nats is not worth it.
LEAST_GAIN = 1e-3


@with_parameters
class LocalCorrection(DelegatingEstimator):
    r"""Predict from the inducing points and the nearest training rows.

    The inducing points of a sparse Gaussian process leave a part of f unexplained. Where f varies
    fast and there are many rows, the rows near a new one determine most of this part. The
    meta-estimator fits an estimator of this package, keeps its training rows, and at each new row
    conditions the posterior on the nearest of them as well. With few points this brings the
    predictions close to those of the exact Gaussian process.

    Parameters
    ----------
    estimator : SparseGPRegressor, SparseGPClassifier or another with all rows in `fit`
        It is cloned, and its parameters can be set as ``estimator__kernel``. Hyperparameters
        and kernels are not averaged.
    n_neighbors : int, default=40
        Number of nearest distinct rows, by distance in units of the length scales, or of the
        columns if the kernel has no length scales.
    mode : {"auto", "points", "both", "neighbors"}, default="auto"
        What to predict from: the inducing points, as the estimator does by itself; the points and
        the neighbours; or the neighbours alone, which is best where f varies so fast that the
        points explain little.
    relearn : bool or "auto", default="auto"
        Whether to learn the hyperparameters once more, for predictions from neighbours. With few
        points the estimator mistakes what they leave unexplained for noise, and prefers long length
        scales. Better hyperparameters are learned from at most 40 blocks of rows, each an exact
        Gaussian process: with Gaussian noise they maximise the log density of each row given the
        others of its block, with other likelihoods the bound. A block consists of the rows nearest
        to one of them, and a few others [2]_. Each hyperparameter changes by at most a factor of
        55. "auto" tries it if the estimator learns hyperparameters, has at least two distinct rows
        for each point, and has Gaussian noise or a single function f; with many classes it takes as
        long as the fit.
    n_validation : int, default=1000
        Number of training rows that decide where `mode` or `relearn` is "auto", by their mean log
        density. Each is predicted without itself and its copies: they are no neighbours, and their
        sites are removed from the posterior. The choices are "points", "both" and "neighbors", and
        then "both" and "neighbors" with hyperparameters learned once more. The first of them is
        taken unless others are better by more than one standard error and .001 nats; then the best
        of these. The difference at each row is limited to ten nats. If P hyperparameters were
        learned once more from N rows, which they have therefore seen, P / N nats are subtracted.
    random_state : int, RandomState instance or None, default=0
        Seed for the choice of the blocks and of the rows that decide.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator, without neighbours. Its bounds and certificates, its effects and joint
        draws ignore the neighbours.
    corrected_estimator_ : estimator
        A copy of it that predicts with neighbours; if ``relearned_`` is true, with hyperparameters
        learned once more. It has all methods that predict single rows. Those for draws,
        covariances, bounds or effects raise a ValueError: each row has neighbours of its own, so
        predictions of several rows have no joint distribution.
    mode_ : str
        The mode, as chosen.
    relearned_ : bool
        Whether the hyperparameters are those learned from blocks of neighbouring rows.
    validation_scores_ : dict or None
        Mean log density of each choice, in nats, by its name: the mode, followed by ", relearned"
        if hyperparameters were learned once more. None if there was nothing to choose.
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
    D columns and K functions, and a search tree. Learning once more takes up to about 50
    evaluations, whose cost does not depend on N and M: a few seconds with Gaussian noise. Labels
    and other targets that are not Gaussian are replaced by the pseudo-targets of their sites.

    The idea of combining global inducing points with local data is that of [1]_.

    References
    ----------
    .. [1] Snelson, Ghahramani, "Local and global sparse Gaussian process approximations",
       AISTATS 2007.
    .. [2] Stein, Chi, Welty, "Approximating likelihoods for large spatial data sets", Journal of
       the Royal Statistical Society B 66, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import LocalCorrection, SparseGPRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(size=(1200, 2))
    >>> y = np.sin(20 * X[:, 0]) * np.cos(12 * X[:, 1]) + 0.1 * rng.normal(size=1200)
    >>> model = LocalCorrection(SparseGPRegressor(n_inducing=30)).fit(X[:1000], y[:1000])
    >>> model.mode_, model.relearned_
    ('neighbors', True)
    >>> bool(model.score(X[1000:], y[1000:]) > model.estimator_.score(X[1000:], y[1000:]))
    True
    """

    estimator: BaseEstimator = field(kw_only=False)
    n_neighbors: int = 40
    mode: str = "auto"
    relearn: bool | str = "auto"
    n_validation: int = 1000
    random_state: int | np.random.RandomState | None = 0

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "n_neighbors": [Interval(numbers.Integral, 1, None, closed="left")],
        "mode": [StrOptions({"auto", *MODES})],
        "relearn": ["boolean", StrOptions({"auto"})],
        "n_validation": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    _fitted_name = "corrected_estimator_"
    # The requests of the nested estimator count, so there is no set_fit_request.
    __metadata_request__fit = {"sample_weight": UNUSED}

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
            As in the estimator's `fit`. If scikit-learn's metadata routing is enabled, the
            estimator must request it, as by
            ``LocalCorrection(SparseGPRegressor().set_fit_request(sample_weight=True))``.
        **params : dict
            Other arguments of the estimator's `fit`, such as `exposure`, `event` or
            `noise_variance`. If metadata routing is enabled, the estimator must request them, too.

        Returns
        -------
        self : LocalCorrection

        Raises
        ------
        TypeError
            If the estimator is not one of this package.
        ValueError
            If the estimator has ``hyperparameters="average"``, if ``relearn=True`` with an
            estimator that learns none or with ``mode="points"``, or as in its `fit`.

        Warns
        -----
        ConvergenceWarning
            If the hyperparameters could not be learned once more, or as in the estimator's `fit`.
        """
        self._check_parameters()
        X, y = indexable(X, y)
        with all_or_nothing(self):
            if sample_weight is not None:
                params = {"sample_weight": sample_weight, **params}
            data = self._routed("fit", params)
            estimator = clone(self.estimator)
            # Neighbours make up for points that are too few.
            estimator._warns_of_few_points = False
            if getattr(estimator, "hyperparameters", None) == "auto":
                # Neighbours correct a single posterior, also with few rows.
                estimator.set_params(hyperparameters="best")
            self.estimator_ = estimator.fit(X, y, **data)
            rng = check_random_state(self.random_state)
            local = Corrections.of(self.estimator_, X, y, self.n_neighbors, **data)
            choices = self._choices(local, rng)
            self.validation_scores_, chosen = None, next(iter(choices))
            if len(choices) > 1:
                self.validation_scores_, chosen = self._validated(choices, rng, X, y, **data)
            self.mode_, relearned, _ = chosen.partition(RELEARNED)
            self.relearned_ = bool(relearned)
            self.corrected_estimator_ = choices[chosen].corrected(self.mode_)
        return self

    @property
    def _must_relearn(self):
        return self.relearn != "auto" and self.relearn

    def _check_parameters(self):
        """Raise TypeError or ValueError for an unsuitable estimator or unsuitable parameters."""
        if not isinstance(self.estimator, BaseSparseGP):
            raise TypeError(
                "estimator must be a SparseGPRegressor, a SparseGPClassifier or another estimator "
                "of sparsegpc that gets all rows in one call of fit, got a "
                f"{type(self.estimator).__name__}: make "
                "LocalCorrection of such an estimator the last step of a pipeline"
            )
        if getattr(self.estimator, "hyperparameters", None) == "average":
            raise ValueError(
                "hyperparameters='average' has no neighbours: set it to 'best' in the estimator"
            )
        if self._must_relearn and self.mode == "points":
            raise ValueError(
                "relearn=True is for predictions from neighbours, got mode='points': change one of "
                "them"
            )

    def _choices(self, local, rng):
        """Return a dict of the `Corrections` of each choice, by its name."""
        modes = MODES if self.mode == "auto" else (self.mode,)
        has_neighbours = local.has_neighbours()
        if not has_neighbours:
            # A single row has no others as neighbours.
            modes = modes[:1]
        if self._must_relearn and not local.learns():
            raise ValueError(
                "relearn=True needs an estimator that learns hyperparameters, got one that learns "
                "none: change its kernel or its optimizer, or set relearn='auto'"
            )
        as_learned = dict.fromkeys(modes, local)
        again = [mode for mode in modes if mode != "points" and has_neighbours]
        may_gain = self.relearn == "auto" and local.learns_quickly() and local.has_many_rows()
        if not (self._must_relearn or may_gain) or not again:
            return as_learned
        try:
            relearned = local.relearned(rng)
        except LinAlgError as error:
            warn_user(
                f"the hyperparameters could not be learned from blocks of rows ({error}); those of "
                "the estimator are used",
                ConvergenceWarning,
            )
            return as_learned
        found = {mode + RELEARNED: relearned for mode in again}
        return found if self._must_relearn else as_learned | found

    def _validated(self, choices, rng, X, y, sample_weight=None, **params):
        """Return the mean log density of training rows for each choice, and the one to take.

        Each row is predicted without itself.
        """
        weight = check_weights(sample_weight, len(y))
        total_weight, present = weight.sum(), np.flatnonzero(weight)
        n_rows = min(self.n_validation, len(present))
        rows = np.sort(rng.choice(present, n_rows, replace=False))
        params = _check_method_params(X, params, rows)
        X, y, weight = _safe_indexing(X, rows), _safe_indexing(y, rows), weight[rows]
        densities, optimism = {}, {}
        for name, local in choices.items():
            corrected = local.corrected(name.partition(RELEARNED)[0], leaves_out=True)
            density = _log_density(corrected, X, y, params).reshape(len(rows), -1)
            densities[name] = density.mean(axis=1)
            # The expected gain of rows from parameters that maximise their density (Akaike 1974).
            optimism[name] = local.n_relearned / (total_weight * density.shape[1])
        first, *others = choices
        chosen, largest = first, 0.0
        for name in others:
            gains = densities[name] - densities[first] - (optimism[name] - optimism[first])
            gain = _clear_gain(gains, weight)
            if gain > largest:
                chosen, largest = name, gain
        scores = {name: float(np.average(each, weights=weight)) for name, each in densities.items()}
        return scores, chosen


def _clear_gain(gains, weight):
    """Return the mean of the limited gains of rows, or zero if it is not clearly positive.

    Zero is also returned if only the limit makes the mean positive.
    """
    limited = np.clip(gains, -LARGEST_GAIN, LARGEST_GAIN)
    mean = np.average(limited, weights=weight)
    error = np.sqrt(weight**2 @ (limited - mean) ** 2) / weight.sum()
    is_clear = mean > max(error, LEAST_GAIN)
    is_clear &= np.average(gains, weights=weight) > 0.0
    return mean if is_clear else 0.0


def _log_density(estimator, X, y, params):
    """Return the log density, or log probability, of y at each row, or at each row and output."""
    if not is_classifier(estimator):
        return estimator.log_predictive_density(X, y, **params)
    codes = np.searchsorted(estimator.classes_, np.ravel(y))
    return estimator.predict_log_proba(X)[np.arange(len(codes)), codes]
