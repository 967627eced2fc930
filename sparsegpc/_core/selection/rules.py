"""Rules of selection, which choose the next pivot.

A rule is a function of the `Factor`; what else it needs is bound to it by `functools.partial`. It
appends candidates to the factor until ``factor.visit_rows()`` returns true, or no row is left. Its
first m points must not depend on the number of points.
"""

from typing import NamedTuple

import numpy as np

# Gains count as equal if their relative difference is less than this.
TIE = 1e-12
# A residual that is more than this many times its estimated rounding error is real.
SAFETY = 10.0


def sample(factor, rng, *, waste=0.25):
    """Draw rows one after the other from `rng`, with probability proportional to their gains.

    All rows are visited as soon as the number of rejected candidates exceeds the fraction `waste`
    of the rows. The fraction is below one since a candidate costs more than a row in a pass.
    """
    complete = False
    while not complete:
        ends = np.cumsum(factor.gains())
        if ends[-1] <= 0.0:
            return
        n_wasted = 0
        while not factor.pass_due(n_wasted, waste):
            draws = np.searchsorted(ends, ends[-1] * rng.uniform(size=factor.block_size), "right")
            block = factor.candidates(draws)
            _thin(block, factor.residual[draws], rng)
            factor.append(block)
            n_wasted += len(draws) - len(block.pivots)
        complete = factor.visit_rows()


def _thin(block, proposed, rng):
    """Accept some of the draws, as if each were drawn given the ones before it.

    A row was drawn with probability proportional to its gain at the last pass. It is accepted with
    probability (current residual) / (residual at the last pass); the weights of the gains cancel.
    """
    residual = block.residual
    for k, threshold in enumerate(rng.uniform(size=len(proposed)) * proposed):
        if residual[k] > max(threshold, block.floor[k]) and not block.complete:
            block.take(k)


def argmax(factor, *, waste=0.125):
    """Take the row with the largest gain, one after the other, and the first of equal ones.

    All rows are visited as soon as the number of rejected candidates exceeds the fraction `waste`
    of the rows.
    """
    complete = False
    while not complete:
        gains = factor.gains()
        # Gains that differ from the largest only by rounding count as ties: the first row wins.
        gains[gains >= (1.0 - TIE) * gains.max()] = gains.max()
        by_gain = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains > 0.0)]
        if len(by_gain) == 0:
            return
        negative = -gains[by_gain]
        n_proposed = n_wasted = 0
        while not factor.pass_due(n_wasted, waste):
            # Rows beyond n_proposed have not been candidates, so they are still in order.
            n_proposed, n_before = n_proposed + factor.block_size, n_proposed
            top, rest = _largest(by_gain[:n_proposed], gains, n_proposed - n_before)
            if len(top) == 0:
                break
            rivals = _Rivals.of(rest, gains, by_gain[n_proposed:], negative[n_proposed:])
            block = factor.candidates(top)
            if n_before == 0 and block.residual[0] > block.floor[0]:
                # The gains are exact after a pass, so the first row has the largest. Taking it at
                # once, whatever the rounding errors, adds a point after every pass, unless the row
                # is spanned and never a candidate again. So the loop ends.
                block.take(0)
            _take_largest(factor, block, rivals)
            gains[top] = factor.gains_of(block)
            factor.append(block)
            n_wasted += len(top) - len(block.pivots)
        complete = factor.visit_rows()


def _largest(rows, gains, size):
    """Return the `size` rows with the largest positive gains, or fewer, and the other rows."""
    if len(rows) > size:
        rows = rows[np.argpartition(-gains[rows], size - 1)]
    top, rest = rows[:size], rows[size:]
    return top[gains[top] > 0.0], rest


class _Rivals(NamedTuple):
    """The largest possible gain of a row that is not a candidate, and the first row that has it."""

    largest: float
    first: int

    @classmethod
    def of(cls, rest, gains, tail, negative):
        """Return the rivals among the rows `rest` and `tail`.

        `negative` holds minus the gains of `tail`, in ascending order.
        """
        largest = max(gains[rest].max(initial=0.0), -negative.min(initial=0.0))
        threshold = (1.0 - TIE) * largest
        ties = [
            rest[gains[rest] >= threshold],
            tail[: np.searchsorted(negative, -threshold, "right")],
        ]
        return cls(largest, int(np.concatenate(ties).min(initial=len(gains))))


def _take_largest(factor, block, rivals):
    """Take candidates as long as one of them has the largest gain of all rows."""
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


def in_order(factor, order):
    """Take the rows `order` in turn, except those whose residual is rounding error.

    Rows in any order may be nearly linearly dependent, so a residual must exceed `SAFETY` times its
    estimated rounding error.
    """
    start, complete = 0, False
    while not complete and start < len(order):
        while start < len(order) and not (factor.pass_due() or factor.has_doubled()):
            block = factor.candidates(order[start : start + factor.block_size])
            errors = factor.errors(block)
            for k in range(len(block.rows)):
                residual = block.residual[k]
                if residual > max(block.floor[k], SAFETY * errors[k] ** 2) and not block.complete:
                    block.take(k)
                    errors += np.abs(block.columns[-1]) / np.sqrt(residual) * errors[k]
            factor.append(block)
            start += len(block.rows)
        complete = factor.visit_rows()
