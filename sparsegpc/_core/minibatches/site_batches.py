r"""Any likelihood learned from minibatches: sites that may depend on q(u), solved batch by batch.

A likelihood says by its `Expectation` which site each row asks for at given moments of f: precision
:math:`\pi_n` and shift :math:`\alpha_n + \pi_n\,\mathrm{mean}_n`. To replace all sites by these is
a natural-gradient step of length one (Khan and Lin 2017). With what is kept of earlier batches as
the prior of q(u), the sites of a batch are replaced until its bound

.. math::
    \sum_{n \in batch} E_{q(f_n)}[\log p(y_n | f_n)] - KL[q(u) \| q_{kept}(u)]

rises no more. Only their sums are held, so a visit to the rows is one pass: it finds the bound at
the present sums, and the sums that the rows ask for. From the third visit on Anderson's method
extrapolates; a step that lowers the bound is taken back: see `ascent`. So a batch is taken up by a
stable ascent whatever was known before, be it nothing, and with all rows as the batch the ascent
ends at the optimum of `sites`. Sites that are fixed are right at the first visit.

The ``log_scale`` term of the sums holds what the rows' expected log likelihood, slack included, has
beyond that of their sites at the q(u) where they were left: it makes the evidence of the sites the
bound on that of the rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.bounds.collapsed import divergence, optimal_posterior
from sparsegpc._core.bounds.slacks import STANDARD, scales_for, sums_over_rows
from sparsegpc._core.likelihoods.base import best_constant_bound
from sparsegpc._core.minibatches.batch_visits import Batch, Visit, initial_sums, visit
from sparsegpc._core.minibatches.explicit_posterior import expected_log_sites, kernel_gradient
from sparsegpc._core.minibatches.running_sums import added, combined, no_rows
from sparsegpc._core.minibatches.stochastic_model import StochasticModel
from sparsegpc._core.models.sites import SHORTEST_STEP
from sparsegpc._core.numerics.linalg import solve_cholesky, solve_lower
from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.optimisers.ascent import ascend, refuse_infinite
from sparsegpc._core.rows.unique_rows import SeparateRows

# The sites of a batch are solved to so many nats per row, in at most so many visits.
BATCH_TOL, BATCH_VISITS = 1e-3, 20


class BatchPoint(NamedTuple):
    """The bound of a batch at given sums of its sites, and the sums that its rows ask for.

    ``x`` are these sums and ``image`` those; ``log_scale`` is the log scale that
    belongs to ``x``.
    """

    x: tuple
    image: tuple
    posteriors: list
    visit: Visit
    log_scale: float
    bound: float

    def towards_target(self, length):
        """Return sums part of the way to those that the rows ask for."""
        return combined([1.0 - length, length], [self.x, self.image])

    def residual(self, x, image):
        """Return a change of sums as a vector whose length is that of the move of q(u) here.

        Half the squared length is the divergence of nearby q(u), and what a move of the prior means
        amounts to at the rows. Cost 2 M^3 for each function.
        """
        parts = []
        change = combined([1.0, -1.0], [image, x])
        for part, q, now in zip(change, self.posteriors, self.x, strict=True):
            pull = part.Vb - q.prior_mean * part.Vp - part.VpV @ q.w
            half = solve_lower(q.LB, part.VpV)
            level = part.shift - q.prior_mean * part.precision - part.Vp @ q.w
            parts.append(np.sqrt(0.5) * solve_lower(q.LB, half.T).ravel())
            parts.append(solve_lower(q.LB, pull))
            parts.append([level / np.sqrt(now.precision)])
        return np.concatenate(parts)

    def combined(self, gamma, images):
        """Return extrapolated sums, or None if they cannot be those of sites."""
        # The last ones, less gamma times the changes from each to the next.
        found = combined(np.diff(gamma, prepend=0.0, append=1.0), images)
        # What is kept may hide that these are no sums of sites.
        return None if any(part.precision <= 0.0 for part in found) else found


class SiteBatches(StochasticModel):
    """A `StochasticModel` of labels, which are numbers from 0 on, or of numbers.

    theta ends with the likelihood's own parameters, if it has any, for each output.

    Parameters
    ----------
    kernel : FreeKernel
    likelihood : Likelihood
        One of labels for the classes in question.
    tol : float
        Tolerance of the bound at the end, in nats per unit of weight.
    options
        Those of `StochasticModel`.
    """

    def __init__(self, kernel, likelihood, *, tol=1e-6, **options):
        self.likelihood, self.tol = likelihood, tol
        self.slacks = sums_over_rows(likelihood.slacks)
        # Some tie the functions of all classes together, others have an output for each.
        self._n_outputs = len(self._targets(np.zeros(1, dtype=int), np.ones(1)))
        self.n_functions = self._n_outputs * likelihood.n_functions
        super().__init__(kernel, **options)

    @property
    def prior_mean(self):
        learned = self.fit_prior_mean and self.likelihood.has_prior_mean
        return None if learned else 0.0

    @property
    def scales(self):
        """The slack that gives the scales of the residuals: 1 for a likelihood with its own."""
        return scales_for(self.likelihood, self.slack)

    def posteriors(self, state):
        return self._posteriors(state.sums)

    def estimate_bound(self, state, posteriors, X, y, weight, n_total):
        batch = self._batch(state, self._features(state, X), y, weight)
        value = self._visit(batch, posteriors).value
        return n_total / len(y) * value - sum(map(divergence, posteriors))

    def solve(self, state, X, y, weight, batch_size):
        """Return the state that is optimal for the given rows at its theta and Z.

        The blocks are those of the features. Cost about 2 N M^2 for each visit and function.
        """
        kept = (no_rows(len(state.Z)),) * self.n_functions
        tol = self.tol * float(weight.sum())
        batch = self._batch(state, self._features(state, X), y, weight)
        best = self._solve(state, batch, kept, tol, max_visits=100)
        return state._replace(sums=self._left(kept, best), n_rows=len(y))

    def constant_bound(self, y, weight):
        learned = self.prior_mean is None
        return sum(
            best_constant_bound(self.likelihood, one, weight, learned)
            for one in self._targets(y, weight)
        )

    def log_prior(self, theta):
        priors = [likelihood.log_prior() for likelihood in self._likelihoods(theta)]
        slopes = [slope for _, slope in priors]
        value = sum(value for value, _ in priors)
        return value, np.concatenate([np.zeros(self.kernel.n_params), *slopes])

    def _constant_params(self, y, weight):
        learned = self.prior_mean is None
        targets = self._targets(y, weight) if self.likelihood.n_params else []
        found = [self.likelihood.constant_params(one, weight, learned) for one in targets]
        return np.concatenate([[], *found])

    def _absorb(self, state, features, y, weight, kept):
        batch = self._batch(state, features, y, weight)
        best = self._solve(state, batch, kept, BATCH_TOL * float(weight.sum()), BATCH_VISITS)
        return self._left(kept, best), (batch, best)

    def _gradient(self, state, features, found):
        batch, best = found
        slopes = best.visit.slopes
        by_kernel, by_Z = kernel_gradient(features, best.posteriors, *slopes, self.learn_Z)
        if not self.likelihood.n_params:
            return by_kernel, by_Z
        own = [
            likelihood.params_gradient(y, batch.weight, mean, variance)
            for likelihood, y, mean, variance in zip(
                batch.likelihoods,
                batch.targets,
                *map(batch.by_output, best.visit.moments),
                strict=True,
            )
        ]
        return np.concatenate([by_kernel, *own]), by_Z

    def _likelihoods(self, theta):
        """Return the likelihood of each output at its parameters."""
        params = theta[self.kernel.n_params :]
        shape = self._n_outputs, self.likelihood.n_params
        return [self.likelihood.at(own) for own in params.reshape(shape)]

    def _targets(self, y, weight):
        """Return the likelihood's targets, one array for each output, row by row."""
        return self.likelihood.targets(y, weight, SeparateRows(None, weight))

    def _batch(self, state, features, y, weight):
        likelihoods = self._likelihoods(state.theta)
        return Batch(features, likelihoods, self._targets(y, weight), weight)

    def _posteriors(self, sums):
        # The slack is in the log scales.
        return [optimal_posterior(part, 1, STANDARD, self.prior_mean) for part in sums]

    def _left(self, kept, best):
        """Return the sums that are kept with those of an attempt, whose log scale they share."""
        log_scale = best.log_scale / self.n_functions
        left = [part._replace(log_scale=log_scale) for part in best.x]
        return tuple(map(added, kept, left))

    def _solve(self, state, batch, kept, tol, max_visits):
        """Return the `BatchPoint` at the best sites of the rows, given sums that are kept.

        The ascent ends where a visit gains less than `tol` nats.
        """
        fixed = self.likelihood.has_fixed_sites
        if state.n_rows and not fixed:
            sums = self._visit(batch, self.posteriors(state)).sums
        else:
            sums = initial_sums(batch)
        start = self._evaluate(batch, kept, sums)
        if fixed:
            refuse_infinite(start.bound)
            return start
        anderson = Anderson(keeps_pairs=True)

        def evaluate(sums, best):
            if anderson.extrapolated:
                self._refuse_no_sites(tuple(map(added, kept, sums)))
            return self._evaluate(batch, kept, sums)

        return ascend(
            evaluate,
            start,
            tol=tol,
            max_iter=max_visits,
            shortest=SHORTEST_STEP,
            accelerator=anderson,
        ).best

    def _evaluate(self, batch, kept, sums):
        """Return the `BatchPoint` at the sums of the batch's sites. Cost 2 K n M^2."""
        posteriors = self._posteriors(map(added, kept, sums))
        visit = self._visit(batch, posteriors)
        log_scale = visit.value - sum(map(expected_log_sites, sums, posteriors))
        bound = log_scale + sum(q.bound for q in posteriors)
        return BatchPoint(sums, visit.sums, posteriors, visit, log_scale, bound)

    def _refuse_no_sites(self, sums):
        """Raise LinAlgError if sums, extrapolated, are not those of sites of positive precision."""
        for part in sums:
            q = optimal_posterior(part, 1, STANDARD, 0.0)
            # The evidence must be concave in the prior mean as well.
            if part.precision <= part.Vp @ solve_cholesky(q.LB, part.Vp):
                raise LinAlgError("extrapolated sums are not those of sites")

    def _visit(self, batch, posteriors):
        """Return the `Visit` of a batch at some q(u). Cost 2 K n M^2."""
        return visit(batch, posteriors, self.scales)
