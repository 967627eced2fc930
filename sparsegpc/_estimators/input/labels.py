"""Checks of class labels, and the weights of classes."""

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from sparsegpc._estimators.input.validation import refuse_extreme_weights, validated_rows


def validated_labels(estimator, X, y, *, reset=True):
    """Return what `validated_rows` returns, for class labels."""
    X, y = validated_rows(estimator, X, y, reset=reset)
    check_classification_targets(y)
    return X, y


def check_classes(classes):
    """Refuse labels that are all the same."""
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
            "these rows out, or begin again with all labels"
        )
    return np.searchsorted(classes, y)


def weigh_classes(class_weight, classes, codes, weight):
    """Return weights multiplied by those of the classes.

    "balanced" gives all classes the same total weight, and leaves the sum of all as it is.
    """
    if class_weight is None:
        return weight
    if class_weight == "balanced":
        totals = np.bincount(codes, weight, len(classes))
        # A class without rows has a total of zero, and no rows to weigh.
        factors = totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0.0, totals, 1.0))
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    weight = weight * factors[codes]
    refuse_extreme_weights(weight)
    return weight
