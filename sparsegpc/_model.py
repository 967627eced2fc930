"""A sparse model at given hyperparameters and inducing points, with the sites solved for.

The one place where kernel, features, bound, likelihood and sites meet.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._bounds import gradient, marginals
from sparsegpc._choices import Chosen
from sparsegpc._features import RowFeatures, features
from sparsegpc._linalg import SMALLEST_JITTER
from sparsegpc._rows import DEFAULT_MEMORY, RowBlocks
from sparsegpc._sites import SiteSolution, solve_sites

# The sites are solved to this share of the bound's tolerance.
SITE_TOL_SHARE = 0.1
MAX_SITE_ITERATIONS = 50


class Evaluation(NamedTuple):
    """The model at given hyperparameters and inducing points, with the sites solved for."""

    theta: np.ndarray
    chosen: Chosen
    solution: SiteSolution
    Luu: np.ndarray
    jitter: float
    grad_theta: np.ndarray | None
    grad_Z: np.ndarray | None

    @property
    def bound(self):
        return self.solution.bound


class Counts:
    """How much work a fit took: evaluations of the bound, and passes of the site solver."""

    def __init__(self):
        self.evaluations = 0
        self.site_iterations = 0
        self.optimizer_iterations = 0


class SparseModel:
    """The data and everything else that stays the same while a model is learned.

    Parameters
    ----------
    kernel : FreeKernel
    likelihood : likelihood of `_likelihoods`
    X : array of shape (N, D)
    y, weight : ndarray of shape (N,)
    slack : str
    fit_prior_mean : bool
        Learn the constant prior mean of f; else it is zero.
    tol : float
        Tolerance of the bound, nats per row.
    n_threads, memory
        See `RowBlocks`.
    counts : Counts or None
        Where the work is counted.
    """

    def __init__(
        self,
        kernel,
        likelihood,
        X,
        y,
        weight,
        *,
        slack,
        fit_prior_mean=True,
        tol=1e-5,
        n_threads=1,
        memory=DEFAULT_MEMORY,
        counts=None,
    ):
        self.kernel, self.likelihood = kernel, likelihood
        self.X, self.y, self.weight = X, y, weight
        self.total_weight = float(weight.sum())
        self.slack, self.fit_prior_mean = slack, fit_prior_mean
        self.tol = tol * self.total_weight
        self.counts = Counts() if counts is None else counts
        self._row_options = {"n_threads": n_threads, "memory": memory}

    def subset(self, rows):
        """Return the model of these rows only, with the same tolerance per row."""
        return SparseModel(
            self.kernel,
            self.likelihood,
            self.X[rows],
            self.y[rows],
            self.weight[rows],
            slack=self.slack,
            fit_prior_mean=self.fit_prior_mean,
            tol=self.tol / self.total_weight,
            counts=self.counts,
            **self._row_options,
        )

    def initial_state(self):
        return self.likelihood.initial_state(self.y, self.weight)

    def precision(self, state):
        """Return the site precisions for a state, shape (N,)."""
        return self.likelihood.sites(state, self.y, self.weight).precision

    def columns(self, theta):
        """Return the callback of `select` at these hyperparameters."""
        return lambda indices: self.kernel.value(theta, self.X[indices], self.X)

    def evaluate(
        self,
        theta,
        chosen,
        state,
        *,
        jitter=SMALLEST_JITTER,
        attempts=1,
        tol=None,
        max_iter=MAX_SITE_ITERATIONS,
        wrt_theta=True,
        wrt_Z=False,
    ):
        """Return the `Evaluation` at `theta` and `chosen`, its sites solved from `state`.

        Raises `LinAlgError` if Kuu cannot be factored with `attempts` jitters from `jitter` on.
        Cost (2 site iterations + 4) N M^2.
        """
        blocks = RowBlocks(len(self.y), len(chosen.Z), **self._row_options)
        row_features = RowFeatures(
            blocks, self.kernel, theta, chosen.Z, self.X, jitter=jitter, attempts=attempts
        )
        solution = solve_sites(
            row_features,
            self.likelihood,
            self.y,
            self.weight,
            self.slack,
            state,
            prior_mean=None if self.fit_prior_mean else 0.0,
            tol=SITE_TOL_SHARE * self.tol if tol is None else tol,
            max_iter=max_iter,
        )
        grad_theta = grad_Z = None
        if wrt_theta or wrt_Z:
            grad_theta, grad_Z = gradient(
                row_features, solution.sites, self.slack, solution.posterior, wrt_Z
            )
        self.counts.evaluations += 1
        self.counts.site_iterations += solution.n_iter
        return Evaluation(
            theta, chosen, solution, row_features.Luu, row_features.jitter, grad_theta, grad_Z
        )


def predict_moments(kernel, theta, Z, Luu, posterior, X, **row_options):
    """Return mean and variance of f at new rows, shape (N,) each, block by block.

    Cost N M (M + D), memory of one block beyond the result.
    """
    mean, variance = np.empty(len(X)), np.empty(len(X))

    def block(index, rows):
        V, residual = features(kernel, theta, Z, Luu, X[rows])
        mean[rows], variance[rows] = marginals(V, residual, posterior)

    RowBlocks(len(X), len(Z), **row_options).run(block)
    return mean, variance


def whitened_features(kernel, theta, Z, Luu, X, **row_options):
    """Return the features of new rows as a data matrix, shape (N, M)."""
    result = np.empty((len(X), len(Z)))

    def block(index, rows):
        result[rows] = features(kernel, theta, Z, Luu, X[rows])[0].T

    RowBlocks(len(X), len(Z), **row_options).run(block)
    return result
