"""The regressor."""

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.base_sparse_gp import BaseSparseGP
from sparsegpc._estimators.choices.noise_choice import decide_noise
from sparsegpc._estimators.input.events import refuse_no_event
from sparsegpc._estimators.input.targets import centred, merged_targets
from sparsegpc._estimators.input.validation import checked_targets, validated_targets
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.averaging import HyperparameterDraws
from sparsegpc._estimators.learning.problem_builders import RegressionBuilder
from sparsegpc._estimators.messages.response_warnings import event_warnings
from sparsegpc._estimators.messages.target_warnings import (
    describe_mismatch,
    outlier_warnings,
    repetition_warnings,
    skewness_warnings,
    unlearned_noise_warnings,
)
from sparsegpc._estimators.model_of_rows import ModelOfRows
from sparsegpc._estimators.noise.base import NoiseSettings
from sparsegpc._estimators.noise.registry import (
    AUTO,
    DEFAULT,
    NOISES,
    noise_for,
    resolve_noise,
)
from sparsegpc._estimators.predictions.conditioning import conditioned
from sparsegpc._estimators.predictions.targets import GaussianPredictions
from sparsegpc._estimators.whole_fit import learn_rows


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
    noise : str or noise settings such as GPNoise, default="homoscedastic"
        Model of the noise:

        - "homoscedastic": Gaussian, with the same variance for all rows.
        - "polynomial": Gaussian, with a log variance that is a sum of quadratics, one per column.
        - "gp": Gaussian, with a log variance that is a second sparse Gaussian process.
        - "auto": learns "homoscedastic" and "gp", and takes "gp" if it raises the sum of bound and
          log prior by more than log N nats. If the residuals with the first have heavy tails,
          "student-t" is compared in the same way, unless more than 20 % of the targets are equal
          or there are 200 000 rows or more. With `warm_start` the kind of noise stays as it is
          until there are enough more rows.
        - "student-t": with a Student-t distribution, for targets with outliers, at a higher cost.
        - "excess": Gaussian, with the `noise_variance` that `fit` gets plus a variance that is
          learned, the same for all rows.

        With a kernel by name, a :ref:`prior <noise-prior>` keeps noise from vanishing by chance.
        To change settings, pass an instance of :class:`HomoscedasticNoise`,
        :class:`PolynomialNoise`, :class:`GPNoise`, :class:`StudentTNoise` or
        :class:`ExcessNoise`. If `fit` gets `noise_variance`, that replaces homoscedastic noise;
        "auto" then means "excess", and other noise is refused.
    normalize_y : bool, default=False
        Whether to subtract the mean of each output and divide by its standard deviation before
        learning. Hyperparameters then refer to the normalised targets, and without `fit_prior_mean`
        the prior mean is the mean of y. With a kernel and a `noise` by name, several outputs, and
        censored ones, are always divided by their standard deviations. With ``noise="student-t"``,
        but not with "auto", the median and the median absolute deviation, times 1.4826, take the
        place of mean and standard deviation.

    Attributes
    ----------
    noise_variance_ : float, ndarray of shape (n_outputs,) or None
        Variance of homoscedastic or Student-t noise, or the excess, in squared units of y; None for
        other noise, see `predict_noise_std`. It is infinite for Student-t noise with at most two
        degrees of freedom.
    noise_df_, noise_scale_ : float, ndarray of shape (n_outputs,) or None
        Degrees of freedom and scale, in units of y, of Student-t noise; None for other noise.
    noise_bounds_ : dict or None
        With ``noise="auto"``, the lower bound with each kind of noise, in nats, for targets in
        their original units, at the time of the decision, for the rows that are learned from,
        without kinds that were not compared or could not be learned. None if nothing was compared.
    prior_mean_ : float or ndarray of shape (n_outputs,)
        Constant mean of f, in units of y.
    lower_bound_ : float
        Lower bound on the log marginal likelihood of the training data, in nats, for targets in
        their original units; summed over outputs.

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

    For `bound`, "standard" is that of [1]_ and [2]_, "spherical" that of [3]_, and "tight" that of
    proposition 3.3 of [4]_, extended to unequal noise.

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

    noise: str | NoiseSettings = DEFAULT
    normalize_y: bool = False

    _parameter_constraints = {
        **BaseSparseGP._parameter_constraints,
        **HyperparameterDraws._parameter_constraints,
        "noise": [StrOptions({AUTO, *NOISES}), *NOISES.values(), NoiseSettings],
        "normalize_y": ["boolean"],
    }

    _may_be_rough = True
    _averages_few_rows = True

    def fit(self, X, y, sample_weight=None, noise_variance=None, event=None):
        """Learn hyperparameters, inducing points and the posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row, and a row of weight zero is ignored. If weights are not counts, their
            scale matters: :ref:`user guide <weights>`. If copies alone make the noise vanish, no
            row counts more than once: :ref:`FAQ <faq-copies>`.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            Variance of the noise at each row, in squared units of y, if it is known. Nothing is
            added to it, except with ``noise="excess"``, "auto" or a WhiteKernel summand of
            `kernel`.
        event : array-like of shape (n_samples,) or of that of y, default=None
            1 or True if the target was observed, 0 or False if it is only a lower limit (it is
            right-censored), -1 if it is only an upper limit (left-censored). Without
            `noise_variance`, `noise` must be "homoscedastic", or "auto", which then means the same.
            None means that all were observed.

        Returns
        -------
        self : SparseGPRegressor

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, `noise_variance` is not positive,
            comes with noise that is learned or is missing with ``noise="excess"``, `event` comes
            with other noise or no target was observed, or the kernel does not fit the data or has a
            WhiteKernel although `noise` is set.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was reached, `callback` asked to stop, the learned model is no better than
            a constant one, the bound still rises where hyperparameters meet their limits, the
            kernel matrix is barely positive definite, jitter is not far below the noise, or
            ``noise="auto"`` could not learn noise that varies.
        UserWarning
            If one column hides the others, with a common length scale; if the limits of the kernel
            keep f far below the scale of the targets, or outputs of different scales share a
            kernel; if positive targets are skewed; if more than 30 % of the targets are equal, with
            Student-t noise; if `event` looks miscoded; if the residuals look like those of
            outliers, with the same noise at all rows; if rows that repeat others hid the noise and
            were counted once; or if the weights do not look like counts and add up to far less or
            more than the effective number of rows.
        """
        return self._fit_likelihood(None, X, y, sample_weight, noise_variance, event)

    def condition(self, X, y, noise_variance=None):
        """Return the model given further targets, without learning again.

        Hyperparameters, noise and units stay as they are, and the rows of `fit` are not needed. So
        it is quick, as for a search that adds a target at each step, or assumes one for an
        experiment that still runs. The new rows become inducing points, so the result is that of
        exact conditioning of the posterior. If the model averages over hyperparameters, their
        weights take the new targets into account.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that `fit` did not get.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets, in original units.
        noise_variance : float, array-like of shape (n_samples,) or of that of y, default=None
            As in `predict`. Where the noise is uncertain, its expected variance counts.

        Returns
        -------
        model : SparseGPRegressor
            Fitted, with new ``inducing_points_`` and ``prior_mean_``, and ``inducing_indices_`` of
            None. Other attributes are those of `fit`: ``lower_bound_``, for example, does not
            include the new targets.

        Raises
        ------
        ValueError
            If the noise is Student-t, if `X` or `y` do not suit those of `fit`, or if
            `noise_variance` is missing for a model that was fitted with known noise.

        Notes
        -----
        Cost O((M + n)^3 + n (M + n) D) for M points, n rows and D columns, for each draw of the
        hyperparameters. After many rows, `fit` with all of them chooses new points and
        hyperparameters.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsegpc import SparseGPRegressor
        >>> rng = np.random.RandomState(0)
        >>> X = rng.uniform(0, 6, size=(60, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)
        >>> gp = SparseGPRegressor().fit(X, y)
        >>> more = gp.condition([[7.0], [7.5]], [0.6, 0.9])
        >>> more.predict([[7.0]]).round(1), len(more.inducing_points_) - len(gp.inducing_points_)
        (array([0.6]), 2)
        """
        X = self._check_rows(X)[:]
        y = checked_targets(y)
        check_consistent_length(X, y)
        self._check_outputs(y)
        if self.noise_df_ is not None:
            raise ValueError(
                f"condition needs Gaussian noise, but noise={self.noise!r} led to Student-t noise: "
                "call fit with all rows"
            )
        with single_threaded_blas():
            known = self._known_noise(X, noise_variance)
            found = conditioned(self, X, y.reshape(len(y), -1).T, known)
        n_old, posterior = len(self.inducing_points_), found._posterior
        new = posterior.Z[n_old:]
        new = new if self._transform is None else self._transform.inverse(new)
        found.inducing_points_, found.inducing_indices_ = (
            np.vstack([self.inducing_points_, new]),
            None,
        )
        found.prior_mean_ = found._prior_mean(posterior.prior_means)
        return found

    def _checked_rows(self, X, y, sample_weight, noise_variance=None, event=None, *, reset):
        """Validate a user's input, and return its `Targets`."""
        X, y = validated_targets(self, X, y, multi_output=True, reset=reset)
        if reset:
            self._one_output = y.ndim == 1
        else:
            self._check_outputs(y)
        targets = merged_targets(X, y, sample_weight, noise_variance, event)
        if reset:
            self._check_known_noise(targets)
        if event is not None:
            self._check_censored(targets)
        return targets

    def _check_known_noise(self, targets):
        """Raise ValueError if it is unclear how known noise of `Targets` enters the model."""
        settings = resolve_noise(noise_for(self.noise, targets))
        if targets.noise_variance is None and settings.needs_known:
            raise ValueError(
                f"noise_variance is needed with noise={self.noise!r}, got None: give the known "
                "variance of the noise of each row, or set noise='homoscedastic'"
            )
        if targets.noise_variance is not None and not settings.takes_known:
            raise ValueError(
                f"noise_variance must be None with noise={self.noise!r}: leave noise_variance out, "
                "leave noise out, or set noise=ExcessNoise() for a variance that is added to it"
            )

    def _check_censored(self, targets):
        """Raise ValueError if censored `Targets` were not observed at all, or the noise differs."""
        settings = resolve_noise(noise_for(self.noise, targets))
        if targets.noise_variance is None and not settings.takes_limits:
            raise ValueError(
                f"event must be None with noise={self.noise!r}: set noise='homoscedastic', or "
                "leave event out"
            )
        for k, output in enumerate(targets.event):
            refuse_no_event(output, self._of_output(k))

    def _set_units(self, targets):
        """Set the centre and the scale of `Targets`."""
        robust = targets.noise_variance is None and resolve_noise(self.noise).has_outliers
        n_outputs = len(targets.y)
        centre, scale = np.zeros(n_outputs), np.ones(n_outputs)
        if self.fit_prior_mean or self.normalize_y:
            centre = targets.centres(robust)
        # Without numbers in units of y, outputs that share a kernel can have units of their own,
        # and sites, which are searched for, do not depend on the unit.
        unitless = KernelChoice.of(self).is_named and isinstance(self.noise, str)
        if self.normalize_y or (unitless and (n_outputs > 1 or targets.event is not None)):
            scale = targets.deviations(centre, robust)
        self._y_centre, self._y_scale = centre, scale

    def _unit_choice(self):
        """Return the parameters that determine the units: of two fits with others, these differ."""
        return self.normalize_y, resolve_noise(self.noise).has_outliers

    def _scaled(self, targets):
        """Return the `Targets` in the units in which the model learns them."""
        y, noise = centred(targets.y, self._y_centre), targets.noise_variance
        if noise is not None:
            noise = noise / self._y_scale[:, None] ** 2
        return targets._replace(y=y / self._y_scale[:, None], noise_variance=noise)

    def _units_offset(self, targets):
        """Return the bound in the units of y minus that in scaled units, in nats per row.

        Observed `Targets` have densities, which depend on the units; limits have probabilities.
        """
        weight = targets.weight
        share = 1.0 if targets.event is None else (targets.event == 1.0) @ weight / weight.sum()
        return -float(np.sum(share * np.log(self._y_scale)))

    def _learn_rows(self, rows, progress, context=None):
        self._set_units(rows)
        targets = self._scaled(rows)
        progress.offset = self._units_offset(targets)
        builder = RegressionBuilder(self, targets, progress)
        variance = builder.variance
        # If the mean of f ranges over less than a tenth of the targets' deviation, f looks
        # constant.
        self._visible_range = 0.1 * float(np.sqrt(variance.mean()))
        self._target_variance = variance[targets.y.any(axis=1)]
        fitted = learn_rows(builder, decide_noise)
        self._plan, self.noise_bounds_ = fitted.problem.plan, fitted.compared_bounds
        self._has_known_noise = rows.noise_variance is not None
        self._is_censored = rows.event is not None
        self._last_unit_choice = self._unit_choice()
        return self._store_whole_fit(fitted) + self._target_warnings(rows, fitted)

    def _target_warnings(self, rows, fitted):
        """Return a list of each `FitWarning` about targets that do not suit the learned noise."""
        found = unlearned_noise_warnings(self.noise_bounds_)
        learned = self._rows_as_learned(rows)
        if rows.event is not None:
            # The limits are not distributed like observed targets.
            for k, (y, event) in enumerate(zip(rows.y, rows.event, strict=True)):
                found += event_warnings(y, event, self._of_output(k))
            return found
        has_outliers = self._noise is not None and self._noise.df is not None
        if has_outliers:
            found += repetition_warnings(learned.y, learned.weight)
        if not fitted.problem.learns or self._noise is None:
            return found
        skewed = skewness_warnings(learned.y, learned.weight, self.lower_bound_)
        if skewed or self.noise_variance_ is None or has_outliers:
            # Of skewed targets, the largest are no outliers.
            return found + skewed
        return found + outlier_warnings(fitted)

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

    def _of_output(self, k):
        """Return words that name an output in messages, if there are several."""
        return "" if self._one_output else f" of output {k}"

    def _by_output(self, values):
        """Return numbers of each output as an attribute: a float for a y of one dimension."""
        return float(values[0]) if self._one_output else values

    def _prior_mean(self, means):
        return self._by_output(self._y_centre + self._y_scale * means)

    def _describe_mismatch(self, problem, constant):
        variance, remedy = self._target_variance, "set normalize_y=True"
        return describe_mismatch(problem.kernel, problem.rows.merged.X, variance, remedy, constant)

    @property
    def _usual_variance(self):
        return float(self._target_variance.mean()) if len(self._target_variance) else 1.0

    def _extended(self, hyperparameters, model):
        return self._plan.extend(hyperparameters, model)

    def _models_of_rows(self, X, y, sample_weight, noise_variance=None, event=None):
        targets = self._checked_rows(X, y, sample_weight, noise_variance, event, reset=False)
        if self._has_known_noise != (noise_variance is not None):
            raise ValueError(
                "noise_variance is needed for these rows, because the model was fitted with known "
                "noise, got None: give the data of fit"
                if self._has_known_noise
                else "noise_variance must be None, because the model has learned its noise: leave "
                "it out"
            )
        if self._is_censored != (event is not None):
            raise ValueError(
                "event is needed for these rows, because the model was fitted with it, got None: "
                "give the data of fit"
                if event is None
                else "event must be None, because the model was fitted without it: leave it out"
            )
        targets = self._rows_as_learned(self._scaled(targets))
        merged = merge_rows(targets.X, targets.weight, is_sorted=True)
        rows = self._plan.rows_of(targets, merged)
        options, kernel = self._model_options(KnownNoise()), self._posterior.kernel
        model, offset = self._plan.model_with_noise(kernel, targets, rows, options, self._noise)
        n_params = kernel.n_params + model.likelihood.n_params * len(targets.y)
        offset += self._units_offset(targets) * model.total_weight
        return [ModelOfRows(self, model, self._theta[:n_params], offset)]
