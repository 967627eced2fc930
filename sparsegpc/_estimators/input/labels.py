"""Class labels, row by row, before the core sees them."""

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from sparsegpc._estimators.input.remedies import with_remedy
from sparsegpc._estimators.input.validation import (
    refuse_extreme_weights,
    refuse_masked,
    refuse_missing,
    validated_rows,
)


def validated_labels(estimator, X, y, *, reset=True, seen=False):
    """Return what `validated_rows` does, with labels that can be told apart and sorted.

    With `seen` the labels are to be compared with those of a fit, and may be of any kind.
    """
    if y is not None:
        refuse_unsorted(y, "y")
    X, y = validated_rows(estimator, X, y, reset=reset)
    if y.dtype.kind == "O" and not isinstance(y.flat[0], str):
        raise ValueError(
            f"Unknown label type: y holds objects, the first a {type(y.flat[0]).__name__}, which "
            "must be numbers, booleans or strings: convert them, for example by y.astype(str)"
        )
    if not seen:
        with with_remedy("y"):
            check_classification_targets(y)
    return X, y


def refuse_unsorted(labels, name):
    """Raise ValueError if labels are masked, missing, or of several types."""
    refuse_masked(labels, name)
    refuse_missing(labels, name)
    plain = isinstance(labels, (list, tuple))
    values = np.ravel(np.asarray(labels, dtype=object if plain else None))
    present = set(map(type, values)) if values.dtype.kind == "O" else set()
    # A quick answer for what is usual.
    if present <= {bool, int, float} or present <= {str}:
        return
    # Of numbers and strings together numpy makes strings, and of some objects nothing.
    kinds = {isinstance(value, (str, bytes)) for value in values}
    try:
        np.unique(values)
    except TypeError:
        kinds = {True, False}
    if len(kinds) > 1:
        types = sorted({kind.__name__ for kind in present})
        raise ValueError(
            f"{name} must hold labels of one type, which can be sorted, got {' and '.join(types)}: "
            f"convert them, for example by [str(label) for label in {name}]"
        )


def check_classes(classes):
    """Refuse labels that are all the same."""
    if len(classes) == 1:
        raise ValueError(
            f"y holds one class only, {classes[0]}, among the rows of positive weight, but a "
            "classifier needs two: give rows of the other class as well"
        )


def class_codes(y, classes):
    """Return the number of each label among `classes`, or raise ValueError for an unknown one."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y holds the label {unknown.tolist()[0]!r}, which is none of classes_ "
            f"{classes}: leave these rows out, or begin again with all labels"
        )
    return np.searchsorted(classes, y)


def weigh_classes(class_weight, classes, codes, weight):
    """Return weights multiplied by those of the classes.

    "balanced" makes all classes weigh the same in all, and leaves the total weight as it is.
    """
    if class_weight is None:
        return weight
    if isinstance(class_weight, str):
        totals = np.bincount(codes, weight, len(classes))
        # A class that is absent has no rows to weigh.
        factors = totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0.0, totals, 1.0))
    else:
        factors = _class_factors(class_weight, classes, codes)
        if not (np.isfinite(factors) & (factors > 0.0)).all():
            raise ValueError(
                f"class_weight must be positive and finite, got {class_weight}: to leave a class "
                "out, leave out its rows"
            )
    weight = weight * factors[codes]
    refuse_extreme_weights(weight, "class_weight times sample_weight")
    return weight


def _class_factors(class_weight, classes, codes):
    """Return the weight of each class that a dictionary gives, 1 where it gives none."""
    values = {}
    for label, value in class_weight.items():
        try:
            values[label] = float(value)
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                f"class_weight must give a positive number for each label, got {value!r} for "
                f"{label!r}: leave the label out to give its rows the weight 1"
            ) from error
    try:
        return compute_class_weight(values, classes=classes, y=classes[codes])
    except ValueError as error:
        raise ValueError(
            f"class_weight must have the labels of y as its keys, but {list(class_weight)} are not "
            f"all among {classes.tolist()}: {error}; leave labels out to give them the weight 1"
        ) from error
