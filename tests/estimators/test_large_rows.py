"""Rows that do not fit in memory: they give the models of arrays, and are never read whole."""

import tracemalloc
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sparsegpc import (
    GPNoise,
    InducingPointSelector,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPRegressor,
)
from sparsegpc._core.rows import blocks, sources
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.input.validation import validated_rows
from sparsegpc._estimators.kernels.spread import measure_spread

# At given hyperparameters: where a search ends depends on the last digits of sums over the rows.
SMALL = {"n_inducing": 15, "optimizer": None}
QUICK = {**SMALL, "kernel": ConstantKernel(2.0) * RBF(1.5)}
# With one hyperparameter, and so few steps.
LEARNS = {"n_inducing": 15, "kernel": ConstantKernel(2.0) * RBF(1.5, "fixed")}
STOCHASTIC = {"n_inducing": 15, "batch_size": 64, "n_epochs": 2, "learning_rate": 0.0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class OnlySlices:
    """Rows that can be had by slices only, and how many were, at most, by one."""

    def __init__(self, rows):
        self._rows, self.most = rows, 0
        self.shape, self.dtype = rows.shape, rows.dtype

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.most = max(self.most, rows.stop - rows.start)
        return self._rows[rows]

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("read as a whole")


def mapped(path, rows):
    """Return a read-only memory map of `rows`."""
    np.ascontiguousarray(rows).tofile(path)
    return np.memmap(path, dtype=rows.dtype, mode="r", shape=rows.shape)


@pytest.fixture(params=["memmap", "slices"])
def wrap(request, tmp_path):
    """A function that puts an array where it is read by slices."""
    if request.param == "slices":
        return OnlySlices
    return lambda rows: mapped(tmp_path / "rows", rows)


@pytest.fixture
def small_blocks(monkeypatch):
    """So that 300 rows are several blocks."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)
    monkeypatch.setattr(blocks, "SMALLEST_BLOCK", 64)
    monkeypatch.setattr(sources, "READ_BYTES", 8 * 3 * 50)


def sorted_rows(n_samples=300, dtype=np.float64, seed=0):
    """Return distinct rows in lexicographic order, as a fit sorts them, and a function of them."""
    X = np.random.RandomState(seed).uniform(-2.0, 2.0, size=(n_samples, 3)).astype(dtype)
    X = X[np.lexsort(X.T[::-1])]
    return X, np.sin(2.0 * X[:, 0].astype(float)) + X[:, 1]


def targets(f, seed=1):
    return f + 0.3 * np.random.RandomState(seed).standard_normal(len(f))


def labels(f, n_classes=2):
    return np.digitize(targets(f), np.quantile(f, np.arange(1, n_classes) / n_classes))


# An estimator, and what it learns from the function.
CASES = {
    "classifier": (SparseGPClassifier(**SMALL), labels),
    "softmax": (SparseGPClassifier(**QUICK), lambda f: labels(f, 3)),
    "dirichlet": (SparseGPClassifier(**QUICK, likelihood="dirichlet"), lambda f: labels(f, 3)),
    "one against the rest": (
        SparseGPClassifier(**QUICK, likelihood="polya-gamma"),
        lambda f: labels(f, 3),
    ),
    "auto": (SparseGPClassifier(**{**QUICK, "n_inducing": "auto"}, max_inducing=20), labels),
    "uniform": (SparseGPClassifier(**QUICK, selector="uniform"), labels),
    "hgv": (SparseGPClassifier(**QUICK, selector="hgv"), labels),
    "kmeans": (SparseGPClassifier(**QUICK, selector="kmeans"), labels),
    "regressor": (SparseGPRegressor(**SMALL), targets),
    "two outputs": (
        SparseGPRegressor(**QUICK, normalize_y=True),
        lambda f: np.stack([targets(f), f], axis=1),
    ),
    "polynomial noise": (SparseGPRegressor(**QUICK, noise=PolynomialNoise(1)), targets),
    "noise process": (SparseGPRegressor(**QUICK, noise=GPNoise(n_inducing=5)), targets),
    "stochastic": (StochasticSparseGPRegressor(**STOCHASTIC), targets),
    "stochastic classifier": (StochasticSparseGPClassifier(**STOCHASTIC), labels),
}


@pytest.mark.parametrize(
    ("case", "wrap"),
    [("classifier", "memmap"), *((case, "slices") for case in CASES)],
    indirect=["wrap"],
)
@pytest.mark.usefixtures("small_blocks")
def test_sorted_rows_give_the_model_of_the_array(case, wrap):
    X, f = sorted_rows(dtype=np.float32)
    estimator, target = CASES[case]
    y = target(f)
    expected = estimator.fit(X.astype(float), y)
    bound, indices = expected.lower_bound_, getattr(expected, "inducing_indices_", None)
    points, predicted = stacked(expected.inducing_points_), expected.predict(X.astype(float))
    given = wrap(X)
    found = estimator.fit(given, y)
    np.testing.assert_allclose(found.lower_bound_, bound, rtol=1e-9)
    np.testing.assert_allclose(stacked(found.inducing_points_), points, rtol=1e-9)
    np.testing.assert_allclose(found.predict(given), predicted, rtol=1e-9, atol=1e-9)
    if isinstance(indices, np.ndarray):
        np.testing.assert_array_equal(found.inducing_indices_, indices)
    assert getattr(given, "most", 0) <= 150


def stacked(points):
    """Return all points of one model, or of one model for each class, in one array."""
    return np.concatenate(points) if isinstance(points, list) else points


@pytest.mark.parametrize("wrap", ["slices"], indirect=True)
@pytest.mark.usefixtures("small_blocks")
def test_moving_points_end_as_high_as_those_of_the_array(wrap):
    X, f = sorted_rows()
    model = SparseGPClassifier(**{**LEARNS, "n_inducing": 6}, optimize_inducing=True)
    bound = model.fit(X, labels(f)).lower_bound_
    np.testing.assert_allclose(model.fit(wrap(X), labels(f)).lower_bound_, bound, rtol=1e-2)


@pytest.mark.parametrize("wrap", ["slices"], indirect=True)
@pytest.mark.usefixtures("small_blocks")
def test_the_curriculum_of_many_rows_is_that_of_the_array(wrap, monkeypatch):
    monkeypatch.setattr("sparsegpc._core.learning.growing_subsets.MANY_ROWS", 600)
    X, f = sorted_rows(1000)
    model = SparseGPClassifier(**LEARNS)
    bound = model.fit(X, labels(f)).lower_bound_
    given = wrap(X)
    # A quarter of the rows does not fit.
    with config_context(working_memory=0.005):
        found = model.fit(given, labels(f))
    np.testing.assert_allclose(found.lower_bound_, bound, rtol=1e-3)
    assert getattr(given, "most", 0) <= 300


METHODS = {
    SparseGPClassifier: (
        "predict",
        "predict_proba",
        "predict_log_proba",
        "decision_function",
        "predict_proba_interval",
        "latent_mean_and_variance",
        "sample_f",
    ),
    SparseGPRegressor: (
        "predict",
        "latent_mean_and_variance",
        "predict_noise_std",
        "predict_interval",
        "sample_y",
    ),
}


@pytest.mark.parametrize("estimator", METHODS, ids=lambda kind: kind.__name__)
@pytest.mark.usefixtures("small_blocks")
def test_all_that_a_model_says_of_rows_it_says_of_slices(estimator, wrap):
    X, f = sorted_rows()
    y = labels(f) if estimator is SparseGPClassifier else targets(f)
    model = estimator(**SMALL).fit(X, y)
    given = wrap(X)
    for method in METHODS[estimator]:
        expected, found = getattr(model, method)(X), getattr(model, method)(given)
        for a, b in zip(np.atleast_1d(expected), np.atleast_1d(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert model.score(given, y) == pytest.approx(model.score(X, y))
    assert model.lower_bound(X=given, y=y) == pytest.approx(model.lower_bound(X=X, y=y))
    assert model.certificate(given, y).upper_bound == pytest.approx(
        model.certificate(X, y).upper_bound
    )


@pytest.mark.parametrize("noise", [PolynomialNoise(1), GPNoise(n_inducing=5)], ids=str)
@pytest.mark.usefixtures("small_blocks")
def test_noise_that_varies_is_predicted_for_slices(noise, wrap):
    X, f = sorted_rows()
    model = SparseGPRegressor(**SMALL, noise=noise).fit(X, targets(f))
    given = wrap(X)
    for found, expected in zip(
        model.predict(given, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        model.log_predictive_density(given, f), model.log_predictive_density(X, f), rtol=1e-9
    )
    np.testing.assert_allclose(
        model.predict_quantiles(given, [0.1, 0.8]),
        model.predict_quantiles(X, [0.1, 0.8]),
        rtol=1e-9,
        atol=1e-9,
    )
    for found, expected in zip(
        model.predict(wrap(X[:20]), return_cov=True),
        model.predict(X[:20], return_cov=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["hgv", "rpcholesky", "greedy-variance", "uniform", "kmeans"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("weighting", [None, "classification"])
@pytest.mark.usefixtures("small_blocks")
def test_the_selector_takes_the_points_that_it_takes_of_the_array(
    method, weighting, is_weighted, wrap
):
    X, f = sorted_rows()
    weight = np.linspace(1.0, 2.0, len(X)) if is_weighted else None
    selector = InducingPointSelector(
        RBF(1.0), method=method, n_components=10, weighting=weighting, random_state=0
    )
    y = labels(f)
    features = selector.fit(X, y, weight).transform(X)
    points, indices = selector.inducing_points_, selector.inducing_indices_
    given = wrap(X)
    selector.fit(given, y, weight)
    np.testing.assert_allclose(selector.inducing_points_, points, rtol=1e-12)
    np.testing.assert_array_equal(selector.inducing_indices_, indices)
    np.testing.assert_allclose(selector.transform(given), features, atol=1e-9)


def test_bytes_on_disk_are_the_numbers_that_they_stand_for(tmp_path, rng):
    X = rng.randint(0, 256, size=(300, 3)).astype(np.uint8)
    X = np.unique(X, axis=0)
    y = (X[:, 0] > 100).astype(int)
    expected = SparseGPClassifier(**SMALL).fit(X.astype(float), y)
    found = SparseGPClassifier(**SMALL).fit(mapped(tmp_path / "rows", X), y)
    np.testing.assert_allclose(found.lower_bound_, expected.lower_bound_, rtol=1e-9)


@pytest.mark.usefixtures("small_blocks")
def test_rows_of_weight_zero_are_no_rows(wrap):
    X, f = sorted_rows()
    y, weight = targets(f), np.arange(300) % 3.0
    present = weight > 0.0
    for estimator, target in (
        (SparseGPClassifier(**SMALL), labels(f)),
        (SparseGPRegressor(**SMALL), y),
        (StochasticSparseGPRegressor(**STOCHASTIC), y),
    ):
        expected = estimator.fit(X[present], target[present], weight[present]).lower_bound_
        found = estimator.fit(wrap(X), target, weight)
        np.testing.assert_allclose(found.lower_bound_, expected, rtol=1e-9)
        indices = getattr(found, "inducing_indices_", None)
        if indices is not None:
            np.testing.assert_array_equal(found.inducing_points_, X[indices])


@pytest.mark.usefixtures("small_blocks")
def test_known_noise_belongs_to_the_rows(wrap):
    X, f = sorted_rows()
    noise, weight = np.linspace(0.01, 0.5, 300), np.arange(300) % 3.0
    given = {"sample_weight": weight, "noise_variance": noise}
    expected = SparseGPRegressor(**SMALL).fit(X, targets(f), **given).lower_bound_
    found = SparseGPRegressor(**SMALL).fit(wrap(X), targets(f), **given).lower_bound_
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_equal_rows_stay_apart_and_unsorted(tmp_path, rng):
    X, f = sorted_rows()
    order = rng.permutation(np.repeat(np.arange(300), 2))
    kernel = ConstantKernel(1.0) * RBF(1.0)
    options = {"optimizer": None, "bound": "standard", "selector": "rpcholesky"}
    model = SparseGPRegressor(kernel, n_inducing=15, **options)
    y = targets(f)[order]
    merged = model.fit(X[order], y)
    bound, mean, indices = merged.lower_bound_, merged.predict(X), merged.inducing_indices_
    apart = model.set_params(selector=merged.inducing_points_).fit(
        mapped(tmp_path / "rows", X[order]), y
    )
    # The standard bound is a sum over rows, which does not see which of them are equal.
    assert apart.lower_bound_ == pytest.approx(bound, rel=1e-6)
    np.testing.assert_allclose(apart.predict(X), mean, atol=1e-6)
    assert indices is not None


def test_a_fit_goes_on_from_the_last_one(wrap):
    X, f = sorted_rows()
    model = SparseGPClassifier(**LEARNS, max_iter=6, warm_start=True).fit(X, labels(f))
    before = model.lower_bound_
    assert model.fit(wrap(X), labels(f)).lower_bound_ >= before - 1e-3


def test_streams_may_be_on_disk(wrap):
    X, f = sorted_rows()
    y = targets(f)
    expected, found = (StochasticSparseGPRegressor(**STOCHASTIC) for _ in range(2))
    for _ in range(2):
        expected.partial_fit(X, y)
        found.partial_fit(wrap(X), y)
    np.testing.assert_allclose(found.lower_bound_, expected.lower_bound_, rtol=1e-9)


def test_each_class_may_be_fitted_in_a_process_of_its_own(tmp_path):
    X, f = sorted_rows()
    model = SparseGPClassifier(**SMALL, likelihood="polya-gamma")
    y, given = labels(f, 3), mapped(tmp_path / "rows", X)
    expected = model.fit(given, y).lower_bound_
    assert model.set_params(n_jobs=2).fit(given, y).lower_bound_ == pytest.approx(expected)


def is_read_by_slices(X):
    return isinstance(validated_rows(SparseGPClassifier(), X), RowSource)


def test_arrays_that_joblib_maps_for_its_processes_were_in_memory(tmp_path):
    X, _ = sorted_rows()
    tasks = [delayed(is_read_by_slices)(rows) for rows in (X, mapped(tmp_path / "rows", X))]
    assert Parallel(n_jobs=2, max_nbytes=1)(tasks) == [False, True]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.usefixtures("small_blocks")
def test_values_that_are_not_finite_are_reported_with_their_row(value, wrap):
    X, f = sorted_rows()
    model = SparseGPClassifier(**SMALL).fit(X, labels(f))
    X[157, 2] = value
    message = "Input X contains NaN or infinity, first in row 157, column 2: SparseGPClassifier"
    with pytest.raises(ValueError, match=message):
        SparseGPClassifier().fit(wrap(X), labels(f))
    with pytest.raises(ValueError, match=message):
        model.predict(wrap(X))


def test_a_wrong_number_of_columns_is_refused(wrap):
    X, f = sorted_rows()
    model = SparseGPClassifier(**SMALL).fit(wrap(X), labels(f))
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="X has 2 features, but SparseGPClassifier is expecting 3"):
        model.predict(wrap(X[:, :2]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((4, 3, 2)), "Found array with dim 3"),
        (np.zeros((0, 3)), r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((4, 0)), r"Found array with 0 feature\(s\) \(shape=\(4, 0\)\)"),
    ],
)
def test_wrong_shapes_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        SparseGPClassifier().fit(OnlySlices(rows), np.arange(len(rows)) % 2)


def test_a_mapped_column_is_no_table(tmp_path):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        SparseGPClassifier().fit(mapped(tmp_path / "rows", np.arange(4.0)), [0, 1, 0, 1])


def test_labels_that_are_missing_or_too_few_are_refused(wrap):
    X, f = sorted_rows()
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[300, 299\]"):
        SparseGPClassifier().fit(wrap(X), labels(f)[1:])
    with pytest.raises(ValueError, match="requires y to be passed"):
        SparseGPClassifier().fit(wrap(X), None)


def test_values_that_cannot_be_squared_are_refused(wrap):
    X, f = sorted_rows()
    X[7, 1] = 1e200
    with pytest.raises(ValueError, match=r"X holds a value of 1e\+200"):
        SparseGPClassifier().fit(wrap(X), labels(f))


def test_the_spread_of_many_rows_is_nearly_that_of_all(monkeypatch, rng):
    X = np.stack([rng.standard_normal(5000), rng.exponential(size=5000), np.ones(5000)], axis=1)
    # One column varies in a single row, another has an extreme value.
    X = np.column_stack([X, np.arange(5000) == 1234, np.where(X[:, 0] == X[77, 0], 1e6, X[:, 1])])
    weight = rng.uniform(size=5000)
    exact = measure_spread(X, weight)
    monkeypatch.setattr("sparsegpc._estimators.kernels.spread.QUARTILE_ROWS", 1000)
    given = OnlySlices(X)
    found = measure_spread(RowSource(given), weight)
    np.testing.assert_array_equal(found.varies, exact.varies)
    np.testing.assert_allclose(found.deviations[:4], exact.deviations[:4], rtol=1e-9)
    np.testing.assert_allclose(found.deviations[4], exact.deviations[4], rtol=0.1)
    np.testing.assert_allclose(found.distance, exact.distance, rtol=0.1)


def peak_of(function):
    """Return the most bytes that `function` had allocated at a time."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


N_ROWS, N_COLUMNS = 4000, 100
FULL_COPY = 8 * N_ROWS * N_COLUMNS
# Arrays of one number for each row: weights, labels, sites, and what is made of them.
VECTORS = 48 * 8 * N_ROWS


@pytest.mark.parametrize("kind", ["memmap", "ndarray"])
def test_memory_of_a_fit_and_of_predictions(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2**17)
    monkeypatch.setattr(blocks, "SMALLEST_BLOCK", 64)
    monkeypatch.setattr(sources, "READ_BYTES", 2**17)
    monkeypatch.setattr("sparsegpc._estimators.kernels.spread.QUARTILE_ROWS", 200)
    X = np.random.RandomState(0).standard_normal((N_ROWS, N_COLUMNS)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0.0).astype(int)
    if kind == "memmap":
        X = mapped(tmp_path / "rows", X)
    kernel = ConstantKernel(2.0) * RBF(15.0, "fixed")
    model = SparseGPClassifier(kernel, n_inducing=10, max_iter=2, max_reselections=0)
    # What is done at the first time, like imports, does not count.
    model.fit(X[:50], y[:50])
    with config_context(working_memory=0.1):
        fit = peak_of(lambda: model.fit(X, y)) / (FULL_COPY / 3 + VECTORS)
        prediction = peak_of(lambda: model.predict(X)) / (FULL_COPY / 3)
    # The array, of which a fit makes a copy, shows that the measure sees copies.
    assert (fit < 1.0, prediction < 1.0) == (kind == "memmap",) * 2, (fit, prediction)


LIBRARIES = {
    "h5py": lambda h5py, X, path: h5py.File(path, "w").create_dataset("X", data=X),
    "zarr": lambda zarr, X, path: zarr.array(X, chunks=(70, 3)),
    "dask.array": lambda dask, X, path: dask.from_array(X, chunks=(70, 2)),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_arrays_of_other_libraries(name, tmp_path):
    library = pytest.importorskip(name)
    X, f = sorted_rows()
    given = LIBRARIES[name](library, X, tmp_path / "rows")
    expected = SparseGPRegressor(**SMALL).fit(X, targets(f))
    found = SparseGPRegressor(**SMALL).fit(given, targets(f))
    np.testing.assert_allclose(found.lower_bound_, expected.lower_bound_, rtol=1e-9)
    np.testing.assert_allclose(found.predict(given), expected.predict(X), rtol=1e-9, atol=1e-9)


def test_rows_without_names_are_noticed_where_there_were_names(wrap):
    pandas = pytest.importorskip("pandas")
    X, f = sorted_rows()
    model = SparseGPClassifier(**SMALL).fit(pandas.DataFrame(X, columns=list("abc")), labels(f))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(wrap(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert not hasattr(model.fit(wrap(X), labels(f)), "feature_names_in_")
