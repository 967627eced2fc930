"""A model at given hyperparameters and points: gradients, the chain of bounds, bookkeeping."""

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from scipy.special import log_expit, logsumexp
from scipy.stats import norm

from sparsegpc._core.bounds.collapsed import SLACKS, marginals
from sparsegpc._core.kernels.algebra import FreeKernel, Product, Scaled, Sum
from sparsegpc._core.kernels.families import (
    RBF,
    Constant,
    DotProduct,
    ExpSineSquared,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
)
from sparsegpc._core.likelihoods.base import SiteState
from sparsegpc._core.likelihoods.binary import (
    BernoulliLogit,
    BernoulliProbit,
    ConditionalPolyaGamma,
    PolyaGammaLogit,
)
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, noisy_targets
from sparsegpc._core.models.model import (
    Counts,
    SparseModel,
    predict_covariance,
    predict_moments,
    split_theta,
    whitened_features,
)
from sparsegpc._core.numerics.linalg import SMALLEST_JITTER
from sparsegpc._core.rows.merging import merge_rows
from sparsegpc._core.selection.choices import Chosen, PivotedChoice
from tests.core.helpers import central_difference

KERNELS = {
    "rbf": (Scaled(Constant(), RBF()), [1.0, -0.3]),
    "rbf per column": (Scaled(Constant(), RBF(2)), [0.8, -0.2, 0.4]),
    "matern 1/2": (Scaled(Constant(), Matern12(2)), [1.0, 0.3, 0.6]),
    "matern 3/2": (Scaled(Constant(), Matern32()), [0.5, 0.2]),
    "matern 5/2": (Scaled(Constant(), Matern52(2)), [1.2, 0.1, -0.2]),
    "rational quadratic": (Scaled(Constant(), RationalQuadratic(2)), [1.0, 0.2, 0.4, -0.3]),
    "linear plus rbf": (Sum(DotProduct(), Scaled(Constant(), RBF())), [0.3, 0.9, -0.4]),
    "periodic times rbf": (Product(ExpSineSquared(), RBF()), [0.2, 0.9, 0.5]),
}


def make_data(seed=0, n=30):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.4 * rng.randn(n) > -0.3, 1.0, -1.0)
    weight = rng.uniform(0.4, 2.5, size=n)
    Z = rng.randn(6, 2)
    for array in (X, y, weight, Z):
        array.flags.writeable = False
    return X, y, weight, Z


def make_model(
    name="rbf", slack="tight", *, data=None, fixed=(), likelihood=PolyaGammaLogit, **options
):
    X, y, weight, _ = make_data() if data is None else data
    kernel, params = KERNELS[name]
    free = ~np.isin(np.arange(len(params)), fixed)
    free_kernel = FreeKernel(kernel, np.array(params), free)
    model = SparseModel(free_kernel, likelihood(), X, [y], weight, slack=slack, **options)
    return model, np.array(params)[free]


def evaluate(model, theta, Z, **options):
    """The evaluation with the sites solved as far as rounding lets them."""
    options = {"tol": 1e-12, "max_iter": 1000, **options}
    return model.evaluate(theta, Chosen(Z, None, None), model.initial_state(), **options)


def central_differences(function, x, step=2e-4):
    gradient = np.empty(x.size)
    for k in range(x.size):
        shift = np.zeros(x.size)
        shift[k] = step
        shift = shift.reshape(x.shape)
        gradient[k] = (function(x + shift) - function(x - shift)) / (2.0 * step)
    return gradient.reshape(x.shape)


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_those_of_the_profile_bound(name, slack):
    """Partial derivatives at solved sites equal total ones: the sites follow in the differences."""
    model, theta = make_model(name, slack)
    Z = make_data()[3]
    evaluation = evaluate(model, theta, Z, wrt_Z=True)
    by_theta = central_differences(lambda t: evaluate(model, t, Z).bound, theta)
    np.testing.assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-5, atol=2e-6)
    by_Z = central_differences(lambda z: evaluate(model, theta, z).bound, Z)
    np.testing.assert_allclose(evaluation.grad_Z, by_Z, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("fit_prior_mean", [True, False])
@pytest.mark.parametrize(
    ("likelihood", "slack"),
    [
        (BernoulliLogit, "spherical"),
        (BernoulliLogit, "standard"),
        (BernoulliProbit, "spherical"),
        (BernoulliProbit, "standard"),
        (ConditionalPolyaGamma, "tight"),
        (PolyaGammaLogit, "tight"),
        (PolyaGammaLogit, "spherical"),
        (PolyaGammaLogit, "standard"),
    ],
)
def test_gradients_of_every_likelihood(likelihood, slack, fit_prior_mean):
    options = {"likelihood": likelihood, "fit_prior_mean": fit_prior_mean}
    model, theta = make_model("linear plus rbf", slack, **options)
    Z = make_data()[3]
    evaluation = evaluate(model, theta, Z, wrt_Z=True)
    by_theta = central_differences(lambda t: evaluate(model, t, Z).bound, theta)
    np.testing.assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-5, atol=5e-6)
    by_Z = central_differences(lambda z: evaluate(model, theta, z).bound, Z)
    np.testing.assert_allclose(evaluation.grad_Z, by_Z, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("slack", SLACKS)
def test_gradient_at_points_that_are_rows_with_a_zero_prior_mean(slack):
    data = make_data(1)
    model, theta = make_model("matern 5/2", slack, data=data, fit_prior_mean=False)
    Z = data[0][:8]
    evaluation = evaluate(model, theta, Z)
    by_theta = central_differences(lambda t: evaluate(model, t, Z).bound, theta)
    np.testing.assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-5, atol=2e-6)
    assert evaluation.solutions[0].posterior.prior_mean == 0.0


def test_gradient_counts_a_large_jitter():
    model, theta = make_model()
    Z = make_data()[3]
    evaluation = evaluate(model, theta, Z, jitter=0.1)
    by_theta = central_differences(lambda t: evaluate(model, t, Z, jitter=0.1).bound, theta)
    np.testing.assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-5, atol=2e-6)


def test_fixed_parameters_leave_the_gradient():
    Z = make_data()[3]
    whole = evaluate(*make_model("rbf per column"), Z)
    part = evaluate(*make_model("rbf per column", fixed=[1]), Z)
    np.testing.assert_allclose(part.grad_theta, whole.grad_theta[[0, 2]], rtol=1e-12)
    nothing = evaluate(*make_model("rbf per column", fixed=[0, 1, 2]), Z)
    assert nothing.grad_theta.shape == (0,)
    np.testing.assert_allclose(nothing.bound, whole.bound, rtol=1e-12)


def test_gradients_are_given_only_if_asked_for():
    model, theta = make_model()
    Z = make_data()[3]
    without = evaluate(model, theta, Z, wrt_theta=False)
    assert without.grad_theta is None
    assert without.grad_Z is None
    assert evaluate(model, theta, Z).grad_Z is None


def dense_kernel(X, variance, length_scale):
    squares = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    return variance * np.exp(-0.5 * squares / length_scale**2)


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
        sparse[slack] = evaluation.bound
        assert evaluation.bound < dense
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
    np.testing.assert_allclose(evaluation.bound, dense, atol=1e-6)
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
    assert one.bound == other.bound
    np.testing.assert_array_equal(one.grad_theta, other.grad_theta)


def test_subset_counts_its_work_with_the_whole():
    model, theta = make_model()
    evaluate(model.subset(np.arange(10)), theta, make_data()[3])
    assert model.counts.evaluations == 1


def test_counts_add_up():
    counts = Counts()
    model, theta = make_model(counts=counts)
    Z = make_data()[3]
    passes = [evaluate(model, theta + d, Z).solutions[0].n_iter for d in (0.0, 0.1, -0.2)]
    assert counts.evaluations == 3
    assert counts.site_iterations == sum(passes)
    assert counts.optimizer_iterations == 0


def test_work_that_failed_is_not_counted_as_an_evaluation():
    model, theta = make_model()
    Z = np.repeat(make_data()[3][:1], 3, axis=0)
    with pytest.raises(LinAlgError):
        evaluate(model, theta, Z, jitter=1e-30)
    assert model.counts.evaluations == 0


def test_equal_points_are_factored_with_more_jitter_if_attempts_allow_it():
    model, theta = make_model()
    Z = np.repeat(make_data()[3][:1], 3, axis=0)
    evaluation = evaluate(model, theta, Z, jitter=1e-18, attempts=7)
    assert 1e-18 < evaluation.jitter <= 1e-12
    # A point that stands three times is one point.
    np.testing.assert_allclose(evaluation.bound, evaluate(model, theta, Z[:1]).bound, atol=1e-5)


def test_evaluation_carries_what_it_was_asked_for():
    model, theta = make_model()
    Z = make_data()[3]
    chosen = Chosen(Z, None, None)
    evaluation = model.evaluate(theta, chosen, model.initial_state())
    assert evaluation.chosen is chosen
    assert evaluation.bound == evaluation.solutions[0].bound
    assert evaluation.jitter == SMALLEST_JITTER
    np.testing.assert_array_equal(evaluation.theta, theta)
    variance, length_scale = np.exp(theta)
    Kuu = dense_kernel(Z, variance, length_scale) + SMALLEST_JITTER * variance * np.eye(6)
    np.testing.assert_allclose(evaluation.Luu @ evaluation.Luu.T, Kuu, rtol=1e-12)


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_sites_are_solved_to_a_share_of_the_tolerance_per_row(tol):
    model, theta = make_model(tol=tol)
    loose = model.evaluate(theta, Chosen(make_data()[3], None, None), model.initial_state())
    exact = evaluate(model, theta, make_data()[3])
    assert loose.solutions[0].converged
    assert 0.0 <= exact.bound - loose.bound < tol * make_data()[2].sum()


def test_start_of_the_sites_does_not_matter():
    model, theta = make_model()
    Z = make_data()[3]
    one = evaluate(model, theta, Z)
    start = SiteState(np.full(30, 50.0), np.linspace(-9.0, 9.0, 30))
    other = model.evaluate(theta, Chosen(Z, None, None), (start,), tol=1e-12, max_iter=1000)
    np.testing.assert_allclose(other.bound, one.bound, atol=1e-9)
    np.testing.assert_allclose(other.grad_theta, one.grad_theta, atol=1e-4)


def test_covariance_is_the_kernel_of_two_tables():
    model, theta = make_model()
    X = make_data()[0]
    K = dense_kernel(X, *np.exp(theta))
    indices = np.array([4, 0, 17])
    np.testing.assert_allclose(model.covariance(theta)(X[indices], X), K[indices], rtol=1e-12)


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
    np.testing.assert_allclose(parts[0].bound, whole.bound, rtol=1e-11)
    np.testing.assert_allclose(parts[0].grad_theta, whole.grad_theta, atol=1e-4)
    np.testing.assert_allclose(parts[0].grad_Z, whole.grad_Z, atol=1e-4)


# --------------------------------------------------------------------------------------------------
# Several outputs


def outputs(*factors, noisy=False):
    """A model with one output for each factor, and its parameters; with noise, two for each."""
    X, y, weight, _ = make_data()
    kernel, params = KERNELS["rbf"]
    free_kernel = FreeKernel(kernel, np.array(params), np.ones(2, dtype=bool))
    if not noisy:
        # Labels of several models: the sign of one column or another.
        targets = [np.where(X @ [1.0, factor] > 0.3, 1.0, -1.0) for factor in factors]
        model = SparseModel(free_kernel, PolyaGammaLogit(), X, targets, weight, slack="tight")
        return model, np.array(params)
    rows = merge_rows(X, weight)
    basis = np.stack([np.ones(len(rows.X)), rows.X[:, 0]], axis=1)
    ys = [np.sin(factor * X[:, 0]) + 0.3 * y for factor in factors]
    targets = [noisy_targets(column, weight, basis, rows) for column in ys]
    model = SparseModel(free_kernel, GaussianNoise(2), rows.X, targets, rows.weight, slack="tight")
    own = [[-1.0 - 0.1 * factor, 0.2 * factor] for factor in factors]
    return model, np.concatenate([params, *own])


@pytest.mark.parametrize("noisy", [False, True])
def test_outputs_add_up(noisy):
    """Bounds and gradients are sums over outputs; the noise of each has a part of its own."""
    Z, factors = make_data()[3], (0.5, 1.7, -2.0)
    model, theta = outputs(*factors, noisy=noisy)
    whole = evaluate(model, theta, Z, wrt_Z=True)
    parts = [evaluate(*outputs(factor, noisy=noisy), Z, wrt_Z=True) for factor in factors]
    assert len(whole.solutions) == len(whole.states) == 3
    np.testing.assert_allclose(whole.bound, sum(part.bound for part in parts), rtol=1e-12)
    for solution, part in zip(whole.solutions, parts, strict=True):
        np.testing.assert_allclose(solution.bound, part.evidence, rtol=1e-12)
    by_kernel = sum(part.grad_theta[:2] for part in parts)
    own = [part.grad_theta[2:] for part in parts]
    expected = np.concatenate([by_kernel, *own])
    np.testing.assert_allclose(whole.grad_theta, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(whole.grad_Z, sum(part.grad_Z for part in parts), rtol=1e-9)


def test_what_is_maximised_counts_the_prior_of_the_noise_and_its_slope():
    model, theta = outputs(0.5, 1.7, noisy=True)
    Z = make_data()[3]
    found = evaluate(model, theta, Z)
    # The level of each noise has no prior; the other coefficient one of precision 1 / 4.
    expected = sum(norm.logpdf(a, 0.0, 2.0) - norm.logpdf(0.0, 0.0, 2.0) for a in theta[[3, 5]])
    assert expected < -0.01
    assert found.bound - found.evidence == pytest.approx(expected, rel=1e-9)
    slope = central_difference(lambda t: evaluate(model, t, Z).bound, theta)
    np.testing.assert_allclose(found.grad_theta, slope, rtol=1e-5, atol=1e-6)


def test_an_evaluation_has_converged_if_all_outputs_have():
    model, theta = outputs(0.5, 1.7)
    Z = make_data()[3]
    done = evaluate(model, theta, Z)
    assert done.converged
    start = (done.states[0], model.initial_state()[1])
    half = model.evaluate(theta, Chosen(Z, None, None), start, tol=1e-6, max_iter=1)
    assert [solution.converged for solution in half.solutions] == [True, False]
    assert not half.converged


def test_passes_of_all_outputs_are_counted():
    model, theta = outputs(0.5, 1.7)
    solutions = evaluate(model, theta, make_data()[3]).solutions
    assert model.counts.evaluations == 1
    assert model.counts.site_iterations == sum(solution.n_iter for solution in solutions)


def test_parameters_of_the_kernel_come_before_those_of_each_output():
    model, _ = outputs(0.5, 1.7, noisy=True)
    kernel_theta, own = model.split(np.arange(6.0))
    np.testing.assert_array_equal(kernel_theta, [0.0, 1.0])
    np.testing.assert_array_equal(own, [[2.0, 3.0], [4.0, 5.0]])
    kernel_theta, own = split_theta(np.arange(2.0), model.kernel, PolyaGammaLogit(), 3)
    np.testing.assert_array_equal(kernel_theta, [0.0, 1.0])
    assert [len(part) for part in own] == [0, 0, 0]


def test_precisions_of_all_outputs_add_up():
    model, theta = outputs(0.5, 1.7, noisy=True)
    states = model.initial_state()
    basis = np.stack([np.ones(30), model.X[:, 0]], axis=1)
    expected = model.weight * (np.exp(-basis @ theta[2:4]) + np.exp(-basis @ theta[4:]))
    np.testing.assert_allclose(model.precision(theta, states), expected, rtol=1e-12)
    # Points are chosen by that sum: the first pivot of a stationary kernel is its maximum.
    chosen = model.choose(PivotedChoice("argmax", 3), theta, states)
    assert chosen.indices[0] == np.argmax(expected)
    np.testing.assert_array_equal(chosen.Z, model.X[chosen.indices])


def test_constants_of_all_outputs_add_up():
    both = outputs(0.5, 1.7)[0].constant_bound()
    assert both == sum(outputs(factor)[0].constant_bound() for factor in (0.5, 1.7))


def test_constant_bound_knows_whether_the_prior_mean_is_learned():
    model, _ = make_model(fit_prior_mean=False)
    np.testing.assert_allclose(model.constant_bound(), -np.log(2.0) * make_data()[2].sum())
    assert make_model()[0].constant_bound() > model.constant_bound()


def test_subset_takes_the_rows_of_every_output():
    model, theta = outputs(0.5, 1.7, noisy=True)
    rows = np.array([1, 5, 6, 20])
    small = model.subset(rows)
    assert len(small.targets) == 2
    for part, whole in zip(small.targets, model.targets, strict=True):
        np.testing.assert_array_equal(part, whole[rows])
    assert len(model.targets[0]) == 30
    assert np.isfinite(evaluate(small, theta, make_data()[3]).bound)


# --------------------------------------------------------------------------------------------------
# Predictions


def dense_predictions(evaluation, k, X_new):
    """Return mean and covariance of the k-th f at new rows: q(u) explicitly, then p(f|u)."""
    Z, posterior = evaluation.chosen.Z, evaluation.solutions[k].posterior
    parameters = np.exp(evaluation.theta[:2])
    rows = np.concatenate([Z, X_new])
    K = dense_kernel(rows, *parameters)
    Kuu, Kuf, Kff = K[:6, :6], K[:6, 6:], K[6:, 6:]
    L = evaluation.Luu
    q_mean = L @ posterior.w
    q_cov = L @ np.linalg.inv(posterior.LB @ posterior.LB.T) @ L.T
    projection = np.linalg.solve(Kuu, Kuf)
    cov = Kff + projection.T @ (q_cov - Kuu) @ projection
    return posterior.prior_mean + projection.T @ q_mean, cov


@pytest.mark.parametrize("rows", [{}, {"block_rows": 4}, {"block_rows": 3, "n_threads": 2}])
def test_predictions_of_several_outputs(rows):
    model, theta = outputs(0.5, 1.7, noisy=True)
    evaluation = evaluate(model, theta, make_data()[3])
    posteriors = [solution.posterior for solution in evaluation.solutions]
    X_new = np.random.RandomState(1).randn(11, 2)
    place = model.kernel, theta[:2], evaluation.chosen.Z, evaluation.Luu
    mean, variance = predict_moments(*place, posteriors, X_new, **rows)
    joint_mean, cov = predict_covariance(*place, posteriors, X_new)
    assert mean.shape == variance.shape == joint_mean.shape == (2, 11)
    assert cov.shape == (2, 11, 11)
    for k in range(2):
        expected_mean, expected_cov = dense_predictions(evaluation, k, X_new)
        np.testing.assert_allclose(mean[k], expected_mean, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(variance[k], expected_cov.diagonal(), rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(joint_mean[k], expected_mean, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(cov[k], expected_cov, rtol=1e-7, atol=1e-8)


def test_predictions_at_the_rows_are_the_marginals():
    model, theta = outputs(0.5, 1.7)
    evaluation = evaluate(model, theta, make_data()[3])
    posteriors = [solution.posterior for solution in evaluation.solutions]
    features = model.row_features(
        model.kernel, theta, evaluation.chosen.Z, jitter=SMALLEST_JITTER, attempts=1
    )
    place = model.kernel, theta, evaluation.chosen.Z, evaluation.Luu
    moments = predict_moments(*place, posteriors, model.X)
    for k, posterior in enumerate(posteriors):
        expected = marginals(features.V(0), features.residual, posterior)
        for ours, theirs in zip(moments, expected, strict=True):
            np.testing.assert_allclose(ours[k], theirs, rtol=1e-12, atol=1e-13)
    phi = whitened_features(*place, model.X, block_rows=7)
    np.testing.assert_allclose(phi, features.V(0).T, rtol=1e-12, atol=1e-13)
