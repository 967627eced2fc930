"""Expectations of log likelihoods against composite Gauss-Legendre rules and identities."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import erfcx, log_ndtr

from sparsegpc._core.likelihoods.expectations import (
    expected_log_cosh,
    expected_log_normal_cdf,
    expected_log_sigmoid,
)

TOLERANCE = 2e-11
# The nodes change at variance 1 (times the squared scale for log cosh) and at 8 deviations.
SEAM = [0.6, 0.8, 0.9, 1 - 1e-12, 1.0, 1 + 1e-12, 1.05, 1.2, 1.5]
VARIANCES = [0.0, 1e-12, 1e-6, 1e-2, 0.3, *SEAM, 2.0, 3.0, 8.0, 8.01, 10.0, 100.0, 1e4, 1e6, 1e9]
MEANS = np.concatenate([np.geomspace(0.3, 1e4, 9), [1.0, 2.3, 19.0, 23.0, 26.0, 30.0]])
MEANS = np.concatenate([-MEANS, [0.0], MEANS])
IN_DEVIATIONS = np.array([0.5, 2.0, 4.0, 6.0, 7.0, 7.5, 7.9, 8 - 1e-9, 8 + 1e-9, 8.1, 9.0])
IN_DEVIATIONS = np.concatenate([-IN_DEVIATIONS, IN_DEVIATIONS])

_X, _W = np.polynomial.legendre.leggauss(16)

log_variances = st.floats(np.log(1e-8), np.log(1e9))
wide_means = st.floats(-1e4, 1e4)
in_deviations = st.floats(-10.0, 10.0)


# Oracles


def log_sigmoid(z):
    below = np.logaddexp(0.0, z)
    above = np.logaddexp(0.0, -z)
    return -above, np.exp(-below), np.exp(-below - above)


def log_normal_cdf(z):
    # lambda(z) + z is 1 / (x + 2 / (x + 3 / (x + ...))) at x = -z.
    x = np.maximum(-z, 3.0)
    fraction = np.zeros_like(x)
    for k in range(120, 0, -1):
        fraction = k / (x + fraction)
    left = np.minimum(z, 0.0)
    ratio = np.where(
        z < -3.0,
        np.sqrt(2.0 / np.pi) / erfcx(-left * np.sqrt(0.5)),
        np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(z)),
    )
    return log_ndtr(z), ratio, ratio * np.where(z < -3.0, fraction, ratio + z)


def log_cosh(z, r):
    c = np.sqrt(z**2 + r)
    large = np.where(c > 0.02, c, 1.0)
    theta = np.where(c > 0.02, np.tanh(large / 2) / (2 * large), 0.25 - c**2 / 48 + c**4 / 480)
    tail = np.exp(-large)
    slope_over_c = np.where(
        c > 0.02,
        (tail / (1 + tail) ** 2 - np.tanh(large / 2) / (2 * large)) / large**2,
        -1 / 24 + c**2 / 120 - 17 * c**4 / 13440,
    )
    return np.logaddexp(c / 2, -c / 2), theta, theta * z, theta + slope_over_c * z**2


CASES = {
    "sigmoid": (expected_log_sigmoid, log_sigmoid, ()),
    "normal_cdf": (expected_log_normal_cdf, log_normal_cdf, ()),
    "cosh, r=0": (expected_log_cosh, log_cosh, (0.0,)),
    "cosh, r=0.01": (expected_log_cosh, log_cosh, (0.01,)),
    "cosh, r=7": (expected_log_cosh, log_cosh, (7.0,)),
    "cosh, r=1e6": (expected_log_cosh, log_cosh, (1e6,)),
}
cases = pytest.mark.parametrize(("function", "integrands", "r"), CASES.values(), ids=CASES)


def scale_of(r):
    return np.sqrt(1.0 + r[0] / np.pi**2) if r else 1.0


def composite_rule(mean, variance, scale):
    """Nodes and weights on panels of half a deviation, geometrically finer towards zero."""
    if variance == 0.0:
        return np.array([mean]), np.array([1.0])
    deviation = np.sqrt(variance)
    breaks = 0.6 * scale * 1.5 ** np.arange(60)
    t = (np.concatenate([-breaks, [0.0], breaks]) - mean) / deviation
    edges = np.unique(np.concatenate([t[np.abs(t) < 12.0], np.arange(-12.0, 12.1, 0.75)]))
    half = np.diff(edges) / 2.0
    t = ((edges[:-1] + half)[:, None] + half[:, None] * _X).ravel()
    weights = (half[:, None] * _W).ravel() * np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi)
    return mean + deviation * t, weights


def oracle(integrands, mean, variance, r=()):
    z, weights = composite_rule(mean, variance, scale_of(r))
    return [weights @ values for values in integrands(z, *r)]


def assert_close(results, expected, tolerance=TOLERANCE):
    for result, value in zip(results, expected, strict=True):
        error = np.abs(result - value) / np.maximum(1.0, np.abs(value))
        assert np.max(error) <= tolerance


def assert_accurate(function, integrands, mean, variance, r, tolerance=TOLERANCE):
    expected = [oracle(integrands, m, variance, r) for m in np.atleast_1d(mean)]
    assert_close(function(np.atleast_1d(mean), variance, *r), np.transpose(expected), tolerance)


@cases
@pytest.mark.parametrize(
    ("mean", "variance"), [(0.0, 0.5), (-1.3, 1.0), (2.0, 6.0), (-30.0, 100.0), (3.0, 1e4)]
)
def test_composite_rule_agrees_with_adaptive_quadrature(function, integrands, r, mean, variance):
    deviation, scale = np.sqrt(variance), scale_of(r)
    low, high = mean - 11.0 * deviation, mean + 11.0 * deviation
    points = [p for p in (-9 * scale, -2 * scale, 0.0, 2 * scale, 9 * scale) if low < p < high]
    for i, expected in enumerate(oracle(integrands, mean, variance, r)):

        def integrand(z, i=i):
            density = np.exp(-0.5 * ((z - mean) / deviation) ** 2) / deviation
            return integrands(np.array([z]), *r)[i][0] * density / np.sqrt(2.0 * np.pi)

        value, _ = quad(
            integrand, low, high, points=[*points, mean], epsabs=1e-13, epsrel=1e-12, limit=400
        )
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-12)


# Accuracy


@cases
@pytest.mark.parametrize("variance", VARIANCES)
def test_expectations_equal_a_composite_rule(function, integrands, r, variance):
    variance = variance * scale_of(r) ** 2
    mean = np.concatenate([MEANS, MEANS * scale_of(r), IN_DEVIATIONS * np.sqrt(variance)])
    assert_accurate(function, integrands, mean, variance, r)


@given(mean=in_deviations, log_variance=log_variances, log_r=st.floats(-9.0, 14.0))
@example(mean=-8.0, log_variance=0.0, log_r=0.0)
@example(mean=8.0, log_variance=20.7, log_r=0.0)
@example(mean=8.5, log_variance=20.7, log_r=0.0)
def test_expectations_are_accurate_within_some_deviations(mean, log_variance, log_r):
    variance = np.exp(log_variance)
    for function, integrands, r in CASES.values():
        r = (np.exp(log_r),) if r else ()
        scaled = variance * scale_of(r) ** 2
        assert_accurate(function, integrands, mean * np.sqrt(scaled), scaled, r)


@given(mean=wide_means, log_variance=log_variances, r=st.floats(0.0, 1e6))
def test_expectations_are_accurate_anywhere(mean, log_variance, r):
    for function, integrands, own in CASES.values():
        assert_accurate(function, integrands, mean, np.exp(log_variance), (r,) if own else own)


@given(mean=st.floats(-6.0, 6.0), variance=st.floats(0.0, 3.0), r=st.floats(0.0, 10.0))
def test_expectations_are_accurate_at_moderate_moments(mean, variance, r):
    for function, integrands, own in CASES.values():
        assert_accurate(function, integrands, mean, variance, (r,) if own else own)


@cases
def test_there_is_no_step_at_the_change_of_nodes(function, integrands, r):
    seam = scale_of(r) ** 2
    mean = np.linspace(-12.0, 12.0, 97) * scale_of(r)
    below, above = (function(mean, seam * (1.0 + step), *r) for step in (-1e-13, 1e-13))
    assert_close(below, above)
    for variance in seam * np.array([1.01, 1.3, 2.0, 7.0, 100.0, 1e5]):
        for sign in (-1.0, 1.0):
            mean = sign * 8.0 * np.sqrt(variance) * np.array([1.0 - 1e-14, 1.0 + 1e-14])
            for inside, outside in function(mean, variance, *r):
                assert outside == pytest.approx(inside, rel=TOLERANCE, abs=TOLERANCE)


# Derivatives


def difference(function, at, step):
    """Central differences of fourth order of the first array that a function returns."""
    outer = function(at + 2 * step)[0] - function(at - 2 * step)[0]
    inner = function(at + step)[0] - function(at - step)[0]
    return (8 * inner - outer) / (12 * step)


@cases
@pytest.mark.parametrize("variance", [0.2, 0.9, 1.0, 1.3, 5.0, 300.0, 1e5])
def test_results_are_derivatives_of_each_other(function, integrands, r, variance):
    scale = scale_of(r)
    variance = variance * scale**2
    deviation = np.sqrt(variance)
    mean = np.concatenate([np.linspace(-7.0, 7.0, 15), [-8.0, 8.0, -12.0, 12.0, 0.3, 0.0]])
    mean = mean * deviation
    result = function(mean, variance, *r)
    sign = 1.0 if r else -1.0
    step = 0.01 * max(scale, deviation)
    noise = 1e-12 * np.max(np.abs(result.value))
    by_mean = difference(lambda m: function(m, variance, *r), mean, step)
    assert_allclose(by_mean, result.slope, rtol=1e-8, atol=1e-8 + noise / step)
    slope_by_mean = difference(lambda m: (function(m, variance, *r).slope,), mean, step)
    assert_allclose(slope_by_mean, sign * result.curvature, rtol=1e-8, atol=1e-8)
    step = 0.01 * variance
    by_variance = difference(lambda v: function(mean, v, *r), variance, step)
    assert_allclose(by_variance, 0.5 * sign * result.curvature, rtol=1e-7, atol=1e-8 + noise / step)
    if r and r[0] > 0.0:
        by_r = difference(lambda x: function(mean, variance, x), r[0], 0.01 * r[0])
        noise = 1e-13 * np.max(np.abs(result.value)) / (0.01 * r[0])
        assert_allclose(by_r, 0.5 * result.theta, rtol=1e-7, atol=1e-9 + noise)


# Limits and identities


@cases
def test_zero_variance_gives_the_functions(function, integrands, r):
    mean = np.concatenate([MEANS, np.linspace(-40.0, 40.0, 161), [-1e5, 1e5]])
    for result, expected in zip(function(mean, 0.0, *r), integrands(mean, *r), strict=True):
        assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("variance", [0.5, 5.0, 50.0])
def test_log_sigmoid_of_a_mean_whose_square_overflows_is_the_limit(variance):
    found = expected_log_sigmoid(np.array([-1e200, 1e200]), np.array([variance, variance]))
    assert_allclose(found, [[-1e200, 0.0], [1.0, 0.0], [0.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 1e5])
def test_log_sigmoid_of_infinite_variance_is_the_limit(mean):
    largest, infinite = (expected_log_sigmoid(np.array([mean]), v) for v in (1e300, np.inf))
    assert largest.value[0] < -1e149
    assert infinite.value[0] == -np.inf
    assert_allclose([infinite.slope, infinite.curvature], largest[1:], atol=1e-12)


def test_log_cosh_at_the_origin():
    result = expected_log_cosh(np.zeros(1), np.zeros(1), np.zeros(1))
    assert_allclose(np.ravel(result), [np.log(2.0), 0.25, 0.0, 0.25], rtol=1e-15)


@given(mean=wide_means, log_variance=st.floats(-18.0, 20.7))
def test_reflection_of_the_log_sigmoid(mean, log_variance):
    variance = np.exp(log_variance)
    value, slope, curvature = expected_log_sigmoid(np.array([mean, -mean]), variance)
    scale = max(1.0, abs(mean), np.sqrt(variance))
    assert value[0] - value[1] == pytest.approx(mean, abs=1e-14 * scale + 1e-11)
    assert slope.sum() == pytest.approx(1.0, abs=1e-11)
    assert curvature[0] == pytest.approx(curvature[1], abs=1e-11)


@given(mean=wide_means, log_variance=st.floats(-18.0, 20.7), r=st.floats(0.0, 1e6))
def test_log_cosh_is_even(mean, log_variance, r):
    value, weight, slope, curvature = expected_log_cosh(
        np.array([mean, -mean]), np.exp(log_variance), r
    )
    for even in (value, weight, curvature):
        assert even[0] == pytest.approx(even[1], rel=1e-12, abs=1e-15)
    assert slope[0] == pytest.approx(-slope[1], rel=1e-12, abs=1e-12)


@given(mean=wide_means, log_variance=st.floats(-18.0, 20.7))
@example(mean=0.3, log_variance=0.01)
def test_log_cosh_without_r_is_the_log_sigmoid(mean, log_variance):
    """log sigmoid(z) = z / 2 - log 2cosh(z / 2), by different rules."""
    variance = np.exp(log_variance)
    value, slope, curvature = expected_log_sigmoid(mean, variance)
    cosh = expected_log_cosh(mean, variance, 0.0)
    assert_close(
        [0.5 * mean - cosh.value, 0.5 - cosh.slope, cosh.curvature], [value, slope, curvature]
    )


def test_huge_variances_leave_half_of_the_mass_on_each_side():
    for variance in (1e9, 1e12, 1e16):
        deviation = np.sqrt(variance)
        half_normal = deviation / np.sqrt(2.0 * np.pi)
        value, slope, _ = expected_log_sigmoid(0.0, variance)
        assert_allclose([value, slope], [-half_normal, 0.5], rtol=1e-8)
        value, slope, curvature = expected_log_normal_cdf(0.0, variance)
        assert_allclose([value, slope, curvature], [-variance / 4, half_normal, 0.5], rtol=1e-3)
        value, _, slope, _ = expected_log_cosh(0.0, variance, 1.0)
        assert_allclose([value, slope], [half_normal, 0.0], rtol=1e-7, atol=1e-12)


# Inequalities


@given(mean=wide_means, variance=st.floats(0.0, 1e9), r=st.floats(0.0, 1e6))
@example(mean=38.0, variance=1.001, r=0.0)
@example(mean=1e4, variance=1.001, r=0.0)
@example(mean=-1e4, variance=1.001, r=1e6)
def test_results_are_finite_and_within_their_bounds(mean, variance, r):
    value, slope, curvature = expected_log_sigmoid(mean, variance)
    assert -np.inf < value <= 0.0
    assert 0.0 <= slope <= 1.0
    assert 0.0 <= curvature <= 0.25 + 1e-15
    value, slope, curvature = expected_log_normal_cdf(mean, variance)
    assert -np.inf < value <= 0.0
    assert 0.0 <= slope < np.inf
    assert 0.0 <= curvature <= 1.0 + 1e-12
    value, weight, slope, curvature = expected_log_cosh(mean, variance, r)
    assert np.log(2.0) * (1 - 1e-12) <= value < np.inf
    assert 0.0 < weight <= 0.25 + 1e-15
    assert abs(slope) <= 0.5 + 1e-15
    assert 0.0 <= curvature <= weight + 1e-15


@given(mean=wide_means, log_variance=st.floats(-18.0, 20.7), r=st.floats(0.0, 1e6))
def test_jensen(mean, log_variance, r):
    """Variance lowers the expectation of a concave function and raises that of a convex one."""
    variance = np.exp(log_variance)
    for function, _, own in CASES.values():
        own = (r,) if own else ()
        sign = 1.0 if own else -1.0
        value = function(mean, variance, *own).value
        at_mean = function(mean, 0.0, *own).value
        assert sign * (value - at_mean) >= -1e-12 * max(1.0, abs(value))


# Arrays


@cases
def test_each_row_is_worked_out_on_its_own(function, integrands, r, rng):
    """Rows of all rules mixed, in several chunks, give what each gives alone."""
    variance = np.exp(rng.uniform(-10.0, 14.0, 1100))
    mean = rng.uniform(-10.0, 10.0, 1100) * np.sqrt(variance)
    together = function(mean, variance, *r)
    for i in range(0, 1100, 17):
        assert_close(function(mean[i], variance[i], *r), [f[i] for f in together], 1e-13)


def test_each_row_has_an_r_of_its_own(rng):
    mean, variance, r = rng.normal(0, 9, 40), rng.uniform(0, 90, 40), rng.uniform(0, 40, 40)
    together = expected_log_cosh(mean, variance, r)
    for i in range(40):
        expected = oracle(log_cosh, mean[i], variance[i], (r[i],))
        assert_close([field[i] for field in together], expected)


@cases
@pytest.mark.parametrize(
    ("mean_shape", "variance_shape"),
    [((), ()), ((7,), ()), ((), (3,)), ((0,), ()), ((3, 1), (4,)), ((2, 0), ())],
)
def test_moments_broadcast(function, integrands, r, rng, mean_shape, variance_shape):
    mean = np.array(rng.uniform(-5.0, 5.0, mean_shape))
    variance = np.array(rng.uniform(0.0, 9.0, variance_shape))
    results = function(mean, variance, *r)
    expected = [oracle(integrands, m, v, r) for m, v in np.broadcast(mean, variance)]
    for i, result in enumerate(results):
        assert result.shape == np.broadcast_shapes(mean_shape, variance_shape)
        assert_allclose(result.ravel(), [row[i] for row in expected], rtol=1e-9, atol=1e-10)


@cases
def test_inputs_are_left_alone_and_may_be_of_lower_precision(function, integrands, r, rng):
    mean = rng.uniform(-9.0, 9.0, 30).astype(np.float32)
    variance = rng.uniform(0.0, 9.0, 30).astype(np.float32)
    before = mean.copy(), variance.copy()
    results = function(mean, variance, *r)
    assert_array_equal(mean, before[0])
    assert_array_equal(variance, before[1])
    exact = function(mean.astype(np.float64), variance.astype(np.float64), *r)
    for result, value in zip(results, exact, strict=True):
        assert result.dtype == np.float64
        assert_array_equal(result, value)
