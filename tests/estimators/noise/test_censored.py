"""Censored targets: what is learned from limits, and what is said of them, is right."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sparsegpc import (
    BoundSearch,
    HomoscedasticNoise,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
)
from tests.estimators.noise.noise_cases import KERNEL, log_evidence_with_limits, quiet
from tests.estimators.simple_kernel import simple_kernel

SMALL = {"n_inducing": 20, "selector": "hgv", "hyperparameters": "best"}
NOISE = 0.3
LOW, HIGH = -0.6, 0.7
FIXED = HomoscedasticNoise(NOISE**2, "fixed")


def model_of(**parameters):
    return SparseGPRegressor(**{**SMALL, **simple_kernel(parameters)})


def clipped(n=300, low=LOW, high=HIGH, seed=0):
    """Return one column, targets around a sine that are clipped, their events, and the sine."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-3.0, 3.0, n)
    f = np.sin(2.0 * x)
    number = f + NOISE * rng.standard_normal(n)
    event = np.where(number < low, -1, np.where(number > high, 0, 1))
    parts = x[:, None], np.clip(number, low, high), event, f
    for part in parts:
        part.flags.writeable = False
    return parts


@pytest.fixture(scope="module")
def fitted():
    """A model of `clipped()`; not to be changed."""
    X, y, event, _ = clipped()
    return model_of().fit(X, y, event=event)


# What is learned


@pytest.mark.parametrize(("low", "high"), [(LOW, np.inf), (-np.inf, HIGH), (LOW, HIGH), (0.3, 9.0)])
def test_function_and_noise_are_those_of_numbers_without_limits(low, high):
    X, y, event, f = clipped(1500, low, high)
    model = model_of().fit(X, y, event=event)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of residuals that look like outliers
        naive = model_of().fit(X, y)
    mean, variance = model.latent_mean_and_variance(X)
    # What is far beyond a limit is not known well.
    error = np.abs(mean - f)
    assert np.mean(error < 1.645 * np.sqrt(variance)) > 0.7
    assert np.mean(error) < 0.5 * np.mean(np.abs(naive.predict(X) - f))
    assert np.sqrt(model.noise_variance_) == pytest.approx(NOISE, rel=0.1)
    assert model.noise_df_ is None


def test_intervals_cover_numbers_beyond_the_limits(fitted):
    X, number, *_ = clipped(5000, -np.inf, np.inf, seed=1)
    for coverage in (0.5, 0.9):
        lower, upper = fitted.predict_interval(X, coverage)
        assert np.mean((lower < number) & (number < upper)) == pytest.approx(coverage, abs=0.03)


def test_the_bound_is_below_the_exact_evidence_and_close_to_it():
    X, y, event, _ = clipped(12, -0.4, 0.6)
    assert set(event) == {-1, 0, 1}
    kernel = ConstantKernel(1.3) * RBF(0.8)
    evidence = log_evidence_with_limits(kernel(X) + NOISE**2 * np.eye(len(X)), y, event)
    fixed = {"kernel": kernel, "noise": FIXED, "optimizer": None, "fit_prior_mean": False}
    model = model_of(**fixed, n_inducing=len(X)).fit(X, y, event=event)
    assert evidence - 0.3 < model.lower_bound_ < evidence
    smaller = model_of(**fixed, n_inducing=4).fit(X, y, event=event)
    assert smaller.lower_bound_ < model.lower_bound_


def test_without_limits_it_is_ordinary_regression():
    X, y, event, _ = clipped(200, -np.inf, np.inf)
    fixed = {"kernel": ConstantKernel(1.3) * RBF(0.8), "noise": FIXED, "optimizer": None}
    ours, ordinary = (model_of(**fixed).fit(X, y, event=e) for e in (event, None))
    assert ours.lower_bound_ == pytest.approx(ordinary.lower_bound_, abs=1e-6)
    assert_allclose(ours.predict(X), ordinary.predict(X), atol=1e-6)
    ours, ordinary = (model_of().fit(X, y, event=e) for e in (event, None))
    assert ours.lower_bound_ == pytest.approx(ordinary.lower_bound_, abs=0.1)


def test_the_bound_is_that_of_log_normal_amounts():
    X, y, event, _ = clipped(150)
    fixed = {"kernel": ConstantKernel(1.3) * RBF(0.8), "optimizer": None}
    ours = model_of(noise=HomoscedasticNoise(1.0, "fixed"), **fixed).fit(X, y, event=event)
    amounts = SparseGPGeneralizedRegressor(likelihood="log-normal", **SMALL, **fixed)
    amounts.fit(X, np.exp(y), event=event)
    scale = amounts.likelihood_.shape
    ours = model_of(noise=HomoscedasticNoise(scale**2, "fixed"), **fixed).fit(X, y, event=event)
    # The density of y is that of exp(y) times exp(y).
    expected = amounts.lower_bound_ + y[event == 1].sum()
    assert ours.lower_bound_ == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize(("factor", "shift"), [(1e6, 3e6), (1e-5, 0.0), (-1.0, 0.0)])
def test_units_and_signs_do_not_matter(fitted, factor, shift, normalize_y):
    X, y, event, _ = clipped()
    # Mirrored, an upper limit is a lower one.
    mirrored = np.where(event == 1, 1, -1 - event) if factor < 0.0 else event
    model = model_of(normalize_y=normalize_y).fit(X, factor * y + shift, event=mirrored)
    scale = abs(factor)
    assert_allclose((model.predict(X) - shift) / factor, fitted.predict(X), atol=0.02)
    assert np.sqrt(model.noise_variance_) / scale == pytest.approx(
        np.sqrt(fitted.noise_variance_), rel=0.02
    )
    offset = (event == 1).sum() * np.log(scale)
    assert model.lower_bound_ + offset == pytest.approx(fitted.lower_bound_, abs=0.3)
    certificate = model.certificate(X, factor * y + shift, event=mirrored)
    assert certificate.lower_bound == pytest.approx(model.lower_bound_, abs=1e-3)


def test_rows_may_have_limits_of_their_own():
    rng = np.random.RandomState(2)
    X, number, _, f = clipped(800, -np.inf, np.inf)
    limit = rng.uniform(-1.0, 1.5, 800)
    model = model_of().fit(X, np.maximum(number, limit), event=np.where(number < limit, -1, 1))
    assert np.sqrt(np.mean((model.predict(X) - f) ** 2)) < 0.15


def test_true_means_observed_and_false_a_lower_limit():
    X, y, event, _ = clipped(low=-np.inf)
    one, other = (model_of().fit(X, y, event=e) for e in (event, event == 1))
    assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_weight_of_k_is_that_many_copies(n_outputs):
    X, y, event, _ = clipped(60)
    y, event = (np.repeat(part[:, None], n_outputs, axis=1) for part in (y, event))
    k = 1 + np.arange(60) % 3
    weighted = model_of().fit(X, y, sample_weight=k, event=event)
    X_copies, y_copies, event_copies = (np.repeat(part, k, axis=0) for part in (X, y, event))
    copied = model_of().fit(X_copies, y_copies, event=event_copies)
    assert weighted.lower_bound_ == copied.lower_bound_
    assert_array_equal(weighted.predict(X), copied.predict(X))


def test_equal_targets_with_unequal_events_stay_apart():
    X, y, event, _ = clipped(60)
    X, y, event = np.repeat(X, 2, axis=0), np.repeat(y, 2), np.repeat(event, 2)
    event[::2], event[1::2] = 1, 0
    model = model_of().fit(X, y, event=event)
    above = model_of().fit(X[::2], y[::2], event=event[::2])
    assert np.mean(model.predict(X) > above.predict(X)) > 0.9


def test_each_output_has_events_of_its_own():
    X, y, event, _ = clipped()
    number = clipped(low=-np.inf, high=np.inf)[1]
    observed = np.ones(len(y))
    model = model_of().fit(X, np.c_[y, number], event=np.c_[event, observed])
    alone = model_of().fit(X, y, event=event), model_of().fit(X, number)
    for predicted, single in zip(model.predict(X).T, alone, strict=True):
        assert_allclose(predicted, single.predict(X), atol=0.15)
    assert_allclose(np.sqrt(model.noise_variance_), NOISE, rtol=0.15)
    both = model_of().fit(X, np.c_[y, y], event=event)
    assert_allclose(*both.predict(X).T, rtol=1e-9)


# What is said of rows


def test_a_limit_has_the_probability_of_a_number_beyond_it(fitted):
    X, y, event, _ = clipped(50, seed=3)
    mean, deviation = fitted.predict(X, return_std=True)
    law = stats.norm(mean, deviation)
    expected = np.where(
        event == 1, law.logpdf(y), np.where(event == 0, law.logsf(y), law.logcdf(y))
    )
    assert_allclose(fitted.log_predictive_density(X, y, event=event), expected, rtol=1e-9)
    assert_allclose(fitted.log_predictive_density(X, y), law.logpdf(y), rtol=1e-9)
    far = fitted.log_predictive_density(X, np.full(50, 60.0), event=np.zeros(50))
    assert_allclose(far, law.logsf(60.0), rtol=1e-6)


def test_that_of_an_average_is_an_average_of_probabilities():
    X, y, event, _ = clipped(60)
    model = SparseGPRegressor(kernel="rbf", main_effects=False).fit(X, y, event=event)
    assert len(model.hyperparameter_weights_) > 1
    limits = np.full(60, 0.9)
    log_above = model.log_predictive_density(X, limits, event=np.zeros(60))
    log_below = model.log_predictive_density(X, limits, event=-np.ones(60))
    assert_allclose(np.exp(log_above), model.predict_exceedance(X, 0.9), rtol=1e-9)
    assert_allclose(np.exp(log_above) + np.exp(log_below), 1.0, rtol=1e-9)


@pytest.mark.parametrize("noise", ["gp", "student-t"])
def test_other_noise_has_densities_of_limits_too(noise):
    X, number, *_ = clipped(150, -np.inf, np.inf)
    model = model_of(noise=noise).fit(X, number)
    density = model.log_predictive_density(X, np.zeros(150), event=np.zeros(150))
    assert_allclose(np.exp(density), model.predict_exceedance(X, 0.0), rtol=1e-6)


def test_methods_that_take_the_rows_again(fitted):
    X, y, event, _ = clipped()
    assert fitted.lower_bound(X=X, y=y, event=event) == pytest.approx(fitted.lower_bound_, abs=1e-3)
    _, slope = fitted.lower_bound(X=X, y=y, event=event, eval_gradient=True)
    assert np.isfinite(slope).all()
    assert fitted.truncate(5, X, y, event=event).lower_bound_ < fitted.lower_bound_
    assert (fitted.point_gains(X, y, event=event) > -1e-3).all()
    certificate = fitted.certificate(X, y, event=event)
    assert certificate.lower_bound <= certificate.upper_bound
    for method in (fitted.certificate, fitted.point_gains):
        with pytest.raises(ValueError, match="event is needed for these rows"):
            method(X, y)
    ordinary = model_of().fit(X, y)
    with pytest.raises(ValueError, match="event must be None, because the model was fitted with"):
        ordinary.certificate(X, y, event=event)


def test_a_further_fit_goes_on_from_the_last():
    X, y, event, _ = clipped()
    model = model_of(warm_start=True).fit(X, y, event=event)
    bound, n_evaluations = model.lower_bound_, model.n_evaluations_
    model.fit(X, y, event=event)
    assert model.lower_bound_ >= bound - 1e-2
    assert model.n_evaluations_ < n_evaluations
    with pytest.raises(ValueError, match="and event if it had event"):
        model.fit(X, y)


def test_a_saved_model_says_the_same(fitted):
    X = clipped()[0]
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_the_bound_chooses_among_kernels():
    X, y, event, _ = clipped()
    search = BoundSearch(model_of(), {"kernel": [KERNEL, ConstantKernel(1.0) * RBF(0.1, "fixed")]})
    assert search.fit(X, y, event=event).best_index_ == 0


# Noise and input


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"noise": FIXED}, NOISE**2),
        ({"noise": HomoscedasticNoise(0.03, (0.02, 0.05))}, 0.05),
        ({"kernel": ConstantKernel() * RBF() + WhiteKernel(0.2, "fixed")}, 0.2),
    ],
)
@pytest.mark.filterwarnings("ignore:.*meet their limits:sklearn.exceptions.ConvergenceWarning")
def test_limits_of_the_noise_are_kept(parameters, expected):
    X, y, event, _ = clipped()
    model = model_of(**parameters).fit(X, y, event=event)
    assert model.noise_variance_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", ["gp", "student-t", "polynomial"])
def test_other_noise_is_refused(noise):
    X, y, event, _ = clipped(30)
    with pytest.raises(ValueError, match=r"event must be None with noise=.*set noise='homoscedast"):
        SparseGPRegressor(noise=noise).fit(X, y, event=event)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (np.zeros(30), "event must be 1 in some row of positive weight, got 0 in all of them"),
        (np.full(30, 2), "event must be 1, 0 or -1, or True or False, got 2 in row 0"),
        (np.full(30, np.nan), "event contains NaN"),
        (np.ones(29), r"event must have the shape \(30,\) or \(30, 1\), got \(29,\)"),
    ],
)
def test_events_that_are_none_are_refused(event, message):
    X, y, *_ = clipped(30)
    model = SparseGPRegressor()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, event=event)
    assert not hasattr(model, "lower_bound_")


def test_auto_means_the_only_noise_that_takes_limits(fitted):
    X, y, event, _ = clipped()
    model = model_of(noise="auto").fit(X, y, event=event)
    assert_array_equal(model.predict(X), fitted.predict(X))
    assert model.noise_bounds_ is None


def test_the_output_without_observed_targets_is_named():
    X, y, *_ = clipped(30)
    event = np.c_[np.ones(30), np.zeros(30)]
    with pytest.raises(ValueError, match="event of output 1 must be 1 in some row"):
        SparseGPRegressor().fit(X, np.c_[y, y], event=event)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda event: np.where(event == 1, 0, 1), "all targets that were observed"),
        (lambda event: np.where(event == -1, 0, event), "no target was observed below a lower"),
        (lambda event: np.where(event == 0, -1, event), "no target was observed above an upper"),
    ],
)
def test_events_that_look_miscoded_are_reported(given, message):
    X, y, event, _ = clipped(low=LOW if "below" in message else -np.inf)
    if "above" not in message and "all" not in message:
        X, y, event = (part[event != 0] for part in (X, y, event))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model_of(max_iter=5).fit(X, y, event=given(event))
    assert [str(each.message) for each in caught if message in str(each.message)]


@quiet
@pytest.mark.parametrize("n_observed", [1, 2, 5])
def test_few_observed_targets(n_observed):
    X, y, *_ = clipped(40, low=-np.inf, high=np.inf)
    event = np.zeros(40)
    event[:n_observed] = 1
    model = model_of().fit(X, y, event=event)
    assert np.isfinite(model.lower_bound_)
    assert np.isfinite(model.predict(X)).all()
    assert (model.predict(X) > y - 3.0).all()


@quiet
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_observed_target_of_a_thousand(seed):
    """Parts of the rows in which nothing was observed have no best constant."""
    X, y, *_ = clipped(1000, low=-np.inf, high=np.inf, seed=seed)
    event = np.full(1000, -1)
    event[y.argmax()] = 1
    model = model_of(n_inducing=5).fit(X, np.where(event == 1, y, 1.5), event=event)
    assert (model.predict(X) < 1.5).all()


@pytest.mark.filterwarnings("ignore:no target was observed below a lower limit")
@pytest.mark.parametrize("limit", [-1e2, -1e9])
def test_limits_that_say_nothing_do_not_matter(limit):
    X, number, *_ = clipped(100, -np.inf, np.inf)
    says_something = np.arange(100) < 70
    y, event = np.where(says_something, number, limit), says_something.astype(int)
    model = model_of().fit(X, y, event=event)
    alone = model_of().fit(X[:70], number[:70])
    assert model.lower_bound_ == pytest.approx(alone.lower_bound_, abs=0.5)
    assert_allclose(model.predict(X), alone.predict(X), atol=0.02)


def test_of_few_observed_targets_the_others_tell_the_spread():
    """Two percent exceed the limit."""
    X, number, _, f = clipped(2000, -np.inf, np.inf)
    limit = np.quantile(number, 0.98)
    event = np.where(number > limit, 1, -1)
    model = model_of().fit(X, np.maximum(number, limit), event=event)
    assert np.sqrt(model.noise_variance_) == pytest.approx(NOISE, rel=0.35)
    assert np.corrcoef(model.predict(X), f)[0, 1] > 0.8


def test_no_warning_takes_limits_for_outliers():
    """Nearly all targets are equal, and the others are positive and skewed."""
    rng = np.random.RandomState(0)
    X, _, _, f = clipped(300)
    number = f + NOISE * rng.standard_normal(300) - 0.8
    model_of().fit(X, np.maximum(number, 0.0), event=np.where(number < 0.0, -1, 1))
