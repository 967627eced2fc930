r"""Selection of inducing points among the rows by partial pivoted Cholesky factorisation.

Given a set of inducing points, row n has the residual :math:`r_n = \tilde K_{nn}`, the part of its
prior variance that the points leave unexplained. If row i becomes a point, too, it is a *pivot*:
with the next column of the Cholesky factor, :math:`l_n = \tilde K_{ni} / \sqrt{r_i}`,

.. math:: \tilde K \leftarrow \tilde K - l l^\top, \qquad r_n \leftarrow r_n - l_n^2.

In a model with site precisions p the residuals cost about :math:`\frac12\sum p_n r_n` nats. This is
minus the standard slack, and half the trace at which Passerello stops (section 3.3.2). The tight
slack is no measure of the cost, since it grows only with the logarithm of the precision of a site.
The rules differ in the choice of the next pivot:

argmax
    The row with the largest :math:`p_n r_n`: heteroscedastic greedy variance (Passerello 2021,
    section 4.3.2), or with unit precisions greedy variance (Burt, Rasmussen, van der Wilk 2020).
sample
    A row drawn with probability proportional to :math:`p_n r_n`: randomly pivoted Cholesky (Chen,
    Epperly, Tropp, Webber 2022) of the covariance scaled by the site precisions.
in_order
    The next row of a given order whose residual is not rounding error. With a random order this is
    uniform choice, the baseline.

All rules are nested: the first m points of a selection are the selection of m points.

No (M, N) array is kept. A pass over the rows computes all residuals. Then points are chosen from
blocks of candidates, and only the residuals of the candidates are updated. Once so many candidates
have been rejected that a pass is as cheap, the next pass follows. Residuals only decrease, so those
of the last pass are upper bounds, and the first two rules stay exact. With `sample`, a row drawn by
its old residual is accepted with probability (new residual) / (old residual), which has the same
distribution as one draw after another (Epperly, Tropp, Webber 2024, algorithm 2.2, with proposals
that serve for many blocks). With `argmax`, the largest gain among the candidates is the largest of
all rows if it exceeds the old gains of all other rows.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.selection.factor import Factor

# A negative precision that is smaller than this fraction of the largest one is a rounding error.
ROUNDING = 1e-12


def select(covariance, X, kdiag, precision, n_points, *, rule, **options):
    """Choose inducing points among N rows and return the `Selection`.

    ``covariance(Z, X)`` returns the kernel between rows of two tables, (m, n), and `kdiag` (N,) is
    its diagonal. The rows `X` are read in blocks and one by one. `precision` (N,) is that of the
    sites. There are at least one point and at most `n_points`: fewer if the tolerance is reached,
    or if the chosen rows span all others up to rounding errors. `rule` is one of the
    `rules`, a function of the `Factor`, whose `options` these are.

    Raises `LinAlgError` if the kernel is zero at every row, turns out not to be positive
    semi-definite, or has values that are not finite, and if a precision is negative or no number.

    The last pass over the rows costs N M^2 and N M values of the kernel. `in_order` needs others
    only to reach a tolerance. `sample` needs few, since the trace falls by a large factor between
    passes. With `argmax` the number of points about doubles between passes, so the total cost is
    two to four times that of the last pass. Memory N + M^2, and a block of rows for each thread.
    Only the passes use several threads.
    """
    wrong = ~(np.isfinite(kdiag) & (kdiag >= 0.0))
    if wrong.any():
        raise LinAlgError(
            f"the kernel's diagonal is {kdiag[wrong][0]} at a row, where it must be finite and not "
            "negative: the kernel is not positive semi-definite, or overflows"
        )
    wrong = ~(precision >= -ROUNDING * np.nanmax(precision))
    if wrong.any():
        raise LinAlgError(
            f"the precision of a site is {precision[wrong][0]}, but must not be negative: the "
            "density of the targets must be log-concave in f"
        )
    precision = np.maximum(precision, 0.0)
    factor = Factor(covariance, X, kdiag, precision, n_points, **options)
    rule(factor)
    if not factor.indices:
        raise LinAlgError(
            "no inducing point can be chosen: the kernel is zero at every row: "
            "give it a positive variance"
        )
    return factor.result()
