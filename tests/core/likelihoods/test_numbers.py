"""What a likelihood of numbers owes, whatever the numbers: to test another, add a row to `CASES`.

Numbers of ordered classes are among them.
It is compared with its density as textbooks have it, of every copy of a row by itself: the oracles
know no merging and no closed forms.
"""

import importlib
import pkgutil
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import gamma, lognorm, nbinom, norm, poisson, t, weibull_min

from sparsegpc._core import likelihoods
from sparsegpc._core.bounds.slacks import SLACKS
from sparsegpc._core.kernels.algebra import Scaled
from sparsegpc._core.kernels.families import RBF, Constant
from sparsegpc._core.likelihoods import (
    censored,
    counts,
    excess_noise,
    gaussian,
    positive,
    student_t,
)
from sparsegpc._core.likelihoods.base import LabelLikelihood, Likelihood, SiteState
from sparsegpc._core.likelihoods.ordinal import OrdinalLogit
from sparsegpc._core.likelihoods.responses import ResponseLikelihood, observations
from sparsegpc._core.models.model import SparseModel
from sparsegpc._core.rows.merged_rows import MergedRows, merge_rows
from sparsegpc._core.selection.selectors import InducingPoints
from tests.core.helpers import assert_slopes, central_difference, free, integral, names, read_only
from tests.core.likelihoods.ordered_classes import draw_classes, log_probability
from tests.core.likelihoods.own_counts import OwnPoisson

# The table


class NumberCase(NamedTuple):
    """A likelihood of numbers with one function f, and what textbooks say of it.

    ``log_likelihood(y, f, x, params)`` is that of numbers y at rows whose only column is x, shape
    (n,), at f, shape (..., n); ``draw(rng, f, x, params)`` returns such numbers. `params` are
    values to try. ``targets(y, weight, rows)`` replaces the method where a likelihood has none.
    ``value(y, mean, variance, params)`` is what takes the place of the expected log likelihood
    under Gaussian f.
    """

    name: str
    build: Callable
    log_likelihood: Callable
    draw: Callable
    params: tuple = ()
    targets: Callable | None = None
    value: Callable | None = None


def deviation(x, params):
    return np.exp(0.5 * np.polynomial.polynomial.polyval(x, params))


def known_targets(y, weight, rows):
    variance = deviation(rows.repeated(rows.X[:, 0]), POLYNOMIAL) ** 2
    return [gaussian.known_noise_targets(y, weight, variance, rows)]


def learned_noise(name, params):
    def targets(y, weight, rows):
        basis = np.vander(rows.X[:, 0], len(params), increasing=True)
        return [gaussian.noisy_targets(y, weight, basis, rows)]

    return NumberCase(
        name,
        lambda: gaussian.GaussianNoise(len(params)),
        lambda y, f, x, params: norm.logpdf(y, f, deviation(x, params)),
        lambda rng, f, x, params: rng.normal(f, deviation(x, params)),
        params,
        targets,
    )


def with_exposure(name, build, log_pmf, draw, params=()):
    """Counts of rate exposure(x) exp(f)."""

    def targets(y, weight, rows):
        exposed = observations(y, exposure=exposure(rows.repeated(rows.X[:, 0])))
        return build().targets(exposed, weight, rows)

    return NumberCase(
        name,
        build,
        lambda y, f, x, params: log_pmf(y, exposure(x) * np.exp(f), params),
        lambda rng, f, x, params: draw(rng, exposure(x) * np.exp(f), params).astype(float),
        params,
        targets,
    )


def total_targets(y, weight, rows):
    exposed = observations(y, exposure=exposure(rows.repeated(rows.X[:, 0])))
    return positive.Gamma().targets(exposed, weight, rows)


def total_shape(x, params):
    return exposure(x) * np.exp(params[0])


def excess_targets(y, weight, rows):
    known = deviation(rows.repeated(rows.X[:, 0]), POLYNOMIAL) ** 2
    return [excess_noise.excess_noise_targets(y, weight, known, rows)]


def excess_deviation(x, params):
    return np.sqrt(deviation(x, POLYNOMIAL) ** 2 + np.exp(params[0]))


def limited(name, build, distribution, params, has_upper_limits=False, records=None):
    """Numbers, those at x < 0 censored; ``distribution(f, x, params)`` is a frozen one of scipy.

    Those at x > 1 are upper limits if it `has_upper_limits`. ``records(y, event, x)`` returns what
    the likelihood takes, `observations` by default.
    """
    limit = 1.0 if has_upper_limits else np.inf

    def targets(y, weight, rows):
        x = rows.repeated(rows.X[:, 0])
        event = np.where(x > limit, -1.0, (x >= 0.0).astype(float))
        given = observations(y, event=event) if records is None else records(y, event, x)
        return build().targets(given, weight, rows)

    def log_likelihood(y, f, x, params):
        law = distribution(f, x, params)
        observed = np.where(x > limit, law.logcdf(y), law.logpdf(y))
        return np.where(x < 0.0, law.logsf(y), observed)

    return NumberCase(
        name,
        build,
        log_likelihood,
        lambda rng, f, x, params: distribution(f, x, params).rvs(random_state=rng),
        params,
        targets,
    )


def exposure(x):
    return np.exp(0.4 * x)


def size_and_chance(rate, params):
    size = np.exp(params[0])
    return size, size / (size + rate)


def best_mixture(y, mean, variance, params):
    """Return the largest E[log N(y; f, scale^2 / w)] - KL over all distributions of w.

    The prior of w is the gamma distribution for which y - f has a Student-t distribution.
    """
    df, scale = np.exp(params)
    square = ((y - mean) ** 2 + variance) / scale**2

    def integrand(log_w):
        log_w = log_w[:, None]
        w = np.exp(log_w)
        log_normal = 0.5 * (log_w - np.log(2.0 * np.pi * scale**2) - w * square)
        return np.exp(gamma.logpdf(w, 0.5 * df, scale=2.0 / df) + log_w + log_normal)

    return np.log(integral(integrand, np.linspace(-40.0, 10.0, 26)))


POLYNOMIAL = (-0.7, 0.3, -0.1)
CASES = [
    NumberCase(
        "known noise",
        gaussian.KnownNoise,
        lambda y, f, x, params: norm.logpdf(y, f, deviation(x, POLYNOMIAL)),
        lambda rng, f, x, params: rng.normal(f, deviation(x, POLYNOMIAL)),
        targets=known_targets,
    ),
    learned_noise("homoscedastic noise", POLYNOMIAL[:1]),
    learned_noise("polynomial noise", POLYNOMIAL),
    NumberCase(
        "excess noise",
        excess_noise.PartlyKnownNoise,
        lambda y, f, x, params: norm.logpdf(y, f, excess_deviation(x, params)),
        lambda rng, f, x, params: rng.normal(f, excess_deviation(x, params)),
        (-0.7,),
        targets=excess_targets,
    ),
    limited(
        "censored gaussian",
        censored.CensoredGaussian,
        lambda f, x, params: norm(f, np.exp(0.5 * params[0])),
        (-0.7,),
        has_upper_limits=True,
        records=lambda y, event, x: censored.censored_targets(y, event),
    ),
    limited(
        "censored gaussian with excess noise",
        censored.CensoredGaussian,
        lambda f, x, params: norm(f, excess_deviation(x, params)),
        (-0.7,),
        has_upper_limits=True,
        records=lambda y, event, x: censored.censored_targets(
            y, event, deviation(x, POLYNOMIAL) ** 2
        ),
    ),
    limited(
        "censored gaussian with known noise",
        lambda: censored.CensoredGaussian(learns_noise=False),
        lambda f, x, params: norm(f, deviation(x, POLYNOMIAL)),
        (),
        has_upper_limits=True,
        records=lambda y, event, x: censored.censored_targets(
            y, event, deviation(x, POLYNOMIAL) ** 2
        ),
    ),
    NumberCase(
        "own poisson",
        OwnPoisson,
        lambda y, f, x, params: poisson.logpmf(y, np.exp(f)),
        lambda rng, f, x, params: rng.poisson(np.exp(f)).astype(float),
    ),
    with_exposure(
        "poisson",
        counts.Poisson,
        lambda y, rate, params: poisson.logpmf(y, rate),
        lambda rng, rate, params: rng.poisson(rate),
    ),
    with_exposure(
        "negative binomial",
        counts.NegativeBinomial,
        lambda y, rate, params: nbinom.logpmf(y, *size_and_chance(rate, params)),
        lambda rng, rate, params: rng.negative_binomial(*size_and_chance(rate, params)),
        (0.4,),
    ),
    NumberCase(
        "gamma",
        positive.Gamma,
        lambda y, f, x, params: gamma.logpdf(y, np.exp(params[0]), scale=np.exp(f - params[0])),
        lambda rng, f, x, params: np.exp(f - params[0]) * rng.gamma(np.exp(params[0]), size=len(f)),
        (0.3,),
    ),
    NumberCase(
        "gamma totals",
        positive.Gamma,
        lambda y, f, x, params: gamma.logpdf(
            y, total_shape(x, params), scale=np.exp(f - params[0])
        ),
        lambda rng, f, x, params: np.exp(f - params[0]) * rng.gamma(total_shape(x, params)),
        (0.3,),
        targets=total_targets,
    ),
    limited(
        "weibull",
        positive.Weibull,
        lambda f, x, params: weibull_min(np.exp(params[0]), scale=np.exp(f)),
        (0.3,),
    ),
    limited(
        "log-normal",
        positive.LogNormal,
        lambda f, x, params: lognorm(np.exp(params[0]), scale=np.exp(f)),
        (-0.5,),
    ),
    limited(
        "log-normal with limits of detection",
        positive.LogNormal,
        lambda f, x, params: lognorm(np.exp(params[0]), scale=np.exp(f)),
        (-0.5,),
        has_upper_limits=True,
    ),
    NumberCase(
        "ordered classes",
        lambda: OrdinalLogit().for_classes(4),
        lambda y, f, x, params: log_probability(y, f, params),
        lambda rng, f, x, params: draw_classes(rng, f, params),
        (0.3, -0.5),
    ),
    NumberCase(
        "student-t",
        student_t.StudentT,
        lambda y, f, x, params: t.logpdf(y, np.exp(params[0]), f, np.exp(params[1])),
        lambda rng, f, x, params: f + np.exp(params[1]) * rng.standard_t(np.exp(params[0]), len(f)),
        (1.2, -0.7),
        value=best_mixture,
    ),
]
EACH = pytest.mark.parametrize("case", CASES, ids=names(CASES))
LEARNED = [case for case in CASES if case.params]
WITH_PARAMS = pytest.mark.parametrize("case", LEARNED, ids=names(LEARNED))
PAIRS = [(case, slack) for case in CASES for slack in case.build().slacks]
IDS = [f"{case.name}-{slack}".replace(" ", "-") for case, slack in PAIRS]
EACH_SLACK = pytest.mark.parametrize(("case", "slack"), PAIRS, ids=IDS)
VARIANCES = pytest.mark.parametrize("scale", [0.01, 0.5, 5.0])
FIT_PRIOR_MEAN = pytest.mark.parametrize("fit_prior_mean", [True, False])


def test_the_table_lists_every_likelihood_of_numbers():
    numbers = set()
    for module in pkgutil.iter_modules(likelihoods.__path__, f"{likelihoods.__name__}."):
        found = vars(importlib.import_module(module.name)).values()
        classes = {cls for cls in found if isinstance(cls, type) and issubclass(cls, Likelihood)}
        numbers |= {cls for cls in classes - {Likelihood} if not issubclass(cls, LabelLikelihood)}
    numbers = {cls for cls in numbers - {ResponseLikelihood} if not cls.__name__.startswith("_")}
    assert numbers
    assert numbers <= {type(case.build()) for case in CASES}


# Data and models

THETA = np.log([0.8, 0.9])


def assemble(case, x, y, weight, rows=None):
    """Return numbers of copies, their merged rows and which each is one of, and the target."""
    if rows is None:
        apart = None if case.build().merges_unequal_targets else y
        rows = merge_rows(x[:, None], weight, targets=apart)
    (target,) = (case.targets or case.build().targets)(y, weight, rows)
    parts = {"x": x, "y": y, "weight": weight, "rows": rows, "target": read_only(target)}
    return SimpleNamespace(**parts, row=rows.repeated(np.arange(len(target))))


def make_data(case, n=5):
    """Return data of n distinct rows, every other twice, with equal y if they must be."""
    rng = np.random.RandomState(3)
    row = np.repeat(np.arange(n), 1 + np.arange(n) % 2)
    x = rng.uniform(-2.0, 2.0, n)[row]
    y = case.draw(rng, 1.0 + 0.7 * np.sin(2.0 * x), x, case.params)
    if not case.build().merges_unequal_targets:
        y = y[np.searchsorted(row, row)]
    return assemble(case, x, y, rng.uniform(0.4, 2.0, len(x)))


def make_moments(n, scale):
    """Return mean, inducing_variance, residual and v, as `expect` takes them."""
    rng = np.random.RandomState(1)
    variances = scale * rng.uniform(0.4, 0.7, (2, 1, n))
    parts = 1.0 + rng.randn(1, n), variances[0], variances[1, 0], rng.uniform(0.3, 1.0, (1, n))
    return [read_only(part) for part in parts]


def expect(case, data, *moments):
    return case.build().at(np.array(case.params)).expect(data.target, data.rows.weight, *moments)


def textbook_values(case, data, params, mean, variance):
    """Return E[log p] of each merged row, all copies together, by quadrature over f."""
    if case.value is not None:
        value = case.value(data.y, mean[data.row], variance[data.row], params)
        return data.rows.total(data.weight * value)
    mean, width = mean[data.row], np.sqrt(variance)[data.row]

    def integrand(z):
        z = z[:, None]
        return norm.pdf(z) * case.log_likelihood(data.y, mean + width * z, data.x, params)

    return data.rows.total(data.weight * integral(integrand, np.linspace(-10.0, 10.0, 11)))


def model_of(case, data, slack="standard", fit_prior_mean=True):
    kernel = free(Scaled(Constant(), RBF()), THETA)
    options = {"slack": SLACKS[slack], "fit_prior_mean": fit_prior_mean}
    X, weight = data.rows.X, data.rows.weight
    return SparseModel(kernel, case.build(), X, [data.target], weight, **options)


def evaluate(model, theta, Z, states=None, **options):
    options = {"tol": 1e-12, "max_iter": 1000, **options}
    states = model.initial_state() if states is None else states
    return model.evaluate(theta, InducingPoints(Z), states, **options)


# Expectations


@EACH
@VARIANCES
def test_the_value_is_the_expected_log_density_of_all_copies(case, scale):
    data, moments = make_data(case), make_moments(5, scale)
    mean, inducing_variance, residual, v = moments
    expected = textbook_values(
        case, data, case.params, mean[0], inducing_variance[0] + v[0] * residual
    )
    assert_allclose(expect(case, data, *moments).value, expected, rtol=1e-9, atol=1e-9)


@EACH
@VARIANCES
def test_slope_precision_and_residual_cost_are_derivatives_of_the_value(case, scale):
    data, moments = make_data(case), make_moments(5, scale)
    found = expect(case, data, *moments)
    for place, part in enumerate(found[1:]):

        def value(moment, place=place):
            changed = [*moments[:place], moment, *moments[place + 1 :]]
            return expect(case, data, *changed).value.sum()

        expected = np.atleast_2d(central_difference(value, moments[place], 1e-3))
        assert_allclose(part, expected if place == 0 else -2.0 * expected, rtol=1e-7, atol=1e-8)
        assert place == 0 or (part > 0.0).all()


@EACH
@pytest.mark.parametrize("variance", [0.0, 1e-9, 1e3, 1e6])
def test_everything_is_finite_at_moments_that_a_search_may_visit(case, variance):
    mean, variance = np.array([[-1e4, -30.0, 0.0, 30.0, 1e4]]), np.full((1, 5), variance)
    found = expect(case, make_data(case), mean, variance, variance[0], np.full((1, 5), 0.5))
    assert all(np.isfinite(part).all() for part in found)
    assert (found.precision >= 0.0).all()


# Parameters


@WITH_PARAMS
def test_parameters_start_within_their_limits_and_have_a_log_prior(case):
    data, likelihood, n = make_data(case), case.build(), len(case.params)
    start = likelihood.initial_params(data.target, data.rows.weight)
    low, high = likelihood.params_bounds(data.target, data.rows.weight).T
    assert likelihood.n_params == likelihood.at(start).n_params == len(start) == len(low) == n
    assert (np.isfinite(start) & (low < start) & (start < high)).all()
    assert len(set(likelihood.params_names())) == n
    for params in (start, start - 3.0, start + 3.0):
        value, slope = likelihood.at(params).log_prior()
        expected = central_difference(lambda a: likelihood.at(a).log_prior()[0], params)
        assert value <= 0.0
        assert_allclose(slope, expected, rtol=1e-8, atol=1e-9)


@WITH_PARAMS
@VARIANCES
def test_the_gradient_in_the_parameters_is_that_of_the_expected_log_density(case, scale):
    data, params = make_data(case), np.array(case.params)
    mean, variance, _, _ = make_moments(5, scale)
    found = case.build().at(params).params_gradient(data.target, data.rows.weight, mean, variance)
    expected = central_difference(
        lambda a: textbook_values(case, data, a, mean[0], variance[0]).sum(), params, 3e-3
    )
    assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# Models


@EACH
@FIT_PRIOR_MEAN
def test_a_flat_model_gets_from_its_first_states_to_the_best_constant(case, fit_prior_mean):
    """With the limits that a fit has, at the parameters for constants."""
    data = make_data(case)
    model = model_of(case, data, fit_prior_mean=fit_prior_mean)
    params = model.likelihood.constant_params(data.target, model.weight, fit_prior_mean)
    reach = 10.0 if fit_prior_mean else 1e-9
    best = -minimize_scalar(
        lambda f: -data.weight @ case.log_likelihood(data.y, f, data.x, params),
        bounds=(-reach, reach),
        method="bounded",
        options={"xatol": 1e-10},
    ).fun
    log_prior = model.likelihood.at(params).log_prior()[0]
    assert_allclose(model.constant_bound(), best + log_prior, rtol=1e-7)
    theta = np.concatenate([[np.log(1e-12)], THETA[1:], params])
    found = model.evaluate(theta, InducingPoints(model.X[:3]), model.initial_state())
    assert found.converged
    assert_allclose(found.elbo, best, atol=model.tol)


@EACH
def test_a_weight_of_k_is_that_many_rows(case):
    """Rows that are not merged, which the standard slack does not mind."""
    data = make_data(case)
    k = 1 + np.arange(len(data.x)) % 3
    merged = assemble(case, data.x, data.y, 1.0 * k)
    x, y, order = np.repeat(data.x, k), np.repeat(data.y, k), np.arange(k.sum())
    one = np.ones(len(x))
    apart = assemble(case, x, y, one, MergedRows(x[:, None], one, order, order))
    assert len(apart.target) > len(data.y) > len(merged.target)
    ours, theirs = model_of(case, merged), model_of(case, apart)
    assert_allclose(ours.constant_bound(), theirs.constant_bound(), rtol=1e-9)
    theta, Z = np.append(THETA, case.params), data.rows.X[:3] + 0.1
    ours, theirs = (evaluate(model, theta, Z) for model in (ours, theirs))
    assert_allclose(ours.objective, theirs.objective, rtol=1e-9)
    assert_allclose(ours.grad_theta, theirs.grad_theta, rtol=1e-6, atol=1e-7)


@EACH_SLACK
def test_gradients_are_those_of_the_bound(case, slack):
    """W.r.t. the kernel's parameters, the likelihood's with their prior, and the points."""
    data = make_data(case, n=8)
    model = model_of(case, data, slack, fit_prior_mean=slack != "standard")
    theta, Z = np.append(THETA, case.params), data.rows.X[::3] + 0.1
    found = evaluate(model, theta, Z, wrt_Z=True)
    assert found.converged
    tolerances = {"rtol": 1e-6, "atol": 1e-6}
    for bound, at, gradient in (
        (lambda t: evaluate(model, t, Z, found.states), theta, found.grad_theta),
        (lambda z: evaluate(model, theta, z, found.states), Z, found.grad_Z),
    ):
        assert_slopes(lambda x, bound=bound: bound(x).objective, at, gradient, **tolerances)


@EACH
@FIT_PRIOR_MEAN
def test_bounds_are_below_the_integral_and_with_all_points_one_near_it(case, fit_prior_mean):
    n = 3
    data, theta = make_data(case, n), np.append(THETA, case.params)
    grids = np.meshgrid(*n * [np.linspace(-6.0, 6.0, 31)], indexing="ij")
    z = np.stack([grid.ravel() for grid in grids], axis=1)
    log_weight = norm.logpdf(z).sum(axis=1) + n * np.log(0.4)
    at_all_points = []
    for slack in case.build().slacks:
        model = model_of(case, data, slack, fit_prior_mean)
        root = np.linalg.cholesky(model.kernel.value(THETA, model.X, model.X))
        for m in (1, n):
            found = evaluate(model, theta, model.X[:m])
            f = found.solutions[0].posterior.prior_mean + z @ root.T
            log_p = case.log_likelihood(data.y, f[:, data.row], data.x, case.params) @ data.weight
            exact = logsumexp(log_p + log_weight)
            assert found.elbo < exact + 1e-7
        assert found.elbo > exact - 0.12 * n
        at_all_points.append(found.objective)
    assert_allclose(at_all_points, at_all_points[0], rtol=1e-8)


@EACH
@pytest.mark.parametrize("precision", [1e-30, 1e30])
@pytest.mark.filterwarnings("error")
def test_states_of_absurd_precisions_lead_to_the_same_bound(case, precision):
    """As the sites of other hyperparameters may have them."""
    data, theta = make_data(case, n=8), np.append(THETA, case.params)
    model, points = model_of(case, data), InducingPoints(make_data(case, n=8).rows.X)
    expected = model.evaluate(theta, points, model.initial_state())
    n_rows = len(data.target)
    states = [None]
    if not case.build().has_fixed_sites:
        states = [SiteState(np.full(n_rows, precision), np.full(n_rows, -0.5))]
    found = model.evaluate(theta, points, states)
    assert found.converged
    assert_allclose(found.elbo, expected.elbo, atol=2.0 * model.tol * n_rows)
