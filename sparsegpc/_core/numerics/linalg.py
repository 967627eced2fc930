"""Dense linear algebra shared by all rooms: Cholesky factors and triangular solves.

Matrices with one column per data row are C-contiguous of shape (M, N). Seen from LAPACK they are
Fortran-contiguous (N, M) arrays, so a solve from the left here is a solve from the right there, in
place and without a copy.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotri

from sparsegpc._core.numerics.arrays import empty
from sparsegpc._core.numerics.blas import solve_in_place

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


def cholesky_of_identity_plus(A):
    """Return the lower Cholesky factor of I + A, for `A` (M, M) semi-definite up to rounding.

    Where A is so large that the identity is lost in its rounding, the factor is that of a matrix
    as much larger. Raises `LinAlgError` if that is not enough.
    """
    B = A.copy()
    B.flat[:: len(B) + 1] += 1.0
    try:
        return cholesky(B)
    except LinAlgError:
        B.flat[:: len(B) + 1] += len(B) * np.finfo(np.float64).eps * B.diagonal().max()
        return cholesky(B)


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
        "not positive semi-definite, or its values are not finite; check its formula and "
        "parameters, or use another"
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
    Cost M^2 N.
    """
    if A.ndim == 1:
        return dtrsm(1.0, L, A[None, :], side=1, lower=1, trans_a=not transposed)[0]
    X = A
    if not (overwrite and A.flags.c_contiguous and A.dtype == np.float64):
        X = empty(A.shape)
        X[:] = A
    solve_in_place(L, X, transposed)
    return X


def solve_cholesky(L, A):
    """Return ``(L L^T)^-1 A`` for `A` of shape (M, N) or (M,)."""
    return solve_lower(L, solve_lower(L, A), transposed=True, overwrite=True)


def inverse_from_cholesky(L):
    """Return ``(L L^T)^-1``, shape (M, M). Cost 2 M^3 / 3."""
    return mirrored(dpotri(L, lower=1)[0].T)


def log_det(L):
    """Return ``log det(L L^T)`` of a Cholesky factor."""
    return 2.0 * float(np.log(L.diagonal()).sum())


def column_squares(A):
    """Return the sum of squares of each column of `A`, shape (N,)."""
    return np.einsum("mn,mn->n", A, A)


def weighted_gram(A, weight):
    """Return the upper triangle of ``A diag(weight) A^T`` for non-negative `weight`.

    Shape (M, M) with zeros below the diagonal; a sum of them is `mirrored` once. Cost M^2 N.
    """
    scaled = np.multiply(A, np.sqrt(weight), out=empty(A.shape))
    # numpy sees that this is symmetric and, unlike scipy, lets other threads run meanwhile.
    return np.triu(scaled @ scaled.T)


def mirrored(triangle):
    """Return the symmetric matrix that has this upper triangle; what is below must be zero."""
    full = triangle + triangle.T
    full.flat[:: len(full) + 1] *= 0.5
    return full
