"""Regression targets: merging of equal rows, centring and scale."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.likelihoods.censored import best_constant, censored_targets
from sparsegpc._core.numerics.medians import robust_deviation, weighted_median
from sparsegpc._core.rows.merged_rows import first_copies, merge_tables
from sparsegpc._core.rows.near_copies import SAME_X, SAME_Y, copied_rows
from sparsegpc._core.rows.sources import RowSource, take_rows
from sparsegpc._estimators.input.events import check_events
from sparsegpc._estimators.input.validation import (
    check_noise_variance,
    check_weights,
    refuse_overflow,
)

# How many censored targets tell their size and spread.
SOME_ROWS = 20_000


class Targets(NamedTuple):
    """Rows of positive weight, with targets (n_outputs, N).

    ``noise_variance`` and ``event`` have the shape of ``y``, or are None: the variance of the noise
    if it is known, and 1 if a target was observed, 0 if it is only a lower limit, -1 if it is only
    an upper one. ``places`` holds the indices of these rows among the user's.
    """

    X: np.ndarray | RowSource
    y: np.ndarray
    weight: np.ndarray
    noise_variance: np.ndarray | None
    event: np.ndarray | None
    places: np.ndarray

    def centres(self, robust=False):
        """Return the centre of each output, (n_outputs,), see the function `centres`."""
        if self.event is None:
            return centres(self.y, self.weight, robust)
        return self._constants()[0]

    def deviations(self, centre, robust=False):
        """Return the deviation of each output from `centre` (n_outputs,), see `deviations`."""
        if self.event is None:
            return deviations(self.y, self.weight, centre, robust)
        constant, variance = self._constants()
        return np.sqrt(variance + (constant - centre) ** 2)

    def variances(self, robust=False):
        """Return the variance of each output, (n_outputs,), see the function `variances`."""
        if self.event is None:
            return variances(self.y, self.weight, robust)
        return self._constants()[1]

    def second_moments(self, robust=False):
        """Return the mean square of each output, (n_outputs,), see `second_moments`."""
        if self.event is None:
            return second_moments(self.y, self.weight, robust)
        return self.deviations(np.zeros(len(self.y))) ** 2

    def _constants(self):
        """Return means and variances, (n_outputs,) each, of the best Gaussians for limits."""
        found = []
        for y, event in zip(self.y, self.event, strict=True):
            # Of many rows, some of each kind of event.
            order = np.argsort(event, kind="stable")
            some = order[:: -(-len(order) // SOME_ROWS)]
            found.append(best_constant(censored_targets(y[some], event[some]), self.weight[some]))
        return tuple(np.array(part) for part in zip(*found, strict=True))

    def without_copies(self):
        """Return the rows that differ by more than rounding, with weights of at most one.

        Rows of a `RowSource` are not compared.
        """
        if isinstance(self.X, RowSource) or self.noise_variance is not None:
            return self._replace(weight=np.minimum(self.weight, 1.0))
        values = self.y if self.event is None else np.concatenate([self.y, self.event])
        table = np.column_stack([self.X, values.T])
        shares = np.repeat([SAME_X, SAME_Y], [self.X.shape[1], len(values)])
        middles = centres(table.T, self.weight, robust=True)
        scales = deviations(table.T, self.weight, middles, robust=True)
        originals = copied_rows(table, shares * scales)
        kept = np.unique(originals)
        weight = np.bincount(originals, self.weight)[kept]
        event = None if self.event is None else self.event[:, kept]
        parts = self.X[kept], self.y[:, kept], np.minimum(weight, 1.0)
        return Targets(*parts, None, event, self.places[kept])


def merged_targets(X, y, sample_weight, noise_variance, event=None):
    """Return the `Targets` of the merged rows of positive weight.

    Rows that agree in X, y, noise and event are merged, their weights are added, and the rows are
    sorted. All results are therefore identical, to the last bit, for a weight of k and for k
    copies, and for any order of the rows. Rows of a `RowSource` are neither merged nor sorted.
    """
    outputs = y.reshape(len(y), -1)
    refuse_overflow(outputs, "y", remedy="choose another unit")
    weight = check_weights(sample_weight, len(X))
    present = np.flatnonzero(weight)
    tables = [X, outputs]
    if noise_variance is not None:
        tables.append(check_noise_variance(noise_variance, *outputs.shape).T)
    if event is not None:
        tables.append(check_events(event, *outputs.shape).T)
    tables, weight = [take_rows(table, present) for table in tables], weight[present]
    if not isinstance(X, RowSource):
        tables, weight, order, starts = merge_tables(tables, weight)
        present = present[first_copies(order, starts)]
    X, outputs, *given = tables
    noise_variance = None if noise_variance is None else given.pop(0).T
    event = None if event is None else given.pop(0).T
    return Targets(X, outputs.T, weight, noise_variance, event, present)


def centred(y, centre):
    """Return targets (n_outputs, N) minus centre (n_outputs,), zero where only rounding remains."""
    # The rounding error of the largest target, a few units in the last place.
    residue = 1e-14 * np.abs(y).max(axis=1, keepdims=True)
    y = y - centre[:, None]
    return np.where(np.abs(y).max(axis=1, keepdims=True) > residue, y, 0.0)


def centres(y, weight, robust=False):
    """Return the mean of each output of `y` (n_outputs, N), or the median if `robust`."""
    if robust:
        return np.array([weighted_median(output, weight) for output in y])
    share = weight / weight.sum()
    mean = y @ share
    # The rounding error of a sum grows with N; the mean of what it leaves corrects it.
    return mean + (y - mean[:, None]) @ share


def deviations(y, weight, centre, robust=False):
    """Return the standard deviation of each output from `centre` (n_outputs,), or 1 for zero.

    If `robust`, it is that of `robust_deviation`. A deviation that is only rounding is zero.
    """
    y = centred(y, centre)
    if robust:
        return np.array([robust_deviation(output, weight, 0.0) for output in y])
    deviation = np.sqrt(y**2 @ weight / weight.sum())
    return np.where(deviation > 0.0, deviation, 1.0)


def variances(y, weight, robust=False):
    """Return the variance of each output about its centre, or 1 for zero; see `deviations`."""
    return deviations(y, weight, centres(y, weight, robust), robust) ** 2


def second_moments(y, weight, robust=False):
    """Return the mean square of each output of `y` (n_outputs, N), or 1 where all are zero.

    If `robust`, outliers do not add to it.
    """
    moments = y**2 @ weight / weight.sum()
    if robust:
        moments = deviations(y, weight, np.zeros(len(y)), robust) ** 2
    # Products with the inverse of a smaller moment would overflow.
    if ((moments < 1e-280) & y.any(axis=1)).any():
        raise ValueError(
            "y varies by so little that the square underflows: scale the targets, or set "
            "normalize_y=True"
        )
    return np.where(moments > 0.0, moments, 1.0)
