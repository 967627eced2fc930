"""The relevance of columns by a kernel's length scales."""

import numpy as np

from sparsegpc._estimators.kernels.kernel_trees import walk_with_columns
from sparsegpc._estimators.kernels.sklearn_kernels import PER_COLUMN
from sparsegpc.kernels import MainEffects


def column_relevance(kernel, spread):
    """Return the relevance of each column, shape (D,), or None if there are no length scales.

    It is the standard deviation of the column times `inverse_length_scales`. The relevance is zero
    for a constant column.
    """
    rates = inverse_length_scales(kernel, len(spread.deviations))
    return None if rates is None else np.where(spread.varies, spread.deviations * rates, 0.0)


def inverse_length_scales(kernel, n_columns):
    """Return the inverse length scale of each column, shape (D,), or None without length scales.

    It is zero for a column without a length scale, and the largest such value if several parts of
    the kernel have one. That of a main effect is multiplied by the square root of the effect's
    share of the prior variance, since an effect of little variance is irrelevant at any length
    scale.
    """
    rates = []
    for part, columns in walk_with_columns(kernel, np.arange(n_columns)):
        rate = np.zeros(n_columns)
        if isinstance(part, PER_COLUMN):
            rate[columns] = 1.0 / np.asarray(part.length_scale, dtype=np.float64)
        elif isinstance(part, MainEffects):
            variances, length_scales = part._by_column(len(columns))
            share = variances / kernel.diag(np.zeros((1, n_columns)))
            rate[columns] = np.sqrt(np.minimum(share, 1.0)) / length_scales
        else:
            continue
        rates.append(rate)
    return np.max(rates, axis=0) if rates else None
