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
from scipy.optimize import lsq_linear

from sparsegpc._core.numerics.linalg import cholesky, solve_lower
from sparsegpc._core.selection.choices import FixedChoice

# With fewer rows than the first there are no subsets; none is smaller than the others say.
FEWEST_ROWS, SMALLEST_SUBSET, ROWS_PER_POINT = 5000, 400, 4
# Fewer points than this are not left out.
FEWEST_POINTS = 50
# Each subset has this many times the rows of the one before.
GROWTH = 4
# The curvature along a step is taken to be at least this share of what was thought before.
SMALLEST_CURVATURE = 0.2
# Most that a step may change a parameter, to begin with. A gain of less than the first share of
# what was promised halves the step, one of more than the second lets it double.
LONGEST_STEP, POOR_GAIN, GOOD_GAIN = 0.5, 0.1, 0.5
# An ascent ends where a step promises less than this many times the tolerance, or after this many
# steps in a row that gain less than all of it.
SMALLEST_PROMISE, SMALL_STEPS = 1.0, 2
# It is given up where it ends below the best by more than this many times what a step promises.
HOPE = 3.0


def subsets(model, choose, theta):
    """Yield models of growing subsets of the rows, the smallest first, and their choices of points.

    The rows are evenly spaced: where they are sorted, spread over the inputs.

    Parameters
    ----------
    model : SparseModel
    choose : PivotedChoice or FixedChoice
    theta : ndarray of shape (P,)
        For points that are the same everywhere.
    """
    n_rows = len(model.weight)
    if n_rows < FEWEST_ROWS:
        return
    if choose.fixed:
        # Its points may be rows by their numbers among all of them.
        choose = FixedChoice(model.choose(choose, theta, model.initial_state()).Z)
    for size in _sizes(n_rows):
        part = choose
        if not choose.fixed:
            n_points = round(choose.n_points * (size / n_rows) ** 0.5)
            part = choose.limited(max(n_points, FEWEST_POINTS))
        if size >= ROWS_PER_POINT * part.n_points:
            yield model.subset(np.linspace(0, n_rows - 1, size).astype(np.intp)), part


def _sizes(n_rows):
    sizes = [n_rows // GROWTH]
    while sizes[-1] // GROWTH >= SMALLEST_SUBSET:
        sizes.append(sizes[-1] // GROWTH)
    return sizes[::-1]


class Curvature:
    """The curvature of the bound over theta, learned by BFGS updates on the way.

    ``matrix`` (P, P), positive definite, estimates minus the second derivatives, in nats per row.

    Parameters
    ----------
    n_params : int
    guess : float
        The curvature in all directions before any is known.
    """

    def __init__(self, n_params, guess):
        self.matrix = guess * np.eye(n_params)
        self._is_guess = True

    def step(self, theta, slope, bounds, longest):
        """Return the best step by the quadratic model of the bound, and its gain (nats per row).

        Parameters
        ----------
        theta, slope : ndarray of shape (P,)
            The slope in nats per row.
        bounds : ndarray of shape (P, 2)
            Of theta.
        longest : float
            Most that a parameter may change.
        """
        low = np.maximum(bounds[:, 0] - theta, -longest)
        high = np.minimum(bounds[:, 1] - theta, longest)
        free = low < high
        step = np.zeros(len(theta))
        if free.any():
            # The highest point of slope @ step - step @ matrix @ step / 2, as least squares.
            L = cholesky(self.matrix[np.ix_(free, free)])
            target = solve_lower(L, slope[free])
            step[free] = lsq_linear(L.T, target, (low[free], high[free]), method="bvls").x
        return step, float(slope @ step - 0.5 * step @ self.matrix @ step)

    def learn(self, step, fall):
        """Learn from the `fall` of the slope (nats per row) along a step, shape (P,) each."""
        along = float(step @ fall)
        if self._is_guess and along > 0.0:
            self.matrix = float(fall @ fall) / along * np.eye(len(step))
            self._is_guess = False
        expected = self.matrix @ step
        thought = float(step @ expected)
        if along < SMALLEST_CURVATURE * thought:
            # Powell's damping: the matrix stays positive definite.
            share = (1.0 - SMALLEST_CURVATURE) * thought / (thought - along)
            fall = share * fall + (1.0 - share) * expected
            along = SMALLEST_CURVATURE * thought
        self.matrix = (
            self.matrix + np.outer(fall, fall) / along - np.outer(expected, expected) / thought
        )


def follow(model, start, bounds, max_iter, curvature, best=-np.inf, progress=None):
    """Maximise the bound over theta by quasi-Newton steps, from a curvature that is known.

    Parameters
    ----------
    model : SparseModel
    start : Evaluation
        With its gradient.
    bounds : ndarray of shape (P, 2)
    max_iter : int
        Most steps.
    curvature : Curvature
        Learns on.
    best : float
        What was reached elsewhere: an ascent that will not come near is given up.
    progress : Progress or None
        Is told of the evaluations, and may stop the ascent.

    Returns
    -------
    evaluation : Evaluation
        The best.
    ended : bool
        Whether it ended by itself, before `max_iter`.
    failed : bool
        Whether the bound could not be computed somewhere on the way.

    Raises
    ------
    LinAlgError
        If the gradient at `start` is not finite.
    """
    current, longest, n_small, failed = start, LONGEST_STEP, 0, False
    rows = model.total_weight
    slope = start.grad_theta / rows
    if not np.isfinite(slope).all():
        raise LinAlgError("the gradient of the bound is not finite")
    for n_steps in range(max_iter + 1):
        step, promised = curvature.step(current.theta, slope, bounds, longest)
        promised *= rows
        if promised < SMALLEST_PROMISE * model.tol or current.bound + HOPE * promised < best:
            return current, True, failed
        if n_steps == max_iter:
            break
        model.counts.optimizer_iterations += 1
        theta = np.clip(current.theta + step, *bounds.T)
        length = float(np.abs(step).max())
        try:
            trial = model.evaluate(theta, current.chosen, current.states, jitter=current.jitter)
        except LinAlgError:
            trial = None
        if trial is not None and progress is not None:
            progress.evaluated(model, trial)
        if trial is None or not np.isfinite(trial.grad_theta).all():
            # A step too far.
            failed, longest = True, 0.5 * length
            continue
        trial_slope = trial.grad_theta / rows
        curvature.learn(step, slope - trial_slope)
        gain = trial.bound - current.bound
        if gain < POOR_GAIN * promised:
            longest = 0.5 * length
        elif gain > GOOD_GAIN * promised:
            longest = max(longest, 2.0 * length)
        if gain > 0.0:
            current, slope = trial, trial_slope
        if progress is not None and progress.stopped:
            break
        n_small = n_small + 1 if gain < model.tol else 0
        if n_small == SMALL_STEPS:
            return current, True, failed
    return current, False, failed
