"""Skewed columns that a fit transforms if the bound asks for it."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    GPNoise,
    LocalCorrection,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
)


def skewed_case(n=150, seed=0):
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
# Quick to learn.
FEW = {"n_inducing": 30, "main_effects": False}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_a_function_of_the_logarithm_of_a_column_is_learned(kind):
    make, y = KINDS[kind]
    rows, y = X[:80], y[:80]
    plain, fitted = (
        make(kernel="rbf", log_transform=transform, max_reselections=1, tol=1e-3, **FEW).fit(
            rows, y
        )
        for transform in (False, "auto")
    )
    assert fitted.lower_bound_ > plain.lower_bound_ + 4.0
    assert_array_equal(np.isfinite(fitted.log_scales_), [True, False])
    assert not np.isfinite(plain.log_scales_).any()
    # All methods take rows in the user's columns.
    bound = fitted.lower_bound(fitted.kernel_.theta, rows, y)
    assert_allclose(bound, fitted.lower_bound_, atol=1e-3)
    assert fitted.certificate(rows, y).lower_bound == pytest.approx(fitted.lower_bound_, abs=1e-3)
    if fitted.inducing_indices_ is not None:
        assert_array_equal(fitted.inducing_points_, rows[fitted.inducing_indices_])
    smaller = fitted.truncate(20, rows, y)
    assert_array_equal(smaller.inducing_points_, fitted.inducing_points_[:20])
    loaded = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(loaded.predict(rows), fitted.predict(rows))


def test_the_test_error_falls():
    X_new, f_new, _ = skewed_case(500, seed=1)
    errors = [
        np.sqrt(np.mean((model.fit(X, Y).predict(X_new) - f_new) ** 2))
        for model in (SparseGPRegressor(log_transform=False, **FEW), SparseGPRegressor(**FEW))
    ]
    assert errors[1] < 0.7 * errors[0]


def test_columns_stay_where_the_function_is_smooth_in_them():
    noise = np.random.RandomState(1).randn(150)
    fitted = SparseGPRegressor(**FEW).fit(X, 0.2 * X[:, 0] + noise)
    assert not np.isfinite(fitted.log_scales_).any()


def test_kernels_that_are_objects_see_the_columns_as_they_are_unless_it_is_demanded():
    for log_transform in (False, "auto"):
        fitted = SparseGPRegressor(RBF([1.0, 1.0]), log_transform=log_transform, **FEW).fit(X, Y)
        assert not np.isfinite(fitted.log_scales_).any()
    demanded = SparseGPRegressor(RBF([1.0, 1.0]), log_transform=True, **FEW).fit(X, Y)
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
    fitted = SparseGPRegressor(log_transform=True, **FEW).fit(rows, y)
    assert not np.isfinite(fitted.log_scales_).any()
    other = SparseGPRegressor(log_transform=False, **FEW).fit(rows, y)
    assert fitted.lower_bound_ == pytest.approx(other.lower_bound_)


def test_points_that_the_user_gives_are_in_the_users_columns():
    fitted = SparseGPRegressor(selector=X[:40], main_effects=False).fit(X, Y)
    assert np.isfinite(fitted.log_scales_[0])
    assert_allclose(fitted.inducing_points_, X[:40])


def test_points_that_have_moved_are_in_the_users_columns():
    fitted = SparseGPRegressor(optimize_inducing=True, **{**FEW, "n_inducing": 15}).fit(X, Y)
    assert np.isfinite(fitted.log_scales_[0])
    assert_allclose(fitted._transform(fitted.inducing_points_), fitted._posterior.Z)


@pytest.mark.parametrize("n_inducing", [30, "auto"])
def test_a_warm_start_keeps_the_transform(n_inducing):
    model = SparseGPRegressor(warm_start=True, n_inducing=n_inducing, main_effects=False)
    fitted = model.fit(X, Y)
    scales, bound = fitted.log_scales_, fitted.lower_bound_
    again = fitted.fit(X[20:], Y[20:])
    assert_array_equal(again.log_scales_, scales)
    assert again.fit(X, Y).lower_bound_ > bound - 0.1


def test_rows_on_disk_are_transformed_as_rows_in_memory(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    on_disk = np.load(tmp_path / "rows.npy", mmap_mode="r")
    fitted, other = (SparseGPRegressor(**FEW).fit(rows, Y) for rows in (X, on_disk))
    assert_allclose(other.log_scales_, fitted.log_scales_)
    assert other.lower_bound_ == pytest.approx(fitted.lower_bound_, abs=0.1)
    assert_allclose(fitted.predict(on_disk), fitted.predict(X), rtol=1e-9)
    if other.inducing_indices_ is not None:
        assert_array_equal(other.inducing_points_, X[other.inducing_indices_])


@pytest.mark.filterwarnings("ignore:the bound still rises")
def test_weights_count_copies_of_rows():
    rows, y, weight = X[:120], Y[:120], np.random.RandomState(0).randint(1, 4, size=120)
    weighted, copied = (SparseGPRegressor(**FEW) for _ in range(2))
    weighted.fit(rows, y, sample_weight=weight)
    copied.fit(np.repeat(rows, weight, axis=0), np.repeat(y, weight))
    assert np.isfinite(weighted.log_scales_[0])
    assert weighted.lower_bound_ == copied.lower_bound_
    assert_array_equal(weighted.log_scales_, copied.log_scales_)


def test_neighbours_and_averages_see_transformed_columns():
    X_new, f_new, _ = skewed_case(500, seed=1)
    for model in (
        LocalCorrection(SparseGPRegressor(**FEW), mode="both", relearn=False),
        SparseGPRegressor(hyperparameters="average", **FEW),
    ):
        assert np.corrcoef(model.fit(X, Y).predict(X_new), f_new)[0, 1] > 0.97


def test_one_model_per_class_sees_the_columns_as_they_are():
    classes = np.digitize(F, [-0.5, 0.5])
    options = {"n_inducing": 20, "max_reselections": 0, "main_effects": False}
    model = SparseGPClassifier(likelihood="polya-gamma", **options)
    fitted = model.fit(X, classes)
    assert not np.isfinite(fitted.log_scales_).any()
    model = SparseGPClassifier(likelihood="polya-gamma", log_transform=True)
    with pytest.raises(ValueError, match="log_transform=True needs a single model"):
        model.fit(X, classes)


def test_the_comparison_is_printed(capsys):
    SparseGPRegressor(verbose=1, **FEW).fit(X[:100], Y[:100])
    assert "transformed columns: 100 rows, bound" in capsys.readouterr().out


def test_rows_that_become_equal_are_merged_as_when_they_are_passed_again():
    """Rounding errors in the tail of a column vanish in its transform."""
    rng = np.random.RandomState(5)
    base = np.round(10.0 * np.exp(1.5 * rng.normal(size=300))) / 10.0 + 5.0
    noisy = np.where(rng.uniform(size=300) < 0.5, base, (base * 3.0) / 3.0)
    noisy = np.where(rng.uniform(size=300) < 0.5, noisy, base * 1.1 / 1.1)
    rows = np.column_stack([noisy, rng.randint(0, 3, size=300)])
    fitted = SparseGPRegressor(log_transform=True, **FEW).fit(
        rows, np.sin(2.0 * np.log(rows[:, 0] - 4.9)) + 0.1 * rng.normal(size=300)
    )
    assert np.isfinite(fitted.log_scales_[0])
    y = np.sin(2.0 * np.log(rows[:, 0] - 4.9))
    with pytest.raises(ValueError, match="give the data of fit"):
        fitted.truncate(5, rows[20:], y[20:])
    assert len(fitted.truncate(5, rows, y).inducing_points_) == 5


def test_a_warm_start_refuses_other_columns_and_a_withdrawn_transform():
    fitted = SparseGPRegressor(warm_start=True, **FEW).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start=True needs the columns of the last fit"):
        fitted.fit(X[:, :1], Y)
    with pytest.raises(ValueError, match="warm_start=True keeps the transform"):
        fitted.set_params(log_transform=False).fit(X, Y)


def test_booleans_of_numpy_are_booleans():
    fitted = SparseGPRegressor(RBF([1.0, 1.0]), optimizer=None, log_transform=np.True_).fit(X, Y)
    assert np.isfinite(fitted.log_scales_[0])
    fitted = SparseGPRegressor(log_transform=np.False_, **FEW).fit(X, Y)
    assert not np.isfinite(fitted.log_scales_).any()


def test_a_kernel_of_the_noise_that_is_an_object_sees_the_columns_as_they_are():
    noise = GPNoise(ConstantKernel() * RBF(1.0))
    fitted = SparseGPRegressor(noise=noise, **FEW).fit(X[:100], Y[:100])
    assert not np.isfinite(fitted.log_scales_).any()


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:residuals of neighbouring rows")
def test_extreme_values_raise_no_warnings_of_numpy(rng):
    tail = np.exp(200.0 * rng.normal(size=150)).clip(None, 1e149)
    model = SparseGPRegressor(log_transform=True, **{**FEW, "n_inducing": 20})
    for column in (1e-300 * X[:, 0], tail, 1e9 + X[:, 0]):
        rows = np.column_stack([column, X[:, 1]])
        fitted = model.fit(rows, Y + X[:, 1])
        assert np.isfinite(fitted.predict(rows)).all()
    fitted = SparseGPRegressor(**FEW).fit(X, Y)
    mean, std = fitted.predict([[1.7e308, 1.0]], return_std=True)
    assert np.isfinite(mean)
    assert std > 2.0 * fitted.predict(X[:1], return_std=True)[1]
