"""The pipeline for tables of mixed columns."""

import warnings
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline

from sparsegpc import (
    BoundSearch,
    NormalScores,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    tabular_pipeline,
)

# Quick fits stop early; that is said elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
QUICK = {"n_inducing": 20, "max_iter": 10, "max_reselections": 1, "main_effects": False}


def table(n_rows=80, seed=0):
    """Return columns of a number, a skewed number, a category and a constant, and targets."""
    rng = np.random.RandomState(seed)
    columns = {
        "size": rng.normal(size=n_rows),
        "price": np.exp(2 * rng.normal(size=n_rows)),
        "colour": rng.choice(["red", "green", "blue"], n_rows).astype(object),
        "same": np.ones(n_rows),
    }
    y = np.log(columns["price"]) + columns["size"] + 2.0 * (columns["colour"] == "red")
    columns["price"][:10] = np.nan
    columns["colour"][5:15] = None
    return columns, y + 0.1 * rng.normal(size=n_rows)


def objects(columns):
    return np.column_stack([np.asarray(column, dtype=object) for column in columns.values()])


def as_numbers(X, y, X_new=None):
    """Return what the steps before the model make of a table."""
    pipeline = tabular_pipeline("regressor", search=False)
    return pipeline[:-1].fit(X, y).transform(X if X_new is None else X_new)


def test_numbers_are_imputed_marked_and_standardised():
    X = np.array([[1.0, 5.0], [3.0, np.nan], [2.0, 7.0], [10.0, 6.0]])
    rows = as_numbers(X, np.arange(4.0))
    filled = np.array([[1.0, 5.0], [3.0, 6.0], [2.0, 7.0], [10.0, 6.0]])
    is_missing = np.array([0.0, 1.0, 0.0, 0.0])
    expected = np.column_stack([filled, is_missing])
    assert_allclose(rows, (expected - expected.mean(axis=0)) / expected.std(axis=0))


def test_levels_are_columns_and_missing_is_one_of_them():
    X = np.array([["a"] * 9 + ["b"] * 2 + [None] * 5 + ["single", "other"]], dtype=object).T
    rows = as_numbers(X, np.arange(18.0))
    levels, is_known = rows[:, :4], rows[:, 4]
    assert rows.shape == (18, 5)
    assert_array_equal(levels.sum(axis=1), 1.0)
    assert_array_equal(np.sort(levels.sum(axis=0)), [2, 2, 5, 9])
    assert_array_equal(is_known, 1.0)
    # A new level is a rare one that is not known; missing values of any kind are the same level.
    new = as_numbers(X, np.arange(18.0), np.array([["new"], [np.nan]], dtype=object))
    assert_array_equal(new[:, :4], levels[[16, 12]])
    assert_array_equal(new[:, 4], [0.0, 1.0])


@pytest.mark.filterwarnings("ignore:all rows of fit had the same value in column 0")
def test_without_a_rare_level_a_new_one_is_between_all():
    X = np.array([["c"] * 11, ["a"] * 6 + ["b"] * 5], dtype=object).T
    new = as_numbers(X, np.arange(11.0), np.array([["c", "new"], ["new", "a"]], dtype=object))
    # Two levels, and whether the level is known. The first column is constant.
    assert_array_equal(new, [[0.5, 0.5, 0.0], [1.0, 0.0, 1.0]])


def test_tables_with_categories_are_converted_if_all_transformers_return_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": list("xxyyzz"), "b": np.arange(6.0)})
    expected = as_numbers(frame, np.arange(6.0), frame.replace("x", "new"))
    with config_context(transform_output="pandas"):
        found = as_numbers(frame, np.arange(6.0), frame.replace("x", "new"))
    assert_allclose(found.to_numpy(), expected)


def test_names_of_columns_for_levels():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"one": ["a", "a", "b", "b"], "two": ["c"] * 4, "3": list("ddee")})
    pipeline = tabular_pipeline("regressor", search=False)[:-1].fit(frame, np.arange(4.0))
    names = [name.removeprefix("categories__") for name in pipeline.get_feature_names_out()]
    assert names == ["one_a", "one_b", "one_is_known", "3_d", "3_e", "3_is_known"]
    assert pipeline.transform(frame).shape == (4, 6)


@pytest.mark.parametrize("n_levels", [10, 50])
def test_predictions_for_new_levels_are_as_uncertain_as_levels_differ(n_levels):
    rng = np.random.RandomState(0)
    level, x = np.repeat(np.arange(n_levels), 500 // n_levels), rng.normal(size=500)
    effect = rng.normal(size=n_levels)
    X = np.array([[f"level {k}", number] for k, number in zip(level, x, strict=True)], dtype=object)
    y = effect[level] + np.sin(2 * x) + 0.3 * rng.normal(size=500)
    model = tabular_pipeline("regressor", search=False).fit(X, y)
    X[:, 0] = "new"
    mean, std = model.predict(X[:20], return_std=True)
    assert np.all(std > 0.7 * effect.std())
    assert np.all(std < 1.6 * np.hypot(effect.std(), 0.3))
    # As far from the truth as a typical level.
    error = mean - np.sin(2 * x[:20]) - effect.mean()
    assert np.abs(error).max() < 0.8


def test_of_many_levels_the_most_frequent_have_columns():
    X = np.repeat([f"level {k}" for k in range(250)], 2)[:, None]
    # One column of these is for the rarest levels, another one for whether a level is known.
    assert as_numbers(X, np.arange(500.0)).shape == (500, 201)


def test_levels_of_few_rows_learn_from_each_other():
    """Sixty shops, each with five rows on average."""
    rng = np.random.RandomState(0)
    shop, effect = rng.randint(60, size=600), rng.normal(size=60)
    y = effect[shop] + 0.3 * rng.normal(size=600)
    X = np.array([f"shop {k}" for k in shop], dtype=object)[:, None]
    model = tabular_pipeline("regressor", search=False).fit(X[:300], y[:300])
    # The noise is 8 % of the variance.
    assert model.score(X[300:], y[300:]) > 0.85


@pytest.mark.parametrize("library", ["pandas", "polars", "objects"])
def test_frames_and_arrays_of_objects_give_the_same_numbers(library):
    columns, y = table()
    X = objects(columns)
    frame = X if library == "objects" else pytest.importorskip(library).DataFrame(columns)
    rows = as_numbers(frame, y)
    assert type(rows) is np.ndarray
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous or rows.flags.f_contiguous
    # Two numbers, whether the second is missing, four levels, and whether the level is known; the
    # constant is dropped.
    assert rows.shape == (80, 8)
    assert_array_equal(rows, as_numbers(X, y))


def test_a_search_over_a_table_finds_the_skewed_column():
    columns, y = table(150)
    estimator = SparseGPRegressor(n_inducing=40, main_effects=False, log_transform=False)
    model = tabular_pipeline(estimator).fit(objects(columns), y)
    assert isinstance(model, BoundSearch)
    assert len(model.results_["params"]) == 12
    assert model.best_params_["table__numbers__scores"] != "passthrough"
    is_complete = slice(15, None)
    assert model.score(objects(columns)[is_complete], y[is_complete]) > 0.97


def test_a_classifier_of_a_frame_with_categories_and_missing_values():
    pandas = pytest.importorskip("pandas")
    columns, y = table(120)
    frame = pandas.DataFrame(columns).astype({"colour": "category"})
    model = tabular_pipeline(SparseGPClassifier(**QUICK)).fit(frame, y > y.mean())
    assert len(model.results_["params"]) == 6
    assert model.score(frame, y > y.mean()) > 0.85
    # Columns are found by their names.
    assert_array_equal(model.predict(frame[frame.columns[::-1]]), model.predict(frame))


def test_without_a_search_it_is_a_pipeline():
    model = tabular_pipeline("classifier", search=False)
    assert type(model) is Pipeline
    assert list(model.named_steps) == ["table", "varying", "model"]
    assert type(model[-1]) is SparseGPClassifier
    assert type(tabular_pipeline("regressor", search=False)[-1]) is SparseGPRegressor


def test_any_estimator_may_be_the_last_step_without_a_search():
    columns, y = table()
    model = tabular_pipeline(LogisticRegression(), search=False).fit(objects(columns), y > y.mean())
    assert model.score(objects(columns), y > y.mean()) > 0.7


def test_what_an_estimator_sets_is_not_searched():
    kernel = ConstantKernel() * RBF()
    assert set(tabular_pipeline(SparseGPRegressor(kernel, noise="gp")).param_grid) == {
        "table__numbers__scores"
    }
    assert set(tabular_pipeline("regressor").param_grid) == {
        "table__numbers__scores",
        "model__kernel",
        "model__noise",
    }


def test_the_steps_of_all_candidates_may_return_frames():
    pandas = pytest.importorskip("pandas")
    columns, y = table()
    frame = pandas.DataFrame(columns)
    model = tabular_pipeline(SparseGPRegressor(optimizer=None, noise="polynomial"))
    expected = clone(model).fit(frame, y).results_["bound"]
    model.estimator.set_output(transform="pandas")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitFailedWarning)
        model.fit(frame, y)
    assert_allclose(model.results_["bound"], expected)
    for scores in ("passthrough", NormalScores()):
        candidate = model.set_params(param_grid={"table__numbers__scores": [scores]}).fit(frame, y)
        rows = candidate.best_estimator_[:-1].transform(frame)
        assert "numbers__price" in rows.columns


def test_the_given_estimator_is_not_fitted():
    columns, y = table()
    estimator = SparseGPRegressor(ConstantKernel() * RBF(), noise="polynomial", **QUICK)
    tabular_pipeline(estimator, search=False).fit(objects(columns), y)
    assert not hasattr(estimator, "lower_bound_")


def test_more_labels_than_numbers_are_compared():
    assert tabular_pipeline("classifier").n_screening_rows == 2000
    assert tabular_pipeline("regressor").n_screening_rows == 500


def test_the_number_of_jobs_and_the_lines_printed_are_those_of_the_search():
    model = tabular_pipeline("classifier", n_jobs=2, verbose=1)
    assert (model.n_jobs, model.verbose) == (2, 1)


def test_it_can_be_cloned_and_shown():
    model = tabular_pipeline("regressor")
    assert repr(clone(model)) == repr(model)
    assert "ColumnScaler" in model._repr_html_()


def test_another_name_is_refused():
    with pytest.raises(ValueError, match="'classifier', 'regressor' or an estimator, got 'forest'"):
        tabular_pipeline("forest")


def test_counts_of_a_table(rng):
    X = np.empty((120, 2), dtype=object)
    X[:, 0], X[:, 1] = rng.uniform(-1.0, 1.0, 120), rng.choice(["red", "blue"], 120)
    exposure = rng.uniform(0.5, 2.0, 120)
    y = rng.poisson(exposure * np.exp(1.0 + X[:, 0].astype(float) + (X[:, 1] == "red")))
    estimator = SparseGPGeneralizedRegressor("rbf", likelihood="poisson", n_inducing=15)
    model = tabular_pipeline(estimator).fit(X, y, model__exposure=exposure)
    assert model.results_["bound"].shape == (2,)
    predicted = model.predict(X, exposure=exposure)
    assert mean_poisson_deviance(y, predicted) < 1.3
    assert_allclose(predicted, exposure * model.predict(X))


def test_a_search_needs_an_estimator_of_the_package():
    with pytest.raises(ValueError, match=r"search=True needs a SparseGP.*got LogisticRegression"):
        tabular_pipeline(LogisticRegression())


def test_dates_are_refused_by_fit():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"when": pandas.to_datetime(["2020-01-01", "2021-01-01"])})
    with pytest.raises(ValueError, match="'when' of datetime64"):
        tabular_pipeline("regressor", search=False).fit(frame, [1.0, 2.0])


def test_a_column_of_names_of_rows_is_reported_and_left_out(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": rng.normal(size=40), "key": [f"row {k}" for k in range(40)]})
    estimator = SparseGPRegressor("rbf", optimizer=None, noise="polynomial")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = tabular_pipeline(estimator).fit(frame, frame["a"])
    [warning] = [each for each in caught if "a value of column 'key' that" in str(each.message)]
    assert warning.filename == __file__
    assert len(model.best_estimator_[:-1].get_feature_names_out()) == 1


@pytest.mark.parametrize("search", [True, False])
def test_a_table_of_constants_gives_the_mean(rng, search):
    X = np.column_stack([np.ones(40), np.full(40, "same")]).astype(object)
    y = rng.normal(size=40)
    model = tabular_pipeline("regressor", search=search)
    with pytest.warns(UserWarning, match="constant"):
        model.fit(X, y)
    assert_allclose(model.predict(X), y.mean(), atol=0.05)


def test_columns_without_a_value_are_dropped_in_silence(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": rng.normal(size=40), "hole": np.nan, "none": [None] * 40})
    model = tabular_pipeline("regressor", search=False).set_params(model=SparseGPRegressor(**QUICK))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(frame, frame["a"] + 0.1 * rng.normal(size=40)).predict(frame)
    assert list(model[:-1].get_feature_names_out()) == ["numbers__a"]


def test_new_rows_may_hold_what_those_of_fit_did_not(rng):
    """Text in a column that was empty, or that held numbers."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": rng.normal(size=40), "note": [None] * 40, "code": [7, 8] * 20})
    frame["code"] = frame["code"].astype(object)
    model = tabular_pipeline("regressor", search=False).set_params(model=SparseGPRegressor(**QUICK))
    model.fit(frame, frame["a"] + 0.1 * rng.normal(size=40))
    new = pandas.DataFrame({"a": [0.0], "note": ["text"], "code": [7]})
    assert np.isfinite(model.predict(new)).all()
    new["code"] = pandas.Series(["7b"], dtype=object)
    with pytest.warns(UserWarning, match=r"no numbers count as missing in column 'code' \('7b'\)"):
        assert np.isfinite(model.predict(new)).all()


def test_objects_that_are_numbers_and_levels_of_mixed_types_are_used(rng):
    pandas = pytest.importorskip("pandas")
    price = [Decimal(k) / 7 for k in range(60)]
    code = np.array([7, "7b"] * 30, dtype=object)
    frame = pandas.DataFrame({"price": price, "code": code})
    y = np.sin(np.arange(60) / 7) + 2.0 * (code == "7b") + 0.1 * rng.normal(size=60)
    model = tabular_pipeline(SparseGPRegressor(n_inducing=30, main_effects=False), search=False)
    assert model.fit(frame, y).score(frame, y) > 0.95


def test_arguments_of_rows_reach_the_model_through_a_search(rng):
    X, hours = rng.normal(size=(60, 1)), rng.uniform(1.0, 3.0, 60)
    y = rng.poisson(hours * np.exp(X[:, 0]))
    options = {"likelihood": "poisson", "optimizer": None}
    model = tabular_pipeline(SparseGPGeneralizedRegressor(RBF(1.0), **options))
    plain = clone(model).fit(X, y, exposure=hours)
    named = clone(model).fit(X, y, model__exposure=hours)
    assert plain.lower_bound_ == named.lower_bound_ != clone(model).fit(X, y).lower_bound_


def test_arguments_of_rows_reach_the_score_of_a_search(rng):
    X, times = rng.normal(size=(60, 2)), rng.weibull(2.0, 60)
    event = rng.randint(0, 2, 60)
    estimator = SparseGPGeneralizedRegressor(RBF(1.0), likelihood="weibull", optimizer=None)
    search = tabular_pipeline(estimator).fit(X, times, event=event)
    chosen = search.best_estimator_
    expected = chosen[-1].score(chosen[:-1].transform(X), times, event=event)
    assert search.score(X, times, event=event) == expected != search.score(X, times)
    with pytest.raises(TypeError, match="unexpected keyword argument 'events'"):
        search.score(X, times, events=event)
    search = BoundSearch(estimator, {}).fit(X, times, event=event)
    expected = search.best_estimator_.score(X, times, event=event)
    assert search.score(X, times, event=event) == expected


@pytest.mark.parametrize("search", [True, False])
def test_weights_are_routed_to_the_model_only(rng, search):
    X, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    weight = rng.uniform(0.5, 2.0, 60)
    estimator = SparseGPRegressor(RBF(1.0), noise="polynomial", optimizer=None)
    name = "sample_weight" if search else "model__sample_weight"
    model = tabular_pipeline(estimator, search=search)
    expected = clone(model).fit(X, y, **{name: weight}).predict(X)
    assert not np.array_equal(expected, clone(model).fit(X, y).predict(X))
    with config_context(enable_metadata_routing=True):
        estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        routed = tabular_pipeline(estimator, search=search)
        assert_array_equal(clone(routed).fit(X, y, sample_weight=weight).predict(X), expected)
        params = {"params": {"sample_weight": weight}, "cv": 2, "error_score": "raise"}
        assert np.isfinite(cross_val_score(routed, X, y, **params)).all()


def test_skops_saves_it(rng):
    skops_io = pytest.importorskip("skops.io")
    X = np.empty((60, 2), dtype=object)
    X[:, 0], X[:, 1] = rng.normal(size=60), rng.choice(["red", "blue"], 60)
    model = tabular_pipeline(SparseGPRegressor(RBF(), **QUICK), search=False)
    model.fit(X, X[:, 0].astype(float))
    data = skops_io.dumps(model)
    other = skops_io.loads(data, trusted=skops_io.get_untrusted_types(data=data))
    assert_array_equal(other.predict(X), model.predict(X))


@pytest.mark.parametrize("search", [False, True])
def test_columns_of_the_same_name_are_named(search):
    pandas = pytest.importorskip("pandas")
    columns, y = table()
    frame = pandas.DataFrame(columns)
    twice = pandas.concat([frame, frame[["price"]]], axis=1)
    model = tabular_pipeline(SparseGPRegressor(RBF(), **QUICK), search=search)
    match = "X must have columns with different names, got 2 columns 'price': rename"
    with pytest.raises(ValueError, match=match):
        model.fit(twice, y)
    model.fit(frame, y)
    with pytest.raises(ValueError, match=match):
        model.predict(twice)


def test_other_values_of_a_column_that_did_not_vary_are_reported():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"speed": 20.0, "supplier": "A", "x": np.arange(12.0)})
    model = tabular_pipeline("regressor", search=False).fit(X, np.sin(X["x"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X.iloc[:3])
    for column, value in (("speed", 25.0), ("supplier", "B")):
        with pytest.warns(UserWarning, match=f"same value in column '{column}', and these rows"):
            model.predict(X.assign(**{column: value}))


def test_numbers_that_span_decades_keep_their_origin():
    X = 10.0 ** np.linspace(-6.0, 0.0, 7)[:, None]
    assert_allclose(as_numbers(X, np.arange(7.0)), X / X.std())
