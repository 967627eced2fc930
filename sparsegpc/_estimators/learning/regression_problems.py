"""The problems among which a regressor chooses: one for each kernel and kind of noise."""

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.models.evaluation import Counts
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.input.targets import second_moments
from sparsegpc._estimators.input.validation import column_names
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.problem import Problem
from sparsegpc._estimators.noise.base import NoiseData
from sparsegpc._estimators.noise.known import KnownPlan
from sparsegpc._estimators.noise.white_kernels import WHITE_IN_PRODUCT, kernel_and_noise


class RegressionProblems:
    """The `Problem` of a regressor's targets for any `KernelChoice` and `NoisePlan`.

    Parameters
    ----------
    estimator : SparseGPRegressor
    targets : Targets
    places : ndarray of int of shape (N,)
        The indices of these rows among the user's.
    progress : Progress

    Attributes
    ----------
    noise : NoiseSettings or None
        None if the noise is known.
    has_outliers : bool
        Whether the noise may have outliers.
    variance : ndarray of shape (n_outputs,)
        The mean square of the targets.
    """

    def __init__(self, estimator, targets, places, progress):
        self._estimator, self._targets = estimator, targets
        self._places, self._progress = places, progress
        is_known = targets.noise_variance is not None
        self._kernel, self.noise = kernel_and_noise(estimator.kernel, estimator.noise, is_known)
        self.has_outliers = self.noise is not None and self.noise.has_outliers
        self.variance = second_moments(targets.y, targets.weight, self.has_outliers)
        self._options = {**estimator._model_options(KnownNoise()), "counts": Counts()}
        self._rows = {}

    def plan(self, transform=None, noise=None):
        """Return the `NoisePlan` for columns with a transform, or None.

        It is that of the user's noise unless other `NoiseSettings` are given.
        """
        noise = self.noise if noise is None else noise
        if noise is None:
            return KnownPlan()
        _, merged, spread = self._rows_with(transform)
        names = column_names(self._estimator)
        return noise._plan(NoiseData(merged.X, spread, self.variance, names))

    def problem(self, choice, plan):
        """Return the `Problem` for a `KernelChoice` and a `NoisePlan`."""
        targets, merged, spread = self._rows_with(choice.transform)
        kernel = choice._replace(kernel=self._kernel).resolve(spread, self.variance)
        n_columns = self._estimator.n_features_in_
        parameters = adapt_kernel(kernel, n_columns, refuse_white=WHITE_IN_PRODUCT)
        rows = plan.rows_of(targets, merged)
        parameters = parameters.rescaled_to(float(self.variance.mean()), rows.X)
        n_params = parameters.kernel.n_params
        prior = choice.prior(parameters, spread).joined(plan.prior(spread), n_params)
        model = plan.model(parameters.kernel, targets, rows, {**self._options, "prior": prior})
        return Problem(
            rows=rows,
            places=self._places,
            spread=spread,
            kernel=kernel,
            parameters=plan.extend(parameters, model),
            model=model,
            progress=self._progress,
            transform=choice.transform,
            untransformed_X=self._targets.X,
        )

    def _rows_with(self, transform):
        """Return the targets, the merged rows and their `Spread`, with a transform, or None."""
        if transform not in self._rows:
            targets = self._targets
            X = targets.X if transform is None else transform(targets.X)
            # Rounding may make transformed rows equal.
            merged = unique_rows(X, targets.weight, is_sorted=transform is None)
            spread = measure_spread(merged.X, merged.weight)
            self._rows[transform] = targets._replace(X=X), merged, spread
        return self._rows[transform]
