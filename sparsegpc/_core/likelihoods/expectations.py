r"""Gaussian expectations of log likelihoods and their first two derivatives.

For :math:`z \sim N(mean, variance)` and a smooth g, Gaussian differentiation gives

.. math:: \frac{\partial E[g]}{\partial mean} = E[g'], \quad
    \frac{\partial E[g]}{\partial variance} = \tfrac12 E[g''],

so a solver needs E[g], E[g'] and E[g''], and needs them to agree: where one of them errs, good
steps are rejected. Every expectation here is a trapezoid sum, which converges exponentially for
analytic integrands, over one of two sets of nodes:

moving nodes
    Equally spaced in units of the deviation, where g is smooth on the scale of the Gaussian: under
    small variances, and far from zero, where g varies on the scale of abs(z) only.
fixed nodes
    Where g is narrower than the Gaussian. Values of g are constants there, so a row costs one
    density per node. They are equally spaced where a part in closed form leaves a remainder that
    decays like exp(-abs(z)); otherwise they follow a hyperbolic sine, dense around zero and
    geometric far away.

All are accurate to about 1e-11 of max(1, abs(value)) for variances from 0 to 1e9, cost some tens
of exponentials per row, and need temporaries of about one MB. The variance at which the nodes
change, and the steps, are such that both sets are that accurate on either side of the change.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
# The largest variance of moving nodes, for functions with singularities at a distance of about pi;
# how many deviations from zero a mean leaves no mass where the functions are not smooth; and how
# many deviations around the mean count where functions grow, up to quadratically.
_NARROW, _FAR, _REACH = 1.0, 8.0, 10.0


class Expectations(NamedTuple):
    """E[g(z)], E[g'(z)] and -E[g''(z)] of a concave g, each of the shape of the moments."""

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


class LogCoshExpectations(NamedTuple):
    """What `expected_log_cosh` returns, each of the shape of the moments."""

    value: np.ndarray
    weight: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


def _by_rule(kind, is_narrow, narrow, wide, rows, chunk=256):
    """Work out a named tuple of expectations, each row by the rule that suits it.

    `rows` are broadcast to one shape and flattened. `is_narrow`, `narrow` and `wide` take them, and
    the rules return one array for each field of `kind`. They see at most `chunk` rows at a time, so
    that the temporaries, of nodes by rows, stay in the cache, and below the size from which memory
    goes back to the system at every return.
    """
    rows = np.broadcast_arrays(*(np.asarray(row, dtype=np.float64) for row in rows))
    shape = rows[0].shape
    rows = [row.ravel() for row in rows]
    fields = [np.empty(rows[0].shape) for _ in kind._fields]
    chosen = is_narrow(*rows)
    for rule, index in ((narrow, np.flatnonzero(chosen)), (wide, np.flatnonzero(~chosen))):
        for start in range(0, len(index), chunk):
            part = index[start : start + chunk]
            for field, result in zip(fields, rule(*(row[part] for row in rows)), strict=True):
                field[part] = result
    return kind(*(field.reshape(shape) for field in fields))


def _standard_trapezoid(step, reach):
    """Equally spaced nodes within +-reach, (J, 1), and weights for the standard Gaussian, (J,)."""
    n = round(reach / step)
    nodes = step * np.arange(-n, n + 1)
    weights = np.exp(-0.5 * nodes**2)
    return nodes[:, None], weights / weights.sum()


_NODES, _WEIGHTS = _standard_trapezoid(step=0.54, reach=7.56)


def _moving_nodes(mean, variance):
    """The nodes of every row, of shape (J, N)."""
    return mean + _NODES * np.sqrt(variance)


def _densities(nodes, mean, variance):
    """Return the Gaussian densities of N rows at J fixed nodes, of shape (J, N).

    The exponent is one product of (J, 3) by (3, N). What cancels in it is below a few hundred
    wherever the density is not negligible, if no mean is more than some ten deviations away from
    zero or if the nodes stay within tens.
    """
    of_nodes = np.column_stack([-0.5 * nodes**2, nodes, np.ones(len(nodes))])
    ratio = mean / variance
    peak = -0.5 * mean * ratio - 0.5 * np.log(variance) - _LOG_SQRT_2PI
    exponent = of_nodes @ np.stack([1.0 / variance, ratio, peak])
    return np.exp(exponent, out=exponent)


# log sigmoid

_LOGISTIC_VARIANCE = np.pi**2 / 3.0


def expected_log_sigmoid(mean, variance):
    r"""Return the expectation of :math:`\log\sigma(z)` and of two derivatives.

    Parameters
    ----------
    mean, variance : ndarray of shape (N,)
        Moments of z; for a label of -1, minus the mean of f. The variance may be zero.

    Returns
    -------
    Expectations
        :math:`E[\log\sigma(z)]`; its derivative :math:`E[\sigma(-z)]` w.r.t. the mean; and
        :math:`E[\sigma(z)\sigma(-z)] \ge 0`, of which its derivative w.r.t. the variance is minus
        one half.

    Notes
    -----
    The softplus :math:`-\log\sigma(z)` is the expectation of :math:`\max(0, \epsilon - z)` for
    logistic noise :math:`\epsilon`, of variance :math:`a^2 = \pi^2/3`. For Gaussian noise of that
    variance it would be :math:`h_a(-z)` with :math:`h_a(x) = x\Phi(x/a) + a\varphi(x/a)`, whose
    expectation under a Gaussian is h again, with :math:`a^2 + variance` in place of :math:`a^2`.
    The difference of the two decays like :math:`e^{-|z|}` and is summed over fixed nodes.
    """
    return _by_rule(
        Expectations,
        lambda mean, variance: variance <= _NARROW,
        _narrow_log_sigmoid,
        _wide_log_sigmoid,
        (mean, variance),
    )


def _log_sigmoid(z):
    """Return log sigmoid(z), sigmoid(-z), and the product of sigmoid(z) and sigmoid(-z)."""
    tail = np.exp(-np.abs(z))
    larger = 1.0 / (1.0 + tail)
    smaller = tail * larger
    return np.minimum(z, 0.0) + np.log(larger), np.where(z < 0.0, larger, smaller), smaller * larger


def _narrow_log_sigmoid(mean, variance):
    functions = _log_sigmoid(_moving_nodes(mean, variance))
    return [_WEIGHTS @ function for function in functions]


def _gaussian_hinge(z, variance):
    """Minus the expectation of max(0, e - z) for Gaussian noise e, and derivatives as above."""
    deviation = np.sqrt(variance)
    t = z / deviation
    density = np.exp(-0.5 * t**2 - _LOG_SQRT_2PI)
    below = ndtr(-t)
    return z * below - deviation * density, below, density / deviation


def _logit_remainders(step=0.55, reach=27.5):
    """Nodes, (J,), and what the hinge leaves of the three functions there, times the step."""
    n = round(reach / step)
    nodes = step * np.arange(-n, n + 1)
    remainders = np.subtract(_log_sigmoid(nodes), _gaussian_hinge(nodes, _LOGISTIC_VARIANCE))
    return nodes, step * remainders


_LOGIT_NODES, _LOGIT_REMAINDERS = _logit_remainders()


def _wide_log_sigmoid(mean, variance):
    closed = _gaussian_hinge(mean, variance + _LOGISTIC_VARIANCE)
    value, slope, curvature = closed + _LOGIT_REMAINDERS @ _densities(_LOGIT_NODES, mean, variance)
    # Rounding must not make a precision negative.
    return value, slope, np.maximum(curvature, 0.0)


# log of the normal distribution function


def expected_log_normal_cdf(mean, variance):
    r"""Return the expectation of :math:`\log\Phi(z)` and of two derivatives.

    Parameters
    ----------
    mean, variance : ndarray of shape (N,)
        Moments of z; for a label of -1, minus the mean of f. The variance may be zero.

    Returns
    -------
    Expectations
        With :math:`\lambda = \varphi/\Phi`: :math:`E[\log\Phi(z)]`; its derivative
        :math:`E[\lambda(z)]` w.r.t. the mean; and :math:`E[\lambda(z)(\lambda(z) + z)]`, between 0
        and 1, of which its derivative w.r.t. the variance is minus one half.

    Notes
    -----
    The left tail is quadratic, so fixed nodes reach as far to the left as the mass of the rows. To
    the right the functions vanish like :math:`\varphi(z)`. The zeros of :math:`\Phi` in the
    complex plane lie to the right, the nearest at :math:`1.9 \pm 2.8i`.
    """
    return _by_rule(
        Expectations,
        lambda mean, variance: (variance <= _NARROW) | (mean < -_FAR * np.sqrt(variance)),
        _narrow_log_normal_cdf,
        _wide_log_normal_cdf,
        (mean, variance),
    )


def _log_normal_cdf(z):
    """Return log Phi(z), lambda(z) = phi(z) / Phi(z), and lambda(z) (lambda(z) + z)."""
    # To the right of 9 all three vanish to rounding, and erfcx overflows further on.
    z = np.minimum(z, 9.0)
    scaled = erfcx(z * -np.sqrt(0.5))
    ratio = np.sqrt(2.0 / np.pi) / scaled
    value = np.log(scaled) - 0.5 * z**2 - np.log(2.0)
    return np.minimum(value, 0.0), ratio, _minus_ratio_slope(z, ratio)


def _minus_ratio_slope(z, ratio, far=-30.0):
    """Return lambda (lambda + z), where lambda + z cancels to the left and takes a series."""
    slope = ratio * (ratio + z)
    left = z < far
    if left.any():
        # lambda = -z / (1 - q deficit), by the asymptotic series of Mills' ratio 1 / lambda.
        q = z[left] ** -2.0
        deficit = 1 - 3 * q * (1 - 5 * q * (1 - 7 * q * (1 - 9 * q * (1 - 11 * q))))
        slope[left] = deficit / (1.0 - q * deficit) ** 2
    return slope


def _narrow_log_normal_cdf(mean, variance):
    functions = _log_normal_cdf(_moving_nodes(mean, variance))
    return [_WEIGHTS @ function for function in functions]


def _sinh_trapezoid(low, high=1e12, scale=4.0, step=0.07):
    """Return nodes scale sinh(s), at equal steps of s from about low to about high, and weights."""
    first, last = np.round(np.arcsinh(np.array([low, high]) / scale) / step)
    s = step * np.arange(first, last + 1.0)
    return scale * np.sinh(s), scale * step * np.cosh(s)


def _n_within(nodes, reach):
    """How many of the increasing nodes are needed to get as far as the reach."""
    return int(np.searchsorted(nodes, reach)) + 1


def _probit_constants():
    """Nodes of -z, (J,), and the three functions there times their weights, (3, J)."""
    nodes, weights = _sinh_trapezoid(-9.0)
    return nodes, weights * np.array(_log_normal_cdf(-nodes))


_PROBIT_NODES, _PROBIT_CONSTANTS = _probit_constants()


def _wide_log_normal_cdf(mean, variance):
    n = _n_within(_PROBIT_NODES, np.max(_REACH * np.sqrt(variance) - mean))
    return _PROBIT_CONSTANTS[:, :n] @ _densities(_PROBIT_NODES[:n], -mean, variance)


# log cosh


def expected_log_cosh(mean, variance, r):
    r"""Return expectations of :math:`\log(2\cosh(c/2))`, where :math:`c^2 = z^2 + r`.

    Parameters
    ----------
    mean, variance, r : ndarray of shape (N,)
        Moments of z, and the constant in c; the variance and r may be zero.

    Returns
    -------
    LogCoshExpectations
        With :math:`\theta(c) = \tanh(c/2)/(2c)`: the value :math:`E[\log(2\cosh(c/2))]`; the weight
        :math:`E[\theta]`, twice its derivative w.r.t. r; the slope :math:`E[\theta z]`, its
        derivative w.r.t. the mean; and the curvature :math:`E[\theta + \theta' z^2/c] \ge 0`, twice
        its derivative w.r.t. the variance.

    Notes
    -----
    The last integrand is the mean of :math:`\theta` and :math:`\mathrm{sech}^2(c/2)/4` with
    weights :math:`r/c^2` and :math:`z^2/c^2`, so nothing cancels. The singularities nearest to the
    real line are at :math:`\pm i\sqrt{r + \pi^2}`: nodes are scaled by that.
    """
    return _by_rule(
        LogCoshExpectations,
        lambda mean, variance, r: (
            (variance <= _NARROW * _squared_scale(r)) | (np.abs(mean) > _FAR * np.sqrt(variance))
        ),
        _narrow_log_cosh,
        _wide_log_cosh,
        (mean, variance, r),
        chunk=96,
    )


def _squared_scale(r):
    """How much wider than at r = 0 the functions are, squared."""
    return 1.0 + r / np.pi**2


def _log_cosh(squared, r):
    """Return log(2cosh(c/2)), theta(c), derivative of theta z, at z^2 (overwritten) and r."""
    # A floor, far below rounding in any result, spares the case c = 0.
    c_squared = np.add(squared, r + 1e-200, out=squared)
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
    curvature = np.divide(r, c_squared, out=c_squared)
    curvature *= theta - flat
    curvature += flat
    return value, theta, curvature


def _narrow_log_cosh(mean, variance, r):
    z = _moving_nodes(mean, variance)
    value, theta, curvature = _log_cosh(z**2, r)
    return [_WEIGHTS @ function for function in (value, theta, theta * z, curvature)]


_FOLDED_NODES, _FOLDED_WEIGHTS = _sinh_trapezoid(0.0)
# Each node stands for both signs, but zero for itself only.
_FOLDED_WEIGHTS[0] *= 0.5


def _wide_log_cosh(mean, variance, r):
    scale = np.sqrt(_squared_scale(r))
    mean_in_scale, variance_in_scale = mean / scale, variance / scale**2
    reach = np.max(np.abs(mean_in_scale) + _REACH * np.sqrt(variance_in_scale))
    n = _n_within(_FOLDED_NODES, reach)
    nodes, weights = _FOLDED_NODES[:n], _FOLDED_WEIGHTS[:n]
    value, theta, curvature = _log_cosh(np.square(nodes[:, None] * scale), r)
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
