"""The regressor for counts, positive numbers and durations."""

from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.likelihoods.responses import ResponseLikelihood
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.choices.likelihood_choice import decide_likelihood
from sparsegpc._estimators.input.events import refuse_no_event
from sparsegpc._estimators.input.responses import validated_observations
from sparsegpc._estimators.learning.averaging import HyperparameterDraws
from sparsegpc._estimators.learning.problem_builders import LikelihoodBuilder
from sparsegpc._estimators.messages.response_warnings import (
    event_warnings,
    overdispersion_warnings,
    total_warnings,
    zero_count_warnings,
)
from sparsegpc._estimators.predictions.responses import ResponsePredictions
from sparsegpc._estimators.whole_fit import learn_rows
from sparsegpc.likelihoods import RESPONSES, LogNormal, Poisson


@with_parameters
class SparseGPGeneralizedRegressor(ResponsePredictions, HyperparameterDraws, BaseSparseGP):
    r"""Gaussian process regression of counts, positive numbers and durations.

    Targets have a distribution whose mean is :math:`e_n c \exp(f(x_n))`, where f has a Gaussian
    process prior with a constant mean, :math:`e_n` is the exposure of the row and c a constant of
    the distribution. The model is to :class:`SparseGPRegressor` what a generalised linear model is
    to linear regression.

    Parameters
    ----------
    likelihood : str or ResponseLikelihood, default="auto"
        Distribution of the targets given f, an instance or a name. The mean of y is proportional to
        exp(f) in all of them. "auto" is "negative-binomial" if all targets are whole numbers and
        `fit` gets no `event`. Else it is "gamma", or "weibull" with `event`, unless the bound of a
        simple model for at most 2000 rows is clearly higher with "log-normal" or "weibull":
        :ref:`user guide <responses-choice>`. It is "log-normal" if some events are -1. A
        `warm_start` keeps the likelihood until there are enough more rows, and nothing is compared
        with ``optimizer=None``.

        "negative-binomial" and "poisson" are for counts. Counts of people, sales or accidents
        nearly always vary more than a Poisson distribution allows, by an amount that the first
        one learns.

        "gamma" is for positive numbers whose standard deviation is proportional to their mean, and
        "log-normal" also for those with a heavy tail, such as insurance claims. "weibull" and
        "log-normal" are for durations, of which some may be censored.

    Attributes
    ----------
    likelihood_ : ResponseLikelihood
        The likelihood with its learned parameters: ``likelihood_.size`` of "negative-binomial",
        ``likelihood_.shape`` of the others that have one.
    likelihood_bounds_ : dict of float or None
        The bounds that were compared if ``likelihood="auto"`` chose among likelihoods, in nats, for
        each by name: those of simple models for the rows that decided, so `lower_bound_` is another
        one. None if none were compared.

    See Also
    --------
    SparseGPRegressor : Regression with Gaussian noise, or with outliers.
    SparseGPClassifier : Classification, also of ordered classes.

    Notes
    -----
    Time and memory are as for :class:`SparseGPClassifier`. Only rows that agree in X, y, exposure
    and event are merged. The bound "tight" extends that of [1]_.

    References
    ----------
    .. [1] Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025, section 3.3.

    Examples
    --------
    Counts in periods of unequal length:

    >>> import numpy as np
    >>> from sparsegpc import SparseGPGeneralizedRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(0, 6, size=(200, 1))
    >>> hours = rng.uniform(0.5, 2.0, size=200)
    >>> y = rng.poisson(hours * np.exp(1 + np.sin(X[:, 0])))
    >>> model = SparseGPGeneralizedRegressor(n_inducing=20).fit(X, y, exposure=hours)
    >>> model.predict([[1.5], [4.5]]).round()       # per hour; true rates: 7.4 and 1.0
    array([8., 1.])
    >>> model.predict_interval([[1.5], [4.5]], exposure=[2.0, 2.0])
    (array([8., 0.]), array([24.,  5.]))
    """

    likelihood: str | ResponseLikelihood = "auto"

    _parameter_constraints = {
        **BaseSparseGP._parameter_constraints,
        **HyperparameterDraws._parameter_constraints,
        "likelihood": [StrOptions({"auto", *RESPONSES}), ResponseLikelihood],
    }

    _may_be_rough = True

    def fit(self, X, y, sample_weight=None, exposure=None, event=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets: counts, positive numbers or durations.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row, and a row of weight zero is ignored. If weights are not counts, their
            scale matters: :ref:`user guide <weights>`. If copies alone make the noise of positive
            targets vanish, no row counts more than once: :ref:`FAQ <faq-copies>`.
        exposure : float, array-like of shape (n_samples,) or None, default=None
            For likelihoods of counts: the time, area or population to which each count refers. For
            "gamma": the number of claims, items or other units of which y is the total, not the
            mean. The mean of y is proportional to it; pass the exponential of an offset. None means
            1.
        event : array-like of shape (n_samples,) or None, default=None
            For likelihoods of durations: 1 or True if the target was observed, 0 or False if it is
            only a lower limit (a right-censored row), and with "log-normal" -1 if it is only an
            upper limit (a left-censored row, such as a concentration below the limit of detection).
            None means that all were observed.

        Returns
        -------
        self : SparseGPGeneralizedRegressor

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, the likelihood does not allow one of the
            targets, exposures or events, or the kernel does not fit the data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning, UserWarning
            As in :meth:`SparseGPClassifier.fit`. A UserWarning also if rows that repeat others hid
            the noise and were counted once, if all counts are zero, if they vary too much for a
            Poisson distribution, if events look miscoded, and if the predicted means of log-normal
            targets add up to another total than these.
        """
        return self._fit_likelihood(None, X, y, sample_weight, exposure, event)

    def _learn_rows(self, rows, progress, context=None):
        fitted = learn_rows(LikelihoodBuilder(self, rows, progress), decide_likelihood)
        self.likelihood_bounds_ = fitted.compared_bounds
        found = self._store_whole_fit(fitted)
        if self.likelihood_.is_discrete and self.fit_prior_mean:
            # That all counts are zero explains what other warnings describe.
            found = zero_count_warnings(rows.y, rows.weight) or found
        found += self._overdispersion_warnings(rows, fitted)
        upper = "-1, and likelihood 'log-normal'"
        found += event_warnings(rows.y["y"], rows.y["event"], upper=upper)
        return found + self._total_warnings(rows)

    def _overdispersion_warnings(self, rows, fitted):
        # A search that has not ended tells little of the counts.
        is_learned = fitted.problem.learns and self.converged_
        if not (is_learned and isinstance(self.likelihood_, Poisson)):
            return []
        return overdispersion_warnings(rows.y, rows.weight, self.lower_bound_)

    def _total_warnings(self, rows):
        # Without a search the deviation of the logarithms is not that of the model.
        is_learned = isinstance(self.likelihood_, LogNormal) and self.optimizer is not None
        if not (is_learned and (rows.y["event"] == 1.0).all()):
            return []
        return total_warnings(rows.y["y"], self.predict(rows.X), rows.weight)

    def _store_observation(self, evaluation, model):
        super()._store_observation(evaluation, model)
        self.likelihood_ = self._likelihood

    def _checked_rows(self, X, y, sample_weight, exposure=None, event=None, *, reset):
        data = X, y, sample_weight, exposure, event
        likelihood, rows = validated_observations(self, *data, reset=reset)
        refuse_no_event(rows.y["event"])
        if reset:
            self._likelihood = likelihood
            self._has_exposures = exposure is not None
        return rows
