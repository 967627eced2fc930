"""Choose the likelihood of positive targets by the bound.

All of them are densities of the same targets, so their bounds can be compared. The comparison is
between simple models of a part of the rows: that is fast, and a function of few points cannot
follow single targets. With many points a function that varies from row to row makes up for tails
that are too light; it then predicts nothing, although its bound is not much lower. The likelihood
that the kind of target implies remains unless another one gains more than log N nats in the
objective, the bound plus the log prior, where N is the number of targets that are not censored.
"""

import numpy as np

from sparsegpc._core.learning.runs import Start, StartOptions
from sparsegpc._core.numerics.linalg import attempted
from sparsegpc._estimators.choices.comparison import (
    DECIDING_ROWS,
    Decision,
    best_run,
    simplified,
)
from sparsegpc._estimators.choices.kernel_choice import decide_kernel
from sparsegpc._estimators.kernels.named_kernels import KernelChoice
from sparsegpc._estimators.learning.search import search
from sparsegpc._estimators.learning.warm_start import is_warm
from sparsegpc.likelihoods import ALTERNATIVES, RESPONSES

# The number of points of these models.
DECIDING_POINTS = 100
# Few rows must prefer another likelihood by this gain, a factor of 20 in probability.
LEAST_GAIN = 3.0
# Likelihoods for which a search takes long. It begins where another likelihood has ended.
SLOW = ("weibull",)


def decide_likelihood(builder):
    """Return the `Decision` about the likelihood and the kernel of a `LikelihoodBuilder`."""
    usual = next((n for n, kind in RESPONSES.items() if type(builder.likelihood) is kind), None)
    estimator, others = builder.estimator, ALTERNATIVES.get(usual, ())
    if estimator.likelihood != "auto" or not others:
        return decide_kernel(builder)
    if is_warm(estimator):
        last = type(estimator.likelihood_)
        kept = last in [RESPONSES[name] for name in others]
        return decide_kernel(builder.with_likelihood(last()) if kept else builder)
    fits = {}
    for name in sorted((usual, *others), key=SLOW.__contains__):
        likelihood = builder.likelihood if name == usual else RESPONSES[name]()
        problem = _simple_problem(builder.with_likelihood(likelihood))
        if not problem.learns:
            return decide_kernel(builder)
        if name == usual or not builder.progress.stopped:
            found = _fit(problem, name, fits, name == usual)
            if found is not None:
                fits[name] = found
    return _decision(builder, usual, fits) if fits else decide_kernel(builder)


def _simple_problem(builder):
    """Return the `Problem` of the rows that decide, with a simple kernel and few points."""
    estimator = simplified(builder.estimator)
    # The comparison prints a single line.
    estimator.verbose = 0
    is_number = estimator.n_inducing not in ("auto", None)
    given = estimator.n_inducing if is_number else DECIDING_POINTS
    estimator.n_inducing = min(given, DECIDING_POINTS)
    problem = builder.build(KernelChoice.of(estimator)._replace(main_effects=False))
    return problem._replace(estimator=estimator, model=problem.model.subsample(DECIDING_ROWS))


def _fit(problem, name, fits, is_usual):
    """Return the `FittedProblem` with the likelihood of this name, or None if that fails.

    `fits` holds those with other likelihoods, by name. Unless it is the usual one, a slow search
    goes on only where it begins well.
    """
    best = max((fit.result.best for fit in fits.values()), key=lambda b: b.objective, default=None)
    if name not in SLOW or best is None:
        return attempted(search, problem)
    n_kernel = problem.model.kernel.n_params
    theta = np.append(best.theta[:n_kernel], problem.hyperparameters.theta[n_kernel:])
    needed = -np.inf if is_usual else best.objective
    return best_run(problem, [Start.typical(problem.model, theta)], needed)


def _decision(builder, usual, fits):
    """Return the `Decision` for the best of the likelihoods in `fits`; one is the `usual` one."""
    problem = next(iter(fits.values())).problem
    model = problem.model
    n_observed = float(model.weight @ (model.targets[0]["event"] == 1.0))
    needed = max(np.log(max(n_observed, 1.0)), LEAST_GAIN)

    def merit(name):
        return fits[name].result.best.objective - needed * (name != usual)

    chosen = max(fits, key=merit)
    bounds = {name: float(fits[name].result.best.elbo) for name in sorted(fits)}
    listed = ", ".join(f"{name} {bound:.4f}" for name, bound in bounds.items())
    problem._replace(estimator=builder.estimator).print_line(
        f"likelihood: {len(model.weight)} rows, bounds {listed}, gain of {needed:.4f} "
        f"needed: {chosen} kept"
    )
    if chosen != usual:
        builder = builder.with_likelihood(RESPONSES[chosen]())
    if builder.progress.stopped:
        # What was learned so far becomes the model.
        start = StartOptions([fits[chosen].result.best.theta])
        return Decision(builder.build(problem.choice), start, compared_bounds=bounds)
    return decide_kernel(builder)._replace(compared_bounds=bounds)
