"""Start values of the search, length scales to try, and the prior for a part of the rows."""

import numpy as np

from sparsegpc._core.models.prior import NormalPrior
from sparsegpc._estimators.kernels.length_scales import (
    lengths_by_column,
    lengths_in_units,
    typical_lengths,
    with_typical_lengths,
)

# The shortest start is about the distance within which a row has this fraction of the others.
CLOSEST = 1 / 20
# An even shorter start is about the distance within which a row has this many others.
NEAREST = 4
# A function is nearly linear if its length scales are this many times the typical ones.
NEARLY_LINEAR = 30.0
# Length scales to try for columns that were pruned, in units of the column.
SHORTER = (0.3, 0.5, 1.0, 3.0)
# Where a single column matters, the length scales of the others are this many times the typical
# ones. Two values for that column tell whether it matters; a search finds the best one.
LONG, ALONE = 4.0, (0.3, 1.0)
# Starts are different if the logarithm of some hyperparameter differs by more than this.
DIFFERENT = 0.1
# The standard deviation of the prior for a part of the rows, of logarithms.
PRIOR_DEVIATION = 1.0


def start_values(hyperparameters, spread):
    """Return start values of theta: the kernel's own, then some with data-based length scales.

    The bound is flat where variances or length scales are far off, so the other starts have the
    variances of `Hyperparameters.rescaled` and a range of length scales. The longest is the typical
    distance of two rows; each further one is at most three times shorter. At the shortest, if the
    rows filled a cube, a row would have `CLOSEST` of the others within one length scale; it is at
    most about the unit of a column. The last start combines the shortest length scales with little
    noise: fast variation beside a trend is small, and from a start with much noise the search would
    take it for noise.
    """
    starts = [np.clip(hyperparameters.theta, *hyperparameters.bounds.T)]
    if len(hyperparameters.theta) == 0:
        return starts
    has_lengths = hyperparameters.has_length_scales
    factors = _length_factors(spread.n_varying) if has_lengths else [1.0]
    candidates = [with_typical_lengths(hyperparameters, spread, factor) for factor in factors]
    if has_lengths:
        candidates.append(candidates[-1] + hyperparameters.to_little_noise)
    return starts + _unlike(starts, candidates, hyperparameters.bounds)


def _length_factors(n_varying):
    """Return the length scales of `start_values` as multiples of the typical ones, descending."""
    shortest = min(CLOSEST ** (1.0 / n_varying), (2.0 * n_varying) ** -0.5)
    n_factors = 1 + int(-np.log(shortest) / np.log(3))
    return np.geomspace(1.0, shortest, 1 + n_factors)


def shorter_starts(hyperparameters, spread, given):
    """Return a list of the start with the second longest length scales of `start_values`.

    It is empty if the kernel has no length scales, or if a `given` theta is near that start.
    """
    if not hyperparameters.has_length_scales:
        return []
    theta = with_typical_lengths(hyperparameters, spread, _length_factors(spread.n_varying)[1])
    return _unlike(given, [theta], hyperparameters.bounds)


def plain_starts(hyperparameters, spread):
    """Return start values of theta for f: `start_values`, and a nearly linear f."""
    starts = start_values(hyperparameters, spread)
    return starts + _unlike(starts, _linear_starts(hyperparameters, spread), hyperparameters.bounds)


def _linear_starts(hyperparameters, spread):
    """Return the start of a nearly linear function with little noise, for one variance of f.

    With many columns a search from other starts may not reach its long length scales and its large
    variance.
    """
    indices = _variance_indices(hyperparameters)
    # Of other kernels it is not known what a variance multiplies.
    if len(indices) != 1 or not hyperparameters.has_length_scales:
        return []
    theta = (
        with_typical_lengths(hyperparameters, spread, NEARLY_LINEAR)
        + hyperparameters.to_little_noise
    )
    # The slopes stay what they are with the typical length scales.
    theta[indices] += 2.0 * np.log(NEARLY_LINEAR)
    return [theta]


def _unlike(given, candidates, bounds):
    """Clip candidates to the bounds, and leave out those near a given theta or another one."""
    found = []
    for theta in candidates:
        moved = np.clip(theta, *bounds.T)
        if all(np.abs(moved - other).max() > DIFFERENT for other in [*given, *found]):
            found.append(moved)
    return found


def summand_starts(hyperparameters, thetas, model, indices):
    """Return start values of theta at which a single summand of the kernel matters.

    They are the given `thetas`, with the other summands at the smallest variance that their bounds
    admit. `indices` holds a list of those of its hyperparameters for each summand of the kernel of
    `model`.
    """
    found, kernel, rows = [], model.kernel, model.some_rows()
    bounds = hyperparameters.bounds[: kernel.n_params]
    for own in indices:
        for start in thetas:
            theta = start.copy()
            theta[: kernel.n_params] = kernel.least_variance(start[: kernel.n_params], bounds, rows)
            theta[own] = start[own]
            found.append(theta)
    return _unlike([], found, hyperparameters.bounds)


def faster_starts(hyperparameters, spread, theta):
    """Return up to four starts for functions that vary faster than with the learned `theta`.

    The first is `theta` with its length scales limited to the shortest ones of `start_values`; the
    second is the last of `start_values`. The other two are these with length scales limited to the
    distance of the nearest rows, as if rows filled their range evenly. Starts near `theta` or near
    an earlier start are left out.
    """
    shortest = start_values(hyperparameters, spread)[-1]
    lengths, typical = typical_lengths(hyperparameters, spread)
    entries = [hyperparameters.entries[k] for k in lengths]
    n_columns = [spread.n_varying if entry.effect is None else 1 for entry in entries]
    nearest = np.log(typical) + np.log(min(1.0, NEAREST / spread.n_rows)) / np.array(n_columns)
    found = []
    for limit in (shortest[lengths], np.minimum(shortest[lengths], nearest)):
        for other in (theta, shortest):
            start = other.copy()
            start[lengths] = np.minimum(other[lengths], limit)
            found.append(start)
    return _unlike([theta], found, hyperparameters.bounds)


def group_starts(hyperparameters, spread, theta, group):
    """Return up to two starts for a function of a `SimilarGroup`.

    The length scales of its columns, which must be among `lengths_by_column`, are their distances.
    In the first start the other columns hardly matter; the second is otherwise the learned `theta`.
    """
    own = lengths_by_column(hyperparameters, spread)
    alone, added = with_typical_lengths(hyperparameters, spread, LONG), theta.copy()
    for column, distance in zip(group.columns, group.distances, strict=True):
        k, length = own[column], np.log(distance)
        alone[k], added[k] = length, np.minimum(added[k], length)
    return _unlike([theta], [alone, added], hyperparameters.bounds)


def steep_starts(hyperparameters, spread, slope_variance):
    """Return the start for a function that may be steep where rows hardly differ, if any.

    `slope_variance` is the prior variance of its slopes, for columns of variance one. The list that
    holds the start is empty if the kernel has no variance.
    """
    theta = with_typical_lengths(hyperparameters, spread)
    indices = _variance_indices(hyperparameters)
    if not indices:
        return []
    # The slopes of a smooth function have its variance over the squared length scale.
    theta[indices] = np.log(2.0 * spread.n_varying * slope_variance)
    return [np.clip(theta, *hyperparameters.bounds.T)]


def _variance_indices(hyperparameters):
    """Return the indices in theta of variances other than those of main effects."""
    entries = enumerate(hyperparameters.entries)
    return [k for k, entry in entries if entry.is_variance and entry.effect is None]


def weak_prior(hyperparameters, spread):
    """Return a `NormalPrior` of theta, for learning from a part of the rows.

    Length scales are expected near the typical distance of two rows, and other parameters near
    their start values.
    """
    mean = np.clip(with_typical_lengths(hyperparameters, spread), *hyperparameters.bounds.T)
    return NormalPrior.of_all(mean, PRIOR_DEVIATION)


def shorter_lengths(hyperparameters, spread):
    """Return a dict from the index in theta of a column's length scale to shorter values to try.

    They are logarithms, see `lengths_in_units`.
    """
    return lengths_in_units(hyperparameters, spread, SHORTER)


def single_columns(hyperparameters, spread):
    """Return a theta at which no column matters much, and a dict like that of `shorter_lengths`.

    The values to try are those at which the column matters by itself.
    """
    theta = np.clip(with_typical_lengths(hyperparameters, spread, LONG), *hyperparameters.bounds.T)
    return theta, lengths_in_units(hyperparameters, spread, ALONE)
