"""Base class of the estimators: a sparse Gaussian process with any likelihood."""

import numbers
from collections.abc import Callable
from dataclasses import field

import numpy as np
from sklearn.base import _fit_context, is_classifier
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.base_estimator import Estimator, with_parameters
from sparsegpc._estimators.choices.kernel_choice import decide_kernel
from sparsegpc._estimators.fitted_bounds import FittedBounds
from sparsegpc._estimators.input.settings import resolve_slack, row_options
from sparsegpc._estimators.input.validation import PresentRows, present_rows, validated_targets
from sparsegpc._estimators.kernels.named_kernels import KERNEL_CONSTRAINTS
from sparsegpc._estimators.kernels.relevance import column_relevance
from sparsegpc._estimators.learning.point_selection import AUTO, METHODS, check_auto
from sparsegpc._estimators.learning.problem_builders import LikelihoodBuilder
from sparsegpc._estimators.messages.callbacks import CALLBACK_SUPPORT, fit_task
from sparsegpc._estimators.messages.fit_warnings import fit_warnings
from sparsegpc._estimators.messages.reporting import evaluation_progress
from sparsegpc._estimators.messages.target_warnings import order_warnings
from sparsegpc._estimators.messages.user_warnings import emit_warnings
from sparsegpc._estimators.messages.weight_warnings import (
    copied_records_warnings,
    copy_warnings,
    weight_warnings,
)
from sparsegpc._estimators.model_of_rows import ModelOfRows
from sparsegpc._estimators.predictions.effects import ColumnEffects
from sparsegpc._estimators.predictions.latent import LatentPredictions
from sparsegpc._estimators.selector import InducingPointSelector
from sparsegpc._estimators.whole_fit import learn_rows


@with_parameters
class BaseSparseGP(*CALLBACK_SUPPORT, LatentPredictions, ColumnEffects, FittedBounds, Estimator):
    """Base class of estimators: a sparse Gaussian process with any likelihood.

    It has the parameters that all estimators share, and learns the hyperparameters, the inducing
    points and the posterior of f. The method `fit` of a subclass passes the likelihood of its
    targets, an instance of a subclass of :class:`sparsegpc.likelihoods.Likelihood`, to
    `_fit_likelihood`; its method `predict` turns the moments of f, from `latent_mean_and_variance`,
    into predictions.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance of f, an object or a name. Names stand for ConstantKernel times a stationary
        kernel: "rbf" for RBF; "matern12", "matern32" and "matern52" for Matern with nu 0.5, 1.5 and
        2.5; "laplacian" for :class:`sparsegpc.kernels.Laplacian`. Their start values and bounds
        suit the spread of the data. None means "rbf"; :class:`SparseGPRegressor` and
        :class:`SparseGPGeneralizedRegressor` replace it by "matern32", "matern12" or "laplacian" if
        that raises the bound and there is no `point_cost`, and average predictions over those of
        these kernels that the data hardly tell apart (`hyperparameters`). The free hyperparameters
        of an object are learned within their bounds.

        ConstantKernel, RBF, Matern (nu 0.5, 1.5, 2.5, inf), RationalQuadratic, ExpSineSquared,
        DotProduct, :class:`sparsegpc.kernels.Laplacian`, :class:`sparsegpc.kernels.MainEffects`,
        :class:`sparsegpc.kernels.OrthogonalAdditive` and their sums and products have analytic
        gradients. Any other kernel is differentiated by finite differences, with 2 evaluations of
        the kernel for each hyperparameter. In :class:`SparseGPRegressor` a WhiteKernel summand
        stands for the noise: its ``noise_level`` is the start value of the noise variance, and its
        bounds are those of the noise variance. Other estimators raise a ValueError for it. More:
        :ref:`user guide <kernels>`.
    length_scales : {"auto", "tied", "free", "common"}, default="auto"
        "tied" means one length scale for each column, with a prior that keeps them about equal, in
        units of the columns' standard deviations, unless the data clearly call for different ones.
        "free" means one for each column without a prior, and "common" one for all columns, in units
        of X. "auto" leaves an object as it is. For a kernel by name it means "tied", or "common" if
        there are very many columns, or few rows for many: :ref:`user guide <kernels>`. With the
        other values, a kernel object must have matching length scales.
    main_effects : bool or "auto", default="auto"
        Whether to add :class:`sparsegpc.kernels.MainEffects`, a function of each single column, to
        a kernel by name. They help where columns have strong effects of their own, and make each
        evaluation of the bound about twice as expensive. "auto" adds them if that raises the bound
        by more than half of log N nats on N rows, a part if there are many:
        :ref:`user guide <kernels-effects>`. It leaves them out if `kernel` is an object, if more
        than 100 columns vary, and with ``optimizer=None``. With a single column they have no
        effect.
    log_transform : bool or "auto", default="auto"
        Whether to take logarithms of skewed columns, as multiples of ``arsinh((x - e) / c)``; e is
        the end of the column without a tail, the median, or 0 with a tiny c in columns of one sign
        that span decades. "auto" takes them if that raises the bound; it leaves the columns as they
        are if `kernel` is an object, and with ``optimizer=None``. True transforms all columns whose
        correlation with their transform is below 0.95. All methods take the original columns; only
        ``kernel_`` and ``feature_relevance_`` refer to the transformed columns: :ref:`user guide
        <kernels-skewed>`.
    n_inducing : int, "auto" or None, default=None
        Maximum number of inducing points; it is silently limited to the number of distinct rows.
        More points bring the bound closer to that of the full Gaussian process, at a cost of O(M^2)
        per row. None means 200, and more if these are too few: up to 1000 points for 2000 rows, 447
        for 10 000, and fewer for several functions. If these are still too few, they are moved
        (`optimize_inducing`). No points are added with ``optimize_inducing=True``, or if `selector`
        is not a name.

        "auto" doubles the number of points until the certificate is at most `certificate_tol` and
        doubling once more confirms it, doubling hardly raises the bound, or `max_inducing` is
        reached; ``growth_end_`` gives the reason. More: :ref:`user guide <how-many-points>`.

        Of 200 000 distinct rows or more, hyperparameters and points are learned from a part; then
        the posterior is computed from all rows: :ref:`user guide <large-data>`. All rows are
        learned from with "auto", or if hyperparameters are averaged.
    selector : str, InducingPointSelector or array (n_points, n_features), default="auto"
        How points are chosen. "auto" chooses rows as "rpcholesky" does, and replaces them by the
        centroids of the rows around them if these have a higher bound; the points are then not
        rows. For "hgv", "rpcholesky", "greedy-variance", "kmeans" and "uniform" see
        :class:`InducingPointSelector`. An instance of the class sets the method, the number of
        points and the tolerance in place of `n_inducing` and `selection_tol`; its kernel and
        weighting must be None. An array gives the points themselves.
    selection_tol : float, default=1e-5
        Stop choosing points once the residual variance costs at most this many nats per row, see
        `cost_per_row_`. 0 chooses `n_inducing` points, or as many as are linearly independent. With
        ``n_inducing="auto"`` the certificate decides instead.
    certificate_tol : float, default=1e-2
        With ``n_inducing="auto"``, the gap per row of the `certificate`, in nats, at which the
        number of points stops growing, if doubling it raises the bound by at most as much per row.
    max_inducing : int, default=2000
        With ``n_inducing="auto"``, the maximum number of inducing points.
    point_cost : float, default=0.0
        Cost of an inducing point in nats. If it is positive, a fit ends by removing points until
        each adds at least this much to the bound, at the hyperparameters that were learned with all
        points. 0.3 to 1 often saves a third of them at little loss: :ref:`user guide <point-cost>`.
    bound : {"auto", "tight", "spherical", "standard"}, default="auto"
        How the bound accounts for the residual variance, the part of the prior variance of f that
        the inducing points do not explain. "standard" counts all of it (Titsias 2009), "spherical"
        reduces it by the best common factor (Artemev et al. 2021), and "tight" by the best factor
        for each row (Titsias 2025, extended to any likelihood). "auto" means "tight", the highest.
    fit_prior_mean : bool, default=True
        Whether to learn the constant mean of f. Otherwise it is zero.
    optimizer : {"bfgs"} or None, default="bfgs"
        "bfgs" learns the hyperparameters within their bounds, by quasi-Newton steps on the bound's
        gradient. None keeps their start values or, with `warm_start`, those of the last fit.
    n_restarts_optimizer : int, default=0
        Number of further searches, each from hyperparameters drawn log-uniformly within their
        bounds. They follow all others, run to their end, and never lower the objective.
    max_iter : int, default=100
        Maximum number of optimiser steps for each choice of inducing points; with many rows, the
        search from the best choice may take as many again.
    tol : float, default=1e-5
        Tolerance of the bound, in nats per row.
    max_reselections : int, default=10
        Maximum number of times that the points are chosen again. It stops earlier if the bound
        fails to rise twice in a row, or if the same points are chosen again.
    optimize_inducing : bool or "auto", default="auto"
        Whether to maximise the bound, at the end of the fit, over the locations of the points
        together with the hyperparameters. The points are then no longer rows. True does so in at
        most `max_iter` iterations; with many rows for each point, most of them use a part of the
        rows: :ref:`user guide <moves-on-many-rows>`. "auto" moves the points, in at most 30
        iterations, if `n_inducing` and `selector` have their defaults, the points are still too
        few, and the kernel has derivatives with respect to them.
    warm_start : bool, default=False
        Start from the hyperparameters of the last fit, and from its inducing points if `selector`
        does not fix the points and there are at most `n_inducing` of them. The kernel may have
        other values and bounds than in the last fit, but must have the same structure. What was
        chosen from the data, such as main effects or the transform of the columns, stays as it is
        until there are 1.5 times as many rows, by their weights, as when it was chosen, or 1.1
        times if there are at most 200. A second fit then starts afresh. The model with the higher
        sum of bound and log prior is kept, and that of the second fit if the two cannot be
        compared, because the kind of noise or the likelihood differs. With ``optimizer=None`` there
        is no second fit. A fit also starts afresh if the bound cannot be computed where the last
        one ended.
    random_state : int, RandomState instance or None, default=0
        Seed for the selectors "auto", "rpcholesky", "kmeans" and "uniform", and for restarts. An
        integer gives the same model in every call; None gives different draws.
    verbose : int, default=0
        1 prints a line for each choice of points; 2 also for each evaluation of the bound.
    callback : callable or None, default=None
        Called after each evaluation of the bound with a named tuple, which holds ``iteration``, the
        number of the evaluation; ``choice``, ``n_samples``, ``n_inducing``, ``lower_bound`` and
        ``seconds``, as in `history_`; and ``label``, the class if each class has its own model. If
        it returns True, learning stops and the best evaluation becomes the model. It is pickled
        with the model, so to be saved it must be a function of a module, or None. From version 1.9,
        pass scikit-learn's own callbacks, such as ProgressBar, to ``set_callbacks``.

    Attributes
    ----------
    kernel_ : kernel
        Kernel of f with the learned hyperparameters, without noise.
    prior_mean_ : float or ndarray
        Constant mean of f, or of each function if there are several.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points in the order of their choice, or with `point_cost` of their worth.
    inducing_indices_ : ndarray of shape (n_points,) or None
        Indices of the points among the rows given to `fit`; None if some point is not a row.
    inducing_moved_ : bool
        Whether the points were moved from where they were chosen.
    log_scales_ : ndarray of shape (`n_features_in_`,)
        Distance from the dense part of each column (from 0 if logarithms of the values themselves
        are taken), in its units, beyond which `log_transform` is nearly logarithmic;
        infinite for columns that are not transformed.
    feature_relevance_ : ndarray of shape (`n_features_in_`,) or None
        Standard deviation of each column divided by its length scale: how fast f varies along the
        column. It does not tell how much f varies: a strong effect that is nearly linear has a long
        length scale, and thus a small value. None for kernels without length scales.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats.
    log_prior_ : float
        Log density of the prior of the hyperparameters, in nats, up to a constant; 0 without one.
        Learning maximises its sum with `lower_bound_`.
    cost_per_row_ : float
        Cost of the residual variance, in nats per row: half the mean of site precision times
        residual, which `selection_tol` limits; summed over functions.
    lower_bounds_ : ndarray
        The bound after each choice of points, in the run with the best result.
    history_ : dict of ndarray of shape (`n_evaluations_`,)
        One entry for each evaluation of the bound: "choice", the number of the choice of points,
        counted from 0; "n_samples", the number of distinct rows, often those of a subset at first;
        "n_inducing"; the "lower_bound" for these rows, in nats; and "seconds" since the beginning
        of the fit. The last entry belongs to the final model, unless ``n_inducing="auto"`` went on
        to try more points.
    growth_ : list of dict or None
        With ``n_inducing="auto"``, one entry for each number of points tried: ``n_inducing``,
        ``lower_bound`` and the ``gap_per_row`` of the certificate, both in nats.
    growth_end_ : str or None
        With ``n_inducing="auto"``, why the number of points stopped growing: "certified" (the gap
        is at most `certificate_tol`, which the last entry of ``growth_`` confirmed unless no more
        points were possible), "plateau" (doubling hardly raised the bound), "max_inducing"
        (the number of points is at its maximum), "full_rank" (no further row is linearly
        independent of the points) or "stopped" (`callback` returned True, then or later).
    n_iter_ : int
        Total number of optimiser steps.
    n_evaluations_ : int
        Total number of evaluations of the bound, including those on subsets of the rows, but not
        those for an average over hyperparameters.
    n_site_iterations_ : int
        Total number of passes of the site solver, each of which takes about 2 N M^2 operations per
        function. There is one for each evaluation if the sites do not depend on f, as with
        homoscedastic Gaussian noise.
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
    SparseGPClassifier : Classification.
    SparseGPRegressor : Regression with Gaussian noise.

    Examples
    --------
    Counts with the rate exp(f). The likelihood leaves out log y!, which does not depend on f;
    :ref:`extending-numbers` includes it.

    >>> import numpy as np
    >>> from sparsegpc import BaseSparseGP
    >>> from sparsegpc.likelihoods import Expectation, Likelihood
    >>> class Poisson(Likelihood):
    ...     merges_unequal_targets = True
    ...
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

    kernel: Kernel | str | None = field(default=None, kw_only=False)
    length_scales: str = "auto"
    main_effects: bool | str = "auto"
    log_transform: bool | str = "auto"
    n_inducing: int | str | None = None
    selector: str | InducingPointSelector | np.ndarray = "auto"
    selection_tol: float = 1e-5
    certificate_tol: float = 1e-2
    max_inducing: int = 2000
    point_cost: float = 0.0
    bound: str = "auto"
    fit_prior_mean: bool = True
    optimizer: str | None = "bfgs"
    n_restarts_optimizer: int = 0
    max_iter: int = 100
    tol: float = 1e-5
    max_reselections: int = 10
    optimize_inducing: bool | str = "auto"
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = 0
    verbose: int = 0
    callback: Callable | None = None

    _parameter_constraints = {
        **KERNEL_CONSTRAINTS,
        "log_transform": ["boolean", StrOptions({"auto"})],
        "n_inducing": [
            Interval(numbers.Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "selector": [StrOptions({AUTO, *METHODS}), InducingPointSelector, "array-like"],
        "selection_tol": [Interval(numbers.Real, 0, None, closed="left")],
        "certificate_tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
        "point_cost": [Interval(numbers.Real, 0, None, closed="left")],
        "bound": [StrOptions({"auto", *SLACKS})],
        "fit_prior_mean": ["boolean"],
        "optimizer": [StrOptions({"bfgs"}), None],
        "n_restarts_optimizer": [Interval(numbers.Integral, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="neither")],
        "max_reselections": [Interval(numbers.Integral, 0, None, closed="left")],
        "optimize_inducing": [StrOptions({"auto"}), "boolean"],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
    }

    # Whether rougher kernels replace the default RBF if they are better.
    _may_be_rough = False
    # Whether a fit warns if its points are too few.
    _warns_of_few_points = True
    # If the mean of f ranges over less than this, f looks constant.
    _visible_range = 0.2
    # Whether the fit left out copies of rows because they hid the noise.
    _without_copies = False
    # From how many rows, by their weights, a fit last made all choices that `warm_start` keeps.
    _choice_weight = 0.0
    # The learned noise, which regressors set, and the likelihood, which other estimators set.
    _noise = _likelihood = None

    # Learning: the methods that `fit` of a subclass calls.

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_likelihood(self, likelihood, X, y, sample_weight=None, *row_arguments):
        """Check parameters and input, and learn a model of numerical targets with a likelihood.

        Parameters
        ----------
        likelihood : Likelihood or None
            None if `_checked_rows` sets ``_likelihood``, because it depends on the targets.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers, as the likelihood takes them.
        sample_weight : array-like of shape (n_samples,), float or None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row.
        *row_arguments
            Further arguments of `_checked_rows`.

        Returns
        -------
        self
        """
        with fit_task(self, X, y, sample_weight) as context:
            progress = evaluation_progress(self, context)
            self._likelihood = likelihood
            rows = self._checked_rows(X, y, sample_weight, *row_arguments, reset=True)
            check_auto(self)
            with single_threaded_blas():
                found_warnings = self._learn_rows(rows, progress, context)
            labels = y if is_classifier(self) else None
            records = None if self._without_copies else (rows.X, rows.y.T, rows.weight)
            found = weight_warnings(sample_weight, records, labels)
            if isinstance(rows, PresentRows) and not self._without_copies:
                found += copied_records_warnings(rows.X, rows.y)
            if is_classifier(self):
                found += order_warnings(self.likelihood, y)
            emit_warnings(found + found_warnings)
        return self

    def _checked_rows(self, X, y, sample_weight, *, reset):
        """Validate a user's input, and return its `PresentRows`."""
        X, y = validated_targets(self, X, y, reset=reset)
        return present_rows(X, y, sample_weight)

    def _learn_rows(self, rows, progress, context=None):
        """Learn from what `_checked_rows` returns, and return a list of `FitWarning`.

        `progress` records the evaluations; `context` is that of `fit_task`.
        """
        builder = LikelihoodBuilder(self, rows, progress)
        return self._store_whole_fit(learn_rows(builder, decide_kernel))

    def _merged(self, rows):
        """Return the merged rows of `PresentRows`."""
        targets = None if self._likelihood.merges_unequal_targets else rows.y
        return merge_rows(rows.X, rows.weight, targets=targets)

    def _model_options(self, likelihood):
        """Return the options of `SparseModel` that the parameters imply."""
        return {
            "slack": resolve_slack(self.bound, likelihood),
            "fit_prior_mean": self.fit_prior_mean and likelihood.has_prior_mean,
            "tol": self.tol,
            **row_options(),
        }

    def _store_whole_fit(self, fitted):
        """Set the attributes of the `FittedProblem` of a whole fit, and return the warnings."""
        self._store(fitted)
        self._without_copies = fitted.n_left_out > 0.0
        self._choice_weight = fitted.choice_weight
        return fit_warnings(fitted) + copy_warnings(fitted.n_left_out)

    def _store(self, fitted):
        """Set the attributes of a `FittedProblem`."""
        problem, result, growth = fitted.problem, fitted.result, fitted.growth
        best, progress = result.best, problem.progress
        self._store_kernel(best, problem.kernel)
        self._store_observation(best, problem.model)
        self._transform = transform = problem.choice.transform
        n_columns = self.n_features_in_
        self.log_scales_ = (
            np.full(n_columns, np.inf) if transform is None else transform.scales(n_columns)
        )
        self.inducing_points_ = problem.rows.user_columns(best.points, transform)
        self.inducing_indices_ = problem.rows.user_indices(best.points)
        self.inducing_moved_ = result.has_moved
        self.growth_ = None if growth is None else growth.history
        self.growth_end_ = None if growth is None else growth.end
        self.lower_bounds_ = np.array(result.lower_bounds) + problem.offset
        self.history_ = progress.history()
        self.converged_ = result.converged
        # A search that starts at the optimum counts as one step.
        self.n_iter_ = max(progress.optimizer_iterations, int(problem.learns))
        self.n_evaluations_ = len(self.history_["lower_bound"])
        self.n_site_iterations_ = progress.site_iterations
        self.feature_relevance_ = column_relevance(self.kernel_, problem.spread)
        self._store_posterior(best, problem.model, problem.offset)

    def _store_kernel(self, evaluation, kernel):
        """Set the attributes of the hyperparameters; `kernel` is scikit-learn's."""
        self._theta = evaluation.theta
        self.kernel_ = kernel.clone_with_theta(evaluation.posterior.theta)
        self.log_prior_ = evaluation.log_prior

    def _store_observation(self, evaluation, model):
        """Set the attributes of the likelihood, whose learned parameters predictions use."""
        self._likelihood = self._observation_at(evaluation, model)

    def _observation_at(self, evaluation, model):
        """Return the likelihood, or the noise, with the parameters that it has in an evaluation."""
        return model.likelihoods(evaluation.theta)[0]

    def _store_posterior(self, evaluation, model, offset):
        """Set the attributes that depend on the posterior, which `truncate` sets again."""
        self._posterior = posterior = evaluation.posterior
        self.jitter_ = evaluation.jitter
        self.lower_bound_ = evaluation.elbo + offset
        self.cost_per_row_ = float(model.cost_per_row(evaluation))
        self.prior_mean_ = self._prior_mean(posterior.prior_means)

    def _prior_mean(self, means):
        """Return the attribute `prior_mean_` from the prior means of the functions, shape (K,)."""
        return float(means[0]) if len(means) == 1 else means

    def _limit_meaning(self, entry, side, best):
        """Return what it implies that a search ended where an `Entry` is at its limit.

        It is a text for a warning, empty if unknown; None suppresses the warning. `best` is the
        `Evaluation` at the end of the search.
        """
        return entry.at_limit.get(side, "")

    def _describe_mismatch(self, problem, constant):
        """Describe targets whose scale does not suit the kernel, for a warning; empty if it does.

        `constant` tells whether the learned function is no better than a constant one.
        """
        return ""

    # Bounds of a fitted model for data that the user passes again.

    @property
    def _usual_variance(self):
        """A variance of f at which to begin, such as that of a kernel by name."""
        return 1.0

    def _extended(self, hyperparameters, model):
        """Return `Hyperparameters` of the kernel followed by the others of a model."""
        return hyperparameters.with_likelihood(model)

    def _models_of_rows(self, *data, **named_data):
        """Return a list with the `ModelOfRows` of the user's data, or with one for each class.

        The arguments are those of `_checked_rows`.
        """
        rows = self._checked_rows(*data, **named_data, reset=False)
        return [self._model_of_rows(self._rows_as_learned(rows))]

    def _rows_as_learned(self, rows):
        """Return rows without copies if the fit has left those out."""
        return rows.without_copies() if self._without_copies else rows

    def _model_of_rows(self, rows):
        """Return the `ModelOfRows` of `PresentRows`."""
        merged, likelihood = self._merged(rows), self._likelihood
        targets = likelihood.targets(rows.y, rows.weight, merged)
        data = self._posterior.kernel, likelihood, merged.X, targets, merged.weight
        model = SparseModel(*data, **self._model_options(likelihood))
        return ModelOfRows(self, model, self._theta)
