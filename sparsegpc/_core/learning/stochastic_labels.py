r"""Classification learned from minibatches: sites that depend on q(u), solved for batch by batch.

A likelihood says by its `Expectation` which site each row asks for at given moments of f: precision
:math:`\pi_n` and shift :math:`\alpha_n + \pi_n\,\mathrm{mean}_n`. To replace all sites by these is
a natural-gradient step of length one (Khan and Lin 2017). With what is kept of earlier batches as
the prior of q(u), the sites of a batch are replaced until its bound

.. math::
    \sum_{n \in batch} E_{q(f_n)}[\log p(y_n | f_n)] - KL[q(u) \| q_{kept}(u)]

rises no more. Only their sums are held, so a visit to the rows is one pass: it finds the bound at
the present sums, and the sums that the rows ask for. From the third visit on Anderson's method
extrapolates; a step that lowers the bound is taken back, and a plain one halved. So a batch is
taken up by a stable ascent whatever was known before, be it nothing, and with all rows as the batch
the ascent ends at the optimum of `sites`.

The ``own`` term of the sums holds what the rows' expected log likelihood, slack included, has
beyond that of their sites at the q(u) where they were left: it makes the evidence of the sites the
bound on that of the rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.bounds.collapsed import (
    SHRINKAGE_STEPS,
    RowSums,
    divergence,
    moments,
    optimal_posterior,
    shrinkage,
)
from sparsegpc._core.learning.stochastic import (
    SLACKS,
    StochasticModel,
    added,
    expected_log_sites,
    kernel_gradient,
    no_rows,
)
from sparsegpc._core.models.sites import ANDERSON_DEPTH, SHORTEST_STEP, SMALLEST_PRECISION
from sparsegpc._core.numerics.linalg import mirrored, solve_cholesky, solve_lower, weighted_gram
from sparsegpc._core.rows.blocks import Table
from sparsegpc._core.rows.merging import SeparateRows

# Of a batch sites are solved for to so many nats per row, in at most so many visits.
BATCH_TOL, BATCH_VISITS = 1e-3, 20
# Of all rows, at the end.
MAX_VISITS = 100


class RowSlopes(NamedTuple):
    """Derivatives of the rows' part of the bound, (K, n) each, as in an `Expectation`."""

    slope: np.ndarray
    precision: np.ndarray
    residual_cost: np.ndarray


class _Attempt(NamedTuple):
    """The bound of a batch at given sums of its sites, and the sums that its rows ask for.

    ``own`` is what belongs to ``sums`` as their own term.
    """

    sums: tuple
    posteriors: list
    target: tuple
    slopes: RowSlopes
    own: float
    bound: float

    def towards_target(self, length):
        """Return sums part of the way to those that the rows ask for."""
        return _combined([1.0 - length, length], [self.sums, self.target])


class LabelBatches(StochasticModel):
    """A `StochasticModel` of class labels, which are numbers from 0 on.

    Parameters
    ----------
    kernel : FreeKernel
    likelihood : LabelLikelihood
        For the classes in question.
    tol : float
        Tolerance of the bound at the end, in nats per unit of weight.
    options
        Those of `StochasticModel`.
    """

    def __init__(self, kernel, likelihood, *, tol=1e-6, **options):
        self.likelihood, self.tol = likelihood, tol
        self.slacks = sums_over_rows(likelihood)
        # Some tie the functions of all classes together, others have an output for each.
        self._n_outputs = len(self._targets(np.zeros(1, dtype=int), np.ones(1)))
        self.n_functions = self._n_outputs * likelihood.n_functions
        super().__init__(kernel, **options)

    @property
    def prior_mean(self):
        learned = self.fit_prior_mean and self.likelihood.has_prior_mean
        return None if learned else 0.0

    def posteriors(self, state):
        return self._posteriors(state.sums)

    def estimate_bound(self, state, posteriors, X, y, weight, n_total):
        features = self._features(state, X)
        value = self._visit(features, self._targets(y, weight), weight, posteriors)[0]
        return n_total / len(y) * value - sum(map(divergence, posteriors))

    def settle(self, state, X, y, weight, batch_size):
        """Return the state that is optimal for the given rows at its theta and Z.

        The blocks are those of the features. Cost about 2 N M^2 for each visit and function.
        """
        kept = (no_rows(len(state.Z)),) * self.n_functions
        tol = self.tol * float(weight.sum())
        features = self._features(state, X)
        best = self._solve(state, features, y, weight, kept, tol, MAX_VISITS)
        return state._replace(sums=self._left(kept, best), n_rows=len(y))

    def constant_bound(self, y, weight):
        learned = self.prior_mean is None
        targets = self._targets(y, weight)
        return sum(self.likelihood.constant_bound(one, weight, learned) for one in targets)

    def _absorb(self, state, features, y, weight, kept):
        tol = BATCH_TOL * float(weight.sum())
        best = self._solve(state, features, y, weight, kept, tol, BATCH_VISITS)
        return self._left(kept, best), best

    def _gradient(self, state, features, found):
        return kernel_gradient(features, found.posteriors, *found.slopes, self.learn_Z)

    def _posteriors(self, sums):
        # The slack is in the own terms.
        return [optimal_posterior(part, 1, "standard", self.prior_mean) for part in sums]

    def _left(self, kept, best):
        """Return the sums that are kept with those of an attempt, whose own term they share."""
        own = best.own / self.n_functions
        left = [part._replace(own=own) for part in best.sums]
        return tuple(map(added, kept, left))

    def _solve(self, state, features, y, weight, kept, tol, max_visits):
        """Return the `_Attempt` at the best sites of the rows, given sums that are kept.

        The ascent ends where a visit gains less than `tol` nats.
        """
        targets = self._targets(y, weight)
        if state.n_rows and not self.likelihood.has_fixed_sites:
            sums = self._visit(features, targets, weight, self.posteriors(state))[1]
        else:
            sums = site_sums(features, self._initial_sites(targets, weight))
        best = self._attempt(features, targets, weight, kept, sums)
        if not np.isfinite(best.bound):
            raise LinAlgError(f"the bound is {best.bound} at the first sites tried")
        if self.likelihood.has_fixed_sites:
            return best
        anderson, length = _Anderson(), 1.0
        step = anderson.next(best)
        for _ in range(max_visits - 1):
            try:
                if anderson.extrapolated:
                    self._refuse_no_sites(tuple(map(added, kept, step)))
                trial = self._attempt(features, targets, weight, kept, step)
                gain = trial.bound - best.bound if np.isfinite(trial.bound) else -np.inf
            except LinAlgError:
                gain = -np.inf
            # A short step gains little because it is short.
            small = abs(gain) < tol * length
            if gain >= 0.0:
                best = trial
                if small:
                    break
                step, length = anderson.next(best), 1.0
            elif anderson.extrapolated:
                anderson.forget()
                step, length = best.target, 1.0
            else:
                length *= 0.5
                if small or length < SHORTEST_STEP:
                    break
                step = best.towards_target(length)
        return best

    def _attempt(self, features, targets, weight, kept, sums):
        """Return the `_Attempt` at the sums of the batch's sites. Cost 2 K n M^2."""
        posteriors = self._posteriors(map(added, kept, sums))
        value, target, slopes = self._visit(features, targets, weight, posteriors)
        own = value - sum(map(expected_log_sites, sums, posteriors))
        bound = own + sum(q.bound for q in posteriors)
        return _Attempt(sums, posteriors, target, slopes, own, bound)

    def _refuse_no_sites(self, sums):
        """Raise LinAlgError if sums, extrapolated, are not those of sites of positive precision."""
        for part in sums:
            q = optimal_posterior(part, 1, "standard", 0.0)
            # The evidence must be concave in the prior mean as well.
            if part.precision <= part.Vp @ solve_cholesky(q.LB, part.Vp):
                raise LinAlgError("extrapolated sums are not those of sites")

    def _targets(self, codes, weight):
        """Return the likelihood's targets, one array for each output, row by row."""
        return self.likelihood.targets(codes, weight, SeparateRows(None, weight))

    def _initial_sites(self, targets, weight):
        """Return precisions and shifts (2, K, n) before anything is known of f."""
        likelihood = self.likelihood
        sites = [
            likelihood.sites(state, y, weight)[:2]
            for y in targets
            for state in likelihood.initial_states(y, weight)
        ]
        return np.swapaxes(sites, 0, 1)

    def _visit(self, features, targets, weight, posteriors):
        """Return what the rows say at some q(u): their part of the bound, and what they ask for.

        That is, slack included, in nats; the `RowSums` of the sites for each function; and the
        `RowSlopes`. Cost 2 K n M^2.
        """
        likelihood, slack, n = self.likelihood, self.slack, self.likelihood.n_functions

        def block(V, residual, weight, *targets):
            f = [moments(V, q) for q in posteriors]
            mean, explained = map(np.stack, zip(*f, strict=True))
            parts = []
            for k, y in enumerate(targets):
                own = slice(k * n, (k + 1) * n)
                inputs = likelihood, y, weight, mean[own], explained[own], residual, slack
                parts.append((_fixed if likelihood.has_fixed_sites else _expected)(*inputs))
            value, slope, precision, cost = zip(*parts, strict=True)
            slope = np.concatenate(slope)
            precision = np.maximum(np.concatenate(precision), SMALLEST_PRECISION)
            sums = _block_sums(V, precision, slope + precision * mean)
            return (float(np.sum(value)), *sums), (slope, precision, np.concatenate(cost))

        inputs = [features.residual, weight, *map(Table, targets)]
        (value, *sums), slopes = features.visit(block, *inputs)
        return value, _row_sums(sums), RowSlopes(*slopes)


class _Anderson:
    """Extrapolation of the replacement of sites, in their sums, from its last few steps.

    Differences are measured by the Fisher information of q(u) at the last sums.
    """

    def __init__(self):
        self.forget()

    def forget(self):
        self._tried, self._asked, self.extrapolated = [], [], False

    def next(self, attempt):
        """Return the sums to try next."""
        self._tried.append(attempt.sums)
        self._asked.append(attempt.target)
        del self._tried[: -ANDERSON_DEPTH - 1], self._asked[: -ANDERSON_DEPTH - 1]
        self.extrapolated = len(self._tried) > 1
        if not self.extrapolated:
            return attempt.target
        steps = [
            _in_fisher_metric(_combined([1.0, -1.0], pair), attempt)
            for pair in zip(self._asked, self._tried, strict=True)
        ]
        changes = np.diff(steps, axis=0)
        gram = changes @ changes.T
        gram.flat[:: len(gram) + 1] *= 1.0 + 1e-8
        gamma = np.linalg.lstsq(gram, changes @ steps[-1], rcond=1e-12)[0]
        # What is asked for, less gamma times its changes.
        extrapolated = _combined(np.diff(gamma, prepend=0.0, append=1.0), self._asked)
        # What is kept may hide that these are no sums of sites.
        if any(part.precision <= 0.0 for part in extrapolated):
            self.forget()
            return attempt.target
        return extrapolated


def _in_fisher_metric(sums, attempt):
    """Return a change of sums as a vector whose length is that of the move of q(u).

    Half the squared length is the divergence of nearby q(u), and what a move of the prior means
    amounts to at the rows. Cost 2 M^3 for each function.
    """
    parts = []
    for part, q, now in zip(sums, attempt.posteriors, attempt.sums, strict=True):
        pull = part.Vb - q.prior_mean * part.Vp - part.VpV @ q.w
        half = solve_lower(q.LB, part.VpV)
        level = part.shift - q.prior_mean * part.precision - part.Vp @ q.w
        parts.append(np.sqrt(0.5) * solve_lower(q.LB, half.T).ravel())
        parts.append(solve_lower(q.LB, pull))
        parts.append([level / np.sqrt(now.precision)])
    return np.concatenate(parts)


def _combined(weights, choices):
    """Return the weighted sum of several tuples of `RowSums`."""
    return tuple(
        RowSums(
            *(
                sum(c * x for c, x in zip(weights, xs, strict=True))
                for xs in zip(*of_function, strict=True)
            )
        )
        for of_function in zip(*choices, strict=True)
    )


def sums_over_rows(likelihood):
    """Return the slacks of a likelihood that are sums over rows, the tightest first."""
    return tuple(slack for slack in likelihood.slacks if slack in SLACKS)


def site_sums(features, sites):
    """Return the `RowSums` of precisions and shifts (2, K, n). Cost K n M^2."""
    return _row_sums(features.sum(_block_sums, *sites))


def _block_sums(V, precision, shift):
    sums = []
    for p, b in zip(precision, shift, strict=True):
        sums += [weighted_gram(V, p), V @ p, V @ b, p.sum(), b.sum()]
    return tuple(sums)


def _row_sums(sums):
    """Return the `RowSums` of each function, from the sums of `_block_sums` over blocks."""
    return tuple(
        RowSums(mirrored(VpV), Vp, Vb, float(precision), float(shift), 0.0, 0.0, 0.0)
        for VpV, Vp, Vb, precision, shift in zip(*(sums[k::5] for k in range(5)), strict=True)
    )


def _expected(likelihood, y, weight, mean, explained, residual, slack):
    """Return value, slope, precision and residual cost of rows at moments of their functions."""
    v = np.ones(mean.shape)
    if slack == "tight" and not likelihood.has_own_slack:
        for _ in range(SHRINKAGE_STEPS):
            expected = likelihood.expect(y, weight, mean, explained, residual, v)
            v = shrinkage(slack, expected.precision * residual, None)
    expected = likelihood.expect(y, weight, mean, explained, residual, v)
    value = expected.value - 0.5 * (v - np.log(v) - 1.0).sum(axis=0)
    return value.sum(), expected.slope, expected.precision, expected.residual_cost


def _fixed(likelihood, y, weight, mean, explained, residual, slack):
    """Return what `_expected` does, for sites that do not depend on f."""
    p, shift, own = likelihood.sites(None, y, weight)
    mean, explained, cost = mean[0], explained[0], p * residual
    paid = np.log1p(cost) if slack == "tight" else cost
    value = own + shift * mean - 0.5 * p * (mean**2 + explained) - 0.5 * paid
    g = p * shrinkage(slack, cost, None)
    return value.sum(), (shift - p * mean)[None], p[None], g[None]
