"""The bound of a batch and its gradient at any q(u), which need not be optimal."""

import numpy as np

from sparsegpc._core.numerics.linalg import inverse_from_cholesky, solve_cholesky


def expected_log_sites(sums, posterior):
    """Return the expectation of the log sites, including their log scales, at any q(u).

    The residual is left out of the variance of f. Cost 2 M^3.
    """
    w, mean = posterior.w, posterior.prior_mean
    h = sums.Vb - mean * sums.Vp
    return float(
        sums.log_scale
        + mean * sums.shift
        - 0.5 * mean**2 * sums.precision
        + w @ (h - 0.5 * sums.VpV @ w)
        - 0.5 * solve_cholesky(posterior.LB, sums.VpV).trace()
    )


def kernel_gradient(features, posteriors, slope, precision, residual_cost, wrt_Z=False):
    """Return the gradient of the sum over rows of the bound at fixed q(u), in whitened coordinates.

    `posteriors` holds any q(u) of each of K functions. `slope`, `precision` and `residual_cost` (K,
    N_b) are derivatives of the sum: w.r.t. the mean of f, and minus twice those w.r.t. the variance
    that comes from q(u) and w.r.t. the residual. The gradient is that w.r.t. the free parameters of
    the kernel, (P,), and that w.r.t. Z, (M, D) or None.

    The adjoint of V is the sum over functions of ``G = -B^-1 V diag(precision) + w slope^T + V
    diag(residual_cost)``. Unless q(u) is optimal for these rows, G V^T is not symmetric. Since Luu
    is lower triangular, the adjoint of Kuu is minus half the lower triangle of G V^T, mirrored
    (Murray 2016, section 3.1). Cost (2 K + 4) N_b M^2.
    """
    q_moments = [(q.w, inverse_from_cholesky(q.LB)) for q in posteriors]
    g = residual_cost.sum(axis=0)

    def adjoint_V(V, slope, precision, g):
        G = V * g
        for (w, B_inverse), alpha, p in zip(q_moments, slope, precision, strict=True):
            G -= (B_inverse @ V) * p
            G += w[:, None] * alpha
        return G, (G @ V.T,), ()

    def adjoint_Kuu(sums):
        lower = np.tril(sums[0])
        return -0.5 * (lower + np.tril(lower, -1).T)

    inputs = [slope, precision, g]
    grad_theta, grad_Z, _ = features.pull_back(adjoint_V, inputs, -0.5 * g, adjoint_Kuu, wrt_Z)
    return grad_theta, grad_Z
