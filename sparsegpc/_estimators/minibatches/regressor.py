"""The regressor that learns from minibatches: for many rows, and for streams."""

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.minibatches.gaussian_batches import GaussianBatches
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.base_estimator import with_parameters
from sparsegpc._estimators.input.targets import (
    Targets,
    centred,
    centres,
    merged_targets,
    second_moments,
    variances,
)
from sparsegpc._estimators.input.validation import column_names, refuse_overflow, validated_targets
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.problem_builders import noisy_model
from sparsegpc._estimators.messages.target_warnings import describe_mismatch
from sparsegpc._estimators.minibatches.base import BaseMinibatches
from sparsegpc._estimators.minibatches.first_model import FirstModel
from sparsegpc._estimators.noise.base import NoiseData
from sparsegpc._estimators.noise.homoscedastic import HomoscedasticNoise
from sparsegpc._estimators.noise.polynomial import constant_noise
from sparsegpc._estimators.predictions.targets import GaussianPredictions

WHITE_NOISE = "the noise of this regressor is always learned"
SCALE_THEM = "divide the targets by their standard deviation"


@with_parameters
class StochasticSparseGPRegressor(GaussianPredictions, BaseMinibatches):
    r"""Sparse Gaussian process regression from minibatches of rows.

    The model of :class:`SparseGPRegressor` with homoscedastic noise, learned from one batch of rows
    at a time: for data sets with so many rows that a pass over all of them is expensive, and,
    through `partial_fit`, for streams. The approximate posterior takes natural-gradient steps [1]_
    on a bound that is a sum over rows [2]_, and the hyperparameters follow averaged gradients. With
    up to a few tens of thousands of rows, :class:`SparseGPRegressor` reaches a better optimum
    sooner.

    Parameters
    ----------
    bound : {"tight", "standard"}, default="tight"
        How the bound accounts for the residual variance: as in [2]_ ("tight") or in [1]_
        ("standard").

    Attributes
    ----------
    noise_variance_ : float
        Variance of the noise, in squared units of y.
    prior_mean_ : float
        Constant mean of f, in units of y.
    lower_bound_ : float
        After `fit`, a lower bound on the log marginal likelihood of all rows, in nats. After
        `partial_fit`, an estimate for about the last `memory` rows, which is exact only if the
        hyperparameters have not changed.

    See Also
    --------
    SparseGPRegressor : Learns from all rows at once.

    Notes
    -----
    A step costs O(b M^2 + M^3) time for b rows in a batch, and O(b M) memory. Rows with equal
    columns and targets are merged, and their weights added; rows with equal columns but different
    targets are not merged. Rows of a `numpy.memmap`, or of another array that is read by slices,
    are read batch by batch and, except for the first rows of a stream, never merged. A saved model
    takes about 20 M^2 + 24 M D bytes; after `partial_fit` it takes up to 8 M D bytes more, and 8 (D
    + 2) for each row that it keeps.

    References
    ----------
    .. [1] Hensman, Fusi, Lawrence, "Gaussian processes for big data", UAI 2013.
    .. [2] Titsias, "New bounds for sparse variational Gaussian processes", ICML 2025, equation 18.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsegpc import StochasticSparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = StochasticSparseGPRegressor(n_inducing=30, batch_size=100, random_state=0)
    >>> model = make_pipeline(StandardScaler(), regressor).fit(X, y)
    >>> mean, std = model.predict(X, return_std=True)
    >>> bool(abs(y - mean).mean() < 50 < std.mean() < 65)
    True
    """

    _parameter_constraints = {
        **BaseMinibatches._parameter_constraints,
        "bound": [StrOptions(set(sums_over_rows(SLACKS)))],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Learn from all rows, in batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Each row's log-likelihood is multiplied by its weight: a weight of k has the effect of k
            copies of the row. If weights are not counts, their scale matters: :ref:`user guide
            <weights>`.

        Returns
        -------
        self : StochasticSparseGPRegressor

        Raises
        ------
        ValueError
            If the input is not finite or has wrong shapes, or the kernel does not fit the data.
        numpy.linalg.LinAlgError
            If the kernel is not positive semi-definite.

        Warns
        -----
        ConvergenceWarning
            If `callback` stopped the fit, the learned model is no better than a constant one, or
            the hyperparameters learned from batches are worse for all rows than a constant f; the
            model is then that of the first rows, or constant. Also if the residuals of neighbouring
            rows are correlated, so that a function is missing.
        UserWarning
            If the limits of the kernel keep f far below the scale of the targets, or if the weights
            do not look like counts.
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y, sample_weight=None):
        """Learn from further rows.

        They are used as in :meth:`StochasticSparseGPClassifier.partial_fit`, so they should come in
        random order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            As in `fit`.

        Returns
        -------
        self : StochasticSparseGPRegressor

        Raises
        ------
        ValueError
            As in `fit`.
        """
        return self._partial_fit(X, y, sample_weight)

    def _merged_rows(self, X, y, sample_weight, *, reset):
        X, y = validated_targets(self, X, y, reset=reset)
        refuse_overflow(X, "X")
        targets = merged_targets(X, y, sample_weight, None)
        return targets.X, targets.y[0], targets.weight

    def _centred(self, y):
        return centred(y[None], self._y_centre)[0]

    def _first_model(self, X, y, weight):
        # Centre and scale are those of all targets.
        centre = float(centres(y[None], weight)[0]) if self.fit_prior_mean else 0.0
        self._y_centre, self._y_scale = np.array([centre]), np.ones(1)
        self._one_output = True
        rows = merge_rows(X, weight[: len(X)])
        spread = measure_spread(rows.X, rows.weight).of_first_rows()
        target = centred(y[None], self._y_centre)
        variance = second_moments(target, weight)
        choice = KernelChoice.of(self)
        prior_variance = variances(target, weight) if choice.is_named else None
        data = NoiseData(rows.X, spread, variance, column_names(self), prior_variance)
        plan = HomoscedasticNoise()._plan(data)
        targets = Targets(X, target[:, : len(X)], weight[: len(X)], None, None, None)
        found = noisy_model(self, choice, plan, targets, rows, spread, variance, WHITE_NOISE)
        self._target_variance = variance[target.any(axis=1)]
        self._visible_range = 0.1 * float(np.sqrt(variance[0]))
        return FirstModel(*found, spread, choice)

    def _describe_mismatch(self, first, constant=False):
        return describe_mismatch(
            first.kernel, first.model.X, self._target_variance, SCALE_THEM, constant
        )

    @property
    def _slack(self):
        return SLACKS[self.bound]

    def _batches(self, kernel, of_stream, **options):
        return GaussianBatches(kernel, **options)

    def _store(self, model):
        super()._store(model)
        log_noise = self._state.theta[-1:]
        self.noise_variance_ = float(np.exp(log_noise[0]))
        self._noise = constant_noise(self.inducing_points_, log_noise)
        self.prior_mean_ = self._y_centre[0] + self._posterior.functions[0].prior_mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags
