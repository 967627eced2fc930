"""Predictions are averaged over kernels that the data hardly tell apart."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Matern

from sparsegpc import LocalCorrection, SparseGPGeneralizedRegressor, SparseGPRegressor
from sparsegpc._estimators.kernels.named_kernels import has_name
from sparsegpc._estimators.learning import averaging

# Ratios of weights below this one do not count.
LEAST_RATIO = np.exp(-3.0)


def field(nu, seed, n=150, noise=0.3):
    """Return inputs, targets, and f of 2 n rows, from a Matérn kernel in two columns."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(2 * n, 2))
    root = np.linalg.cholesky(Matern(0.5, nu=nu)(X) + 1e-9 * np.eye(2 * n))
    f = root @ rng.standard_normal(2 * n)
    return X, f + np.sqrt(noise) * rng.standard_normal(2 * n), f


@pytest.fixture(scope="module", autouse=True)
def without_draws():
    """With more than 100 rows there are no draws of the hyperparameters beside the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(averaging, "AVERAGING_ROWS", 100)
        yield


@pytest.fixture(scope="module")
def data():
    """Return inputs and targets of 150 rows, which do not tell four kernels apart."""
    X, y, _ = field(1.5, 0)
    return X[:150], y[:150]


@pytest.fixture(scope="module")
def model(data):
    return SparseGPRegressor(main_effects=False).fit(*data)


@pytest.fixture(scope="module")
def single(data, model):
    """Return a regressor with each kernel of the average."""
    return [clone(model).set_params(kernel=name).fit(*data) for name in model.kernel_weights_]


def objective(model):
    return model.lower_bound_ + model.log_prior_


def test_weights_are_those_of_the_evidence(model, single):
    weights = model.kernel_weights_
    assert len(weights) > 2
    assert sum(weights.values()) == pytest.approx(1.0)
    assert has_name(model.kernel_.k2, next(iter(weights)))
    # Searches from other starts end at objectives that differ a little.
    objectives = np.array([objective(each) for each in single])
    expected = np.exp(objectives - objectives.max())
    assert_allclose(list(weights.values()), expected / expected.sum(), atol=0.02)
    assert min(weights.values()) > LEAST_RATIO * max(weights.values())


def test_predictions_are_those_of_the_mixture(data, model, single):
    X = data[0][:20] + 0.1
    weights = np.array(list(model.kernel_weights_.values()))[:, None]
    parts = [each.predict(X, return_std=True) for each in single]
    means, deviations = (np.stack(part) for part in zip(*parts, strict=True))
    mean, deviation = model.predict(X, return_std=True)
    expected = (weights * means).sum(axis=0)
    second = (weights * (deviations**2 + means**2)).sum(axis=0)
    assert_allclose(mean, expected, atol=0.02)
    assert_allclose(deviation, np.sqrt(second - expected**2), rtol=0.02)
    densities = np.stack([np.exp(each.log_predictive_density(X, mean)) for each in single])
    log_density = np.log((weights * densities).sum(axis=0))
    assert_allclose(model.log_predictive_density(X, mean), log_density, atol=0.02)


def test_f_is_less_often_too_certain():
    shares = []
    for seed in range(6):
        X, y, f = field(0.5, seed)
        for hyperparameters in ("best", "auto"):
            model = SparseGPRegressor(hyperparameters=hyperparameters).fit(X[:150], y[:150])
            mean, variance = model.latent_mean_and_variance(X[150:])
            shares.append(np.mean(np.abs(mean - f[150:]) < 1.645 * np.sqrt(variance)))
    best, average = np.reshape(shares, (6, 2)).mean(axis=0)
    assert average > best + 0.02
    assert average > 0.8


def test_best_means_the_best_kernel(data, model):
    best = clone(model).set_params(hyperparameters="best").fit(*data)
    assert best.kernel_weights_ is None
    assert best.lower_bound_ == pytest.approx(model.lower_bound_, abs=0.01)
    assert best.hyperparameter_draws_.shape == model.hyperparameter_draws_.shape
    assert np.abs(best.predict(data[0]) - model.predict(data[0])).max() > 0.0


@pytest.mark.parametrize(
    "parameters",
    [{"kernel": "rbf"}, {"kernel": 1.0 * RBF()}, {"optimizer": None}, {"point_cost": 0.1}],
    ids=["name", "object", "fixed", "costly points"],
)
def test_only_the_default_kernel_is_averaged(data, parameters):
    assert SparseGPRegressor(**parameters).fit(*data).kernel_weights_ is None


def test_a_clear_winner_is_alone():
    X = np.linspace(0.0, 6.0, 200)[:, None]
    model = SparseGPRegressor().fit(X, np.sin(2.0 * X[:, 0]) + 0.01 * np.cos(40.0 * X[:, 0]))
    assert model.kernel_weights_ is None
    assert len(model.hyperparameter_weights_) == 1


def test_few_rows_have_draws_with_each_kernel(data):
    X, y = data
    model = SparseGPRegressor().fit(X[:60], y[:60])
    assert len(model.kernel_weights_) > 1
    assert model.hyperparameter_draws_.shape[0] == 16
    components = model._components
    assert len(components) == 16 * len(model.kernel_weights_)
    assert sum(component.weight for component in components) == pytest.approx(1.0)


def test_counts_are_averaged_over_kernels_too():
    X, _, f = field(1.0, 1)
    y = np.random.RandomState(0).poisson(np.exp(f[:150]))
    model = SparseGPGeneralizedRegressor(likelihood="poisson").fit(X[:150], y)
    assert len(model.kernel_weights_) > 1
    single = [
        SparseGPGeneralizedRegressor(name, likelihood="poisson").fit(X[:150], y)
        for name in model.kernel_weights_
    ]
    weights = model.kernel_weights_.values()
    mean = sum(w * each.predict(X[150:]) for w, each in zip(weights, single, strict=True))
    assert_allclose(model.predict(X[150:]), mean, rtol=0.05)


@pytest.mark.parametrize("noise", ["polynomial", "gp", "auto", "student-t"])
def test_kinds_of_noise_are_averaged(data, noise):
    X, y = data
    model = SparseGPRegressor(noise=noise).fit(X, y)
    assert len(model.kernel_weights_) > 1
    lower, upper = model.predict_interval(X)
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) < 0.98


def test_several_outputs_share_the_weights(data):
    X, y = data
    model = SparseGPRegressor().fit(X, np.column_stack([y, -y]))
    assert len(model.kernel_weights_) > 1
    mean = model.predict(X)
    assert_allclose(mean[:, 0], -mean[:, 1], atol=1e-6)


def test_a_saved_model_predicts_the_same(data, model):
    loaded = pickle.loads(pickle.dumps(model))
    assert_allclose(loaded.predict(data[0]), model.predict(data[0]), rtol=1e-12)
    assert loaded.kernel_weights_ == model.kernel_weights_


def test_a_truncated_model_has_a_single_kernel(data, model):
    smaller = model.truncate(10, *data)
    assert smaller.kernel_weights_ is None
    assert len(smaller._components) == 1
    assert len(model.kernel_weights_) > 1


def test_another_fit_forgets_the_average(data):
    X, y = data
    model = SparseGPRegressor().fit(X, y)
    model.set_params(kernel="rbf").fit(X, y)
    assert model.kernel_weights_ is None


@pytest.mark.parametrize("n_left", [1, 100])
def test_a_stopped_fit_has_a_single_kernel(data, model, n_left):
    steps, stop_at = [], max(model.n_evaluations_ - n_left, 10)

    def stop(step):
        steps.append(step)
        return len(steps) == stop_at

    with pytest.warns(ConvergenceWarning, match="callback"):
        model = SparseGPRegressor(main_effects=False, callback=stop).fit(*data)
    assert model.kernel_weights_ is None


def test_neighbours_are_those_of_the_best_kernel(data):
    X, y = data
    default, best = (
        LocalCorrection(SparseGPRegressor(hyperparameters=name)).fit(X, y)
        for name in ("auto", "best")
    )
    assert_allclose(default.predict(X), best.predict(X), rtol=1e-9)


def test_a_warm_start_keeps_the_average(data, model):
    X, y = data
    again = clone(model).set_params(warm_start=True).fit(X, y).fit(X, y)
    assert again.kernel_weights_.keys() == model.kernel_weights_.keys()
    for name, weight in model.kernel_weights_.items():
        assert again.kernel_weights_[name] == pytest.approx(weight, abs=0.02)
    assert_allclose(again.predict(X), model.predict(X), atol=0.02)


def test_it_is_printed(data, capsys):
    SparseGPRegressor(verbose=1).fit(*data)
    assert ": nearly as good" in capsys.readouterr().out
