"""The bound of a batch and its gradient at any q(u), which need not be optimal."""

import numpy as np

from sparsegpc._core.numerics.linalg import inverse_from_cholesky, solve_cholesky


def expected_log_sites(sums, posterior):
    r"""Return the expectation of the log sites, including their log scales, at any q(u).

    The residual is left out of the variance of f. With :math:`h = V (b - \mu p)` and the precision
    B of q(u) it is

    .. math:: \sum_n (o_n + \mu b_n - \tfrac12 \mu^2 p_n) + h^\top w
        - \tfrac12 w^\top V P V^\top w - \tfrac12 \mathrm{tr}(B^{-1} V P V^\top).

    Cost 2 M^3.
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
    r"""Return the gradient of the sum over rows of the bound at fixed q(u).

    q(u) is fixed in whitened coordinates. `posteriors` holds any q(u) of each of K functions.
    `slope`, `precision` and `residual_cost` (K, N_b) are derivatives of the sum: w.r.t. the mean of
    f, and minus twice those w.r.t. the variance that comes from q(u) and w.r.t. the residual. The
    gradient is that w.r.t. the free parameters of the kernel, (P,), and that w.r.t. Z, (M, D) or
    None.

    The adjoint of V is the sum over functions of
    :math:`\bar V = -B^{-1} V P + w \alpha^\top + V \mathrm{diag}(g)`, where :math:`\alpha` is the
    slope and g the residual cost. Unless q(u) is optimal for these rows, :math:`\bar V V^\top` is
    not symmetric. Since Luu is lower triangular, the adjoint of Kuu is minus half the lower
    triangle of :math:`\bar V V^\top`, mirrored (Murray 2016, section 3.1). Cost (2 K + 4) N_b M^2.
    """
    q_moments = [(q.w, inverse_from_cholesky(q.LB)) for q in posteriors]
    g = residual_cost.sum(axis=0)

    def adjoint_V(V, slope, precision, g):
        V_bar = V * g
        for (w, B_inverse), alpha, p in zip(q_moments, slope, precision, strict=True):
            V_bar -= (B_inverse @ V) * p
            V_bar += w[:, None] * alpha
        return V_bar, (V_bar @ V.T,), ()

    def adjoint_Kuu(sums):
        lower = np.tril(sums[0])
        return -0.5 * (lower + np.tril(lower, -1).T)

    inputs = [slope, precision, g]
    grad_theta, grad_Z, _ = features.pull_back(adjoint_V, inputs, -0.5 * g, adjoint_Kuu, wrt_Z)
    return grad_theta, grad_Z
