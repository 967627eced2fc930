"""The default kernel is a Matérn or a Laplacian kernel where a function is not smooth."""

from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, Matern

from sparsegpc import SparseGPClassifier, SparseGPGeneralizedRegressor, SparseGPRegressor
from sparsegpc._estimators.kernels.named_kernels import has_name

GROWN = {"n_inducing": "auto"}


def draw(kernel, n=120, n_columns=1, seed=0):
    """Return inputs, and targets from a Gaussian process with little noise."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(0.0, 8.0, (n, n_columns))
    root = np.linalg.cholesky(kernel(X) + 1e-8 * np.eye(n))
    return X, root @ rng.standard_normal(n) + 0.05 * rng.standard_normal(n)


def thresholds():
    """Return inputs, and targets that change sign where a column exceeds a threshold."""
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(200, 2))
    y = np.sign(X[:, 0] - 0.4) * np.sign(X[:, 1] - 0.6) + 0.1 * rng.standard_normal(200)
    return X, y


def rough():
    return draw(Matern(0.8, nu=1.5))


@cache
def fitted(kernel=None, data=rough):
    """Return a regressor of `data`; not to be changed."""
    return SparseGPRegressor(kernel).fit(*data())


def objective(model):
    return model.lower_bound_ + model.log_prior_


def is_rough(model):
    return "Matern" in str(model.kernel_)


@pytest.mark.parametrize(
    ("parameters", "difference"),
    # With "auto" the points may end at another number.
    [({}, 0.2), ({"n_inducing": 100}, 0.2), ({"selector": "uniform"}, 0.2), (GROWN, 5.0)],
    ids=["default", "number", "uniform", "auto"],
)
def test_a_rough_function_has_a_matern_kernel(parameters, difference):
    X, y = rough()

    def fit_of(name):
        return SparseGPRegressor(name, **parameters).fit(X, y) if parameters else fitted(name)

    model, given = fit_of(None), {name: fit_of(name) for name in ("rbf", "matern32")}
    assert is_rough(model)
    assert objective(model) > objective(given["rbf"]) + 1.0
    assert objective(model) == pytest.approx(objective(given["matern32"]), abs=difference)
    # The points are those that the Matern kernel needs.
    assert len(model.inducing_points_) > len(given["rbf"].inducing_points_)


def field(n=300, seed=7):
    """Return coordinates, noisy targets, and f, with an exponential covariance in two columns."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(2 * n, 2))
    f = np.linalg.cholesky(Matern(0.2, nu=0.5)(X)) @ rng.standard_normal(2 * n)
    return X, f + np.sqrt(0.1) * rng.standard_normal(2 * n), f


def covers(model, X, f):
    """Return the share of f within central intervals of 90 %."""
    mean, variance = model.latent_mean_and_variance(X)
    return np.mean(np.abs(mean - f) < 1.645 * np.sqrt(variance))


def test_an_exponential_covariance_is_found_and_f_is_not_too_certain():
    X, y, f = field()
    model, smooth = (SparseGPRegressor(name).fit(X[:300], y[:300]) for name in (None, "rbf"))
    assert has_name(model.kernel_.k2, "matern12")
    assert objective(model) > objective(smooth) + 2.0
    # A smooth kernel takes a part of f for noise.
    assert 0.05 < model.noise_variance_ < 0.15 < smooth.noise_variance_
    assert covers(smooth, X[300:], f[300:]) < 0.75
    assert covers(model, X[300:], f[300:]) > 0.82
    # The comparison needs more than the points that suffice for the smooth kernel.
    assert len(smooth.inducing_points_) == 200 < len(model.inducing_points_)


def test_counts_have_it_too():
    X, _, f = field()
    y = np.random.RandomState(0).poisson(np.exp(f + 1.0))
    fits = [
        SparseGPGeneralizedRegressor(name, likelihood="poisson").fit(X[:300], y[:300])
        for name in (None, "rbf")
    ]
    assert is_rough(fits[0])
    assert objective(fits[0]) > objective(fits[1]) + 2.0


def test_in_a_single_column_the_laplacian_is_not_tried_after_its_twin(capsys):
    X, y = draw(Matern(1.0, nu=0.5), 200)
    model = SparseGPRegressor(verbose=1).fit(X, y)
    assert has_name(model.kernel_.k2, "matern12")
    assert "laplacian" not in capsys.readouterr().out


def test_a_smooth_function_keeps_the_rbf_and_the_result_for_it():
    X, y = draw(RBF(1.0))
    model, given = SparseGPRegressor().fit(X, y), SparseGPRegressor("rbf").fit(X, y)
    assert not is_rough(model)
    assert model.kernel_ == given.kernel_
    assert model.lower_bound_ == pytest.approx(given.lower_bound_, abs=1e-6)
    assert model.history_["lower_bound"][-1] == model.lower_bound_
    # It is given up after a few steps.
    assert model.n_evaluations_ <= given.n_evaluations_ + 12


@pytest.mark.parametrize("noise", ["polynomial", "gp", "auto", "student-t"])
def test_kinds_of_noise_are_learned_with_it(noise):
    X, y = draw(Matern(0.8, nu=1.5), seed=1)
    model = SparseGPRegressor(noise=noise).fit(X, y)
    assert is_rough(model)
    rbf = SparseGPRegressor("rbf", noise=noise).fit(X, y)
    assert objective(model) > objective(rbf)


def test_a_function_with_thresholds_of_columns_has_a_laplacian_kernel():
    X, y = thresholds()
    model = SparseGPRegressor().fit(X, y)
    assert "Laplacian" in str(model.kernel_)
    for name in ("rbf", "matern32"):
        assert objective(model) > objective(fitted(name, thresholds)) + 3.0
    before = objective(model)
    model.set_params(warm_start=True).fit(X, y)
    assert "Laplacian" in str(model.kernel_)
    assert objective(model) > before - 0.1


def test_main_effects_stay_beside_it():
    X, y = draw(Matern([1.0, 2.0], nu=1.5), 200, 2)
    model = SparseGPRegressor(main_effects=True).fit(X, y)
    assert is_rough(model)
    assert "MainEffects" in str(model.kernel_)


def test_several_outputs_share_it():
    X, y = draw(Matern(0.8, nu=1.5))
    assert is_rough(SparseGPRegressor().fit(X, np.column_stack([y, 10.0 * y[::-1]])))


def test_the_number_of_points_grows_for_it():
    X, y = draw(Matern(1.5, nu=1.5), 200)
    model = SparseGPRegressor(n_inducing="auto", certificate_tol=1e-3).fit(X, y)
    assert is_rough(model)
    assert model.growth_[-1]["n_inducing"] == len(model.inducing_points_)
    assert model.certificate(X, y).gap_per_row < 1e-3


def test_a_warm_start_keeps_it():
    X, y = draw(Matern(0.8, nu=1.5))
    model = SparseGPRegressor(warm_start=True).fit(X, y)
    before, cold = objective(model), model.n_evaluations_
    model.fit(X, y)
    assert is_rough(model)
    assert objective(model) > before - 0.1
    assert model.n_evaluations_ < cold / 2


@pytest.mark.parametrize(
    "parameters",
    [{"kernel": "rbf"}, {"kernel": 1.0 * RBF()}, {"optimizer": None}],
    ids=["name", "object", "fixed"],
)
def test_only_the_default_kernel_is_replaced(parameters):
    X, y = draw(Matern(0.8, nu=1.5))
    assert not is_rough(SparseGPRegressor(**parameters).fit(X, y))


def test_labels_do_not_tell_how_rough_a_function_is():
    X, y = draw(Matern(0.8, nu=1.5))
    assert not is_rough(SparseGPClassifier().fit(X, y > 0.0))


def stopped_fit(X, y, stop_at):
    """Return a regressor for warm starts that a callback has stopped at an evaluation."""
    steps = []

    def stop(step):
        steps.append(step)
        return len(steps) == stop_at

    model = SparseGPRegressor(warm_start=True, callback=stop)
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X, y)
    return model


def test_a_warm_start_tries_it_if_the_last_fit_was_stopped_before():
    X, y = draw(Matern(0.8, nu=1.5))
    model = stopped_fit(X, y, fitted("rbf").n_evaluations_)
    assert not is_rough(model)
    model.set_params(callback=None).fit(X, y)
    assert is_rough(model)


def test_a_warm_start_tries_the_next_one_if_the_last_fit_was_stopped_before():
    X, y = thresholds()
    model = stopped_fit(X, y, fitted("rbf", thresholds).n_evaluations_ + 10)
    assert is_rough(model)
    model.set_params(callback=None).fit(X, y)
    assert "Laplacian" in str(model.kernel_)


def test_a_warm_start_does_not_take_another_matern_kernel_for_it():
    X, y = draw(Matern(0.8, nu=1.5))
    model = SparseGPRegressor("matern52", warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="kernel structure"):
        model.set_params(kernel=None).fit(X, y)


def test_it_is_not_tried_if_points_have_a_cost():
    X, y = draw(Matern(0.8, nu=1.5))
    assert not is_rough(SparseGPRegressor(point_cost=1.0).fit(X, y))


def test_the_comparison_is_printed(capsys):
    X, y = draw(Matern([1.0, 2.0], nu=1.5), 200, 2)
    SparseGPRegressor(verbose=1).fit(X, y)
    printed = capsys.readouterr().out
    for name in ("matern32", "matern12", "laplacian"):
        assert f"{name}: bound" in printed
