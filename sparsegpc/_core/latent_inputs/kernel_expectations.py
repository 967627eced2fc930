r"""Expectations of the squared exponential kernel at a Gaussian input, and their derivatives.

The input of row n has the distribution :math:`N(m_n, \mathrm{diag}(s_n))` in Q dimensions. With a
bump :math:`b(x; c, h) = \exp(-\frac12 \sum_q (x_q - c_q)^2 / h_q)` the kernel is
:math:`k(x, z) = \sigma^2 b(x; z, \ell^2)`, and so is, up to a factor, the product of two kernels:

.. math:: k(x, z)\, k(x, z') = \sigma^4 \rho\, b(x; \tfrac12(z + z'), \tfrac12 \ell^2), \qquad
   \rho = \exp\bigl(-\tfrac14 \textstyle\sum_q (z_q - z_q')^2 / \ell_q^2\bigr).

So one expectation is all that is needed:

.. math:: E[b(x_n; c, h)] = \prod_q (1 + s_{nq}/h_q)^{-1/2}
   \exp\Bigl(-\frac{(m_{nq} - c_q)^2}{2 (s_{nq} + h_q)}\Bigr).

In the literature the expectations of k are psi1, those of the products psi2 (Titsias and Lawrence
2010). Derivatives are those w.r.t. the logarithm of a bump, which avoids divisions by small
numbers.
"""

from typing import NamedTuple

import numpy as np

# The traces of the bound need the inverse of Kuu. The inducing variables are those of f plus a
# little noise, of this fraction of the kernel's variance, for which the bound holds as well.
JITTER = 1e-6


def expected_bumps(mean, variance, centres, widths):
    """Return the expectations, shape (n, T). Cost n T Q, without an array of shape (n, T, Q).

    `mean` and `variance` have the shape (n, Q), `centres` (T, Q), and `widths`, the h of the
    formula, in the units of a variance, (Q,).
    """
    precision = 1.0 / (variance + widths)
    scaled = mean * precision
    own = (mean * scaled - np.log(widths * precision)).sum(axis=1)
    # Squared distances by products of matrices.
    exponent = precision @ (centres**2).T
    exponent -= 2.0 * (scaled @ centres.T)
    exponent += own[:, None]
    exponent *= -0.5
    return np.exp(exponent, out=exponent)


class BumpGradient(NamedTuple):
    """Derivatives of a scalar w.r.t. the arguments of `expected_bumps`, of their shapes."""

    mean: np.ndarray
    variance: np.ndarray
    centres: np.ndarray
    widths: np.ndarray


def pull_back_bumps(weights, mean, variance, centres, widths):
    """Return the `BumpGradient` from the derivatives w.r.t. the logarithms, shape (n, T)."""
    precision = 1.0 / (variance + widths)
    scaled = mean * precision
    total = weights.sum(axis=1)[:, None]
    first, second = weights @ centres, weights @ centres**2
    squared_distance = mean * (mean * total - 2.0 * first) + second
    # The derivative w.r.t. s + h.
    by_sum = 0.5 * precision * (precision * squared_distance - total)
    return BumpGradient(
        precision * (first - mean * total),
        by_sum,
        weights.T @ scaled - centres * (weights.T @ precision),
        by_sum.sum(axis=0) + 0.5 * total.sum() / widths,
    )


class RowGradient(NamedTuple):
    """Derivatives w.r.t. the distributions of n rows, and terms of sums over the rows.

    ``mean`` and ``variance`` have the shape (n, Q); ``sums`` is for `LatentKernel.pull_back_sums`.
    """

    mean: np.ndarray
    variance: np.ndarray
    sums: tuple


class LatentKernel:
    """The kernel of latent inputs and M inducing points, and its expectations.

    The points Z have the shape (M, Q), and the widths, squared length scales, (Q,); `signal` is the
    variance. ``Kuu`` (M, M) includes `JITTER`. Symmetric matrices (M, M) are packed: a vector has
    their T = M (M + 1) / 2 entries on and below the diagonal, one for each pair of points.
    """

    def __init__(self, Z, widths, signal):
        self._Z, self._widths, self._signal = Z, widths, signal
        self._first, self._second = np.tril_indices(len(Z))
        self._difference = Z[self._first] - Z[self._second]
        self._middle = 0.5 * (Z[self._first] + Z[self._second])
        # The factor rho of the module's formula.
        self._correlation = np.exp(-0.25 * (self._difference**2 @ (1.0 / widths)))
        self._count = np.where(self._first == self._second, 1.0, 2.0)
        self.Kuu = self.full(signal * self._correlation**2)
        self.Kuu.flat[:: len(Z) + 1] += JITTER * signal

    def full(self, packed):
        """Return the symmetric matrix (M, M) with these entries (T,)."""
        matrix = np.empty((len(self._Z), len(self._Z)))
        matrix[self._first, self._second] = packed
        matrix[self._second, self._first] = packed
        return matrix

    def counted(self, matrix):
        """Return w (T,) such that ``w @ packed`` is the inner product with a symmetric matrix."""
        return self._count * matrix[self._first, self._second]

    def counted_outer(self, columns):
        """Return `counted` of the outer product of each column of (M, D), shape (D, T)."""
        return (self._count[:, None] * columns[self._first] * columns[self._second]).T

    def to_points(self, X):
        """Return k(X, Z) of known inputs (n, Q), shape (n, M)."""
        return self._signal * expected_bumps(X, np.zeros_like(X), self._Z, self._widths)

    def expectations(self, mean, variance):
        """Return psi1 (n, M) and the packed psi2 (n, T) of n rows."""
        psi1 = expected_bumps(mean, variance, self._Z, self._widths)
        psi2 = expected_bumps(mean, variance, self._middle, 0.5 * self._widths)
        psi1 *= self._signal
        psi2 *= self._signal**2 * self._correlation
        return psi1, psi2

    def pull_back(self, by_log_psi1, by_log_psi2, mean, variance):
        """Return the `RowGradient` from derivatives w.r.t. the logarithms of psi1 and psi2."""
        one = pull_back_bumps(by_log_psi1, mean, variance, self._Z, self._widths)
        two = pull_back_bumps(by_log_psi2, mean, variance, self._middle, 0.5 * self._widths)
        sums = one.centres, two.centres, one.widths + 0.5 * two.widths
        sums = *sums, by_log_psi1.sum(), by_log_psi2.sum(axis=0)
        return RowGradient(one.mean + two.mean, one.variance + two.variance, sums)

    def pull_back_sums(self, sums, by_Kuu):
        """Return the derivatives w.r.t. Z (M, Q), the widths (Q,) and the log of the variance.

        `sums` are those of the `RowGradient` over all rows, `by_Kuu` (M, M) is symmetric.
        """
        by_Z, by_middle, by_widths, by_log_psi1, by_log_psi2 = sums
        by_log_Kuu = self.counted(by_Kuu) * self._signal * self._correlation**2
        by_log_signal = by_log_psi1 + 2.0 * by_log_psi2.sum() + by_log_Kuu.sum()
        by_log_signal += JITTER * self._signal * by_Kuu.trace()
        # Through rho, whose square is in Kuu.
        weighted = (by_log_psi2 + 2.0 * by_log_Kuu)[:, None] * self._difference
        by_difference = -0.5 * weighted / self._widths
        np.add.at(by_Z, self._first, 0.5 * by_middle + by_difference)
        np.add.at(by_Z, self._second, 0.5 * by_middle - by_difference)
        by_widths = by_widths + 0.25 * (weighted * self._difference).sum(axis=0) / self._widths**2
        return by_Z, by_widths, by_log_signal
