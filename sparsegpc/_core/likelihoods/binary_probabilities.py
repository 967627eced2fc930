r"""The probability of a class under a Gaussian log-odds: the expectation of the logistic sigmoid.

Gauss-Hermite rules fail under a wide Gaussian, beside which the step of the sigmoid is narrow: with
100 nodes at variance 1000 the error exceeds the value itself. So the expectation under a wide
Gaussian is split into parts with closed forms and a remainder that decays like :math:`e^{-|f|}`,
which is integrated near zero.
"""

import numpy as np
from scipy.special import erfcx, log_expit, log_ndtr, logsumexp

from sparsegpc._core.numerics.quadrature import legendre_panels, normal_rule

# At this variance the errors of both rules are below 5e-12; at 3, that of 32 Gauss-Hermite nodes is
# 4e-8.
NARROW_VARIANCE = 1.25
# Gauss-Hermite nodes and logarithms of weights for a standard normal variable.
_HERMITE_NODES, _HERMITE_WEIGHTS = normal_rule(32)
_HERMITE_LOG_WEIGHTS = np.log(_HERMITE_WEIGHTS)
# Gauss-Legendre nodes and weights on intervals of the positive half line.
_NODES, _WEIGHTS = legendre_panels([0.0, 4.0, 12.0, 40.0], 24)
# Columns of the widest temporary array: the nodes on both sides of zero.
N_NODES = 2 * len(_NODES)


def log_expected_sigmoid(mean, variance):
    r"""Return :math:`\log E[\sigma(f)]` for :math:`f \sim N(mean, variance)`, shape (N,).

    The expectation has a relative accuracy of about 1e-10, even far in the tails, where it
    underflows. For a wide Gaussian, with :math:`\sigma(f) = e^f - e^{2f}\sigma(-f)` for negative f
    and :math:`1 - \sigma(-f)` for positive f,

    .. math:: E[\sigma(f)] = P(f > 0) + E[e^f; f < 0]
        - E[e^{2f}\sigma(-f); f < 0] - E[\sigma(-f); f > 0].

    The first two terms have closed forms. The last two are computed by Gauss-Legendre rules; they
    are at most half of the first two, so there is no cancellation. For a positive mean, the
    identity :math:`\sigma(f) = 1 - \sigma(-f)` is used.
    """
    mean, variance = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    )
    result = np.empty(mean.shape)
    narrow = variance <= NARROW_VARIANCE
    reflected = ~narrow & (mean > 0.0)
    rules = (
        (narrow, _log_expected_narrow),
        (reflected, _log_expected_reflected),
        (~(narrow | reflected), _log_expected_wide),
    )
    for rows, rule in rules:
        # A single row needs one rule, and each takes longer than the posterior of f.
        if rows.any():
            result[rows] = rule(mean[rows], np.sqrt(variance[rows]))
    return result


def _log_expected_narrow(mean, deviation):
    f = mean[:, None] + deviation[:, None] * _HERMITE_NODES
    return logsumexp(log_expit(f) + _HERMITE_LOG_WEIGHTS, axis=1)


def _log_expected_wide(mean, deviation):
    """Return log E[sigmoid] for a non-positive mean by the split of `log_expected_sigmoid`."""
    variance = deviation**2
    log_closed = np.logaddexp(log_ndtr(mean / deviation), _log_expected_exp(mean, deviation))
    # Log density relative to its value at f = 0, for both signs of f.
    slope = (mean / variance)[:, None] * _NODES
    bell = -0.5 * _NODES**2 / variance[:, None]
    tail = log_expit(-_NODES) + np.log(_WEIGHTS)
    log_rest = logsumexp(
        np.concatenate([bell - slope - _NODES + tail, bell + slope + tail], axis=1), axis=1
    )
    log_rest += -0.5 * (mean / deviation) ** 2 - np.log(deviation * np.sqrt(2.0 * np.pi))
    return log_closed + np.log1p(-np.exp(log_rest - log_closed))


def _log_expected_reflected(mean, deviation):
    """Return log E[sigmoid] for a positive mean, from that of sigmoid(-f)."""
    return np.log1p(-np.exp(_log_expected_wide(-mean, deviation)))


def _log_expected_exp(mean, deviation):
    """Return log E[exp(f); f < 0]."""
    t = (mean + deviation**2) / deviation
    # The result is mean + variance / 2 + log P(N(0, 1) < -t). For positive t these terms nearly
    # cancel; the scaled complementary error function avoids the cancellation.
    scaled = -0.5 * (mean / deviation) ** 2 + np.log(0.5 * erfcx(np.maximum(t, 0.0) / np.sqrt(2.0)))
    below = mean + 0.5 * deviation**2 + log_ndtr(-t)
    return np.where(t > 0.0, scaled, below)
