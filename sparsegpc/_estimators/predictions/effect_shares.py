"""Shares of columns and pairs of columns in the variance of f, for `OrthogonalAdditive`."""

from itertools import combinations

import numpy as np
from sklearn.gaussian_process import kernels as sk

from sparsegpc._core.kernels.effect_variances import effect_variances
from sparsegpc._estimators.kernels.kernel_trees import effect_summands, walk
from sparsegpc.kernels import OrthogonalAdditive


def shares_of_models(models, labels):
    """Return the dict of `ColumnEffects.effect_shares`, for one model or one for each class.

    `labels` are the names of the columns.
    """
    found = [_only_kernel(model.kernel_, np.arange(len(labels))) for model in models]
    _, kernel, columns = found[0]
    sets = [(labels[d],) for d in columns]
    if np.size(kernel.variance) > 1:
        sets += combinations([labels[d] for d in columns], 2)
    shares = np.concatenate(
        [_shares(model._posterior, *parts) for model, parts in zip(models, found, strict=True)]
    )
    order = np.argsort(-shares.mean(axis=0), kind="stable")
    if len(shares) == 1:
        return {sets[k]: float(shares[0, k]) for k in order}
    return {sets[k]: shares[:, k] for k in order}


def _shares(posterior, factor, kernel, columns):
    """Return the shares of columns, followed by those of pairs, for each function (K, S)."""
    length_scales, means, stds = kernel._by_column(len(columns))
    Z, variances = (posterior.Z[:, columns] - means) / stds, factor * np.ravel(kernel.variance)
    rows = []
    for weights in posterior.weights():
        effects = effect_variances(Z, weights, length_scales / stds, variances)
        pairs = effects.pairs[np.triu_indices(len(columns), 1)] if len(variances) > 1 else []
        # If the posterior mean is constant, all variances are zero, and so are the shares.
        rows.append(np.append(effects.columns, pairs) / (effects.orders.sum() or 1.0))
    return np.array(rows)


def _only_kernel(kernel, columns):
    """Return the constant factor, the `OrthogonalAdditive`, and the columns that it sees."""
    summands = list(effect_summands(kernel, columns))
    is_sum = any(type(part) is sk.Sum for part in walk(kernel))
    if is_sum or not summands or type(summands[0][1]) is not OrthogonalAdditive:
        raise ValueError(
            "effect_shares needs a kernel that is OrthogonalAdditive, possibly times a constant "
            f"and within Columns, got {kernel}: its parts are orthogonal to each other, those of "
            "other kernels are not; fit with kernel=sparsegpc.kernels.OrthogonalAdditive()"
        )
    return summands[0]
