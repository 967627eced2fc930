"""Predictions averaged over hyperparameters, against quadrature over exact Gaussian processes."""

import pickle
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, logsumexp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import HomoscedasticNoise, SparseGPClassifier, SparseGPRegressor
from sparsegpc._core.learning import hyperparameter_draws
from sparsegpc._estimators.learning import averaging
from sparsegpc._estimators.predictions.mixtures import (
    Component,
    mixture_covariance,
    mixture_log_probabilities,
    mixture_moments,
    mixture_quantiles,
    mixture_samples,
)
from tests.estimators.regression import (
    ALL_ROWS,
    LIGHT_TAILS,
    NOISES,
    grid,
    known_noise,
    model_of,
    quiet,
    two_waves,
    waves,
)
from tests.estimators.simple_kernel import SIMPLE

NOISE, LENGTHS = 0.04, (0.05, 20.0)
QUICK = {"max_iter": 10, "tol": 1e-3, "max_reselections": 0}


def average_of(**parameters):
    return model_of(hyperparameters="average", **parameters)


def three_classes():
    X, y = waves(50)
    return X, np.digitize(y, [-0.7, 0.7])


def classifier(**parameters):
    return SparseGPClassifier(n_inducing=15, hyperparameters="average", **SIMPLE, **parameters)


# One hyperparameter: quadrature over exact Gaussian processes


@pytest.fixture(scope="module")
def by_quadrature():
    """Rows, models of 16 draws, of many draws and of none, and quadrature over theta."""
    rng = np.random.RandomState(3)
    X, at = rng.uniform(-3.0, 3.0, (14, 1)), np.linspace(-4.0, 4.0, 25)[:, None]
    y = np.sin(1.5 * X[:, 0]) + NOISE**0.5 * rng.standard_normal(len(X))
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, LENGTHS)
    options = {
        **ALL_ROWS,
        "kernel": kernel,
        "noise": HomoscedasticNoise(NOISE, "fixed"),
        "fit_prior_mean": False,
    }
    nodes, log_weights, means, variances = np.linspace(*np.log(LENGTHS), 400), [], [], []
    for theta in nodes:
        exact = GaussianProcessRegressor(
            kernel.clone_with_theta([theta]), alpha=NOISE, optimizer=None
        ).fit(X, y)
        log_weights.append(exact.log_marginal_likelihood_value_)
        mean, std = exact.predict(at, return_std=True)
        means.append(mean)
        variances.append(std**2)
    weights = np.exp(log_weights - logsumexp(log_weights))
    models = [model_of(hyperparameters=h, **options).fit(X, y) for h in ("average", "best")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hyperparameter_draws, "N_DRAWS", 512)
        many = average_of(**options).fit(X, y)
    return at, models[0], many, models[1], (weights, np.array(means), np.array(variances))


def test_mean_and_variance_are_near_those_by_quadrature(by_quadrature):
    at, average, many, best, (weights, means, variances) = by_quadrature
    mean = weights @ means
    variance = weights @ (variances + means**2) - mean**2
    for k, exact in enumerate((mean, variance)):
        few, close, plain = (
            np.abs(model.latent_mean_and_variance(at)[k] - exact).mean()
            for model in (average, many, best)
        )
        assert few < 0.6 * plain
        assert close < 0.25 * plain


def test_densities_are_near_those_by_quadrature(by_quadrature):
    at, average, many, best, (weights, means, variances) = by_quadrature
    y = np.sin(1.5 * at[:, 0]) + 0.5
    exact = np.log(weights @ norm.pdf(y, means, np.sqrt(variances + NOISE)))
    few, close, plain = (
        np.abs(model.log_predictive_density(at, y) - exact).mean()
        for model in (average, many, best)
    )
    assert few < 0.6 * plain
    assert close < 0.25 * plain


def test_draws_have_the_distribution_by_quadrature(by_quadrature):
    _, _, many, best, (weights, _, _) = by_quadrature
    best_theta = float(best.hyperparameter_draws_[0, 0])
    nodes, theta = np.linspace(*np.log(LENGTHS), 400), many.hyperparameter_draws_[:, 0]
    assert theta.shape == (512,)
    # The left tail is longer than that of any normal distribution.
    exact = weights @ nodes
    assert abs(many.hyperparameter_weights_ @ theta - exact) < 0.3 * abs(best_theta - exact)


# Attributes


def test_weights_are_probabilities_and_the_best_model_has_one_draw():
    X, y = waves()
    average, best = (model_of(hyperparameters=h).fit(X, y) for h in ("average", "best"))
    draws, weights = average.hyperparameter_draws_, average.hyperparameter_weights_
    assert draws.shape == (16, len(average.kernel_.theta) + 1)
    assert_allclose(weights.sum(), 1.0)
    assert (weights >= 0.0).all()
    assert_allclose(average.ess_, 1.0 / (weights @ weights))
    assert_array_equal(best.hyperparameter_weights_, [1.0])
    learned = np.append(best.kernel_.theta, np.log(best.noise_variance_))
    assert_allclose(best.hyperparameter_draws_, learned[None])
    assert best.ess_ == 1.0
    # The rest of the model is that of the learned hyperparameters.
    assert average.kernel_ == best.kernel_
    assert average.lower_bound_ == best.lower_bound_
    assert average.n_evaluations_ == best.n_evaluations_ == len(average.history_["n_samples"])
    assert average.certificate(X, y).interval == best.certificate(X, y).interval


def test_without_learning_the_predictions_are_those_of_the_given_hyperparameters():
    X, y = waves()
    average, best = (model_of(hyperparameters=h, optimizer=None) for h in ("average", "best"))
    ours = average.fit(X, y).predict(grid(), return_std=True)
    assert_array_equal(ours, best.fit(X, y).predict(grid(), return_std=True))
    assert average.ess_ == 1.0


def test_columns_without_effect_do_not_cost_draws():
    """Their length scales are near bounds, which mean nothing beside the prior that ties them."""
    X, y = make_friedman1(n_samples=560, random_state=2)
    train, test = slice(60), slice(60, None)
    average, best = (
        SparseGPRegressor(hyperparameters=h).fit(X[train], y[train]) for h in ("average", "best")
    )
    assert (average.hyperparameter_weights_ > 0.0).all()
    n_params = len(average.kernel_.theta)
    drawn, bounds = average.hyperparameter_draws_, average.kernel_.bounds
    assert (drawn[:, :n_params] > bounds[:, 1]).any()
    found, single = (
        model.log_predictive_density(X[test], y[test]).mean() for model in (average, best)
    )
    # With one draw of 16 the average was .2 lower.
    assert found > single - 0.1


@quiet
@pytest.mark.parametrize("length_scales", ["free", "tied"])
def test_draws_are_within_the_bounds_of_a_kernel_object(length_scales):
    X, y = make_friedman1(n_samples=60, n_features=8, random_state=0)
    lengths = (1e-2, 20.0)
    kernel = ConstantKernel(100.0) * RBF(np.ones(8), lengths)
    model = average_of(kernel=kernel, length_scales=length_scales, n_inducing=60).fit(X, y)
    drawn = np.exp(model.hyperparameter_draws_[:, 1:9])
    assert len(drawn) == 16
    assert (model.hyperparameter_weights_ > 0.0).all()
    assert ((drawn >= lengths[0] * (1.0 - 1e-9)) & (drawn <= lengths[1] * (1.0 + 1e-9))).all()
    # Some are not at the bound, but near it.
    assert (drawn > 0.7 * lengths[1]).sum(axis=0).min() < 16


def test_a_callback_that_stops_the_fit_prevents_further_evaluations():
    with pytest.warns(match="callback asked to stop"):
        model = average_of(callback=lambda record: record.iteration > 3).fit(*waves())
    assert_array_equal(model.hyperparameter_weights_, [1.0])


def test_the_random_state_decides():
    X, y = waves()
    one, same, other = (average_of(random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert_array_equal(one.hyperparameter_draws_, same.hyperparameter_draws_)
    assert_array_equal(one.predict(grid(), return_std=True), same.predict(grid(), return_std=True))
    assert np.abs(one.hyperparameter_draws_ - other.hyperparameter_draws_).max() > 0.0


def test_saved_models_predict_the_same():
    X, y = waves()
    for model in (average_of().fit(X, y), classifier().fit(X, y > 0.0)):
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(
            again.latent_mean_and_variance(grid()), model.latent_mean_and_variance(grid())
        )


def test_a_smaller_model_is_that_of_the_learned_hyperparameters():
    X, y = waves()
    average, best = (model_of(hyperparameters=h).fit(X, y) for h in ("average", "best"))
    smaller = average.truncate(6, X, y)
    assert_array_equal(
        smaller.predict(grid(), return_std=True),
        best.truncate(6, X, y).predict(grid(), return_std=True),
    )
    assert_array_equal(smaller.hyperparameter_draws_, best.hyperparameter_draws_)
    assert len(average.hyperparameter_weights_) == 16


def test_a_model_that_is_fitted_again_forgets_its_mixture():
    X, y = waves()
    model = average_of().fit(X, y).set_params(hyperparameters="best").fit(X, y)
    plain = clone(model).fit(X, y)
    assert_array_equal(
        model.predict(grid(), return_std=True), plain.predict(grid(), return_std=True)
    )


# By default


@pytest.mark.parametrize(("n_rows", "weight", "n_draws"), [(200, 1, 16), (201, 1, 1), (101, 2, 1)])
def test_regressions_with_at_most_two_hundred_rows_are_averaged(n_rows, weight, n_draws):
    X, y = waves(n_rows)
    model = model_of(hyperparameters="auto", **QUICK)
    model.fit(X, y, sample_weight=np.full(n_rows, weight))
    assert len(model.hyperparameter_draws_) == n_draws


def test_hundreds_of_hyperparameters_are_not_averaged_by_default(monkeypatch):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 4))
    y = X[:, 0] + rng.standard_normal(60)
    model = SparseGPRegressor(main_effects=False).fit(X, y)
    n_draws, n_parameters = model.hyperparameter_draws_.shape
    assert n_draws == 16
    monkeypatch.setattr(averaging, "AVERAGED_PARAMETERS", n_parameters - 1)
    assert len(clone(model).fit(X, y).hyperparameter_draws_) == 1
    model.set_params(hyperparameters="average").fit(X, y)
    assert len(model.hyperparameter_draws_) == 16


def test_labels_are_not_averaged():
    X, y = waves(30)
    assert len(SparseGPClassifier(**SIMPLE).fit(X, y > 0.0).hyperparameter_draws_) == 1


@quiet
def test_with_few_rows_and_many_columns_intervals_contain_more_of_the_targets():
    X, y = make_friedman1(1000, n_features=8, noise=1.0, random_state=0)
    shares, densities = np.zeros(2), np.zeros(2)
    for start in range(0, 240, 30):
        rows = slice(start, start + 30)
        for k, choice in enumerate(("best", "auto")):
            model = SparseGPRegressor(main_effects=False, hyperparameters=choice)
            model.fit(X[rows], y[rows])
            lower, upper = model.predict_interval(X[300:])
            shares[k] += np.mean((lower <= y[300:]) & (y[300:] <= upper)) / 8
            densities[k] += model.log_predictive_density(X[300:], y[300:]).mean() / 8
    assert shares[0] + 0.03 < shares[1] < 0.95
    assert densities[0] < densities[1]


# Regression: predictions of a mixture agree with those of its components and with each other


def components_of(model):
    """Return a model for each component, which predicts by it alone."""
    alone = []
    for component in model._components:
        one = pickle.loads(pickle.dumps(model))
        one._mixture = [component._replace(weight=1.0)]
        alone.append(one)
    return [component.weight for component in model._components], alone


@cache
def averaged(noise, n_outputs):
    """Return an average, not to be changed, and its targets."""
    X, Y = two_waves(40)
    y = Y[:, 0] if n_outputs == 1 else Y
    return average_of(noise=noise, **QUICK).fit(X, y), y


def all_noises(noises=NOISES):
    for noise in noises:
        for n_outputs in (1, 2):
            yield averaged(noise, n_outputs)


@quiet
def test_moments_and_densities_are_those_of_the_mixture_for_every_noise():
    X = two_waves(40)[0]
    for model, y in all_noises():
        weights, alone = components_of(model)
        means, stds = map(
            np.stack, zip(*(m.predict(X, return_std=True) for m in alone), strict=True)
        )
        mean, std = model.predict(X, return_std=True)
        second = np.tensordot(weights, stds**2 + means**2, axes=1)
        assert_allclose(mean, np.tensordot(weights, means, axes=1), atol=1e-10)
        assert_allclose(std**2, second - mean**2, rtol=1e-8)
        assert_allclose(
            std**2,
            model.latent_mean_and_variance(X)[1] + model.predict_noise_std(X) ** 2,
            rtol=1e-8,
        )
        same, covariance = model.predict(X[:9], return_cov=True)
        assert_allclose(same, mean[:9], atol=1e-8)
        assert_allclose(np.einsum("ii...->i...", covariance), std[:9] ** 2, rtol=1e-7)
        densities = [np.exp(m.log_predictive_density(X, y)) for m in alone]
        expected = np.log(np.tensordot(weights, densities, axes=1))
        assert_allclose(model.log_predictive_density(X, y), expected, rtol=1e-8, atol=1e-10)


@quiet
def test_draws_have_the_moments_of_the_mixture():
    n = 20_000
    for model, _ in all_noises(LIGHT_TAILS):
        draws = model.sample_y(grid(2), n, random_state=1).reshape(4, -1, n)
        mean, covariance = model.predict(grid(2), return_cov=True)
        mean, covariance = mean.reshape(4, -1), covariance.reshape(4, 4, -1)
        for k in range(mean.shape[1]):
            std = np.sqrt(covariance[..., k].diagonal())
            assert np.abs((draws[:, k].mean(axis=1) - mean[:, k]) / std).max() < 5.0 / n**0.5
            error = (np.cov(draws[:, k]) - covariance[..., k]) / np.outer(std, std)
            assert np.abs(error).max() < 0.15


def test_known_noise_is_used_by_every_component():
    X, y = waves()
    model = average_of().fit(X, y, noise_variance=known_noise())
    assert model.hyperparameter_draws_.shape == (16, len(model.kernel_.theta))
    mean, std = model.predict(X, return_std=True, noise_variance=0.3)
    assert_allclose(std**2, model.latent_mean_and_variance(X)[1] + 0.3)
    density = np.exp(model.log_predictive_density(X, mean, noise_variance=0.3))
    weights, alone = components_of(model)
    parts = [m.predict(X, return_std=True, noise_variance=0.3) for m in alone]
    expected = sum(w * norm.pdf(mean, *part) for w, part in zip(weights, parts, strict=True))
    assert_allclose(density, expected)
    with pytest.raises(ValueError, match="noise_variance is needed"):
        model.sample_y(X)


# Classification


@pytest.mark.parametrize("likelihood", ["bernoulli-logit", "bernoulli-probit", "polya-gamma"])
def test_probabilities_of_two_classes_are_averages(likelihood):
    X, y = waves(50)
    model = classifier(likelihood=likelihood, class_weight={False: 1.0, True: 3.0}).fit(X, y > 0.0)
    weights, alone = components_of(model)
    for one in alone:
        one.class_weight_ = np.ones(2)
    average = np.tensordot(weights, [one.predict_proba(grid()) for one in alone], axes=1)
    expected = average * [1.0, 3.0]
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(grid()), expected, rtol=1e-8)
    odds = np.log(expected[:, 1] / expected[:, 0])
    assert_allclose(model.decision_function(grid()), odds, atol=1e-8)


@pytest.mark.parametrize("likelihood", ["softmax", "dirichlet"])
def test_probabilities_of_many_classes_are_averages(likelihood):
    X, y = three_classes()
    model = classifier(likelihood=likelihood).fit(X, y)
    weights, alone = components_of(model)
    average = np.tensordot(weights, [one.predict_proba(grid()) for one in alone], axes=1)
    assert_allclose(model.predict_proba(grid()), average, rtol=1e-8)
    assert model.sample_f(grid(), 5).shape == (16, 3, 5)


def test_intervals_of_probabilities_contain_draws_as_often_as_they_say():
    X, y = waves(50)
    n = 20_000
    model = classifier().fit(X, y > 0.0)
    low, high = model.predict_proba_interval(grid(), 0.8)
    draws = expit(model.sample_f(grid(), n))
    for end, level in ((low, 0.1), (high, 0.9)):
        assert np.abs((draws <= end[:, [1]]).mean(axis=1) - level).max() < 0.015
    many = classifier().fit(*three_classes())
    low, high = many.predict_proba_interval(grid(), 0.8)
    f = many.sample_f(grid(), n)
    draws = np.exp(f - logsumexp(f, axis=1, keepdims=True))
    inside = ((draws >= low[..., None]) & (draws <= high[..., None])).mean(axis=2)
    assert np.abs(inside - 0.8).max() < 0.06


def test_one_model_for_each_class_is_refused():
    with pytest.raises(ValueError, match=r"hyperparameters='average' needs a single model"):
        classifier(likelihood="polya-gamma").fit(*three_classes())


def test_one_model_for_each_class_lists_its_single_draws():
    model = SparseGPClassifier(n_inducing=8, likelihood="polya-gamma", **SIMPLE)
    model.fit(*three_classes())
    assert [len(weights) for weights in model.hyperparameter_weights_] == [1, 1, 1]
    assert model.ess_ == [1.0, 1.0, 1.0]


# Formulas


def random_mixture(n_components=4, shape=(2, 5), seed=0):
    rng = np.random.RandomState(seed)
    weights = rng.dirichlet(np.ones(n_components))
    means = list(3.0 * rng.randn(n_components, *shape))
    return weights, means, list(rng.uniform(0.1, 4.0, (n_components, *shape)))


@pytest.mark.parametrize("level", [1e-6, 0.025, 0.5, 0.9, 1.0 - 1e-6])
def test_quantiles_solve_for_the_distribution_function(level):
    weights, means, variances = random_mixture()
    found = mixture_quantiles(weights, means, variances, level)

    def expected(m, s):
        return brentq(
            lambda t: weights @ norm.cdf(t, m, np.sqrt(s)) - level, -60.0, 60.0, xtol=1e-12
        )

    for place in np.ndindex(2, 5):
        m, s = (np.array([part[place] for part in parts]) for parts in (means, variances))
        assert found[place] == pytest.approx(expected(m, s), abs=1e-8)


def test_quantiles_of_one_gaussian_and_of_a_point():
    assert (
        mixture_quantiles([1.0], [np.zeros(1)], [np.full(1, 4.0)], 0.975) == norm.ppf(0.975) * 2.0
    )
    step = mixture_quantiles([0.4, 0.6], [np.zeros(1), np.ones(1)], [np.zeros(1)] * 2, 0.5)
    assert_allclose(step, 1.0)


def test_moments_are_integrals_over_the_density():
    weights, means, variances = random_mixture(shape=(1,))
    mean, variance = mixture_moments(weights, means, variances)

    def density(t):
        return weights @ norm.pdf(t, np.ravel(means), np.sqrt(np.ravel(variances)))

    exact = quad(lambda t: t * density(t), -40.0, 40.0)[0]
    assert mean[0] == pytest.approx(exact)
    assert variance[0] == pytest.approx(quad(lambda t: (t - exact) ** 2 * density(t), -40, 40)[0])


def test_covariances_are_second_moments_about_the_mean():
    weights, means, _ = random_mixture()
    roots = np.random.RandomState(1).randn(4, 2, 5, 5)
    parts = [root @ root.swapaxes(-1, -2) for root in roots]
    copies = [part.copy() for part in parts]
    mean, covariance = mixture_covariance(zip(weights, means, copies, strict=True))
    assert_allclose(mean, np.tensordot(weights, means, axes=1))
    second = [C + m[:, :, None] * m[:, None, :] for C, m in zip(parts, means, strict=True)]
    expected = np.tensordot(weights, second, axes=1) - mean[:, :, None] * mean[:, None, :]
    assert_allclose(covariance, expected, atol=1e-12)


def test_averaged_probabilities_near_zero_and_one_keep_their_logarithms():
    tiny = np.array([[-1e-300, -690.0], [-800.0, -0.0]])
    less = tiny + np.array([[0.0, -2.0], [-2.0, 0.0]])
    found = mixture_log_probabilities([0.5, 0.5], [tiny, less])
    shift = np.log(0.5 + 0.5 * np.exp(-2.0))
    assert_allclose(found[0], [-np.exp(-690.0 + shift), -690.0 + shift])
    assert_allclose(found[1], [-800.0 + shift, 0.0], atol=1e-300)


def test_each_draw_is_from_one_component():
    components = [Component(w, [], k) for k, w in enumerate((0.2, 0.5, 0.3))]
    samples = mixture_samples(
        components,
        10_000,
        np.random.RandomState(0),
        lambda component, n: np.full((2, n, 3), float(component.observation)),
    )
    assert (samples == samples[:1, :, :1]).all()
    assert_allclose(np.bincount(samples[0, :, 0].astype(int)) / 10_000, [0.2, 0.5, 0.3], atol=0.02)


def test_a_mixture_of_equal_components_is_the_model_itself():
    X, y = waves()
    best = model_of().fit(X, y)
    [alone] = best._components
    twice = pickle.loads(pickle.dumps(best))
    twice._mixture = [alone._replace(weight=0.3), alone._replace(weight=0.7)]
    for method in ("predict", "predict_noise_std", "latent_mean_and_variance"):
        assert_allclose(getattr(twice, method)(grid()), getattr(best, method)(grid()), rtol=1e-9)
    assert_allclose(
        twice.predict(grid(), return_cov=True)[1], best.predict(grid(), return_cov=True)[1]
    )
    assert_allclose(twice.log_predictive_density(X, y), best.log_predictive_density(X, y))
