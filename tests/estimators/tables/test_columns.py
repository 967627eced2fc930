"""Which columns are numbers and which are categories."""

import warnings
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pytest

from sparsegpc._estimators.tables.columns import (
    Levels,
    Numbers,
    VaryingColumns,
    category_columns,
    levels,
    number_columns,
)


@pytest.mark.parametrize("dtype", [float, np.float32, int, np.uint8, bool])
def test_arrays_of_numbers_have_no_categories(dtype):
    X = np.ones((3, 2), dtype=dtype)
    assert (number_columns(X), category_columns(X)) == ([0, 1], [])


def test_arrays_of_strings_have_no_numbers():
    X = np.array([["a", "b"], ["1", "2"]])
    assert (number_columns(X), category_columns(X)) == ([], [0, 1])


def test_columns_of_objects_are_numbers_if_all_values_are():
    X = np.array([[1, "a", None, 1, True], [2.5, "b", np.nan, "1", None]], dtype=object)
    assert (number_columns(X), category_columns(X)) == ([0, 2, 4], [1, 3])


def test_columns_of_pandas_are_told_apart_by_dtype():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "float": [1.0, np.nan],
            "int": [1, 2],
            "bool": [True, False],
            "Int64": pandas.array([1, pandas.NA], dtype="Int64"),
            "boolean": pandas.array([True, pandas.NA], dtype="boolean"),
            "object": np.array(["a", 1], dtype=object),
            "decimal": [Decimal("0.5"), None],
            "floats": pandas.Series([pandas.NA, 1.5], dtype=object),
            "string": pandas.array(["a", pandas.NA], dtype="string"),
            "category": pandas.Categorical([1, 2]),
            "empty": pandas.Series([None, None], dtype=object),
        }
    )
    assert number_columns(frame) == [
        "float",
        "int",
        "bool",
        "Int64",
        "boolean",
        "decimal",
        "floats",
    ]
    assert category_columns(frame) == ["object", "string", "category", "empty"]


def test_columns_of_polars_are_told_apart_by_dtype():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {"float": [1.0, None], "int": [1, None], "bool": [True, None], "text": ["a", None]}
    )
    frame = frame.with_columns(level=frame["text"].cast(polars.Categorical))
    frame = frame.with_columns(choice=frame["text"].cast(polars.Enum(["a", "b"])))
    assert number_columns(frame) == ["float", "int", "bool"]
    assert category_columns(frame) == ["text", "level", "choice"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_dates_are_refused(library):
    library = pytest.importorskip(library)
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ms]")
    frame = library.DataFrame({"a": [1.0, 2.0], "when": dates})
    with pytest.raises(ValueError, match=r"got 'when' of .*: convert dates to numbers"):
        number_columns(frame)


@pytest.mark.parametrize(
    "value",
    [
        date(2020, 1, 1),
        datetime(2020, 1, 1),
        time(12),
        timedelta(1),
        np.datetime64("2020-01-01"),
        [1.0, 2.0],
        (1.0, 2.0),
        {"a": 1.0},
        np.ones(2),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
def test_objects_that_are_neither_numbers_nor_text_are_refused(library, value):
    X = np.empty((3, 2), dtype=object)
    X[:, 0], X[1, 1], X[2, 1] = 1.0, "text", value
    name = "1"
    if library == "pandas":
        X, name = pytest.importorskip(library).DataFrame(X, columns=["a", "b"]), "'b'"
    elif library == "polars":
        polars = pytest.importorskip(library)
        column, name = polars.Series("b", list(X[:, 1]), dtype=polars.Object), "'b'"
        X = polars.DataFrame([polars.Series("a", [1.0, 1.0, 1.0]), column])
    message = rf"(?i)got {name} of object with a {type(value).__name__}: convert dates to numbers"
    with pytest.raises(ValueError, match=message):
        category_columns(X)


def test_dtypes_of_pandas_that_are_neither_numbers_nor_categories_are_refused():
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=3)
    columns = {
        "period": days[:2].to_period("D"),
        "interval": pandas.IntervalIndex.from_breaks(days),
        "span": days[1:] - days[:2],
        "timestamp": days[:2].astype(object),
    }
    for name, column in columns.items():
        frame = pandas.DataFrame({"a": [1.0, 2.0], name: column})
        with pytest.raises(ValueError, match=f"got '{name}' of "):
            number_columns(frame)
    intervals = pandas.cut(pandas.Series([1.0, 2.0]), 2)
    # Intervals that cut a column are ordered.
    assert number_columns(pandas.DataFrame({"cut": intervals})) == ["cut"]
    unordered = pandas.DataFrame({"cut": intervals.cat.as_unordered()})
    assert category_columns(unordered) == ["cut"]


def test_columns_whose_levels_are_mostly_rare_are_reported():
    """Numbers or dates that are stored as text, and names of rows."""
    X = np.empty((12, 4), dtype=object)
    X[:, 0] = [f"{k:.3f}" for k in range(12)]
    X[:, 1] = ["a"] * 5 + ["b"] * 4 + [None] * 3
    X[:, 2] = "same"
    # Half of the rows, but not more, have a value of their own.
    X[:, 3] = ["a"] * 6 + list("bcdefg")
    with pytest.warns(UserWarning, match="100% of the rows have a value of column 0 ") as caught:
        Levels().fit(X)
    assert len(caught) == 1
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"key": list("aabbbcdefghi")})
    with pytest.warns(UserWarning, match="58% of the rows have a value of column 'key' that no"):
        Levels().fit(frame)


def test_missing_values_are_one_level():
    X = np.array([["a", None], [np.nan, "b"]], dtype=object)
    assert levels(X).tolist() == [["a", None], [None, "b"]]
    assert X[1, 0] is not None, "the user's array is changed"


def test_missing_values_of_pandas_are_one_level():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "string": pandas.array(["a", pandas.NA], dtype="string"),
            "category": pandas.Categorical(["b", None]),
            "object": [None, "c"],
        }
    )
    assert levels(frame).tolist() == [["a", "b", None], [None, None, "c"]]


def test_missing_values_of_polars_are_one_level():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": ["a", None]})
    assert levels(frame).tolist() == [["a"], [None]]


def test_levels_are_compared_as_text():
    X = np.array([[7, "7", 7.0, "7b", None, True, 0.5]], dtype=object).T
    assert levels(X)[:, 0].tolist() == ["7", "7", "7", "7b", None, "True", "0.5"]


def test_numbers_become_floats():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "decimal": [Decimal("0.5"), None],
            "object": pandas.Series([pandas.NA, 1.5], dtype=object),
            "Int64": pandas.array([1, pandas.NA], dtype="Int64"),
            "bool": [True, False],
        }
    )
    before = frame.copy()
    expected = [[0.5, np.nan, 1.0, 1.0], [np.nan, 1.5, np.nan, 0.0]]
    np.testing.assert_array_equal(Numbers().fit_transform(frame), expected)
    pandas.testing.assert_frame_equal(frame, before)
    np.testing.assert_array_equal(
        Numbers().fit_transform(np.array([[1, None]], dtype=object)), [[1.0, np.nan]]
    )


def test_text_among_numbers_is_read_or_counts_as_missing_whatever_its_dtype():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for numbers in ([1.0, 2.0], [True, False], [1, 2]):
        known = np.array(numbers, dtype=float)
        fitted = Numbers().fit(pandas.DataFrame({"a": known, "b": numbers}))
        for dtype in (object, "str", "string", "category"):
            new = pandas.DataFrame({"a": known, "b": pandas.Series(["a", " 1.5"], dtype=dtype)})
            before = new.copy()
            with pytest.warns(UserWarning, match=r"in column 'b' \('a'\), where fit had") as caught:
                found = fitted.transform(new)
            assert len(caught) == 1
            np.testing.assert_array_equal(found, np.column_stack([known, [np.nan, 1.5]]))
            pandas.testing.assert_frame_equal(new, before)
        fitted = Numbers().fit(polars.DataFrame({"a": known, "b": numbers}))
        with pytest.warns(UserWarning, match=r"no numbers count as missing in column 'b' \('a'\)"):
            found = fitted.transform(polars.DataFrame({"a": known, "b": ["a", None]}))
        np.testing.assert_array_equal(found, np.column_stack([known, [np.nan, np.nan]]))
    fitted = Numbers().fit(np.array([[1.0]], dtype=object))
    with pytest.warns(UserWarning, match=r"count as missing in column 0 of the numbers \('a'\)"):
        assert np.isnan(fitted.transform(np.array([["a"]]))).all()


def test_ordered_categories_become_their_positions():
    pandas = pytest.importorskip("pandas")
    dtype = pandas.CategoricalDtype(["low", "mid", "high", "top"], ordered=True)
    rows = pandas.DataFrame({"age": [1.0, 2.0, 4.0], "grade": ["high", None, "low"]})
    rows = rows.astype({"grade": dtype})
    assert number_columns(rows) == ["age", "grade"]
    assert category_columns(rows) == []
    assert category_columns(rows.assign(grade=rows["grade"].cat.as_unordered())) == ["grade"]
    expected = np.array([[1.0, 2.0], [2.0, np.nan], [4.0, 0.0]])
    fitted = Numbers()
    np.testing.assert_array_equal(fitted.fit_transform(rows), expected)
    # New rows may have other dtypes, and levels that no row of fit has.
    for grades in (["top", "mid"], pandas.Categorical(["top", "mid"])):
        new = pandas.DataFrame({"age": [1.0, 2.0], "grade": grades})
        np.testing.assert_array_equal(fitted.transform(new), [[1.0, 3.0], [2.0, 1.0]])
    np.testing.assert_array_equal(fitted.transform(rows.iloc[::-1]), expected[::-1])
    new = pandas.DataFrame({"age": [1.0, 2.0], "grade": ["Top", ""]})
    shown = r"column 'grade' \('Top'\), where fit had numbers: .* like the ordered categories"
    with pytest.warns(UserWarning, match=shown):
        np.testing.assert_array_equal(fitted.transform(new)[:, 1], [np.nan, np.nan])


@pytest.mark.parametrize("levels", [[30, 10, 20], [0.5, 0.25, 2.0], [True, False]])
def test_the_position_of_ordered_numbers_is_not_their_value(levels):
    pandas = pytest.importorskip("pandas")
    column = pandas.Categorical(levels[::-1], categories=levels, ordered=True)
    found = Numbers().fit_transform(pandas.DataFrame({"a": column}))
    np.testing.assert_array_equal(found[:, 0], np.arange(len(levels))[::-1])


def test_text_for_a_missing_number_is_missing_and_other_text_is_shown():
    new = np.array([["2.31", "1e3", "7"], ["nan", "", "<NA>"]], dtype=object)
    fitted = Numbers().fit(np.array([[1.0, 2.0, 3.0], [np.nan] * 3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(fitted.transform(new), [[2.31, 1e3, 7.0], [np.nan] * 3])
    new[0] = ["2,31", "1_000", datetime(2020, 1, 1)]
    names = [f"column {k} of the numbers" for k in range(3)]
    shown = r"{} \('2,31'\), {} \('1_000'\), {} \(datetime.*\), where fit".format(*names)
    with pytest.warns(UserWarning, match=shown):
        assert np.isnan(fitted.transform(new)).all()
    with pytest.raises(ValueError, match="infinity"):
        fitted.transform(np.array([["inf", "1", "1"]]))


def test_levels_of_most_rows_that_are_spelled_otherwise_are_reported():
    rows = np.column_stack([np.tile(["a", "b"], 20), np.repeat(["x", "y"], 20), ["one"] * 40])
    fitted = Levels().fit(rows)
    for values, n, is_reported in (
        (["B "], 1, True),
        (["B "] * 4, 9, False),
        (["B "] * 9, 9, True),
        (["B "] * 6, 11, True),
        # Others may well be new.
        (["0", "1"], 2, False),
        (["0"] * 9, 9, False),
    ):
        new = rows[:n].astype(object)
        new[: len(values), 0] = values
        new[:, 2] = "another"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.testing.assert_array_equal(fitted.transform(new), new)
        other, *caught = caught
        assert "all rows of fit had the same value in column 2" in str(other.message)
        assert len(caught) == is_reported
        old = "b" if values[0] == "B " else "a"
        shown = f"in column 0 of the categories ({values[0]!r}, where fit saw {old!r}):"
        assert all(shown in str(warning.message) for warning in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(rows[:0])
        # Where a tenth of the rows have a level of their own, so may new rows.
        several = np.r_[np.arange(4), np.repeat([5, 6], 18)].astype(str)[:, None]
        Levels().fit(several).transform([["7"], ["8"]])


def test_numbers_of_most_rows_beyond_all_of_fit_are_reported():
    rng = np.random.RandomState(0)
    X = np.column_stack([np.arange(100.0), np.repeat(np.arange(10.0), 10), rng.normal(size=100)])
    X[50:, 2] = np.nan
    fitted = Numbers().fit(X[:70])
    beyond = "most of these rows have values beyond those of all rows of fit in column 0 of the num"
    for first, last, is_reported in (
        (70, 90, True),
        # Too few rows, half of the rows, known numbers.
        (70, 89, False),
        (55, 85, False),
        (0, 70, False),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.testing.assert_array_equal(fitted.transform(X[first:last]), X[first:last])
        assert len(caught) == is_reported
        assert all(beyond in str(warning.message) for warning in caught)
    with pytest.warns(UserWarning, match=beyond):
        fitted.transform(-1.0 - X[:20])
    # Too few numbers in the rows of fit.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Numbers().fit(X[:29]).transform(X[30:50] * [1.0, 0.0, 1.0])


def test_numbers_that_were_missing_in_all_rows_of_fit_are_reported():
    fitted = Numbers().fit(np.column_stack([np.arange(5.0), np.full(5, np.nan)]))
    with pytest.warns(
        UserWarning, match="numbers were missing in all rows of fit in column 1 of the"
    ):
        fitted.transform(np.array([[1.0, np.nan], [1.0, 2.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.transform(np.array([[1.0, np.nan]]))


def test_numbers_are_checked():
    fitted = Numbers().fit(np.ones((2, 2)))
    with pytest.raises(ValueError, match="got infinity in column 1 of the numbers: replace"):
        fitted.transform(np.array([[1.0, -np.inf]]))
    with pytest.raises(ValueError, match="X has 1 features"):
        fitted.transform(np.ones((2, 1)))


def test_values_that_are_missing_only_in_new_rows_are_reported():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [np.nan, 1.0]})
    numbers = Numbers().fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbers.transform(frame)
    with pytest.warns(UserWarning, match="numbers are missing in column 'a', but in no row of fit"):
        numbers.transform(frame * np.nan)


def test_constant_columns_are_dropped_unless_all_are():
    X = np.array([[0.0, 2.0, 3.0], [0.0, 4.0, 3.0]])
    columns = VaryingColumns()
    np.testing.assert_array_equal(columns.fit_transform(X), X[:, [1]])
    assert list(columns.get_feature_names_out(["a", "b", "c"])) == ["b"]
    np.testing.assert_array_equal(columns.fit(X[:, [0, 2]]).transform(X[:, 1:]), X[:, [1]])


def test_columns_of_ones_stay():
    X = np.array([[0.0, 2.0, 1.0], [0.0, 4.0, 1.0]])
    np.testing.assert_array_equal(VaryingColumns().fit_transform(X), X[:, 1:])
