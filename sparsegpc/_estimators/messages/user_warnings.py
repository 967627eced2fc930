"""Warnings that name the line of the user's code that called the package."""

import os
import sys
import warnings
from pathlib import Path

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


def warn_user(message, category=None):
    """Emit a warning, a text or a `Warning`, located at the nearest caller outside `LIBRARIES`."""
    frame, level = sys._getframe(1), 2
    while frame.f_code.co_filename.startswith(LIBRARIES) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
