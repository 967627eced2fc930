"""Visits to a batch of rows, which return its part of the bound and its derivatives at any q(u)."""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import RowSums
from sparsegpc._core.bounds.features import RowFeatures
from sparsegpc._core.likelihoods.checks import initial_states
from sparsegpc._core.models.sites import update_sites
from sparsegpc._core.numerics.linalg import mirrored, weighted_gram
from sparsegpc._core.rows.blocks import Table


class Batch(NamedTuple):
    """A batch of N_b rows: features, likelihoods and targets by output, and weights (N_b,)."""

    features: RowFeatures
    likelihoods: list
    targets: list
    weight: np.ndarray


class Visit(NamedTuple):
    """The result of a visit to a batch at some q(u).

    ``value`` is the part of the bound from these rows, including the slack, in nats. ``sums`` holds
    the `RowSums` of their new sites for each function. ``slopes`` holds the derivatives ``slope``,
    ``precision`` and ``residual_cost`` of an `Expectation`, shape (K, N_b) each. ``moments`` holds
    the mean and the variance of f, shape (K, N_b) each, where the variance includes the scaled
    residual. It is empty if the likelihood has no parameters.
    """

    value: float
    sums: tuple
    slopes: tuple
    moments: tuple


def visit_batch(batch, posteriors, slack):
    """Return the `Visit` to a batch at any q(u), one for each function. Cost 2 K N_b M^2.

    The slack determines the scales of the residuals. It must be a sum over rows.
    """
    has_params = batch.likelihoods[0].n_params > 0

    likelihoods, ratios = batch.likelihoods, [None] * len(posteriors)

    def block(V, residual, weight, *targets):
        update = update_sites(V, residual, weight, targets, likelihoods, posteriors, slack, ratios)
        rows = tuple(map(update.joined, ("slope", "precision", "residual_cost")))
        if has_params:
            variance = update.inducing_variance + np.concatenate(update.scales) * residual
            rows = (*rows, update.mean, variance)
        return (update.value(), *_block_sums(V, *update.sites())), rows

    inputs = [batch.features.residual, batch.weight, *map(Table, batch.targets)]
    (value, *sums), rows = batch.features.visit(block, *inputs)
    return Visit(value, _row_sums(sums), rows[:3], rows[3:])


def initial_sums(batch):
    """Return the `RowSums` of the initial sites. Cost K N_b M^2."""
    sites = [
        likelihood.sites(state, y, batch.weight)[:2]
        for likelihood, y in zip(batch.likelihoods, batch.targets, strict=True)
        for state in initial_states(likelihood, y, batch.weight)
    ]
    return _row_sums(batch.features.sum(_block_sums, *np.swapaxes(sites, 0, 1)))


def _block_sums(V, precision, shift):
    sums = []
    for p, b in zip(precision, shift, strict=True):
        sums += [weighted_gram(V, p), V @ p, V @ b, p.sum(), b.sum()]
    return tuple(sums)


def _row_sums(sums):
    """Return the `RowSums` of each function, from the sums of `_block_sums` over blocks.

    The log scale is zero at first, and will include the slack. Residual ratios are not computed.
    """
    return tuple(
        RowSums(mirrored(VpV), Vp, Vb, float(precision), float(shift), 0.0, np.nan, 0.0)
        for VpV, Vp, Vb, precision, shift in zip(*(sums[k::5] for k in range(5)), strict=True)
    )
