r"""Learning from growing subsets of the rows: which rows, and what one subset teaches the next.

Where the bound is best, and how it bends there, is much the same for a share of the rows, at less
than that share of the cost. Carried on from subset to subset are the hyperparameters, what is known
of f, and the curvature of the bound over the hyperparameters, with which few steps are left to do.

How smooth a function is asked for depends on the rows and the points: from as many points for fewer
rows the best length scales come out shorter than for all rows. In trials :math:`M \propto \sqrt N`
ended closest to the optimum of all rows.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.climb import Begin, climb, fresh
from sparsegpc._core.learning.constant_function import floor
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.selection.selectors import FixedSelector

# With fewer rows than the first there are no subsets; none is smaller than the others say.
FEWEST_ROWS, SMALLEST_SUBSET, ROWS_PER_POINT = 5000, 400, 4
# Fewer points than this are not left out.
FEWEST_POINTS = 50
# Each subset has this many times the rows of the one before.
GROWTH = 4


def subsets(model, selector, theta):
    """Yield models of growing subsets of the rows, the smallest first, and their choices of points.

    The rows are evenly spaced: where they are sorted, spread over the inputs.

    Parameters
    ----------
    model : SparseModel
    selector : PivotedSelector or FixedSelector
    theta : ndarray of shape (P,)
        For points that are the same everywhere.
    """
    n_rows = len(model.weight)
    if n_rows < FEWEST_ROWS:
        return
    if selector.fixed:
        # Its points may be rows by their numbers among all of them.
        selector = FixedSelector(select_points(model, selector, theta, model.initial_state()).Z)
    for size in _sizes(n_rows):
        part = selector
        if not selector.fixed:
            n_points = round(selector.n_points * (size / n_rows) ** 0.5)
            part = selector.limited(max(n_points, FEWEST_POINTS))
        if size >= ROWS_PER_POINT * part.n_points:
            yield model.subset(np.linspace(0, n_rows - 1, size).astype(np.intp)), part


def _sizes(n_rows):
    sizes = [n_rows // GROWTH]
    while sizes[-1] // GROWTH >= SMALLEST_SUBSET:
        sizes.append(sizes[-1] // GROWTH)
    return sizes[::-1]


def approach(model, theta, selector, bounds, limits):
    """Climb on growing subsets of the rows, and return the `Begin` of a climb on all of them.

    A small subset may mislead, so each is climbed from `theta`, too, and the better end carried on.
    Where a subset finds nothing better than a constant function, nothing is carried on: a larger
    one may find more.
    """
    best = curvature = None
    try:
        for small, part in subsets(model, selector, theta):
            if limits.progress.stopped:
                break
            begins = [fresh(small, theta)]
            if best is not None:
                begins.append(_carried(best, small, curvature))
            ends = [climb(small, begin, part, bounds, limits).best for begin in begins]
            k = int(np.argmax([end.objective for end in ends]))
            best, curvature = ends[k], begins[k].curvature
            best = best if best.objective > floor(small) else None
        if best is not None:
            return _carried(best, model, curvature)
    except LinAlgError:
        # What a subset cannot tell is left to the climb on all rows, which raises if it fails, too.
        pass
    return fresh(model, theta)


def _carried(evaluation, model, curvature):
    """Return the `Begin` on the rows of `model` that follows from an evaluation on other rows."""
    theta = evaluation.theta
    return Begin(theta, model.states_from(theta, evaluation.posterior), curvature)
