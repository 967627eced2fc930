r"""The means of q(u) at fixed site precisions: the inner problem of the ascent in `sites`.

The precisions determine the covariance of q(u), and the scales v of the residuals. What then
depends on the mean w of q(u) and on the prior mean :math:`\mu`, of each function, is

.. math:: \sum_n E_n(m_n, s_n + v_n r_n) - \tfrac12 w^\top w, \qquad m_n = \mu + V_n^\top w.

With the slopes :math:`\alpha_n = \partial E_n / \partial m_n` its gradient is
:math:`V \alpha - w` and, for the prior mean, :math:`\sum_n \alpha_n`.

If the likelihood is log-concave, this is concave in the means. L-BFGS maximises it. Its first
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
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.slacks import STANDARD, scales_at
from sparsegpc._core.likelihoods.base import Expectation, Likelihood
from sparsegpc._core.numerics.linalg import (
    cholesky_of_identity_plus,
    column_squares,
    solve_cholesky,
    solve_lower,
)
from sparsegpc._core.optimisers.lbfgs import maximize_lbfgs
from sparsegpc._core.optimisers.newton_cg import maximize_newton
from sparsegpc._core.rows.blocks import Table

# Lower limit of precisions, which keeps their logarithms finite.
SMALLEST_PRECISION = 1e-100
# Precisions this many times too large or too small are useless as curvatures.
ASTRAY = 1e3
# The search for the means by Newton steps ends when a step would gain less than this fraction of
# what it has gained, since the next pass changes them by more.
MEANS_SHARE = 0.003


class OutputRows(NamedTuple):
    """The rows of one output: their features, its likelihood, targets (N,) and weights (N,)."""

    features: RowFeatures
    likelihood: Likelihood
    y: np.ndarray
    weight: np.ndarray


class FixedPrecisions:
    """What the site precisions of one function determine: the covariance of q(u), and steps.

    ``LB`` (M, M) is the Cholesky factor of :math:`B = I + V P V^\\top`. A `prior_mean` of None
    learns the prior mean of f. For predictions it is as uncertain as with a normal prior of the
    precision `mean_precision`. Cost N M^2 + M^3 / 3.
    """

    def __init__(self, features, state, prior_mean, mean_precision):
        self._prior_mean, self._mean_precision = prior_mean, mean_precision
        self._sums = row_sums(features, state.sites(), STANDARD)
        self.LB = cholesky_of_identity_plus(self._sums.VpV)
        self._n_rows = features.n_rows
        # w_p = B^-1 V p, minus the derivative of the best w w.r.t. the prior mean.
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


class BoundOfMeans:
    """The bound of one output as a function of the means, at the precisions of given sites.

    It starts from means (K, M + 1), or from those that the shifts of the `states` give. ``start``
    is the `MeansIterate` there; ``functions`` are the `FixedPrecisions` of each function;
    ``precision``, the scales ``v`` of the residuals and ``inducing_variance`` have the shape
    (K, N). The `slack` determines the scales.
    """

    def __init__(self, rows, slack, states, prior_mean, means=None):
        self._rows, residual = rows, rows.features.residual
        mean_precision = rows.likelihood.mean_deviation**-2
        self.functions = [
            FixedPrecisions(rows.features, state, prior_mean, mean_precision) for state in states
        ]
        self.precision = np.stack([state.precision for state in states])
        np.maximum(self.precision, SMALLEST_PRECISION, out=self.precision)
        self.v = scales_at(slack, self.precision, residual)
        if means is None:
            means = np.stack([function.mean() for function in self.functions])
        self.start, self.inducing_variance = self._first(means)

    def is_astray(self):
        """Return whether the precisions of a function say nothing about the curvature at its mean.

        Sites of other hyperparameters can do this where the log likelihood grows exponentially on
        one side, as that of counts does, and those of other rows if these lack a class.
        """
        new, old = self.start.expected.precision, self.precision
        vanished = new.sum(axis=1) < old.sum(axis=1) / ASTRAY
        grown = new.max(axis=1) > ASTRAY * old.max(axis=1)
        return bool((vanished | grown).any())

    def maximize(self, tol):
        """Return the `Maximum` over the means; its best is a `MeansIterate`. `tol` is in nats."""
        if not self._rows.likelihood.knows_curvature(self._rows.y):
            return maximize_lbfgs(self.evaluate, self.start, self.newton_step, tol)
        steps = self.curvature_product, self.newton_step
        return maximize_newton(self.evaluate, self.start, *steps, tol, MEANS_SHARE)

    def evaluate(self, means):
        """Return the `MeansIterate` at means (K, M + 1). Cost 4 N M for each function."""
        return evaluate_means(self._rows, means, self.inducing_variance, self.v)

    def newton_step(self, gradient):
        """Return the Newton step of each function by itself, for a gradient, (K, M + 1) both."""
        pairs = zip(self.functions, gradient, strict=True)
        return np.stack([function.newton_step(each) for function, each in pairs])

    def curvature_product(self, point, direction):
        """Return minus the Hessian at a `MeansIterate` times a direction, (K, M + 1) both.

        Cost 4 N M for each function.
        """
        w, prior_means, likelihood = direction[:, :-1], direction[:, -1:], self._rows.likelihood

        def block(V, y, precision):
            change = w @ V
            change += prior_means
            fall = likelihood.curvature_product(y, precision, change)
            return (np.append(fall @ V.T, fall.sum(axis=1)[:, None], axis=1),)

        features, y = self._rows.features, Table(self._rows.y)
        (product,) = features.sum(block, y, point.expected.precision)
        return product + np.pad(w, ((0, 0), (0, 1)))

    def _first(self, means):
        """Return the `MeansIterate` at given means, and the inducing variances, in one visit."""
        factors = [function.LB for function in self.functions]
        expect = _expectation(self._rows.likelihood, means)

        def block(V, *inputs):
            inducing_variance = np.stack([column_squares(solve_lower(LB, V)) for LB in factors])
            sums, rows = expect(V, inducing_variance, *inputs)
            return sums, (*rows, inducing_variance)

        sums, (*rows, variance) = self._rows.features.visit(block, *_inputs(self._rows, self.v))
        return _means_iterate(means, sums, rows), variance


def evaluate_means(rows, means, inducing_variance, v):
    """Return the `MeansIterate` of `OutputRows` at given moments. Cost 4 N M for each function."""
    block = _expectation(rows.likelihood, means)
    visited = rows.features.visit(block, inducing_variance, *_inputs(rows, v))
    return _means_iterate(means, *visited)


def _inputs(rows, v):
    return v, rows.features.residual, Table(rows.y), rows.weight


def _expectation(likelihood, means):
    """Return a function for `RowFeatures.visit`: expectations, and slopes w.r.t. the means."""
    w, prior_means = means[:, :-1], means[:, -1:]

    def block(V, inducing_variance, v, residual, y, weight):
        mean = w @ V
        mean += prior_means
        expected = likelihood.expect(y, weight, mean, inducing_variance, residual, v)
        slope = expected.slope
        residual_cost = np.broadcast_to(expected.residual_cost, slope.shape)
        by_w, by_prior_mean = slope @ V.T, slope.sum(axis=1)
        sums = expected.value.sum(), np.append(by_w, by_prior_mean[:, None], axis=1)
        return sums, (mean, expected.value, slope, expected.precision, residual_cost)

    return block


def _means_iterate(means, sums, rows):
    """Return the `MeansIterate` from what `_expectation` returns, with KL(q(u) || p(u))."""
    value, gradient = sums
    mean, *expected = rows
    w = means[:, :-1]
    value = float(value) - 0.5 * float((w**2).sum())
    gradient = gradient.copy()
    gradient[:, :-1] -= w
    return MeansIterate(means, value, gradient, mean, Expectation(*expected))
