"""Base of the meta-estimators, which predict as a fitted estimator does."""

from sklearn.base import MetaEstimatorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sparsegpc._estimators.base_estimator import Estimator

DELEGATED = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score")


def _estimator_has(method):
    """Return a check of whether the estimator, or the last step of a pipeline, has a method."""

    def check(meta):
        getattr(last_step(meta._predictor), method)
        return True

    return check


def last_step(estimator):
    """Return the last step of a pipeline, which may be nested, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator[-1]
    return estimator


def _rows_of_last_step(estimator, X):
    """Return the rows that the `last_step` of a fitted estimator sees."""
    while isinstance(estimator, Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    return X


class DelegatingEstimator(MetaEstimatorMixin, Estimator):
    """A meta-estimator with an ``estimator``, that predicts as a fitted one does.

    ``_fitted_name`` is the name of the attribute that `fit` sets to the fitted estimator.
    """

    @property
    def _predictor(self):
        """The estimator that predicts; before `fit`, the one given."""
        return getattr(self, self._fitted_name, self.estimator)

    @available_if(_estimator_has("predict"))
    def predict(self, X, **params):
        """Return the predictions of the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **params : dict
            Arguments of its `predict`, such as ``return_std=True``. If scikit-learn's metadata
            routing is enabled, the estimator must request them: ``set_predict_request``.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        return self._predictor.predict(X, **self._routed("predict", params))

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X):
        """Return the class probabilities of the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`.
        """
        check_is_fitted(self)
        return self._predictor.predict_proba(X)

    @available_if(_estimator_has("predict_log_proba"))
    def predict_log_proba(self, X):
        """Return the logarithms of the class probabilities of the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns as in `classes_`.
        """
        check_is_fitted(self)
        return self._predictor.predict_log_proba(X)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X):
        """Return the decision function of the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        decision : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        return self._predictor.decision_function(X)

    @available_if(_estimator_has("predict_quantiles"))
    def predict_quantiles(self, X, q, **params):
        """Return quantiles of y by the fitted estimator, a regressor.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_quantiles,)
        **params : dict
            Further arguments of its `predict_quantiles`, such as `noise_variance`.

        Returns
        -------
        quantiles : ndarray, as of the fitted estimator
        """
        return self._of_last_step("predict_quantiles", X, q, **params)

    @available_if(_estimator_has("predict_interval"))
    def predict_interval(self, X, coverage=0.9, **params):
        """Return central intervals of y by the fitted estimator, a regressor.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Probability of the interval, in (0, 1).
        **params : dict
            Further arguments of its `predict_interval`, such as `noise_variance`.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return self._of_last_step("predict_interval", X, coverage, **params)

    @available_if(_estimator_has("predict_exceedance"))
    def predict_exceedance(self, X, thresholds, **params):
        """Return the probabilities that y exceeds given thresholds, by the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        thresholds : float or array-like of shape (n_thresholds,) or (n_samples, n_thresholds)
        **params : dict
            Further arguments of its `predict_exceedance`, such as `noise_variance`.

        Returns
        -------
        exceedance : ndarray, as of the fitted estimator
        """
        return self._of_last_step("predict_exceedance", X, thresholds, **params)

    @available_if(_estimator_has("predict_proba_interval"))
    def predict_proba_interval(self, X, coverage=0.95, **params):
        """Return central intervals of the class probabilities by the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.95
            Probability of the interval, in (0, 1).
        **params : dict
            Further arguments of its `predict_proba_interval`, such as `random_state`.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples, n_classes)
        """
        return self._of_last_step("predict_proba_interval", X, coverage, **params)

    @available_if(_estimator_has("average_difference"))
    def average_difference(self, X, reference):
        """Return the posterior of the average of f over rows, minus its average over other rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        reference : array-like of shape (n_reference, n_features)

        Returns
        -------
        mean, std : float or ndarray, as of the fitted estimator
        """
        check_is_fitted(self)
        rows = (_rows_of_last_step(self._predictor, each) for each in (X, reference))
        return last_step(self._predictor).average_difference(*rows)

    @available_if(_estimator_has("survival_function"))
    def survival_function(self, X, times):
        """Return the probabilities that durations exceed given times, by the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        times : float or array-like of shape (n_times,)
            Zero or positive.

        Returns
        -------
        survival : ndarray of shape (n_samples, n_times) or (n_samples,)
        """
        return self._of_last_step("survival_function", X, times)

    @available_if(_estimator_has("survival_interval"))
    def survival_interval(self, X, times, coverage=0.95):
        """Return central intervals of the survival function by the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        times : float or array-like of shape (n_times,)
            Zero or positive.
        coverage : float, default=0.95
            Probability of each interval, in (0, 1).

        Returns
        -------
        low, high : ndarray of shape (n_samples, n_times) or (n_samples,)
        """
        return self._of_last_step("survival_interval", X, times, coverage)

    @available_if(_estimator_has("log_predictive_density"))
    def log_predictive_density(self, X, y, **params):
        """Return the log predictive density of y by the fitted estimator, a regressor, in nats.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        **params : dict
            Further arguments of its `log_predictive_density`, such as `exposure`.

        Returns
        -------
        log_density : ndarray of the shape of `y`
        """
        return self._of_last_step("log_predictive_density", X, y, **params)

    @available_if(_estimator_has("score"))
    def score(self, X, y, **params):
        """Return the score of the fitted estimator, such as accuracy or R².

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        **params : dict
            Arguments of its `score`, such as `sample_weight` or `event`. If scikit-learn's metadata
            routing is enabled, the estimator must request them: ``set_score_request``.

        Returns
        -------
        score : float
        """
        if not _routing_enabled():
            # `Pipeline.score` would drop arguments other than weights.
            return self._of_last_step("score", X, y, **params)
        check_is_fitted(self)
        return self._predictor.score(X, y, **self._routed("score", params))

    def _of_last_step(self, method, X, *args, **params):
        """Call a method of the last step of the fitted estimator with the rows that it receives."""
        check_is_fitted(self)
        rows = _rows_of_last_step(self._predictor, X)
        return getattr(last_step(self._predictor), method)(rows, *args, **params)

    def _routed(self, method, params):
        """Return those of the arguments that metadata routing, if enabled, passes to a method."""
        if not _routing_enabled():
            return params
        return process_routing(self, method, **params).estimator[method]

    @property
    def classes_(self):
        """Class labels of the fitted estimator."""
        return self._fitted_attribute("classes_")

    @property
    def n_features_in_(self):
        """Number of columns seen in `fit`."""
        return self._fitted_attribute("n_features_in_")

    @property
    def feature_names_in_(self):
        """Names of the columns seen in `fit`."""
        return self._fitted_attribute("feature_names_in_")

    def _fitted_attribute(self, name):
        if not hasattr(self, self._fitted_name):
            raise AttributeError(f"{type(self).__name__} has no {name} before fit")
        return getattr(self._predictor, name)

    def __sklearn_tags__(self):
        tags, nested = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = nested.estimator_type
        tags.classifier_tags, tags.regressor_tags = nested.classifier_tags, nested.regressor_tags
        tags.input_tags, tags.target_tags = nested.input_tags, nested.target_tags
        return tags

    def get_metadata_routing(self):
        """Return where metadata goes: to the methods of the estimator with the same names.

        Returns
        -------
        router : MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        for method in DELEGATED:
            mapping.add(caller=method, callee=method)
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)
