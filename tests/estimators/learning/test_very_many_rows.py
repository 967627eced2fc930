"""Of very many rows a part is learned from, and the posterior is that of all rows."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import SparseGPClassifier, SparseGPGeneralizedRegressor, SparseGPRegressor
from sparsegpc._core.learning import all_rows, default_points
from sparsegpc._estimators.learning import point_selection
from tests.estimators.simple_kernel import SIMPLE

N, PART = 1000, 300
# With a kernel that is an object nothing but its hyperparameters is chosen.
ONE = {"kernel": 1.0 * RBF(1.0), "n_inducing": 10}
MORE = {**ONE, "n_inducing": 40}


@pytest.fixture(autouse=True)
def small_part(monkeypatch):
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", PART)
    monkeypatch.setattr(all_rows, "ENOUGH_ROWS_PER_POINT", 2)


def make_rows(n=N, seed=0):
    """Rows of two columns, and a function of them."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1], rng


def targets(**options):
    X, f, rng = make_rows(**options)
    return X, f + 0.3 * rng.randn(len(f))


def labels():
    X, f, rng = make_rows()
    return X, rng.uniform(size=N) < expit(2.0 * f)


def test_predictions_are_those_of_all_rows():
    X, y = targets()
    model = SparseGPRegressor(**ONE, fit_prior_mean=False).fit(X, y)
    assert set(model.history_["n_samples"]) - {200} == {PART, N}
    assert (model.history_["n_samples"] == N).sum() == 1
    # Titsias 2009, equation 6, without the package.
    Z, kernel, noise = model.inducing_points_, model.kernel_, model.noise_variance_
    Kuf, new = kernel(Z, X), make_rows(20, seed=1)[0]
    inner = kernel(Z) + Kuf @ Kuf.T / noise
    mean = kernel(new, Z) @ np.linalg.solve(inner, Kuf @ y) / noise
    assert_allclose(model.predict(new), mean, rtol=1e-5, atol=1e-6)
    assert_allclose(model.lower_bound_, model.lower_bound(kernel.theta, X, y), rtol=1e-9)
    assert_array_equal(model.lower_bounds_, [model.lower_bound_])
    assert model.history_["lower_bound"][-1] == model.lower_bound_


def test_the_part_gives_about_the_hyperparameters_of_all_rows(monkeypatch):
    X, y = targets()
    part = SparseGPRegressor(**MORE).fit(X, y)
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", N)
    whole = SparseGPRegressor(**MORE).fit(X, y)
    assert (whole.history_["n_samples"] == N).sum() > 1
    # P parameters learned from n of N rows are expected to cost N P / 2n nats, here 5.
    assert whole.lower_bound_ - 15.0 < part.lower_bound_ < whole.lower_bound_ + 1.0


@pytest.mark.parametrize("likelihood", ["bernoulli-logit", "polya-gamma"])
def test_sites_are_those_of_all_rows(likelihood):
    X, y = labels()
    model = SparseGPClassifier(**ONE, likelihood=likelihood).fit(X, y)
    assert set(model.history_["n_samples"]) - {200} == {PART, N}
    assert model.converged_
    gain = model.lower_bound(model.kernel_.theta, X, y) - model.lower_bound_
    assert -1e-6 < gain < model.tol * N
    if model.inducing_indices_ is not None:
        assert_array_equal(X[model.inducing_indices_], model.inducing_points_)


@pytest.mark.parametrize("selector", ["rpcholesky", "hgv", "uniform", "kmeans"])
def test_selected_points_are_rows_of_the_user(selector):
    X, y = targets()
    model = SparseGPRegressor(**MORE, selector=selector).fit(X, y)
    assert len(model.inducing_points_) == 40
    if selector != "kmeans":
        assert_array_equal(X[model.inducing_indices_], model.inducing_points_)
    assert model.history_["n_samples"][-1] == N


def test_all_rows_learn_where_the_result_says_more_about_them():
    X, y = targets()
    fixed = SparseGPRegressor(**ONE, optimizer=None)
    grown = SparseGPRegressor(kernel=ONE["kernel"], n_inducing="auto", max_inducing=20)
    averaged = SparseGPRegressor(**ONE, hyperparameters="average")
    for model in (fixed, grown, averaged):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        assert PART not in model.history_["n_samples"]


def test_main_effects_are_decided_on_the_whole_part(capsys):
    X, y = targets()
    model = SparseGPRegressor(n_inducing=20, verbose=1).fit(X, y)
    printed = capsys.readouterr().out
    assert f"main effects: {PART} rows" in printed
    assert f"all {N} rows: 20 points" in printed
    assert (model.history_["n_samples"] == N).sum() == 1


def test_a_stopped_fit_has_the_posterior_of_all_rows():
    X, y = labels()
    model = SparseGPClassifier(**ONE, callback=lambda step: step.n_samples == PART)
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X, y)
    assert not model.converged_
    assert model.history_["n_samples"][-1] == N
    gain = model.lower_bound(model.kernel_.theta, X, y) - model.lower_bound_
    assert -1e-6 < gain < model.tol * N


def test_max_iter_limits_the_search_on_the_part():
    X, y = targets()
    model = SparseGPRegressor(**ONE, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model.fit(X, y)
    assert not model.converged_
    assert model.history_["n_samples"][-1] == N


def test_a_warm_start_goes_on_from_the_last_fit():
    X, y = targets()
    model = SparseGPRegressor(**ONE, warm_start=True).fit(X, y)
    bound, n_first = model.lower_bound_, model.n_evaluations_
    model.fit(X, y)
    assert model.n_evaluations_ < n_first
    assert model.lower_bound_ > bound - 1.0
    assert set(model.history_["n_samples"]) == {PART, N}


def test_points_with_a_cost_are_paid_by_all_rows():
    X, y = targets()
    free = SparseGPRegressor(kernel=ONE["kernel"], n_inducing=30).fit(X, y)
    paid = SparseGPRegressor(kernel=ONE["kernel"], n_inducing=30, point_cost=2.0).fit(X, y)
    n_points = len(paid.inducing_points_)
    assert n_points < 30
    assert free.lower_bound_ - paid.lower_bound_ < 2.0 * (30 - n_points)
    assert paid.point_gains(X, y).min() >= 2.0 - 1e-6


@pytest.mark.filterwarnings("ignore:10 inducing points are too few")
def test_a_part_of_very_many_rows_gets_more_points(monkeypatch):
    for module in (point_selection, default_points):
        monkeypatch.setattr(module, "FIRST_POINTS", 10)
    monkeypatch.setattr(default_points, "PART_COST_ROWS", 2)
    monkeypatch.setattr(
        default_points, "affordable_points", lambda n_rows, n_functions, cost_rows: 10 * cost_rows
    )
    for name in ("FULL_COST_ROWS", "COMPARISON_COST_ROWS"):
        monkeypatch.setattr(default_points, name, 1)
    X, y = targets()
    model = SparseGPRegressor(optimize_inducing=False, **SIMPLE).fit(X, y)
    assert model.history_["n_inducing"][-1] == len(model.inducing_points_) == 20
    monkeypatch.setattr(all_rows, "LEARNING_ROWS", N)
    model = SparseGPRegressor(optimize_inducing=False, **SIMPLE).fit(X, y)
    assert len(model.inducing_points_) == 10


def test_moved_points_are_those_of_the_part():
    X, y = targets()
    model = SparseGPRegressor(**ONE, optimize_inducing=True, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.inducing_moved_
    assert (model.history_["n_samples"] == N).sum() == 1
    assert_allclose(model.lower_bound_, model.lower_bound(model.kernel_.theta, X, y), rtol=1e-9)


@pytest.mark.parametrize("noise", ["gp", "student-t", "auto"])
def test_other_noise_is_learned_from_the_part(noise):
    X, y = targets()
    model = SparseGPRegressor(**ONE, noise=noise, max_iter=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert set(model.history_["n_samples"]) - {200} == {PART, N}
    gain = model.lower_bound(model.kernel_.theta, X, y) - model.lower_bound_
    assert -1e-6 < gain < model.tol * N


def test_counts_and_several_classes_are_learned_from_the_part():
    X, f, rng = make_rows()
    counts = SparseGPGeneralizedRegressor(**ONE, max_iter=3), rng.poisson(np.exp(f))
    classes = SparseGPClassifier(**ONE, max_iter=3), np.digitize(f, [-0.7, 0.7])
    for model, y in (counts, classes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        assert model.history_["n_samples"][-1] == N
        assert (model.history_["n_samples"] == N).sum() == 1


def test_rows_on_disk_are_learned_from_a_part(tmp_path):
    X, y = labels()
    on_disk = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=X.shape)
    on_disk[:] = X
    model = SparseGPClassifier(**ONE).fit(on_disk, y)
    assert set(model.history_["n_samples"]) - {200} == {PART, N}
    gain = model.lower_bound(model.kernel_.theta, X, y) - model.lower_bound_
    assert -1e-6 < gain < model.tol * N
