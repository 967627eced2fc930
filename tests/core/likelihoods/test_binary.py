"""The likelihoods of two classes against brute-force quadrature of their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

import sparsegpc._core.likelihoods.binary as module
from sparsegpc._core.rows.merged_rows import merge_rows
from tests.core.helpers import central_difference, read_only
from tests.core.likelihoods.binary_cases import (
    CASES,
    CONDITIONAL,
    LIKELIHOODS,
    LOGIT,
    POLYA_GAMMA,
    PROBIT,
    conditional_value_at,
    log_2_cosh_half,
    polya_gamma_mean,
)

LABELS = st.sampled_from([-1.0, 1.0]) | st.floats(-1.0, 1.0)
WEIGHTS = st.floats(1e-2, 1e2)
WITHOUT_SLACK = pytest.mark.parametrize(
    "case",
    [POLYA_GAMMA, LOGIT, PROBIT],
    ids=["PolyaGammaLogit", "BernoulliLogit", "BernoulliProbit"],
)


def powers(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def rows(largest=4.0):
    """Strategies of label, weight, mean, explained variance, residual and scale of a row."""
    variances = powers(-3.0, largest)
    return st.tuples(
        LABELS, WEIGHTS, st.floats(-30.0, 30.0), variances, variances, st.floats(0.05, 1.0)
    )


def expect(case, y, weight, mean, inducing_variance, residual, v):
    """Return value, slope, precision and residual cost of one row."""
    v = 1.0 if case.has_own_slack else v
    y, weight, residual = (np.array([number]) for number in (y, weight, residual))
    mean, inducing_variance, v = (np.array([[number]]) for number in (mean, inducing_variance, v))
    return [
        part.item()
        for part in case.likelihood.expect(y, weight, mean, inducing_variance, residual, v)
    ]


def expected_value(case, *row):
    return case.expected_value(*(np.array([number]) for number in row)).item()


# --------------------------------------------------------------------------------------------------
# The interface


def test_the_table_lists_every_likelihood():
    classes = {
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert classes == {type(case.likelihood) for case in CASES}


@LIKELIHOODS
def test_attributes(case):
    likelihood = case.likelihood
    assert likelihood.slacks == case.slacks
    assert likelihood.has_own_slack == case.has_own_slack
    assert likelihood.n_functions == 1
    assert likelihood.n_params == 0
    assert not likelihood.has_fixed_sites
    assert likelihood.at(np.empty(0)) is likelihood


@LIKELIHOODS
def test_sites_are_their_state(case):
    y, weight = np.array([-1.0, 1.0, 0.2]), np.array([1.0, 2.0, 5.0])
    (state,) = case.likelihood.initial_states(y, weight)
    sites = case.likelihood.sites(state, y, weight)
    assert_array_equal(sites.precision, state.precision)
    assert_array_equal(sites.shift, state.shift)
    assert_array_equal(sites.log_scale, np.zeros(3))


@LIKELIHOODS
def test_targets_are_weighted_means_of_signs(case):
    X, codes = np.array([[2.0], [1.0], [2.0], [2.0]]), np.array([1, 0, 0, 1])
    weight = np.array([3.0, 5.0, 1.0, 0.5])
    (y,) = case.likelihood.targets(codes, weight, merge_rows(X, weight))
    assert_allclose(y, [-1.0, 2.5 / 4.5], rtol=1e-14)


@LIKELIHOODS
def test_first_sites_are_logistic_ones_around_zero(case):
    y, weight = np.array([-1.0, 1.0, 0.2]), np.array([1.0, 2.0, 5.0])
    (state,) = case.likelihood.initial_states(y, weight)
    _, slope, precision, _ = case.likelihood.expect(
        y, weight, np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(3), np.ones((1, 3))
    )
    # Those of the probit are of the same kind: sharper by the squared width of the logistic law.
    factor = 8.0 / np.pi if case is PROBIT else 1.0
    assert_allclose(precision[0], factor * state.precision, rtol=1e-7)
    assert_allclose(slope[0], np.sqrt(factor) * state.shift, rtol=1e-12)


@LIKELIHOODS
def test_shapes_and_inputs(rng, case):
    """Inputs are neither modified nor need they be writable; rows do not see one another."""
    y, weight, residual = (read_only(rng.uniform(0.1, 0.9, 7)) for _ in range(3))
    mean, inducing_variance = (read_only(rng.uniform(0.1, 0.9, (1, 7))) for _ in range(2))
    v = read_only(np.ones((1, 7)))
    parts = case.likelihood.expect(y, weight, mean, inducing_variance, residual, v)
    assert [part.shape for part in parts] == [(7,), (1, 7), (1, 7), (1, 7)]
    for n in range(7):
        alone = expect(case, y[n], weight[n], mean[0, n], inducing_variance[0, n], residual[n], 1.0)
        assert_allclose([part[..., n].item() for part in parts], alone, rtol=1e-12)
    logs = case.likelihood.log_probabilities(mean, inducing_variance)
    assert logs.shape == (7, 2)
    case.likelihood.constant_bound(y, weight)


# --------------------------------------------------------------------------------------------------
# Expectations


@LIKELIHOODS
@given(row=rows())
def test_value_is_that_of_brute_force(case, row):
    value = expected_value(case, *row)
    assert expect(case, *row)[0] == pytest.approx(value, rel=1e-9, abs=1e-9 * row[1])


@LIKELIHOODS
@given(row=rows(largest=2.0))
def test_slope_and_costs_are_derivatives_of_brute_force(case, row):
    """Each times the scale of its variable, in nats per unit of weight."""
    row = list(row)
    weight = row[1]
    value, slope, precision, residual_cost = expect(case, *row)
    expected = {2: slope, 3: -0.5 * precision, 4: -0.5 * residual_cost}
    variance = row[3] + row[4]
    for index, scale in ((2, 1.0 + np.sqrt(variance)), (3, row[3]), (4, row[4])):

        def shifted(number, index=index):
            return expected_value(case, *row[:index], number[0], *row[index + 1 :])

        difference = central_difference(shifted, np.array([row[index]]), 5e-3 * scale)[0]
        tolerance = 1e-8 * (weight + abs(value))
        assert expected[index] * scale == pytest.approx(difference * scale, rel=1e-6, abs=tolerance)


@LIKELIHOODS
@pytest.mark.parametrize(
    ("mean", "residual", "weight"),
    [
        (-40.0, 300.0, 0.1),
        (-40.0, 1e4, 1.0),
        (-40.0, 1e6, 30.0),
        (-0.5, 300.0, 1.0),
        (-0.5, 1e4, 30.0),
        (-0.5, 1e6, 0.1),
        (3.0, 300.0, 30.0),
        (3.0, 1e4, 0.1),
        (3.0, 1e6, 1.0),
    ],
)
def test_derivatives_at_large_residuals(case, mean, residual, weight):
    """As of rows far from every point under a large signal variance."""
    row = [0.3, weight, mean, 0.5, residual, 0.4]
    _, slope, precision, residual_cost = expect(case, *row)
    expected = {2: slope, 3: -0.5 * precision, 4: -0.5 * residual_cost}
    for index, scale in ((2, 1.0), (3, 0.5), (4, residual)):

        def shifted(number, index=index):
            return expected_value(case, *row[:index], number[0], *row[index + 1 :])

        difference = central_difference(shifted, np.array([row[index]]), 1e-2 * scale)[0]
        noise = 1e-12 * abs(expected_value(case, *row)) / (1e-2 * scale)
        assert expected[index] == pytest.approx(difference, rel=1e-4, abs=noise)


@LIKELIHOODS
@given(row=rows())
def test_costs_are_positive_and_slopes_are_bounded(case, row):
    value, slope, precision, residual_cost = expect(case, *row)
    y, weight, _, _, residual, _ = row
    assert value <= 0.0
    assert precision >= 0.0
    assert residual_cost >= 0.0
    if case is PROBIT:
        assert precision <= weight
    else:
        assert abs(slope) <= weight
        assert precision <= 0.25 * weight * (1.0 + 1e-12)
    if case is LOGIT:
        assert -0.5 * weight * (1.0 - y) <= slope <= 0.5 * weight * (1.0 + y)
    if case.has_own_slack:
        assert residual_cost * residual < 1.0


@LIKELIHOODS
@pytest.mark.parametrize("weight", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("y", [-1.0, -0.2, 1.0])
def test_extreme_moments_are_met_with_finite_numbers(case, y, weight):
    variances = [0.0, 1e-12, 1.0, 1e8]
    grid = np.meshgrid([0.0, 1e-8, 50.0, -1e4], variances, variances)
    mean, inducing_variance, residual = (part.ravel() for part in grid)
    y, weight = np.full(len(mean), y), np.full(len(mean), weight)
    v = np.full((1, len(mean)), 1.0 if case.has_own_slack else 0.5)
    parts = case.likelihood.expect(y, weight, mean[None], inducing_variance[None], residual, v)
    assert all(np.isfinite(part).all() for part in parts)
    assert (parts.precision >= 0.0).all()
    assert (parts.residual_cost >= 0.0).all()


@WITHOUT_SLACK
@given(row=rows())
def test_merged_rows_are_the_sum_of_the_labels(case, row):
    y, weight, *moments = row
    merged = expect(case, y, weight, *moments)
    positive = expect(case, 1.0, 0.5 * weight * (1.0 + y), *moments)
    negative = expect(case, -1.0, 0.5 * weight * (1.0 - y), *moments)
    for together, a, b in zip(merged, positive, negative, strict=True):
        assert together == pytest.approx(a + b, rel=1e-10, abs=1e-12 * (abs(a) + abs(b)))


@LIKELIHOODS
@given(row=rows())
def test_labels_and_means_of_the_other_sign(case, row):
    y, weight, mean, *rest = row
    one, other = expect(case, y, weight, mean, *rest), expect(case, -y, weight, -mean, *rest)
    assert one[0] == pytest.approx(other[0], rel=1e-10, abs=1e-11 * weight)
    assert one[1] == pytest.approx(-other[1], rel=1e-10, abs=1e-11 * weight)
    assert one[2:] == pytest.approx(other[2:], rel=1e-9, abs=1e-11 * weight)


@WITHOUT_SLACK
@pytest.mark.parametrize("factor", [1e-6, 0.125, 3.0, 1e6])
@given(row=rows())
def test_weights_multiply_everything(case, factor, row):
    y, weight, *moments = row
    plain, scaled = expect(case, y, weight, *moments), expect(case, y, factor * weight, *moments)
    tolerance = 1e-12 * factor * weight
    assert_allclose(scaled, factor * np.array(plain), rtol=1e-11, atol=tolerance)


# --------------------------------------------------------------------------------------------------
# Polya-Gamma


@given(row=rows(), log_tilt=st.floats(-5.0, 5.0))
def test_no_tilt_is_better_than_that_of_polya_gamma(row, log_tilt):
    y, weight, mean, inducing_variance, residual, v = row
    second, c = mean**2 + inducing_variance + v * residual, np.exp(log_tilt)
    at_tilt = 0.5 * y * mean - 0.5 * polya_gamma_mean(c) * (second - c**2) - log_2_cosh_half(c)
    value = expect(POLYA_GAMMA, *row)[0]
    assert weight * at_tilt <= value + 1e-12 * weight * (1.0 + np.sqrt(second))


@given(row=rows())
def test_polya_gamma_is_below_the_logistic_expectation(row):
    assert expect(POLYA_GAMMA, *row)[0] <= expect(LOGIT, *row)[0] + 1e-10 * row[1]


@pytest.mark.parametrize("tilt", [1e-4, 0.01, 0.5, 1.0, 4.0, 20.0, 200.0])
def test_polya_gamma_precision_is_the_series_of_the_mean(tilt):
    """A PG(1, c) variable is a weighted sum of exponential ones (Polson et al. 2013, eq. 1)."""
    n_terms = 20_000
    k = np.arange(n_terms)[::-1] + 0.5
    q = tilt / (2.0 * np.pi)
    head = (1.0 / (k**2 + q**2)).sum()
    # Midpoint rule: the rest of the sum is this integral up to n_terms^-3.
    tail = np.arctan2(q, n_terms) / q
    expected = (head + tail) / (2.0 * np.pi**2)
    precision = expect(POLYA_GAMMA, 1.0, 1.0, tilt, 0.0, 0.0, 1.0)[2]
    assert precision == pytest.approx(expected, rel=1e-11, abs=0.0)


@pytest.mark.parametrize("weight", [0.5, 1.0, 7.0])
@pytest.mark.parametrize("tilt", [0.3, 1.0, 4.0, 20.0])
def test_polya_gamma_precision_is_the_slope_of_the_laplace_transform(tilt, weight):
    """E exp(-t omega) = (cosh(c/2) / cosh(sqrt(c^2 + 2t)/2))^w, by central differences."""
    t = 1e-4

    def log_transform(t):
        root = np.sqrt(tilt**2 + 2.0 * t)
        return weight * (np.log(np.cosh(0.5 * tilt)) - np.log(np.cosh(0.5 * root)))

    expected = (log_transform(-t) - log_transform(t)) / (2.0 * t)
    precision = expect(POLYA_GAMMA, -1.0, weight, -tilt, 0.0, 0.0, 1.0)[2]
    assert precision == pytest.approx(expected, rel=1e-7, abs=0.0)


# --------------------------------------------------------------------------------------------------
# Conditional Polya-Gamma


@given(row=rows(), ratio=st.floats(0.0, 2.0))
def test_no_r_is_better_than_that_of_conditional_polya_gamma(row, ratio):
    y, weight, mean, inducing_variance, residual, _ = map(np.array, row)
    at_r = conditional_value_at(
        ratio * residual, y, weight, mean, inducing_variance, residual
    ).item()
    value = expect(CONDITIONAL, *row)[0]
    assert at_r <= value + 1e-9 * (weight + abs(value))


@given(row=rows(), log_tilt=st.floats(-5.0, 5.0))
def test_conditional_is_above_tight_polya_gamma_at_any_tilt(row, log_tilt):
    y, weight, mean, inducing_variance, residual, _ = row
    c = np.exp(log_tilt)
    precision, second = polya_gamma_mean(c), mean**2 + inducing_variance
    tight = weight * (0.5 * y * mean - 0.5 * precision * (second - c**2) - log_2_cosh_half(c))
    tight -= 0.5 * np.log(1.0 + weight * precision * residual)
    assert tight <= expect(CONDITIONAL, *row)[0] + 1e-9 * weight * (1.0 + np.sqrt(second))


@given(row=rows())
def test_conditional_with_no_residual_is_logistic(row):
    y, weight, mean, inducing_variance, _, _ = row
    ours = expect(CONDITIONAL, y, weight, mean, inducing_variance, 0.0, 1.0)
    theirs = expect(LOGIT, y, weight, mean, inducing_variance, 0.0, 1.0)
    assert ours[:3] == pytest.approx(theirs[:3], rel=1e-9, abs=1e-10 * weight)


@given(
    weight=WEIGHTS,
    inducing_variance=powers(-3.0, 3.0),
    residual=powers(-2.0, 6.0),
    mean=st.floats(-9, 9),
)
def test_conditional_spends_what_the_residual_costs(weight, inducing_variance, residual, mean):
    """A larger residual costs more, but never more than under the tight slack at no tilt."""
    low, high = (
        expect(CONDITIONAL, 0.0, weight, mean, inducing_variance, k, 1.0)[0]
        for k in (residual, 1.5 * residual)
    )
    assert low > high
    none = expect(CONDITIONAL, 0.0, weight, mean, inducing_variance, 0.0, 1.0)[0]
    assert none - low < 0.5 * np.log(1.0 + 0.25 * weight * residual) + 1e-9 * (weight - none)


# --------------------------------------------------------------------------------------------------
# Constants and predictions


@LIKELIHOODS
@given(
    data=st.lists(st.tuples(LABELS, WEIGHTS), min_size=1, max_size=8), intercept=st.floats(-30, 30)
)
def test_constant_bound_is_the_best_constant(case, data, intercept):
    y, weight = np.array(data).T

    def log_likelihood(f):
        return float(weight @ case.log_likelihood(f, y))

    bound = case.likelihood.constant_bound(y, weight)
    assert isinstance(bound, float)
    assert log_likelihood(intercept) <= bound + 1e-12 * (1.0 + weight.sum())
    best = minimize_scalar(lambda f: -log_likelihood(f), bounds=(-40.0, 40.0), method="bounded")
    assert bound == pytest.approx(-best.fun, rel=1e-6, abs=1e-6 * weight.sum())
    at_zero = case.likelihood.constant_bound(y, weight, fit_prior_mean=False)
    assert at_zero == pytest.approx(log_likelihood(0.0), rel=1e-13)


@LIKELIHOODS
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_constant_bound_of_one_class_is_zero(case, label):
    assert case.likelihood.constant_bound(np.full(4, label), np.arange(1.0, 5.0)) == 0.0


@LIKELIHOODS
def test_constant_bound_by_hand(case):
    """Weighted label means 0.5 and -1 of weights 4 and 1: three positive rows, two negative."""
    bound = case.likelihood.constant_bound(np.array([0.5, -1.0]), np.array([4.0, 1.0]))
    assert bound == pytest.approx(3.0 * np.log(0.6) + 2.0 * np.log(0.4), rel=1e-14)


@LIKELIHOODS
@given(mean=st.floats(-100.0, 100.0), variance=powers(-8.0, 4.0))
def test_class_probabilities_sum_to_one(case, mean, variance):
    logs = case.likelihood.log_probabilities(np.array([[mean]]), np.array([[variance]]))
    assert logs.shape == (1, 2)
    assert (logs <= 0.0).all()
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)


@LIKELIHOODS
@pytest.mark.parametrize("variance", [0.01, 1.0, 9.0, 400.0])
def test_class_probabilities_integrate_the_likelihood(case, variance):
    """Columns are the labels -1 and +1; a fine trapezoid rule over f."""
    mean = np.array([-7.0, -0.4, 0.0, 2.5])
    logs = case.likelihood.log_probabilities(mean[None], np.full((1, 4), variance))
    deviation = np.sqrt(variance)
    step = min(0.05, 0.3 / deviation)
    z = np.arange(-14.0, 14.0 + deviation, step)
    density = np.exp(-0.5 * z**2) * step / np.sqrt(2.0 * np.pi)
    for column, label in enumerate((-1.0, 1.0)):
        f = mean[:, None] + deviation * z
        expected = np.exp(case.log_likelihood(f, label)) @ density
        assert_allclose(np.exp(logs[:, column]), expected, rtol=1e-10)
