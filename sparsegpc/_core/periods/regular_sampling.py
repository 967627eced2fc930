"""Frequencies that regular sampling cannot tell apart.

A sampling frequency g adds whole turns from each position to the next. So cycles of the frequencies
f and g - f look the same: the half of g is a mirror. At g the spectral window, the share of its
power that a constant keeps, is as high as at zero. Irregular sampling has no such frequency.
"""

import numpy as np

from sparsegpc._core.periods.periodograms import highest_near, highest_peaks, periodogram

# The spectral window at a sampling frequency is at least SAME. The first few peaks of a coarse
# window that are at least LOOK are looked at.
SAME, LOOK, N_LOOKS = 0.999, 0.6, 20
# So many positions show it, at so many frequencies in each cycle.
MOST_POSITIONS, DENSITY = 1000, 2


class RegularSampling:
    """Where positions u (n,) within [0, 1] mirror frequencies between `low` and `high`.

    Frequencies are cycles over the range. Below the first one there is only a trend, which counts
    as a frequency, too.
    """

    def __init__(self, u, low, high):
        self._low = low if low > 1.0 else 0.0
        self._mirrors = _mirrors(u, low, high)

    def is_longest(self, frequencies):
        """Return whether no lower frequency within the limits looks the same, for each of some."""
        if not len(self._mirrors):
            return np.ones(np.shape(frequencies), dtype=bool)
        last = np.searchsorted(self._mirrors, frequencies) - 1
        return (last < 0) | (2.0 * self._mirrors[last] - frequencies < self._low)


def _mirrors(u, low, high):
    """Return the halves (m,) of sampling frequencies that may be within the limits, ascending."""
    positions = np.unique(u)
    if len(positions) > MOST_POSITIONS:
        positions = np.random.RandomState(0).choice(positions, MOST_POSITIONS, replace=False)

    def window(frequency):
        return np.abs(np.exp(2j * np.pi * frequency * positions).mean()) ** 2

    ones = np.full((1, len(positions)), 1.0 / len(positions))
    frequencies, power = periodogram(positions, ones, 2.0 * low, 2.0 * high, DENSITY)
    heights = power[0]
    # Around zero, the window has a lobe that is the wider the more positions are in one place.
    heights[: int((heights < 0.5).argmax())] = 0.0
    peaks = np.sort(highest_peaks(heights, len(heights)))
    peaks = peaks[heights[peaks] >= LOOK][:N_LOOKS]
    maxima = [highest_near(window, frequency) for frequency in frequencies[peaks]]
    found = [frequency for frequency, height in maxima if height >= SAME]
    if len(found) < 2:
        return 0.5 * np.array(found)
    return 0.5 * np.arange(found[0], 2.0 * high, found[1] - found[0])
