"""The regressor for counts, positive numbers and durations."""

from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.likelihoods.responses import ResponseLikelihood
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.input.responses import refuse_no_event, validated_observations
from sparsegpc._estimators.predictions.responses import ResponsePredictions
from sparsegpc.likelihoods import RESPONSES


@with_parameters
class SparseGPGeneralizedRegressor(ResponsePredictions, BaseSparseGP):
    r"""Gaussian process regression of counts, positive numbers and durations.

    Targets have a distribution whose mean is :math:`e_n c \exp(f(x_n))`, where f has a Gaussian
    process prior with a constant mean, :math:`e_n` is the exposure of the row and c a constant of
    the distribution. The model is to :class:`SparseGPRegressor` what a generalised linear model is
    to linear regression.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance of f, an object or a name as in :class:`SparseGPRegressor`.
    length_scales : {"auto", "tied", "free", "common"}, default="auto"
        Whether the columns have length scales of their own, as in :class:`SparseGPRegressor`.
    main_effects : bool or "auto", default="auto"
        Whether to add a function of each column to the kernel, as in :class:`SparseGPRegressor`.
    log_transform : bool or "auto", default="auto"
        Whether to transform skewed columns, as in :class:`SparseGPRegressor`.
    n_inducing : int, "auto" or None, default=None
        Maximum number of inducing points. :class:`SparseGPRegressor` describes this and the other
        parameters in detail.
    selector : str, InducingPointSelector or array (n_points, n_features), default="auto"
        How points are chosen, or the points themselves.
    selection_tol : float, default=1e-5
        The `cost_per_row_` at which to stop choosing points.
    certificate_tol : float, default=1e-2
        With ``n_inducing="auto"``, the gap of the certificate to reach, in nats per row.
    max_inducing : int, default=2000
        With ``n_inducing="auto"``, the maximum number of inducing points.
    point_cost : float, default=0.0
        Cost of an inducing point in nats; points that add less to the bound are removed.
    bound : {"auto", "tight", "spherical", "standard"}, default="auto"
        How the bound accounts for the residual variance; "auto" selects the highest bound, "tight",
        which extends that of [1]_.
    fit_prior_mean : bool, default=True
        Whether to learn the constant mean of f; otherwise it is zero.
    optimizer : {"bfgs"} or None, default="bfgs"
        "bfgs" learns the hyperparameters within their bounds; None keeps their values.
    n_restarts_optimizer : int, default=0
        Number of further runs from random hyperparameters.
    max_iter : int, default=100
        Maximum number of optimiser steps for each choice of inducing points.
    tol : float, default=1e-5
        Tolerance of the bound, in nats per row.
    max_reselections : int, default=10
        Maximum number of times that the points are chosen again.
    optimize_inducing : bool or "auto", default="auto"
        Whether to move the points, at the end of the fit, to where the bound is highest. "auto"
        does so if `n_inducing` and `selector` have their defaults and the points are too few.
    warm_start : bool, default=False
        Start from the hyperparameters and the points of the last fit.
    random_state : int, RandomState instance or None, default=0
        Seed for random selectors and restarts.
    verbose : int, default=0
        1 prints a line for each choice of points; 2 also for each evaluation of the bound.
    callback : callable or None, default=None
        Called after each evaluation of the bound.
    likelihood : str or ResponseLikelihood, default="auto"
        Distribution of the targets given f, an instance or a name. "auto" is "weibull" if `fit`
        gets `event`; otherwise "negative-binomial" if all targets are whole numbers, and else
        "gamma". The mean of y is proportional to exp(f) in all of them.

        "negative-binomial" and "poisson" are for counts. Counts of people, sales or accidents
        nearly always vary more than a Poisson distribution allows, by an amount that the first
        one learns.

        "gamma" is for positive numbers whose standard deviation is proportional to their mean.
        "weibull" and "log-normal" are for durations, of which some may be censored.

    Attributes
    ----------
    likelihood_ : ResponseLikelihood
        The likelihood with its learned parameters: ``likelihood_.size`` of "negative-binomial",
        ``likelihood_.shape`` of the others that have one.
    kernel_ : kernel
        Kernel with the learned hyperparameters.
    prior_mean_ : float
        Constant mean of f.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points in the order of their choice, or with `point_cost` of their worth.
    inducing_indices_ : ndarray of shape (n_points,) or None
        Indices of the points among the rows given to `fit`; None if some point is not a row.
    inducing_moved_ : bool
        Whether the points were moved from where they were chosen.
    log_scales_ : ndarray of shape (`n_features_in_`,)
        Distance from the dense part of each column, in its units, beyond which `log_transform` is
        nearly logarithmic; infinite for columns that are not transformed.
    feature_relevance_ : ndarray of shape (`n_features_in_`,) or None
        Standard deviation of each column divided by its length scale.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats.
    log_prior_ : float
        Log density of the prior of the hyperparameters, in nats, up to a constant.
    cost_per_row_ : float
        Cost of the residual variance, in nats per row.
    lower_bounds_ : ndarray
        The bound after each choice of points, in the run with the best result.
    history_ : dict of ndarray of shape (`n_evaluations_`,)
        One entry for each evaluation of the bound, as in :class:`SparseGPRegressor`.
    growth_ : list of dict or None
        With ``n_inducing="auto"``, the bound and the certificate's gap for each number of points.
    growth_end_ : str or None
        With ``n_inducing="auto"``, why the number of points stopped growing.
    n_iter_ : int
        Total number of optimiser steps.
    n_evaluations_ : int
        Total number of evaluations of the bound, including those on subsets of the rows.
    n_site_iterations_ : int
        Total number of passes of the site solver.
    converged_ : bool
        Whether the optimiser reached its tolerance.
    jitter_ : float
        Value added to the diagonal of the covariance of the points, relative to its mean.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    SparseGPRegressor : Regression with Gaussian noise, or with outliers.
    SparseGPClassifier : Classification, also of ordered classes.

    Notes
    -----
    Time and memory are as for :class:`SparseGPClassifier`. Only rows that agree in X, y, exposure
    and event are merged.

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
        "likelihood": [StrOptions({"auto", *RESPONSES}), ResponseLikelihood],
    }

    def fit(self, X, y, sample_weight=None, exposure=None, event=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets: counts, positive numbers or durations.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row, and a row of weight zero is ignored.
        exposure : float, array-like of shape (n_samples,) or None, default=None
            For likelihoods of counts: the time, area or population to which each count refers. The
            mean of y is proportional to it; pass the exponential of an offset. None means 1.
        event : array-like of shape (n_samples,) or None, default=None
            For likelihoods of durations: 1 or True if the duration was observed, 0 or False if it
            is only a lower limit (a right-censored row). None means that all were observed.

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
            As in :meth:`SparseGPClassifier.fit`.
        """
        return self._fit_likelihood(None, X, y, sample_weight, exposure, event)

    def _store_observation(self, evaluation, model):
        super()._store_observation(evaluation, model)
        self.likelihood_ = self._likelihood

    def _checked_rows(self, X, y, sample_weight, exposure=None, event=None, *, reset):
        data = X, y, sample_weight, exposure, event
        likelihood, rows = validated_observations(self, *data, reset=reset)
        refuse_no_event(rows.y)
        if reset:
            self._likelihood = likelihood
        return rows

    def _limit_meaning(self, name, side, best):
        own = name in self._likelihood.params_names()
        return self._likelihood.at_limit.get(side, "") if own else ""
