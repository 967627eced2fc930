r"""Fits of growing subsets of the rows, each of which starts from the one before.

A share of the rows has its optimum, and its Hessian there, close to those of all rows, at less than
that share of the cost. The hyperparameters, the posterior of f and the Hessian are carried on from
subset to subset, so few iterations are left for all rows.

The best length scales depend on the numbers of rows and of points: with as many points for fewer
rows they are shorter than for all rows. In trials :math:`M \propto \sqrt N` ended closest to the
optimum of all rows.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.constant_function import floor
from sparsegpc._core.learning.fit_from import Start, fit_from, quasi_newton_start
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.selection.selectors import FixedSelector

# There are no subsets of fewer rows than the first, and none has fewer rows, fewer of them for each
# point, or fewer points than the others: so small a subset would mislead.
FEWEST_ROWS, SMALLEST_SUBSET, ROWS_PER_POINT, FEWEST_POINTS = 5000, 400, 4, 50


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


def _sizes(n_rows, growth=4):
    sizes = [n_rows // growth]
    while sizes[-1] // growth >= SMALLEST_SUBSET:
        sizes.append(sizes[-1] // growth)
    return sizes[::-1]


def start_from_subsets(model, theta, selector, bounds, limits):
    """Fit growing subsets of the rows, and return the `Start` of a fit of all rows.

    A small subset may mislead, so each is fitted from `theta`, too, and the better end is carried
    on. Where a subset finds nothing better than a constant function, nothing is carried on: a
    larger one may find more.
    """
    best = hessian = None
    try:
        for small, part in subsets(model, selector, theta):
            if limits.progress.stopped:
                break
            starts = [quasi_newton_start(small, theta)]
            if best is not None:
                starts.append(_carried(best, small, hessian))
            ends = [fit_from(small, start, part, bounds, limits).best for start in starts]
            k = int(np.argmax([end.objective for end in ends]))
            best, hessian = ends[k], starts[k].hessian
            best = best if best.objective > floor(small) else None
        if best is not None:
            return _carried(best, model, hessian)
    except LinAlgError:
        # The fit of all rows does not need the subsets, and raises if it fails, too.
        pass
    return quasi_newton_start(model, theta)


def _carried(evaluation, model, hessian):
    """Return the `Start` on the rows of `model` that follows from an evaluation on other rows."""
    theta = evaluation.theta
    return Start(theta, model.states_from(theta, evaluation.posterior), hessian)
