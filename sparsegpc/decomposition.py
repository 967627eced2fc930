"""Latent variables of rows, as a transformer: the Bayesian GP-LVM."""

import numbers
from dataclasses import field

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.latent_inputs.collapsed_bound import LatentData
from sparsegpc._core.latent_inputs.learning import learn, principal_start
from sparsegpc._core.latent_inputs.new_rows import columns_at, project
from sparsegpc._core.rows.threads import single_threaded_blas
from sparsegpc._estimators.base_estimator import Estimator, all_or_nothing, with_parameters
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.input.validation import (
    column_name,
    refuse_masked,
    refuse_overflow,
    refuse_rows_of_times,
)
from sparsegpc._estimators.messages.user_warnings import warn_user

__all__ = ["BayesianGPLVM"]

# The search for the q(x) of a new row ends at this expected gain in nats, or after this many steps.
ROW_TOL, ROW_STEPS = 1e-16, 200


@with_parameters
class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    r"""Map rows to a few latent variables, of which all columns are smooth functions.

    The Bayesian Gaussian process latent variable model [1]_ is a nonlinear principal component
    analysis with uncertainty. Each column is a Gaussian process of the same latent variables of the
    row, with noise, :math:`x_{nd} = f_d(t_n) + \epsilon_{nd}`. The latent variables have the prior
    :math:`t_n \sim N(0, I)`, and their posterior is approximated by Gaussians. A component of
    little relevance gets a long length scale, so more components than needed do no harm.

    Parameters
    ----------
    n_components : int, default=2
        Number of latent variables.
    n_inducing : int, default=25
        Number of inducing points, at most the number of rows; more follow the functions more
        closely.
    bound : {"tight", "standard"}, default="tight"
        The lower bound that is maximised: that of [2]_, appendix B.5, or the lower one of [1]_.
    max_iter : int, default=1000
        Maximum number of iterations of L-BFGS-B.
    tol : float, default=1e-4
        The search ends when several iterations in a row gain less than this, in nats per row.
    random_state : int, RandomState instance or None, default=0
        Seed for the rows where inducing points start.

    Attributes
    ----------
    embedding_, embedding_variance_ : ndarray of shape (n_samples, `n_components`)
        Means and variances of the latent variables of the training rows.
    component_relevance_ : ndarray of shape (`n_components`,)
        Standard deviation of each column of `embedding_`, divided by the length scale. The
        components are in decreasing order.
    length_scales_ : ndarray of shape (`n_components`,)
        Length scale of each component.
    inducing_points_ : ndarray of shape (n_inducing, `n_components`)
        Learned inducing points, in the space of the latent variables.
    mean_ : ndarray of shape (`n_features_in_`,)
        Mean of each column, which is subtracted.
    signal_variance_, noise_variance_ : float
        Variances of the functions and of the noise, in squared units of X.
    lower_bound_ : float
        Lower bound on the log density of the training rows, in nats.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X had column names that are strings.

    See Also
    --------
    sklearn.decomposition.PCA : The linear map where the search starts.
    SparseGPRegressor : Functions of inputs that are known.

    Notes
    -----
    All columns have the same noise variance, so scale columns of different units first. Missing
    values (nan) are allowed: a row needs no value, a column needs one. With N rows, D columns, M
    points and Q components an iteration costs O(N M^2 Q + N M D + M^3) time. With missing values
    the first and the last term are multiplied by the number of different patterns of missing
    values among the columns.

    The bound has several maxima. Compare `lower_bound_` for a few values of `random_state`.

    References
    ----------
    .. [1] Titsias, Lawrence, "Bayesian Gaussian process latent variable model", AISTATS 2010.
    .. [2] Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparsegpc.decomposition import BayesianGPLVM
    >>> X, y = load_iris(return_X_y=True)
    >>> gplvm = BayesianGPLVM(n_components=2, n_inducing=15).fit(X)
    >>> gplvm.transform(X[:5]).shape
    (5, 2)
    >>> bool(abs(gplvm.inverse_transform(gplvm.embedding_) - X).mean() < 0.15)
    True
    """

    n_components: int = field(default=2, kw_only=False)
    n_inducing: int = 25
    bound: str = "tight"
    max_iter: int = 1000
    tol: float = 1e-4
    random_state: int | np.random.RandomState | None = 0

    _parameter_constraints = {
        "n_components": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
        "bound": [StrOptions(set(sums_over_rows(SLACKS)))],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn the functions, and the latent variables of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            nan marks missing values.
        y : None, default=None
            Ignored.

        Returns
        -------
        self : BayesianGPLVM

        Raises
        ------
        ValueError
            If X has fewer than two rows, holds infinite values, or has a column without values.
        """
        with all_or_nothing(self), single_threaded_blas():
            learned = self._fit(X)
        if not learned.converged:
            text = (
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations, before "
                f"its bound converged to tol={self.tol} nats per row; the model is usable. Raise "
                "max_iter or tol"
            )
            warn_user(text, ConvergenceWarning)
        return self

    def _fit(self, X):
        X = self._validated(X, reset=True, ensure_min_samples=2)
        Y = self._standardised(X)
        data = LatentData(Y, SLACKS[self.bound], **row_options())
        n_points = min(self.n_inducing, len(Y))
        rng = check_random_state(self.random_state)
        start = principal_start(data, self.n_components, n_points, rng)
        learned = learn(data, start, max_iter=self.max_iter, tol=self.tol * len(Y))
        params, posterior = learned.params, learned.evaluation.posterior
        relevance = params.mean.std(axis=0) / np.sqrt(params.widths)
        order = np.argsort(-relevance)
        self._posterior = posterior._replace(Z=params.Z[:, order], widths=params.widths[order])
        self.embedding_ = params.mean[:, order]
        self.embedding_variance_ = params.variance[:, order]
        self.component_relevance_ = relevance[order]
        self.length_scales_ = np.sqrt(params.widths[order])
        self.inducing_points_ = self._posterior.Z
        self.signal_variance_ = params.signal * self._scale**2
        self.noise_variance_ = params.noise * self._scale**2
        n_values = data.n_present.sum()
        self.lower_bound_ = float(learned.evaluation.value - n_values * np.log(self._scale))
        self.n_iter_ = learned.n_iter
        self._n_features_out = self.n_components
        return learned

    def _standardised(self, X):
        """Learn mean and scale, and return the rows minus the mean, with a mean square of one."""
        empty = np.isnan(X).all(axis=0)
        if empty.any():
            raise ValueError(
                f"each column of X needs a value, but {column_name(self, int(empty.argmax()))} has "
                "none: leave it out"
            )
        refuse_overflow(np.nan_to_num(X), "X")
        self.mean_ = np.nanmean(X, axis=0)
        # One scale for all columns: their relative sizes matter, as in PCA.
        scale = float(np.sqrt(np.nanmean((X - self.mean_) ** 2)))
        self._scale = scale if scale > 0.0 else 1.0
        return (X - self.mean_) / self._scale

    def _validated(self, X, **checks):
        refuse_masked(X, "X")
        refuse_rows_of_times(X)
        return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", **checks)

    def _project(self, X):
        """Return the `Projection` of rows and the standardised rows."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        Y = (X - self.mean_) / self._scale
        refuse_overflow(np.nan_to_num(Y), "X, in units of the training rows,")
        with single_threaded_blas():
            return X, project(
                Y,
                self._posterior,
                SLACKS[self.bound],
                (self.embedding_, self.embedding_variance_),
                max_iter=ROW_STEPS,
                tol=ROW_TOL,
                **row_options(),
            )

    def transform(self, X, return_std=False):
        """Return the means of the latent variables of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            nan marks missing values, also in columns that had none in `fit`.
        return_std : bool, default=False
            Whether to return the standard deviations as well.

        Returns
        -------
        T : ndarray of shape (n_samples, `n_components`)
        std : ndarray of shape (n_samples, `n_components`)
            Only if `return_std` is true.

        Raises
        ------
        ValueError
            If the columns differ from those of `fit`, or values are infinite or so large that their
            squares overflow.
        """
        _, rows = self._project(X)
        return (rows.mean, np.sqrt(rows.variance)) if return_std else rows.mean

    def score_samples(self, X):
        """Return a lower bound on the log density of each row, in nats.

        Missing values are integrated out; the density is that of the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            The density has the units of X.
        """
        X, rows = self._project(X)
        return rows.bound - (~np.isnan(X)).sum(axis=1) * np.log(self._scale)

    def score(self, X, y=None):
        """Return the mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None, default=None
            Ignored.

        Returns
        -------
        log_density : float
        """
        return float(self.score_samples(X).mean())

    def inverse_transform(self, X, return_std=False):
        """Predict the columns at given latent variables.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Latent variables, as `transform` returns them.
        return_std : bool, default=False
            Whether to return the standard deviations as well, noise included.

        Returns
        -------
        X : ndarray of shape (n_samples, `n_features_in_`)
        std : ndarray of shape (n_samples, `n_features_in_`)
            Only if `return_std` is true.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=np.float64)
        if X.shape[1] != len(self.length_scales_):
            raise ValueError(
                f"X must have a column for each of the {len(self.length_scales_)} components, got "
                f"the shape {X.shape}: pass what transform returns"
            )
        with single_threaded_blas():
            mean, variance = columns_at(X, self._posterior)
        mean = self.mean_ + self._scale * mean
        if not return_std:
            return mean
        return mean, self._scale * np.sqrt(variance + self._posterior.noise)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
