"""Predictions of generalised regressors, against scipy's distributions integrated over f."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.metrics import (
    d2_tweedie_score,
    mean_gamma_deviance,
    mean_poisson_deviance,
    r2_score,
)

from sparsegpc import SparseGPGeneralizedRegressor
from tests.estimators.responses import (
    BY_NAME,
    EACH,
    NODE_WEIGHTS,
    NODES,
    RESPONSES,
    WITH_EVENTS,
    fixed_model,
    grid,
    simulated,
)


def fitted(response, **options):
    X, y, row_arguments = simulated(response, **options)
    return fixed_model(response).fit(X, y, **row_arguments)


def exposures(response, n):
    return {"exposure": np.linspace(0.5, 4.0, n)} if response.takes_exposure else {}


def averaged(response, model, X, what, **row_arguments):
    """Return the average over f of ``what(distribution)``, a function of scipy's distribution."""
    mean, variance = model.latent_mean_and_variance(X)
    f = mean + np.sqrt(variance) * NODES
    return NODE_WEIGHTS @ what(response.learned(model, f, **row_arguments))


@EACH
def test_mean_and_deviation_are_those_of_the_mixture_over_f(response):
    model, given = fitted(response), exposures(response, 9)
    mean, deviation = model.predict(grid(), return_std=True, **given)
    first = averaged(response, model, grid(), lambda law: law.mean(), **given)
    second = averaged(response, model, grid(), lambda law: law.var() + law.mean() ** 2, **given)
    assert_allclose(mean, first, rtol=1e-7)
    assert_allclose(deviation, np.sqrt(second - first**2), rtol=1e-7)
    assert_array_equal(model.predict(grid(), **given), mean)


@EACH
def test_the_log_density_is_that_of_the_mixture_over_f(response):
    model, given = fitted(response), exposures(response, 9)
    y = np.round(np.linspace(0.0, 20.0, 9)) if response.is_discrete else np.geomspace(0.1, 20.0, 9)
    log_pdf = "logpmf" if response.is_discrete else "logpdf"
    expected = averaged(
        response, model, grid(), lambda law: np.exp(getattr(law, log_pdf)(y)), **given
    )
    found = model.log_predictive_density(grid(), y, **given)
    assert_allclose(found, np.log(expected), rtol=1e-7, atol=1e-8)


@EACH
def test_quantiles_leave_their_level_below(response):
    model, given = fitted(response), exposures(response, 9)
    levels = [0.02, 0.5, 0.9]
    quantiles = model.predict_quantiles(grid(), levels, **given)
    assert quantiles.shape == (9, 3)
    for level, y in zip(levels, quantiles.T, strict=True):
        below = averaged(response, model, grid(), lambda law, y=y: law.cdf(y), **given)
        if response.is_discrete:
            less = averaged(response, model, grid(), lambda law, y=y: law.cdf(y - 1.0), **given)
            assert ((less < level) & (level <= below + 1e-9)).all()
        else:
            assert_allclose(below, level, atol=1e-7)
    assert_array_equal(model.predict_quantiles(grid(), 0.5, **given), quantiles[:, 1])
    lower, upper = model.predict_interval(grid(), 0.8, **given)
    ends = model.predict_quantiles(grid(), [0.1, 0.9], **given)
    assert_allclose(np.stack([lower, upper], axis=1), ends)


@EACH
def test_draws_have_the_mean_and_the_deviation_of_predictions(response):
    model, given = fitted(response), exposures(response, 9)
    draws = model.sample_y(grid(), 20_000, random_state=0, **given)
    mean, deviation = model.predict(grid(), return_std=True, **given)
    assert_allclose(draws.mean(axis=1), mean, atol=5.0 * deviation.max() / np.sqrt(20_000))
    assert_allclose(draws.std(axis=1), deviation, rtol=0.15)
    assert_array_equal(draws[:, :3], model.sample_y(grid(), 20_000, 0, **given)[:, :3])
    assert (draws >= 0.0).all()


@EACH
def test_draws_of_f_have_the_moments_of_f(response):
    model = fitted(response)
    draws = model.sample_f(grid(), 20_000, random_state=0)
    mean, variance = model.latent_mean_and_variance(grid())
    assert_allclose(draws.mean(axis=1), mean, atol=5.0 * np.sqrt(variance.max() / 20_000))
    assert_allclose(draws.var(axis=1), variance, rtol=0.06)


@pytest.mark.parametrize(
    "response", [BY_NAME["gamma"], *WITH_EVENTS], ids=lambda response: response.likelihood
)
def test_survival_is_the_probability_of_a_longer_duration(response):
    model, times = fitted(response, censored=0.3), np.array([0.1, 2.0, 15.0])
    found = model.survival_function(grid(), times)
    for time, survival in zip(times, found.T, strict=True):
        expected = averaged(response, model, grid(), lambda law, time=time: law.sf(time))
        assert_allclose(survival, expected, atol=1e-8)
        if response in WITH_EVENTS:
            censored = model.log_predictive_density(grid(), np.full(9, time), event=np.zeros(9))
            assert_allclose(censored, np.log(expected), atol=1e-7)


def test_survival_has_all_digits_far_in_the_tail():
    """Log y is Gaussian, given X, with the variance of f and that of the likelihood."""
    model = fitted(BY_NAME["log-normal"], censored=0.3)
    mean, variance = model.latent_mean_and_variance(grid())
    deviation = np.sqrt(variance + model.likelihood_.shape**2)
    times = np.exp([-20.0, 0.0, 3.0, 8.0, 20.0])
    expected = stats.norm.sf(np.log(times), mean[:, None], deviation[:, None])
    assert expected.min() < 1e-100
    survival = model.survival_function(grid(), times)
    assert_allclose(survival, expected, rtol=1e-9)
    assert survival.max() <= 1.0


@pytest.mark.parametrize("shape", [0.02, 1.0, 4.0, 1e4])
def test_survival_of_a_gamma_distribution_has_all_digits_far_in_the_tail(shape):
    """Against a sum over a fine grid of f, on the logarithmic scale."""
    model = fitted(BY_NAME["gamma"])
    model.likelihood_.log_shape = np.log(shape)
    mean, variance = model.latent_mean_and_variance(grid())
    step = 4e-3
    z = np.arange(-10.0, 36.0, step)[:, None]
    f = mean + np.sqrt(variance) * z
    times = np.exp([-20.0, 0.0, 3.0, 5.0])
    survival = model.survival_function(grid(), times)
    for time, found in zip(times, survival.T, strict=True):
        log_survival = stats.gamma.logsf(time, shape, scale=np.exp(f) / shape)
        log_expected = logsumexp(log_survival + stats.norm.logpdf(z), axis=0) + np.log(step)
        assert_allclose(np.log(found), log_expected, rtol=1e-9, atol=1e-9)
    assert survival.max() <= 1.0
    assert survival.min() < (1e-30 if shape >= 1.0 else 1e-3)


@pytest.mark.parametrize(
    "response", [BY_NAME["gamma"], *WITH_EVENTS], ids=lambda response: response.likelihood
)
def test_intervals_of_survival_are_those_of_draws_of_f(response):
    model, times = fitted(response, censored=0.3), np.array([0.0, 0.5, 2.0, 5.0])
    low, high = model.survival_interval(grid(), times, coverage=0.8)
    assert low.shape == high.shape == (9, 4)
    f = model.sample_f(grid(), 20_000, random_state=0)
    for k, time in enumerate(times):
        survival = response.learned(model, f).sf(time)
        for found, level in ((low, 0.1), (high, 0.9)):
            # The share of draws below it has a standard error of .002.
            below = np.mean(survival < found[:, [k]], axis=1)
            assert_allclose(below, level if time else 0.0, atol=0.01)
    mean = model.survival_function(grid(), times[1:])
    wide = model.survival_interval(grid(), times[1:], coverage=0.999)
    assert (wide[0] < mean).all()
    assert (mean < wide[1]).all()
    assert_array_equal(model.survival_interval(grid(), 2.0, coverage=0.8)[0], low[:, 2])


def test_counts_have_no_survival_function():
    for name in ("poisson", "negative-binomial"):
        with pytest.raises(AttributeError) as raised:
            fitted(BY_NAME[name]).survival_function(grid(), [1.0])
        assert "likelihood='gamma', 'weibull' or 'log-normal'" in str(raised.value.__cause__)


def test_wrong_times_and_a_model_without_a_fit_are_refused():
    with pytest.raises(NotFittedError):
        SparseGPGeneralizedRegressor().survival_function(grid(), [1.0])
    model = fitted(BY_NAME["weibull"])
    for times in ([[1.0]], [0.0, -1.0], -1.0):
        with pytest.raises(ValueError, match="times must be a number or a list of numbers, zero"):
            model.survival_function(grid(), times)
        with pytest.raises(ValueError, match="times must be a number or a list of numbers, zero"):
            model.survival_interval(grid(), times)
    with pytest.raises(ValueError, match="coverage"):
        model.survival_interval(grid(), 1.0, coverage=1.0)


def test_everyone_survives_time_zero_and_one_time_needs_no_list():
    model = fitted(BY_NAME["weibull"], censored=0.3)
    survival = model.survival_function(grid(), [0.0, 2.0])
    assert_array_equal(survival[:, 0], 1.0)
    assert_array_equal(model.survival_function(grid(), 2.0), survival[:, 1])


def test_predictions_far_away_are_finite_or_infinite_but_never_nan():
    for response in RESPONSES:
        X, y, row_arguments = simulated(response)
        wide = fixed_model(response, kernel=3e3 * response_kernel())
        mean, deviation = wide.fit(X, y, **row_arguments).predict([[1e6]], return_std=True)
        assert mean[0] > 1e100
        assert deviation[0] >= mean[0]


def response_kernel():
    return fixed_model(RESPONSES[0]).kernel.k2


# Score


def brute_force_d2(response, model, X, y, weight, **row_arguments):
    """Return D² from the log densities of scipy on a fine grid of f."""
    exposure = row_arguments.get("exposure", np.ones(len(y)))
    event = row_arguments.get("event", np.ones(len(y)))
    nodes = np.linspace(-14.0, 14.0, 28_001)[:, None]

    def log_density(f):
        law = response.learned(model, f, exposure)
        if response.is_discrete:
            return law.logpmf(y)
        return np.where(event == 0, law.logsf(y), law.logpdf(y))

    values = log_density(nodes)
    mean, variance = model.latent_mean_and_variance(X)
    lack = weight @ (values.max(axis=0) - log_density(mean + 0.5 * variance))
    return 1.0 - lack / (weight @ values.max(axis=0) - (values @ weight).max())


@EACH
def test_the_score_is_the_share_of_the_deviance(response, rng):
    X, y, row_arguments = simulated(response, n=25, censored=0.3)
    model = fixed_model(response).fit(X, y, **row_arguments)
    for weight in (None, rng.randint(0, 3, 25) * 0.7):
        found = model.score(X, y, sample_weight=weight, **row_arguments)
        given = np.ones(25) if weight is None else weight
        expected = brute_force_d2(response, model, X, y, given, **row_arguments)
        assert isinstance(found, float)
        assert_allclose(found, expected, atol=1e-5)


def test_the_score_is_that_of_scikit_learn(rng):
    weight = rng.uniform(0.5, 2.0, 150)
    for name, power, deviance in (
        ("poisson", 1, mean_poisson_deviance),
        ("gamma", 2, mean_gamma_deviance),
    ):
        X, y, given = simulated(BY_NAME[name])
        model = fixed_model(BY_NAME[name]).fit(X, y, **given)
        # Deviances of counts are those of their rates, weighted by exposure.
        exposure = given.get("exposure", np.ones(150))
        observed, predicted, at = y / exposure, model.predict(X), weight * exposure
        found = model.score(X, y, weight, **given)
        assert_allclose(
            found, d2_tweedie_score(observed, predicted, power=power, sample_weight=at), rtol=1e-7
        )
        constant = np.full(150, np.average(observed, weights=at))
        share = deviance(observed, predicted, sample_weight=at)
        share /= deviance(observed, constant, sample_weight=at)
        assert_allclose(found, 1.0 - share, rtol=1e-7)
    X, y, _ = simulated(BY_NAME["log-normal"])
    model = fixed_model(BY_NAME["log-normal"]).fit(X, y)
    f = np.log(model.predict(X)) - 0.5 * model.likelihood_.shape**2
    assert_allclose(model.score(X, y), r2_score(np.log(y), f), rtol=1e-7)


@pytest.mark.parametrize("n_events", [1, 2, 7])
def test_the_mean_of_few_counts_is_their_number(n_events):
    """Although the rate may be far from it: its logarithm has about the variance 1 / k."""
    X, _, _ = simulated(BY_NAME["poisson"])
    y = np.arange(len(X)) < n_events
    model = fixed_model(BY_NAME["poisson"], kernel=1e-6 * response_kernel()).fit(X, y)
    assert_allclose(model.predict(X).sum(), n_events, rtol=0.01)
    assert_allclose(model.latent_mean_and_variance(X)[1], 1.0 / (n_events + 1.0 / 9.0), rtol=0.01)


@pytest.mark.filterwarnings("ignore:all 150 counts are zero")
def test_the_score_of_targets_without_a_deviance():
    X, y, _ = simulated(BY_NAME["poisson"])
    model = fixed_model(BY_NAME["poisson"]).fit(X, y)
    assert model.score(X, np.zeros(150)) == 0.0
    none = fixed_model(BY_NAME["poisson"], kernel=1e-6 * response_kernel())
    assert none.fit(X, np.zeros(150)).score(X, np.zeros(150)) == 1.0


@pytest.mark.parametrize("method", ["score", "log_predictive_density"])
def test_targets_of_two_columns_and_of_other_lengths_are_refused(method):
    X, y, _ = simulated(BY_NAME["gamma"])
    model = fixed_model(BY_NAME["gamma"]).fit(X, y)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        getattr(model, method)(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        getattr(model, method)(X, y[:5])
    with pytest.raises(ValueError, match="y must hold positive numbers"):
        getattr(model, method)(X, -y)
    with pytest.raises(ValueError, match="event is not an argument of the likelihood Gamma"):
        getattr(model, method)(X, y, event=np.ones(150))


def test_predictions_take_a_common_exposure():
    model = fitted(BY_NAME["poisson"])
    assert_allclose(model.predict(grid(), exposure=2.0), 2.0 * model.predict(grid()))
    with pytest.raises(ValueError, match="exposure must be from"):
        model.predict(grid(), exposure=-1.0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.predict(grid(), exposure=[1.0, 2.0])
