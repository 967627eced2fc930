"""A small Bayesian GP-LVM, and its bound in textbook formulas, by quadrature over q(X)."""

from itertools import product

import numpy as np
from scipy.spatial.distance import cdist

from sparsegpc._core.latent_inputs.collapsed_bound import LatentParams
from sparsegpc._core.latent_inputs.kernel_expectations import JITTER

NOISE, SIGNAL = 0.2, 1.3
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def problem(n_rows=6, n_columns=4, n_latent=2, n_points=4, spread=1.0):
    """Return Y (N, D) with two missing values, and random `LatentParams`."""
    rng = np.random.RandomState(0)
    Y = rng.normal(size=(n_rows, n_columns))
    Y[0, 1] = Y[-1, 0] = np.nan
    params = LatentParams(
        rng.normal(size=(n_rows, n_latent)),
        spread * rng.uniform(0.1, 0.7, size=(n_rows, n_latent)),
        rng.normal(size=(n_points, n_latent)),
        rng.uniform(0.7, 2.0, size=n_latent),
        SIGNAL,
        NOISE,
    )
    return Y, params


def kernel(params, A, B):
    scales = np.sqrt(params.widths)
    return params.signal * np.exp(-0.5 * cdist(A / scales, B / scales, "sqeuclidean"))


def jittered_Kuu(params):
    return kernel(params, params.Z, params.Z) + JITTER * params.signal * np.eye(len(params.Z))


def nodes(mean, variance):
    """Return the places (K, Q) and the weights (K,) of a grid for N(mean, diag(variance))."""
    grid = np.array(list(product(NODES, repeat=len(mean))))
    weights = np.array(list(product(NODE_WEIGHTS, repeat=len(mean)))).prod(axis=1)
    return mean + np.sqrt(variance) * grid, weights / weights.sum()


def textbook_bound(params, Y, penalty):
    """Return the collapsed bound; `penalty` is the slack as a function of the cost c.

    The expected log likelihood given u is that of weighted rows at the nodes, and u is integrated
    out in its own M dimensions.
    """
    Kuu = jittered_Kuu(params)
    total = 0.0
    means, moments, costs = [], [], []
    for mean, variance in zip(params.mean, params.variance, strict=True):
        X, w = nodes(mean, variance)
        k = kernel(params, params.Z, X)
        a = np.linalg.solve(Kuu, k)
        means.append(a @ w)
        moments.append((a * w) @ a.T)
        costs.append(w @ (params.signal - (a * k).sum(axis=0)) / params.noise)
        total -= 0.5 * (mean**2 + variance - np.log(variance) - 1.0).sum()
    for y in Y.T:
        rows = np.flatnonzero(~np.isnan(y))
        precision = np.linalg.inv(Kuu) + sum(moments[n] for n in rows) / params.noise
        shift = sum(means[n] * y[n] for n in rows) / params.noise
        total += 0.5 * shift @ np.linalg.solve(precision, shift)
        total -= 0.5 * np.linalg.slogdet(Kuu @ precision)[1]
        total -= 0.5 * (y[rows] @ y[rows] / params.noise)
        total -= 0.5 * len(rows) * np.log(2.0 * np.pi * params.noise)
        total -= 0.5 * sum(penalty(costs[n]) for n in rows)
    return total
