r"""Solve for the sites of a likelihood that is not Gaussian, by ascent on the bound over q(u).

For any Gaussian q(u) the log marginal likelihood is at least

.. math:: \sum_n E_{q(f_n)}[\log p(y_n | f_n)] - \mathrm{KL}(q(u) \,\|\, p(u))
    - \tfrac12 \textstyle\sum_n (v_n - \log v_n - 1),

where :math:`v_n` scales the residual in the variance of :math:`f_n`. At the maximum q(u) is the
posterior of Gaussian sites of precision :math:`p_n` and shift :math:`b_n = \alpha_n + p_n m_n`.
Here :math:`m_n` is the mean of :math:`f_n`, :math:`\alpha_n` the derivative of the expectation of
row n w.r.t. :math:`m_n`, and :math:`p_n` minus twice its derivative w.r.t. the variance of
:math:`f_n`. So the bound is maximised over 2 N numbers rather than the M (M + 3) / 2 parameters of
q(u). Two steps alternate:

- The precisions, which determine the covariance of q(u), are fixed, and the bound is maximised over
  the mean of q(u). A step of this search costs O(N M); see `posterior_means`.
- A pass sets the precisions to the :math:`p_n` that follow from the mean and variance of f, at a
  cost of about 2 N M^2. Anderson acceleration extrapolates the log precisions from the last few
  passes.

A step that lowers the bound is rejected; see `ascent`. The ascent ends when an upper estimate of
the gain of the next pass is below the tolerance, which saves the last pass.

References
----------
Hensman, Matthews, Ghahramani 2015, equation 15, the bound; Khan, Lin 2017, sites by natural
gradients; Titsias 2025, section 3.3, a common scale v; docs/theory.rst, one for each row.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import FunctionPosterior, collapse
from sparsegpc._core.bounds.slacks import scales_for, settle_scales
from sparsegpc._core.likelihoods.base import Expectation, Sites, SiteState, by_output
from sparsegpc._core.likelihoods.checks import refuse_negative
from sparsegpc._core.models.posterior_means import Covariance, MeansIterate
from sparsegpc._core.models.site_gains import gain_of_precisions, gain_of_scales, metric
from sparsegpc._core.numerics.linalg import column_squares, log_det, solve_lower
from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.optimisers.ascent import ascend, refuse_infinite
from sparsegpc._core.optimisers.lbfgs import maximize_lbfgs
from sparsegpc._core.optimisers.newton_cg import maximize_newton
from sparsegpc._core.rows.blocks import Table

# A step of the precisions that lowers the bound is halved until it is shorter than this.
SHORTEST_STEP = 1.0 / 1024.0
# An extrapolation changes no log precision of the image by more than this.
LONGEST_MOVE = 2.0
# Lower limit of precisions, which keeps their logarithms finite.
SMALLEST_PRECISION = 1e-100
# Precisions this many times too large or too small are useless as curvatures.
ASTRAY = 1e3
# The search for the means by Newton steps ends when a step would gain less than this fraction of
# what it has gained, since the next pass changes them by more.
MEANS_SHARE = 0.003
# With a smaller variance of the prior mean, as with a thousand events, predictions do not change.
LEAST_MEAN_VARIANCE = 1e-3
# A decrease of the bound by less than this, in nats per row, counts as rounding error.
ROUNDING = 1e-12


def expect_outputs(likelihoods, targets, weight, mean, inducing_variance, residual, slack, ratios):
    """Return pairs of an `Expectation` and the scales of its residuals, one for each output.

    `likelihoods` and `targets` are lists with those of each output at n rows; `mean` and
    `inducing_variance` (K, n) are moments of the functions of all outputs. The `slack` determines
    the scales; `ratios` are the mean residual ratios of all rows for each function, or None if it
    needs none.
    """
    n = likelihoods[0].n_functions
    outputs = zip(
        likelihoods,
        targets,
        *(by_output(values, n) for values in (mean, inducing_variance, ratios)),
        strict=True,
    )
    return [
        settle_scales(slack, partial(likelihood.expect, y, weight, m, s, residual), residual, ratio)
        for likelihood, y, m, s, ratio in outputs
    ]


def site_parameters(expected, mean):
    """Return precisions and shifts (K, n) of sites from each output's `Expectation` at means."""
    precision = np.concatenate([each.precision for each in expected])
    precision = np.maximum(precision, SMALLEST_PRECISION)
    slope = np.concatenate([each.slope for each in expected])
    return precision, slope + precision * mean


class SiteSolution(NamedTuple):
    """The sites, q(u) and bound of one function at the end of the ascent.

    The bound of a likelihood, in nats, is divided equally among its functions. ``state`` is the
    start for the next ascent. ``residual_cost`` (N,) is minus twice the derivative of the bound
    w.r.t. the residual, or None if it follows from the slack.
    """

    state: SiteState | None
    sites: Sites
    posterior: FunctionPosterior
    n_iter: int
    converged: bool
    residual_cost: np.ndarray | None = None

    @property
    def bound(self):
        return self.posterior.bound


def solve_sites(features, likelihood, y, weight, slack, states, *, prior_mean=None, tol, max_iter):
    """Maximise the bound over the sites, and return a list with each function's `SiteSolution`.

    The search starts at `states`, a `SiteState` for each function of the likelihood, and ends when
    another pass would gain less than `tol` nats, or after `max_iter` passes. A `prior_mean` of None
    is learned along with q(u). Raises LinAlgError if the bound cannot be computed at the start, and
    ValueError if the likelihood returns negative precisions.
    Cost about 2 N M^2 per pass and function.
    """
    if likelihood.has_fixed_sites:
        sites = likelihood.sites(None, y, weight)
        posterior = collapse(features, sites, slack, prior_mean, likelihood.peaks(y, weight))
        refuse_infinite(posterior.bound)
        return [SiteSolution(None, sites, posterior, 1, True)]
    rounding = ROUNDING * float(weight.sum())
    # Rounding errors would prevent convergence to a much smaller tolerance.
    tol = max(tol, 0.01 * rounding)
    bound = _BoundOfSites(features, likelihood, y, weight, slack, prior_mean, tol)
    found = ascend(
        lambda log_precision, best: bound.evaluate(best.states_at(log_precision), best),
        bound.evaluate(states),
        tol=tol,
        max_iter=max_iter,
        shortest=SHORTEST_STEP,
        rounding=rounding,
        accelerator=Anderson(),
    )
    return bound.with_mean_shifts(found.best).solutions(found.n_iter, found.converged)


class SitesIterate(NamedTuple):
    """The bound at given site precisions, maximised over the means, with what the ascent needs.

    ``x`` (K, N) holds the log precisions, and ``image`` (K, N) those that the next pass sets.
    ``means`` (K, M + 1) holds the means of q(u) and of the prior, and ``mean`` (K, N) those of f.
    ``slope`` (K, N) is the derivative of the expectation w.r.t. ``mean``. ``metric`` (K, N) weights
    changes of the log precisions, and ``next_gain`` is an upper estimate of the gain of the next
    pass. ``inducing_variance`` and ``scales`` (K, N) are those of the expectation.
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
    inducing_variance: np.ndarray
    scales: np.ndarray

    def states_at(self, log_precision):
        """Return states with other precisions, whose shifts give q(u) the same mean."""
        precision = np.exp(log_precision)
        return list(map(SiteState, precision, self.slope + precision * self.mean))

    def towards_target(self, length):
        """Return the log precisions at the fraction `length` of the way to the next ones.

        It interpolates the precisions rather than their logarithms, since the bound rises along
        that line.
        """
        precision, target = np.exp(self.x), np.exp(self.image)
        return np.log((1.0 - length) * precision + length * target)

    def residual(self, x, image):
        """Return a change of the log precisions as a vector, in the metric at this point."""
        return (np.sqrt(self.metric) * (image - x)).ravel()

    def combined(self, gamma, images):
        """Return extrapolated log precisions, within `LONGEST_MOVE` of the image."""
        # A weighted sum of the images would lose digits where gamma is large, as the changes from
        # image to image are then small.
        moved = images[-1] - np.tensordot(gamma, np.diff(images, axis=0), 1)
        return np.clip(moved, self.image - LONGEST_MOVE, self.image + LONGEST_MOVE)

    def solutions(self, n_iter, converged):
        """Return a list with the `SiteSolution` of each function."""
        share = self.bound / len(self.posteriors)
        targets, states = self.states_at(self.image), self.states_at(self.x)
        functions = zip(targets, states, self.posteriors, self.residual_costs, strict=True)
        return [
            SiteSolution(target, state.sites(), q._replace(bound=share), n_iter, converged, cost)
            for target, state, q, cost in functions
        ]


class Beginning(NamedTuple):
    """Where the search for the means at given site precisions begins.

    ``functions`` are `Covariance` objects; ``precision`` and ``scales`` have the shape (K, N), as
    has ``inducing_variance`` at the means of ``first``, a `MeansIterate`.
    """

    functions: list
    precision: np.ndarray
    scales: np.ndarray
    first: MeansIterate
    inducing_variance: np.ndarray

    def is_astray(self):
        """Return whether the precisions of a function say nothing about the curvature at its mean.

        Sites of other hyperparameters can do this where the log likelihood grows exponentially on
        one side, as that of counts does, and those of other rows if these lack a class.
        """
        new, old = self.first.expected.precision, self.precision
        vanished = new.sum(axis=1) < old.sum(axis=1) / ASTRAY
        grown = new.max(axis=1) > ASTRAY * old.max(axis=1)
        return bool((vanished | grown).any())


class _BoundOfSites:
    """The bound as a function of the site precisions."""

    def __init__(self, features, likelihood, y, weight, slack, prior_mean, tol):
        self._features, self._likelihood, self._y, self._weight = features, likelihood, y, weight
        self._prior_mean, self._tol = prior_mean, tol
        self._scales = scales_for(likelihood, slack)
        self._takes_newton_steps = likelihood.knows_curvature(y)

    def evaluate(self, states, start=None):
        """Return the `SitesIterate` at the precisions of the given states.

        The search for the mean of q(u) starts from that of `start`, a `SitesIterate`. If `start` is
        None, it starts from the mean that the shifts of the states give.
        """
        begin = self._begin(states, None if start is None else start.means)
        if start is None and begin.is_astray():
            fresh = self._begin(self._likelihood.initial_states(self._y, self._weight))
            begin = max(begin, fresh, key=lambda begin: begin.first.value)
        functions, precision, v = begin.functions, begin.precision, begin.scales
        inducing_variance = begin.inducing_variance
        found = self._maximize_means(begin)
        best, means, expected = found.best, found.best.x, found.best.expected
        refuse_negative(self._likelihood, expected.precision)
        # The part of the bound that does not depend on the mean. The trace of B^-1 in it equals M
        # less the sum of precision times inducing variance.
        rest = 0.5 * float((precision * inducing_variance).sum() - (v - np.log(v) - 1.0).sum())
        rest -= 0.5 * sum(log_det(function.LB) for function in functions)
        target = np.maximum(expected.precision, SMALLEST_PRECISION)
        gain = gain_of_precisions(precision, expected.precision, inducing_variance)
        gain += gain_of_scales(v, self._scales_at(target))
        return SitesIterate(
            x=np.log(precision),
            image=np.log(target),
            means=means,
            mean=best.mean_of_f,
            slope=expected.slope,
            posteriors=[q.posterior(m) for q, m in zip(functions, means, strict=True)],
            residual_costs=expected.residual_cost,
            metric=metric(target, inducing_variance, v, self._scales.is_sum_over_rows),
            bound=rest + best.value,
            # The remaining gain from the means counts, too.
            next_gain=found.left + gain,
            inducing_variance=inducing_variance,
            scales=v,
        )

    def with_mean_shifts(self, best):
        """Return a `SitesIterate` with the shifts of the prior means that their variances ask for.

        Where the prior mean is uncertain, the expectation of a label or count given f is another
        one. The shift is what makes up for that: a Newton step of the bound in the prior mean, and
        at most the one for exponential functions.
        """
        functions = best.posteriors
        variances = np.array([q.mean_variance for q in functions])
        has_prior = np.isfinite(self._likelihood.mean_deviation)
        if variances.max() < LEAST_MEAN_VARIANCE or not has_prior:
            return best

        def shares(V):
            return (np.stack([q.share_of_mean(V) for q in functions]),)

        (share,) = self._features.rows(shares)
        variance = variances[:, None] * share**2
        found = self._evaluate_means(best.means, best.inducing_variance + variance, best.scales)
        posteriors = []
        for q, slope in zip(functions, found.gradient, strict=True):
            step = q.mean_variance * float(slope[-1] - q.w_p @ slope[:-1])
            most = 0.5 * q.mean_variance
            posteriors.append(q._replace(mean_shift=float(np.clip(step, -most, most))))
        return best._replace(posteriors=posteriors)

    def _begin(self, states, means=None):
        """Return the `Beginning` at means (K, M + 1), None for those that the shifts give."""
        mean_precision = self._likelihood.mean_deviation**-2
        functions = [
            Covariance(self._features, state, self._prior_mean, mean_precision) for state in states
        ]
        precision = np.stack([state.precision for state in states])
        np.maximum(precision, SMALLEST_PRECISION, out=precision)
        if means is None:
            means = np.stack([function.mean() for function in functions])
        v = self._scales_at(precision)
        return Beginning(functions, precision, v, *self._evaluate_first(functions, means, v))

    def _maximize_means(self, begin):
        """Return the `Maximum` over the means; its best is a `MeansIterate`."""

        def evaluate(means):
            return self._evaluate_means(means, begin.inducing_variance, begin.scales)

        def newton_step(gradient):
            pairs = zip(begin.functions, gradient, strict=True)
            return np.stack([function.newton_step(each) for function, each in pairs])

        tol = 0.1 * self._tol
        if not self._takes_newton_steps:
            return maximize_lbfgs(evaluate, begin.first, newton_step, tol)
        return maximize_newton(
            evaluate, begin.first, self._curvature_product, newton_step, tol, MEANS_SHARE
        )

    def _scales_at(self, precision):
        """Return the scales of the residuals at site precisions, both of shape (K, N)."""
        v = np.empty(precision.shape)
        for row, p in zip(v, precision, strict=True):
            ratio = p * self._features.residual
            row[:] = self._scales.scale(ratio, ratio.mean())
        return v

    def _evaluate_first(self, functions, means, v):
        """Return the `MeansIterate` at given means, and the inducing variances, shape (K, N)."""
        factors = [function.LB for function in functions]
        expect = self._expectation(means)

        def block(V, *inputs):
            inducing_variance = np.stack([column_squares(solve_lower(LB, V)) for LB in factors])
            sums, rows = expect(V, inducing_variance, *inputs)
            return sums, (*rows, inducing_variance)

        sums, (*rows, inducing_variance) = self._features.visit(block, *self._inputs(v))
        return _means_iterate(means, sums, rows), inducing_variance

    def _evaluate_means(self, means, inducing_variance, v):
        """Return the `MeansIterate` at given means. Cost 4 N M for each function."""
        visited = self._features.visit(
            self._expectation(means), inducing_variance, *self._inputs(v)
        )
        return _means_iterate(means, *visited)

    def _inputs(self, v):
        return v, self._features.residual, Table(self._y), self._weight

    def _expectation(self, means):
        """Return a function for `RowFeatures.visit`: expectations, and slopes w.r.t. the means."""
        w, prior_means, likelihood = means[:, :-1], means[:, -1:], self._likelihood

        def block(V, inducing_variance, v, residual, y, weight):
            mean = w @ V
            mean += prior_means
            expected = likelihood.expect(y, weight, mean, inducing_variance, residual, v)
            slope = expected.slope
            residual_cost = np.broadcast_to(expected.residual_cost, slope.shape)
            by_w = slope @ V.T
            sums = expected.value.sum(), np.append(by_w, slope.sum(axis=1)[:, None], axis=1)
            return sums, (mean, expected.value, slope, expected.precision, residual_cost)

        return block

    def _curvature_product(self, point, direction):
        """Return minus the Hessian at a `MeansIterate` times a direction, (K, M + 1) both.

        Cost 4 N M for each function.
        """
        w, prior_means, likelihood = direction[:, :-1], direction[:, -1:], self._likelihood

        def block(V, y, precision):
            change = w @ V
            change += prior_means
            fall = likelihood.curvature_product(y, precision, change)
            return (np.append(fall @ V.T, fall.sum(axis=1)[:, None], axis=1),)

        (product,) = self._features.sum(block, Table(self._y), point.expected.precision)
        return product + np.pad(w, ((0, 0), (0, 1)))


def _means_iterate(means, sums, rows):
    value, gradient = sums
    mean, *expected = rows
    w = means[:, :-1]
    value = float(value) - 0.5 * float((w**2).sum())
    gradient = gradient.copy()
    gradient[:, :-1] -= w
    return MeansIterate(means, value, gradient, mean, Expectation(*expected))
