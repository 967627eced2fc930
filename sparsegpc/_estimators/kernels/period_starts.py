"""Start values with the periods that the targets show."""

from collections import defaultdict

import numpy as np
from numpy.linalg import LinAlgError
from sklearn.gaussian_process.kernels import ExpSineSquared

from sparsegpc._core.periods.periodic_deviations import constant_deviations, likely_periods
from sparsegpc._estimators.kernels.hyperparameters import PERIOD
from sparsegpc._estimators.kernels.initialization import plain_starts
from sparsegpc._estimators.kernels.length_scales import with_typical_lengths

# What scikit-learn's defaults are, no user has chosen.
DEFAULT = ExpSineSquared()
DEFAULT_SHORTEST, DEFAULT_LONGEST = DEFAULT.hyperparameter_periodicity.bounds[0]
# Likelihoods begin with about this share of noise, and with this factor less of it after
# `to_little_noise`. A signal has at least the share LEAST_SHARE, and leaves as much.
NOISE_SHARE, LESS_NOISE, LEAST_SHARE = 0.1, 100.0, 0.01


def function_starts(problem):
    """Return start values of theta for f, and the list of those with periods of the targets.

    `problem` has the ``model``, the ``hyperparameters`` and the ``spread`` of the rows.
    """
    hyperparameters, spread = problem.hyperparameters, problem.spread
    periods = PeriodStarts(hyperparameters, spread, problem.model)
    plain = plain_starts(hyperparameters, spread)
    return [*periods.replaced_in(plain), *periods.starts], periods.starts


class PeriodStarts:
    """Start values with the periods of the deviations from a constant function.

    Only kernels that see a single varying column have such periods. If several kernels see the same
    column within the same limits, each gets a signal of its own.

    ``starts`` is a list of theta, the first with the strongest signals; then each kernel has the
    next signal instead, and at last one has a rival of its period. Their variances and their noise
    are as large as the signals and what these leave. A search that began with far too little noise
    would leave the narrow peak of the bound at a period before it has found the noise.
    """

    def __init__(self, hyperparameters, spread, model):
        self._hyperparameters = hyperparameters
        # Groups of indices in theta, by the column and the bounds.
        self._groups = defaultdict(list)
        for k, entry in enumerate(hyperparameters.entries):
            if entry.role == PERIOD:
                varying = [column for column in entry.column if spread.varies[column]]
                if len(varying) == 1:
                    self._groups[varying[0], *hyperparameters.bounds[k]].append(k)
        self._typical = with_typical_lengths(hyperparameters, spread)
        self._signals = self._found_signals(model) if self._groups else {}
        self.starts = [
            np.clip(start, *hyperparameters.bounds.T) for start in self._each() if self._signals
        ]

    def replaced_in(self, starts):
        """Return a list of theta with the strongest signals in place of the periods in `starts`.

        Periods of the first of `starts`, the kernel's own values, remain if the user chose them.
        """
        likeliest, (own, *others) = self._in_turn(0), starts
        values, bounds = np.exp(own), np.exp(self._hyperparameters.bounds)
        default = [DEFAULT.periodicity, DEFAULT_SHORTEST, DEFAULT_LONGEST]
        not_chosen = {
            k: period
            for k, period in likeliest.items()
            if np.allclose([values[k], *bounds[k]], default)
        }
        return [_with(own, not_chosen), *(_with(start, likeliest) for start in others)]

    def _found_signals(self, model):
        """Return a dict of the signals of each group that has any."""
        bounds, found = self._hyperparameters.bounds, {}
        try:
            X, *deviations = constant_deviations(model, self._typical, bounds)
        except LinAlgError:
            # The other start values remain.
            return {}
        for column, *limits in self._groups:
            lowest, highest = np.exp(limits)
            lowest = 0.0 if np.isclose(lowest, DEFAULT_SHORTEST) else lowest
            signals = likely_periods(X[:, column], *deviations, lowest, highest)
            if signals:
                found[column, *limits] = signals
        return found

    def _each(self):
        """Yield the starts before they are clipped to the bounds."""
        for first in range(max(map(len, self._signals.values()), default=0)):
            yield self._scaled(self._in_turn(first))
        for group, signals in self._signals.items():
            for period in signals[0].rivals:
                yield self._scaled(self._in_turn(0) | {self._groups[group][0]: np.log(period)})

    def _in_turn(self, first):
        """Return a dict from indices in theta to logarithms of periods of signals from `first` on.

        The second kernel of a group has the next signal, and so on.
        """
        return {
            k: np.log(signals[(first + turn) % len(signals)].period)
            for group, signals in self._signals.items()
            for turn, k in enumerate(self._groups[group])
        }

    def _scaled(self, periods):
        """Return typical values with these periods, and with variances and noise that suit them."""
        left = 1.0
        for group, signals in self._signals.items():
            left *= signals[min(len(self._groups[group]), len(signals)) - 1].left
        left = np.clip(left, LEAST_SHARE, 1.0 - LEAST_SHARE)
        theta, entries = _with(self._typical, periods), self._hyperparameters.entries
        theta[[entry.is_variance for entry in entries]] += np.log1p(-left)
        steps = np.log(NOISE_SHARE / left) / np.log(LESS_NOISE)
        return theta + steps * self._hyperparameters.to_little_noise


def _with(theta, values):
    """Return theta with other values at some indices."""
    theta = theta.copy()
    theta[list(values)] = list(values.values())
    return theta
