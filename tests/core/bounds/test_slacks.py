"""Slacks as the best values of a sum over rows, and scales that settle with their precisions.

Nothing here names a slack but the values by hand: what is tested holds for each in `SLACKS`.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsegpc._core.bounds.slacks import SLACKS, settle_scales
from sparsegpc._core.likelihoods.binary import BernoulliLogit, BernoulliProbit, PolyaGammaLogit
from sparsegpc._core.likelihoods.gaussian import KnownNoise
from sparsegpc._core.likelihoods.multiclass import LogisticSoftmax
from tests.core.helpers import SLACK, central_difference, slacks_where

SEED = st.integers(0, 2**31)


def powers(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


# From rows that the points explain to rows that they know nothing of.
RATIOS = st.lists(st.just(0.0) | powers(-8.0, 6.0), min_size=1, max_size=12).map(np.array)


def value_of(slack, ratio):
    """Return the slack of rows of these ratios."""
    return slack.value(slack.row_term(ratio).sum(), len(ratio))


def scales_of(slack, ratio):
    """Return the scale of each of these rows, if they are all there are."""
    return np.broadcast_to(slack.scale(ratio, ratio.mean()), ratio.shape)


def value_at(v, ratio):
    """Return what any scales pay, by the definition."""
    return -0.5 * (v * ratio - np.log(v) + v - 1.0).sum()


def has_scale_of_row(slack):
    """Return whether the scale of a row depends on its own ratio."""
    one, other = np.broadcast_to(slack.scale(np.array([0.1, 3.0]), 2.0), 2)
    return one != other


UNIT = slacks_where(lambda slack: slack.has_unit_scale)
NOT_UNIT = slacks_where(lambda slack: not slack.has_unit_scale)
OF_ROW = slacks_where(has_scale_of_row)
NOT_OF_ROW = slacks_where(lambda slack: not has_scale_of_row(slack))
SUM_OVER_ROWS = slacks_where(lambda slack: slack.is_sum_over_rows)


# --------------------------------------------------------------------------------------------------
# Values and scales


@pytest.mark.parametrize(
    ("name", "expected"),
    [("standard", -2.0), ("spherical", -np.log(3.0)), ("tight", -0.5 * np.log(8.0))],
)
def test_values_by_hand(name, expected):
    assert_allclose(value_of(SLACKS[name], np.array([1.0, 3.0])), expected, rtol=1e-15)


@SLACK
@given(ratio=RATIOS)
def test_value_is_what_its_scales_pay(slack, ratio):
    expected = value_at(scales_of(slack, ratio), ratio)
    assert_allclose(value_of(slack, ratio), expected, rtol=1e-12, atol=1e-14 * len(ratio))


@SLACK
@given(ratio=RATIOS)
def test_scales_are_between_zero_and_one_and_the_value_is_not_positive(slack, ratio):
    v = scales_of(slack, ratio)
    assert (v > 0.0).all()
    assert (v <= 1.0).all()
    assert value_of(slack, ratio) <= 0.0


@SLACK
def test_nothing_is_paid_where_nothing_is_missed(slack):
    assert value_of(slack, np.zeros(4)) == 0.0
    assert_array_equal(scales_of(slack, np.zeros(4)), np.ones(4))


@NOT_UNIT
@given(ratio=RATIOS, size=st.floats(0.01, 2.0), sign=st.sampled_from([-1.0, 1.0]))
def test_any_other_common_scale_is_worse(slack, ratio, size, sign):
    best = value_of(slack, ratio)
    assert value_at(scales_of(slack, ratio) * np.exp(sign * size), ratio) < best


@OF_ROW
@given(ratio=RATIOS, size=st.floats(0.01, 2.0), sign=st.sampled_from([-1.0, 1.0]))
def test_any_other_scale_of_a_row_is_worse(slack, ratio, size, sign):
    best, v = value_of(slack, ratio), scales_of(slack, ratio)
    for row in range(len(ratio)):
        other = v.copy()
        other[row] *= np.exp(sign * size)
        assert value_at(other, ratio) < best


@SLACK
@given(seed=SEED, exponents=st.tuples(st.floats(-2.0, 3.0), st.floats(-2.0, 3.0)).map(sorted))
def test_scales_are_minus_twice_the_slopes_of_the_value(slack, seed, exponents):
    """W.r.t. the logarithms of the ratios, which differ by orders of magnitude."""
    ratio = 10.0 ** np.random.RandomState(seed).uniform(*exponents, 6)
    by_log_ratio = central_difference(lambda logs: value_of(slack, np.exp(logs)), np.log(ratio))
    rounding = 1e-11 * (1.0 + abs(value_of(slack, ratio)))
    assert_allclose(scales_of(slack, ratio) * ratio, -2.0 * by_log_ratio, rtol=1e-8, atol=rounding)


@given(ratio=RATIOS)
def test_the_tightest_come_first(ratio):
    values = [value_of(SLACKS[name], ratio) for name in ("tight", "spherical", "standard")]
    for tighter, looser in pairwise(values):
        assert tighter >= looser - 1e-13 * abs(looser)


@SLACK
@given(ratio=RATIOS)
def test_none_is_above_the_tight_one(slack, ratio):
    best = value_of(SLACKS["tight"], ratio)
    assert value_of(slack, ratio) <= best + 1e-13 * abs(best)


def test_names_that_users_give_are_in_this_order():
    assert [name for name in SLACKS if name in ("standard", "spherical", "tight")] == [
        "tight",
        "spherical",
        "standard",
    ]


# --------------------------------------------------------------------------------------------------
# What a slack says of itself


@UNIT
@given(ratio=RATIOS)
def test_unit_scales_are_one_at_all_ratios(slack, ratio):
    assert_array_equal(scales_of(slack, ratio), np.ones(len(ratio)))


@SLACK
def test_unit_scales_are_called_so(slack):
    is_one = scales_of(slack, np.array([0.5, 2.0])) == 1.0
    assert slack.has_unit_scale == is_one.all()


def values_of_each(slack, ratio):
    return sum(value_of(slack, ratio[k : k + 1]) for k in range(len(ratio)))


@SUM_OVER_ROWS
@given(ratio=RATIOS)
def test_sums_over_rows_are_the_sums_of_those_of_each(slack, ratio):
    assert_allclose(value_of(slack, ratio), values_of_each(slack, ratio), rtol=1e-12)


@SLACK
def test_sums_over_rows_are_called_so(slack):
    ratio = np.array([0.1, 3.0])
    is_sum = abs(value_of(slack, ratio) - values_of_each(slack, ratio)) < 1e-12
    assert slack.is_sum_over_rows == is_sum


@SLACK
@given(ratio=RATIOS, factor=powers(-4.0, 4.0))
def test_rescaled_is_the_sum_of_rescaled_ratios_where_the_sum_tells(slack, ratio, factor):
    """It does where the terms are in proportion to the ratios; elsewhere it is left alone."""
    total = slack.row_term(ratio).sum()
    probe = np.array([0.5, 2.0])
    if np.allclose(slack.row_term(3.0 * probe), 3.0 * slack.row_term(probe), rtol=1e-12):
        expected = slack.row_term(factor * ratio).sum()
        assert_allclose(slack.rescaled(total, factor), expected, rtol=1e-12)
    else:
        assert slack.rescaled(total, factor) == total


@SLACK
def test_costs_are_not_changed_and_terms_are_those_of_rows(slack, rng):
    ratio = rng.uniform(0.0, 4.0, 7)
    ratio.flags.writeable = False
    terms = slack.row_term(ratio)
    assert terms.shape == (7,)
    assert_allclose(terms[2:4], slack.row_term(ratio[2:4]), rtol=1e-15)
    v = slack.scale(ratio, ratio.mean())
    assert np.shape(v) in ((), (7,))
    assert_allclose(np.broadcast_to(v, 7)[2:4], slack.scale(ratio[2:4], ratio.mean()), rtol=1e-15)


# --------------------------------------------------------------------------------------------------
# Scales and precisions that follow from each other


class Watched:
    """What `settle_scales` calls, with all the scales that it was called with."""

    def __init__(self, expect):
        self._expect, self.calls = expect, []

    def __call__(self, v):
        self.calls.append((v, v.copy()))
        return self._expect(v)

    @property
    def n_calls(self):
        return len(self.calls)


def polya_gamma_rows(seed, largest_residual):
    """Return `expect` at random moments as a function of v, and the residuals."""
    rng, n = np.random.RandomState(seed), 20
    y, weight = rng.uniform(-1.0, 1.0, n), 10.0 ** rng.uniform(-2.0, 2.0, n)
    mean, inducing_variance = 3.0 * rng.randn(1, n), 10.0 ** rng.uniform(-3.0, 2.0, (1, n))
    residual = largest_residual * 10.0 ** rng.uniform(-4.0, 0.0, n)
    likelihood = PolyaGammaLogit()
    return lambda v: likelihood.expect(y, weight, mean, inducing_variance, residual, v), residual


def logistic_softmax_rows(seed, largest_residual):
    rng, n = np.random.RandomState(seed), 20
    y, weight = np.eye(3)[rng.randint(3, size=n)], 10.0 ** rng.uniform(-2.0, 0.0, n)
    mean, inducing_variance = 2.0 * rng.randn(3, n), 10.0 ** rng.uniform(-3.0, 2.0, (3, n))
    residual = largest_residual * 10.0 ** rng.uniform(-4.0, 0.0, n)
    likelihood = LogisticSoftmax().for_classes(3)
    return lambda v: likelihood.expect(y, weight, mean, inducing_variance, residual, v), residual


def assert_fixed_point(slack, expected, v, residual, mean_ratios, rtol):
    """Assert that these are the scales at the precisions that were found at them."""
    for own, precision, mean_ratio in zip(v, expected.precision, mean_ratios, strict=True):
        scale = np.broadcast_to(slack.scale(precision * residual, mean_ratio), own.shape)
        assert_allclose(own, scale, rtol=rtol)


@SLACK
@pytest.mark.parametrize(
    ("rows", "largest_residual", "mean_ratios"),
    [(polya_gamma_rows, 10.0, [0.7]), (logistic_softmax_rows, 1.0, [0.3, 2.0, 0.0])],
    ids=["polya-gamma", "logistic-softmax"],
)
@given(seed=SEED)
def test_settled_scales_are_a_fixed_point(slack, rows, largest_residual, mean_ratios, seed):
    expect, residual = rows(seed, largest_residual)
    expected, v = settle_scales(slack, expect, residual, mean_ratios)
    assert v.shape == (len(mean_ratios), len(residual))
    assert_fixed_point(slack, expected, v, residual, mean_ratios, 3e-6)
    for part, again in zip(expected, expect(v), strict=True):
        assert_array_equal(part, again)


@pytest.mark.parametrize(
    "likelihood", [BernoulliLogit(), BernoulliProbit()], ids=["logit", "probit"]
)
@given(seed=SEED, largest_residual=powers(-2.0, 4.0))
def test_settled_scales_are_nearly_the_best_where_precisions_rise_with_the_variance(
    likelihood, seed, largest_residual
):
    """At labels that q(u) alone is sure of: plain fixed-point steps of v would overshoot."""
    rng = np.random.RandomState(seed)
    mean, inducing_variance = rng.uniform(2.0, 8.0, (1, 5)), rng.uniform(0.01, 1.0, (1, 5))
    residual, ones = largest_residual * rng.uniform(0.1, 1.0, 5), np.ones(5)

    def expect(v):
        return likelihood.expect(ones, ones, mean, inducing_variance, residual, v)

    def value(expected, v):
        return expected.value - 0.5 * (v - np.log(v) - 1.0)[0]

    found = value(*settle_scales(SLACKS["tight"], expect, residual, [None]))
    grid = np.exp(np.linspace(-14.0, 0.0, 200))
    best = np.max([value(expect(v), v) for v in np.full((1, 5), 1.0) * grid[:, None, None]], axis=0)
    assert (found > best - 1e-3).all()


@NOT_OF_ROW
@given(seed=SEED)
def test_scales_that_do_not_depend_on_the_precisions_take_two_calls(slack, seed):
    """And one where they are 1; however large the residuals are."""
    expect, residual = polya_gamma_rows(seed, 1e6)
    expect = Watched(expect)
    expected, v = settle_scales(slack, expect, residual, [0.7])
    assert_fixed_point(slack, expected, v, residual, [0.7], 1e-15)
    assert expect.n_calls <= (1 if slack.has_unit_scale else 2)


@SLACK
def test_precisions_that_do_not_depend_on_the_scales_take_two_calls(slack, rng):
    n = 9
    y = np.zeros(n, dtype=[("mean", float), ("precision", float), ("log_scale", float)])
    y["precision"], residual = 10.0 ** rng.uniform(-3.0, 3.0, n), rng.uniform(0.0, 1e4, n)
    mean, inducing_variance = rng.randn(1, n), rng.uniform(0.0, 2.0, (1, n))
    expect = Watched(
        lambda v: KnownNoise().expect(y, np.ones(n), mean, inducing_variance, residual, v)
    )
    expected, v = settle_scales(slack, expect, residual, [40.0])
    assert_fixed_point(slack, expected, v, residual, [40.0], 1e-15)
    assert expect.n_calls <= 2


@SLACK
def test_scales_once_given_away_are_not_written_to(slack):
    expect, residual = polya_gamma_rows(0, 100.0)
    expect = Watched(expect)
    settle_scales(slack, expect, residual, [0.7])
    assert_array_equal(expect.calls[0][0], np.ones((1, len(residual))))
    for v, as_called in expect.calls:
        assert_array_equal(v, as_called)


@SLACK
def test_rows_settle_alone(slack):
    """Blocks of rows may be settled apart: the mean of the ratios comes from outside."""
    rng = np.random.RandomState(3)
    y, weight = rng.uniform(-1.0, 1.0, 8), rng.uniform(0.5, 2.0, 8)
    mean, inducing_variance, residual = rng.randn(1, 8), rng.uniform(0.1, 2.0, (1, 8)), rng.rand(8)

    def settled(rows):
        parts = y[rows], weight[rows], mean[:, rows], inducing_variance[:, rows], residual[rows]
        expect = PolyaGammaLogit().expect
        return settle_scales(slack, lambda v: expect(*parts, v), residual[rows], [0.4])

    (whole, v), (part, of_part) = settled(slice(8)), settled(slice(2, 5))
    assert_allclose(of_part, v[:, 2:5], rtol=3e-6)
    assert_allclose(part.value, whole.value[2:5], rtol=3e-6)
