r"""The collapsed bound of the Bayesian GP-LVM, and its gradient.

Each of the D columns of Y is a Gaussian process of the same latent inputs, with Gaussian noise of
precision :math:`\beta`. The input of a row has the prior N(0, I) and the approximate posterior
:math:`q(x_n) = N(m_n, \mathrm{diag}(s_n))`. Column d has values in the rows :math:`O_d`, and row n
in :math:`D_n` columns. With
:math:`L L^\top = K_{uu}`, the expectations psi1 and psi2 of `kernel_expectations` and

.. math:: \Phi_d = L^{-1} \textstyle\sum_{n \in O_d} \psi_{2n} L^{-\top}, \quad
   B_d = I + \beta \Phi_d, \quad C_d = L^{-1} \textstyle\sum_{n \in O_d} \psi_{1n} y_{nd}, \quad
   c_n = \beta (\sigma^2 - \mathrm{tr}\, K_{uu}^{-1} \psi_{2n})

the bound is, with the slack c (standard) or log(1 + c) (tight),

.. math:: \mathcal{F} = \sum_d \bigl[-\tfrac{|O_d|}{2} \log\tfrac{2\pi}{\beta}
   - \tfrac{\beta}{2} |y_d|^2 - \tfrac12 \log|B_d| + \tfrac{\beta^2}{2} C_d^\top B_d^{-1} C_d\bigr]
   - \tfrac12 \sum_n D_n\, \mathrm{slack}(c_n) - \sum_n \mathrm{KL}(q(x_n) \| p(x_n)).

The standard bound is that of Titsias and Lawrence (2010), the tight one that of Titsias (2025),
appendix B.5. Columns with values in the same rows share B.
"""

from typing import NamedTuple

import numpy as np

from sparsegpc._core.latent_inputs.kernel_expectations import LatentKernel
from sparsegpc._core.numerics.linalg import (
    cholesky,
    cholesky_of_identity_plus,
    inverse_from_cholesky,
    log_det,
    solve_cholesky,
    solve_lower,
)
from sparsegpc._core.rows.blocks import RowBlocks, Table

# The expectations of a block should fit the cache.
BLOCK_BYTES = 2**21


class LatentData:
    """The columns, with zeros for missing values, and which columns have values in the same rows.

    The slack is a sum over rows, and `options` are those of `RowBlocks`. ``given`` (N, D) has NaN
    for missing values, and ``Y`` zeros in their place. ``patterns`` (P, N) are the distinct columns
    of ones where Y has values and zeros where it has none, and ``pattern_of`` (D,) tells which one
    a column has; ``n_present`` (N,) is the number of values in each row.
    """

    def __init__(self, Y, slack, **options):
        present = ~np.isnan(Y)
        self.given, self.Y, self.slack, self.options = Y, np.where(present, Y, 0.0), slack, options
        patterns, self.pattern_of = np.unique(present.T, axis=0, return_inverse=True)
        self.patterns, self.pattern_of = patterns.astype(np.float64), self.pattern_of.ravel()
        self.n_present = present.sum(axis=1).astype(np.float64)


class LatentParams(NamedTuple):
    """What the bound is maximised over.

    ``mean`` and ``variance`` (N, Q) are those of q(X), ``Z`` (M, Q) the inducing points, ``widths``
    (Q,) the squared length scales, ``signal`` and ``noise`` the variances of f and of the noise.
    """

    mean: np.ndarray
    variance: np.ndarray
    Z: np.ndarray
    widths: np.ndarray
    signal: float
    noise: float

    def to_vector(self):
        """Return one vector, with logarithms of what is positive."""
        positive = [np.log(self.widths), np.log([self.signal, self.noise])]
        parts = [self.mean.ravel(), np.log(self.variance).ravel(), self.Z.ravel(), *positive]
        return np.concatenate(parts)

    def from_vector(self, x):
        """Return the parameters of a vector of `to_vector`; the shapes are those of `self`."""
        n, m, n_latent = self.mean.size, self.Z.size, len(self.widths)
        mean, log_variance, Z, log_widths, rest = np.split(x, np.cumsum([n, n, m, n_latent]))
        return LatentParams(
            mean.reshape(self.mean.shape),
            np.exp(log_variance).reshape(self.mean.shape),
            Z.reshape(self.Z.shape),
            np.exp(log_widths),
            *np.exp(rest).tolist(),
        )


class LatentPosterior(NamedTuple):
    """The optimal q(u), from which new rows are found and columns predicted.

    E[f_d(x)] is ``k(x, Z) @ alpha[:, d]`` for ``alpha`` (M, D). Var[f_d(x)] is k(x, x) minus the
    quadratic form of k(x, Z) with ``Kuu_inverse - covariance[pattern_of[d]]``.
    """

    Z: np.ndarray
    widths: np.ndarray
    signal: float
    noise: float
    alpha: np.ndarray
    Kuu_inverse: np.ndarray
    covariance: np.ndarray
    pattern_of: np.ndarray


class LatentEvaluation(NamedTuple):
    """The bound in nats at ``x``, its gradient w.r.t. x, and the optimal q(u)."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    posterior: LatentPosterior


def divergence_from_prior(mean, variance):
    """Return KL(N(mean, diag(variance)) || N(0, I)) of each row, shape (n,)."""
    return 0.5 * (mean**2 + variance - np.log(variance) - 1.0).sum(axis=1)


class _Collapsed(NamedTuple):
    """What follows from sums over rows: the bound without its terms of single rows, derivatives.

    ``alpha`` (M, D) and ``covariance`` (P, M, M) are those of `LatentPosterior`. The others are
    derivatives w.r.t. the sums of psi2 (P, T), w.r.t. the whitened Kuu (M, M), and w.r.t. log beta.
    """

    value: float
    alpha: np.ndarray
    covariance: np.ndarray
    by_psi2: np.ndarray
    by_whitened_Kuu: np.ndarray
    by_log_beta: float


def _collapse(L, kernel, beta, psi1_Y, psi2_sums, pattern_of):
    """Return `_Collapsed` from psi1^T Y (M, D) and the sums of psi2 (P, T) over the rows."""
    C = solve_lower(L, psi1_Y)
    W = np.empty_like(C)
    value = by_log_beta = 0.0
    by_Kuu, by_psi2 = np.zeros_like(L), np.empty_like(psi2_sums)
    covariance = np.empty((len(psi2_sums), *L.shape))
    for p, packed in enumerate(psi2_sums):
        columns = np.flatnonzero(pattern_of == p)
        Phi = _whitened(L, kernel.full(packed))
        LB = cholesky_of_identity_plus(beta * Phi)
        W[:, columns] = W_p = solve_cholesky(LB, C[:, columns])
        fit = beta**2 * (C[:, columns] * W_p).sum()
        value += 0.5 * (fit - len(columns) * log_det(LB))
        B_inverse = inverse_from_cholesky(LB)
        second_moment = len(columns) * B_inverse + beta**2 * W_p @ W_p.T
        by_Phi = -0.5 * beta * second_moment
        by_log_beta += fit + (by_Phi * Phi).sum()
        by_Kuu += 0.5 * (len(columns) * np.eye(len(L)) - second_moment)
        by_psi2[p] = kernel.counted(_unwhitened(L, by_Phi))
        covariance[p] = _unwhitened(L, B_inverse)
    alpha = beta * solve_lower(L, W, transposed=True)
    return _Collapsed(value, alpha, covariance, by_psi2, by_Kuu, by_log_beta)


def evaluate(params, data):
    """Return the `LatentEvaluation`. Cost N M^2 (Q + P) + N M D + P M^3 for P patterns.

    Raises LinAlgError if Kuu or B cannot be factorised.
    """
    mean, variance, Z, widths, signal, noise = params
    beta, slack, kernel = 1.0 / noise, data.slack, LatentKernel(Z, widths, signal)
    L = cholesky(kernel.Kuu)
    Kuu_inverse = inverse_from_cholesky(L)
    trace_weights = kernel.counted(Kuu_inverse)
    n_pairs = len(trace_weights)
    block_rows = max(1, BLOCK_BYTES // (8 * n_pairs))
    blocks = RowBlocks(len(mean), n_pairs, block_rows=block_rows, **data.options)
    rows = Table(mean), Table(variance)
    psi = blocks.store(kernel.expectations, *rows, n_arrays=1)

    def sums(psi, Y, patterns):
        psi1, psi2 = psi
        return (psi1.T @ Y, patterns @ psi2), (psi2 @ trace_weights,)

    (psi1_Y, psi2_sums), (traces,) = blocks.visit(sums, psi, Table(data.Y), data.patterns)
    collapsed = _collapse(L, kernel, beta, psi1_Y, psi2_sums, data.pattern_of)
    posterior = LatentPosterior(
        Z,
        widths,
        signal,
        noise,
        collapsed.alpha,
        Kuu_inverse,
        collapsed.covariance,
        data.pattern_of,
    )
    ratio = beta * np.maximum(signal - traces, 0.0)
    n_values, squares = data.n_present.sum(), beta * (data.Y**2).sum()
    value = collapsed.value - 0.5 * (n_values * np.log(2.0 * np.pi * noise) + squares)
    value -= 0.5 * data.n_present @ slack.row_term(ratio)
    value -= divergence_from_prior(mean, variance).sum()

    # Minus twice the derivative w.r.t. the residual of each row.
    g = beta * data.n_present * slack.scale(ratio, None)
    by_psi2 = np.vstack([collapsed.by_psi2, 0.5 * trace_weights])

    def pull_back(mean, variance, psi, Y, patterns, g):
        psi1, psi2 = psi
        by_log_psi1 = psi1 * (beta * (Y @ collapsed.alpha.T))
        by_log_psi2 = psi2 * (np.vstack([patterns, g]).T @ by_psi2)
        gradient = kernel.pull_back(by_log_psi1, by_log_psi2, mean, variance)
        return (g @ psi2, *gradient.sums), (gradient.mean.T, gradient.variance.T)

    (weighted_psi2, *sums), (by_mean, by_variance) = blocks.visit(
        pull_back, *rows, psi, Table(data.Y), data.patterns, g
    )
    by_Kuu = collapsed.by_whitened_Kuu - 0.5 * _whitened(L, kernel.full(weighted_psi2))
    by_Z, by_widths, by_log_signal = kernel.pull_back_sums(sums, _unwhitened(L, by_Kuu))
    by_log_signal -= 0.5 * signal * g.sum()
    by_log_beta = collapsed.by_log_beta + 0.5 * (n_values - squares - noise * (g @ ratio))
    gradient = [
        (by_mean.T - mean).ravel(),
        (by_variance.T * variance - 0.5 * (variance - 1.0)).ravel(),
        by_Z.ravel(),
        by_widths * widths,
        [by_log_signal, -by_log_beta],
    ]
    return LatentEvaluation(params.to_vector(), float(value), np.concatenate(gradient), posterior)


def _whitened(L, A):
    """Return L^-1 A L^-T for symmetric A."""
    return solve_lower(L, solve_lower(L, A).T)


def _unwhitened(L, A):
    """Return L^-T A L^-1 for symmetric A."""
    return solve_lower(L, solve_lower(L, A, transposed=True).T, transposed=True)
