"""What a row contributes to the bound of softmax, by brute quadrature and a general optimiser."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp, softmax

# Nodes per dimension of the brute rule: equally spaced, up to 8 deviations.
NODES = np.linspace(-8.0, 8.0, 49)


def gaussian_mean(function, mean, variance):
    """Return E[function(f)] of K independent Gaussians by a product rule.

    `function` takes (K, n) and returns (n,).
    """
    density = np.exp(-0.5 * NODES**2)
    grids = np.meshgrid(*len(mean) * [NODES], indexing="ij")
    weight = np.prod(np.meshgrid(*len(mean) * [density], indexing="ij"), axis=0).ravel()
    f = np.stack(
        [m + np.sqrt(s) * z.ravel() for m, s, z in zip(mean, variance, grids, strict=True)]
    )
    return function(f) @ weight / weight.sum()


def softmax_value(shares, weight, mean, variance):
    """One class against each other, by the rule in two dimensions, and the gain by tilting."""

    def log_sum(tilts):
        exponents = mean + (0.5 - tilts) * variance
        return 0.5 * tilts**2 @ variance + logsumexp(exponents)

    tilted = minimize(log_sum, softmax(mean), method="L-BFGS-B", tol=1e-15).fun
    total, width = 0.0, 0.02 * variance.mean() ** 2
    for k, share in enumerate(shares):
        others = np.delete(np.arange(len(mean)), k)
        one_vs_each = sum(
            gaussian_mean(lambda f: log_expit(f[0] - f[1]), mean[[k, j]], variance[[k, j]])
            for j in others
        )
        gain = max(mean[k] - tilted - one_vs_each, 0.0)
        total += share * (one_vs_each + gain**2 / (gain + width))
    return weight * total
