"""Replace the RBF of the default kernel by a Matérn kernel if the targets vary less smoothly.

A function with an RBF has derivatives of any order, and its parts determine each other over long
distances. If a Matérn kernel with nu = 3/2 has a higher bound, learning goes on with that kernel.
This is decided with as many points as a fit ends with: rougher functions need more of them.
"""

from copy import copy

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import STOPPED, Starts
from sparsegpc._core.learning.hyperparameters import typical_hessian
from sparsegpc._core.learning.single_start import Start, fit_from
from sparsegpc._core.selection.selectors import FixedSelector
from sparsegpc._estimators.kernels.named_kernels import ROUGHER
from sparsegpc._estimators.learning.after_search import with_more_points, with_most_points
from sparsegpc._estimators.learning.comparison import FIRST_GAIN
from sparsegpc._estimators.learning.point_selection import (
    AUTO,
    PIVOTED,
    has_more_points,
    point_selector,
    selector_by_name,
)
from sparsegpc._estimators.learning.search import Learned, search

# Length scales of the Matérn kernel begin at this many times those of the RBF.
LONGER = 1.6


def with_rougher_kernel(builder, learned):
    """Return what is `Learned` with the Matérn kernel if that is better, else the given.

    It is tried if the default kernel was learned by an estimator that may replace it. It needs more
    points, so it is not tried if they have a cost.
    """
    problem, result, _ = learned
    estimator, choice = problem.estimator, problem.choice
    is_open = estimator._may_be_rough and choice.kernel is None and estimator.point_cost == 0.0
    if not is_open or not problem.learns or result.trivial:
        return learned
    if result.stopped:
        return learned._replace(result=result._replace(message=STOPPED))
    rougher = builder.build(choice._replace(kernel=ROUGHER))
    needed = result.best.objective + FIRST_GAIN
    try:
        other = _climbed(rougher, result, needed)
        is_better = other.best.objective > needed
        bound, without = (each.best.elbo + problem.offset for each in (other, result))
        problem.print_line(
            f"Matern 3/2: bound {bound:.4f}, with RBF {without:.4f}: "
            f"{'kept' if is_better else 'left out'}"
        )
        if is_better:
            return _continued(rougher, other)
    except LinAlgError:
        # The RBF remains.
        pass
    return learned.evaluated_last()


def _climbed(rougher, result, needed):
    """Return the `FitResult` of a climb from the end of the fit with the RBF.

    It ends early if it is not expected to come near the objective that is `needed`.
    """
    parameters, theta = rougher.parameters, result.best.theta.copy()
    for k, (column, effect) in enumerate(zip(parameters.columns, parameters.effects, strict=True)):
        if column is not None and effect is None and k < rougher.model.kernel.n_params:
            theta[k] += np.log(LONGER)
    theta = np.clip(theta, *parameters.bounds.T)
    hessian = copy(result.hessian) or typical_hessian(rougher.model, len(theta))
    limits, first = rougher.limits._replace(max_reselections=0), result.best.points
    selector = _selector_of_more(rougher, len(first.Z))
    if selector is None:
        selector = FixedSelector(first.Z)
    else:
        # Beyond the tolerance, further points gained nothing with the RBF, but may do so here.
        first = None
    start = Start(theta, result.best.states, hessian)
    return fit_from(rougher.model, start, selector, limits, first, rival=needed)


def _selector_of_more(rougher, n_points):
    """Return the selector of all points that a fit with the Matérn kernel may use.

    By default they are the first 200, or the most if the fit with the RBF has used more. Return
    None if that fit has used all of them, or if they do not depend on the kernel.
    """
    estimator = rougher.estimator
    if isinstance(estimator.selector, str) and estimator.selector not in (AUTO, *PIVOTED):
        return None
    if estimator.n_inducing == "auto":
        n_most = min(2 * n_points, estimator.max_inducing, len(rougher.model.weight))
        selector = selector_by_name(rougher, n_most, tol=0.0)
    elif has_more_points(rougher, n_points):
        selector = selector_by_name(rougher, rougher.most_points)
    else:
        selector = point_selector(rougher)
    is_fixed = isinstance(selector, FixedSelector)
    return None if is_fixed or selector.n_points <= n_points else selector


def _continued(rougher, result):
    """Return what is `Learned` from the end of a climb, with points for the Matérn kernel."""
    if has_more_points(rougher, len(result.best.points.Z)):
        return with_most_points(Learned(rougher, result))
    starts = Starts([result.best.theta], result.best.points)
    return with_more_points(search(rougher, starts))
