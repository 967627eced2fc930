"""The length scales among the hyperparameters: what they belong to, and values that suit the rows.

In all functions `hyperparameters` are `Hyperparameters`, and `spread` is the `Spread` of the rows.
"""

import numpy as np

from sparsegpc.kernels import MainEffects


def lengths_by_column(hyperparameters, spread):
    """Return a dict from each varying column to the indices in theta of its own length scales.

    Those of main effects, and columns without a length scale of their own, are left out. A common
    length scale is that of a single column.
    """
    found = {}
    for k, entry in enumerate(hyperparameters.entries):
        if not entry.is_length_scale or entry.effect:
            continue
        is_only = entry.column == "all" and len(spread.varies) == 1
        column = 0 if is_only else entry.column
        if isinstance(column, int) and spread.varies[column]:
            found.setdefault(column, []).append(k)
    return found


def lengths_in_units(hyperparameters, spread, multiples):
    """Return a dict from the index in theta of each column's length scale to values for it.

    They are the logarithms of `multiples` of the column's unit, clipped to the bounds. Columns that
    `lengths_by_column` leaves out are left out here, too.
    """
    found = {}
    for column, indices in lengths_by_column(hyperparameters, spread).items():
        values = np.log(np.multiply(multiples, spread.units[column]))
        found |= {k: np.clip(values, *hyperparameters.bounds[k]) for k in indices}
    return found


def effect_columns(hyperparameters):
    """Return a dict from the index in theta of each length scale of main effects to its column.

    That of a common one is "all".
    """
    return {
        k: entry.column
        for k, entry in enumerate(hyperparameters.entries)
        if entry.is_length_scale and entry.effect is MainEffects
    }


def effect_lengths(hyperparameters):
    """Return `effect_columns` without length scales that columns share."""
    columns = effect_columns(hyperparameters)
    return {k: column for k, column in columns.items() if isinstance(column, int)}


def shortened_effects(theta, columns, distances, bounds):
    """Return theta with effects that vary at least as fast as within the distances (D,).

    `columns` is a dict like that of `effect_columns`.
    """
    theta = theta.copy()
    for k, column in columns.items():
        shortest = distances[column] if isinstance(column, int) else distances.min()
        theta[k] = min(theta[k], np.log(shortest))
    return np.clip(theta, *bounds.T)


def typical_log_lengths(hyperparameters, spread):
    """Return the logarithm of the typical value of each length scale in theta, else 0, (P,)."""
    found = np.zeros(len(hyperparameters.theta))
    lengths, typical = typical_lengths(hyperparameters, spread)
    found[lengths] = np.log(typical)
    return found


def with_typical_lengths(hyperparameters, spread, factor=1.0):
    """Return `Hyperparameters.rescaled` with length scales `factor` times the typical ones."""
    theta = hyperparameters.rescaled.copy()
    lengths, typical = typical_lengths(hyperparameters, spread)
    theta[lengths] = np.log(factor * typical)
    return theta


def typical_lengths(hyperparameters, spread):
    """Return the indices of length scales in theta, and a typical value of each.

    It is a typical distance of two rows in the columns that share the length scale, and for the
    main effect of a column its unit.
    """
    entries = hyperparameters.entries
    lengths = [k for k, entry in enumerate(entries) if entry.is_length_scale]
    entries = [entries[k] for k in lengths]
    joint = spread.joint_scale
    typical = [_typical_length(entry.column, spread, joint) for entry in entries]
    alone = [entry.effect is not None for entry in entries]
    return lengths, np.array(typical) / np.where(alone, joint, 1.0)


def _typical_length(column, spread, joint):
    if column == "all":
        return spread.distance
    if isinstance(column, int):
        return spread.units[column] * joint
    varying = [k for k in column if spread.varies[k]]
    return float(np.sqrt(2.0) * np.linalg.norm(spread.deviations[varying])) if varying else 1.0
