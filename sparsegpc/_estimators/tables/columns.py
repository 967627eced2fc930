"""Which columns of a table hold numbers, and which hold categories."""

import numbers

import numpy as np

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

    Parameters
    ----------
    X : DataFrame of pandas or polars, or ndarray of shape (N, D)
    """
    if hasattr(X, "columns"):
        kinds = {name: _kind(X[name].dtype) for name in X.columns}
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
    return all(value is None or isinstance(value, numbers.Real) for value in column)


def with_missing_level(X):
    """Return a table of categories as an array of objects, with None for every missing value."""
    values = np.array(X, dtype=object)
    if hasattr(X, "isna"):
        # pandas' missing values are of many kinds, some of which cannot be compared.
        missing = X.isna().to_numpy()
    else:
        missing = np.array([[value is None or value != value for value in row] for row in values])
    values[missing.reshape(values.shape)] = None
    return values
