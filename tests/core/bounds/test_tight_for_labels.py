"""The tight bound of likelihoods that are not Gaussian: its place among other bounds and the truth.

The truth is an integral over all f by a product rule. It sees the covariance matrix of all rows,
and uses neither points nor sites nor residuals.
"""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, log_expit, log_ndtr, log_softmax, logsumexp

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
)
from sparsegpc._core.likelihoods.multiclass import Softmax
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import UnmergedRows, merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import free
from tests.core.likelihoods.own_counts import OwnPoisson

# A point where the kernel has vanished tells as much as none.
NO_POINTS = np.full((1, 2), 100.0)
# Beyond what the sites are solved to, and what the jitter of a point at every row costs.
ROUNDING = 1e-6


def signs(y):
    return 2.0 * y - 1.0


class Case(NamedTuple):
    """A likelihood, and what textbooks say of it.

    ``log_likelihood(y, f)`` returns log p(y | f) of one row, of shape (n,), at f (K, n). Targets
    are from 0 to ``largest``.
    """

    name: str
    likelihood: object
    log_likelihood: Callable
    largest: int = 1


LOGIT = Case("logit", BernoulliLogit(), lambda y, f: log_expit(signs(y) * f[0]))
CASES = [
    LOGIT,
    Case("probit", BernoulliProbit(), lambda y, f: log_ndtr(signs(y) * f[0])),
    Case("softmax-2", Softmax(), lambda y, f: log_softmax(f, axis=0)[y]),
    Case("softmax-3", Softmax(), lambda y, f: log_softmax(f, axis=0)[y], largest=2),
    Case(
        "poisson",
        OwnPoisson(),
        lambda y, f: y * f[0] - np.exp(f[0]) - gammaln(y + 1.0),
        largest=4,
    ),
]
EVERY = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


class Problem:
    """Rows with targets from 0 to the largest, each of them at some row, and hyperparameters."""

    def __init__(self, case, seed, n):
        rng = np.random.RandomState(seed)
        self.case, self.X = case, rng.randn(n, 2)
        self.y = rng.permutation(np.arange(n) % (case.largest + 1))
        self.weight = np.ones(n) if seed % 3 == 0 else 10.0 ** rng.uniform(-0.7, 0.7, n)
        self.theta = rng.uniform([-1.0, -1.2], [2.5, 0.7])
        self.fit_prior_mean = seed % 2 == 0
        self.points = rng.randn(n, 2)

    def model(self, slack="tight", rows=None, likelihood=None):
        """Return the model, of rows that are not merged unless merged rows are given."""
        if likelihood is None:
            likelihood = self.case.likelihood
        if hasattr(likelihood, "for_classes"):
            likelihood = likelihood.for_classes(self.case.largest + 1)
        rows = UnmergedRows(self.X, self.weight) if rows is None else rows
        return SparseModel(
            free(Scaled(Constant(), RBF()), self.theta),
            likelihood,
            rows.X,
            likelihood.targets(self.y, self.weight, rows),
            rows.weight,
            slack=SLACKS[slack],
            fit_prior_mean=self.fit_prior_mean,
        )

    def evaluate(self, Z, *args, **options):
        """Return the evaluation with the sites solved as far as rounding lets them."""
        model = self.model(*args, **options)
        evaluation = model.evaluate(
            self.theta,
            InducingPoints(Z),
            model.initial_state(),
            tol=1e-8,
            max_iter=1000,
            wrt_theta=False,
        )
        assert evaluation.converged
        return evaluation

    def bound(self, Z, *args, **options):
        return self.evaluate(Z, *args, **options).elbo

    def log_marginal_likelihood(self, prior_mean):
        """Return log p(y) for the prior means of all functions, with densities to the weights.

        By a product rule in whitened coordinates. The softmax depends on differences of f only, so
        those to the first function are integrated over.
        """
        squares = ((self.X[:, None, :] - self.X) ** 2).sum(axis=2)
        variance, length_scale = np.exp(self.theta)
        K = variance * np.exp(-0.5 * squares / length_scale**2)
        n, mean = len(K), np.asarray(prior_mean)
        if len(mean) > 1:
            between = np.eye(len(mean) - 1) + 1.0
            K, mean = np.kron(between, K), mean[1:] - mean[0]
        root = np.linalg.cholesky(K)
        n_nodes = {2: 100, 3: 61, 4: 31}[len(K)]
        nodes = np.linspace(-7.0, 7.0, n_nodes)
        u = np.stack(np.meshgrid(*len(K) * [nodes], indexing="ij")).reshape(len(K), -1)
        f = (root @ u).reshape(len(mean), n, -1) + mean[:, None, None]
        if isinstance(self.case.likelihood, Softmax):
            f = np.concatenate([np.zeros((1, *f.shape[1:])), f])
        terms = -0.5 * (u**2).sum(axis=0)
        for k in range(n):
            terms += self.weight[k] * self.case.log_likelihood(self.y[k], f[:, k])
        return logsumexp(terms) + len(K) * np.log((nodes[1] - nodes[0]) / np.sqrt(2.0 * np.pi))


@EVERY
def test_bounds_are_ordered_up_to_the_one_with_a_point_at_every_row(case):
    """In most problems by far more than rounding."""
    gains = []
    for seed in range(12):
        problem = Problem(case, seed, n=4 + seed % 5)
        Z = problem.points[: 1 + seed % 3]
        bounds = [problem.bound(Z, slack) for slack in ("standard", "spherical", "tight")]
        bounds.append(problem.bound(problem.X))
        gains.append(np.diff(bounds))
        assert (gains[-1] > -ROUNDING).all(), (seed, bounds)
    assert (np.median(gains, axis=0) > 1e-3).all()


def test_tight_is_above_conditional_polya_gamma():
    gains = []
    for seed in range(12):
        problem = Problem(LOGIT, seed, n=4 + seed % 5)
        Z = problem.points[: 1 + seed % 3]
        gains.append(problem.bound(Z) - problem.bound(Z, likelihood=ConditionalPolyaGamma()))
        assert gains[-1] > -ROUNDING, seed
    assert np.median(gains) > 1e-2


# Three rows with three classes would be six dimensions.
@pytest.mark.parametrize(
    ("case", "n"),
    [(case, n) for case in CASES for n in (2, 3) if (case.name, n) != ("softmax-3", 3)],
    ids=lambda one: getattr(one, "name", one),
)
def test_the_bound_is_below_the_log_marginal_likelihood(case, n):
    """With no points, or one, or two, or one at every row, where little is missing."""
    for seed in range(2):
        problem = Problem(case, seed, n)
        points = problem.points
        for Z in (NO_POINTS, points[:1], points[:2], problem.X):
            evaluation = problem.evaluate(Z)
            prior_mean = [solution.posterior.prior_mean for solution in evaluation.solutions]
            gap = problem.log_marginal_likelihood(prior_mean) - evaluation.elbo
            assert gap > 0.0, seed
        # What a Gaussian q(f) misses, and the one-against-each bound.
        assert gap < 0.5


@EVERY
def test_a_row_of_weight_three_is_three_copies(case):
    """Which share one f: merged they cost less than as three rows, and not less than the truth."""
    for seed in range(3):
        problem = Problem(case, seed, n=2)
        problem.weight = np.array([1.0, 3.0])
        copies = copy(problem)
        copies.X, copies.y = problem.X[[1, 0, 1, 1]], problem.y[[1, 0, 1, 1]]
        copies.weight = np.ones(4)
        Z, merged = problem.points[:1], merge_rows(copies.X, copies.weight)
        evaluation = problem.evaluate(Z)
        assert_allclose(copies.bound(Z, rows=merged), evaluation.elbo, rtol=1e-10)
        assert copies.bound(Z) < evaluation.elbo - 1e-4
        prior_mean = [solution.posterior.prior_mean for solution in evaluation.solutions]
        assert evaluation.elbo < problem.log_marginal_likelihood(prior_mean)
