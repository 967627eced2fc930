"""Noise with a Student-t distribution: Gaussian, but for outliers."""

import numbers

import numpy as np
from sklearn.utils._param_validation import Interval

from sparsegpc._core.likelihoods.noise_variance import InverseGammaVariance
from sparsegpc._core.likelihoods.responses import FREE_OF_NOISE
from sparsegpc._core.likelihoods.student_t import DF_RANGE, StudentT
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.models.prior import NormalPrior, ProductPrior
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._estimators.noise.base import PRIOR_DEVIATION, LearnedNoise, NoisePlan, NoiseSettings


class StudentTNoise(NoiseSettings):
    """Noise with outliers: it has a Student-t distribution, the same at all rows.

    Scale and degrees of freedom are learned; the logarithm of the latter has a normal prior with
    mean 1.5 and deviation 1. With two degrees of freedom or fewer the variance is infinite, and so
    is the standard deviation that `predict` returns; intervals and quantiles of y are finite.

    Parameters
    ----------
    df : float or None, default=None
        Degrees of freedom to keep, from 0.3 to 1000; None learns them.

    See Also
    --------
    SparseGPRegressor : Uses it as parameter `noise`.
    sparsegpc.likelihoods.StudentT : The likelihood.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sparsegpc import StudentTNoise, SparseGPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> y[::20] += 1000.0
    >>> model = SparseGPRegressor(noise=StudentTNoise(df=3.0), n_inducing=20).fit(X, y)
    >>> bool(abs(model.predict(X).mean() - 150.0) < 10.0)  # that of y is now 204
    True
    """

    has_outliers = True
    _parameter_constraints = {"df": [Interval(numbers.Real, *DF_RANGE, closed="both"), None]}

    def __init__(self, df=None):
        self.df = df

    def _plan(self, data):
        """Return the `NoisePlan` for a `NoiseData`."""
        return StudentTPlan(self.df, data.prior_mean)


class StudentTPlan(NoisePlan):
    """Plan of noise with a Student-t distribution, with the `df` of `StudentTNoise`.

    `prior_mean` (n_outputs,) is the mean of the prior of the logarithm of the squared scale, or
    None.
    """

    def __init__(self, df, prior_mean):
        self._df, self._prior_mean = df, prior_mean

    def rows_of(self, targets, merged):
        return merge_rows(targets.X, targets.weight, targets=targets.y.T)

    def prior(self, spread):
        if self._prior_mean is None:
            return ProductPrior()
        scales = 1 + 2 * np.arange(len(self._prior_mean))
        return ProductPrior((NormalPrior(scales, 0.5 * self._prior_mean, 0.5 * PRIOR_DEVIATION),))

    def extend(self, hyperparameters, model):
        # Noise that is nearly Gaussian, or whose degrees of freedom are given, needs no warning.
        few_df = "nearly all targets look like outliers" if self._df is None else None
        at_limits = [{"lower": few_df, "upper": None}, {"lower": FREE_OF_NOISE}]
        return hyperparameters.with_likelihood(model, at_limits)

    def model(self, kernel, targets, rows, options):
        likelihood = StudentT(self._df)
        y = [likelihood.targets(output, targets.weight, rows)[0] for output in targets.y]
        return SparseModel(kernel, likelihood, rows.X, y, rows.weight, **options)

    def learned(self, evaluation):
        n_outputs = len(evaluation.solutions)
        params = evaluation.theta[-2 * n_outputs :].reshape(n_outputs, 2)
        return LearnedStudentT(*np.exp(params).T)


class LearnedStudentT(LearnedNoise):
    """Student-t noise of each output, with ``df`` and ``scale`` of shape (n_outputs,)."""

    def __init__(self, df, scale):
        self.df, self.scale = df, scale

    @property
    def constant(self):
        return self._variance().expected()

    def _variance(self):
        return InverseGammaVariance(self.df, 2.0 * np.log(self.scale))

    def variance_at(self, X):
        parts = [np.tile(part[:, None], len(X)) for part in self._variance()]
        return InverseGammaVariance(*parts)

    def log_samples(self, X, n_samples, rng):
        shape = len(self.df), n_samples, len(X)
        chi_squared = rng.chisquare(self.df[:, None, None], shape)
        log_width = np.log(self.df) + 2.0 * np.log(self.scale)
        return log_width[:, None, None] - np.log(np.maximum(chi_squared, TINY))
