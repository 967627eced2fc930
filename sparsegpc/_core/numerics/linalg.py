"""Dense linear algebra: Cholesky factors and triangular solves.

Matrices with one column per data row are C-contiguous of shape (M, N). Operations that cost M^2 N
use numpy's products, which release the interpreter's lock, so that threads can process several
blocks of rows at once. scipy's wrappers of BLAS and LAPACK hold the lock.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf, dpotri, dpstrf

from sparsegpc._core.numerics.floats import EPSILON, TINY

# Squared pivots are at least this multiple of the rounding error of a factorisation, so that this
# error hardly grows as later rows are divided by them.
SAFE_PIVOT = 10.0
# Where the matrix itself has larger errors, jitter grows by this factor up to the largest. A matrix
# that needs more is not a covariance.
JITTER_GROWTH, LARGEST_JITTER = 10.0, 1e-3
# scipy solves triangles up to this size; with larger ones its lock would block other threads.
LARGEST_TRIANGLE = 64


class JitteredFactor(NamedTuple):
    """Lower Cholesky factor of ``A + jitter * mean(diag(A)) * I`` and the relative jitter used."""

    factor: np.ndarray
    jitter: float


def attempted(function, *arguments, **options):
    """Return what the function returns for these arguments, or None if it raises `LinAlgError`."""
    try:
        return function(*arguments, **options)
    except LinAlgError:
        return None


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

    If rounding of a large A makes I + A indefinite, a multiple of the identity of the size of that
    rounding is added. Raises `LinAlgError` if that is not enough.
    """
    B = A.copy()
    B.flat[:: len(B) + 1] += 1.0
    try:
        return cholesky(B)
    except LinAlgError:
        B.flat[:: len(B) + 1] += len(B) * EPSILON * B.diagonal().max()
        return cholesky(B)


def jittered_cholesky(A, jitter=None):
    r"""Factor `A` with the least diagonal jitter that keeps all pivots clear of rounding errors.

    The factor in float64 is that of a matrix near `A` (Higham 2002, theorem 10.3). The errors of
    its diagonal are about :math:`\sqrt M \epsilon` times the mean diagonal, and M instead of
    :math:`\sqrt M` in the worst case. Let :math:`\tau` be `SAFE_PIVOT` times this. If the smallest
    squared pivot is at least :math:`\tau`, there is no jitter. Otherwise the jitter is the
    difference, which is enough because jitter raises each squared pivot by at least its own value.
    So the jitter is a continuous function of `A`, and at most :math:`\tau` unless `A` has larger
    errors.

    Return a `JitteredFactor`. A given `jitter` is used whatever the pivots are. Raises
    `LinAlgError` if `A` is not positive definite with it, or with `LARGEST_JITTER`. Cost M^3 / 3,
    and twice that or more if jitter is needed.
    """
    if jitter is not None:
        return JitteredFactor(_shifted_cholesky(A, jitter), jitter)
    least = SAFE_PIVOT * len(A) ** 0.5 * EPSILON
    factor, pivot = _factor_and_pivot(A, 0.0)
    if pivot >= least:
        return JitteredFactor(factor, 0.0)
    jitter = least - pivot
    while jitter <= LARGEST_JITTER:
        factor, pivot = _factor_and_pivot(A, jitter)
        # Half of it, since rounding may lower the pivot.
        if pivot >= 0.5 * least:
            return JitteredFactor(factor, jitter)
        jitter *= JITTER_GROWTH
    raise LinAlgError(
        f"the covariance of {len(A)} inducing points is not positive definite, even with "
        f"{jitter / JITTER_GROWTH:.0e} of its mean diagonal added to the diagonal: the kernel is "
        "not positive semi-definite, or its values are not finite; check its formula and "
        "parameters, or use another"
    )


def _shifted_cholesky(A, jitter):
    """Return the Cholesky factor of ``A + jitter * mean(diag(A)) * I``."""
    shifted = A.copy()
    shifted.flat[:: len(A) + 1] += jitter * float(A.diagonal().mean())
    return cholesky(shifted)


def _factor_and_pivot(A, jitter):
    """Return the shifted factor, and its smallest squared pivot relative to the diagonal's mean.

    If the factorisation breaks down, the factor is None and the pivot zero.
    """
    try:
        factor = _shifted_cholesky(A, jitter)
    except LinAlgError:
        return None, 0.0
    return factor, float(factor.diagonal().min()) ** 2 / float(A.diagonal().mean())


def semidefinite_root(A, tolerance):
    """Return R of shape (N, r) such that ``R R^T`` is `A` up to rounding errors.

    `A` (N, N) is positive semi-definite but for rounding errors of about the `tolerance`, and is
    overwritten. Pivoted Cholesky factorisation, of cost N r^2, stops when no diagonal entry of the
    rest exceeds the tolerance. A small pivot may multiply rounding errors, so no diagonal entry of
    ``R R^T`` exceeds that of `A`, and those below the tolerance are zero.
    """
    variances = np.where(A.diagonal() > tolerance, A.diagonal(), 0.0)
    if not variances.any():
        return np.empty((len(A), 0))
    factor, pivots, rank, _ = dpstrf(A.T, tol=tolerance, lower=1, overwrite_a=1)
    factor = factor[:, :rank]
    factor *= np.tri(*factor.shape, dtype=bool)
    root = np.empty(factor.shape)
    root[pivots - 1] = factor
    squares = np.einsum("nr,nr->n", root, root)
    root *= np.sqrt(variances / np.maximum(squares, np.maximum(variances, TINY)))[:, None]
    return root


def solve_lower(L, A, *, transposed=False, overwrite=False):
    """Return ``L^-1 A`` (``L^-T A`` if `transposed`) for lower triangular `L`. Cost M^2 N.

    `A` has the shape (M, N) or (M,). The upper triangle of `L` is not read. With `overwrite` the
    result may take the memory of `A`.
    """
    if A.ndim == 1:
        return dtrsv(L, A, lower=1, trans=transposed)
    if A.shape[1] == 1:
        # The recursion copies the triangles on the diagonal, which takes longer than one column.
        return dtrsv(L, A[:, 0], lower=1, trans=transposed)[:, None]
    if overwrite and A.flags.c_contiguous and A.dtype == np.float64:
        X = A
    else:
        X = np.array(A, dtype=np.float64, order="C")
    _solve_in_place(L, X, transposed)
    return X


def _solve_in_place(L, A, transposed):
    """Solve in place by recursion: two solves with halves of `L`, and a product between them."""
    size = len(L)
    if size <= LARGEST_TRIANGLE:
        # BLAS stores matrices by columns, so it gets the transpose (N, M) and solves from the
        # right.
        dtrsm(1.0, L, A.T, side=1, lower=1, trans_a=not transposed, overwrite_b=1)
        return
    middle = LARGEST_TRIANGLE * -(-size // (2 * LARGEST_TRIANGLE))
    first, second = slice(middle), slice(middle, None)
    factor = L[second, first]
    if transposed:
        first, second, factor = second, first, factor.T
    _solve_in_place(L[first, first], A[first], transposed)
    rest = A[second]
    rest -= factor @ A[first]
    _solve_in_place(L[second, second], rest, transposed)


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

    Shape (M, M) with zeros below the diagonal. Apply `mirrored` once to the sum of several. Cost
    M^2 N.
    """
    scaled = A * np.sqrt(weight)
    # numpy detects that this product is symmetric, which halves its cost.
    return np.triu(scaled @ scaled.T)


def mirrored(triangle):
    """Return the symmetric matrix with this upper triangle; entries below it must be zero."""
    full = triangle + triangle.T
    full.flat[:: len(full) + 1] *= 0.5
    return full
