"""Minibatches of records: counts with exposures, positive numbers, and censored durations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.counts import NegativeBinomial, Poisson
from sparsegpc._core.likelihoods.positive import Gamma, LogNormal, Weibull
from sparsegpc._core.likelihoods.responses import observations
from sparsegpc._core.minibatches import site_batches
from sparsegpc._core.minibatches.site_batches import SiteBatches
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import central_difference, free, read_only

KERNEL = free(Scaled(Constant(), RBF()), [0.0, 0.0])
EACH = pytest.mark.parametrize(
    "likelihood",
    [Poisson(), NegativeBinomial(), Gamma(), Weibull(), LogNormal()],
    ids=lambda likelihood: type(likelihood).__name__,
)
N, M = 40, 6


class Data:
    """Records and weights at rows in a square, and models of all rows at once and in batches."""

    def __init__(self, likelihood, slack="tight"):
        rng = np.random.RandomState(0)
        self.X, self.Z = read_only(rng.randn(N, 2)), read_only(rng.randn(M, 2))
        rate = np.exp(1.0 + np.sin(2.0 * self.X[:, 0]))
        exposure, event = np.ones(N), np.ones(N)
        y = rate * rng.gamma(3.0, size=N) / 3.0
        if likelihood.is_discrete:
            exposure = rng.uniform(0.5, 3.0, N)
            y = rng.poisson(exposure * y).astype(float)
        elif likelihood.row_argument == "event":
            event = rng.choice([0.0, 1.0], N, p=[0.3, 0.7])
        self.y = read_only(observations(y, exposure, event))
        self.weight = read_only(rng.uniform(0.5, 2.0, N))
        options = {"slack": SLACKS[slack]}
        self.batches = SiteBatches(KERNEL, likelihood, tol=1e-9, **options)
        self.whole = SparseModel(KERNEL, likelihood, self.X, [self.y], self.weight, **options)
        # A size or a shape of e^0.7, a deviation of the logarithms of e^-0.7.
        params = [-0.7 if isinstance(likelihood, LogNormal) else 0.7][: likelihood.n_params]
        self.theta = read_only(np.array([0.5, -0.2, *params]))

    def of_all_rows(self):
        """Return the evaluation of the model of all rows at once."""
        return self.whole.evaluate(
            self.theta,
            InducingPoints(self.Z),
            self.whole.initial_state(),
            tol=1e-10 * N,
            max_iter=200,
            wrt_theta=True,
        )

    def bound(self, theta):
        """Return the bound of the model in batches, all rows being the batch."""
        state = self.batches.start(theta, self.Z)
        state = self.batches.solve(state, self.X, self.y, self.weight, N)
        return sum(q.bound for q in self.batches.posteriors(state))


@EACH
@pytest.mark.parametrize("slack", ["tight", "standard"])
def test_all_rows_in_one_batch_have_the_bound_of_all_rows_at_once(likelihood, slack):
    data = Data(likelihood, slack)
    whole = data.of_all_rows()
    assert whole.converged
    assert_allclose(data.bound(data.theta), whole.elbo, rtol=1e-8)


@EACH
def test_a_step_with_all_rows_follows_the_gradient(likelihood, monkeypatch):
    """That of the model of all rows at once, and differences of the bound and the log prior."""
    monkeypatch.setattr(site_batches, "BATCH_TOL", 1e-9)
    monkeypatch.setattr(site_batches, "BATCH_VISITS", 200)
    data = Data(likelihood)
    start = data.batches.start(data.theta, data.Z)
    rows = data.X, data.y, data.weight
    state = data.batches.step(start, *rows, n_total=N, learning_rate=1e-4)
    # Adam's first mean is a tenth of the gradient, which is that of the mean row.
    found = 10.0 * N * state.adam.mean[: len(data.theta)]
    assert np.abs(found).min() > 0.05
    expected = central_difference(
        lambda theta: data.bound(theta) + data.batches.log_prior(theta)[0], data.theta
    )
    assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert_allclose(found, data.of_all_rows().grad_theta, rtol=1e-3, atol=1e-3)
