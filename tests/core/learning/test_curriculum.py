"""Subsets of the rows, and what they teach: states, and the curvature of the bound."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from scipy.optimize import minimize

from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning.curriculum import (
    FEWEST_POINTS,
    FEWEST_ROWS,
    Curvature,
    follow,
    subsets,
)
from sparsegpc._core.likelihoods.binary import BernoulliLogit, PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.choices import FixedChoice, PivotedChoice

THETA = np.log([2.0, 0.7])
WIDE = np.array([[-np.inf, np.inf]] * 2)


def make_model(n, likelihood=None, slack="standard", targets=None, **options):
    X = np.linspace(-3.0, 3.0, n)[:, None]
    y = np.where(np.sin(2.5 * X[:, 0]) + 0.5 * np.cos(40.0 * X[:, 0]) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    likelihood = BernoulliLogit() if likelihood is None else likelihood
    targets = [y] if targets is None else targets
    return SparseModel(kernel, likelihood, X, targets, np.ones(n), slack=slack, **options)


def carried(evaluation, model):
    posteriors = [solution.posterior for solution in evaluation.solutions]
    return model.states_from(evaluation.theta, evaluation.chosen.Z, posteriors, evaluation.jitter)


def list_subsets(n, choose):
    return list(subsets(make_model(n), choose, THETA))


def test_few_rows_are_not_divided():
    assert list_subsets(FEWEST_ROWS - 1, PivotedChoice("argmax", 10)) == []
    assert list_subsets(FEWEST_ROWS, PivotedChoice("argmax", 10)) != []


@pytest.mark.parametrize(("n", "sizes"), [(6660, [416, 1665]), (40780, [637, 2548, 10195])])
def test_subsets_grow_and_their_points_with_the_root_of_their_rows(n, sizes):
    found = list_subsets(n, PivotedChoice("argmax", 400))
    assert [len(model.weight) for model, _ in found] == pytest.approx(sizes, abs=1)
    for model, choose in found:
        assert choose.n_points == pytest.approx(400 * np.sqrt(len(model.weight) / n), abs=1)


def test_few_points_are_kept():
    for n_points in (8, FEWEST_POINTS + 5):
        found = list_subsets(40780, PivotedChoice("argmax", n_points))
        assert found[0][1].n_points == min(n_points, FEWEST_POINTS)


def test_the_choice_itself_is_left_alone():
    choose = PivotedChoice("argmax", 100)
    list_subsets(6660, choose)
    assert choose.n_points == 100


def test_subsets_too_small_for_their_points_are_left_out():
    """With 300 points, 75 are a fifth of 416 rows; with 500, 125 are too many for them."""
    assert len(list_subsets(6660, PivotedChoice("argmax", 300))) == 2
    assert len(list_subsets(6660, PivotedChoice("argmax", 500))) == 1
    assert list_subsets(6660, PivotedChoice("argmax", 3000)) == []
    assert list_subsets(6660, FixedChoice(np.zeros((500, 1)))) == []


def test_rows_of_a_subset_are_evenly_spread():
    for model, _ in list_subsets(6000, PivotedChoice("argmax", 10)):
        gaps = np.diff(model.X[:, 0])
        assert gaps.min() > 0.7 * gaps.max()
        assert model.X[[0, -1], 0] == pytest.approx([-3.0, 3.0])


@pytest.mark.parametrize("given_points", [True, False])
def test_points_that_do_not_depend_on_the_kernel_are_the_same_on_all_subsets(given_points):
    n = 6660
    order = np.random.RandomState(0).permutation(n)
    choose = PivotedChoice("order", 12, order=order)
    expected = make_model(n).X[order[:12]]
    if given_points:
        expected = np.linspace(-2.0, 2.0, 12)[:, None]
        choose = FixedChoice(expected)
    found = list_subsets(n, choose)
    assert len(found) == 2
    for model, part in found:
        np.testing.assert_array_equal(model.choose(part, THETA, model.initial_state()).Z, expected)


def dense_moments(model, Z, sites, X):
    """Moments of f under the model with Gaussian sites, by the normal equations in u."""

    def k(A, B):
        return 2.0 * np.exp(-0.5 * ((A[:, :1] - B[:, 0]) / 0.7) ** 2)

    Kuu, Kuf, Kus = k(Z, Z), k(Z, model.X), k(Z, X)
    A = np.linalg.solve(Kuu, Kuf)
    S = np.linalg.inv(np.linalg.inv(Kuu) + (A * sites.precision) @ A.T)
    W = np.linalg.solve(Kuu, Kus)
    mean = W.T @ S @ (A @ sites.shift)
    return mean, 2.0 - np.sum(Kus * W, axis=0) + np.sum(W * (S @ W), axis=0)


def test_carried_states_are_those_that_the_moments_of_f_ask_for():
    Z = np.linspace(-2.8, 2.8, 7)[:, None]
    small = make_model(40, PolyaGammaLogit(), fit_prior_mean=False)
    model = make_model(90, PolyaGammaLogit(), fit_prior_mean=False)
    chosen = FixedChoice(Z)(small, THETA, None)
    options = {"tol": 1e-13, "max_iter": 500}
    evaluation = small.evaluate(THETA, chosen, small.initial_state(), **options)
    mean, variance = dense_moments(small, Z, evaluation.solutions[0].sites, model.X)
    c = np.sqrt(mean**2 + variance)
    (state,) = carried(evaluation, model)
    np.testing.assert_allclose(state.precision, np.tanh(c / 2.0) / (2.0 * c), rtol=1e-6)
    np.testing.assert_allclose(state.shift, 0.5 * model.targets[0], rtol=1e-6)


@pytest.mark.parametrize("slack", ["tight", "spherical"])
def test_carried_states_count_what_the_points_miss_as_the_slack_does(slack):
    Z = np.linspace(-2.5, 2.5, 3)[:, None]
    options = {"slack": slack, "fit_prior_mean": False}
    small, model = (make_model(n, PolyaGammaLogit(), **options) for n in (40, 90))
    solved = {"tol": 1e-13, "max_iter": 500}
    evaluation = small.evaluate(
        THETA, FixedChoice(Z)(small, THETA, None), small.initial_state(), **solved
    )
    sites = evaluation.solutions[0].sites
    mean, variance = dense_moments(small, Z, sites, model.X)

    def missed(X):
        Kuf = 2.0 * np.exp(-0.5 * ((Z - X.T) / 0.7) ** 2)
        Kuu = 2.0 * np.exp(-0.5 * ((Z - Z.T) / 0.7) ** 2)
        return 2.0 - (Kuf * np.linalg.solve(Kuu, Kuf)).sum(axis=0)

    residual = missed(model.X)
    assert residual.max() > 0.5
    precision = np.full(90, 0.25)
    mean_cost = np.mean(sites.precision * missed(small.X))
    for _ in range(500):
        cost = precision * residual if slack == "tight" else mean_cost
        c = np.sqrt(mean**2 + variance - residual + residual / (1.0 + cost))
        precision = np.tanh(c / 2.0) / (2.0 * c)
    (state,) = carried(evaluation, model)
    np.testing.assert_allclose(state.precision, precision, rtol=1e-5)


def test_carried_states_spare_passes_and_lead_to_the_same_sites():
    Z = np.linspace(-2.8, 2.8, 20)[:, None]
    small, model = make_model(200), make_model(800)
    chosen = FixedChoice(Z)(small, THETA, None)
    evaluation = small.evaluate(THETA, chosen, small.initial_state())
    options = {"tol": 1e-8, "max_iter": 100}
    cold = model.evaluate(THETA, chosen, model.initial_state(), **options)
    warm = model.evaluate(THETA, chosen, carried(evaluation, model), **options)
    np.testing.assert_allclose(warm.bound, cold.bound, atol=1e-6)
    assert warm.solutions[0].n_iter < cold.solutions[0].n_iter


def test_states_of_many_outputs_stay_in_their_order():
    small, model = make_model(40), make_model(90)
    for one in (small, model):
        one.targets = [one.targets[0], -one.targets[0], np.sign(one.X[:, 0] - 0.01)]
    chosen = FixedChoice(np.linspace(-2.8, 2.8, 7)[:, None])(small, THETA, None)
    states = carried(small.evaluate(THETA, chosen, small.initial_state()), model)
    assert len(states) == 3
    np.testing.assert_allclose(states[0].shift, -states[1].shift, atol=1e-3)
    assert np.all(states[2].shift[:20] < 0.0)
    assert np.all(states[2].shift[-20:] > 0.0)


def test_sites_that_do_not_depend_on_f_are_not_carried():
    y = np.zeros(30, dtype=[("mean", float), ("scatter", float)])
    model = make_model(30, GaussianNoise(0), targets=[y])
    states = model.states_from(None, None, [], 0.0)
    assert states == model.initial_state()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6), st.floats(0.01, 3.0))
def test_step_is_the_highest_point_of_the_model_in_the_box(n_params, seed, longest):
    rng = np.random.RandomState(seed)
    A = rng.randn(n_params, n_params)
    curvature = Curvature(n_params, 1.0)
    curvature.matrix = A @ A.T + 0.1 * np.eye(n_params)
    theta, slope = rng.randn(n_params), 2.0 * rng.randn(n_params)
    bounds = np.stack([theta - rng.choice([0.0, 0.3, 9.0], n_params), theta + 0.5], axis=1)
    box = np.clip(bounds - theta[:, None], -longest, longest)
    step, gain = curvature.step(theta, slope, bounds, longest)

    def fall(s):
        return -slope @ s + 0.5 * s @ curvature.matrix @ s

    best = minimize(
        fall,
        np.zeros(n_params),
        jac=lambda s: curvature.matrix @ s - slope,
        bounds=box,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert np.all((step >= box[:, 0] - 1e-12) & (step <= box[:, 1] + 1e-12))
    np.testing.assert_allclose(gain, -fall(step), atol=1e-12)
    assert gain >= -best.fun - 1e-7


def test_a_parameter_without_room_stays():
    bounds = np.array([[1.0, 1.0], [-5.0, 5.0]])
    step, gain = Curvature(2, 4.0).step(np.array([1.0, 0.0]), np.array([3.0, 2.0]), bounds, 1.0)
    np.testing.assert_allclose(step, [0.0, 0.5])
    assert gain == pytest.approx(0.5)
    step, gain = Curvature(1, 4.0).step(np.ones(1), np.ones(1), bounds[:1], 1.0)
    assert (step, gain) == (0.0, 0.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10**6))
def test_curvature_along_the_last_step_is_known_and_stays_positive(n_params, seed):
    rng = np.random.RandomState(seed)
    curvature = Curvature(n_params, 2.0)
    first = rng.randn(n_params)
    curvature.learn(first, 3.0 * first)
    for _ in range(6):
        step, fall = rng.randn(2, n_params)
        expected = step @ curvature.matrix @ step
        guessed = step @ fall
        curvature.learn(step, fall)
        assert np.linalg.eigvalsh(curvature.matrix).min() > 0.0
        along = step @ curvature.matrix @ step
        if guessed >= 0.2 * expected:
            np.testing.assert_allclose(curvature.matrix @ step, fall, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_allclose(along, 0.2 * expected, rtol=1e-5)


@pytest.mark.parametrize("fall", [-1.0, 0.0])
def test_curvature_stays_positive_if_the_first_step_leads_over_a_valley(fall):
    curvature, step = Curvature(3, 2.0), np.array([0.3, -1.0, 0.1])
    curvature.learn(step, fall * step)
    assert np.linalg.eigvalsh(curvature.matrix).min() > 0.0
    # Of the other directions nothing was learned.
    across = np.cross(step, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(curvature.matrix @ across, 2.0 * across, rtol=1e-12, atol=1e-15)


class Hill:
    """A model whose bound is a function of theta, in nats for ten rows."""

    total_weight, tol = 10.0, 1e-4

    def __init__(self, hessian, top, refused=None, height=0.0):
        self.hessian, self.top, self.refused, self.height = hessian, top, refused, height
        self.counts, self.seen = SimpleNamespace(optimizer_iterations=0), []

    def evaluate(self, theta, chosen, states, *, jitter):
        self.seen.append(theta)
        if self.refused is not None and self.refused(theta):
            raise LinAlgError("a step too far")
        d = theta - self.top
        return SimpleNamespace(
            theta=theta,
            bound=self.height - 0.5 * d @ self.hessian @ d - 3.0 * (d**4).sum(),
            grad_theta=-self.hessian @ d - 12.0 * d**3,
            chosen=chosen,
            states=states,
            jitter=jitter,
        )

    def start(self, theta):
        return self.evaluate(np.asarray(theta), None, None, jitter=0.0)


STEEP = np.array([[40.0, 15.0], [15.0, 9.0]])


@pytest.mark.parametrize("known", [True, False])
def test_ascent_reaches_the_top_sooner_with_the_curvature_known(known):
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    curvature = Curvature(2, 50.0)
    if known:
        curvature.matrix = STEEP / 10.0
    best, ended, failed = follow(hill, hill.start([0.6, 0.1]), WIDE, 50, curvature)
    assert ended
    assert not failed
    assert best.bound > -1e-4
    assert hill.counts.optimizer_iterations == len(hill.seen) - 1
    if known:
        assert len(hill.seen) <= 6


def test_ascent_stays_in_the_box_and_finds_its_best_corner():
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    bounds = np.array([[0.7, 2.0], [-5.0, 5.0]])
    best, _, _ = follow(hill, hill.start([1.0, 1.0]), bounds, 50, Curvature(2, 50.0))
    inside = minimize(
        lambda t: -hill.start(t).bound, [1.0, 0.0], bounds=bounds, options={"ftol": 1e-15}
    )
    assert best.bound >= -inside.fun - 1e-3
    assert all(np.all((t >= bounds[:, 0]) & (t <= bounds[:, 1])) for t in hill.seen)


def test_ascent_is_given_up_only_where_it_will_not_come_near():
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    curvature = Curvature(2, 1.0)
    curvature.matrix = STEEP / 10.0
    start = hill.start([0.6, 0.1])
    given_up, ended, _ = follow(hill, start, WIDE, 50, curvature, best=100.0)
    assert given_up is start
    assert ended
    assert follow(hill, start, WIDE, 50, curvature, best=0.0)[0].bound > -1e-4


def test_ascent_goes_on_where_it_may_still_come_near():
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    curvature = Curvature(2, 1.0)
    curvature.matrix = STEEP / 10.0
    far = hill.start([1.0, 0.2])
    assert far.bound < -5.0
    assert follow(hill, far, WIDE, 50, curvature, best=-0.01)[0].bound > -1e-3


def test_one_step_that_gains_nothing_does_not_end_an_ascent():
    """The curvature was thought too small, and the first step leads beyond the top."""
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    start = hill.start([0.6, -0.2])
    best, ended, _ = follow(hill, start, WIDE, 50, Curvature(2, 1e-3))
    assert hill.start(hill.seen[1]).bound < start.bound
    assert ended
    assert best.bound > -1e-4


def test_ascent_steps_back_from_where_nothing_can_be_computed():
    hill = Hill(STEEP, np.array([0.5, -0.3]), refused=lambda theta: theta[1] < -0.1)
    start = hill.start([0.6, 0.4])
    best, ended, failed = follow(hill, start, WIDE, 50, Curvature(2, 3.0))
    assert failed
    assert ended
    assert best.bound > start.bound + 0.5
    assert best.theta[1] >= -0.1


def test_ascent_says_when_it_ran_out_of_steps():
    hill = Hill(STEEP, np.array([5.0, -3.0]))
    best, ended, _ = follow(hill, hill.start([0.0, 0.0]), WIDE, 2, Curvature(2, 1e4))
    assert not ended
    assert len(hill.seen) == 3
    assert best.bound == max(hill.start(theta).bound for theta in hill.seen[:3])


def test_gradient_that_is_not_finite_is_refused():
    hill = Hill(STEEP, np.zeros(2))
    start = hill.start([0.1, 0.1])
    start.grad_theta = np.array([np.nan, 1.0])
    with pytest.raises(LinAlgError, match="not finite"):
        follow(hill, start, WIDE, 5, Curvature(2, 1.0))


def test_an_evaluation_without_a_finite_gradient_is_stepped_back_from_and_told_of():
    hill, told = Hill(STEEP, np.array([0.5, -0.3])), []
    smooth = hill.evaluate

    def evaluate(theta, *args, **options):
        evaluation = smooth(theta, *args, **options)
        if theta[1] < -0.1:
            evaluation.grad_theta = np.full(2, np.inf)
        return evaluation

    hill.evaluate = evaluate
    progress = SimpleNamespace(
        evaluated=lambda model, evaluation: told.append(evaluation.theta), stopped=False
    )
    start = hill.start([0.6, 0.4])
    best, _, failed = follow(hill, start, WIDE, 50, Curvature(2, 3.0), progress=progress)
    assert failed
    assert best.theta[1] >= -0.1
    assert np.isfinite(best.grad_theta).all()
    np.testing.assert_array_equal(told, hill.seen[1:])
