"""Checks of class labels, and factors of their probabilities."""

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from sparsegpc._core.likelihoods.ordinal import OrdinalLogit
from sparsegpc._estimators.input.validation import refuse_extreme_weights, validated_rows


def validated_labels(estimator, X, y, *, reset=True):
    """Validate rows and class labels; return (X, y) as `validated_rows` does."""
    refuse_other_order(getattr(estimator, "likelihood", None), y)
    X, y = validated_rows(estimator, X, y, reset=reset)
    check_classification_targets(y)
    return X, y


def refuse_other_order(likelihood, y, classes=None):
    """Raise ValueError if an ordinal likelihood would take the classes in another order than given.

    The order is that of `classes` or, if they are None, of the categories of y.
    """
    # In another order than the sorted one, scikit-learn's scorers would take a column of
    # probabilities for that of another class.
    if not is_ordinal(likelihood):
        return
    if classes is not None:
        name, levels, codes = "classes has", np.asarray(classes).tolist(), "0, 1, ... of the labels"
        order, missing = levels, ""
    else:
        levels = declared_order(y)
        if levels is None:
            return
        name, codes, missing = "y has ordered categories in", _codes_of(y), _describe_missing(y)
        order = [level for level in levels if (y == level).any()]
    if order != sorted(order):
        raise ValueError(
            f"{missing}{name} the order {order}, but classes are taken in sorted order, "
            f"{sorted(order)}, as scikit-learn's scorers assume: give the codes {codes} instead, "
            f"and turn predicted codes into labels by np.array({levels})[model.predict(X)]"
        )


def is_ordinal(likelihood):
    """Return whether the value of a parameter `likelihood` is that of ordered classes."""
    return likelihood == "ordinal-logit" or isinstance(likelihood, OrdinalLogit)


def declared_order(y):
    """Return the ordered categories that labels of pandas or polars declare, None for others."""
    dtype = getattr(y, "dtype", None)
    # Categories of pandas that are ordered, or of polars that always are.
    is_ordered = type(dtype).__name__ == "Enum" or getattr(dtype, "ordered", False)
    return list(dtype.categories) if is_ordered else None


def _codes_of(y):
    """Return the expression for the codes of ordered categories."""
    if type(y.dtype).__name__ == "Enum":
        return "y.to_physical()"
    # A series of pandas has an accessor; its arrays and indices of categories have the attribute.
    return "y.cat.codes" if hasattr(y, "cat") else "y.codes"


def _describe_missing(y):
    """Return what to do about missing labels of ordered categories, empty without any."""
    n_missing = int(y.null_count() if hasattr(y, "null_count") else y.isna().sum())
    if n_missing == 0:
        return ""
    return (
        f"y lacks {n_missing} of {len(y)} labels: leave these rows out first, as a code of -1 "
        "would be taken for the lowest class. Besides, "
    )


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


def class_factors(class_weight, classes, codes, weight):
    """Return the factors (C,) of the class probabilities that the parameter `class_weight` names.

    "balanced" divides the mean of the total weights of all classes by that of each class; every
    class must have rows.
    """
    if class_weight == "balanced":
        totals = np.bincount(codes, weight, len(classes))
        return totals.mean() / totals
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    refuse_extreme_weights(
        factors,
        "class_weight must hold positive factors",
        "give each class a positive factor (only ratios count); sample_weight=0 leaves rows out",
    )
    return factors
