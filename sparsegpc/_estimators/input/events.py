"""Checks of whether targets were observed, or are only lower or upper limits."""

import numpy as np

from sparsegpc._estimators.input.validation import checked_numbers, refuse_masked


def check_events(event, n_samples, n_outputs):
    """Validate whether targets were observed, and return floats (n_outputs, n_samples).

    Raises ValueError unless events are 1, 0 or -1, or truth values, one per row or per target.
    """
    refuse_masked(event, "event")
    values = checked_numbers(event, "event")
    allowed = [(n_samples,), (n_samples, n_outputs)]
    if values.shape not in allowed:
        raise ValueError(
            f"event must have the shape {allowed[0]} or {allowed[1]}, got {values.shape}: give one "
            "number for each target"
        )
    refuse_other_events(values)
    return np.broadcast_to(values.reshape(n_samples, -1).T, (n_outputs, n_samples)).copy()


def refuse_other_events(event):
    """Raise ValueError unless events are 1, 0 or -1."""
    rows = np.argwhere(~np.isin(event, (-1.0, 0.0, 1.0)))
    if len(rows):
        raise ValueError(
            f"event must be 1, 0 or -1, or True or False, got {event[tuple(rows[0])]:.6g} in row "
            f"{rows[0, 0]}: give 1 if the target was observed, 0 if it is only a lower limit, -1 "
            "if it is only an upper limit"
        )


def refuse_no_event(event, of_output=""):
    """Raise ValueError if no event (N,) of rows of positive weight is 1.

    `of_output` names the output if there are several.
    """
    if not (event == 1.0).any():
        given = " or ".join(f"{value:g}" for value in np.unique(event))
        raise ValueError(
            f"event{of_output} must be 1 in some row of positive weight, got {given} in all of "
            "them: targets that are all censored do not tell how much they vary; give rows that "
            "were observed"
        )
