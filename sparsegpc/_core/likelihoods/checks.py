"""Checks of what a user's likelihood returns: shapes, finite numbers, signs and slopes.

Likelihoods of the package meet them, so a search checks only the sign of their precisions.
"""

import numpy as np

from sparsegpc._core.likelihoods.base import Expectation, Sites
from sparsegpc._core.numerics.floats import EPSILON

# A negative precision that is smaller than this fraction of the largest one is a rounding error.
ROUNDING = 1e-6
# So is one that is smaller than this, whatever the others are.
SMALLEST = 1e-14
# Expectations are checked at no more rows than this.
MOST_ROWS = 10_000
# Slopes are compared with differences over this fraction of the width of a row's site. An error of
# more than this fraction of the usual slopes is no matter of digits.
DIFFERENCE, SLOPE_TOLERANCE = 1e-4, 0.01


def initial_states(likelihood, y, weight):
    """Return the `initial_states` of a likelihood.

    Raises ValueError if a likelihood that is not one of the package returns wrong shapes, numbers
    that are not finite, negative precisions, or slopes that are not the derivatives of its values.
    """
    if _is_of_package(likelihood):
        return likelihood.initial_states(y, weight)
    if likelihood.has_fixed_sites:
        sites = likelihood.sites(None, y, weight)
        _check_shapes(likelihood, "sites", sites, dict.fromkeys(Sites._fields, weight.shape))
        _check_finite(likelihood, "sites", sites)
        refuse_negative(likelihood, sites.precision)
        return likelihood.initial_states(y, weight)
    K = likelihood.n_functions
    # A search takes blocks of rows, as the memory that `expect` needs is unknown.
    some = slice(None, None, -(-len(weight) // MOST_ROWS))
    few = likelihood, y[some], weight[some]
    # A search need not visit f = 0, so numbers there may overflow.
    with np.errstate(all="ignore"):
        at_zero = _checked_expectation(*few, np.zeros(K))
    states = likelihood.initial_states(y, weight)
    if len(states) != K:
        raise ValueError(
            f"likelihood {likelihood!r}: initial_states returned a list of {len(states)}, but "
            f"n_functions is {K}: return a SiteState for each function"
        )
    for state in states:
        shapes = dict.fromkeys(state._fields, weight.shape)
        _check_shapes(likelihood, "initial_states", state, shapes)
    constants = _best_constants(states)
    expected = _checked_expectation(*few, constants)
    if not _is_finite(expected):
        # Initial sites of the user's own may have a distant maximum.
        _check_finite(likelihood, "expect", at_zero)
    for state in states:
        _check_finite(likelihood, "initial_states", state)
        refuse_negative(likelihood, state.precision)
    if _is_finite(expected):
        refuse_negative(likelihood, expected.precision)
        total = np.sum([state.precision for state in states])
        width = np.sqrt(weight.sum() / total) if total > 0.0 else 1.0
        for k in range(K):
            _check_slope(*few, constants, expected, width, k)
    return [state._replace(precision=np.maximum(state.precision, 0.0)) for state in states]


def _best_constants(states):
    """Return the constant functions that are most probable under initial sites, shape (K,)."""
    with np.errstate(all="ignore"):
        constants = np.array([state.shift.sum() / state.precision.sum() for state in states])
    return np.where(np.isfinite(constants), constants, 0.0)


def refuse_negative(likelihood, precision):
    """Raise ValueError if precisions, an array of any shape, are negative beyond rounding."""
    least = precision.min()
    if least < -ROUNDING * precision.max() - SMALLEST:
        raise ValueError(
            f"likelihood {likelihood!r}: a precision is {least:.3g}, but precisions, minus twice "
            "the derivative of the value in the variance of f, must not be negative, which holds "
            "if the density is log-concave in f: check the signs in expect, or for a density that "
            "is not log-concave return np.maximum(precision, 1e-6) and set slacks = ('spherical', "
            "'standard')"
        )


def _is_of_package(likelihood):
    return type(likelihood).__module__.partition(".")[0] == __name__.partition(".")[0]


def _checked_expectation(likelihood, y, weight, constants):
    """Return the `Expectation` at constant functions, after a check of its shapes."""
    expected = likelihood._expect_constants(constants, y, weight)
    shape = len(constants), len(weight)
    shapes = dict.fromkeys(Expectation._fields, shape) | {"value": shape[1:]}
    cost = np.asarray(expected.residual_cost, dtype=np.float64)
    if cost.shape in (shape[1:], (1, *shape[1:])):
        # It may be the same for all functions.
        expected = expected._replace(residual_cost=np.broadcast_to(cost, shape))
    _check_shapes(likelihood, "expect", expected, shapes)
    return expected


def _check_slope(likelihood, y, weight, constants, expected, width, function):
    """Raise ValueError if slopes are clearly not the derivatives of the values.

    They are those in the mean of one `function`. `width` is that of the site of a row.
    """
    slope, move = expected.slope[function], np.eye(len(constants))[function]
    # At the maximum of all rows the slopes vanish, so those at one width from it count as well.
    usual = max(np.abs(slope).max(), width * np.abs(expected.precision).max())
    rounding = 100.0 * EPSILON * np.abs(expected.value).max()
    # Functions like exp have a scale of their own, whatever the width.
    for step in DIFFERENCE * np.array([width, min(width, 1.0)]):
        with np.errstate(all="ignore"):
            above, below = (
                likelihood._expect_constants(constants + h * move, y, weight).value
                for h in (step, -step)
            )
            difference = (above - below) / (2.0 * step)
        error = np.abs(slope - difference)
        if not error.max() > SLOPE_TOLERANCE * usual + rounding / step:
            return
    k = int(error.argmax())
    raise ValueError(
        f"likelihood {likelihood!r}: expect returned slope {slope[k]:.6g} at a row, but the value "
        f"rises by {difference[k]:.6g} per unit of the mean there: the slope must be the "
        "derivative of the value: check their signs, constant factors and weights"
    )


def _check_shapes(likelihood, method, found, shapes):
    """Raise ValueError unless the fields of a NamedTuple have their `shapes`, a dict."""
    for name, shape in shapes.items():
        field = np.asarray(getattr(found, name), dtype=np.float64)
        if field.shape != shape:
            meaning = "(K, n) for K functions and n rows" if len(shape) == 2 else "(n,) for n rows"
            raise ValueError(
                f"likelihood {likelihood!r}: {method} returned {name} of shape {field.shape}, but "
                f"it must be {shape}, {meaning}: check its dimensions"
            )


def _is_finite(found):
    return all(np.isfinite(field).all() for field in found)


def _check_finite(likelihood, method, found):
    """Raise ValueError unless all fields of a NamedTuple hold finite numbers."""
    for name, field in found._asdict().items():
        if not np.isfinite(field).all():
            raise ValueError(
                f"likelihood {likelihood!r}: {method} returned {name} "
                f"{field[~np.isfinite(field)][0]} at a row, but all must be finite numbers at the "
                "moments that a search visits: limit the arguments of exp and log"
            )
