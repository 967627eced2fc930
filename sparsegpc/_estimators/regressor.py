"""The regressor."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.models.evaluation import Counts
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.fitted_bounds import Restated, bound_at, certified, truncated
from sparsegpc._estimators.input.targets import (
    Targets,
    centred,
    distinct_rows,
    second_moments,
)
from sparsegpc._estimators.input.validation import (
    checked_targets,
    column_names,
    validated_rows,
)
from sparsegpc._estimators.kernels.initialization import default_kernel
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel, check_white, split_white
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning import Problem, check_auto, search
from sparsegpc._estimators.messages.callbacks import fit_task
from sparsegpc._estimators.messages.progress import evaluation_progress
from sparsegpc._estimators.noise.base import NoiseSetting
from sparsegpc._estimators.noise.registry import (
    DEFAULT,
    NOISES,
    make_plan,
    one_variance,
    resolve_noise,
)
from sparsegpc._estimators.regression_predictions import GaussianPredictions

WHITE_IN_PRODUCT = (
    "a WhiteKernel may only be a summand of a regressor's kernel, where it stands for the noise"
)


class SparseGPRegressor(GaussianPredictions, BaseSparseGP):
    r"""Gaussian process regression with inducing points chosen by the model.

    Targets are :math:`y_n = f(x_n) + \epsilon_n` where f has a Gaussian process prior with a
    constant mean and the Gaussian noise :math:`\epsilon_n` has one variance for all rows, one that
    is known at each row, or one that depends on the row and is learned. The posterior is
    approximated through M inducing points, in closed form [1]_. Hyperparameters maximise a lower
    bound on the log marginal likelihood; the points are chosen by the model among the rows, again
    whenever the hyperparameters have moved. `certificate` bounds how far the result can be from the
    exact posterior.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels or None, default=None
        Covariance of f. Its free hyperparameters are learned within their bounds, from the best of
        a few starts: its own values, and length scales relative to the spread of the data. None is
        a constant times RBF with one length scale, with start and bounds relative to the data.
        A kernel other than ConstantKernel, RBF, Matern (nu 0.5, 1.5, 2.5, inf),
        RationalQuadratic, ExpSineSquared, DotProduct and their sums and products works too, by
        finite differences at 2 evaluations for each hyperparameter. A WhiteKernel summand is read
        as the noise: its ``noise_level`` is where the noise variance starts, with its bounds.
    noise : {"homoscedastic", "polynomial", "gp"} or noise, default="homoscedastic"
        How the variance of the noise depends on the row: not at all, its logarithm is a quadratic
        polynomial of the columns, or a second sparse Gaussian process. An instance of
        :class:`HomoscedasticNoise`, :class:`PolynomialNoise` or :class:`GPNoise` brings settings.
        Known noise, `noise_variance` of `fit`, takes its place.
    n_inducing : int or "auto", default=200
        Most inducing points, silently at most the number of distinct rows. More points bring the
        bound closer to that of the full Gaussian process, at a cost of O(M^2) per row. "auto"
        doubles their number until the certificate is below `certificate_tol`, growth no longer
        pays, or `max_inducing` is reached; ``growth_end_`` gives the reason.
    selector : str, InducingPointSelector or array (n_points, n_features), default="rpcholesky"
        How points are chosen: "hgv", "rpcholesky", "greedy-variance", "kmeans" or "uniform", see
        :class:`InducingPointSelector`. An instance brings its own method, number of points and
        tolerance (with defaults of its own) in place of `n_inducing` and `selection_tol`; its
        kernel and weighting must be None. An array holds the points themselves.
    selection_tol : float, default=1e-5
        Choose no more points once what the points miss costs at most this many nats per row.
        0 chooses `n_inducing` points, or as many as are linearly independent. With
        ``n_inducing="auto"`` the certificate decides instead.
    certificate_tol : float, default=1e-2
        With ``n_inducing="auto"``, how many nats per row may be between the upper bound on the log
        marginal likelihood and the lower one.
    max_inducing : int, default=2000
        With ``n_inducing="auto"``, the most inducing points.
    bound : {"auto", "tight", "spherical", "standard"}, default="auto"
        How the bound accounts for what the points miss: "standard" as in [2]_, "spherical" as in
        [3]_, "tight" as in proposition 3.3 of [4]_, extended to unequal noise. "auto" is "tight".
    fit_prior_mean : bool, default=True
        Learn the constant mean of f; else it is zero (the mean of y, with `normalize_y`).
    normalize_y : bool, default=False
        Divide each target by its standard deviation first, and subtract its mean. Hyperparameters
        then are relative to the normalised targets.
    optimizer : {"bfgs"} or None, default="bfgs"
        "bfgs" learns the hyperparameters within their bounds, by quasi-Newton steps on the bound's
        gradient. None keeps them as they are: those of `kernel` and `noise`, or with
        `warm_start` those of the last fit.
    n_restarts_optimizer : int, default=0
        Further runs from hyperparameters drawn log-uniformly within their bounds.
    max_iter : int, default=100
        Most steps of the hyperparameters for each choice of inducing points.
    tol : float, default=1e-5
        Tolerance of the bound, in nats per row.
    max_reselections : int, default=10
        How often the points may be chosen again. It stops earlier once the bound has not risen
        twice in a row, or the same points come back.
    optimize_inducing : bool, default=False
        At the end move the points, which then are rows no longer, to where the bound is highest,
        along with the hyperparameters. It raises the bound where few points have to do, at up to
        `max_iter` further evaluations.
    warm_start : bool, default=False
        Start from the hyperparameters of the last fit, and from its inducing points where they are
        chosen by the model and no more than are asked for now. The kernel may have other values
        and bounds than at the last fit, but must have the same structure.
    random_state : int, RandomState instance or None, default=0
        For the selectors "rpcholesky", "kmeans" and "uniform", and for restarts. An integer gives
        the same model at every call; None draws anew. The selector "hgv" draws
        nothing, but where noise is low and points are few it spends them on outlying rows.
    verbose : int, default=0
        1 prints a line for each choice of points, 2 one for each evaluation of the bound, too.
    callback : callable or None, default=None
        Called after each evaluation of the bound with a named tuple: ``iteration``, which counts
        them, and ``choice``, ``n_samples``, ``n_inducing``, ``lower_bound`` and ``seconds`` as in
        `history_`. If it returns True learning stops, and the best of what was found becomes the
        model. An error that it raises ends the fit and leaves the estimator as it was. It is saved
        with the model, so pickle needs a function of a module, or None. From 1.9 on scikit-learn's
        own callbacks, such as its ProgressBar, are given to ``set_callbacks``.

    Attributes
    ----------
    kernel_ : kernel
        Kernel of f with the learned hyperparameters, without noise.
    noise_variance_ : float, ndarray of shape (n_outputs,) or None
        Variance of homoscedastic noise, in squared units of y; None for other noise, see
        `predict_noise_std`.
    prior_mean_ : float or ndarray of shape (n_outputs,)
        Constant mean of f, in units of y.
    inducing_points_ : ndarray of shape (n_points, `n_features_in_`)
        Inducing points in the order of their choice.
    inducing_indices_ : ndarray of shape (n_points,) or None
        Which rows of the X given to `fit` they are; None where a point is no row.
    feature_relevance_ : ndarray of shape (`n_features_in_`,) or None
        How many length scales the standard deviation of each column spans: the larger, the more f
        depends on it; with a kernel of one length scale for all columns it says little. None for
        kernels without length scales.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats, for targets in
        their own units; summed over outputs.
    cost_per_row_ : float
        What the points miss, in nats per row: half the mean of site precision times residual, which
        `selection_tol` limits; summed over outputs. It orders choices of points; `certificate`
        bounds what they cost.
    lower_bounds_ : ndarray
        The bound after each choice of points, of the run that was kept.
    history_ : dict of ndarray of shape (`n_evaluations_`,)
        For each evaluation of the bound "choice", the number of the choice of points, from 0;
        "n_samples", the number of distinct rows, at first often a subset; "n_inducing"; the
        "lower_bound" for these rows in nats; and "seconds" since the beginning of the fit. The last
        entry is the model, unless growth went on past it; `truncate` keeps it as it is.
    growth_ : list of dict or None
        With ``n_inducing="auto"``, for each size tried ``n_inducing``, the ``lower_bound`` and the
        ``gap_per_row`` of the certificate, in nats.
    growth_end_ : str or None
        With ``n_inducing="auto"``, why it stopped: "certified" (the gap is at most
        `certificate_tol`), "plateau" (doubling gained next to nothing), "max_inducing" (the most
        points allowed), "full_rank" (no further row is linearly independent of the points) or
        "stopped" (`callback` asked to).
    n_iter_ : int
        Steps of the hyperparameters in all.
    n_evaluations_ : int
        Evaluations of the bound in all, those on subsets included.
    n_site_iterations_ : int
        Passes of the site solver in all, one for each evaluation unless ``noise="gp"``.
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
    SparseGPClassifier : The same for labels.
    InducingPointSelector : The choice of points by itself, as a transformer.
    sklearn.gaussian_process.GaussianProcessRegressor : The full model, for a few thousand rows.

    Notes
    -----
    With N rows, M points and D columns a fit takes O(N M (M + D)) time for each of its evaluations,
    typically 20 to 80, and memory for some numbers per row and for arrays of shape (M, N) up to
    scikit-learn's ``working_memory``. Predictions cost O(M (M + D)) per row. No training rows are
    kept but the inducing points: whatever the number of rows, a saved model has some
    8 (C + 1) M^2 + 8 M D bytes for C outputs, and 8 (C + 1) m^2 + 8 m D more for the m points of
    a noise process. Equal rows are merged and the others sorted, so neither the order of the rows
    nor writing a row twice rather than giving it a weight of two matters. Those of a
    `numpy.memmap`, or of another array that is read by slices, stay where and as they are: see
    "Rows that do not fit in memory" in the user guide.
    The peak of memory is under "How much memory" there.

    Several outputs share kernel and inducing points; each has noise parameters of its own.

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

    _parameter_constraints = {
        **BaseSparseGP._parameter_constraints,
        "noise": [StrOptions(set(NOISES)), *NOISES.values()],
        "normalize_y": ["boolean"],
    }

    def __init__(
        self,
        kernel=None,
        *,
        noise=DEFAULT,
        n_inducing=200,
        selector="rpcholesky",
        selection_tol=1e-5,
        certificate_tol=1e-2,
        max_inducing=2000,
        bound="auto",
        fit_prior_mean=True,
        normalize_y=False,
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
        self.noise = noise
        self.n_inducing = n_inducing
        self.selector = selector
        self.selection_tol = selection_tol
        self.certificate_tol = certificate_tol
        self.max_inducing = max_inducing
        self.bound = bound
        self.fit_prior_mean = fit_prior_mean
        self.normalize_y = normalize_y
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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, noise_variance=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k is k copies of the
            row, a weight of zero is no row.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            Variance of the noise at each row, in squared units of y, where it is known. Nothing is
            learned about noise then, and `noise` does not count.

        Returns
        -------
        self : SparseGPRegressor

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `noise_variance` is not positive, or
            the kernel does not fit the data or stands for noise beside another noise.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.
        MemoryError
            If the memory cannot hold a model with so many inducing points.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached, `callback` asked to stop, the learned model is no better than
            a constant one, the bound still rises where hyperparameters meet their limits, or the
            kernel matrix is hardly positive definite.
        UserWarning
            If one column varies so much more than the others that a common length scale hides them.
        """
        with fit_task(self, X, y, sample_weight) as context:
            progress = evaluation_progress(self, context)
            y = checked_targets(y)
            X, y = validated_rows(self, X, y, multi_output=True, y_numeric=True)
            X, y, weight, noise, places = distinct_rows(X, y, sample_weight, noise_variance)
            check_auto(self)
            self._one_output = y.ndim == 1
            with single_threaded_blas():
                targets = self._scale_targets(X, y, weight, noise)
                found = self._fit_targets(targets, places, progress)
            self._warn(found)
        return self

    def certificate(self, X, y, sample_weight=None, noise_variance=None, method="auto"):
        """Return how far the fitted model can be from the exact one with its hyperparameters.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows given to `fit`, which are not kept.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `fit`.
        method : str, default="auto"
            The upper bound on the log marginal likelihood: "cauchy-schwarz" at O(N M), "trace"
            (equation 3.4 of [1]_) at O(N M^2), "one-pass" at O(N^2 D), or "conjugate-gradient" at
            O(N^2 D) for each iteration, the tightest. "auto" takes the least of the first two, and
            of "one-pass" up to 20 000 rows.

        Returns
        -------
        certificate : Certificate
            With the bounds in nats, and the errors of posterior means, variances and probabilities
            that they allow; ``print`` shows it in words. With several outputs it holds for all of
            them together. With ``noise="gp"`` the exact model has the noise that was learned.

        Raises
        ------
        ValueError
            If the data are not those of `fit`, or `method` is unknown.

        References
        ----------
        .. [1] Passerello, "Heteroscedastic inducing point selection for sparse Gaussian process
           classification", 2021. The last two are those of Artemev, Burt, van der Wilk, 2021.
        """
        return certified(self, method, X, y, sample_weight, noise_variance)

    def lower_bound(
        self,
        theta=None,
        X=None,
        y=None,
        sample_weight=None,
        noise_variance=None,
        eval_gradient=False,
    ):
        """Return the lower bound on the log marginal likelihood at the fitted inducing points.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,) or None, default=None
            Logarithms of the kernel's free hyperparameters. None is ``kernel_.theta``. Parameters
            of the noise are as learned.
        X : array-like of shape (n_samples, n_features) or None, default=None
            Rows of the bound. None, possible only without `theta` and
            `eval_gradient`, is the data of `fit`, which are not kept, and gives `lower_bound_`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Their targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `fit`.
        eval_gradient : bool, default=False
            Whether to return the gradient w.r.t. `theta` too.

        Returns
        -------
        bound : float
            In nats, for y in its own units, summed over outputs. Minus infinity where `theta` is
            so extreme that the kernel matrix of the inducing points cannot be factored.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if `eval_gradient`.

        Raises
        ------
        ValueError
            If X or y is needed and missing, or `theta` has a wrong length.
        """
        others = {"sample_weight": sample_weight, "noise_variance": noise_variance}
        return bound_at(self, theta, eval_gradient, X, y, **others)

    def truncate(self, n_inducing, X, y, sample_weight=None, noise_variance=None):
        """Return the model on the first inducing points only, without learning again.

        Hyperparameters and noise stay as they are; posterior and bound are those of the smaller
        model. Each size costs about as much as one evaluation of the bound.

        Parameters
        ----------
        n_inducing : int
            Between 1 and the number of points of this model.
        X : array-like of shape (n_samples, n_features)
            The rows given to `fit`, which are not kept.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `fit`.

        Returns
        -------
        model : SparseGPRegressor
            Fitted. It shares what it can with this one; ``lower_bounds_``, ``history_``,
            ``growth_`` and the counts are still those of this one.

        Raises
        ------
        ValueError
            If `n_inducing` is out of range, or X has not as many distinct rows as that of `fit`.

        Notes
        -----
        Cost O(N m^2) for N rows and m points.
        """
        return truncated(self, n_inducing, X, y, sample_weight, noise_variance)

    def _scale_targets(self, X, y, weight, noise):
        """Set centre and scale of the targets, and return the `Targets` in these units."""
        y = y.reshape(len(y), -1).T
        total = weight.sum()
        centre, scale = y @ weight / total, np.ones(len(y))
        if self.normalize_y:
            deviation = np.sqrt((y - centre[:, None]) ** 2 @ weight / total)
            scale = np.where(deviation > 0.0, deviation, 1.0)
        elif not self.fit_prior_mean:
            centre = np.zeros(len(y))
        self._y_centre, self._y_scale = centre, scale
        return self._in_units(X, y, weight, noise)

    def _in_units(self, X, y, weight, noise):
        y = centred(y, self._y_centre) / self._y_scale[:, None]
        if noise is not None:
            noise = noise / self._y_scale[:, None] ** 2
        return Targets(X, y, weight, noise)

    def _units_offset(self, total_weight):
        """Return the bound for targets in their own units less that for scaled ones, in nats."""
        return -total_weight * float(np.log(self._y_scale).sum())

    def _fit_targets(self, targets, places, progress):
        """Fit to `Targets`, rows `places` of the user's; return its warnings."""
        progress.offset = self._units_offset(1.0)
        rng = check_random_state(self.random_state)
        rows = unique_rows(targets.X, targets.weight, is_sorted=True)
        spread = measure_spread(rows.X, rows.weight)
        variance = second_moments(targets.y, targets.weight)
        kernel, noise = self._kernel_and_noise(spread, variance, targets)
        parameters = adapt_kernel(kernel, self.n_features_in_, refuse_white=WHITE_IN_PRODUCT)
        options = {**self._model_options(KnownNoise()), "counts": Counts()}

        def problem(plan):
            model = plan.model(parameters.kernel, targets, rows, options)
            extended = plan.extend(parameters)
            return Problem(rows, places, spread, kernel, extended, model, progress)

        # A mean that moves by less than a tenth of the targets' deviation looks constant.
        self._visible_range = 0.1 * float(np.sqrt(variance.mean()))
        setting = NoiseSetting(rows.X, spread, variance, column_names(self))
        plan, starts = self._begin(make_plan(noise, setting), problem, setting, rng)
        self._plan, self._normalized = plan, self.normalize_y
        return self._learn(problem(plan), rng, starts)

    def _kernel_and_noise(self, spread, variance, targets):
        """Return the kernel of f, and the settings of the noise or None if it is known."""
        noise, known = resolve_noise(self.noise), targets.noise_variance is not None
        if self.kernel is None:
            return default_kernel(spread, variance), None if known else noise
        kernel, whites = split_white(self.kernel)
        if not whites:
            return self.kernel, None if known else noise
        for white in whites:
            check_white(white)
        if known or self.noise != DEFAULT:
            other = "noise_variance" if known else f"noise={self.noise!r}"
            raise ValueError(
                f"kernel {self.kernel} holds a WhiteKernel, which stands for homoscedastic noise, "
                f"beside {other}: leave one of them out"
            )
        if kernel is None:
            raise ValueError(
                f"kernel {self.kernel} is noise only: add a covariance of f, for example "
                "ConstantKernel() * RBF()"
            )
        if len(whites) > 1:
            raise ValueError(
                f"kernel {self.kernel} must have one WhiteKernel at most: add their noise levels up"
            )
        return kernel, one_variance(whites[0].noise_level, whites[0].noise_level_bounds)

    def _begin(self, plan, problem, setting, rng):
        """Return the plan for the noise, and where to start; None leaves that to `_learn`."""
        if self.warm_start and hasattr(self, "kernel_"):
            self._check_same_noise(plan, len(setting.variance))
            return plan.going_on(self._noise), None
        if not plan.varies or self.optimizer is None:
            return plan, None
        constant = problem(make_plan(one_variance(), setting))
        theta = search(self, constant, rng)[0].best.theta
        theta, log_noise = np.split(theta, [constant.model.kernel.n_params])
        plan = plan.starting_at(log_noise)
        return plan, [np.append(theta, own) for own in plan.starts(setting.spread)]

    def _check_same_noise(self, plan, n_outputs):
        """Refuse to start from a fit with other noise or another number of outputs."""
        same = plan.is_like(self._plan) and n_outputs == len(self._posterior.functions)
        if not same or self.normalize_y != self._normalized:
            raise ValueError(
                "warm_start=True needs the kind of noise, normalize_y and the number of outputs of "
                "the last fit; set warm_start=False to start afresh"
            )

    def _store(self, result, problem):
        super()._store(result, problem)
        self._noise = self._plan.learned(result.best)
        self.noise_variance_ = None
        if self._noise is not None and self._noise.constant is not None:
            noise = self._noise.constant * self._y_scale**2
            self.noise_variance_ = float(noise[0]) if self._one_output else noise

    def _prior_mean(self, means):
        means = self._y_centre + self._y_scale * means
        return float(means[0]) if self._one_output else means

    def _limit_meaning(self, name, side, best):
        return self._plan.limit_meaning(name, side)

    def _restated(self, X, y, sample_weight, noise_variance):
        y = checked_targets(y)
        X, y = validated_rows(self, X, y, multi_output=True, y_numeric=True, reset=False)
        self._check_outputs(y)
        if self._plan.is_given != (noise_variance is not None):
            raise ValueError(
                "noise_variance is needed for these rows, because the model was fitted to known "
                "noise, got None: give what was given to fit"
                if self._plan.is_given
                else "noise_variance must be None, because the model has learned its noise: leave "
                "it out"
            )
        X, y, weight, noise, _ = distinct_rows(X, y, sample_weight, noise_variance)
        targets = self._in_units(X, y.reshape(len(y), -1).T, weight, noise)
        rows = unique_rows(X, weight, is_sorted=True)
        options, kernel = self._model_options(KnownNoise()), self._posterior.kernel
        model, offset = self._plan.restated(kernel, targets, rows, options, self._noise)
        n_params = kernel.n_params + model.likelihood.n_params * len(targets.y)
        offset += self._units_offset(model.total_weight)
        return [Restated(self, model, self._theta[:n_params], offset)]
