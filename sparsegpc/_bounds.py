r"""The collapsed bound on the log marginal likelihood of Gaussian sites, and its adjoints.

The data arrive as N Gaussian sites :math:`t_n(f_n) = \exp(b_n f_n - p_n f_n^2 / 2)` with
*precision* p and *shift* b; f has the constant prior mean :math:`\mu`. With whitened features V,
residual r (see `_features`) and :math:`h = V (b - p \mu)`,

.. math::
    B = I + V \mathrm{diag}(p) V^\top, \qquad
    \log Z \ge -\tfrac12 \log|B| + \tfrac12 h^\top B^{-1} h
    + \textstyle\sum_n (\mu b_n - \tfrac12 \mu^2 p_n + \mathrm{own}_n) + \mathrm{slack},

and the optimal q(u) is, in whitened coordinates, N(w, B^-1) with :math:`w = B^{-1} h`.

The slack pays for what the inducing points miss. With :math:`c_n = p_n r_n \ge 0`:

=========== ============================================ ==========================================
standard    :math:`-\frac12 \sum c_n`                    Titsias 2009; Passerello 2021, eq. 3.2
spherical   :math:`-\frac N2 \log(1 + \sum c_n / N)`     Artemev 2021; Titsias 2025, section 4
tight       :math:`-\frac12 \sum \log(1 + c_n)`          Titsias 2025, proposition 3.3, here for
                                                         unequal precisions
=========== ============================================ ==========================================

They are in increasing order. Each is the optimum over *shrinkages* v of q(f|u): the covariance of
the residual process, seen in units of the site deviations, is multiplied by diag(v).
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._linalg import (
    cholesky,
    column_squares,
    log_det,
    solve_cholesky,
    solve_lower,
    weighted_gram,
)

EPSILON = np.finfo(np.float64).eps
SLACKS = ("tight", "spherical", "standard")


class Posterior(NamedTuple):
    """The optimal q(u) at given sites, and its bound.

    ``w`` (M,) and ``LB`` (M, M) are the mean and the Cholesky factor of the precision in whitened
    coordinates; ``prior_mean`` is the constant mean of f; ``bound`` is in nats; ``mean_cost`` is
    the mean over rows of precision times residual.
    """

    w: np.ndarray
    LB: np.ndarray
    prior_mean: float
    bound: float = np.nan
    mean_cost: float = np.nan


def shrinkage(slack, cost, mean_cost):
    """Return v, a number or of shape (n,), at ``cost = precision * residual`` of some rows.

    `mean_cost` is the mean of the cost over all rows.
    """
    if slack == "standard":
        return 1.0
    if slack == "spherical":
        return 1.0 / (1.0 + mean_cost)
    return 1.0 / (1.0 + cost)


def slack_value(slack, cost_sum, log_cost_sum, n_rows):
    """Return the slack from the sums over rows of ``cost`` and of ``log1p(cost)``."""
    if slack == "standard":
        return -0.5 * cost_sum
    if slack == "spherical":
        return -0.5 * n_rows * np.log1p(cost_sum / n_rows)
    return -0.5 * log_cost_sum


def collapse(features, sites, slack, prior_mean=None):
    """Return the optimal q(u) for given sites, and the bound.

    Parameters
    ----------
    features : RowFeatures
    sites : Sites
        Precisions (non-negative), shifts and own terms, each of shape (N,).
    slack : {"tight", "spherical", "standard"}
    prior_mean : float or None
        None maximises the bound over the prior mean, in which it is quadratic.

    Returns
    -------
    Posterior

    Notes
    -----
    Cost N M^2 + M^3 / 3.
    """

    def sums(index, rows):
        V = features.V(index)
        p, b, own = (part[rows] for part in sites)
        cost = p * features.residual[rows]
        # log1p only where it is asked for: it is the dearest of the sums over rows.
        log_cost = np.log1p(cost).sum() if slack == "tight" else 0.0
        numbers = np.array([p.sum(), b.sum(), own.sum(), cost.sum(), log_cost])
        return weighted_gram(V, p), V @ p, V @ b, numbers

    B, Vp, Vb, numbers = features.blocks.sum(sums)
    p_sum, b_sum, own_sum, cost_sum, log_cost_sum = numbers.tolist()
    B.flat[:: len(B) + 1] += 1.0
    LB = cholesky(B)
    scaled_p, scaled_b = solve_lower(LB, np.stack([Vp, Vb], axis=1)).T
    if prior_mean is None:
        # The sum of (P^-1 + Q)^-1: positive, but its digits are lost where f may be constant and
        # the prior lets that constant be anything.
        curvature = max(p_sum - scaled_p @ scaled_p, EPSILON * p_sum)
        prior_mean = (b_sum - scaled_p @ scaled_b) / curvature
    scaled_h = scaled_b - prior_mean * scaled_p
    w = solve_lower(LB, scaled_h, transposed=True)
    bound = (
        -0.5 * log_det(LB)
        + 0.5 * float(scaled_h @ scaled_h)
        + prior_mean * b_sum
        - 0.5 * prior_mean**2 * p_sum
        + slack_value(slack, cost_sum, log_cost_sum, features.blocks.n_rows)
        + own_sum
    )
    return Posterior(w, LB, float(prior_mean), float(bound), cost_sum / features.blocks.n_rows)


def marginals(V, residual, posterior):
    """Return mean and variance of f, shape (N,) each, at points with features V and residual.

    The variance is that of the predictive p(f|u) q(u): the shrinkage serves the bound only.
    Cost N M^2.
    """
    mean, explained = moments(V, posterior)
    return mean, explained + residual


def moments(V, posterior):
    """Return the mean of f and the part of its variance that comes from q(u), shape (N,) each."""
    mean = posterior.w @ V
    mean += posterior.prior_mean
    return mean, column_squares(solve_lower(posterior.LB, V))


def covariance(K, V, posterior):
    """Return the covariance of f, shape (N, N), where the prior covariance is K, features V."""
    explained = solve_lower(posterior.LB, V)
    return K - V.T @ V + explained.T @ explained


def gradient(features, sites, slack, posterior, wrt_Z=False):
    """Return the gradient of the bound at fixed sites w.r.t. the kernel's parameters and Z.

    At sites that are optimal for the current kernel it is the total derivative (envelope theorem).

    Parameters
    ----------
    features : RowFeatures
    sites, slack, posterior
        The arguments and the result of `collapse`.
    wrt_Z : bool
        Whether to return the gradient w.r.t. the inducing points.

    Returns
    -------
    grad_theta : ndarray of shape (P,)
    grad_Z : ndarray of shape (M, D) or None

    Notes
    -----
    With ``g = v * precision`` the derivative of the bound w.r.t. the residual is ``-g / 2``, and
    ``G = -B^-1 V diag(p) + w (shift - p mean)^T + V diag(g)`` that w.r.t. V. Cost 4 N M^2, N M^2
    less for ``slack="standard"``.
    """
    w, LB, prior_mean = posterior.w, posterior.LB, posterior.prior_mean
    precision, shift = sites.precision, sites.shift
    g = precision * shrinkage(slack, precision * features.residual, posterior.mean_cost)
    identity = np.eye(len(w))
    B_inverse = solve_cholesky(LB, identity)

    def adjoint_V(index, rows):
        V, p = features.V(index), precision[rows]
        pull = shift[rows] - p * (w @ V + prior_mean)
        if slack == "standard":
            G = (identity - B_inverse) @ (V * p)
        else:
            G = B_inverse @ V
            G *= -p
            G += V * g[rows]
        G += w[:, None] * pull
        return G

    if slack == "standard":
        gram = LB @ LB.T - identity
    else:
        (gram,) = features.blocks.sum(
            lambda index, rows: (weighted_gram(features.V(index), g[rows]),)
        )
    # G V^T, which is symmetric, in closed form.
    bracket = B_inverse + np.outer(w, w) - identity + gram
    return features.pull_back(adjoint_V, -0.5 * bracket, -0.5 * g, wrt_Z)


def prior_mean_gradient(features, sites, posterior):
    """Return the derivative of the bound w.r.t. the prior mean at fixed sites."""

    def pull(index, rows):
        mean = posterior.w @ features.V(index) + posterior.prior_mean
        return (float((sites.shift[rows] - sites.precision[rows] * mean).sum()),)

    return features.blocks.sum(pull)[0]
