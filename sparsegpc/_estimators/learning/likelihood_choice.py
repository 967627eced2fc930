"""Choose the likelihood of positive targets by the bound.

All of them are densities of the same targets, so their bounds can be compared. The comparison is
between simple models of few rows: that is fast, and a function of few points cannot follow single
targets. With many points a function that varies from row to row makes up for tails that are too
light; it then predicts nothing, although its bound is not much lower. The likelihood that the kind
of target implies remains unless another one gains more than `Problem.needed_gain` in the objective,
the bound plus the log prior.
"""

from copy import copy

from numpy.linalg import LinAlgError

from sparsegpc._core.learning.fit import Starts
from sparsegpc._core.learning.single_start import Run
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.comparison import Decision, best_run
from sparsegpc._estimators.learning.kernel_choice import decide_kernel
from sparsegpc._estimators.learning.search import search
from sparsegpc._estimators.learning.warm_start import is_warm
from sparsegpc.likelihoods import ALTERNATIVES, RESPONSES

# Rows that decide, and the points of these models.
DECIDING_ROWS, DECIDING_POINTS = 500, 100
# Few rows must prefer another likelihood by this gain, a factor of 20 in probability.
LEAST_GAIN = 3.0
# Likelihoods for which a search takes long. It goes on only where it begins well, from the
# function that another likelihood has learned.
SLOW = ("weibull",)


def decide_likelihood(builder):
    """Return the `Decision` about the likelihood and the kernel of a `LikelihoodBuilder`."""
    usual = next((n for n, kind in RESPONSES.items() if type(builder.likelihood) is kind), None)
    others = ALTERNATIVES.get(usual, ())
    estimator = builder.estimator
    if estimator.likelihood != "auto" or not others:
        return decide_kernel(builder)
    if is_warm(estimator):
        last = type(estimator.likelihood_)
        kept = last in [RESPONSES[name] for name in others]
        return decide_kernel(builder.with_likelihood(last()) if kept else builder)
    problem = _simple_problem(builder)
    if not problem.learns:
        return decide_kernel(builder)
    fits = {usual: search(problem)}
    for name in sorted(others, key=SLOW.__contains__):
        if problem.progress.stopped:
            break
        fit = _fit(builder.with_likelihood(RESPONSES[name]()), name, fits)
        if fit is not None:
            fits[name] = fit
    return _decision(builder, usual, fits)


def _simple_problem(builder):
    """Return the `Problem` of the rows that decide, with a simple kernel and few points."""
    estimator = copy(builder.estimator)
    estimator.optimize_inducing, estimator.n_restarts_optimizer = False, 0
    # The comparison prints a single line.
    estimator.verbose = 0
    n_points, estimator.n_inducing = estimator.n_inducing, DECIDING_POINTS
    if n_points not in ("auto", None):
        estimator.n_inducing = min(n_points, DECIDING_POINTS)
    problem = builder.build(KernelChoice.of(estimator)._replace(main_effects=False))
    part = problem.model.subsample(DECIDING_ROWS)
    return problem._replace(estimator=estimator, model=part)


def _fit(builder, name, fits):
    """Return the `FittedProblem` with the likelihood of a `name`, or None if it cannot be learned.

    `fits` holds those of other likelihoods by name.
    """
    problem = _simple_problem(builder)
    try:
        if name not in SLOW:
            return search(problem)
    except LinAlgError:
        return None
    best = max((fit.result.best for fit in fits.values()), key=lambda best: best.objective)
    theta = problem.hyperparameters.theta.copy()
    n_kernel = problem.model.kernel.n_params
    theta[:n_kernel] = best.theta[:n_kernel]
    return best_run(problem, [Run(theta).start_on(problem.model)], best.objective)


def _decision(builder, usual, fits):
    """Return the `Decision` for the best of the likelihoods in `fits`, of which one is `usual`."""
    estimator, problem = builder.estimator, fits[usual].problem
    needed = max(problem.needed_gain, LEAST_GAIN)
    chosen = max(
        fits,
        key=lambda name: fits[name].result.best.objective - needed * (name != usual),
    )
    bounds = {name: float(fits[name].result.best.elbo) for name in sorted(fits)}
    listed = ", ".join(f"{name} {bound:.4f}" for name, bound in bounds.items())
    n_rows = len(problem.model.weight)
    problem._replace(estimator=estimator).print_line(
        f"likelihood: {n_rows} rows, bounds {listed}, gain of {needed:.4f} needed: {chosen} kept"
    )
    if chosen != usual:
        builder = builder.with_likelihood(RESPONSES[chosen]())
    if problem.progress.stopped:
        # The hyperparameters learned so far become those of the model.
        problem = builder.build(problem.choice)
        return Decision(problem, Starts([fits[chosen].result.best.theta]), compared_bounds=bounds)
    return decide_kernel(builder)._replace(compared_bounds=bounds)
