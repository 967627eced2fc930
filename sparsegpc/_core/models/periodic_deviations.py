r"""The periods with which deviations from a constant function repeat along a column.

As a function of a period, the bound has a narrow peak at each multiple of the true period and many
low ones elsewhere, so a search finds the period only from nearby. The periodogram of the deviations
shows where to begin: one period after the other explains most of what a line and the periods before
it leave, so that neither a slow trend nor the harmonics of the first period hide a second one.
"""

import numpy as np
from scipy.fft import next_fast_len, rfft

from sparsegpc._core.models.neighbour_correlation import row_deviations
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.selectors import InducingPoints

# Number of periods, and of rows that tell them.
N_PERIODS, MOST_ROWS = 4, 10_000
# Each peak of the periodogram spans about this many frequencies.
OVERSAMPLING = 8
# Bins for each of the shortest periods, and the most bins along the column.
BINS_PER_PERIOD, MOST_BINS = 4, 2**17


def constant_deviations(model, theta, bounds):
    """Return some rows X (n, D) and their deviations (K, n) from a nearly constant function.

    The hyperparameters are those nearest to `theta`, within `bounds` (P, 2), at which f is nearly
    constant. Raises `LinAlgError` if the bound cannot be computed there.
    """
    part = model.subset(spaced_rows(model.weight, MOST_ROWS))
    theta = part.constant_theta(theta, bounds)
    # Another number of points would hardly change a constant.
    points = part.with_noise_points(InducingPoints(part.X[:1]), theta)
    found = part.evaluate(theta, points, part.initial_state(), wrt_theta=False)
    return part.X[:], row_deviations(found, part.X[:], slice(None))


def likely_periods(x, deviations, lowest=0.0, highest=np.inf):
    """Return up to `N_PERIODS` periods of deviations (K, n) along a column x (n,), the first first.

    They are between twice the median distance of neighbouring values and the range of the column,
    and between `lowest` and `highest`. There may be none.
    """
    values = np.unique(x)
    if len(values) < 2:
        return []
    extent = values[-1] - values[0]
    shortest = max(2.0 * float(np.median(np.diff(values))), BINS_PER_PERIOD * extent / MOST_BINS)
    width = shortest / BINS_PER_PERIOD
    places = ((x - values[0]) / width).astype(np.intp)
    n_places = next_fast_len(OVERSAMPLING * (int(places.max()) + 1), real=True)
    periods = n_places * width / np.maximum(np.arange(n_places // 2 + 1), 0.5)
    longest = min(extent, highest)
    allowed = np.flatnonzero((periods >= max(shortest, lowest)) & (periods <= longest))
    basis, found = [np.ones(len(x)), (x - values[0]) / extent], []
    while len(allowed) and len(found) < N_PERIODS:
        explained = np.column_stack(basis)
        coefficients = np.linalg.lstsq(explained, deviations.T, rcond=None)[0]
        rest = deviations - (explained @ coefficients).T
        sums = [np.bincount(places, each, minlength=n_places) for each in rest]
        power = (np.abs(rfft(sums)[:, allowed]) ** 2).sum(axis=0)
        found.append(float(periods[allowed[power.argmax()]]))
        phase = 2.0 * np.pi * (x - values[0]) / found[-1]
        basis += [np.cos(phase), np.sin(phase)]
    return found
