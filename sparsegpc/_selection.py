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
    Epperly, Tropp, Webber 2022) of the covariance scaled by the site precisions. Candidates are
    drawn by the block and thinned by rejection (Epperly, Tropp, Webber 2024, algorithm 2.2), which
    has the law of one draw at a time.
order
    The rows of a given order, whatever the residual: the baseline of uniform choice.

All are nested: the first m points of a selection are the selection of m points. The room sees
columns of the kernel matrix, never the kernel.
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._linalg import cholesky, solve_lower

# A residual below this share of the diagonal is rounding: the row is spanned by the chosen ones.
RANK_TOLERANCE = 1e-10
# A residual variance this far below zero, as a share of the diagonal, is more than rounding.
INDEFINITE = 1e-6
# Gains that differ by less than this share are equal.
TIE = 1e-12
SMALLEST_DRAW, LARGEST_DRAW = 4, 64


class Selection(NamedTuple):
    """Chosen rows in order, and what they leave.

    ``indices`` (M,); ``traces`` (M + 1,), the sum of ``precision * residual`` after 0, 1, ..., M
    points; ``costs`` (M + 1,), the cost per row in nats: half of that over the total weight.
    """

    indices: np.ndarray
    traces: np.ndarray
    costs: np.ndarray


class _Factor:
    """A growing partial Cholesky factorisation of the kernel matrix, with its history."""

    def __init__(self, columns, kdiag, precision, n_points, tol, total_weight, gain_weight):
        self.columns, self.precision, self._gain_weight = columns, precision, gain_weight
        self.kdiag, self.residual = kdiag, kdiag.copy()
        self.n_points = min(n_points, len(kdiag))
        self.rank_floor = RANK_TOLERANCE * kdiag
        self._tol, self._total_weight = tol, total_weight
        self._C = np.empty((self.n_points, len(kdiag)))
        self.indices, self.traces, self.costs = [], [], []
        self._record()

    def _record(self):
        self.traces.append(self.precision @ self.residual)
        self.costs.append(0.5 * self.traces[-1] / self._total_weight)

    @property
    def complete(self):
        # The empty set may satisfy a large tolerance, but a model needs a point all the same.
        n_chosen = len(self.indices)
        return n_chosen == self.n_points or (n_chosen > 0 and self.costs[-1] <= self._tol)

    def gains(self):
        """Return ``gain_weight * residual``, zero where the residual is rounding."""
        return np.where(self.residual > self.rank_floor, self._gain_weight * self.residual, 0.0)

    def candidate_residuals(self, candidates):
        """Return the residual covariance among `candidates`, and their kernel columns less it."""
        C = self._C[: len(self.indices)]
        rows = self.columns(candidates) - C[:, candidates].T @ C
        H = rows[:, candidates]
        if not np.isfinite(rows.sum()):
            raise LinAlgError("the kernel has values that are not finite")
        if (H.diagonal() < -INDEFINITE * self.kdiag[candidates]).any():
            raise LinAlgError(
                "the kernel is not positive semi-definite: given the chosen rows, the variance at "
                f"another is {H.diagonal().min():.3g}"
            )
        # Where the running residual is off by rounding, or by a kernel whose diagonal disagrees
        # with its columns, the columns decide: or a spanned row would be proposed for ever.
        left = np.minimum(H.diagonal(), self.residual[candidates])
        self.residual[candidates] = np.where(left > self.rank_floor[candidates], left, 0.0)
        return H, rows

    def append(self, pivots, rows):
        """Add `pivots`, whose residual covariance with all rows is `rows`, one after the other."""
        try:
            factor = cholesky(rows[:, pivots])
        except LinAlgError as error:
            raise LinAlgError(
                "the kernel is not positive semi-definite, or not symmetric: the covariance of "
                f"{len(pivots)} rows, given the chosen ones, has no Cholesky factor"
            ) from error
        new = solve_lower(factor, rows)
        for pivot, c in zip(pivots, new, strict=True):
            self.residual -= c**2
            np.maximum(self.residual, 0.0, out=self.residual)
            self.residual[pivot] = 0.0
            self._C[len(self.indices)] = c
            self.indices.append(int(pivot))
            self._record()
            if self.complete:
                break

    def result(self):
        return Selection(
            np.array(self.indices, dtype=np.intp), np.array(self.traces), np.array(self.costs)
        )


def _append_one(factor, pivot):
    _, rows = factor.candidate_residuals(np.array([pivot]))
    if factor.residual[pivot] > 0.0:
        factor.append([pivot], rows)


def _pivot_argmax(factor):
    while not factor.complete:
        gains = factor.gains()
        largest = gains.max()
        if largest <= 0.0:
            return
        # The first of those that differ by rounding.
        pivot = int((gains >= (1.0 - TIE) * largest).argmax())
        _append_one(factor, pivot)


def _pivot_order(factor, order):
    for pivot in order:
        if factor.complete:
            return
        if factor.residual[pivot] > factor.rank_floor[pivot]:
            _append_one(factor, pivot)


def _pivot_sample(factor, rng):
    while not factor.complete:
        gains = factor.gains()
        total = gains.sum()
        if total <= 0.0:
            return
        # A number that depends on the points so far only keeps the selection nested.
        n_draws = min(LARGEST_DRAW, SMALLEST_DRAW + len(factor.indices) // 4)
        draws = rng.choice(len(gains), size=n_draws, p=gains / total)
        proposed = factor.residual[draws]
        H, rows = factor.candidate_residuals(draws)
        accepted = _thin(H, proposed, factor.rank_floor[draws], rng)
        if accepted:
            factor.append(draws[accepted], rows[accepted])


def _thin(H, proposed, floor, rng):
    """Return positions of the draws kept, as if each were drawn after the ones before it.

    A draw was proposed with probability proportional to its residual before the block; it is kept
    with probability (its residual now) / (its residual then). `H` is the residual covariance of
    the draws; the weights are the same in both and cancel. Nothing at or below `floor` is kept.
    """
    H = H.copy()
    accepted = []
    for k, threshold in enumerate(rng.uniform(size=len(H)) * proposed):
        if H[k, k] > max(threshold, floor[k]):
            accepted.append(k)
            column = H[:, k] / np.sqrt(H[k, k])
            H -= np.outer(column, column)
    return accepted


def _check_diagonal(kdiag):
    wrong = ~(np.isfinite(kdiag) & (kdiag >= 0.0))
    if wrong.any():
        row = int(wrong.argmax())
        raise LinAlgError(
            f"the kernel's diagonal is {kdiag[row]} at a row, where it must be finite and not "
            "negative: the kernel is not positive semi-definite, or overflows"
        )


def select(
    columns,
    kdiag,
    precision,
    n_points,
    *,
    rule,
    gain_weight=None,
    tol=0.0,
    total_weight=None,
    rng=None,
    order=None,
):
    """Choose inducing points among N rows.

    Parameters
    ----------
    columns : callable
        ``columns(indices)`` returns the kernel between these rows and all rows, shape (b, N).
    kdiag : ndarray of shape (N,)
        Diagonal of the kernel matrix.
    precision : ndarray of shape (N,)
        Site precisions: what a residual costs.
    n_points : int
        Most points to choose, at least one.
    rule : {"argmax", "sample", "order"}
        See the module's text. Ties of "argmax" go to the first row.
    gain_weight : ndarray of shape (N,) or None
        What the rules weigh residuals by. None is `precision`.
    tol : float
        Stop as soon as the cost per row, in nats, is at most this.
    total_weight : float or None
        What "per row" counts: the sum of the sample weights. None is N.
    rng : numpy.random.RandomState or None
        For ``rule="sample"``.
    order : ndarray of int or None
        For ``rule="order"``.

    Returns
    -------
    Selection
        Fewer than `n_points` points if `tol` is reached, or if the chosen rows span all others to
        rounding. At least one.

    Raises
    ------
    LinAlgError
        If the kernel is zero at every row, or its diagonal is negative or not finite.

    Notes
    -----
    Cost N M^2, memory N M.
    """
    _check_diagonal(kdiag)
    total_weight = len(kdiag) if total_weight is None else total_weight
    gain_weight = precision if gain_weight is None else gain_weight
    factor = _Factor(columns, kdiag, precision, n_points, tol, total_weight, gain_weight)
    if rule == "argmax":
        _pivot_argmax(factor)
    elif rule == "sample":
        _pivot_sample(factor, rng)
    elif rule == "order":
        _pivot_order(factor, order)
    else:
        raise ValueError(f"rule must be 'argmax', 'sample' or 'order', got {rule!r}")
    if not factor.indices:
        raise LinAlgError("no inducing point can be chosen: the kernel is zero at every row")
    return factor.result()
