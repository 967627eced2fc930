r"""The periods with which deviations from a constant function repeat along a column.

As a function of a period, the bound has a narrow peak at each multiple of the true period and many
low ones elsewhere, so a search finds the period only from nearby. The periodogram of the deviations
shows where to begin (`harmonic_signals`). One signal after the other is removed together with a
line, so that neither a slow trend nor the harmonics of the first period hide a second one.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.diagnostics.deviations import row_deviations
from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.periods.harmonic_signals import HarmonicSignals
from sparsegpc._core.selection.selectors import InducingPoints

# Number of signals, and of rows that tell them.
N_SIGNALS, MOST_ROWS = 4, 10_000
# A cycle over the range is the unit of frequencies. Without a limit there are at most so many for
# each pair of rows, since of many frequencies noise of few rows looks like one by chance, and at
# most MOST_FREE. With a limit there are at most MOST_CYCLES.
CYCLES_PER_PAIR, MOST_FREE, MOST_CYCLES = 0.2, 2.0**16, 2.0**20
# Further signals must gain this multiple of log n times the median gain of n frequencies. Noise
# reaches about half of it.
LEAST_GAIN = 3.0


class Signal(NamedTuple):
    """A signal with a period.

    ``period`` is the likeliest one, and ``rivals`` are a list of others that suit about as well,
    such as aliases. ``left`` is the share of the variance that remains after this signal and the
    stronger ones.
    """

    period: float
    rivals: list
    left: float


def constant_deviations(model, theta, bounds):
    """Return random rows X (n, D), and deviations and precisions (K, n) from a constant function.

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
    precisions = np.stack([solution.sites.precision for solution in found.solutions])
    return part.X[:], row_deviations(found, part.X[:], slice(None)), precisions


def likely_periods(x, deviations, precisions, lowest=0.0, highest=np.inf):
    """Return up to `N_SIGNALS` of `Signal` in deviations along a column x (n,), strongest first.

    There may be none, and all but the first are clear of noise. `deviations` (K, n) are slopes of
    log likelihoods, of curvatures `precisions` (K, n).

    Periods are between `lowest` and `highest`, and at most the range of the column. ``lowest=0``
    means the shortest period that the number of rows supports (`CYCLES_PER_PAIR`). Of periods that
    look the same with regular sampling, only the longest is returned.
    """
    extent = float(np.ptp(x))
    if not extent > TINY or lowest > extent:
        return []
    u = (x - x.min()) / extent
    low, high = _frequencies(len(x), extent, lowest, highest)
    signals, found = HarmonicSignals(u, deviations, precisions, low, high), []
    while len(signals.frequencies) and len(found) < N_SIGNALS:
        gains = signals.sine_gains()
        if found and gains.max() < LEAST_GAIN * np.log(len(gains)) * np.median(gains):
            break
        likely = signals.likely(gains)
        if not likely:
            break
        signals.remove(*likely[0])
        periods = [extent / frequency for frequency, _ in likely]
        found.append(Signal(periods[0], periods[1:], signals.share_left))
    return found


def _frequencies(n_rows, extent, lowest, highest):
    """Return the lowest and the highest frequency of periods within limits."""
    low = max(extent / highest, 1.0)
    most = MOST_CYCLES if lowest else min(CYCLES_PER_PAIR * n_rows**2 / 2.0, MOST_FREE)
    return low, min(low + most, extent / lowest if lowest else np.inf)
