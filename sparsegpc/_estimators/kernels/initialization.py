"""The default kernel, the start values of the search, and the relevance of columns."""

import numpy as np
from sklearn.gaussian_process import kernels as sk

from sparsegpc._core.models.prior import NormalPrior
from sparsegpc._estimators.kernels.sklearn_kernels import PER_COLUMN, walk

# Bounds of the default kernel. They are wide, as separable classes need variances above 1e6.
VARIANCE_BOUNDS = (1e-4, 1e9)
LENGTH_SCALE_RANGE = (1e-3, 1e4)
# The shortest start is about the distance within which a row has this fraction of the others.
CLOSEST = 1 / 20
PRIOR_DEVIATION = 1.0


def default_kernel(spread, variance=1.0):
    """Return the default kernel: a variance times RBF with one length scale.

    Start and bounds of the length scale are relative to the typical distance of two rows; those of
    the variance are relative to `variance`, a number or one for each output. The lower bound is
    negligible compared with the smallest of them.
    """
    low, high = (factor * spread.distance for factor in LENGTH_SCALE_RANGE)
    bounds = VARIANCE_BOUNDS[0] * np.min(variance), VARIANCE_BOUNDS[1] * np.max(variance)
    constant = sk.ConstantKernel(float(np.mean(variance)), tuple(map(float, bounds)))
    return constant * sk.RBF(spread.distance, (low, high))


def column_relevance(kernel, spread):
    """Return the relevance of each column, shape (D,), or None if there are no length scales.

    It is the standard deviation of the column divided by its length scale, the shortest one if
    several parts of the kernel have one. It is zero for a constant column.
    """
    scales = [
        np.broadcast_to(np.asarray(part.length_scale, dtype=np.float64), spread.columns.shape)
        for part in walk(kernel)
        if isinstance(part, PER_COLUMN)
    ]
    if not scales:
        return None
    return np.where(spread.varies, spread.columns / np.min(scales, axis=0), 0.0)


def start_values(adapted, spread):
    """Return start values for theta: the kernel's own, then some with data-based length scales.

    The latter have the variances of `AdaptedKernel.rescaled`, since the bound may be flat at the
    kernel's own. Where a length scale is far too short or too long, the bound is flat, too. So the
    length scales of the candidates go from the typical distance of two rows, in factors of at most
    three, down to the distance within which a row would have `CLOSEST` of the others if they filled
    a cube, or to about the deviation of a column if that is shorter.
    """
    starts = [np.clip(adapted.theta, *adapted.bounds.T)]
    if len(adapted.theta) == 0:
        return starts
    lengths, typical = _typical_lengths(adapted, spread)
    n_varying = max(1, int(spread.varies.sum()))
    shortest = min(CLOSEST ** (1.0 / n_varying), (2.0 * n_varying) ** -0.5)
    n_factors = 1 + int(-np.log(shortest) / np.log(3))
    factors = np.geomspace(1.0, shortest, 1 + n_factors) if lengths else [1.0]
    for factor in factors:
        theta = adapted.rescaled.copy()
        theta[lengths] = np.log(factor * typical)
        theta = np.clip(theta, *adapted.bounds.T)
        if all(np.abs(theta - start).max() > 0.1 for start in starts):
            starts.append(theta)
    return starts


def weak_prior(adapted, spread):
    """Return a `NormalPrior` of theta, for learning from a part of the rows.

    Length scales are expected near the typical distance of two rows, and other parameters near
    their start values.
    """
    mean = adapted.rescaled.copy()
    lengths, typical = _typical_lengths(adapted, spread)
    mean[lengths] = np.log(typical)
    return NormalPrior(np.clip(mean, *adapted.bounds.T), PRIOR_DEVIATION)


def _typical_lengths(adapted, spread):
    """Return the indices of length scales in theta, and the typical distance for each.

    For the length scale of a column it is such that the columns together give distances near one.
    """
    lengths = [k for k, column in enumerate(adapted.columns) if column is not None]
    scale = np.sqrt(2.0 * max(1, int(spread.varies.sum())))
    typical = [
        spread.distance
        if adapted.columns[k] == "all"
        else spread.columns[adapted.columns[k]] * scale
        for k in lengths
    ]
    return lengths, np.array(typical)
