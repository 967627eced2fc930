r"""What the next pass of the ascent in `sites` gains, from the change of each row.

To second order, changes :math:`\delta_n` of the precisions gain
:math:`\frac14 \sum_{nl} \delta_n \delta_l C_{nl}^2`, where C is the covariance of f at the rows
under q(u), with the inducing variances s on its diagonal. This is bounded in two ways, as
:math:`C_{nl}^2 \le s_n s_l` and :math:`\sum_l C_{nl}^2 p_l \le s_n` (docs/theory.rst, "Labels").
All arguments of the functions have the shape (K, N).
"""

import numpy as np


def gain_of_precisions(old, new, inducing_variance):
    """Return an upper bound, to second order, on the gain of a pass from old to new precisions."""
    change = np.abs(new - old)
    by_pairs = (change * inducing_variance).sum(axis=1) ** 2
    by_rows = (change**2 / old * inducing_variance).sum(axis=1)
    return 0.25 * float(np.minimum(by_pairs, by_rows).sum())


def gain_of_scales(old, new):
    """Return the gain of new scales v of the residuals."""
    ratio = old / new
    return 0.5 * float((ratio - 1.0 - np.log(ratio)).sum())


def metric(precision, inducing_variance, v, moves_scales):
    """Return four times the second-order gain of a row by unit changes of its log precision.

    `moves_scales` tells whether the log scale v of a row changes with it, by 1 - v.
    """
    gain = (precision * inducing_variance) ** 2
    return gain + (1.0 - v) ** 2 if moves_scales else gain
