"""The problems among which a regressor chooses: one for each kernel and kind of noise."""

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.rows.unique_rows import unique_rows
from sparsegpc._estimators.input.targets import second_moments
from sparsegpc._estimators.input.validation import column_names
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.learning.problems import Problems
from sparsegpc._estimators.noise.base import NoiseData
from sparsegpc._estimators.noise.known import KnownPlan
from sparsegpc._estimators.noise.white_kernels import WHITE_IN_PRODUCT, kernel_and_noise


class RegressionProblems(Problems):
    """The `Problem` of a regressor's targets for any `KernelChoice` and `NoisePlan`.

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
        super().__init__(estimator, targets, places, progress)
        is_known = targets.noise_variance is not None
        self._kernel, self.noise = kernel_and_noise(estimator.kernel, estimator.noise, is_known)
        self.has_outliers = self.noise is not None and self.noise.has_outliers
        self.variance = second_moments(targets.y, targets.weight, self.has_outliers)

    def _merged(self, data, transform):
        # Rounding may make transformed rows equal.
        return unique_rows(data.X, data.weight, is_sorted=transform is None)

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
        options = self._estimator._model_options(KnownNoise())
        options |= {"prior": prior, "counts": self._counts}
        model = plan.model(parameters.kernel, targets, rows, options)
        parameters = plan.extend(parameters, model)
        return self._problem(
            choice, rows=rows, spread=spread, kernel=kernel, parameters=parameters, model=model
        )
