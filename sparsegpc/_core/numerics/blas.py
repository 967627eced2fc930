"""Triangular solves in place that let other threads run meanwhile.

scipy's own wrappers of BLAS hold the interpreter's lock, so the solves of one row block would wait
for those of another. The same routines are called here by the addresses that scipy offers to
compiled code, through ctypes, which gives the lock up.
"""

import ctypes
from ctypes import byref, c_char, c_double, c_float, c_int, c_void_p

import numpy as np
from scipy.linalg import cython_blas

# Triangles up to this size go to trsm; gemm does the rest, at more than twice the rate.
SOLVE_LEAF = 32


def _routine(name, n_arguments):
    """Return a BLAS routine as a function of pointers."""
    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    signature = name_of(capsule)
    if b", int *" not in signature:
        raise ImportError(f"scipy's {name} does not take integers of 32 bits: {signature}")
    return ctypes.CFUNCTYPE(None, *[c_void_p] * n_arguments)(pointer_of(capsule, signature))


# By the type of what is solved for: trsm, gemm, and how they see a number.
_ROUTINES = {
    np.dtype(np.float64): (_routine("dtrsm", 11), _routine("dgemm", 13), c_double),
    np.dtype(np.float32): (_routine("strsm", 11), _routine("sgemm", 13), c_float),
}
_RIGHT, _LOWER = byref(c_char(b"R")), byref(c_char(b"L"))
_PLAIN, _TRANSPOSED = byref(c_char(b"N")), byref(c_char(b"T"))


def solve_in_place(L, A, transposed):
    """Overwrite `A` by ``L^-1 A``, or ``L^-T A``.

    Parameters
    ----------
    L : ndarray of shape (M, M)
        Lower triangular, of the dtype of `A`; the upper triangle is not read.
    A : ndarray of shape (M, N)
        C-contiguous, of float64 or float32.
    transposed : bool

    Notes
    -----
    Cost M^2 N. By halves of `L`: two solves of half the size and a product, which is where most of
    the work is. To BLAS, whose matrices go by columns, `A` is an (N, M) array on the left of L^T.
    """
    if A.size == 0:
        return
    trsm, gemm, number = _ROUTINES[A.dtype]
    L = np.asfortranarray(L)
    n_rows, n_columns = len(L), A.shape[1]
    triangle, rows, item = L.ctypes.data, A.ctypes.data, A.itemsize
    N, LD = byref(c_int(n_columns)), byref(c_int(n_rows))
    one, minus_one = byref(number(1.0)), byref(number(-1.0))
    flip = _PLAIN if transposed else _TRANSPOSED

    def solve(start, stop):
        size = stop - start
        if size <= SOLVE_LEAF:
            corner = triangle + (start * n_rows + start) * item
            own = rows + start * n_columns * item
            M = byref(c_int(size))
            trsm(_RIGHT, _LOWER, flip, _PLAIN, N, M, one, corner, LD, own, N)
            return
        middle = start + SOLVE_LEAF * -(-size // (2 * SOLVE_LEAF))
        first, second = (start, middle), (middle, stop)
        if transposed:
            first, second = second, first
        solve(*first)
        block = triangle + (start * n_rows + middle) * item
        known, wanted = (rows + part[0] * n_columns * item for part in (first, second))
        K, M = byref(c_int(first[1] - first[0])), byref(c_int(second[1] - second[0]))
        gemm(_PLAIN, flip, N, M, K, minus_one, known, N, block, LD, one, wanted, N)
        solve(*second)

    solve(0, n_rows)
