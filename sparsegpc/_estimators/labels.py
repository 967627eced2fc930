"""Class labels, row by row, before the core sees them."""

from typing import NamedTuple

import numpy as np
from sklearn.utils import compute_class_weight

from sparsegpc._core.rows.sources import RowSource, take_rows
from sparsegpc._estimators.validation import check_weights

NO_WHITE_NOISE = (
    "a classifier's labels are noisy through its likelihood, and noise on the latent function "
    "would only be lost between the inducing points"
)


class LabelledRows(NamedTuple):
    """Rows of positive weight, their labels and weights, and which of the user's rows they are."""

    X: np.ndarray | RowSource
    y: np.ndarray
    weight: np.ndarray
    present: np.ndarray


def present_rows(X, y, sample_weight):
    """Return the `LabelledRows` of positive weight."""
    weight = check_weights(sample_weight, len(X))
    present = np.flatnonzero(weight)
    return LabelledRows(take_rows(X, present), y[present], weight[present], present)


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
        factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
        if not (np.isfinite(factors) & (factors > 0.0)).all():
            raise ValueError(
                f"class_weight must be positive and finite, got {class_weight}: to leave a class "
                "out, leave out its rows"
            )
    return weight * factors[codes]
