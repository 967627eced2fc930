r"""Signals with a period and some harmonics in deviations of irregularly sampled rows.

The peaks of the periodogram, and the halves, doubles and triples of their periods, are compared by
least squares with a few harmonics. Deviations :math:`d_n` are slopes of log likelihoods and
precisions :math:`p_n` their curvatures, so a signal h may explain a share q of
:math:`\sum_n d_n^2 / p_n`. As in a regression whose noise variance is unknown, it gains
:math:`-\frac{n}{2} \log(1 - q)` nats.
"""

import numpy as np

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.periods.periodograms import NEAR, highest_near, highest_peaks, periodogram
from sparsegpc._core.periods.regular_sampling import RegularSampling

# Peaks of the periodogram that are compared by least squares, with up to so many harmonics, of
# which each needs so many rows.
N_PEAKS, N_HARMONICS, ROWS_PER_HARMONIC = 8, 4, 10
# A harmonic must gain this multiple of what the Bayesian information criterion asks. Multiples of a
# period need further harmonics, and several are tried.
STRICTNESS = 1.5
# Periods that may be meant by a peak, as multiples of that of the peak.
MULTIPLES = np.array([1.0, 2.0, 0.5, 3.0])
# There are at most so many rivals of a period, and they are at most so many nats worse. They are no
# multiples of a better one with more harmonics: these admit the same functions, and searches begin
# where they favour them.
N_RIVALS, MARGIN = 4, 1.5
# A ratio of two frequencies is whole within this share of it.
SAME_RATIO = 0.03
# Precisions as shares of the largest one are at least this high, and what is explained is at most
# this share. The jitter makes Gram matrices regular, as at the Nyquist frequency.
LEAST_PRECISION, MOST_SHARE, JITTER = 1e-12, 1.0 - 1e-6, 1e-12


class HarmonicSignals:
    """What remains of deviations (K, n) of rows at positions u (n,) while signals are removed.

    ``frequencies`` are those of the periodogram.
    """

    def __init__(self, u, deviations, precisions, low, high):
        self._u, self._limits = u, (low, high)
        self._sampling = RegularSampling(u, low, high)
        self._precisions = np.maximum(precisions / max(precisions.max(), TINY), LEAST_PRECISION)
        self._given = deviations / max(float(np.abs(deviations).max()), TINY)
        self._removed = [np.ones(len(u)), u]
        self._n_harmonics = int(np.clip(len(u) // ROWS_PER_HARMONIC, 1, N_HARMONICS))
        self._left, self._total = self._remainder()
        self._first_total = self._total
        frequencies, _ = periodogram(u, self._left[:0], low, high)
        self._allowed = self._sampling.is_longest(frequencies)
        self.frequencies = frequencies[self._allowed]

    @property
    def share_left(self):
        """The share of the variance that remains."""
        return self._total / max(self._first_total, TINY)

    def remove(self, frequency, n_harmonics):
        """Remove a signal with some harmonics."""
        self._removed += list(_harmonics(self._u, frequency, n_harmonics))
        self._left, self._total = self._remainder()

    def sine_gains(self):
        """Return what a sine of each of the frequencies gains, about, in nats."""
        _, power = periodogram(self._u, self._left, *self._limits)
        power = power[:, self._allowed] / self._precisions.sum(axis=1, keepdims=True)
        return self._nats(2.0 * power.sum(axis=0))

    def likely(self, gains):
        """Return a list of frequencies and numbers of harmonics, the likeliest first.

        `gains` are those of `sine_gains`. The frequency has a log-uniform prior, so it must gain
        the more the higher it is.
        """
        peaks = highest_peaks(gains - np.log(self.frequencies), N_PEAKS)
        found = {}
        for frequency in self.frequencies[peaks]:
            maximum = self._maximum_near(frequency, 1)
            for other in maximum / MULTIPLES:
                is_new = all(abs(other - known) > NEAR for known in found)
                if is_new and self._limits[0] <= other <= self._limits[1]:
                    found[other] = self._score(other)
        shortlist = sorted(found.items(), key=lambda item: -item[1][0])[:N_PEAKS]
        ranked = []
        for frequency, (_, n_harmonics) in shortlist:
            maximum = self._maximum_near(frequency, n_harmonics)
            if self._sampling.is_longest(maximum):
                ranked.append((*self._score(maximum), maximum))
        ranked.sort(reverse=True)
        likely = []
        for score, n_harmonics, frequency in ranked:
            adds_harmonics = any(
                n_harmonics > n_other and _is_whole(other / frequency) for other, n_other in likely
            )
            if score >= ranked[0][0] - MARGIN and not adds_harmonics:
                likely.append((frequency, n_harmonics))
        return likely[:N_RIVALS]

    def _maximum_near(self, frequency, n_harmonics):
        """Return the frequency near another at which some harmonics gain most."""

        def gain(f):
            return self._explained(f, n_harmonics)[-1]

        return highest_near(gain, frequency, *self._limits)[0]

    def _score(self, frequency):
        """Return the log posterior of a frequency up to a constant, and the number of harmonics."""
        explained = self._explained(frequency, self._n_harmonics)
        n_harmonics = np.arange(1, len(explained) + 1)
        # The Bayesian information criterion has half of log n for each of two coefficients.
        penalty = STRICTNESS * len(self._left) * np.log(len(self._u)) * n_harmonics
        scores = self._nats(explained) - penalty - np.log(frequency)
        return float(scores.max()), int(scores.argmax()) + 1

    def _nats(self, explained):
        """Return the gain of the log likelihood by what is explained of the sum of squares."""
        share = np.minimum(explained / max(self._total, TINY), MOST_SHARE)
        return -0.5 * self._left.size * np.log1p(-share)

    def _explained(self, frequency, n_harmonics):
        """Return what least squares explain with one, two ... harmonics, shape (n_harmonics,)."""
        n_before = len(self._removed)
        columns = np.vstack([*self._removed, _harmonics(self._u, frequency, n_harmonics)])
        explained = np.zeros(len(columns))
        for left, precision in zip(self._left, self._precisions, strict=True):
            gram = (columns * precision) @ columns.T
            gram[np.diag_indices_from(gram)] += JITTER * np.trace(gram)
            explained += solve_lower(np.linalg.cholesky(gram), columns @ left) ** 2
        return np.cumsum(explained)[n_before + 1 :: 2]

    def _remainder(self):
        """Return what least squares leave of the deviations, and its weighted sum of squares."""
        columns, left = np.column_stack(self._removed), np.empty_like(self._given)
        for k, (given, precision) in enumerate(zip(self._given, self._precisions, strict=True)):
            root = np.sqrt(precision)
            solution = np.linalg.lstsq(root[:, None] * columns, given / root, rcond=None)[0]
            left[k] = given - precision * (columns @ solution)
        return left, float((left**2 / self._precisions).sum())


def _harmonics(u, frequency, n_harmonics):
    """Return cosines and sines (2 n_harmonics, n) of a frequency and its multiples."""
    turn = np.exp(2j * np.pi * frequency * u)
    powers = np.cumprod(np.tile(turn, (n_harmonics, 1)), axis=0)
    return np.stack([powers.real, powers.imag], axis=1).reshape(2 * n_harmonics, len(u))


def _is_whole(ratio):
    """Return whether a ratio of two frequencies is about a whole number."""
    return round(ratio) > 0 and abs(ratio / round(ratio) - 1.0) < SAME_RATIO
