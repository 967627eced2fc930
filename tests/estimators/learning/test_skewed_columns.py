"""Skewed columns that a fit transforms if the bound asks for it."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from sparsegpc import (
    LocalCorrection,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
)


def skewed_case(n=250, seed=0):
    """Return rows with a log-normal column, a function of its logarithm, and noisy targets."""
    rng = np.random.RandomState(seed)
    X = np.column_stack([rng.lognormal(sigma=1.5, size=n), rng.randn(n)])
    f = np.sin(2.0 * np.log(X[:, 0]))
    return X, f, f + 0.1 * rng.randn(n)


X, F, Y = skewed_case()
KINDS = {
    "regressor": (SparseGPRegressor, Y),
    "noise": (lambda **options: SparseGPRegressor(noise="gp", **options), Y),
    "polynomial": (lambda **options: SparseGPRegressor(noise="polynomial", **options), Y),
    "student-t": (lambda **options: SparseGPRegressor(noise="student-t", **options), Y),
    "outputs": (SparseGPRegressor, np.column_stack([Y, Y**2])),
    "labels": (SparseGPClassifier, F > 0.0),
    "classes": (SparseGPClassifier, np.digitize(F, [-0.5, 0.5])),
    "counts": (
        SparseGPGeneralizedRegressor,
        np.random.RandomState(0).poisson(3.0 * np.exp(F)),
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_a_function_of_the_logarithm_of_a_column_is_learned(kind):
    make, y = KINDS[kind]
    plain, fitted = make(log_transform=False).fit(X, y), make().fit(X, y)
    assert fitted.lower_bound_ > plain.lower_bound_ + 5.0
    assert_array_equal(np.isfinite(fitted.log_scales_), [True, False])
    assert not np.isfinite(plain.log_scales_).any()
    # All methods take rows in the user's columns.
    bound = fitted.lower_bound(fitted.kernel_.theta, X, y)
    assert_allclose(bound, fitted.lower_bound_, atol=1e-3)
    assert fitted.certificate(X, y).lower_bound == pytest.approx(fitted.lower_bound_, abs=1e-3)
    if fitted.inducing_indices_ is not None:
        assert_array_equal(fitted.inducing_points_, X[fitted.inducing_indices_])
    smaller = fitted.truncate(20, X, y)
    assert_array_equal(smaller.inducing_points_, fitted.inducing_points_[:20])
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_the_test_error_falls():
    X_new, f_new, _ = skewed_case(500, seed=1)
    errors = [
        np.sqrt(np.mean((model.fit(X, Y).predict(X_new) - f_new) ** 2))
        for model in (SparseGPRegressor(log_transform=False), SparseGPRegressor())
    ]
    assert errors[1] < 0.7 * errors[0]


def test_columns_stay_where_the_function_is_smooth_in_them():
    noise = np.random.RandomState(1).randn(250)
    fitted = SparseGPRegressor().fit(X, 0.2 * X[:, 0] + noise)
    assert not np.isfinite(fitted.log_scales_).any()


def test_kernels_that_are_objects_see_the_columns_as_they_are_unless_it_is_demanded():
    for log_transform in (False, "auto"):
        fitted = SparseGPRegressor(RBF([1.0, 1.0]), log_transform=log_transform).fit(X, Y)
        assert not np.isfinite(fitted.log_scales_).any()
    demanded = SparseGPRegressor(RBF([1.0, 1.0]), log_transform=True).fit(X, Y)
    assert np.isfinite(demanded.log_scales_[0])
    assert demanded.lower_bound_ > fitted.lower_bound_ + 5.0


def test_with_fixed_hyperparameters_only_what_is_demanded_is_transformed():
    fitted = SparseGPRegressor(optimizer=None).fit(X, Y)
    assert not np.isfinite(fitted.log_scales_).any()
    demanded = SparseGPRegressor(optimizer=None, log_transform=True).fit(X, Y)
    assert_array_equal(np.isfinite(demanded.log_scales_), [True, False])


def test_a_demand_transforms_no_column_that_is_not_skewed():
    rows = np.random.RandomState(0).randn(80, 2)
    y = rows[:, 0] + 0.1 * np.random.RandomState(1).randn(80)
    fitted = SparseGPRegressor(log_transform=True).fit(rows, y)
    assert not np.isfinite(fitted.log_scales_).any()
    other = SparseGPRegressor(log_transform=False).fit(rows, y)
    assert fitted.lower_bound_ == pytest.approx(other.lower_bound_)


def test_points_that_the_user_gives_are_in_the_users_columns():
    fitted = SparseGPRegressor(selector=X[:40]).fit(X, Y)
    assert np.isfinite(fitted.log_scales_[0])
    assert_allclose(fitted.inducing_points_, X[:40])


def test_points_that_have_moved_are_in_the_users_columns():
    fitted = SparseGPRegressor(optimize_inducing=True, n_inducing=15).fit(X, Y)
    assert np.isfinite(fitted.log_scales_[0])
    assert_allclose(fitted._transform(fitted.inducing_points_), fitted._posterior.Z)


@pytest.mark.parametrize("n_inducing", [None, "auto"])
def test_a_warm_start_keeps_the_transform(n_inducing):
    fitted = SparseGPRegressor(warm_start=True, n_inducing=n_inducing).fit(X, Y)
    scales, bound = fitted.log_scales_, fitted.lower_bound_
    again = fitted.fit(X[20:], Y[20:])
    assert_array_equal(again.log_scales_, scales)
    assert again.fit(X, Y).lower_bound_ > bound - 0.1


def test_rows_on_disk_are_transformed_as_rows_in_memory(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    on_disk = np.load(tmp_path / "rows.npy", mmap_mode="r")
    fitted, other = SparseGPRegressor().fit(X, Y), SparseGPRegressor().fit(on_disk, Y)
    assert_allclose(other.log_scales_, fitted.log_scales_)
    assert other.lower_bound_ == pytest.approx(fitted.lower_bound_, abs=0.1)
    assert_allclose(fitted.predict(on_disk), fitted.predict(X), rtol=1e-9)
    if other.inducing_indices_ is not None:
        assert_array_equal(other.inducing_points_, X[other.inducing_indices_])


@pytest.mark.filterwarnings("ignore:the bound still rises")
def test_weights_count_copies_of_rows():
    weight = np.random.RandomState(0).randint(1, 4, size=250)
    weighted = SparseGPRegressor().fit(X, Y, sample_weight=weight)
    copied = SparseGPRegressor().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert weighted.lower_bound_ == copied.lower_bound_
    assert_array_equal(weighted.log_scales_, copied.log_scales_)


def test_neighbours_and_averages_see_transformed_columns():
    X_new, f_new, _ = skewed_case(500, seed=1)
    for model in (
        LocalCorrection(SparseGPRegressor()),
        SparseGPRegressor(hyperparameters="average"),
    ):
        assert np.corrcoef(model.fit(X, Y).predict(X_new), f_new)[0, 1] > 0.97


def test_one_model_per_class_sees_the_columns_as_they_are():
    classes = np.digitize(F, [-0.5, 0.5])
    fitted = SparseGPClassifier(likelihood="polya-gamma", n_inducing=30).fit(X, classes)
    assert not np.isfinite(fitted.log_scales_).any()
    model = SparseGPClassifier(likelihood="polya-gamma", log_transform=True)
    with pytest.raises(ValueError, match="log_transform=True needs a single model"):
        model.fit(X, classes)


def test_the_comparison_is_printed(capsys):
    SparseGPRegressor(verbose=1).fit(X, Y)
    assert "transformed columns: 250 rows, bound" in capsys.readouterr().out
