"""Which columns of a table hold numbers or categories, and which vary; conversion of both."""

import numbers

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from sparsegpc._estimators.base_estimator import Estimator
from sparsegpc._estimators.input.validation import NUMBER_KINDS, column_name
from sparsegpc._estimators.messages.user_warnings import warn_user

# numpy's kinds of dtypes of strings.
TEXT_KINDS = "SU"
# decimal.Decimal is a Number, but no Real.
NUMBERS, TEXTS = (numbers.Number, np.bool_), (str, bytes)
# Levels of fewer rows share a column. Others need not: where rows say little about a level, the
# prior keeps its effect near that of others.
FEWEST_PER_LEVEL = 2
# A column is reported if more than this share of the rows have such levels.
MOST_RARE = 0.5


def number_columns(X):
    """Return the names of the numeric columns of a data frame, or their indices in an array."""
    return _columns(X)["numbers"]


def category_columns(X):
    """Return the names of the columns of categories of a data frame, or their indices."""
    return _columns(X)["categories"]


def _columns(X):
    """Return lists of columns by what they hold; raise ValueError if one holds anything else.

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
    return {
        wanted: [name for name, kind in kinds.items() if kind == wanted]
        for wanted in ("numbers", "categories")
    }


def kind_of_column(column):
    """Return what a column of a table holds, "numbers" or "categories", or None for another."""
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
    if dtype.kind in TEXT_KINDS or dtype.type is str or str(dtype) == "category":
        return "categories"
    # numpy's objects, and what pandas' own dtypes hold, such as periods.
    return "objects" if dtype.kind == "O" else None


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


class Levels(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Convert columns of categories to text, with None for every missing value."""

    def fit(self, X, y=None):
        """Warn of columns whose levels are mostly rare, as names and codes of rows are."""
        validate_data(self, X, skip_check_array=True)
        for k, column in enumerate(levels(X).T):
            _, counts = np.unique(column.astype(str), return_counts=True)
            share = np.count_nonzero(counts < FEWEST_PER_LEVEL) / len(column)
            if len(counts) > 1 and share > MOST_RARE:
                warn_user(
                    f"{share:.0%} of the rows have a value of {column_name(self, k)} that no other "
                    "row has, and these values are not told apart: if it is text that stands for "
                    "numbers or dates, convert it to numbers; otherwise merge its values into "
                    "groups, or drop it",
                    UserWarning,
                )
        return self

    def transform(self, X):
        """Return an array of text."""
        check_is_fitted(self)
        return levels(validate_data(self, X, skip_check_array=True, reset=False))


class Numbers(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Convert columns of numbers and booleans to floats, with nan for every missing value.

    Text counts as missing: new rows may have it where those of `fit` have numbers only.

    Attributes
    ----------
    has_missing_ : ndarray of bool of shape (n_features,)
        Which columns lack a value in a row of `fit`.
    """

    def fit(self, X, y=None):
        """Learn which columns have missing values."""
        self.has_missing_ = np.isnan(self._floats(X, reset=True)).any(axis=0)
        return self

    def transform(self, X):
        """Return the floats; warn of columns that lack values in these rows only."""
        check_is_fitted(self)
        values = self._floats(X, reset=False)
        new = np.flatnonzero(np.isnan(values).any(axis=0) & ~self.has_missing_)
        if len(new):
            names = ", ".join(column_name(self, column) for column in new[:3])
            warn_user(
                f"numbers are missing in {names}, but in no row of fit: the median takes their "
                "place, and predictions are as certain as if it had been observed; fill the values "
                "in, or fit to rows where some are missing",
                UserWarning,
            )
        return values

    def _floats(self, X, reset):
        X = validate_data(self, X, skip_check_array=True, reset=reset)
        dtypes = X.dtypes if hasattr(X, "columns") else [X.dtype]
        if any(_kind(dtype) != "numbers" for dtype in dtypes):
            X = np.vectorize(_as_float, otypes=[np.float64])(np.array(X, dtype=object))
        return check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")


def _as_float(value):
    """Return an object as a float, nan for one that is missing or not a number, such as text."""
    return float(value) if isinstance(value, NUMBERS) else np.nan


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
