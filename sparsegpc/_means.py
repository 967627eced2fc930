r"""The mean of q(u) at a given covariance: what is cheap about the ascent of `_sites`.

Where the likelihood is log-concave the bound is concave in the mean. L-BFGS climbs it, in a metric
in which its first step is Newton's for a likelihood whose curvature in f is the site precisions.
"""

import numpy as np

from sparsegpc._bounds import row_sums
from sparsegpc._linalg import cholesky, solve_cholesky

# Where a heavy row is on the wrong side its curvature vanishes, and steps are far too long.
MAX_STEPS, SHORTEST_STEP = 20, 2.0**-40
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
        self._sums = row_sums(features, state.sites(), "standard")
        B = self._sums.VpV
        B.flat[:: len(B) + 1] += 1.0
        self.LB = cholesky(B)
        self.mean_cost = self._sums.cost / features.blocks.n_rows
        self._w_p = solve_cholesky(self.LB, self._sums.Vp)
        curvature = self._sums.precision - self._sums.Vp @ self._w_p
        self._curvature = max(curvature, EPSILON * self._sums.precision, TINY)

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


class MeanSearch:
    """Maximisation over the means of q(u) and the prior means of K functions.

    Parameters
    ----------
    features : RowFeatures
    covariances : list of Covariance
    expect : callable
        ``expect(mean)`` returns, for means of f at the rows of shape (K, N), the part of the bound
        that they imply and an `Expectation`.
    tol : float
        Stop when a step would gain less than this many nats.
    """

    def __init__(self, features, covariances, expect, tol):
        self._features, self._covariances = features, covariances
        self._expect, self._tol = expect, tol
        self._pairs = []

    def run(self, means, mean_of_f):
        """Start from means of q(u) and the prior, (K, M + 1), which imply `mean_of_f`, (K, N).

        Returns
        -------
        means : ndarray of shape (K, M + 1)
            Of q(u) and the prior.
        mean_of_f : ndarray of shape (K, N)
        value : float
            The part of the bound that depends on them.
        expected : Expectation
        solved : bool
            Whether a further step would gain less than the tolerance.

        Notes
        -----
        Cost 4 N M K and an expectation for each step.
        """
        value, expected = self._value(means, mean_of_f)
        gradient = self._gradient(means, expected)
        for _ in range(MAX_STEPS):
            step = self._direction(gradient)
            solved = not 0.5 * float((gradient * step).sum()) > self._tol
            if solved:
                break
            move, length, gain = self._means_of_f(step), 1.0, -np.inf
            while gain < 0.0 and length >= SHORTEST_STEP:
                trial = means + length * step, mean_of_f + length * move
                trial_value, trial_expected = self._value(*trial)
                gain = trial_value - value
                length *= 0.5
            if not gain >= 0.0:
                break
            start, old_gradient = means, gradient
            (means, mean_of_f), value, expected = trial, trial_value, trial_expected
            gradient = self._gradient(means, expected)
            self._remember(means - start, old_gradient - gradient)
        return means, mean_of_f, value, expected, solved

    def _value(self, means, mean_of_f):
        value, expected = self._expect(mean_of_f)
        return value - 0.5 * float((means[:, :-1] ** 2).sum()), expected

    def _gradient(self, means, expected):
        slope, V = expected.slope, self._features.V
        Va, total = self._features.blocks.sum(
            lambda index, rows: (V(index) @ slope[:, rows].T, slope[:, rows].sum(axis=1))
        )
        return np.append(Va.T - means[:, :-1], total[:, None], axis=1)

    def _means_of_f(self, means):
        """Return the mean of each f at the rows for means of q(u) and prior means."""
        mean = np.empty((len(means), self._features.blocks.n_rows))

        def block(index, rows):
            mean[:, rows] = means[:, :-1] @ self._features.V(index)
            mean[:, rows] += means[:, -1:]

        self._features.blocks.run(block)
        return mean

    def _remember(self, step, change):
        """Note by how much the gradient fell along a step."""
        curvature = float((step * change).sum())
        if curvature > EPSILON * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._pairs.append((step, change, curvature))

    def _direction(self, gradient):
        """Return the step that the gradient implies, both of shape (K, M + 1)."""
        gradient, weights = gradient.copy(), []
        for step, change, curvature in reversed(self._pairs):
            weights.append(float((step * gradient).sum()) / curvature)
            gradient -= weights[-1] * change
        newton = [c.newton_step(part) for c, part in zip(self._covariances, gradient, strict=True)]
        direction = np.stack(newton)
        for (step, change, curvature), weight in zip(self._pairs, reversed(weights), strict=True):
            direction += (weight - float((change * direction).sum()) / curvature) * step
        return direction
