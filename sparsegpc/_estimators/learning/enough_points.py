"""As many points as a certificate demands: ``n_inducing="auto"``."""

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.few_rows import FewRows
from sparsegpc._core.learning.fit import Starts
from sparsegpc._core.learning.more_points import FIRST_POINTS
from sparsegpc._core.learning.number_of_points import FIRST_SIZE, grow
from sparsegpc._core.learning.single_start import Run
from sparsegpc._core.models.fixed_sites import gap_per_row
from sparsegpc._estimators.kernels.initialization import start_values
from sparsegpc._estimators.learning.point_selection import named_selector
from sparsegpc._estimators.learning.problem_fit import (
    evaluate_problem,
    fit_problem,
    simpler_starts,
)
from sparsegpc._estimators.learning.warm_start import last_points


def fit_with_enough_points(problem, starts, warm):
    """Return the `Growth` of the number of points of a `Problem`.

    Of the `Starts`, or None, only the values count; for `warm` starts with the points of the last
    fit see `search`.
    """
    values, is_contradicted = None if starts is None else starts.values, None
    if problem.learns and not warm:
        values, is_contradicted = _learned_from_few_rows(problem, values)
    growth = _grown(problem, values, warm=warm, is_contradicted=is_contradicted)
    if starts is not None and not (warm or problem.progress.stopped):
        growth = _with_missed(problem, starts.values[0], growth)
    for step in growth.history:
        step["lower_bound"] += problem.offset
    return growth


def _grown(problem, starts, *, first_size=FIRST_SIZE, warm=False, is_contradicted=None):
    """Return the `Growth` from a list of starts, or None; for the other arguments see `grow`."""
    estimator, model = problem.estimator, problem.model

    def fit_points(n_points, values):
        selector = named_selector(problem, n_points, tol=0.0)
        last = last_points(problem, selector) if warm and values is starts else None
        return fit_problem(problem, selector, None if values is None else Starts(values, last))

    return grow(
        fit_points,
        lambda evaluation: _gap(problem, evaluation),
        model,
        problem.progress,
        starts=starts,
        tol=estimator.certificate_tol,
        max_points=min(estimator.max_inducing, len(model.weight)),
        first_size=first_size,
        learns=problem.learns,
        is_contradicted=is_contradicted,
    )


def _with_missed(problem, theta, growth):
    """Return a `Growth`, or a better one from `theta` if the first one has missed that.

    `theta` was learned from more rows than the few from which the number of points grew, and few
    rows or points may show nothing of a function that varies fast.
    """
    try:
        n_points = _enough_points(problem, theta, growth.result.best)
        if n_points is not None:
            again = _grown(problem, [theta], first_size=n_points)
            if again.result.best.objective > growth.result.best.objective:
                growth = again._replace(history=[*growth.history, *again.history])
    except LinAlgError:
        # More points may lie too close together; what was learned is usable.
        pass
    return growth


def _enough_points(problem, theta, best):
    """Return a number of points with which `theta` is better than the `Evaluation` `best`, or None.

    It is evaluated with ever more points, up to those that a fit uses by default. It is better by
    more than what an addition to the model must gain, and than the certificate allows.
    """
    estimator, model = problem.estimator, problem.model
    n_most = min(problem.most_points, estimator.max_inducing, len(model.weight))
    n_points = min(max(FIRST_POINTS, len(best.points.Z)), n_most)
    tol = estimator.certificate_tol * model.total_weight
    needed = best.objective + max(problem.needed_gain, tol)
    while True:
        selector = named_selector(problem, n_points, tol=0.0)
        if evaluate_problem(problem, selector, theta).objective > needed:
            return n_points
        if n_points == n_most or problem.progress.stopped:
            return None
        n_points = min(2 * n_points, n_most)


def _learned_from_few_rows(problem, values):
    """Return starts learned from a few rows, and a function that tells if they contradict a theta.

    If all that is learned is a constant function, return the given `values`, and None.
    """
    parameters, spread = problem.parameters, problem.spread
    given = start_values(parameters, spread) if values is None else values
    few = FewRows(problem.model, problem.settings)
    needed, _ = few.ranking(list(map(Run, given)))
    if not few.beats_constant(needed[0]):
        return values, None
    simpler = few.preferred(simpler_starts(problem), needed[0].end.theta)
    if simpler is not None:
        needed = [simpler, *needed]
    best = needed[0]
    return [run.end.theta for run in needed], lambda theta: few.contradict(theta, best)


def _gap(problem, evaluation):
    """Return the gap of the certificate in nats per row; report it if the estimator is verbose."""

    def report(text):
        problem.print_line(f"certificate of {len(evaluation.points.Z)} points: {text}")

    def before_pass():
        report("one pass over the kernel matrix with all points")

    gap = gap_per_row(problem.model, evaluation, problem.estimator.certificate_tol, before_pass)
    report(f"gap {gap:.3g} nats per row")
    return gap
