"""Checks of what a user's likelihood returns: shapes, finite numbers, and signs of precisions.

Likelihoods of the package meet them, so a search checks only the sign of their precisions.
"""

import numpy as np

from sparsegpc._core.likelihoods.base import Expectation, Sites

# A negative precision that is smaller than this fraction of the largest one is a rounding error.
ROUNDING = 1e-6
# Expectations are checked at no more rows than this.
MOST_ROWS = 10_000


def initial_states(likelihood, y, weight):
    """Return the `initial_states` of a likelihood.

    Raises ValueError if a likelihood that is not one of the package returns anything but finite
    numbers of the right shapes, or a negative precision, at f = 0 or at its initial sites.
    """
    if _is_of_package(likelihood):
        return likelihood.initial_states(y, weight)
    if likelihood.has_fixed_sites:
        sites = likelihood.sites(None, y, weight)
        _check_fields(likelihood, "sites", sites, dict.fromkeys(Sites._fields, weight.shape))
        refuse_negative(likelihood, sites.precision)
        return likelihood.initial_states(y, weight)
    K = likelihood.n_functions
    _check_expectation(likelihood, y, weight, np.zeros(K), np.zeros(K))
    states = likelihood.initial_states(y, weight)
    if len(states) != K:
        raise ValueError(
            f"likelihood {likelihood!r}: initial_states returned a list of {len(states)}, but "
            f"n_functions is {K}: return a SiteState for each function"
        )
    for state in states:
        shapes = dict.fromkeys(state._fields, weight.shape)
        _check_fields(likelihood, "initial_states", state, shapes)
        refuse_negative(likelihood, state.precision)
    totals = np.array([(state.precision.sum(), state.shift.sum()) for state in states])
    if (totals[:, 0] > 0.0).all():
        # The best constant for the sites, and the squared width of the site of a typical row.
        mean, variance = totals[:, 1] / totals[:, 0], weight.sum() / totals[:, 0]
        _check_expectation(likelihood, y, weight, mean, variance)
    return [state._replace(precision=np.maximum(state.precision, 0.0)) for state in states]


def refuse_negative(likelihood, precision):
    """Raise ValueError if precisions, an array of any shape, are negative beyond rounding."""
    least = precision.min()
    if least < -ROUNDING * precision.max():
        raise ValueError(
            f"likelihood {likelihood!r}: a precision is {least:.3g}, but precisions, minus twice "
            "the derivative of the value in the variance of f, must not be negative, which holds "
            "if the density is log-concave in f: check the signs in expect, or for a density that "
            "is not log-concave return np.maximum(precision, 1e-6) and set slacks = ('spherical', "
            "'standard')"
        )


def _is_of_package(likelihood):
    return type(likelihood).__module__.partition(".")[0] == __name__.partition(".")[0]


def _check_expectation(likelihood, y, weight, mean, variance):
    """Check the `Expectation` at constant moments (K,) of f, half of the variance residual."""
    # A search takes blocks of rows, as the memory that `expect` needs is unknown.
    step = -(-len(weight) // MOST_ROWS)
    y, weight = y[::step], weight[::step]
    shape = len(mean), len(weight)
    means, halves = (np.tile(each[:, None], shape[1]) for each in (mean, 0.5 * variance))
    # The residual is that of all functions.
    residual = np.full(shape[1], halves.min())
    expected = likelihood.expect(y, weight, means, halves, residual, np.ones(shape))
    shapes = dict.fromkeys(Expectation._fields, shape) | {"value": weight.shape}
    cost = np.asarray(expected.residual_cost, dtype=np.float64)
    if cost.shape in (shape[1:], (1, *shape[1:])):
        # It may be the same for all functions.
        expected = expected._replace(residual_cost=np.broadcast_to(cost, shape))
    _check_fields(likelihood, "expect", expected, shapes)
    refuse_negative(likelihood, expected.precision)


def _check_fields(likelihood, method, found, shapes):
    """Raise ValueError unless fields have their `shapes`, a dict, and hold finite numbers."""
    for name, shape in shapes.items():
        field = np.asarray(getattr(found, name), dtype=np.float64)
        if field.shape != shape:
            meaning = "(K, n) for K functions and n rows" if len(shape) == 2 else "(n,) for n rows"
            raise ValueError(
                f"likelihood {likelihood!r}: {method} returned {name} of shape {field.shape}, but "
                f"it must be {shape}, {meaning}: check its dimensions"
            )
        if not np.isfinite(field).all():
            raise ValueError(
                f"likelihood {likelihood!r}: {method} returned {name} "
                f"{field[~np.isfinite(field)][0]} at a row, but all must be finite numbers at the "
                "moments that a search visits: limit the arguments of exp and log"
            )
