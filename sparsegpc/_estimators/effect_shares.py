"""Shares of columns and pairs of columns in the variance of f, for `OrthogonalAdditive`."""

from itertools import combinations

import numpy as np
from sklearn.gaussian_process import kernels as sk

from sparsegpc._core.kernels.effect_variances import effect_variances
from sparsegpc.kernels import Columns, OrthogonalAdditive


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
    length_scales, means, stds = kernel.by_column(len(columns))
    Z, variances = (posterior.Z[:, columns] - means) / stds, factor * np.ravel(kernel.variance)
    rows = []
    for weights in posterior.weights():
        of = effect_variances(Z, weights, length_scales / stds, variances)
        pairs = of.pairs[np.triu_indices(len(columns), 1)] if len(variances) > 1 else []
        # The posterior mean may be constant.
        rows.append(np.append(of.columns, pairs) / (of.orders.sum() or 1.0))
    return np.array(rows)


def _only_kernel(kernel, columns, factor=1.0):
    """Return the constant factor, the `OrthogonalAdditive`, and the columns that it sees."""
    if type(kernel) is OrthogonalAdditive:
        return factor, kernel, columns
    if type(kernel) is Columns:
        return _only_kernel(kernel.kernel, columns[list(kernel.columns)], factor)
    if type(kernel) is sk.Product:
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is sk.ConstantKernel:
                return _only_kernel(other, columns, factor * constant.constant_value)
    raise ValueError(
        "effect_shares needs a kernel that is OrthogonalAdditive, possibly times a constant and "
        f"within Columns, got {kernel}: its parts are orthogonal to each other, those of other "
        "kernels are not; fit with kernel=sparsegpc.kernels.OrthogonalAdditive()"
    )
