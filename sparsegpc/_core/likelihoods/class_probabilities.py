r"""Probabilities of C classes under independent Gaussian latent functions, without sampling.

Both links, softmax and logistic-softmax, choose a class in proportion to rates
:math:`\zeta_j = e^{\ell(f_j)}`, with :math:`\ell(f) = f` or :math:`\ell(f) = \log\sigma(f)`. From
:math:`1 / \sum_j \zeta_j = \int_0^\infty e^{-\chi \sum_j \zeta_j} d\chi` and
:math:`\chi = e^{-x}`, with :math:`G(u) = e^{-e^{-u}}`,

.. math:: p_k = \int_{-\infty}^{\infty} h_k(x) \prod_{j \ne k} H_j(x) \, dx, \qquad
    H_j(x) = E[G(x - \ell(f_j))], \quad h_j = H_j',

where the expectation has one dimension: :math:`H_j` is the distribution function of
:math:`\ell(f_j)` plus standard Gumbel noise, and :math:`p_k` the probability that this sum is
largest for class k. The integral over x is split into Gauss-Legendre panels, from where the product
rises to where every :math:`H_j` is one. Three rules compute :math:`H_j` and :math:`h_j`. With them
the cost of a row hardly depends on the variances of f:

- For a narrow Gaussian, Gauss-Hermite nodes that move with its mean.
- For a wider one, equally spaced f on panels of a fixed length. These nodes are the same for all
  rows, so their expectations are one product with a constant matrix. The limits of G on either side
  are subtracted as smooth steps with closed expectations, and the sum covers only where G varies.
- Where only wide Gaussians still vary, panels whose length is proportional to their deviation, and
  :math:`H_j(x) = E_t[\Phi((x - t - mean_j) / deviation_j)]` by a Gauss rule for Gumbel t.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import log_expit, log_ndtr, ndtr

from sparsegpc._core.numerics.floats import TINY
from sparsegpc._core.numerics.quadrature import legendre_panels, normal_rule
from sparsegpc._core.rows.blocks import RowBlocks

# Pairs of a row and a class in a block, with temporary arrays of about 20 megabytes.
_PAIRS = 4096
# The integral covers this many deviations of f, and these distances in x below and above them; the
# tails outside are below 1e-13. Panels have the last length.
_DEVIATIONS, _BELOW, _ABOVE, _PANEL = 8.5, 3.7, 30.0, 10.0
_NODES, _WEIGHTS = legendre_panels([0.0, 1.0], 48)
# The Gauss-Hermite rule is accurate below the first deviation, steps of the second above it.
_NARROW, _STEP = 0.4, 0.25
_HERMITE_NODES, _HERMITE_WEIGHTS = normal_rule(24)
# From the first deviation on, panels are the second times the smallest deviation long, and the rule
# for Gumbel t has this many nodes.
_WIDE, _STRETCH, _N_GUMBEL = 8.0, 5.0, 12
# G is one at log rates this far below x, and zero at log rates this far above it.
_PAST, _AHEAD = 34.0, 4.0


class _Link(NamedTuple):
    """The log rate as a function of f, and a multiple of `_PANEL` below which it equals f."""

    log_rate: Callable
    straight_below: float


_SOFTMAX = _Link(np.positive, np.inf)
_LOGISTIC = _Link(log_expit, -40.0)


def expected_softmax(mean, variance):
    r"""Return :math:`E[e^{f_k} / \sum_j e^{f_j}]` for independent Gaussian f, shape (N, C).

    `mean` and `variance` (C, N) have a row for each latent function; only differences between the
    classes matter. Probabilities sum to one. The absolute accuracy is about 1e-11 for up to 100
    classes, and the relative accuracy of probabilities down to 1e-12 about 1e-8. Smaller ones are
    accurate if the variances are a few units at most; else, beyond 8 standard deviations, they are
    too small, and may be zero.

    Each row and class takes 4 to 17 panels of 48 nodes, and each panel about 200 exponentials and a
    product of 200 by 96. That is about 25 to 100 microseconds, for any variances. Memory is some
    tens of megabytes, whatever N.
    """
    mean, variance = _checked(mean, variance)
    # The integral of each row begins at zero, so the panels begin where the integrand does.
    mean = mean - _lower_end(mean, np.sqrt(variance), _SOFTMAX)
    return _normalised(_integrals(mean, variance, _SOFTMAX))


def expected_logistic_softmax(mean, variance):
    r"""Return :math:`E[\sigma(f_k) / \sum_j \sigma(f_j)]` for independent Gaussian f, shape (N, C).

    Arguments, accuracy and cost are those of `expected_softmax`. Galy-Fajou et al. 2019 estimate
    these probabilities by sampling.
    """
    mean, variance = _checked(mean, variance)
    return _normalised(_integrals(mean, variance, _LOGISTIC))


def _checked(mean, variance):
    return np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    )


def _normalised(integrals):
    return integrals / integrals.sum(axis=1, keepdims=True)


def _integrals(mean, variance, link):
    """Return the integrals of all classes, (N, C), whose rows sum to one up to their error."""
    n_classes, n_rows = mean.shape
    if n_rows == 0:
        return np.empty((0, n_classes))

    def block(mean, variance):
        return (), (_block_integrals(mean, np.sqrt(variance), link),)

    block_rows = max(1, _PAIRS // n_classes)
    blocks = RowBlocks(n_rows, n_classes, block_rows=block_rows)
    return blocks.visit(block, mean, variance)[1][0].T


def _lower_end(mean, deviation, link):
    """Return for each row the x below which the product of all H vanishes."""
    return link.log_rate(mean - _DEVIATIONS * deviation).max(axis=0) - _BELOW


def _block_integrals(mean, deviation, link):
    """Return the integrals (C, n): sums over the panels of each row, for all rows at once."""
    # Where the H of each class has reached one.
    ends = link.log_rate(mean + _DEVIATIONS * deviation) + _ABOVE
    # The margin keeps a lower end of zero, up to rounding, at the start of a panel.
    start = _PANEL * np.floor(_lower_end(mean, deviation, link) / _PANEL + 1e-9)
    stop = ends.max(axis=0)
    total = np.zeros(mean.shape)
    while (active := np.flatnonzero(start < stop)).size:
        length = _panel_lengths(deviation[:, active], ends[:, active], start[active], link)
        for rows, lattice in _groups(start[active], length, link):
            chosen = active[rows]
            total[:, chosen] += _panel_integrals(
                mean[:, chosen], deviation[:, chosen], start[chosen], length[rows], link, lattice
            )
        start[active] += length
    return total


def _panel_lengths(deviation, ends, start, link):
    """Return the lengths of the panels at `start`, longer where all Gaussians are wide."""
    smallest = np.where(ends > start, deviation, np.inf).min(axis=0)
    stretched = np.where(smallest >= _WIDE, np.floor(_STRETCH * smallest / _PANEL), 1.0)
    room = (link.straight_below - start) / _PANEL
    return _PANEL * np.maximum(np.minimum(stretched, room), 1.0)


def _groups(start, length, link):
    """Yield groups of rows and the `_Lattice` that they share, None on longer panels."""
    long = length > _PANEL
    if long.any():
        yield np.flatnonzero(long), None
    straight = ~long & (start < link.straight_below)
    if straight.any():
        yield np.flatnonzero(straight), _lattice(_SOFTMAX, 0.0)
    bent = ~long & ~straight
    for position in np.unique(start[bent]):
        yield np.flatnonzero(bent & (start == position)), _lattice(link, float(position))


def _panel_integrals(mean, deviation, start, length, link, lattice):
    """Return the integrals of h_k times the product of the other H over one panel of each row."""
    x = start[:, None] + length[:, None] * _NODES
    H = np.empty((*mean.shape, len(_NODES)))
    h = np.empty_like(H)
    narrow = deviation < _NARROW
    pair_rows = np.broadcast_to(np.arange(len(start)), mean.shape)
    for chosen, expectations in (
        (narrow, lambda *pair: _narrow_expectations(*pair, link)),
        (~narrow, _wide_expectations if lattice is None else lattice.expectations),
    ):
        if chosen.any():
            at = x[pair_rows[chosen]]
            H[chosen], h[chosen] = expectations(mean[chosen], deviation[chosen], at)
    log_H = np.log(np.clip(H, TINY, 1.0, out=H), out=H)
    others = np.exp(log_H.sum(axis=0) - log_H)
    others *= h
    return (others @ _WEIGHTS) * length


def _narrow_expectations(mean, deviation, x, link):
    """Return H and h, (pairs, nodes), by nodes that move with the mean."""
    at_mean = link.log_rate(mean)
    rate = np.exp(at_mean[:, None] - x)
    H, h = np.zeros_like(x), np.zeros_like(x)
    for node, weight in zip(_HERMITE_NODES, _HERMITE_WEIGHTS, strict=True):
        ratio = np.exp(link.log_rate(mean + deviation * node) - at_mean)
        scaled = ratio[:, None] * rate
        values = weight * np.exp(-scaled)
        H += values
        h += scaled * values
    return H, h


def _wide_expectations(mean, deviation, x):
    """Return H and h, (pairs, nodes), where l(f) = f, by nodes in the Gumbel variable."""
    H, h = np.zeros_like(x), np.zeros_like(x)
    centred = (x - mean[:, None]) / deviation[:, None]
    for node, weight in zip(*_gumbel_rule(), strict=True):
        z = centred - (node / deviation)[:, None]
        H += weight * ndtr(z)
        h += weight * np.exp(-0.5 * z**2)
    return H, h / (deviation * np.sqrt(2.0 * np.pi))[:, None]


class _Lattice(NamedTuple):
    """Constants of the rule of equally spaced f on a panel of the fixed length.

    For small f, G tends to one and its derivative to the rate; for large f both have limits, too.
    Each limit is multiplied by a normal distribution function of unit width at the start of the
    panel and subtracted. Its expectation has a closed form, and the remainder is analytic and
    vanishes at both ends of the nodes.
    """

    f: np.ndarray  # relative to the start of the panel
    below: np.ndarray  # limit of h / e^f for small f, (nodes,); that of H is one
    above: np.ndarray  # limits for large f, (2 * nodes,)
    rest: np.ndarray  # the remainder, (J, 2 * nodes)

    def expectations(self, mean, deviation, x):
        """Return H and h, (pairs, nodes), on the panel whose nodes are x."""
        mean = mean - (x[:, 0] - _PANEL * _NODES[0])
        z = (self.f - mean[:, None]) / deviation[:, None]
        np.multiply(z, -0.5 * z, out=z)
        density = np.exp(z, out=z)
        density *= (_STEP / np.sqrt(2.0 * np.pi) / deviation)[:, None]
        values = density @ self.rest
        variance = deviation**2
        step = mean / np.sqrt(variance + 1.0)
        values += ndtr(step)[:, None] * self.above
        H, h = np.split(values, 2, axis=1)
        H += ndtr(-step)[:, None]
        h += _stepped_exponential(mean, variance)[:, None] * self.below
        return H, h


@cache
def _lattice(link, start):
    """Return the `_Lattice` of the panel at `start`. Where l(f) = f, all panels share one."""
    bent = start >= link.straight_below
    x = _PANEL * _NODES
    top = _PANEL + _AHEAD
    if bent and start + top > 0.0:
        # The nodes must reach up to where the rate is one.
        top = -link.straight_below - start
    f = np.arange(-_PAST, top + _STEP, _STEP)
    log_rate = link.log_rate(start + f) - start if bent else f
    rest = _gumbel_pair(np.exp(log_rate[:, None] - x))
    # The limits: one and the rate itself for small f, the values at rate e^-x for large f.
    below = np.exp(-x)
    above = _gumbel_pair(np.exp(-start - x)) if bent else np.zeros(2 * len(x))
    rest -= ndtr(f)[:, None] * above
    H, h = np.split(rest, 2, axis=1)
    H -= ndtr(-f)[:, None]
    h -= (np.exp(f) * ndtr(-f))[:, None] * below
    return _Lattice(f, below, above, rest)


def _gumbel_pair(rate):
    """Return G and its derivative side by side, at a rate of e^-u."""
    values = np.exp(-rate)
    return np.concatenate([values, rate * values], axis=-1)


def _stepped_exponential(mean, variance):
    """Return E[exp(f) P(t < -f)] for f ~ N(mean, variance) and a standard normal t."""
    # In logs, since one factor overflows where the other underflows.
    log_tail = log_ndtr(-(mean + variance) / np.sqrt(variance + 1.0))
    return np.exp(mean + 0.5 * variance + log_tail)


@cache
def _gumbel_rule():
    """Return the nodes and weights of the Gauss rule for the standard Gumbel distribution."""
    t = np.arange(-4.0, 60.0, 0.05)
    weight = np.exp(-t - np.exp(-t))
    weight /= weight.sum()
    basis = [np.sqrt(weight)]
    diagonal, off_diagonal = [], []
    # Lanczos on the points t: the recurrence of the orthogonal polynomials.
    for _ in range(_N_GUMBEL):
        vector = t * basis[-1]
        diagonal.append(vector @ basis[-1])
        for _ in range(2):
            for other in basis:
                vector = vector - (vector @ other) * other
        off_diagonal.append(np.linalg.norm(vector))
        basis.append(vector / off_diagonal[-1])
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off_diagonal[:-1]))
    return nodes, vectors[0] ** 2
