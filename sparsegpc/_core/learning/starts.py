"""Where to start: the candidates ranked on a subset of the rows, and the order of the climbs."""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.climb import Begin, Limits, climb, fresh
from sparsegpc._core.learning.constant_function import floor
from sparsegpc._core.learning.growing_subsets import approach
from sparsegpc._core.selection.selectors import PivotedSelector

# Ranking the starts: rows, inducing points and steps spent on each.
RANKING_ROWS, RANKING_POINTS, RANKING_ITERATIONS = 1000, 50, 3


def rank(model, starts, bounds, n_points, progress):
    """Return the starts, each after a few iterations on a subset of the rows, the best first.

    A start that fell to a constant function there is returned as it was: on all rows it may not.
    Raises `LinAlgError` if none can be evaluated.
    """
    n_rows = len(model.weight)
    if n_rows > RANKING_ROWS:
        model = model.subset(np.linspace(0, n_rows - 1, RANKING_ROWS).astype(np.intp))
    selector = PivotedSelector("argmax", min(n_points, RANKING_POINTS))
    limits, constant = Limits(RANKING_ITERATIONS, 0, progress), floor(model)
    ranked, failure = [], None
    for start in starts:
        if ranked and progress.stopped:
            break
        try:
            best = climb(model, Begin(start), selector, bounds, limits).best
        except LinAlgError as error:
            failure = error.with_traceback(None)
        else:
            ranked.append((best.objective, best.theta if best.objective > constant else start))
    if not ranked:
        raise failure
    ranked.sort(key=lambda pair: -pair[0])
    return [theta for _, theta in ranked]


def plan(ranked, restarts, spares):
    """Return the starts in order, each once, and whether each is climbed from in any case.

    The others, behind them, are climbed from for want of better.
    """
    planned = [(theta, True) for theta in (ranked[0], *restarts)]
    for theta in (*ranked[1:], *spares):
        if not any(np.array_equal(theta, other) for other, _ in planned):
            planned.append((theta, False))
    return planned


def begins(model, theta, selector, bounds, first, limits):
    """Return where to begin a climb from `theta`, in turns until one succeeds.

    Points that are given to begin with belong to `theta`, which therefore stays.
    """
    if not limits.max_iter or not len(theta) or limits.progress.stopped:
        return [Begin(theta)]
    if first is not None:
        return [fresh(model, theta), Begin(theta)]
    return [approach(model, theta, selector, bounds, limits), Begin(theta)]
