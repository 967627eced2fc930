r"""Choice of inducing points among the rows by partial pivoted Cholesky factorisation.

A set of inducing points leaves the residual :math:`r_n = k(x_n, x_n) - q(x_n, x_n)` at each row; in
a model with site precisions p this costs about :math:`\frac12\sum p_n r_n` nats, which is what the
standard slack charges and half the trace that Passerello stops at (section 3.3.2). The tight slack
charges less, but as little as one logarithm for a site however precise: no measure of the cost.
The rules differ in the next pivot:

argmax
    The row with the largest :math:`p_n r_n`: heteroscedastic greedy variance (Passerello 2021,
    section 4.3.2), and with unit precisions greedy variance (Burt, Rasmussen, van der Wilk 2020).
sample
    A row drawn with probability proportional to :math:`p_n r_n`: randomly pivoted Cholesky (Chen,
    Epperly, Tropp, Webber 2022) of the covariance scaled by the site precisions.
order
    The rows of a given order, but those whose residual is rounding: the baseline of uniform choice.

All are nested: the first m points of a selection are the selection of m points. The room sees
values of the kernel, never the kernel.

No (M, N) array is kept. A pass over the rows gives the residual of each; then points are chosen by
the block of candidates, whose residuals alone are renewed, until candidates have been turned down
so often that a pass is as cheap. Residuals only fall, so those of the last pass are upper bounds,
and both rules stay exact: a draw by old residuals is kept with probability (residual now) /
(residual then), which has the law of one draw at a time (Epperly, Tropp, Webber 2024, algorithm
2.2, with the proposals kept over many blocks); the largest gain among the candidates is the largest
of all if it exceeds the old gains of all other rows.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.selection.factor import Factor
from sparsegpc._core.selection.rules import RULES


def _check_diagonal(kdiag):
    wrong = ~(np.isfinite(kdiag) & (kdiag >= 0.0))
    if wrong.any():
        row = int(wrong.argmax())
        raise LinAlgError(
            f"the kernel's diagonal is {kdiag[row]} at a row, where it must be finite and not "
            "negative: the kernel is not positive semi-definite, or overflows"
        )


def select(covariance, X, kdiag, precision, n_points, *, rule, rng=None, order=None, **options):
    """Choose inducing points among N rows.

    Parameters
    ----------
    covariance : callable
        ``covariance(Z, X)`` returns the kernel between rows of two tables, shape (m, n).
    X : array of shape (N, D)
        Sliced block by block, and read at single rows.
    kdiag : ndarray of shape (N,)
        Diagonal of the kernel matrix.
    precision : ndarray of shape (N,)
        Site precisions: what a residual costs.
    n_points : int
        Most points to choose, at least one.
    rule : str
        Of `RULES`, see the module's text.
    rng : numpy.random.RandomState or None
        For ``rule="sample"``.
    order : ndarray of int or None
        For ``rule="order"``.
    **options
        Of `Factor`.

    Returns
    -------
    Selection
        Fewer than `n_points` points if the tolerance is reached, or if the chosen rows span all
        others to rounding. At least one.

    Raises
    ------
    LinAlgError
        If the kernel is zero at every row, is found not to be positive semi-definite, or has
        values that are not finite.

    Notes
    -----
    Cost N M^2, and N M values of the kernel, for the last pass over the rows. "order" needs no
    other but for a tolerance, "sample" few, since the trace falls by a large factor from one to the
    next; those of "argmax" have about twice the points of the last, which makes its cost two to
    four times that. Memory N + M^2 and a block of rows for each thread. Threads do the passes only.
    """
    if rule not in RULES:
        raise ValueError(f"rule must be one of {tuple(RULES)}, got {rule!r}")
    _check_diagonal(kdiag)
    factor = Factor(covariance, X, kdiag, precision, n_points, **options)
    RULES[rule](factor, rng, order)
    if not factor.indices:
        raise LinAlgError(
            "no inducing point can be chosen: the kernel is zero at every row: "
            "give it a positive variance"
        )
    return factor.result()
