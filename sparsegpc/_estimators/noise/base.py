"""Base classes of the kinds of observation noise.

Each kind of noise has a module with up to three classes. Users choose its *settings*. The settings
make a *plan*, which builds the core's model with this noise for given rows. A fit yields the
*learned* noise, which predicts the noise at new rows.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sparsegpc._core.likelihoods.noise_variance import LogNormalVariance
from sparsegpc._core.likelihoods.responses import FREE_OF_NOISE
from sparsegpc._core.models.prior import NormalPrior, ProductPrior
from sparsegpc._core.rows.sources import map_rows
from sparsegpc._estimators.kernels.spread import Spread
from sparsegpc._estimators.noise.censored import censored_rows

# Start and limits of a noise variance, relative to the variance of the targets.
START, LIMITS = 0.1, (1e-8, 10.0)
# Deviation of the normal prior of a log noise variance, whose mean is the start. Without the prior,
# the noise of about a hundred rows often vanishes by chance, and intervals are far too short.
PRIOR_DEVIATION = 2.0
# Change of a log noise variance at the start to where there is little noise.
TO_LITTLE_NOISE = -np.log(100.0)


class NoiseData(NamedTuple):
    """The data for which settings make a plan.

    ``X`` (N, D) holds the rows, and ``spread`` their distances; ``variance`` (n_outputs,) is the
    mean square of each output; ``columns`` holds the names of the columns. ``prior_variance``
    (n_outputs,) is the variance of each output about its mean, which determines the prior of the
    noise, or None without a prior.
    """

    X: np.ndarray
    spread: Spread
    variance: np.ndarray
    columns: list
    prior_variance: np.ndarray | None

    @property
    def prior_mean(self):
        """The mean of the prior of each log noise variance, (n_outputs,), or None without one."""
        return None if self.prior_variance is None else np.log(START * self.prior_variance)


def noise_prior(mean, n_params=1):
    """Return the `ProductPrior` of log noise variances with the prior means `mean` (n_outputs,).

    Each is the first of `n_params` parameters of its output. Without prior means there is no prior.
    """
    if mean is None:
        return ProductPrior()
    return ProductPrior((NormalPrior(n_params * np.arange(len(mean)), mean, PRIOR_DEVIATION),))


def shape_prior(model):
    """Return the `ProductPrior` of the parameter of a model's likelihood of positive targets.

    It is about that of a Gaussian noise variance of log y, relative to what a constant f leaves.
    Other likelihoods have no such prior.
    """
    likelihood = model.likelihood
    if FREE_OF_NOISE not in getattr(likelihood, "at_limit", {}).values():
        return ProductPrior()
    # In units of the step that divides the variance by a hundred.
    step = likelihood.to_little_noise
    means = [
        likelihood.constant_params(y, model.weight, model.fit_prior_mean)
        + step * np.log(START) / TO_LITTLE_NOISE
        for y in model.targets
    ]
    deviation = abs(step / TO_LITTLE_NOISE) * PRIOR_DEVIATION
    return ProductPrior((NormalPrior.of_all(np.concatenate(means), deviation),))


class NoiseSettings(BaseEstimator):
    """Base class of the settings, whose method ``_plan(data)`` makes the `NoisePlan`.

    If it ``has_outliers``, these must not determine the centre and the scale of the targets. If it
    ``takes_limits``, some targets may be censored. If it ``takes_known``, `fit` may get variances
    of the noise: they replace it, or it is added to them if it ``needs_known``. Unless it
    ``sees_transforms``, a fit transforms columns only where the user demands it.
    """

    has_outliers = takes_limits = takes_known = needs_known = False
    sees_transforms = True


class NoisePlan(ABC):
    """Builds the core's model with one kind of noise.

    If the noise ``varies`` with the row, learning starts from the optimum with homoscedastic noise,
    whose log variances, shape (n_outputs,), become ``log_noise``; from other starts it tends to
    explain variation of f as noise. ``hyperparameters`` are the `Hyperparameters` of a noise
    process, else None, and ``names`` describes the terms of a polynomial. Nothing of the noise is
    learned if it ``is_known``.
    """

    varies = is_known = False
    hyperparameters = names = None

    def rows_of(self, targets, merged):
        """Return the `MergedRows` of `Targets` that the model has.

        By default it has those that are `merged` from all rows with equal X, and if targets are
        censored, the `censored_rows`.
        """
        return merged if targets.event is None else censored_rows(targets)

    def extend(self, hyperparameters, model):
        """Return `Hyperparameters` followed by those of the noise; `model` is that of the plan."""
        return hyperparameters

    def prior(self, spread):
        """Return the `ProductPrior` of what `extend` adds, given the `Spread` of the rows.

        Only that of a noise process depends on the spread.
        """
        return ProductPrior()

    @abstractmethod
    def model(self, kernel, targets, rows, options):
        """Return the core's model of `Targets` at `MergedRows`.

        `kernel` is a `FreeKernel`; `options` are those of `SparseModel`.
        """

    def model_with_noise(self, kernel, targets, rows, options, learned):
        """Return a model with the `LearnedNoise` of an earlier fit, and an offset for its bound.

        If noise is among its parameters, it has the prior of the noise.
        """
        prior = ProductPrior().joined(self.prior(None), kernel.n_params)
        return self.model(kernel, targets, rows, {**options, "prior": prior}), 0.0

    @abstractmethod
    def learned(self, evaluation):
        """Return the `LearnedNoise` of an `Evaluation`, or None if the user gives the variances."""

    def is_like(self, other):
        """Return whether a fit with this plan may start from a fit with the other."""
        return type(self) is type(other) and self.names == other.names


class LearnedNoise(ABC):
    """Noise that a fit has learned; it predicts the noise at any row.

    ``points`` (m, D) are the inducing points of a noise process, and ``prior_means`` (n_outputs,)
    its prior means; ``df`` and ``scale`` (n_outputs,) are the degrees of freedom and the scale of
    Student-t noise. They are None for other noise. If it ``adds_to_known``, what is known of the
    variance of a row is added to it; otherwise that replaces it.
    """

    points = prior_means = df = scale = None
    adds_to_known = False

    @property
    def constant(self):
        """The variance of each output, shape (n_outputs,), or None if it depends on the row."""
        return None

    @abstractmethod
    def variance_at(self, X):
        """Return the distribution of the noise variance at rows, arrays (n_outputs, N).

        It has the methods of `LogNormalVariance`.
        """

    @abstractmethod
    def log_samples(self, X, n_samples, rng):
        """Return draws of the log noise variance, shape (n_outputs, n_samples, N)."""


class LogNormalNoise(LearnedNoise):
    """Learned noise whose log variance has moments at each row."""

    def variance_at(self, X):
        return LogNormalVariance(*map_rows(lambda X: np.stack(self.log_moments(X)), X))

    @abstractmethod
    def log_moments(self, X):
        """Return mean and variance of the log noise variance, shape (n_outputs, N) each."""
