r"""The periods with which deviations from a constant function repeat along a column.

As a function of a period, the bound has a narrow peak at each multiple of the true period and many
low ones elsewhere, so a search finds the period only from nearby. The periodogram of the deviations
shows where to begin: one period after the other explains most of what a line and the periods before
it leave, so that neither a slow trend nor the harmonics of the first period hide a second one.
"""

import numpy as np
from scipy.fft import next_fast_len, rfft

from sparsegpc._core.models.deviations import row_deviations
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.selection.selectors import InducingPoints

# Number of periods, and of rows that tell them.
N_PERIODS, MOST_ROWS = 4, 10_000
# Values count as the same if they are nearer to each other than this fraction of the mean gap.
SAME = 0.1
# The power counts times this power of the period. Of several periods with about the same power the
# longest may be real, and the others are aliases: one more or less of it from reading to reading.
PREFERENCE = 0.03
# Further periods must have a power of this multiple of log n times the median of n frequencies.
# Noise reaches about half of it.
LEAST_POWER = 3.0
# Each peak of the periodogram spans about this many frequencies.
OVERSAMPLING = 8
# Bins for each of the shortest periods, and the most bins along the column.
BINS_PER_PERIOD, MOST_BINS = 4, 2**17


def constant_deviations(model, theta, bounds):
    """Return random rows X (n, D) and their deviations (K, n) from a nearly constant function.

    Evenly spaced rows would show other periods than all rows. The hyperparameters are those nearest
    to `theta`, within `bounds` (P, 2), at which f is nearly constant. Raises `LinAlgError` if the
    bound cannot be computed there.
    """
    part, n_rows = model, len(model.weight)
    if n_rows > MOST_ROWS:
        rows = np.random.RandomState(0).choice(n_rows, MOST_ROWS, replace=False)
        part = model.subset(np.sort(rows))
    theta = part.constant_theta(theta, bounds)
    # Another number of points would hardly change a constant.
    points = part.with_noise_points(InducingPoints(part.X[:1]), theta)
    found = part.evaluate(theta, points, part.initial_state(), wrt_theta=False)
    return part.X[:], row_deviations(found, part.X[:], slice(None))


def likely_periods(x, deviations, lowest=0.0, highest=np.inf, share=1.0):
    """Return up to `N_PERIODS` periods of deviations (K, n) along a column x (n,), strongest first.

    They are between twice the typical distance of neighbouring values and the range of the column,
    and between `lowest` and `highest`. There may be none, and all but the first are clear of noise.
    `share` is the fraction of all rows that these random ones are.
    """
    shortest = _shortest_period(x, share)
    x = x - x.min()
    extent = x.max()
    shortest = max(shortest, BINS_PER_PERIOD * extent / MOST_BINS)
    width = shortest / BINS_PER_PERIOD
    if not width > TINY:
        return []
    periodogram = _Periodogram(x, width, max(shortest, lowest), min(extent, highest))
    periods = periodogram.periods
    deviations = deviations / max(float(np.abs(deviations).max()), TINY)
    explained, found = [np.ones(len(x)), x / extent], []
    while len(periods) and len(found) < N_PERIODS:
        power = periodogram.power(_remainder(deviations, np.column_stack(explained)))
        if found and power.max() < LEAST_POWER * np.log(len(power)) * np.median(power):
            break
        found.append(float(periods[(power * periods**PREFERENCE).argmax()]))
        phase = 2.0 * np.pi * x / found[-1]
        explained += [np.cos(phase), np.sin(phase)]
    return found


def _remainder(deviations, explained):
    """Return what functions `explained` (n, k) leave of deviations (K, n) after least squares."""
    coefficients = np.linalg.lstsq(explained, deviations.T, rcond=None)[0]
    return deviations - (explained @ coefficients).T


class _Periodogram:
    """The periodogram of numbers along a column x (n,), which begins at zero, in bins of a width.

    ``periods`` are those between the limits `lowest` and `highest` at which it is computed.
    """

    def __init__(self, x, width, lowest, highest):
        self._bins = (x / width).astype(np.intp)
        self._n_bins = next_fast_len(OVERSAMPLING * (int(self._bins.max()) + 1), real=True)
        periods = self._n_bins * width / np.maximum(np.arange(self._n_bins // 2 + 1), 0.5)
        self._allowed = np.flatnonzero((periods >= lowest) & (periods <= highest))
        self.periods = periods[self._allowed]

    def power(self, deviations):
        """Return the power of deviations (K, n) of all functions at each of the periods."""
        power = np.zeros(len(self.periods))
        for each in deviations:
            sums = np.bincount(self._bins, each, minlength=self._n_bins)
            power += np.abs(rfft(sums)[self._allowed]) ** 2
        return power


def _shortest_period(x, share):
    """Return twice the typical distance of neighbouring values x (n,), zero if all are the same.

    It is that of all rows, of which these are the fraction `share`.
    """
    values = np.unique(x)
    gaps = np.diff(values)
    # Values that are nearly the same, such as two readings within a minute each day, say nothing of
    # periods as short as that.
    gaps = gaps[gaps > SAME * (values[-1] - values[0]) / len(values)]
    return 2.0 * share * float(np.median(gaps)) if len(gaps) else 0.0
