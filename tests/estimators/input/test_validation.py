"""Input of any form: arrays, lists and frames give the same model, and stay as they are."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    NormalScores,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPRegressor,
)
from sparsegpc._estimators.input.validation import checked_numbers, refuse_columns
from sparsegpc.decomposition import BayesianGPLVM
from tests.estimators import regression, two_classes

# Rows and labels

FORMS_OF_ROWS = {
    "list": lambda X: X.tolist(),
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "writeable": lambda X: X.copy(),
    "objects": lambda X: X.astype(object),
    "integers": lambda X: X.astype(np.int16),
    "big-endian": lambda X: X.astype(">f8"),
    "float32": lambda X: X.astype(np.float32),
}


@pytest.mark.parametrize("form", FORMS_OF_ROWS.values(), ids=FORMS_OF_ROWS)
def test_forms_of_an_array_of_labelled_rows(form):
    X, y = two_classes.moons(60)
    X = np.round(8 * X)  # exact in each type
    model = two_classes.fixed_model(kernel=ConstantKernel(5.0) * RBF(8.0))
    reference = clone(model).fit(X, y)
    other = model.fit(form(X), form(y[:, None])[:, 0] if form(y[:, None]) is y else y)
    assert_array_equal(other.inducing_points_, reference.inducing_points_)
    assert_array_equal(other.predict_proba(form(X)), reference.predict_proba(X))
    assert other.lower_bound_ == reference.lower_bound_
    for array in (other.predict_proba(form(X)), other.inducing_points_, other.lower_bounds_):
        assert array.dtype == np.float64


def test_boolean_columns():
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(60, 4)) < 0.5
    y = X[:, 0] ^ (rng.uniform(size=60) < 0.1)
    model = two_classes.small_model(n_inducing=8).fit(X, y)
    assert model.inducing_points_.dtype == np.float64
    assert len(model.inducing_points_) == 8
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_labelled_rows(library):
    frames = pytest.importorskip(library)
    X, y = two_classes.moons(60)
    frame = frames.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    weight = np.linspace(0.5, 1.5, len(X))
    model = two_classes.fixed_model().fit(
        frame, frames.Series(y), sample_weight=frames.Series(weight)
    )
    reference = two_classes.fixed_model().fit(X, y, weight)
    assert not hasattr(reference, "feature_names_in_")
    assert_array_equal(model.predict_proba(frame), reference.predict_proba(X))
    assert model.lower_bound(X=frame, y=frames.Series(y)) == reference.lower_bound(X=X, y=y)
    # scikit-learn 1.6 does not see the names in the frames of a later polars.
    if hasattr(StandardScaler().fit(frame), "feature_names_in_"):
        assert list(model.feature_names_in_) == ["east", "north"]
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[["north", "east"]])


def test_nothing_that_was_given_with_labels_is_changed():
    X, y = (array.copy() for array in two_classes.moons(60))
    weight, points = np.linspace(0.0, 2.0, 60), X[:9].copy()
    before = [array.copy() for array in (X, y, weight, points)]
    kernel = ConstantKernel() * RBF([1.0, 1.0])
    theta, text = kernel.theta.copy(), str(kernel)
    model = SparseGPClassifier(kernel, selector=points, max_iter=5, tol=1e-2).fit(X, y, weight)
    model.predict_proba(X)
    model.lower_bound(theta, X, y, weight, eval_gradient=True)
    for array, copy in zip((X, y, weight, points), before, strict=True):
        assert_array_equal(array, copy)
    assert model.kernel is kernel
    assert model.selector is points
    assert_array_equal(kernel.theta, theta)
    assert str(kernel) == text
    assert model.kernel_ is not kernel
    assert np.abs(model.kernel_.theta - theta).max() > 0.01
    assert not np.shares_memory(model.inducing_points_, points)


def test_changing_labelled_rows_afterwards_does_not_change_the_model():
    X, y = (array.copy() for array in two_classes.moons(60))
    model = two_classes.fixed_model().fit(X, y)
    before = model.predict_proba(two_classes.grid())
    X[:] = 0.0
    y[:] = 0
    assert_array_equal(model.predict_proba(two_classes.grid()), before)


# Rows and targets

FORMS_OF_TARGETS = {
    "lists": np.ndarray.tolist,
    "Fortran order": np.asfortranarray,
    "strided": lambda array: np.repeat(array, 2, axis=0)[::2],
    "objects": lambda array: array.astype(object),
    "big endian": lambda array: array.astype(">f8"),
}


@pytest.mark.parametrize("form", FORMS_OF_TARGETS.values(), ids=FORMS_OF_TARGETS)
def test_forms_of_an_array_of_rows_with_targets(form):
    X, Y = regression.two_waves(40)
    model = regression.fixed_model().fit(
        form(X), form(Y), noise_variance=form(regression.known_noise(40, 2))
    )
    reference = regression.fixed_model().fit(X, Y, noise_variance=regression.known_noise(40, 2))
    regression.assert_same_model(model, reference)
    assert_array_equal(
        model.log_predictive_density(
            form(X), form(Y), noise_variance=form(regression.known_noise(40, 2))
        ),
        reference.log_predictive_density(X, Y, noise_variance=regression.known_noise(40, 2)),
    )


def test_single_precision_is_computed_in_double_precision():
    X, y = (array.astype(np.float32) for array in regression.waves(40))
    model = regression.fixed_model().fit(X, y)
    regression.assert_same_model(
        model, regression.fixed_model().fit(X.astype(np.float64), y.astype(np.float64))
    )
    assert model.predict(X).dtype == np.float64


def test_integer_targets():
    X, y = regression.waves(40)
    counts = np.round(10 * y).astype(int)
    regression.assert_same_model(
        regression.fixed_model().fit(X, counts),
        regression.fixed_model().fit(X, counts.astype(float)),
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_rows_and_targets(library):
    frames = pytest.importorskip(library)
    X, Y = regression.two_waves(40)
    frame = frames.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    targets = frames.DataFrame({"a": Y[:, 0], "b": Y[:, 1]})
    variance = frames.Series(regression.known_noise(40))
    weight = np.linspace(0.5, 1.5, len(X))
    model = regression.fixed_model().fit(
        frame, targets, frames.Series(weight), noise_variance=variance
    )
    reference = regression.fixed_model().fit(
        X, Y, weight, noise_variance=regression.known_noise(40)
    )
    assert not hasattr(reference, "feature_names_in_")
    assert model.lower_bound_ == reference.lower_bound_
    assert_array_equal(
        model.predict(frame, return_std=True, noise_variance=variance),
        reference.predict(X, return_std=True, noise_variance=regression.known_noise(40)),
    )
    again = model.lower_bound(X=frame, y=targets, sample_weight=weight, noise_variance=variance)
    assert_allclose(again, reference.lower_bound_, rtol=1e-10)
    one = regression.fixed_model().fit(frame, frames.Series(Y[:, 0]))
    assert one.predict(frame).shape == (40,)
    # scikit-learn 1.6 does not see the names in the frames of a later polars.
    if hasattr(StandardScaler().fit(frame), "feature_names_in_"):
        assert list(model.feature_names_in_) == ["east", "north"]
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[["north", "east"]])


@regression.quiet
@pytest.mark.parametrize("normalize_y", [False, True])
def test_nothing_that_was_given_with_targets_is_changed(normalize_y):
    X, Y = (array.copy() for array in regression.two_waves(40))
    weight, points, variance = (
        np.linspace(0.0, 2.0, 40),
        X[:9].copy(),
        regression.known_noise(40, 2),
    )
    arrays = (X, Y, weight, points, variance)
    before = [array.copy() for array in arrays]
    kernel = ConstantKernel() * RBF([1.0, 1.0])
    theta, text = kernel.theta.copy(), str(kernel)
    model = SparseGPRegressor(
        kernel, selector=points, max_iter=5, normalize_y=normalize_y, optimize_inducing=True
    )
    model.fit(X, Y, weight, noise_variance=variance)
    model.predict(X, return_cov=True, noise_variance=variance)
    model.log_predictive_density(X, Y, noise_variance=variance)
    model.sample_y(X, noise_variance=variance)
    model.lower_bound(theta, X, Y, weight, noise_variance=variance, eval_gradient=True)
    model.certificate(X, Y, weight, noise_variance=variance)
    for array, copy in zip(arrays, before, strict=True):
        assert_array_equal(array, copy)
    assert model.kernel is kernel
    assert model.selector is points
    assert str(kernel) == text
    assert_array_equal(kernel.theta, theta)
    assert np.abs(model.kernel_.theta - theta).max() > 0.01


@regression.quiet
def test_settings_of_the_noise_are_not_changed():
    X, y = regression.waves(40)
    for noise in (
        HomoscedasticNoise(0.3, (0.01, 1.0)),
        PolynomialNoise(1),
        GPNoise(ConstantKernel(0.5) * RBF(2.0), n_inducing=5),
    ):
        before = repr(noise)
        assert regression.model_of(noise=noise, max_iter=3, tol=1e-2).fit(X, y).noise is noise
        assert repr(noise) == before


def test_changing_rows_and_targets_afterwards_does_not_change_the_model():
    X, y = (array.copy() for array in regression.waves())
    points = X[:12].copy()
    model = regression.fixed_model(selector=points).fit(X, y)
    before = model.predict(regression.grid())
    X[:], y[:], points[:] = 0.0, 0.0, 0.0
    assert_array_equal(model.predict(regression.grid()), before)


# What is refused


@pytest.mark.parametrize("weight", [1e300, 5e-324, -1.0, np.nan, np.inf, 0.0])
def test_weights_that_cannot_be_computed_with_are_refused(weight):
    X, y = two_classes.moons(20)
    for given in (weight, np.full(20, weight)):
        with pytest.raises(ValueError, match=r"weight"):
            SparseGPClassifier().fit(X, y, sample_weight=given)


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (RBF(1.0, (5.0, 2.0)), "lower bound must not exceed the upper"),
        (ConstantKernel(1.0, (2.0, 1.0)) * RBF(), "constant_value, but the lower bound must not"),
    ],
    ids=["length-scale", "constant"],
)
def test_bounds_the_wrong_way_round_are_named(kernel, match):
    with pytest.raises(ValueError, match=match):
        SparseGPClassifier(kernel).fit(*two_classes.moons(20))


def test_differences_too_small_to_square_are_refused():
    X, y = two_classes.moons(20)
    with pytest.raises(ValueError, match="square underflows: scale the columns"):
        SparseGPClassifier().fit(1e-200 * X, y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_text_are_named(library):
    library = pytest.importorskip(library)
    text = library.DataFrame({"size": [1.0, 2.0], "kind": ["a", "b"]})
    match = r"got 'kind' of \w+: .*, or use tabular_pipeline"
    for model in (SparseGPClassifier(), SparseGPRegressor()):
        with pytest.raises(ValueError, match=match):
            model.fit(text, [0, 1])
    numbers = library.DataFrame({"size": [1.0, 2.0], "kind": [0.0, 1.0]})
    model = SparseGPRegressor(RBF(0.1), optimizer=None).fit(numbers, [-3, 3])
    with pytest.raises(ValueError, match=match):
        model.predict(text)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(library.DataFrame({"size": [1.0, np.nan]}), [0, 1])


def test_columns_of_dates_beside_numbers_are_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "day": pandas.date_range("2020", periods=2)})
    with pytest.raises(ValueError, match=r"got datetime64.* in column 'day': choose a unit"):
        SparseGPRegressor().fit(frame, [0, 1])


TIMES = {
    "dates": (
        np.array(["2020-01-01", "2020-01-03"], "M8[D]"),
        r"datetime64\[D\].* \(\w+ - start\) / ",
    ),
    "durations": (np.array([3, 5], "m8[h]"), r"timedelta64\[h\]: .* / numpy.timedelta64\(1, 'D'\)"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_are_refused_since_their_unit_is_not_that_of_new_rows(kind):
    times, match = TIMES[kind]
    gp = SparseGPRegressor(RBF(), optimizer=None).fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ValueError, match="X must hold numbers, got " + match):
        gp.predict(times[:, None])
    with pytest.raises(ValueError, match="X must hold numbers, got " + match):
        gp.fit(times[:, None], [0.0, 1.0])
    for name in ("y", "sample_weight", "noise_variance"):
        given = {"X": [[0.0], [1.0]], "y": [0.0, 1.0], name: times}
        with pytest.raises(ValueError, match=f"{name} must hold numbers, got {match}"):
            gp.fit(**given)


@pytest.mark.parametrize("transformer", [BayesianGPLVM(), InducingPointSelector(), NormalScores()])
def test_transformers_refuse_times(transformer):
    for times, match in TIMES.values():
        with pytest.raises(ValueError, match="X must hold numbers, got " + match):
            clone(transformer).fit(times[:, None])


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("others", [{}, {"size": [1.0, 2.0]}], ids=["alone", "beside numbers"])
def test_frames_of_times_are_refused(library, others):
    library = pytest.importorskip(library)
    for times, match in TIMES.values():
        times = times.astype("M8[us]" if "date" in match else "m8[us]")
        frame = library.DataFrame({**others, "time": times})
        match = r"X must hold numbers, got (datetime|timedelta)64\[us\] in column 'time': choose"
        with pytest.raises(ValueError, match=match):
            SparseGPRegressor().fit(frame, [0.0, 1.0])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_series_as_rows_is_refused_as_one_dimensional(library):
    series = pytest.importorskip(library).Series([0.0, 1.0])
    with pytest.raises(ValueError, match=r"Expected.* 2"):
        SparseGPRegressor().fit(series, [0.0, 1.0])


def test_times_with_a_zone_are_refused():
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2020", periods=2, tz="UTC")
    for frame in (
        pandas.DataFrame({"time": times}),
        pandas.DataFrame({"time": times, "size": 1.0}),
    ):
        with pytest.raises(
            ValueError, match=r"got Timestamp\('2020.* in column 'time': choose a unit"
        ):
            SparseGPRegressor().fit(frame, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"y must hold numbers, got Timestamp.*: choose a unit"):
        SparseGPRegressor().fit([[0.0], [1.0]], pandas.Series(times))


@pytest.mark.parametrize(
    ("times", "got"),
    [
        ([np.datetime64("2020-01-01"), np.datetime64("2020-01-03")], "np.datetime64"),
        ([np.timedelta64(3, "h"), np.timedelta64(5, "h")], "np.timedelta64"),
        ([datetime(2020, 1, 1), datetime(2020, 1, 3)], "datetime.datetime"),
        ([timedelta(hours=3), timedelta(hours=5)], "datetime.timedelta"),
    ],
)
def test_objects_that_are_times_are_refused(times, got):
    objects = np.array(times, dtype=object)
    with pytest.raises(ValueError, match=f"X must hold numbers, got {got}.*: choose a unit"):
        SparseGPRegressor().fit(objects[:, None], [0.0, 1.0])
    kind = got.rpartition(".")[2]
    with pytest.raises(ValueError, match=f"X must hold numbers, got .*{kind}.*: choose a unit"):
        SparseGPRegressor().fit([[time] for time in times], [0.0, 1.0])
    for y in (objects, times):
        with pytest.raises(
            ValueError, match=f"y must hold numbers, got .*{kind}.*: (choose|convert)"
        ):
            SparseGPRegressor().fit([[0.0], [1.0]], y)


def test_integers_too_large_for_floats_are_refused_by_the_name_of_the_argument():
    data = {"X": [[0.0], [1.0]], "y": [0.0, 1.0], "sample_weight": None, "noise_variance": None}
    for name in data:
        values = [1, 10**400]
        given = {**data, name: [[value] for value in values] if name == "X" else values}
        match = rf"^{name} must hold numbers up to 1e\+150, got a larger int in row 1: choose"
        with pytest.raises(ValueError, match=match):
            SparseGPRegressor().fit(**given)


@pytest.mark.parametrize("kind", [list, tuple])
def test_sequences_of_numbers_are_converted_once(kind):
    class Number:
        conversions = 0

        def __array__(self, dtype=None, copy=None):
            Number.conversions += 1
            return np.array(1.0, dtype)

        def __float__(self):
            return 1.0

    values = kind([Number(), Number()])
    np.asarray(values)
    once, Number.conversions = Number.conversions, 0
    assert_array_equal(checked_numbers(values, "y"), [1.0, 1.0])
    assert Number.conversions == once > 0


def test_frames_whose_slices_are_by_label_are_fitted():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0, 3.0]}, index=[5.0, 0.5, 3.0])
    model = SparseGPRegressor(RBF(), optimizer=None).fit(frame, [0.0, 1.0, 2.0])
    assert model.n_features_in_ == 1


def test_frames_of_dask_are_fitted():
    dataframe, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0, 3.0]})
    model = SparseGPRegressor(RBF(), optimizer=None)
    y = [0.0, 1.0, 2.0]
    bound = model.fit(frame, y).lower_bound_
    assert model.fit(dataframe.from_pandas(frame, npartitions=2), y).lower_bound_ == bound


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (["3", "yes"], "'yes' in row 1"),
        ([{}, 1.0], "{} in row 0"),
        (
            np.array([(1, 2.0), (0, 3.0)], [("event", "?"), ("time", "f8")]),
            r"\(True, 2.0\) in row 0",
        ),
    ],
    ids=["text", "object", "records"],
)
@pytest.mark.parametrize("name", ["y", "sample_weight", "noise_variance"])
def test_arguments_that_hold_other_things_than_numbers_are_named(name, values, got):
    given = {"X": [[0.0], [1.0]], "y": [0.0, 1.0], name: values}
    with pytest.raises(ValueError, match=f"{name} must hold numbers, got {got}: convert"):
        SparseGPRegressor().fit(**given)


def test_the_row_of_an_output_that_is_not_a_number_is_named():
    with pytest.raises(ValueError, match="y must hold numbers, got 'b' in row 1"):
        SparseGPRegressor().fit([[0.0], [1.0]], [[0.0, 1.0], [1.0, "b"]])


def test_columns_of_one_name_are_named_where_scikit_learn_refuses_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.arange(6.0).reshape(2, 3), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="different names, got 2 columns 'a': rename them"):
        refuse_columns(frame, ValueError("Expected unique column names"))
