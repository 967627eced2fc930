"""Select the inducing points of a model among the rows, or the centroids of rows around these."""

from sparsegpc._core.models.model import trivial_gain
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._core.selection.centroids import centroids


def select_points(model, selector, theta, states, last=None):
    """Return the `InducingPoints` selected at given hyperparameters and states, or their centroids.

    The `states` determine the site precisions. `last` is the `Evaluation` that gave `theta` and
    `states`, if any: if its points are centroids, so are the new ones.
    """
    kernel_theta = model.kernel_theta(theta)
    points = selector(model.kernel, kernel_theta, model.candidates, model.precision(theta, states))
    points = model.with_noise_points(points, theta)
    if selector.or_centroids and last is not None and last.points.indices is None:
        points = _centroids(model, points, last)
    return points


def _centroids(model, points, evaluation):
    kernel_theta = model.kernel_theta(evaluation.theta)
    sites = [solution.sites for solution in evaluation.solutions]
    return centroids(points, model.kernel, kernel_theta, model.X, sites)


def try_centroids(model, selector, evaluation, progress):
    """Return the better of an `Evaluation` at selected rows and one at their centroids.

    The second is made only if the selector allows it, and if the variance that the rows leave
    unexplained costs more than a trivial gain. Better points cannot gain much more than this cost.
    """
    theta, points, states = evaluation.theta, evaluation.points, evaluation.states
    if not selector.or_centroids or points.indices is None or progress.stopped:
        return evaluation
    if evaluation.posterior.unexplained_cost <= trivial_gain(model.total_weight):
        return evaluation
    points = _centroids(model, points, evaluation)
    wrt_theta = evaluation.grad_theta is not None
    # Centroids may lie too close together.
    other = attempted(progress.evaluate, model, theta, points, states, wrt_theta=wrt_theta)
    is_better = other is not None and other.objective > evaluation.objective
    return other if is_better else evaluation


def is_fixed(model, selector):
    """Return whether the selection ignores the hyperparameters and the states.

    The points of a noise process always depend on its kernel.
    """
    return selector.fixed and model.noise_selector is None
