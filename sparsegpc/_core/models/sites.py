r"""Solving for the sites of likelihoods that are not Gaussian: ascent on the bound over q(u).

For any Gaussian q(u) the log marginal likelihood is at least

.. math:: \sum_n E_{q(f_n)}[\log p(y_n | f_n)] - \mathrm{KL}(q(u) \,\|\, p(u))
    - \tfrac12 \textstyle\sum_n (v_n - \log v_n - 1).

At its maximum q(u) is what Gaussian sites make it: with :math:`\alpha_n` the derivative of the
expectation w.r.t. the mean of f, and :math:`\pi_n` minus twice that w.r.t. its variance, they have
precision :math:`\pi_n` and shift :math:`\alpha_n + \pi_n\,\mathrm{mean}_n`. So the bound is
maximised over 2 N numbers rather than the M (M + 3) / 2 of an explicit q(u), in two turns:

- given the precisions, and with them the covariance, over the mean of q(u), in which the bound is
  concave, at O(N M) for a step: see `posterior_means`;
- the precisions are set to the :math:`\pi_n` that the moments ask for, at about 2 N M^2: a pass.
  Anderson's method extrapolates their logarithms from the last few passes.

A step that lowers the bound is taken back: see `ascent`. The last pass is spared where the next one
would gain less than the tolerance, by an estimate from above.

References
----------
Hensman, Matthews, Ghahramani 2015, equation 15, the bound; Khan, Lin 2017, sites by natural
gradients; Titsias 2025, section 3.3, the scales v.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import FunctionPosterior, collapse
from sparsegpc._core.bounds.slacks import scales_for
from sparsegpc._core.likelihoods.base import Expectation, Sites, SiteState
from sparsegpc._core.models.posterior_means import Covariance, MeansPoint
from sparsegpc._core.numerics.linalg import (
    column_squares,
    log_det,
    solve_lower,
)
from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.optimisers.ascent import ascend, refuse_infinite
from sparsegpc._core.optimisers.lbfgs import maximize_lbfgs
from sparsegpc._core.rows.blocks import Table

# A step of the precisions that lowers the bound is halved, down to this length.
SHORTEST_STEP = 1.0 / 1024.0
# So that logarithms are finite.
SMALLEST_PRECISION = 1e-100
# A fall of the bound by less than this, in nats per row, is rounding.
ROUNDING = 1e-12


class SiteSolution(NamedTuple):
    """The sites, q(u) and the bound (nats) of one function at the end of the ascent.

    Functions of one likelihood have the same bound: each an equal share of it. ``state`` is where
    the next ascent should start; ``residual_cost`` (N,) is minus twice the derivative of the bound
    w.r.t. the residual, None where it follows from the slack.
    """

    state: SiteState | None
    sites: Sites
    posterior: FunctionPosterior
    bounds: list
    n_iter: int
    converged: bool
    residual_cost: np.ndarray | None = None

    @property
    def bound(self):
        return self.posterior.bound


def solve_sites(features, likelihood, y, weight, slack, states, *, prior_mean=None, tol, max_iter):
    """Maximise the bound over the sites.

    Parameters
    ----------
    features : RowFeatures
    likelihood : Likelihood
    y, weight : ndarray of shape (N,)
    slack : Slack
    states : list of SiteState
        Where to start, one for each function of the likelihood.
    prior_mean : float or None
        None learns it along with q(u).
    tol : float
        Stop when another pass would gain less than this many nats.
    max_iter : int
        Most passes.

    Returns
    -------
    list of SiteSolution
        One for each function. ``bounds`` holds the bound of the likelihood after each accepted
        pass.

    Raises
    ------
    LinAlgError
        If the bound cannot be computed at the start.

    Notes
    -----
    Cost about 2 N M^2 per pass and function.
    """
    if likelihood.has_fixed_sites:
        return [_collapse_fixed(features, likelihood, y, weight, slack, prior_mean)]
    rounding = ROUNDING * float(weight.sum())
    # A tolerance far below the rounding would never be met.
    tol = max(tol, 0.01 * rounding)
    problem = _Problem(features, likelihood, y, weight, slack, prior_mean, tol)
    found = ascend(
        lambda log_precision, best: problem.evaluate(best.states_at(log_precision), best),
        problem.evaluate(states),
        tol=tol,
        max_iter=max_iter,
        shortest=SHORTEST_STEP,
        rounding=rounding,
        accelerator=Anderson(),
    )
    return found.best.solutions(found.bounds, found.n_iter, found.converged)


def _collapse_fixed(features, likelihood, y, weight, slack, prior_mean):
    sites = likelihood.sites(None, y, weight)
    posterior = collapse(features, sites, slack, prior_mean)
    refuse_infinite(posterior.bound)
    return SiteSolution(None, sites, posterior, [posterior.bound], 1, True)


class SitesPoint(NamedTuple):
    """The bound at given site precisions, maximised over the means, and the sites that follow.

    ``x`` (K, N) are the logarithms of the precisions, ``image`` of those asked for; ``means``
    (K, M + 1) are those of q(u) and the prior, ``mean`` (K, N) those of f that follow, and
    ``metric`` (K, N) weighs changes of the log precisions.
    """

    x: np.ndarray
    image: np.ndarray
    means: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    posteriors: list
    residual_costs: np.ndarray
    metric: np.ndarray
    bound: float
    next_gain: float

    def states_at(self, log_precision):
        """Return sites of other precisions that give q(u) the same mean."""
        precision = np.exp(log_precision)
        return list(map(SiteState, precision, self.slope + precision * self.mean))

    def towards_target(self, length):
        """Return log precisions part of the way to the target.

        The bound rises along the straight line of the precisions, not of their logarithms.
        """
        precision, target = np.exp(self.x), np.exp(self.image)
        return np.log((1.0 - length) * precision + length * target)

    def residual(self, x, image):
        """Return a change of log precisions as a vector, in the metric here."""
        return (np.sqrt(self.metric) * (image - x)).ravel()

    def combined(self, gamma, images, largest=2.0):
        """Return extrapolated log precisions, within `largest` of the image here."""
        # In terms of changes: where gamma is large they are small; weighted images would cancel.
        moved = images[-1] - np.tensordot(gamma, np.diff(images, axis=0), 1)
        return np.clip(moved, self.image - largest, self.image + largest)

    def solutions(self, bounds, n_iter, converged):
        """Return the list of `SiteSolution`."""
        share = self.bound / len(self.posteriors)
        return [
            SiteSolution(
                target,
                state.sites(),
                posterior._replace(bound=share),
                bounds,
                n_iter,
                converged,
                residual_cost,
            )
            for target, state, posterior, residual_cost in zip(
                self.states_at(self.image),
                self.states_at(self.x),
                self.posteriors,
                self.residual_costs,
                strict=True,
            )
        ]


class _Problem:
    """The bound as a function of the site precisions."""

    def __init__(self, features, likelihood, y, weight, slack, prior_mean, tol):
        self._features, self._likelihood, self._y, self._weight = features, likelihood, y, weight
        self._prior_mean, self._tol = prior_mean, tol
        self._scales = scales_for(likelihood, slack)

    def evaluate(self, states, start=None):
        """Return the `SitesPoint` at these sites; only their precisions matter in the end.

        The search for the mean begins at that of the `SitesPoint` `start`, or if it is None at what
        the sites imply.
        """
        functions = [Covariance(self._features, state, self._prior_mean) for state in states]
        precision = np.stack([state.precision for state in states])
        if start is None:
            means = np.stack([function.mean() for function in functions])
        else:
            means = start.means
        v = self._scales_at(precision)
        first, inducing_variance = self._evaluate_first(functions, means, v)
        best, solved = maximize_lbfgs(
            lambda means: self._evaluate_means(means, inducing_variance, v),
            first,
            lambda gradient: _newton_step(functions, gradient),
            0.1 * self._tol,
        )
        means, value, _, mean, expected = best
        # All of the bound that does not depend on the mean; the trace of B^-1 is M less the sum.
        rest = 0.5 * float((precision * inducing_variance).sum() - (v - np.log(v) - 1.0).sum())
        rest -= 0.5 * sum(log_det(function.LB) for function in functions)
        target = np.maximum(expected.precision, SMALLEST_PRECISION)
        next_gain = np.inf
        if solved:
            next_gain = self._next_gain(precision, expected.precision, target, inducing_variance, v)
        return SitesPoint(
            np.log(precision),
            np.log(target),
            means,
            mean,
            expected.slope,
            [function.posterior(m) for function, m in zip(functions, means, strict=True)],
            expected.residual_cost,
            (target * inducing_variance) ** 2,
            rest + value,
            next_gain,
        )

    def _next_gain(self, precision, asked, target, inducing_variance, v):
        """Return an estimate from above of what a pass gains, which replaces `precision`."""
        # To second order 1/4 of the sum over pairs of rows of the products of their changes and
        # their squared covariance, which is at most the product of the variances.
        change = np.abs(asked - precision) * inducing_variance
        gain = 0.25 * float((change.sum(axis=1) ** 2).sum())
        # And what new scales gain.
        ratio = v / self._scales_at(target)
        return gain + 0.5 * float((ratio - 1.0 - np.log(ratio)).sum())

    def _scales_at(self, precision):
        """Return the scales of the residuals at site precisions, both of shape (K, N)."""
        v = np.empty(precision.shape)
        for row, p in zip(v, precision, strict=True):
            cost = p * self._features.residual
            row[:] = self._scales.scale(cost, cost.mean())
        return v

    def _evaluate_first(self, functions, means, v):
        """Return the `MeansPoint` at means, and the variances that come from q(u), (K, N)."""
        factors = [function.LB for function in functions]
        expect = self._expectation(means)

        def block(V, *inputs):
            inducing_variance = np.stack([column_squares(solve_lower(LB, V)) for LB in factors])
            sums, rows = expect(V, inducing_variance, *inputs)
            return sums, (*rows, inducing_variance)

        sums, (*rows, inducing_variance) = self._features.visit(block, *self._inputs(v))
        return _means_point(means, sums, rows), inducing_variance

    def _evaluate_means(self, means, inducing_variance, v):
        """Return the `MeansPoint` at means of q(u) and the prior. Cost 4 N M for a function."""
        visited = self._features.visit(
            self._expectation(means), inducing_variance, *self._inputs(v)
        )
        return _means_point(means, *visited)

    def _inputs(self, v):
        return v, self._features.residual, Table(self._y), self._weight

    def _expectation(self, means):
        """Return what `visit` calls: the expectation, and the slope of its sum over rows."""
        w, prior_means, likelihood = means[:, :-1], means[:, -1:], self._likelihood

        def block(V, inducing_variance, v, residual, y, weight):
            mean = w @ V
            mean += prior_means
            part = likelihood.expect(y, weight, mean, inducing_variance, residual, v)
            slope = part.slope
            cost = np.broadcast_to(part.residual_cost, slope.shape)
            by_w = (V @ slope.T).T
            sums = part.value.sum(), np.append(by_w, slope.sum(axis=1)[:, None], axis=1)
            return sums, (mean, part.value, slope, part.precision, cost)

        return block


def _newton_step(functions, gradient):
    """Return the steps (K, M + 1) that gradients w.r.t. the means of each function imply."""
    steps = [c.newton_step(part) for c, part in zip(functions, gradient, strict=True)]
    return np.stack(steps)


def _means_point(means, sums, rows):
    value, gradient = sums
    mean, *expected = rows
    w = means[:, :-1]
    value = float(value) - 0.5 * float((w**2).sum())
    gradient = gradient.copy()
    gradient[:, :-1] -= w
    return MeansPoint(means, value, gradient, mean, Expectation(*expected))
