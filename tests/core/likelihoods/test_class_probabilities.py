"""Class probabilities against tensor-product sums, the exact binary integral and simulation."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_expit, logsumexp, softmax

from sparsegpc._core.likelihoods import class_probabilities
from sparsegpc._core.likelihoods.binary_probabilities import log_expected_sigmoid
from sparsegpc._core.likelihoods.class_probabilities import (
    expected_logistic_softmax,
    expected_softmax,
)

TOLERANCE = 1e-11
BOTH = pytest.mark.parametrize("expected", [expected_softmax, expected_logistic_softmax])
LOG_RATES = {expected_softmax: np.positive, expected_logistic_softmax: log_expit}
LINKS = {
    expected_softmax: class_probabilities._SOFTMAX,
    expected_logistic_softmax: class_probabilities._LOGISTIC,
}
# Deviations of every rule and of the changes between them.
DEVIATIONS = [
    0.0,
    0.01,
    0.1,
    0.3,
    0.39,
    0.41,
    0.5,
    0.85,
    1.0,
    2.0,
    4.0,
    7.9,
    8.1,
    12.0,
    30.0,
    100.0,
]

means = st.floats(-100.0, 100.0)
variances = st.one_of(st.just(0.0), st.floats(np.log(1e-8), np.log(1e4)).map(np.exp))


def latents(min_classes=2, max_classes=6):
    """Lists of (mean, variance), one for each class."""
    pair = st.tuples(means, variances)
    return st.lists(pair, min_size=min_classes, max_size=max_classes)


def columns(pairs):
    """Arrays (C, 1) of the means and the variances."""
    return np.array(pairs).T[:, :, None]


def equal_steps(mean, variance):
    """Nodes and weights of a trapezoid rule of one Gaussian.

    The links have no pole within pi of the real axis, so steps of 0.5 are exact to rounding.
    """
    deviation = np.sqrt(variance)
    step = 0.5 / max(deviation, 1.0)
    z = np.arange(-9.0, 9.0 + step, step)
    weight = np.exp(-0.5 * z**2)
    return mean + deviation * z, weight / weight.sum()


def tensor_probabilities(log_rate, mean, variance):
    """Probabilities of one row by a sum over all combinations of one-dimensional nodes."""
    rules = [equal_steps(m, v) for m, v in zip(mean, variance, strict=True)]
    rates = [log_rate(f) for f, _ in rules]
    weights = [weight for _, weight in rules]
    grid = np.meshgrid(*rates, indexing="ij", sparse=True)
    probabilities = []
    for own in grid:
        value = 1.0 / sum(np.exp(np.clip(other - own, -700.0, 300.0)) for other in grid)
        for weight in weights:
            value = np.tensordot(weight, value, axes=(0, 0))
        probabilities.append(float(value))
    return np.array(probabilities)


def binary_softmax(mean, variance):
    """Exact probabilities of two classes, (N, 2), by the sigmoid of the difference."""
    total = variance.sum(axis=0)
    return np.exp(
        np.stack(
            [
                log_expected_sigmoid(mean[0] - mean[1], total),
                log_expected_sigmoid(mean[1] - mean[0], total),
            ],
            axis=1,
        )
    )


def assert_accurate(values, exact, relative=1e-6):
    """Absolutely everywhere; relatively for probabilities that are not tiny."""
    assert_allclose(values, exact, rtol=0.0, atol=TOLERANCE)
    seen = exact > 1e-12
    assert_allclose(values[seen], exact[seen], rtol=relative)


@pytest.mark.parametrize("first", DEVIATIONS)
def test_two_classes_of_softmax_are_the_sigmoid_of_their_difference(first):
    difference = np.concatenate([np.linspace(-100.0, 100.0, 21), np.linspace(-8.0, 8.0, 15)])
    difference, second = map(np.ravel, np.meshgrid(difference, DEVIATIONS))
    mean = np.stack([0.3 * difference, -0.7 * difference])
    variance = np.stack([np.full(len(difference), first), second]) ** 2
    assert_accurate(expected_softmax(mean, variance), binary_softmax(mean, variance))


@given(pairs=latents(2, 2))
@example(pairs=[(-30.0, 0.01), (0.0, 0.02)])
@example(pairs=[(-28.0, 1.0), (0.0, 1.0)])
@example(pairs=[(0.0, 1e4), (0.0, 0.0)])
def test_two_classes_of_softmax_are_accurate_anywhere(pairs):
    mean, variance = columns(pairs)
    assert_accurate(expected_softmax(mean, variance), binary_softmax(mean, variance))


@BOTH
@pytest.mark.parametrize(
    ("mean", "variance"),
    [
        ([0.0, 0.0], [1.0, 2.0]),
        ([-3.0, 4.0], [0.05, 0.3]),
        ([-3.0, 4.0], [0.05, 3.0]),
        ([10.0, -20.0], [16.0, 9.0]),
        ([-60.0, -50.0], [16.0, 0.1]),
        ([-45.0, -35.0], [4.0, 4.0]),
        ([30.0, -9.0], [4.0, 81.0]),
        ([20.0, -30.0], [400.0, 0.09]),
        ([-40.0, 5.0], [900.0, 100.0]),
        ([-100.0, 0.0], [2500.0, 2500.0]),
        ([0.0, 1.0, -1.0], [0.2, 1.0, 3.0]),
        ([-6.0, 3.0, 2.0], [4.0, 0.01, 0.5]),
        ([-45.0, -38.0, -60.0], [6.0, 6.0, 6.0]),
        ([5.0, 8.0, 2.0], [9.0, 0.15, 0.17]),
        ([0.5, -1.0, 2.0, 0.1], [0.5, 1.0, 0.2, 0.04]),
    ],
)
def test_probabilities_equal_a_tensor_product_sum(expected, mean, variance):
    values = expected(np.array(mean)[:, None], np.array(variance)[:, None])[0]
    exact = tensor_probabilities(LOG_RATES[expected], mean, variance)
    assert_accurate(values, exact)


def test_wide_logistic_classes_equal_a_tensor_product_sum():
    mean, variance = [-30.0, 40.0], [1e4, 4e3]
    values = expected_logistic_softmax(np.array(mean)[:, None], np.array(variance)[:, None])[0]
    assert_accurate(values, tensor_probabilities(log_expit, mean, variance))


@pytest.mark.parametrize("n_classes", [2, 10, 100])
@pytest.mark.parametrize("deviation", DEVIATIONS[1:])
def test_one_random_class_among_fixed_ones(rng, n_classes, deviation):
    """Classes without variance act as one, of their summed rate."""
    mean = rng.uniform(-20.0, 20.0, (n_classes, 12))
    variance = np.zeros_like(mean)
    variance[0] = deviation**2
    fixed = logsumexp(mean[1:], axis=0)
    values = expected_softmax(mean, variance)[:, 0]
    assert_accurate(values, np.exp(log_expected_sigmoid(mean[0] - fixed, deviation**2)))

    rate = expit(mean[1:]).sum(axis=0)
    values = expected_logistic_softmax(mean, variance)[:, 0]
    exact = np.empty(len(values))
    for n, m in enumerate(mean[0]):
        # The pole of sigma / (sigma + rate) has imaginary part pi.
        f, weight = equal_steps(m, deviation**2)
        exact[n] = weight @ (expit(f) / (expit(f) + rate[n]))
    assert_accurate(values, exact)


@BOTH
@pytest.mark.parametrize("n_classes", [3, 10])
def test_probabilities_agree_with_simulation(rng, expected, n_classes):
    mean = rng.uniform(-6.0, 6.0, (n_classes, 8))
    variance = np.exp(rng.uniform(-6.0, 6.0, (n_classes, 8)))
    values = expected(mean, variance)
    n_draws = 40_000
    for n in range(8):
        f = mean[:, n] + np.sqrt(variance[:, n]) * rng.standard_normal((n_draws, n_classes))
        draws = softmax(LOG_RATES[expected](f), axis=1)
        error = draws.std(axis=0) / np.sqrt(n_draws)
        assert (np.abs(values[n] - draws.mean(axis=0)) < 5.0 * error + 1e-6).all()


@BOTH
@given(pairs=latents())
@example(pairs=[(0.0, 0.0)] * 2)
@example(pairs=[(-40.0, 0.0), (-40.0, 1e4), (100.0, 1e-8)])
@example(pairs=[(-100.0, 1e4)] * 6)
def test_integrals_sum_to_one_before_they_are_normalised(expected, pairs):
    mean, variance = columns(pairs)
    integrals = class_probabilities._integrals(mean, variance, LINKS[expected])
    assert_allclose(integrals.sum(axis=1), 1.0, rtol=0.0, atol=1e-10)


@BOTH
@pytest.mark.parametrize("variance", [64.0, 1e4])
def test_integrals_of_many_wide_classes_sum_to_one(rng, expected, variance):
    """The product of many H rises more steeply than each of them."""
    mean = rng.uniform(-100.0, 100.0, (100, 10))
    mean[:, 0] = 0.0
    variance = np.full_like(mean, variance)
    integrals = class_probabilities._integrals(mean, variance, LINKS[expected])
    assert_allclose(integrals.sum(axis=1), 1.0, rtol=0.0, atol=1e-11)


def test_panels_grow_where_only_wide_classes_are_left(monkeypatch):
    """A narrow class among wide ones does not demand short panels over all of their range."""
    panels = []
    original = class_probabilities._panel_integrals

    def counted(mean, deviation, start, length, link, lattice):
        panels.append(length)
        return original(mean, deviation, start, length, link, lattice)

    monkeypatch.setattr(class_probabilities, "_panel_integrals", counted)
    mean, variance = np.zeros((3, 1)), np.array([[0.01], [1e4], [1e4]])
    expected_softmax(mean, variance)
    assert 3 <= len(panels) <= 10


@BOTH
@given(pairs=latents(2, 8))
def test_probabilities_are_probabilities(expected, pairs):
    values = expected(*columns(pairs))
    assert values.shape == (1, len(pairs))
    assert (values >= 0.0).all()
    assert (values <= 1.0).all()
    assert_allclose(values.sum(axis=1), 1.0, rtol=1e-14)


@BOTH
@given(pairs=latents(), step=st.floats(1e-3, 50.0))
def test_probability_grows_with_its_own_mean(expected, pairs, step):
    low, (mean, variance) = expected(*columns(pairs))[0], columns(pairs)
    mean[0] += step
    high = expected(mean, variance)[0]
    assert high[0] >= low[0] - TOLERANCE
    assert (high[1:] <= low[1:] + TOLERANCE).all()


@BOTH
def test_probability_grows_strictly_where_it_can(expected):
    own = np.linspace(-8.0, 8.0, 161)
    mean = np.stack([own, np.zeros_like(own), np.ones_like(own)])
    variance = np.array([0.5, 2.0, 0.1])[:, None]
    assert (np.diff(expected(mean, variance)[:, 0]) > 0.0).all()


@BOTH
def test_no_variance_gives_the_link_itself(rng, expected):
    mean = np.concatenate([rng.uniform(-3.0, 3.0, (5, 20)), rng.uniform(-99.0, 99.0, (5, 20))], 1)
    exact = softmax(LOG_RATES[expected](mean), axis=0).T
    # Also of the tiniest ones, so their logarithms are right.
    assert exact.min() < 1e-40
    assert_allclose(expected(mean, np.zeros_like(mean)), exact, rtol=TOLERANCE)


@BOTH
@pytest.mark.parametrize("n_classes", [2, 7, 100])
def test_equal_classes_are_equally_probable(expected, n_classes):
    mean, deviation = np.meshgrid([-100.0, -40.0, -1.0, 0.0, 10.0, 100.0], DEVIATIONS)
    shape = (n_classes, mean.size)
    values = expected(
        np.broadcast_to(mean.ravel(), shape), np.broadcast_to(deviation.ravel() ** 2, shape)
    )
    assert_allclose(values, 1.0 / n_classes, rtol=1e-13)


@BOTH
def test_permuting_classes_permutes_columns(rng, expected):
    mean = rng.uniform(-9.0, 9.0, (6, 30))
    variance = np.exp(rng.uniform(-9.0, 9.0, (6, 30)))
    order = rng.permutation(6)
    permuted = expected(mean[order], variance[order])
    assert_allclose(permuted, expected(mean, variance)[:, order], rtol=1e-9, atol=1e-13)


@given(pairs=latents(), shift=st.floats(-1e3, 1e3))
def test_softmax_depends_on_differences_only(pairs, shift):
    mean, variance = columns(pairs)
    assert_allclose(
        expected_softmax(mean + shift, variance),
        expected_softmax(mean, variance),
        rtol=0.0,
        atol=TOLERANCE,
    )


def test_softmax_keeps_small_differences_of_huge_means():
    mean = np.array([[0.0, 3.0, -20.0], [1.0, 1.0, 4.0]])
    variance = np.array([[0.1, 4.0, 90.0], [0.0, 0.3, 2.0]])
    values = expected_softmax(mean + 2.0**40, variance)
    assert_allclose(values, expected_softmax(mean, variance), rtol=0.0, atol=TOLERANCE)


def test_logistic_softmax_is_softmax_far_below_zero(rng):
    mean = rng.uniform(-75.0, -65.0, (4, 20))
    variance = rng.uniform(0.0, 4.0, (4, 20))
    values = expected_logistic_softmax(mean, variance)
    assert_allclose(values, expected_softmax(mean, variance), rtol=1e-8, atol=TOLERANCE)


@BOTH
def test_a_hopeless_class_changes_nothing(rng, expected):
    mean, variance = rng.uniform(-5.0, 5.0, (3, 20)), np.exp(rng.uniform(-4.0, 4.0, (3, 20)))
    more = expected(
        np.concatenate([mean, np.full((1, 20), -1e3)]), np.concatenate([variance, np.ones((1, 20))])
    )
    assert_allclose(more[:, :3], expected(mean, variance), rtol=0.0, atol=TOLERANCE)
    assert (more[:, 3] < 1e-30).all()


@pytest.mark.parametrize("variance", [0.3, 3.0, 6.0])
def test_tiny_probability_keeps_its_logarithm(variance):
    """Of a class far below, E[e^f] E[e^-f'] is all but exact."""
    mean = np.array([[-60.0, -100.0, -200.0], [0.0, 0.0, 0.0]])
    values = expected_softmax(mean, np.full_like(mean, variance))
    assert_allclose(np.log(values[:, 0]), mean[0] + variance, rtol=1e-9)


@BOTH
@pytest.mark.parametrize("n_classes", [2, 100])
def test_extreme_inputs_give_finite_probabilities(rng, expected, n_classes):
    mean = rng.choice([-100.0, 0.0, 100.0], (n_classes, 20))
    variance = rng.choice([0.0, 1e-12, 0.16, 64.0, 1e4], (n_classes, 20))
    integrals = class_probabilities._integrals(mean, variance, LINKS[expected])
    assert np.isfinite(integrals).all()
    assert_allclose(integrals.sum(axis=1), 1.0, rtol=0.0, atol=1e-10)
    values = expected(mean, variance)
    assert ((values >= 0.0) & (values <= 1.0)).all()


@BOTH
def test_inputs_beyond_the_range_give_finite_probabilities(expected):
    mean = np.array([[1e5, -1e5, 0.0, 3.0], [-1e5, -1e5, 0.0, 2.0]])
    variance = np.array([[0.0, 1.0, 1e8, 1e8], [0.0, 1.0, 1e8, 0.01]])
    values = expected(mean, variance)
    assert_allclose(values.sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(values[1:3], 0.5, rtol=1e-12)


@BOTH
def test_each_row_is_worked_out_on_its_own(rng, expected):
    """Rows of all rules, in several blocks, have the probabilities that each has alone."""
    mean = rng.uniform(-30.0, 30.0, (40, 250))
    variance = np.exp(rng.uniform(-10.0, 9.0, (40, 250)))
    values = expected(mean, variance)
    for n in (0, 101, 102, 249):
        alone = expected(mean[:, n : n + 1], variance[:, n : n + 1])[0]
        assert_allclose(values[n], alone, rtol=1e-9, atol=1e-15)


@BOTH
def test_inputs_are_neither_modified_nor_demanded_in_float64(rng, expected):
    mean, variance = rng.uniform(-9.0, 9.0, (3, 5)), rng.uniform(0.0, 9.0, (3, 5))
    mean.flags.writeable = variance.flags.writeable = False
    values = expected(mean, variance)
    single = expected(mean.astype(np.float32), variance.astype(np.float32))
    assert single.dtype == np.float64
    assert_allclose(single, values, rtol=0.0, atol=1e-5)


@BOTH
def test_no_rows_and_one_class(expected):
    assert expected(np.empty((3, 0)), np.empty((3, 0))).shape == (0, 3)
    assert_array_equal(expected(np.array([[5.0, -5.0]]), np.array([[1.0, 0.0]])), 1.0)
