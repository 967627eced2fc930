"""The regressor."""

import numpy as np
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.fitted_bounds import ModelOfRows
from sparsegpc._estimators.input.targets import centred, centres, deviations, distinct_rows
from sparsegpc._estimators.input.validation import validated_targets
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.averaging import HYPERPARAMETERS, HyperparameterDraws
from sparsegpc._estimators.learning.noise_choice import decide_noise
from sparsegpc._estimators.learning.problem_builders import RegressionBuilder
from sparsegpc._estimators.messages.fit_warnings import repetition_warnings
from sparsegpc._estimators.messages.target_scale import describe_mismatch
from sparsegpc._estimators.noise.base import NoiseSettings
from sparsegpc._estimators.noise.registry import AUTO, DEFAULT, NOISES, resolve_noise
from sparsegpc._estimators.predictions.targets import GaussianPredictions


@with_parameters
class SparseGPRegressor(GaussianPredictions, HyperparameterDraws, BaseSparseGP):
    r"""Gaussian process regression with inducing points chosen by the model.

    Targets are :math:`y_n = f(x_n) + \epsilon_n` where f has a Gaussian process prior with a
    constant mean and the Gaussian noise :math:`\epsilon_n` has one variance for all rows, one that
    is known at each row, or one that depends on the row and is learned; or the noise has a
    Student-t distribution, for targets with outliers. M inducing points determine the approximate
    posterior, which has a closed form for Gaussian noise [1]_. Hyperparameters maximise a lower
    bound on the log marginal likelihood. The model chooses the points among the rows, and chooses
    them again when the hyperparameters have changed. `certificate` bounds the distance to the exact
    posterior.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance of f. Names stand for ConstantKernel times a stationary kernel: "rbf" for RBF;
        "matern12", "matern32" and "matern52" for Matern with nu 0.5, 1.5 and 2.5. None means "rbf",
        or "matern32" if that raises the bound; with a `point_cost` it always means "rbf". Start
        values and bounds are relative to the spread of the data. In an object, ConstantKernel, RBF,
        Matern (nu 0.5, 1.5, 2.5, inf), RationalQuadratic, ExpSineSquared, DotProduct,
        :class:`sparsegpc.kernels.MainEffects`, :class:`sparsegpc.kernels.OrthogonalAdditive` and
        their sums and products have analytic gradients. Any other kernel is differentiated by
        finite differences, which take 2 evaluations of the kernel for each hyperparameter. Free
        hyperparameters are learned within their bounds, from the best of a few starts that are
        tried on 200 rows. A WhiteKernel summand stands for the noise: its ``noise_level`` is the
        start value of the noise variance, and its bounds are those of the noise variance.
    length_scales : {"auto", "tied", "free", "common"}, default="auto"
        "tied" means one length scale for each column, with a prior that pulls them towards a common
        multiple of the standard deviations of the columns' distinct values: they stay about equal
        unless the data clearly call for different ones. "free" means one for each column without a
        prior, and "common" one for all columns, in units of X. "auto" leaves an object as it is.
        For a kernel by name it means "tied" if at most 100 columns vary, or at most 1000 with five
        rows or more for each. With fewer rows for each of 100 to 1000 columns, both "tied" and
        "common" are learned, and "tied" is chosen if it raises the objective by more than log N
        nats; otherwise it means "common". With "tied", "free" or "common", a kernel object must
        have matching length scales.
    main_effects : bool or "auto", default="auto"
        Whether to add :class:`sparsegpc.kernels.MainEffects`, a function of each single column, to
        a kernel by name. They help where columns have strong effects of their own, and make each
        evaluation of the bound about twice as expensive. With tied length scales, the variances and
        the length scales of the effects are tied in the same way. "auto" fits both kernels to N
        rows, and adds main effects if they raise the bound by more than log N nats. N is at most
        2000; with 100 000 rows or more it is a fifth of them, and with 200 000 or more it is that
        of all rows that are learned from. "auto" leaves them out if `kernel` is an object, if more
        than 100 columns vary, and with ``optimizer=None``. With a single column they have no
        effect.
    log_transform : bool or "auto", default="auto"
        Whether to take logarithms of skewed columns, as multiples of ``arsinh((x - e) / c)``; e is
        the end of the column without a tail, or the median. Beyond a distance c from e it is nearly
        logarithmic. "auto" fits both the original and the transformed columns, and decides as for
        main effects; it leaves the columns as they are if `kernel` is an object, and with
        ``optimizer=None``. True transforms all columns whose correlation with their transform is
        below 0.95. All methods take the original columns; only ``kernel_`` and
        ``feature_relevance_`` refer to the transformed columns.
    n_inducing : int, "auto" or None, default=None
        Maximum number of inducing points; it is silently limited to the number of distinct rows.
        More points bring the bound closer to that of the full Gaussian process, at a cost of O(M^2)
        per row. None means 200, and more if these are too few: if they leave a `cost_per_row_` of
        more than 0.005, or if neighbouring rows deviate from the mean in the same direction.
        Learning then continues with 1000 points for 2000 rows, 447 for 10 000, 200 for 50 000 or
        more, and fewer for several outputs. If these are still too few, they are moved
        (`optimize_inducing`). No points are added with ``optimize_inducing=True``, or if `selector`
        is not a name.

        Of 200 000 distinct rows or more, hyperparameters and points are learned from 100 000 that
        are evenly spaced, or from 100 for each point if that is more; then the posterior is
        computed from all rows. None means 500 points there if 200 leave a `cost_per_row_` of more
        than 0.0001. All rows are learned from with "auto" or ``hyperparameters="average"``.

        "auto" doubles the number of points until the certificate is at most `certificate_tol` and
        doubling once more confirms it, doubling hardly raises the bound, or `max_inducing` is
        reached; ``growth_end_`` gives the reason.
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
        the inducing points do not explain. "standard" counts all of it, as in [1]_ and [2]_;
        "spherical" reduces it by the best common factor, as in [3]_; "tight" by the best factor for
        each row, as in proposition 3.3 of [4]_, extended to unequal noise. "auto" means "tight",
        the highest.
    fit_prior_mean : bool, default=True
        Whether to learn the constant mean of f. Otherwise it is zero (the mean of y, with
        `normalize_y`).
    optimizer : {"bfgs"} or None, default="bfgs"
        "bfgs" learns the hyperparameters within their bounds, by quasi-Newton steps on the bound's
        gradient. None keeps the values of `kernel` and `noise` or, with `warm_start`, those of the
        last fit.
    n_restarts_optimizer : int, default=0
        Number of further runs, each from hyperparameters drawn log-uniformly within their bounds.
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
        most `max_iter` iterations. With 5000 rows or more, and 160 or more for each point, these
        use a quarter of the rows, and a quarter as many follow on all rows. "auto" moves the
        points, in at most 30 iterations, if `n_inducing` and `selector` have their defaults, the
        points are still too few, and the kernel has derivatives with respect to them.
    warm_start : bool, default=False
        Start from the hyperparameters of the last fit, and from its inducing points if `selector`
        does not fix the points and there are at most `n_inducing` of them. The kernel may have
        other values and bounds than in the last fit, but must have the same structure. The
        transform of the columns, and with ``noise="auto"`` the kind of noise, stay as they are.
    random_state : int, RandomState instance or None, default=0
        Seed for the selectors "auto", "rpcholesky", "kmeans" and "uniform", and for restarts. An
        integer gives the same model in every call; None gives different draws.
    verbose : int, default=0
        1 prints a line for each choice of points; 2 also for each evaluation of the bound.
    callback : callable or None, default=None
        Called after each evaluation of the bound with a named tuple, which holds ``iteration``, the
        number of the evaluation; ``choice``, ``n_samples``, ``n_inducing``, ``lower_bound`` and
        ``seconds``, as in `history_`. If it returns True, learning stops and the best evaluation
        becomes the model. It is pickled with the model, so to be saved it must be a function of a
        module, or None. From version 1.9, pass scikit-learn's own callbacks, such as ProgressBar,
        to ``set_callbacks``.
    noise : str or noise settings such as GPNoise, default="homoscedastic"
        Model of the noise:

        - "homoscedastic": Gaussian, with the same variance for all rows.
        - "polynomial": Gaussian, with a log variance that is a sum of quadratics, one per column.
        - "gp": Gaussian, with a log variance that is a second sparse Gaussian process.
        - "auto": learns "homoscedastic" and "gp", and takes "gp" if it raises the sum of bound and
          log prior by more than log N nats.
        - "student-t": with a Student-t distribution, for targets with outliers, at a higher cost.

        To change settings, pass an instance of :class:`HomoscedasticNoise`,
        :class:`PolynomialNoise`, :class:`GPNoise` or :class:`StudentTNoise`. `noise` is
        ignored if `fit` gets `noise_variance`.
    normalize_y : bool, default=False
        Whether to subtract the mean of each output and divide by its standard deviation before
        learning. Hyperparameters then refer to the normalised targets. With a kernel and a `noise`
        by name, several outputs are always divided by their standard deviations. With Student-t
        noise the median and the median absolute deviation, times 1.4826, take the place of mean and
        standard deviation.
    hyperparameters : {"best", "average"}, default="best"
        "best" predicts with the learned hyperparameters. "average" averages predictions over 16
        draws from their approximate posterior, so that intervals are wide enough if few rows leave
        the hyperparameters uncertain. The inducing points are those of the learned hyperparameters.
        With P hyperparameters this takes up to 4 P + 16 additional evaluations of the bound, and
        predictions take 16 times the time and the model 16 times the memory. Other methods and the
        attributes refer to the learned hyperparameters.

    Attributes
    ----------
    kernel_ : kernel
        Kernel of f with the learned hyperparameters, without noise.
    noise_variance_ : float, ndarray of shape (n_outputs,) or None
        Variance of homoscedastic or Student-t noise, in squared units of y; None for other noise,
        see `predict_noise_std`. It is infinite for Student-t noise with at most two degrees of
        freedom.
    noise_df_, noise_scale_ : float, ndarray of shape (n_outputs,) or None
        Degrees of freedom and scale, in units of y, of Student-t noise; None for other noise.
    noise_bounds_ : dict or None
        With ``noise="auto"``, the lower bound with each kind of noise, in nats, for targets in
        their original units, at the time of the decision, for the rows that are learned from. None
        if nothing was compared.
    prior_mean_ : float or ndarray of shape (n_outputs,)
        Constant mean of f, in units of y.
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
        Standard deviation of each column divided by its length scale. The larger it is, the more f
        depends on the column. None for kernels without length scales.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats, for targets in
        their original units; summed over outputs.
    log_prior_ : float
        Log density of the prior of the hyperparameters, in nats, up to a constant; 0 without one.
        Learning maximises its sum with `lower_bound_`.
    cost_per_row_ : float
        Cost of the residual variance, in nats per row: half the mean of site precision times
        residual, which `selection_tol` limits; summed over outputs.
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
        independent of the points) or "stopped" (`callback` returned True).
    n_iter_ : int
        Total number of optimiser steps.
    n_evaluations_ : int
        Total number of evaluations of the bound, including those on subsets of the rows, but not
        those of ``hyperparameters="average"``.
    n_site_iterations_ : int
        Total number of passes of the site solver, one pass for each evaluation unless `noise` is
        "gp" or "student-t".
    converged_ : bool
        Whether the optimiser reached its tolerance.
    jitter_ : float
        Value added to the diagonal of the covariance of the points, relative to its mean.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.
    hyperparameter_draws_ : ndarray of shape (n_draws, n_parameters)
        The draws over which predictions are averaged: logarithms of the free hyperparameters of
        `kernel_`, then the parameters of the noise in the units in which they are learned (the
        logarithm of the variance, if it is the same for all rows). A single one, what was learned,
        unless ``hyperparameters="average"``.
    hyperparameter_weights_ : ndarray of shape (n_draws,)
        Weights of the draws in predictions; they sum to one.
    ess_ : float
        Effective number of draws by their importance weights. If it is below 4, all draws within
        the bounds have the same weight.

    See Also
    --------
    SparseGPClassifier : Classification.
    InducingPointSelector : Chooses inducing points, as a transformer.
    sklearn.gaussian_process.GaussianProcessRegressor : The full Gaussian process, for a few
        thousand rows.

    Notes
    -----
    With N rows, M points and D columns, each evaluation of the bound takes O(N M (M + D)) time; a
    fit typically needs 30 to 200 evaluations, some of them of parts of the rows. It takes O(N)
    memory, and arrays of shape (M, N) up to scikit-learn's ``working_memory``. Predictions cost O(M
    (M + D)) per row. The model keeps no training rows except the inducing points: whatever the
    number of rows, a saved model takes about 4 (C + 1) M^2 + 8 M D bytes for C outputs, and 4 (C +
    1) m^2 + 8 m D more for the m points of a noise process. Rows are sorted and equal rows are
    merged, with Student-t noise only if their targets are equal, too. So the order of the rows does
    not matter, and two copies of a row count as one of weight two. Rows of a `numpy.memmap`, or of
    another array that is read by slices, are not copied, sorted or merged: see "Rows that do not
    fit in memory" in the user guide, and "Peak memory" there.

    Several outputs share kernel and inducing points; each has its own noise parameters.

    References
    ----------
    .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
       classification", Imperial College London, 2021: the bound for unequal noise (section 3.1)
       and the selection (section 4.3.2).
    .. [2] Titsias, "Variational learning of inducing variables in sparse Gaussian processes",
       AISTATS 2009.
    .. [3] Artemev, Burt, van der Wilk, "Tighter bounds on the log marginal likelihood of Gaussian
       process regression using conjugate gradients", ICML 2021.
    .. [4] Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SparseGPRegressor(n_inducing=50)).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> bool(abs(y - mean).mean() < 50 < std.mean() < 60)
    True
    """

    _may_be_rough = True

    noise: str | NoiseSettings = DEFAULT
    normalize_y: bool = False
    hyperparameters: str = "best"

    _parameter_constraints = {
        **BaseSparseGP._parameter_constraints,
        "noise": [StrOptions({AUTO, *NOISES}), *NOISES.values()],
        "hyperparameters": [StrOptions(HYPERPARAMETERS)],
        "normalize_y": ["boolean"],
    }

    def fit(self, X, y, sample_weight=None, noise_variance=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row, and a row of weight zero is ignored. Divide weights that are not
            counts by their mean.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            Variance of the noise at each row, in squared units of y, if it is known. The noise is
            then not learned, and `noise` is ignored.

        Returns
        -------
        self : SparseGPRegressor

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `noise_variance` is not positive, or the
            kernel does not fit the data or has a WhiteKernel although the noise is set elsewhere.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached, `callback` asked to stop, the learned model is no better than
            a constant one, the bound still rises where hyperparameters meet their limits, the
            kernel matrix is barely positive definite, or jitter is not far below the noise.
        UserWarning
            If one column hides the others, with a common length scale; if the limits of the kernel
            keep f far below the scale of the targets, or outputs of different scales share a
            kernel; if more than 30 % of the targets are equal, with Student-t noise; or if the
            weights do not look like counts: not whole numbers, with a mean below a half or above 2.
        """
        return self._fit_likelihood(None, X, y, sample_weight, noise_variance)

    def _checked_rows(self, X, y, sample_weight, noise_variance=None, *, reset):
        """Validate a user's input, and return its `Targets`."""
        X, y = validated_targets(self, X, y, multi_output=True, reset=reset)
        if reset:
            self._one_output = y.ndim == 1
        else:
            self._check_outputs(y)
        return distinct_rows(X, y, sample_weight, noise_variance)

    def _set_units(self, targets):
        """Set the centre and the scale of `Targets`."""
        y, weight = targets.y, targets.weight
        robust = targets.noise_variance is None and resolve_noise(self.noise).has_outliers
        centre, scale = centres(y, weight, robust), np.ones(len(y))
        if not (self.fit_prior_mean or self.normalize_y):
            centre = np.zeros(len(y))
        # Without numbers in units of y, outputs that share a kernel can have units of their own.
        unitless = KernelChoice.of(self).is_named and isinstance(self.noise, str)
        if self.normalize_y or (unitless and len(y) > 1):
            scale = deviations(y, weight, centre, robust)
        self._y_centre, self._y_scale = centre, scale

    def _scaled(self, targets):
        """Return the `Targets` in the units in which the model learns them."""
        y, noise = centred(targets.y, self._y_centre), targets.noise_variance
        if noise is not None:
            noise = noise / self._y_scale[:, None] ** 2
        return targets._replace(y=y / self._y_scale[:, None], noise_variance=noise)

    def _units_offset(self, total_weight):
        """Return the bound for the original targets minus that for the scaled ones, in nats."""
        return -total_weight * float(np.log(self._y_scale).sum())

    def _learn_rows(self, rows, progress, context=None):
        self._set_units(rows)
        targets = self._scaled(rows)
        progress.offset = self._units_offset(1.0)
        builder = RegressionBuilder(self, targets, progress)
        variance = builder.variance
        # If the mean of f ranges over less than a tenth of the targets' deviation, f looks
        # constant.
        self._visible_range = 0.1 * float(np.sqrt(variance.mean()))
        self._target_variance = variance[targets.y.any(axis=1)]
        self._plan, decision, self.noise_bounds_ = decide_noise(builder)
        self._normalized = self.normalize_y
        found = self._learn(builder.with_plan(self._plan), decision)
        if builder.has_outliers:
            found += repetition_warnings(targets.y, targets.weight)
        return found

    def _observation_at(self, evaluation, model):
        return self._plan.learned(evaluation)

    def _store_observation(self, evaluation, model):
        noise = self._noise = self._observation_at(evaluation, model)
        self.noise_variance_ = self.noise_df_ = self.noise_scale_ = None
        if noise is not None and noise.constant is not None:
            self.noise_variance_ = self._by_output(noise.constant * self._y_scale**2)
        if noise is not None and noise.df is not None:
            self.noise_df_ = self._by_output(noise.df)
            self.noise_scale_ = self._by_output(noise.scale * self._y_scale)

    def _by_output(self, values):
        """Return numbers of each output as an attribute: a float for a y of one dimension."""
        return float(values[0]) if self._one_output else values

    def _prior_mean(self, means):
        return self._by_output(self._y_centre + self._y_scale * means)

    def _describe_mismatch(self, problem, constant):
        variance, remedy = self._target_variance, "set normalize_y=True"
        return describe_mismatch(problem.kernel, problem.rows.X, variance, remedy, constant)

    def _limit_meaning(self, name, side, best):
        return self._plan.limit_meaning(name, side)

    @property
    def _usual_variance(self):
        return float(self._target_variance.mean()) if len(self._target_variance) else 1.0

    def _extended(self, parameters, model):
        return self._plan.extend(parameters, model)

    def _models_of(self, X, y, sample_weight, noise_variance=None):
        targets = self._checked_rows(X, y, sample_weight, noise_variance, reset=False)
        if self._plan.is_given != (noise_variance is not None):
            raise ValueError(
                "noise_variance is needed for these rows, because the model was fitted with known "
                "noise, got None: give the data of fit"
                if self._plan.is_given
                else "noise_variance must be None, because the model has learned its noise: leave "
                "it out"
            )
        targets = self._scaled(targets)
        merged = unique_rows(targets.X, targets.weight, is_sorted=True)
        rows = self._plan.rows_of(targets, merged)
        options, kernel = self._model_options(KnownNoise()), self._posterior.kernel
        model, offset = self._plan.model_with_noise(kernel, targets, rows, options, self._noise)
        n_params = kernel.n_params + model.likelihood.n_params * len(targets.y)
        offset += self._units_offset(model.total_weight)
        return [ModelOfRows(self, model, self._theta[:n_params], offset)]
