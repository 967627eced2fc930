r"""Gaussian expectations of log likelihoods and their first two derivatives.

For :math:`z \sim N(mean, variance)` and a smooth g, Gaussian differentiation gives

.. math:: \frac{\partial E[g]}{\partial mean} = E[g'], \quad
    \frac{\partial E[g]}{\partial variance} = \tfrac12 E[g''],

so a solver needs E[g], E[g'] and E[g'']. They must be consistent: an error in one of them makes the
solver reject good steps. Under a wide Gaussian the log sigmoid is a sum of functions with closed
expectations. Every other expectation is a trapezoidal sum, which converges exponentially for
analytic integrands, over one of two sets of nodes:

moving nodes
    Nodes around the mean at equal steps in units of the deviation. They are used where g is smooth
    on the scale of the Gaussian: at small variances, and far from zero, where g varies only on the
    scale of abs(z).
fixed nodes
    Nodes that are the same for all rows. They are used where g is narrower than the Gaussian. The
    values of g at them are constants, so a row takes one density for each node. The nodes follow a
    hyperbolic sine, dense around zero and geometric far away.

The error of every expectation is about 1e-11 max(1, abs(value)) for variances from 0 to 1e9. The
cost is some tens of exponentials per row, and the temporary arrays take about one MB.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

# Moving nodes are for variances up to _NARROW, or means more than _FAR deviations from zero;
# fixed nodes reach _REACH deviations from the mean. Beyond the variance _WIDE, fewer normal
# densities make the logistic one. With these limits all rules are accurate to 1e-11.
_NARROW, _WIDE, _FAR, _REACH = 1.0, 8.0, 8.0, 10.0
# Larger variances are infinite.
_LARGEST = np.finfo(np.float64).max


class Expectations(NamedTuple):
    """E[g(z)], E[g'(z)] and -E[g''(z)] of a concave g, each of the shape of the moments."""

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


class LogCoshExpectations(NamedTuple):
    """The expectations of `expected_log_cosh`, each of the shape of the moments."""

    value: np.ndarray
    theta: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


def _by_rule(kind, choose, rules, rows, chunk=256):
    """Return the named tuple `kind` of expectations, by one of a few rules for each row.

    `rows` are arrays that are broadcast to one shape and flattened. `choose` returns the index of
    the rule for each row, and the rules return one array for each field of `kind`. A rule takes at
    most `chunk` rows at a time: its temporary arrays, of nodes by rows, then stay in the cache, and
    are too small for the allocator to return their memory to the system.
    """
    rows = np.broadcast_arrays(*(np.asarray(row, dtype=np.float64) for row in rows))
    shape = rows[0].shape
    rows = [row.ravel() for row in rows]
    fields = [np.empty(rows[0].shape) for _ in kind._fields]
    chosen = choose(*rows)
    for k, rule in enumerate(rules):
        index = np.flatnonzero(chosen == k)
        for start in range(0, len(index), chunk):
            part = index[start : start + chunk]
            for field, result in zip(fields, rule(*(row[part] for row in rows)), strict=True):
                field[part] = result
    return kind(*(field.reshape(shape) for field in fields))


# Equally spaced nodes, (J, 1), and weights, (J,), for functions of a standard normal variable.
NODES = 0.54 * np.arange(-14, 15)[:, None]
WEIGHTS = np.exp(-0.5 * NODES[:, 0] ** 2)
WEIGHTS /= WEIGHTS.sum()


def _at_moving_nodes(functions, mean, variance):
    """Return the expectations of ``functions(z)``, a tuple of arrays of the shape (J, N) of z."""
    return [WEIGHTS @ values for values in functions(mean + NODES * np.sqrt(variance))]


def _densities(nodes, mean, variance):
    """Return the Gaussian densities of N rows at J fixed nodes, of shape (J, N).

    The exponent is one matrix product, (J, 3) by (3, N). Where the density is not negligible, the
    terms that cancel in it are at most a few hundred, if the means are within some ten deviations
    of zero or the nodes within some tens.
    """
    powers = np.column_stack([-0.5 * nodes**2, nodes, np.ones(len(nodes))])
    ratio = mean / variance
    peak = -0.5 * mean * ratio - 0.5 * np.log(2.0 * np.pi * variance)
    exponent = powers @ np.stack([1.0 / variance, ratio, peak])
    return np.exp(exponent, out=exponent)


# log sigmoid


def expected_log_sigmoid(mean, variance):
    r"""Return the expectation of :math:`\log\sigma(z)` and its derivatives.

    `mean` and `variance` (N,) are moments of z; for a label of -1, minus the mean of f. The
    variance may be zero. The `Expectations` are :math:`E[\log\sigma(z)]`; its derivative w.r.t. the
    mean, :math:`E[\sigma(-z)]`; and minus twice its derivative w.r.t. the variance,
    :math:`E[\sigma(z)\sigma(-z)] \ge 0`. If the variance is infinite, as after an overflow, they
    are the limits.

    Notes
    -----
    The softplus :math:`-\log\sigma(z)` is the expectation of :math:`\max(0, \epsilon - z)` for
    logistic noise :math:`\epsilon`, which is a mixture of normal ones. For Gaussian z of mean m and
    noise of variance :math:`a^2` this expectation is :math:`d\varphi(t) - m\Phi(-t)`, where
    :math:`d^2 = \mathrm{variance} + a^2` and :math:`t = m/d`. Under a wide Gaussian twelve parts of
    a mixture suffice, and seven under a very wide one.
    """
    return _by_rule(
        Expectations,
        lambda _, variance: np.searchsorted((_NARROW, _WIDE, _LARGEST), variance),
        (partial(_at_moving_nodes, _log_sigmoid), *_WIDE_LOG_SIGMOID, _limit_of_log_sigmoid),
        (mean, variance),
        chunk=512,
    )


def _log_sigmoid(z):
    """Return log sigmoid(z), sigmoid(-z), and the product of sigmoid(z) and sigmoid(-z)."""
    tail = np.exp(-np.abs(z))
    larger = 1.0 / (1.0 + tail)
    smaller = tail * larger
    return np.minimum(z, 0.0) + np.log(larger), np.where(z < 0.0, larger, smaller), smaller * larger


def _logistic_mixture(n_nodes, shift):
    r"""Return variances, (J, 1), and weights, (J,), of normal densities that make the logistic one.

    If :math:`\kappa` has Kolmogorov's distribution, and z given it is normal with the variance
    :math:`4\kappa^2`, then z has the logistic distribution (Andrews, Mallows 1974). A trapezoidal
    sum over :math:`\log\kappa` takes some thirty nodes to be exact to rounding. The Gauss rule for
    this sum, in :math:`\log(\mathrm{shift} + 4\kappa^2)`, takes fewer.
    """
    step = 0.1
    kappa = np.exp(np.arange(-1.8, 1.6, step))
    j = np.arange(1.0, 32.0)[:, None]
    series = ((-1.0) ** (j + 1.0) * j**2 * np.exp(-2.0 * (j * kappa) ** 2)).sum(axis=0)
    # Rounding can make the smallest weights negative.
    root = np.sqrt(np.maximum(step * 8.0 * kappa**2 * series, 0.0))
    x = np.log(shift + 4.0 * kappa**2)
    # The nodes are the eigenvalues of multiplication by x among polynomials of degree < n_nodes.
    within = 2.0 * (x - x[0]) / (x[-1] - x[0]) - 1.0
    polynomials = np.polynomial.chebyshev.chebvander(within, n_nodes - 1)
    basis, _ = np.linalg.qr(root[:, None] * polynomials)
    nodes, vectors = np.linalg.eigh(basis.T @ (x[:, None] * basis))
    return (np.exp(nodes) - shift)[:, None], (root @ basis @ vectors) ** 2


def _wide_log_sigmoid(variances, weights, mean, variance):
    """Return the expectations by a `_logistic_mixture`."""
    squared = variance + variances
    deviation = np.sqrt(squared)
    t = mean / deviation
    slope = weights @ ndtr(-t)
    # The square of a ratio from about 1e154 on overflows, and its density is zero.
    with np.errstate(over="ignore"):
        t *= -0.5 * t
    density = np.exp(t, out=t)
    density /= deviation
    weights = weights / np.sqrt(2.0 * np.pi)
    curvature = weights @ density
    density *= squared
    # Rounding can leave the ranges of the functions.
    return np.minimum(mean * slope - weights @ density, 0.0), np.minimum(slope, 1.0), curvature


def _limit_of_log_sigmoid(mean, _):
    """Return the limits of the expectations as the variance grows to infinity."""
    return np.full_like(mean, -np.inf), np.full_like(mean, 0.5), np.zeros_like(mean)


# The rules up to the variance _WIDE, and beyond it.
_WIDE_LOG_SIGMOID = [
    partial(_wide_log_sigmoid, *_logistic_mixture(n_nodes, shift))
    for n_nodes, shift in ((12, 0.5), (7, 8.0))
]


# log of the normal distribution function


def expected_log_normal_cdf(mean, variance):
    r"""Return the expectation of :math:`\log\Phi(z)` and its derivatives.

    The arguments are those of `expected_log_sigmoid`. With :math:`\lambda = \varphi/\Phi` the
    `Expectations` are :math:`E[\log\Phi(z)]`; its derivative w.r.t. the mean,
    :math:`E[\lambda(z)]`; and minus twice its derivative w.r.t. the variance,
    :math:`E[\lambda(z)(\lambda(z) + z)]`, between 0 and 1.

    Notes
    -----
    The left tail is quadratic, so fixed nodes cover all values of z with relevant density on the
    left. On the right the functions decay like :math:`\varphi(z)`. The complex zeros of
    :math:`\Phi` have positive real parts; the nearest are :math:`1.9 \pm 2.8i`.
    """
    return _by_rule(
        Expectations,
        lambda mean, variance: (variance > _NARROW) & (mean >= -_FAR * np.sqrt(variance)),
        (partial(_at_moving_nodes, _log_normal_cdf), _wide_log_normal_cdf),
        (mean, variance),
    )


def _log_normal_cdf(z):
    """Return log Phi(z), lambda(z) = phi(z) / Phi(z), and lambda(z) (lambda(z) + z)."""
    # Above 9 all three functions are zero up to rounding; at larger z erfcx overflows.
    z = np.minimum(z, 9.0)
    scaled = erfcx(z * -np.sqrt(0.5))
    ratio = np.sqrt(2.0 / np.pi) / scaled
    value = np.log(scaled) - 0.5 * z**2 - np.log(2.0)
    return np.minimum(value, 0.0), ratio, _minus_ratio_slope(z, ratio)


def _minus_ratio_slope(z, ratio):
    """Return lambda (lambda + z), by a series where digits of lambda + z would cancel."""
    slope = ratio * (ratio + z)
    left = z < -30.0
    if left.any():
        # lambda = -z / (1 - q deficit), by the asymptotic series of Mills' ratio 1 / lambda.
        q = z[left] ** -2.0
        deficit = 1 - 3 * q * (1 - 5 * q * (1 - 7 * q * (1 - 9 * q * (1 - 11 * q))))
        slope[left] = deficit / (1.0 - q * deficit) ** 2
    return slope


def _sinh_trapezoid(low):
    """Return nodes scale sinh(s), at equal steps of s from about low to about high, and weights."""
    high, scale, step = 1e12, 4.0, 0.07
    first, last = np.round(np.arcsinh(np.array([low, high]) / scale) / step)
    s = step * np.arange(first, last + 1.0)
    return scale * np.sinh(s), scale * step * np.cosh(s)


def _n_within(nodes, reach):
    """Return the number of increasing nodes that cover values up to `reach`."""
    return int(np.searchsorted(nodes, reach)) + 1


# Nodes of -z, (J,), and the three functions there times their weights, (3, J).
_PROBIT_NODES, _PROBIT_WEIGHTS = _sinh_trapezoid(-9.0)
_PROBIT_CONSTANTS = _PROBIT_WEIGHTS * np.array(_log_normal_cdf(-_PROBIT_NODES))


def _wide_log_normal_cdf(mean, variance):
    n = _n_within(_PROBIT_NODES, np.max(_REACH * np.sqrt(variance) - mean))
    return _PROBIT_CONSTANTS[:, :n] @ _densities(_PROBIT_NODES[:n], -mean, variance)


# log cosh


def expected_log_cosh(mean, variance, vr):
    r"""Return expectations of :math:`\log(2\cosh(c/2))`, where :math:`c^2 = z^2 + v r`.

    `mean` and `variance` (N,) are moments of z, and `vr` (N,) is the scaled residual :math:`v r`.
    The last two may be zero. With :math:`\theta(c) = \tanh(c/2)/(2c)` the `LogCoshExpectations` are
    the value :math:`E[\log(2\cosh(c/2))]`; twice its derivative w.r.t. :math:`v r`,
    :math:`E[\theta]`; its derivative w.r.t. the mean, :math:`E[\theta z]`; and twice its derivative
    w.r.t. the variance, :math:`E[\theta + \theta' z^2/c] \ge 0`.

    Notes
    -----
    The last integrand is the mean of :math:`\theta` and :math:`\mathrm{sech}^2(c/2)/4` with
    weights :math:`v r/c^2` and :math:`z^2/c^2`, so no digits cancel. The singularities nearest to
    the real line are at :math:`\pm i\sqrt{v r + \pi^2}`, and the nodes are scaled accordingly.
    """
    return _by_rule(
        LogCoshExpectations,
        lambda mean, variance, vr: (
            (variance > _NARROW * _squared_scale(vr)) & (np.abs(mean) <= _FAR * np.sqrt(variance))
        ),
        (_narrow_log_cosh, _wide_log_cosh),
        (mean, variance, vr),
        chunk=96,
    )


def _squared_scale(vr):
    """Return the squared ratio of the width of the functions to their width at v r = 0."""
    return 1.0 + vr / np.pi**2


def _log_cosh(squared, vr):
    """Return log(2cosh(c/2)), theta(c) and d(theta z)/dz at z^2, which is overwritten."""
    # The small constant avoids division by zero at c = 0, without an effect on the results.
    c_squared = np.add(squared, vr + 1e-200, out=squared)
    half = 0.5 * np.sqrt(c_squared)
    tanh = np.tanh(half)
    theta = tanh / half
    theta *= 0.25
    value = np.log1p(tanh)
    np.subtract(half, value, out=value)
    value += np.log(2.0)
    # A quarter of the squared hyperbolic secant.
    flat = np.square(tanh, out=tanh)
    flat -= 1.0
    flat *= -0.25
    curvature = np.divide(vr, c_squared, out=c_squared)
    curvature *= theta - flat
    curvature += flat
    return value, theta, curvature


def _narrow_log_cosh(mean, variance, vr):
    def functions(z):
        value, theta, curvature = _log_cosh(z**2, vr)
        return value, theta, theta * z, curvature

    return _at_moving_nodes(functions, mean, variance)


_FOLDED_NODES, _FOLDED_WEIGHTS = _sinh_trapezoid(0.0)
# Every node stands for z and -z, except for the node at zero.
_FOLDED_WEIGHTS[0] *= 0.5


def _wide_log_cosh(mean, variance, vr):
    scale = np.sqrt(_squared_scale(vr))
    mean_in_scale, variance_in_scale = mean / scale, variance / scale**2
    reach = np.max(np.abs(mean_in_scale) + _REACH * np.sqrt(variance_in_scale))
    n = _n_within(_FOLDED_NODES, reach)
    nodes, weights = _FOLDED_NODES[:n], _FOLDED_WEIGHTS[:n]
    value, theta, curvature = _log_cosh(np.square(nodes[:, None] * scale), vr)
    positive = _densities(nodes, mean_in_scale, variance_in_scale)
    negative = _densities(-nodes, mean_in_scale, variance_in_scale)
    both = positive + negative
    both *= weights[:, None]
    difference = np.subtract(positive, negative, out=positive)
    difference *= (weights * nodes)[:, None]
    return (
        np.einsum("jn,jn->n", value, both),
        np.einsum("jn,jn->n", theta, both),
        scale * np.einsum("jn,jn->n", theta, difference),
        np.einsum("jn,jn->n", curvature, both),
    )
