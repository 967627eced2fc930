r"""Predictive densities, distribution functions and quantiles of a `ResponseLikelihood`.

They integrate over a Gaussian f, in units z of its deviation from its mean. As a function of f the
density of a target is unimodal, and may be much narrower than the Gaussian or lie in its far tail;
its distribution function falls from one to zero around the same place. The nodes follow both.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from sparsegpc._core.likelihoods.expectations import NODES, WEIGHTS
from sparsegpc._core.likelihoods.responses import LARGEST_LOG, ResponseLikelihood, observations
from sparsegpc._core.numerics.floats import LOG_2PI
from sparsegpc._core.numerics.quadrature import legendre_panels, narrowed

# Deviations of f beyond which its density is negligible, and widths beyond which a function of f
# has come close to its limits.
REACH, WIDTHS = 9.0, 16.0
# How often an interval is narrowed to the relevant part, at most.
MOST_ZOOMS = 20
# Rows integrated at a time, so that the temporary arrays stay small.
CHUNK = 256
# Smallest deviation of f relative to its mean. Nodes that are closer would lose their digits.
SMALLEST_DEVIATION = 1e-10
# Largest probit in the search for quantiles.
LARGEST_PROBIT = 40.0
# Accuracy of the probit, and largest number of steps of this search.
PROBIT_TOL, MOST_STEPS = 1e-10, 200
# Steps before bisection in mixtures, where secants hardly advance along a plateau between
# components that are far apart.
MOST_SECANTS = 30

# A function of f with a wider peak also changes on this scale somewhere.
LARGEST_WIDTH = 1.4
# Moving nodes suffice if the deviation of f is at most this fraction of the width.
_NARROW = 0.5

# Gauss-Legendre nodes and weights for the interval from 0 to 1.
_PANEL_NODES, _PANEL_WEIGHTS = (part[:, None] for part in legendre_panels([0.0, 1.0], 48))
_GRID = np.linspace(0.0, 1.0, 65)[:, None]


class PredictivePart(NamedTuple):
    """A component of a mixture: its weight, its likelihood, and mean and variance of f, (n,)."""

    weight: float
    likelihood: ResponseLikelihood
    mean: np.ndarray
    variance: np.ndarray

    def at(self, rows):
        """Return the part for some of the rows."""
        return self._replace(mean=self.mean[rows], variance=self.variance[rows])


def _by_chunk(function, *rows):
    """Return the results of a function of at most `CHUNK` rows at a time."""
    starts = range(0, len(rows[0]), CHUNK)
    parts = [function(*(row[start : start + CHUNK] for row in rows)) for start in starts]
    return np.concatenate(parts) if parts else np.empty(0)


def _deviation(mean, variance):
    return np.maximum(np.sqrt(variance), SMALLEST_DEVIATION * (1.0 + np.abs(mean)))


def _panels(likelihood, y, mean, deviation, low, high):
    """Return nodes z and weights (J, n) of rules on panels of the intervals from `low` to `high`.

    The panels meet at the place of the peak of log p(y | f), and some widths below and above it.
    """
    place, width = (part / deviation for part in _peak_from(likelihood, y, mean))
    inner = [np.clip(place + side * WIDTHS * width, low, high) for side in (-1.0, 0.0, 1.0)]
    pairs = list(pairwise([low, *inner, high]))
    nodes = [start + (end - start) * _PANEL_NODES for start, end in pairs]
    weights = [(end - start) * _PANEL_WEIGHTS for start, end in pairs]
    return np.concatenate(nodes), np.concatenate(weights)


def _peak_from(likelihood, y, mean):
    """Return the place of the peak relative to the mean of f, and its width, limited."""
    place, width = likelihood.peak(y)
    return place - mean, np.minimum(width, LARGEST_WIDTH)


def log_predictive_density(likelihood, y, mean, variance):
    """Return log E[p(y | f)], in nats, for targets, means and variances of f of shape (n,).

    Notes
    -----
    Gauss-Legendre rules on panels of the interval where the integrand is not negligible. As the
    integrand is unimodal, narrowing an interval to the relevant part of a grid finds it.
    """

    def integrate(y, mean, variance):
        deviation = _deviation(mean, variance)
        peak = _peak_from(likelihood, y, mean)[0] / deviation
        low, high = np.minimum(0.0, peak) - REACH, np.maximum(0.0, peak) + REACH

        def log_integrand(z):
            return likelihood.log_density(y, mean + deviation * z) - 0.5 * z**2 - 0.5 * LOG_2PI

        for _ in range(MOST_ZOOMS):
            values = log_integrand(low + (high - low) * _GRID)
            low, high, n_steps = narrowed(low, high, values)
            if (n_steps >= len(_GRID) // 4).all():
                break
        nodes, weights = _panels(likelihood, y, mean, deviation, low, high)
        return logsumexp(log_integrand(nodes), axis=0, b=weights)

    return _by_chunk(integrate, y, mean, variance)


def predictive_cdf(likelihood, y, mean, variance):
    """Return E[P(Y <= y | f)] for targets, means and variances of f of shape (n,).

    Notes
    -----
    A trapezoidal rule of 29 nodes where f varies little; otherwise Gauss-Legendre rules on panels.
    """

    def narrow(y, mean, deviation):
        return WEIGHTS @ likelihood.cdf(y, mean + deviation * NODES)

    def wide(y, mean, deviation):
        ends = np.full(len(y), -REACH), np.full(len(y), REACH)
        z, weights = _panels(likelihood, y, mean, deviation, *ends)
        weights *= np.exp(-0.5 * z**2 - 0.5 * LOG_2PI)
        return (weights * likelihood.cdf(y, mean + deviation * z)).sum(axis=0)

    deviation = _deviation(mean, variance)
    is_narrow = deviation <= _NARROW * _peak_from(likelihood, y, mean)[1]
    probability = np.empty(len(y))
    for rule, rows in ((narrow, is_narrow), (wide, ~is_narrow)):
        probability[rows] = _by_chunk(rule, y[rows], mean[rows], deviation[rows])
    return np.clip(probability, 0.0, 1.0)


def mixture_predictive_cdf(parts, y):
    """Return P(Y <= y) for targets (n,) of mixtures, from a list of `PredictivePart`."""
    probability = sum(p.weight * predictive_cdf(p.likelihood, y, p.mean, p.variance) for p in parts)
    # Rounding may raise the sum above one.
    return np.minimum(probability, 1.0)


def predictive_quantiles(likelihood, level, mean, variance, exposure):
    """Return the smallest y with P(Y <= y) >= level, for moments of f and exposures (n,).

    They are limited to about 1e304 and, if they are not counts, 1e-304.
    """
    target, is_discrete = ndtri(level), likelihood.is_discrete

    def search(mean, variance, exposure):
        excess = _excess([PredictivePart(1.0, likelihood, mean, variance)], target, exposure)
        guess = _log_normal_guess(likelihood, target, mean, variance, exposure)
        return _roots(excess, *guess, is_discrete, *_all_numbers(len(mean), is_discrete))

    return _by_chunk(search, mean, variance, exposure)


def mixture_predictive_quantiles(parts, level, exposure):
    """Return the smallest y with P(Y <= y) >= level for mixtures, given exposures (n,).

    `parts` is a list of `PredictivePart` with positive weights, whose likelihoods are of one kind.
    A quantile is between the least and the largest one of the components.
    """
    ends = np.stack(
        [predictive_quantiles(p.likelihood, level, p.mean, p.variance, exposure) for p in parts]
    )
    if len(parts) == 1:
        return ends[0]
    target, is_discrete = ndtri(level), parts[0].likelihood.is_discrete
    low, high = ends.min(axis=0), ends.max(axis=0)
    if is_discrete:
        # A count at which no component reaches the level.
        low = np.minimum(low - 1.0, np.nextafter(low, -np.inf))
    excess, guess = _excess(parts, target, exposure), _guess_between(ends, parts, target, exposure)
    return _roots(excess, *guess, is_discrete, low, high, MOST_SECANTS)


def _excess(parts, target, exposure):
    """Return the function for `_roots` that is zero at quantiles of mixtures of `PredictivePart`.

    It is the probit of P(Y <= y), limited, minus that of the level, `target`.
    """

    def excess(y, rows):
        y = observations(y, exposure[rows])
        probit = ndtri(mixture_predictive_cdf([part.at(rows) for part in parts], y))
        return np.clip(probit, -LARGEST_PROBIT, LARGEST_PROBIT) - target

    return excess


def _guess_between(ends, parts, target, exposure):
    """Return what `_log_normal_guess` does, for mixtures, from quantiles (J, n) of components."""
    weights = np.array([part.weight for part in parts])
    scales = [
        _log_normal_guess(p.likelihood, target, p.mean, p.variance, exposure)[1] for p in parts
    ]
    # Half a count in place of none.
    least = 0.5 if parts[0].likelihood.is_discrete else 0.0
    return weights @ np.log(np.maximum(ends, least)), weights @ np.stack(scales)


def _all_numbers(n, is_discrete):
    """Return the ends of intervals for `_roots` that hold all quantiles, (n,) each."""
    floor, ceiling = np.exp([-LARGEST_LOG, LARGEST_LOG])
    return np.full(n, -1.0 if is_discrete else floor), np.full(n, ceiling)


def _log_normal_guess(likelihood, target, mean, variance, exposure):
    """Return guesses of the logarithms of quantiles, (n,), and of their slopes in the probit."""
    linear, quadratic = likelihood.variance_coefficients(exposure)
    centre = likelihood.log_mean_factor() + mean + np.log(exposure)
    relative_variance = linear * np.exp(np.clip(-centre, -LARGEST_LOG, LARGEST_LOG)) + quadratic
    variance_of_log = np.log1p(relative_variance)
    scale = np.sqrt(variance + variance_of_log)
    return centre - 0.5 * variance_of_log + target * scale, scale


def _roots(excess, first, scale, is_discrete, low, high, most_secants=MOST_STEPS):
    """Return the smallest y at which each of n increasing functions is not negative, shape (n,).

    It is at most `high` and at least `low`, or above `low` for counts. ``excess(y, rows)`` returns
    the values of the functions `rows` at y. They are nearly linear in x, the logarithm of y, or of
    1 + y for counts, with the slope ``1 / scale``; `first` guesses log y. The Illinois method, a
    secant method with a bracket, finds their roots in x. After `most_secants` steps bisection takes
    its place. Of counts only whole numbers are tried.
    """
    n, shift = len(first), 1.0 if is_discrete else 0.0
    low, high, floor = low.copy(), high.copy(), np.exp(-LARGEST_LOG)
    below, above = np.full(n, -np.inf), np.full(n, np.inf)
    x, last_side = np.logaddexp(0.0, first) if is_discrete else first, np.zeros(n)

    def log(y):
        return np.log(np.maximum(y + shift, floor))

    def are_open(rows, x_low, x_high):
        is_wide = x_high - x_low > 1e-12
        return is_wide & (high[rows] - low[rows] > 1.0) if is_discrete else is_wide

    rows = np.flatnonzero(are_open(slice(None), log(low), log(high)))
    for step in range(MOST_STEPS):
        if not len(rows):
            break
        y = np.exp(np.clip(x[rows], -LARGEST_LOG, LARGEST_LOG)) - shift
        if is_discrete:
            y = np.clip(np.rint(y), low[rows] + 1.0, high[rows] - 1.0)
        else:
            y = np.clip(y, low[rows], high[rows])
        value = excess(y, rows)
        is_low = value < 0.0
        # The value at an end that stays a second time is halved, so that a later step replaces it.
        side = np.where(is_low, -1.0, 1.0)
        share = np.where(side == last_side[rows], 0.5, 1.0)
        last_side[rows] = side
        low[rows], high[rows] = np.where(is_low, y, low[rows]), np.where(is_low, high[rows], y)
        below[rows] = np.where(is_low, value, share * below[rows])
        above[rows] = np.where(is_low, share * above[rows], value)

        x_low, x_high = log(low[rows]), log(high[rows])
        is_open = are_open(rows, x_low, x_high)
        if not is_discrete:
            is_root = np.abs(value) < PROBIT_TOL
            high[rows[is_root]] = y[is_root]
            is_open &= ~is_root
        with np.errstate(invalid="ignore"):
            secant = x_low - below[rows] * (x_high - x_low) / (above[rows] - below[rows])
        # Until there are values at both ends, ever longer steps by the guess of the slope.
        outwards = log(y) - 1.5 * 2.0**step * scale[rows] * value
        is_bracketed = np.isfinite(below[rows]) & np.isfinite(above[rows])
        x[rows] = np.where(is_bracketed, secant, outwards)
        if step >= most_secants:
            x[rows] = 0.5 * (x_low + x_high)
        rows = rows[is_open]
    return high
