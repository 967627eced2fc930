"""Noise whose log variance is a second sparse Gaussian process."""

import numbers

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval

from sparsegpc._core.bounds.collapsed import MeanPrior, divergence
from sparsegpc._core.likelihoods.gaussian import (
    GaussianNoise,
    KnownNoise,
    learned_noise_targets,
    noisy_targets,
)
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.noise_process import HeteroscedasticModel
from sparsegpc._core.models.noise_sites import expected_precision
from sparsegpc._estimators.input.settings import row_options
from sparsegpc._estimators.kernels.hyperparameters import OFFSET, Entry
from sparsegpc._estimators.kernels.named_kernels import KERNEL_CONSTRAINTS, KernelChoice
from sparsegpc._estimators.kernels.sklearn_kernels import adapt_kernel
from sparsegpc._estimators.noise.base import (
    PRIOR_DEVIATION,
    START,
    LogNormalNoise,
    NoisePlan,
    NoiseSettings,
)


class GPNoise(NoiseSettings):
    """Gaussian noise whose log variance is a second sparse Gaussian process.

    Parameters
    ----------
    kernel : kernel of sklearn.gaussian_process.kernels, str or None, default=None
        Covariance of the log variance, as a function of the columns of X. Names are those of
        :class:`SparseGPRegressor`, and None means "rbf".
    length_scales : {"auto", "tied", "free", "common"}, default="auto"
        Length scales of the log variance, as in :class:`SparseGPRegressor`; with many columns and
        few rows, "auto" means "common".
    n_inducing : int, default=100
        Maximum number of inducing points of the log variance. They are chosen by greedy variance.
    selection_tol : float, default=1e-3
        As in `SparseGPRegressor`, for the log variance.

    See Also
    --------
    SparseGPRegressor : Uses it as parameter `noise`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import GPNoise, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SparseGPRegressor(noise=GPNoise(n_inducing=20), n_inducing=20).fit(X, y)
    >>> model.predict_noise_std(X).shape
    (442,)
    """

    _parameter_constraints = {
        "kernel": KERNEL_CONSTRAINTS["kernel"],
        "length_scales": KERNEL_CONSTRAINTS["length_scales"],
        "n_inducing": [Interval(numbers.Integral, 1, None, closed="left")],
        "selection_tol": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(self, kernel=None, *, length_scales="auto", n_inducing=100, selection_tol=1e-3):
        self.kernel = kernel
        self.length_scales = length_scales
        self.n_inducing = n_inducing
        self.selection_tol = selection_tol

    @property
    def sees_transforms(self):
        # A kernel object for the noise sees the columns as they are, like one for f.
        return not isinstance(self.kernel, Kernel)

    def _plan(self, data):
        """Return the `NoisePlan` for a `NoiseData`."""
        choice, n_columns = KernelChoice(self.kernel, self.length_scales), data.X.shape[1]
        kernel = choice.resolve(data.spread)
        hyperparameters = adapt_kernel(
            kernel,
            n_columns,
            refuse_white="the log variance of the noise must be a function without noise",
            X=data.X,
        )
        # This refuses a kernel that lacks the length scales asked for, before anything is learned.
        choice.prior(hyperparameters, data.spread)
        log_noise = np.log(START * data.variance)
        points = self.n_inducing, self.selection_tol
        return ProcessPlan(choice, kernel, n_columns, *points, log_noise, data.prior_mean)


class ProcessPlan(NoisePlan):
    """Plan of noise whose log variance is a Gaussian process.

    The `choice`, a `KernelChoice`, is what the settings specify, and resolves to scikit-learn's
    `kernel`. For `n_points` and `tol` see `HeteroscedasticModel`. Learning starts at `log_noise`
    (n_outputs,), log noise variances; `prior_mean` (n_outputs,) is the mean of the prior of their
    prior means, or None.
    """

    varies = True

    def __init__(self, choice, kernel, n_columns, n_points, tol, log_noise, prior_mean):
        # The kernel takes less room in a saved model than its `Hyperparameters` and their prior.
        self._choice, self._kernel, self._n_columns = choice, kernel, n_columns
        self._n_points, self._tol, self.log_noise = n_points, tol, log_noise
        self._prior_mean = prior_mean

    @property
    def hyperparameters(self):
        """The `Hyperparameters` of the log variance."""
        return adapt_kernel(self._kernel, self._n_columns)

    def prior(self, spread):
        return self._choice.prior(self.hyperparameters, spread)

    def extend(self, hyperparameters, model):
        added = self.hyperparameters
        entries = list(map(self._entry_of_noise, added.entries))
        return hyperparameters.extended(added.theta, added.bounds, entries)

    def _entry_of_noise(self, entry):
        """Return the `Entry` of the noise kernel among the hyperparameters of f and the noise."""
        at_limit = {}
        is_constant = entry.is_variance and entry.effect is None
        if is_constant:
            # The noise is nearly the same at all rows, which needs no warning.
            at_limit = {"lower": None}
        elif self._choice.is_named and isinstance(entry.column, int):
            # Limits of kernels by name are so wide that the noise does not depend on the column.
            at_limit = {"upper": None}
        # Neither variances nor what belongs to columns describe f.
        role = entry.role if entry.role == OFFSET else None
        return Entry(f"noise {entry.name}", role, at_limit=at_limit)

    def model(self, kernel, targets, rows, options):
        likelihood = GaussianNoise(0)
        no_basis = np.empty((len(rows.X), 0))
        y = [noisy_targets(output, targets.weight, no_basis, rows) for output in targets.y]
        return HeteroscedasticModel(
            kernel,
            likelihood,
            rows.X,
            y,
            rows.weight,
            noise_kernel=self.hyperparameters.kernel,
            n_noise_points=min(self._n_points, len(rows.X)),
            noise_tol=self._tol,
            log_noise=self.log_noise,
            noise_priors=self._noise_priors(),
            **options,
        )

    def _noise_priors(self):
        if self._prior_mean is None:
            return None
        return [MeanPrior(float(mean), PRIOR_DEVIATION**-2) for mean in self._prior_mean]

    def model_with_noise(self, kernel, targets, rows, options, learned):
        # Keep the learned noise, which predictions use; solving for it again would change it.
        moments = zip(*learned.log_moments(rows.X), strict=True)
        y = [
            learned_noise_targets(
                output, targets.weight, mean, expected_precision(mean, variance), rows
            )
            for output, (mean, variance) in zip(targets.y, moments, strict=True)
        ]
        model = SparseModel(kernel, KnownNoise(), rows.X, y, rows.weight, **options)
        return model, -sum(divergence(q) for q in learned.posterior.functions)

    def learned(self, evaluation):
        return LearnedProcess(evaluation.noise)


class LearnedProcess(LogNormalNoise):
    """Log noise variances that are sparse Gaussian processes, one for each output."""

    def __init__(self, posterior):
        self.posterior = posterior

    @property
    def points(self):
        return self.posterior.Z

    @property
    def prior_means(self):
        return self.posterior.prior_means

    def log_moments(self, X):
        return self.posterior.moments(X, **row_options())

    def log_samples(self, X, n_samples, rng):
        return self.posterior.draws(X, n_samples, rng)
