r"""Gaussian process conditioning of a posterior on further rows, without those that it has.

The posterior of f is that of the values u at the inducing points, times p(f | u). In whitened
coordinates q(u) is N(w, B^-1). Further rows X with targets :math:`y = f(X) + \epsilon` of noise
precisions p become inducing points themselves. With :math:`V = L_{uu}^{-1} K_{uX}` and the
Cholesky factor L of what the points do not explain,

.. math::
    L_{uu}' = \begin{pmatrix} L_{uu} & 0 \\ V^\top & L \end{pmatrix}, \qquad
    V' = \begin{pmatrix} V \\ L^\top \end{pmatrix}, \qquad
    B' = \begin{pmatrix} B & 0 \\ 0 & I \end{pmatrix} + V' \mathrm{diag}(p) V'^\top, \qquad
    w' = B'^{-1} \left[\begin{pmatrix} B w \\ 0 \end{pmatrix} + V' (p (y - \mu))\right].

A learned prior mean is uncertain, and Gaussian given all targets. The targets move it by x, and
w' by :math:`-x w_p'`, where :math:`w_p'` is minus its derivative, see `FunctionPosterior`.

The result is exact if the posterior is, and otherwise exact given that f is as the points say.
"""

import numpy as np
from scipy.linalg import block_diag
from scipy.linalg.lapack import dpstrf

from sparsegpc._core.bounds.features import ZERO_RESIDUAL
from sparsegpc._core.numerics.floats import EPSILON, LOG_2PI
from sparsegpc._core.numerics.linalg import cholesky, log_det, solve_cholesky, solve_lower


def condition(posterior, X, y, precision):
    """Return the `Posterior` of each f given further targets, and their log densities (K,).

    The rows `X` (n, D) have a target `y` (K, n) for each function with the noise `precision`
    (K, n). The densities are those of the targets together, in nats, given all earlier ones. Rows
    that the points explain, such as copies of them, become no points. Cost
    K (M + n)^3 + n (M + n) D.
    """
    extended, V = _with_points(posterior, X)
    found = [
        _conditioned(q, V, *targets)
        for q, *targets in zip(posterior.functions, y, precision, strict=True)
    ]
    functions, log_density = zip(*found, strict=True)
    return extended._replace(functions=functions), np.array(log_density)


def _with_points(posterior, X):
    """Return a `Posterior` with rows as further points, still without q(u), and the rows' V'."""
    V, _ = posterior.features(X)
    prior = posterior.kernel.value(posterior.theta, X, X)
    # At a copy of a point, rounding errors and the jitter are left.
    smallest = ZERO_RESIDUAL * (np.sqrt(len(V)) * EPSILON + posterior.jitter)
    smallest *= prior.diagonal().max()
    factor, pivots, rank, _ = dpstrf(prior - V.T @ V, tol=smallest, lower=1)
    order = pivots - 1
    L = np.tril(factor)[:, :rank]
    new = order[:rank]
    Luu = np.block([[posterior.Luu, np.zeros((len(V), rank))], [V[:, new].T, L[:rank]]])
    of_rows = np.empty((rank, len(X)))
    of_rows[:, order] = L.T
    extended = posterior._replace(Z=np.vstack([posterior.Z, X[new]]), Luu=np.asfortranarray(Luu))
    return extended, np.vstack([V, of_rows])


def _conditioned(q, V, y, precision):
    """Return the `FunctionPosterior` of one function given the targets, and their log density."""
    n_new = len(V) - len(q.w)
    w, LB = np.append(q.w, np.zeros(n_new)), block_diag(q.LB, np.eye(n_new))
    w_p = np.zeros(len(V)) if q.w_p is None else np.append(q.w_p, np.zeros(n_new))
    # What the targets say about the prior mean, of which they are a linear function.
    share, error = 1.0 - w_p @ V, y - q.prior_mean - w @ V
    half = solve_lower(LB, V)
    S = cholesky(half.T @ half + np.diag(1.0 / precision))
    by_share, by_error = solve_lower(S, np.stack([share, error], axis=1)).T
    shift, variance = q.mean_shift, q.mean_variance
    by_rest = by_error - shift * by_share
    gain = 1.0 + variance * (by_share @ by_share)
    step = variance * (by_share @ by_rest) / gain
    quadratic = by_rest @ by_rest - step * (by_share @ by_rest)
    log_density = -0.5 * (len(y) * LOG_2PI + log_det(S) + np.log(gain) + quadratic)
    # Given the prior mean, sites are added to q(u). Without uncertainty the prior mean stays.
    B = LB @ LB.T
    L = cholesky(B + (V * precision) @ V.T)
    h = np.stack([B @ w + V @ (precision * (y - q.prior_mean)), B @ w_p + V @ precision], axis=1)
    w, w_p = solve_cholesky(L, h).T
    n_rows = q.n_rows + len(y)
    q = q._replace(LB=L, n_rows=n_rows, mean_ratio=q.mean_ratio * q.n_rows / n_rows, bound=np.nan)
    if q.w_p is None:
        return q._replace(w=w), log_density
    x = shift + step
    return (
        q._replace(
            w=w - x * w_p,
            prior_mean=q.prior_mean + x,
            mean_shift=0.0,
            mean_variance=variance / gain,
            w_p=w_p,
        ),
        log_density,
    )
