"""The options of a fit by the core that the parameters of an estimator imply."""

import numpy as np
from sklearn.utils import check_random_state

from sparsegpc._core.bounds.slacks import SLACKS, sums_over_rows
from sparsegpc._core.learning.fit_from import Limits
from sparsegpc._core.learning.more_points import FIRST_POINTS, affordable_points
from sparsegpc._core.selection.selectors import FixedSelector
from sparsegpc._estimators.learning.inducing_points import check_inducing_points, make_selector
from sparsegpc._estimators.messages.progress import print_line
from sparsegpc._estimators.selector import InducingPointSelector


def learns(estimator, parameters):
    """Return whether hyperparameters are learned."""
    return estimator.optimizer is not None and len(parameters.theta) > 0


def moves_points(estimator):
    """Return whether every fit moves its points."""
    may_move = estimator.optimizer is not None and estimator.optimize_inducing != "auto"
    return may_move and bool(estimator.optimize_inducing)


def limits_of(estimator, problem):
    """Return the `Limits` of a fit."""
    learned = learns(estimator, problem.parameters) or moves_points(estimator)
    max_iter = estimator.max_iter if learned else 0
    return Limits(problem.parameters.bounds, max_iter, estimator.max_reselections, problem.progress)


def point_selector(estimator, problem, rng, warm=False):
    """Return the selector of points that the parameter `selector` specifies."""
    selector, rows = estimator.selector, problem.rows
    if isinstance(selector, str):
        n_points = estimator.n_inducing
        if n_points is None:
            n_last = len(estimator.inducing_points_) if warm else 0
            n_points = max(FIRST_POINTS, min(n_last, most_points(problem)))
        return make_selector(selector, n_points, estimator.selection_tol, rows.X, rows.weight, rng)
    if not isinstance(selector, InducingPointSelector):
        points = check_inducing_points(selector, estimator.n_features_in_)
        return FixedSelector(points if problem.transform is None else problem.transform(points))
    selector._validate_params()
    for name in ("kernel", "weighting"):
        if getattr(selector, name) is not None:
            raise ValueError(
                f"selector.{name} must be None within {type(estimator).__name__}, which uses its "
                f"own, got {getattr(selector, name)!r}: leave it out"
            )
    if selector.random_state is not None:
        rng = check_random_state(selector.random_state)
    n_points, tol = selector.n_components, selector.tol
    return make_selector(selector.method, n_points, tol, rows.X, rows.weight, rng)


def most_points(problem):
    """Return the most points that a fit uses by default."""
    return affordable_points(len(problem.rows.X), problem.model.n_functions)


def check_points_may_move(problem):
    """Raise ValueError if a kernel has no derivatives w.r.t. the points."""
    kernel, X = problem.parameters.kernel, problem.rows.X
    theta = np.zeros(kernel.n_params)
    try:
        kernel.evaluate(theta, X[:1], X[:1])[1](np.ones((1, 1)), wrt_Z=True)
    except NotImplementedError as error:
        raise ValueError(f"optimize_inducing=True is not possible: {error}") from error


def points_can_move(problem):
    """Return whether the kernel has derivatives w.r.t. the points."""
    try:
        check_points_may_move(problem)
    except ValueError:
        return False
    return True


def reporter(estimator, problem):
    """Return the function that prints each choice of points, None if the estimator is silent."""
    if not estimator.verbose:
        return None

    def report(n_choices, n_points, bound):
        text = f"choice {n_choices}: {n_points} points, bound {bound + problem.offset:.4f}"
        print_line(estimator, text, problem.progress.label)

    return report


def resolve_slack(bound, likelihood, *, in_batches=False):
    """Return the `Slack` named by the parameter `bound`; "auto" means the tightest one."""
    offered, where = likelihood.slacks, ""
    if in_batches:
        offered, where = sums_over_rows(offered), " from minibatches"
    if bound != "auto" and bound not in offered:
        raise ValueError(
            f"bound={bound!r} is not available for {type(likelihood).__name__}{where}: choose "
            f"'auto' or one of {offered}"
        )
    return SLACKS[offered[0] if bound == "auto" else bound]
