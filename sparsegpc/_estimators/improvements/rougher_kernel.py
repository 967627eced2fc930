"""Replace the RBF of the default kernel by a rougher one if the targets vary less smoothly.

A function with an RBF has derivatives of any order, and its values in one place say much about
those far away. Where the targets vary less smoothly, it takes fast variation for noise, and is too
certain of f. If a Matérn kernel with nu = 3/2 has a higher bound, learning goes on with that
kernel, and then rougher ones are tried. All have the same parameters, so there is no penalty, but
rougher functions need more points, so the comparison uses more.

A few rows often do not tell these kernels apart, and the smoothest is then too certain. So the fits
with other kernels are kept beside the best one if the data make them nearly as probable.
"""

from functools import partial

import numpy as np
from numpy.linalg import LinAlgError

from sparsegpc._core.learning.maximization import typical_hessian
from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.learning.single_start import fit_from
from sparsegpc._core.selection.selectors import FixedSelector
from sparsegpc._estimators.improvements.after_search import with_more_points, with_points
from sparsegpc._estimators.kernels.named_kernels import DEFAULT, ROUGHER
from sparsegpc._estimators.learning.point_selection import (
    AUTO,
    PIVOTED,
    has_more_points,
    selector_in_use,
)
from sparsegpc._estimators.learning.search import FittedProblem, search

# Kernels that reach less than the best one by at most so many nats, a factor of 20 in probability,
# are kept beside it.
MOST_BEHIND = 3.0
# Length scales of each kernel that suit the same function, in units of those of the RBF.
LONGER = {"rbf": 1.0, "matern32": 1.6, "matern12": 2.0, "laplacian": 6.0}


def with_rougher_kernel(fitted):
    """Return the `FittedProblem` with a rougher kernel if that is better, else the given one.

    Kernels of increasing roughness are tried until none of the same roughness is nearly as good, if
    the default kernel was learned by an estimator that may replace it. After a warm start, which
    takes this step if the last fit averages over kernels, smoother ones follow. Kernels are not
    tried if points, of which rough ones need more, have a cost.
    """
    first, estimator = fitted, fitted.problem.estimator
    is_open = estimator.kernel is None and estimator._may_be_rough and estimator.point_cost == 0.0
    if not (is_open and fitted.has_function):
        return fitted
    for groups in _directions(fitted.problem.choice.kernel_name):
        for names in groups:
            # Of a single column the last two kernels are the same.
            for name in names[: len(fitted.problem.spread.deviations)]:
                if name != first.problem.choice.kernel_name:
                    fitted = fitted.then(partial(_with_kernel, name=name, first=first))
            fits = fitted, *(other for other, _ in fitted.alternatives)
            if not any(fit.problem.choice.kernel_name in names for fit in fits):
                break
    return fitted


def _directions(name):
    """Return two lists of groups of names: at least as rough as a kernel, and ever smoother."""
    groups = [(DEFAULT,), *ROUGHER]
    k = next(k for k, names in enumerate(groups) if name in names)
    return groups[k:], groups[:k][::-1]


def _with_kernel(fitted, name, first):
    """Return the `FittedProblem` with the kernel `name` if that is better, else the given one.

    The worse one is an alternative if it is nearly as good. The search begins at `first`, the
    `FittedProblem` with the first kernel.
    """
    problem, before = fitted.problem, fitted.result.best
    changed = problem.with_choice(kernel=name)
    n_points, evidence = len(before.points.Z), before.objective
    if not has_more_points(problem, n_points):
        # About what more points would gain for the kernel before.
        evidence += problem.model.cost_per_row(before) * problem.model.total_weight
    try:
        other = _refitted(changed, first, n_points, evidence - MOST_BEHIND)
        gain = other.best.objective - evidence
        is_near = gain > -MOST_BEHIND
        outcome = "kept" if gain > 0.0 else "nearly as good" if is_near else "left out"
        bound, without = (best.elbo + problem.offset for best in (other.best, before))
        problem.print_line(f"{name}: bound {bound:.4f}, without it {without:.4f}: {outcome}")
        if gain > 0.0:
            better = _continued(changed, other)
            gain = better.result.best.objective - evidence
            fits = [(fitted, 0.0), *fitted.alternatives]
            return _with_alternatives(better, [(fit, weight - gain) for fit, weight in fits])
        fits = *fitted.alternatives, (FittedProblem(changed, other), gain)
        return _with_alternatives(fitted, fits).evaluated_last()
    except LinAlgError:
        # What was learned remains.
        pass
    return fitted.evaluated_last()


def _with_alternatives(fitted, fits):
    """Return a `FittedProblem` with those of other `fits` that are nearly as good.

    `fits` holds pairs of a `FittedProblem` and its log weight.
    """
    near = [(fit._replace(alternatives=()), w) for fit, w in fits if w > -MOST_BEHIND]
    return fitted._replace(alternatives=tuple(near))


def _refitted(changed, first, n_points, needed):
    """Return the `FitResult` of a problem with another kernel, from the end of the `first` fit.

    Length scales begin in proportion to those learned there. `n_points` is the number of points of
    the best fit so far. The run ends early if it is not expected to come near the objective that
    is `needed`.
    """
    hyperparameters, end = changed.hyperparameters, first.result
    longer = LONGER[changed.choice.kernel_name] / LONGER[first.problem.choice.kernel_name]
    theta = end.best.theta.copy()
    for k, entry in enumerate(hyperparameters.entries):
        if entry.is_length_scale and entry.effect is None:
            theta[k] += np.log(longer)
    theta = np.clip(theta, *hyperparameters.bounds.T)
    hessian = end.hessian or typical_hessian(changed.model, len(theta))
    settings = changed.settings._replace(max_reselections=0, report=None)
    points = end.best.points
    selector = _selector(changed, n_points)
    if selector is None or selector.n_points <= len(points.Z):
        selector = FixedSelector(points.Z)
    else:
        # Beyond the tolerance, further points gained nothing before, but may do so here.
        points = None
    start = Start(theta, end.best.states, hessian, points)
    return fit_from(changed.model, start, selector, settings, to_beat=needed)


def _selector(changed, n_points):
    """Return the selector of all points that a fit with another kernel may use.

    By default they are some more than the first 200, or the most if the best fit so far, with
    `n_points`, has used more than the first. Return None if points do not depend on the kernel.
    """
    estimator = changed.estimator
    if isinstance(estimator.selector, str) and estimator.selector not in (AUTO, *PIVOTED):
        return None
    if estimator.n_inducing == "auto":
        n_points = min(2 * n_points, estimator.max_inducing, len(changed.model.weight))
    elif has_more_points(changed, n_points):
        n_points = changed.default_points.most
    elif changed.chooses_points:
        n_points = changed.default_points.for_comparison
    selector = selector_in_use(changed, n_points)
    return None if isinstance(selector, FixedSelector) else selector


def _continued(changed, result):
    """Return the `FittedProblem` from the end of a run, with points for the kernel."""
    if has_more_points(changed, len(result.best.points.Z)):
        return with_points(FittedProblem(changed, result), changed.default_points.most)
    starts = StartOptions([result.best.theta], result.best.points)
    return search(changed, starts).then(with_more_points)
