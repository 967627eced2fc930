"""Ordered classes: what `test_numbers` does not ask, as it tests any likelihood of numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.stats import norm

from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.binary import BernoulliLogit
from sparsegpc._core.likelihoods.ordinal import GAP_LIMITS, OrdinalLogit
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import central_difference, free, read_only
from tests.core.likelihoods.binary_cases import gaussian_mean
from tests.core.likelihoods.ordered_classes import edges, log_probability, probabilities

PARAMS = read_only(np.array([0.4, -1.0, 1.2]))
THETA = np.log([1.5, 0.8])


def likelihood_of(params):
    return OrdinalLogit().for_classes(len(params) + 2).at(np.asarray(params))


def random_rows(seed, n_classes, n=9):
    """Return shares, of several classes in some rows, and weights."""
    rng = np.random.RandomState(seed)
    y = np.eye(n_classes)[rng.randint(n_classes, size=n)]
    y[: n // 2] = rng.dirichlet(np.ones(n_classes), n // 2)
    return read_only(y), read_only(rng.uniform(0.2, 4.0, n))


def random_moments(seed, n=9, deviation=1.0):
    rng = np.random.RandomState(seed)
    mean, variance = 2.0 * rng.randn(1, n), deviation**2 * rng.uniform(0.1, 1.0, (1, n))
    return read_only(mean), read_only(variance), read_only(np.zeros(n)), read_only(np.ones((1, n)))


def model_of(likelihood, codes, X, weight, slack="tight", **options):
    rows = merge_rows(X, weight)
    targets = likelihood.targets(codes, weight, rows)
    kernel = free(Scaled(Constant(), RBF()), THETA)
    options = {"slack": SLACKS[slack], **options}
    return SparseModel(kernel, likelihood, rows.X, targets, rows.weight, **options)


def evaluate(model, theta, Z):
    points = InducingPoints(Z)
    return model.evaluate(theta, points, model.initial_state(), tol=1e-12, max_iter=1000)


# Expectations


@pytest.mark.parametrize("deviation", [0.1, 1.0, 30.0])
def test_expectations_are_those_of_the_textbook(deviation):
    y, weight = random_rows(0, 5)
    mean, variance, *rest = random_moments(0, deviation=deviation)
    found = likelihood_of(PARAMS).expect(y, weight, mean, variance, *rest)

    def value(mean):
        parts = [
            gaussian_mean(lambda f, k=k: log_probability(k, f, PARAMS), mean[0], variance[0])
            for k in range(5)
        ]
        return weight * (y * np.transpose(parts)).sum(axis=1)

    assert_allclose(found.value, value(mean), rtol=1e-12, atol=1e-12)
    slope = central_difference(lambda m: value(m).sum(), mean, 1e-2)
    assert_allclose(found.slope, slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_two_classes_are_those_of_the_bernoulli_likelihood(seed):
    y, weight = random_rows(seed, 2)
    moments = random_moments(seed, deviation=3.0)
    ours = OrdinalLogit().for_classes(2).expect(y, weight, *moments)
    theirs = BernoulliLogit().expect(y[:, 1] - y[:, 0], weight, *moments)
    for one, other in zip(ours, theirs, strict=True):
        assert_allclose(one, other, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("slack", OrdinalLogit.slacks)
def test_a_model_of_two_classes_is_that_of_the_bernoulli_likelihood(slack, rng):
    X, codes = rng.randn(30, 2), rng.randint(2, size=30)
    weight = rng.uniform(0.5, 2.0, 30)
    ours, theirs = (
        evaluate(model_of(likelihood.for_classes(2), codes, X, weight, slack), THETA, X[:6])
        for likelihood in (OrdinalLogit(), BernoulliLogit())
    )
    assert_allclose(ours.objective, theirs.objective, rtol=1e-10)
    assert_allclose(ours.grad_theta, theirs.grad_theta, rtol=1e-5, atol=1e-6)


def test_reversing_the_order_mirrors_everything():
    y, weight = random_rows(1, 5)
    mean, *rest = random_moments(1)
    cuts = likelihood_of(PARAMS).cut_points
    ours = likelihood_of(PARAMS).expect(y, weight, mean, *rest)
    theirs = likelihood_of(PARAMS[::-1]).expect(y[:, ::-1], weight, cuts[-1] - mean, *rest)
    assert_allclose(ours.value, theirs.value, rtol=1e-13)
    assert_allclose(ours.slope, -theirs.slope, rtol=1e-12)
    assert_allclose(ours.precision, theirs.precision, rtol=1e-12)


@given(
    st.floats(-1e3, 1e3),
    st.floats(-9.0, 6.0),
    st.lists(st.floats(-12.0, 8.0), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_all_stays_finite_at_extreme_moments(mean, log_variance, params, seed):
    n_classes = len(params) + 2
    y, weight = random_rows(seed, n_classes)
    moments = np.full((1, 9), mean), np.full((1, 9), 10.0**log_variance), np.zeros(9)
    found = likelihood_of(params).expect(y, weight, *moments, np.ones((1, 9)))
    assert all(np.isfinite(part).all() for part in found)
    assert (found.value <= 0.0).all()
    assert (found.precision >= 0.0).all()
    assert (np.abs(found.slope) <= weight * (1.0 + 1e-9)).all()
    gradient = likelihood_of(params).params_gradient(y, weight, *moments[:2])
    assert np.isfinite(gradient).all()


# Probabilities


@pytest.mark.parametrize("deviation", [1e-6, 0.3, 1.0, 7.0, 1e3])
@pytest.mark.parametrize("mean", [-30.0, -1.0, 0.0, 0.7, 2.5, 40.0])
def test_probabilities_are_integrals(mean, deviation):
    mean, variance = np.array([[mean]]), np.array([[deviation**2]])
    found = likelihood_of(PARAMS).log_probabilities(mean, variance)
    expected = [
        gaussian_mean(lambda f, k=k: np.exp(log_probability(k, f, PARAMS)), mean[0], variance[0])
        for k in range(5)
    ]
    assert_allclose(np.exp(found[0]), np.ravel(expected), rtol=1e-8)
    assert_allclose(np.exp(found).sum(), 1.0, rtol=1e-14)


def test_probabilities_at_given_f_are_differences():
    f = np.linspace(-6.0, 8.0, 41)
    likelihood = likelihood_of(PARAMS)
    assert_allclose(likelihood.probabilities(f[None]), probabilities(f, PARAMS), atol=1e-15)
    cuts = likelihood.cut_points
    assert_allclose(cuts, edges(PARAMS)[1:-1], rtol=1e-15)
    at_cuts = likelihood.probabilities(cuts[None])
    assert_allclose(at_cuts, probabilities(cuts, PARAMS), atol=1e-15)


@given(
    st.floats(-1e3, 1e3),
    st.floats(-12.0, 6.0),
    st.lists(st.floats(-30.0, 8.0), min_size=0, max_size=4),
)
def test_probabilities_are_positive_and_sum_to_one(mean, log_variance, params):
    likelihood = likelihood_of(params)
    mean, variance = np.full((1, 1), mean), np.full((1, 1), 10.0**log_variance)
    log_proba = likelihood.log_probabilities(mean, variance)
    assert np.isfinite(log_proba).all()
    assert (log_proba <= 0.0).all()
    assert_allclose(np.exp(log_proba).sum(), 1.0, rtol=1e-13)
    # In the cumulative sense they fall as f rises.
    higher = likelihood.log_probabilities(mean + 0.5, variance)
    below, below_higher = (np.cumsum(np.exp(part))[:-1] for part in (log_proba, higher))
    assert (below_higher <= below + 1e-9).all()
    assert (likelihood.probabilities(mean) >= 0.0).all()
    assert_allclose(likelihood.probabilities(mean).sum(), 1.0, rtol=1e-13)


def test_tails_keep_their_logarithms():
    """Far below its edges a class has the probability of an exponential."""
    likelihood = likelihood_of([0.0])
    mean, variance = np.array([[-900.0]]), np.array([[1.0]])
    found = likelihood.log_probabilities(mean, variance)[0]
    # E[sigma(f - b)] = exp(mean - b + variance / 2) there.
    at_least = [-900.0 + 0.5 - b for b in (0.0, 1.0)]
    assert_allclose(found[2], at_least[1], rtol=1e-12)
    assert_allclose(found[1], at_least[0] + np.log1p(-np.exp(-1.0)), rtol=1e-12)
    assert_allclose(found[0], 0.0, atol=1e-300)


# Parameters


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_at_the_start_a_constant_f_has_the_frequencies_of_the_classes(n_classes):
    y, weight = random_rows(2, n_classes)
    likelihood = OrdinalLogit().for_classes(n_classes)
    likelihood = likelihood.at(likelihood.initial_params(y, weight))
    (f,) = likelihood._best_constants(y, weight)
    counts = weight @ y
    assert_allclose(
        likelihood.probabilities(np.array([[f]]))[0], counts / counts.sum(), atol=0.5 / counts.sum()
    )
    assert likelihood.n_params == len(likelihood.params_names()) == n_classes - 2
    assert likelihood.initial_params(y, 1e6 * weight) == pytest.approx(
        likelihood.constant_params(y, weight), abs=1e-4
    )


@pytest.mark.parametrize("missing", [[0], [2], [4], [0, 1], [1, 3, 4]])
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_classes_without_rows_break_nothing(missing, fit_prior_mean):
    codes = np.setdiff1d(np.arange(5), missing)
    y, weight = np.eye(5)[np.repeat(codes, 3)], np.ones(3 * len(codes))
    likelihood = OrdinalLogit().for_classes(5)
    start = likelihood.initial_params(y, weight)
    bounds = likelihood.params_bounds(y, weight)
    assert np.isfinite(start).all()
    assert_allclose(np.exp(bounds.T - start), np.repeat([GAP_LIMITS], 3, axis=0).T)
    params = likelihood.constant_params(y, weight, fit_prior_mean)
    assert np.isfinite(params).all()
    found = likelihood.at(params).constant_bound(y, weight, fit_prior_mean)
    shares = np.full(len(codes), 1.0 / len(codes))
    if not fit_prior_mean:
        # At f = 0 the first class has the probability one half.
        shares = np.where(codes == 0, 0.5, 0.5 / (codes > 0).sum())
    assert_allclose(found, 3.0 * np.log(shares).sum(), rtol=1e-6)
    (state,) = likelihood.at(start).initial_states(y, weight)
    assert np.isfinite(state.shift).all()
    assert (state.precision > 0.0).all()


def test_a_likelihood_that_is_given_is_not_changed():
    likelihood = OrdinalLogit()
    four = likelihood.for_classes(4)
    five = four.at(np.zeros(3))
    assert (likelihood.n_params, four.n_params, five.n_params) == (0, 2, 3)
    assert_array_equal(likelihood.cut_points, [0.0])
    assert_array_equal(four.cut_points, [0.0, 1.0, 2.0])


# Targets


def test_targets_are_the_shares_of_the_classes_among_copies():
    X = np.array([[1.0], [0.0], [1.0], [1.0], [2.0]])
    codes, weight = np.array([0, 1, 2, 2, 0]), np.array([1.0, 4.0, 2.0, 1.0, 0.5])
    (y,) = OrdinalLogit().for_classes(3).targets(codes, weight, merge_rows(X, weight))
    assert_allclose(y, [[0, 1, 0], [0.25, 0, 0.75], [1, 0, 0]])


# A point at every row


@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_with_all_points_it_is_the_best_gaussian_posterior(fit_prior_mean):
    """That over means and Cholesky factors of the covariance of f, found by brute force."""
    rng = np.random.RandomState(4)
    n, params, weight = 4, np.array([0.3, 0.1]), np.array([1.0, 2.0, 0.7, 1.3])
    X, codes = np.sort(rng.randn(n, 1), axis=0), np.array([0, 2, 1, 3])
    likelihood = likelihood_of(params)
    model = model_of(likelihood, codes, X, weight, fit_prior_mean=fit_prior_mean)
    found = evaluate(model, np.append(THETA, params), X)
    K = model.kernel.value(THETA, X, X) + 1e-10 * np.eye(n)
    inverse, rows = np.linalg.inv(K), np.tril_indices(n)
    z = np.linspace(-9.0, 9.0, 73)
    density = norm.pdf(z) / norm.pdf(z).sum()

    def negative_bound(parameters):
        mean, prior_mean = parameters[:n], parameters[n] * fit_prior_mean
        root = np.zeros((n, n))
        root[rows] = parameters[n + 1 :]
        covariance = root @ root.T
        f = mean[:, None] + np.sqrt(np.diag(covariance))[:, None] * z
        fit = sum(
            w * density @ log_probability(k, values, params)
            for w, k, values in zip(weight, codes, f, strict=True)
        )
        error = mean - prior_mean
        logdets = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(K)[1]
        return -fit + 0.5 * (np.trace(inverse @ covariance) + error @ inverse @ error - n - logdets)

    start = np.concatenate([np.zeros(n + 1), 0.7 * np.linalg.cholesky(K)[rows]])
    best = minimize(negative_bound, start, method="BFGS", options={"gtol": 1e-6}).x
    assert_allclose(found.objective, -negative_bound(best), rtol=1e-7)
    # At the prior mean that is best, as if it were known.
    known = found.posterior.functions[0].at_prior_mean()
    mean, variance = found.posterior._replace(functions=(known,)).moments(X)
    assert_allclose(mean[0], best[:n], atol=1e-4)
    root = np.zeros((n, n))
    root[rows] = best[n + 1 :]
    assert_allclose(variance[0], np.diag(root @ root.T), atol=1e-4)


def test_more_rows_recover_the_cut_points():
    rng = np.random.RandomState(0)
    X = rng.uniform(-3.0, 3.0, (4000, 1))
    f = 3.0 * np.sin(X[:, 0]) + 1.0
    codes = (
        np.cumsum(np.append(0.0, np.exp(PARAMS))) < (f + rng.logistic(size=4000))[:, None]
    ).sum(axis=1)
    likelihood = OrdinalLogit().for_classes(5)
    model = model_of(likelihood, codes, X, np.ones(4000))
    Z = np.linspace(-3.0, 3.0, 9)[:, None]
    theta = np.concatenate(
        [np.log([9.0, 1.5]), model.likelihood.initial_params(model.targets[0], model.weight)]
    )

    def negative(params):
        found = evaluate(model, np.append(theta[:2], params), Z)
        return -found.objective, -found.grad_theta[2:]

    best = minimize(negative, theta[2:], jac=True, method="BFGS", options={"gtol": 0.1}).x
    assert_allclose(best, PARAMS, atol=0.15)
    assert (np.abs(theta[2:] - PARAMS) > 0.15).any()
