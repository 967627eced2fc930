"""Checks of users' input that the estimators share, beyond scikit-learn's own."""

import numbers
from contextlib import contextmanager

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from sparsegpc._core.numerics.budget import refuse_beyond_memory
from sparsegpc._core.rows.sources import RowSource, gives_slices

# Larger weights are no counts that a float64 could tell apart; smaller ones underflow on the way.
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e15, 1e-100
# Larger values cannot be squared and added up.
LARGEST_VALUE = 1e150
# Smaller noise variances have inverses that cannot be calculated with.
SMALLEST_NOISE = 1e-100


# Where joblib puts the arrays that it hands to its processes.
JOBLIB_FOLDER = "joblib_memmapping_folder"


@contextmanager
def all_or_nothing(estimator):
    """Put the estimator back to what it was if the block raises: nothing half-fitted stays."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
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
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n_samples, sample_weight)
    weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name=name, copy=True
    )
    if weight.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got an array of shape {weight.shape}")
    if len(weight) != n_samples:
        raise ValueError(f"{name} must have one entry per row: got {len(weight)} for {n_samples}")
    if (weight < 0).any():
        worst = int(weight.argmin())
        raise ValueError(f"{name} must be non-negative, got {weight[worst]} in row {worst}")
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
    if not weight.any():
        raise ValueError(
            f"{name} is zero for every row, so there is nothing to learn from: give at least one "
            "row a positive weight"
        )
    return weight


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


def check_noise_variance(noise_variance, n_samples, n_outputs):
    """Return known noise variances as floats of shape (n_outputs, n_samples).

    Raises ValueError if they are not positive and finite, or neither one number, nor one for each
    row, nor one for each target.
    """
    if isinstance(noise_variance, numbers.Real):
        noise_variance = np.full(n_samples, noise_variance)
    variance = check_array(
        noise_variance, ensure_2d=False, dtype=np.float64, input_name="noise_variance"
    )
    allowed = [(n_samples,), (n_samples, n_outputs)]
    if variance.shape not in allowed:
        raise ValueError(
            f"noise_variance must be a number or have the shape {allowed[0]} or {allowed[1]}, got "
            f"{variance.shape}"
        )
    if (variance <= 0.0).any():
        row = int(variance.reshape(n_samples, -1).min(axis=1).argmin())
        raise ValueError(
            f"noise_variance must be positive, got {variance.min()} in row {row}: where targets "
            "are exact, give a variance that is small compared with that of the targets"
        )
    if variance.min() < SMALLEST_NOISE:
        raise ValueError(
            f"noise_variance must be at least {SMALLEST_NOISE:.0e}, got {variance.min():.3g}: "
            "scale the targets and their noise"
        )
    return np.broadcast_to(variance.reshape(n_samples, -1).T, (n_outputs, n_samples)).copy()
