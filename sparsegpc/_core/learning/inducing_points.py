"""Select the inducing points of a model, and optimise their locations."""

import numpy as np

from sparsegpc._core.learning.hyperparameters import maximize


def select_points(model, selector, theta, states):
    """Return the `InducingPoints` selected at given hyperparameters and states.

    Parameters
    ----------
    model : SparseModel
    selector : PivotedSelector or FixedSelector
    theta : ndarray of shape (P,)
    states : tuple of states
        States of the sites, which determine the site precisions.
    """
    kernel_theta, _ = model.split(theta)
    points = selector(model.kernel, kernel_theta, model.rows, model.precision(theta, states))
    if model.noise_selector is not None:
        # At the optimum the sites of the log noise variance have a mean precision of one half.
        noise_theta = model.noise_theta(theta)
        noise_points = model.noise_selector(
            model.noise_kernel, noise_theta, model.rows, 0.5 * model.weight
        )
        points = points._replace(Z_noise=noise_points.Z)
    return points


def is_fixed(model, selector):
    """Return whether the selection ignores the hyperparameters and the states.

    The points of a noise process always depend on its kernel.
    """
    return selector.fixed and model.noise_selector is None


def move(model, evaluation, bounds, max_iter, progress):
    """Maximise the bound over theta and the locations of the points together.

    Parameters
    ----------
    model : SparseModel
    evaluation : Evaluation
        Where to start.
    bounds : ndarray of shape (P, 2)
        Lower and upper bounds of theta.
    max_iter : int
    progress : Progress

    Returns
    -------
    Maximum
        Its ``best`` is an `Evaluation`.
    """
    start = model.evaluate(
        evaluation.theta,
        evaluation.points,
        evaluation.states,
        wrt_Z=True,
    )
    progress.count_selection()
    progress.evaluated(model, start)
    spread = model.X.std(axis=0)
    units = np.where(spread > 0.0, spread, 1.0)
    return maximize(model, start, bounds, max_iter=max_iter, progress=progress, units=units)
