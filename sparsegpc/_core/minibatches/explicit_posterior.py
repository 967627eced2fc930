"""The bound of a batch and its gradient at a given q(u), optimal or not."""

import numpy as np

from sparsegpc._core.numerics.linalg import inverse_from_cholesky, solve_cholesky


def expected_log_sites(sums, posterior):
    """Return the expectation of the logarithm of sites, log scales included, at any q(u).

    Of f without its residual. Cost 2 M^3.
    """
    w, mean = posterior.w, posterior.prior_mean
    pull = sums.Vb - mean * sums.Vp
    return float(
        sums.log_scale
        + mean * sums.shift
        - 0.5 * mean**2 * sums.precision
        + w @ (pull - 0.5 * sums.VpV @ w)
        - 0.5 * solve_cholesky(posterior.LB, sums.VpV).trace()
    )


def kernel_gradient(features, posteriors, slope, precision, residual_cost, wrt_Z=False):
    """Return the gradient of the sum over rows of the bound at fixed q(u), in whitened coordinates.

    Parameters
    ----------
    features : RowFeatures
        Of the batch.
    posteriors : list of FunctionPosterior
        Any q(u), one for each of K functions.
    slope, precision, residual_cost : ndarray of shape (K, b)
        Derivative of the sum w.r.t. the mean of f, and minus twice those w.r.t. the variance that
        comes from q(u) and w.r.t. the residual.
    wrt_Z : bool
        Whether to return the gradient w.r.t. the inducing points.

    Returns
    -------
    grad_theta : ndarray of shape (P,)
        W.r.t. the kernel's free parameters.
    grad_Z : ndarray of shape (M, D) or None

    Notes
    -----
    The adjoint of V is, summed over functions,
    ``G = -B^-1 V diag(precision) + w slope^T + V diag(residual_cost)``. Away from the optimum of
    these rows G V^T is not symmetric: since Luu is lower triangular, the adjoint of Kuu is then
    minus half the lower triangle, mirrored (Murray 2016, section 3.1). Cost (2 K + 4) b M^2.
    """
    small = [(q.w, inverse_from_cholesky(q.LB)) for q in posteriors]
    g = residual_cost.sum(axis=0)

    def adjoint_V(V, slope, precision, g):
        G = V * g
        for (w, B_inverse), alpha, p in zip(small, slope, precision, strict=True):
            G -= (B_inverse @ V) * p
            G += w[:, None] * alpha
        return G, (G @ V.T,), ()

    def adjoint_Kuu(sums):
        lower = np.tril(sums[0])
        return -0.5 * (lower + np.tril(lower, -1).T)

    inputs = [slope, precision, g]
    grad_theta, grad_Z, _ = features.pull_back(adjoint_V, inputs, -0.5 * g, adjoint_Kuu, wrt_Z)
    return grad_theta, grad_Z
