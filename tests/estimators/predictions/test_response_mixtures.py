"""Averages of generalised regressors, against scipy's distributions summed over the components."""

import pickle
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from sparsegpc import (
    BoundSearch,
    LocalCorrection,
    SparseGPGeneralizedRegressor,
    StochasticSparseGPGeneralizedRegressor,
)
from sparsegpc._core.likelihoods.responses import observations
from sparsegpc._estimators.predictions.latent import latent_moments
from sparsegpc._estimators.predictions.mixtures import (
    positive_mixture_moments,
    quantiles_of_increasing,
)
from tests.estimators.responses import (
    BY_NAME,
    EACH,
    NODE_WEIGHTS,
    NODES,
    fixed_model,
    grid,
    model_of,
    simulated,
)

POSITIVE = pytest.mark.parametrize("name", ["gamma", "weibull", "log-normal"])
# A kernel by name has no others beside it.
QUICK = {"kernel": "rbf", "max_iter": 10, "tol": 1e-3, "max_reselections": 0}


def average_of(response, **parameters):
    return model_of(response, hyperparameters="average", **{**QUICK, **parameters})


@cache
def averaged(name):
    """Return an average, not to be changed, and its data."""
    X, y, row_arguments = simulated(BY_NAME[name], n=40, censored=0.3)
    return average_of(BY_NAME[name]).fit(X, y, **row_arguments), X, y, row_arguments


def exposures(response, n=9):
    return {"exposure": np.linspace(0.5, 4.0, n)} if response.takes_exposure else {}


def laws(response, model, X, exposure=1.0):
    """Yield the weight of each draw, moments of f, and the distribution of y at nodes of f.

    The parameter of the likelihood is that of the draw.
    """
    draws, weights = model.hyperparameter_draws_, model.hyperparameter_weights_
    for draw, component in zip(draws[weights > 0.0], model._mixture, strict=True):
        mean, variance = (part[0] for part in latent_moments(component.posteriors, X))
        parameter = np.exp(draw[-1]) if response.attribute else None
        f = mean + np.sqrt(variance) * NODES
        yield component.weight, (mean, variance), response.distribution(f, exposure, parameter)


def expected(response, model, X, what, **row_arguments):
    """Return the average over draws and f of ``what(distribution)``."""
    return sum(
        weight * (NODE_WEIGHTS @ what(law))
        for weight, _, law in laws(response, model, X, **row_arguments)
    )


# Each prediction is that of the mixture


@EACH
def test_there_are_draws_of_the_parameter(response):
    model = averaged(response.likelihood)[0]
    n_params = len(model.kernel_.theta) + (response.attribute is not None)
    assert model.hyperparameter_draws_.shape == (16, n_params)
    assert_allclose(model.hyperparameter_weights_.sum(), 1.0)
    assert model.ess_ > 2.0
    if response.attribute:
        parameters = [getattr(c.observation, response.attribute) for c in model._mixture]
        assert min(parameters) < getattr(model.likelihood_, response.attribute) < max(parameters)


def test_components_are_models_of_the_drawn_hyperparameters():
    model, X, y, row_arguments = averaged("poisson")
    weights = model.hyperparameter_weights_
    found = []
    for theta in model.hyperparameter_draws_[weights > 0.0]:
        alone = clone(model).set_params(
            kernel=model.kernel_.clone_with_theta(theta),
            optimizer=None,
            selector=model.inducing_points_,
            hyperparameters="best",
        )
        found.append(alone.fit(X, y, **row_arguments).latent_mean_and_variance(grid()))
    means, variances = np.swapaxes(found, 0, 1)
    weights = weights[weights > 0.0]
    mean, variance = model.latent_mean_and_variance(grid())
    assert_allclose(mean, weights @ means, atol=1e-4)
    assert_allclose(variance, weights @ (variances + means**2) - mean**2, rtol=1e-3)


@EACH
def test_mean_and_deviation_are_those_of_the_mixture(response):
    model, given = averaged(response.likelihood)[0], exposures(response)
    mean, deviation = model.predict(grid(), return_std=True, **given)
    first = expected(response, model, grid(), lambda law: law.mean(), **given)
    second = expected(response, model, grid(), lambda law: law.var() + law.mean() ** 2, **given)
    assert_allclose(mean, first, rtol=1e-7)
    assert_allclose(deviation, np.sqrt(second - first**2), rtol=1e-6)
    assert_array_equal(model.predict(grid(), **given), mean)


@EACH
def test_log_densities_are_those_of_the_mixture(response):
    model, given = averaged(response.likelihood)[0], exposures(response)
    y = np.round(np.linspace(0.0, 20.0, 9)) if response.is_discrete else np.geomspace(0.1, 20.0, 9)

    def density(law):
        return law.pmf(y) if response.is_discrete else law.pdf(y)

    found = model.log_predictive_density(grid(), y, **given)
    sums = expected(response, model, grid(), density, **given)
    assert_allclose(found, np.log(sums), rtol=1e-7, atol=1e-8)


@EACH
def test_quantiles_are_those_of_the_mixture(response):
    model, given = averaged(response.likelihood)[0], exposures(response)
    levels = [0.02, 0.3, 0.5, 0.975]
    quantiles = model.predict_quantiles(grid(), levels, **given)
    for level, y in zip(levels, quantiles.T, strict=True):
        below = expected(response, model, grid(), lambda law, y=y: law.cdf(y), **given)
        if response.is_discrete:
            less = expected(response, model, grid(), lambda law, y=y: law.cdf(y - 1.0), **given)
            assert_array_equal(y, np.rint(y))
            assert ((less < level + 1e-9) & (level <= below + 1e-9)).all()
        else:
            assert_allclose(below, level, atol=1e-7)
    assert (np.diff(quantiles, axis=1) >= 0.0).all()
    assert_array_equal(model.predict_quantiles(grid(), 0.5, **given), quantiles[:, 2])
    ends = model.predict_interval(grid(), 0.95, **given)
    assert_allclose(ends, model.predict_quantiles(grid(), [0.025, 0.975], **given).T)


@POSITIVE
def test_survival_is_one_minus_the_distribution_function_of_the_mixture(name):
    response, model = BY_NAME[name], averaged(name)[0]
    times = np.append(0.0, np.geomspace(1e-3, 1e3, 60))
    survival = model.survival_function(grid(), times)
    assert_array_equal(survival[:, 0], 1.0)
    assert (np.diff(survival, axis=1) <= 1e-13).all()
    for time, found in zip(times[1::9], survival.T[1::9], strict=True):
        cdf = expected(response, model, grid(), lambda law, time=time: law.cdf(time))
        assert_allclose(found, 1.0 - cdf, atol=1e-8)
    median = model.predict_quantiles(grid(), 0.5)
    at_median = [model.survival_function(grid()[[k]], median[k])[0] for k in range(9)]
    assert_allclose(at_median, 0.5, atol=1e-8)


@pytest.mark.parametrize("name", ["weibull", "log-normal"])
def test_a_censored_duration_has_the_probability_to_survive_it(name):
    model = averaged(name)[0]
    times = np.geomspace(0.1, 20.0, 9)
    found = model.log_predictive_density(grid(), times, event=np.zeros(9))
    survival = [model.survival_function(grid()[[k]], times[k])[0] for k in range(9)]
    # Probabilities near one are rounded.
    assert_allclose(found, np.log(survival), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("name", ["gamma", "weibull", "log-normal"])
def test_intervals_of_survival_are_quantiles_over_draws_of_f_and_shapes(name):
    response, (model, *_), rng = BY_NAME[name], averaged(name), np.random.RandomState(0)
    time, n = 2.0, 20_000
    survival = []
    for component in model._components:
        mean, variance = component.posteriors[0].moments(grid())
        size = round(n * component.weight)
        f = rng.normal(mean[0], np.sqrt(variance[0]), size=(size, len(grid())))
        parameter = getattr(component.observation, response.attribute)
        survival.append(response.distribution(f, parameter=parameter).sf(time))
    survival = np.concatenate(survival)
    low, high = model.survival_interval(grid(), time, coverage=0.9)
    assert_allclose(np.mean(survival < low, axis=0), 0.05, atol=0.012)
    assert_allclose(np.mean(survival < high, axis=0), 0.95, atol=0.012)
    low, high = model.survival_interval(grid(), time, coverage=0.99)
    assert_allclose(np.mean(survival < low, axis=0), 0.005, atol=0.004)
    assert_allclose(np.mean(survival < high, axis=0), 0.995, atol=0.004)


@pytest.mark.parametrize("largest", [1 / 16, 0.4])
@pytest.mark.parametrize("place", [0, 15])
def test_quantiles_of_a_mixture_of_equal_parts_are_those_of_one(largest, place):
    mean, variance = np.array([0.3, -1.0]), np.array([0.5, 2.0])
    weights = np.full(16, (1.0 - largest) / 15)
    weights[place] = largest
    for level in (0.0005, 0.005, 0.025, 0.5, 0.9995):
        found = quantiles_of_increasing(
            weights, [mean] * 16, [variance] * 16, [np.tanh] * 16, level
        )
        z = (np.arctanh(found) - mean) / np.sqrt(variance)
        assert_allclose(stats.norm.cdf(z), level, atol=2e-4)


@EACH
def test_draws_have_the_moments_and_quantiles_of_the_mixture(response):
    """Of 20 000 draws a mean has an error of 5 standard errors once in two million cases."""
    model, given, n = averaged(response.likelihood)[0], exposures(response, 5), 20_000
    at = grid(5)
    draws = model.sample_y(at, n, random_state=0, **given)
    mean, deviation = model.predict(at, return_std=True, **given)
    assert (np.abs(draws.mean(axis=1) - mean) < 5.0 * deviation / np.sqrt(n)).all()
    levels = np.array([0.1, 0.5, 0.9])
    quantiles = model.predict_quantiles(at, levels, **given)
    below = (draws[:, None] <= quantiles[..., None]).mean(axis=2)
    if response.is_discrete:
        assert (below > levels - 0.02).all()
        less = (draws[:, None] < quantiles[..., None]).mean(axis=2)
        assert (less < levels + 0.02).all()
    else:
        assert_allclose(below, np.broadcast_to(levels, below.shape), atol=0.02)
    f_mean, f_variance = model.latent_mean_and_variance(at)
    f = model.sample_f(at, n, random_state=1)
    assert (np.abs(f.mean(axis=1) - f_mean) < 5.0 * np.sqrt(f_variance / n)).all()


@EACH
def test_the_score_is_that_of_the_predictive_mean(response):
    """The deviance is that of the learned likelihood, which here has a known f at each row."""
    model, X, y, row_arguments = averaged(response.likelihood)
    mean, likelihood = model.predict(X), model.likelihood_
    if response.likelihood == "weibull":
        log_factor = gammaln(1.0 + 1.0 / likelihood.shape)
    else:
        log_factor = 0.5 * likelihood.shape**2 if response.likelihood == "log-normal" else 0.0
    at, targets = np.log(mean) - log_factor, observations(y, **row_arguments)
    places = np.linspace(-14.0, 14.0, 28_001)[:, None]
    values = likelihood.log_density(targets, places)
    lack = values.max(axis=0) - likelihood.log_density(targets, at)
    explained = 1.0 - lack.sum() / (values.max(axis=0).sum() - values.sum(axis=1).max())
    assert_allclose(model.score(X, y, **row_arguments), explained, atol=1e-5)


# One component, and other ways to fit


def all_predictions(response, model, X, y, row_arguments):
    """Return what all methods return, a list of arrays."""
    given = exposures(response)
    found = [
        *model.predict(grid(), return_std=True, **given),
        model.predict_quantiles(grid(), [0.1, 0.5, 0.999], **given),
        model.log_predictive_density(X, y, **row_arguments),
        model.score(X, y, **row_arguments),
        model.sample_y(grid(), 3, **given),
        model.sample_f(grid(), 3),
        *model.latent_mean_and_variance(grid()),
    ]
    return found if response.is_discrete else [*found, model.survival_function(grid(), [0.5, 2.0])]


def assert_same_predictions(response, model, expected, data):
    pairs = (all_predictions(response, each, *data) for each in (model, expected))
    for found, same in zip(*pairs, strict=True):
        assert_array_equal(found, same)


@EACH
def test_a_single_component_changes_nothing(response):
    X, y, row_arguments = data = simulated(response, n=40, censored=0.3)
    best = fixed_model(response, hyperparameters="best").fit(X, y, **row_arguments)
    without_learning = fixed_model(response, hyperparameters="average").fit(X, y, **row_arguments)
    one = pickle.loads(pickle.dumps(best))
    one._mixture = one._components
    for model in (without_learning, one):
        assert_same_predictions(response, model, best, data)


@EACH
def test_equal_components_predict_as_one(response):
    X, y, row_arguments = data = simulated(response, n=40, censored=0.3)
    best = fixed_model(response).fit(X, y, **row_arguments)
    twice, [alone] = pickle.loads(pickle.dumps(best)), best._components
    twice._mixture = [alone._replace(weight=0.3), alone._replace(weight=0.7)]
    for k, (found, same) in enumerate(
        zip(
            all_predictions(response, twice, *data),
            all_predictions(response, best, *data),
            strict=True,
        )
    ):
        # Draws differ, as the component is drawn first.
        if k not in (5, 6):
            assert_allclose(found, same, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("n_rows", [30, 120])
def test_by_default_nothing_is_averaged(n_rows):
    X, y, row_arguments = data = simulated(BY_NAME["negative-binomial"], n=n_rows)
    auto, best = (
        model_of(BY_NAME["negative-binomial"], **QUICK, **given).fit(X, y, **row_arguments)
        for given in ({}, {"hyperparameters": "best"})
    )
    assert auto._mixture is None
    assert_array_equal(auto.hyperparameter_weights_, [1.0])
    assert_same_predictions(BY_NAME["negative-binomial"], auto, best, data)


def test_attributes_are_those_of_the_learned_hyperparameters():
    model, X, y, row_arguments = averaged("weibull")
    best = clone(model).set_params(hyperparameters="best").fit(X, y, **row_arguments)
    assert model.kernel_ == best.kernel_
    assert model.lower_bound_ == best.lower_bound_
    assert model.likelihood_.shape == best.likelihood_.shape
    assert (
        model.certificate(X, y, **row_arguments).interval
        == best.certificate(X, y, **row_arguments).interval
    )
    smaller, expected_one = (each.truncate(6, X, y, **row_arguments) for each in (model, best))
    assert smaller._mixture is None
    assert_array_equal(smaller.predict(grid()), expected_one.predict(grid()))
    again = pickle.loads(pickle.dumps(model)).set_params(hyperparameters="best")
    again.fit(X, y, **row_arguments)
    assert_array_equal(again.predict(grid()), best.predict(grid()))


def test_intervals_of_f_are_wider_than_those_of_the_learned_hyperparameters():
    model, X, y, row_arguments = averaged("negative-binomial")
    best = clone(model).set_params(hyperparameters="best").fit(X, y, **row_arguments)
    wide, narrow = (each.latent_mean_and_variance(grid())[1].mean() for each in (model, best))
    assert wide > 1.02 * narrow


@EACH
def test_saved_averages_predict_the_same(response):
    model, *data = averaged(response.likelihood)
    again = pickle.loads(pickle.dumps(model))
    assert_same_predictions(response, again, model, data)


@EACH
def test_models_saved_without_the_parameter_still_predict(response):
    X, y, row_arguments = data = simulated(response, n=40, censored=0.3)
    model = fixed_model(response).fit(X, y, **row_arguments)
    state = model.__getstate__()
    new = "hyperparameter_draws_", "hyperparameter_weights_", "ess_", "_mixture", "hyperparameters"
    for name in new:
        del state[name]
    old = SparseGPGeneralizedRegressor.__new__(SparseGPGeneralizedRegressor)
    old.__setstate__(state)
    assert old.hyperparameters == "auto"
    assert_same_predictions(response, old, model, data)


@pytest.mark.parametrize("value", ["mean", None, True, 16])
def test_other_values_are_refused(value):
    X, y, _ = simulated(BY_NAME["poisson"], n=20)
    with pytest.raises(InvalidParameterError, match="'hyperparameters' parameter"):
        SparseGPGeneralizedRegressor(hyperparameters=value).fit(X, y)
    with pytest.raises(TypeError, match="hyperparameters"):
        StochasticSparseGPGeneralizedRegressor(hyperparameters="average")


def test_a_chosen_likelihood_is_averaged_and_a_warm_start_too():
    X, y, row_arguments = simulated(BY_NAME["log-normal"], n=60, censored=0.3)
    model = average_of(BY_NAME["log-normal"], likelihood="auto", warm_start=True)
    model.fit(X, y, **row_arguments)
    kind = type(model.likelihood_)
    assert {type(component.observation) for component in model._mixture} == {kind}
    model.fit(X, y, **row_arguments)
    assert {type(component.observation) for component in model._mixture} == {kind}
    assert len(model.hyperparameter_draws_) == 16


def test_copies_that_hide_the_noise_are_left_out_of_the_draws(rng):
    X = rng.normal(size=(30, 1))
    y = np.exp(np.sin(2.0 * X[:, 0])) * rng.gamma(4.0, 0.25, size=30)
    model = SparseGPGeneralizedRegressor(likelihood="gamma", hyperparameters="average")
    single = clone(model).fit(X, y)
    with pytest.warns(UserWarning, match="30 rows, counted by their weights, repeat others"):
        model.fit(np.concatenate([X, X]), np.concatenate([y, y]))
    assert_allclose(model.hyperparameter_draws_, single.hyperparameter_draws_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:all 30 counts are zero")
def test_counts_that_are_all_zero_are_averaged():
    X, _, _ = simulated(BY_NAME["negative-binomial"], n=30)
    model = average_of(BY_NAME["negative-binomial"]).fit(X, np.zeros(30))
    mean, deviation = model.predict(grid(), return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all()
    assert_array_equal(model.predict_quantiles(grid(), 0.05), 0.0)


def test_neighbours_refuse_an_average_and_a_search_keeps_it():
    X, y, row_arguments = simulated(BY_NAME["negative-binomial"], n=40)
    model = average_of(BY_NAME["negative-binomial"])
    with pytest.raises(ValueError, match="hyperparameters='average' has no neighbours"):
        LocalCorrection(model).fit(X, y, **row_arguments)
    local = LocalCorrection(clone(model).set_params(hyperparameters="auto"), mode="both")
    assert np.isfinite(local.fit(X, y, **row_arguments).predict(grid())).all()
    search = BoundSearch(model, {"n_inducing": [5, 10]}).fit(X, y, **row_arguments)
    assert len(search.best_estimator_.hyperparameter_draws_) == 16
    assert_array_equal(search.predict(grid()), search.best_estimator_.predict(grid()))


def test_moments_that_overflow_are_infinite():
    means, variances = [np.array([1.0, np.inf]), np.array([2.0, np.inf])], np.full((2, 2), np.inf)
    mean, variance = positive_mixture_moments([0.5, 0.5], means, variances)
    assert_array_equal(mean, [1.5, np.inf])
    assert_array_equal(variance, np.inf)
