"""Checks of the targets, exposures and events of a generalised regressor."""

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from sparsegpc._core.likelihoods.responses import observations
from sparsegpc._estimators.input.events import refuse_other_events
from sparsegpc._estimators.input.validation import (
    LARGEST_VALUE,
    WEIGHT_RANGE,
    checked_numbers,
    checked_targets,
    present_rows,
    refuse_masked,
    validated_targets,
)
from sparsegpc.likelihoods import resolve_response

# The arguments that a likelihood may take for each row, and those that do.
LIKELIHOODS_WITH = {
    "exposure": "'poisson', 'negative-binomial' and 'gamma'",
    "event": "'weibull' and 'log-normal'",
}


def validated_observations(estimator, X, y, sample_weight, exposure, event, *, reset):
    """Validate the input of a generalised regressor.

    Return its likelihood, and `PresentRows` whose y are `observations`. With `reset` the parameter
    `likelihood` decides on the likelihood, else it is the present one.
    """
    X, y = validated_targets(estimator, X, y, reset=reset)
    rows, likelihood = present_rows(X, y, sample_weight), estimator._likelihood
    if reset:
        likelihood = resolve_response(estimator.likelihood, rows.y, event)
        if estimator.likelihood == "auto" and event is None and exposure is not None:
            _refuse_exposure_of_others(likelihood, rows)
    is_present = np.isin(np.arange(len(y)), rows.places)
    y = checked_observations(likelihood, y, exposure, event, is_present)
    return likelihood, rows._replace(y=y[rows.places])


def checked_observations(likelihood, y, exposure, event, is_present=True):
    """Validate targets, exposures and events; return a structured array, see `observations`.

    Targets need not suit the likelihood in rows that are not present, of weight zero.
    """
    y = column_or_1d(checked_targets(y), warn=True)
    _refuse(
        ~likelihood.accepts(y) & is_present,
        y,
        f"y must hold {likelihood.rule}, for the likelihood {likelihood}",
        likelihood.remedy,
    )
    smallest = 1.0 / LARGEST_VALUE
    _refuse(
        ((y > LARGEST_VALUE) | ((y > 0.0) & (y < smallest))) & is_present,
        y,
        f"y must hold numbers from {smallest:.0e} to {LARGEST_VALUE:.0e}",
        "choose another unit",
    )
    exposure = checked_exposure(likelihood, exposure, len(y), is_present)
    return observations(y, exposure, _checked_event(likelihood, event, len(y)))


def checked_exposure(likelihood, exposure, n_samples, is_present=True):
    """Validate exposures, and return them as floats of shape (n_samples,); None means ones.

    They need not be positive in rows that are not present, of weight zero.
    """
    if exposure is None:
        return np.ones(n_samples)
    exposure = _checked_numbers(likelihood, "exposure", exposure, n_samples)
    smallest, largest = WEIGHT_RANGE
    _refuse(
        ((exposure < smallest) | (exposure > largest)) & is_present,
        exposure,
        f"exposure must be from {smallest:.0e} to {largest:.0e}",
        "give the time, the size or the number of claims to which each target refers, the "
        "exponential of an offset; leave out rows of zero",
    )
    return exposure


def _refuse_exposure_of_others(likelihood, rows):
    """Raise ValueError if a likelihood that was chosen by the targets is not one of counts."""
    if likelihood.is_discrete:
        return
    place = np.flatnonzero(rows.y != np.floor(rows.y))[0]
    raise ValueError(
        "exposure is for counts, but y holds numbers that are not whole, got "
        f"{rows.y[place]:.6g} in row {rows.places[place]}: give the counts themselves, not counts "
        "divided by the exposure; for totals of positive amounts, such as of several claims, set "
        "likelihood='gamma'; or leave exposure out"
    )


def _checked_event(likelihood, event, n_samples):
    if event is None:
        return np.ones(n_samples)
    event = _checked_numbers(likelihood, "event", event, n_samples)
    refuse_other_events(event)
    _refuse(
        (event < 0.0) & (not likelihood.takes_upper_limits),
        event,
        f"event must be 1 or 0, or True or False, for the likelihood {likelihood}",
        "set likelihood='log-normal', which also takes -1, for targets that are upper limits",
    )
    return event


def _checked_numbers(likelihood, name, values, n_samples):
    """Validate the argument `name`, one number or one for each row, and return floats (n,)."""
    if likelihood.row_argument != name:
        raise ValueError(
            f"{name} is not an argument of the likelihood {likelihood}: leave it out, or choose "
            f"one of {LIKELIHOODS_WITH[name]}"
        )
    refuse_masked(values, name)
    if np.ndim(values) == 0:
        values = np.full(n_samples, values)
    values = checked_numbers(values, name)
    if values.ndim != 1:
        raise ValueError(
            f"{name} must have the shape ({n_samples},), got {values.shape}: give one number for "
            "each row"
        )
    check_consistent_length(values, np.empty(n_samples))
    return values


def _refuse(is_refused, values, rule, remedy):
    """Raise ValueError, with this rule and remedy, if one of the values (n,) is refused."""
    rows = np.flatnonzero(is_refused)
    if len(rows):
        raise ValueError(f"{rule}, got {values[rows[0]]:.6g} in row {rows[0]}: {remedy}")
