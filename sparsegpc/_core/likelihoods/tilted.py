r"""The tilted bound on the expected logarithm of a sum of exponentials of independent Gaussians.

For :math:`f_k \sim N(m_k, s_k)` and any tilts :math:`a_k`, Jensen's inequality gives

.. math:: E[\log\textstyle\sum_k e^{f_k}]
    = \sum_k a_k m_k + E[\log\textstyle\sum_k e^{f_k - \sum_l a_l f_l}]
    \le \tfrac12\sum_k a_k^2 s_k + \log\sum_k e^{m_k + (\frac12 - a_k) s_k}.

The right side is convex in the means and tilts together. At its minimum the tilts are the softmax
of the exponents. So with the logarithm of the sum :math:`\lambda`, each solves
:math:`a_k s_k + \log(a_k s_k) = m_k + s_k / 2 + \log s_k - \lambda`, which defines the Wright omega
function of the right side, and :math:`\lambda` is such that the tilts add up to one.

References
----------
Knowles, Minka 2011, "Non-conjugate variational message passing for multinomial and binary
regression".
"""

import numpy as np
from scipy.special import wrightomega

# At the start the tilts add up to at most C, so Newton's method needs about five steps.
_ACCURACY, _MOST_STEPS = 1e-14, 20
# Smaller variances change nothing, and would be divided by. Larger ones would overflow, and at this
# limit other bounds are far better.
_SMALLEST_VARIANCE, _LARGEST_VARIANCE = 1e-18, 1e100


def tilted_bound(mean, variance):
    """Return the least bound on E[log sum exp(f)], shape (n,), and its tilts, shape (C, n).

    `mean` and `variance` have the shape (C, n). The derivatives of the bound in the means are the
    tilts a, and in the variances a (1 - a) / 2. It is exact where the variances vanish.
    """
    variance = np.clip(variance, _SMALLEST_VARIANCE, _LARGEST_VARIANCE)
    level = mean + 0.5 * variance + np.log(variance)
    # No tilt is above one here, and one of them is one. The sum of the tilts is convex in the log
    # sum, so Newton's method comes from this side only.
    log_sum = (mean - 0.5 * variance).max(axis=0)
    for _ in range(_MOST_STEPS):
        scaled = wrightomega(level - log_sum)
        tilts = scaled / variance
        excess = tilts.sum(axis=0) - 1.0
        if np.all(np.abs(excess) <= _ACCURACY * (len(mean) + np.abs(log_sum))):
            break
        log_sum = log_sum + excess / (tilts / (1.0 + scaled)).sum(axis=0)
    return 0.5 * (tilts * scaled).sum(axis=0) + log_sum, tilts
