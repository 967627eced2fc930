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

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.blas import dger

from sparsegpc._core.numerics.linalg import solve_lower
from sparsegpc._core.rows.blocks import Table, row_blocks

# A residual below this share of the diagonal is rounding: the row is spanned by the chosen ones.
RANK_TOLERANCE = 1e-10
# A residual variance this far below zero, as a share of the diagonal, is more than rounding, which
# reaches 1e-5 where rows in an unlucky order nearly depend on each other.
INDEFINITE = 1e-3
# Rows in a given order may nearly depend on each other: how far above its rounding error a residual
# must be for its row to become a point.
DIGITS = 10.0
# Gains that differ by less than this share are equal.
TIE = 1e-12
# Candidates in a block. Their number depends on that of the points: so a selection is nested.
SMALLEST_BLOCK, LARGEST_BLOCK = 32, 256
# Share of the rows that may be turned down as candidates before all rows are visited. A pass
# takes less for each row, and "argmax" finds its candidates by sorting.
WASTE_SAMPLE, WASTE_ARGMAX = 0.25, 0.125
# Rows that tell about when a tolerance is reached, and by how much they should say so.
N_PROBES = 512
PROBE_MARGIN = 0.95


class Selection(NamedTuple):
    """Chosen rows in order, and what they leave.

    ``indices`` (M,); ``traces`` (M + 1,), the sum of ``precision * residual`` after 0, 1, ..., M
    points; ``costs`` (M + 1,), the cost per row in nats: half of that over the total weight.
    """

    indices: np.ndarray
    traces: np.ndarray
    costs: np.ndarray


class _Factor:
    """The factor of the chosen rows' covariance, with its history and what is left elsewhere.

    Attributes
    ----------
    indices : list of int
        Chosen rows.
    residual : ndarray of shape (N,)
        What the points of the last pass leave at each row; zero at chosen and spanned rows.
    traces : list of float
        See `Selection`; up to the last pass.
    """

    def __init__(
        self,
        covariance,
        X,
        kdiag,
        precision,
        n_points,
        gain_weight,
        tol,
        total_weight,
        check,
        row_options,
    ):
        self._check = check
        self._covariance, self._X, self._row_options = covariance, X, row_options
        self._kdiag, self._precision, self._gain_weight = kdiag, precision, gain_weight
        self._floor = RANK_TOLERANCE * kdiag
        self._n_points = min(n_points, len(kdiag))
        self._tol, self._total_weight = tol, total_weight
        self._L, self._Z = np.zeros((0, 0)), X[:0]
        self.indices = []
        self.residual = kdiag.copy()
        self.traces = [precision @ kdiag]
        n_probes = min(N_PROBES, len(kdiag)) if tol > 0.0 else 0
        self._probes = np.linspace(0, len(kdiag) - 1, n_probes).astype(np.intp)
        self._probe_X, self._probe_V = X[self._probes], np.empty((0, n_probes))
        self._probe_residual = kdiag[self._probes]

    @property
    def size(self):
        """Number of points so far."""
        return len(self.indices)

    @property
    def block_size(self):
        """Number of candidates to look at together."""
        return min(LARGEST_BLOCK, SMALLEST_BLOCK + self.size // 2)

    def gains(self, rows=slice(None)):
        """Return ``gain_weight * residual``, zero where the residual is rounding."""
        left = self.residual[rows]
        return np.where(left > self._floor[rows], self._gain_weight[rows] * left, 0.0)

    def pass_due(self, n_wasted=0, share=0.0):
        """Return whether to visit the rows: if more than a share of them was turned down, say."""
        return (
            self.size == self._n_points
            or n_wasted > share * len(self.residual)
            or self._seems_complete()
        )

    def _seems_complete(self):
        if self.size < len(self.traces) or not len(self._probes):
            return False
        weight = self._precision[self._probes]
        before = weight @ self.residual[self._probes]
        share = weight @ np.maximum(self._probe_residual, 0.0) / before if before > 0.0 else 1.0
        return self._cost(share * self.traces[-1]) <= PROBE_MARGIN * self._tol

    def _cost(self, trace):
        return 0.5 * trace / self._total_weight

    def candidates(self, rows):
        """Return the `_Candidates` at these rows."""
        X = self._X[rows]
        H = self._covariance(X, X)
        V = _whiten(self._covariance, self._Z, self._L, X)
        H = H - V.T @ V
        if not np.isfinite(H.sum()):
            raise LinAlgError(
                "the kernel has values that are not finite, but all of them must be: check its "
                "parameters, and scale the columns"
            )
        block = _Candidates(rows, X, V, H, self._floor[rows], self._n_points - self.size)
        # Where a kernel's diagonal disagrees with its columns, the columns decide: or a spanned
        # row would be proposed for ever.
        self._floor[rows[H.diagonal() <= block.floor]] = np.inf
        return block

    def gains_of(self, block):
        """Return ``gain_weight * residual`` at the `_Candidates`, as `gains` does."""
        left = block.residual
        return np.where(left > block.floor, self._gain_weight[block.rows] * left, 0.0)

    def errors(self, block):
        """Return the square root of the rounding error of each candidate's residual.

        To first order ``eps * (sum |w|)^2``, where w are the weights of the points, and one of the
        row itself, in the prediction that leaves the residual.
        """
        weights = solve_lower(self._L, block.V, transposed=True) if self.size else block.V
        scale = np.sqrt(self._kdiag[self.indices])
        total = scale @ np.abs(weights) + np.sqrt(self._kdiag[block.rows])
        return np.sqrt(np.finfo(np.float64).eps) * total

    def append(self, block):
        """Add the pivots of these `_Candidates`."""
        pivots, factor = block.pivots, block.factor()
        if not pivots:
            return
        n_old, n_new = self.size, len(pivots)
        if self._check is not None:
            self._check(n_old + n_new)
        L = np.zeros((n_old + n_new, n_old + n_new), order="F")
        L[:n_old, :n_old] = self._L
        L[n_old:, :n_old] = block.V[:, pivots].T
        L[n_old:, n_old:] = factor
        Z = block.X[pivots]
        if len(self._probes):
            new = self._covariance(Z, self._probe_X) - L[n_old:, :n_old] @ self._probe_V
            new = solve_lower(L[n_old:, n_old:], new)
            self._probe_residual -= np.einsum("mn,mn->n", new, new)
            self._probe_V = np.concatenate([self._probe_V, new])
        self._L, self._Z = L, np.concatenate([self._Z, Z])
        chosen = block.rows[pivots]
        self._floor[chosen] = np.inf
        self.indices.extend(chosen.tolist())

    def visit_rows(self):
        """Renew the residuals of all rows, and return whether the selection is complete."""
        blocks = row_blocks(self._X, self.size, **self._row_options)
        (costs,), (residual,) = blocks.visit(
            partial(_leave, self._covariance, self._Z, self._L),
            Table(self._X),
            self._kdiag,
            self._precision,
        )
        if not np.isfinite(residual).all():
            raise LinAlgError(
                "the kernel has values that are not finite, but all of them must be: check its "
                "parameters, and scale the columns"
            )
        residual[self._floor == np.inf] = 0.0
        self.residual = residual
        self._probe_residual = residual[self._probes]
        trace = self._precision @ residual
        # What each point took, added from the end: no digits are lost as the trace falls.
        path = trace + np.append(np.cumsum(costs[: len(self.traces) - 1 : -1])[::-1], 0.0)
        path = np.minimum(path, self.traces[-1])
        self.traces.extend(path[: self.size + 1 - len(self.traces)].tolist())
        # Without new points, rows may have been found to be spanned.
        self.traces[-1] = min(self.traces[-1], trace)
        return self.size == self._n_points or (self.size > 0 and self._cost(trace) <= self._tol)

    def result(self):
        """Return the `Selection` up to the first point that reaches the tolerance."""
        traces = np.array(self.traces)
        costs = self._cost(traces)
        # The empty set may satisfy a large tolerance, but a model needs a point all the same.
        reached = np.flatnonzero(costs[1:] <= self._tol)
        size = self.size if len(reached) == 0 else int(reached[0]) + 1
        indices = np.array(self.indices[:size], dtype=np.intp)
        return Selection(indices, traces[: size + 1], costs[: size + 1])


def _whiten(covariance, Z, L, X):
    """Return ``L^-1 k(Z, X)``; no point has no row of it."""
    return solve_lower(L, covariance(Z, X), overwrite=True) if len(Z) else np.empty((0, len(X)))


def _leave(covariance, Z, L, X, kdiag, precision):
    """Return the cost that each point takes from these rows, and the residual left at each."""
    V = _whiten(covariance, Z, L, X)
    V *= V
    return (V @ precision,), (np.maximum(kdiag - V.sum(axis=0), 0.0),)


class _Candidates:
    """Rows that may become pivots, and their residual covariance given all pivots so far.

    A row may be there twice: when it is taken, rounding is left of its residual at both places.
    """

    def __init__(self, rows, X, V, H, floor, n_wanted):
        self.rows, self.X, self.V = rows, X, V
        self._H, self.floor, self._n_wanted = np.ascontiguousarray(H), floor, n_wanted
        # With the variance that the points explain.
        self._below_zero = -INDEFINITE * (H.diagonal() + np.einsum("mn,mn->n", V, V))
        self.pivots, self.columns = [], []

    @property
    def complete(self):
        """Whether there are as many pivots as were wanted."""
        return len(self.pivots) == self._n_wanted

    @property
    def residual(self):
        """Residual variance at each candidate, a view; shape (b,)."""
        return self._H.diagonal()

    def take(self, k):
        """Make the candidate at position `k` a pivot."""
        column = self._H[k] / np.sqrt(self._H[k, k])
        dger(-1.0, column, column, a=self._H.T, overwrite_a=1)
        self.pivots.append(k)
        self.columns.append(column)

    def factor(self):
        """Return the lower Cholesky factor of the pivots' residual covariance."""
        # Residuals only fall, so what was below zero before a pivot was taken is so still.
        if (self.residual < self._below_zero).any():
            raise LinAlgError(
                "the kernel is not positive semi-definite: given the chosen rows, the variance at "
                f"another is {self.residual.min():.3g}, but must be positive: check its formula "
                "and parameters, or use another"
            )
        columns = np.reshape(self.columns, (-1, len(self.rows)))
        return np.tril(columns[:, self.pivots].T)


def _pivot_sample(factor, rng):
    complete = False
    while not complete:
        ends = np.cumsum(factor.gains())
        if ends[-1] <= 0.0:
            return
        n_wasted = 0
        while not factor.pass_due(n_wasted, WASTE_SAMPLE):
            draws = np.searchsorted(ends, ends[-1] * rng.uniform(size=factor.block_size), "right")
            block = factor.candidates(draws)
            _thin(block, factor.residual[draws], rng)
            factor.append(block)
            n_wasted += len(draws) - len(block.pivots)
        complete = factor.visit_rows()


def _thin(block, proposed, rng):
    """Take draws as if each were drawn after the ones before it.

    A draw was proposed with probability proportional to its residual at the last pass; it is kept
    with probability (its residual now) / (its residual then). The weights are the same in both and
    cancel.
    """
    residual = block.residual
    for k, threshold in enumerate(rng.uniform(size=len(proposed)) * proposed):
        if residual[k] > max(threshold, block.floor[k]) and not block.complete:
            block.take(k)


def _pivot_argmax(factor):
    complete = False
    while not complete:
        gains = factor.gains()
        # Those that differ by rounding from the largest come in the order of the rows.
        gains[gains >= (1.0 - TIE) * gains.max()] = gains.max()
        order = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains)]
        if len(order) == 0:
            return
        negative = -gains[order]
        n_seen = n_wasted = 0
        while not factor.pass_due(n_wasted, WASTE_ARGMAX):
            # Rows that were no candidates yet are still in order.
            n_seen, old = n_seen + factor.block_size, n_seen
            top, rest = _largest(order[:n_seen], gains, n_seen - old)
            if len(top) == 0:
                break
            rivals = _Rivals.of(rest, gains, order[n_seen:], negative[n_seen:])
            block = factor.candidates(top)
            if old == 0 and factor.gains_of(block)[0] > 0.0:
                # Its gain was exact: however much rounding moves it now, no pass is in vain.
                block.take(0)
            _take_largest(factor, block, rivals)
            gains[top] = factor.gains_of(block)
            factor.append(block)
            n_wasted += len(top) - len(block.pivots)
        complete = factor.visit_rows()


def _largest(rows, gains, size):
    """Return the `size` rows of largest gain, or all if these are fewer, and the others."""
    own = gains[rows]
    if len(rows) > size:
        rows = rows[np.argpartition(-own, size - 1)]
    top, rest = rows[:size], rows[size:]
    return top[gains[top] > 0.0], rest


class _Rivals(NamedTuple):
    """The largest gain that rows beside the candidates may have, and the first of these rows."""

    largest: float
    first: int

    @classmethod
    def of(cls, rest, gains, tail, negative):
        """Of rows `rest`, and of rows `tail` in ascending order of their `negative` gains."""
        largest = max(gains[rest].max(initial=0.0), -negative.min(initial=0.0))
        bar = (1.0 - TIE) * largest
        ties = [rest[gains[rest] >= bar], tail[: np.searchsorted(negative, -bar, "right")]]
        return cls(largest, int(np.concatenate(ties).min(initial=len(gains))))


def _take_largest(factor, block, rivals):
    """Take candidates as long as the largest gain of all rows is theirs."""
    while not block.complete:
        gains = factor.gains_of(block)
        largest = max(gains.max(), rivals.largest)
        ties = np.flatnonzero((gains >= (1.0 - TIE) * largest) & (gains > 0.0))
        if len(ties) == 0:
            return
        first = ties[block.rows[ties].argmin()]
        is_tied = rivals.largest >= (1.0 - TIE) * largest
        if is_tied and rivals.first < block.rows[first]:
            return
        block.take(first)


def _pivot_order(factor, order):
    start, complete = 0, False
    while not complete and start < len(order):
        while start < len(order) and not factor.pass_due():
            block = factor.candidates(order[start : start + factor.block_size])
            errors = factor.errors(block)
            for k in range(len(block.rows)):
                left = block.residual[k]
                if left > max(block.floor[k], DIGITS * errors[k] ** 2) and not block.complete:
                    block.take(k)
                    errors += np.abs(block.columns[-1]) / np.sqrt(left) * errors[k]
            factor.append(block)
            start += len(block.rows)
        complete = factor.visit_rows()


def _check_diagonal(kdiag):
    wrong = ~(np.isfinite(kdiag) & (kdiag >= 0.0))
    if wrong.any():
        row = int(wrong.argmax())
        raise LinAlgError(
            f"the kernel's diagonal is {kdiag[row]} at a row, where it must be finite and not "
            "negative: the kernel is not positive semi-definite, or overflows"
        )


def select(
    covariance,
    X,
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
    check=None,
    **row_options,
):
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
    check : callable or None
        ``check(n)`` raises if there cannot be n points; called before the memory grows to that.
    **row_options
        Of `RowBlocks`.

    Returns
    -------
    Selection
        Fewer than `n_points` points if `tol` is reached, or if the chosen rows span all others to
        rounding. At least one.

    Raises
    ------
    LinAlgError
        If the kernel is zero at every row, is found not to be positive semi-definite, or has
        values that are not finite.

    Notes
    -----
    Cost N M^2, and N M values of the kernel, for the last pass over the rows. "order" needs no
    other but for `tol`, "sample" few, since the trace falls by a large factor from one to the next;
    those of "argmax" have about twice the points of the last, which makes its cost two to four
    times that. Memory N + M^2 and a block of rows for each thread. Threads do the passes only.
    """
    _check_diagonal(kdiag)
    total_weight = len(kdiag) if total_weight is None else total_weight
    gain_weight = precision if gain_weight is None else gain_weight
    factor = _Factor(
        covariance,
        X,
        kdiag,
        precision,
        n_points,
        gain_weight,
        tol,
        total_weight,
        check,
        row_options,
    )
    if rule == "argmax":
        _pivot_argmax(factor)
    elif rule == "sample":
        _pivot_sample(factor, rng)
    elif rule == "order":
        _pivot_order(factor, order)
    else:
        raise ValueError(f"rule must be 'argmax', 'sample' or 'order', got {rule!r}")
    if not factor.indices:
        raise LinAlgError(
            "no inducing point can be chosen: the kernel is zero at every row: "
            "give it a positive variance"
        )
    return factor.result()
