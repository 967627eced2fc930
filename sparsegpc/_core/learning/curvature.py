"""Measure the Hessian of the bound on a part of the rows, by differences of its gradient.

A quasi-Newton search learns the Hessian one direction at a time, and assumes a typical curvature in
all others. Many hyperparameters hardly matter, so their curvatures are far smaller, and the search
would go on for long with short steps. The Hessian in nats per row is about the same with fewer rows
and points, where it takes one cheap evaluation of the gradient for each hyperparameter.
"""

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.growing_subsets import for_fewer_rows, of_any_rows
from sparsegpc._core.learning.inducing_points import select_points
from sparsegpc._core.learning.single_start import MANY_ROWS
from sparsegpc._core.optimisers.bfgs import BFGSHessian

# With more hyperparameters, the measurement does not pay.
MOST_PARAMETERS = 150
# Number of rows of the part.
HESSIAN_ROWS = 1250
# The change of theta between two gradients, and the least curvature in nats per row.
STEP, LEAST_CURVATURE = 0.01, 1e-6


def measured_hessian(model, run, selector, settings):
    """Return the `BFGSHessian` of the bound where a `Run` stands, or None.

    Eigenvalues of the Hessian are replaced by their absolute values, so that steps lead away from a
    saddle point (Dauphin et al. 2014). The result is None if the measurement does not pay, if it
    fails, or if the fit is stopped. `selector` selects the points for all rows; for the part see
    `for_fewer_rows`. Cost a selection of points and P + 1 evaluations of the gradient, on
    `HESSIAN_ROWS` rows.
    """
    n_rows, n_params = len(model.weight), len(run.begin)
    pays = n_rows >= MANY_ROWS and 0 < n_params <= MOST_PARAMETERS
    if not pays or settings.progress.stopped:
        return None
    part = model.subsample(HESSIAN_ROWS)
    try:
        selector = of_any_rows(model, selector, run.begin)
        selector = for_fewer_rows(selector, HESSIAN_ROWS, n_rows)
        slopes = _slopes(part, run.start_on(part), selector, settings)
        if slopes is None or not np.isfinite(slopes).all():
            return None
        values, vectors = np.linalg.eigh(0.5 * (slopes + slopes.T) / part.total_weight)
    except LinAlgError:
        # The search learns the Hessian as it goes.
        return None
    values = np.maximum(np.abs(values), LEAST_CURVATURE)
    return BFGSHessian.known(vectors * values @ vectors.T)


def _slopes(part, start, selector, settings):
    """Return minus the derivatives of the bound's gradient, a row for each entry of theta.

    Return None if the fit is stopped.
    """
    theta, states, progress = start.theta, start.states, settings.progress
    states = part.initial_state() if states is None else states
    points = select_points(part, selector, theta, states)

    def gradient(theta, states):
        found = progress.evaluate(part, theta, points, states)
        # A search adds the curvature of the prior itself.
        return found.grad_theta - part.prior.gradient(theta), found.states

    here, states = gradient(theta, states)
    slopes = []
    for k, high in enumerate(settings.bounds[:, 1]):
        if progress.stopped:
            return None
        # Bounds are further apart than STEP.
        step = STEP if theta[k] + STEP <= high else -STEP
        there, _ = gradient(theta + step * (np.arange(len(theta)) == k), states)
        slopes.append((here - there) / step)
    return np.array(slopes)
