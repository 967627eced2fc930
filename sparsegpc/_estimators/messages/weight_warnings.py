"""Warnings about weights and copies of rows, which count as evidence."""

import numpy as np

from sparsegpc._core.rows.merged_rows import merge_with_targets
from sparsegpc._core.rows.sources import RowSource
from sparsegpc._estimators.messages.user_warnings import FitWarning

# If the sum of the weights, relative to the effective number of rows, is between these numbers,
# what is learned differs little from what is learned if both are equal.
TOO_LIGHT, TOO_HEAVY = 0.5, 1.5
# Weights that are the same within each class, of at least SEVERAL rows, are no counts if those of
# two classes have at least the ratio UNEQUAL.
SEVERAL, UNEQUAL = 3, 1.1
# Rows look like copies of records if more than the fraction COPIED of them, and FEWEST_COPIES,
# repeat others, and places that occur several times have less than the share DISAGREEING of the
# different targets that they would have by chance, which must be FEWEST_DIFFERENT or more.
COPIED, FEWEST_COPIES, DISAGREEING, FEWEST_DIFFERENT = 0.1, 10, 0.1, 5.0
# Few values may determine the targets. So a column must take different values at the fraction
# VARIED of the places, and FEWEST_VALUES, as runs of an experiment with few levels repeat others.
# The places of weighted rows seldom have more of them in common than SOMEWHAT_VARIED.
VARIED, SOMEWHAT_VARIED, FEWEST_VALUES = 0.5, 0.25, 10
# Of records that are not counted, more have other targets at their place.
DISAGREEING_ROWS = 0.5


def weight_warnings(sample_weight, rows=None, labels=None, scaled="them"):
    """Return a list with a `FitWarning` if validated weights do not look like counts, else empty.

    The sum of the weights acts as the number of rows. If it is far too large, the fit follows the
    noise; if it is far too small, the learned function is constant. `rows` are X (N, D), y (N,) or
    (N, n_outputs), or records, and the weights (N,) of the rows of positive weight, merged or not;
    without them whole numbers are taken for counts. `labels` are those of a classifier, one for
    each of `sample_weight`, which may balance the classes. `scaled` names the weights that the
    remedy multiplies.
    """
    weight = np.ravel(np.asarray(1.0 if sample_weight is None else sample_weight, dtype=np.float64))
    labels = np.asarray(labels).ravel()
    if labels.size == len(weight) > 1:
        text = _describe_balancing(labels[weight > 0.0], weight[weight > 0.0])
        if text:
            return [FitWarning(UserWarning, text)]
    weight = weight[weight > 0.0]
    ratio = float(weight.sum()) / effective_rows(weight)
    if TOO_LIGHT <= ratio <= TOO_HEAVY:
        return []
    if not (weight == np.round(weight)).all():
        text = (
            "a weight counts copies of its row, but sample_weight holds numbers that are not "
            f"whole. They add up to {ratio:.3g} times the effective number of rows: if they are "
            f"not counts, multiply {scaled} by {1.0 / ratio:.3g}"
        )
        return [FitWarning(UserWarning, text)]
    if rows is None or not _are_weights_of_records(*rows, len(weight)):
        return []
    text = (
        "a weight of k counts as k records with equal targets, but records that are counted hardly "
        "ever agree so much. The weights add up to "
        f"{ratio:.3g} times the effective number of rows: if they are not counts, as in surveys, "
        f"multiply {scaled} by {1.0 / ratio:.3g}; otherwise probabilities and error bars are far "
        "too certain"
    )
    return [FitWarning(UserWarning, text)]


def copied_records_warnings(X, y):
    """Return a list with a `FitWarning` if many of the user's rows look like copies of others.

    Different records can agree in labels and counts, too, so a fit counts all rows. X is (N, D),
    and y holds numbers (N,) or records. Equal targets of regressors: see `copy_warnings`.
    """
    places = _Places.of(X, y, np.ones(len(X)))
    if places is None or not places.has_varied_column():
        return []
    if not places.share_of_different() < DISAGREEING:
        return []
    text = (
        f"{places.n_copies:.0f} of {len(X)} rows repeat others, targets included, and each of them "
        "counts as new evidence. If they are copies of records, as from upsampling, drop them "
        "before fitting: otherwise probabilities and error bars are too certain"
    )
    return [FitWarning(UserWarning, text)]


def copy_warnings(n_copies):
    """Return a list with a `FitWarning` that copies were left out, empty if there were none."""
    if n_copies == 0.0:
        return []
    text = (
        f"{n_copies:g} rows, counted by their weights, repeat others, targets included, and with "
        "them the targets look free of noise, so each row was counted at most once. Drop copies of "
        "records before fitting (a weight of k stands for k copies, too); if the targets are "
        "exact, give them a fixed small noise"
    )
    return [FitWarning(UserWarning, text)]


def effective_rows(weight):
    """Return the effective number of rows of positive weights (Kish, "Survey sampling", 1965)."""
    share = weight / weight.max()
    return float(share.sum() ** 2 / (share @ share))


def _describe_balancing(labels, weight):
    """Describe weights (N,) that depend on the class only, or return an empty string."""
    if weight.max() < UNEQUAL * weight.min():
        return ""
    classes, firsts, codes, counts = np.unique(
        labels, return_index=True, return_inverse=True, return_counts=True
    )
    of_class = weight[firsts]
    first, last = np.sort([of_class.argmin(), of_class.argmax()])
    is_unequal = of_class.max() >= UNEQUAL * of_class.min()
    if not is_unequal or counts.min() < SEVERAL or (weight != of_class[codes]).any():
        return ""
    return (
        "a weight counts copies of its row, as evidence, but sample_weight depends on the class "
        f"only ({of_class[first]:.3g} in class {classes[first]}, {of_class[last]:.3g} in class "
        f"{classes[last]}), so probabilities and their intervals will be wrong: to balance "
        "classes, leave it out and set class_weight, which multiplies predicted probabilities and "
        "learns from the rows as they are; if they are counts, there is nothing to do"
    )


def _are_weights_of_records(X, y, weight, n_rows):
    """Return whether each of `n_rows` weighted rows looks like one record, not like several.

    A table of counts has each target that occurs at a place, once. Records with weights lack most
    targets that so many records would have, unless they share their places; then some of them
    agree, which rows of a table of counts do not.
    """
    places = _Places.of(X, y, weight)
    if places is None:
        return False
    share = places.share_of_different()
    repeats = n_rows - len(places.X)
    if repeats > FEWEST_COPIES or places.has_varied_targets():
        return share < DISAGREEING_ROWS
    return places.has_varied_column(SOMEWHAT_VARIED) and share < DISAGREEING


class _Places:
    """Rows that agree in X, which is a place, and what targets they have.

    ``X`` (n, D) are the rows that differ in X or y; ``n_copies`` is the number of other rows.
    """

    @classmethod
    def of(cls, X, y, counts):
        """Return the places of rows, each of which counts so often, or None for too few copies."""
        if isinstance(X, RowSource):
            return None
        places = cls(*merge_with_targets(X, y, counts))
        too_few = max(COPIED * counts.sum(), FEWEST_COPIES)
        return None if places.n_copies <= too_few else places

    def __init__(self, X, y, counts):
        self.X, self.n_copies = X, counts.sum() - len(X)
        # Rows are sorted, so the different targets of a place follow each other.
        is_new = np.append(True, (X[1:] != X[:-1]).any(axis=1))
        place = np.cumsum(is_new) - 1
        # How many records and how many different targets each place has.
        self._n_records, self._n_targets = np.bincount(place, counts), np.bincount(place)
        # Records have no axes but that of the rows.
        _, codes = np.unique(y, axis=0 if y.ndim > 1 else None, return_inverse=True)
        self._target_counts = np.bincount(codes.ravel(), counts)

    def has_varied_column(self, share=VARIED):
        """Return whether a column takes different values at this share of the places."""
        least = max(share * len(self._n_records), FEWEST_VALUES)
        return any(len(np.unique(x)) >= least for x in self.X.T)

    def has_varied_targets(self):
        """Return whether the targets of most rows differ."""
        return len(self._target_counts) >= max(VARIED * len(self.X), FEWEST_VALUES)

    def share_of_different(self):
        """Return how many different targets a place has beyond one, divided by those by chance.

        By chance targets are drawn with the frequencies of all; infinite if they then hardly
        differ.
        """
        sizes, n_places = np.unique(self._n_records, return_counts=True)
        counts, n_targets = np.unique(self._target_counts, return_counts=True)
        rare = 1.0 - counts / (counts @ n_targets)
        by_chance = sum(
            n * ((1.0 - rare**size) @ n_targets - 1.0)
            for size, n in zip(sizes, n_places, strict=True)
        )
        if by_chance < FEWEST_DIFFERENT:
            return np.inf
        return float((self._n_targets - 1).sum() / by_chance)
