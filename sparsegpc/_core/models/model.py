"""A sparse model at given hyperparameters and inducing points, with the sites solved for.

The one place where kernel, features, bound, likelihood and sites meet.
"""

from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import (
    SHRINKAGE_STEPS,
    covariance,
    gradient,
    marginals,
    moments,
    shrinkage,
)
from sparsegpc._core.bounds.features import RowFeatures, features
from sparsegpc._core.likelihoods.base import SiteState
from sparsegpc._core.models.sites import SMALLEST_PRECISION, solve_sites
from sparsegpc._core.numerics.linalg import SMALLEST_JITTER
from sparsegpc._core.rows.blocks import DEFAULT_MEMORY, RowBlocks, Table, row_blocks
from sparsegpc._core.rows.sources import map_rows, spaced_rows, take_rows
from sparsegpc._core.selection.choices import Chosen

# The sites are solved to this share of the bound's tolerance.
SITE_TOL_SHARE = 0.03
MAX_SITE_ITERATIONS = 50
# Rows that say which hyperparameters the variance of f grows with.
FEW_ROWS = 100


class Evaluation(NamedTuple):
    """The model at given hyperparameters and inducing points, with the sites solved for.

    ``solutions`` holds one `SiteSolution` for each function of each output. ``Luu_noise`` is the
    factor of the points of a noise process, if the model has one.
    """

    theta: np.ndarray
    chosen: Chosen
    solutions: tuple
    Luu: np.ndarray
    jitter: float
    grad_theta: np.ndarray | None
    grad_Z: np.ndarray | None
    Luu_noise: np.ndarray | None = None
    log_prior: float = 0.0

    @property
    def bound(self):
        """What is maximised: the bound on the log marginal likelihood, and the log prior."""
        return self.evidence + self.log_prior

    @property
    def evidence(self):
        """The bound on the log marginal likelihood of the targets."""
        return sum(solution.bound for solution in self.solutions)

    @property
    def states(self):
        return tuple(solution.state for solution in self.solutions)

    @property
    def converged(self):
        return all(solution.converged for solution in self.solutions)


class Counts:
    """How much work a fit took: evaluations of the bound, and passes of the site solver.

    ``full_evaluations`` are those on all rows.
    """

    def __init__(self):
        self.evaluations = 0
        self.full_evaluations = 0
        self.site_iterations = 0
        self.optimizer_iterations = 0

    def add(self, solutions, on_all_rows=True):
        """Count one evaluation, and the passes that its outputs took together."""
        self.evaluations += 1
        self.full_evaluations += on_all_rows
        self.site_iterations += sum(solution.n_iter for solution in solutions)


class SparseModel:
    """The data and everything else that stays the same while a model is learned.

    The vector `theta` that is learned has the kernel's parameters first, then, for each output, the
    likelihood's.

    Parameters
    ----------
    kernel : FreeKernel
    likelihood : likelihood of `protocol`
    X : array of shape (N, D)
    targets : list of array of shape (N,)
        One for each output, as the likelihood takes them. The outputs are independent given theta,
        and share kernel and inducing points.
    weight : ndarray of shape (N,)
    slack : str
    fit_prior_mean : bool
        Learn the constant prior mean of each f; else it is zero.
    tol : float
        Tolerance of the bound, nats per row.
    n_threads, memory
        See `RowBlocks`.
    dtype : {np.float64, np.float32}
        See `RowFeatures`.
    counts : Counts or None
        Where the work is counted.
    """

    def __init__(
        self,
        kernel,
        likelihood,
        X,
        targets,
        weight,
        *,
        slack,
        fit_prior_mean=True,
        tol=1e-5,
        n_threads=1,
        memory=DEFAULT_MEMORY,
        dtype=np.float64,
        counts=None,
    ):
        self.kernel, self.likelihood = kernel, likelihood
        self.X, self.targets, self.weight = X, targets, weight
        self.total_weight = float(weight.sum())
        self.slack, self.fit_prior_mean = slack, fit_prior_mean
        self.tol = tol * self.total_weight
        self.counts = Counts() if counts is None else counts
        self._has_all_rows = True
        self._row_options = {"n_threads": n_threads, "memory": memory}
        self._dtype = dtype

    def subset(self, rows):
        """Return the model of these rows only, with the same tolerance per row."""
        other = copy(self)
        other._has_all_rows = False
        other.X = take_rows(self.X, rows, self._row_options["memory"])
        other.weight = self.weight[rows]
        other.targets = [y[rows] for y in self.targets]
        other.total_weight = float(other.weight.sum())
        other.tol = self.tol * other.total_weight / self.total_weight
        return other

    @property
    def n_functions(self):
        """Number of functions f, those of all outputs."""
        return len(self.targets) * self.likelihood.n_functions

    @property
    def prior_mean(self):
        """What `collapse` takes: None where the prior mean is learned."""
        return None if self.fit_prior_mean else 0.0

    def split(self, theta):
        """Return the kernel's parameters, and for each output the likelihood's."""
        return split_theta(theta, self.kernel, self.likelihood, len(self.targets))

    def initial_state(self):
        """Return the states of all outputs before anything is known of f."""
        return tuple(
            state for y in self.targets for state in self.likelihood.initial_states(y, self.weight)
        )

    def _by_output(self, states):
        """Return the states of each output's functions."""
        n = self.likelihood.n_functions
        return [states[k * n : (k + 1) * n] for k in range(len(self.targets))]

    def states_from(self, theta, Z, posteriors, jitter):
        """Return the states that ask for given posteriors of f, found on these or on other rows.

        Parameters
        ----------
        theta : ndarray of shape (P,)
        Z : ndarray of shape (M, D)
        posteriors : list of Posterior
            One for each function, of the features of `Z`.
        jitter : float
            Of the covariance of `Z`.

        Returns
        -------
        tuple of states
            The initial ones where the sites do not depend on f. Cost N M^2.
        """
        likelihood = self.likelihood
        if likelihood.has_fixed_sites:
            return self.initial_state()
        kernel_theta, params = self.split(theta)
        features = self.row_features(self.kernel, kernel_theta, Z, jitter=jitter, attempts=1)
        n, slack = likelihood.n_functions, self.slack

        def block(V, residual, weight, *targets):
            mean, explained = map(
                np.stack, zip(*[moments(V, posterior) for posterior in posteriors], strict=True)
            )
            precision, shift = np.empty((2, *mean.shape))
            for k, (y, own) in enumerate(zip(targets, params, strict=True)):
                part = slice(k * n, (k + 1) * n)
                v = np.ones(mean[part].shape)
                for _ in range(1 if likelihood.has_own_slack else SHRINKAGE_STEPS):
                    expected = likelihood.at(own).expect(
                        y, weight, mean[part], explained[part], residual, v
                    )
                    for row, p, posterior in zip(
                        v, expected.precision, posteriors[part], strict=True
                    ):
                        row[:] = shrinkage(slack, p * residual, posterior.mean_cost)
                precision[part] = np.maximum(expected.precision, SMALLEST_PRECISION)
                shift[part] = expected.slope + precision[part] * mean[part]
            return precision, shift

        precision, shift = features.rows(
            block, features.residual, self.weight, *map(Table, self.targets)
        )
        return tuple(map(SiteState, precision, shift))

    def precision(self, theta, states):
        """Return the site precisions, summed over outputs, shape (N,)."""
        total = 0.0
        params = self.split(theta)[1]
        for y, own, parts in zip(self.targets, params, self._by_output(states), strict=True):
            for state in parts:
                total = total + self.likelihood.at(own).sites(state, y, self.weight).precision
        return total

    @property
    def row_options(self):
        """Arguments of `RowBlocks`."""
        return self._row_options

    def covariance(self, theta):
        """Return ``k(Z, X)``, a function of two tables, at these hyperparameters."""
        return partial(self.kernel.value, self.split(theta)[0])

    def kdiag(self, theta):
        """Return the diagonal of the kernel matrix, shape (N,)."""
        kernel_theta = self.split(theta)[0]
        return map_rows(lambda X: self.kernel.diag(kernel_theta, X), self.X)

    def choose(self, choice, theta, states):
        """Return the points that `choice` takes at these hyperparameters and states."""
        return choice(self, theta, self.precision(theta, states))

    def keeps(self, choice):
        """Return whether `choice` takes the same points at all hyperparameters and states."""
        return choice.fixed

    def constant_bound(self):
        """Return the log likelihood of the best constant functions."""
        return sum(
            self.likelihood.constant_bound(y, self.weight, self.fit_prior_mean)
            for y in self.targets
        )

    def constant_theta(self, theta, bounds):
        """Return `theta` moved within its bounds (P, 2) to where f is nearest to a constant.

        Its variance is the least there, and the likelihood's parameters are those for a constant.
        """
        n_params = self.kernel.n_params
        parts = [self.kernel.flattest(theta[:n_params], bounds[:n_params], self.some_rows())]
        if self.likelihood.n_params:
            parts.extend(
                self.likelihood.constant_params(y, self.weight, self.fit_prior_mean)
                for y in self.targets
            )
        return np.clip(np.concatenate(parts), *bounds.T)

    def some_rows(self):
        """Return a few rows that stand for all."""
        return self.X[spaced_rows(self.X, FEW_ROWS)]

    def row_features(self, kernel, kernel_theta, Z, *, jitter, attempts, dtype=None, share=1.0):
        """Return the `RowFeatures` of the rows, of the model's dtype unless another is given.

        They may keep arrays within this `share` of the memory.
        """
        options = {**self._row_options, "memory": share * self._row_options["memory"]}
        blocks = row_blocks(self.X, len(Z), **options)
        return RowFeatures(
            blocks,
            kernel,
            kernel_theta,
            Z,
            self.X,
            jitter=jitter,
            attempts=attempts,
            dtype=self._dtype if dtype is None else dtype,
        )

    def evaluate(
        self,
        theta,
        chosen,
        states,
        *,
        jitter=SMALLEST_JITTER,
        attempts=1,
        tol=None,
        max_iter=MAX_SITE_ITERATIONS,
        wrt_theta=True,
        wrt_Z=False,
    ):
        """Return the `Evaluation` at `theta` and `chosen`, its sites solved from `states`.

        Raises `LinAlgError` if Kuu cannot be factored with `attempts` jitters from `jitter` on.
        Cost (2 site iterations + 5) N M^2 for one output.
        """
        kernel_theta, params = self.split(theta)
        features = self.row_features(
            self.kernel, kernel_theta, chosen.Z, jitter=jitter, attempts=attempts
        )
        likelihoods = [self.likelihood.at(own) for own in params]
        solutions = tuple(
            solution
            for likelihood, y, parts in zip(
                likelihoods, self.targets, self._by_output(states), strict=True
            )
            for solution in solve_sites(
                features,
                likelihood,
                y,
                self.weight,
                self.slack,
                parts,
                prior_mean=self.prior_mean,
                tol=SITE_TOL_SHARE * self.tol if tol is None else tol,
                max_iter=max_iter,
            )
        )
        priors = [part.log_prior() for part in likelihoods if part.n_params]
        grad_theta = grad_Z = None
        if wrt_theta or wrt_Z:
            outputs = [
                (solution.sites, solution.posterior, solution.residual_cost)
                for solution in solutions
            ]
            has_params = self.likelihood.n_params > 0
            slopes = gradient(features, outputs, self.slack, wrt_Z=wrt_Z, moments=has_params)
            grad_theta, grad_Z = slopes.theta, slopes.Z
            if has_params:
                own = [
                    likelihood.params_gradient(y, self.weight, *moments) + slope
                    for likelihood, y, moments, (_, slope) in zip(
                        likelihoods, self.targets, slopes.moments, priors, strict=True
                    )
                ]
                grad_theta = np.concatenate([grad_theta, *own])
        self.counts.add(solutions, self._has_all_rows)
        return Evaluation(
            theta,
            chosen,
            solutions,
            features.Luu,
            features.jitter,
            grad_theta,
            grad_Z,
            log_prior=sum(value for value, _ in priors),
        )


def split_theta(theta, kernel, likelihood, n_outputs):
    """Return the kernel's part of `theta`, and for each output the likelihood's."""
    ends = kernel.n_params + likelihood.n_params * np.arange(n_outputs + 1)
    kernel_theta, *params = np.split(theta, ends[:-1])
    return kernel_theta, params


def predict_moments(kernel, theta, Z, Luu, posteriors, X, **row_options):
    """Return mean and variance of each f at new rows, shape (n_outputs, N), block by block.

    Cost N M (M + D) for one output, memory of one block beyond the result.
    """

    def block(X):
        V, residual = features(kernel, theta, Z, Luu, X)
        parts = [marginals(V, residual, posterior) for posterior in posteriors]
        return (), tuple(map(np.stack, zip(*parts, strict=True)))

    # A cluster keeps what it was sent as long as this object lives, and the caller may reuse X.
    X = X.view() if isinstance(X, np.ndarray) else X
    return row_blocks(X, len(Z), **row_options).visit(block, Table(X))[1]


def predict_covariance(kernel, theta, Z, Luu, posteriors, X):
    """Return mean and covariance of each f at new rows, shape (n_outputs, N) and (.., N, N).

    Cost N M (M + D) + N^2 (M + D), memory N^2 for each output and N^2 beyond, or what the kernel
    needs to be evaluated.
    """
    V, _ = features(kernel, theta, Z, Luu, X)
    residual = kernel.value(theta, X, X)
    residual -= V.T @ V
    mean = np.stack([moments(V, posterior)[0] for posterior in posteriors])
    result = np.empty((len(posteriors), len(X), len(X)))
    for posterior, own in zip(posteriors, result, strict=True):
        covariance(residual, V, posterior, out=own)
    return mean, result


def whitened_features(kernel, theta, Z, Luu, X, **row_options):
    """Return the features of new rows as a data matrix, shape (N, M)."""

    def block(X):
        return (), (features(kernel, theta, Z, Luu, X)[0],)

    blocks = RowBlocks(len(X), len(Z), n_read=X.shape[1], **row_options)
    return blocks.visit(block, Table(X))[1][0].T
