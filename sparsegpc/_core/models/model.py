"""Evaluation of a sparse model: it combines the kernel, features, likelihood, sites and bound."""

from copy import copy

import numpy as np

from sparsegpc._core.bounds.collapsed import gradient
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.slacks import scales_for
from sparsegpc._core.likelihoods.base import (
    SiteState,
    best_constant_bound,
    by_output,
    joint_log_prior,
    joint_params_gradient,
)
from sparsegpc._core.likelihoods.checks import initial_states
from sparsegpc._core.models.base_model import BaseModel
from sparsegpc._core.models.evaluation import Evaluation
from sparsegpc._core.models.posterior import posterior_of
from sparsegpc._core.models.prior import ProductPrior
from sparsegpc._core.models.sites import solve_sites, update_sites
from sparsegpc._core.rows.blocks import Table, row_blocks
from sparsegpc._core.rows.sources import spaced_rows, take_rows
from sparsegpc._core.selection.selectors import CandidateRows

# The sites are solved to this fraction of the tolerance of the bound. Those of several functions,
# where passes take most of the time, are solved to the second one, or to GAIN_SHARE of what a step
# of the hyperparameters is expected to gain.
SITE_TOL_SHARE, SEVERAL_TOL_SHARE, GAIN_SHARE = 0.03, 0.1, 0.001
MAX_SITE_ITERATIONS = 50
# Number of rows at which the prior variance of f is minimised over the hyperparameters.
VARIANCE_ROWS = 100
# At the end of a fit the sites are solved to this fraction of the tolerance of the bound, in at
# most so many passes.
FINAL_TOL_SHARE, MAX_FINAL_ITERATIONS = 1e-4, 500
# Gains over a constant function that do not count, in nats per row and in total.
TRIVIAL_PER_ROW, TRIVIAL_IN_TOTAL = 1e-3, 1.0


def trivial_gain(total_weight):
    """Return the gain over a constant function, in nats, that is too small to count."""
    return min(TRIVIAL_IN_TOTAL, TRIVIAL_PER_ROW * total_weight)


def clearly_exceeds(objective, constant_bound, total_weight):
    """Return whether an objective, in nats, is clearly above the bound of a constant function."""
    return bool(objective > constant_bound + trivial_gain(total_weight))


class SparseModel(BaseModel):
    """A sparse model: its data, kernel, likelihood and settings, which stay the same during a fit.

    The vector `theta` of learned hyperparameters holds the parameters of the kernel, then those of
    the likelihood for each output.

    The model has the rows `X` (N, D), with `weight` (N,). `targets` is a list with those of each
    output, (N,), in the form that the likelihood needs; outputs are independent given theta, and
    share the kernel and the inducing points. `tol` is the tolerance of the bound, in nats per unit
    of weight. The other `options` are those of `BaseModel`.
    """

    # The selector of the inducing points of a noise process, if the model has one.
    noise_selector = None
    # The reason that a fit states if its sites did not converge.
    unsolved = (
        f"the sites did not converge in {MAX_FINAL_ITERATIONS} passes: limit the variance of the "
        "kernel, or divide large weights by a common factor"
    )

    def __init__(self, kernel, likelihood, X, targets, weight, *, tol=1e-5, **options):
        super().__init__(kernel, **options)
        self.likelihood = likelihood
        self.X, self.targets, self.weight = X, targets, weight
        self.total_weight = float(weight.sum())
        self.tol = tol * self.total_weight
        self._constant_bound = None

    def subset(self, rows, weak_prior=None):
        """Return the model of some of the rows, with the same tolerance per unit of weight.

        Its prior of theta is multiplied by `weak_prior` unless that is None.
        """
        other = copy(self)
        other._constant_bound = None
        if weak_prior is not None:
            other.prior = ProductPrior((*self.prior.factors, weak_prior))
        other.X = take_rows(self.X, rows, self._row_options["memory"])
        other.weight = self.weight[rows]
        other.targets = [y[rows] for y in self.targets]
        other.total_weight = float(other.weight.sum())
        other.tol = self.tol * other.total_weight / self.total_weight
        return other

    def subsample(self, n_rows):
        """Return the model of at most `n_rows` rows, evenly spaced if there are more."""
        if len(self.weight) <= n_rows:
            return self
        return self.subset(spaced_rows(self.weight, n_rows))

    def site_tol(self, expected=0.0):
        """Return the tolerance of the sites, in nats, after a step that may gain `expected`."""
        if self.n_functions == 1:
            return SITE_TOL_SHARE * self.tol
        return max(SEVERAL_TOL_SHARE * self.tol, GAIN_SHARE * expected)

    @property
    def n_functions(self):
        """Number of functions f of all outputs together."""
        return len(self.targets) * self.likelihood.n_functions

    def likelihoods(self, theta):
        """Return a list of the likelihoods of all outputs, with their parameters."""
        ends = self.kernel.n_params + self.likelihood.n_params * np.arange(len(self.targets) + 1)
        _, *params, _ = np.split(theta, ends)
        return [self.likelihood.at(param) for param in params]

    def initial_state(self):
        """Return the initial states of the sites, one for each function of each output."""
        states = []
        for y in self.targets:
            likelihood = self.likelihood.at(self.likelihood.initial_params(y, self.weight))
            states += initial_states(likelihood, y, self.weight)
        return tuple(states)

    def states_from(self, theta, posterior):
        """Return the states of the sites of all functions that follow from a given posterior of f.

        The posterior may come from other rows; `theta` (P,) are its hyperparameters, including
        those of the likelihood. Sites that do not depend on f have their initial states. Cost N M^2
        for each function.
        """
        if self.likelihood.has_fixed_sites:
            return self.initial_state()
        features = self.features_of(posterior)
        # `block` must not refer to self, or all rows would be sent to the workers with it.
        slack, functions = scales_for(self.likelihood, self.slack), posterior.functions
        likelihoods = self.likelihoods(theta)
        ratios = [q.mean_ratio for q in functions]

        def block(V, residual, weight, *targets):
            rows = V, residual, weight, targets
            return update_sites(*rows, likelihoods, functions, slack, ratios).sites()

        precision, shift = features.rows(
            block, features.residual, self.weight, *map(Table, self.targets)
        )
        return tuple(map(SiteState, precision, shift))

    def precision(self, theta, states):
        """Return the site precisions, summed over the functions of all outputs, shape (N,)."""
        total = 0.0
        likelihoods = self.likelihoods(theta)
        functions = by_output(states, self.likelihood.n_functions)
        for y, likelihood, own_states in zip(self.targets, likelihoods, functions, strict=True):
            for state in own_states:
                total = total + likelihood.sites(state, y, self.weight).precision
        return total

    @property
    def candidates(self):
        """The `CandidateRows` among which inducing points are chosen."""
        return CandidateRows(self.X, self.total_weight, self._row_options)

    def with_noise_points(self, points, theta):
        """Return `InducingPoints` with those of the noise process, if there is one."""
        return points

    def constant_bound(self):
        """Return the bound, in nats, at the best constant functions."""
        if self._constant_bound is None:
            # Likelihoods whose optimum has no formula search for it, and a fit asks several times.
            self._constant_bound = sum(
                best_constant_bound(self.likelihood, y, self.weight, self.fit_prior_mean)
                for y in self.targets
            )
        return self._constant_bound

    def is_trivial(self, evaluation):
        """Return whether an `Evaluation` is no better than a constant function, or not a number.

        The prior of the noise does not count: it favours less noise than a constant function
        leaves, but is no evidence of another function.
        """
        objective = evaluation.objective - self._noise_log_prior(evaluation)
        return not clearly_exceeds(objective, self.constant_bound(), self.total_weight)

    def _noise_log_prior(self, evaluation):
        return self.prior.after(self.kernel.n_params).log_density(evaluation.theta)

    def constant_theta(self, theta, bounds):
        """Return `theta` moved, within its bounds (P, 2), to where f is nearest to a constant.

        The parameters of the kernel minimise the prior variance of f, and those of the likelihood
        are optimal for a constant f.
        """
        n_params = self.kernel.n_params
        found = [self.kernel.least_variance(theta[:n_params], bounds[:n_params], self.some_rows())]
        if self.likelihood.n_params:
            found.extend(
                self.likelihood.constant_params(y, self.weight, self.fit_prior_mean)
                for y in self.targets
            )
        return np.clip(np.concatenate(found), *bounds.T)

    def cost_per_row(self, evaluation):
        """Return what the variance that the points leave unexplained costs, in nats per row."""
        return evaluation.posterior.unexplained_cost / self.total_weight

    def some_rows(self):
        """Return a few evenly spaced rows."""
        return self.X[spaced_rows(self.X, VARIANCE_ROWS)]

    def row_features(self, kernel, kernel_theta, Z, *, jitter=None, share=1.0):
        """Return the `RowFeatures` of the training rows.

        They may keep arrays in at most the fraction `share` of the memory.
        """
        options = {**self._row_options, "memory": share * self._row_options["memory"]}
        blocks = row_blocks(self.X, len(Z), **options)
        return RowFeatures(blocks, kernel, kernel_theta, Z, self.X, jitter=jitter)

    def features_of(self, posterior):
        """Return the `RowFeatures` at the hyperparameters and the points of a `Posterior`."""
        kernel, theta, Z, jitter = posterior.kernel, posterior.theta, posterior.Z, posterior.jitter
        return self.row_features(kernel, theta, Z, jitter=jitter)

    def evaluate(
        self,
        theta,
        points,
        states,
        *,
        tol=None,
        max_iter=MAX_SITE_ITERATIONS,
        wrt_theta=True,
        wrt_Z=False,
    ):
        """Solve for the sites, starting from `states`, and return the `Evaluation`.

        At the optimal sites the gradient is that at fixed sites (envelope theorem). Raises
        `LinAlgError` if Kuu cannot be factored. Cost (2 n_iter + 5) N M^2 for each function, where
        n_iter is the number of passes of the site solver.
        """
        tol = self.site_tol() if tol is None else tol
        features = self._features(theta, points)
        solutions = self._solve_sites(features, theta, states, tol=tol, max_iter=max_iter)
        posterior, noise = self._posteriors(features, solutions)
        log_prior = self._log_prior(theta, solutions) + self.prior.log_density(theta)
        found = Evaluation(theta, points, solutions, posterior, noise, log_prior)
        if not (wrt_theta or wrt_Z):
            return found
        grad_theta, grad_Z = self._gradient(features, theta, solutions, wrt_Z)
        return found._replace(grad_theta=grad_theta + self.prior.gradient(theta), grad_Z=grad_Z)

    def solve(self, theta, points, states, *, tol=None, wrt_theta=True):
        """Return the `Evaluation` with sites that are solved as at the end of a fit.

        By default their tolerance is far below that of the bound.
        """
        tol = FINAL_TOL_SHARE * self.tol if tol is None else tol
        options = {"tol": tol, "max_iter": MAX_FINAL_ITERATIONS, "wrt_theta": wrt_theta}
        return self.evaluate(theta, points, states, **options)

    def _features(self, theta, points):
        """Return what the kernel determines at the rows and the points: the `RowFeatures`."""
        return self.row_features(self.kernel, self.kernel_theta(theta), points.Z)

    def _solve_sites(self, features, theta, states, **options):
        """Return a tuple of the `SiteSolution` of each function, given options of `solve_sites`."""
        outputs = zip(
            self.likelihoods(theta),
            self.targets,
            by_output(states, self.likelihood.n_functions),
            strict=True,
        )
        options = {"prior_mean": self.prior_mean, **options}
        return tuple(
            solution
            for likelihood, y, own_states in outputs
            for solution in solve_sites(
                features, likelihood, y, self.weight, self.slack, own_states, **options
            )
        )

    def _posteriors(self, features, solutions):
        """Return the `Posterior` of f, and that of the log noise variances or None."""
        return posterior_of(features, [found.posterior for found in solutions]), None

    def _log_prior(self, theta, solutions):
        """Return the log prior that likelihoods or solutions add to that of the model, in nats."""
        return joint_log_prior(self.likelihoods(theta))[0]

    def _gradient(self, features, theta, solutions, wrt_Z):
        """Return the gradients w.r.t. theta, (P,), and Z, (M, D) or None unless `wrt_Z`.

        They are those of the objective but for the prior of the model.
        """
        likelihoods, has_params = self.likelihoods(theta), self.likelihood.n_params > 0
        outputs = [(found.sites, found.posterior, found.residual_cost) for found in solutions]
        slopes = gradient(features, outputs, self.slack, wrt_Z=wrt_Z, moments=has_params)
        if not has_params:
            return slopes.theta, slopes.Z
        rows = likelihoods, self.targets, self.weight
        by_bound = joint_params_gradient(*rows, *slopes.moments)
        return np.append(slopes.theta, by_bound + joint_log_prior(likelihoods)[1]), slopes.Z
