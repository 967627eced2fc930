"""Rows of positive weight, before the core sees them."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.rows.sources import RowSource, take_rows
from sparsegpc._estimators.input.validation import check_weights


class PresentRows(NamedTuple):
    """Rows of positive weight, with their targets and weights.

    ``places`` says which of the user's rows they are. Labels are numbers of classes from 0 on.
    """

    X: np.ndarray | RowSource
    y: np.ndarray
    weight: np.ndarray
    places: np.ndarray


def present_rows(X, y, sample_weight):
    """Return the `PresentRows` of validated rows."""
    weight = check_weights(sample_weight, len(X))
    places = np.flatnonzero(weight)
    return PresentRows(take_rows(X, places), y[places], weight[places], places)
