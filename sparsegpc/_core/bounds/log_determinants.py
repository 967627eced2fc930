r"""Bounds on the part of a log determinant that the inducing points miss, from two moments.

With :math:`Q = V^\top V` in place of the kernel matrix K, the log evidence lacks half of the
logarithm of :math:`|K + P^{-1}| / |Q + P^{-1}| = |I + E|`. Here :math:`E = F^{-1/2} R F^{-1/2}` is
positive semi-definite, with :math:`F = I + P^{1/2} Q P^{1/2}` and
:math:`R = P^{1/2} (K - Q) P^{1/2}`, the residual covariance in units of the noise of the sites. Let
:math:`\lambda` be the eigenvalues of E, and :math:`t_1 = \sum \lambda`,
:math:`t_2 = \sum \lambda^2`.

- The function :math:`g(\lambda) = \log(1 + \lambda) / \lambda` is convex. By Jensen's inequality
  with weights :math:`\lambda / t_1`, the mean of g is at least g of the mean :math:`t_2 / t_1`:
  :math:`\log|I + E| \ge (t_1^2 / t_2) \log(1 + t_2 / t_1)`.
- No eigenvalue exceeds :math:`s = \sqrt{t_2}`. On :math:`[0, s]` the function g is below its
  chord, so :math:`\log|I + E| \le t_1 - s + \log(1 + s)`.
- :math:`\log|I + E| \le n \log(1 + t_1 / n)`, where n is the number of rows with
  :math:`p_n > 0`, as E has at most n eigenvalues that are not zero, and the logarithm is concave.
- :math:`\log|I + E| \le \sum_n \log(1 + p_n r_n)`, minus twice the tight slack.

With :math:`C = L_B^{-1} V P^{1/2}` and :math:`L_B L_B^\top = B = I + V P V^\top`, Woodbury's
identity is :math:`F^{-1} = I - C^\top C`. So, with Frobenius norms,

.. math::
    t_1 = \mathrm{tr} R - \mathrm{tr}(C R C^\top), \qquad
    t_2 = |R|^2 - 2 |R C^\top|^2 + |C R C^\top|^2.
"""

from typing import NamedTuple

import numpy as np

# Unit of relative rounding errors. An entry of K - Q is off, relative to the diagonal of K, by
# up to KERNEL_UNITS for the kernel and sqrt(M) for a product of M terms. Sums of non-negative terms
# are off by up to SUM_UNITS.
ROUNDING, KERNEL_UNITS, SUM_UNITS = 1e-15, 10.0, 10.0


class Moments(NamedTuple):
    """The sums of the eigenvalues of E, of their squares, and bounds on the rounding errors.

    ``trace`` is t_1 and ``squares`` is t_2; ``n_rows`` is n, the number of rows with p > 0.
    """

    trace: float
    squares: float
    trace_error: float
    squares_error: float
    n_rows: int


class LogDetBounds(NamedTuple):
    """Bounds on log|I + E|."""

    low: float
    high: float


def eigenvalue_moments(trace, norm, projected_norm, projected, prior_trace, n_rows):
    """Return the `Moments` of one output.

    `trace` is that of R; `norm` and `projected_norm` are the squared Frobenius norms of R and of
    R C^T; `projected` (M, M) is C R C^T; `prior_trace` is the trace of P K, which rounding errors
    are relative to; and `n_rows` is the number of rows whose precision is not zero.
    """
    # The Frobenius norm of the errors of R is at most this.
    error = ROUNDING * (KERNEL_UNITS + np.sqrt(len(projected))) * prior_trace
    return Moments(
        trace - float(projected.trace()),
        norm - 2.0 * projected_norm + float((projected**2).sum()),
        error,
        error * (2.0 * np.sqrt(norm) + error) + SUM_UNITS * ROUNDING * norm,
        n_rows,
    )


def log_det_bounds(moments, tight_log_det):
    """Return the `LogDetBounds`, widened by the rounding errors of the moments.

    `tight_log_det` is the sum of log(1 + p r) over the rows.
    """
    t1 = max(moments.trace - moments.trace_error, 0.0)
    # Without errors t_2 would be at most the square of t_1.
    t2 = min(moments.squares + moments.squares_error, t1**2)
    low = t1 * _mean_log(t2 / t1) if t1 > 0.0 else 0.0
    t1 = max(moments.trace, 0.0) + moments.trace_error
    s = np.sqrt(max(moments.squares - moments.squares_error, 0.0))
    high = min(t1 - s + np.log1p(s), t1 * _mean_log(t1 / max(moments.n_rows, 1)), tight_log_det)
    return LogDetBounds(float(min(low, high)), float(high))


def _mean_log(x):
    """Return log(1 + x) / x for x >= 0."""
    return np.log1p(x) / x if x > 0.0 else 1.0
