"""A model at given hyperparameters and points: gradients, the chain of bounds, bookkeeping."""

from functools import partial

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.likelihoods.base import SiteState
from sparsegpc._core.likelihoods.binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import assert_slopes
from tests.core.models.model_cases import (
    KERNELS,
    dense_kernel,
    evaluate,
    make_data,
    make_model,
    outputs,
)

TOLERANCES = {"rtol": 1e-5, "atol": 1e-5}


def central_differences(function, x, step=2e-4):
    gradient = np.empty(x.size)
    for k in range(x.size):
        shift = np.zeros(x.size)
        shift[k] = step
        shift = shift.reshape(x.shape)
        gradient[k] = (function(x + shift) - function(x - shift)) / (2.0 * step)
    return gradient.reshape(x.shape)


def assert_gradients(model, theta, Z, atol):
    """Compare gradients with differences, in which the sites follow from where they were."""
    found = evaluate(model, theta, Z, wrt_Z=True)
    again = partial(evaluate, model, states=found.states)
    by_theta = central_differences(lambda t: again(theta=t, Z=Z).objective, theta)
    np.testing.assert_allclose(found.grad_theta, by_theta, rtol=1e-5, atol=atol)
    assert_slopes(lambda z: again(theta=theta, Z=z).objective, Z, found.grad_Z, **TOLERANCES)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_those_of_the_profile_bound(name, slack):
    """Partial derivatives at solved sites equal total ones: the sites follow in the differences."""
    model, theta = make_model(name, slack)
    Z = make_data()[3]
    assert_gradients(model, theta, Z, atol=2e-6)


@pytest.mark.parametrize(
    ("likelihood", "slack"),
    [
        (BernoulliLogit, "tight"),
        (BernoulliLogit, "spherical"),
        (BernoulliLogit, "standard"),
        (BernoulliProbit, "tight"),
        (BernoulliProbit, "spherical"),
        (BernoulliProbit, "standard"),
        (ConditionalPolyaGamma, "tight"),
        (PolyaGammaLogit, "tight"),
        (PolyaGammaLogit, "spherical"),
        (PolyaGammaLogit, "standard"),
    ],
)
def test_gradients_of_every_likelihood(likelihood, slack):
    options = {"likelihood": likelihood, "fit_prior_mean": slack != "standard"}
    model, theta = make_model("linear plus rbf", slack, **options)
    Z = make_data()[3]
    assert_gradients(model, theta, Z, atol=5e-6)


@pytest.mark.parametrize("slack", SLACKS)
def test_gradient_at_points_that_are_rows_with_a_zero_prior_mean(slack):
    data = make_data(1)
    model, theta = make_model("matern 5/2", slack, data=data, fit_prior_mean=False)
    Z = data[0][:8]
    evaluation = evaluate(model, theta, Z)
    by_theta = central_differences(lambda t: evaluate(model, t, Z).objective, theta)
    np.testing.assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-5, atol=2e-6)
    assert evaluation.solutions[0].posterior.prior_mean == 0.0


def test_fixed_parameters_leave_the_gradient():
    Z = make_data()[3]
    whole = evaluate(*make_model("rbf per column"), Z)
    part = evaluate(*make_model("rbf per column", fixed=[1]), Z)
    np.testing.assert_allclose(part.grad_theta, whole.grad_theta[[0, 2]], rtol=1e-12)
    nothing = evaluate(*make_model("rbf per column", fixed=[0, 1, 2]), Z)
    assert nothing.grad_theta.shape == (0,)
    np.testing.assert_allclose(nothing.objective, whole.objective, rtol=1e-12)


def test_gradients_are_given_only_if_asked_for():
    model, theta = make_model()
    Z = make_data()[3]
    without = evaluate(model, theta, Z, wrt_theta=False)
    assert without.grad_theta is None
    assert without.grad_Z is None
    assert evaluate(model, theta, Z).grad_Z is None


def dense_polya_gamma(K, y, weight, prior_mean, n_steps=600):
    """Return the Polya-Gamma bound of the Gaussian process itself, and mean, covariance of f."""
    state = np.full(len(y), 0.25)
    for _ in range(n_steps):
        c = np.sqrt(state)
        precision = weight * np.tanh(c / 2.0) / (2.0 * c)
        target, noise = 0.5 * weight * y / precision, 1.0 / precision
        S = K + np.diag(noise)
        gain = K @ np.linalg.inv(S)
        mean, cov = prior_mean + gain @ (target - prior_mean), K - gain @ K
        own = 0.5 * target**2 / noise + 0.5 * np.log(2.0 * np.pi * noise)
        own = own + 0.5 * precision * state - weight * np.logaddexp(c / 2.0, -c / 2.0)
        quad = (target - prior_mean) @ np.linalg.solve(S, target - prior_mean)
        bound = own.sum() - 0.5 * (np.linalg.slogdet(2.0 * np.pi * S)[1] + quad)
        state = mean**2 + cov.diagonal()
    return bound, mean, cov


def exact_by_grid(K, y, weight, prior_mean, n_nodes=61, limit=9.0):
    """Log marginal likelihood by the trapezoidal rule in whitened coordinates, three rows."""
    nodes = np.linspace(-limit, limit, n_nodes)
    u = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    f = prior_mean + u @ np.linalg.cholesky(K).T
    log_terms = log_expit(y * f) @ weight - 0.5 * (u**2).sum(axis=1)
    return logsumexp(log_terms) + 3.0 * np.log((nodes[1] - nodes[0]) / np.sqrt(2.0 * np.pi))


def exact_by_sampling(K, y, weight, prior_mean, mean, cov, n_samples=100_000):
    """Log marginal likelihood by importance sampling from a Gaussian, and its standard error."""
    n = len(y)
    L, Lk = np.linalg.cholesky(cov), np.linalg.cholesky(K)
    u = np.random.RandomState(0).randn(n_samples, n)
    # Wider than the proposal's own law, so that the tails are covered.
    wide = 1.3
    f = mean + wide * u @ L.T
    prior = -0.5 * (np.linalg.solve(Lk, (f - prior_mean).T) ** 2).sum(axis=0)
    prior -= np.log(Lk.diagonal()).sum()
    proposal = -0.5 * (u**2).sum(axis=1) - np.log(wide * L.diagonal()).sum()
    log_terms = log_expit(y * f) @ weight + prior - proposal
    total = logsumexp(log_terms) - np.log(n_samples)
    ratio = np.exp(log_terms - total)
    return total, ratio.std() / np.sqrt(n_samples)


def tiny_problem(seed, n):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    # Labels of one sign have no best prior mean.
    y[0], y[1] = 1.0, -1.0
    return X, y, rng.uniform(0.5, 2.0, size=n)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [3, 6])
def test_sparse_bound_is_below_the_dense_one_and_that_below_the_truth(seed, n):
    X, y, weight = tiny_problem(seed, n)
    theta = np.log([3.0, 0.9])
    K = dense_kernel(X, 3.0, 0.9)
    sparse = {}
    for slack in SLACKS:
        model, _ = make_model("rbf", slack, data=(X, y, weight, None))
        evaluation = evaluate(model, theta, X[: n // 2] + 0.1)
        prior_mean = evaluation.solutions[0].posterior.prior_mean
        dense, mean, cov = dense_polya_gamma(K, y, weight, prior_mean)
        if n == 3:
            exact, error = exact_by_grid(K, y, weight, prior_mean), 1e-9
        else:
            exact, error = exact_by_sampling(K, y, weight, prior_mean, mean, cov)
        sparse[slack] = evaluation.objective
        assert evaluation.objective < dense
        assert dense < exact - 4.0 * error
        assert exact < 0.0
    assert sparse["standard"] < sparse["spherical"] < sparse["tight"]


@pytest.mark.parametrize("slack", SLACKS)
def test_bound_with_every_row_as_a_point_is_the_dense_one(slack):
    X, y, weight = tiny_problem(0, 12)
    model, _ = make_model("rbf", slack, data=(X, y, weight, None))
    evaluation = evaluate(model, np.log([3.0, 0.9]), X)
    prior_mean = evaluation.solutions[0].posterior.prior_mean
    dense, mean, cov = dense_polya_gamma(dense_kernel(X, 3.0, 0.9), y, weight, prior_mean)
    np.testing.assert_allclose(evaluation.objective, dense, atol=1e-6)
    c = np.sqrt(mean**2 + cov.diagonal())
    expected = weight * np.tanh(c / 2.0) / (2.0 * c)
    np.testing.assert_allclose(evaluation.solutions[0].state.precision, expected, rtol=1e-4)


def test_subset_is_the_model_of_these_rows():
    X, y, weight, Z = make_data()
    model, theta = make_model("rbf per column", "spherical", fit_prior_mean=False, tol=1e-3)
    rows = np.array([3, 4, 9, 20, 21, 25])
    small = model.subset(rows)
    fresh, _ = make_model(
        "rbf per column",
        "spherical",
        data=(X[rows], y[rows], weight[rows], None),
        fit_prior_mean=False,
        tol=1e-3,
    )
    np.testing.assert_array_equal(small.X, X[rows])
    np.testing.assert_allclose(small.tol, fresh.tol, rtol=1e-12)
    np.testing.assert_allclose(small.tol, 1e-3 * weight[rows].sum(), rtol=1e-12)
    one, other = evaluate(small, theta, Z), evaluate(fresh, theta, Z)
    assert one.objective == other.objective
    np.testing.assert_array_equal(one.grad_theta, other.grad_theta)


def test_equal_points_are_factored_with_jitter():
    model, theta = make_model()
    Z = np.repeat(make_data()[3][:1], 3, axis=0)
    evaluation = evaluate(model, theta, Z)
    assert 0.0 < evaluation.jitter <= 1e-12
    # A point that stands three times is one point.
    np.testing.assert_allclose(
        evaluation.objective, evaluate(model, theta, Z[:1]).objective, atol=1e-5
    )


def test_evaluation_carries_what_it_was_asked_for():
    model, theta = make_model()
    Z = make_data()[3]
    points = InducingPoints(Z)
    evaluation = model.evaluate(theta, points, model.initial_state())
    assert evaluation.points is points
    assert evaluation.objective == evaluation.solutions[0].bound
    assert evaluation.jitter == 0.0
    np.testing.assert_array_equal(evaluation.theta, theta)
    variance, length_scale = np.exp(theta)
    Kuu = dense_kernel(Z, variance, length_scale)
    Luu = evaluation.posterior.Luu
    np.testing.assert_allclose(Luu @ Luu.T, Kuu, rtol=1e-12)


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_sites_are_solved_to_a_share_of_the_tolerance_per_row(tol):
    model, theta = make_model(tol=tol)
    loose = model.evaluate(theta, InducingPoints(make_data()[3]), model.initial_state())
    exact = evaluate(model, theta, make_data()[3])
    assert loose.solutions[0].converged
    assert 0.0 <= exact.objective - loose.objective < tol * make_data()[2].sum()


def test_start_of_the_sites_does_not_matter():
    model, theta = make_model()
    Z = make_data()[3]
    one = evaluate(model, theta, Z)
    start = SiteState(np.full(30, 50.0), np.linspace(-9.0, 9.0, 30))
    other = model.evaluate(theta, InducingPoints(Z), (start,), tol=1e-12, max_iter=1000)
    np.testing.assert_allclose(other.objective, one.objective, atol=1e-9)
    np.testing.assert_allclose(other.grad_theta, one.grad_theta, atol=1e-4)


def test_candidates_are_the_rows_of_the_model():
    model, _ = make_model(n_threads=2, memory=12345)
    X, total_weight, options = model.candidates
    assert X is model.X
    assert total_weight == pytest.approx(make_data()[2].sum())
    assert options == {"n_threads": 2, "memory": 12345}


def test_precision_is_that_of_the_sites():
    model, theta = make_model()
    state = SiteState(np.linspace(0.01, 30.0, 30), np.ones(30))
    np.testing.assert_array_equal(model.precision(theta, (state,)), state.precision)
    # Before anything is known of f, that of the logistic likelihood around zero.
    expected = 0.25 * make_data()[2]
    np.testing.assert_allclose(model.precision(theta, model.initial_state()), expected)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("memory", [0, 8 * 30 * 6, 2**30])
def test_results_do_not_depend_on_blocks_threads_or_memory(monkeypatch, slack, memory):
    """Nothing, V alone, or V with what the pullback needs is kept between passes."""
    Z = make_data()[3]
    model, theta = make_model("linear plus rbf", slack)
    whole = evaluate(model, theta, Z, wrt_Z=True)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.SMALLEST_BLOCK", 7)
    monkeypatch.setattr("sparsegpc._core.rows.blocks.BLOCK_BYTES", 1)
    parts = []
    for n_threads in (1, 3):
        model, theta = make_model("linear plus rbf", slack, n_threads=n_threads, memory=memory)
        parts.append(evaluate(model, theta, Z, wrt_Z=True))
    np.testing.assert_array_equal(*(part.solutions[0].state for part in parts))
    np.testing.assert_array_equal(parts[0].grad_theta, parts[1].grad_theta)
    np.testing.assert_allclose(parts[0].objective, whole.objective, rtol=1e-11)
    np.testing.assert_allclose(parts[0].grad_theta, whole.grad_theta, atol=1e-4)
    np.testing.assert_allclose(parts[0].grad_Z, whole.grad_Z, atol=1e-4)


# --------------------------------------------------------------------------------------------------
# Several outputs


@pytest.mark.parametrize("noisy", [False, True])
def test_outputs_add_up(noisy):
    """Bounds and gradients are sums over outputs; the noise of each has a part of its own."""
    Z, factors = make_data()[3], (0.5, 1.7, -2.0)
    model, theta = outputs(*factors, noisy=noisy)
    whole = evaluate(model, theta, Z, wrt_Z=True)
    parts = [evaluate(*outputs(factor, noisy=noisy), Z, wrt_Z=True) for factor in factors]
    assert len(whole.solutions) == len(whole.states) == 3
    np.testing.assert_allclose(whole.objective, sum(part.objective for part in parts), rtol=1e-12)
    for solution, part in zip(whole.solutions, parts, strict=True):
        np.testing.assert_allclose(solution.bound, part.elbo, rtol=1e-12)
    by_kernel = sum(part.grad_theta[:2] for part in parts)
    own = [part.grad_theta[2:] for part in parts]
    expected = np.concatenate([by_kernel, *own])
    np.testing.assert_allclose(whole.grad_theta, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(whole.grad_Z, sum(part.grad_Z for part in parts), rtol=1e-9)


def test_parameters_of_the_kernel_come_before_those_of_each_output():
    model, _ = outputs(0.5, 1.7, noisy=True)
    theta = np.arange(6.0)
    np.testing.assert_array_equal(model.kernel_theta(theta), [0.0, 1.0])
    coefficients = [likelihood._params for likelihood in model.likelihoods(theta)]
    np.testing.assert_array_equal(coefficients, [[2.0, 3.0], [4.0, 5.0]])
    model, theta = outputs(0.5, 1.7, -2.0)
    np.testing.assert_array_equal(model.kernel_theta(theta), theta)
    assert model.likelihoods(theta) == [model.likelihood] * 3


def test_precisions_of_all_outputs_add_up():
    model, theta = outputs(0.5, 1.7, noisy=True)
    states = model.initial_state()
    basis = np.stack([np.ones(30), model.X[:, 0]], axis=1)
    expected = model.weight * (np.exp(-basis @ theta[2:4]) + np.exp(-basis @ theta[4:]))
    np.testing.assert_allclose(model.precision(theta, states), expected, rtol=1e-12)


def test_constants_of_all_outputs_add_up():
    both = outputs(0.5, 1.7)[0].constant_bound()
    assert both == sum(outputs(factor)[0].constant_bound() for factor in (0.5, 1.7))


def test_constant_bound_knows_whether_the_prior_mean_is_learned():
    model, _ = make_model(fit_prior_mean=False)
    np.testing.assert_allclose(model.constant_bound(), -np.log(2.0) * make_data()[2].sum())
    assert make_model()[0].constant_bound() > model.constant_bound()


def test_the_constant_bound_is_computed_once_for_each_set_of_rows(monkeypatch):
    model, _ = make_model()
    computed = []
    original = type(model.likelihood).constant_bound

    def counted(likelihood, y, weight, fit_prior_mean):
        computed.append(len(weight))
        return original(likelihood, y, weight, fit_prior_mean)

    monkeypatch.setattr(type(model.likelihood), "constant_bound", counted)
    whole = [model.constant_bound() for _ in range(2)]
    small = model.subset(np.arange(10))
    parts = [small.constant_bound() for _ in range(2)]
    assert computed == [len(model.weight), 10]
    expected = original(small.likelihood, small.targets[0], small.weight, True)
    assert parts == [expected, expected]
    assert whole[0] == whole[1] == model.constant_bound() != expected


def test_subset_takes_the_rows_of_every_output():
    model, theta = outputs(0.5, 1.7, noisy=True)
    rows = np.array([1, 5, 6, 20])
    small = model.subset(rows)
    assert len(small.targets) == 2
    for part, whole in zip(small.targets, model.targets, strict=True):
        np.testing.assert_array_equal(part, whole[rows])
    assert len(model.targets[0]) == 30
    assert np.isfinite(evaluate(small, theta, make_data()[3]).objective)
