"""States for other rows: those that a posterior of f asks for."""

from types import SimpleNamespace

import numpy as np
import pytest

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.binary import BernoulliLogit, PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import GaussianNoise
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.selectors import InducingPoints

THETA = np.log([2.0, 0.7])


def make_model(n, likelihood=None, slack="standard", targets=None, **options):
    X = np.linspace(-3.0, 3.0, n)[:, None]
    y = np.where(np.sin(2.5 * X[:, 0]) + 0.5 * np.cos(40.0 * X[:, 0]) > 0.0, 1.0, -1.0)
    kernel = FreeKernel(Scaled(Constant(), RBF()), np.zeros(2), np.ones(2, dtype=bool))
    likelihood = BernoulliLogit() if likelihood is None else likelihood
    targets = [y] if targets is None else targets
    return SparseModel(kernel, likelihood, X, targets, np.ones(n), slack=SLACKS[slack], **options)


def carried(evaluation, model):
    return model.states_from(evaluation.theta, evaluation.posterior)


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
    points = InducingPoints(Z)
    options = {"tol": 1e-13, "max_iter": 500}
    evaluation = small.evaluate(THETA, points, small.initial_state(), **options)
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
    evaluation = small.evaluate(THETA, InducingPoints(Z), small.initial_state(), **solved)
    sites = evaluation.solutions[0].sites
    mean, variance = dense_moments(small, Z, sites, model.X)

    def missed(X):
        Kuf = 2.0 * np.exp(-0.5 * ((Z - X.T) / 0.7) ** 2)
        Kuu = 2.0 * np.exp(-0.5 * ((Z - Z.T) / 0.7) ** 2)
        return 2.0 - (Kuf * np.linalg.solve(Kuu, Kuf)).sum(axis=0)

    residual = missed(model.X)
    assert residual.max() > 0.5
    precision = np.full(90, 0.25)
    mean_ratio = np.mean(sites.precision * missed(small.X))
    for _ in range(500):
        cost = precision * residual if slack == "tight" else mean_ratio
        c = np.sqrt(mean**2 + variance - residual + residual / (1.0 + cost))
        precision = np.tanh(c / 2.0) / (2.0 * c)
    (state,) = carried(evaluation, model)
    np.testing.assert_allclose(state.precision, precision, rtol=1e-5)


def test_carried_states_begin_nearer_and_lead_to_the_same_sites():
    Z = np.linspace(-2.8, 2.8, 20)[:, None]
    small, model = make_model(200), make_model(800)
    points = InducingPoints(Z)
    evaluation = small.evaluate(THETA, points, small.initial_state())
    options = {"tol": 1e-8, "max_iter": 100}
    missing, ends = [], []
    for states in (carried(evaluation, model), model.initial_state()):
        first = model.evaluate(THETA, points, states, tol=1e-8, max_iter=1)
        ends.append(model.evaluate(THETA, points, states, **options).elbo)
        missing.append(ends[-1] - first.elbo)
    np.testing.assert_allclose(*ends, atol=1e-6)
    assert missing[0] < 0.3 * missing[1]


def test_states_of_many_outputs_stay_in_their_order():
    small, model = make_model(40), make_model(90)
    for one in (small, model):
        one.targets = [one.targets[0], -one.targets[0], np.sign(one.X[:, 0] - 0.01)]
    points = InducingPoints(np.linspace(-2.8, 2.8, 7)[:, None])
    states = carried(small.evaluate(THETA, points, small.initial_state()), model)
    assert len(states) == 3
    np.testing.assert_allclose(states[0].shift, -states[1].shift, atol=1e-3)
    assert np.all(states[2].shift[:20] < 0.0)
    assert np.all(states[2].shift[-20:] > 0.0)


def test_sites_that_do_not_depend_on_f_are_not_carried():
    y = np.zeros(30, dtype=[("mean", float), ("scatter", float)])
    model = make_model(30, GaussianNoise(0), targets=[y])
    states = model.states_from(None, SimpleNamespace(functions=()))
    assert states == model.initial_state()
