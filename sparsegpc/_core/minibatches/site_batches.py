r"""Learning from minibatches with any likelihood, by solving for the sites of each batch.

At a given q(u) the `Expectation` of a likelihood determines a new site for each row, of precision
:math:`p_n` and shift :math:`b_n = \alpha_n + p_n m_n`. Replacing all sites by the new ones is a
natural-gradient step of length one (Khan and Lin 2017). The kept sums of earlier batches act as the
prior of q(u). The sites of a batch are replaced until its bound

.. math::
    \sum_{n \in batch} E_{q(f_n)}[\log p(y_n | f_n)] - KL[q(u) \| q_{kept}(u)]

rises by less than a tolerance. Only the sums of the sites are stored, so each visit is one pass
over the rows. It returns the bound at the current sums, and the sums of the new sites. From the
third visit on, Anderson acceleration extrapolates. A step that lowers the bound is rejected; see
`ascent`. The ascent is stable for any kept sums, even if there are none. If the batch holds all
rows, it ends at the optimum of `sites`. Sites that do not depend on f need only one visit.

The ``log_scale`` of the sums is the expected log likelihood of the rows, including the slack, less
the expectation of their log sites without ``log_scale``, at the last q(u). With it the evidence of
the sites equals the bound on the evidence of the rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.bounds.collapsed import optimal_posterior
from sparsegpc._core.bounds.slacks import STANDARD, scales_for
from sparsegpc._core.likelihoods.base import (
    best_constant_bound,
    joint_log_prior,
    joint_params_gradient,
)
from sparsegpc._core.minibatches.batch_visits import Batch, Visit, initial_sums, visit_batch
from sparsegpc._core.minibatches.explicit_posterior import expected_log_sites, kernel_gradient
from sparsegpc._core.minibatches.running_sums import added, combined, no_rows
from sparsegpc._core.minibatches.stochastic_model import StochasticModel
from sparsegpc._core.models.sites import SHORTEST_STEP
from sparsegpc._core.numerics.linalg import solve_cholesky, solve_lower
from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.optimisers.ascent import ascend, refuse_infinite
from sparsegpc._core.rows.merged_rows import UnmergedRows

# Tolerance for the sites of a batch, in nats per unit of weight, and maximum number of visits.
BATCH_TOL, BATCH_VISITS = 1e-3, 20


class BatchIterate(NamedTuple):
    """The bound of a batch at given sums of its sites, and the sums of the new sites.

    ``x`` holds the given sums, ``image`` the new ones, and ``log_scale`` the log scale of ``x``.
    """

    x: tuple
    image: tuple
    posteriors: list
    visit: Visit
    log_scale: float
    bound: float

    next_gain = None

    def towards_target(self, length):
        """Return the sums at the fraction `length` of the way from ``x`` to ``image``."""
        return combined([1.0 - length, length], [self.x, self.image])

    def residual(self, x, image):
        """Return a change of the sums as a vector, whose length measures the change of q(u).

        Half the squared length is, to second order, the divergence between the old and the new
        q(u), plus a term for the change of the prior means. Cost 2 M^3 for each function.
        """
        parts = []
        change = combined([1.0, -1.0], [image, x])
        for part, q, old in zip(change, self.posteriors, self.x, strict=True):
            by_w = part.Vb - q.prior_mean * part.Vp - part.VpV @ q.w
            half = solve_lower(q.LB, part.VpV)
            by_prior_mean = part.shift - q.prior_mean * part.precision - part.Vp @ q.w
            parts.append(np.sqrt(0.5) * solve_lower(q.LB, half.T).ravel())
            parts.append(solve_lower(q.LB, by_w))
            parts.append([by_prior_mean / np.sqrt(old.precision)])
        return np.concatenate(parts)

    def combined(self, gamma, images):
        """Return extrapolated sums, or None if a sum of precisions is not positive."""
        # The last images less gamma times the changes from each to the next.
        found = combined(np.diff(gamma, prepend=0.0, append=1.0), images)
        # The kept sums may be so large that the total is valid although these sums are not.
        return None if any(part.precision <= 0.0 for part in found) else found


class SiteBatches(StochasticModel):
    """A `StochasticModel` for any likelihood. Class labels are integers from 0.

    After the parameters of the kernel, theta holds those of the likelihood for each output. A
    likelihood of labels must be the one for the given number of classes. `tol` is the tolerance of
    the bound in `solve`, in nats per unit of weight. Learned prior means have a normal prior about
    zero with the precision `mean_precision`; the bound then includes its log density, up to a
    constant.
    """

    def __init__(
        self, kernel, likelihood, *, tol=1e-6, fit_prior_mean=True, mean_precision=0.0, **options
    ):
        self.likelihood, self.tol, self.mean_precision = likelihood, tol, mean_precision
        # With several classes there is one output of several functions, or one output per class.
        self._n_outputs = len(self._targets(np.zeros(1, dtype=int), np.ones(1)))
        self.n_functions = self._n_outputs * likelihood.n_functions
        learned = fit_prior_mean and likelihood.has_prior_mean
        super().__init__(kernel, fit_prior_mean=learned, **options)

    def posteriors(self, state):
        return self._posteriors(state.sums)

    def solve(self, state, X, y, weight, batch_size):
        """Return the optimal state for the given rows at its theta and Z.

        All rows are one batch: `batch_size` is not used, and the features of as many rows as the
        limit `memory` allows are kept from visit to visit. Cost about 2 N M^2 for each visit and
        function.
        """
        kept = (no_rows(len(state.Z)),) * self.n_functions
        tol = self.tol * float(weight.sum())
        batch = self._batch(state, self._features(state, X), y, weight)
        best = self._solve(state, batch, kept, tol, max_visits=100)
        return state._replace(sums=self._added_to(kept, best), n_rows=len(y))

    def constant_bound(self, y, weight):
        return sum(
            best_constant_bound(self.likelihood, target, weight, self.fit_prior_mean)
            for target in self._targets(y, weight)
        )

    def log_prior(self, theta):
        value, gradient = super().log_prior(theta)
        of_likelihoods, slope = joint_log_prior(self.likelihoods(theta))
        return value + of_likelihoods, gradient + np.append(np.zeros(self.kernel.n_params), slope)

    def _constant_params(self, y, weight):
        likelihood = self.likelihood
        targets = self._targets(y, weight) if likelihood.n_params else []
        params = [likelihood.constant_params(y, weight, self.fit_prior_mean) for y in targets]
        return np.concatenate([[], *params])

    def _absorb(self, state, features, y, weight, kept):
        batch = self._batch(state, features, y, weight)
        best = self._solve(state, batch, kept, BATCH_TOL * float(weight.sum()), BATCH_VISITS)
        return self._added_to(kept, best), (batch, best)

    def _gradient(self, state, features, found):
        batch, best = found
        slopes = best.visit.slopes
        by_kernel, by_Z = kernel_gradient(features, best.posteriors, *slopes, self.learn_Z)
        if not self.likelihood.n_params:
            return by_kernel, by_Z
        outputs = batch.likelihoods, batch.targets, batch.weight
        return np.append(by_kernel, joint_params_gradient(*outputs, *best.visit.moments)), by_Z

    def likelihoods(self, theta):
        """Return the likelihood of each output at its parameters."""
        params = theta[self.kernel.n_params :]
        shape = self._n_outputs, self.likelihood.n_params
        return [self.likelihood.at(param) for param in params.reshape(shape)]

    def _targets(self, y, weight):
        """Return a list of the targets of each output; equal rows are not merged."""
        return self.likelihood.targets(y, weight, UnmergedRows(None, weight))

    def _batch(self, state, features, y, weight):
        likelihoods = self.likelihoods(state.theta)
        return Batch(features, likelihoods, self._targets(y, weight), weight)

    def _posteriors(self, sums):
        # The prior of the prior mean acts as the site of a row far from all points, where V is 0.
        sums = [part._replace(precision=part.precision + self.mean_precision) for part in sums]
        # In predictions the prior means have a prior even if none is learned with.
        missing = self.likelihood.mean_deviation**-2 - self.mean_precision
        return [_posterior(part, self.prior_mean).with_mean_precision(missing) for part in sums]

    def _added_to(self, kept, best):
        """Return the kept sums plus those of a `BatchIterate`; functions share its log scale."""
        log_scale = best.log_scale / self.n_functions
        new = [part._replace(log_scale=log_scale) for part in best.x]
        return tuple(map(added, kept, new))

    def _solve(self, state, batch, kept, tol, max_visits):
        """Return the `BatchIterate` at the best sites of the rows, given the kept sums.

        The ascent ends when a visit gains less than `tol` nats.
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
                self._refuse_invalid(tuple(map(added, kept, sums)))
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
        """Return the `BatchIterate` at given sums of the sites of the batch. Cost 2 K N_b M^2."""
        posteriors = self._posteriors(map(added, kept, sums))
        visit = self._visit(batch, posteriors)
        log_scale = visit.value - sum(map(expected_log_sites, sums, posteriors))
        bound = log_scale + sum(q.bound for q in posteriors)
        return BatchIterate(sums, visit.sums, posteriors, visit, log_scale, bound)

    def _refuse_invalid(self, sums):
        """Raise LinAlgError if extrapolated sums are not sums of sites of positive precision."""
        for part in sums:
            q = _posterior(part, 0.0)
            # The log evidence must be concave in the prior mean as well.
            if part.precision <= part.Vp @ solve_cholesky(q.LB, part.Vp):
                raise LinAlgError("extrapolated sums are not those of sites")

    def _visit(self, batch, posteriors):
        """Return the `Visit` to a batch at any q(u). Cost 2 K N_b M^2."""
        return visit_batch(batch, posteriors, scales_for(self.likelihood, self.slack))


def _posterior(sums, prior_mean):
    """Return the optimal `FunctionPosterior` of sums whose log scale includes the slack.

    Only a slack would depend on the number of rows.
    """
    return optimal_posterior(sums, np.nan, STANDARD, prior_mean)
