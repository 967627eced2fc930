"""What every kind of observation noise offers: its settings, its plan, and what was learned of it.

A kind of noise is one file with up to three classes. The *settings* are what users give, and make
a *plan*: how the noise enters the core's model for given rows. What a fit finds is the *learned*
noise, which gives the noise at new rows.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from sparsegpc._estimators.kernels.spread import Spread

# Start and limits of a noise variance, relative to the variance of the targets.
START, LIMITS = 0.1, (1e-8, 10.0)


class NoiseSetting(NamedTuple):
    """What a plan is made for.

    ``X`` are the rows, of shape (N, D), ``spread`` holds their distances; ``variance``
    (n_outputs,) is the mean square of each output; ``columns`` are names of the columns.
    """

    X: np.ndarray
    spread: Spread
    variance: np.ndarray
    columns: list


class NoisePlan(ABC):
    """How noise enters the core's model.

    Attributes
    ----------
    varies : bool
        Whether the noise is learned row by row. Then learning starts from where noise of one
        variance led: from anywhere else it is apt to take for noise what f has yet to learn.
    is_given : bool
        Whether its variances come with the rows, so that there are none for new rows.
    """

    varies = False
    is_given = False

    def extend(self, parameters):
        """Return an `AdaptedKernel` with the plan's own parameters behind it."""
        return parameters

    @abstractmethod
    def model(self, kernel, targets, rows, options):
        """Return the core's model of `Targets` at `UniqueRows`.

        `kernel` is a `FreeKernel`; `options` are those of `SparseModel`.
        """

    def restated(self, kernel, targets, rows, options, learned):
        """Return the model of given rows with the learned noise, and what to add to its bound."""
        return self.model(kernel, targets, rows, options), 0.0

    @abstractmethod
    def learned(self, evaluation):
        """Return the `LearnedNoise` of an `Evaluation`, or None if variances are given."""

    def starting_at(self, log_noise):
        """Return the plan that begins with these log variances, shape (n_outputs,)."""
        return self

    def going_on(self, learned):
        """Return the plan that begins where an earlier fit ended."""
        return self

    def starts(self, spread):
        """Return values of the plan's own parameters to start from."""
        return []

    def limit_meaning(self, name, side):
        """Say what it means that one of the plan's parameters is at its "lower" or "upper" limit.

        Empty if nothing is known, None where users need not be warned.
        """
        return ""

    def is_like(self, other):
        """Return whether a fit by this plan may go on from one by the other."""
        return type(self) is type(other)


class LearnedNoise(ABC):
    """The noise that a fit found, at any row.

    Attributes
    ----------
    points : ndarray of shape (m, D) or None
        Inducing points, if it has any.
    """

    points = None

    @property
    def constant(self):
        """The variance of each output, shape (n_outputs,), or None where it differs by row."""
        return None

    @abstractmethod
    def log_moments(self, X):
        """Return mean and variance of the log noise variance, shape (n_outputs, N) each."""

    @abstractmethod
    def log_samples(self, X, n_samples, rng):
        """Return draws of the log noise variance, shape (n_outputs, n_samples, N)."""
