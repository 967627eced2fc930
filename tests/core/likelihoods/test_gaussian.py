"""Gaussian noise against dense Gaussian processes, densities of scipy.stats and quadrature.

The oracles see every copy of a row on its own: they know no merging, no sites and no features.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from sparsegpc._core.bounds.slacks import SLACKS, SPHERICAL, STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import FreeKernel, Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.learning.fit import fit
from sparsegpc._core.learning.progress import Progress
from sparsegpc._core.learning.runs import FitSettings, StartOptions
from sparsegpc._core.likelihoods.gaussian import (
    GaussianNoise,
    KnownNoise,
    known_noise_targets,
    noisy_targets,
)
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import FixedSelector, InducingPoints
from tests.core.helpers import SLACK, central_difference, read_only

FIT_PRIOR_MEAN = pytest.mark.parametrize("fit_prior_mean", [True, False])
SEED = st.integers(0, 2**31)
VARIANCE, LENGTH_SCALE = 1.7, 0.8
THETA = np.log([VARIANCE, LENGTH_SCALE])


def make_data(seed=0, n_distinct=9, most_copies=3):
    """Rows in random order, most of them more than once, with noise and a weight for each copy."""
    rng = np.random.RandomState(seed)
    distinct = rng.randn(n_distinct, 2)
    row = np.repeat(np.arange(n_distinct), rng.randint(1, most_copies + 1, n_distinct))
    rng.shuffle(row)
    n = len(row)
    y = 3.0 + np.sin(2.0 * distinct[row, 0]) + 0.5 * rng.randn(n)
    parts = {
        "X": distinct[row],
        "y": y,
        "noise": 10.0 ** rng.uniform(-1.5, 0.5, n),
        "weight": rng.uniform(0.3, 2.5, n),
        "copies": rng.randint(1, 4, n).astype(np.float64),
    }
    return SimpleNamespace(**{name: read_only(part) for name, part in parts.items()})


def dense_kernel(A, B):
    squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2)
    return VARIANCE * np.exp(-0.5 * squares / LENGTH_SCALE**2)


def basis_of(X):
    """Return a constant, a column and a square: K = 3."""
    return np.stack([np.ones(len(X)), X[:, 0], X[:, 1] ** 2], axis=1)


def model_of(likelihood, rows, targets, slack=TIGHT, **options):
    kernel = FreeKernel(Scaled(Constant(), RBF()), THETA.copy(), np.ones(2, dtype=bool))
    return SparseModel(kernel, likelihood, rows.X, targets, rows.weight, slack=slack, **options)


def known_model(data, slack=TIGHT, weight=None, **options):
    weight = data.weight if weight is None else weight
    rows = merge_rows(data.X, weight)
    target = known_noise_targets(data.y, weight, data.noise, rows)
    return model_of(KnownNoise(), rows, [target], slack, **options)


def noisy_model(data, slack=TIGHT, weight=None, ys=None, **options):
    weight = data.weight if weight is None else weight
    rows = merge_rows(data.X, weight)
    ys = [data.y] if ys is None else ys
    targets = [noisy_targets(y, weight, basis_of(rows.X), rows) for y in ys]
    return model_of(GaussianNoise(3), rows, targets, slack, **options)


def evaluate(model, theta, Z, **options):
    return model.evaluate(theta, InducingPoints(Z), model.initial_state(), **options)


def log_powers(y, noise, weight):
    """Return what ``N(y; f, noise)^weight`` has beyond ``N(y; f, noise / weight)``, summed."""
    log_power = -0.5 * weight * np.log(2.0 * np.pi * noise)
    return (log_power + 0.5 * np.log(2.0 * np.pi * noise / weight)).sum()


def exact_evidence(X, y, noise, weight, prior_mean):
    """Return the log of the integral over f of the likelihood of all copies, each to its weight."""
    K = dense_kernel(X, X) + np.diag(noise / weight)
    mean = np.full(len(y), prior_mean)
    return multivariate_normal(mean, K).logpdf(y) + log_powers(y, noise, weight)


def best_prior_mean(X, y, noise, weight):
    """Return the generalised least-squares estimate of a constant."""
    inverse = np.linalg.inv(dense_kernel(X, X) + np.diag(noise / weight))
    return (inverse @ y).sum() / inverse.sum()


# --------------------------------------------------------------------------------------------------
# The sites are the likelihood


@given(seed=SEED, f=st.floats(-50.0, 50.0))
def test_sites_of_known_noise_are_the_likelihood_of_all_copies(seed, f):
    data = make_data(seed)
    model = known_model(data)
    p, b, log_scale = model.likelihood.sites(None, model.targets[0], model.weight)
    each = data.weight * norm.logpdf(data.y, f, np.sqrt(data.noise))
    for k, x in enumerate(model.X):
        expected = each[(x == data.X).all(axis=1)].sum()
        assert_allclose(log_scale[k] + b[k] * f - 0.5 * p[k] * f**2, expected, rtol=1e-9, atol=1e-9)


@given(seed=SEED, f=st.floats(-50.0, 50.0))
def test_sites_of_learned_noise_are_the_likelihood_of_all_copies(seed, f):
    data, params = make_data(seed), np.random.RandomState(seed).randn(3)
    model = noisy_model(data)
    likelihood = model.likelihood.at(params)
    p, b, log_scale = likelihood.sites(None, model.targets[0], model.weight)
    each = data.weight * norm.logpdf(data.y, f, np.exp(0.5 * basis_of(data.X) @ params))
    for k, x in enumerate(model.X):
        expected = each[(x == data.X).all(axis=1)].sum()
        assert_allclose(log_scale[k] + b[k] * f - 0.5 * p[k] * f**2, expected, rtol=1e-9, atol=1e-9)


@given(seed=SEED)
def test_gradient_of_the_expected_log_likelihood(seed):
    """Its value is that of scipy.stats at the mean, less half the precision times the variance."""
    data, rng = make_data(seed), np.random.RandomState(seed)
    model, params = noisy_model(data), rng.randn(3)
    mean, variance = rng.randn(len(model.X)), rng.uniform(0.0, 2.0, len(model.X))
    of_copy = [int(np.flatnonzero((x == model.X).all(axis=1))[0]) for x in data.X]

    def expected(params):
        noise = np.exp(basis_of(data.X) @ params)
        at_mean = norm.logpdf(data.y, mean[of_copy], np.sqrt(noise))
        return (data.weight * (at_mean - 0.5 * variance[of_copy] / noise)).sum()

    likelihood = model.likelihood.at(params)
    moments = mean[None], variance[None]
    ours = likelihood.params_gradient(model.targets[0], model.weight, *moments)
    theirs = central_difference(expected, params)
    assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7 * np.abs(theirs).max())


def test_values_of_the_parameters_are_a_new_likelihood():
    likelihood = GaussianNoise(2)
    one, other = likelihood.at(np.zeros(2)), likelihood.at(np.ones(2))
    y = np.array(
        [(1.0, 0.0, (1.0, 2.0))], dtype=[("mean", "f8"), ("scatter", "f8"), ("basis", "f8", 2)]
    )
    assert one.sites(None, y, np.ones(1)).precision == 1.0
    assert_allclose(other.sites(None, y, np.ones(1)).precision, np.exp(-3.0))
    assert one.n_params == other.n_params == 2


@pytest.mark.parametrize("likelihood", [KnownNoise(), GaussianNoise(2)])
def test_sites_are_fixed_and_admit_every_slack(likelihood):
    assert likelihood.has_fixed_sites
    assert sorted(likelihood.slacks) == sorted(SLACKS)
    assert likelihood.slacks[0] == "tight"
    assert likelihood.initial_states(np.zeros(4), np.ones(4)) == [None]
    assert likelihood.n_functions == 1


# --------------------------------------------------------------------------------------------------
# The exact Gaussian process


@SLACK
@FIT_PRIOR_MEAN
@pytest.mark.parametrize("seed", range(3))
def test_known_noise_with_all_rows_as_points_is_the_exact_process(slack, fit_prior_mean, seed):
    data = make_data(seed)
    model = known_model(data, slack, fit_prior_mean=fit_prior_mean)
    evaluation = evaluate(model, THETA, model.X)
    parts = data.X, data.y, data.noise, data.weight
    prior_mean = best_prior_mean(*parts) if fit_prior_mean else 0.0
    assert_allclose(evaluation.solutions[0].posterior.prior_mean, prior_mean, rtol=1e-6)
    assert_allclose(evaluation.objective, exact_evidence(*parts, prior_mean), rtol=1e-8, atol=1e-7)
    assert evaluation.converged


@SLACK
@FIT_PRIOR_MEAN
@pytest.mark.parametrize("seed", range(3))
def test_learned_noise_with_all_rows_as_points_is_the_exact_process(slack, fit_prior_mean, seed):
    data, params = make_data(seed), np.array([-1.0, 0.7, -0.3])
    model = noisy_model(data, slack, fit_prior_mean=fit_prior_mean)
    evaluation = evaluate(model, np.append(THETA, params), model.X)
    parts = data.X, data.y, np.exp(basis_of(data.X) @ params), data.weight
    prior_mean = best_prior_mean(*parts) if fit_prior_mean else 0.0
    assert_allclose(evaluation.solutions[0].posterior.prior_mean, prior_mean, rtol=1e-6)
    assert_allclose(evaluation.elbo, exact_evidence(*parts, prior_mean), rtol=1e-8, atol=1e-7)
    # Half the precision of the prior, 2 / 4, times the squares of all parameters but the first.
    assert_allclose(evaluation.objective, evaluation.elbo - 0.25 * (0.7**2 + 0.3**2), rtol=1e-12)


@given(seed=SEED, m=st.integers(1, 9), known=st.booleans())
def test_bounds_are_ordered_and_below_the_exact_evidence(seed, m, known):
    data, params = make_data(seed), np.random.RandomState(seed).randn(3)
    theta = THETA if known else np.append(THETA, params)
    noise = data.noise if known else np.exp(basis_of(data.X) @ params)
    bounds = []
    for slack in (STANDARD, SPHERICAL, TIGHT):
        build = known_model if known else noisy_model
        model = build(data, slack, fit_prior_mean=False)
        bounds.append(evaluate(model, theta, model.X[:m]).objective)
    exact = exact_evidence(data.X, data.y, noise, data.weight, 0.0)
    rounding = 1e-7 * (1.0 + abs(exact))
    assert bounds[0] <= bounds[1] + rounding
    assert bounds[1] <= bounds[2] + rounding
    assert bounds[2] <= exact + rounding


@pytest.mark.parametrize("seed", range(3))
def test_merged_copies_of_unequal_noise_are_the_sparse_model_of_the_copies(seed):
    """For the standard slack this holds for any points: Titsias' bound over all copies."""
    data = make_data(seed)
    model = known_model(data, STANDARD)
    Z = model.X[:4] + 0.05
    evaluation = evaluate(model, THETA, Z)
    Kuf = dense_kernel(Z, data.X)
    Q = Kuf.T @ np.linalg.solve(dense_kernel(Z, Z), Kuf)
    noise = data.noise / data.weight
    prior_mean = evaluation.solutions[0].posterior.prior_mean
    expected = multivariate_normal(np.full(len(data.y), prior_mean), Q + np.diag(noise)).logpdf(
        data.y
    )
    expected += log_powers(data.y, data.noise, data.weight)
    expected -= 0.5 * ((VARIANCE - Q.diagonal()) / noise).sum()
    assert_allclose(evaluation.objective, expected, rtol=1e-9, atol=1e-8)


@SLACK
@pytest.mark.parametrize("build", [known_model, noisy_model])
def test_a_weight_of_k_is_k_copies(slack, build):
    data = make_data(4)
    k = data.copies.astype(int)
    repeated = SimpleNamespace(
        X=np.repeat(data.X, k, axis=0),
        y=np.repeat(data.y, k),
        noise=np.repeat(data.noise, k),
        weight=np.ones(k.sum()),
    )
    theta = THETA if build is known_model else np.append(THETA, [-1.0, 0.4, 0.1])
    one = build(data, slack, weight=data.copies)
    other = build(repeated, slack)
    Z = one.X[:4] + 0.05
    one, other = (evaluate(model, theta, Z) for model in (one, other))
    assert_allclose(other.objective, one.objective, rtol=1e-11)
    assert_allclose(other.grad_theta, one.grad_theta, rtol=1e-8, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# Derivatives


@SLACK
@FIT_PRIOR_MEAN
def test_gradient_of_the_bound_with_noise_of_two_outputs(slack, fit_prior_mean):
    """Parameters: two of the kernel, three of the noise of each output."""
    data = make_data(5)
    ys = [data.y, np.cos(data.y) - 0.3 * data.X[:, 1]]
    model = noisy_model(data, slack, ys=ys, fit_prior_mean=fit_prior_mean)
    theta = np.concatenate([THETA, [-1.0, 0.5, 0.2], [-0.3, -0.4, 0.1]])
    Z = model.X[:4] + 0.1
    evaluation = evaluate(model, theta, Z, wrt_Z=True)
    by_theta = central_difference(lambda t: evaluate(model, t, Z).objective, theta)
    by_Z = central_difference(lambda z: evaluate(model, theta, z).objective, Z)
    assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-7, atol=1e-7)
    assert_allclose(evaluation.grad_Z, by_Z, rtol=1e-6, atol=1e-7)


@SLACK
def test_gradient_of_the_bound_with_known_noise(slack):
    data = make_data(6)
    model = known_model(data, slack)
    Z = model.X[:4] + 0.1
    evaluation = evaluate(model, THETA, Z)
    by_theta = central_difference(lambda t: evaluate(model, t, Z).objective, THETA)
    assert evaluation.grad_theta.shape == (2,)
    assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-7, atol=1e-7)


def test_noise_that_depends_on_the_row_is_learned():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1.0, 1.0, (600, 1))
    true = np.array([-2.5, 1.5])
    y = np.sin(3.0 * X[:, 0]) + np.exp(0.5 * (true[0] + true[1] * X[:, 0])) * rng.randn(600)
    rows = merge_rows(X, np.ones(600))
    basis = np.stack([np.ones(600), rows.X[:, 0]], axis=1)
    target = noisy_targets(y, np.ones(600), basis, rows)
    model = model_of(GaussianNoise(2), rows, [target])
    result = fit(
        model,
        StartOptions([np.zeros(4)]),
        FixedSelector(np.linspace(-1.0, 1.0, 10)[:, None]),
        FitSettings(np.array([[-7.0, 7.0]] * 4), 100, 0, Progress()),
    )
    assert result.converged
    # Four standard errors: sqrt(2 / 600) for the constant, sqrt(3) times that for the slope.
    assert_allclose(result.best.theta[2:], true, atol=0.4)
    assert abs(result.best.theta[2] - true[0]) < 0.24


# --------------------------------------------------------------------------------------------------
# The best constant


@given(seed=SEED, fit_prior_mean=st.booleans())
def test_constant_with_learned_noise_is_that_of_an_optimiser(seed, fit_prior_mean):
    data = make_data(seed)
    model = noisy_model(data, fit_prior_mean=fit_prior_mean)

    def negative(x):
        centre = x[1] if fit_prior_mean else 0.0
        return -(data.weight * norm.logpdf(data.y, centre, np.exp(0.5 * x[0]))).sum()

    best = minimize(negative, np.zeros(2), method="Nelder-Mead", options={"fatol": 1e-12})
    best = minimize(negative, best.x, method="Nelder-Mead", options={"fatol": 1e-12})
    assert_allclose(model.constant_bound(), -best.fun, rtol=1e-8, atol=1e-8)


@given(seed=SEED, fit_prior_mean=st.booleans())
def test_constant_with_known_noise_is_that_of_an_optimiser(seed, fit_prior_mean):
    data = make_data(seed)
    model = known_model(data, fit_prior_mean=fit_prior_mean)

    def negative(x):
        centre = x[0] if fit_prior_mean else 0.0
        return -(data.weight * norm.logpdf(data.y, centre, np.sqrt(data.noise))).sum()

    best = minimize(negative, np.zeros(1), method="Nelder-Mead", options={"fatol": 1e-12})
    assert_allclose(model.constant_bound(), -best.fun, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("build", [known_model, noisy_model])
@FIT_PRIOR_MEAN
def test_a_kernel_without_variance_gives_the_constant(build, fit_prior_mean):
    data = make_data(7)
    model = build(data, fit_prior_mean=fit_prior_mean)
    theta = np.log([1e-12, LENGTH_SCALE])
    if build is noisy_model:
        centre = np.average(data.y, weights=data.weight) if fit_prior_mean else 0.0
        variance = np.average((data.y - centre) ** 2, weights=data.weight)
        theta = np.concatenate([theta, [np.log(variance), 0.0, 0.0]])
    bound = evaluate(model, theta, model.X[:2]).objective
    assert_allclose(bound, model.constant_bound(), rtol=1e-8)


@pytest.mark.parametrize("build", [known_model, noisy_model])
@FIT_PRIOR_MEAN
def test_the_theta_of_a_constant_gives_the_constant(build, fit_prior_mean):
    model = build(make_data(8), fit_prior_mean=fit_prior_mean)
    start = np.append(THETA, np.ones(model.likelihood.n_params))
    bounds = np.tile([-20.0, 20.0], (len(start), 1))
    bounds[0] = np.log([1e-12, 1e12])
    theta = model.constant_theta(start, bounds)
    bound = evaluate(model, theta, model.X[:2]).objective
    assert_allclose(bound, model.constant_bound(), rtol=1e-6)


def test_noise_that_varies_and_is_next_to_none_at_a_row_is_refused():
    y = np.zeros(3, dtype=[("mean", float), ("scatter", float), ("basis", float, 2)])
    y["mean"], y["basis"] = [1e3, -1e3, 1e3], [[1.0, -1.0], [1.0, 0.0], [1.0, 1.0]]
    size = np.log(1e6)
    GaussianNoise(2, np.array([size - 13.0, 14.9])).sites(None, y, np.ones(3))
    with pytest.raises(LinAlgError, match="log precision"):
        GaussianNoise(2, np.array([size - 13.0, 15.1])).sites(None, y, np.ones(3))


def test_constant_targets_have_a_finite_bound():
    rows = merge_rows(np.arange(4.0)[:, None], np.ones(4))
    target = noisy_targets(np.full(4, 2.5), np.ones(4), np.ones((4, 1)), rows)
    assert np.isfinite(GaussianNoise(1).constant_bound(target, np.ones(4)))


def test_constants_of_all_outputs_add_up():
    data = make_data(8)
    ys = [data.y, data.y**2]
    both = noisy_model(data, ys=ys).constant_bound()
    assert_allclose(both, sum(noisy_model(data, ys=[y]).constant_bound() for y in ys))


# --------------------------------------------------------------------------------------------------
# Targets


@given(seed=SEED)
def test_targets_belong_to_their_rows(seed):
    """Mean and scatter by a plain loop over the distinct rows; the basis is that of the row."""
    data = make_data(seed)
    rows = merge_rows(data.X, data.weight)
    target = noisy_targets(data.y, data.weight, basis_of(rows.X), rows)
    known = known_noise_targets(data.y, data.weight, data.noise, rows)
    for k, x in enumerate(rows.X):
        of_row = (x == data.X).all(axis=1)
        y, w = data.y[of_row], data.weight[of_row]
        mean = np.average(y, weights=w)
        assert_allclose(target["mean"][k], mean, rtol=1e-12)
        assert_allclose(target["scatter"][k], np.average((y - mean) ** 2, weights=w), atol=1e-13)
        assert_array_equal(target["basis"][k], basis_of(x[None])[0])
        precision = w / data.noise[of_row]
        assert_allclose(known["precision"][k], precision.sum(), rtol=1e-12)
        assert_allclose(known["mean"][k], np.average(y, weights=precision), rtol=1e-12)


def test_scatter_of_far_targets_is_not_lost_in_rounding():
    rows = merge_rows(np.zeros((2, 1)), np.ones(2))
    target = noisy_targets(1e8 + np.array([-1e-3, 1e-3]), np.ones(2), np.ones((1, 1)), rows)
    assert_allclose(target["scatter"], 1e-6, rtol=1e-4)
