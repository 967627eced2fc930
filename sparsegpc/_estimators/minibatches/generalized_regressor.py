"""The regressor of counts, positive numbers and durations that learns from minibatches."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.likelihoods.responses import ResponseLikelihood
from sparsegpc._core.rows.merged_rows import merge_with_targets
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.input.events import refuse_no_event
from sparsegpc._estimators.input.responses import validated_observations
from sparsegpc._estimators.input.validation import refuse_overflow
from sparsegpc._estimators.messages.response_warnings import zero_count_warnings
from sparsegpc._estimators.minibatches.sites import SiteMinibatches
from sparsegpc._estimators.predictions.responses import ResponsePredictions
from sparsegpc.likelihoods import RESPONSES

# Few targets, zeros and censored durations look as if there were no noise, or no limit; the search
# for hyperparameters would then take long, and end at extreme values.
FEWEST = 10


@with_parameters
class StochasticSparseGPGeneralizedRegressor(ResponsePredictions, SiteMinibatches):
    r"""Regression of counts, positive numbers and durations from minibatches of rows.

    The model of :class:`SparseGPGeneralizedRegressor` learned from one batch of rows at a time: for
    data sets with so many rows that a pass over all of them is expensive, and, through
    `partial_fit`, for streams. The approximate posterior takes natural-gradient steps [2]_ on a
    bound that is a sum over rows [1]_, as in :class:`StochasticSparseGPClassifier`. The
    hyperparameters and the parameter of the likelihood follow averaged gradients. With up to a few
    tens of thousands of rows, :class:`SparseGPGeneralizedRegressor` reaches a better optimum
    sooner.

    Parameters
    ----------
    likelihood : str or ResponseLikelihood, default="auto"
        Distribution of the targets given f, as in :class:`SparseGPGeneralizedRegressor`:
        "negative-binomial", "poisson", "gamma", "weibull", "log-normal", or an instance. "auto"
        is "log-normal" if some events are -1, else "weibull" with `event`, else "negative-binomial"
        if all targets are whole numbers, else "gamma"; in a stream the first call of `partial_fit`
        decides. Bounds are not compared: give the ``likelihood_`` that
        :class:`SparseGPGeneralizedRegressor` chooses for some of the rows.

    Attributes
    ----------
    likelihood_ : ResponseLikelihood
        The likelihood with its learned parameters: ``likelihood_.size`` of "negative-binomial",
        ``likelihood_.shape`` of the others that have one.

    See Also
    --------
    SparseGPGeneralizedRegressor : Learns from all rows at once.
    StochasticSparseGPRegressor : Gaussian noise.

    Notes
    -----
    Time and memory are as for :class:`StochasticSparseGPClassifier` with one function. Only rows
    that agree in X, y, exposure and event are merged. A saved model takes about 20 M^2 + 24 M D
    bytes for M points and D columns; after `partial_fit` it takes up to 8 M D bytes more, and 8 (D
    + 4) for each first row of a stream that it keeps.

    References
    ----------
    .. [1] Hensman, Matthews, Ghahramani, "Scalable variational Gaussian process classification",
       AISTATS 2015.
    .. [2] Khan, Lin, "Conjugate-computation variational inference: converting variational inference
       in non-conjugate models to inferences in conjugate models", AISTATS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegpc import StochasticSparseGPGeneralizedRegressor
    >>> rng = np.random.RandomState(0)
    >>> X, hours = rng.uniform(0, 6, size=(2000, 1)), rng.choice([1.0, 5.0], size=2000)
    >>> y = rng.poisson(hours * np.exp(1 + np.sin(X[:, 0])))
    >>> model = StochasticSparseGPGeneralizedRegressor(likelihood="poisson", n_inducing=20)
    >>> for rows in np.array_split(np.arange(2000), 4):
    ...     _ = model.partial_fit(X[rows], y[rows], exposure=hours[rows])
    >>> model.predict([[1.5], [4.5]]).round()
    array([7., 1.])
    """

    _parameter_constraints = {
        **SiteMinibatches._parameter_constraints,
        "likelihood": [StrOptions({"auto", *RESPONSES}), ResponseLikelihood],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, exposure=None, event=None):
        """Learn from all rows, in batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets: counts, positive numbers or durations.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
        exposure : float, array-like of shape (n_samples,) or None, default=None
        event : array-like of shape (n_samples,) or None, default=None
            These three as in :meth:`SparseGPGeneralizedRegressor.fit`.

        Returns
        -------
        self : StochasticSparseGPGeneralizedRegressor

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, the likelihood does not allow one of the
            targets, exposures or events, or the bound, or the kernel does not fit the data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning, UserWarning
            As in :meth:`StochasticSparseGPClassifier.fit`. A UserWarning also if all counts are
            zero.
        """
        return self._fit(X, y, sample_weight, exposure, event)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None, exposure=None, event=None):
        """Learn from further rows.

        They are used as in :meth:`StochasticSparseGPClassifier.partial_fit`, so they should come in
        random order. Hyperparameters are learned as soon as ten targets are observed and above
        zero. With counts, the constant mean of f has a normal prior with mean 0 and standard
        deviation 3, so that the rate remains positive if all counts are zero.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets. With ``likelihood="auto"`` those of the first call, and whether it has `event`,
            decide on the likelihood of the stream.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.
        exposure : float, array-like of shape (n_samples,) or None, default=None
        event : array-like of shape (n_samples,) or None, default=None
            As in `fit`. Until a duration is observed, predictions are extremely long.

        Returns
        -------
        self : StochasticSparseGPGeneralizedRegressor

        Raises
        ------
        ValueError
            As in `fit`.
        """
        return self._partial_fit(X, y, sample_weight, exposure, event)

    def _initial_likelihood(self):
        return self._chosen_likelihood

    def _learn_all(self, X, y, weight, progress):
        refuse_no_event(y["event"])
        found = super()._learn_all(X, y, weight, progress)
        if self.likelihood_.is_discrete and self.fit_prior_mean:
            # That all counts are zero explains what other warnings describe.
            return zero_count_warnings(y, weight) or found
        return found

    def _merged_rows(self, X, y, sample_weight, exposure, event, *, reset):
        data = X, y, sample_weight, exposure, event
        likelihood, rows = validated_observations(self, *data, reset=reset)
        refuse_overflow(rows.X, "X")
        if reset:
            self._chosen_likelihood = likelihood
            self._has_exposures = exposure is not None
        return merge_with_targets(rows.X, rows.y, rows.weight)

    def _suffice(self, y):
        return np.count_nonzero((y["y"] > 0.0) & (y["event"] > 0.0)) >= FEWEST
