r"""Fit growing subsets of the rows, each from the result of the one before.

On a subset, the optimum and the Hessian are close to those on all rows, and each evaluation is
cheap. Each fit passes its hyperparameters, posterior of f and Hessian on to the next, so the fit of
all rows needs few iterations. The Hessian for the fit of all rows is measured instead, if that pays
(`curvature`).

The optimal length scales depend on the numbers of rows and points: with the same number of points,
they are shorter for fewer rows. With :math:`M \propto \sqrt N` they are closest to those of all
rows. With very many rows for each point they depend on the points alone, so then there are as many
as for all rows.
"""

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.single_start import MANY_ROWS, continue_run
from sparsegpc._core.rows.sources import spaced_rows
from sparsegpc._core.selection.selectors import FixedSelector

# Smaller subsets, with fewer rows, rows for each point, or points, lead to poor starts.
SMALLEST_SUBSET, ROWS_PER_POINT, FEWEST_POINTS = 400, 4, 50
# A subset is this many times as large as the one before.
GROWTH = 4
# Larger subsets add little: P hyperparameters learned from n rows are expected to cost P / 2n nats
# a row.
LARGEST_SUBSET = 200_000
# With this many rows for each point, further ones would not change how long the length scales are.
ENOUGH_ROWS_PER_POINT = 100
# Points that moved for fewer rows than this for each of them suit only these rows.
ROWS_PER_MOVED_POINT = 40


def subsets(model, selector, theta, weak_prior=None):
    """Yield a model of each subset of many rows and its selector of points, the smallest first.

    The rows are evenly spaced, so that a subset of sorted rows covers the inputs. A fixed selector
    chooses its points at `theta`.
    """
    n_rows = len(model.weight)
    if n_rows < MANY_ROWS:
        return
    selector = of_any_rows(model, selector, theta)
    for size in _sizes(n_rows):
        smaller = for_fewer_rows(selector, size, n_rows)
        if size >= ROWS_PER_POINT * smaller.n_points:
            yield model.subset(spaced_rows(model.weight, size), weak_prior), smaller


def subset_for_moves(model, n_points, weak_prior=None):
    """Return a model of a quarter of the rows, or None if the points need more rows."""
    n_rows = len(model.weight)
    size = n_rows // GROWTH
    if n_rows < MANY_ROWS or size < ROWS_PER_MOVED_POINT * n_points:
        return None
    return model.subset(spaced_rows(model.weight, size), weak_prior)


def for_fewer_rows(selector, size, n_rows):
    """Return the selector of points for `size` of `n_rows` rows.

    The number of points is in proportion to the square root of the number of rows, but at least
    `FEWEST_POINTS`, and one for each `ENOUGH_ROWS_PER_POINT` rows. A fixed selector stays as it is.
    """
    if selector.fixed:
        return selector
    by_share = round(selector.n_points * (size / n_rows) ** 0.5)
    return selector.limited(max(by_share, size // ENOUGH_ROWS_PER_POINT, FEWEST_POINTS))


def of_any_rows(model, selector, theta):
    """Return a selector for any rows; a fixed one may hold indices into all rows."""
    if not selector.fixed:
        return selector
    return FixedSelector(select_points(model, selector, theta, model.initial_state()).Z)


def _sizes(n_rows):
    sizes = [n_rows // GROWTH]
    while sizes[-1] // GROWTH >= SMALLEST_SUBSET:
        sizes.append(sizes[-1] // GROWTH)
    return [size for size in sizes[::-1] if size <= LARGEST_SUBSET]


def run_on_subsets(model, first, selector, settings):
    """Fit growing subsets of the rows from the end of a `Run`, and return the best `Run`.

    A small subset may mislead, so each is fitted from the first run, too, and the better fit is
    passed on unless it is no better than a constant function.
    """
    run = first
    try:
        for small, selector_of_small in subsets(model, selector, first.begin, settings.weak_prior):
            if settings.progress.stopped:
                break
            origins = [first] if run is first else [run, first]
            run = max(
                (continue_run(small, origin, selector_of_small, settings) for origin in origins),
                key=lambda run: run.objective,
            )
            if small.is_trivial(run.end):
                run = first
    except LinAlgError:
        # Subsets only save time. If the fit of all rows fails too, it raises this error.
        return first
    return run
