"""Dense linear algebra shared by all rooms: Cholesky factors and triangular solves.

Matrices with one column per data row are C-contiguous of shape (M, N). Seen from LAPACK they are
Fortran-contiguous (N, M) arrays, so a solve from the left here is a solve from the right there, in
place and without a copy.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

SMALLEST_JITTER = 1e-12
JITTER_GROWTH = 10.0
JITTER_ATTEMPTS = 10


class JitteredFactor(NamedTuple):
    """Lower Cholesky factor of ``A + jitter * mean(diag(A)) * I`` and the relative jitter used."""

    factor: np.ndarray
    jitter: float


def cholesky(A):
    """Return the lower Cholesky factor of the symmetric matrix `A` of shape (M, M).

    Raises `LinAlgError` if `A` is not positive definite or holds a value that is not finite.
    Cost M^3/3.
    """
    factor, info = dpotrf(A.T, lower=1, clean=1)
    if info != 0 or not np.isfinite(factor.diagonal().sum()):
        raise LinAlgError(
            f"a matrix of shape {A.shape} is not positive definite (leading minor {info})"
        )
    return factor


def jittered_cholesky(A, jitter=SMALLEST_JITTER, attempts=JITTER_ATTEMPTS):
    """Factor `A` with the smallest diagonal jitter that makes it positive definite.

    Parameters
    ----------
    A : ndarray of shape (M, M)
        Symmetric matrix, positive semi-definite up to rounding.
    jitter : float
        First jitter tried, relative to the mean of the diagonal of `A`. Rows chosen by pivoted
        Cholesky seldom need more than the default. In the worst case a factorisation in float64
        needs about 4 M^2.5 2^-53 (7e-10 at M = 300).
    attempts : int
        How many jitters are tried, each `JITTER_GROWTH` times the last.

    Returns
    -------
    JitteredFactor
        ``factor`` of shape (M, M), lower triangular, and ``jitter``, the relative jitter used.

    Raises
    ------
    LinAlgError
        If no attempt succeeds; the message names the largest jitter tried.
    """
    scale = float(A.diagonal().mean())
    for _ in range(attempts):
        shifted = A.copy()
        shifted.flat[:: len(A) + 1] += jitter * scale
        try:
            return JitteredFactor(cholesky(shifted), jitter)
        except LinAlgError:
            jitter *= JITTER_GROWTH
    raise LinAlgError(
        f"the covariance of {len(A)} inducing points is not positive definite, even with "
        f"{jitter / JITTER_GROWTH:.0e} of its mean diagonal added to the diagonal: the kernel is "
        "not positive semi-definite, or its values are not finite"
    )


def solve_lower(L, A, *, transposed=False, overwrite=False):
    """Return ``L^-1 A`` (``L^-T A`` if `transposed`) for lower triangular `L`.

    Parameters
    ----------
    L : ndarray of shape (M, M)
        Lower triangular; the upper triangle is not read.
    A : ndarray of shape (M, N) or (M,)
    transposed : bool
        Solve with the transpose of `L`.
    overwrite : bool
        Allow the result to take the memory of `A`.

    Returns
    -------
    ndarray of the shape of `A`

    Notes
    -----
    Cost M^2 N. LAPACK's dtrsm, from the right on the transpose of `A`.
    """
    if A.ndim == 1:
        return dtrsm(1.0, L, A[None, :], side=1, lower=1, trans_a=not transposed)[0]
    return dtrsm(1.0, L, A.T, side=1, lower=1, trans_a=not transposed, overwrite_b=overwrite).T


def solve_cholesky(L, A):
    """Return ``(L L^T)^-1 A`` for `A` of shape (M, N) or (M,)."""
    return solve_lower(L, solve_lower(L, A), transposed=True, overwrite=True)


def log_det(L):
    """Return ``log det(L L^T)`` of a Cholesky factor."""
    return 2.0 * float(np.log(L.diagonal()).sum())


def column_squares(A):
    """Return the sum of squares of each column of `A`, shape (N,)."""
    return np.einsum("mn,mn->n", A, A)


def weighted_gram(A, weight):
    """Return ``A diag(weight) A^T`` of shape (M, M) for non-negative `weight`. Cost M^2 N."""
    scaled = A * np.sqrt(weight)
    # numpy calls dsyrk, half the work of dgemm, when both factors are one array.
    return scaled @ scaled.T
