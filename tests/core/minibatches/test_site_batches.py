"""Minibatches of any likelihood: batches end at the optimum of their bound, all rows at the sites'.

Oracles are dense: expectations by a trapezoid rule, divergences by matrices, slopes by differences.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError, inv, slogdet, solve
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from sparsegpc._core.bounds.collapsed import FunctionPosterior
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.base import (
    Expectation,
    Likelihood,
    Sites,
)
from sparsegpc._core.likelihoods.binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._core.likelihoods.multiclass import DirichletTargets, LogisticSoftmax, Softmax
from sparsegpc._core.likelihoods.ordinal import OrdinalLogit
from sparsegpc._core.minibatches import site_batches
from sparsegpc._core.minibatches.epochs import epochs
from sparsegpc._core.minibatches.explicit_posterior import kernel_gradient
from sparsegpc._core.minibatches.gaussian_batches import GaussianBatches
from sparsegpc._core.minibatches.running_sums import no_rows
from sparsegpc._core.minibatches.site_batches import BatchIterate, SiteBatches
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.optimisers.adam import cosine_annealing
from sparsegpc._core.optimisers.anderson import Anderson
from sparsegpc._core.rows import blocks
from sparsegpc._core.rows.blocks import RowBlocks
from sparsegpc._core.rows.merged_rows import UnmergedRows
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import central_difference, free, read_only
from tests.core.likelihoods.binary_cases import POLYA_GAMMA, gaussian_mean, logit, probit
from tests.core.likelihoods.softmax_cases import softmax_value

KERNEL = free(Scaled(Constant(), RBF()), [0.0, 0.0])
THETA = read_only(np.array([1.0, -0.2]))
# Likelihood, slack, number of classes.
CASES = [
    (BernoulliLogit(), "standard", 2),
    (BernoulliProbit(), "standard", 2),
    (PolyaGammaLogit(), "tight", 2),
    (PolyaGammaLogit(), "standard", 2),
    (ConditionalPolyaGamma(), "tight", 2),
    (Softmax(), "standard", 2),
    (Softmax(), "standard", 3),
    (LogisticSoftmax(), "tight", 3),
    (LogisticSoftmax(), "standard", 3),
    (DirichletTargets(), "tight", 3),
    (DirichletTargets(), "standard", 2),
    (BernoulliLogit(), "tight", 2),
    (BernoulliProbit(), "tight", 2),
    (Softmax(), "tight", 3),
    (OrdinalLogit(), "tight", 2),
]
EVERY = pytest.mark.parametrize(
    ("likelihood", "slack", "n_classes"),
    CASES,
    ids=[f"{type(case[0]).__name__}-{case[1]}-{case[2]}" for case in CASES],
)


def labels(X, n_classes, seed=0):
    """Return noisy labels that follow the first column."""
    rng = np.random.RandomState(seed)
    f = np.stack([2.0 * X[:, 0], np.zeros(len(X)), -2.0 * X[:, 0]])[:n_classes]
    return read_only((f + rng.gumbel(size=f.shape)).argmax(axis=0))


class Data:
    """Rows with labels and weights, and a model in its first state."""

    def __init__(self, likelihood, slack, n_classes, n=40, m=6, seed=0, theta=THETA, **options):
        rng = np.random.RandomState(seed)
        self.X = read_only(rng.randn(n, 2))
        self.y = labels(self.X, n_classes, seed)
        self.weight = read_only(rng.uniform(0.5, 2.0, n))
        self.likelihood, self.slack = likelihood.for_classes(n_classes), SLACKS[slack]
        self.Z, self.theta = read_only(rng.randn(m, 2)), theta
        options = {"tol": 1e-9, **options}
        self.model = SiteBatches(KERNEL, self.likelihood, slack=self.slack, **options)
        self.start = self.model.start(theta, self.Z)

    def solved(self, state=None):
        state = self.start if state is None else state
        return self.model.solve(state, self.X, self.y, self.weight, 7)

    def step(self, state, rows=slice(None), **options):
        return self.model.step(state, self.X[rows], self.y[rows], self.weight[rows], **options)

    def estimate(self, state, posteriors, rows=slice(None)):
        """Return an estimate of the bound, at any q(u), from some of the rows."""
        features = self.model._features(state, self.X[rows])
        batch = self.model._batch(state, features, self.y[rows], self.weight[rows])
        value = self.model._visit(batch, posteriors).value
        return len(self.y) / len(self.y[rows]) * value - sum(map(divergence, posteriors))

    def bound(self, state):
        return sum(q.bound for q in self.model.posteriors(state))

    def features(self, rows=slice(None), state=None):
        state = self.start if state is None else state
        X = self.X[rows]
        blocks = RowBlocks(len(X), len(state.Z))
        return RowFeatures(blocks, KERNEL, state.theta, state.Z, X, jitter=state.jitter)

    def of_all_rows(self, state):
        """Return the evaluation of `SparseModel`, with the solver of sites for all rows."""
        model = SparseModel(
            KERNEL,
            self.likelihood,
            self.X,
            self.likelihood.targets(self.y, self.weight, UnmergedRows(self.X, self.weight)),
            self.weight,
            slack=self.slack,
            fit_prior_mean=self.model.prior_mean is None,
        )
        return model.evaluate(
            state.theta,
            InducingPoints(state.Z),
            model.initial_state(),
            tol=1e-10 * len(self.y),
            max_iter=200,
            wrt_theta=False,
        )


def random_posteriors(n, seed, m=6):
    rng = np.random.RandomState(seed)
    found = []
    for _ in range(n):
        LB = np.tril(0.3 * rng.randn(m, m), -1) + np.diag(rng.uniform(0.8, 2.0, m))
        found.append(FunctionPosterior(rng.randn(m), LB, 0.3 * rng.randn()))
    return found


def divergence(q):
    covariance = inv(q.LB @ q.LB.T)
    return 0.5 * (np.trace(covariance) + q.w @ q.w - len(q.w) - slogdet(covariance)[1])


def moments(V, q):
    return q.w @ V + q.prior_mean, np.einsum("mn,mn->n", V, solve(q.LB @ q.LB.T, V))


# --------------------------------------------------------------------------------------------------
# All rows as the batch


@EVERY
def test_all_rows_end_at_the_optimum_of_the_sites(likelihood, slack, n_classes):
    data = Data(likelihood, slack, n_classes, fit_prior_mean=slack == "tight")
    state = data.solved()
    exact = data.of_all_rows(state)
    assert exact.converged
    assert_allclose(data.bound(state), exact.objective, rtol=1e-6)
    assert state.n_rows == 40
    pairs = [
        (ours, solution.posterior)
        for ours, solution in zip(data.model.posteriors(state), exact.solutions, strict=True)
    ]
    # Only differences between the functions matter to softmax.
    shifts = [ours.prior_mean - theirs.prior_mean for ours, theirs in pairs]
    shift = np.mean(shifts) if isinstance(likelihood, Softmax) else 0.0
    for ours, theirs in pairs:
        assert_allclose(ours.w, theirs.w, atol=1e-2)
        assert_allclose(ours.prior_mean, theirs.prior_mean + shift, atol=1e-2)
        assert_allclose(ours.LB, theirs.LB, rtol=1e-2, atol=1e-2)
    # The sums do not hold the residual ratios.
    assert np.isnan(data.model.posterior(state).unexplained_cost)


@EVERY
def test_the_bound_of_the_sums_is_that_of_the_rows(likelihood, slack, n_classes):
    """At a posterior that is left early, too: the log scales are those of its sites."""
    for tol in (1e-9, 1.0):
        data = Data(likelihood, slack, n_classes, tol=tol)
        state = data.solved()
        posteriors = data.model.posteriors(state)
        assert_allclose(data.bound(state), data.estimate(state, posteriors), rtol=1e-8)


@EVERY
def test_no_other_posterior_has_a_higher_bound(likelihood, slack, n_classes):
    data = Data(likelihood, slack, n_classes)
    state = data.solved()
    best, rng = data.bound(state), np.random.RandomState(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(5):
            moved = [
                q._replace(
                    w=q.w + size * rng.randn(6),
                    LB=q.LB + size * np.tril(rng.randn(6, 6)),
                    prior_mean=q.prior_mean + size * rng.randn() * (data.model.prior_mean is None),
                )
                for q in data.model.posteriors(state)
            ]
            assert data.estimate(state, moved) < best + 1e-7


@EVERY
def test_no_start_is_too_bad(likelihood, slack, n_classes):
    """Full steps from nothing would diverge; the bound never falls."""
    theta = np.array([10.0, -0.5])
    data = Data(likelihood, slack, n_classes, theta=theta, m=10)
    bounds = []

    class Watched(SiteBatches):
        def _evaluate(self, *inputs):
            point = super()._evaluate(*inputs)
            bounds.append(point.bound)
            return point

    model = Watched(KERNEL, data.likelihood, slack=data.slack, tol=1e-6)
    state = model.solve(data.start, data.X, data.y, data.weight, 7)
    assert data.bound(state) >= max(bounds) - 1e-6 * abs(max(bounds))
    exact = data.of_all_rows(state).objective
    assert data.bound(state) > exact - 0.03 * abs(exact) - 1.0


@pytest.mark.parametrize(
    ("case", "log_variance"),
    [(CASES[2], 5.0), (CASES[6], 2.0), (CASES[7], 2.0)],
    ids=["polya-gamma", "softmax", "logistic-softmax"],
)
def test_extrapolation_spares_visits(case, log_variance, monkeypatch):
    theta = np.array([log_variance, -0.5])
    visits = []

    class Counted(SiteBatches):
        def _visit(self, *inputs):
            visits[-1] += 1
            return super()._visit(*inputs)

    bounds = []
    for depth in (0, 5):
        monkeypatch.setattr(site_batches, "Anderson", partial(Anderson, depth))
        data = Data(*case, theta=theta, n=200, m=40)
        model = Counted(KERNEL, data.likelihood, slack=data.slack, tol=1e-6)
        visits.append(0)
        bounds.append(data.bound(model.solve(data.start, data.X, data.y, data.weight, 7)))
    assert visits[1] < 0.7 * visits[0]
    assert bounds[1] > bounds[0] - 1e-3


def test_settling_forgets_what_was_there_and_begins_where_it_was():
    data = Data(*CASES[0])
    before = data.step(data.start, slice(0, 20))
    solved = data.solved(before)
    assert solved.n_seen == before.n_seen == 20
    assert_allclose(data.bound(solved), data.bound(data.solved()), rtol=1e-8)


def test_settling_does_without_extrapolation_where_that_leads_nowhere(monkeypatch):
    data = Data(*CASES[0])
    expected = data.bound(data.solved())

    def refuse(self, sums):
        raise LinAlgError("extrapolated sums are not those of sites")

    monkeypatch.setattr(SiteBatches, "_refuse_invalid", refuse)
    assert_allclose(data.bound(data.solved()), expected, rtol=1e-5)


# --------------------------------------------------------------------------------------------------
# The bound at any q(u)


@pytest.mark.parametrize(
    ("likelihood", "log_likelihood"), [(BernoulliLogit(), logit), (BernoulliProbit(), probit)]
)
def test_bound_at_any_posterior_is_the_dense_one(likelihood, log_likelihood):
    data = Data(likelihood, "standard", 2)
    (q,) = random_posteriors(1, 0)
    features = data.features()
    mean, variance = moments(features.V(0), q)
    variance = variance + features.residual
    y = 2.0 * data.y - 1.0
    expected = data.weight @ gaussian_mean(lambda f: log_likelihood(f, y), mean, variance)
    assert_allclose(data.estimate(data.start, [q]), expected - divergence(q), rtol=1e-8)


def test_bound_of_polya_gamma_is_best_over_the_scales():
    data = Data(PolyaGammaLogit(), "tight", 2)
    (q,) = random_posteriors(1, 0)
    features = data.features()
    mean, inducing_variance = moments(features.V(0), q)
    y, total = 2.0 * data.y - 1.0, 0.0
    for rows in zip(y, data.weight, mean, inducing_variance, features.residual, strict=True):

        def loss(log_v, rows=rows):
            v = np.exp(log_v[0])
            return 0.5 * (v - log_v[0] - 1.0) - POLYA_GAMMA.value(*rows, v)

        total -= minimize(loss, [0.0]).fun
    assert_allclose(data.estimate(data.start, [q]), total - divergence(q), rtol=1e-8)


def test_bound_of_softmax_is_the_sum_over_rows():
    data = Data(Softmax(), "standard", 3)
    posteriors = random_posteriors(3, 0)
    features = data.features()
    mean, inducing_variance = map(
        np.stack, zip(*[moments(features.V(0), q) for q in posteriors], strict=True)
    )
    rows = np.eye(3)[data.y], data.weight, mean.T, (inducing_variance + features.residual).T
    total = sum(softmax_value(*row) for row in zip(*rows, strict=True))
    total -= sum(map(divergence, posteriors))
    assert_allclose(data.estimate(data.start, posteriors), total, rtol=1e-7)


@EVERY
def test_estimates_from_all_batches_average_to_the_bound(likelihood, slack, n_classes):
    data = Data(likelihood, slack, n_classes)
    posteriors = random_posteriors(data.model.n_functions, 1)
    parts = [data.estimate(data.start, posteriors, rows) for rows in np.split(np.arange(40), 4)]
    assert_allclose(np.mean(parts), data.estimate(data.start, posteriors), rtol=1e-10)


# --------------------------------------------------------------------------------------------------
# Gradients


@EVERY
def test_gradient_at_a_posterior_that_is_not_the_optimum(likelihood, slack, n_classes):
    """By differences of the bound at fixed q(u), in whitened coordinates."""
    data = Data(likelihood, slack, n_classes)
    model, posteriors = data.model, random_posteriors(data.model.n_functions, 2)
    features = data.features()
    batch = model._batch(data.start, features, data.y, data.weight)
    slopes = model._visit(batch, posteriors).slopes
    by_theta, by_Z = kernel_gradient(features, posteriors, *slopes, wrt_Z=True)

    def bound(theta, Z):
        return data.estimate(model.start(theta, Z), posteriors)

    expected = central_difference(lambda theta: bound(theta, data.Z), data.theta)
    assert_allclose(by_theta, expected, rtol=1e-5, atol=1e-5)
    expected = central_difference(lambda Z: bound(data.theta, Z), data.Z)
    assert_allclose(by_Z, expected, rtol=1e-5, atol=1e-5)


@EVERY
def test_a_step_follows_the_gradient_of_the_optimal_bound(
    likelihood, slack, n_classes, monkeypatch
):
    """By differences of the bound with the sites solved for: the total derivative."""
    monkeypatch.setattr(site_batches, "BATCH_TOL", 1e-9)
    monkeypatch.setattr(site_batches, "BATCH_VISITS", 200)
    data = Data(likelihood, slack, n_classes, learn_Z=True)
    state = data.step(data.start, n_total=40, learning_rate=1e-4)
    expected = central_difference(
        lambda theta: data.bound(data.solved(data.model.start(theta, data.Z))), data.theta
    )
    # Adam's first mean is a tenth of the gradient, which is that of the mean row.
    assert_allclose(400.0 * state.adam.mean[:2], expected, rtol=2e-3, atol=2e-3)
    assert_allclose(state.theta - data.theta, 1e-4 * np.sign(expected), rtol=1e-6)
    assert (state.Z != data.Z).all()


def test_without_a_learning_rate_nothing_moves():
    data = Data(*CASES[0], learn_Z=True)
    state = data.step(data.start)
    assert state.theta is data.start.theta
    assert state.Z is data.start.Z
    assert state.adam.n_steps == 0


# --------------------------------------------------------------------------------------------------
# Batches


def tilted(data, features, q, log_likelihood=logit):
    """Return what logistic or probit rows ask for at q(u), by brute quadrature and differences."""
    V, step = features.V(0), 1e-4
    rows = np.isin(data.X[:, 0], features._rows.array[:, 0])
    y, weight = 2.0 * data.y[rows] - 1.0, data.weight[rows]
    mean, variance = moments(V, q)
    variance = variance + features.residual

    def value(mean, variance):
        return weight * gaussian_mean(lambda f: log_likelihood(f, y), mean, variance)

    slope = (value(mean + step, variance) - value(mean - step, variance)) / (2 * step)
    precision = -(value(mean, variance + step) - value(mean, variance - step)) / step
    shift = slope + precision * mean
    return (V * precision) @ V.T, V @ precision, V @ shift


def test_a_batch_is_taken_up_until_its_sites_are_those_of_its_posterior(monkeypatch):
    monkeypatch.setattr(site_batches, "BATCH_TOL", 1e-10)
    data = Data(*CASES[0])
    rows = slice(20, 40)
    old = data.step(data.start, slice(0, 20), n_total=30)
    new = data.step(old, rows, n_total=30)
    assert (old.n_rows, new.n_rows, new.n_seen) == (20, 30, 40)
    (q,) = data.model.posteriors(new)
    asked = tilted(data, data.features(rows), q)
    for name, part in zip(("VpV", "Vp", "Vb"), asked, strict=True):
        # Half of what was there has faded.
        entered = getattr(new.sums[0], name) - 0.5 * getattr(old.sums[0], name)
        assert_allclose(entered, part, rtol=1e-4, atol=1e-4)


def test_a_batch_is_solved_closely_in_few_visits():
    data = Data(*CASES[0], n=400)
    visits = []

    class Counted(SiteBatches):
        def _visit(self, *inputs):
            visits[-1] += 1
            return super()._visit(*inputs)

    model, state = Counted(KERNEL, data.likelihood, slack=data.slack), data.start
    for rows in np.split(np.arange(400), 8):
        visits.append(0)
        state = model.step(state, data.X[rows], data.y[rows], data.weight[rows], n_total=400)
    assert max(visits[1:]) <= 5
    # One visit to each row ends close to the optimum.
    posteriors = data.model.posteriors(state)
    assert data.estimate(state, posteriors) > data.bound(data.solved()) - 0.01 * 400


@given(
    sizes=st.lists(st.integers(1, 24), min_size=1, max_size=8),
    rate=st.sampled_from([0.0, 0.05, 0.5]),
    n_total=st.sampled_from([None, 5, 30]),
)
def test_no_row_counts_more_than_once_at_a_visit(sizes, rate, n_total):
    """Of labels that are all the same, Dirichlet sites have equal precisions."""
    data = Data(DirichletTargets(), "tight", 2)
    once = np.log1p(1.0 / 0.01)
    state, ones = data.start, np.ones(24)
    for size in sizes:
        before = state.n_rows
        state = data.model.step(
            state,
            data.X[:size],
            np.zeros(size, dtype=int),
            ones[:size],
            n_total=n_total,
            learning_rate=rate,
        )
        assert size <= state.n_rows <= before + size
        assert_allclose(state.sums[1].precision * once, state.n_rows, rtol=1e-9)


@given(n_batches=st.integers(1, 40))
def test_one_visit_to_sites_that_are_fixed_is_exact(n_batches):
    data = Data(DirichletTargets(), "tight", 3)
    state = data.start
    for rows in np.array_split(np.random.RandomState(n_batches).permutation(40), n_batches):
        state = data.step(state, rows, n_total=40)
    assert_allclose(data.bound(state), data.of_all_rows(state).objective, rtol=1e-9)


def test_blocks_and_threads_change_nothing(monkeypatch):
    states = []
    for block, options in ((400, {}), (90, {}), (90, {"n_threads": 2}), (90, {"memory": 0})):
        monkeypatch.setattr(blocks, "SMALLEST_BLOCK", block)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 0)
        data = Data(*CASES[6], n=400, learn_Z=True, **options)
        state = data.start
        for _ in range(3):
            state = data.step(state, learning_rate=0.1)
        states.append(data.solved(state))
    for other in states[1:]:
        assert_allclose(other.theta, states[0].theta, rtol=1e-6)
        assert_allclose(other.Z, states[0].Z, rtol=1e-6)
        assert_allclose(other.sums[1].VpV, states[0].sums[1].VpV, rtol=1e-4, atol=1e-6)


@EVERY
def test_what_a_step_is_given_stays_as_it_was(likelihood, slack, n_classes):
    data = Data(likelihood, slack, n_classes, learn_Z=True)
    state = data.step(data.start, learning_rate=0.1)
    parts = [x for sums in state.sums for x in sums] + [*state[:3], *state.adam]
    copies = [np.array(part) for part in parts]
    data.step(state, learning_rate=0.1)
    data.solved(state)
    for part, copy in zip(parts, copies, strict=True):
        assert_array_equal(part, copy)


@pytest.mark.parametrize("case", [CASES[0], CASES[6]], ids=["logit", "softmax"])
def test_carried_sums_are_sites_on_the_function_at_the_points(case):
    """The posterior of f(Z') by dense algebra, from Gaussian sites on f(Z) and no features."""
    data = Data(*case, fit_prior_mean=False)
    old = data.step(data.start)
    rng = np.random.RandomState(0)
    theta, Z = old.theta + 0.3 * rng.randn(2), old.Z + 0.2 * rng.randn(6, 2)
    new = data.model.carry(old, theta, Z)
    to_f = inv(old.Luu)
    variance = np.exp(theta[0])
    K = KERNEL.value(theta, Z, Z) + new.jitter * variance * np.eye(6)
    interpolation = KERNEL.value(theta, old.Z, Z) @ inv(K)
    for sums, q in zip(old.sums, data.model.posteriors(new), strict=True):
        precision = inv(K) + interpolation.T @ to_f.T @ sums.VpV @ to_f @ interpolation
        mean = solve(precision, interpolation.T @ to_f.T @ sums.Vb)
        assert_allclose(new.Luu @ q.w, mean, rtol=1e-6, atol=1e-8)
        spread = solve(q.LB, new.Luu.T)
        assert_allclose(spread.T @ spread, inv(precision), rtol=1e-6, atol=1e-8)


# --------------------------------------------------------------------------------------------------
# Learning


@pytest.mark.parametrize("case", [CASES[0], CASES[2]], ids=["logit", "polya-gamma"])
def test_learning_comes_close_to_the_best_bound(case):
    data = Data(*case, n=200, m=12, theta=np.array([0.0, -1.0]), tol=1e-5)
    rng = np.random.RandomState(0)
    *_, state = epochs(
        data.model, data.start, data.X, data.y, data.weight, n_epochs=15, batch_size=40, rng=rng
    )
    learned = data.solved(state)
    assert_array_equal(learned.theta, state.theta)

    def loss(theta):
        return -data.bound(data.solved(data.model.start(theta, data.Z)))

    best = -minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"fatol": 0.05}).fun
    # The rows of the last batches count for a little more than those of the first.
    assert best - 0.015 * 200 < data.bound(learned) <= best + 0.1
    assert data.bound(data.solved()) < best - 0.05 * 200


def test_a_stream_is_learned_as_it_comes():
    data = Data(*CASES[0], n=3000, m=20)
    truth = 1.0 / (1.0 + np.exp(2.0 * data.X[:, 0]))
    state = data.start
    for step, rows in enumerate(np.split(np.arange(3000), 60)):
        state = data.step(state, rows, learning_rate=cosine_annealing(0.1, step / 60))
    (q,) = data.model.posteriors(state)
    V = data.features(state=state).V(0)
    # Labels of the second class fall with the first column.
    f = q.w @ V + q.prior_mean
    assert np.abs(1.0 / (1.0 + np.exp(-f)) - truth).mean() < 0.05


def test_a_batch_of_one_class_is_no_harm():
    data = Data(*CASES[0], n=200, m=10)
    alike = np.flatnonzero(data.y == 1)
    state = data.step(data.start, alike, learning_rate=0.1)
    assert np.isfinite(data.bound(state))
    for rows in np.array_split(np.arange(200), 5):
        state = data.step(state, rows, n_total=200)
    assert data.estimate(state, data.model.posteriors(state)) > -0.69 * data.weight.sum()


def test_sums_that_are_not_finite_are_refused():
    data = Data(*CASES[0])
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        data.model.step(data.start, data.X, data.y, np.full(40, np.nan))


# --------------------------------------------------------------------------------------------------
# Likelihoods of numbers, with parameters of their own


class LearnedNoise(Likelihood):
    """Numbers with Gaussian noise, as if its sites depended on f; the log variance is learned."""

    n_params = 1

    def __init__(self, log_noise=None, n_outputs=1):
        self.log_noise, self.n_outputs = log_noise, n_outputs

    def at(self, params):
        return type(self)(params[0], self.n_outputs)

    def targets(self, y, weight, rows):
        mean = rows.mean(y, weight)
        return [mean, -mean + 0.3][: self.n_outputs]

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        p = weight * np.exp(-self.log_noise)
        square = (y - mean[0]) ** 2 + inducing_variance[0] + v[0] * residual
        value = -0.5 * (weight * (np.log(2.0 * np.pi) + self.log_noise) + p * square)
        return Expectation(value, (p * (y - mean[0]))[None], p[None], v * p)

    def params_gradient(self, y, weight, mean, variance):
        p = weight * np.exp(-self.log_noise)
        return np.array([0.5 * (p * ((y - mean[0]) ** 2 + variance[0]) - weight).sum()])

    def log_prior(self):
        return -0.5 * (self.log_noise + 1.0) ** 2, np.array([-(self.log_noise + 1.0)])

    def constant_params(self, y, weight, fit_prior_mean=True):
        centre = weight @ y / weight.sum() if fit_prior_mean else 0.0
        return np.array([np.log(weight @ (y - centre) ** 2 / weight.sum())])


class FixedNoise(LearnedNoise):
    """The same with sites that are fixed."""

    has_fixed_sites = True
    expect = Likelihood.expect

    def sites(self, state, y, weight):
        p = weight * np.exp(-self.log_noise)
        log_scale = -0.5 * (weight * (np.log(2.0 * np.pi) + self.log_noise) + p * y**2)
        return Sites(p, p * y, log_scale)


class Unbiased(LearnedNoise):
    """Without a prior."""

    def log_prior(self):
        return 0.0, np.zeros(1)


NOISE_KINDS = pytest.mark.parametrize("kind", [LearnedNoise, FixedNoise])


class Numbers(Data):
    """Rows with targets and weights, and a model whose likelihood has a parameter."""

    def __init__(self, kind, slack="tight", n_outputs=1, n=40, m=6, **options):
        rng = np.random.RandomState(0)
        self.X = read_only(rng.randn(n, 2))
        self.y = read_only(np.sin(2.0 * self.X[:, 0]) + 0.3 * rng.randn(n))
        self.weight = read_only(rng.uniform(0.5, 2.0, n))
        self.likelihood, self.slack = kind(n_outputs=n_outputs), SLACKS[slack]
        self.Z = read_only(rng.randn(m, 2))
        self.theta = read_only(np.append(THETA, np.linspace(-1.5, -0.5, n_outputs)))
        options = {"tol": 1e-9, **options}
        self.model = SiteBatches(KERNEL, self.likelihood, slack=self.slack, **options)
        self.start = self.model.start(self.theta, self.Z)

    def objective(self, theta):
        """Return the bound with the sites solved for, and the log prior."""
        bound = self.bound(self.solved(self.model.start(theta, self.Z)))
        return bound - 0.5 * ((theta[2:] + 1.0) ** 2).sum()


@NOISE_KINDS
@pytest.mark.parametrize("slack", ["tight", "standard"])
def test_numbers_end_at_the_bound_of_a_regression(kind, slack):
    data = Numbers(kind, slack)
    state = data.solved()
    model = GaussianBatches(KERNEL, slack=data.slack)
    start = model.start(data.theta, data.Z)
    expected = model.posteriors(model.solve(start, data.X, data.y, data.weight, 7))[0]
    assert_allclose(data.bound(state), expected.bound, rtol=1e-8)
    (q,) = data.model.posterior(state).functions
    assert_allclose(q.w, expected.w, atol=1e-4)
    assert_array_equal(data.model.posterior(state).theta, data.theta[:2])


@NOISE_KINDS
@pytest.mark.parametrize("slack", ["tight", "standard"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_step_follows_the_likelihoods_parameters(kind, slack, n_outputs, monkeypatch):
    """By differences of the bound with the sites solved for, the log prior added."""
    monkeypatch.setattr(site_batches, "BATCH_TOL", 1e-9)
    monkeypatch.setattr(site_batches, "BATCH_VISITS", 200)
    data = Numbers(kind, slack, n_outputs, learn_Z=True)
    assert len(data.theta) == 2 + n_outputs
    state = data.step(data.start, n_total=40, learning_rate=1e-4)
    expected = central_difference(data.objective, data.theta)
    # Adam's first mean is a tenth of the gradient, which is that of the mean row.
    n_params = len(data.theta)
    assert_allclose(400.0 * state.adam.mean[:n_params], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("n_total", [40, None])
def test_the_prior_counts_once_in_all_rows(n_total):
    """A batch of 10 has its share: of a stream that of the rows so far."""
    shares = []
    for kind in (LearnedNoise, Unbiased):
        data = Numbers(kind)
        first = data.step(data.start, slice(0, 10), n_total=n_total, learning_rate=1e-9)
        second = data.step(first, slice(10, 20), n_total=n_total, learning_rate=1e-9)
        shares.append([state.adam.mean[2] for state in (first, second)])
    # The slope of the prior at -1.5 is 0.5; of a mean row it is a tenth of the share of the batch.
    with_prior, without = np.array(shares)
    first, second = 100.0 * (with_prior - without) / 0.5
    expected = (0.25, 0.25) if n_total else (1.0, 0.5)
    assert_allclose([first, second - 0.9 * first], expected, rtol=1e-5)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_theta_of_a_constant_has_its_parameters(n_outputs):
    bounds = np.tile([-9.0, 9.0], (2 + n_outputs, 1))
    data = Numbers(LearnedNoise, n_outputs=n_outputs, bounds=bounds)
    theta = data.model.constant_theta(data.theta, data.X, data.y, data.weight)
    centre = data.weight @ data.y / data.weight.sum()
    expected = np.log(data.weight @ (data.y - centre) ** 2 / data.weight.sum())
    assert_allclose(theta[2:], expected)
    value, slope = data.model.log_prior(data.theta)
    assert value == pytest.approx(-0.5 * ((data.theta[2:] + 1.0) ** 2).sum())
    assert_allclose(slope, np.append([0.0, 0.0], -(data.theta[2:] + 1.0)))


@NOISE_KINDS
def test_noise_is_learned_from_batches(kind):
    """Close to the best bound over kernel and noise."""
    data = Numbers(kind, n=400, m=15, tol=1e-6)
    rng = np.random.RandomState(0)
    start = data.model.start(np.array([0.0, 0.0, 1.0]), data.Z)
    *_, state = epochs(
        data.model, start, data.X, data.y, data.weight, n_epochs=15, batch_size=40, rng=rng
    )

    def loss(theta):
        return -data.objective(theta)

    best = minimize(loss, [0.0, 0.0, -2.0], method="Nelder-Mead", options={"fatol": 0.05})
    assert -best.fun - 0.03 * 400 < data.objective(state.theta) <= -best.fun + 0.1
    assert data.objective(start.theta) < -best.fun - 0.2 * 400
    assert_allclose(state.theta[2], best.x[2], atol=0.2)


def test_extrapolation_to_a_negative_precision_is_refused():
    iterate = BatchIterate(None, None, [], None, 0.0, 0.0)
    images = [(no_rows(2)._replace(precision=precision),) for precision in (1.0, 2.0)]
    assert iterate.combined([0.5], images)[0].precision == 1.5
    assert iterate.combined([3.0], images) is None
