"""Checks of rows, targets and weights that scikit-learn does not make."""

import numbers
from collections import Counter
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from sparsegpc._core.rows.merged_rows import merge_rows
from sparsegpc._core.rows.sources import RowSource, gives_slices, take_rows

# Products with smaller weights underflow; sums with larger weights lose the other rows.
WEIGHT_RANGE = (1e-100, 1e15)
# Sums over rows of the squares of larger values overflow.
LARGEST_VALUE = 1e150
# Products with the inverse of a smaller variance overflow; the largest is LARGEST_VALUE squared.
NOISE_RANGE = (1e-100, 1e300)
# numpy's kinds of dtypes: bool, integers and floats.
NUMBER_KINDS = "biuf"
# Objects that are times or durations; those of pandas are some of these.
MOMENTS, DURATIONS = (np.datetime64, date), (np.timedelta64, timedelta)


def validated_rows(estimator, X, y="no_validation", *, reset=True, **checks):
    """Validate rows and targets as scikit-learn's `validate_data` does; convert rows to float64.

    An X for which `gives_slices` is true becomes a `RowSource`, and is read by slices to check that
    all values are finite. Without `reset`, the rows are transformed as those of the fit were.
    `checks` are arguments of `check_X_y`.
    """
    checked, transform = _validated(estimator, X, y, reset, checks), estimator._transform
    if reset or transform is None:
        return checked
    if isinstance(checked, tuple):
        return transform(checked[0]), checked[1]
    return transform(checked)


def _validated(estimator, X, y, reset, checks):
    refuse_masked(X, "X")
    if not isinstance(y, str):
        refuse_masked(y, "y")
    # joblib makes memory maps to share arrays in memory between processes.
    is_shared = isinstance(X, np.memmap) and "joblib_memmapping_folder" in str(X.filename)
    if is_shared or not gives_slices(X):
        refuse_rows_of_times(X)
        try:
            return validate_data(estimator, X, y, dtype=np.float64, reset=reset, **checks)
        except OverflowError as error:
            _refuse_objects(X, "X", error)
            raise
        except (TypeError, ValueError) as error:
            refuse_columns(X, error)
            raise
    source = RowSource(X)
    # An array of the same shape that takes no memory.
    stand_in = np.broadcast_to(np.int8(0), source.shape)
    checked = validate_data(estimator, stand_in, y, dtype=None, reset=reset, **checks)
    place = source.first_not_finite()
    if place is not None:
        row, column = place
        raise ValueError(
            f"Input X contains NaN or infinity, first in row {row}, "
            f"{column_name(estimator, column)}: {type(estimator).__name__} needs finite values; "
            "replace them, or leave these rows out"
        )
    return (source, checked[1]) if isinstance(checked, tuple) else source


def refuse_columns(X, error):
    """Raise ValueError that names the first column of a data frame that cannot be used.

    Either another column has its name, or its values cannot become floats. scikit-learn's `error`
    does not name it.
    """
    refuse_repeated_names(X, error)
    for name, _ in _columns(X):
        try:
            check_array(X[[name]], dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0)
        except (TypeError, ValueError):
            raise ValueError(
                f"X must have columns of numbers, got {name!r} of {X[name].dtype}: convert this "
                "column to numbers, or use tabular_pipeline, which encodes categories"
            ) from error


def refuse_repeated_names(X, error=None):
    """Raise ValueError if columns of a data frame have the same name, because of the `error`."""
    for name, count in Counter(name for name, _ in _columns(X)).items():
        if count > 1:
            raise ValueError(
                f"X must have columns with different names, got {count} columns {name!r}: rename "
                "them, or give an array, X.to_numpy()"
            ) from error


def _columns(X):
    """Return the names and dtypes of the columns of a data frame, an empty list for anything else.

    Names may occur twice.
    """
    # The columns of a table of pyarrow are not names, and it has no dtypes.
    is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    return list(zip(X.columns, X.dtypes, strict=True)) if is_frame else []


def refuse_masked(values, name):
    """Raise ValueError for masked values, since numpy and scikit-learn ignore masks."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.count_masked(values):
        raise ValueError(
            f"{name} must hold no masked values, got {np.ma.count_masked(values)} of them: fill "
            "them, for example by its method filled, or leave these rows out"
        )


def checked_targets(y):
    """Validate targets, and return them as floats with one or two dimensions."""
    if y is None:
        raise ValueError("the method requires y to be passed, but the target y is None")
    return checked_numbers(y, "y")


def checked_numbers(values, name):
    """Validate numbers of rows, and return them as floats with one or two dimensions.

    Unlike scikit-learn's checks this refuses times, and names the argument if a value is not a
    number.
    """
    refuse_masked(values, name)
    try:
        given = np.asarray(values)
        # Lists are converted once.
        checked = check_array(
            given if isinstance(values, list | tuple) else values,
            dtype=np.float64,
            ensure_2d=False,
            ensure_all_finite=False,
            input_name=name,
        )
    except (OverflowError, TypeError, ValueError) as error:
        _refuse_objects(values, name, error)
        raise
    _refuse_times(given, name)
    assert_all_finite(checked, input_name=name)
    return checked


def refuse_rows_of_times(X):
    """Raise ValueError if the first row of `X` holds times or durations."""
    is_array = hasattr(X, "__array__")
    if is_array and hasattr(X, "head"):
        # Slices of data frames may be by label, and those of Dask have none.
        first = X.head(1)
    elif isinstance(X, list | tuple) or (is_array and len(getattr(X, "shape", ())) > 0):
        first = X[:1]
    else:
        return
    # Beside numbers, times may become floats as soon as a data frame becomes an array.
    for name, dtype in _columns(X):
        if getattr(dtype, "kind", "O") not in NUMBER_KINDS:
            _refuse_times(np.asarray(first[name]), "X", f" in column {name!r}")
    try:
        row = np.asarray(first)
    except ValueError:
        # Entries are arrays of different shapes, which scikit-learn's check refuses.
        return
    _refuse_times(row, "X")


def _refuse_times(values, name, place=""):
    """Raise ValueError for times and durations, whose unit as floats depends on how they came.

    `place` says where in the argument `name` the array `values` is.
    """
    kind, got = values.dtype.kind, values.dtype
    if kind == "O":
        for item in values.ravel():
            if isinstance(item, MOMENTS + DURATIONS):
                kind, got = "M" if isinstance(item, MOMENTS) else "m", repr(item)
                break
    if kind in "mM":
        days, start = (f"({name} - start)", " and a start") if kind == "M" else (name, "")
        raise ValueError(
            f"{name} must hold numbers, got {got}{place}: choose a unit{start}, the same for "
            f"training and new rows, for example days, {days} / numpy.timedelta64(1, 'D')"
        )


def _refuse_objects(values, name, error):
    """Raise ValueError that names the first value that is not a number.

    numpy's `error` does not say whose it is. If all are numbers, it has another cause.
    """
    items = np.asarray(values, dtype=object)
    for place, item in enumerate(items.ravel() if items.ndim else ()):
        if isinstance(item, complex):
            # The `error` says that complex numbers are not supported.
            return
        row = place // (items.size // len(items))
        try:
            float(item)
        except OverflowError:
            raise ValueError(
                f"{name} must hold numbers up to {LARGEST_VALUE:.0e}, got a larger "
                f"{type(item).__name__} in row {row}: choose a larger unit"
            ) from error
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must hold numbers, got {item!r} in row {row}: convert all values to "
                "numbers"
            ) from error


def validated_targets(estimator, X, y, *, multi_output=False, reset=True):
    """Validate rows and numerical targets; return (X, y) as `validated_rows` does."""
    options = {"multi_output": multi_output, "y_numeric": True}
    return validated_rows(estimator, X, checked_targets(y), reset=reset, **options)


def check_weights(sample_weight, n_samples):
    """Validate weights, and return them as floats of shape (n_samples,); None means ones.

    Raises ValueError if they are negative, all zero, outside `WEIGHT_RANGE` or not finite, or if
    their number is wrong.
    """
    refuse_masked(sample_weight, "sample_weight")
    if np.asarray(sample_weight).ndim > 0:
        sample_weight = checked_numbers(sample_weight, "sample_weight")
    rows = np.broadcast_to(0.0, n_samples)
    weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, copy=True)
    if weight.min() < 0.0:
        raise ValueError(
            f"sample_weight must not be negative, got {weight.min():.3g}: a weight of zero leaves "
            "a row out"
        )
    refuse_extreme_weights(
        weight[weight != 0.0],
        "sample_weight must be zero or",
        "multiply all weights by a common factor",
    )
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight


class PresentRows(NamedTuple):
    """Rows of positive weight; ``places`` holds their indices among all rows.

    Labels in ``y`` are indices of classes.
    """

    X: np.ndarray | RowSource
    y: np.ndarray
    weight: np.ndarray
    places: np.ndarray

    def without_copies(self):
        """Return the rows that differ, in X or y, with weights of at most one."""
        rows = merge_rows(self.X, self.weight, targets=self.y)
        parts = rows.X, self.y[rows.first], np.minimum(rows.weight, 1.0)
        return PresentRows(*parts, self.places[rows.first])


def present_rows(X, y, sample_weight):
    """Return the `PresentRows` of validated rows."""
    weight = check_weights(sample_weight, len(X))
    places = np.flatnonzero(weight)
    return PresentRows(take_rows(X, places), y[places], weight[places], places)


def refuse_extreme_weights(weight, rule, remedy):
    """Raise ValueError for weights (n,) outside `WEIGHT_RANGE`.

    The message begins with `rule` and ends with `remedy`.
    """
    smallest, largest = WEIGHT_RANGE
    extreme = ~((weight >= smallest) & (weight <= largest))
    if extreme.any():
        raise ValueError(
            f"{rule} from {smallest:.0e} to {largest:.0e}, got {weight[extreme][0]:.3g}: {remedy}"
        )


def central_levels(coverage):
    """Return the levels of the ends of a central interval with this probability, a pair of floats.

    Raises ValueError unless `coverage` is between 0 and 1.
    """
    if not isinstance(coverage, numbers.Real) or not 0.0 < coverage < 1.0:
        raise ValueError(
            f"coverage must be a number between 0 and 1, got {coverage!r}: for example 0.95"
        )
    tail = 0.5 * (1.0 - coverage)
    return tail, 1.0 - tail


def check_levels(q):
    """Return the levels of quantiles as an array with zero or one dimension.

    Raises ValueError unless `q` is a number between 0 and 1, or a list of such numbers.
    """
    levels = np.asarray(q)
    is_real = levels.dtype.kind in "iuf" and levels.size > 0
    if not is_real or levels.ndim > 1 or not ((levels > 0.0) & (levels < 1.0)).all():
        raise ValueError(
            "q must be a number between 0 and 1 or a list of such numbers, without the ends, got "
            f"{q!r}: for example 0.5 or [0.05, 0.95]"
        )
    return levels.astype(np.float64)


def checked_thresholds(thresholds, n_rows):
    """Return thresholds for each row as floats (n_rows, n_thresholds).

    Raises ValueError unless they are finite numbers of the shape (), (n_thresholds,) or
    (n_rows, n_thresholds).
    """
    shape = np.shape(thresholds)
    if len(shape) > 2 or 0 in shape or (len(shape) == 2 and shape[0] != n_rows):
        raise ValueError(
            "thresholds must be a number, a list of numbers, or an array with a row for each of "
            f"the {n_rows} rows of X, got the shape {shape}: give for example 0.5 or [0.5, 1.0]"
        )
    checked = np.atleast_2d(checked_numbers(np.atleast_1d(thresholds), "thresholds"))
    return np.broadcast_to(checked, (n_rows, checked.shape[1]))


def refuse_overflow(X, name, remedy="scale its columns, for example with StandardScaler"):
    """Raise ValueError if the square of a value overflows."""
    # This needs no copy of the absolute values.
    largest = float(max(np.abs(X.min(axis=0)).max(), np.abs(X.max(axis=0)).max()))
    if largest > LARGEST_VALUE:
        raise ValueError(f"{name} holds a value of {largest:.3g}, whose square overflows: {remedy}")


def check_noise_variance(noise_variance, n_samples, n_outputs):
    """Validate known noise variances, and return them as floats (n_outputs, n_samples).

    Raises ValueError if they are outside `NOISE_RANGE`, or are not one number, one per row or one
    per target.
    """
    variance = checked_numbers(np.atleast_1d(noise_variance), "noise_variance")
    if np.ndim(noise_variance) == 0:
        variance = np.full(n_samples, variance[0])
    allowed = [(n_samples,), (n_samples, n_outputs)]
    if variance.shape not in allowed:
        raise ValueError(
            f"noise_variance must be a number or have the shape {allowed[0]} or {allowed[1]}, got "
            f"{variance.shape}: give the variances at these rows"
        )
    smallest, largest = NOISE_RANGE
    if variance.min() < smallest or variance.max() > largest:
        raise ValueError(
            f"noise_variance must be from {smallest:.0e} to {largest:.0e}, got values from "
            f"{variance.min():.3g} to {variance.max():.3g}: where targets are exact, give a "
            "variance that is small compared with that of the targets"
        )
    return np.broadcast_to(variance.reshape(n_samples, -1).T, (n_outputs, n_samples)).copy()


def column_name(estimator, column):
    """Return "column" and the name of the column, or its number, for a message."""
    return f"column {getattr(estimator, 'feature_names_in_', range(column + 1))[column]!r}"


def column_names(estimator):
    """Return a list of the names of the columns, x0, x1, ... if they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{k}" for k in range(estimator.n_features_in_)] if names is None else list(names)
