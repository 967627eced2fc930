r"""Periodograms of numbers at irregular positions, by Fourier transforms of one band at a time.

The power at a frequency f is :math:`|\sum_n d_n e^{-2 \pi i f x_n}|^2`. Within a band, the numbers
are first turned by its middle frequency. What is left varies so slowly that positions may be
rounded, and then a transform as short as the band is narrow yields all its frequencies.
"""

from itertools import pairwise

import numpy as np
from scipy.fft import fft, next_fast_len
from scipy.optimize import minimize_scalar

from sparsegpc._core.numerics.floats import TINY

# Frequencies in each cycle. A peak is about two cycles wide.
DENSITY = 4
# Bins in the shortest of the periods that are left within a band, of at most so many cycles.
BINS, BAND = 4, 4096
# Half the distance, in cycles, within which the maximum near a peak is sought, and its tolerance.
NEAR, CLOSE = 0.3, 0.003


def periodogram(u, numbers, lowest, highest, density=DENSITY):
    """Return frequencies (m,), ascending, and the power (K, m) of numbers (K, n) at each.

    The positions u (n,) are within [0, 1], and frequencies are cycles over this range, from
    `lowest` to `highest`, `density` of them in each cycle. The cost is that of m log m and of n K
    for every `BAND` cycles.
    """
    n_bands = max(1, int(np.ceil((highest - lowest) / BAND)))
    edges = np.linspace(lowest, highest, n_bands + 1)
    found = [_band(u, numbers, *band, density) for band in pairwise(edges)]
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))


def highest_peaks(heights, most):
    """Return the indices of at most so many of the highest local maxima of heights (m,).

    A parabola through a maximum and its neighbours tells how high it is between these.
    """
    padded = np.pad(heights, 1, mode="edge")
    before, after = heights - padded[:-2], heights - padded[2:]
    peaks = np.flatnonzero((before >= 0.0) & (after >= 0.0))
    before, after = before[peaks], after[peaks]
    tops = heights[peaks] + (before - after) ** 2 / np.maximum(8.0 * (before + after), TINY)
    return peaks[np.argsort(-tops, kind="stable")[:most]]


def highest_near(function, frequency, lowest=0.0, highest=np.inf):
    """Return the frequency near another, within limits, where a function is highest; its value."""
    limits = np.clip([frequency - NEAR, frequency + NEAR], lowest, highest)
    options = {"xatol": CLOSE}
    found = minimize_scalar(
        lambda f: -function(f), bounds=limits, method="bounded", options=options
    )
    return float(found.x), -float(found.fun)


def _band(u, numbers, lowest, highest, density):
    """Return the `periodogram` from `lowest` up to, but without, `highest`, in one transform."""
    n_bins = int(np.ceil(BINS * max(highest - lowest, 1.0))) + 1
    bins = np.minimum((u * n_bins).astype(np.intp), n_bins - 1)
    length = next_fast_len(density * n_bins)
    spacing = n_bins / length
    n_steps = max(1, int(np.ceil((highest - lowest) / spacing)))
    steps = np.arange(n_steps) - n_steps // 2
    middle = lowest + spacing * (n_steps // 2)
    turned = np.exp(-2j * np.pi * middle * u)
    power = np.empty((len(numbers), len(steps)))
    for k, each in enumerate(numbers):
        z = turned * each
        sums = np.bincount(bins, z.real, n_bins) + 1j * np.bincount(bins, z.imag, n_bins)
        power[k] = np.abs(fft(sums, length)[steps]) ** 2
    # Where frequencies are far from the middle, numbers within a bin partly cancel each other.
    return middle + spacing * steps, power / np.sinc(spacing * steps / n_bins) ** 2
