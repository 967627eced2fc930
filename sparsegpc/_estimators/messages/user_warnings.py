"""How warnings reach users: they name the line of the user's code that called the package."""

import os
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import joblib
import sklearn

# Calls from within these folders are passed over. Pipelines call the fit of their steps by joblib.
LIBRARIES = tuple(
    f"{folder}{os.sep}"
    for folder in (
        Path(__file__).parents[2],
        Path(sklearn.__file__).parent,
        Path(joblib.__file__).parent,
    )
)


class FitWarning(NamedTuple):
    """A warning of a fit; those of several classes that have the same cause are merged.

    A cause of None means that the message is the cause.
    """

    category: type
    message: str
    cause: str | None = None


def warn_user(message, category=None):
    """Emit a warning, a text or a `Warning`, located at the nearest caller outside `LIBRARIES`."""
    frame, level = sys._getframe(1), 2
    while frame.f_code.co_filename.startswith(LIBRARIES) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def emit_warnings(found_warnings):
    """Emit each `FitWarning`, located at the user's call of the public method."""
    for category, message, _ in found_warnings:
        warn_user(message, category)


def merge_classes(labels, warnings_by_class):
    """Return a list with one `FitWarning` for each cause in the lists of all classes."""
    groups = {}
    for label, found in zip(labels, warnings_by_class, strict=True):
        for warning in found:
            key = warning.category, warning.cause or warning.message
            groups.setdefault(key, []).append((label, warning))
    merged = []
    for (label, first), *others in groups.values():
        text = f"class {label} against the rest: {first.message}"
        if others:
            text += f". The same holds for {len(others)} other classes"
        merged.append(first._replace(message=text))
    return merged
