"""The prior of hyperparameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import invgamma, norm

from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.models.prior import MeanOfOthersPrior, NormalPrior, ProductPrior, TyingPrior
from sparsegpc._core.selection.rules import argmax
from sparsegpc._core.selection.selectors import PivotedSelector
from tests.core.learning.fit_cases import START, make_model

PRIOR = NormalPrior.of_all(np.array([0.3, -1.2]), 1.7)


def evaluate(model, theta):
    states = model.initial_state()
    points = select_points(model, PivotedSelector(argmax, 8), START, states)
    return model.evaluate(theta, points, states, tol=1e-10, max_iter=500)


def parts_of(prior):
    model = make_model()
    return model.subset(np.arange(0, len(model.weight), 2), prior)


def test_the_log_density_is_added_to_the_objective_but_not_to_the_bound():
    theta = np.array([0.7, -0.4])
    without, with_prior = evaluate(parts_of(None), theta), evaluate(parts_of(PRIOR), theta)
    assert with_prior.elbo == without.elbo
    densities = [norm.logpdf(at, PRIOR.mean, 1.7).sum() for at in (theta, PRIOR.mean)]
    added = with_prior.objective - without.objective
    assert added == pytest.approx(densities[0] - densities[1])


def test_the_gradient_is_that_of_the_objective():
    model, theta, step = parts_of(PRIOR), np.array([0.7, -0.4]), 1e-5
    for k in range(2):
        up, down = (evaluate(model, theta + sign * step * np.eye(2)[k]) for sign in (1, -1))
        slope = (up.objective - down.objective) / (2.0 * step)
        assert evaluate(model, theta).grad_theta[k] == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_the_prior_of_a_subset_is_not_that_of_all_rows():
    model = make_model()
    model.subset(np.arange(10), PRIOR)
    assert evaluate(model, START).log_prior == 0.0


def test_a_subset_keeps_the_prior_of_all_rows():
    model = make_model()
    tying = TyingPrior(np.array([0, 1]), np.zeros(2))
    model.prior = ProductPrior((tying,))
    part, theta = model.subset(np.arange(10), PRIOR), np.array([0.7, -0.4])
    expected = tying.log_density(theta) + PRIOR.log_density(theta)
    assert evaluate(part, theta).log_prior == pytest.approx(expected)


# Each prior by itself


def alone(factor):
    """Return the prior of theta that is a single factor."""
    return ProductPrior((factor,))


TYING = TyingPrior(np.array([0, 2, 3]), np.array([0.5, -1.0, 2.0]))
NORMAL = NormalPrior.of_all(np.array([0.3, -1.2, 0.0, 1.0]), 1.7)
SOME = NormalPrior(np.array([3, 1]), np.array([0.3, -1.2]), 0.6)
PAIR = ProductPrior((TyingPrior(np.array([0, 1]), np.array([0.3, 0.0])),))
MEAN = MeanOfOthersPrior(np.array([2, 0, 3]), -0.1)
MEANS = MeanOfOthersPrior(np.array([2, 1, 0, 3]), -0.1, 2)
PRODUCTS = [ProductPrior((NORMAL, TYING)), ProductPrior(), PAIR.joined(PAIR, 2)]
FACTORS = {"normal": NORMAL, "some": SOME, "tying": TYING, "mean": MEAN, "means": MEANS}
PRIORS = [*map(alone, FACTORS.values()), *PRODUCTS]
NAMES = [*FACTORS, "product", "none", "joined"]


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
def test_gradient_by_finite_differences(prior, rng):
    for theta in rng.randn(20, 4):
        differences = [
            (prior.log_density(theta + step) - prior.log_density(theta - step)) / 2e-6
            for step in 1e-6 * np.eye(4)
        ]
        assert_allclose(prior.gradient(theta), differences, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
def test_the_curvature_gives_a_quadratic_lower_bound(prior, rng):
    for theta in rng.randn(20, 4):
        curvature = prior.curvature(theta)
        assert np.linalg.eigvalsh(curvature).min() > -1e-12
        for step in rng.randn(20, 4) * 10.0 ** rng.uniform(-2, 1, (20, 1)):
            bound = prior.log_density(theta) + prior.gradient(theta) @ step
            bound -= 0.5 * step @ curvature @ step
            assert prior.log_density(theta + step) >= bound - 1e-9 * (1.0 + abs(bound))


def test_the_tying_prior_is_a_normal_one_with_its_variance_integrated_out():
    """The mean of the entries, of which nothing is assumed, is integrated out, too."""

    def density(theta):
        tied = theta[TYING.indices] - TYING.units
        centre, n = tied.mean(), len(tied)

        def at(log_variance):
            variance = np.exp(log_variance)
            # For a normal distribution the integral over the mean is known.
            entries = norm.pdf(tied, centre, np.sqrt(variance)).prod() * np.sqrt(variance / n)
            prior = invgamma.pdf(variance, TyingPrior.SHAPE, scale=TYING.scale)
            return entries * prior * variance

        return quad(at, -15.0, 15.0, points=[-2.0], epsabs=0.0, epsrel=1e-10, limit=500)[0]

    theta, other = np.array([0.4, 9.0, -0.8, 2.1]), np.array([1.0, 9.0, -0.3, 1.9])
    ratio = density(theta) / density(other)
    expected = np.exp(alone(TYING).log_density(theta) - alone(TYING).log_density(other))
    assert ratio == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("n", [2, 5, 60])
def test_the_tying_prior_is_as_wide_at_its_maximum_for_any_number_of_entries(n, rng):
    prior, step = TyingPrior(np.arange(n), np.zeros(n)), rng.randn(n)
    step *= 1e-4 / np.linalg.norm(step - step.mean())
    assert prior.log_density(step) == pytest.approx(norm.logpdf(1e-4 / 0.3) - norm.logpdf(0.0))


def test_the_tying_prior_says_nothing_of_the_common_mean():
    theta = np.array([0.4, 9.0, -0.8, 2.1])
    assert alone(TYING).log_density(theta + 5.0) == pytest.approx(alone(TYING).log_density(theta))


def test_joined_priors_are_independent_of_each_other(rng):
    joined = PAIR.joined(PAIR, 2)
    first, second = rng.randn(2, 2)
    expected = PAIR.log_density(first) + PAIR.log_density(second)
    assert joined.log_density(np.append(first, second)) == pytest.approx(expected)
    gradient = np.append(PAIR.gradient(first), PAIR.gradient(second))
    assert_allclose(joined.gradient(np.append(first, second)), gradient)


def test_the_prior_of_some_entries_is_normal_in_these():
    theta = np.array([9.0, 0.7, 9.0, -0.4])
    at, centre = theta[[3, 1]], SOME.mean
    expected = norm.logpdf(at, centre, 0.6).sum() - norm.logpdf(centre, centre, 0.6).sum()
    assert alone(SOME).log_density(theta) == pytest.approx(expected)


def test_the_prior_about_the_mean_of_others_is_normal():
    at_mean, other = np.array([1.0, 9.0, 1.9, 3.0]), np.array([1.0, 9.0, 2.6, 3.0])
    assert_allclose(alone(MEAN).gradient(at_mean), 0.0, atol=1e-12)
    expected = norm.logpdf(0.7, 0.0, 0.3) - norm.logpdf(0.0, 0.0, 0.3)
    assert alone(MEAN).log_density(other) == pytest.approx(expected)


def test_the_factors_after_some_entries_leave_out_those_of_earlier_ones():
    late = NormalPrior(np.array([2]), np.array([1.0]), 2.0)
    product = ProductPrior((NORMAL, TYING, late))
    assert product.after(2) == ProductPrior((late,))
    assert product.after(0) == product


def test_the_entries_with_a_prior_are_those_of_which_its_density_depends():
    product = ProductPrior((SOME, MEAN))
    theta, steps = np.linspace(-1.0, 2.0, 6), 0.1 * np.eye(6)
    changes = [product.log_density(theta + step) - product.log_density(theta) for step in steps]
    assert_array_equal(np.unique(product.indices), np.flatnonzero(changes))
    assert len(ProductPrior().indices) == 0
