"""What a likelihood has without saying so, against densities of scipy.stats and optimisers.

The likelihoods here define no more than they must, and their log likelihoods are those of scipy.
"""

import inspect
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import norm, poisson

from sparsegpc._core.bounds.slacks import SLACKS, SPHERICAL
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods import binary, gaussian, multiclass
from sparsegpc._core.likelihoods.base import (
    Expectation,
    LabelLikelihood,
    Likelihood,
    Sites,
    SiteState,
    joint_log_prior,
    joint_params_gradient,
    polya_gamma_mean,
)
from sparsegpc._core.likelihoods.constants import LARGEST_CONSTANT
from sparsegpc._core.likelihoods.counts import NegativeBinomial, Poisson
from sparsegpc._core.likelihoods.gaussian import GaussianNoise, KnownNoise
from sparsegpc._core.likelihoods.multiclass import DirichletTargets, Softmax
from sparsegpc._core.likelihoods.ordinal import OrdinalLogit
from sparsegpc._core.likelihoods.positive import Gamma, Weibull
from sparsegpc._core.likelihoods.student_t import StudentT
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import SLACK, assert_slopes, central_difference, free, read_only

SEED = st.integers(0, 2**31)


class Bare(Likelihood):
    """Defines nothing."""


class BareLabels(LabelLikelihood):
    """Defines nothing."""


class BareFixed(Likelihood):
    """Says that its sites are fixed, and not what they are."""

    has_fixed_sites = True


def limited_exp(log_rate):
    """Return rates that are finite wherever a search looks."""
    return np.exp(np.minimum(log_rate, 600.0))


class Counts(Likelihood):
    """Counts with the rate exp(f)."""

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        rate = weight * limited_exp(mean[0] + 0.5 * (inducing_variance[0] + v[0] * residual))
        value = weight * (y * mean[0] - gammaln(y + 1.0)) - rate
        return Expectation(value, (weight * y - rate)[None], rate[None], v * rate)

    @staticmethod
    def log_likelihood(y, f):
        return poisson(np.exp(f[0])).logpmf(y)


PAIR = [("first", float), ("second", float)]


class Pairs(Likelihood):
    """Two counts for each row, with rates exp(f_1) and exp(a + f_1 + f_2); a is learned."""

    n_functions = 2
    n_params = 1

    def __init__(self, a=0.0):
        self.a = a

    def at(self, params):
        return Pairs(params[0])

    def _rates(self, weight, mean, variance):
        f = mean + 0.5 * variance
        return weight * limited_exp(f[0]), weight * limited_exp(self.a + f.sum(axis=0))

    def expect(self, y, weight, mean, inducing_variance, residual, v):
        first, second = self._rates(weight, mean, inducing_variance + v * residual)
        wanted = weight * y["first"], weight * y["second"]
        value = wanted[0] * mean[0] + wanted[1] * (self.a + mean.sum(axis=0)) - first - second
        value -= weight * (gammaln(y["first"] + 1.0) + gammaln(y["second"] + 1.0))
        slope = np.stack([wanted[0] + wanted[1] - first - second, wanted[1] - second])
        precision = np.stack([first + second, second])
        return Expectation(value, slope, precision, v * precision)

    def params_gradient(self, y, weight, mean, variance):
        return np.array([(weight * y["second"] - self._rates(weight, mean, variance)[1]).sum()])

    def log_likelihood(self, y, f):
        first = poisson(np.exp(f[0])).logpmf(y["first"])
        return first + poisson(np.exp(self.a + f[0] + f[1])).logpmf(y["second"])


class Normal(Likelihood):
    """Numbers around f with a known deviation: fixed sites, and nothing else."""

    has_fixed_sites = True
    deviation = 0.7

    def sites(self, state, y, weight):
        p = weight / self.deviation**2
        log_scale = -weight * (0.5 * np.log(2.0 * np.pi) + np.log(self.deviation)) - 0.5 * p * y**2
        return Sites(p, p * y, log_scale)


def some_counts(seed, n=7, largest=9):
    rng = np.random.RandomState(seed)
    return rng.randint(largest + 1, size=n).astype(float), rng.uniform(0.1, 3.0, n)


def some_pairs(seed, n=7, largest=9):
    (first, weight), (second, _) = (some_counts(seed + k, n, largest) for k in (0, 1))
    y = np.empty(n, dtype=PAIR)
    y["first"], y["second"] = first, second
    return y, weight


OWN = pytest.mark.parametrize(
    ("likelihood", "make_rows"),
    [(Counts(), some_counts), (Pairs(), some_pairs), (Pairs(-0.6), some_pairs)],
    ids=["one function", "two functions", "two functions, at a parameter"],
)


def log_likelihood_of_constants(likelihood, y, weight, constants):
    """Return the log likelihood of all rows where each f is a constant."""
    f = np.repeat(np.asarray(constants, dtype=float)[:, None], len(weight), axis=1)
    return float(weight @ likelihood.log_likelihood(y, f))


# --------------------------------------------------------------------------------------------------
# What is missing is named


ROW = np.zeros(1), np.ones(1)
MOMENTS = np.zeros((1, 1)), np.ones((1, 1))


@pytest.mark.parametrize(
    ("likelihood", "method", "call"),
    [
        (Bare(), "targets", lambda x: x.targets(*ROW, None)),
        (Bare(), "expect", lambda x: x.expect(*ROW, *MOMENTS, np.ones(1), np.ones((1, 1)))),
        (Bare(), "expect", lambda x: x.initial_states(*ROW)),
        (Bare(), "expect", lambda x: x.constant_bound(*ROW)),
        (Bare(), "expect", lambda x: x.constant_bound(*ROW, fit_prior_mean=False)),
        (Bare(), "params_gradient", lambda x: x.params_gradient(*ROW, *MOMENTS)),
        (BareFixed(), "targets", lambda x: x.targets(*ROW, None)),
        (BareFixed(), "sites", lambda x: x.sites(None, *ROW)),
        (BareFixed(), "sites", lambda x: x.constant_bound(*ROW)),
        (BareLabels(), "targets", lambda x: x.targets(*ROW, None)),
        (BareLabels(), "log_probabilities", lambda x: x.log_probabilities(*MOMENTS)),
        (BareLabels(), "probabilities", lambda x: x.probabilities(MOMENTS[0])),
    ],
)
def test_a_method_that_is_missing_is_named(likelihood, method, call):
    name = type(likelihood).__name__
    message = rf"^likelihood {name}\(\) must define the method {method}: .*BernoulliLogit\(\)$"
    with pytest.raises(NotImplementedError, match=message):
        call(likelihood)


def test_the_likelihood_is_called_as_it_shows_itself():
    class Shown(Bare):
        def __repr__(self):
            return "Shown(width=3)"

    with pytest.raises(NotImplementedError, match=re.escape("likelihood Shown(width=3) must")):
        Shown().targets(*ROW, None)


@pytest.mark.parametrize(
    ("likelihood", "shown"),
    [
        (Poisson(), "Poisson()"),
        (NegativeBinomial(), "NegativeBinomial()"),
        (NegativeBinomial(2.0).at([1.23456]), "NegativeBinomial(log_size=1.23)"),
        (Weibull(-0.5), "Weibull(log_shape=-0.5)"),
        (StudentT().at(np.log([4.0, 2.0])), "StudentT(df=4)"),
    ],
)
def test_it_shows_what_it_has_learned(likelihood, shown):
    assert repr(likelihood) == shown


def test_arguments_that_are_kept_nowhere_are_not_shown():
    class Own(Bare):
        def __init__(self, width, *names, depth=3):
            self.depth = 2 * depth

    assert repr(Own(1, "a")) == "Own(depth=6)"


# --------------------------------------------------------------------------------------------------
# What need not be said


def test_attributes_have_defaults():
    likelihood = Bare()
    assert likelihood.slacks == tuple(SLACKS)
    assert (likelihood.n_functions, likelihood.n_params) == (1, 0)
    assert not likelihood.has_fixed_sites
    assert not likelihood.has_own_slack
    assert likelihood.has_prior_mean


def test_every_attribute_that_is_documented_has_a_default():
    for cls in (Likelihood, LabelLikelihood):
        listed = re.findall(r"^(\w+) : ", inspect.getdoc(cls).split("See Also")[0], re.MULTILINE)
        assert listed
        assert all(hasattr(cls, name) for name in listed), listed


def test_without_parameters_there_is_nothing_to_learn():
    likelihood, (y, weight) = Bare(), some_counts(0)
    assert likelihood.at(np.empty(0)) is likelihood
    for found in (likelihood.initial_params(y, weight), likelihood.constant_params(y, weight)):
        assert found.shape == (0,)
    assert likelihood.params_bounds(y, weight).shape == (0, 2)
    assert likelihood.params_names() == []
    value, slope = likelihood.log_prior()
    assert (value, slope.shape) == (0.0, (0,))


def test_parameters_start_at_zero_without_limits_or_prior():
    class Three(Bare):
        n_params = 3

    likelihood, (y, weight) = Three(), some_counts(0)
    assert_array_equal(likelihood.initial_params(y, weight), np.zeros(3))
    assert_array_equal(likelihood.params_bounds(y, weight), [[-np.inf, np.inf]] * 3)
    assert_array_equal(likelihood.constant_params(y, weight), np.zeros(3))
    names = likelihood.params_names()
    assert len(set(names)) == 3
    assert all(isinstance(name, str) for name in names)
    value, slope = likelihood.log_prior()
    assert value == 0.0
    assert_array_equal(slope, np.zeros(3))


def test_parameters_of_a_constant_are_those_at_the_start():
    class Started(Bare):
        n_params = 2

        def initial_params(self, y, weight):
            return np.array([weight.sum(), y.max()])

    y, weight = some_counts(1)
    found = Started().constant_params(y, weight, fit_prior_mean=False)
    assert_array_equal(found, [weight.sum(), y.max()])


def test_labels_may_be_left_to_two_classes():
    likelihood = BareLabels()
    assert likelihood.for_classes(2) is likelihood
    assert not likelihood.takes_many_classes


def classes_of_the_package():
    found = [
        cls
        for module in (binary, gaussian, multiclass)
        for cls in vars(module).values()
        if isinstance(cls, type)
        and issubclass(cls, Likelihood)
        and cls.__module__ == module.__name__
    ]
    return [cls for cls in found if not cls.__name__.startswith("_")]


@pytest.mark.parametrize("cls", [Likelihood, LabelLikelihood, *classes_of_the_package()])
def test_slacks_are_public_names_the_tightest_first(cls):
    order = list(SLACKS)
    places = [order.index(name) for name in cls.slacks]
    assert places
    assert places == sorted(set(places))


@pytest.mark.parametrize("n_params", [1, 4])
@given(seed=SEED)
def test_a_log_prior_does_not_exceed_zero_and_has_its_slope(n_params, seed):
    params = 3.0 * np.random.RandomState(seed).randn(n_params)
    value, slope = GaussianNoise(n_params, params).log_prior()
    assert value <= 0.0
    expected = central_difference(lambda a: GaussianNoise(n_params, a).log_prior()[0], params)
    assert_allclose(slope, expected, rtol=1e-8, atol=1e-9)


@given(tilt=st.floats(-2.0, 2.0).map(lambda exponent: 10.0**exponent))
def test_mean_of_polya_gamma_is_the_slope_of_log_cosh(tilt):
    """W.r.t. half the squared tilt."""
    log_cosh = lambda c: np.logaddexp(0.5 * c, -0.5 * c)  # noqa: E731
    slope = central_difference(log_cosh, np.array(tilt), 1e-3 * (1.0 + tilt)) / tilt
    assert_allclose(polya_gamma_mean(tilt), slope, rtol=1e-7)


# --------------------------------------------------------------------------------------------------
# The first states

STEP = 1e-3


@OWN
@given(seed=SEED)
def test_first_states_are_the_expansion_at_the_best_constants(likelihood, make_rows, seed):
    y, weight = make_rows(seed)
    n, k = len(weight), likelihood.n_functions
    states = likelihood.initial_states(y, weight)
    assert len(states) == k
    constants = likelihood._best_constants(y, weight)

    for own, state in enumerate(states):
        assert isinstance(state, SiteState)

        def moved(step, own=own):
            f = np.repeat(constants[:, None], n, axis=1)
            f[own] += step
            return weight * likelihood.log_likelihood(y, f)

        below, there, above = moved(-STEP), moved(0.0), moved(STEP)
        slope, curvature = (above - below) / (2.0 * STEP), (above - 2.0 * there + below) / STEP**2
        scale = np.abs(there).sum()
        assert abs(slope.sum()) < 1e-3 * scale
        assert_allclose(state.precision, -curvature, rtol=1e-5, atol=1e-5 * (1.0 + scale))
        at_constant = state.shift - state.precision * constants[own]
        assert_allclose(at_constant, slope, rtol=1e-5, atol=1e-5 * (1.0 + scale))


def test_the_state_of_fixed_sites_is_none():
    assert Normal().initial_states(*some_counts(0)) == [None]


def test_sites_are_their_state_without_own_terms():
    state = SiteState(np.array([1.0, 2.0]), np.array([0.5, -3.0]))
    for sites in (state.sites(), Counts().sites(state, np.ones(2), np.ones(2))):
        assert isinstance(sites, Sites)
        assert sites.precision is state.precision
        assert sites.shift is state.shift
        assert_array_equal(sites.log_scale, np.zeros(2))


def some_signs(seed, n=9):
    rng = np.random.RandomState(seed)
    y = np.where(rng.rand(n) < 0.6, 1.0, -1.0)
    y[:2] = rng.uniform(-1.0, 1.0, 2)
    return y, rng.uniform(0.1, 3.0, n)


def some_shares(seed, n=9):
    rng = np.random.RandomState(seed)
    y = np.eye(3)[rng.randint(3, size=n)]
    y[:2] = rng.dirichlet(np.ones(3), 2)
    return y, rng.uniform(0.1, 3.0, n)


LABELS = pytest.mark.parametrize(
    ("likelihood", "make_rows"),
    [
        (binary.BernoulliLogit(), some_signs),
        (binary.BernoulliProbit(), some_signs),
        (binary.PolyaGammaLogit(), some_signs),
        (binary.ConditionalPolyaGamma(), some_signs),
        (multiclass.Softmax().for_classes(3), some_shares),
        (multiclass.LogisticSoftmax().for_classes(3), some_shares),
    ],
    ids=["logit", "probit", "polya-gamma", "conditional", "softmax", "logistic-softmax"],
)


@LABELS
def test_first_states_in_closed_form_are_the_expansion_at_zero(likelihood, make_rows):
    y, weight = make_rows(3)
    if isinstance(likelihood, binary.BernoulliProbit):
        # It starts from the sites of the logistic likelihood.
        likelihood = binary.BernoulliLogit()
    # Those in closed form are expansions at f = 0.
    zero = likelihood._expect_constants(np.zeros(likelihood.n_functions), y, weight)
    states = likelihood.initial_states(y, weight)
    for precision, slope, state in zip(zero.precision, zero.slope, states, strict=True):
        assert_allclose(precision, state.precision, rtol=1e-7)
        assert_allclose(slope, state.shift, rtol=1e-7, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# The best constants


@OWN
@given(seed=SEED)
def test_without_a_prior_mean_the_constant_is_zero(likelihood, make_rows, seed):
    y, weight = make_rows(seed)
    found = likelihood.constant_bound(y, weight, fit_prior_mean=False)
    expected = log_likelihood_of_constants(likelihood, y, weight, np.zeros(likelihood.n_functions))
    assert isinstance(found, float)
    assert_allclose(found, expected, rtol=1e-12)


@given(seed=SEED, largest=st.sampled_from([1, 9, 300]))
def test_the_best_constant_is_that_of_an_optimiser(seed, largest):
    likelihood, (y, weight) = Counts(), some_counts(seed, largest=largest)
    found = likelihood.constant_bound(y, weight)
    best = minimize_scalar(
        lambda f: -log_likelihood_of_constants(likelihood, y, weight, [f]),
        bounds=(-LARGEST_CONSTANT, LARGEST_CONSTANT),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert isinstance(found, float)
    # Without any counts the search ends where the slope is below its tolerance.
    assert_allclose(found, -best.fun, rtol=1e-7, atol=2e-5)
    assert found >= likelihood.constant_bound(y, weight, fit_prior_mean=False)


@pytest.mark.parametrize("likelihood", [Pairs(), Pairs(-0.6)], ids=["", "at a parameter"])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_constants_of_two_functions_are_those_of_an_optimiser(likelihood, seed):
    """One search within another."""
    y, weight = some_pairs(seed)
    options = {"bounds": (-10.0, 10.0), "method": "bounded", "options": {"xatol": 1e-7}}

    def best_second(first):
        return minimize_scalar(
            lambda f: -log_likelihood_of_constants(likelihood, y, weight, [first, f]), **options
        ).fun

    best = -minimize_scalar(best_second, **options).fun
    assert_allclose(likelihood.constant_bound(y, weight), best, rtol=1e-7)


def test_a_constant_without_end_is_limited():
    class Steep(Likelihood):
        def expect(self, y, weight, mean, inducing_variance, residual, v):
            slope = (weight * y)[None]
            return Expectation(weight * y * mean[0], slope, 0.0 * slope, 0.0 * slope)

    weight = np.array([0.5, 2.0])
    for y in (np.ones(2), -np.ones(2)):
        assert_allclose(Steep().constant_bound(y, weight), 2.5 * LARGEST_CONSTANT)


def test_a_constant_that_is_all_but_certain_is_found_as_such():
    """Where there are no counts, the lower the log rate is the better."""
    found = Counts().constant_bound(np.zeros(5), np.full(5, 2.0))
    assert -1e-4 < found <= 0.0


def test_the_best_constant_of_fixed_sites_is_their_mean():
    y, weight = some_counts(5)
    expected = weight @ norm(np.average(y, weights=weight), Normal.deviation).logpdf(y)
    assert_allclose(Normal().constant_bound(y, weight), expected, rtol=1e-8)
    expected = weight @ norm(0.0, Normal.deviation).logpdf(y)
    found = Normal().constant_bound(y, weight, fit_prior_mean=False)
    assert_allclose(found, expected, rtol=1e-12)


@LABELS
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fit_prior_mean", [True, False])
def test_constants_in_closed_form_are_those_without(likelihood, make_rows, seed, fit_prior_mean):
    y, weight = make_rows(seed)
    ours = Likelihood.constant_bound(likelihood, y, weight, fit_prior_mean)
    theirs = likelihood.constant_bound(y, weight, fit_prior_mean)
    assert_allclose(ours, theirs, rtol=1e-6)


@LABELS
def test_constants_of_one_class_are_all_but_certain(likelihood, make_rows):
    y, weight = make_rows(0)
    y = np.repeat(y[-1:], len(y), axis=0)
    # The search ends where the slope is below its tolerance.
    assert -1e-4 < Likelihood.constant_bound(likelihood, y, weight) <= 0.0


# --------------------------------------------------------------------------------------------------
# Expectations of fixed sites


def normal_rows(y, weight, deviation):
    return Normal(), y


def known_rows(y, weight, deviation):
    target = np.empty(len(y), dtype=[("mean", float), ("precision", float), ("log_scale", float)])
    target["mean"], target["precision"] = y, weight / deviation**2
    target["log_scale"] = -weight * np.log(deviation * np.sqrt(2.0 * np.pi))
    return KnownNoise(), target


def noisy_rows(y, weight, deviation):
    target = np.zeros(len(y), dtype=[("mean", float), ("scatter", float), ("basis", float, (1,))])
    target["mean"], target["basis"] = y, 1.0
    return GaussianNoise(1).at(np.array([2.0 * np.log(deviation)])), target


FIXED = pytest.mark.parametrize("make_rows", [normal_rows, known_rows, noisy_rows])


def fixed_expectation(y, weight, deviation, mean, variance):
    """Return E[weight log N(y; f, deviation^2)] under Gaussian f."""
    return weight * (norm(mean, deviation).logpdf(y) - 0.5 * variance / deviation**2)


@FIXED
@given(seed=SEED, scale=st.sampled_from([0.0, 1.0, 100.0]))
def test_expectations_of_fixed_sites_are_those_of_gaussian_noise(make_rows, seed, scale):
    rng, n, deviation = np.random.RandomState(seed), 6, Normal.deviation
    values, weight = 3.0 * rng.randn(n), rng.uniform(0.1, 3.0, n)
    mean, inducing_variance = (
        read_only(part) for part in (rng.randn(1, n), scale * rng.rand(1, n))
    )
    residual, v = read_only(scale * rng.rand(n)), read_only(rng.uniform(0.01, 1.0, (1, n)))
    likelihood, y = make_rows(values, weight, deviation)
    found = likelihood.expect(y, weight, mean, inducing_variance, residual, v)
    assert isinstance(found, Expectation)
    assert [part.shape for part in found] == [(n,), (1, n), (1, n), (1, n)]

    def total(mean, inducing_variance, residual):
        variance = inducing_variance[0] + v[0] * residual
        return fixed_expectation(values, weight, deviation, mean[0], variance).sum()

    variance = inducing_variance[0] + v[0] * residual
    expected = fixed_expectation(values, weight, deviation, mean[0], variance)
    assert_allclose(found.value, expected, rtol=1e-11, atol=1e-11 * (1.0 + scale))
    slopes = {
        "slope": central_difference(lambda m: total(m, inducing_variance, residual), mean),
        "precision": -2.0
        * central_difference(lambda s: total(mean, s, residual), inducing_variance),
        "residual_cost": -2.0
        * central_difference(lambda k: total(mean, inducing_variance, k), residual),
    }
    for name, expected in slopes.items():
        ours = getattr(found, name)
        assert_allclose(ours.ravel(), expected.ravel(), rtol=1e-6, atol=1e-7 * (1.0 + scale))


@FIXED
def test_expectations_of_fixed_sites_are_integrals(make_rows):
    """By quadrature over f, of the density of scipy."""
    values, weight = np.array([0.3, -2.0]), np.array([1.0, 2.5])
    likelihood, y = make_rows(values, weight, Normal.deviation)
    mean, inducing_variance = np.array([[0.5, -1.0]]), np.array([[0.4, 2.0]])
    residual, v = np.array([0.9, 0.1]), np.array([[0.3, 1.0]])
    found = likelihood.expect(y, weight, mean, inducing_variance, residual, v).value
    for n in range(2):
        f = norm(mean[0, n], np.sqrt(inducing_variance[0, n] + v[0, n] * residual[n]))
        expected = quad(
            lambda x, f=f, n=n: f.pdf(x) * weight[n] * norm(x, Normal.deviation).logpdf(values[n]),
            -20.0,
            20.0,
        )[0]
        assert_allclose(found[n], expected, rtol=1e-8)


# --------------------------------------------------------------------------------------------------
# The core asks for nothing else


@OWN
@given(seed=SEED)
def test_expectations_of_the_likelihoods_here_are_derivatives_of_each_other(
    likelihood, make_rows, seed
):
    """And at no variance they are the log likelihoods."""
    y, weight = make_rows(seed, n=3)
    rng, k = np.random.RandomState(seed), likelihood.n_functions
    mean, inducing_variance = 0.5 * rng.randn(k, 3), rng.uniform(0.1, 1.0, (k, 3))
    residual, v = rng.uniform(0.1, 1.0, 3), rng.uniform(0.1, 1.0, (k, 3))

    def value(mean, inducing_variance):
        return likelihood.expect(y, weight, mean, inducing_variance, residual, v).value.sum()

    found = likelihood.expect(y, weight, mean, inducing_variance, residual, v)
    by_mean = central_difference(lambda m: value(m, inducing_variance), mean)
    by_variance = central_difference(lambda s: value(mean, s), inducing_variance)
    scale = np.abs(found.value).max()
    assert_allclose(found.slope, by_mean, rtol=1e-7, atol=1e-8 * scale)
    assert_allclose(found.precision, -2.0 * by_variance, rtol=1e-7, atol=1e-8 * scale)
    still = np.zeros((k, 3))
    at_mean = likelihood.expect(y, weight, mean, still, residual, still).value
    assert_allclose(at_mean, weight * likelihood.log_likelihood(y, mean), rtol=1e-10)


def model_of(likelihood, y, weight, *, n_inducing=4, slack=SPHERICAL, **options):
    """Return a model of random rows, its theta without own parameters, and inducing points."""
    rng = np.random.RandomState(0)
    X = rng.randn(len(weight), 1)
    theta = np.array([-0.3, 0.2])
    kernel = free(Scaled(Constant(), RBF()), theta)
    model = SparseModel(kernel, likelihood, X, [y], weight, slack=slack, **options)
    return model, theta, X[:n_inducing] + 0.1


def evaluate(model, theta, Z, **options):
    options = {"tol": 1e-12, "max_iter": 1000, **options}
    return model.evaluate(theta, InducingPoints(Z), model.initial_state(), **options)


@SLACK
@pytest.mark.parametrize("fit_prior_mean", [True, False])
@pytest.mark.parametrize(
    ("likelihood", "make_rows", "own"),
    [(Counts(), some_counts, []), (Pairs(), some_pairs, [-0.4])],
    ids=["one function", "two functions and a parameter"],
)
def test_a_model_needs_no_more_than_expectations(likelihood, make_rows, own, slack, fit_prior_mean):
    """Its gradient is that of its bound, own parameters included."""
    y, weight = make_rows(2, n=12, largest=3)
    options = {"slack": slack, "fit_prior_mean": fit_prior_mean}
    model, theta, Z = model_of(likelihood, y, weight, **options)
    theta = np.append(theta, own)
    found = evaluate(model, theta, Z, wrt_Z=True)
    assert found.converged
    by_theta = central_difference(lambda t: evaluate(model, t, Z).objective, theta)
    assert_allclose(found.grad_theta, by_theta, rtol=1e-5, atol=1e-5)
    tolerances = {"rtol": 1e-5, "atol": 3e-5}
    assert_slopes(lambda z: evaluate(model, theta, z).objective, Z, found.grad_Z, **tolerances)


def test_parameters_of_all_outputs_have_a_joint_gradient_and_prior():
    """The functions of each output stand together, in the order of the outputs."""
    y, weight = some_pairs(0, n=5)
    likelihoods, targets = [Pairs(-0.6), Pairs(0.3)], [y, y[::-1]]
    mean, variance = np.random.RandomState(0).uniform(0.1, 1.0, (2, 4, 5))
    found = joint_params_gradient(likelihoods, targets, weight, mean, variance)
    assert_array_equal(found[:1], Pairs(-0.6).params_gradient(y, weight, mean[:2], variance[:2]))
    later = Pairs(0.3).params_gradient(y[::-1], weight, mean[2:], variance[2:])
    assert_array_equal(found[1:], later)
    sizes = [NegativeBinomial().at(np.array([log_size])) for log_size in (-1.0, 2.0)]
    value, slope = joint_log_prior(sizes)
    (first, its_slope), (second, other_slope) = (each.log_prior() for each in sizes)
    assert value == first + second
    assert_array_equal(slope, [*its_slope, *other_slope])


@SLACK
@pytest.mark.parametrize("count", [0.0, 1.0, 7.0])
def test_the_bound_of_one_row_is_below_the_integral_and_near_it(slack, count):
    y, weight = np.array([count]), np.ones(1)
    model, theta, _ = model_of(Counts(), y, weight, slack=slack, fit_prior_mean=False)
    found = evaluate(model, theta, model.X).objective
    prior = norm(0.0, np.exp(0.5 * theta[0]))
    exact = np.log(quad(lambda f: prior.pdf(f) * poisson(np.exp(f)).pmf(count), -12.0, 6.0)[0])
    assert found <= exact + 1e-9
    assert found > exact - 0.05


@pytest.mark.parametrize("fit_prior_mean", [True, False])
@pytest.mark.parametrize(
    ("likelihood", "make_rows"), [(Counts(), some_counts), (Pairs(), some_pairs)], ids=["1", "2"]
)
def test_a_kernel_without_variance_gives_the_constant(likelihood, make_rows, fit_prior_mean):
    y, weight = make_rows(4, n=10, largest=3)
    model, theta, Z = model_of(likelihood, y, weight, fit_prior_mean=fit_prior_mean)
    flat = np.concatenate([[np.log(1e-12)], theta[1:], np.zeros(likelihood.n_params)])
    found = evaluate(model, flat, Z)
    assert found.converged
    assert_allclose(found.objective, model.constant_bound(), rtol=1e-7)


def test_constants_of_targets_far_from_zero_are_found():
    class UnitNoise(Likelihood):
        def targets(self, y, weight, rows):
            return [rows.mean(y, weight)]

        def expect(self, y, weight, mean, inducing_variance, residual, v):
            error = y - mean[0]
            variance = inducing_variance[0] + v[0] * residual
            value = -0.5 * (error**2 + variance + np.log(2.0 * np.pi))
            precision = weight[None] + 0.0 * mean
            return Expectation(weight * value, (weight * error)[None], precision, v * precision)

    y = 1000.0 + np.random.RandomState(0).normal(size=50)
    expected = norm.logpdf(y - y.mean()).sum()
    assert UnitNoise().constant_bound(y, np.ones(50)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("level", [1e12, 1e14, 1e18])
def test_constants_of_large_counts_are_found(level):
    """On the way the rate overflows."""
    y = np.full(50, level)
    found = Counts()._best_constants(y, np.ones(50))
    assert found[0] == pytest.approx(np.log(level), rel=1e-6)
    assert np.isfinite(Counts().constant_bound(y, np.ones(50)))


@pytest.mark.parametrize(
    ("likelihood", "at"),
    [
        (NegativeBinomial(), lambda one: one.at(np.zeros(1))),
        (Gamma(), lambda one: one.at(np.zeros(1))),
        (StudentT(), lambda one: one.at(np.zeros(2))),
        (OrdinalLogit(), lambda one: one.for_classes(4)),
        (Softmax(), lambda one: one.for_classes(3)),
        (DirichletTargets(), lambda one: one.for_classes(3)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_likelihood_with_parameters_keeps_its_class_and_settings(likelihood, at):
    kind = type("Own", (type(likelihood),), {})
    own = kind()
    own.setting = 3.0
    learned = at(own)
    assert type(learned) is kind
    assert learned.setting == 3.0
    assert learned is not own
