"""Checks of users' input that the estimators share, beyond scikit-learn's own."""

import numbers
from contextlib import contextmanager

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, validate_data

from sparsegpc._core.numerics.budget import refuse_beyond_memory
from sparsegpc._core.rows.sources import RowSource, gives_slices
from sparsegpc._estimators.input.remedies import with_remedy

# Larger weights are no counts that a float64 could tell apart; smaller ones underflow on the way.
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e15, 1e-100
# Larger values cannot be squared and added up.
LARGEST_VALUE = 1e150
# Smaller noise variances have inverses that cannot be calculated with.
SMALLEST_NOISE = 1e-100
# The square of the largest value.
LARGEST_NOISE = 1e300
# Types of objects that do not stand for missing values.
NEVER_MISSING = {bool, bytes, int, str}


# Where joblib puts the arrays that it hands to its processes.
JOBLIB_FOLDER = "joblib_memmapping_folder"


class Range(Interval):
    """An interval of numbers as a constraint of a parameter, of which True and False are none."""

    def is_satisfied_by(self, val):
        return not isinstance(val, (bool, np.bool_)) and super().is_satisfied_by(val)


@contextmanager
def all_or_nothing(estimator):
    """Put the estimator back to what it was if the block raises: nothing half-fitted stays.

    Random generators among its parameters, and those of its selector, are put back, too.
    """
    before = dict(vars(estimator))
    owners = (estimator, getattr(estimator, "selector", None))
    generators = [getattr(owner, "random_state", None) for owner in owners]
    drawn = [(rng, rng.get_state()) for rng in generators if isinstance(rng, np.random.RandomState)]
    try:
        yield
    except BaseException:
        # In one step, which a second interrupt cannot split.
        estimator.__dict__ = before
        for rng, state in drawn:
            rng.set_state(state)
        raise


def validated_rows(estimator, X, y="no_validation", *, reset=True, **checks):
    """Return what scikit-learn's `validate_data` does, with rows of float64 that may stay on disk.

    Parameters
    ----------
    estimator : BaseEstimator
    X : array-like of shape (n_samples, n_features)
        What `gives_slices` is not read at once, but by slices, to see that all values are finite.
    y : array-like
        Left out where there is none.
    reset : bool
        Whether the estimator learns the number and names of columns, or is held to them.
    **checks
        For `check_X_y`.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features) or RowSource
    y : ndarray
        Only if given.
    """
    if X is None:
        raise ValueError("X must be an array of shape (n_samples, n_features), got None: give rows")
    refuse_disguised(X, "X")
    with with_remedy("X"):
        if not gives_slices(X) or _was_in_memory(X):
            _refuse_large_copy(X)
            return validate_data(estimator, X, y, dtype=np.float64, reset=reset, **checks)
        source = RowSource(X)
        # It has the shape of the rows, and takes no memory.
        stand_in = np.broadcast_to(np.int8(0), source.shape)
        checked = validate_data(estimator, stand_in, y, dtype=None, reset=reset, **checks)
    _refuse_not_finite(source, estimator)
    return (source, checked[1]) if isinstance(checked, tuple) else source


def _refuse_large_copy(X):
    """Refuse an array that must be converted where that cannot fit the memory."""
    if isinstance(X, np.ndarray) and X.dtype != np.float64:
        refuse_beyond_memory(
            8 * X.size,
            f"X of the shape {X.shape} and dtype {X.dtype}, converted to float64,",
            lambda limit: "give it as a numpy.memmap, which is converted block by block",
        )


def refuse_disguised(values, name):
    """Raise ValueError for what numpy would take for numbers although it is something else."""
    refuse_masked(values, name)
    for column, dtype in _dtypes(values):
        temporal = getattr(dtype, "is_temporal", None)
        if getattr(dtype, "kind", None) in ("m", "M") if temporal is None else temporal():
            where = "" if column is None else f" in column {column!r}"
            raise ValueError(
                f"{name} must hold numbers, got dates or times, {dtype}{where}: subtract a start "
                "and divide by a unit, for example (t - t.min()) / np.timedelta64(1, 'D')"
            )


def refuse_masked(values, name):
    """Raise ValueError for masked values: scikit-learn would take what is behind the masks."""
    n_masked = np.ma.count_masked(values) if isinstance(values, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(
            f"{name} must hold no masked values, got {n_masked} of them: fill them, for example by "
            "its method filled, or leave these rows out"
        )


def _dtypes(values):
    """Return the name, None in an array, and the type of each column."""
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        return list(zip(values.columns, values.dtypes, strict=True))
    return [(None, getattr(values, "dtype", None))]


def checked_numbers(values, name, **checks):
    """Return numbers that a user gives as an array of floats, or raise an error with the name.

    Parameters
    ----------
    values : array-like
        A number is an array of shape ().
    name : str
    **checks
        For `check_array`.
    """
    if values is None:
        raise ValueError(f"{name} must hold numbers, got None: give a value for each row")
    refuse_disguised(values, name)
    checks = {"ensure_2d": False, "ensure_min_samples": 0, **checks}
    with with_remedy(name):
        one = not issparse(values) and np.asarray(values).ndim == 0
        if one and not checks["ensure_2d"]:
            return checked_numbers([values], name)[0]
        return check_array(values, dtype=np.float64, input_name=name, **checks)


def checked_targets(y):
    """Return targets as an array of floats, of one or two dimensions; None stays as it is."""
    if y is None:
        return None
    if issparse(y):
        raise TypeError("y must be dense, but sparse data was passed: use its method toarray()")
    refuse_missing(y, "y")
    y = checked_numbers(y, "y", allow_nd=True, ensure_min_features=0)
    if y.ndim not in (1, 2) or 0 in y.shape[1:]:
        raise ValueError(
            "y must have the shape (n_samples,), or (n_samples, n_outputs) of one output or more, "
            f"got {y.shape}: give one row of targets for each row of X"
        )
    return y


def refuse_missing(y, name):
    """Raise ValueError if objects among labels or targets stand for missing values."""
    array = np.atleast_1d(np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None))
    values, kind = array.ravel(), array.dtype.kind
    if kind in "mM":
        missing = np.flatnonzero(np.isnat(values))
    elif kind == "O" and not set(map(type, values)) <= NEVER_MISSING:
        missing = [k for k, v in enumerate(values) if _is_missing(v)]
    else:
        missing = []
    if len(missing):
        row = np.unravel_index(missing[0], array.shape)[0]
        raise ValueError(
            f"{name} must hold no missing values, got {values[missing[0]]!r} in row {row}: leave "
            "these rows out"
        )


def _is_missing(value):
    if type(value) is float:
        return value != value
    # Not by comparison: those of pandas are neither equal to themselves nor not.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and value != value


def checked_count(value, name):
    """Return a number of draws, or raise ValueError if it is none."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}: give 1 or more")
    return int(value)


def checked_generator(random_state):
    """Return the generator that `random_state` stands for, or raise ValueError."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be an integer from 0 to 2**32 - 1, a numpy.random.RandomState or "
            f"None, got {random_state!r}: give an integer for the same draws at every call"
        ) from error


def _was_in_memory(X):
    """Whether joblib made this memory map of an array, for a process to read."""
    return isinstance(X, np.memmap) and JOBLIB_FOLDER in str(X.filename)


def _refuse_not_finite(source, estimator):
    place = source.first_not_finite()
    if place is not None:
        row, column = place
        value = source[row : row + 1][0, column]
        what = "NaN" if np.isnan(value) else "infinity or a value too large for dtype('float64')"
        raise ValueError(
            f"Input X contains {what}, first in row {row}, {column_name(estimator, column)}: "
            f"{type(estimator).__name__} needs finite values; fill such values, or leave these "
            "rows out"
        )


def check_weights(sample_weight, n_samples, name="sample_weight"):
    """Return weights as floats of shape (n_samples,); None stands for ones, a number for itself.

    Raises ValueError if they are negative, all zero, too large, not finite, or not one per row.
    """
    if sample_weight is None:
        return np.ones(n_samples)
    weight = checked_numbers(sample_weight, name, copy=True)
    if weight.ndim == 0:
        weight = np.full(n_samples, weight)
    if weight.ndim != 1:
        raise ValueError(
            f"{name} must have one dimension, got an array of shape {weight.shape}: use its method "
            "ravel, or give one number for all rows"
        )
    if len(weight) != n_samples:
        raise ValueError(
            f"{name} must have one entry per row: got {len(weight)} for {n_samples}, so give the "
            "weights of these rows"
        )
    if (weight < 0).any():
        worst = int(weight.argmin())
        raise ValueError(
            f"{name} must be non-negative, got {weight[worst]} in row {worst}: to leave a row out "
            "give it a weight of zero"
        )
    refuse_extreme_weights(weight, name)
    if not weight.any():
        raise ValueError(
            f"{name} is zero for every row, so there is nothing to learn from: give at least one "
            "row a positive weight"
        )
    return weight


def refuse_extreme_weights(weight, name):
    """Raise ValueError for weights (n_samples,) that cannot be added up."""
    if weight.max() > LARGEST_WEIGHT:
        raise ValueError(
            f"{name} must be at most {LARGEST_WEIGHT:.0e}, got {weight.max():.3g}: divide all "
            "weights by a common factor"
        )
    if (weight[weight > 0] < SMALLEST_WEIGHT).any():
        raise ValueError(
            f"{name} must be zero or at least {SMALLEST_WEIGHT:.0e}, got "
            f"{weight[weight > 0].min():.3g}: multiply all weights by a common factor"
        )


def refuse_overflow(X, name, varies=True, what="the columns, for example with StandardScaler"):
    """Raise ValueError if a value of `X`, in the columns that vary, is too large to be squared.

    `what` says what to scale.
    """
    # Without a copy of the absolute values.
    ends = np.maximum(np.abs(X.min(axis=0)), np.abs(X.max(axis=0)))
    largest = float(ends.max(where=varies, initial=0.0))
    if largest > LARGEST_VALUE:
        raise ValueError(
            f"{name} holds a value of {largest:.3g}, whose square overflows: scale {what}"
        )


def column_name(estimator, column):
    """Return how the user knows a column: its name, or its number."""
    names = getattr(estimator, "feature_names_in_", None)
    return f"column {column}" if names is None else f"column {names[column]!r}"


def column_names(estimator):
    """Return a list of what the user knows the columns by: their names, or x0, x1, ..."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{k}" for k in range(estimator.n_features_in_)] if names is None else list(names)


def check_noise_variance(noise_variance, n_samples, n_outputs):
    """Return known noise variances as floats of shape (n_outputs, n_samples).

    Raises ValueError if they are not positive and finite, or neither one number, nor one for each
    row, nor one for each target.
    """
    variance = checked_numbers(noise_variance, "noise_variance", allow_nd=True)
    if variance.ndim == 0:
        variance = np.full(n_samples, variance)
    allowed = [(n_samples,), (n_samples, n_outputs)]
    if variance.shape not in allowed:
        raise ValueError(
            f"noise_variance must be a number or have the shape {allowed[0]} or {allowed[1]}, got "
            f"{variance.shape}: give the variances at these rows"
        )
    if (variance <= 0.0).any():
        row = int(variance.reshape(n_samples, -1).min(axis=1).argmin())
        raise ValueError(
            f"noise_variance must be positive, got {variance.min()} in row {row}: where targets "
            "are exact, give a variance that is small compared with that of the targets"
        )
    if variance.max() > LARGEST_NOISE:
        raise ValueError(
            f"noise_variance must be at most {LARGEST_NOISE:.0e}, got {variance.max():.3g}: scale "
            "the targets and their noise, or leave these rows out"
        )
    if variance.min() < SMALLEST_NOISE:
        raise ValueError(
            f"noise_variance must be at least {SMALLEST_NOISE:.0e}, got {variance.min():.3g}: "
            "scale the targets and their noise"
        )
    return np.broadcast_to(variance.reshape(n_samples, -1).T, (n_outputs, n_samples)).copy()
