"""What to do about input that numpy and scikit-learn refuse, beside what they say of it."""

import re
from contextlib import contextmanager

# A part of what they say, and what to do about it; the first that fits holds.
REMEDIES = (
    ("could not convert string", "{} must hold numbers: encode text, for example by OneHotEncoder"),
    ("Complex data", "{} must hold real numbers: give real and imaginary parts as columns"),
    ("too large to convert", "{} must hold numbers of up to 1e150: scale them"),
    ("Cannot cast", "{} must hold numbers: make an array of floats of its fields"),
    ("float() argument", "{} must hold a number in each place: convert it to an array of floats"),
    ("with a sequence", "{} must hold one number in each place: give all rows the same length"),
    ("could not be promoted", "{} must hold numbers: convert dates, times and text first"),
    ("0 sample(s)", "{} must have a row at least: see what has left out all of them"),
    ("0 feature(s)", "{} must have a column at least: see what has left out all of them"),
    ("Expected 2D array", "{} must have a row for each sample, and a column for each feature"),
    ("np.matrix", "{} must be an array: use numpy.asarray"),
    ("Found array with dim", "{} must have a row for each sample: see numpy.reshape"),
    ("contains NaN", "{} must hold no missing values: fill them, or leave these rows out"),
    (
        "contains infinity",
        "{} must hold finite values: replace the others, or leave these rows out",
    ),
    ("inconsistent numbers", "X and y must have as many rows: see where some of them were lost"),
    ("y should be a 1d array", "y must have one entry for each row: fit a model to each column"),
    ("requires y to be passed", "y must have one entry for each row: call fit(X, y)"),
    ("label type: continuous", "y must hold labels: use a regressor, or divide y into classes"),
    ("features, but", "{} must have the columns of fit: give them all, in the same order"),
    ("feature names should match", "{} must have the columns of fit: use X[feature_names_in_]"),
)
# Which of two arguments they speak of, where they say so.
NAMED = re.compile(r"Input (\w+) contains")


@contextmanager
def with_remedy(name):
    """Add to an error of the block what has to be done about the argument of this name."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        said = str(error).rstrip()
        remedy = next((remedy for part, remedy in REMEDIES if part in said), None)
        if remedy is None:
            raise
        named = NAMED.search(said)
        remedy = remedy.format(named[1] if named else name)
        if said.endswith(f"\n{remedy}"):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{said}\n{remedy}") from error
