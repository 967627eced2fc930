"""The rules of selection: which row is the next pivot.

A rule is called as ``rule(factor, rng, order)``. It appends candidates to the `Factor` until
``factor.visit_rows()`` says that the selection is complete, or no row is left to take. Its first m
points must be the same however many are asked for. To add a rule, write a function and
add its name to `RULES`.
"""

from typing import NamedTuple

import numpy as np

# Gains that differ by less than this share are equal.
TIE = 1e-12


def sample(factor, rng, order, waste=0.25):
    """Draw rows with probability proportional to their gain, one after the other.

    All rows are visited once more than the share `waste` of them was turned down. A pass takes less
    for each row than candidates do.
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
    """Take draws as if each were drawn after the ones before it.

    A draw was proposed with probability proportional to its residual at the last pass; it is kept
    with probability (its residual now) / (its residual then). The weights are the same in both and
    cancel.
    """
    residual = block.residual
    for k, threshold in enumerate(rng.uniform(size=len(proposed)) * proposed):
        if residual[k] > max(threshold, block.floor[k]) and not block.complete:
            block.take(k)


def argmax(factor, rng, order, waste=0.125):
    """Take the row with the largest gain, one after the other; the first of equal ones.

    All rows are visited once more than the share `waste` of them was turned down.
    """
    complete = False
    while not complete:
        gains = factor.gains()
        # Those that differ by rounding from the largest come in the order of the rows.
        gains[gains >= (1.0 - TIE) * gains.max()] = gains.max()
        by_gain = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains)]
        if len(by_gain) == 0:
            return
        negative = -gains[by_gain]
        n_seen = n_wasted = 0
        while not factor.pass_due(n_wasted, waste):
            # Rows that were no candidates yet are still in order.
            n_seen, old = n_seen + factor.block_size, n_seen
            top, rest = _largest(by_gain[:n_seen], gains, n_seen - old)
            if len(top) == 0:
                break
            rivals = _Rivals.of(rest, gains, by_gain[n_seen:], negative[n_seen:])
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


def in_order(factor, rng, order, digits=10.0):
    """Take the rows of a given order, but for those whose residual is rounding.

    Such rows may nearly depend on each other: a residual must exceed `digits` times its rounding
    error.
    """
    start, complete = 0, False
    while not complete and start < len(order):
        while start < len(order) and not (factor.pass_due() or factor.has_doubled()):
            block = factor.candidates(order[start : start + factor.block_size])
            errors = factor.errors(block)
            for k in range(len(block.rows)):
                left = block.residual[k]
                if left > max(block.floor[k], digits * errors[k] ** 2) and not block.complete:
                    block.take(k)
                    errors += np.abs(block.columns[-1]) / np.sqrt(left) * errors[k]
            factor.append(block)
            start += len(block.rows)
        complete = factor.visit_rows()


RULES = {"argmax": argmax, "sample": sample, "order": in_order}
