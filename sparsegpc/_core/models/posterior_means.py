r"""The mean of q(u) at a given covariance: what is cheap about the ascent of `sites`.

Where the likelihood is log-concave the bound is concave in the mean. L-BFGS climbs it, in a metric
in which its first step is Newton's for a likelihood whose curvature in f is the site precisions.
Where a heavy row is on the wrong side its curvature vanishes, and steps are far too long.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import FunctionPosterior, row_sums
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.likelihoods.base import Expectation
from sparsegpc._core.numerics.linalg import cholesky_of_identity_plus, solve_cholesky

EPSILON, TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny


class Covariance:
    """q(u) of one function at fixed site precisions: all but its mean.

    Cost N M^2 + M^3 / 3.

    Parameters
    ----------
    features : RowFeatures
    state : SiteState
    prior_mean : float or None
        None learns it.
    """

    def __init__(self, features, state, prior_mean):
        self._prior_mean = prior_mean
        self._sums = row_sums(features, state.sites(), STANDARD)
        self.LB = cholesky_of_identity_plus(self._sums.VpV)
        self._n_rows = features.n_rows
        self._w_p = solve_cholesky(self.LB, self._sums.Vp)
        curvature = self._sums.precision - self._sums.Vp @ self._w_p
        self._curvature = max(curvature, EPSILON * self._sums.precision, TINY)

    def posterior(self, mean):
        """Return the `FunctionPosterior` of a mean of shape (M + 1,), without its bound."""
        cost = self._sums.cost / self._n_rows
        return FunctionPosterior(
            mean[:-1], self.LB, float(mean[-1]), mean_cost=cost, n_rows=self._n_rows
        )

    def mean(self):
        """Return the mean that the shifts b of the sites imply, shape (M + 1,).

        It is :math:`w = B^{-1} V (b - \\mu p)` in whitened coordinates, with the prior mean
        :math:`\\mu` behind it.
        """
        w_b, mu = solve_cholesky(self.LB, self._sums.Vb), self._prior_mean
        if mu is None:
            mu = float(self._sums.shift - self._sums.Vp @ w_b) / self._curvature
        return np.append(w_b - mu * self._w_p, mu)

    def newton_step(self, gradient):
        """Return the step of w and the prior mean, as one vector, for the gradient w.r.t. them.

        It is Newton's for a likelihood whose curvature in f is the site precision.
        """
        step = solve_cholesky(self.LB, gradient[:-1])
        mu = 0.0
        if self._prior_mean is None:
            mu = float(gradient[-1] - self._sums.Vp @ step) / self._curvature
        return np.append(step - mu * self._w_p, mu)


class MeansPoint(NamedTuple):
    """The bound at means of q(u) and of the prior, ``x`` (K, M + 1).

    ``value`` is the part of the bound that depends on them, ``gradient`` (K, M + 1) its derivative,
    ``mean_of_f`` (K, N) the means of f at the rows, and ``expected`` the `Expectation` there.
    """

    x: np.ndarray
    value: float
    gradient: np.ndarray
    mean_of_f: np.ndarray
    expected: Expectation
