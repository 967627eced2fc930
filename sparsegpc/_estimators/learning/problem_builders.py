"""Builders of the problems among which a fit chooses: one for each kernel, noise and likelihood."""

from copy import copy

import numpy as np
from sklearn.utils import check_random_state

from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.input.validation import column_names
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import NO_WHITE_NOISE, adapt_kernel
from sparsegpc._estimators.kernels.spread import measure_spread
from sparsegpc._estimators.learning.problem import Problem, ProblemRows
from sparsegpc._estimators.noise.base import NoiseData, shape_prior
from sparsegpc._estimators.noise.known import KnownPlan
from sparsegpc._estimators.noise.registry import WHITE_IN_PRODUCT, kernel_and_noise, noise_for
from sparsegpc._estimators.noise.student_t import StudentTNoise


class ProblemBuilder:
    """Base of the builders, which build the `Problem` of an estimator for any `KernelChoice`.

    All problems share the random generator ``rng`` and the `Progress` that records evaluations;
    those with the same transform of the columns share the merged rows. `data` are `PresentRows` or
    `Targets`.
    """

    # The `NoisePlan` of a regressor.
    plan = None

    def __init__(self, estimator, data, progress):
        self.estimator, self.progress = estimator, progress
        self._data, self._rows = data, {}
        self.rng = check_random_state(estimator.random_state)

    @property
    def total_weight(self):
        """The number of rows, counted by their weights."""
        return float(self._data.weight.sum())

    def build(self, choice):
        """Return the `Problem` for a `KernelChoice`."""
        raise NotImplementedError

    def afresh(self):
        """Return the builder for a fit to the same rows that does not go on from the last one."""
        estimator = copy(self.estimator)
        estimator.warm_start = False
        return type(self)(estimator, self._data, self.progress)

    def without_copies(self):
        """Return the builder for rows without copies, and by how much that lowers the weights.

        The latter is the sum of the weights of these rows, less the number of rows that differ.
        """
        data = self._data.without_copies()
        n_copies = self.total_weight - len(data.weight)
        return type(self)(self.estimator, data, self.progress), n_copies

    def _merged(self, data, transform):
        """Return the `MergedRows` of data that have a transform, or None."""
        raise NotImplementedError

    def _rows_with(self, transform):
        """Return the data, the merged rows and their `Spread`, with a transform, or None."""
        if transform not in self._rows:
            data = self._data
            if transform is not None:
                data = data._replace(X=transform(data.X))
            merged = self._merged(data, transform)
            self._rows[transform] = data, merged, measure_spread(merged.X, merged.weight)
        return self._rows[transform]

    def _problem(self, choice, kernel, merged, spread, hyperparameters, model):
        """Return the `Problem` with these values and those that all problems share."""
        return Problem(
            builder=self,
            estimator=self.estimator,
            choice=choice,
            kernel=kernel,
            rows=ProblemRows(merged, spread, self._data.places, self._data.X),
            hyperparameters=hyperparameters,
            model=model,
            whole=model,
        ).with_part()


def likelihood_model(estimator, choice, likelihood, y, weight, rows, spread):
    """Return scikit-learn's kernel of a `KernelChoice`, its `Hyperparameters` and a `SparseModel`.

    The estimator may be one that learns from minibatches. `y` and `weight` (N,) are targets and
    weights before rows were merged, and `rows` the `MergedRows`, with their `Spread`.
    """
    kernel, n_columns = choice.resolve(spread), estimator.n_features_in_
    hyperparameters = adapt_kernel(kernel, n_columns, refuse_white=NO_WHITE_NOISE, X=rows.X)
    targets, prior = likelihood.targets(y, weight, rows), choice.prior(hyperparameters, spread)
    data = hyperparameters.kernel, likelihood, rows.X, targets, rows.weight
    model = SparseModel(*data, prior=prior, **estimator._model_options(likelihood))
    if choice.is_named:
        model.prior = prior.joined(shape_prior(model), model.kernel.n_params)
    return kernel, hyperparameters.with_likelihood(model), model


def noisy_model(estimator, choice, plan, targets, rows, spread, variance, refuse_white):
    """Return what `likelihood_model` does for `Targets` at `MergedRows`, given a `NoisePlan`.

    `variance` (n_outputs,) is the mean square of each output; for `refuse_white` see
    `adapt_kernel`.
    """
    kernel, n_columns = choice.resolve(spread, variance), estimator.n_features_in_
    hyperparameters = adapt_kernel(kernel, n_columns, refuse_white=refuse_white, X=rows.X)
    hyperparameters = hyperparameters.rescaled_to(float(variance.mean()), rows.X)
    n_params = hyperparameters.kernel.n_params
    prior = choice.prior(hyperparameters, spread).joined(plan.prior(spread), n_params)
    options = {**estimator._model_options(KnownNoise()), "prior": prior}
    model = plan.model(hyperparameters.kernel, targets, rows, options)
    return kernel, plan.extend(hyperparameters, model), model


class LikelihoodBuilder(ProblemBuilder):
    """Build the problems of `PresentRows` and a likelihood, at first that of the estimator."""

    def __init__(self, estimator, data, progress):
        super().__init__(estimator, data, progress)
        self.likelihood = estimator._likelihood

    def with_likelihood(self, likelihood):
        """Return the builder of problems with another likelihood that merges the same rows."""
        other = copy(self)
        other.likelihood = likelihood
        return other

    def _merged(self, data, transform):
        return self.estimator._merged(data)

    def build(self, choice):
        data, merged, spread = self._rows_with(choice.transform)
        rows = data.y, data.weight, merged, spread
        kernel, hyperparameters, model = likelihood_model(
            self.estimator, choice, self.likelihood, *rows
        )
        return self._problem(choice, kernel, merged, spread, hyperparameters, model)


class RegressionBuilder(ProblemBuilder):
    """Build the problems of a regressor's targets.

    ``plan`` is the `NoisePlan` of the problems, at first that of the user's noise. ``has_outliers``
    tells whether it may have outliers, and ``variance`` (n_outputs,) is the mean square of the
    targets. `noise`, `NoiseSettings`, takes the place of the user's, if it is given.
    """

    def __init__(self, estimator, targets, progress, noise=None):
        super().__init__(estimator, targets, progress)
        is_given = targets.noise_variance is not None
        noise = noise_for(estimator.noise, targets) if noise is None else noise
        self._kernel, self._noise = kernel_and_noise(estimator.kernel, noise, is_given)
        self.has_outliers = self._noise is not None and self._noise.has_outliers
        self.variance = targets.second_moments(self.has_outliers)
        # With a kernel object the variance of the noise is learned without a prior.
        is_named = KernelChoice.of(estimator).is_named
        self._prior_variance = targets.variances(self.has_outliers) if is_named else None
        self.plan = self._plan_of(self._noise, None)

    def _plan_of(self, noise, transform):
        """Return the `NoisePlan` of settings for columns with a transform, or None."""
        if noise is None:
            return KnownPlan()
        _, merged, spread = self._rows_with(transform)
        names = column_names(self.estimator)
        variances = self.variance, names, self._prior_variance
        return noise._plan(NoiseData(merged.X, spread, *variances))

    @property
    def is_censored(self):
        """Whether some targets may be only limits."""
        return self._data.event is not None

    def with_noise(self, noise=None, transform=None):
        """Return the builder of problems with other noise, or with the user's.

        The arguments are `NoiseSettings`, None for those of the user, and the transform of the
        columns on which the noise depends, or None.
        """
        other = copy(self)
        other.plan = self._plan_of(self._noise if noise is None else noise, transform)
        return other

    def equal_shares(self):
        """Return the share of the targets that the most frequent one has, (n_outputs,).

        Rows that are equal in X and y, too, count once, whatever their weights.
        """
        counts = [np.unique(output, return_counts=True)[1] for output in self._data.y]
        return np.array([each.max() / each.sum() for each in counts])

    def with_outliers(self):
        """Return the builder of problems with Student-t noise."""
        return RegressionBuilder(self.estimator, self._data, self.progress, StudentTNoise())

    def from_noise(self, log_noise):
        """Return the builder of problems that start from log variances (n_outputs,) of the noise.

        Its plan is that of noise that varies.
        """
        other = copy(self)
        other.plan = copy(self.plan)
        other.plan.log_noise = log_noise
        return other

    def _merged(self, data, transform):
        # Rounding may make transformed rows equal.
        return merge_rows(data.X, data.weight, is_sorted=transform is None)

    def build(self, choice):
        targets, merged, spread = self._rows_with(choice.transform)
        if not choice.is_named:
            # Without the summand that is the noise.
            choice = choice._replace(kernel=self._kernel)
        rows = self.plan.rows_of(targets, merged)
        data = targets, rows, spread, self.variance
        kernel, hyperparameters, model = noisy_model(
            self.estimator, choice, self.plan, *data, refuse_white=WHITE_IN_PRODUCT
        )
        return self._problem(choice, kernel, rows, spread, hyperparameters, model)
