"""Which columns of a table hold numbers, and which hold categories; conversion of both."""

import numbers

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsegpc._estimators.base_estimator import Estimator
from sparsegpc._estimators.input.validation import column_name
from sparsegpc._estimators.messages.user_warnings import warn_user

# numpy's kinds of dtypes: bool, integers and floats; strings and objects.
NUMBER_KINDS, CATEGORY_KINDS = "biuf", "OSU"


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
        kinds = {name: _kind_of_column(X[name]) for name in X.columns}
    elif X.dtype == object:
        kinds = {k: "numbers" if _are_numbers(X[:, k]) else "categories" for k in range(X.shape[1])}
    else:
        kinds = dict.fromkeys(range(X.shape[1]), _kind(X.dtype))
    other = [name for name, kind in kinds.items() if kind is None]
    if other:
        dtypes = ", ".join(f"{name!r} of {X[name].dtype}" for name in other[:3])
        raise ValueError(
            f"X must have columns of numbers, booleans or categories, got {dtypes}: convert dates "
            "to numbers, such as the year and the day of the year, or drop the columns"
        )
    return {
        wanted: [name for name, kind in kinds.items() if kind == wanted]
        for wanted in ("numbers", "categories")
    }


def _kind_of_column(column):
    """Return what a column of a frame holds, or None; objects that are all numbers are numbers."""
    # A column without any value might hold text in other rows.
    if _is_object(column.dtype) and column.notna().any():
        values = column[column.notna()]
        return "numbers" if _are_numbers(values) else "categories"
    return _kind(column.dtype)


def _is_object(dtype):
    """Return whether a dtype is numpy's for objects; pandas' own dtypes have that kind, too."""
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _kind(dtype):
    """Return what a column of this dtype of numpy, pandas or polars holds, or None."""
    if hasattr(dtype, "is_numeric"):
        # A dtype of polars.
        if dtype.is_numeric() or str(dtype) == "Boolean":
            return "numbers"
        is_text = str(dtype).split("(")[0] in ("String", "Categorical", "Enum", "Object", "Null")
        return "categories" if is_text else None
    # pandas' own dtypes of strings and categories have the kind of objects.
    if dtype.kind in NUMBER_KINDS:
        return "numbers"
    return "categories" if dtype.kind in CATEGORY_KINDS else None


def _are_numbers(column):
    """Return whether an array of objects holds numbers only, with None or nan where missing."""
    # decimal.Decimal is a Number, but no Real.
    return all(value is None or isinstance(value, numbers.Number) for value in column)


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


def _as_float(value):
    """Return an object as a float, nan for one that is missing or not a number, such as text."""
    return float(value) if isinstance(value, numbers.Number) else np.nan


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
        objects = [k for k, dtype in enumerate(getattr(X, "dtypes", [])) if _is_object(dtype)]
        if objects:
            X = X.copy()
            for k in objects:
                X.isetitem(k, [_as_float(value) for value in X.iloc[:, k]])
        elif _is_object(getattr(X, "dtype", None)):
            X = np.vectorize(_as_float, otypes=[np.float64])(X)
        return validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)
