"""A sparse Gaussian process under any likelihood: from what users give to a fitted model."""

import numbers
import warnings

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.base_estimator import Estimator
from sparsegpc._estimators.fitted_bounds import Restated, bound_at, certified, truncated
from sparsegpc._estimators.inducing_points import METHODS
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.input.validation import checked_targets, present_rows, validated_rows
from sparsegpc._estimators.kernels.initialization import column_relevance, default_kernel
from sparsegpc._estimators.kernels.sklearn_kernels import NO_WHITE_NOISE, adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.latent import by_row, latent_moments
from sparsegpc._estimators.learning import (
    Problem,
    check_auto,
    learns,
    resolve_slack,
    search,
    with_likelihood,
)
from sparsegpc._estimators.messages.callbacks import CALLBACK_SUPPORT, fit_task
from sparsegpc._estimators.messages.fit_warnings import FRAMES_TO_USER, fit_warnings
from sparsegpc._estimators.messages.progress import evaluation_progress
from sparsegpc._estimators.selector import InducingPointSelector


class BaseSparseGP(*CALLBACK_SUPPORT, Estimator):
    """Base of estimators: a sparse Gaussian process under a likelihood of any kind.

    It has the parameters that all of them share, and learns hyperparameters, inducing points and
    the posterior of f. The method `fit` of a subclass passes the likelihood of its targets, an
    instance of a subclass of :class:`sparsegpc.likelihoods.Likelihood`, to `_fit_likelihood`; its
    method `predict` turns the moments of f, which are `latent_mean_and_variance`, into predictions.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels or None, default=None
        Covariance of f, as in :class:`SparseGPRegressor`. None is a constant times RBF with one
        length scale, with bounds relative to the spread of the data.
    n_inducing : int or "auto", default=200
        Most inducing points; see :class:`SparseGPRegressor` for this and the others.
    selector : str, InducingPointSelector or array (n_points, n_features), default="rpcholesky"
        How points are chosen.
    selection_tol : float, default=1e-5
        Choose no more points once what the points miss costs at most this many nats per row.
    certificate_tol : float, default=1e-2
        With ``n_inducing="auto"``, how many nats per row the inducing points may cost.
    max_inducing : int, default=2000
        With ``n_inducing="auto"``, the most inducing points.
    bound : {"auto", "tight", "spherical", "standard"}, default="auto"
        How the bound accounts for what the points miss; "auto" is the tightest that the likelihood
        admits.
    fit_prior_mean : bool, default=True
        Learn the constant mean of f; else it is zero.
    optimizer : {"bfgs"} or None, default="bfgs"
        "bfgs" learns the hyperparameters within their bounds, None keeps them as they are.
    n_restarts_optimizer : int, default=0
        Further runs from hyperparameters drawn log-uniformly within their bounds.
    max_iter : int, default=100
        Most steps of the hyperparameters for each choice of inducing points.
    tol : float, default=1e-5
        Tolerance of the bound, in nats per row.
    max_reselections : int, default=10
        How often the points may be chosen again.
    optimize_inducing : bool, default=False
        At the end move the points to where the bound is highest.
    warm_start : bool, default=False
        Start from the hyperparameters and the points of the last fit.
    random_state : int, RandomState instance or None, default=0
        For selectors that draw, and for restarts.
    verbose : int, default=0
        1 prints a line for each choice of points, 2 one for each evaluation of the bound, too.
    callback : callable or None, default=None
        Called after each evaluation of the bound.

    Attributes
    ----------
    kernel_ : kernel
        Kernel with the learned hyperparameters.
    prior_mean_ : float or ndarray
        Constant mean of f; of each function where there are several.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points in the order of their choice.
    inducing_indices_ : ndarray of shape (n_points,) or None
        Which rows of the X given to `fit` they are; None where a point is no row.
    feature_relevance_ : ndarray of shape (`n_features_in_`,) or None
        How many length scales the standard deviation of each column spans.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats.
    cost_per_row_ : float
        What the points miss, in nats per row: half the mean of site precision times residual.
    lower_bounds_ : ndarray
        The bound after each choice of points, of the run that was kept.
    history_ : dict of ndarray of shape (`n_evaluations_`,)
        Choice, rows, points, bound and seconds of each evaluation of the bound.
    growth_ : list of dict or None
        With ``n_inducing="auto"``, what was found for each number of points.
    growth_end_ : str or None
        With ``n_inducing="auto"``, why it stopped.
    n_iter_ : int
        Steps of the hyperparameters in all.
    n_evaluations_ : int
        Evaluations of the bound in all, those on subsets included.
    n_site_iterations_ : int
        Passes of the site solver in all.
    converged_ : bool
        Whether the optimiser reached its tolerance.
    jitter_ : float
        Added to the diagonal of the points' covariance, relative to its mean.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if X had string ones.

    See Also
    --------
    SparseGPClassifier : For labels.
    SparseGPRegressor : For targets with Gaussian noise.

    Examples
    --------
    Counts with the rate exp(f), but for the constants log y!, which do not depend on f; with them
    in :ref:`extending-numbers`.

    >>> import numpy as np
    >>> from sparsegpc import BaseSparseGP
    >>> from sparsegpc.likelihoods import Expectation, Likelihood
    >>> class Poisson(Likelihood):
    ...     def targets(self, y, weight, rows):
    ...         return [rows.mean(y, weight)]
    ...
    ...     def expect(self, y, weight, mean, inducing_variance, residual, v):
    ...         rate = weight * np.exp(mean[0] + 0.5 * (inducing_variance[0] + v[0] * residual))
    ...         value, slope = weight * y * mean[0] - rate, weight * y - rate
    ...         return Expectation(value, slope[None], rate[None], v * rate)
    >>> class CountRegressor(BaseSparseGP):
    ...     def fit(self, X, y, sample_weight=None):
    ...         return self._fit_likelihood(Poisson(), X, y, sample_weight)
    ...
    ...     def predict(self, X):
    ...         mean, variance = self.latent_mean_and_variance(X)
    ...         return np.exp(mean + 0.5 * variance)
    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> y = np.random.RandomState(0).poisson(np.exp(1.0 + np.sin(X[:, 0])))
    >>> model = CountRegressor(n_inducing=10).fit(X, y)
    >>> model.predict([[1.5], [4.5]]).round()
    array([7., 1.])
    """

    _parameter_constraints = {
        "kernel": [Kernel, None],
        "n_inducing": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "selector": [StrOptions(set(METHODS)), InducingPointSelector, "array-like"],
        "selection_tol": [Interval(numbers.Real, 0, None, closed="left")],
        "certificate_tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
        "bound": [StrOptions({"auto", *SLACKS})],
        "fit_prior_mean": ["boolean"],
        "optimizer": [StrOptions({"bfgs"}), None],
        "n_restarts_optimizer": [Interval(numbers.Integral, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_reselections": [Interval(numbers.Integral, 0, None, closed="left")],
        "optimize_inducing": ["boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    # Whether f may vary over distances much shorter than those between rows.
    _expects_fast = True
    # A mean of f that moves less than this is constant as far as a user can see.
    _visible_range = 0.2
    # The learned noise of a regressor, and the likelihood of other estimators.
    _noise = _likelihood = None

    def __init__(
        self,
        kernel=None,
        *,
        n_inducing=200,
        selector="rpcholesky",
        selection_tol=1e-5,
        certificate_tol=1e-2,
        max_inducing=2000,
        bound="auto",
        fit_prior_mean=True,
        optimizer="bfgs",
        n_restarts_optimizer=0,
        max_iter=100,
        tol=1e-5,
        max_reselections=10,
        optimize_inducing=False,
        warm_start=False,
        random_state=0,
        verbose=0,
        callback=None,
    ):
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.selector = selector
        self.selection_tol = selection_tol
        self.certificate_tol = certificate_tol
        self.max_inducing = max_inducing
        self.bound = bound
        self.fit_prior_mean = fit_prior_mean
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.max_reselections = max_reselections
        self.optimize_inducing = optimize_inducing
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    # Learning: what `fit` of a subclass calls.

    def _fit_likelihood(self, likelihood, X, y, sample_weight=None):
        """Check the input of `fit`, and learn a model of numbers under a likelihood.

        Parameters
        ----------
        likelihood : Likelihood
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers, as the likelihood takes them.
        sample_weight : array-like of shape (n_samples,), float or None
            Each row's log-likelihood is multiplied by its weight.

        Returns
        -------
        self
        """
        with fit_task(self, X, y, sample_weight) as context:
            self._validate_params()
            progress = evaluation_progress(self, context)
            rows = self._checked_rows(X, y, sample_weight, reset=True)
            check_auto(self)
            self._likelihood = likelihood
            with single_threaded_blas():
                found = self._learn(self._problem(rows, progress))
            self._warn(found)
        return self

    def _checked_rows(self, X, y, sample_weight, reset):
        """Return the `PresentRows` of input that a user gives, validated."""
        y = checked_targets(y)
        X, y = validated_rows(self, X, y, y_numeric=True, reset=reset)
        return present_rows(X, y, sample_weight)

    def _problem(self, rows, progress):
        """Return the `Problem` of `PresentRows`."""
        merged = unique_rows(rows.X, rows.weight)
        spread = measure_spread(merged.X, merged.weight)
        kernel = default_kernel(spread) if self.kernel is None else self.kernel
        parameters = adapt_kernel(kernel, self.n_features_in_, refuse_white=NO_WHITE_NOISE)
        model = self._model(parameters.kernel, rows, merged)
        parameters = with_likelihood(parameters, model)
        return Problem(merged, rows.places, spread, kernel, parameters, model, progress)

    def _model(self, kernel, rows, merged):
        """Return the core's model of `PresentRows`, merged to `UniqueRows`."""
        likelihood = self._likelihood
        targets = likelihood.targets(rows.y, rows.weight, merged)
        options = self._model_options(likelihood)
        return SparseModel(kernel, likelihood, merged.X, targets, merged.weight, **options)

    def _model_options(self, likelihood):
        """Return the options of `SparseModel` that the parameters imply."""
        return {
            "slack": resolve_slack(self.bound, likelihood),
            "fit_prior_mean": self.fit_prior_mean and likelihood.has_prior_mean,
            "tol": self.tol,
            **row_options(),
        }

    def _learn(self, problem, rng=None, starts=None):
        """Learn what `optimizer` allows to, and set the attributes.

        Parameters
        ----------
        problem : Problem
        rng : RandomState or None
            None makes one of `random_state`.
        starts : list of ndarray of shape (P,) or None
            See `search`.

        Returns
        -------
        list of FitWarning
        """
        rng = check_random_state(self.random_state) if rng is None else rng
        warm = starts is None and self.warm_start and hasattr(self, "_theta")
        result, growth = search(self, problem, rng, warm=warm, starts=starts)
        self.growth_ = None if growth is None else growth.history
        self.growth_end_ = None if growth is None else growth.end
        self._store(result, problem)
        return fit_warnings(self, result, problem)

    def _warn(self, found):
        """Emit each `FitWarning`, at the user's call of the method that calls this."""
        for category, message, _ in found:
            warnings.warn(message, category, stacklevel=FRAMES_TO_USER)

    def _store(self, result, problem):
        best, counts = result.best, problem.model.counts
        self._theta = best.theta
        if self._likelihood is not None and self._likelihood.n_params:
            # Predictions are made with what was learned.
            self._likelihood = self._likelihood.at(problem.model.split(best.theta)[1][0])
        self.kernel_ = problem.kernel.clone_with_theta(best.posterior.theta)
        indices = best.points.indices
        self.inducing_indices_ = (
            None if indices is None else problem.places[problem.rows.first[indices]]
        )
        self.lower_bounds_ = np.array(result.bounds) + problem.offset
        self.history_ = problem.progress.history()
        self.converged_ = result.converged
        # A search that starts at the optimum has looked at least.
        self.n_iter_ = max(counts.optimizer_iterations, int(learns(self, problem.parameters)))
        self.n_evaluations_ = counts.evaluations
        self.n_site_iterations_ = counts.site_iterations
        self.feature_relevance_ = column_relevance(self.kernel_, problem.spread)
        self._store_posterior(best, problem.model, problem.offset)

    def _store_posterior(self, evaluation, model, offset):
        """Set what depends on the posterior, perhaps on fewer points than were learned with."""
        self._posterior = posterior = evaluation.posterior
        self.inducing_points_ = posterior.Z
        self.jitter_ = evaluation.jitter
        self.lower_bound_ = evaluation.elbo + offset
        cost = 0.5 * sum(q.mean_cost for q in posterior.functions)
        self.cost_per_row_ = float(cost * len(model.weight) / model.total_weight)
        self.prior_mean_ = self._prior_mean(posterior.prior_means)

    def _prior_mean(self, means):
        """Return the attribute `prior_mean_` from the prior means of the functions, shape (K,)."""
        return float(means[0]) if len(means) == 1 else means

    def _limit_meaning(self, name, side, best):
        """Say what it means that this hyperparameter is at a limit; empty if nothing is known.

        None means that the limit needs no warning.
        """
        return ""

    # Methods of a fitted model: the posterior of f, and bounds for rows given again.

    def latent_mean_and_variance(self, X):
        """Return the posterior mean and variance of f.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_functions)
        variance : ndarray of the shape of `mean`
        """
        X = self._check_rows(X)
        with single_threaded_blas():
            return by_row(*latent_moments([(self._posterior, self.kernel_)], X))

    def certificate(self, X, y, sample_weight=None, method="auto"):
        """Return how far the posterior can be from that with an inducing point at every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows given to `fit`, which are not kept.
        y : array-like of shape (n_samples,)
            Their labels or targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.
        method : str, default="auto"
            The upper bound on the log marginal likelihood, see `SparseGPRegressor.certificate`.

        Returns
        -------
        certificate : Certificate
            It compares with the dense Gaussian process at the same hyperparameters *and the same
            sites*: it bounds the cost of the inducing points, not that of the Gaussian
            approximation of the likelihood, for which no useful bound is known. With "polya-gamma"
            its upper bound is one on the dense Polya-Gamma bound at the same tilts. With one model
            for each class it holds for all of them together.

        Raises
        ------
        ValueError
            If the data are not those of `fit`, or `method` is unknown.
        """
        return certified(self, method, X, y, sample_weight)

    def lower_bound(self, theta=None, X=None, y=None, sample_weight=None, eval_gradient=False):
        """Return the lower bound on the log marginal likelihood at the fitted inducing points.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,) or None, default=None
            Logarithms of the kernel's free hyperparameters. None is ``kernel_.theta``.
        X : array-like of shape (n_samples, n_features) or None, default=None
            Rows of the bound. None, possible only without `theta`, `sample_weight` and
            `eval_gradient`, is the data of `fit`, which are not kept, and gives `lower_bound_`.
        y : array-like of shape (n_samples,) or None, default=None
            Their labels, among `classes_`, or targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`; the `class_weight` of a classifier multiplies them, where "balanced"
            balances these rows.
        eval_gradient : bool, default=False
            Whether to return the gradient w.r.t. `theta` too.

        Returns
        -------
        bound : float
            In nats, maximised over the approximate posterior and, if `fit_prior_mean`, over the
            prior mean; with one model for each class the sum of theirs. Minus infinity where
            `theta` is so extreme that the kernel matrix of the inducing points cannot be factored.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if `eval_gradient`.

        Raises
        ------
        ValueError
            If X or y is needed and missing, `theta` has a wrong length, or `y` holds an unknown
            label.
        """
        return bound_at(self, theta, eval_gradient, X, y, sample_weight=sample_weight)

    def truncate(self, n_inducing, X, y, sample_weight=None):
        """Return the model on the first inducing points only, without learning again.

        Hyperparameters stay as they are; posterior and bound are those of the smaller model. Each
        size costs about as much as one evaluation of the bound.

        Parameters
        ----------
        n_inducing : int
            Between 1 and the number of points of this model.
        X : array-like of shape (n_samples, n_features)
            The rows given to `fit`, which are not kept.
        y : array-like of shape (n_samples,)
            Their labels or targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.

        Returns
        -------
        model : estimator
            Fitted. It shares what it can with this one; ``lower_bounds_``, ``history_``,
            ``growth_`` and the counts are still those of this one.

        Raises
        ------
        ValueError
            If `n_inducing` is out of range, X has not as many distinct rows as that of `fit`, or
            the classifier consists of a model for each class.

        Notes
        -----
        Cost O(N m^2) for N rows and m points; for labels several times that, since their sites are
        solved for again.
        """
        return truncated(self, n_inducing, X, y, sample_weight)

    def _restated(self, X, y, sample_weight):
        """Return a list of the `Restated` for given rows, one for each model that there is."""
        return [self._restate(self._checked_rows(X, y, sample_weight, reset=False))]

    def _restate(self, rows):
        """Return this model `Restated` for `PresentRows`."""
        merged = unique_rows(rows.X, rows.weight)
        return Restated(self, self._model(self._posterior.kernel, rows, merged), self._theta)
