"""Rank candidate starts on a subset of the rows, and order the starts of a fit."""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.constant_function import floor
from sparsegpc._core.learning.fit_from import Limits, Start, fit_from, quasi_newton_start
from sparsegpc._core.learning.growing_subsets import start_from_subsets
from sparsegpc._core.selection.selectors import PivotedSelector

# Numbers of rows, inducing points and iterations that the ranking spends on each start.
RANKING_ROWS, RANKING_POINTS, RANKING_ITERATIONS = 1000, 50, 3


def rank(model, starts, bounds, n_points, progress):
    """Return the starts after a few iterations on a subset of the rows, the best first.

    A start that ends at a constant function is returned unchanged, since on all rows it may do
    better. Raises `LinAlgError` if no start can be evaluated.
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
            best = fit_from(model, Start(start), selector, bounds, limits).best
        except LinAlgError as error:
            failure = error.with_traceback(None)
        else:
            ranked.append((best.objective, best.theta if best.objective > constant else start))
    if not ranked:
        raise failure
    ranked.sort(key=lambda pair: -pair[0])
    return [theta for _, theta in ranked]


def order_starts(ranked, restarts, fallbacks):
    """Return pairs (start, needed) without duplicates.

    The best ranked start and the restarts are needed and come first. The other starts are used only
    if all fits so far found a constant function.
    """
    planned = [(theta, True) for theta in (ranked[0], *restarts)]
    for theta in (*ranked[1:], *fallbacks):
        if not any(np.array_equal(theta, other) for other, _ in planned):
            planned.append((theta, False))
    return planned


def starts_at(model, theta, selector, bounds, first, limits):
    """Return a list of `Start` objects at `theta`, to be tried in turn until one succeeds.

    If the first points are given, they belong to `theta`, so no fit of subsets changes it.
    """
    if not limits.max_iter or not len(theta) or limits.progress.stopped:
        return [Start(theta)]
    if first is not None:
        return [quasi_newton_start(model, theta), Start(theta)]
    return [start_from_subsets(model, theta, selector, bounds, limits), Start(theta)]
