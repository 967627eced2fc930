r"""The gain of an inducing point: what it adds to the bound at fixed hyperparameters and sites.

Let :math:`\Sigma = K_{uu} + K_{uf} P K_{fu}`, :math:`A = K_{uu}^{-1} K_{uf}` and
:math:`\chi = \sum p - p^\top Q_\Sigma p` with :math:`Q_\Sigma = K_{fu} \Sigma^{-1} K_{uf}`, the
curvature of the bound in the prior mean. Without point i the residual of row n is larger by
:math:`A_{in}^2 / \kappa_i`, and the point's gain is

.. math::
    \tfrac12 \log \frac{s_i}{\kappa_i} + \frac{\chi q_i^2}{2 (\chi s_i + \pi_i^2)}
    + \mathrm{slack} - \mathrm{slack}_{-i}, \qquad
    \kappa = \mathrm{diag}\, K_{uu}^{-1}, \quad s = \mathrm{diag}\, \Sigma^{-1}, \quad
    q = \Sigma^{-1} K_{uf} (b - \mu p), \quad \pi = \Sigma^{-1} K_{uf} p.

A new point z has the features v and the residual r, and :math:`e = (k(X, z) - V^\top v)/\sqrt r` is
its row of the features. With it the residual of row n is smaller by :math:`e_n^2`, and it gains

.. math::
    -\tfrac12 \log S + \frac{\chi t^2}{2 (\chi S - \tau^2)} + \mathrm{slack}_{+z} - \mathrm{slack},

where :math:`S = 1 + e^\top P e - g^\top B^{-1} g` with :math:`g = V P e`,
:math:`t = e^\top (b - \mu p) - g^\top w` and :math:`\tau = e^\top p - g^\top B^{-1} V p`. If the
prior mean is not learned, the middle terms are :math:`q_i^2 / (2 s_i)` and :math:`t^2 / (2 S)`.
"""

import numpy as np

from sparsegpc._core.bounds.collapsed import mean_curvature
from sparsegpc._core.bounds.features import ZERO_RESIDUAL
from sparsegpc._core.numerics.floats import EPSILON, TINY
from sparsegpc._core.numerics.linalg import (
    column_squares,
    mirrored,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)
from sparsegpc._core.rows.blocks import Table

# Where removals lower an entry of the diagonal of the inverse of Kuu, or of Sigma, to a smaller
# share, too many of its digits have cancelled.
SMALLEST_SHARE = 1e-7


def gains_of_points(features, outputs, slack, learns_mean):
    """Return the `PointGains` of all inducing points, as sums over the functions.

    The outputs are pairs of the `Sites` of a function and its optimal q(u). If `learns_mean`, the
    prior mean maximises the bound; otherwise it is fixed. Cost 2 N M^2 + N M for each function.
    """
    n_points = len(features.Luu)
    whitener = solve_lower(features.Luu, np.eye(n_points))
    prior = whitener.T @ whitener
    functions = [
        _FunctionGains(features, whitener, prior, sites, posterior, slack, learns_mean)
        for sites, posterior in outputs
    ]
    return PointGains(prior, functions)


class PointGains:
    """The gains of the points that are left while points are removed one by one.

    At first they are exact. A removal updates them exactly but for the slack, whose rise by the
    removal of a point is then approximated: in its ratio to the linearised slack, which is at most
    one, it stays as it was at first. `prior` (M, M) is the inverse of Kuu.
    """

    def __init__(self, prior, functions):
        self._prior, self._functions = prior, functions
        self._first = prior.diagonal().copy()
        self.left = np.arange(len(prior))

    def gains(self, among=slice(None)):
        """Return the gains in nats of the points ``left[among]``."""
        left = self.left[among]
        prior = self._prior[left, left]
        return sum(function.gains(left, prior) for function in self._functions)

    def is_reliable(self):
        """Return which gains of the points ``left`` are not dominated by rounding errors."""
        left = self.left
        is_reliable = self._prior[left, left] >= SMALLEST_SHARE * self._first[left]
        return np.all([is_reliable, *(f.is_reliable(left) for f in self._functions)], axis=0)

    def remove(self, place):
        """Remove the point ``left[place]``. Cost M^2 for each function."""
        point = self.left[place]
        ratio = self._prior[:, point] / self._prior[point, point]
        for function in self._functions:
            function.remove(point, ratio)
        self._prior -= np.outer(ratio, self._prior[point])
        self.left = np.delete(self.left, place)


class _FunctionGains:
    """The part of one function in the gains, at its sites."""

    def __init__(self, features, whitener, prior, sites, posterior, slack, learns_mean):
        p, n_rows = sites.precision, features.n_rows
        g = p * slack.scale(p * features.residual, posterior.mean_ratio)
        by_prior = 1.0 / prior.diagonal()

        def sums(V, residual, p, g):
            A = whitener.T @ V
            risen = A * A
            risen *= by_prior[:, None]
            risen += residual
            risen *= p
            terms = slack.row_term(risen).sum(axis=1)
            return weighted_gram(A, g), V @ p, terms, slack.row_term(p * residual).sum()

        gram, Vp, risen, now = features.sum(sums, features.residual, p, g)
        half = solve_lower(posterior.LB, whitener)
        self._inverse = half.T @ half
        self._first = self._inverse.diagonal().copy()
        self._q = whitener.T @ posterior.w
        self._ones, self._curvature = np.zeros(len(Vp)), 1.0
        if learns_mean:
            w_p = solve_cholesky(posterior.LB, Vp)
            self._ones = whitener.T @ w_p
            self._curvature = mean_curvature(p.sum(), Vp, w_p)
        self._gram = mirrored(gram)
        linear = 0.5 * self._gram.diagonal() * by_prior
        exact = slack.value(now, n_rows) - np.array([slack.value(x, n_rows) for x in risen])
        self._share = np.divide(exact, linear, out=np.ones_like(linear), where=linear > 0.0)

    def gains(self, left, prior):
        """Return the gains of points (n,), given the diagonal of the inverse of Kuu there."""
        s, q, ones = self._inverse[left, left], self._q[left], self._ones[left]
        fit = 0.5 * q**2 * self._curvature / (self._curvature * s + ones**2)
        slack = 0.5 * self._share[left] * self._gram[left, left] / prior
        return 0.5 * np.log(s / prior) + fit + slack

    def is_reliable(self, left):
        """Return which variances `s` of points (n,) are not dominated by rounding errors."""
        return self._inverse[left, left] >= SMALLEST_SHARE * self._first[left]

    def remove(self, point, by_prior):
        """Remove a point; `by_prior` (M,) is the column of the inverse of Kuu over its diagonal."""
        s, q, ones = self._inverse[point, point], self._q[point], self._ones[point]
        ratio = self._inverse[:, point] / s
        self._q, self._ones = self._q - q * ratio, self._ones - ones * ratio
        self._inverse -= np.outer(ratio, self._inverse[point])
        self._curvature += ones**2 / s
        # The prior mean moves to where the bound without the point is highest.
        self._q -= (ones * q / s / self._curvature) * self._ones
        column = self._gram[:, point] - 0.5 * self._gram[point, point] * by_prior
        self._gram -= np.outer(by_prior, column)
        self._gram -= np.outer(column, by_prior)


def removal_order(gains, cost=np.inf):
    """Remove points while the least gain is below a cost in nats, and return them in this order.

    At least one point is left. With an infinite cost the order ranks all points, except those whose
    gains are dominated by rounding errors.
    """
    removed = []
    while len(gains.left) > 1:
        values = np.full(len(gains.left), np.inf)
        is_reliable = gains.is_reliable()
        values[is_reliable] = gains.gains(is_reliable)
        place = int(values.argmin())
        if not values[place] < cost:
            break
        removed.append(int(gains.left[place]))
        gains.remove(place)
    return removed


def gains_of_new_points(features, outputs, slack, learns_mean, Z):
    """Return the exact gain in nats of each of C new points `Z` (C, D), added by itself.

    See `gains_of_points`. A point that the others span gains nothing. Cost 2 N M C for each
    function.
    """
    kernel, theta = features.kernel, features.theta
    v, kdiag = features.whiten(Z), kernel.diag(theta, Z)
    r = kdiag - column_squares(v)
    is_new = r > 10.0 * ZERO_RESIDUAL * np.sqrt(len(v)) * EPSILON * kdiag
    scale = np.divide(1.0, np.sqrt(np.maximum(r, TINY)), out=np.zeros(len(Z)), where=is_new)
    return sum(
        _gains_of_new(features, sites, posterior, slack, learns_mean, Z, v, scale)
        for sites, posterior in outputs
    )


def _gains_of_new(features, sites, posterior, slack, learns_mean, Z, v, scale):
    kernel, theta, n_rows = features.kernel, features.theta, features.n_rows
    w, LB, prior_mean = posterior.w, posterior.LB, posterior.prior_mean

    def sums(V, X, residual, p, shift):
        e = (kernel.value(theta, Z, X) - v.T @ V) * scale[:, None]
        left = p * np.maximum(residual - e * e, 0.0)
        mean_error = e @ (shift - p * prior_mean - p * (w @ V))
        squares, ones = (e * e) @ p, e @ p
        terms = slack.row_term(left).sum(axis=1), slack.row_term(p * residual).sum()
        return V @ (p * e).T, mean_error, squares, ones, V @ p, p.sum(), *terms

    inputs = Table(features.X), features.residual, sites.precision, sites.shift
    g, t, squares, ones, Vp, total, left, now = features.sum(sums, *inputs)
    S = 1.0 + squares - column_squares(solve_lower(LB, g))
    curvature, tau = 1.0, 0.0
    if learns_mean:
        w_p = solve_cholesky(LB, Vp)
        curvature = mean_curvature(total, Vp, w_p)
        tau = ones - w_p @ g
    fit = 0.5 * t**2 * curvature / (curvature * S - tau**2)
    slacks = np.array([slack.value(x, n_rows) for x in left]) - slack.value(now, n_rows)
    return fit - 0.5 * np.log(S) + slacks
