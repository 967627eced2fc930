"""Likelihoods of many classes: moments by brute quadrature, bounds by sampling, slopes by steps."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax, logsumexp, softmax
from scipy.stats import multivariate_normal

from sparsegpc._core.bounds.collapsed import marginals
from sparsegpc._core.bounds.slacks import SLACKS, STANDARD, TIGHT
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods.base import Likelihood
from sparsegpc._core.likelihoods.binary import BernoulliLogit
from sparsegpc._core.likelihoods.multiclass import DirichletTargets, LogisticSoftmax, Softmax
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import assert_slopes, central_difference, free
from tests.core.likelihoods.softmax_cases import gaussian_mean, softmax_value


def log_softmax_rows(f):
    return log_softmax(f, axis=0)


def log_logistic_softmax(f):
    return log_expit(f) - logsumexp(log_expit(f), axis=0)


def logistic_softmax_value(shares, weight, mean, variance):
    """The likelihood with S in place of the logistic function, as it is defined, in plain sums."""
    cosh = 2.0 * np.cosh(0.5 * np.sqrt(mean**2 + variance))
    log_for = 0.5 * mean - np.log(cosh)
    against = np.exp(-0.5 * mean) / cosh
    return weight * (shares @ log_for - np.log(len(mean) - against.sum()))


class Case(NamedTuple):
    """A likelihood, log p(y | f) of all classes, and what one row should contribute."""

    build: Callable
    log_likelihood: Callable
    value: Callable
    slacks: tuple

    @property
    def tightest(self):
        return SLACKS[self.slacks[0]]


CASES = [
    Case(Softmax, log_softmax_rows, softmax_value, Likelihood.slacks),
    Case(
        LogisticSoftmax,
        log_logistic_softmax,
        logistic_softmax_value,
        Likelihood.slacks,
    ),
]
LIKELIHOODS = pytest.mark.parametrize("case", CASES, ids=[case.build.__name__ for case in CASES])
PAIRS = pytest.mark.parametrize(
    ("case", "slack"),
    [(case, SLACKS[name]) for case in CASES for name in case.slacks],
    ids=[f"{case.build.__name__}-{name}" for case in CASES for name in case.slacks],
)


class Rows(NamedTuple):
    """Arguments of `expect`."""

    y: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    inducing_variance: np.ndarray
    residual: np.ndarray
    v: np.ndarray

    @property
    def variance(self):
        return self.inducing_variance + self.v * self.residual


def random_rows(seed, n_classes, n=6, *, deviation=2.0, merged=True):
    """Return rows, half of them with shares of all classes if `merged`."""
    rng = np.random.RandomState(seed)
    y = np.eye(n_classes)[rng.randint(n_classes, size=n)]
    if merged:
        y[: n // 2] = rng.dirichlet(np.ones(n_classes), n // 2)
    shape = (n_classes, n)
    return Rows(
        y,
        rng.uniform(0.2, 5.0, n),
        deviation * rng.randn(*shape),
        deviation**2 * rng.uniform(0.01, 1.0, shape),
        rng.uniform(0.0, 2.0, n),
        rng.uniform(0.2, 1.0, shape),
    )


def expect(case, rows):
    return case.build().for_classes(rows.y.shape[1]).expect(*rows)


# What a row contributes


@LIKELIHOODS
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_value_is_the_defined_one(case, n_classes):
    rows = random_rows(n_classes, n_classes)
    expected = [
        case.value(rows.y[i], rows.weight[i], rows.mean[:, i], rows.variance[:, i])
        for i in range(len(rows.y))
    ]
    assert_allclose(expect(case, rows).value, expected, rtol=1e-6, atol=1e-9)


@LIKELIHOODS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_value_never_exceeds_the_expected_log_likelihood(case, n_classes):
    for seed, deviation in enumerate([0.5, 4.0, 8.0]):
        rows = random_rows(seed, n_classes, deviation=deviation)
        value = expect(case, rows).value
        exact = [
            weight * gaussian_mean(lambda f, y=y: y @ case.log_likelihood(f), mean, variance)
            for y, weight, mean, variance in zip(
                rows.y, rows.weight, rows.mean.T, rows.variance.T, strict=True
            )
        ]
        assert (value <= np.array(exact) + 1e-6).all()
        # It is equal to it where f is all but known.
        known = rows._replace(
            inducing_variance=1e-12 + 0.0 * rows.mean, residual=0.0 * rows.residual
        )
        below = rows.weight * (rows.y * case.log_likelihood(rows.mean).T).sum(axis=1)
        gap = below - expect(case, known).value
        assert (gap >= -1e-8).all()
        assert_allclose(gap, 0.0, atol=1e-8)


def test_softmax_of_two_classes_is_the_logistic_likelihood_of_their_difference():
    rows = random_rows(0, 2, n=9)
    ours = expect(CASES[0], rows)
    one = np.ones((1, len(rows.y)))
    theirs = BernoulliLogit().expect(
        2.0 * rows.y[:, 1] - 1.0,
        rows.weight,
        rows.mean[1:] - rows.mean[:1],
        rows.variance.sum(axis=0)[None],
        0.0 * rows.residual,
        one,
    )
    assert_allclose(ours.value, theirs.value, rtol=1e-10)
    assert_allclose(ours.slope, [-theirs.slope[0], theirs.slope[0]], rtol=1e-9, atol=1e-12)
    assert_allclose(ours.precision, [theirs.precision[0]] * 2, rtol=1e-9)


@LIKELIHOODS
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_the_derivatives_are_those_of_the_value(case, n_classes):
    rows = random_rows(n_classes, n_classes)
    found = expect(case, rows)

    def total(**changes):
        return expect(case, rows._replace(**changes)).value.sum()

    slope = central_difference(lambda mean: total(mean=mean), rows.mean)
    by_variance = central_difference(lambda s: total(inducing_variance=s), rows.inducing_variance)
    assert_allclose(found.slope, slope, rtol=1e-6, atol=1e-7)
    assert_allclose(found.precision, -2.0 * by_variance, rtol=1e-6, atol=1e-7)
    # The cost of a residual is what the sum over functions loses by it.
    by_residual = central_difference(lambda k: total(residual=k), rows.residual + 0.1)
    moved = expect(case, rows._replace(residual=rows.residual + 0.1))
    assert_allclose(moved.residual_cost.sum(axis=0), -2.0 * by_residual, rtol=1e-6, atol=1e-7)
    assert_allclose(found.residual_cost, rows.v * found.precision, rtol=1e-12)
    assert (found.precision > 0.0).all()


def softmax_at(n_classes, variance, seed):
    """Return arguments of `curvature_product`, and minus the Hessian times the direction."""
    rng, n = np.random.RandomState(seed), 40
    likelihood = Softmax().for_classes(n_classes)
    y, weight = np.eye(n_classes)[rng.randint(n_classes, size=n)], rng.uniform(0.5, 3.0, n)
    mean, direction = rng.randn(n_classes, n), rng.randn(n_classes, n)
    variance = variance * rng.uniform(0.5, 1.5, mean.shape)

    def expect(step):
        moments = mean + step * direction, variance, np.zeros(n), np.ones(mean.shape)
        return likelihood.expect(y, weight, *moments)

    fall = (expect(-1e-5).slope - expect(1e-5).slope) / 2e-5
    return (y, expect(0.0).precision, direction), fall


@pytest.mark.parametrize(("n_classes", "variance"), [(2, 0.1), (2, 9.0), (3, 200.0), (6, 1e4)])
def test_the_curvature_of_one_against_each_is_exact(n_classes, variance):
    at, fall = softmax_at(n_classes, variance, 0)
    product = Softmax().for_classes(n_classes).curvature_product(*at)
    assert_allclose(product, fall, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("n_classes", [3, 6, 12])
@pytest.mark.parametrize(("variance", "least", "most"), [(1e-4, 0.95, 1.01), (0.5, 0.95, 1.4)])
def test_the_curvature_where_functions_are_well_known_is_similar(n_classes, variance, least, most):
    at, fall = softmax_at(n_classes, variance, 1)
    product = Softmax().for_classes(n_classes).curvature_product(*at)
    assert least < (at[2] * product).sum() / (at[2] * fall).sum() < most


@given(st.floats(-6.0, 4.0), st.integers(2, 20), st.integers(0, 99))
def test_the_curvature_is_positive_and_no_direction_is_missed(log_variance, n_classes, seed):
    at, fall = softmax_at(n_classes, 10.0**log_variance, seed)
    product = Softmax().for_classes(n_classes).curvature_product(*at)
    assert_allclose(product.sum(axis=0), 0.0, atol=1e-9)
    modelled, exact = (at[2] * product).sum(axis=0), (at[2] * fall).sum(axis=0)
    assert np.all(modelled >= np.maximum(0.3 * exact - 1e-6, -1e-9))


def test_the_curvature_of_softmax_is_known_at_rows_of_one_class():
    likelihood, y = Softmax().for_classes(3), np.eye(3)[[0, 2, 2, 1]]
    assert likelihood.knows_curvature(y)
    assert likelihood.knows_curvature(y * (1.0 - 1e-16))
    assert not likelihood.knows_curvature(np.vstack([y, [[0.5, 0.0, 0.5]]]))
    for other in (LogisticSoftmax().for_classes(3), BernoulliLogit()):
        assert not other.knows_curvature(y)
        with pytest.raises(NotImplementedError, match="curvature_product"):
            other.curvature_product(y, np.ones((3, 4)), np.ones((3, 4)))


@LIKELIHOODS
def test_rows_of_shares_are_the_sum_of_their_copies(case):
    rows = random_rows(3, 4)
    merged = expect(case, rows)
    parts = [
        expect(
            case, rows._replace(y=np.tile(np.eye(4)[k], (6, 1)), weight=rows.weight * rows.y[:, k])
        )
        for k in range(4)
    ]
    for name in ("value", "slope", "precision", "residual_cost"):
        total = sum(getattr(part, name) for part in parts)
        assert_allclose(getattr(merged, name), total, rtol=1e-12, atol=1e-14)


@LIKELIHOODS
def test_all_is_proportional_to_the_weight(case):
    rows = random_rows(5, 3)
    one, other = expect(case, rows), expect(case, rows._replace(weight=7.0 * rows.weight))
    for first, second in zip(one, other, strict=True):
        assert_allclose(second, 7.0 * first, rtol=1e-13)


@LIKELIHOODS
def test_permuting_the_classes_permutes_everything(case):
    rows, order = random_rows(6, 4), [2, 0, 3, 1]
    found = expect(case, rows)
    permuted = expect(
        case,
        Rows(
            rows.y[:, order],
            rows.weight,
            rows.mean[order],
            rows.inducing_variance[order],
            rows.residual,
            rows.v[order],
        ),
    )
    assert_allclose(permuted.value, found.value, rtol=1e-12)
    for name in ("slope", "precision", "residual_cost"):
        assert_allclose(getattr(permuted, name), getattr(found, name)[order], rtol=1e-10)


@LIKELIHOODS
@given(st.floats(-8.0, 4.0), st.floats(-8.0, 4.0), st.integers(2, 5), st.integers(0, 99))
def test_all_stays_finite_and_below_zero_at_extreme_moments(case, mean, variance, n, seed):
    rows = random_rows(seed, n)
    rows = rows._replace(
        mean=10.0**mean * rows.mean, inducing_variance=10.0**variance * rows.inducing_variance
    )
    found = expect(case, rows)
    assert all(np.isfinite(part).all() for part in found)
    assert (found.value <= 0.0).all()
    assert (found.precision >= 0.0).all()
    # No site is steeper than its weight times the comparisons that f takes part in.
    assert (np.abs(found.slope) <= rows.weight * (n - 1) * (1.0 + 1e-9)).all()


@LIKELIHOODS
def test_initial_states_are_the_sites_at_zero(case):
    rows = random_rows(7, 4)
    zero = np.zeros(rows.mean.shape)
    found = expect(case, rows._replace(mean=zero, inducing_variance=zero + 1e-14, residual=zero[0]))
    states = case.build().for_classes(4).initial_states(rows.y, rows.weight)
    assert_allclose([state.precision for state in states], found.precision, rtol=1e-6)
    assert_allclose([state.shift for state in states], found.slope, rtol=1e-6, atol=1e-9)


@LIKELIHOODS
def test_the_constant_bound_is_the_best_constant(case):
    rows = random_rows(8, 4)
    likelihood = case.build().for_classes(4)
    counts = rows.weight @ rows.y

    def at(f):
        return case.log_likelihood(f[:, None])[:, 0]

    best = -minimize(lambda f: -counts @ at(f), np.zeros(4)).fun
    assert_allclose(likelihood.constant_bound(rows.y, rows.weight), best, rtol=1e-7)
    even = likelihood.constant_bound(rows.y, rows.weight, fit_prior_mean=False)
    assert_allclose(even, counts @ at(np.zeros(4)), rtol=1e-12)
    absent = np.eye(3)[[0, 2, 2]]
    bound = case.build().for_classes(3).constant_bound(absent, np.ones(3))
    assert_allclose(bound, np.log(1 / 3) + 2 * np.log(2 / 3))


def test_a_likelihood_says_what_it_is():
    assert Softmax().for_classes(5).n_functions == 5
    assert LogisticSoftmax().for_classes(3).n_functions == 3
    for case in CASES:
        likelihood = case.build()
        likelihood.for_classes(7)
        assert likelihood.n_functions == 1, "a likelihood that is given is not changed"
        assert likelihood.slacks == case.slacks
        assert likelihood.takes_many_classes
        assert not likelihood.has_fixed_sites
        assert not likelihood.has_own_slack


# Targets


@LIKELIHOODS
def test_targets_are_the_shares_of_the_classes_among_copies(case):
    X = np.array([[1.0], [0.0], [1.0], [1.0], [2.0]])
    codes, weight = np.array([0, 1, 2, 2, 0]), np.array([1.0, 4.0, 2.0, 1.0, 0.5])
    rows = merge_rows(X, weight)
    (y,) = case.build().for_classes(4).targets(codes, weight, rows)
    assert_allclose(y, [[0, 1, 0, 0], [0.25, 0, 0.75, 0], [1, 0, 0, 0]])


# Probabilities


@pytest.mark.parametrize(
    ("likelihood", "link"),
    [
        (Softmax, lambda f: np.exp(f) / np.exp(f).sum(axis=0)),
        (LogisticSoftmax, lambda f: expit(f) / expit(f).sum(axis=0)),
        (DirichletTargets, lambda f: np.exp(f) / np.exp(f).sum(axis=0)),
    ],
)
def test_probabilities_are_those_of_the_link(likelihood, link):
    likelihood = likelihood().for_classes(3)
    f = 3.0 * np.random.RandomState(0).randn(3, 7)
    assert_allclose(likelihood.probabilities(f), link(f).T, rtol=1e-12)
    variance = np.random.RandomState(1).uniform(0.1, 4.0, f.shape)
    expected = [
        [gaussian_mean(lambda g, k=k: link(g)[k], m, s) for k in range(3)]
        for m, s in zip(f.T, variance.T, strict=True)
    ]
    found = np.exp(likelihood.log_probabilities(f, variance))
    assert_allclose(found, expected, atol=1e-7)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


# The model: its bound, and its gradient


def make_model(case, slack, *, n=30, n_classes=3, n_inducing=4, fit_prior_mean=True):
    """Return a model of distinct rows, its theta and inducing points.

    Labels are clear enough for the prior means to be finite.
    """
    rng = np.random.RandomState(0)
    X = 1.5 * rng.randn(n, 2)
    angle = 2.0 * np.pi * np.arange(n_classes) / n_classes
    corners = np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.eye(n_classes)[(X @ corners.T + 0.2 * rng.randn(n, n_classes)).argmax(axis=1)]
    y[:3] = rng.dirichlet(np.ones(n_classes), 3)
    weight = rng.uniform(0.4, 2.5, n)
    theta = np.array([1.5, 0.9])
    model = SparseModel(
        free(Scaled(Constant(), RBF()), theta),
        case.build().for_classes(n_classes),
        X,
        [y],
        weight,
        slack=slack,
        fit_prior_mean=fit_prior_mean,
    )
    return model, theta, X[3 : 3 + n_inducing] + 0.3 * rng.randn(n_inducing, 2)


def evaluate(model, theta, Z, states=None, **options):
    options = {"tol": 1e-12, "max_iter": 1000, **options}
    states = model.initial_state() if states is None else states
    return model.evaluate(theta, InducingPoints(Z), states, **options)


@PAIRS
def test_gradients_are_those_of_the_profile_bound(case, slack):
    fit_prior_mean = slack is not STANDARD
    model, theta, Z = make_model(case, slack, fit_prior_mean=fit_prior_mean)
    evaluation = evaluate(model, theta, Z, wrt_Z=True)
    assert evaluation.converged
    means = [solution.posterior.prior_mean for solution in evaluation.solutions]
    assert np.abs(means).max() < 10.0
    assert np.any(means) == fit_prior_mean
    states, tolerances = evaluation.states, {"rtol": 1e-5, "atol": 1e-5}
    by_theta = central_difference(lambda t: evaluate(model, t, Z, states).objective, theta)
    assert_allclose(evaluation.grad_theta, by_theta, rtol=1e-5, atol=3e-6)
    assert_slopes(
        lambda z: evaluate(model, theta, z, states).objective, Z, evaluation.grad_Z, **tolerances
    )


@LIKELIHOODS
def test_the_slacks_are_ordered_and_more_points_are_better(case):
    rows = make_model(case, STANDARD)[0].X
    values = []
    for name in ("standard", "spherical", "tight"):
        if name not in case.slacks:
            continue
        model, theta, Z = make_model(case, SLACKS[name])
        values.append(evaluate(model, theta, Z).objective)
    assert (np.diff(values) > 1e-3).all()
    model, theta, Z = make_model(case, case.tightest)
    more = evaluate(model, theta, np.concatenate([Z, rows[:8]])).objective
    full = [
        evaluate(make_model(case, SLACKS[name])[0], theta, rows).objective for name in case.slacks
    ]
    assert values[-1] < more < full[0]
    assert_allclose(full, full[0], rtol=1e-6)


@LIKELIHOODS
def test_the_posterior_is_stationary(case):
    """At the solution the sites are what the likelihood asks for at the moments that they give."""
    model, theta, Z = make_model(case, case.tightest)
    evaluation = evaluate(model, theta, Z)
    features = model.row_features(model.kernel, theta, Z, jitter=1e-9)
    V = features.V(0)
    posteriors = [solution.posterior for solution in evaluation.solutions]
    moments = [marginals(V, 0.0, posterior) for posterior in posteriors]
    mean, inducing_variance = (np.array(parts) for parts in zip(*moments, strict=True))
    v = np.stack(
        [
            1.0 / (1.0 + cost)
            if case.tightest is TIGHT
            else np.full(len(cost), 1.0 / (1.0 + cost.mean()))
            for cost in (s.sites.precision * features.residual for s in evaluation.solutions)
        ]
    )
    found = model.likelihood.expect(
        model.targets[0], model.weight, mean, inducing_variance, features.residual, v
    )
    precision = np.stack([solution.sites.precision for solution in evaluation.solutions])
    assert_allclose(found.precision, precision, rtol=1e-4)
    # The mean is the maximum: V slope = w, and the slopes sum to zero for a learned prior mean.
    for slope, posterior in zip(found.slope, posteriors, strict=True):
        assert_allclose(V @ slope, posterior.w, atol=1e-5)
        assert abs(slope.sum()) < 1e-5
    divergence = sum(
        0.5
        * (
            np.sum(B_inverse := np.linalg.inv(p.LB @ p.LB.T), where=np.eye(len(p.w)) > 0)
            + p.w @ p.w
            - len(p.w)
            - np.linalg.slogdet(B_inverse)[1]
        )
        for p in posteriors
    )
    bound = found.value.sum() - divergence - 0.5 * (v - np.log(v) - 1.0).sum()
    assert_allclose(evaluation.objective, bound, atol=1e-5)


@LIKELIHOODS
@pytest.mark.parametrize("n_inducing", [2, 5])
def test_the_bound_is_below_the_log_marginal_likelihood(case, n_inducing, rng):
    n, n_classes = 5, 3
    X, codes = rng.randn(n, 1), np.array([0, 1, 2, 1, 1])
    weight, theta = np.ones(n), np.array([1.5, 0.0])
    kernel = free(Scaled(Constant(), RBF()), theta)
    model = SparseModel(
        kernel,
        case.build().for_classes(n_classes),
        X,
        [np.eye(n_classes)[codes]],
        weight,
        slack=case.tightest,
        fit_prior_mean=False,
    )
    bound = evaluate(model, theta, X[:n_inducing]).objective
    root = np.linalg.cholesky(kernel.value(theta, X, X) + 1e-9 * np.eye(n))
    # By prior draws of all functions, in pairs of opposite signs; the error is measured.
    draws = rng.randn(40_000, n_classes, n) @ root.T
    draws = np.concatenate([draws, -draws])
    log_p = np.moveaxis(case.log_likelihood(np.moveaxis(draws, 1, 0)), 0, -1)
    joint = np.exp(np.take_along_axis(log_p, codes[None, :, None], axis=2)[..., 0].sum(axis=1))
    marginal, error = joint.mean(), joint.std() / np.sqrt(len(joint))
    assert error < 0.03 * marginal
    assert bound < np.log(marginal + 4.0 * error)
    if n_inducing == n:
        assert bound > np.log(marginal) - 2.0


def test_softmax_of_two_classes_is_the_binary_model_of_twice_the_variance():
    model, theta, _ = make_model(CASES[0], STANDARD, n_classes=2)
    twice = theta + np.array([np.log(2.0), 0.0])
    binary = SparseModel(
        model.kernel,
        BernoulliLogit(),
        model.X,
        [2.0 * model.targets[0][:, 1] - 1.0],
        model.weight,
        slack=STANDARD,
    )
    ours = evaluate(model, theta, model.X)
    theirs = evaluate(binary, twice, model.X)
    means = [result.posterior.moments(model.X)[0] for result in (ours, theirs)]
    # The sum of the functions is independent of their difference a priori, but here each function
    # is independent of the other a posteriori: a little is lost.
    assert theirs.objective - 5.0 < ours.objective < theirs.objective
    assert_allclose(means[0][1] - means[0][0], means[1][0], rtol=0.15, atol=0.05)


# Regression on transformed labels


def milios(codes, n_classes, epsilon):
    """Targets and noise variances of Milios et al. 2018, section 4, loop by loop."""
    targets, noise = np.empty((2, n_classes, len(codes)))
    for i, code in enumerate(codes):
        for k in range(n_classes):
            alpha = epsilon + (1.0 if k == code else 0.0)
            noise[k, i] = np.log(1.0 / alpha + 1.0)
            targets[k, i] = np.log(alpha) - noise[k, i] / 2.0
    return targets, noise


@pytest.mark.parametrize("epsilon", [0.01, 0.3])
def test_dirichlet_sites_are_the_published_ones(epsilon, rng):
    codes, weight = rng.randint(4, size=12), rng.uniform(0.5, 3.0, 12)
    X = np.arange(12.0)[:, None]
    likelihood = DirichletTargets(epsilon).for_classes(4)
    outputs = likelihood.targets(codes, weight, merge_rows(X, weight))
    targets, noise = milios(codes, 4, epsilon)
    assert len(outputs) == 4
    for y, target, variance in zip(outputs, targets, noise, strict=True):
        sites = likelihood.sites(None, y, weight)
        assert_allclose(sites.precision, weight / variance)
        assert_allclose(sites.shift, weight * target / variance)
        log_scale = -0.5 * weight * (np.log(2.0 * np.pi * variance) + target**2 / variance)
        assert_allclose(sites.log_scale, log_scale)


def test_dirichlet_sites_of_copies_multiply(rng):
    X, codes = np.zeros((4, 1)), np.array([0, 1, 1, 2])
    weight = np.array([1.0, 2.0, 0.5, 3.0])
    likelihood = DirichletTargets().for_classes(3)
    outputs = likelihood.targets(codes, weight, merge_rows(X, weight))
    targets, noise = milios(codes, 3, 0.01)
    f = np.linspace(-6.0, 3.0, 7)
    for y, target, variance in zip(outputs, targets, noise, strict=True):
        sites = likelihood.sites(None, y, weight.sum(keepdims=True))
        found = sites.shift * f - 0.5 * sites.precision * f**2 + sites.log_scale
        each = -0.5 * np.log(2 * np.pi * variance) - (f[:, None] - target) ** 2 / (2 * variance)
        assert_allclose(found, each @ weight, rtol=1e-10)


def test_dirichlet_with_all_rows_inducing_is_exact_regression(rng):
    X, codes = rng.randn(30, 2), rng.randint(3, size=30)
    weight, theta = np.ones(30), np.array([1.2, -0.2])
    rows = merge_rows(X, weight)
    likelihood = DirichletTargets().for_classes(3)
    kernel = free(Scaled(Constant(), RBF()), theta)
    targets = likelihood.targets(codes, weight, rows)
    model = SparseModel(
        kernel, likelihood, rows.X, targets, rows.weight, slack=TIGHT, fit_prior_mean=False
    )
    evaluation = evaluate(model, theta, rows.X)
    X_new = rng.randn(9, 2)
    found = evaluation.posterior.moments(X_new)
    K, K_new = kernel.value(theta, X, X), kernel.value(theta, X_new, X)
    total = 0.0
    for k, (y, noise) in enumerate(zip(*milios(codes, 3, 0.01), strict=True)):
        covariance = K + np.diag(noise)
        total += multivariate_normal(np.zeros(30), covariance).logpdf(y)
        assert_allclose(found[0][k], K_new @ np.linalg.solve(covariance, y), atol=1e-6)
        reduction = (K_new * np.linalg.solve(covariance, K_new.T).T).sum(axis=1)
        assert_allclose(found[1][k], np.exp(1.2) - reduction, atol=1e-6)
    assert_allclose(evaluation.objective, total, atol=1e-5)


def test_dirichlet_probabilities_follow_the_labels():
    likelihood = DirichletTargets(0.02).for_classes(3)
    targets, noise = milios(np.array([1]), 3, 0.02)
    proba = np.exp(likelihood.log_probabilities(targets, noise))[0]
    assert proba[1] > 0.9
    assert_allclose(proba[0], proba[2], rtol=1e-10)
    assert_array_equal(softmax(targets, axis=0).argmax(axis=0), [1])


def test_the_concentration_belongs_to_the_likelihood_given():
    given_ = DirichletTargets(0.25)
    assert given_.for_classes(4).concentration == 0.25
    assert not hasattr(given_, "_n_classes"), "a likelihood that is given is not changed"
