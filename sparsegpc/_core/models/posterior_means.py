r"""The mean of q(u) at a fixed covariance: the inner problem of the ascent in `sites`.

If the likelihood is log-concave, the bound is concave in the mean. L-BFGS maximises it. Its first
step is the Newton step for a likelihood whose negative second derivative in f is the site
precision. The true curvature at a misclassified row may be nearly zero. If such a row has a large
weight, full steps are far too long and are halved.

The means of several functions may depend on each other so much that these steps, for one function
at a time, are poor. If the likelihood can multiply by its Hessian, Newton's method maximises the
bound over all means together, and these steps precondition the conjugate gradients of its steps.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import FunctionPosterior, mean_curvature, row_sums
from sparsegpc._core.bounds.slacks import STANDARD
from sparsegpc._core.likelihoods.base import Expectation
from sparsegpc._core.numerics.linalg import cholesky_of_identity_plus, solve_cholesky


class Covariance:
    """The covariance of q(u) of one function at fixed site precisions, and steps for its mean.

    A `prior_mean` of None learns the prior mean of f. For predictions it is as uncertain as with a
    normal prior of the precision `mean_precision`. Cost N M^2 + M^3 / 3.
    """

    def __init__(self, features, state, prior_mean, mean_precision=0.0):
        self._prior_mean, self._mean_precision = prior_mean, mean_precision
        self._sums = row_sums(features, state.sites(), STANDARD)
        self.LB = cholesky_of_identity_plus(self._sums.VpV)
        self._n_rows = features.n_rows
        self._w_p = solve_cholesky(self.LB, self._sums.Vp)
        self._curvature = mean_curvature(self._sums.precision, self._sums.Vp, self._w_p)

    def posterior(self, mean):
        """Return the `FunctionPosterior` with a given mean, shape (M + 1,), without its bound."""
        ratio = self._sums.residual_ratio / self._n_rows
        found = FunctionPosterior(
            mean[:-1], self.LB, float(mean[-1]), mean_ratio=ratio, n_rows=self._n_rows
        )
        if self._prior_mean is not None:
            return found
        found = found._replace(mean_variance=1.0 / self._curvature, w_p=self._w_p)
        return found.with_mean_precision(self._mean_precision)

    def mean(self):
        """Return the mean for the shifts b of the sites, shape (M + 1,).

        The first M entries are :math:`w = B^{-1} V (b - \\mu p)`, in whitened coordinates; the last
        is the prior mean :math:`\\mu`.
        """
        w_b, mu = solve_cholesky(self.LB, self._sums.Vb), self._prior_mean
        if mu is None:
            mu = float(self._sums.shift - self._sums.Vp @ w_b) / self._curvature
        return np.append(w_b - mu * self._w_p, mu)

    def newton_step(self, gradient):
        """Return the Newton step of w and the prior mean for a gradient, both of shape (M + 1,)."""
        step = solve_cholesky(self.LB, gradient[:-1])
        mu = 0.0
        if self._prior_mean is None:
            mu = float(gradient[-1] - self._sums.Vp @ step) / self._curvature
        return np.append(step - mu * self._w_p, mu)


class MeansIterate(NamedTuple):
    """The bound as a function of the means of q(u) and of the prior, ``x`` (K, M + 1).

    ``value`` is the part of the bound that depends on x, and ``gradient`` (K, M + 1) its gradient.
    ``mean_of_f`` (K, N) holds the means of f at the rows, and ``expected`` is the `Expectation` at
    these means.
    """

    x: np.ndarray
    value: float
    gradient: np.ndarray
    mean_of_f: np.ndarray
    expected: Expectation
