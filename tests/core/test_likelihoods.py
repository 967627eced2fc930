"""Every likelihood against its definition: bounds as inequalities, moves against brute force."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

import sparsegpc._likelihoods as module
from sparsegpc._likelihoods import PolyaGammaLogit

DIGITS = 60


def exact_log_cosh(x):
    """Log cosh of a Decimal, to the precision of the context."""
    return x + (1 + (-2 * x).exp()).ln() - Decimal(2).ln()


def logit_log_likelihood(f, y):
    """Logistic log likelihood for labels in [-1, 1], the mean of merged labels -1 and +1."""
    return -0.5 * (1.0 + y) * np.logaddexp(0.0, -f) - 0.5 * (1.0 - y) * np.logaddexp(0.0, f)


def logit_expected_site(state, mean, second_moment, y):
    """Expectation of the log site under moments of f, to `DIGITS` digits, per unit of weight."""
    with localcontext() as context:
        context.prec = DIGITS
        state, mean, second_moment, y = map(Decimal, (state, mean, second_moment, y))
        half_tilt = state.sqrt() / 2
        tanh = (1 - (-2 * half_tilt).exp()) / (1 + (-2 * half_tilt).exp())
        precision = tanh / (4 * half_tilt)
        quadratic = precision * (second_moment - state) / 2
        return y * mean / 2 - quadratic - exact_log_cosh(half_tilt) - Decimal(2).ln()


@dataclass(frozen=True)
class Case:
    """What a likelihood claims, written without its code.

    ``expected_site(state, mean, second_moment, y)`` is a Decimal, for unit weight;
    ``tangent(f)`` the state whose site touches the likelihood at f.
    """

    likelihood: object
    log_likelihood: Callable
    expected_site: Callable
    tangent: Callable
    slacks: tuple


TABLE = {
    PolyaGammaLogit: Case(
        likelihood=PolyaGammaLogit(),
        log_likelihood=logit_log_likelihood,
        expected_site=logit_expected_site,
        tangent=np.square,
        slacks=("tight", "spherical", "standard"),
    ),
}

cases = pytest.mark.parametrize("case", TABLE.values(), ids=[name.__name__ for name in TABLE])
labels = st.sampled_from([-1.0, 1.0]) | st.floats(-1.0, 1.0)
weights = st.floats(1e-3, 1e3)
log_states = st.floats(np.log(1e-16), np.log(1e6))


def one(*values):
    return [np.array([value], dtype=float) for value in values]


def log_site(sites, f):
    return sites.own + sites.shift * f - 0.5 * sites.precision * f**2


def exact_gain(case, old, new):
    """What moving the state gains when f has the moments for which `new` is optimal."""
    terms = [case.expected_site(state, 0.0, new, 0.0) for state in (new, old)]
    return float(terms[0] - terms[1])


def test_the_table_lists_every_likelihood():
    classes = {
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and "sites" in vars(value)
    }
    assert classes == set(TABLE)


@cases
def test_interface_is_complete(case):
    assert case.likelihood.slacks == case.slacks
    for name in ("initial_state", "sites", "update", "gain", "log_probabilities", "constant_bound"):
        assert callable(getattr(case.likelihood, name))


@cases
@given(log_state=log_states, f=st.floats(-60.0, 60.0), y=labels, weight=weights)
def test_site_is_a_lower_bound_of_the_likelihood(case, log_state, f, y, weight):
    state, label, total = one(np.exp(log_state), y, weight)
    value = log_site(case.likelihood.sites(state, label, total), f)[0]
    limit = weight * case.log_likelihood(f, y)
    assert value <= limit + 1e-13 * weight * (1.0 + f**2 + np.sqrt(state[0]))


@cases
@given(f=st.floats(-60.0, 60.0), y=labels, weight=weights)
def test_site_touches_the_likelihood_at_its_tangent(case, f, y, weight):
    state, label, total = one(case.tangent(f), y, weight)
    value = log_site(case.likelihood.sites(state, label, total), f)[0]
    # The smallest tilt told from zero, 1e-8, costs its square.
    assert value == pytest.approx(weight * case.log_likelihood(f, y), rel=1e-13, abs=1e-13 * weight)


@cases
@given(
    f=st.floats(0.5, 20.0),
    sign=st.sampled_from([-1.0, 1.0]),
    y=labels,
    factor=st.sampled_from([0.3, 0.8, 1.25, 3.0]),
)
def test_site_of_another_state_lies_strictly_below(case, f, sign, y, factor):
    state, label, weight = one(factor * case.tangent(f), y, 1.0)
    value = log_site(case.likelihood.sites(state, label, weight), sign * f)[0]
    assert value < case.log_likelihood(sign * f, y)


@cases
@given(
    log_state=log_states,
    mean=st.floats(-30.0, 30.0),
    variance=st.floats(0.0, 100.0),
    y=labels,
    weight=weights,
)
def test_expected_site_equals_its_definition(case, log_state, mean, variance, y, weight):
    state, label, total = one(np.exp(log_state), y, weight)
    sites = case.likelihood.sites(state, label, total)
    second = mean**2 + variance
    value = sites.own + sites.shift * mean - 0.5 * sites.precision * second
    expected = weight * float(case.expected_site(state[0], mean, second, y))
    scale = weight * (1.0 + second + np.sqrt(state[0]))
    assert value[0] == pytest.approx(expected, rel=1e-13, abs=1e-14 * scale)


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
    precision = PolyaGammaLogit().sites(*one(tilt**2, 1.0, 1.0)).precision[0]
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
    precision = PolyaGammaLogit().sites(*one(tilt**2, -1.0, weight)).precision[0]
    assert precision == pytest.approx(expected, rel=1e-7, abs=0.0)


@cases
@pytest.mark.parametrize("state", [0.0, 1e-300, 1e-16, 1e-9, 1e8, 1e16, 1e100, 1e300])
def test_extreme_states_give_finite_sites(case, state):
    sites = case.likelihood.sites(*one(state, -0.3, 2.0))
    assert np.isfinite(np.concatenate(sites)).all()
    assert sites.precision[0] > 0.0
    assert sites.own[0] < 0.0


@cases
@pytest.mark.parametrize("old", [0.0, 1e-300, 1e-16, 1.0, 1e16, 1e300])
@pytest.mark.parametrize("new", [0.0, 1e-300, 1e-16, 1.0, 1e16])
def test_extreme_states_give_finite_gains(case, old, new):
    gain, curvature = case.likelihood.gain(*one(old, new, 2.0))
    assert np.isfinite(gain).all()
    assert np.isfinite(curvature).all()


@pytest.mark.parametrize("state", [0.0, 1e-16, 1e-9])
def test_polya_gamma_site_at_no_tilt(state):
    sites = PolyaGammaLogit().sites(*one(state, 1.0, 1.0))
    assert sites.precision[0] == pytest.approx(0.25, rel=1e-9)
    assert sites.own[0] == pytest.approx(-np.log(2.0), rel=1e-14)


@cases
def test_initial_state_gives_sites(case):
    y, weight = np.array([-1.0, 1.0, 0.2]), np.array([1.0, 2.0, 5.0])
    state = case.likelihood.initial_state(y, weight)
    assert state.shape == (3,)
    assert (state > 0.0).all()
    assert all(part.shape == (3,) for part in case.likelihood.sites(state, y, weight))


@cases
@given(mean=st.floats(-20.0, 20.0), variance=st.floats(1e-3, 1e3), y=labels)
def test_update_maximises_the_expected_site(case, mean, variance, y):
    second = mean**2 + variance

    def loss(log_state):
        return -float(case.expected_site(float(np.exp(log_state)), mean, second, y))

    best = minimize_scalar(loss, bounds=(-12.0, 12.0), method="bounded", options={"xatol": 1e-9})
    state = case.likelihood.update(*one(mean, variance))
    # A maximum is found only to the square root of the rounding of its value.
    assert np.log(state[0]) == pytest.approx(best.x, abs=2e-5 + 2e-7 / min(second, 1.0) ** 1.5)
    assert loss(np.log(state[0])) <= best.fun + 1e-14 * (1.0 + abs(best.fun))


@cases
@given(
    mean=st.floats(-20.0, 20.0), variance=st.floats(1e-3, 1e3), y=labels, shift=st.floats(-3.0, 3.0)
)
def test_no_state_beats_the_update(case, mean, variance, y, shift):
    state = float(case.likelihood.update(*one(mean, variance))[0])
    second = mean**2 + variance
    values = [case.expected_site(s, mean, second, y) for s in (state, state * float(np.exp(shift)))]
    assert float(values[0] - values[1]) >= -1e-25 - 1e-30 * state


given_a_step = given(
    mean=st.floats(-30.0, 30.0),
    variance=st.floats(1e-6, 1e3),
    log_old=log_states,
    y=labels,
    weight=weights,
)


@cases
@given_a_step
def test_gain_is_the_difference_of_expected_sites(case, mean, variance, log_old, y, weight):
    """At fixed q(u), for the state that is optimal there."""
    old, total = one(np.exp(log_old), weight)
    new = case.likelihood.update(*one(mean, variance))
    second = float(new[0])
    terms = [case.expected_site(float(s[0]), mean, second, y) for s in (new, old)]
    expected = weight * float(terms[0] - terms[1])
    gain = case.likelihood.gain(old, new, total)[0][0]
    scale = weight * (1.0 + np.sqrt(second) + np.sqrt(old[0]))
    assert gain == pytest.approx(expected, rel=1e-12, abs=1e-15 * scale)


@cases
@given_a_step
def test_gain_is_what_the_sites_say(case, mean, variance, log_old, y, weight):
    old, label, total = one(np.exp(log_old), y, weight)
    new = case.likelihood.update(*one(mean, variance))

    def expected(state):
        sites = case.likelihood.sites(state, label, total)
        return sites.own + sites.shift * mean - 0.5 * sites.precision * (mean**2 + variance)

    gain = case.likelihood.gain(old, new, total)[0][0]
    scale = weight * (1.0 + mean**2 + variance + np.sqrt(old[0]))
    assert gain == pytest.approx((expected(new) - expected(old))[0], rel=1e-9, abs=1e-13 * scale)


@cases
@given(log_old=log_states, log_new=log_states, weight=weights)
def test_gain_towards_the_optimal_state_is_never_a_loss(case, log_old, log_new, weight):
    old, new, total = one(np.exp(log_old), np.exp(log_new), weight)
    rounding = 1e-15 * weight * (1.0 + np.sqrt(max(old[0], new[0])))
    assert case.likelihood.gain(old, new, total)[0][0] >= -rounding


@cases
@pytest.mark.parametrize("state", [1e-16, 1e-3, 1.0, 37.0, 1e5])
def test_no_move_gains_nothing(case, state):
    assert case.likelihood.gain(*one(state, state, 3.0))[0][0] == 0.0


@cases
@pytest.mark.parametrize("change", [1e-2, -1e-2, 1e-4, -1e-4, 1e-5, -1e-5, 1e-6, -1e-6])
@pytest.mark.parametrize("state", [0.25, 1.0, 10.0, 1e3, 1e6])
def test_gain_is_accurate_at_nearly_equal_states(case, state, change):
    """Of second order in the change; far below any tolerance of the bound it is rounding."""
    old, new, weight = one(state, state * (1.0 + change), 1.0)
    expected = exact_gain(case, float(old[0]), float(new[0]))
    assert expected > 0.0
    gain = case.likelihood.gain(old, new, weight)[0][0]
    assert gain == pytest.approx(expected, rel=1e-3, abs=1e-15 * (1.0 + state**0.5))


@cases
@pytest.mark.parametrize("state", [1e-6, 1e-3, 0.25, 1.0, 10.0, 300.0, 1e4, 1e6])
def test_curvature_is_the_second_difference_in_the_log_state(case, state):
    """Of the negated expected site at the optimal state."""
    with localcontext() as context:
        context.prec = DIGITS
        step = Decimal("1e-12")
        shifted = [Decimal(state) * (k * step).exp() for k in (-1, 0, 1)]
        low, middle, high = (case.expected_site(s, 0.0, state, 0.0) for s in shifted)
        expected = -float((low - 2 * middle + high) / step**2)
    curvature = case.likelihood.gain(*one(2.0 * state, state, 1.0))[1][0]
    assert curvature == pytest.approx(expected, rel=1e-9, abs=1e-16 * state)


@cases
@given(log_old=log_states, log_new=log_states)
def test_curvature_is_never_negative_and_ignores_the_old_state(case, log_old, log_new):
    old, new, weight = one(np.exp(log_old), np.exp(log_new), 1.0)
    curvature = case.likelihood.gain(old, new, weight)[1]
    assert curvature[0] >= -1e-16 * new[0]
    assert_array_equal(case.likelihood.gain(new, new, weight)[1], curvature)


@cases
@pytest.mark.parametrize("factor", [0.125, 3.0, 40.0])
def test_weights_multiply_everything(rng, case, factor):
    y, weight = rng.choice([-1.0, 0.3, 1.0], 9), rng.uniform(0.1, 4.0, 9)
    old, new = np.exp(rng.uniform(-4.0, 4.0, (2, 9)))
    likelihood = case.likelihood
    unit = np.ones(9)
    for scaled, plain in [
        (likelihood.sites(old, y, factor * weight), likelihood.sites(old, y, unit)),
        (likelihood.gain(old, new, factor * weight), likelihood.gain(old, new, unit)),
    ]:
        for left, right in zip(scaled, plain, strict=True):
            assert_allclose(left, factor * weight * right, rtol=1e-14)
    scaled = likelihood.constant_bound(y, factor * weight)
    assert scaled == pytest.approx(factor * likelihood.constant_bound(y, weight), rel=1e-13)


@cases
@given(negative=st.integers(0, 20), positive=st.integers(0, 20), log_state=st.floats(-20.0, 10.0))
def test_merged_rows_equal_the_sum_over_separate_rows(case, negative, positive, log_state):
    if negative + positive == 0:
        return
    total = negative + positive
    labels = np.repeat([-1.0, 1.0], [negative, positive])
    unit = np.ones(total)
    state = np.full(total, np.exp(log_state))
    merged = one(np.exp(log_state), (positive - negative) / total, total)
    together = case.likelihood.sites(*merged)
    for left, right in zip(together, case.likelihood.sites(state, labels, unit), strict=True):
        assert left[0] == pytest.approx(right.sum(), rel=1e-12, abs=1e-12)
    gains = case.likelihood.gain(state, 3.0 * state, unit)
    for left, right in zip(
        case.likelihood.gain(merged[0], 3.0 * merged[0], merged[2]), gains, strict=True
    ):
        assert left[0] == pytest.approx(right.sum(), rel=1e-12, abs=1e-15)
    assert case.likelihood.constant_bound(*merged[1:]) == pytest.approx(
        case.likelihood.constant_bound(labels, unit), rel=1e-12, abs=1e-12
    )


@cases
@given(
    rows=st.lists(st.tuples(labels, weights), min_size=1, max_size=8), intercept=st.floats(-30, 30)
)
def test_constant_bound_is_the_best_constant(case, rows, intercept):
    y, weight = np.array(rows).T

    def log_likelihood(f):
        return float(weight @ case.log_likelihood(f, y))

    bound = case.likelihood.constant_bound(y, weight)
    slack = 1e-12 * (1.0 + weight.sum())
    assert log_likelihood(intercept) <= bound + slack
    best = minimize_scalar(lambda f: -log_likelihood(f), bounds=(-40.0, 40.0), method="bounded")
    assert bound == pytest.approx(-best.fun, rel=1e-6, abs=1e-6 * weight.sum())


@cases
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_constant_bound_of_one_class_is_zero(case, label):
    bound = case.likelihood.constant_bound(np.full(4, label), np.arange(1.0, 5.0))
    assert bound == 0.0
    assert isinstance(bound, float)


def test_logit_constant_bound_by_hand():
    """Weighted label means 0.5 and -1 of weights 4 and 1: three positive rows, two negative."""
    bound = PolyaGammaLogit().constant_bound(np.array([0.5, -1.0]), np.array([4.0, 1.0]))
    assert bound == pytest.approx(3.0 * np.log(0.6) + 2.0 * np.log(0.4), rel=1e-14)


@cases
@given(mean=st.floats(-100.0, 100.0), log_variance=st.floats(-18.0, 9.0))
def test_class_probabilities_sum_to_one(case, mean, log_variance):
    logs = case.likelihood.log_probabilities(*one(mean, np.exp(log_variance)))
    assert logs.shape == (1, 2)
    assert (logs <= 0.0).all()
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-12)


@cases
@pytest.mark.parametrize("variance", [0.01, 1.0, 9.0, 400.0])
def test_class_probabilities_integrate_the_likelihood(case, variance):
    """Columns are the labels -1 and +1; a fine trapezoid rule over f."""
    mean = np.array([-7.0, -0.4, 0.0, 2.5])
    logs = case.likelihood.log_probabilities(mean, np.full(4, variance))
    deviation = np.sqrt(variance)
    step = min(0.05, 0.3 / deviation)
    z = np.arange(-14.0, 14.0 + deviation, step)
    density = np.exp(-0.5 * z**2) * step / np.sqrt(2.0 * np.pi)
    for column, label in enumerate((-1.0, 1.0)):
        f = mean[:, None] + deviation * z
        expected = np.exp(case.log_likelihood(f, label)) @ density
        assert_allclose(np.exp(logs[:, column]), expected, rtol=1e-10)


@cases
def test_inputs_are_not_modified(rng, case):
    likelihood = case.likelihood
    arrays = [rng.uniform(0.1, 0.9, 6) for _ in range(5)]
    before = [array.copy() for array in arrays]
    state, other, y, weight, mean = arrays
    likelihood.initial_state(y, weight)
    likelihood.sites(state, y, weight)
    likelihood.update(mean, other)
    likelihood.gain(state, other, weight)
    likelihood.log_probabilities(mean, other)
    likelihood.constant_bound(y, weight)
    for array, original in zip(arrays, before, strict=True):
        assert_array_equal(array, original)
