"""Checks of class labels, and class weights."""

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from sparsegpc._estimators.input.validation import refuse_extreme_weights, validated_rows


def validated_labels(estimator, X, y, *, reset=True):
    """Validate rows and class labels; return (X, y) as `validated_rows` does."""
    X, y = validated_rows(estimator, X, y, reset=reset)
    check_classification_targets(y)
    return X, y


def check_classes(classes):
    """Raise ValueError if there is only one class."""
    if len(classes) == 1:
        raise ValueError(
            f"y must hold two classes or more, among the rows of positive weight, got one class, "
            f"{classes[0]}: give rows of another class as well"
        )


def class_codes(y, classes):
    """Return the index in `classes` of each label, or raise ValueError for an unknown one."""
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y holds the label {unknown.tolist()[0]!r}, which is not in classes_ {classes}: leave "
            "these rows out, or fit again with all labels"
        )
    return np.searchsorted(classes, y)


def weigh_classes(class_weight, classes, codes, weight):
    """Return the weights of rows multiplied by those of their classes.

    "balanced" gives all classes the same total weight, and keeps the sum of all weights.
    """
    if class_weight is None:
        return weight
    if class_weight == "balanced":
        totals = np.bincount(codes, weight, len(classes))
        # Avoid a division by zero for a class without rows.
        factors = totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0.0, totals, 1.0))
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    weight = weight * factors[codes]
    refuse_extreme_weights(weight)
    return weight
