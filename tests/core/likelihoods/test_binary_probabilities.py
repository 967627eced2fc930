"""Gaussian expectations of the sigmoid against a fine trapezoid rule and 20-digit constants."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.likelihoods.binary_probabilities import NARROW_VARIANCE, log_expected_sigmoid

TOLERANCE = 1e-9
SEAM = [NARROW_VARIANCE * factor for factor in (0.5, 0.7, 0.85, 0.95, 1 - 1e-12, 1.0)]
SEAM += [NARROW_VARIANCE * factor for factor in (1 + 1e-12, 1.02, 1.2, 1.5, 2.0)]
VARIANCES = [1e-8, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 30.0, 100.0, 1e3, 1e4]

# log E[sigmoid] by adaptive quadrature with 40 digits (mpmath).
CONSTANTS = [
    (0.5, 1e-08, -0.4740769846424404569),
    (-60, 1e-08, -59.999999995),
    (-3, 0.5, -2.8452095217306536813),
    (-2, 1, -1.861350614808759083),
    (1.5, 1.25, -0.26024867155615324745),
    (-3, 2, -2.3929585881746406892),
    (-2, 2.5, -1.6305087286265963044),
    (2, 2.9375, -0.22967716784532363965),
    (-2, 3, -1.5775500068784593118),
    (-4, 3, -2.9161649766579422362),
    (-17, 3.5, -15.250007887310455795),
    (2, 3.0625, -0.23285878429073918462),
    (-800, 1, -799.5),
    (-200, 4, -198.0),
    (-200, 100, -150.0),
    (-60, 100, -20.07987084183614574),
    (-150, 100, -100.00000044641012109),
    (1, 1e4, -0.68520143112193114235),
    (-60, 1e4, -1.2935839370000153902),
    (60, 1e4, -0.32059927525062345266),
    (-800, 1e4, -35.002731861562611782),
]

means = st.floats(-60.0, 60.0)
log_variances = st.floats(np.log(1e-8), np.log(1e4))


def trapezoid(mean, variance):
    """Log of the expectation by equal steps in the standardised variable.

    The integrand is analytic in a strip of half-width pi / deviation around the real line, so the
    rule converges exponentially. It spans the peak of the Gaussian and, for negative means, the
    mass that the growth of e^f moves towards f = mean + variance.
    """
    deviation = np.sqrt(variance)
    step = min(0.05, 0.3 / deviation)
    shifted = min(deviation, -mean / deviation) if mean < 0.0 else 0.0
    z = np.arange(-14.0, 14.0 + shifted, step)
    log_values = -0.5 * z**2 - np.logaddexp(0.0, -(mean + deviation * z))
    peak = log_values.max()
    return peak + np.log(np.exp(log_values - peak).sum() * step / np.sqrt(2.0 * np.pi))


def assert_accurate(mean, variance, log_expected, tolerance=TOLERANCE):
    """The difference of logarithms is the relative error of the expectation."""
    values = log_expected_sigmoid(mean, variance)
    assert_allclose(values, log_expected, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize(("mean", "variance", "expected"), CONSTANTS)
def test_trapezoid_oracle_reproduces_the_constants(mean, variance, expected):
    assert trapezoid(mean, variance) == pytest.approx(expected, rel=1e-15, abs=1e-12)


@pytest.mark.parametrize(("mean", "variance", "expected"), CONSTANTS)
def test_expected_sigmoid_equals_the_constants(mean, variance, expected):
    assert_accurate(np.array([mean]), np.array([variance]), [expected])


@pytest.mark.parametrize("variance", [*VARIANCES, *SEAM])
def test_expected_sigmoid_equals_a_fine_trapezoid(variance):
    mean = np.concatenate([np.linspace(-60.0, 60.0, 25), np.linspace(-6.0, 6.0, 25), [-17.3]])
    assert_accurate(mean, variance, [trapezoid(m, variance) for m in mean])


@given(mean=means, log_variance=log_variances)
@example(mean=-2.3, log_variance=float(np.log(NARROW_VARIANCE)))
def test_expected_sigmoid_is_accurate_anywhere(mean, log_variance):
    variance = np.exp(log_variance)
    assert_accurate(mean, variance, trapezoid(mean, variance))


@given(mean=st.floats(-6.0, 6.0), variance=st.floats(0.1, 2.0 * NARROW_VARIANCE))
def test_expected_sigmoid_is_accurate_at_moderate_variances(mean, variance):
    assert_accurate(mean, variance, trapezoid(mean, variance))


@pytest.mark.parametrize(
    ("mean", "variance"),
    [
        (-800.0, 1.0),
        (-800.0, 3.0),
        (-800.0, 3.5),
        (-800.0, 100.0),
        (-300.0, 200.0),
        (-200.0, 100.0),
        (-200.0, 4.0),
        (-1e4, 1e4),
        (-1.5e4, 1e4),
        (-1e5, 1e4),
        (0.0, 1e4),
        (-0.0, 1e4),
        (800.0, 1.0),
        (800.0, 1e4),
    ],
)
def test_expected_sigmoid_is_accurate_far_in_the_tails(mean, variance):
    assert_accurate(mean, variance, trapezoid(mean, variance))


@pytest.mark.parametrize("mean", [-1e5, -1e4, -3e3, -60.0, -1.0, 0.0, 1.0, 1e3])
@pytest.mark.parametrize("variance", [1e6, 1e8])
def test_expected_sigmoid_is_accurate_at_huge_variances(mean, variance):
    assert_accurate(mean, variance, trapezoid(mean, variance))


@pytest.mark.parametrize("variance", [0.0, *VARIANCES, *SEAM, 1e8])
def test_probabilities_of_both_classes_sum_to_one(variance):
    mean = np.linspace(-60.0, 60.0, 241)
    total = np.exp(log_expected_sigmoid(mean, variance)) + np.exp(
        log_expected_sigmoid(-mean, variance)
    )
    assert_allclose(total, 1.0, rtol=0.0, atol=1e-12)


@given(mean=st.floats(-1e5, 1e5), log_variance=st.floats(-18.0, 18.0))
def test_reflection_gives_the_complement(mean, log_variance):
    positive, negative = log_expected_sigmoid(np.array([mean, -mean]), np.exp(log_variance))
    assert np.exp(positive) + np.exp(negative) == pytest.approx(1.0, abs=1e-12)


def test_each_value_does_not_depend_on_the_others():
    mean, variance = (part.ravel() for part in np.meshgrid([-3.0, 0.0, 2.0], [0.1, 1.0, 9.0]))
    together = log_expected_sigmoid(mean, variance)
    alone = [log_expected_sigmoid(m, v) for m, v in zip(mean, variance, strict=True)]
    assert_allclose(together, alone, rtol=1e-14)


@pytest.mark.parametrize("mean", [0.0, -0.0])
def test_centred_gaussian_gives_one_half(mean):
    variance = np.array([0.0, *VARIANCES, *SEAM, 1e6, 1e8])
    assert_accurate(np.full(variance.shape, mean), variance, -np.log(2.0), tolerance=2e-12)


@pytest.mark.parametrize("variance", [0.0, *VARIANCES, *SEAM, 1e8])
def test_expected_sigmoid_increases_with_the_mean(variance):
    values = log_expected_sigmoid(np.linspace(-60.0, 60.0, 1201), variance)
    # Strictly where the increments stand out of rounding.
    assert (np.diff(values[:601]) > 0.0).all()
    assert (np.diff(values) >= -1e-15).all()


@given(mean=st.floats(-1e5, 1e5), step=st.floats(1e-3, 1e3), log_variance=st.floats(-18.0, 18.0))
def test_expected_sigmoid_never_falls_with_the_mean(mean, step, log_variance):
    low, high = log_expected_sigmoid(np.array([mean, mean + step]), np.exp(log_variance))
    assert low <= high + 1e-15 + 4e-16 * abs(low)


def test_more_variance_moves_the_probability_towards_one_half():
    variance = np.concatenate([[0.0], np.geomspace(1e-4, 1e8, 400), SEAM])
    variance.sort()
    for mean in (-30.0, -3.0, -0.5):
        values = log_expected_sigmoid(mean, variance)
        assert (np.diff(values) >= -1e-10).all()
        assert values[-1] < -np.log(2.0)


def test_zero_variance_gives_the_sigmoid():
    mean = np.concatenate([np.linspace(-60.0, 60.0, 121), [-1e5, -800.0, 800.0, 1e5]])
    expected = -np.logaddexp(0.0, -mean)
    assert_allclose(log_expected_sigmoid(mean, 0.0), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e-8, 1.0, *SEAM, 10.0, 1e4, 1e8])
def test_expected_sigmoid_is_finite_and_at_most_one(variance):
    mean = np.concatenate([np.linspace(-1e5, 1e5, 401), np.linspace(-50.0, 50.0, 401)])
    values = log_expected_sigmoid(mean, variance)
    assert np.isfinite(values).all()
    assert (values <= 0.0).all()


@given(mean=st.floats(-1e5, 1e5), variance=st.floats(0.0, 1e8))
def test_expected_sigmoid_is_a_probability(mean, variance):
    value = log_expected_sigmoid(mean, variance)
    assert np.isfinite(value)
    assert value <= 0.0


def test_expected_sigmoid_has_no_step_at_the_change_of_rule():
    mean = np.linspace(-40.0, 40.0, 161)
    below = log_expected_sigmoid(mean, NARROW_VARIANCE)
    above = log_expected_sigmoid(mean, NARROW_VARIANCE * (1.0 + 1e-13))
    assert_allclose(above, below, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("variance", [NARROW_VARIANCE, 5.0, 1e4])
def test_expected_sigmoid_has_no_step_at_mean_zero(variance):
    below, above = log_expected_sigmoid(np.array([-1e-12, 1e-12]), variance)
    assert above == pytest.approx(below, abs=2e-12)


def test_each_row_is_worked_out_on_its_own(rng):
    """Rows of all rules mixed give what each gives alone."""
    mean = rng.uniform(-60.0, 60.0, 40)
    variance = np.exp(rng.uniform(-10.0, 9.0, 40))
    alone = [float(log_expected_sigmoid(m, v)) for m, v in zip(mean, variance, strict=True)]
    assert_allclose(log_expected_sigmoid(mean, variance), alone, rtol=1e-13)


@pytest.mark.parametrize(
    ("mean_shape", "variance_shape"),
    [((), ()), ((7,), ()), ((0,), ()), ((3, 1), (4,)), ((2, 0), ())],
)
def test_expected_sigmoid_broadcasts(rng, mean_shape, variance_shape):
    mean = np.array(rng.uniform(-5.0, 5.0, mean_shape))
    variance = np.array(rng.uniform(0.0, 9.0, variance_shape))
    values = log_expected_sigmoid(mean, variance)
    assert values.shape == np.broadcast_shapes(mean_shape, variance_shape)
    pairs = np.broadcast(mean, variance)
    expected = [trapezoid(m, v) for m, v in pairs]
    assert_allclose(values.ravel(), expected, rtol=0.0, atol=1e-6)


def test_expected_sigmoid_does_not_modify_its_inputs(rng):
    mean, variance = rng.uniform(-9.0, 9.0, 20), rng.uniform(0.0, 9.0, 20)
    before = mean.copy(), variance.copy()
    log_expected_sigmoid(mean, variance)
    assert_array_equal(mean, before[0])
    assert_array_equal(variance, before[1])


def test_lower_precision_input_is_worked_out_in_float64():
    values = log_expected_sigmoid(np.float32([-2.0, 1.0]), np.float32([4.0, 0.5]))
    assert values.dtype == np.float64
    assert_allclose(values, [trapezoid(-2.0, 4.0), trapezoid(1.0, 0.5)], rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("variance", [1e9, 1e16, 1e18, 1e100, 1e300])
def test_half_at_mean_zero_under_any_variance(variance):
    value = np.exp(log_expected_sigmoid(np.array([0.0]), np.array([variance])))
    np.testing.assert_allclose(value, 0.5, rtol=1e-12)
