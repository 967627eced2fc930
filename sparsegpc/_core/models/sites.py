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

from sparsegpc._core.bounds.collapsed import FunctionPosterior, collapse, inducing_moments
from sparsegpc._core.bounds.slacks import scales_at, scales_for, settle_scales
from sparsegpc._core.likelihoods.base import Sites, SiteState, by_output
from sparsegpc._core.likelihoods.checks import refuse_negative
from sparsegpc._core.models.posterior_means import (
    SMALLEST_PRECISION,
    BoundOfMeans,
    OutputRows,
    evaluate_means,
)
from sparsegpc._core.models.site_gains import gain_of_precisions, gain_of_scales, metric
from sparsegpc._core.numerics.linalg import log_det
from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.optimisers.ascent import ascend, refuse_infinite

# A step of the precisions that lowers the bound is halved until it is shorter than this.
SHORTEST_STEP = 1.0 / 1024.0
# An extrapolation changes no log precision of the image by more than this.
LONGEST_MOVE = 2.0
# The means are found to this fraction of the tolerance.
MEANS_TOL_SHARE = 0.1
# With a smaller variance of the prior mean, as with a thousand events, predictions do not change.
LEAST_MEAN_VARIANCE = 1e-3
# A decrease of the bound by less than this, in nats per row, counts as rounding error.
ROUNDING = 1e-12


class SiteUpdate(NamedTuple):
    """The sites that follow from a given q(u) at n rows, for K functions of all outputs.

    ``mean`` and ``inducing_variance`` (K, n) are moments of f. ``expected`` and ``scales`` hold the
    `Expectation` of each output there, and the scales v of the residuals of its functions.
    """

    mean: np.ndarray
    inducing_variance: np.ndarray
    expected: tuple
    scales: tuple

    def joined(self, field):
        """Return a field of the expectations of all outputs together, (K, n)."""
        return np.concatenate([getattr(each, field) for each in self.expected])

    def sites(self):
        """Return precisions, minus twice the derivatives of E_n in s_n, and shifts, alpha + p m."""
        precision = np.maximum(self.joined("precision"), SMALLEST_PRECISION)
        return precision, self.joined("slope") + precision * self.mean

    def value(self):
        """Return the sum over rows of E_n - (v - log v - 1) / 2, in nats."""
        parts = zip(self.expected, self.scales, strict=True)
        of_outputs = [(e.value - 0.5 * (v - np.log(v) - 1.0).sum(axis=0)).sum() for e, v in parts]
        return float(np.sum(of_outputs))


def update_sites(V, residual, weight, targets, likelihoods, posteriors, slack, ratios):
    """Return the `SiteUpdate` at rows of features V (M, n) and residual (n,).

    `targets` and `likelihoods` are lists with those of each output, and `posteriors` one with q(u)
    of each function. The `slack` determines the scales; `ratios` are the mean residual ratios of
    all rows for each function, or None if it needs none.
    """
    moments = [inducing_moments(V, q) for q in posteriors]
    mean, inducing_variance = map(np.stack, zip(*moments, strict=True))
    n = likelihoods[0].n_functions
    by_function = [by_output(values, n) for values in (mean, inducing_variance, ratios)]
    outputs = [
        settle_scales(slack, partial(likelihood.expect, y, weight, m, s, residual), residual, ratio)
        for likelihood, y, m, s, ratio in zip(likelihoods, targets, *by_function, strict=True)
    ]
    return SiteUpdate(mean, inducing_variance, *zip(*outputs, strict=True))


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


class _BoundOfSites:
    """The bound as a function of the site precisions."""

    def __init__(self, features, likelihood, y, weight, slack, prior_mean, tol):
        self._rows = OutputRows(features, likelihood, y, weight)
        self._slack, self._prior_mean, self._tol = scales_for(likelihood, slack), prior_mean, tol

    def evaluate(self, states, start=None):
        """Return the `SitesIterate` at the precisions of the given states.

        The search for the mean of q(u) starts from that of `start`, a `SitesIterate`. If `start` is
        None, it starts from the mean that the shifts of the states give.
        """
        likelihood, residual = self._rows.likelihood, self._rows.features.residual
        at = self._at_precisions(states, None if start is None else start.means)
        if start is None and at.is_astray():
            fresh = likelihood.initial_states(self._rows.y, self._rows.weight)
            at = max(at, self._at_precisions(fresh), key=lambda each: each.start.value)
        functions, p, s, v = at.functions, at.precision, at.inducing_variance, at.v
        found = at.maximize(MEANS_TOL_SHARE * self._tol)
        best, means, expected = found.best, found.best.x, found.best.expected
        refuse_negative(likelihood, expected.precision)
        # The part of the bound that does not depend on the mean: half of
        # tr(I - B^-1) - log|B| - sum(v - log v - 1), and the trace is the sum of p s.
        rest = 0.5 * float((p * s).sum() - (v - np.log(v) - 1.0).sum())
        rest -= 0.5 * sum(log_det(function.LB) for function in functions)
        target = np.maximum(expected.precision, SMALLEST_PRECISION)
        gain = gain_of_precisions(p, expected.precision, s)
        gain += gain_of_scales(v, scales_at(self._slack, target, residual))
        return SitesIterate(
            x=np.log(p),
            image=np.log(target),
            means=means,
            mean=best.mean_of_f,
            slope=expected.slope,
            posteriors=[q.posterior(m) for q, m in zip(functions, means, strict=True)],
            residual_costs=expected.residual_cost,
            metric=metric(target, s, v, self._slack.is_sum_over_rows),
            bound=rest + best.value,
            # The remaining gain from the means counts, too.
            next_gain=found.left + gain,
            inducing_variance=s,
            scales=v,
        )

    def _at_precisions(self, states, means=None):
        """Return the `BoundOfMeans` at the precisions of the given states."""
        return BoundOfMeans(self._rows, self._slack, states, self._prior_mean, means)

    def with_mean_shifts(self, best):
        """Return a `SitesIterate` with the shifts of the prior means that their variances ask for.

        Where the prior mean is uncertain, the expectation of a label or count given f is another
        one. The shift is what makes up for that: a Newton step of the bound in the prior mean, and
        at most the one for exponential functions.
        """
        functions = best.posteriors
        variances = np.array([q.mean_variance for q in functions])
        has_prior = np.isfinite(self._rows.likelihood.mean_deviation)
        if variances.max() < LEAST_MEAN_VARIANCE or not has_prior:
            return best

        def shares(V):
            return (np.stack([q.share_of_mean(V) for q in functions]),)

        (share,) = self._rows.features.rows(shares)
        variance = variances[:, None] * share**2
        moments = best.means, best.inducing_variance + variance, best.scales
        found = evaluate_means(self._rows, *moments)
        posteriors = []
        for q, slope in zip(functions, found.gradient, strict=True):
            step = q.mean_variance * float(slope[-1] - q.w_p @ slope[:-1])
            most = 0.5 * q.mean_variance
            posteriors.append(q._replace(mean_shift=float(np.clip(step, -most, most))))
        return best._replace(posteriors=posteriors)
