"""Which columns of a table hold numbers or categories, and which vary; conversion of both."""

import numbers

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from sparsegpc._estimators.base_estimator import Estimator
from sparsegpc._estimators.input.validation import NUMBER_KINDS, column_name
from sparsegpc._estimators.messages.user_warnings import warn_user
from sparsegpc._estimators.tables.value_ranges import columns_beyond, value_ranges

# numpy's kinds of dtypes of strings.
TEXT_KINDS = "SU"
# decimal.Decimal is a Number, but no Real.
NUMBERS, TEXTS = (numbers.Number, np.bool_), (str, bytes)
# Levels of fewer rows share a column. Others need not: where rows say little about a level, the
# prior keeps its effect near that of others.
FEWEST_PER_LEVEL = 2
# A column is reported if more than this share of the rows have such levels.
MOST_RARE = 0.5
# New levels are to be expected if more than this share of the rows of a fit have a level of their
# own. Otherwise a column may be reported if all new rows have new levels, or more than half of at
# least ENOUGH_ROWS.
MOST_SINGLE, MOST_NEW, ENOUGH_ROWS = 0.05, 0.5, 10
# Text for a missing number, in lower case.
MISSING = ("", "nan", "na", "none", "<na>")
# What a warning says of columns that had one value in all rows of a fit and now have others.
OTHER_VALUES = (
    "all rows of fit had the same value in {}, and these rows have others: what they change is not "
    "known, so predictions ignore it, and are as certain as before"
)


def number_columns(X):
    """Return the columns of numbers or ordered categories, by name, or by index in an array."""
    return _columns(X, ("numbers", "ordered"))


def category_columns(X):
    """Return the names of the columns of categories of a data frame, or their indices."""
    return _columns(X, ("categories",))


def _columns(X, wanted):
    """Return the columns that hold what is wanted; raise ValueError if one has no known kind.

    X is a data frame of pandas or polars, or an array (N, D).
    """
    if hasattr(X, "columns"):
        columns = {name: X[name] for name in X.columns}
    else:
        columns = dict(enumerate(X.T))
    kinds = {name: kind_of_column(column) for name, column in columns.items()}
    other = [name for name, kind in kinds.items() if kind is None]
    if other:
        contents = ", ".join(f"{name!r} of {_contents(columns[name])}" for name in other[:3])
        raise ValueError(
            f"X must have columns of numbers, booleans or categories, got {contents}: convert "
            "dates to numbers, such as the year and the day of the year, convert other objects to "
            "text or the dtype category, or drop the columns"
        )
    return [name for name, kind in kinds.items() if kind in wanted]


def kind_of_column(column):
    """Return whether a column holds "numbers", "ordered" ones or other "categories", else None."""
    kind = _kind(column.dtype)
    return _kind_of_objects(_present(column)) if kind == "objects" else kind


def _kind(dtype):
    """Return what a dtype of numpy, pandas or polars stands for, "objects" if values decide."""
    if hasattr(dtype, "is_numeric"):
        # A dtype of polars.
        if dtype.is_numeric() or str(dtype) == "Boolean":
            return "numbers"
        if str(dtype) == "Object":
            return "objects"
        is_text = str(dtype).split("(")[0] in ("String", "Categorical", "Enum", "Null")
        return "categories" if is_text else None
    if dtype.kind in NUMBER_KINDS:
        return "numbers"
    if _is_ordered(dtype):
        return "ordered"
    if dtype.kind in TEXT_KINDS or dtype.type is str or str(dtype) == "category":
        return "categories"
    # numpy's objects, and what pandas' own dtypes hold, such as periods.
    return "objects" if dtype.kind == "O" else None


def _is_ordered(dtype):
    """Return whether a dtype is that of ordered categories of pandas.

    Categories of an ``Enum`` of polars always have an order, whether it means anything or not.
    """
    return str(dtype) == "category" and dtype.ordered


def _kind_of_objects(values):
    """Return what objects are: numbers if all are, categories if they are numbers and text."""
    if not all(isinstance(value, NUMBERS + TEXTS) for value in values):
        return None
    # A column without any value might hold text in other rows.
    are_numbers = len(values) and all(isinstance(value, NUMBERS) for value in values)
    return "numbers" if are_numbers else "categories"


def _present(column):
    """Return the values of a column of objects that are not missing; nan may be among them."""
    # pandas' missing values are of many kinds.
    if hasattr(column, "notna"):
        return column[column.notna()]
    return [value for value in column if value is not None]


def _contents(column):
    """Return the dtype of a column and, of objects, the type of the first that does not suit."""
    if _kind(column.dtype) != "objects":
        return str(column.dtype)
    odd = next(value for value in _present(column) if not isinstance(value, NUMBERS + TEXTS))
    return f"{column.dtype} with a {type(odd).__name__}"


def _are_missing(X):
    """Return which values of a table or a column are missing."""
    if hasattr(X, "isna"):
        # pandas' missing values are of many kinds, some of which cannot be compared.
        return X.isna().to_numpy()
    values = np.array(X, dtype=object)
    missing = [value is None or value != value for value in values.ravel()]
    return np.array(missing, dtype=bool).reshape(values.shape)


def levels(X):
    """Return a table of categories as an array of strings, with None for every missing value."""
    values = np.array(X, dtype=object)
    missing = _are_missing(X)
    values[missing] = None
    values[~missing] = [_level(value) for value in values[~missing]]
    return values


def _level(value):
    """Return the text of a level. Integers become floats where others of a column are missing."""
    is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value) if is_whole else value)


def _name_of(transformer, column):
    """Return "column" and its name for a message, or its number among the columns of its kind."""
    name = column_name(transformer, column)
    has_names = hasattr(transformer, "feature_names_in_")
    return name if has_names else f"{name} of the {transformer.kind}"


def _names_of(transformer, columns):
    """Return the names of the first few of some columns for a message."""
    return ", ".join(_name_of(transformer, k) for k in columns[:3])


def _warn_of_columns(transformer, columns, message):
    """Warn of columns, by number, if there are any; `message` has a place for their names."""
    if len(columns):
        warn_user(message.format(_names_of(transformer, columns)), UserWarning)


class Levels(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Convert columns of categories to text, with None for every missing value.

    Attributes
    ----------
    levels_ : list of set
        The levels of each column in the rows of `fit`; empty if a column has one only, or if new
        levels are to be expected.
    single_ : list of set
        The level of each column that has one only in the rows of `fit`, else an empty set.
    """

    kind = "categories"

    def fit(self, X, y=None):
        """Warn of columns whose levels are mostly rare, as names and codes of rows are."""
        validate_data(self, X, skip_check_array=True)
        self.levels_, self.single_ = [], []
        for k, column in enumerate(levels(X).T):
            _, counts = np.unique(column.astype(str), return_counts=True)
            share = np.count_nonzero(counts < FEWEST_PER_LEVEL) / len(column)
            is_complete = len(counts) > 1 and share <= MOST_SINGLE
            self.levels_.append(set(column) if is_complete else set())
            self.single_.append(set(column) - {None} if len(counts) == 1 else set())
            if len(counts) > 1 and share > MOST_RARE:
                warn_user(
                    f"{share:.0%} of the rows have a value of {_name_of(self, k)} that no other "
                    "row has, and these values are not told apart: if it is text that stands for "
                    "numbers or dates, convert it to numbers; otherwise merge its values into "
                    "groups, or drop it",
                    UserWarning,
                )
        return self

    def transform(self, X):
        """Return an array of text; warn of columns that seem to be spelled otherwise."""
        check_is_fitted(self)
        X = levels(validate_data(self, X, skip_check_array=True, reset=False))
        pairs = enumerate(zip(X.T, self.single_, strict=True))
        others = [k for k, (column, known) in pairs if known and set(column) - known - {None}]
        _warn_of_columns(self, others, OTHER_VALUES)
        found = []
        for k, (column, known) in enumerate(zip(X.T, self.levels_, strict=True)):
            if pair := _spelled_otherwise(column, known):
                found.append("{} ({!r}, where fit saw {!r})".format(_name_of(self, k), *pair))
        if found:
            warn_user(
                f"most of these rows have values that no row of fit had in {', '.join(found[:3])}: "
                "they count as a new level; if it was spelled otherwise in fit (spaces, capitals, "
                "numbers for booleans), spell it as there",
                UserWarning,
            )
        return X


def _spelled_otherwise(column, known):
    """Return a new and a known level if levels of a column seem to be spelled otherwise, else None.

    This is so if all rows have new levels, or more than half of many, and one of these reads like a
    known one. Others may well be new shops.
    """
    new = [level for level in column if level not in known] if known else []
    most = MOST_NEW * len(column) if len(column) >= ENOUGH_ROWS else len(column) - 1
    if not new or len(new) <= most:
        return None
    like = {_plain(level): level for level in known}
    alike = ((level, like[_plain(level)]) for level in new if _plain(level) in like)
    return next(alike, None)


def _plain(level):
    """Return the text of a level without spaces and capitals, and truth values as numbers."""
    text = str(level).strip().lower()
    return {"true": "1", "false": "0"}.get(text, text)


class Numbers(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Convert numbers, booleans and ordered categories to floats, with nan for missing values.

    The number of an ordered category is its position, counted from 0, among those of its dtype. New
    rows may have text where those of `fit` have numbers only. It is read as a number. Text that is
    not a number, or not one of the ordered categories, counts as missing.

    Attributes
    ----------
    positions_ : list of dict or None
        The position of each level, as text, of the columns of ordered categories; None for others.
    has_missing_ : ndarray of bool of shape (n_features,)
        Which columns lack a value in a row of `fit`.
    is_empty_ : ndarray of bool of shape (n_features,)
        Which columns have no value in the rows of `fit`.
    single_ : ndarray of shape (n_features,)
        The value of each column that has one only in the rows of `fit`, nan for others.
    ranges_ : ndarray of shape (2, n_features)
        The smallest and the largest value of each column in the rows of `fit`, nan for columns with
        few different values.
    """

    kind = "numbers"

    def fit(self, X, y=None):
        """Learn orders, which columns have missing values or a single value, and ranges."""
        columns = [X[name] for name in X.columns] if hasattr(X, "columns") else []
        found = [_positions(column.dtype) for column in columns]
        self.positions_ = found or [None] * X.shape[1]
        values = self._floats(X, reset=True)
        is_missing = np.isnan(values)
        self.has_missing_, self.is_empty_ = is_missing.any(axis=0), is_missing.all(axis=0)
        # A missing value differs from all, itself included.
        is_single = (values == values[:1]).all(axis=0)
        self.single_ = np.where(is_single, values[0], np.nan)
        self.ranges_ = value_ranges(values)
        return self

    def transform(self, X):
        """Return the floats; warn of text, and of columns unlike those of `fit`."""
        check_is_fitted(self)
        values = self._floats(X, reset=False)
        is_missing = np.isnan(values)
        is_other = ~is_missing & ~np.isclose(values, self.single_, rtol=1e-9, atol=0.0)
        is_other &= ~np.isnan(self.single_)
        is_filled = self.is_empty_ & ~is_missing.all(axis=0)
        _warn_of_columns(self, np.flatnonzero(is_other.any(axis=0)), OTHER_VALUES)
        _warn_of_columns(
            self,
            np.flatnonzero(is_filled),
            "numbers were missing in all rows of fit in {}, and these rows have some: predictions "
            "ignore them, and are as certain as before",
        )
        _warn_of_columns(
            self,
            columns_beyond(values, self.ranges_),
            "most of these rows have values beyond those of all rows of fit in {}, where the model "
            "knows little: if a column only numbers the rows, drop it and fit again",
        )
        odd = self._no_numbers(X, is_missing)
        if odd:
            examples = ", ".join(
                f"{_name_of(self, column)} ({value!r})" for column, value in [*odd.items()][:3]
            )
            is_ordered = any(self.positions_[column] is not None for column in odd)
            also = ", or spell them like the ordered categories of fit" if is_ordered else ""
            warn_user(
                f"values that are no numbers count as missing in {examples}, where fit had "
                f"numbers: convert them to numbers{also}",
                UserWarning,
            )
        is_new = is_missing.any(axis=0) & ~self.has_missing_
        new = [column for column in np.flatnonzero(is_new) if column not in odd]
        _warn_of_columns(
            self,
            new,
            "numbers are missing in {}, but in no row of fit: the median takes their place, and "
            "predictions are as certain as if it had been observed; fill the values in, or fit to "
            "rows where some are missing",
        )
        return values

    def _floats(self, X, reset):
        X = validate_data(self, X, skip_check_array=True, reset=reset)
        if not self._are_numbers(X):
            X = np.array(X, dtype=object)
            for k in self._ordered_columns():
                X[:, k] = [self.positions_[k].get(_level(value)) for value in X[:, k]]
            X = np.vectorize(_as_float, otypes=[np.float64])(X)
        values = check_array(X, dtype=np.float64, ensure_all_finite=False, input_name="X")
        infinite = np.flatnonzero(np.isinf(values).any(axis=0))
        if len(infinite):
            raise ValueError(
                "X must hold finite or missing numbers, got infinity in "
                f"{_names_of(self, infinite)}: replace it by nan if the number is not known, as "
                "after a division by zero, else by a limit"
            )
        return values

    def _ordered_columns(self):
        """Return the numbers of the columns of ordered categories."""
        return [k for k, positions in enumerate(self.positions_) if positions is not None]

    def _are_numbers(self, X):
        """Return whether all columns of a table have dtypes of numbers, and none is ordered."""
        dtypes = X.dtypes if hasattr(X, "columns") else [X.dtype]
        are_numbers = all(_kind(dtype) == "numbers" for dtype in dtypes)
        return are_numbers and not self._ordered_columns()

    def _no_numbers(self, X, is_nan):
        """Return a dict of the columns with values that are no numbers, and the first such value.

        `is_nan` (N, D) tells which values of a table did not become numbers.
        """
        if self._are_numbers(X) or not is_nan.any():
            return {}
        odd, values = is_nan & ~_are_missing(X), np.array(X, dtype=object)
        for place in np.argwhere(odd):
            odd[tuple(place)] = _plain(values[tuple(place)]) not in MISSING
        return {int(k): values[odd[:, k], k][0] for k in np.flatnonzero(odd.any(axis=0))}


def _positions(dtype):
    """Return a dict of the positions of ordered categories, as text, or None for other dtypes."""
    if not hasattr(dtype, "ordered") or not _is_ordered(dtype):
        return None
    return {_level(level): place for place, level in enumerate(dtype.categories)}


def _as_float(value):
    """Return an object as a float, nan for one that is missing or neither a number nor its text."""
    if isinstance(value, NUMBERS):
        return float(value)
    try:
        # Python reads 1_000 as a number.
        return float(value) if isinstance(value, TEXTS) and "_" not in str(value) else np.nan
    except ValueError:
        return np.nan


class VaryingColumns(SelectorMixin, Estimator):
    """Drop columns that are constant in the rows of `fit`, except those of ones.

    Columns of ones are `Indicators`, which can be zero in new rows; a constant number is zero, as
    it has been standardised. If nothing remains, the first column stays: models need a column, and
    say themselves that it is constant.

    Attributes
    ----------
    varies_ : ndarray of bool of shape (n_features,)
        Which columns vary, or could vary in new rows.
    """

    def fit(self, X, y=None):
        """Learn which columns to keep."""
        X = validate_data(self, X, dtype=np.float64)
        smallest, largest = X.min(axis=0), X.max(axis=0)
        self.varies_ = (smallest < largest) | (smallest == 1.0)
        return self

    def _get_support_mask(self):
        check_is_fitted(self)
        return self.varies_ if self.varies_.any() else np.arange(len(self.varies_)) == 0
