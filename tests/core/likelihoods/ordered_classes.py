"""The likelihood of ordered classes as textbooks have it: nothing here is code of the package."""

import numpy as np
from scipy.special import expit


def edges(params):
    """Return the edges of the classes on the line, (C + 1,), the first and the last infinite."""
    return np.concatenate([[-np.inf, 0.0], np.cumsum(np.exp(params)), [np.inf]])


def log_2_cosh_half(x):
    return np.logaddexp(0.5 * x, -0.5 * x)


def log_probability(y, f, params):
    """Return log(sigma(b - f) - sigma(a - f)) of the edges a < b of the classes numbered y.

    In terms of hyperbolic functions no digits cancel.
    """
    y, cuts = np.asarray(y, dtype=int), edges(params)
    # The first and the last class have one cut point.
    above, below = f - cuts[np.maximum(y, 1)], cuts[np.minimum(y + 1, len(cuts) - 2)] - f
    first, last = -np.logaddexp(0.0, -below), -np.logaddexp(0.0, -above)
    is_first, is_last = y == 0, y == len(cuts) - 2
    gap = np.where(is_first | is_last, 1.0, above + below)
    between = np.log(2.0 * np.sinh(0.5 * gap)) - log_2_cosh_half(above) - log_2_cosh_half(below)
    return np.where(is_first, first, np.where(is_last, last, between))


def draw_classes(rng, f, params):
    """Return class numbers, as floats, drawn at f."""
    noisy = f + np.log(1.0 / rng.uniform(size=np.shape(f)) - 1.0)
    return (edges(params)[1:-1, None] < noisy).sum(axis=0).astype(float)


def probabilities(f, params):
    """Return the probabilities of all classes, (..., C), at f, by differences."""
    return np.diff(expit(edges(params) - np.asarray(f)[..., None]), axis=-1)
