"""The bound as optimisers see it, and quasi-Newton steps on it."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from scipy.optimize import minimize
from scipy.special import xlogy

from sparsegpc._core.learning.maximization import (
    KERNEL_CURVATURE,
    LEAST_ENTROPY,
    LEAST_SHARE,
    maximize,
    typical_hessian,
)
from sparsegpc._core.models.prior import ProductPrior
from sparsegpc._core.optimisers.bfgs import BFGSHessian
from tests.core.learning.fit_cases import make_model, settings_of

WIDE = np.array([[-np.inf, np.inf]] * 2)


class Hill:
    """A model whose bound is a function of theta, in nats for ten rows."""

    total_weight, tol, prior = 10.0, 1e-4, ProductPrior()

    def __init__(self, hessian, top, refused=None, height=0.0):
        self.hessian, self.top, self.refused, self.height = hessian, top, refused, height
        self.seen = []

    def evaluate(self, theta, points, states, tol=None):
        self.seen.append(theta)
        if self.refused is not None and self.refused(theta):
            raise LinAlgError("a step too far")
        d = theta - self.top
        return SimpleNamespace(
            theta=theta,
            objective=self.height - 0.5 * d @ self.hessian @ d - 3.0 * (d**4).sum(),
            grad_theta=-self.hessian @ d - 12.0 * d**3,
            points=points,
            states=states,
        )

    def site_tol(self, expected):
        return 0.0

    def start(self, theta):
        return self.evaluate(np.asarray(theta), None, None)


class Told:
    """A progress that keeps where a `Hill` was evaluated."""

    stopped, optimizer_iterations = False, 0

    def __init__(self):
        self.seen = []

    def evaluate(self, model, theta, points, states, **options):
        self.seen.append(theta)
        return model.evaluate(theta, points, states, **options)


def climb(hill, start, hessian, bounds=WIDE, max_iter=50, to_beat=-np.inf, progress=None):
    """Maximise the bound of a `Hill` by quasi-Newton steps."""
    progress = Told() if progress is None else progress
    settings = settings_of(bounds, max_iter, progress=progress)
    return maximize(hill, start, settings, hessian=hessian, to_beat=to_beat)


STEEP = np.array([[40.0, 15.0], [15.0, 9.0]])


@pytest.mark.parametrize("known", [True, False])
def test_ascent_reaches_the_top_sooner_with_the_curvature_known(known):
    hill, progress = Hill(STEEP, np.array([0.5, -0.3])), Told()
    hessian = BFGSHessian.known(STEEP / 10.0) if known else BFGSHessian(np.full(2, 50.0))
    best, ended, *_ = climb(hill, hill.start([0.6, 0.1]), hessian, progress=progress)
    assert ended
    assert best.objective > -1e-4
    assert progress.optimizer_iterations == len(hill.seen) - 1
    if known:
        assert len(hill.seen) <= 6


def test_ascent_stays_in_the_box_and_finds_its_best_corner():
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    bounds = np.array([[0.7, 2.0], [-5.0, 5.0]])
    best, *_ = climb(hill, hill.start([1.0, 1.0]), BFGSHessian(np.full(2, 50.0)), bounds)
    inside = minimize(
        lambda t: -hill.start(t).objective, [1.0, 0.0], bounds=bounds, options={"ftol": 1e-15}
    )
    assert best.objective >= -inside.fun - 1e-3
    assert all(np.all((t >= bounds[:, 0]) & (t <= bounds[:, 1])) for t in hill.seen)


def test_ascent_is_given_up_only_where_it_will_not_come_near():
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    hessian = BFGSHessian.known(STEEP / 10.0)
    start = hill.start([0.6, 0.1])
    given_up, ended, *_ = climb(hill, start, hessian, to_beat=100.0)
    assert given_up is start
    assert ended
    assert climb(hill, start, hessian, to_beat=0.0)[0].objective > -1e-4


def test_ascent_goes_on_where_it_may_still_come_near():
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    hessian = BFGSHessian.known(STEEP / 10.0)
    far = hill.start([1.0, 0.2])
    assert far.objective < -5.0
    assert climb(hill, far, hessian, to_beat=-0.01)[0].objective > -1e-3


def test_one_step_that_gains_nothing_does_not_end_an_ascent():
    """The hessian was thought too small, and the first step leads beyond the top."""
    hill = Hill(STEEP, np.array([0.5, -0.3]))
    start = hill.start([0.6, -0.2])
    best, ended, *_ = climb(hill, start, BFGSHessian(np.full(2, 1e-3)))
    assert hill.start(hill.seen[1]).objective < start.objective
    assert ended
    assert best.objective > -1e-4


def test_ascent_steps_back_from_where_nothing_can_be_computed():
    hill = Hill(STEEP, np.array([0.5, -0.3]), refused=lambda theta: theta[1] < -0.1)
    start = hill.start([0.6, 0.4])
    best, ended, *_ = climb(hill, start, BFGSHessian(np.full(2, 3.0)))
    assert any(theta[1] < -0.1 for theta in hill.seen)
    assert ended
    assert best.objective > start.objective + 0.5
    assert best.theta[1] >= -0.1


def test_ascent_says_when_it_ran_out_of_steps():
    hill = Hill(STEEP, np.array([5.0, -3.0]))
    best, ended, *_ = climb(hill, hill.start([0.0, 0.0]), BFGSHessian(np.full(2, 1e4)), max_iter=2)
    assert not ended
    assert len(hill.seen) == 3
    assert best.objective == max(hill.start(theta).objective for theta in hill.seen[:3])


def test_gradient_that_is_not_finite_is_refused():
    hill = Hill(STEEP, np.zeros(2))
    start = hill.start([0.1, 0.1])
    start.grad_theta = np.array([np.nan, 1.0])
    with pytest.raises(LinAlgError, match="not finite"):
        climb(hill, start, BFGSHessian(np.full(2, 1.0)), max_iter=5)


def test_an_evaluation_without_a_finite_gradient_is_stepped_back_from_and_told_of():
    hill, progress = Hill(STEEP, np.array([0.5, -0.3])), Told()
    smooth = hill.evaluate

    def evaluate(theta, *args, **options):
        evaluation = smooth(theta, *args, **options)
        if theta[1] < -0.1:
            evaluation.grad_theta = np.full(2, np.inf)
        return evaluation

    hill.evaluate = evaluate
    start = hill.start([0.6, 0.4])
    best, *_ = climb(hill, start, BFGSHessian(np.full(2, 3.0)), progress=progress)
    assert any(theta[1] < -0.1 for theta in hill.seen)
    assert best.theta[1] >= -0.1
    assert np.isfinite(best.grad_theta).all()
    np.testing.assert_array_equal(progress.seen, hill.seen[1:])


@pytest.mark.parametrize("n_rare", [0, 1, 100])
def test_the_guess_of_the_hessian_is_less_stiff_where_labels_are_rare(n_rare):
    rng = np.random.RandomState(0)
    y = np.where(np.arange(1000) < n_rare, 1.0, -1.0)
    model = make_model(rng.randn(1000, 1), y, weight=np.full(1000, 3.0))
    part = n_rare / 1000.0
    entropy = -xlogy(part, part) - xlogy(1.0 - part, 1.0 - part)
    share = {0: LEAST_SHARE, 1: entropy / LEAST_ENTROPY, 100: 1.0}[n_rare]
    expected = np.diag(np.full(2, share * KERNEL_CURVATURE))
    np.testing.assert_allclose(typical_hessian(model, 2).matrix, expected)
