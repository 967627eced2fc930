r"""Smaller models from one fit: the first m of M inducing points at the same sites.

With Luu lower triangular the features of the first m points are the first m rows of V. So V diag(p)
V^T, V p and V b of the smaller model are leading blocks, and with the sums over rows of what each
prefix leaves, no row is needed again.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.bounds.collapsed import RowSums, optimal_posterior, row_sums


class NestedSums(NamedTuple):
    """The sums over rows that the models on the first 1, ..., M points depend on.

    ``sums`` are those of all M points; ``costs`` and ``log_costs`` (M + 1,) the sums of
    ``cost = precision * residual`` and of ``log1p(cost)`` after 0, ..., M points; ``n_rows`` is the
    number of rows. ``slack`` and ``prior_mean`` are those of `collapse`.
    """

    sums: RowSums
    costs: np.ndarray
    log_costs: np.ndarray
    n_rows: int
    slack: str
    prior_mean: float | None

    def truncated(self, n_points):
        """Return those of the first `n_points` points."""
        sums = self.sums._replace(
            VpV=self.sums.VpV[:n_points, :n_points],
            Vp=self.sums.Vp[:n_points],
            Vb=self.sums.Vb[:n_points],
            cost=self.costs[n_points],
            log_cost=self.log_costs[n_points],
        )
        ends = self.costs[: n_points + 1], self.log_costs[: n_points + 1]
        return NestedSums(sums, *ends, self.n_rows, self.slack, self.prior_mean)


def nested_sums(features, sites, slack, prior_mean=None):
    """Return the `NestedSums`. Cost N M^2, and N M logarithms for the tight slack."""
    sums = row_sums(features, sites, slack)
    n_points = len(sums.Vp)

    def path(V, residual, p):
        explained = np.cumsum(V**2, axis=0)
        # Counted back from what is left in the end, so that the whole path is non-negative.
        cost = p * (residual + (explained[-1] - explained))
        cost = np.concatenate([p[None] * (residual + explained[-1]), cost])
        log_cost = np.log1p(cost).sum(axis=1) if slack == "tight" else np.zeros(n_points + 1)
        return cost.sum(axis=1), log_cost

    costs, log_costs = features.sum(path, features.residual, sites.precision)
    return NestedSums(sums, costs, log_costs, features.n_rows, slack, prior_mean)


def truncate(nested, n_points):
    """Return the `Posterior` on the first `n_points` points; see `collapse`. Cost n_points^3."""
    sums = nested.truncated(n_points).sums
    return optimal_posterior(sums, nested.n_rows, nested.slack, nested.prior_mean)
